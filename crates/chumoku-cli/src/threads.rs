//! How many threads to use.

use chumoku_kernels::system;

/// The physical cores that this process may use: hyper-threads of one core count once, and limits of the system
/// (affinity, control groups) are kept.
pub(crate) fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    system::physical_cores().map_or(allowed, |cores| allowed.min(cores))
}

/// Sets up the pool that all work of this process runs in, and its memory.
pub(crate) fn start_pool(wanted: Option<usize>) -> anyhow::Result<usize> {
    // A threshold that the user gives glibc's allocator counts.
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        chumoku::keep_freed_memory();
    }
    let threads = wanted.unwrap_or_else(physical_cores);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    Ok(threads)
}
