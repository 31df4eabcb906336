//! Statistics of each column, computed from the first rows.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::record::{Record, TableLayout};
use super::dates::is_date;
use super::missing::MissingValues;
use super::names::names_identifier;
use super::quantity::Quantity;

/// Fewest rows that show whether values repeat.
pub(crate) const FEW_ROWS: usize = 20;
/// The mean length, in characters, up to which repeated values are names rather than texts.
const MAX_NAME_CHARACTERS: f64 = 25.0;
/// Longest identifier, in characters.
const MAX_CODE_CHARACTERS: usize = 40;

/// The statistics of a column in the first rows.
pub(crate) struct ColumnProfile {
    pub(crate) mean_chars: f64,
    pub(crate) distinct: usize,
    /// Number of rows with a value.
    pub(crate) filled: usize,
    /// Number of rows inspected.
    pub(crate) rows: usize,
    /// Fraction of values with a letter.
    letter_fraction: f64,
    /// Fraction of values with white space or non-ASCII characters. Identifiers and addresses have neither.
    spaced_fraction: f64,
    /// True if every value is a number.
    is_numeric: bool,
    pub(crate) is_nested: bool,
    /// True if the column holds identifiers, by its name or because all values have the same template.
    pub(crate) is_identifier: bool,
    /// True if nearly all values are dates or times.
    pub(crate) is_dates: bool,
    /// True if the values are the two of a yes/no property.
    pub(crate) is_flag: bool,
}

impl ColumnProfile {
    pub(crate) fn of_column(layout: &TableLayout, rows: &[&Record], column: usize, missing: &MissingValues) -> Self {
        let values: Vec<&str> =
            rows.iter().map(|row| row.field(column)).filter(|value| !missing.is_missing(value)).collect();
        let filled = values.len();
        let share =
            |has: &dyn Fn(&str) -> bool| values.iter().filter(|value| has(value)).count() as f64 / filled.max(1) as f64;
        let distinct: HashSet<&str> = values.iter().copied().collect();
        let mostly_unique = filled > 2 && distinct.len() * 10 >= filled * 9;
        let name = if layout.has_names() { layout.columns.get(column).map_or("", String::as_str) } else { "" };
        // Digits with punctuation, such as telephone numbers.
        let has_digit = |value: &str| value.bytes().any(|byte| byte.is_ascii_digit());
        let is_code = |value: &str| {
            has_digit(value)
                && !value.chars().any(char::is_alphabetic)
                && Quantity::parse(value).is_none()
                && !is_date(value)
        };
        let has_no_space = || share(&|value| !value.trim().contains(char::is_whitespace)) >= 0.9;
        ColumnProfile {
            mean_chars: values.iter().map(|value| value.chars().count()).sum::<usize>() as f64 / filled.max(1) as f64,
            distinct: distinct.len(),
            filled,
            rows: rows.len(),
            letter_fraction: share(&|value| value.chars().any(char::is_alphabetic)),
            spaced_fraction: share(&|value| value.chars().any(|c| c.is_whitespace() || !c.is_ascii())),
            is_numeric: values.iter().all(|value| is_number(value)),
            is_nested: rows.iter().any(|row| nested_value(layout, row, column).is_some()),
            is_identifier: mostly_unique
                && (names_identifier(name) && has_no_space() || are_identifiers(&values) || share(&is_code) >= 0.9),
            is_dates: filled > 0 && share(&is_date) >= 0.9,
            is_flag: is_flag(&distinct),
        }
    }

    /// Returns how much a column looks like text, in bits: long, distinct and rarely empty. Minus infinity if it cannot
    /// be the text.
    pub(crate) fn text_bits(&self) -> f64 {
        if self.is_nested || self.letter_fraction < 0.5 || self.is_identifier || self.is_dates {
            return f64::NEG_INFINITY;
        }
        let like_identifiers = if self.spaced_fraction < 0.1 { 0.1 } else { 1.0 };
        let share = |of: usize, all: usize| of as f64 / all.max(1) as f64;
        let filled = share(self.filled, self.rows);
        (self.mean_chars * share(self.distinct, self.filled) * filled * like_identifiers).log2()
    }

    /// Returns whether a column looks like one side of pairs: sequences of words or numbers, mostly distinct.
    pub(crate) fn is_sentence_like(&self) -> bool {
        self.text_bits() > f64::NEG_INFINITY && self.spaced_fraction >= 0.5 && self.distinct * 2 > self.filled
    }

    /// Returns whether a column holds short repeated values. Next to identifiers, these are not texts.
    pub(crate) fn has_repeated_short_values(&self) -> bool {
        self.filled >= FEW_ROWS && self.distinct * 2 <= self.filled && self.mean_chars <= MAX_NAME_CHARACTERS
    }

    /// Returns whether a column holds only numbers.
    pub(crate) fn is_numbers(&self) -> bool {
        self.filled > 0 && self.is_numeric
    }

    /// Returns whether a column looks like labels: short values that occur twice or more on average.
    pub(crate) fn is_label_like(&self) -> bool {
        !self.is_nested && self.filled > 0 && self.mean_chars <= 40.0 && self.distinct * 2 <= self.filled
    }

    /// Describes a column that holds no texts.
    pub(crate) fn describe(&self) -> String {
        use crate::tr;
        match () {
            () if self.filled == 0 => tr!("no values", "値なし"),
            () if self.is_nested => tr!("lists or objects", "リストやオブジェクト"),
            () if self.is_numbers() => tr!("numbers or signs", "数値や記号"),
            () if self.is_identifier => tr!("identifiers", "ID（識別子）"),
            () if self.is_dates => tr!("dates or times", "日付や時刻"),
            () if self.letter_fraction < 0.5 => tr!("numbers or signs", "数値や記号"),
            () if self.distinct * 2 <= self.filled => tr!("few, repeated values", "少数の繰り返す値"),
            () => tr!("words", "語"),
        }
    }
}

/// Returns whether nearly all values are identifiers: they have the same template and differ only in digits
/// (`TKT-000017`), or are hashes, UUIDs or email addresses.
fn are_identifiers(values: &[&str]) -> bool {
    let mut templates: HashMap<String, usize> = HashMap::new();
    for value in values {
        if let Some(template) = identifier_template(value.trim()) {
            *templates.entry(template).or_default() += 1;
        }
    }
    let most: usize = {
        let mut counts: Vec<usize> = templates.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.iter().take(3).sum()
    };
    most * 10 >= values.len() * 9
}

/// Returns the template of a possible identifier. Digits and hexadecimal numbers become placeholders.
fn identifier_template(value: &str) -> Option<String> {
    let is_hiragana = |c: char| ('\u{3041}'..='\u{309f}').contains(&c);
    if value.chars().count() > MAX_CODE_CHARACTERS || value.chars().any(|c| c.is_whitespace() || is_hiragana(c)) {
        return None;
    }
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    if value.len() >= 16 && value.chars().all(is_hex) {
        return Some("#".into());
    }
    if let Some((name, domain)) = value.split_once('@') {
        return (!name.is_empty() && domain.contains('.')).then(|| "@".into());
    }
    if !value.chars().any(|c| c.is_numeric()) {
        return None;
    }
    let mut template = String::new();
    for c in value.chars() {
        match c.is_numeric() {
            true if template.ends_with('0') => {}
            true => template.push('0'),
            false => template.push(c),
        }
    }
    // Words around a number are text. A code has few letters.
    let beyond_ascii = template.chars().filter(|c| c.is_alphabetic() && !c.is_ascii()).count();
    (beyond_ascii <= 8).then_some(template)
}

/// Returns whether the values are those of a property: 0 and 1, true and false, yes and no.
fn is_flag(values: &HashSet<&str>) -> bool {
    const FLAGS: [[&str; 2]; 6] =
        [["0", "1"], ["0.0", "1.0"], ["false", "true"], ["no", "yes"], ["n", "y"], ["f", "t"]];
    let folded: HashSet<String> = values.iter().map(|value| value.trim().to_lowercase()).collect();
    !folded.is_empty() && FLAGS.iter().any(|flags| folded.iter().all(|value| flags.contains(&value.as_str())))
}

/// Returns the value of a column if it is a list or an object. In objects, the column name may be a path.
pub(crate) fn nested_value<'a>(layout: &TableLayout, row: &'a Record, column: usize) -> Option<&'a Value> {
    let value = row.value(layout.columns.get(column)?)?;
    (value.is_array() || value.is_object()).then_some(value)
}

/// Returns whether a field is a number as programs write it.
pub(crate) fn is_number(field: &str) -> bool {
    let field = field.trim();
    field.bytes().any(|b| b.is_ascii_digit()) && field.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_share_a_template_and_texts_do_not() {
        let of = |value: &dyn Fn(usize) -> String| {
            let values: Vec<String> = (0..40).map(value).collect();
            are_identifiers(&values.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert!(of(&|i| format!("TKT-{i:06}")) && of(&|i| format!("注文{i}")) && of(&|i| format!("u{i}@example.org")));
        assert!(of(&|i| format!("{:016x}", i * 7_919_777)) && of(&|i| format!("{}-{i:04}", ["A", "B", "C"][i % 3])));
        assert!(!of(&|i| format!("これは文{i}です。")) && !of(&|i| format!("Satz {i}")));
        // Passwords and page addresses have many different forms.
        assert!(!of(&|i| format!("{}x{}", "pw".repeat(i % 9), i * 31 % 7) + &"k".repeat(i % 11)));
    }
}
