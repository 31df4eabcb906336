//! Distributed training. The command runs in this process; Python sends weights to workers and brings gradients back.
//!
//! Python passes two objects, whose methods run on the training thread. Python owns the arrays, as in `addresses`. Each
//! array object is held while its elements are read or written.

use crate::addresses::{Array, OutputArrays};
use crate::pool::{self, Execution};
use chumoku::train::{
    BatchPosition, Coordinator, GradientTerms, StepOutput, TrainMicroBatch, Worker, WorkerGroup, combine_gradients,
};
use chumoku::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// The output of a batch or micro-batch as a tuple: loss, weight, tokens.
type StepTuple = (f64, f64, usize);

fn step_output((loss, weight, tokens): StepTuple) -> StepOutput {
    StepOutput::new(loss, weight, tokens)
}

fn step_tuple(output: StepOutput) -> StepTuple {
    (output.loss, output.weight, output.tokens)
}

/// Converts an exception of Python to a training error.
fn training_error(py: Python<'_>, error: &PyErr) -> Error {
    Error::Setting(error.value(py).to_string())
}

fn terms_json(terms: &GradientTerms) -> String {
    serde_json::to_string(terms).expect("terms are plain data")
}

/// Attaches to the interpreter, calls a method, and converts exceptions to errors.
fn call_python<R>(object: &Py<PyAny>, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> Result<R> {
    Python::attach(|py| work(object.bind(py)).map_err(|error| training_error(py, &error)))
}

/// The coordinator object of Python. Its methods are `begin(terms)`, `weights_buffer(numbers)` (an array for weights),
/// `train_step(epoch, batch, step, parts)` (an array with the mean gradient, then loss, weight, tokens) and
/// `take_messages()`.
struct PyCoordinator(Py<PyAny>);

impl fmt::Debug for PyCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyCoordinator")
    }
}

impl Coordinator for PyCoordinator {
    fn start(&self, terms: &GradientTerms) -> Result<()> {
        call_python(&self.0, |coordinator| coordinator.call_method1("begin", (terms_json(terms),)).map(drop))
    }

    fn train_step(
        &self,
        params: &[f32],
        at: BatchPosition,
        micro_batches: usize,
        grads: &mut [f32],
    ) -> Result<StepOutput> {
        call_python(&self.0, |coordinator| {
            let (_held, buffer): (Py<PyAny>, Array) =
                coordinator.call_method1("weights_buffer", (params.len(),))?.extract()?;
            check_len(OutputArrays::new(vec![&buffer], &[])?.next::<f32>("weights_buffer")?, params.len())?
                .copy_from_slice(params);
            let found = coordinator.call_method1("train_step", (at.epoch, at.batch, at.step, micro_batches))?;
            let (_held, sum, whole): (Py<PyAny>, Array, StepTuple) = found.extract()?;
            let sum = sum.slice::<f32>("train_step")?;
            if sum.len() != grads.len() {
                let problem = format!("train_step: expected {} numbers, got {}", grads.len(), sum.len());
                return Err(PyValueError::new_err(problem));
            }
            grads.copy_from_slice(sum);
            Ok(step_output(whole))
        })
    }

    fn take_messages(&self) -> Vec<String> {
        call_python(&self.0, |coordinator| coordinator.call_method0("take_messages")?.extract()).unwrap_or_default()
    }
}

fn check_len(slice: &mut [f32], expected: usize) -> PyResult<&mut [f32]> {
    match slice.len() == expected {
        true => Ok(slice),
        false => Err(PyValueError::new_err(format!("expected an array of {expected} numbers, got {}", slice.len()))),
    }
}

/// The worker object of Python. Its methods are `begin(terms)`, `next()` (weights, epoch, batch, step, micro-batch, and
/// an array for the gradient; None at the end), `done(loss, weight, tokens)` and `failed(problem)`.
struct PyWorker(Py<PyAny>);

impl fmt::Debug for PyWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyWorker")
    }
}

/// A request to a worker: the weight array (object and memory), (epoch, batch, step), the micro-batch index, and the
/// gradient array.
type MicroBatchRequest = ((Py<PyAny>, Array), (u64, u64, u64), usize, (Py<PyAny>, Array));

impl Worker for PyWorker {
    fn run(&self, terms: &GradientTerms, learn: &mut TrainMicroBatch<'_>) -> Result<()> {
        call_python(&self.0, |worker| worker.call_method1("begin", (terms_json(terms),)).map(drop))?;
        loop {
            let request: Option<MicroBatchRequest> =
                call_python(&self.0, |worker| worker.call_method0("next")?.extract())?;
            let Some(((_weights, params), (epoch, batch, step), part, (_gradient, into))) = request else {
                return Ok(());
            };
            // The interpreter is detached here.
            let to_error = |error: PyErr| Python::attach(|py| training_error(py, &error));
            let weights = params.slice::<f32>("weights").map_err(to_error)?;
            let mut written = OutputArrays::new(vec![&into], &[&params]).map_err(to_error)?;
            let gradient = written.next::<f32>("gradient").map_err(to_error)?;
            match learn(weights, BatchPosition { epoch, batch, step }, part, gradient) {
                Ok(output) => call_python(&self.0, |worker| worker.call_method1("done", step_tuple(output)).map(drop))?,
                Err(error) => {
                    call_python(&self.0, |worker| worker.call_method1("failed", (error.to_string(),)).map(drop))?;
                    return Err(error);
                }
            }
        }
    }
}

/// Runs the command `chumoku train` as the coordinator of a worker group, or as a worker if `is_coordinator` is false.
/// `args` starts with the name of the command. Returns the exit code. Can run once per process.
#[pyfunction]
pub(crate) fn run_in_worker_group(py: Python<'_>, args: Vec<OsString>, member: Py<PyAny>, is_coordinator: bool) -> u8 {
    let group = match is_coordinator {
        true => WorkerGroup::Coordinator(Arc::new(PyCoordinator(member))),
        false => WorkerGroup::Worker(Arc::new(PyWorker(member))),
    };
    py.detach(|| chumoku_cli::run_with_workers(args, Some(group)).number())
}

/// Writes the mean gradient to `sum`, from the same slice of each micro-batch's gradient, as a single process adds
/// them. `parts` holds loss, weight and tokens of each micro-batch. Returns those of the whole batch.
#[pyfunction]
pub(crate) fn joined_gradients(
    py: Python<'_>,
    parts: Vec<StepTuple>,
    grads: Vec<Array>,
    sum: Array,
) -> PyResult<StepTuple> {
    let read: Vec<&Array> = grads.iter().collect();
    let mut written = OutputArrays::new(vec![&sum], &read)?;
    let sum = written.next::<f32>("sum")?;
    let grads = grads.iter().map(|grad| grad.slice::<f32>("gradient")).collect::<PyResult<Vec<_>>>()?;
    if parts.len() != grads.len() && !grads.is_empty() {
        return Err(PyValueError::new_err(format!("expected {} gradients, got {}", parts.len(), grads.len())));
    }
    let parts: Vec<StepOutput> = parts.into_iter().map(step_output).collect();
    // Runs on the calling thread, since the pool may be busy with training.
    let whole = pool::run(py, Execution::CallingThread, || combine_gradients(&parts, &grads, sum))?;
    whole.map(step_tuple).map_err(|error| PyValueError::new_err(error.to_string()))
}
