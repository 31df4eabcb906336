//! What can be wrong with a tokenizer.

use crate::lang::{action, system_message};
use crate::tr;
use std::path::PathBuf;

/// A tokenizer that cannot be trained, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// What was given to train it, or what it holds, does not do.
    #[error("{}", tr!("tokenizer: {}", "トークナイザー: {}", _0))]
    Invalid(String),
    /// A file that cannot be used.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was expected, what came, and what to do.
        problem: String,
    },
    /// A file that could not be read.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", action("reading"), path.display(), system_message(source)))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What is said if the library that runs tokenizers fails at `doing` something.
pub(super) fn library_error(doing: &str) -> impl Fn(tokenizers::Error) -> TokenizerError + '_ {
    move |error| TokenizerError::Invalid(format!("{doing}: {error}"))
}
