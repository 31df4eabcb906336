//! The threads that calls from Python run on.
//!
//! They are a pool of our own, never rayon's global one, which other modules of the process may use. After `fork` a child has
//! the memory of its parent's pool but none of its threads, so the pool knows the process that made it, and another one is
//! made in the child.

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
}

static STATE: Mutex<State> = Mutex::new(State { threads: None, made: None });

/// The number of threads that calls use: what [`set_num_threads`] said, else as many as there are cores.
fn threads(state: &State) -> usize {
    state.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `work` on the pool, or, where it is too little to wake a thread for, on this thread alone.
pub(crate) fn run<R: Send>(py: Python<'_>, is_little: bool, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        if is_little {
            None
        } else {
            if let Some(made) = state.made.take_if(|made| made.is_inherited()) {
                std::mem::forget(made);
            }
            if state.made.is_none() {
                let name = |i| format!("chumoku-{i}");
                let pool = ThreadPoolBuilder::new().num_threads(threads(&state)).thread_name(name).build();
                let pool = pool.map_err(|e| PyRuntimeError::new_err(format!("starting threads: {e}")))?;
                state.made = Some(Made { process: std::process::id(), pool: Arc::new(pool) });
            }
            state.made.as_ref().map(|made| Arc::clone(&made.pool))
        }
    };
    Ok(py.detach(|| match pool {
        Some(pool) => pool.install(work),
        None => chumoku_kernels::on_one_thread(work),
    }))
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
    threads(&STATE.lock().unwrap_or_else(PoisonError::into_inner))
}
