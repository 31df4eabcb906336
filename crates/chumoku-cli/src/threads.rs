//! The instruction set and the number of threads.

use crate::UsageError;
use chumoku_kernels::system;

/// Returns the number of physical cores that this process may use. Hyper-threads of one core count once, and system
/// limits (affinity, control groups) apply.
pub(crate) fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    system::physical_cores().map_or(allowed, |cores| allowed.min(cores))
}

/// Starts the global thread pool, and configures the allocator.
pub(crate) fn start_pool(requested: Option<usize>) -> anyhow::Result<usize> {
    // Respects the user's threshold for glibc's allocator.
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        chumoku::keep_freed_memory();
    }
    let threads = requested.unwrap_or_else(physical_cores);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    Ok(threads)
}

/// Refuses an unknown instruction set in `CHUMOKU_ISA`.
pub(crate) fn check_instruction_set() -> Result<(), UsageError> {
    let isa = std::env::var_os("CHUMOKU_ISA").unwrap_or_default();
    if isa.to_str().and_then(chumoku::isa_named).is_none() {
        let got = isa.display();
        refuse!(
            "CHUMOKU_ISA: expected scalar, avx2, avx512, avx512bf16 or amx, got {got}; unset it",
            "CHUMOKU_ISA: scalar、avx2、avx512、avx512bf16、amx のいずれかが必要ですが、{got} です。設定を外してください"
        );
    }
    Ok(())
}
