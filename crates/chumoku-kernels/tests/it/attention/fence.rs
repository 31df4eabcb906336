//! Buffers between inaccessible pages: an access outside of the buffer ends the program.

use std::ops::Deref;

/// The end of the buffer that directly touches an inaccessible page. The other end may be almost a page away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// A copy of values between two inaccessible pages, one of them directly adjacent.
#[cfg(unix)]
pub(crate) struct Fenced<T> {
    map: *mut libc::c_void,
    bytes: usize,
    start: *const T,
    len: usize,
}

#[cfg(unix)]
impl<T: Copy> Fenced<T> {
    pub(crate) fn new(numbers: &[T], side: Side) -> Self {
        // SAFETY: queries a constant of the system.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page size");
        let size = size_of_val(numbers);
        let middle = size.next_multiple_of(page);
        let bytes = middle + 2 * page;
        // SAFETY: a new private mapping. Its middle is made accessible, and the values fit there: at its start, which
        // is page-aligned, or at its end, a whole number of T before a page-aligned address.
        unsafe {
            let (flags, none) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_NONE);
            let map = libc::mmap(std::ptr::null_mut(), bytes, none, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED, "mmap");
            let open = map.byte_add(page);
            if middle > 0 {
                assert_eq!(libc::mprotect(open, middle, libc::PROT_READ | libc::PROT_WRITE), 0, "mprotect");
            }
            let start = open.byte_add(if side == Side::Before { 0 } else { middle - size }).cast::<T>();
            start.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len());
            Fenced { map, bytes, start, len: numbers.len() }
        }
    }
}

#[cfg(unix)]
impl<T> Deref for Fenced<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the values were written by the constructor, and are unmapped only on drop.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

#[cfg(unix)]
impl<T> Drop for Fenced<T> {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no borrow of the values outlives it.
        unsafe { libc::munmap(self.map, self.bytes) };
    }
}

/// A plain copy, on systems without page protection.
#[cfg(not(unix))]
pub(crate) struct Fenced<T>(Vec<T>);

#[cfg(not(unix))]
impl<T: Copy> Fenced<T> {
    pub(crate) fn new(numbers: &[T], _: Side) -> Self {
        Fenced(numbers.to_vec())
    }
}

#[cfg(not(unix))]
impl<T> Deref for Fenced<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}
