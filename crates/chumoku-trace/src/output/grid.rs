//! Matrices as tables of texts: labels, and the numbers that are shown.

use crate::program::printed_number::power_of_ten;
use crate::program::quantity::MatrixAxis;
use crate::traces::trace_steps::{Trace, TraceStep};
use chumoku::lang::show_controls;
use chumoku_view::truncate;
use ndarray::Array2;

/// A table of a step's numbers.
pub(crate) struct NumberGrid {
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// The numbers that are shown.
    pub(crate) cells: Vec<Vec<String>>,
    /// True where rows or columns are left out.
    pub(crate) is_truncated: [bool; 2],
    /// Rows and columns of the whole matrix.
    pub(crate) size: [usize; 2],
}

impl NumberGrid {
    /// Creates the table of at most `most` rows and columns of a step's matrix.
    pub(crate) fn new(trace: &Trace, step: &TraceStep, most: [usize; 2], digits: usize) -> NumberGrid {
        let size = [step.value.nrows(), step.value.ncols()];
        let shown = [size[0].min(most[0]), size[1].min(most[1])];
        let write = number_format(&step.value, digits);
        let labels = |axis: usize| (0..shown[axis]).map(|i| label(trace, step.axes()[axis], i)).collect();
        NumberGrid {
            rows: labels(0),
            columns: labels(1),
            cells: (0..shown[0]).map(|i| (0..shown[1]).map(|j| write(step.value[[i, j]])).collect()).collect(),
            is_truncated: [shown[0] < size[0], shown[1] < size[1]],
            size,
        }
    }
}

/// Maximum width of a word in columns of a terminal.
const MAX_LABEL_WIDTH: usize = 24;

/// Returns the label of a row or column: its number, and its word if it has one.
pub(crate) fn label(trace: &Trace, axis: MatrixAxis, index: usize) -> String {
    let words = match axis {
        MatrixAxis::Queries => &trace.tokens,
        MatrixAxis::Keys => &trace.key_tokens,
        MatrixAxis::Classes => &trace.classes,
        MatrixAxis::QueryKeyPairs => {
            let keys = trace.steps.iter().find(|step| step.axes() == [MatrixAxis::Queries, MatrixAxis::Keys]);
            let [query, key] = crate::program::operation::reshaped(keys.map_or(1, |step| step.value.ncols()), index);
            return format!("{} → {}", label(trace, MatrixAxis::Queries, query), label(trace, MatrixAxis::Keys, key));
        }
        MatrixAxis::One => return String::new(),
        _ => return (index + 1).to_string(),
    };
    match words.get(index) {
        Some(word) => format!("{} {}", index + 1, truncate(&show_controls(word), MAX_LABEL_WIDTH)),
        None => (index + 1).to_string(),
    }
}

/// Returns a function that formats the numbers of a matrix. Whole numbers have no decimals if all numbers are whole.
/// Very large matrices, and those too small for the number of decimals, use a power of ten.
pub(crate) fn number_format(matrix: &Array2<f64>, digits: usize) -> impl Fn(f64) -> String + use<> {
    let whole = matrix.iter().all(|x| !x.is_finite() || (x.fract() == 0.0 && x.abs() < 1e9));
    let far = needs_exponent(matrix, digits);
    move |x| match (whole, far) {
        _ if !x.is_finite() => format_non_finite(x),
        (true, _) => format!("{}", x + 0.0),
        (false, false) => format_fixed(x, digits),
        (false, true) => format!("{x:.digits$e}"),
    }
}

/// Returns whether a matrix needs exponents: its largest number is very large, or hardly visible with this number of
/// decimals. Remainders of cancellation do not count.
pub(crate) fn needs_exponent(matrix: &Array2<f64>, digits: usize) -> bool {
    let largest = matrix.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
    largest >= 1e9 || (largest > ROUNDING_NOISE && largest < power_of_ten(1 - digits as i32))
}

/// Formats a number with fixed decimals and no minus before zero.
fn format_fixed(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text,
    }
}

/// Numbers up to this size are remainders of cancellation.
const ROUNDING_NOISE: f64 = 1e-15;
/// With more digits, rounding noise is visible.
const MAX_DIGITS_WITHOUT_NOISE: usize = 14;

/// Formats a number within an expression. Whole numbers stay whole, and small ones have a power of ten if rounding
/// would change them by more than 1 %. Rounding noise below the shown digits is 0.0000, as in the matrix of the number.
pub(crate) fn format_plain(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        return format_non_finite(x);
    }
    if x.fract() == 0.0 && x.abs() < 1e9 {
        return format!("{}", x + 0.0);
    }
    let (text, size) = (format_fixed(x, digits), x.abs());
    let is_noise = size <= ROUNDING_NOISE && digits <= MAX_DIGITS_WITHOUT_NOISE;
    let is_off = || text.parse().is_ok_and(|rounded: f64| (rounded - x).abs() > size / 100.0);
    match size >= 1e9 || size < power_of_ten(1 - digits as i32) && !is_noise && is_off() {
        true => format!("{x:.2e}").replace(".00e", "e"),
        false => text,
    }
}

/// Formats NaN and infinities.
pub(crate) fn format_non_finite(x: f64) -> String {
    if x.is_nan() { "NaN".into() } else { if x > 0.0 { "∞" } else { "-∞" }.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_noise_reads_as_zero_and_small_numbers_keep_their_digits() {
        for (x, text) in [(-6.94e-18, "0.0000"), (4.4e-16, "0.0000"), (6.14e-6, "6.14e-6"), (-2e-15, "-2e-15")] {
            assert_eq!(format_plain(x, 4), text);
        }
        // One digit would be off by more than 1 %.
        for (x, text) in [(1.43e-4, "1.43e-4"), (-9.49e-4, "-9.49e-4"), (3.01e-4, "0.0003"), (1.4e-3, "0.0014")] {
            assert_eq!(format_plain(x, 4), text);
        }
        // With all its digits, as in JSON, a number stays what it is.
        assert_eq!(format_plain(-4.5e-18, 17), "-4.50e-18");
        assert_eq!(number_format(&ndarray::array![[1.5, -6.94e-18]], 4)(-6.94e-18), "0.0000");
    }
}
