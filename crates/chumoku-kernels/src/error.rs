//! Errors about the arguments of an operation.

/// The result of a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An invalid argument: its name, what was expected, and what was passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice of the wrong length.
    #[error("{what}: expected {expected} values, got {found}")]
    Length {
        /// Name of the argument.
        what: &'static str,
        /// Expected number of values.
        expected: usize,
        /// Actual number of values.
        found: usize,
    },
    /// A matrix of the wrong shape.
    #[error("{what}: expected shape ({}, {}), got ({}, {})", expected.0, expected.1, found.0, found.1)]
    Shape {
        /// Name of the argument.
        what: &'static str,
        /// Expected rows and columns.
        expected: (usize, usize),
        /// Actual rows and columns.
        found: (usize, usize),
    },
    /// Any other invalid value.
    #[error("{what}: {problem}")]
    Value {
        /// Name of the argument.
        what: &'static str,
        /// The expected and the actual value.
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

    /// Returns `Ok` if `found == expected`.
    pub(crate) fn check_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
        if expected == found { Ok(()) } else { Err(Error::length(what, expected, found)) }
    }
}

/// Formats a whole number with thousands separators, as messages show it: `1,234,567`.
pub fn format_thousands(n: u128) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
