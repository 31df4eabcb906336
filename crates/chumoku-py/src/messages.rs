//! Rewrites messages of the library: the command's flags become parameters of Python.

use chumoku::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// Converts a library error to an exception, with parameters instead of flags.
pub(crate) fn to_py_err(error: &Error) -> PyErr {
    let message = with_parameter_names(&error.to_string());
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
];

/// Flags whose parameter has another name.
const PARAMETERS: &[(&str, &str)] = &[
    ("from", "from_pretrained"),
    ("weights", "class_weight"),
    ("class-weights", "class_weight"),
    ("set", "settings"),
    ("label", "y"),
    ("labels", "y"),
    ("resume", "resume=True"),
    ("merge-labels", "merge_labels=True"),
];

/// Flags whose parameter has the same name.
const SAME_NAME: &[&str] = &[
    "abstain",
    "columns",
    "epochs",
    "folds",
    "freeze",
    "hierarchy",
    "lora",
    "missing",
    "model",
    "old",
    "optimize",
    "out",
    "precision",
    "prompt",
    "seed",
    "settings",
    "text",
    "tokens",
    "tune",
];

/// Replaces flags in a message by parameters. Flags without a counterpart stay, as do whole commands (`chumoku train
/// --from X`).
pub(crate) fn with_parameter_names(message: &str) -> String {
    let mut message = message.to_owned();
    for (of_command, of_python) in PHRASES {
        message = message.replace(of_command, of_python);
    }
    let mut found = String::with_capacity(message.len());
    let mut rest = message.as_str();
    while let Some(at) = rest.find(COMMAND_START) {
        let end = rest[at + 1..].find('`').map_or(rest.len(), |end| at + 1 + end);
        replace_flags(&rest[..at], &mut found);
        found.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    replace_flags(rest, &mut found);
    found
}

/// The beginning of a whole command in a message.
const COMMAND_START: &str = "`chumoku ";

fn replace_flags(text: &str, found: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, flag) = rest.split_at(at);
        let name = flag[2..].split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap_or("");
        let is_flag = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-') && !name.starts_with('-');
        found.push_str(before);
        match parameter_for_flag(name).filter(|_| is_flag) {
            Some(parameter) => found.push_str(parameter),
            None => found.push_str(&flag[..2 + name.len()]),
        }
        rest = &flag[2 + name.len()..];
    }
    found.push_str(rest);
}

fn parameter_for_flag(flag: &str) -> Option<&str> {
    let named = PARAMETERS.iter().find(|(name, _)| *name == flag).map(|(_, parameter)| *parameter);
    named.or_else(|| SAME_NAME.contains(&flag).then_some(flag))
}
