//! The threads for calls from Python.
//!
//! Calls use a pool of their own. They never use rayon's global pool, since other modules of the process may use that.
//! After `fork`, a child process has the memory of its parent's pools but none of their threads. Each pool therefore
//! stores the id of the process that created it, and the child creates another. No locks are used here: a child could
//! inherit a lock held by a thread that does not exist in it.
//!
//! PyTorch's threads spin for a while after each operation, and would compete with ours for the cores. Calls with its
//! tensors therefore run on PyTorch's own threads, whose entry point [`use_openmp`] sets.

use crate::addresses::OpenMp;
use chumoku_kernels::{cancel, run_on_one_thread, run_on_team};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Interval between checks for Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A pool of a process, and a link to the pool that was created next.
struct PoolNode {
    process_id: u32,
    num_threads: usize,
    pool: ThreadPool,
    next: OnceLock<Box<PoolNode>>,
}

/// A linked list of pools, one per process and number of threads, including those of parent processes. Pools are never
/// freed. Threads of a parent cannot be joined, and a caller that alternates between thread counts reuses its pools.
static POOLS: OnceLock<Box<PoolNode>> = OnceLock::new();

/// The number of threads set by the caller; 0 if unset.
static REQUESTED_THREADS: AtomicUsize = AtomicUsize::new(0);

/// The address of `GOMP_parallel` (0 if unknown) and the id of the process that set it. OpenMP would hang in a forked
/// child that uses its parent's threads.
static OPENMP: (AtomicUsize, AtomicU32) = (AtomicUsize::new(0), AtomicU32::new(0));

/// The number of threads for calls. The order of precedence is [`set_num_threads`], `CHUMOKU_NUM_THREADS`, `default`,
/// `OMP_NUM_THREADS`, the number of cores.
fn num_threads(default: Option<usize>) -> usize {
    let from_environment =
        |name: &str| std::env::var(name).ok()?.parse().ok().filter(|threads| (1..=1024).contains(threads));
    let requested = Some(REQUESTED_THREADS.load(Ordering::Relaxed)).filter(|&threads| threads > 0);
    let wish = requested
        .or_else(|| from_environment("CHUMOKU_NUM_THREADS"))
        .or(default)
        .or_else(|| from_environment("OMP_NUM_THREADS"));
    wish.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The threads that run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    /// The calling thread only, for work too small to wake other threads.
    CallingThread,
    /// The thread pool.
    Pool,
    /// This number of OpenMP threads unless the user has set another, or the pool if OpenMP is not available. One
    /// thread is the calling thread.
    OpenMp(usize),
}

/// Runs `work` with the interpreter detached.
pub(crate) fn run<R: Send>(py: Python<'_>, place: Execution, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    match place {
        Execution::CallingThread => return Ok(py.detach(|| run_on_one_thread(work))),
        Execution::OpenMp(usual) if num_threads(Some(usual)) == 1 => return Ok(py.detach(|| run_on_one_thread(work))),
        Execution::OpenMp(usual) if OPENMP.1.load(Ordering::Acquire) == std::process::id() => {
            if let Some(team) = OpenMp::from_address(OPENMP.0.load(Ordering::Relaxed), num_threads(Some(usual))) {
                return Ok(py.detach(|| run_on_team(Arc::new(team), work)));
            }
        }
        Execution::OpenMp(_) | Execution::Pool => {}
    }
    let pool = shared_pool()?;
    // A pool thread that waits inside a cancellable call may pick this work up, so it gets its own cancellation scope.
    Ok(py.detach(|| pool.install(|| cancel::run_detached(work))))
}

/// Runs long work on the pool with the interpreter detached. Ctrl-C stops it at its next operation; the exception of
/// the signal handler is then raised.
pub(crate) fn run_long<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = shared_pool()?;
    let mut raised = None;
    let first = &mut raised;
    let found = py.detach(move || {
        let flag = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = sync_channel(1);
        let of_work = Arc::clone(&flag);
        // Signals arrive on this thread, which waits here while the pool works.
        pool.in_place_scope(move |scope| {
            scope.spawn(move |_| {
                // The receiver outlives the scope.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(|| cancel::run_cancelable(&of_work, work))));
            });
            loop {
                match receiver.recv_timeout(SIGNAL_CHECK_INTERVAL) {
                    Ok(found) => return Some(found),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if first.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    *first = Some(error);
                    flag.store(true, Ordering::Relaxed);
                }
            }
        })
    });
    match (raised, found) {
        (Some(raised), _) => Err(raised),
        (None, Some(Ok(Ok(found)))) => Ok(found),
        (None, Some(Err(panic))) => resume_unwind(panic),
        (None, _) => Err(PyRuntimeError::new_err("the call stopped because of an internal error")),
    }
}

/// Builds a separate pool with the current number of threads. It is for work that outlives a call or waits for Python,
/// so that it blocks no thread of the shared pool.
pub(crate) fn own_pool() -> PyResult<ThreadPool> {
    build_pool(num_threads(None))
}

fn build_pool(threads: usize) -> PyResult<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("chumoku-{i}")).build();
    pool.map_err(|e| PyRuntimeError::new_err(format!("starting threads: {e}")))
}

/// Returns this process's pool with the current number of threads, and creates it if necessary.
pub(crate) fn shared_pool() -> PyResult<&'static ThreadPool> {
    let (process, threads) = (std::process::id(), num_threads(None));
    let mut link = &POOLS;
    loop {
        while let Some(made) = link.get() {
            if (made.process_id, made.num_threads) == (process, threads) {
                return Ok(&made.pool);
            }
            link = &made.next;
        }
        let pool = build_pool(threads)?;
        // Another thread may have been faster. This pool is then dropped, and the loop looks at the new one.
        let _ = link.set(Box::new(PoolNode { process_id: process, num_threads: threads, pool, next: OnceLock::new() }));
    }
}

/// Sets the entry point of another library's OpenMP threads: the address of `GOMP_parallel`, or 0.
#[pyfunction]
pub(crate) fn use_openmp(address: usize) {
    OPENMP.0.store(address, Ordering::Relaxed);
    OPENMP.1.store(std::process::id(), Ordering::Release);
}

/// Sets the number of threads for calls. Results do not depend on it.
#[pyfunction]
pub(crate) fn set_num_threads(threads: usize) -> PyResult<()> {
    if !(1..=1024).contains(&threads) {
        return Err(PyValueError::new_err(format!("set_num_threads: expected from 1 to 1024, got {threads}")));
    }
    REQUESTED_THREADS.store(threads, Ordering::Relaxed);
    Ok(())
}

/// Returns the number of threads for calls.
#[pyfunction]
pub(crate) fn get_num_threads() -> usize {
    num_threads(None)
}
