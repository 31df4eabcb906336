//! What can go wrong, each with what was being done, what was expected and what came.

use crate::data::{DataError, is_disk_full, is_unwritable_path};
use crate::lang::{action as doing_of, system_message};
use crate::tr;
use chumoku_nn::Error as Nn;
use chumoku_text::tokens::TokenizerError;
use std::path::PathBuf;

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something does not fit a kernel, a layer or a model.
    #[error("{}", crate::layer_errors::layer_error_message(_0))]
    Nn(#[from] chumoku_nn::Error),
    /// A data file cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The n-gram model cannot be trained.
    #[error(transparent)]
    Ngram(#[from] crate::ngram::NgramError),
    /// Translations and references that do not belong together.
    #[error(transparent)]
    Metric(#[from] crate::metrics::MetricError),
    /// A file could not be read.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", doing_of(action), path.display(), system_message(source)))]
    Io {
        /// What was being done, e.g. "reading".
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", doing_of(action), path.display(), system_message(source)))]
    Write {
        /// What was being done, e.g. "creating".
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A model folder that cannot be used.
    #[error("{}: {problem}", path.display())]
    Model {
        /// The file at fault.
        path: PathBuf,
        /// What was expected, what came, and what to do.
        problem: String,
    },
    /// A tokenizer that cannot be trained or used.
    #[error(transparent)]
    Tokenizer(TokenizerError),
    /// The output folder cannot be used.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The folder.
        path: PathBuf,
        /// Why not, and what to do.
        problem: String,
    },
    /// A setting out of its range.
    #[error("{0}")]
    Setting(String),
    /// A worked example that cannot be used.
    #[error("{}", tr!("{} {file}: {problem}", "{file}の{}: {problem}", doing_of(action)))]
    Example {
        /// What was being done, e.g. "checking".
        action: &'static str,
        /// Its file.
        file: String,
        /// What was expected, what came, and where.
        problem: String,
    },
    /// A file of tensors cannot be read or written.
    #[error(transparent)]
    Tensors(#[from] crate::tensors::TensorError),
    /// An input or attribute of an operator does not fit.
    #[error("{argument}: {problem}")]
    Operator {
        /// Its name.
        argument: String,
        /// What was expected, what came, and what to do.
        problem: String,
    },
    /// Training met a loss or gradient that is not a number.
    #[error("{0}")]
    NotFinite(String),
    /// The caller stopped training before there was a model.
    #[error("{}", tr!("training: stopped before there was a model", "学習: モデルができる前に中止されました"))]
    Interrupted,
    /// This process helped another one to train, to the end: the model is there.
    #[error("{}", tr!("training: helped to the end; the model is where the leader writes it", "学習: 最後まで手伝いました。モデルは主プロセスの出力先にあります"))]
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
    /// Wraps what the system said of a file.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action: doing, path, source }
    }

    /// Wraps what the system said when something was to be written.
    pub fn write(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Write { action: doing, path, source }
    }

    /// The argument may bear a name out of a file, with line feeds and worse in it.
    pub(crate) fn operator(argument: &str, problem: impl Into<String>) -> Error {
        Error::Operator { argument: crate::lang::show_controls(argument), problem: problem.into() }
    }

    /// What the system said, if it refused.
    fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Error::Io { source, .. } | Error::Write { source, .. } => Some(source),
            Error::Data(error) => error.system_error(),
            Error::Tensors(error) => error.system(),
            _ => None,
        }
    }

    /// Whether there was no room on the disk for what was to be written.
    pub fn is_full_disk(&self) -> bool {
        self.io_error().is_some_and(|error| is_disk_full(error.kind()))
    }

    /// Whether work was stopped because the caller asked for it, with nothing to show for it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Interrupted | Error::Ngram(crate::ngram::NgramError::Cancelled))
    }

    /// Whether the input or the use is at fault (exit code 2) rather than the work (exit code 1).
    ///
    /// A place that was named and cannot be written to at all is wrong use; so is a file that cannot be read. Writing that
    /// was begun and failed, as on a full disk, is failed work.
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
    fn a_place_that_was_named_is_at_fault_or_the_disk_is() {
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
        // A file that cannot be read through is unreadable input; writing that was begun and failed is failed work.
        for kind in [K::Other, K::BrokenPipe, K::UnexpectedEof, K::Interrupted] {
            assert_eq!(of(kind), [(true, false), (false, false)], "{kind:?}");
        }
    }
}
