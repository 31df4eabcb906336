//! Wording of messages: quotes, lists of names, suggestions and numbers.

use crate::lang::{is_harmful, lang};
use crate::tr;

/// Longest excerpt that a message quotes, in characters.
pub(crate) const MAX_QUOTED_CHARS: usize = 40;
/// Most names that a message lists.
const MAX_LISTED_NAMES: usize = 12;

/// Quotes an excerpt of a file on one line, shortened, with control characters escaped.
pub fn quote(text: &str) -> String {
    let mut out = String::from("“");
    let mut chars = text.chars();
    for c in chars.by_ref().take(MAX_QUOTED_CHARS) {
        if is_harmful(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out.push('”');
    out
}

/// Lists quoted names with commas. A long list ends with the number of names left out.
pub fn list_names<S: AsRef<str>>(names: &[S]) -> String {
    let mut out = join_names(&names.iter().take(MAX_LISTED_NAMES).map(|name| quote(name.as_ref())).collect::<Vec<_>>());
    if let Some(more) = names.len().checked_sub(MAX_LISTED_NAMES).filter(|&more| more > 0) {
        out.push_str(&tr!(" and {more} more", "ほか {more} 個"));
    }
    out
}

/// Joins items with the comma of the process's language.
pub fn join_names(names: &[String]) -> String {
    names.join(lang().pick(", ", "、"))
}

/// Returns `; did you mean “x”?` if one of `names` is close to `typed`, else an empty string.
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest_name(typed, names) {
        Some(name) => tr!("; did you mean {}?", "。{}のことですか", quote(name)),
        None => String::new(),
    }
}

/// Returns the name closest to `typed` by edit distance, ignoring case, if at most a third of its letters differ.
pub fn nearest_name<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer names are not typos, and the distance costs the product of the lengths.
    const COMPARED: usize = 64;
    let folded = |name: &str| name.trim().chars().take(COMPARED).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let typed = folded(typed);
    let allowed = (typed.len() / 3).max(1);
    names
        .into_iter()
        .filter(|name| !name.trim().is_empty())
        .map(|name| (edit_distance(&typed, &folded(name)), name))
        .filter(|&(distance, _)| distance <= allowed && distance < typed.len())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// The Levenshtein distance, computed one row of the table at a time.
pub fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Formats a count with its noun: `1 row`, `2 rows`.
pub fn format_count(n: u64, singular: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{n} {singular}s") }
}

/// Formats a share in percent: `12.5 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats an integer with thousands separators: `1,234,567`.
#[must_use]
pub fn format_thousands(n: usize) -> String {
    format_thousands_wide(n as u128)
}

/// [`format_thousands`] for a `u128`.
#[must_use]
pub fn format_thousands_wide(n: u128) -> String {
    chumoku_kernels::format_thousands(n)
}

/// Formats a size in bytes. Rounds up, so that a size over a limit never reads as the limit.
pub(crate) fn format_size(bytes: u64) -> String {
    const MEBI: u64 = 1 << 20;
    if bytes < MEBI {
        let counted = format_count(bytes, "byte");
        return tr!("{counted}", "{bytes} バイト");
    }
    if bytes.is_multiple_of(MEBI) {
        return format!("{} MiB", bytes / MEBI);
    }
    // Tenths, rounded up: one byte over 16 MiB must not read “16 MiB”.
    let tenths = (bytes as f64 / MEBI as f64 * 10.0).ceil() as u64;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quote("a\nb\u{1b}[31m"), "“a\\nb\\u{1b}[31m”");
        assert_eq!(quote(&"x".repeat(41)), format!("“{}…”", "x".repeat(40)));
    }

    #[test]
    fn the_nearest_name_is_one_typo_away() {
        assert_eq!(nearest_name("reviw", ["stars", "review", "title"]), Some("review"));
        assert_eq!(nearest_name("LABEL", ["label"]), Some("label"));
        assert_eq!(nearest_name("colour", ["x", "sentiment"]), None);
        assert_eq!(nearest_name("", ["a"]), None);
    }

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!([0, 999, 1000, 1234567].map(format_thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(format_thousands_wide(1 << 64), "18,446,744,073,709,551,616");
    }

    #[test]
    fn sizes_round_up() {
        assert_eq!(format_size(1), "1 byte");
        assert_eq!(format_size(16 << 20), "16 MiB");
        assert_eq!(format_size((16 << 20) + 1), "16.1 MiB");
        assert_eq!(format_size(100 << 20), "100 MiB");
    }
}
