//! Cancellation of work, for example on Ctrl-C: a flag that operations check before they begin.
//!
//! Hundreds of callers may wait for the result of an operation, and none of them could do anything but return an error.
//! Canceled work therefore unwinds the stack. No other code sees a partial result, because everything that was being
//! written belongs to the unwound work.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The cancellation flag of this thread's work.
    static CURRENT_FLAG: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// The error of canceled work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancellation;

/// Runs `work` until it ends or `flag` is set. In the latter case the next operation of the work, on any thread,
/// cancels it.
///
/// A panic of `work` propagates.
///
/// # Errors
/// If the flag canceled the work.
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

/// Runs `work` without the current cancellation flag. Use it when a pool may give unrelated work to a thread that waits
/// within [`run_cancelable`]: canceling the waiting work does not cancel this one.
pub fn run_detached<R>(work: impl FnOnce() -> R) -> R {
    let _restore = CancelFlag::new(None).enter();
    work()
}

/// Cancels the current work of [`run_cancelable`], if its flag is set. Operations call this. Long work without
/// operations should call it too.
#[inline]
pub fn check() {
    if CURRENT_FLAG.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))) {
        unwind();
    }
}

#[cold]
fn unwind() -> ! {
    // Unwinds without the panic hook, because this is not a panic.
    resume_unwind(Box::new(Cancellation));
}

/// A handle to the cancellation flag of some work, for threads that share it without kernel operations.
#[derive(Clone, Debug)]
pub struct CancelFlag(Option<Arc<AtomicBool>>);

impl CancelFlag {
    fn new(flag: Option<&Arc<AtomicBool>>) -> CancelFlag {
        CancelFlag(flag.map(Arc::clone))
    }

    /// Returns the flag of this thread's current work.
    pub fn current() -> CancelFlag {
        CURRENT_FLAG.with_borrow(|flag| CancelFlag::new(flag.as_ref()))
    }

    /// Cancels the work if this flag is set, like [`check`], on any thread.
    #[inline]
    pub fn check(&self) {
        if self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            unwind();
        }
    }

    /// Makes this the flag of the current thread until the returned guard is dropped.
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
    fn cancellation_stops_at_the_next_operation_on_any_thread() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| {
            let (flag, begun) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
            let work = || {
                parallel_try_map(0..1000, |_: u32| {
                    match begun.fetch_add(1, Ordering::SeqCst) {
                        0..10 => {}
                        10 => flag.store(true, Ordering::SeqCst),
                        // The thread that sets the flag may be slow.
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
            assert!(begun.load(Ordering::SeqCst) < 20, "{begun:?} of 1000 items started");
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
    fn detached_work_ignores_outer_cancellation() {
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
    fn nested_work_has_its_own_flag() {
        let [outer, inner] = [true, false].map(|is_set| Arc::new(AtomicBool::new(is_set)));
        assert_eq!(run_cancelable(&outer, || run_cancelable(&inner, check)), Ok(Ok(())));
        assert_eq!(run_cancelable(&inner, || run_cancelable(&outer, check)), Ok(Err(Cancellation)));
        let panics = || run_cancelable(&inner, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err_and(|panic| panic.is::<&str>()));
    }
}
