//! Whether the first row of a CSV or TSV file names the columns.

use super::columns::{named_role, names_two_texts};
use super::error::Role;
use super::format::ReadOptions;
use super::pair_columns::named_pair;
use super::profile::is_number;

/// Decides from the first row and those below it.
///
/// In this order: what the options say; a column that the options name; names for both text and label; the digits
/// 0, 1, 2 … above words (pandas); a value that comes again in its column, or a number, which no header has; a name
/// or a pair of names we know; names above a column of numbers or of few distinct values; else there is none.
pub(crate) fn has_header(first: &[String], below: &[&[String]], options: &ReadOptions) -> bool {
    if let Some(header) = options.header {
        return header;
    }
    let named = |wanted: &str| {
        !is_number(wanted) && first.iter().any(|name| name.trim().to_lowercase() == wanted.trim().to_lowercase())
    };
    let (text, label) = (options.text.as_deref(), options.label.as_deref());
    let of_pair = text.filter(|_| options.pairs).and_then(|text| text.split_once(','));
    if text.is_some_and(named) || label.is_some_and(named) || of_pair.is_some_and(|(a, b)| named(a) && named(b)) {
        return true;
    }
    let roles: Vec<Role> = first.iter().filter_map(|name| named_role(name)).collect();
    if roles.contains(&Role::Text) && roles.contains(&Role::Label) {
        return true;
    }
    // A file made with `cat` may hold its header again further down.
    let below: Vec<&[String]> = below.iter().copied().filter(|row| *row != first).collect();
    if is_default_index(first) && !below.is_empty() {
        return (0..first.len()).any(|c| values(&below, c).any(|value| !value.is_empty() && !is_number(value)));
    }
    let comes_again =
        |(c, name): (usize, &String)| !name.trim().is_empty() && values(&below, c).any(|value| value == name);
    if first.iter().enumerate().any(comes_again) || first.iter().any(|name| is_number(name)) {
        return false;
    }
    if !roles.is_empty() || named_pair(first).is_some() || names_two_texts(first) {
        return true;
    }
    // An index has no name, nor has the column that a delimiter at the end of each line makes.
    let last = first.len().saturating_sub(1);
    let named_like_columns =
        first.iter().enumerate().all(|(c, name)| is_name(name) || ((c == 0 || c == last) && name.is_empty()));
    first.len() > 1
        && named_like_columns
        && (0..first.len()).any(|c| is_all_numbers(&below, c) || has_few_values(&below, c))
}

fn values<'a>(rows: &'a [&'a [String]], column: usize) -> impl Iterator<Item = &'a str> {
    rows.iter().filter_map(move |row| row.get(column).map(String::as_str))
}

/// `0,1,2`, or the same behind an empty name: what pandas writes over columns that have no names.
fn is_default_index(first: &[String]) -> bool {
    let numbered = match first {
        [empty, rest @ ..] if empty.is_empty() => rest,
        all => all,
    };
    !numbered.is_empty() && numbered.iter().enumerate().all(|(i, name)| *name == i.to_string()) && first.len() > 1
}

/// Whether a field could be the name of a column: short, and no sentence.
pub(crate) fn is_name(field: &str) -> bool {
    let field = field.trim();
    let chars = field.chars().count();
    (1..=40).contains(&chars)
        && field.split_whitespace().count() <= 3
        && !field.ends_with(['.', '!', '?', '。', '！', '？', '、', '」'])
}

/// Whether the column holds numbers and nothing else.
fn is_all_numbers(below: &[&[String]], column: usize) -> bool {
    let mut some = false;
    values(below, column).filter(|value| !value.trim().is_empty()).all(|value| {
        some = true;
        is_number(value)
    }) && some
}

/// Whether each value of the column comes four times on average, so that one that never comes again stands out.
fn has_few_values(below: &[&[String]], column: usize) -> bool {
    let distinct: std::collections::HashSet<&str> = values(below, column).collect();
    !distinct.is_empty() && distinct.len() * 4 <= below.len()
}
