//! Texts with a number each: a rating, a price, a likeness; and how a column of them is told from one of classes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::dataset::MIN_TRAINING_ROWS;
use super::error::{DataError, Place};
use super::format::ReadOptions;
use super::label_kind::LabelKind;
use super::record::{Layout, Record, Skipped};
use super::source::Source;
use crate::lang::lang;
use crate::lang::wording::quoted;
use crate::tr;

/// A text and its number.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredText {
    /// The text, as the file has it.
    pub text: String,
    /// Its number, which is finite.
    pub score: f64,
    /// The line on which it begins, or its row in Parquet.
    pub line: u64,
}

/// The texts of one file with their numbers.
#[derive(Debug, Clone)]
pub struct ScoredTexts {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// In the order of the file.
    pub examples: Vec<ScoredText>,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// What the file was taken for and why, in one line.
    pub description: String,
    /// The name of the column of numbers.
    pub column: String,
}

/// The largest number, whose square is one too.
const LARGEST: f64 = 1e100;

/// Fewest different numbers (3): two are two classes.
const LEAST_NUMBERS: usize = 3;

/// Reads a file of texts with a number each.
///
/// # Errors
///
/// Whatever is wrong with the file; a label that is no finite number, with its line.
pub fn load_scores(path: &Path, options: &ReadOptions) -> Result<ScoredTexts, DataError> {
    let mut source = Source::open(path, &ReadOptions { require_label: true, ..options.clone() })?;
    source.require_text();
    let (layout, columns, description) = (source.layout().clone(), source.columns().clone(), source.describe());
    let column = columns.label.unwrap_or_default();
    let mut records = source.records();
    let mut examples = Vec::new();
    while let Some(record) = records.next() {
        let mut record = record?;
        let found = records.source().check_label(&record, column).and_then(|()| {
            let field = record.field(column);
            number(field).ok_or_else(|| no_number(records.source().place(record.line), field))
        });
        match found {
            Ok(score) => {
                let text = std::mem::take(&mut record.fields[columns.text]);
                examples.push(ScoredText { text, score, line: record.line });
            }
            Err(error) => records.leave_out(error)?,
        }
    }
    let (skipped, path) = (records.skipped().clone(), path.to_owned());
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    let column = layout.columns.get(column).cloned().unwrap_or_default();
    Ok(ScoredTexts { path, examples, skipped, description, column })
}

impl ScoredTexts {
    /// Checks that there is something to train on.
    ///
    /// # Errors
    ///
    /// Too few rows, or fewer than three different numbers.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        let different: HashSet<u64> = self.examples.iter().map(|example| example.score.to_bits()).collect();
        match different.len() {
            found if found < LEAST_NUMBERS => Err(DataError::FewNumbers { path, found }),
            _ => Ok(()),
        }
    }
}

fn no_number(place: Place, field: &str) -> DataError {
    let expected = lang().pick("a number", "数値");
    DataError::BadLabels { place, expected, found: quoted(field) }
}

/// The number that a field holds: as programs write it, with digits of full width too.
fn number(field: &str) -> Option<f64> {
    let narrow = |c: char| match c {
        '０'..='９' => char::from_u32(c as u32 - '０' as u32 + '0' as u32).unwrap_or(c),
        '．' => '.',
        '－' | '−' => '-',
        c => c,
    };
    let text: String = field.trim().chars().map(narrow).collect();
    // "inf" and "nan" are words here.
    let is_digits = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    text.parse().ok().filter(|x: &f64| is_digits && x.abs() <= LARGEST)
}

/// Why the label column of some rows holds numbers to be predicted and not the names of classes, if it does: a measure, or a
/// rating by its name.
pub(super) fn looks_like_scores(layout: &Layout, rows: &[&Record], column: usize) -> Option<String> {
    let fields: Vec<&str> = rows.iter().map(|row| row.field(column).trim()).filter(|field| !field.is_empty()).collect();
    let numbers: Vec<f64> = fields.iter().map(|field| number(field)).collect::<Option<_>>()?;
    let different: HashSet<u64> = numbers.iter().map(|x| x.to_bits()).collect();
    if different.len() < LEAST_NUMBERS {
        return None;
    }
    let title = layout.columns.get(column).map_or("", String::as_str);
    if is_rating_name(title) {
        return Some(tr!("{} is a rating by its name", "{}は名前から評価値", layout.column_title(column)));
    }
    (LabelKind::of(&fields, false) == Some(LabelKind::Measure))
        .then(|| tr!("{} holds a measure", "{}は数値", layout.column_title(column)))
}

fn is_rating_name(title: &str) -> bool {
    const NAMES: [&str; 12] =
        ["rating", "ratings", "stars", "star", "score", "scores", "grade", "評価", "評点", "点数", "星", "スコア"];
    let title = title.trim().to_lowercase();
    let last = title.rsplit(['_', ' ', '-', '.']).next().unwrap_or_default();
    NAMES.contains(&title.as_str()) || NAMES.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let cases = [("3", 3.0), (" -2.5 ", -2.5), ("1e3", 1000.0), ("４．５", 4.5), ("−1", -1.0), ("+7", 7.0)];
        cases.iter().for_each(|(field, expected)| assert_eq!(number(field), Some(*expected), "{field}"));
        for field in ["", "five", "inf", "NaN", "1e999", "4 stars", "1,000", "0x10", "--1"] {
            assert_eq!(number(field), None, "{field}");
        }
    }

    #[test]
    fn ratings_are_known_by_their_names() {
        assert!(["Rating", "star_rating", "stars", "評価", "overall score"].iter().all(|name| is_rating_name(name)));
        assert!(["label", "intent", "class", "price", "operating", ""].iter().all(|name| !is_rating_name(name)));
    }
}
