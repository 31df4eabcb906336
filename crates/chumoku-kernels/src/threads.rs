//! Sharing work among threads: pieces whose borders depend on the shapes alone, never on the number of threads.

use crate::profile::{self, Operation};
use rayon::prelude::*;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Work below this many elementary operations is done on the calling thread: waking another costs more.
const WORTH_SHARING: usize = 1 << 16;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with all its operations on this thread alone.
///
/// For callers that share out work themselves, in parts that fit a core's cache. Results are the same.
pub fn on_one_thread<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _restore = Restore(ALONE.replace(true));
    work()
}

/// What `f` makes of each item, in their order: items are shared among the threads of the current rayon pool, each with all
/// its operations on one thread alone, as [`on_one_thread`] has it.
pub fn each_alone<I, R, C>(items: I, f: impl Fn(I::Item) -> R + Sync + Send) -> C
where
    I: IndexedParallelIterator,
    R: Send,
    C: FromParallelIterator<R>,
{
    let operation = profile::current().map(|_| Operation::BETWEEN);
    let _waiting = profile::waiting();
    let one = |item| {
        let _between = profile::go_on(operation);
        on_one_thread(|| f(item))
    };
    items.with_max_len(1).map(one).collect()
}

/// How many threads the operations called here may use.
pub fn num_threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Calls `f(0)`, …, `f(pieces − 1)`, on the threads of the current rayon pool if `work` (elementary operations in
/// all) is worth it.
#[inline(always)]
pub(crate) fn for_each(pieces: usize, work: usize, f: impl Fn(usize) + Sync + Send) {
    each(pieces, work, &f);
}

/// Behind a pointer, so that each `f` is compiled once, and what shares it among threads once for all of them.
#[inline(never)]
fn each(pieces: usize, work: usize, f: &(dyn Fn(usize) + Sync + Send)) {
    if pieces <= 1 || work < WORTH_SHARING || ALONE.get() {
        (0..pieces).for_each(f);
    } else {
        let operation = profile::current();
        let _waiting = profile::waiting();
        (0..pieces).into_par_iter().with_max_len(1).for_each(|piece| {
            let _same = profile::go_on(operation);
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
    pub(crate) fn spare(vec: &mut Vec<T>, len: usize) -> Self {
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
    pub(crate) unsafe fn unwritten<'a>(&self, start: usize, len: usize) -> &'a mut [MaybeUninit<T>] {
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
    pub(crate) unsafe fn write(&self, start: usize, from: &[T])
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
    pub(crate) unsafe fn pointer(&self, start: usize) -> *mut T {
        assert!(start < self.len);
        // SAFETY: in bounds as just checked.
        unsafe { self.start.add(start) }
    }
}
