//! Parsing of dates and times as they appear in files.

use crate::calendar::{Date, ERAS, MONTHS};

/// A date, and the hour if a time is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DateHour {
    pub(crate) date: Date,
    /// 0 to 23.
    pub(crate) hour: Option<u32>,
}

/// A parsed date.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ParsedDate {
    pub(crate) date_hour: DateHour,
    /// The first two numbers of a date such as 31/12/2024, whose order is ambiguous.
    pub(crate) ambiguous: Option<[i64; 2]>,
}

impl DateHour {
    /// Returns the year with the fraction that has passed.
    pub fn years(&self) -> f64 {
        let first = Date { year: self.date.year, month: 1, day: 1 };
        self.date.year as f64 + (self.date.days() - first.days()) as f64 / 366.0
    }
}

/// Parses a date, optionally followed by a time (2024-01-31T18:30:00Z). Formats: 2024-01-31, 2024/1/31, 31.1.2024,
/// 1/31/2024 (with `day_first` 31/1/2024), 31 Jan 2024, 31-Jan-24, January 31, 2024, 2024年1月31日, 令和6年1月31日.
pub(super) fn parse(cell: &str, day_first: bool) -> Option<ParsedDate> {
    let narrow = |c: char| match c {
        '０'..='９' => char::from_u32(c as u32 - '０' as u32 + '0' as u32).unwrap_or(c),
        '／' => '/',
        '：' => ':',
        c => c,
    };
    let text: String = cell.trim().chars().map(narrow).collect();
    // Longer fields are text.
    if text.len() > 64 {
        return None;
    }
    let DateParts { date, rest, ambiguous } =
        parse_numeric(&text, day_first).or_else(|| parse_japanese(&text)).or_else(|| parse_english(&text))?;
    let date = valid_date(date)?;
    let hour = match rest.trim_matches(|c: char| c.is_whitespace() || c == ',') {
        "" => None,
        time => Some(parse_hour(time)?),
    };
    Some(ParsedDate { date_hour: DateHour { date, hour }, ambiguous })
}

/// A date at the start of a text.
struct DateParts<'a> {
    date: Date,
    /// The text after it.
    rest: &'a str,
    /// Day and month, or month and day, if their order is unknown.
    ambiguous: Option<[i64; 2]>,
}

/// Returns the date if it exists in the calendar.
fn valid_date(date: Date) -> Option<Date> {
    let can_be = (1..=9999).contains(&date.year) && (1..=12).contains(&date.month) && (1..=31).contains(&date.day);
    (can_be && Date::from_days(date.days()) == date).then_some(date)
}

fn date_of(year: i64, month: i64, day: i64) -> Option<Date> {
    Some(Date { year, month: month.try_into().ok()?, day: day.try_into().ok()? })
}

/// A number at the start of a text.
struct LeadingNumber<'a> {
    number: i64,
    /// Number of digits.
    length: usize,
    /// The text after it.
    rest: &'a str,
}

/// Splits off up to four leading digits.
fn digits(text: &str) -> Option<LeadingNumber<'_>> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=4).contains(&length) {
        return None;
    }
    Some(LeadingNumber { number: text[..length].parse().ok()?, length, rest: &text[length..] })
}

/// Expands a two-digit year as in spreadsheets and POSIX: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068.
fn full_year(year: i64, digits: usize) -> i64 {
    match year {
        _ if digits > 2 => year,
        69.. => 1900 + year,
        _ => 2000 + year,
    }
}

fn parse_numeric(text: &str, day_first: bool) -> Option<DateParts<'_>> {
    let LeadingNumber { number: first, length: long, rest } = digits(text)?;
    let separator = rest.chars().next().filter(|c| ['-', '/', '.'].contains(c))?;
    let LeadingNumber { number: second, rest, .. } = digits(&rest[1..])?;
    let LeadingNumber { number: third, length: last_long, rest } = digits(rest.strip_prefix(separator)?)?;
    let rest = rest.strip_prefix('T').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(rest);
    match (long, last_long) {
        (4, 1 | 2) => Some(DateParts { date: date_of(first, second, third)?, rest, ambiguous: None }),
        (1 | 2, 2 | 4) if separator == '.' => {
            Some(DateParts { date: date_of(full_year(third, last_long), second, first)?, rest, ambiguous: None })
        }
        (1 | 2, 2 | 4) if last_long == 4 || separator == '/' => {
            let third = full_year(third, last_long);
            let [month, day] = if day_first { [second, first] } else { [first, second] };
            Some(DateParts { date: date_of(third, month, day)?, rest, ambiguous: Some([first, second]) })
        }
        _ => None,
    }
}

fn parse_japanese(text: &str) -> Option<DateParts<'_>> {
    let era = ERAS.iter().find(|era| text.starts_with(era.name));
    let text = era.map_or(text, |era| &text[era.name.len()..]);
    let (year, rest) = match (era, text.strip_prefix('元')) {
        (Some(_), Some(rest)) => (1, rest),
        _ => digits(text).map(|year| (year.number, year.rest))?,
    };
    let year = era.map_or(year, |era| era.first.year - era.year(era.first) + year);
    let month = digits(rest.strip_prefix('年')?)?;
    let day = digits(month.rest.strip_prefix('月')?)?;
    let date = date_of(year, month.number, day.number)?;
    Some(DateParts { date, rest: day.rest.strip_prefix('日')?, ambiguous: None })
}

fn parse_english(text: &str) -> Option<DateParts<'_>> {
    let is_gap = |c: char| c.is_whitespace() || c == ',' || c == '-';
    let (mut rest, mut words) = (text, Vec::new());
    while words.len() < 3 {
        let at = rest.find(is_gap).unwrap_or(rest.len());
        words.push(&rest[..at]);
        rest = rest[at..].trim_start_matches(is_gap);
        if rest.is_empty() {
            break;
        }
    }
    let &[first, second, year] = &words[..] else { return None };
    let month = |word: &str| {
        let word = word.trim_end_matches('.');
        let is_it = |name: &&str| name.eq_ignore_ascii_case(word) || name[..3].eq_ignore_ascii_case(word);
        (1..).zip(MONTHS).find(|(_, name)| is_it(name)).map(|(month, _)| month)
    };
    let day = |word: &str| {
        let bare = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        digits(bare).filter(|day| day.length < 3 && day.rest.is_empty()).map(|day| day.number)
    };
    let (month, day) = match month(first) {
        Some(month) => (month, day(second)?),
        None => (month(second)?, day(first)?),
    };
    let year = digits(year).filter(|year| matches!(year.length, 2 | 4) && year.rest.is_empty())?;
    Some(DateParts { date: date_of(full_year(year.number, year.length), month, day)?, rest, ambiguous: None })
}

/// Parses the hour of a time such as 18:30, 18:30:00.5+09:00, 6:30 PM.
fn parse_hour(text: &str) -> Option<u32> {
    let LeadingNumber { number: hour, length: long, rest } = digits(text)?;
    let minute = digits(rest.strip_prefix(':')?)?;
    let half = minute
        .rest
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.')
        .trim()
        .to_ascii_lowercase();
    let is_zone = half.is_empty()
        || half == "z"
        || half == "utc"
        || half.starts_with(['+', '-']) && half[1..].bytes().all(|c| c.is_ascii_digit() || c == b':');
    let hour = match half.as_str() {
        "am" => (1..=12).contains(&hour).then_some(hour % 12)?,
        "pm" => (1..=12).contains(&hour).then_some(hour % 12 + 12)?,
        _ if is_zone => hour,
        _ => return None,
    };
    (hour < 24 && minute.number < 60 && long < 3 && minute.length == 2).then(|| hour.try_into().unwrap_or(0))
}
