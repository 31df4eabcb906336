//! Memory: vectors without clearing, and reusable scratch memory.

use crate::number::Real;
use crate::threads::{SharedMut, for_each};
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates a vector of `len` values without clearing the memory first, because `write` fills it.
///
/// # Safety
/// `write` must
///
/// * write every one of the `len` elements,
/// * read none before it is written,
/// * not keep its argument after it returns.
pub(crate) unsafe fn fill_uninit<T: Copy>(len: usize, write: impl FnOnce(SharedMut<T>)) -> Vec<T> {
    let mut numbers = Vec::new();
    write(SharedMut::from_spare_capacity(&mut numbers, len));
    // SAFETY: there is space for `len` elements, and every one has been written, as the caller promises.
    unsafe { numbers.set_len(len) };
    numbers
}

/// Creates a vector of `len` zeros, written by all threads.
pub fn zeros<T: Real>(len: usize) -> Vec<T> {
    const PIECE: usize = 1 << 15;
    const ZEROS: usize = 1 << 8;
    // SAFETY: the pieces and their parts are disjoint ranges that cover the vector. Nothing is read.
    unsafe {
        fill_uninit(len, |numbers| {
            for_each(len.div_ceil(PIECE), len, |piece| {
                for start in (piece * PIECE..len.min((piece + 1) * PIECE)).step_by(ZEROS) {
                    // Each piece is its own range.
                    numbers.copy_from(start, &[T::ZERO; ZEROS][..ZEROS.min(len - start)]);
                }
            });
        })
    }
}

/// A growing buffer of bytes aligned to 64, for reuse.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer(Vec<CacheLine>);

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

impl AlignedBuffer {
    /// Creates an empty buffer.
    pub(crate) const fn new() -> Self {
        AlignedBuffer(Vec::new())
    }

    /// Returns `len` bytes, with their previous contents.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        let lines = len.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, CacheLine([0; 64]));
        }
        // SAFETY: a line is 64 plain bytes, and there are enough of them, exclusively borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    /// Returns `len` f32 values, with their previous contents.
    pub(crate) fn floats(&mut self, len: usize) -> &mut [f32] {
        let bytes = self.bytes(4 * len);
        // SAFETY: four bytes each, aligned to 64. Any bits are a valid f32.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// Returns all bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: a line is 64 plain bytes, and these are all the lines, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 64 * self.0.len()) }
    }
}

thread_local! {
    static SCRATCH: std::cell::RefCell<AlignedBuffer> = const { std::cell::RefCell::new(AlignedBuffer::new()) };
}

static POISON: AtomicBool = AtomicBool::new(false);

/// Fills scratch memory with NaN whenever it is taken, in the whole process, and adds guard bytes between its buffers.
/// For tests: it exposes results that depend on the leftovers of an earlier operation, and kernels that write beyond
/// their buffers.
#[doc(hidden)]
pub fn poison_scratch(poison: bool) {
    POISON.store(poison, Ordering::Relaxed);
}

/// Fill byte of poisoned memory: NaN as f32 and as bf16.
const POISON_BYTE: u8 = 0xFF;
/// Guard bytes after each buffer of poisoned memory, which must not change.
const GUARD_BYTES: usize = 256;

/// This thread's scratch memory. It is kept between uses, so that nothing is allocated once warm.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: AlignedBuffer,
    /// Offsets of the guard bytes, if there are any.
    guards: Vec<usize>,
}

impl Scratch {
    /// Takes the scratch memory. It is returned when the value is dropped.
    pub(crate) fn take() -> Self {
        Scratch { memory: SCRATCH.take(), guards: Vec::new() }
    }

    /// Splits the memory into buffers of these sizes in bytes, aligned to 64, with their previous contents. To be
    /// called once.
    pub(crate) fn split<const N: usize>(&mut self, sizes: [usize; N]) -> [ScratchBuffer<'_>; N] {
        let is_poisoned = POISON.load(Ordering::Relaxed);
        let sizes = sizes.map(|size| (size, size.next_multiple_of(64) + if is_poisoned { GUARD_BYTES } else { 0 }));
        let mut rest = self.memory.bytes(sizes.iter().map(|(_, room)| room).sum());
        if is_poisoned {
            rest.fill(POISON_BYTE);
            let mut end = 0;
            self.guards.extend(sizes.iter().map(|(_, room)| {
                end += room;
                end - GUARD_BYTES
            }));
        }
        sizes.map(|(size, room)| {
            let (buffer, after) = std::mem::take(&mut rest).split_at_mut(room);
            rest = after;
            ScratchBuffer(&mut buffer[..size])
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let memory = self.memory.as_bytes();
        let is_whole =
            self.guards.iter().all(|&band| memory[band..][..GUARD_BYTES].iter().all(|&byte| byte == POISON_BYTE));
        SCRATCH.set(std::mem::take(&mut self.memory));
        assert!(is_whole || std::thread::panicking(), "a kernel wrote beyond a buffer of its scratch memory");
    }
}

/// A range of scratch memory, aligned to 64 bytes.
#[derive(Debug)]
pub(crate) struct ScratchBuffer<'a>(&'a mut [u8]);

impl<'a> ScratchBuffer<'a> {
    /// Converts the bytes to f32 values.
    pub(crate) fn into_f32(self) -> &'a mut [f32] {
        // SAFETY: the bytes are aligned, initialized and exclusively borrowed, and any four of them are a valid f32.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / 4) }
    }

    /// Returns the bytes as f32 values, for as long as this is borrowed.
    #[inline(always)]
    pub(crate) fn as_f32_mut(&mut self) -> &mut [f32] {
        // SAFETY: the bytes are aligned, initialized and exclusively borrowed, and any four of them are a valid f32.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / 4) }
    }

    /// Returns a pointer to the first byte, through which all bytes may be accessed while the scratch memory is
    /// borrowed.
    pub(crate) fn into_ptr(self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Returns the number of bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a pointer to the first byte, through which all bytes may be read while this is borrowed.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Returns a pointer to the first byte, through which all bytes may be read and written while this is borrowed.
    #[inline(always)]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Returns a pointer to byte `start`, through which `len` bytes may be read while this is borrowed.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline(always)]
    pub(crate) fn range_ptr(&self, start: usize, len: usize) -> *const u8 {
        self.0[start..][..len].as_ptr()
    }

    /// Returns a pointer to byte `start`, through which `len` bytes may be read and written while this is borrowed.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline(always)]
    pub(crate) fn range_mut_ptr(&mut self, start: usize, len: usize) -> *mut u8 {
        self.0[start..][..len].as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "beyond a buffer"]
    fn writing_beyond_a_buffer_is_detected() {
        // This applies to the whole process: other tests merely get guard bytes and NaN too.
        poison_scratch(true);
        let mut scratch = Scratch::take();
        let [first, _] = scratch.split([100, 100]);
        // SAFETY: the guard bytes after the buffer belong to the same memory.
        unsafe { first.into_ptr().add(128).write(1) };
    }
}
