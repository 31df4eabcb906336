//! Bounded queue of requests for a model, first come, first served.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Polling interval for requests that are still being read: the queue is not notified if one of them is refused.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A queue with bounded capacity.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct QueueState<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
}

/// The reason why an item cannot be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    Full,
    Closed,
}

/// A queued item that its client may have given up.
pub(crate) trait Cancellable {
    fn is_cancelled(&self) -> bool;
}

impl<T: Cancellable> Queue<T> {
    pub(crate) fn new(places: usize) -> Queue<T> {
        let inside = QueueState { waiting: VecDeque::new(), is_closed: false };
        Queue { state: Mutex::new(inside), changed: Condvar::new(), capacity: places }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // No code that holds the lock can panic between two states.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an item without blocking. Items that were given up are removed if space is needed.
    pub(crate) fn push(&self, item: T) -> Result<(), QueueError> {
        let mut inside = self.lock();
        if inside.is_closed {
            return Err(QueueError::Closed);
        }
        if inside.waiting.len() >= self.capacity {
            inside.waiting.retain(|item| !item.is_cancelled());
        }
        if inside.waiting.len() >= self.capacity {
            return Err(QueueError::Full);
        }
        inside.waiting.push_back(item);
        drop(inside);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the first item as soon as there is one, or `None` once the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut inside = self.lock();
        loop {
            if let Some(item) = inside.waiting.pop_front() {
                return Some(item);
            }
            if inside.is_closed {
                return None;
            }
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the first item if it `fits`. If the queue is empty, waits for an item while `waits` returns true, at
    /// most until `until`.
    pub(crate) fn pop_if(&self, fits: impl Fn(&T) -> bool, waits: impl Fn() -> bool, until: Instant) -> Option<T> {
        let mut inside = self.lock();
        loop {
            if let Some(item) = inside.waiting.front() {
                return if fits(item) { inside.waiting.pop_front() } else { None };
            }
            let left = until.saturating_duration_since(Instant::now());
            if inside.is_closed || left.is_zero() || !waits() {
                return None;
            }
            inside =
                self.changed.wait_timeout(inside, left.min(POLL_INTERVAL)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the queue: no more items are accepted, but waiting ones are processed.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct TestItem(u32, bool);

    impl Cancellable for TestItem {
        fn is_cancelled(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn capacity_is_bounded_and_cancelled_items_are_removed() {
        let queue = Queue::new(2);
        assert_eq!(queue.push(TestItem(1, true)), Ok(()));
        assert_eq!(queue.push(TestItem(2, false)), Ok(()));
        // The first item was given up, so its place is free.
        assert_eq!(queue.push(TestItem(3, false)), Ok(()));
        assert_eq!(queue.push(TestItem(4, false)), Err(QueueError::Full));
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.pop().unwrap().0, 2);
        queue.close();
        assert_eq!(queue.push(TestItem(5, false)), Err(QueueError::Closed));
        assert_eq!(queue.pop().unwrap().0, 3);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn only_fitting_items_are_taken_in_order() {
        let queue = Queue::new(9);
        for n in [2, 4, 5, 6] {
            queue.push(TestItem(n, false)).unwrap();
        }
        let now = Instant::now;
        let even = |guest: &TestItem| guest.0.is_multiple_of(2);
        assert_eq!(queue.pop_if(even, || false, now()).unwrap().0, 2);
        assert_eq!(queue.pop_if(even, || false, now()).unwrap().0, 4);
        // 6 does not overtake 5.
        assert!(queue.pop_if(even, || true, now() + Duration::from_millis(5)).is_none());
        assert_eq!(queue.pop().unwrap().0, 5);
    }

    #[test]
    fn waiting_for_more_items_ends() {
        let queue = Queue::<TestItem>::new(1);
        let begun = Instant::now();
        assert!(queue.pop_if(|_| true, || true, begun + Duration::from_millis(20)).is_none());
        assert!(begun.elapsed() >= Duration::from_millis(20));
        // Does not wait for an hour.
        let until = || Instant::now() + Duration::from_secs(3600);
        assert!(queue.pop_if(|_| true, || false, until()).is_none());
        // The awaited requests were refused meanwhile.
        let looks = Cell::new(0);
        let waits = || looks.replace(looks.get() + 1) < 5;
        assert!(queue.pop_if(|_| true, waits, until()).is_none());
        assert_eq!(looks.get(), 6);
    }
}
