//! Keeping freed memory for the next step.

/// Asks the C library's allocator to keep what is freed instead of handing it back to the system.
///
/// A training step frees and allocates the same large arrays as the one before. Handed back in between, every page
/// must be cleared and mapped again, which took a fifth of a step's time. For programs that train or predict for long;
/// it concerns the whole process and does not raise its peak. Where the C library is not glibc it does nothing.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // From glibc's malloc.h.
        const M_TRIM_THRESHOLD: c_int = -1;
        const M_MMAP_THRESHOLD: c_int = -3;
        // SAFETY: mallopt takes two integers and may be called at any time; unknown values are refused, not harmful.
        unsafe {
            mallopt(M_MMAP_THRESHOLD, 1 << 30);
            mallopt(M_TRIM_THRESHOLD, c_int::MAX);
        }
    }
}
