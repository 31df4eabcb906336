//! Chumoku's extension module for Python, `chumoku._chumoku`, which the package `chumoku` calls.
//!
//! The package in `python/chumoku` defines the names, defaults, shapes and errors that users see.
//!
//! # Files
//!
//! - `addresses`: arrays of Python as slices; the only `unsafe` outside the kernels
//! - `attention`: attention on arrays
//! - `doctor`: `chumoku.doctor`
//! - `explanations`: explanations and their pages
//! - `messages`: parameter names in messages
//! - `microscope`: traces, checks, counts
//! - `models`: translators, language models, encoders
//! - `outputs`: files that Python writes
//! - `pool`: thread pools, safe with `fork`
//! - `predictors`: classifiers and taggers
//! - `row`: rows of a pair or with feature columns
//! - `rows`: predictions of rows, also of other processes
//! - `tables`: labeled files
//! - `training`: training that Ctrl-C can stop
//! - `worker_group`: distributed training
//!
//! # Python files
//!
//! In `python/chumoku`; `_chumoku.pyi` has the types of this module.
//!
//! - `__main__`: the command, as `python -m chumoku`
//! - `_arrays`: conversion of any library's arrays for the kernels, and back
//! - `_classifier`: `TextClassifier`
//! - `_doctor`: `doctor`
//! - `_autoencoder`: `Autoencoder`
//! - `_embedder`: `Embedder`
//! - `_estimator`: the base of all estimators: parameters, training, folders, pickling
//! - `_files`: files that are written atomically
//! - `_functions`: `attention` and `scaled_dot_product_attention`
//! - `_inputs`: texts and labels from lists, arrays and tables
//! - `_labels`: labels of any type
//! - `_language_model`: `LanguageModel`
//! - `_microscope`: `trace`, `check` and `count`
//! - `_numpy`: attention on NumPy arrays
//! - `_operators`: PyTorch operators, with gradients, shapes and compiled graphs
//! - `_pages`: explanations
//! - `_predictor`: the base of classifiers and regressors
//! - `_progress`: training progress
//! - `_reading`: `read_table`
//! - `_regressor`: `TextRegressor`
//! - `_tables`: rows of tables
//! - `_tagger`: `TextTagger`
//! - `_translator`: `Translator`
//! - `_watch`: `watch`: what it records
//! - `_watch_calls`: the calls that `watch` intercepts
//! - `_watch_page`: the page of `watch`
//! - `arrow`: Arrow tables, also for Spark
//! - `torch`: functions on tensors, and the provider for PyTorch's own function
//! - `transformers`: `attn_implementation="chumoku"`
//! - `ray/__main__`: `python -m chumoku.ray`
//! - `ray/_chunks`: files in chunks
//! - `ray/_cluster`: the cluster of a command line
//! - `ray/_command`: the command line
//! - `ray/_coordinator`: the coordinator of a distributed run
//! - `ray/_data`: datasets of Ray Data
//! - `ray/_messages`: messages
//! - `ray/_train`: training on a cluster
//! - `ray/_worker`: a worker of a distributed run

mod addresses;
mod attention;
mod doctor;
mod explanations;
mod messages;
mod microscope;
mod models;
mod outputs;
mod pool;
mod predictors;
mod row;
mod rows;
mod tables;
mod training;
mod worker_group;

use pyo3::prelude::*;

/// Chumoku's native functions; see the package `chumoku`.
#[pymodule(gil_used = false)]
fn _chumoku(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<attention::Options>()?;
    module.add_class::<predictors::Classifier>()?;
    module.add_class::<row::Row>()?;
    module.add_class::<predictors::Tagger>()?;
    module.add_class::<models::Translator>()?;
    module.add_class::<models::Generator>()?;
    module.add_class::<models::TextStream>()?;
    module.add_class::<models::Embedder>()?;
    module.add_class::<models::Autoencoder>()?;
    module.add_class::<rows::RowReader>()?;
    module.add_class::<rows::RowAnswerer>()?;
    module.add_class::<rows::RowPredictor>()?;
    module.add_class::<explanations::Page>()?;
    module.add_class::<microscope::Trace>()?;
    module.add_class::<doctor::DoctorResult>()?;
    module.add_class::<outputs::Output>()?;
    module.add_function(wrap_pyfunction!(models::model_kind, module)?)?;
    module.add_function(wrap_pyfunction!(row::joined, module)?)?;
    module.add_function(wrap_pyfunction!(row::beside, module)?)?;
    module.add_function(wrap_pyfunction!(predictors::span_f1, module)?)?;
    module.add_function(wrap_pyfunction!(rows::unanswered, module)?)?;
    module.add_function(wrap_pyfunction!(training::train, module)?)?;
    module.add_function(wrap_pyfunction!(doctor::examine, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_table, module)?)?;
    module.add_function(wrap_pyfunction!(tables::read_labels, module)?)?;
    module.add_function(wrap_pyfunction!(tables::merged_labels, module)?)?;
    module.add_function(wrap_pyfunction!(tables::label_note, module)?)?;
    module.add_function(wrap_pyfunction!(microscope::example_names, module)?)?;
    module.add_function(wrap_pyfunction!(microscope::check, module)?)?;
    module.add_function(wrap_pyfunction!(microscope::count, module)?)?;
    module.add_function(wrap_pyfunction!(outputs::is_one_of, module)?)?;
    module.add_function(wrap_pyfunction!(outputs::write_file, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_forward, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_backward, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_weights, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_plan, module)?)?;
    module.add_function(wrap_pyfunction!(pool::set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(pool::get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(pool::use_openmp, module)?)?;
    module.add_function(wrap_pyfunction!(instruction_set, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(worker_group::run_in_worker_group, module)?)?;
    module.add_function(wrap_pyfunction!(worker_group::joined_gradients, module)?)?;
    Ok(())
}

/// Runs the command `chumoku` and returns its exit code. `args` starts with the name of the command. Can run once per
/// process.
#[pyfunction]
fn run_command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| chumoku_cli::run(args).number())
}

/// The instruction set that calls use: "avx2", "avx512", "avx512bf16", "amx" or "scalar".
#[pyfunction]
fn instruction_set() -> String {
    chumoku_kernels::active_isa().to_string()
}
