//! Memory budget of requests being read and answers being sent.

use crate::request_error::{RequestError, Result};
use chumoku::tr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that a request or answer always gets; a connection's buffers are as large.
const ALWAYS_ALLOWED: u64 = 64 << 10;

/// The held bytes, and their limit.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: Arc<AtomicU64>,
    limit: u64,
}

impl MemoryBudget {
    pub(crate) fn new(most: usize) -> MemoryBudget {
        MemoryBudget { bytes: Arc::default(), limit: most as u64 }
    }

    /// Returns an empty share.
    pub(crate) fn share(&self) -> MemoryShare {
        MemoryShare { bytes: self.bytes.clone(), limit: self.limit, own: 0 }
    }

    /// Returns the held bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// The bytes of one request or answer. Dropping a share releases them.
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
    /// If all shares together exceed the limit, unless this one is small.
    pub(crate) fn grow(&mut self, by: usize) -> Result<()> {
        self.own += by as u64;
        let all = self.bytes.fetch_add(by as u64, Relaxed) + by as u64;
        if all <= self.limit || self.own <= ALWAYS_ALLOWED {
            return Ok(());
        }
        let most = self.limit;
        Err(RequestError::overloaded(tr!(
            "the requests being read and answers being sent exceed {most} bytes (--max-held); \
             send the request again later, and read answers as they arrive",
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
    fn shares_stay_below_the_limit_and_small_ones_always_fit() {
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
