//! Recognizes dates and times.

/// Names of months and days, with markers of day halves and time zones.
const DATE_WORDS: [&str; 54] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "am",
    "pm",
    "gmt",
    "utc",
    "cet",
    "cest",
    "est",
    "edt",
    "cst",
    "cdt",
    "mst",
    "pst",
    "pdt",
    "bst",
    "jst",
    "ist",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Returns whether a field is a date or a time, such as `2026-11-22`, `22.11.2026 07:30`, `30-Jul-18` or `2026年11月22日`.
pub(crate) fn is_date(field: &str) -> bool {
    let field = field.trim();
    if field.len() > 64 {
        return false;
    }
    let digits = field.chars().filter(char::is_ascii_digit).count();
    let between = field.chars().filter(|c| matches!(c, '-' | '/' | '.' | ':' | '年' | '月' | ' ' | ',')).count();
    let is_marked = |c: char| c.is_ascii_digit() || "-/.:+TZ 年月日時分秒午前後".contains(c);
    let parts = field.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let fits = parts.clone().all(|part| part.len() <= 4 || field.contains(['T', ' ', '.']));
    let marks = field.chars().filter(|c| matches!(c, '-' | '/' | '.' | ':' | '年' | '月')).count();
    if (4..=23).contains(&digits) && marks >= 2 && parts.clone().count() >= 3 && fits && field.chars().all(is_marked) {
        return true;
    }
    // With a month or a day half in letters.
    let mut words = field.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1).peekable();
    words.peek().is_some()
        && words.all(|word| DATE_WORDS.contains(&word.to_lowercase().as_str()))
        && (3..=20).contains(&digits)
        && between >= 2
        && parts.clone().count() >= 2
        && field.chars().all(|c| is_marked(c) || c.is_ascii_alphabetic() || c == ',')
}

#[cfg(test)]
mod tests {
    use super::is_date;

    #[test]
    fn every_weekday_may_start_a_date() {
        for day in ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"] {
            assert!(is_date(&format!("{day}, 22 November 2026")), "{day}");
        }
        assert!(!is_date("Someday, 22 November 2026"));
    }
}
