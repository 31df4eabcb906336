//! The forms in which files write labels: one per row, a list, separated values, one column per label, or a number.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::record::{Record, TableLayout};
use super::missing::MissingValues;
use super::profile::{is_number, nested_value};
use super::quantity::{self, Quantity};

/// The caller's description of how labels are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelOptions {
    /// Columns that are one label each, with 1 where it applies.
    pub columns: Vec<String>,
    /// The separator between the labels in the label column.
    pub separator: Option<char>,
}

/// The form in which a file writes the prediction target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LabelForm {
    /// One class in a column, possibly as a list of one.
    Class(usize),
    /// A number in a column.
    Number(usize),
    /// `__label__a __label__b text`.
    FastText,
    /// Several labels in one column, with a separator.
    Separated(usize, char),
    /// Several labels in one column, as a JSON or Python list.
    List(usize),
    /// One column per label, with 1 where it applies.
    Columns(Vec<usize>),
}

impl LabelForm {
    /// Returns the column of this form, if it has exactly one.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            LabelForm::Class(column)
            | LabelForm::Number(column)
            | LabelForm::Separated(column, _)
            | LabelForm::List(column) => Some(*column),
            LabelForm::FastText | LabelForm::Columns(_) => None,
        }
    }

    /// Returns whether a text may have several labels.
    pub(crate) fn is_multi_label(&self) -> bool {
        !matches!(self, LabelForm::Class(_) | LabelForm::Number(_))
    }
}

/// The separators that are tried.
pub(crate) const SEPARATORS: [char; 3] = ['|', ';', ','];

/// Returns the evidence, in bits, that the commas of a column are decimal commas rather than separators of numeric
/// labels. `None` if more than a few values are not numbers.
pub(crate) fn decimal_bits(fields: &[&str]) -> Option<f64> {
    let mut form = quantity::QuantityFormat::default();
    let is_number = |field: &&&str| Quantity::parse(field).is_some_and(|found| found.fits_column(&mut form));
    let numbers: Vec<&str> = fields.iter().filter(is_number).copied().collect();
    let pairs: Vec<(&str, &str)> = numbers.iter().filter_map(|field| field.trim().split_once(',')).collect();
    // A few values may be remarks.
    let nearly_all = !fields.is_empty() && numbers.len() * 10 >= fields.len() * 9;
    if !nearly_all || pairs.is_empty() || form.has_unit() {
        return nearly_all.then_some(f64::INFINITY);
    }
    let count = |of: &dyn Fn(&(&str, &str)) -> bool| pairs.iter().filter(|pair| of(pair)).count();
    let least = pairs.len().div_ceil(10);
    let lengths: HashSet<usize> = pairs.iter().map(|(_, fraction)| fraction.len()).collect();
    let number = |digits: &str| digits.trim().parse::<f64>().unwrap_or(f64::NAN);
    let mut bits = 0.0;
    // No number has two commas with fewer than three digits between them.
    bits += if fields.iter().any(|field| field.matches(',').count() > 1 && Quantity::parse(field).is_none()) {
        -4.0
    } else {
        0.0
    };
    bits += if pairs.len() * 2 >= numbers.len() { 2.0 } else { -1.0 };
    bits += if lengths.len() == 1 { 1.0 } else { -1.0 };
    // A list names each label once, usually in ascending order.
    bits += match count(&|(whole, fraction)| number(whole) >= number(fraction)) {
        falling if falling >= least => 3.0,
        _ => -3.0,
    };
    bits += if count(&|(_, fraction)| fraction.len() > 1 && fraction.starts_with('0')) > 0 { 4.0 } else { 0.0 };
    bits += if count(&|(_, fraction)| fraction.contains(char::is_whitespace)) > 0 { -6.0 } else { 0.0 };
    Some(bits)
}

/// The number of labels in the lists of a column: one or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListSize {
    /// One label each, as annotation tools export them.
    Single,
    /// Several labels in some lists.
    Multiple,
}

/// Returns whether lists hold one label or several, if nearly all values of the column are lists of texts. Lists of
/// integers count only if `numbers` allows them. Errors in the other values are reported when rows are read.
pub(crate) fn list_size(layout: &TableLayout, rows: &[&Record], column: usize, numbers: bool) -> Option<ListSize> {
    let filled: Vec<&&Record> = rows.iter().filter(|row| !row.field(column).trim().is_empty()).collect();
    let read: Vec<Vec<String>> = filled
        .iter()
        .filter_map(|row| read_label_list(layout, row, column))
        .filter(|items| numbers || !items.iter().any(|item| is_integer(item)))
        .collect();
    if filled.is_empty() || read.len() * 10 < filled.len() * 9 {
        return None;
    }
    let is_one = read.iter().all(|items| items.len() < 2) && read.iter().any(|items| items.len() == 1);
    // Brackets around a bare word may belong to the name of a class.
    let are_marked = filled.iter().all(|row| is_marked_list(layout, row, column));
    Some(if is_one && are_marked { ListSize::Single } else { ListSize::Multiple })
}

/// Returns whether a field is certainly a list: a JSON array, or one with quoted items.
fn is_marked_list(layout: &TableLayout, row: &Record, column: usize) -> bool {
    let field = row.field(column).trim();
    let is_quoted = || {
        let inside = field.strip_prefix('[').and_then(|field| field.strip_suffix(']')).map(str::trim);
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with(['"', '\'']))
    };
    field.is_empty() || nested_value(layout, row, column).is_some_and(Value::is_array) || is_quoted()
}

/// Returns the single label of a list, or an empty text for an empty list. A field that is not a list is its own label.
/// Returns all items as an error if there are several.
pub(crate) fn single_label<'a>(
    layout: &TableLayout,
    row: &'a Record,
    column: usize,
) -> Result<Cow<'a, str>, Vec<String>> {
    let field = row.field(column).trim();
    if field.is_empty() || !is_marked_list(layout, row, column) {
        return Ok(field.into());
    }
    match read_label_list(layout, row, column) {
        None => Ok(field.into()),
        Some(items) if items.len() > 1 => Err(items),
        Some(mut items) => Ok(items.pop().unwrap_or_default().into()),
    }
}

fn is_integer(item: &str) -> bool {
    item.parse::<i64>().is_ok()
}

/// Returns the texts or the integers of a list, if the field holds one.
pub(crate) fn read_label_list(layout: &TableLayout, row: &Record, column: usize) -> Option<Vec<String>> {
    if let Some(value) = layout.columns.get(column).and_then(|name| row.value(name)) {
        let of_item = |item: &Value| match item {
            Value::Number(number) => Some(number.to_string()).filter(|number| is_integer(number)),
            _ => item.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned),
        };
        if let Value::Array(items) = value {
            let numbers = items.iter().filter(|item| item.is_number()).count();
            if numbers != 0 && numbers != items.len() {
                return None;
            }
            return items.iter().map(of_item).collect();
        }
    }
    parse_list(row.field(column))
}

/// Parses a list as JSON, Python or NumPy prints it: `["a", "b"]`, `['a', 'b']`, `[a, b]`, `[1, 2]`, `[1 2]`.
fn parse_list(field: &str) -> Option<Vec<String>> {
    let inside = field.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut items, mut rest) = (Vec::new(), inside.trim());
    if !rest.is_empty() && rest.split_whitespace().all(is_integer) {
        return Some(rest.split_whitespace().map(str::to_owned).collect());
    }
    let mut numbers = 0;
    while !rest.is_empty() {
        let is_quoted = rest.starts_with(['"', '\'']);
        let (item, behind) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (mut item, mut chars) = (String::new(), rest[1..].char_indices());
                loop {
                    match chars.next()? {
                        (_, '\\') => item.push(chars.next()?.1),
                        (at, c) if c == quote => break (item, rest[1 + at + 1..].trim_start()),
                        (_, c) => item.push(c),
                    }
                }
            }
            _ => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        // Other numbers are not labels, and nested lists are something else.
        numbers += usize::from(!is_quoted && is_integer(&item));
        let is_other_number = is_number(&item) && !is_integer(&item) && !is_quoted;
        if item.is_empty() || item.contains(['[', ']', '{']) || is_other_number {
            return None;
        }
        items.push(item);
        rest = match behind.strip_prefix(',') {
            Some(behind) => behind.trim_start(),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    // A mixture of texts and numbers is not a list of labels.
    (numbers == 0 || numbers == items.len()).then_some(items)
}

/// Returns the fraction of rows with several labels, if the fields of a column look like labels with this separator.
/// Labels are short names. There are fewer of them than combinations, and most occur in more than one row.
pub(crate) fn multi_label_fraction(
    rows: &[&Record],
    column: usize,
    separator: char,
    missing: &MissingValues,
) -> Option<f64> {
    let (mut several, mut filled) = (0, 0);
    let (mut whole, mut atoms): (HashSet<&str>, HashMap<&str, usize>) = Default::default();
    for field in rows.iter().map(|row| row.field(column).trim()).filter(|field| !missing.is_missing(field)) {
        if field.starts_with('[') && field.ends_with(']') {
            // A list of items that are not labels.
            return None;
        }
        filled += 1;
        whole.insert(field);
        let parts = split_labels(field, separator);
        several += usize::from(parts.len() > 1);
        for part in parts {
            if part.is_empty() || part.chars().count() > 40 || part.split_whitespace().count() > 4 {
                return None;
            }
            *atoms.entry(part).or_default() += 1;
        }
    }
    let share = several as f64 / f64::from(filled.max(1));
    let repeated = atoms.values().filter(|&&count| count > 1).count();
    let is_few = atoms.len() < whole.len() && atoms.len() * 4 <= filled as usize;
    (share >= 0.02 && several >= 2 && is_few && repeated * 10 >= atoms.len() * 9).then_some(share)
}

/// Splits a field at separators. One may follow the last label.
pub(crate) fn split_labels(field: &str, separator: char) -> Vec<&str> {
    let field = field.trim();
    field.strip_suffix(separator).unwrap_or(field).split(separator).map(str::trim).collect()
}

/// Returns whether every value is 0 or 1, and both occur.
pub(crate) fn is_flag_column(rows: &[&Record], column: usize) -> bool {
    let mut seen = [false; 2];
    for row in rows {
        match parse_flag(row.field(column)) {
            Some(holds) => seen[usize::from(holds)] = true,
            None => return false,
        }
    }
    seen == [true; 2]
}

/// Parses a flag: 1 or true, 0 or false.
pub(crate) fn parse_flag(field: &str) -> Option<bool> {
    match field.trim() {
        "1" | "1.0" | "true" | "True" | "TRUE" => Some(true),
        "0" | "0.0" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}
