//! The command line of this process, and its worker group.

use chumoku::train::WorkerGroup;
use std::ffi::OsString;
use std::sync::OnceLock;

/// A command line with the worker group that runs it.
struct Invocation {
    words: Vec<String>,
    workers: Option<WorkerGroup>,
}

static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// Returns the command line, starting with the program's name. It is not that of the process, which may be Python.
pub(crate) fn command_words() -> impl Iterator<Item = String> {
    INVOCATION.get().into_iter().flat_map(|call| call.words.iter().cloned())
}

/// Returns this process's place in a worker group that shares a training run.
pub(crate) fn worker_group() -> Option<WorkerGroup> {
    INVOCATION.get().and_then(|call| call.workers.clone())
}

/// Records the command line, once per process.
pub(crate) fn set(args: &[OsString], workers: Option<WorkerGroup>) {
    let words = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let _ = INVOCATION.set(Invocation { words, workers });
}
