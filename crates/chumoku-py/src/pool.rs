//! The threads that calls from Python run on.
//!
//! They are a pool of our own, never rayon's global one, which other modules of the process may use. After `fork` a child has
//! the memory of its parent's pool but none of its threads, so the pool knows the process that made it, and another one is
//! made in the child.
//!
//! PyTorch's threads spin for a while after each of its operations, and would keep ours from the cores. So calls with its tensors
//! run on its own threads, whose entry [`use_openmp`] is told.

use crate::addresses::OpenMp;
use chumoku_kernels::{on_one_thread, on_team};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

struct Made {
    process: u32,
    pool: Arc<ThreadPool>,
}

impl Made {
    /// Whether a child of the process that made the pool holds it. Its threads are not there: dropping it would wait for them.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

struct State {
    /// How many threads were asked for.
    threads: Option<usize>,
    made: Option<Made>,
    /// The address of `GOMP_parallel`, 0 where it is not known, and the process that said so: OpenMP waits for ever where a child
    /// asks for the threads that its parent had.
    openmp: (usize, u32),
}

static STATE: Mutex<State> = Mutex::new(State { threads: None, made: None, openmp: (0, 0) });

/// The number of threads that calls use: what [`set_num_threads`] said, else what the environment does, else `usual`, else as
/// many as there are cores.
fn threads(state: &State, usual: Option<usize>) -> usize {
    let said = |name: &str| std::env::var(name).ok()?.parse().ok().filter(|threads| (1..=1024).contains(threads));
    let wish = state.threads.or_else(|| said("CHUMOKU_NUM_THREADS")).or(usual).or_else(|| said("OMP_NUM_THREADS"));
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
    if place == Place::Here {
        return Ok(py.detach(|| on_one_thread(work)));
    }
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Place::OpenMp(usual) = place
        && threads(&state, Some(usual)) == 1
    {
        drop(state);
        return Ok(py.detach(|| on_one_thread(work)));
    }
    if let Place::OpenMp(usual) = place
        && state.openmp.1 == std::process::id()
        && let Some(team) = OpenMp::at(state.openmp.0, threads(&state, Some(usual)))
    {
        drop(state);
        return Ok(py.detach(|| on_team(Arc::new(team), work)));
    }
    drop(state);
    let pool = the_pool()?;
    Ok(py.detach(|| pool.install(work)))
}

/// The pool of this process, made if it is not there yet.
pub(crate) fn the_pool() -> PyResult<Arc<ThreadPool>> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = state.made.take_if(|made| made.is_inherited()) {
        std::mem::forget(made);
    }
    if let Some(made) = &state.made {
        return Ok(Arc::clone(&made.pool));
    }
    let name = |i| format!("chumoku-{i}");
    let pool = ThreadPoolBuilder::new().num_threads(threads(&state, None)).thread_name(name).build();
    let pool = Arc::new(pool.map_err(|e| PyRuntimeError::new_err(format!("starting threads: {e}")))?);
    state.made = Some(Made { process: std::process::id(), pool: Arc::clone(&pool) });
    Ok(pool)
}

/// Says where the OpenMP of another library starts its threads: the address of `GOMP_parallel`, or 0.
#[pyfunction]
pub(crate) fn use_openmp(address: usize) {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).openmp = (address, std::process::id());
}

/// Sets how many threads calls use. Results do not depend on it.
#[pyfunction]
pub(crate) fn set_num_threads(threads: usize) -> PyResult<()> {
    if !(1..=1024).contains(&threads) {
        return Err(PyValueError::new_err(format!("set_num_threads: expected from 1 to 1024, got {threads}")));
    }
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if state.threads != Some(threads) {
        state.threads = Some(threads);
        // Calls that run hold the pool until they end.
        if let Some(made) = state.made.take_if(|made| made.is_inherited()) {
            std::mem::forget(made);
        }
        state.made = None;
    }
    Ok(())
}

/// How many threads calls use.
#[pyfunction]
pub(crate) fn get_num_threads() -> usize {
    threads(&STATE.lock().unwrap_or_else(PoisonError::into_inner), None)
}
