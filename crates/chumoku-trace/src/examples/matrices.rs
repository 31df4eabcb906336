//! Matrices in files of worked examples.

use crate::program::printed_number::PrintedNumber;
use crate::program::quantity::Quantity;
use chumoku::lang::lang;
use chumoku::lang::wording::quote;
use chumoku::tr;
use ndarray::Array2;
use serde_json::value::RawValue;

/// The claimed numbers of a quantity, one matrix for each head; `None` for numbers without a claim.
pub(crate) type ClaimedMatrices = Vec<Array2<Option<PrintedNumber>>>;

/// Nested lists of one, two or three levels.
pub(crate) struct NestedMatrices<T> {
    pub(crate) matrices: Vec<Array2<T>>,
    /// True if the file has a single list.
    is_list: bool,
}

/// Maximum count of numbers of a matrix. More is no worked example, and a file must not exhaust the memory.
const MAX_NUMBERS: usize = 1 << 24;

/// Reads nested lists. `of` names the entries, and `entry` parses one of them.
pub(crate) fn read_nested<T>(
    text: &str,
    place: &str,
    of: &str,
    entry: impl Fn(&str) -> Result<T, String>,
) -> Result<NestedMatrices<T>, String> {
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| format!("{place}: {error}"))?;
    let list = |raw: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()).ok();
    let fault = |where_: &str, found: &RawValue| {
        tr!(
            "{place}{where_}: expected a matrix [[…], […]] or a list […] of {of}, found {}",
            "{place}{where_}: {of}の行列 [[…], […]] か配列 […] が必要ですが、{} です",
            quote(found.get())
        )
    };
    let rows = list(whole).ok_or_else(|| fault("", whole))?;
    if rows.is_empty() {
        return Err(tr!(
            "{place}: expected at least one row, found an empty list",
            "{place}: 1 行以上が必要ですが、空の配列です"
        ));
    }
    let row = |raw: &RawValue, at: String| -> Result<Vec<T>, String> {
        let entries = list(raw).ok_or_else(|| fault(&at, raw))?;
        let read = |(j, raw): (usize, &RawValue)| {
            entry(raw.get()).map_err(|problem| format!("{place}{at}[{}]: {problem}", j + 1))
        };
        entries.iter().map(AsRef::as_ref).enumerate().map(read).collect()
    };
    let matrix = |rows: Vec<Vec<T>>, at: &str| -> Result<Array2<T>, String> {
        let (count, columns) = (rows.len(), rows.first().map_or(0, Vec::len));
        if let Some(i) = rows.iter().position(|row| row.len() != columns) {
            let found = rows[i].len();
            return Err(tr!(
                "{place}{at}[{}]: expected {columns} {of}, as in row 1, found {found}",
                "{place}{at}[{}]: 1 行目と同じく{of}が {columns} 個必要ですが、{found} 個です",
                i + 1
            ));
        }
        if columns == 0 || count.saturating_mul(columns) > MAX_NUMBERS {
            return Err(tr!(
                "{place}{at}: expected 1 to {MAX_NUMBERS} {of}, found {count}×{columns}",
                "{place}{at}: {of}は 1 個から {MAX_NUMBERS} 個までですが、{count}×{columns} です"
            ));
        }
        Ok(Array2::from_shape_vec((count, columns), rows.into_iter().flatten().collect()).expect("even rows"))
    };
    let Some(first) = list(&rows[0]) else {
        let list = row(whole, String::new())?;
        return Ok(NestedMatrices { matrices: vec![matrix(vec![list], "")?], is_list: true });
    };
    let is_deep = first.first().is_some_and(|inner| list(inner).is_some());
    if !is_deep {
        let rows = rows.iter().enumerate().map(|(i, raw)| row(raw, format!("[{}]", i + 1)));
        return Ok(NestedMatrices { matrices: vec![matrix(rows.collect::<Result<_, _>>()?, "")?], is_list: false });
    }
    let head = |(h, raw): (usize, &RawValue)| {
        let at = format!("[{}]", h + 1);
        let rows = list(raw).ok_or_else(|| fault(&at, raw))?;
        let rows = rows.iter().enumerate().map(|(i, raw)| row(raw, format!("{at}[{}]", i + 1)));
        matrix(rows.collect::<Result<_, _>>()?, &at)
    };
    let matrices: Vec<Array2<T>> =
        rows.iter().map(AsRef::as_ref).enumerate().map(head).collect::<Result<_, String>>()?;
    let (rows, columns) = matrices[0].dim();
    if let Some(h) = matrices.iter().position(|matrix| matrix.dim() != (rows, columns)) {
        let found = matrices[h].dim();
        return Err(tr!(
            "{place}[{}]: expected {rows}×{columns} {of}, as of head 1, found {}×{}",
            "{place}[{}]: ヘッド 1 と同じ {rows}×{columns} の{of}が必要ですが、{}×{} です",
            h + 1,
            found.0,
            found.1
        ));
    }
    Ok(NestedMatrices { matrices, is_list: false })
}

/// Reads a number: a JSON number, or a text that keeps trailing zeros.
pub(crate) fn read_number(text: &str) -> Result<PrintedNumber, String> {
    match text.starts_with('"') {
        true => PrintedNumber::parse(&serde_json::from_str::<String>(text).map_err(|error| error.to_string())?),
        false => PrintedNumber::parse(text),
    }
}

/// Reads numbers with gaps.
pub(crate) fn read_numbers(text: &str, place: &str) -> Result<NestedMatrices<Option<PrintedNumber>>, String> {
    read_nested(text, place, lang().pick("numbers", "数値"), |text| {
        if text == "null" { Ok(None) } else { read_number(text).map(Some) }
    })
}

/// Turns a single list into a column for quantities with one number a row, and into a row for all others.
pub(crate) fn orient_list(quantity: Quantity, numbers: NestedMatrices<Option<PrintedNumber>>) -> ClaimedMatrices {
    match numbers.is_list
        && matches!(
            quantity,
            Quantity::TokenIds
                | Quantity::TypeIds
                | Quantity::ScoreSums
                | Quantity::ScoreMax
                | Quantity::ScoreVector
                | Quantity::PairScores
                | Quantity::ClassSums
                | Quantity::ClassMax
        ) {
        true => numbers.matrices.into_iter().map(|m| m.reversed_axes()).collect(),
        false => numbers.matrices,
    }
}

/// Returns a matrix without gaps, as inputs require.
pub(crate) fn require_complete(matrix: Array2<Option<PrintedNumber>>, place: &str) -> Result<Array2<f64>, String> {
    if let Some(((i, j), _)) = matrix.indexed_iter().find(|(_, entry)| entry.is_none()) {
        return Err(tr!(
            "{place}[{}][{}]: expected a number, found null",
            "{place}[{}][{}]: 数値が必要ですが、null です",
            i + 1,
            j + 1
        ));
    }
    Ok(matrix.mapv(|entry| entry.map_or(f64::NAN, |printed| printed.value)))
}
