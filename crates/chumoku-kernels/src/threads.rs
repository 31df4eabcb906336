//! Parallel execution: work is split into pieces by shapes alone, never by the number of threads.

use crate::cancel::{self, CancelFlag};
use crate::profile::{self, Operation};
use rayon::prelude::*;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Work below this number of elementary operations runs on the calling thread, because waking another costs more.
const MIN_PARALLEL_WORK: usize = 1 << 16;

thread_local! {
    static IS_SINGLE_THREADED: Cell<bool> = const { Cell::new(false) };
    /// The scheduler of the item that this thread works on.
    static SCHEDULER: RefCell<Option<Arc<ItemScheduler>>> = const { RefCell::new(None) };
    /// The team that shares this thread's operations instead of rayon.
    static TEAM: RefCell<Option<Arc<dyn ThreadTeam>>> = const { RefCell::new(None) };
}

/// Runs `work` with all its operations on this thread.
///
/// For callers that distribute work themselves, in parts that fit a core's cache. The results are the same.
pub fn run_on_one_thread<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_SINGLE_THREADED.set(self.0);
        }
    }
    let _restore = Restore(IS_SINGLE_THREADED.replace(true));
    work()
}

/// Threads of another library, which share operations instead of the current rayon pool: see [`run_on_team`].
pub trait ThreadTeam: Send + Sync {
    /// Returns the number of threads.
    fn threads(&self) -> usize;
    /// Calls `work` on each thread, and returns when all calls have ended.
    fn run(&self, work: &(dyn Fn() + Sync));
}

/// Runs `work` with its attention, matrix products and other operations shared among the threads of `team`.
///
/// For processes that already have threads: two pools that alternate would wait for each other's threads. The results
/// are the same. Functions that use rayon directly, such as [`parallel_try_map`] and the scores and statistics of
/// attention, still use rayon.
pub fn run_on_team<R>(team: Arc<dyn ThreadTeam>, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<dyn ThreadTeam>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TEAM.set(self.0.take());
        }
    }
    let _restore = Restore(TEAM.replace(Some(team)));
    work()
}

/// Progress of threads that work on items in parallel.
#[derive(Debug)]
struct ItemScheduler {
    threads: usize,
    /// Items that have not started.
    pending: AtomicUsize,
    /// Items that have started but not ended.
    running: AtomicUsize,
}

impl ItemScheduler {
    /// Returns the number of threads for each running item: one as long as items are pending. If a thread shared an
    /// operation, it would wait for others. While it waits it might start another item, and it could not return before
    /// that item has ended.
    fn threads_per_item(&self) -> usize {
        match self.pending.load(Ordering::Relaxed) {
            0 => self.threads.div_ceil(self.running.load(Ordering::Relaxed).max(1)),
            _ => 1,
        }
    }

    /// Runs an item.
    fn run_item<R>(self: &Arc<ItemScheduler>, item: impl FnOnce() -> R) -> R {
        /// Restores the thread's previous scheduler, since its previous work may itself be an item, and its
        /// single-thread flag.
        struct RestoreItem<'a>(&'a ItemScheduler, Option<Arc<ItemScheduler>>, bool);
        impl Drop for RestoreItem<'_> {
            fn drop(&mut self) {
                SCHEDULER.set(self.1.take());
                IS_SINGLE_THREADED.set(self.2);
                self.0.running.fetch_sub(1, Ordering::Relaxed);
            }
        }
        cancel::check();
        self.running.fetch_add(1, Ordering::Relaxed);
        self.pending.fetch_sub(1, Ordering::Relaxed);
        let _before = RestoreItem(self, SCHEDULER.replace(Some(Arc::clone(self))), IS_SINGLE_THREADED.replace(false));
        item()
    }
}

/// Applies `f` to each item on the threads of the current rayon pool, and returns the results in order. The operations
/// of each item run on one thread while there are as many items as threads. Threads without an item help the others.
///
/// The number of items that run at a time is limited to the process's cores, or to `CHUMOKU_CORES`, because further
/// threads would only wait. None of this affects a result.
///
/// # Errors
/// The first error in the order of the items.
pub fn parallel_try_map<T: Send, R: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| {
        let wish = std::env::var("CHUMOKU_CORES").ok().and_then(|wish| wish.parse().ok());
        wish.or(std::thread::available_parallelism().ok()).map_or(usize::MAX, NonZeroUsize::get)
    });
    try_map_on(num_threads().min(cores), items.into_iter().collect(), f)
}

/// An item, and its result.
struct ItemSlot<T, R> {
    input: Option<T>,
    output: Option<R>,
}

/// Runs [`parallel_try_map`] on the given number of threads.
fn try_map_on<T: Send, R: Send, E: Send>(
    threads: usize,
    items: Vec<T>,
    f: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let each: Vec<Mutex<ItemSlot<T, Result<R, E>>>> =
        items.into_iter().map(|item| Mutex::new(ItemSlot { input: Some(item), output: None })).collect();
    // An error stops the work only on a single thread. With several, the others have already started the next items.
    let failed = AtomicBool::new(false);
    run_items(threads, each.len(), &|i| {
        let item = each[i].lock().unwrap_or_else(PoisonError::into_inner).input.take();
        let made = item.map(&f);
        if made.as_ref().is_some_and(Result::is_err) {
            failed.store(true, Ordering::Relaxed);
        }
        each[i].lock().unwrap_or_else(PoisonError::into_inner).output = made;
        !failed.load(Ordering::Relaxed)
    });
    each.into_iter().filter_map(|item| item.into_inner().unwrap_or_else(PoisonError::into_inner).output).collect()
}

/// Calls `run` with the index of each item, in [`ItemScheduler::run_item`]. A single thread stops once `run` returns
/// `false`.
///
/// It takes a pointer to the closure, so that it is compiled once for all callers.
fn run_items(threads: usize, count: usize, run: &(dyn Fn(usize) -> bool + Sync)) {
    let scheduler = Arc::new(ItemScheduler { threads, pending: AtomicUsize::new(count), running: AtomicUsize::new(0) });
    if count <= 1 || threads <= 1 {
        // On a thread of the pool: from outside, each operation would have to wake the pool and wait for it.
        rayon::scope(|_| {
            let _ = (0..count).all(|i| scheduler.run_item(|| run(i)));
        });
        return;
    }
    profile::record_parallel_region(count);
    let operation = profile::current().map(|_| Operation::BETWEEN_OPERATIONS);
    let _waiting = profile::pause();
    let (next, flag) = (AtomicUsize::new(0), CancelFlag::current());
    rayon::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|_| {
                let _between = profile::resume(operation);
                let _same = flag.enter();
                while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < count) {
                    scheduler.run_item(|| run(i));
                }
            });
        }
    });
}

/// Returns the number of threads that the operations called here may use.
pub fn num_threads() -> usize {
    if IS_SINGLE_THREADED.get() {
        return 1;
    }
    if let Some(team) = TEAM.with_borrow(Option::clone) {
        return team.threads();
    }
    SCHEDULER.with_borrow(|scheduler| {
        scheduler.as_ref().map_or_else(rayon::current_num_threads, |scheduler| scheduler.threads_per_item())
    })
}

/// Calls `f(0)`, …, `f(pieces − 1)`. They run on the threads of the current rayon pool if `work`, the total number of
/// elementary operations, is large enough.
#[inline(always)]
pub(crate) fn for_each(pieces: usize, work: usize, f: impl Fn(usize) + Sync + Send) {
    for_each_dyn(pieces, work, &f);
}

/// The body of [`for_each`]. It takes a pointer, so that each `f` is compiled once and the sharing code only once for
/// all of them.
#[inline(never)]
fn for_each_dyn(pieces: usize, work: usize, f: &(dyn Fn(usize) + Sync + Send)) {
    cancel::check();
    if pieces <= 1 || work < MIN_PARALLEL_WORK || num_threads() == 1 {
        (0..pieces).for_each(f);
    } else {
        profile::record_parallel_region(pieces);
        let operation = profile::current();
        let _waiting = profile::pause();
        if let Some(team) = TEAM.with_borrow(Option::clone) {
            let next = AtomicUsize::new(0);
            team.run(&|| {
                // A piece normally has no operations to share. If it has, they stay on this thread, because the team is
                // busy.
                run_on_one_thread(|| {
                    let _same = profile::resume(operation);
                    while let Some(piece) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&piece| piece < pieces) {
                        f(piece);
                    }
                });
            });
            return;
        }
        let flag = CancelFlag::current();
        (0..pieces).into_par_iter().with_max_len(1).for_each(|piece| {
            let _same = (profile::resume(operation), flag.enter());
            f(piece);
        });
    }
}

/// A mutable slice that tasks share, each writing its own part.
#[derive(Debug)]
pub(crate) struct SharedMut<T> {
    start: *mut T,
    len: usize,
    marker: PhantomData<T>,
}

impl<T> Clone for SharedMut<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedMut<T> {}

// SAFETY: the struct is a pointer and a length, which may be sent to any thread. Only unsafe methods access the data,
// and their callers promise that no two tasks hold overlapping parts. A part may be sent to another thread, since T is
// Send.
unsafe impl<T: Send> Send for SharedMut<T> {}
// SAFETY: no method accesses the data through a shared reference alone. Each is unsafe, and its callers promise that no
// two tasks hold overlapping parts, regardless of the thread of the reference.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Shares `data`. The caller must keep `data` borrowed while the parts live (see `slice`).
    pub(crate) fn new(data: &mut [T]) -> Self {
        SharedMut { start: data.as_mut_ptr(), len: data.len(), marker: PhantomData }
    }

    /// Clears `vec` and shares its spare capacity for `len` elements. It is uninitialized: use [`SharedMut::copy_from`]
    /// and [`SharedMut::slice_uninit`] to fill it, and [`SharedMut::slice`] only for elements that have been written.
    pub(crate) fn from_spare_capacity(vec: &mut Vec<T>, len: usize) -> Self {
        vec.clear();
        vec.reserve_exact(len);
        SharedMut { start: vec.as_mut_ptr(), len, marker: PhantomData }
    }

    /// Returns the part `start..start + len`. Panics if it exceeds the slice.
    ///
    /// # Safety
    /// * No other part that overlaps may be alive, in any thread.
    /// * The shared memory must outlive the part.
    /// * The part must be initialized. In the memory of [`SharedMut::from_spare_capacity`], it must have been written.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice<'a>(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; exclusive, valid and initialized as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// Returns the part `start..start + len`, which may be uninitialized. Panics if it exceeds the slice.
    ///
    /// # Safety
    /// * No other part that overlaps may be alive, in any thread.
    /// * The shared memory must outlive the part.
    /// * In memory that was initialized, the part must be initialized again before it is read.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice_uninit<'a>(&self, start: usize, len: usize) -> &'a mut [MaybeUninit<T>] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; exclusive and valid as the caller promises. MaybeUninit needs no
        // initialization.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start).cast(), len) }
    }

    /// Copies `from` to the elements from `start` on. Panics if they exceed the slice.
    ///
    /// # Safety
    /// * No other task may access these elements during the call.
    /// * The shared memory must still be valid.
    #[inline(always)]
    pub(crate) unsafe fn copy_from(&self, start: usize, from: &[T])
    where
        T: Copy,
    {
        assert!(start.checked_add(from.len()).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; valid and exclusive as the caller promises. `from` cannot overlap
        // exclusive memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(start), from.len()) };
    }

    /// Returns whether element `start` is aligned to `elements` elements.
    #[inline(always)]
    pub(crate) fn is_aligned(&self, start: usize, elements: usize) -> bool {
        self.start.wrapping_add(start).addr().is_multiple_of(elements * size_of::<T>())
    }

    /// Returns a pointer to element `start`, which must be in bounds.
    ///
    /// # Safety
    /// * The shared memory must stay valid while the pointer is used.
    /// * Everything that is accessed through the pointer must be in the slice, and no other task may access it during
    ///   that time.
    pub(crate) unsafe fn ptr(&self, start: usize) -> *mut T {
        assert!(start < self.len);
        // SAFETY: in bounds as just checked.
        unsafe { self.start.add(start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn in_pool_of<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
    }

    /// Maximum time to wait for a condition, which holds almost immediately on an idle machine.
    const PATIENCE: Duration = Duration::from_secs(180);

    /// Waits for other threads.
    fn wait_until(is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "the condition was not met in time");
            std::thread::yield_now();
        }
    }

    /// Starts new threads for each operation.
    struct ScopedTeam(usize, AtomicUsize);

    impl ThreadTeam for ScopedTeam {
        fn threads(&self) -> usize {
            self.0
        }
        fn run(&self, work: &(dyn Fn() + Sync)) {
            self.1.fetch_add(1, Ordering::SeqCst);
            std::thread::scope(|scope| (0..self.0).for_each(|_| drop(scope.spawn(work))));
        }
    }

    #[test]
    fn team_replaces_rayon() {
        let team = Arc::new(ScopedTeam(3, AtomicUsize::new(0)));
        let outside = run_on_one_thread(num_threads);
        let all = run_on_team(team.clone(), || {
            assert_eq!(num_threads(), 3);
            let (all, names) = (Mutex::new(Vec::new()), Mutex::new(std::collections::HashSet::new()));
            for_each(50, MIN_PARALLEL_WORK, |piece| {
                assert_eq!(num_threads(), 1, "the team is busy");
                // Nested work of a piece stays on its thread.
                let here = std::thread::current().id();
                for_each(2, MIN_PARALLEL_WORK, |_| assert_eq!(std::thread::current().id(), here));
                assert!(rayon::current_thread_index().is_none(), "not a rayon thread");
                names.lock().unwrap().insert(here);
                all.lock().unwrap().push(piece);
            });
            // Too little to share.
            for_each(4, MIN_PARALLEL_WORK - 1, |piece| all.lock().unwrap().push(50 + piece));
            assert!(!names.into_inner().unwrap().contains(&std::thread::current().id()));
            all.into_inner().unwrap()
        });
        assert_eq!(team.1.load(Ordering::SeqCst), 1);
        let mut sorted = all;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..54).collect::<Vec<_>>());
        assert_eq!(run_on_one_thread(num_threads), outside);
        assert_eq!(in_pool_of(2, num_threads), 2, "rayon is used again afterwards");
    }

    fn fine<T>(x: T) -> Result<T, ()> {
        Ok(x)
    }

    #[test]
    fn results_come_in_order_and_the_first_error_is_returned() {
        for threads in 1..5 {
            in_pool_of(threads, || {
                assert_eq!(
                    try_map_on(threads, (0..100).collect(), |i: u32| fine(i * i)),
                    Ok((0..100).map(|i| i * i).collect())
                );
                let odd = |i: u32| if i % 2 == 1 { Err(i) } else { Ok(i) };
                assert_eq!(try_map_on(threads, vec![2, 4, 7, 6, 9, 1], odd), Err(7));
                assert_eq!(try_map_on(threads, Vec::new(), odd), Ok(Vec::new()));
            });
        }
    }

    #[test]
    fn running_items_are_limited() {
        in_pool_of(4, || {
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let watched = |i: u32| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Two items do run at a time, whichever comes first; a third would have time to start.
                wait_until(|| most.load(Ordering::SeqCst) > 1);
                std::thread::sleep(Duration::from_millis(1));
                running.fetch_sub(1, Ordering::SeqCst);
                fine(i)
            };
            assert_eq!(try_map_on(2, (0..20).collect(), watched), Ok((0..20).collect()));
            assert_eq!(most.into_inner(), 2);
            // A single item shares its operations among the same number of threads.
            assert_eq!(try_map_on(2, vec![0], |_: u32| fine(num_threads())), Ok(vec![2]));
            assert_eq!(try_map_on(1, vec![0, 1], |_: u32| fine(num_threads())), Ok(vec![1, 1]));
        });
        let outside = run_on_one_thread(|| parallel_try_map([0], |_: u32| fine(num_threads())));
        assert_eq!(outside, Ok(vec![1]), "also from a thread outside the pool");
    }

    #[test]
    fn items_run_on_one_thread_until_none_is_pending() {
        in_pool_of(4, || {
            let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let of_items = try_map_on(4, (0..6).collect(), |_: u32| {
                let place = begun.fetch_add(1, Ordering::SeqCst);
                let at_first = num_threads();
                // The last two wait until they are the only ones.
                if place >= 4 {
                    wait_until(|| ended.load(Ordering::SeqCst) == 4);
                    // The other tasks leave the count just after this.
                    wait_until(|| num_threads() >= 2);
                } else {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
                fine((place, at_first))
            });
            for (place, at_first) in of_items.unwrap() {
                assert!(place >= 3 || at_first == 1, "item {place} of 6 shared its operations among {at_first}");
            }
            assert_eq!(num_threads(), 4, "unchanged");
        });
    }

    #[test]
    fn idle_threads_help_with_operations_of_other_items() {
        in_pool_of(3, || {
            let begun = AtomicUsize::new(0);
            let helped = try_map_on(3, vec![0, 1], |_: u32| {
                begun.fetch_add(1, Ordering::SeqCst);
                wait_until(|| begun.load(Ordering::SeqCst) == 2);
                let (inside, met) = (AtomicUsize::new(0), AtomicBool::new(false));
                // Waits until two threads were in it at the same time. `met` stays set, so both can leave.
                let start = Instant::now();
                for_each(8, usize::MAX, |_| {
                    inside.fetch_add(1, Ordering::SeqCst);
                    while !met.load(Ordering::SeqCst) && start.elapsed() < PATIENCE {
                        met.fetch_or(inside.load(Ordering::SeqCst) > 1, Ordering::SeqCst);
                        std::thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                fine(met.into_inner())
            });
            assert!(helped.unwrap().contains(&true), "the third thread did not help");
        });
    }

    #[test]
    fn panicking_item_leaves_no_state() {
        in_pool_of(2, || {
            let panics = || try_map_on(2, vec![0, 1], |i: u32| if i == 1 { panic!("on purpose") } else { fine(i) });
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
            assert!(rayon::broadcast(|_| SCHEDULER.with_borrow(Option::is_none)).into_iter().all(|is_none| is_none));
        });
    }

    #[test]
    fn run_on_one_thread_works_inside_and_outside_of_items() {
        in_pool_of(4, || {
            let inside = |_: u32| fine(run_on_one_thread(num_threads));
            assert_eq!(try_map_on(4, vec![0, 1], inside), Ok(vec![1, 1]));
            assert_eq!(run_on_one_thread(|| parallel_try_map(0..3, |_| fine(num_threads()))), Ok(vec![1, 1, 1]));
        });
    }
}
