//! Sharing work among threads: pieces whose borders depend on the shapes alone, never on the number of threads.

use rayon::prelude::*;
use std::cell::Cell;
use std::marker::PhantomData;

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

/// How many threads the operations called here may use.
pub fn num_threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Calls `f(0)`, …, `f(pieces − 1)`, on the threads of the current rayon pool if `work` (elementary operations in
/// all) is worth it.
pub(crate) fn for_each(pieces: usize, work: usize, f: impl Fn(usize) + Sync + Send) {
    if pieces <= 1 || work < WORTH_SHARING || ALONE.get() {
        (0..pieces).for_each(f);
    } else {
        (0..pieces).into_par_iter().with_max_len(1).for_each(f);
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

// SAFETY: the pointer is only turned into slices through `slice` and `pointer`, whose callers promise that no two
// tasks hold overlapping parts; T itself may move between threads.
unsafe impl<T: Send> Send for SharedMut<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    /// Shares `data`. The caller keeps `data` borrowed while the parts live (see `slice`).
    pub(crate) fn new(data: &mut [T]) -> Self {
        SharedMut { start: data.as_mut_ptr(), len: data.len(), marker: PhantomData }
    }

    /// The spare memory of `vec`, emptied, for `len` elements: to be written, not read.
    pub(crate) fn spare(vec: &mut Vec<T>, len: usize) -> Self {
        vec.clear();
        vec.reserve_exact(len);
        SharedMut { start: vec.as_mut_ptr(), len, marker: PhantomData }
    }

    /// The part `start..start + len`; panics if it reaches beyond the slice.
    ///
    /// # Safety
    /// No other part that overlaps may be alive, in any thread, the shared slice must outlive the part, and it must hold
    /// values before they are read.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice<'a>(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; exclusive as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// Copies `from` to the elements from `start` on; panics if they reach beyond the slice.
    ///
    /// # Safety
    /// No other task may reach these elements meanwhile, and the shared memory must still be there.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, start: usize, from: &[T])
    where
        T: Copy,
    {
        assert!(start.checked_add(from.len()).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds as just checked; no one else's as the caller promises.
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
    /// Whatever is reached through the pointer must lie in the slice and be no other task's.
    pub(crate) unsafe fn pointer(&self, start: usize) -> *mut T {
        assert!(start < self.len);
        // SAFETY: in bounds as just checked.
        unsafe { self.start.add(start) }
    }
}
