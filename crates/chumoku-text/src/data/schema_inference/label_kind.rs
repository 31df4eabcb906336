//! Recognizes label columns that hold no classes: measures, dates, identifiers or texts.
//!
//! A classifier learns nothing from such a column, and training takes long. A few distinct integers are ordinary
//! classes: ratings from 1 to 5, 0 and 1, or the numbers of a hundred intents.

use std::collections::HashMap;

use super::dates::is_date;
use super::profile::is_number;
use super::quantity::{Quantity, QuantityFormat};
use crate::lang::wording::{join_names, quote};
use crate::tr;

/// Fewest rows that show the content of a column.
const MIN_ROWS: usize = 20;
/// Up to this number, distinct values are classes.
const FEW_CLASSES: usize = 20;
/// Integers may be this many classes, if each has enough rows.
const MAX_NUMBER_CLASSES: usize = 50;
/// Fewest rows per class, on average.
const MIN_ROWS_PER_CLASS: usize = 5;
/// The mean length, in characters, above which labels are texts.
const MAX_MEAN_CHARACTERS: usize = 40;
/// Most values that a message quotes.
const MAX_QUOTED: usize = 3;

/// The content of a label column without classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelKind {
    /// Numbers that measure something.
    Measure,
    /// Numbers or codes, nearly all distinct.
    Identifier,
    /// Dates or times.
    Dates,
    /// Sentences.
    Texts,
    /// Words, nearly all distinct.
    Unique,
}

impl LabelKind {
    /// Returns what the labels look like, or `None` if they look like classes. If the caller named the label column
    /// (`is_requested`), numbers are classes as long as each has enough rows.
    pub(crate) fn detect(labels: &[&str], is_requested: bool) -> Option<Self> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        labels.iter().for_each(|label| *counts.entry(label).or_default() += 1);
        let (rows, classes) = (labels.len(), counts.len());
        let mostly_unique = classes * 2 > rows;
        if rows < MIN_ROWS || classes <= FEW_CLASSES && !mostly_unique {
            return None;
        }
        let is_thin = classes * MIN_ROWS_PER_CLASS > rows;
        let all = |fits: fn(&str) -> bool| counts.keys().filter(|label| fits(label)).count() * 10 >= classes * 9;
        if all(is_date) {
            return Some(LabelKind::Dates);
        }
        if counts.keys().all(|label| is_number(label)) {
            let numbers: Option<Vec<i64>> = counts.keys().map(|label| parse_integer(label)).collect();
            let Some(numbers) = numbers else { return Some(LabelKind::Measure) };
            let (first, last) = (numbers.iter().min()?, numbers.iter().max()?);
            // Class numbers start at 0 or 1 and have few gaps.
            let is_numbering = (0..=1).contains(first) && last - first < (classes + classes / 4) as i64;
            return match () {
                () if mostly_unique => Some(LabelKind::Identifier),
                () if is_thin && !(is_numbering && is_requested) => Some(LabelKind::Measure),
                () if classes > MAX_NUMBER_CLASSES && !is_numbering && !is_requested => Some(LabelKind::Measure),
                () => None,
            };
        }
        if !is_thin {
            return None;
        }
        let mut form = QuantityFormat::default();
        if counts.keys().all(|label| Quantity::parse(label).is_some_and(|found| found.fits_column(&mut form))) {
            return Some(LabelKind::Measure);
        }
        let chars: usize = counts.keys().map(|label| label.chars().count()).sum();
        match () {
            () if chars > classes * MAX_MEAN_CHARACTERS => Some(LabelKind::Texts),
            () if all(is_code) && (mostly_unique || classes * 3 > rows && !is_requested) => Some(LabelKind::Identifier),
            () if mostly_unique => Some(LabelKind::Unique),
            () => None,
        }
    }

    /// Describes the content of the column.
    pub(crate) fn describe(self) -> String {
        match self {
            LabelKind::Measure => tr!("a measure, such as a price, a count or a score", "価格・個数・点数などの数値"),
            LabelKind::Identifier => tr!("an identifier", "ID (識別子)"),
            LabelKind::Dates => tr!("dates or times", "日付や時刻"),
            LabelKind::Texts => tr!("free text", "自由記述の文章"),
            LabelKind::Unique => {
                tr!("names or texts, different in nearly every row", "ほぼ行ごとに異なる名前や文")
            }
        }
    }
}

/// Quotes the first distinct labels.
pub(crate) fn quote_some_labels(labels: &[&str]) -> String {
    let mut found: Vec<&str> = Vec::new();
    for label in labels {
        if !found.contains(label) {
            found.push(label);
        }
        if found.len() == MAX_QUOTED {
            break;
        }
    }
    join_names(&found.into_iter().map(quote).collect::<Vec<_>>())
}

/// Parses an integer, also in the form `3.0`.
fn parse_integer(label: &str) -> Option<i64> {
    let number: f64 = label.trim().parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

/// Returns whether a label is a code: digits among other ASCII characters, without spaces.
fn is_code(label: &str) -> bool {
    label.chars().any(|c| c.is_ascii_digit()) && !label.contains(char::is_whitespace) && label.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(rows: usize, label: impl Fn(usize) -> String) -> Option<LabelKind> {
        kind_of(rows, label, false)
    }

    fn kind_of(rows: usize, label: impl Fn(usize) -> String, is_requested: bool) -> Option<LabelKind> {
        let labels: Vec<String> = (0..rows).map(label).collect();
        LabelKind::detect(&labels.iter().map(String::as_str).collect::<Vec<_>>(), is_requested)
    }

    #[test]
    fn columns_without_classes_are_recognized() {
        // Votes: many values with few rows each.
        assert_eq!(kind(5_000, |i| (i * i % 1_931).to_string()), Some(LabelKind::Measure));
        assert_eq!(kind(500, |i| format!("{:.2}", (i % 90) as f64 / 7.0)), Some(LabelKind::Measure));
        assert_eq!(kind(300, |i| format!("{},{:02} €", i % 97, i % 100)), Some(LabelKind::Measure));
        // Ages: many rows each, but not consecutive class numbers, and not requested.
        assert_eq!(kind(9_000, |i| (18 + i % 70).to_string()), Some(LabelKind::Measure));
        assert_eq!(kind(300, |i| (100_000 + i).to_string()), Some(LabelKind::Identifier));
        assert_eq!(kind(300, |i| format!("user-{i:05}")), Some(LabelKind::Identifier));
        assert_eq!(kind(300, |i| format!("2026-{:02}-{:02}", 1 + i % 12, 1 + i % 28)), Some(LabelKind::Dates));
        assert_eq!(
            kind(300, |i| format!("{}年{}月{}日", 2000 + i % 26, 1 + i % 12, 1 + i % 28)),
            Some(LabelKind::Dates)
        );
        assert_eq!(kind(300, |i| format!("{}-Jul-{:02}", 1 + i % 31, i % 50)), Some(LabelKind::Dates));
        assert_eq!(
            kind(300, |i| format!("2025/03/{:02} 9:{:02}:00 AM GMT+1", 1 + i % 28, i % 60)),
            Some(LabelKind::Dates)
        );
        assert_eq!(kind(300, |i| format!("2025/03/{:02} 午後 9:{:02}:00", 1 + i % 28, i % 60)), Some(LabelKind::Dates));
        assert_eq!(kind(300, |i| format!("May {}, {} 10:00 AM", 1 + i % 31, 1990 + i % 30)), Some(LabelKind::Dates));
        assert_eq!(kind(300, |i| format!("22.11.2026 07:{:02}:{:02}", i / 60, i % 60)), Some(LabelKind::Dates));
        assert_eq!(kind(100, |i| format!("This is what somebody wrote about visit {i}.")), Some(LabelKind::Texts));
        assert_eq!(
            kind(100, |i| format!("Name {}", "x".repeat(i % 30) + &"y".repeat(i / 30))),
            Some(LabelKind::Unique)
        );
    }

    #[test]
    fn classes_stay_classes() {
        for labels in [5_usize, 2, 3, 10, 20] {
            assert_eq!(kind(60, |i| (i % labels).to_string()), None, "{labels}");
        }
        assert_eq!(kind(400, |i| format!("{:.1}", (i % 10) as f64 / 2.0)), None, "half stars");
        assert_eq!(kind(15_000, |i| (i % 150).to_string()), None, "numbered intents");
        assert_eq!(kind(3_000, |i| format!("intent_{}", i % 300)), None);
        assert_eq!(kind(400, |i| format!("faq about {}", "x".repeat(i % 77))), None);
        assert_eq!(kind(5, |i| i.to_string()), None, "too few rows to tell");
        // Requested, with enough rows.
        assert_eq!(kind_of(9_000, |i| (18 + i % 70).to_string(), true), None);
    }
}
