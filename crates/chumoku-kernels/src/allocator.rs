//! The global allocator of programs: aligns blocks to cache lines, and caches freed memory for the next step.

// musl's own allocator has one lock for all threads.
#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as System;
#[cfg(not(target_env = "musl"))]
use std::alloc::System;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// True with glibc, whose `mallopt` can keep freed memory.
const IS_GLIBC: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// Keeps freed memory for the next allocation instead of returning it to the system.
///
/// A training step frees and allocates the same large arrays as the previous one. If they were returned in between,
/// every page would have to be cleared and mapped again, which took a fifth of a step's time. Use it in programs that
/// train or predict for a long time. It affects the whole process and does not raise its peak memory. With glibc it
/// affects every allocator, elsewhere only programs whose global allocator is [`Allocator`].
pub fn keep_freed_memory() {
    // One arena: those of threads return large blocks regardless of the thresholds.
    // SAFETY: mallopt takes two integers and may be called at any time. Unknown values are rejected without harm.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
    if !IS_GLIBC {
        FREE_LISTS.is_enabled.store(true, Ordering::Relaxed);
    }
}

/// Returns free pages to the system that [`keep_freed_memory`] would keep.
///
/// Use it in programs that wait, such as a service without requests. The next work maps these pages again, so a
/// training step must not call it. On musl, mimalloc keeps the free small blocks of other running threads. They return
/// to the system when those threads allocate, free or end.
pub fn trim_memory() {
    // SAFETY: malloc_trim takes one integer, locks the allocator's arenas itself, and leaves blocks in use alone.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
    FREE_LISTS.release(usize::MAX);
    // SAFETY: mi_collect may be called at any time. It frees pages without used blocks.
    #[cfg(target_env = "musl")]
    unsafe {
        mi_collect(true);
    }
}

#[cfg(target_env = "musl")]
unsafe extern "C" {
    /// Returns this thread's free blocks, and the free memory of all threads' arenas, without mimalloc's usual delay.
    fn mi_collect(force: bool);
}

/// The system's allocator (mimalloc on musl), with blocks of at least one page aligned to cache lines.
///
/// Rows of arrays then start at cache lines, and results that are too large for the cache can be written past it, which
/// is twice as fast. For programs: `#[global_allocator] static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;`
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of the largest blocks that glibc caches per thread.
const GLIBC_THREAD_CACHE_MAX: usize = 1032;

/// Returns the layout that is requested from the system: whole lines and, if freed blocks are cached, the size of its
/// class.
fn padded_layout(layout: Layout) -> Layout {
    if layout.size() < 4096 {
        return layout;
    }
    let size = if IS_GLIBC { layout.size() } else { round_to_class(layout.size()) };
    Layout::from_size_align(size, layout.align().max(LINE)).unwrap_or(layout)
}

// SAFETY: every block is the system allocator's own. A block is allocated and freed with the same layout, which is
// derived from the caller's. Its size and alignment are never less than requested.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = padded_layout(layout);
        // SAFETY: `padded_layout` makes no size smaller, and the caller promises that it is not 0.
        FREE_LISTS.pop(layout).map_or_else(|| unsafe { System.alloc(layout) }, NonNull::as_ptr)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let layout = padded_layout(layout);
        // SAFETY: the caller frees a block of this allocator with the layout of its allocation, from which
        // `padded_layout` derives the layout that the system was given. The block is not used after that.
        unsafe {
            if !FREE_LISTS.push(block, layout) {
                System.dealloc(block, layout);
            }
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let layout = padded_layout(layout);
        match FREE_LISTS.pop(layout) {
            Some(block) => {
                // SAFETY: the block has the size of the layout, and only this call owns it.
                unsafe { block.write_bytes(0, layout.size()) };
                block.as_ptr()
            }
            // SAFETY: `padded_layout` makes no size smaller, and the caller promises that it is not 0.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (padded_layout(layout), Layout::from_size_align(size, layout.align()).map(padded_layout));
        // glibc locks its arena to change the size of a block, but caches small blocks per thread. A new small block
        // therefore does not wait for other threads.
        if let Ok(new) = new
            && new.align() == old.align()
            && layout.size().max(size) > GLIBC_THREAD_CACHE_MAX
        {
            if !IS_GLIBC && old.size() == new.size() {
                return block;
            }
            // Cached blocks are used first, because the system would map new pages.
            if !FREE_LISTS.caches(new) {
                // SAFETY: the block came from the system with `old`, as the caller's layout implies. The new size is
                // not 0, as the caller promises, and forms a layout with the same alignment, as was just checked.
                return unsafe { System.realloc(block, old, new.size()) };
            }
        }
        // A small block, or one whose alignment changes with the size: move to a new block.
        // SAFETY: the caller promises a size that forms a layout, and both blocks contain the range that is copied.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Bytes of the smallest cached blocks. The C library caches smaller ones itself.
const MIN_CACHED: usize = 1 << MIN_CACHED_BITS;
const MIN_CACHED_BITS: u32 = 16;

/// Size classes between a power of two and the next, so that at most an eighth of a block is wasted.
const CLASSES_PER_OCTAVE: usize = 8;

/// Powers of two from [`MIN_CACHED`] on.
const OCTAVES: usize = num_octaves(usize::BITS);

/// Returns the number of octaves for addresses of this many bits. Sizes of all classes fit an `isize`.
const fn num_octaves(address_bits: u32) -> usize {
    let fitting = (address_bits - 2 - MIN_CACHED_BITS) as usize;
    if fitting < 24 { fitting } else { 24 }
}

/// Rounds a size up to its class, if blocks of this size are cached.
const fn round_to_class(size: usize) -> usize {
    if size < MIN_CACHED || size.ilog2() >= MIN_CACHED_BITS + OCTAVES as u32 {
        return size;
    }
    size.next_multiple_of((1 << size.ilog2()) / CLASSES_PER_OCTAVE)
}

/// Returns the class of a size from [`round_to_class`], if such blocks are cached.
const fn size_class(size: usize) -> Option<usize> {
    if size < MIN_CACHED || size.ilog2() >= MIN_CACHED_BITS + OCTAVES as u32 {
        return None;
    }
    let octave = size.ilog2();
    Some(
        (octave - MIN_CACHED_BITS) as usize * CLASSES_PER_OCTAVE
            + (size >> (octave - CLASSES_PER_OCTAVE.ilog2())) % CLASSES_PER_OCTAVE,
    )
}

/// Returns the size of the blocks of a class.
const fn class_size(class: usize) -> usize {
    (CLASSES_PER_OCTAVE + class % CLASSES_PER_OCTAVE)
        << (MIN_CACHED_BITS as usize + class / CLASSES_PER_OCTAVE - CLASSES_PER_OCTAVE.ilog2() as usize)
}

/// Freed blocks by size class, for systems whose C library does not keep freed memory.
///
/// Before a new block is allocated, the same number of bytes of cached blocks is freed. Cached and used blocks together
/// therefore do not exceed the peak of used ones, except by blocks of a list that another thread holds at that moment.
struct FreeLists {
    is_enabled: AtomicBool,
    /// Total size of the cached blocks.
    bytes: AtomicUsize,
    lists: [FreeList; OCTAVES * CLASSES_PER_OCTAVE],
}

static FREE_LISTS: FreeLists = FreeLists::new();

/// Free blocks of one class, as a linked list: each block holds the address of the next.
struct FreeList {
    is_locked: AtomicBool,
    first: UnsafeCell<*mut FreeBlock>,
}

struct FreeBlock {
    next: *mut FreeBlock,
}

// SAFETY: only the thread that has set `is_locked` accesses the blocks, and they belong to no thread.
unsafe impl Sync for FreeList {}

/// Attempts to hold a list. The holder needs a few instructions, unless the system suspends its thread.
const MAX_ATTEMPTS: usize = 64;

impl FreeList {
    /// Calls `change` while no other thread accesses the blocks. Returns `None` if another thread keeps the list; the
    /// caller then does without it.
    ///
    /// A lock of the standard library may allocate, and waiting for a suspended thread would have no bound.
    fn with_lock<R>(&self, change: impl FnOnce(&mut *mut FreeBlock) -> R) -> Option<R> {
        let take = || self.is_locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let is_taken = (0..MAX_ATTEMPTS).any(|_| {
            let is_taken = take();
            if !is_taken {
                std::hint::spin_loop();
            }
            is_taken
        });
        if !is_taken {
            return None;
        }
        // SAFETY: this thread has just set the lock, so no other thread holds the address.
        let result = change(unsafe { &mut *self.first.get() });
        self.is_locked.store(false, Ordering::Release);
        Some(result)
    }

    fn pop(&self) -> Option<NonNull<u8>> {
        self.with_lock(|first| {
            let block = NonNull::new(*first)?;
            // SAFETY: the list contains free blocks, which begin with the address of the next one.
            *first = unsafe { block.as_ref() }.next;
            Some(block.cast())
        })?
    }

    /// Adds a block, or returns `false` if another thread keeps the list.
    ///
    /// # Safety
    /// The caller must own the block, which must be aligned for [`FreeBlock`] and no smaller. If it is added, it must
    /// not be used afterwards.
    unsafe fn push(&self, block: *mut u8) -> bool {
        let block = block.cast::<FreeBlock>();
        self.with_lock(|first| {
            // SAFETY: the caller owns the block and promises its alignment and size.
            unsafe { block.write(FreeBlock { next: *first }) };
            *first = block;
        })
        .is_some()
    }
}

impl FreeLists {
    const fn new() -> FreeLists {
        let stacks = [const { FreeList { is_locked: AtomicBool::new(false), first: UnsafeCell::new(ptr::null_mut()) } };
            OCTAVES * CLASSES_PER_OCTAVE];
        FreeLists { is_enabled: AtomicBool::new(false), bytes: AtomicUsize::new(0), lists: stacks }
    }

    /// Returns the class of a layout whose freed blocks are cached.
    fn class_of(&self, layout: Layout) -> Option<usize> {
        let is_kept = layout.align() == LINE && self.is_enabled.load(Ordering::Relaxed);
        if is_kept { size_class(layout.size()) } else { None }
    }

    fn caches(&self, layout: Layout) -> bool {
        self.class_of(layout).is_some()
    }

    /// Returns a cached block of this layout. If there is none, frees memory for a new one.
    fn pop(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.lists[self.class_of(layout)?].pop();
        match block {
            Some(_) => drop(self.bytes.fetch_sub(layout.size(), Ordering::Relaxed)),
            None => self.release(layout.size()),
        }
        block
    }

    /// Caches a freed block, or returns `false`.
    ///
    /// # Safety
    /// The block must come from the system with this layout. If it is cached, it must not be used afterwards.
    unsafe fn push(&self, block: *mut u8, layout: Layout) -> bool {
        let Some(class) = self.class_of(layout) else { return false };
        // Counted before another thread can take it.
        self.bytes.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller gives the block up if it is added. It is aligned to lines and as large as its class.
        let is_cached = unsafe { self.lists[class].push(block) };
        if !is_cached {
            self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        is_cached
    }

    /// Frees the largest blocks until at least `bytes` are free, or no block is left. Skips a list that another thread
    /// keeps.
    fn release(&self, bytes: usize) {
        let mut released = 0;
        for (class, stack) in self.lists.iter().enumerate().rev() {
            if released >= bytes || self.bytes.load(Ordering::Relaxed) == 0 {
                return;
            }
            let size = class_size(class);
            while released < bytes
                && let Some(block) = stack.pop()
            {
                self.bytes.fetch_sub(size, Ordering::Relaxed);
                released += size;
                // SAFETY: the block comes from the system with the layout of its class, and nothing uses it.
                unsafe { System.dealloc(block.as_ptr(), Layout::from_size_align_unchecked(size, LINE)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(round_to_class(size), LINE).unwrap()
    }

    /// Allocates a block from the system.
    fn block(size: usize) -> NonNull<u8> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { System.alloc(layout(size)) }).unwrap()
    }

    fn enabled_lists() -> FreeLists {
        let kept = FreeLists::new();
        kept.is_enabled.store(true, Ordering::Relaxed);
        kept
    }

    #[test]
    fn size_classes_waste_at_most_an_eighth() {
        assert_eq!(
            [1, 4096, MIN_CACHED - 1].map(|size| (round_to_class(size), size_class(size))),
            [(1, None), (4096, None), (MIN_CACHED - 1, None)]
        );
        let mut last = None;
        let largest = MIN_CACHED << OCTAVES;
        for size in (MIN_CACHED..MIN_CACHED * 40).step_by(513).chain([1 << 28, (1 << 28) + 1, largest / 2 + 7]) {
            let up = round_to_class(size);
            let class = size_class(up).unwrap();
            assert!(
                up >= size && up - size <= size / CLASSES_PER_OCTAVE && class_size(class) == up,
                "{size} {up} {class}"
            );
            assert_eq!(round_to_class(up), up);
            assert!(last.is_none_or(|last| last <= class), "{size}");
            last = Some(class);
        }
        assert!(
            size_class(round_to_class(largest - 1)).is_none()
                && size_class(largest).is_none()
                && round_to_class(usize::MAX) == usize::MAX
        );
    }

    #[test]
    fn sizes_of_all_classes_fit_the_address_space() {
        assert_eq!([32, 64].map(num_octaves), [14, 24]);
        for address_bits in [32, 64] {
            let sizes: Vec<usize> = (0..num_octaves(address_bits) * CLASSES_PER_OCTAVE).map(class_size).collect();
            // Sizes ascend only if none is shifted out of its word.
            assert!(sizes.is_sorted_by(|a, b| a < b) && sizes[0] == MIN_CACHED, "{address_bits}");
            // A size in the last class is rounded up to the next power of two.
            let largest = MIN_CACHED << num_octaves(address_bits);
            assert!(*sizes.last().unwrap() < largest && (largest as u128) < 1 << (address_bits - 1), "{address_bits}");
        }
    }

    #[test]
    fn a_list_that_another_thread_keeps_is_left_alone() {
        let kept = enabled_lists();
        let [first, second] = [block(MIN_CACHED), block(MIN_CACHED)];
        let list = &kept.lists[size_class(MIN_CACHED).unwrap()];
        // SAFETY: both blocks come from the system, and are not used after they are cached.
        unsafe {
            assert!(kept.push(first.as_ptr(), layout(MIN_CACHED)));
            list.is_locked.store(true, Ordering::Relaxed);
            assert!(!kept.push(second.as_ptr(), layout(MIN_CACHED)));
            assert_eq!((kept.pop(layout(MIN_CACHED)), kept.bytes.load(Ordering::Relaxed)), (None, MIN_CACHED));
            kept.release(usize::MAX);
            assert_eq!(kept.bytes.load(Ordering::Relaxed), MIN_CACHED);
            list.is_locked.store(false, Ordering::Relaxed);
            assert!(kept.push(second.as_ptr(), layout(MIN_CACHED)));
        }
        assert_eq!([(); 3].map(|()| kept.pop(layout(MIN_CACHED))), [Some(second), Some(first), None]);
        for block in [first, second] {
            // SAFETY: both blocks come from the system with this layout, and nothing uses them.
            unsafe { System.dealloc(block.as_ptr(), layout(MIN_CACHED)) };
        }
    }

    #[test]
    fn freed_block_is_reused_for_the_same_size_class() {
        let kept = enabled_lists();
        let (small, large) = (block(MIN_CACHED), block(5 << 20));
        // SAFETY: both blocks come from the system with these layouts, and are not used until they are taken.
        let is_kept =
            unsafe { [kept.push(small.as_ptr(), layout(MIN_CACHED)), kept.push(large.as_ptr(), layout(5 << 20))] };
        assert_eq!((is_kept, kept.bytes.load(Ordering::Relaxed)), ([true; 2], MIN_CACHED + (5 << 20)));
        assert_eq!(kept.pop(layout((5 << 20) - 1000)), Some(large), "same size class");
        assert_eq!(kept.pop(layout(MIN_CACHED)), Some(small));
        assert_eq!((kept.pop(layout(MIN_CACHED)), kept.bytes.load(Ordering::Relaxed)), (None, 0));
        // SAFETY: as above. Small blocks, other alignments and blocks that are freed while caching is off are not
        // cached.
        unsafe {
            let page = Layout::from_size_align(MIN_CACHED, 4096).unwrap();
            assert!(!kept.push(small.as_ptr(), Layout::from_size_align(4096, LINE).unwrap()));
            assert!(!kept.push(small.as_ptr(), page) && !FreeLists::new().push(small.as_ptr(), layout(MIN_CACHED)));
            System.dealloc(small.as_ptr(), layout(MIN_CACHED));
            System.dealloc(large.as_ptr(), layout(5 << 20));
        }
    }

    #[test]
    fn cached_blocks_are_freed_before_new_allocations() {
        let kept = enabled_lists();
        for size in [MIN_CACHED, 1 << 20, 1 << 20, 4 << 20] {
            // SAFETY: the block comes from the system, and is not used afterwards.
            assert!(unsafe { kept.push(block(size).as_ptr(), layout(size)) });
        }
        let bytes = || kept.bytes.load(Ordering::Relaxed);
        assert_eq!(kept.pop(layout(3 << 20)), None);
        assert_eq!(bytes(), MIN_CACHED + (2 << 20), "the largest block is freed first, and it suffices");
        assert_eq!(kept.pop(layout(1 << 30)), None);
        assert_eq!(bytes(), 0);
        kept.release(usize::MAX);
    }

    #[test]
    fn threads_never_get_the_same_block() {
        let kept = enabled_lists();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let kept = &kept;
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let size = MIN_CACHED << (turn % 3);
                        let own = kept.pop(layout(size)).unwrap_or_else(|| block(size));
                        // SAFETY: this thread owns the block until it is cached.
                        unsafe {
                            own.write_bytes(thread, 64);
                            std::thread::yield_now();
                            assert!(std::slice::from_raw_parts(own.as_ptr(), 64).iter().all(|&byte| byte == thread));
                            if !kept.push(own.as_ptr(), layout(size)) {
                                System.dealloc(own.as_ptr(), layout(size));
                            }
                        }
                    }
                });
            }
        });
        kept.release(usize::MAX);
        assert_eq!(kept.bytes.load(Ordering::Relaxed), 0);
    }

    /// Runs in its own process: a process has one allocator, which other tests use at the same time.
    #[test]
    fn trim_returns_kept_memory() {
        testkit::in_own_process("allocator::tests::trim_returns_kept_memory", || {
            keep_freed_memory();
            let size = 96 << 20;
            let layout = Layout::from_size_align(size, 1).unwrap();
            let held = || crate::system::process_memory().map(|memory| memory.current as usize);
            // SAFETY: a block of this allocator, written within its size, and freed with its layout.
            let used = unsafe {
                let block = Allocator.alloc(layout);
                block.write_bytes(1, size);
                let used = held();
                Allocator.dealloc(block, layout);
                used
            };
            let Some(used) = used else { return };
            // With glibc the result depends on the thread's arena, which existed before.
            assert!(IS_GLIBC || held().unwrap() > used - size / 2, "kept: {:?} after {used}", held());
            trim_memory();
            assert!(held().unwrap() < used - size / 2, "given back: {:?} after {used}", held());
        });
    }

    /// glibc and mimalloc return small blocks on request. Other C libraries decide for themselves.
    #[cfg(all(target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
    #[test]
    fn trim_returns_small_blocks() {
        testkit::in_own_process("allocator::tests::trim_returns_small_blocks", || {
            keep_freed_memory();
            let (count, size) = (96 << 10, 1 << 10);
            let layout = Layout::from_size_align(size, 8).unwrap();
            let held = || crate::system::process_memory().unwrap().current as usize;
            // SAFETY: blocks of this allocator, written within their size, and freed with their layout.
            let used = unsafe {
                let blocks: Vec<*mut u8> = (0..count).map(|_| Allocator.alloc(layout)).collect();
                blocks.iter().for_each(|block| block.write_bytes(1, size));
                let used = held();
                blocks.iter().for_each(|&block| Allocator.dealloc(block, layout));
                used
            };
            trim_memory();
            assert!(held() < used - count * size / 2, "given back: {} after {used}", held());
        });
    }

    #[test]
    fn realloc_keeps_the_contents() {
        // Around the sizes from which blocks are aligned to lines and moved by the system.
        let sizes = [
            1,
            8,
            100,
            GLIBC_THREAD_CACHE_MAX - 1,
            GLIBC_THREAD_CACHE_MAX,
            GLIBC_THREAD_CACHE_MAX + 1,
            4095,
            4096,
            4097,
            1 << 20,
        ];
        let byte = |at: usize| (at * 31 + at / 251) as u8;
        for align in [1, 16, 64, 4096] {
            for (from, to) in sizes.iter().flat_map(|&from| sizes.iter().map(move |&to| (from, to))) {
                let layout = Layout::from_size_align(from, align).unwrap();
                // SAFETY: sizes are not 0. A block is used within its size, and freed with its last layout.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert!(!block.is_null());
                    (0..from).for_each(|at| block.add(at).write(byte(at)));
                    let moved = Allocator.realloc(block, layout, to);
                    assert!(!moved.is_null() && moved.addr().is_multiple_of(align), "{from} to {to}, {align}");
                    let kept = std::slice::from_raw_parts(moved, from.min(to));
                    assert!(kept.iter().enumerate().all(|(at, &found)| found == byte(at)), "{from} to {to}, {align}");
                    // The whole new size is writable.
                    moved.write_bytes(1, to);
                    Allocator.dealloc(moved, Layout::from_size_align(to, align).unwrap());
                }
            }
        }
    }
}
