//! Numbers in fields, and columns of them: which are to be predicted.

use std::collections::HashSet;

use super::super::record::{Record, TableLayout};
use super::label_kind::LabelKind;
use super::missing::MissingValues;
use super::names::names_identifier;
use super::quantity::{Quantity, QuantityFormat, parse_number};
use crate::lang::wording::quote;
use crate::tr;

/// The share of values that are numbers, above which the others are mistakes.
const MIN_NUMBER_FRACTION: f64 = 0.8;

/// Fewest different numbers (3): two are two classes.
pub(crate) const MIN_DISTINCT_NUMBERS: usize = 3;

/// Checks whether a column holds numbers that measure something: three or more different ones, and no numbering of the rows.
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

/// The values of a column, without those that stand for none.
pub(crate) fn present_values<'a>(rows: &[&'a Record], column: usize, missing: &MissingValues) -> Vec<&'a str> {
    rows.iter().map(|row| row.field(column).trim()).filter(|field| !missing.is_missing(field)).collect()
}

/// Why the label column of some rows holds numbers to be predicted and not the names of classes, if it does: a measure, or a
/// rating by its name.
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

/// Whether the labels of some rows are numbers throughout, and more than two.
pub(crate) fn are_all_numbers(rows: &[&Record], column: usize, missing: &MissingValues) -> bool {
    let numbers: Option<HashSet<u64>> =
        present_values(rows, column, missing).into_iter().map(|field| parse_number(field).map(f64::to_bits)).collect();
    numbers.is_some_and(|numbers| numbers.len() >= MIN_DISTINCT_NUMBERS)
}

/// Checks whether the name of a column is that of ratings.
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
    // No space stands between Japanese words.
    let ends_in_japanese = NAMES.iter().any(|name| !name.is_ascii() && title.ends_with(name));
    NAMES.contains(&title.as_str()) || NAMES.contains(&last) || ends_in_japanese
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_known_by_their_names() {
        assert!(
            ["Rating", "star_rating", "stars", "評価", "総合評価", "overall score"]
                .iter()
                .all(|name| is_rating_name(name))
        );
        assert!(["label", "intent", "class", "price", "operating", ""].iter().all(|name| !is_rating_name(name)));
    }
}
