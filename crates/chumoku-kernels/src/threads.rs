//! Sharing work among threads: pieces whose borders depend on the shapes alone, never on the number of threads.

use crate::cancel::{self, CancelFlag};
use crate::profile::{self, Operation};
use rayon::prelude::*;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Work below this many elementary operations is done on the calling thread: waking another costs more.
const MIN_PARALLEL_WORK: usize = 1 << 16;

thread_local! {
    static IS_SINGLE_THREADED: Cell<bool> = const { Cell::new(false) };
    /// The crew whose item this thread works on.
    static SCHEDULER: RefCell<Option<Arc<ItemScheduler>>> = const { RefCell::new(None) };
    /// What shares this thread's operations in place of rayon.
    static TEAM: RefCell<Option<Arc<dyn ThreadTeam>>> = const { RefCell::new(None) };
}

/// Runs `work` with all its operations on this thread alone.
///
/// For callers that share out work themselves, in parts that fit a core's cache. Results are the same.
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

/// Threads of another library, which share operations in place of the current rayon pool: see [`on_team`].
pub trait ThreadTeam: Send + Sync {
    /// How many there are.
    fn threads(&self) -> usize;
    /// Calls `work` on each of them, and returns when all calls have.
    fn run(&self, work: &(dyn Fn() + Sync));
}

/// Runs `work` with the attention, matrix products and other operations in it shared among the threads of `team`.
///
/// For callers whose process has threads already: two pools that take turns wait for each other's threads. Results are the
/// same. What asks for rayon itself, as [`side_by_side`] and the scores and statistics of attention do, still gets rayon.
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

/// Threads that work on items side by side, and how far they have got.
#[derive(Debug)]
struct ItemScheduler {
    threads: usize,
    /// Items that nobody has begun.
    pending: AtomicUsize,
    /// Items that have begun and not ended.
    running: AtomicUsize,
}

impl ItemScheduler {
    /// Threads for each item that runs: one as long as items are left. A thread that shares an operation waits for
    /// others, and while it waits it would begin an item and not come back before that has ended.
    fn threads_per_item(&self) -> usize {
        match self.pending.load(Ordering::Relaxed) {
            0 => self.threads.div_ceil(self.running.load(Ordering::Relaxed).max(1)),
            _ => 1,
        }
    }

    /// Runs an item.
    fn run_item<R>(self: &Arc<ItemScheduler>, item: impl FnOnce() -> R) -> R {
        /// What the thread worked on before, which may itself be an item; and its being alone.
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

/// What `f` makes of each item, in their order: items are shared among the threads of the current rayon pool. Each has its
/// operations on one thread alone while there are as many items as threads; threads that find none left help the others.
///
/// No more items run at a time than the process has cores, or than `CHUMOKU_CORES` says: their threads would only wait for each
/// other. All this decides who computes what, and no result.
///
/// # Errors
/// The first in the order of the items.
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

/// An item, and what is made of it.
struct ItemSlot<T, R> {
    input: Option<T>,
    output: Option<R>,
}

/// Runs [`side_by_side`] on the given number of threads.
fn try_map_on<T: Send, R: Send, E: Send>(
    threads: usize,
    items: Vec<T>,
    f: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let each: Vec<Mutex<ItemSlot<T, Result<R, E>>>> =
        items.into_iter().map(|item| Mutex::new(ItemSlot { input: Some(item), output: None })).collect();
    // An error ends the work only where one thread does it all: others have begun the next items by then.
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

/// Calls `run` with the number of each item, in [`Crew::run`]. A single thread stops once `run` returns `false`.
///
/// It takes a pointer to the closure, so that it is compiled once for all callers.
fn run_items(threads: usize, count: usize, run: &(dyn Fn(usize) -> bool + Sync)) {
    let crew = Arc::new(ItemScheduler { threads, pending: AtomicUsize::new(count), running: AtomicUsize::new(0) });
    if count <= 1 || threads <= 1 {
        // On a thread of the pool: from outside, each operation would have to wake the pool and wait for it.
        rayon::scope(|_| {
            let _ = (0..count).all(|i| crew.run_item(|| run(i)));
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
                    crew.run_item(|| run(i));
                }
            });
        }
    });
}

/// How many threads the operations called here may use.
pub fn num_threads() -> usize {
    if IS_SINGLE_THREADED.get() {
        return 1;
    }
    if let Some(team) = TEAM.with_borrow(Option::clone) {
        return team.threads();
    }
    SCHEDULER.with_borrow(|crew| crew.as_ref().map_or_else(rayon::current_num_threads, |crew| crew.threads_per_item()))
}

/// Calls `f(0)`, …, `f(pieces − 1)`, on the threads of the current rayon pool if `work` (elementary operations in
/// all) is worth it.
#[inline(always)]
pub(crate) fn for_each(pieces: usize, work: usize, f: impl Fn(usize) + Sync + Send) {
    for_each_dyn(pieces, work, &f);
}

/// Behind a pointer, so that each `f` is compiled once, and what shares it among threads once for all of them.
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
                // A piece has no operations to share, but where it has they stay here: the team is busy.
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

/// A mutable slice that tasks share, each writing a part of its own.
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

// SAFETY: it is a pointer and a length, which may be in any thread. What lies behind them is only reached through unsafe
// methods, whose callers promise that no two tasks hold parts that overlap; a part may then be another thread's, since T
// may move between threads.
unsafe impl<T: Send> Send for SharedMut<T> {}
// SAFETY: no method reaches what is shared through a reference to this alone: each is unsafe, and its callers promise
// that no two tasks hold parts that overlap, whichever thread's reference they came from.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Shares `data`. The caller keeps `data` borrowed while the parts live (see `slice`).
    pub(crate) fn new(data: &mut [T]) -> Self {
        SharedMut { start: data.as_mut_ptr(), len: data.len(), marker: PhantomData }
    }

    /// The spare memory of `vec`, emptied, for `len` elements. It holds no values: [`SharedMut::write`] and
    /// [`SharedMut::unwritten`] are the ways to it, [`SharedMut::slice`] only to what has been written.
    pub(crate) fn from_spare_capacity(vec: &mut Vec<T>, len: usize) -> Self {
        vec.clear();
        vec.reserve_exact(len);
        SharedMut { start: vec.as_mut_ptr(), len, marker: PhantomData }
    }

    /// The part `start..start + len`; panics if it reaches beyond the slice.
    ///
    /// # Safety
    /// * No other part that overlaps may be alive, in any thread.
    /// * The shared memory must outlive the part.
    /// * The part must hold values: of the memory of [`SharedMut::spare`], it must have been written.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice<'a>(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; exclusive, alive and initialised as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// The part `start..start + len`, which may hold no values yet; panics if it reaches beyond the slice.
    ///
    /// # Safety
    /// * No other part that overlaps may be alive, in any thread.
    /// * The shared memory must outlive the part.
    /// * Of memory that holds values, the part must do so again before they are read.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice_uninit<'a>(&self, start: usize, len: usize) -> &'a mut [MaybeUninit<T>] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; exclusive and alive as the caller promises; MaybeUninit asks for no values.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start).cast(), len) }
    }

    /// Copies `from` to the elements from `start` on; panics if they reach beyond the slice.
    ///
    /// # Safety
    /// * No other task may reach these elements meanwhile.
    /// * The shared memory must still be there.
    #[inline(always)]
    pub(crate) unsafe fn copy_from(&self, start: usize, from: &[T])
    where
        T: Copy,
    {
        assert!(start.checked_add(from.len()).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; there, and no one else's, as the caller promises. `from` cannot overlap
        // what no one else may reach.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(start), from.len()) };
    }

    /// Whether element `start` lies at a multiple of so many elements.
    #[inline(always)]
    pub(crate) fn is_aligned(&self, start: usize, elements: usize) -> bool {
        self.start.wrapping_add(start).addr().is_multiple_of(elements * size_of::<T>())
    }

    /// A pointer to element `start`, which must be inside.
    ///
    /// # Safety
    /// * The shared memory must still be there while the pointer is used.
    /// * Whatever is reached through the pointer must lie in the slice, and no other task may reach it meanwhile.
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

    /// How long anything is waited for: it comes in a moment where the machine does nothing else.
    const PATIENCE: Duration = Duration::from_secs(180);

    /// Waits for what other threads do.
    fn wait_until(is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "it does not come to that");
            std::thread::yield_now();
        }
    }

    /// Threads that are started anew for each operation.
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
    fn a_team_shares_operations_in_place_of_rayon() {
        let team = Arc::new(ScopedTeam(3, AtomicUsize::new(0)));
        let outside = run_on_one_thread(num_threads);
        let all = run_on_team(team.clone(), || {
            assert_eq!(num_threads(), 3);
            let (all, names) = (Mutex::new(Vec::new()), Mutex::new(std::collections::HashSet::new()));
            for_each(50, MIN_PARALLEL_WORK, |piece| {
                assert_eq!(num_threads(), 1, "the team is busy");
                // What a piece shares itself stays on its thread.
                let here = std::thread::current().id();
                for_each(2, MIN_PARALLEL_WORK, |_| assert_eq!(std::thread::current().id(), here));
                assert!(rayon::current_thread_index().is_none(), "none of rayon's threads");
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
        assert_eq!(in_pool_of(2, num_threads), 2, "afterwards rayon again");
    }

    fn fine<T>(x: T) -> Result<T, ()> {
        Ok(x)
    }

    #[test]
    fn results_come_in_order_and_the_first_error_is_told() {
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
    fn no_more_items_run_at_a_time_than_are_told() {
        in_pool_of(4, || {
            let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let watched = |i: u32| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Two do run at a time, whichever comes first; a third would have time to come.
                wait_until(|| most.load(Ordering::SeqCst) > 1);
                std::thread::sleep(Duration::from_millis(1));
                running.fetch_sub(1, Ordering::SeqCst);
                fine(i)
            };
            assert_eq!(try_map_on(2, (0..20).collect(), watched), Ok((0..20).collect()));
            assert_eq!(most.into_inner(), 2);
            // One item alone shares its operations among as many.
            assert_eq!(try_map_on(2, vec![0], |_: u32| fine(num_threads())), Ok(vec![2]));
            assert_eq!(try_map_on(1, vec![0, 1], |_: u32| fine(num_threads())), Ok(vec![1, 1]));
        });
        let outside = run_on_one_thread(|| parallel_try_map([0], |_: u32| fine(num_threads())));
        assert_eq!(outside, Ok(vec![1]), "also from a thread outside of the pool");
    }

    #[test]
    fn while_items_are_left_each_has_a_thread_alone_and_then_there_is_help() {
        in_pool_of(4, || {
            let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let of_items = try_map_on(4, (0..6).collect(), |_: u32| {
                let place = begun.fetch_add(1, Ordering::SeqCst);
                let at_first = num_threads();
                // The last two stay until they are the only ones.
                if place >= 4 {
                    wait_until(|| ended.load(Ordering::SeqCst) == 4);
                    // The others are counted off just after this.
                    wait_until(|| num_threads() >= 2);
                } else {
                    ended.fetch_add(1, Ordering::SeqCst);
                }
                fine((place, at_first))
            });
            for (place, at_first) in of_items.unwrap() {
                assert!(place >= 3 || at_first == 1, "item {place} of 6 shared its operations among {at_first}");
            }
            assert_eq!(num_threads(), 4, "as before");
        });
    }

    #[test]
    fn a_thread_without_an_item_takes_pieces_of_the_others_operations() {
        in_pool_of(3, || {
            let begun = AtomicUsize::new(0);
            let helped = try_map_on(3, vec![0, 1], |_: u32| {
                begun.fetch_add(1, Ordering::SeqCst);
                wait_until(|| begun.load(Ordering::SeqCst) == 2);
                let (inside, met) = (AtomicUsize::new(0), AtomicBool::new(false));
                // Until two threads were in it at a time; that one of them waits for the other keeps neither from leaving.
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
            assert!(helped.unwrap().contains(&true), "the third thread had nothing to do");
        });
    }

    #[test]
    fn an_item_that_panics_leaves_no_trace() {
        in_pool_of(2, || {
            let panics = || try_map_on(2, vec![0, 1], |i: u32| if i == 1 { panic!("on purpose") } else { fine(i) });
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
            assert!(rayon::broadcast(|_| SCHEDULER.with_borrow(Option::is_none)).into_iter().all(|is_none| is_none));
        });
    }

    #[test]
    fn alone_is_alone_inside_and_outside_of_items() {
        in_pool_of(4, || {
            let inside = |_: u32| fine(run_on_one_thread(num_threads));
            assert_eq!(try_map_on(4, vec![0, 1], inside), Ok(vec![1, 1]));
            assert_eq!(run_on_one_thread(|| parallel_try_map(0..3, |_| fine(num_threads()))), Ok(vec![1, 1, 1]));
        });
    }
}
