//! Numeric columns, and which of them are prediction targets.

use std::collections::HashSet;

use super::super::record::{Record, TableLayout};
use super::label_kind::LabelKind;
use super::missing::MissingValues;
use super::names::names_identifier;
use super::quantity::{Quantity, QuantityFormat, parse_number};
use crate::lang::wording::quote;
use crate::tr;

/// The fraction of numeric values above which the others are mistakes.
const MIN_NUMBER_FRACTION: f64 = 0.8;

/// Fewest distinct numbers (3): two are two classes.
pub(crate) const MIN_DISTINCT_NUMBERS: usize = 3;

/// Returns whether a column holds measures: three or more distinct numbers that do not number the rows.
pub(crate) fn is_measure_column(
    layout: &TableLayout,
    rows: &[&Record],
    column: usize,
    missing: &MissingValues,
) -> bool {
    let fields = present_values(rows, column, missing);
    let different: HashSet<&&str> = fields.iter().collect();
    let numbers = fields.iter().filter(|field| Quantity::parse(field).is_some()).count();
    let title = layout.columns.get(column).map_or("", String::as_str);
    !(layout.has_names() && names_identifier(title))
        && different.len() >= MIN_DISTINCT_NUMBERS
        && numbers as f64 > MIN_NUMBER_FRACTION * fields.len() as f64
        && LabelKind::detect(&fields, false) != Some(LabelKind::Identifier)
}

/// Returns the values of a column, without missing ones.
pub(crate) fn present_values<'a>(rows: &[&'a Record], column: usize, missing: &MissingValues) -> Vec<&'a str> {
    rows.iter().map(|row| row.field(column).trim()).filter(|field| !missing.is_missing(field)).collect()
}

/// Returns why a label column holds numbers to predict rather than class names, or `None`: it is a measure, or a rating
/// by its name.
pub(crate) fn looks_like_scores(
    layout: &TableLayout,
    rows: &[&Record],
    column: usize,
    missing: &MissingValues,
) -> Option<String> {
    let fields = present_values(rows, column, missing);
    let mut form = QuantityFormat::default();
    let alike = |field: &&str| Quantity::parse(field).filter(|found| found.fits_column(&mut form));
    let numbers: Vec<f64> = fields.iter().filter_map(alike).map(|found| found.value).collect();
    let different: HashSet<u64> = numbers.iter().map(|x| x.to_bits()).collect();
    if different.len() < MIN_DISTINCT_NUMBERS || numbers.len() as f64 <= MIN_NUMBER_FRACTION * fields.len() as f64 {
        return None;
    }
    let title = layout.columns.get(column).map_or("", String::as_str);
    if is_rating_name(title) {
        let title = layout.column_title(column);
        return Some(match form.is_decorated() {
            false => tr!("{title} is a rating by its name", "{title}は名前から評価値"),
            true => {
                let first = quote(fields[0]);
                tr!(
                    "{title} is a rating by its name, written like {first}",
                    "{title}は名前から評価値（書き方は{first}）"
                )
            }
        });
    }
    let all = numbers.len() == fields.len();
    let has_fractions = numbers.iter().any(|number| number.fract() != 0.0);
    let nearly_all = numbers.len() * 10 >= fields.len() * 9;
    if nearly_all && form.has_decimal_comma() && has_fractions {
        let (title, first) = (layout.column_title(column), quote(fields[0]));
        return Some(tr!(
            "{title} holds numbers with a decimal comma, such as {first}",
            "{title}は小数点がコンマの数値（{first} など）"
        ));
    }
    (all && LabelKind::detect(&fields, false) == Some(LabelKind::Measure))
        .then(|| tr!("{} holds a measure", "{}は数値", layout.column_title(column)))
}

/// Returns whether all labels are numbers, with more than two distinct ones.
pub(crate) fn are_all_numbers(rows: &[&Record], column: usize, missing: &MissingValues) -> bool {
    let numbers: Option<HashSet<u64>> =
        present_values(rows, column, missing).into_iter().map(|field| parse_number(field).map(f64::to_bits)).collect();
    numbers.is_some_and(|numbers| numbers.len() >= MIN_DISTINCT_NUMBERS)
}

/// Returns whether a column name means ratings.
pub(crate) fn is_rating_name(title: &str) -> bool {
    const NAMES: [&str; 24] = [
        "rating",
        "ratings",
        "stars",
        "star",
        "score",
        "scores",
        "grade",
        "grades",
        "評価",
        "評点",
        "点数",
        "星",
        "スコア",
        "note",
        "noten",
        "bewertung",
        "sterne",
        "punkte",
        "punktzahl",
        "nota",
        "notas",
        "puntuación",
        "calificación",
        "voto",
    ];
    let title = title.trim().to_lowercase();
    let last = title.rsplit(['_', ' ', '-', '.']).next().unwrap_or_default();
    // Japanese words are not separated by spaces.
    let ends_in_japanese = NAMES.iter().any(|name| !name.is_ascii() && title.ends_with(name));
    NAMES.contains(&title.as_str()) || NAMES.contains(&last) || ends_in_japanese
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rating_columns_are_recognized_by_name() {
        assert!(
            ["Rating", "star_rating", "stars", "評価", "総合評価", "overall score"]
                .iter()
                .all(|name| is_rating_name(name))
        );
        assert!(["label", "intent", "class", "price", "operating", ""].iter().all(|name| !is_rating_name(name)));
    }
}
