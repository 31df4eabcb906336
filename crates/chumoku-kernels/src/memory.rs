//! Memory: keeping what is freed for the next step, and not clearing what is written anyway.

use crate::number::Real;
use crate::threads::{SharedMut, for_each};
#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as System;
#[cfg(not(target_env = "musl"))]
use std::alloc::System;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts of mimalloc's interface that the crate `mimalloc` does not wrap.
#[cfg(target_env = "musl")]
mod mimalloc_options {
    use std::ffi::{c_int, c_long};

    // From mimalloc.h, which promises that its options keep their numbers.
    pub(super) const PURGE_DELAY: c_int = 15;

    unsafe extern "C" {
        pub(super) fn mi_option_set(option: c_int, value: c_long);
        pub(super) fn mi_collect(force: bool);
    }
}

/// Asks the allocator to keep what is freed instead of handing it back to the system.
///
/// A training step frees and allocates the same large arrays as the one before. Handed back in between, every page
/// must be cleared and mapped again, which took a fifth of a step's time. For programs that train or predict for long;
/// it concerns the whole process and does not raise its peak. It sets glibc's allocator, and on musl the one of
/// [`Allocator`]; elsewhere it does nothing.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // From glibc's malloc.h. One arena: those of threads hand large blocks back whatever the thresholds say.
        const M_ARENA_MAX: c_int = -8;
        const M_TRIM_THRESHOLD: c_int = -1;
        const M_MMAP_THRESHOLD: c_int = -3;
        // SAFETY: mallopt takes two integers and may be called at any time; unknown values are refused, not harmful.
        unsafe {
            mallopt(M_ARENA_MAX, 1);
            mallopt(M_MMAP_THRESHOLD, 1 << 30);
            mallopt(M_TRIM_THRESHOLD, c_int::MAX);
        }
    }
    #[cfg(target_env = "musl")]
    {
        // Eleven days: freed pages stay, and a forced collection still finds them. With -1 it would not.
        const MILLISECONDS: std::ffi::c_long = 1_000_000_000;
        // SAFETY: mi_option_set takes two integers and may be called at any time; mimalloc is linked in by `Allocator`.
        unsafe { mimalloc_options::mi_option_set(mimalloc_options::PURGE_DELAY, MILLISECONDS) };
    }
}

/// Returns free pages to the system, which [`keep_freed_memory`] keeps otherwise.
///
/// Use it in programs that wait, such as a service without requests. The next work maps these pages again, so a training
/// step must not call it. It works where [`keep_freed_memory`] does.
pub fn trim_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
        }
        // SAFETY: malloc_trim takes one integer, locks the allocator's arenas itself, and leaves blocks in use alone.
        unsafe {
            malloc_trim(0);
        }
    }
    // SAFETY: mi_collect takes one flag and leaves blocks in use alone.
    #[cfg(target_env = "musl")]
    unsafe {
        mimalloc_options::mi_collect(true);
    }
}

/// Gives the calling thread the lowest priority, for work that others of the machine must not wait for.
///
/// It runs where no other thread wants the core, and little where one does. Only Linux has priorities of threads;
/// elsewhere nothing happens. The priority cannot be raised again without rights of an administrator.
pub fn lower_thread_priority() {
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_uint};
        unsafe extern "C" {
            fn setpriority(which: c_int, who: c_uint, priority: c_int) -> c_int;
        }
        const PRIO_PROCESS: c_int = 0;
        // SAFETY: setpriority takes three integers. On Linux, 0 of PRIO_PROCESS is the calling thread; a failure changes nothing.
        unsafe {
            setpriority(PRIO_PROCESS, 0, 19);
        }
    }
}

/// The system's allocator, with blocks of a page and more aligned to cache lines.
///
/// On musl it is mimalloc. musl's own allocator has one lock for all threads and hands every large block back. That costs a
/// fifth of a training step.
///
/// Rows of arrays then start at cache lines, and results too large for the cache can be written past it, which is
/// twice as fast. For programs: `#[global_allocator] static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;`
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Bytes of the largest blocks that glibc keeps in each thread.
const OF_THREADS: usize = 1032;

fn by_lines(layout: Layout) -> Layout {
    if layout.size() < 4096 { layout } else { layout.align_to(64).unwrap_or(layout) }
}

// SAFETY: every call is the system allocator's own. A block is asked for and given back with the same layout, which
// follows from the caller's; its alignment is never less than asked for.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `by_lines` keeps the size, which the caller promises is not 0.
        unsafe { System.alloc(by_lines(layout)) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back a block of this allocator with the layout that it asked with, from which `by_lines`
        // makes the layout that the system was asked with.
        unsafe { System.dealloc(block, by_lines(layout)) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `by_lines` keeps the size, which the caller promises is not 0.
        unsafe { System.alloc_zeroed(by_lines(layout)) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (by_lines(layout), Layout::from_size_align(size, layout.align()).map(by_lines));
        // glibc locks its arena to change a block's size, but keeps small blocks in each thread: a new one is had without
        // waiting for other threads.
        if new.is_ok_and(|new| new.align() == old.align()) && layout.size().max(size) > OF_THREADS {
            // SAFETY: the block came from the system with `old`, as the caller's layout tells; the new size is not 0, as the
            // caller promises, and makes a layout with the same alignment, as was just found.
            return unsafe { System.realloc(block, old, size) };
        }
        // A small block, or one whose alignment changes with the size: a new block.
        // SAFETY: the caller promises a size that makes a layout, and both blocks hold what is copied.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// A vector of `len` numbers without clearing memory that is written anyway.
///
/// # Safety
/// `write` must
///
/// * write every one of the `len` elements,
/// * read none before it is written,
/// * not keep what it is given after it returns.
pub(crate) unsafe fn written<T: Copy>(len: usize, write: impl FnOnce(SharedMut<T>)) -> Vec<T> {
    let mut numbers = Vec::new();
    write(SharedMut::spare(&mut numbers, len));
    // SAFETY: there is room for `len` elements, and every one has been written, as the caller promises.
    unsafe { numbers.set_len(len) };
    numbers
}

/// `len` times 0, written by all threads.
pub fn zeros<T: Real>(len: usize) -> Vec<T> {
    const PIECE: usize = 1 << 15;
    const ZEROS: usize = 1 << 8;
    // SAFETY: the pieces, and the parts of each, are ranges of their own that cover the vector; nothing is read.
    unsafe {
        written(len, |numbers| {
            for_each(len.div_ceil(PIECE), len, |piece| {
                for start in (piece * PIECE..len.min((piece + 1) * PIECE)).step_by(ZEROS) {
                    // Each piece is its own range.
                    numbers.write(start, &[T::ZERO; ZEROS][..ZEROS.min(len - start)]);
                }
            });
        })
    }
}

/// Bytes aligned to 64, that grow and are kept.
#[derive(Debug, Default)]
pub(crate) struct Aligned(Vec<Line>);

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Aligned {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Aligned(Vec::new())
    }

    /// `len` bytes, holding whatever was there.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        let lines = len.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 64]));
        }
        // SAFETY: a line is 64 plain bytes, and there are enough of them, borrowed exclusively as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    /// `len` numbers, holding whatever was there.
    pub(crate) fn floats(&mut self, len: usize) -> &mut [f32] {
        let bytes = self.bytes(4 * len);
        // SAFETY: four bytes each, aligned to 64; any bits are a number.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// All the bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: a line is 64 plain bytes, and these are all the lines, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 64 * self.0.len()) }
    }
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Aligned> = const { std::cell::RefCell::new(Aligned::new()) };
}

static POISON: AtomicBool = AtomicBool::new(false);

/// Fills working memory with NaN whenever it is taken, in the whole process, and keeps bands between its buffers that
/// nobody may write to: for tests, which would not see otherwise that a result depends on what an earlier operation left
/// there, or that a kernel writes beyond its buffer.
#[doc(hidden)]
pub fn poison_scratch(poison: bool) {
    POISON.store(poison, Ordering::Relaxed);
}

/// What poisoned memory is filled with: NaN as f32 and as bf16.
const POISONED: u8 = 0xFF;
/// Bytes after each buffer of poisoned memory that must stay as they are.
const BAND: usize = 256;

/// This thread's working memory, kept from one use to the next so that nothing is allocated once warm.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: Aligned,
    /// Where bands start, if there are any.
    bands: Vec<usize>,
}

impl Scratch {
    /// Takes it; it goes back when this is dropped.
    pub(crate) fn take() -> Self {
        Scratch { memory: SCRATCH.take(), bands: Vec::new() }
    }

    /// Buffers of these sizes in bytes, each aligned to 64, holding whatever was there. To be called once.
    pub(crate) fn split<const N: usize>(&mut self, sizes: [usize; N]) -> [Buffer<'_>; N] {
        let is_poisoned = POISON.load(Ordering::Relaxed);
        let sizes = sizes.map(|size| (size, size.next_multiple_of(64) + if is_poisoned { BAND } else { 0 }));
        let mut rest = self.memory.bytes(sizes.iter().map(|(_, room)| room).sum());
        if is_poisoned {
            rest.fill(POISONED);
            let mut end = 0;
            self.bands.extend(sizes.iter().map(|(_, room)| {
                end += room;
                end - BAND
            }));
        }
        sizes.map(|(size, room)| {
            let (buffer, after) = std::mem::take(&mut rest).split_at_mut(room);
            rest = after;
            Buffer(&mut buffer[..size])
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let memory = self.memory.as_bytes();
        let is_whole = self.bands.iter().all(|&band| memory[band..][..BAND].iter().all(|&byte| byte == POISONED));
        SCRATCH.set(std::mem::take(&mut self.memory));
        assert!(is_whole || std::thread::panicking(), "a kernel wrote beyond a buffer of its working memory");
    }
}

/// Bytes aligned to 64.
#[derive(Debug)]
pub(crate) struct Buffer<'a>(&'a mut [u8]);

impl<'a> Buffer<'a> {
    /// The bytes as numbers.
    pub(crate) fn into_f32(self) -> &'a mut [f32] {
        // SAFETY: the bytes are aligned, initialised and exclusively borrowed, and any four of them are an f32.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / 4) }
    }

    /// The bytes as numbers, for as long as this is borrowed.
    #[inline(always)]
    pub(crate) fn as_f32_mut(&mut self) -> &mut [f32] {
        // SAFETY: the bytes are aligned, initialised and exclusively borrowed, and any four of them are an f32.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / 4) }
    }

    /// The first byte, from which all of them may be reached while the scratch is borrowed.
    pub(crate) fn pointer(self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first byte, from which all may be read while this is borrowed.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// The first byte, from which all may be read and written while this is borrowed.
    #[inline(always)]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Byte `start`, from which `len` may be read while this is borrowed.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    pub(crate) fn part(&self, start: usize, len: usize) -> *const u8 {
        self.0[start..][..len].as_ptr()
    }

    /// Byte `start`, from which `len` may be read and written while this is borrowed.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    pub(crate) fn part_mut(&mut self, start: usize, len: usize) -> *mut u8 {
        self.0[start..][..len].as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "beyond a buffer"]
    fn writing_beyond_a_buffer_shows() {
        // For the whole process: other tests of this kind only get bands and NaN too.
        poison_scratch(true);
        let mut scratch = Scratch::take();
        let [first, _] = scratch.split([100, 100]);
        // SAFETY: the band behind the buffer belongs to the same memory.
        unsafe { first.pointer().add(128).write(1) };
    }

    #[test]
    fn a_lowered_priority_is_that_of_one_thread() {
        let of = |folder: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{folder}/stat")).ok()?;
            // Behind the name, which may hold spaces.
            stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse::<i32>().ok()
        };
        let Some(before) = of("thread-self") else {
            println!("SKIPPED: the system tells no priorities of threads");
            return;
        };
        let lowered = std::thread::spawn(move || {
            lower_thread_priority();
            of("thread-self")
        });
        assert_eq!(lowered.join().unwrap(), Some(19));
        assert_eq!(of("thread-self"), Some(before));
    }

    #[test]
    fn blocks_that_change_their_size_keep_what_they_hold() {
        // Around the sizes from which blocks are aligned to lines and moved by the system.
        let sizes = [1, 8, 100, OF_THREADS - 1, OF_THREADS, OF_THREADS + 1, 4095, 4096, 4097, 1 << 20];
        let byte = |at: usize| (at * 31 + at / 251) as u8;
        for align in [1, 16, 64, 4096] {
            for (from, to) in sizes.iter().flat_map(|&from| sizes.iter().map(move |&to| (from, to))) {
                let layout = Layout::from_size_align(from, align).unwrap();
                // SAFETY: sizes are not 0; a block is used within its size, and given back with its last layout.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert!(!block.is_null());
                    (0..from).for_each(|at| block.add(at).write(byte(at)));
                    let moved = Allocator.realloc(block, layout, to);
                    assert!(!moved.is_null() && moved.addr().is_multiple_of(align), "{from} to {to}, {align}");
                    let kept = std::slice::from_raw_parts(moved, from.min(to));
                    assert!(kept.iter().enumerate().all(|(at, &found)| found == byte(at)), "{from} to {to}, {align}");
                    // All of the new size can be written.
                    moved.write_bytes(1, to);
                    Allocator.dealloc(moved, Layout::from_size_align(to, align).unwrap());
                }
            }
        }
    }
}
