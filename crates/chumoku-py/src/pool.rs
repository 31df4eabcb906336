//! The threads that calls from Python run on.
//!
//! They are a pool of our own, never rayon's global one, which other modules of the process may use. After `fork` a child has
//! the memory of its parent's pools but none of its threads, so a pool knows the process that made it, and another one is
//! made in the child. Nothing here is locked: a child could find a lock held by a thread that it does not have.
//!
//! PyTorch's threads spin for a while after each of its operations, and would keep ours from the cores. So calls with its tensors
//! run on its own threads, whose entry [`use_openmp`] is told.

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

/// How often Ctrl-C is looked for.
const OFTEN: Duration = Duration::from_millis(100);

/// A pool of so many threads in a process, and the one that was made after it.
struct Made {
    process: u32,
    threads: usize,
    pool: ThreadPool,
    next: OnceLock<Box<Made>>,
}

/// The pools: one for each number of threads that was used, of this process and of those that it was forked from. They stay:
/// the threads of a parent's cannot be waited for, and whoever sets the number of threads to and fro finds them again.
static POOLS: OnceLock<Box<Made>> = OnceLock::new();

/// How many threads were asked for; 0 if nobody asked.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The address of `GOMP_parallel`, 0 where it is not known, and the process that said so: OpenMP waits for ever where a child
/// asks for the threads that its parent had.
static OPENMP: (AtomicUsize, AtomicU32) = (AtomicUsize::new(0), AtomicU32::new(0));

/// The number of threads that calls use: what [`set_num_threads`] said, else what the environment does, else `usual`, else as
/// many as there are cores.
fn threads(usual: Option<usize>) -> usize {
    let said = |name: &str| std::env::var(name).ok()?.parse().ok().filter(|threads| (1..=1024).contains(threads));
    let asked = Some(THREADS.load(Ordering::Relaxed)).filter(|&threads| threads > 0);
    let wish = asked.or_else(|| said("CHUMOKU_NUM_THREADS")).or(usual).or_else(|| said("OMP_NUM_THREADS"));
    wish.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the calling thread alone: there is too little to wake another for.
    Here,
    /// On the pool.
    Pool,
    /// On so many threads of OpenMP, if nobody has said otherwise, or on the pool if OpenMP is not there. (One thread is this one.)
    OpenMp(usize),
}

/// Runs `work` without the lock of the interpreter.
pub(crate) fn run<R: Send>(py: Python<'_>, place: Place, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    match place {
        Place::Here => return Ok(py.detach(|| run_on_one_thread(work))),
        Place::OpenMp(usual) if threads(Some(usual)) == 1 => return Ok(py.detach(|| run_on_one_thread(work))),
        Place::OpenMp(usual) if OPENMP.1.load(Ordering::Acquire) == std::process::id() => {
            if let Some(team) = OpenMp::at(OPENMP.0.load(Ordering::Relaxed), threads(Some(usual))) {
                return Ok(py.detach(|| run_on_team(Arc::new(team), work)));
            }
        }
        Place::OpenMp(_) | Place::Pool => {}
    }
    let pool = the_pool()?;
    // A thread of the pool that waits in a call which Ctrl-C ends may take this up.
    Ok(py.detach(|| pool.install(|| cancel::run_detached(work))))
}

/// Runs on the pool what may take long, without the lock of the interpreter. On Ctrl-C it ends at its next operation, and what the
/// signal raises is raised.
pub(crate) fn run_long<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = the_pool()?;
    let mut raised = None;
    let first = &mut raised;
    let found = py.detach(move || {
        let flag = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = sync_channel(1);
        let of_work = Arc::clone(&flag);
        // Signals come to this thread, which waits here while the pool works.
        pool.in_place_scope(move |scope| {
            scope.spawn(move |_| {
                // The scope ends with the thread that waits: it is there to hear it.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(|| cancel::run_cancelable(&of_work, work))));
            });
            loop {
                match receiver.recv_timeout(OFTEN) {
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
        (None, _) => Err(PyRuntimeError::new_err("the work ended by a fault of the program")),
    }
}

/// A pool with as many threads as calls use, for work that outlives a call or may wait for Python: no thread that others wait for is
/// held by it.
pub(crate) fn own_pool() -> PyResult<ThreadPool> {
    built(threads(None))
}

fn built(threads: usize) -> PyResult<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("chumoku-{i}")).build();
    pool.map_err(|e| PyRuntimeError::new_err(format!("starting threads: {e}")))
}

/// The pool of this process with as many threads as calls use, made if it is not there yet.
pub(crate) fn the_pool() -> PyResult<&'static ThreadPool> {
    let (process, threads) = (std::process::id(), threads(None));
    let mut link = &POOLS;
    loop {
        while let Some(made) = link.get() {
            if (made.process, made.threads) == (process, threads) {
                return Ok(&made.pool);
            }
            link = &made.next;
        }
        let pool = built(threads)?;
        // Another thread may have been faster; then this pool ends, and what is there is looked at.
        let _ = link.set(Box::new(Made { process, threads, pool, next: OnceLock::new() }));
    }
}

/// Says where the OpenMP of another library starts its threads: the address of `GOMP_parallel`, or 0.
#[pyfunction]
pub(crate) fn use_openmp(address: usize) {
    OPENMP.0.store(address, Ordering::Relaxed);
    OPENMP.1.store(std::process::id(), Ordering::Release);
}

/// Sets how many threads calls use. Results do not depend on it.
#[pyfunction]
pub(crate) fn set_num_threads(threads: usize) -> PyResult<()> {
    if !(1..=1024).contains(&threads) {
        return Err(PyValueError::new_err(format!("set_num_threads: expected from 1 to 1024, got {threads}")));
    }
    THREADS.store(threads, Ordering::Relaxed);
    Ok(())
}

/// How many threads calls use.
#[pyfunction]
pub(crate) fn get_num_threads() -> usize {
    threads(None)
}
