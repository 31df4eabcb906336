//! Rewrites messages of the library: the command's flags become parameters of Python.

use chumoku::Error;
use chumoku::lang::FlagNames;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// Converts a library error to an exception, with parameters instead of flags.
pub(crate) fn to_py_err(error: &Error) -> PyErr {
    renamed(error, NAMES)
}

/// Converts an error of `read_table`, whose parameters are those of the command.
pub(crate) fn to_reading_error(error: &Error) -> PyErr {
    renamed(error, READING)
}

fn renamed(error: &Error, names: FlagNames) -> PyErr {
    let message = names.rename(&error.to_string());
    if error.is_usage() { PyValueError::new_err(message) } else { PyOSError::new_err(message) }
}

/// Phrases about flags and their Python wording, replaced in this order.
const PHRASES: &[(&str, &str)] = &[
    ("; choose another --out, or replace it with --force", "; give another out"),
    ("or start over with --force", "or give another out"),
    ("start over with --force", "give another out"),
    ("replace it with --force", "give another out"),
    ("give a folder with --out", "give a folder as out"),
    ("continue it with --resume", "continue it with resume=True"),
    ("`chumoku train … --resume`", "fit with resume=True"),
    ("`--resume` continues it", "fit with resume=True continues it"),
    (" with --skip-bad-rows", ""),
    ("train with --task labels to predict several", "give lists of labels as y to predict several"),
    ("train with --task classify", "train a TextClassifier"),
    ("--task score predicts", "TextRegressor predicts"),
    ("give a file with --valid, or more rows", "give more rows"),
    ("--optimize macro-f1", "optimize=\"macro_f1\""),
    ("give --hierarchy none", "give hierarchy=\"none\""),
    ("name another column with --label", "give another y"),
    ("Name another column with --label", "Give another y"),
    ("Name another with --label", "Give another y"),
    ("; does --label name the key or column that holds them?", ": give them as y"),
    ("name the columns with --text", "give texts or pairs alike"),
    ("try fewer epochs with --epochs", "try fewer epochs"),
    ("--header yes", "header=True"),
    ("--header no", "header=False"),
];

/// Flags and their parameters.
const PARAMETERS: &[(&str, &str)] = &[
    ("abstain", "abstain"),
    ("align", "align=\"{}\""),
    ("class-weights", "class_weight"),
    ("columns", "columns"),
    ("encoding", "encoding=\"{}\""),
    ("epochs", "epochs"),
    ("folds", "folds"),
    ("freeze", "freeze"),
    ("from", "from_pretrained"),
    ("hierarchy", "hierarchy"),
    ("label", "y"),
    ("labels", "y"),
    ("lora", "lora"),
    ("merge-labels", "merge_labels=True"),
    ("method", "method=\"{}\""),
    ("missing", "missing"),
    ("model", "model"),
    // Only prompts of language models, which `chat` puts into the template.
    ("no-chat", "generate()"),
    ("old", "old"),
    ("optimize", "optimize"),
    ("out", "out"),
    ("precision", "precision"),
    ("prompt", "prompt"),
    ("resume", "resume=True"),
    ("seed", "seed"),
    ("set", "settings"),
    ("separator", "separator"),
    ("settings", "settings"),
    ("sheet", "sheet=\"{}\""),
    ("text", "text"),
    ("tokens", "tokens"),
    ("tune", "tune"),
    ("weights", "class_weight"),
];

const NAMES: FlagNames = FlagNames { phrases: PHRASES, names: PARAMETERS };

/// Flags of reading, and the parameters of `read_table`.
pub(crate) const READING: FlagNames = FlagNames {
    phrases: &[("--header yes", "header=True"), ("--header no", "header=False"), ("--missing none", "missing=[]")],
    names: &[
        ("delimiter", "delimiter"),
        ("encoding", "encoding=\"{}\""),
        ("label", "label"),
        ("merge-labels", "merge_labels=True"),
        ("missing", "missing"),
        ("separator", "separator"),
        ("sheet", "sheet=\"{}\""),
        ("skip-bad-rows", "skip_bad_rows=True"),
        ("task", "task=\"{}\""),
        ("text", "text"),
    ],
};

/// Replaces flags in a message by parameters. Flags without a counterpart stay, as do whole commands (`chumoku train
/// --from X`).
pub(crate) fn with_parameter_names(message: &str) -> String {
    NAMES.rename(message)
}
