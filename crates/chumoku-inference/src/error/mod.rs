//! Errors of the library. Each message says what failed, what was expected and what was found.
//!
//! # Files
//!
//! - `layer_errors`: errors of `chumoku-nn` in both languages

pub(crate) mod layer_errors;

use crate::data::{DataError, is_disk_full, is_unwritable_path};
use crate::lang::{action as doing_of, system_message};
use crate::tr;
use chumoku_nn::Error as Nn;
use chumoku_text::tokens::TokenizerError;
use std::path::PathBuf;

/// The result type of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A mismatch with the requirements of a kernel, layer or model.
    #[error("{}", crate::error::layer_errors::layer_error_message(_0))]
    Nn(#[from] chumoku_nn::Error),
    /// A data file cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The n-gram model cannot be trained.
    #[error(transparent)]
    Ngram(#[from] crate::ngram::NgramError),
    /// Translations and references do not match.
    #[error(transparent)]
    Metric(#[from] crate::metrics::MetricError),
    /// A file could not be read.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", doing_of(action), path.display(), system_message(source)))]
    Io {
        /// The failed action, for example "reading".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", doing_of(action), path.display(), system_message(source)))]
    Write {
        /// The failed action, for example "creating".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A model folder cannot be used.
    #[error("{}: {problem}", path.display())]
    Model {
        /// The affected file.
        path: PathBuf,
        /// The problem: the expected and the found value, and what to do.
        problem: String,
    },
    /// A tokenizer cannot be trained or used.
    #[error(transparent)]
    Tokenizer(TokenizerError),
    /// The output folder cannot be used.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The folder.
        path: PathBuf,
        /// The reason, and what to do.
        problem: String,
    },
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// A worked example cannot be used.
    #[error("{}", tr!("{} {file}: {problem}", "{file}の{}: {problem}", doing_of(action)))]
    Example {
        /// The failed action, for example "checking".
        action: &'static str,
        /// The example's file.
        file: String,
        /// The problem: the expected and the found value, and where it is.
        problem: String,
    },
    /// A file of tensors cannot be read or written.
    #[error(transparent)]
    Tensors(#[from] crate::tensors::TensorError),
    /// An input or attribute of an operator does not fit.
    #[error("{argument}: {problem}")]
    Operator {
        /// The name of the input or attribute.
        argument: String,
        /// The problem: the expected and the found value, and what to do.
        problem: String,
    },
    /// Training produced a loss or gradient that is not a number.
    #[error("{0}")]
    NotFinite(String),
    /// The caller stopped training before the first model was saved.
    #[error("{}", tr!("training: stopped before the first model was saved", "学習: 最初のモデルを保存する前に中止されました"))]
    Interrupted,
    /// This process was a worker in another process's training run, which finished and saved the model.
    #[error("{}", tr!("training: this worker has finished; the model is in the output folder of the coordinator", "学習: ワーカーの処理が終わりました。モデルは主プロセスの出力先にあります"))]
    WorkerFinished,
}

impl From<TokenizerError> for Error {
    fn from(error: TokenizerError) -> Self {
        match error {
            TokenizerError::File { path, problem } => Error::Model { path, problem },
            TokenizerError::Io { path, source } => Error::Io { action: "reading", path, source },
            other => Error::Tokenizer(other),
        }
    }
}

impl From<chumoku_kernels::Error> for Error {
    fn from(error: chumoku_kernels::Error) -> Self {
        Error::Nn(error.into())
    }
}

impl Error {
    /// Wraps an operating-system error about a file.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action: doing, path, source }
    }

    /// Wraps an operating-system error about a write.
    pub fn write(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Write { action: doing, path, source }
    }

    /// Builds an operator error. The argument may be a name from a file with line feeds and control characters, so it
    /// is cleaned.
    pub fn operator(argument: &str, problem: impl Into<String>) -> Error {
        Error::Operator { argument: crate::lang::show_controls(argument), problem: problem.into() }
    }

    /// Returns the operating-system error, if there is one.
    fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Error::Io { source, .. } | Error::Write { source, .. } => Some(source),
            Error::Data(error) => error.system_error(),
            Error::Tensors(error) => error.system(),
            _ => None,
        }
    }

    /// Returns `true` if the disk was full.
    pub fn is_full_disk(&self) -> bool {
        self.io_error().is_some_and(|error| is_disk_full(error.kind()))
    }

    /// Returns `true` if the caller interrupted the work before it produced a result.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Interrupted | Error::Ngram(crate::ngram::NgramError::Cancelled))
    }

    /// Returns `true` for a usage error (exit code 2) and `false` for failed work (exit code 1).
    ///
    /// Unreadable input files and output paths that cannot be written at all are usage errors. A write that started and
    /// then failed, for example on a full disk, is failed work.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Nn(error) => !matches!(error, Nn::Kernel(_) | Nn::NanLogit),
            Error::NotFinite(_)
            | Error::Interrupted
            | Error::WorkerFinished
            | Error::Tokenizer(_)
            | Error::Ngram(_) => false,
            Error::Io { source, .. } => !is_disk_full(source.kind()),
            Error::Write { source, .. } => is_unwritable_path(source.kind()),
            Error::Data(error) => error.is_usage(),
            Error::Tensors(error) => error.is_usage(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn an_unwritable_path_is_a_usage_error_and_a_full_disk_is_not() {
        use ErrorKind as K;
        let of = |kind: ErrorKind| {
            [Error::io("reading", "x")(kind.into()), Error::write("writing", "x")(kind.into())]
                .map(|error| (error.is_usage(), error.is_full_disk()))
        };
        for kind in [K::StorageFull, K::QuotaExceeded, K::FileTooLarge] {
            assert_eq!(of(kind), [(false, true); 2], "{kind:?}");
        }
        for kind in [K::NotFound, K::PermissionDenied, K::NotADirectory, K::IsADirectory, K::ReadOnlyFilesystem] {
            assert_eq!(of(kind), [(true, false); 2], "{kind:?}");
        }
        // An input file with a read error is unreadable input. A write that started and then failed is failed work.
        for kind in [K::Other, K::BrokenPipe, K::UnexpectedEof, K::Interrupted] {
            assert_eq!(of(kind), [(true, false), (false, false)], "{kind:?}");
        }
    }
}
