//! What can be wrong with the arguments of an operation.

/// A kernel's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An argument that does not fit: which, what was expected, and what came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice of the wrong length.
    #[error("{what}: expected {expected} values, got {found}")]
    Length {
        /// The argument.
        what: &'static str,
        /// Values expected.
        expected: usize,
        /// Values found.
        found: usize,
    },
    /// A matrix of the wrong shape.
    #[error("{what}: expected shape ({}, {}), got ({}, {})", expected.0, expected.1, found.0, found.1)]
    Shape {
        /// The argument.
        what: &'static str,
        /// Rows and columns expected.
        expected: (usize, usize),
        /// Rows and columns found.
        found: (usize, usize),
    },
    /// Any other value out of its range.
    #[error("{what}: {problem}")]
    Value {
        /// The argument.
        what: &'static str,
        /// What was expected and what came.
        problem: String,
    },
}

impl Error {
    pub(crate) fn length(what: &'static str, expected: usize, found: usize) -> Self {
        Error::Length { what, expected, found }
    }

    pub(crate) fn shape(what: &'static str, expected: (usize, usize), found: (usize, usize)) -> Self {
        Error::Shape { what, expected, found }
    }

    pub(crate) fn value(what: &'static str, problem: impl Into<String>) -> Self {
        Error::Value { what, problem: problem.into() }
    }

    /// `Ok` if `found == expected`.
    pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
        if expected == found { Ok(()) } else { Err(Error::length(what, expected, found)) }
    }
}
