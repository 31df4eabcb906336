//! The files that a data argument names.

use std::fmt;
use std::path::{Path, PathBuf};

/// The files that a data argument names: one, or two parallel files such as `train.ja,train.en`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataFiles {
    /// One file.
    One(PathBuf),
    /// Two files with corresponding lines.
    Parallel {
        /// The texts to translate.
        source: PathBuf,
        /// Their translations.
        target: PathBuf,
    },
}

impl DataFiles {
    /// Parses a data argument.
    ///
    /// It names two files if it contains a comma between them and is not itself a file. If one of the two is missing,
    /// opening it reports the error.
    pub fn from_argument(argument: &Path) -> Self {
        let one = || DataFiles::One(argument.to_owned());
        let Some(text) = argument.to_str().filter(|_| !argument.exists()) else {
            return one();
        };
        let cuts = || {
            let cut = |(at, _)| (PathBuf::from(&text[..at]), PathBuf::from(&text[at + 1..]));
            text.match_indices(',').map(cut)
        };
        let both = cuts().find(|(source, target)| source.exists() && target.exists());
        let either = || cuts().find(|(source, target)| source.exists() || target.exists());
        both.or_else(either).map_or_else(one, |(source, target)| DataFiles::Parallel { source, target })
    }

    /// Returns the only file, or the first of two.
    pub fn first(&self) -> &Path {
        match self {
            DataFiles::One(path) => path,
            DataFiles::Parallel { source, .. } => source,
        }
    }
}

impl fmt::Display for DataFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataFiles::One(path) => write!(f, "{}", path.display()),
            DataFiles::Parallel { source, target } => write!(f, "{},{}", source.display(), target.display()),
        }
    }
}
