//! Ending work from outside, as on Ctrl-C: a flag that operations look at before they begin.
//!
//! What an operation computes may be needed by hundreds of callers, none of which has anything to do but to return. So work ends by
//! unwinding: no result is half written where anybody can see it, for all that is written belongs to what is unwound.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// What ends this thread's work.
    static CURRENT_FLAG: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// The work was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancellation;

/// Runs `work` until it ends, or until somebody sets `flag`: then the next operation in it, on any thread, ends it.
///
/// A panic of `work` goes on.
///
/// # Errors
/// If it was ended by the flag.
pub fn run_cancelable<R>(flag: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> Result<R, Cancellation> {
    let found = {
        let _restore = CancelFlag::new(Some(flag)).enter();
        catch_unwind(AssertUnwindSafe(work))
    };
    found.map_err(|panic: Box<dyn Any + Send>| match panic.downcast::<Cancellation>() {
        Ok(halted) => *halted,
        Err(panic) => resume_unwind(panic),
    })
}

/// Runs `work` that belongs to no other: a thread that waits within [`until`] may be given it by a pool, and whoever ends what waits
/// does not end this.
pub fn run_detached<R>(work: impl FnOnce() -> R) -> R {
    let _restore = CancelFlag::new(None).enter();
    work()
}

/// Ends the work of [`until`] that this belongs to, if its flag is set. Operations call this; so may long work without any.
#[inline]
pub fn check() {
    if CURRENT_FLAG.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))) {
        unwind();
    }
}

#[cold]
fn unwind() -> ! {
    // Nobody is told of a panic: it is none.
    resume_unwind(Box::new(Cancellation));
}

/// What ends some work, for other threads that share it by other means than operations.
#[derive(Clone, Debug)]
pub struct CancelFlag(Option<Arc<AtomicBool>>);

impl CancelFlag {
    fn new(flag: Option<&Arc<AtomicBool>>) -> CancelFlag {
        CancelFlag(flag.map(Arc::clone))
    }

    /// That of the work which this thread does now.
    pub fn current() -> CancelFlag {
        CURRENT_FLAG.with_borrow(|flag| CancelFlag::new(flag.as_ref()))
    }

    /// As [`check`], on whatever thread.
    #[inline]
    pub fn check(&self) {
        if self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            unwind();
        }
    }

    /// From here on until the result is dropped this thread does that work: it may have waited for other work of its own.
    pub(crate) fn enter(&self) -> impl Drop + use<> {
        struct RestoreFlag(Option<Arc<AtomicBool>>);
        impl Drop for RestoreFlag {
            fn drop(&mut self) {
                CURRENT_FLAG.set(self.0.take());
            }
        }
        RestoreFlag(CURRENT_FLAG.replace(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel_try_map;
    use crate::threads::for_each;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn work_ends_at_the_next_operation_on_any_thread() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| {
            let (flag, begun) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
            let work = || {
                parallel_try_map(0..1000, |_: u32| {
                    match begun.fetch_add(1, Ordering::SeqCst) {
                        0..10 => {}
                        10 => flag.store(true, Ordering::SeqCst),
                        // The thread that sets it may be slow.
                        _ => {
                            while !flag.load(Ordering::SeqCst) {
                                std::thread::yield_now();
                            }
                        }
                    }
                    for_each(2, usize::MAX, |_| ());
                    Ok::<_, ()>(())
                })
            };
            assert_eq!(run_cancelable(&flag, work), Err(Cancellation));
            assert!(begun.load(Ordering::SeqCst) < 20, "{begun:?} of 1000 items began");
            // No thread keeps the flag.
            assert!(rayon::broadcast(|_| CancelFlag::current().0.is_none()).into_iter().all(|is_none| is_none));
            for_each(2, usize::MAX, |_| ());
            let other = Arc::new(AtomicBool::new(false));
            assert_eq!(
                run_cancelable(&other, || parallel_try_map(0..3, |i: u32| Ok::<_, ()>(i)).map(|all| all.len())),
                Ok(Ok(3))
            );
        });
    }

    #[test]
    fn work_apart_goes_on_within_what_has_ended() {
        let flag = Arc::new(AtomicBool::new(true));
        let found = run_cancelable(&flag, || {
            let inner = run_detached(|| {
                check();
                parallel_try_map(0..9, |i: u32| Ok::<_, ()>(i)).map(|all| all.len())
            });
            assert_eq!(inner, Ok(9));
            check();
        });
        assert_eq!(found, Err(Cancellation));
    }

    #[test]
    fn work_within_work_has_a_flag_of_its_own() {
        let [outer, inner] = [true, false].map(|is_set| Arc::new(AtomicBool::new(is_set)));
        assert_eq!(run_cancelable(&outer, || run_cancelable(&inner, check)), Ok(Ok(())));
        assert_eq!(run_cancelable(&inner, || run_cancelable(&outer, check)), Ok(Err(Cancellation)));
        let panics = || run_cancelable(&inner, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err_and(|panic| panic.is::<&str>()));
    }
}
