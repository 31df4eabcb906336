//! Values that threads share.

use std::sync::{Arc, RwLock};

/// A value that threads share, and compute themselves where it is missing.
///
/// No thread ever waits for another: while one replaces the value, the others find none. A forked process may inherit
/// a lock whose owner does not exist in it, and would wait for it forever.
#[derive(Debug)]
pub struct SharedCache<T>(RwLock<Option<Arc<T>>>);

impl<T> Default for SharedCache<T> {
    fn default() -> Self {
        SharedCache::new()
    }
}

impl<T> SharedCache<T> {
    /// Creates an empty cache.
    pub const fn new() -> SharedCache<T> {
        SharedCache(RwLock::new(None))
    }

    /// Returns the value, or `None` if there is none or another thread is replacing it.
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.try_read().ok()?.clone()
    }

    /// Replaces the value, unless another thread is using the lock.
    pub fn set(&self, value: Arc<T>) {
        self.update(|shared| *shared = Some(value));
    }

    /// Calls `f` with the value, unless another thread is using the lock.
    pub fn update(&self, f: impl FnOnce(&mut Option<Arc<T>>)) {
        // A lock that a panic has poisoned counts as taken, since the value may be incomplete.
        if let Ok(mut shared) = self.0.try_write() {
            f(&mut shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_waits_for_another() {
        let cache = SharedCache::new();
        cache.set(Arc::new(1));
        cache.update(|_| {
            assert_eq!(cache.get(), None);
            cache.set(Arc::new(2));
        });
        assert_eq!(cache.get().as_deref(), Some(&1));
        let panics = || cache.update(|_| panic!("the value may be incomplete"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(cache.get(), None);
    }
}
