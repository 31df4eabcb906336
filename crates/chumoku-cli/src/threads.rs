//! Number of threads.

use chumoku_kernels::system;

/// Returns the number of physical cores that this process may use. Hyper-threads of one core count once, and system
/// limits (affinity, control groups) apply.
pub(crate) fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    system::physical_cores().map_or(allowed, |cores| allowed.min(cores))
}

/// Starts the global thread pool, and configures the allocator.
pub(crate) fn start_pool(wanted: Option<usize>) -> anyhow::Result<usize> {
    // Respects the user's threshold for glibc's allocator.
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        chumoku::keep_freed_memory();
    }
    let threads = wanted.unwrap_or_else(physical_cores);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    Ok(threads)
}
