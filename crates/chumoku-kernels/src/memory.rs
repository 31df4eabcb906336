//! Memory: not clearing what is written anyway, and scratch that is used again.

use crate::number::Real;
use crate::threads::{SharedMut, for_each};
use std::sync::atomic::{AtomicBool, Ordering};

/// A vector of `len` numbers without clearing memory that is written anyway.
///
/// # Safety
/// `write` must
///
/// * write every one of the `len` elements,
/// * read none before it is written,
/// * not keep what it is given after it returns.
pub(crate) unsafe fn fill_uninit<T: Copy>(len: usize, write: impl FnOnce(SharedMut<T>)) -> Vec<T> {
    let mut numbers = Vec::new();
    write(SharedMut::from_spare_capacity(&mut numbers, len));
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

/// Bytes aligned to 64, that grow and are kept.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer(Vec<CacheLine>);

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

impl AlignedBuffer {
    /// None yet.
    pub(crate) const fn new() -> Self {
        AlignedBuffer(Vec::new())
    }

    /// `len` bytes, holding whatever was there.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        let lines = len.div_ceil(64);
        if self.0.len() < lines {
            self.0.resize(lines, CacheLine([0; 64]));
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
    static SCRATCH: std::cell::RefCell<AlignedBuffer> = const { std::cell::RefCell::new(AlignedBuffer::new()) };
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
const POISON_BYTE: u8 = 0xFF;
/// Bytes after each buffer of poisoned memory that must stay as they are.
const GUARD_BYTES: usize = 256;

/// This thread's working memory, kept from one use to the next so that nothing is allocated once warm.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: AlignedBuffer,
    /// Where bands start, if there are any.
    guards: Vec<usize>,
}

impl Scratch {
    /// Takes it; it goes back when this is dropped.
    pub(crate) fn take() -> Self {
        Scratch { memory: SCRATCH.take(), guards: Vec::new() }
    }

    /// Buffers of these sizes in bytes, each aligned to 64, holding whatever was there. To be called once.
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
        assert!(is_whole || std::thread::panicking(), "a kernel wrote beyond a buffer of its working memory");
    }
}

/// Bytes aligned to 64.
#[derive(Debug)]
pub(crate) struct ScratchBuffer<'a>(&'a mut [u8]);

impl<'a> ScratchBuffer<'a> {
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
    pub(crate) fn into_ptr(self) -> *mut u8 {
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
    pub(crate) fn range_ptr(&self, start: usize, len: usize) -> *const u8 {
        self.0[start..][..len].as_ptr()
    }

    /// Byte `start`, from which `len` may be read and written while this is borrowed.
    ///
    /// # Panics
    /// If there are not so many.
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
    fn writing_beyond_a_buffer_shows() {
        // For the whole process: other tests of this kind only get bands and NaN too.
        poison_scratch(true);
        let mut scratch = Scratch::take();
        let [first, _] = scratch.split([100, 100]);
        // SAFETY: the band behind the buffer belongs to the same memory.
        unsafe { first.into_ptr().add(128).write(1) };
    }
}
