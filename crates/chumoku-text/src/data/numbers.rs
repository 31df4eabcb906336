//! Numbers in fields, and columns of them: which are to be predicted.

use std::collections::HashSet;

use super::label_kind::LabelKind;
use super::quantity::{Form, Quantity, number};
use super::record::{Layout, Record};
use crate::lang::wording::quoted;
use crate::tr;

/// The share of values that are numbers, above which the others are mistakes.
const NEARLY_ALL: f64 = 0.8;

/// Fewest different numbers (3): two are two classes.
pub(super) const LEAST_NUMBERS: usize = 3;

/// The one column of numbers beside the text that is no numbering of the rows, if there is just one.
pub(super) fn number_column(layout: &Layout, rows: &[&Record], texts: &[Option<usize>]) -> Option<usize> {
    const NUMBERING: [&str; 7] = ["id", "no", "no.", "index", "number", "番号", "#"];
    let is_number = |&column: &usize| {
        let title = layout.columns.get(column).map_or("", String::as_str).trim().to_lowercase();
        let fields: Vec<&str> =
            rows.iter().map(|row| row.field(column).trim()).filter(|field| !field.is_empty()).collect();
        let different: HashSet<&&str> = fields.iter().collect();
        !texts.contains(&Some(column))
            && !NUMBERING.contains(&title.as_str())
            && !title.ends_with("_id")
            && different.len() >= LEAST_NUMBERS
            && fields.iter().filter(|field| number(field).is_some()).count() as f64 > NEARLY_ALL * fields.len() as f64
            && LabelKind::of(&fields, false) != Some(LabelKind::Identifier)
    };
    let found: Vec<usize> = (0..layout.columns.len()).filter(is_number).collect();
    let &[only] = &found[..] else { return None };
    Some(only)
}

/// Why the label column of some rows holds numbers to be predicted and not the names of classes, if it does: a measure, or a
/// rating by its name.
pub(super) fn looks_like_scores(layout: &Layout, rows: &[&Record], column: usize) -> Option<String> {
    let fields: Vec<&str> = rows.iter().map(|row| row.field(column).trim()).filter(|field| !field.is_empty()).collect();
    let mut form = Form::default();
    let alike = |field: &&str| Quantity::of(field).filter(|found| found.agrees(&mut form));
    let numbers: Vec<f64> = fields.iter().filter_map(alike).map(|found| found.value).collect();
    let different: HashSet<u64> = numbers.iter().map(|x| x.to_bits()).collect();
    if different.len() < LEAST_NUMBERS || numbers.len() as f64 <= NEARLY_ALL * fields.len() as f64 {
        return None;
    }
    let title = layout.columns.get(column).map_or("", String::as_str);
    if is_rating_name(title) {
        let title = layout.column_title(column);
        return Some(match form.is_more() {
            false => tr!("{title} is a rating by its name", "{title}は名前から評価値"),
            true => {
                let first = quoted(fields[0]);
                tr!(
                    "{title} is a rating by its name, written like {first}",
                    "{title}は名前から評価値（書き方は{first}）"
                )
            }
        });
    }
    let all = numbers.len() == fields.len();
    (all && LabelKind::of(&fields, false) == Some(LabelKind::Measure))
        .then(|| tr!("{} holds a measure", "{}は数値", layout.column_title(column)))
}

/// Whether the labels of some rows are numbers throughout, and more than two.
pub(super) fn are_all_numbers(rows: &[&Record], column: usize) -> bool {
    let fields = rows.iter().map(|row| row.field(column).trim()).filter(|field| !field.is_empty());
    let numbers: Option<HashSet<u64>> = fields.map(|field| number(field).map(f64::to_bits)).collect();
    numbers.is_some_and(|numbers| numbers.len() >= LEAST_NUMBERS)
}

fn is_rating_name(title: &str) -> bool {
    const NAMES: [&str; 12] =
        ["rating", "ratings", "stars", "star", "score", "scores", "grade", "評価", "評点", "点数", "星", "スコア"];
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
