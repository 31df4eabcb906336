//! Memory budget of requests that are being read and answers that are being sent.

use crate::request_error::{RequestError, Result};
use chumoku::tr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that are never refused to a request or answer; a connection's own buffers are as large.
const ALWAYS_ALLOWED: u64 = 64 << 10;

/// The bytes that are held, and how many may be.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: Arc<AtomicU64>,
    most: u64,
}

impl MemoryBudget {
    pub(crate) fn new(most: usize) -> MemoryBudget {
        MemoryBudget { bytes: Arc::default(), most: most as u64 }
    }

    /// A share without bytes.
    pub(crate) fn share(&self) -> MemoryShare {
        MemoryShare { bytes: self.bytes.clone(), limit: self.most, own: 0 }
    }

    /// The bytes that are held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// The bytes of one request or answer. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    bytes: Arc<AtomicU64>,
    limit: u64,
    own: u64,
}

impl MemoryShare {
    /// Adds bytes to the share.
    ///
    /// # Errors
    /// If all shares would hold more than they may, and this one is not small.
    pub(crate) fn grow(&mut self, by: usize) -> Result<()> {
        self.own += by as u64;
        let all = self.bytes.fetch_add(by as u64, Relaxed) + by as u64;
        if all <= self.limit || self.own <= ALWAYS_ALLOWED {
            return Ok(());
        }
        let most = self.limit;
        Err(RequestError::overloaded(tr!(
            "requests that are being read and answers that are being sent hold {most} bytes together, as many as they may (--max-held); \
             send the request again a little later, and read answers as they come",
            "受信中のリクエストと送信中の答えが、合わせて上限の {most} バイト（--max-held）を占めています。しばらくしてから送り直し、答えは届いた\
             順に読んでください"
        )))
    }

    /// Releases bytes of the share.
    pub(crate) fn shrink(&mut self, by: usize) {
        let by = self.own.min(by as u64);
        self.own -= by;
        self.bytes.fetch_sub(by, Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.own, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hold_no_more_than_they_may_together_and_small_ones_always_find_room() {
        let held = MemoryBudget::new(1_000_000);
        let [mut first, mut second, mut small] = [held.share(), held.share(), held.share()];
        first.grow(600_000).unwrap();
        assert!(second.grow(500_000).is_err());
        drop(second);
        assert_eq!(held.bytes(), 600_000);
        let mut second = held.share();
        second.grow(400_000).unwrap();
        small.grow(64 << 10).unwrap();
        assert!(small.grow(1).is_err());
        first.shrink(100_000);
        assert_eq!(held.bytes(), 900_001 + (64 << 10));
        drop((first, second, small));
        assert_eq!(held.bytes(), 0);
    }
}
