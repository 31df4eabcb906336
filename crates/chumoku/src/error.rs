//! What can go wrong, each with what was being done, what was expected and what came.

use crate::data::DataError;
use crate::lang::{doing as doing_of, system};
use crate::tr;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument of a kernel does not fit.
    #[error(transparent)]
    Kernel(#[from] chumoku_kernels::Error),
    /// A data file cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The n-gram model cannot be trained.
    #[error(transparent)]
    Ngram(#[from] crate::ngram::NgramError),
    /// Translations and references that do not belong together.
    #[error(transparent)]
    Metric(#[from] crate::metrics::MetricError),
    /// A sequence is longer than the model's positions.
    #[error("{}", tr!("a sequence of {found} tokens is longer than the {limit} positions of the model", "{found} トークンの系列は、モデルの位置の数 {limit} を超えています"))]
    TooLong {
        /// Positions of the model.
        limit: usize,
        /// Tokens of the sequence.
        found: usize,
    },
    /// Heads that do not divide the width.
    #[error("{}", tr!("d_model must be a multiple of num_heads, and both at least 1: got {d_model} and {num_heads}", "d_model は num_heads の倍数で、どちらも 1 以上でなければなりません: {d_model} と {num_heads}"))]
    Heads {
        /// The width.
        d_model: usize,
        /// The heads.
        num_heads: usize,
    },
    /// A file could not be read or written.
    #[error("{}", tr!("{} {}: {}", "{1}: {0}に失敗しました: {2}", doing_of(doing), path.display(), system(source)))]
    Io {
        /// What was being done, e.g. "reading".
        doing: &'static str,
        /// To which file.
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
    #[error("{}", tr!("tokenizer: {}", "トークナイザー: {}", _0))]
    Tokenizer(String),
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
    #[error("{}", tr!("{} {file}: {problem}", "{file}の{}: {problem}", doing_of(doing)))]
    Example {
        /// What was being done, e.g. "checking".
        doing: &'static str,
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
}

impl Error {
    /// Wraps what the system said of a file.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { doing, path, source }
    }

    /// The argument may bear a name out of a file, with line feeds and worse in it.
    pub(crate) fn operator(argument: &str, problem: impl Into<String>) -> Error {
        Error::Operator { argument: crate::view::clean(argument), problem: problem.into() }
    }

    /// Whether there was no room on the disk for what was to be written.
    pub fn is_full_disk(&self) -> bool {
        let (Error::Io { source, .. } | Error::Data(DataError::Io { source, .. })) = self else { return false };
        matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// Whether work was stopped because the caller asked for it, with nothing to show for it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Ngram(crate::ngram::NgramError::Cancelled))
    }

    /// Whether the input or the use is at fault (exit code 2) rather than the work (exit code 1).
    pub fn is_usage(&self) -> bool {
        !matches!(self, Error::Kernel(_) | Error::NotFinite(_) | Error::Tokenizer(_) | Error::Ngram(_))
    }
}
