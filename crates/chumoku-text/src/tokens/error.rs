//! Tokenizer errors.

use crate::lang::{action, system_message};
use crate::tr;
use std::path::PathBuf;

/// A tokenizer that cannot be trained, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The training texts or the tokenizer's content are not usable.
    #[error("{}", tr!("tokenizer: {}", "トークナイザー: {}", _0))]
    Invalid(String),
    /// The content of a file is not usable.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// A message: what was expected, what was found, and what to do.
        problem: String,
    },
    /// A file that could not be read.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", action("reading"), path.display(), system_message(source)))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
}

/// Creates the error for a failure of the `tokenizers` library in an action.
pub(super) fn library_error(doing: &str) -> impl Fn(tokenizers::Error) -> TokenizerError + '_ {
    move |error| TokenizerError::Invalid(format!("{doing}: {error}"))
}
