//! Converts cell values to text.

use calamine::{DataRef, ExcelDateTime};

/// Milliseconds per day.
const DAY: f64 = 86_400_000.0;

/// Returns the text of a cell: numbers without the `.0` of their storage, dates in ISO 8601.
pub(super) fn cell_text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(true) => "TRUE".to_owned(),
        DataRef::Bool(false) => "FALSE".to_owned(),
        DataRef::DateTime(time) => time_text(*time),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

/// Returns the letters of a column, counted from 0: `A`, `Z`, `AA`.
pub(super) fn column_letters(column: usize) -> String {
    let (mut letters, mut rest) = (Vec::new(), column + 1);
    while rest > 0 {
        letters.push(char::from(b'A' + ((rest - 1) % 26) as u8));
        rest = (rest - 1) / 26;
    }
    letters.iter().rev().collect()
}

/// Formats a number with the fifteen digits that Excel shows: 3, or 0.3 for the sum of 0.1 and 0.2.
fn number_text(number: f64) -> String {
    let shown: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    match shown.abs() {
        0.0 => "0".to_owned(),
        size if (1e-7..1e21).contains(&size) => shown.to_string(),
        _ => format!("{shown:e}"),
    }
}

/// Formats a date, a date with a time, a time, or a duration that may exceed a day.
fn time_text(time: ExcelDateTime) -> String {
    let days = time.as_f64();
    let is_time = (0.0..1.0).contains(&days);
    if time.is_duration() || is_time {
        let total = (days * DAY).round();
        if !total.is_finite() || total.abs() > 1e15 {
            return number_text(days);
        }
        let (sign, total) = (if total < 0.0 { "-" } else { "" }, total.abs() as u64);
        let (hours, minutes, seconds) = (total / 3_600_000, total / 60_000 % 60, total / 1_000 % 60);
        return format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", millisecond_suffix(total % 1_000));
    }
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    match (hour, minute, second, milli) {
        (0, 0, 0, 0) => date,
        _ => format!("{date}T{hour:02}:{minute:02}:{second:02}{}", millisecond_suffix(u64::from(milli))),
    }
}

/// Formats milliseconds after the seconds; empty for 0.
fn millisecond_suffix(milli: u64) -> String {
    if milli == 0 { String::new() } else { format!(".{milli:03}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType;

    #[test]
    fn numbers_look_as_in_excel() {
        let cases = [(3.0, "3"), (0.1 + 0.2, "0.3"), (-2.5, "-2.5"), (1e6, "1000000"), (-0.0, "0"), (1e300, "1e300")];
        for (number, shown) in cases {
            assert_eq!(cell_text(&DataRef::Float(number)), shown);
        }
        assert_eq!(cell_text(&DataRef::Bool(true)), "TRUE");
    }

    #[test]
    fn dates_and_times_are_iso_8601() {
        let of = |days, kind| cell_text(&DataRef::DateTime(ExcelDateTime::new(days, kind, false)));
        let date = |days| of(days, ExcelDateTimeType::DateTime);
        assert_eq!(date(45943.0), "2025-10-13");
        assert_eq!(date(45943.5), "2025-10-13T12:00:00");
        assert_eq!(date(45943.541), "2025-10-13T12:59:02.400");
        assert_eq!(date(0.75), "18:00:00");
        assert_eq!(of(1.5, ExcelDateTimeType::TimeDelta), "36:00:00");
        assert_eq!(of(f64::INFINITY, ExcelDateTimeType::TimeDelta), "inf");
    }

    #[test]
    fn columns_have_letters() {
        let cases = [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")];
        cases.into_iter().for_each(|(column, name)| assert_eq!(column_letters(column), name));
    }
}
