//! Tests that read the pairs back with a small date reader, which shares no code with the generator.

use super::*;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// The weekdays of Zeller's congruence, from Saturday.
const WEEKDAYS: [&str; 7] = ["sat", "sun", "mon", "tue", "wed", "thu", "fri"];
const YOUBI: [char; 7] = ['土', '日', '月', '火', '水', '木', '金'];
/// Eras: the year before the first, the first day and the last day.
const ERA_TABLE: [(&str, &str, u32, &str, &str); 5] = [
    ("明治", "m", 1867, "1868-10-23", "1912-07-30"),
    ("大正", "t", 1911, "1912-07-30", "1926-12-25"),
    ("昭和", "s", 1925, "1926-12-25", "1989-01-07"),
    ("平成", "h", 1988, "1989-01-08", "2019-04-30"),
    ("令和", "r", 2018, "2019-05-01", "9999-12-31"),
];

/// Replaces full-width forms by ASCII, lowercases, and writes kanji numbers in digits.
fn plain(text: &str) -> String {
    let narrow = |c: char| match c {
        '\u{3000}' => ' ',
        '！'..='～' => char::from_u32(c as u32 - 0xFEE0).unwrap(),
        _ => c,
    };
    let text: String = text.chars().map(narrow).collect::<String>().to_lowercase().replace('元', "1");
    let value = |c: char| match c {
        '〇' => Some(0),
        _ => "一二三四五六七八九".chars().position(|digit| digit == c).map(|at| at as u32 + 1),
    };
    let unit = |c: char| [('十', 10), ('百', 100), ('千', 1000)].into_iter().find(|&(name, _)| name == c);
    let (mut out, mut sum, mut digits, mut inside) = (String::new(), 0, None, false);
    for c in text.chars().chain([' ']) {
        if let Some(value) = value(c) {
            digits = Some(digits.unwrap_or(0) * 10 + value);
            inside = true;
        } else if let Some((_, unit)) = unit(c) {
            sum += digits.take().unwrap_or(1) * unit;
            inside = true;
        } else {
            if inside {
                out += &(sum + digits.take().unwrap_or(0)).to_string();
                (sum, inside) = (0, false);
            }
            out.push(c);
        }
    }
    out.trim().to_owned()
}

/// Returns the number that ends where `mark` begins.
fn before(text: &str, mark: &str) -> Option<u32> {
    let at = text.find(mark)?;
    let start =
        text[..at].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + text[i..].chars().next().unwrap().len_utf8());
    text[start..at].parse().ok()
}

/// Returns the runs of ASCII digits.
fn numbers(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).collect()
}

/// Removes the time from a text, and returns the rest and the time.
fn read_time(text: &str) -> (String, Option<(u32, u32)>) {
    for (word, time) in [("正午", (12, 0)), ("noon", (12, 0)), ("midnight", (0, 0))] {
        if text.contains(word) {
            return (text.replace(word, " "), Some(time));
        }
    }
    let is_part = |c: char| c.is_ascii_digit() || "時分半".contains(c);
    if let Some(at) = text.find('時') {
        let digits = text[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        let start = digits.strip_suffix("午前").or(digits.strip_suffix("午後")).unwrap_or(digits).len();
        let end = text.len() - text[at..].trim_start_matches(is_part).len();
        let time = &text[start..end];
        let hour = before(time, "時").unwrap() + if time.contains("午後") { 12 } else { 0 };
        let minute = if time.contains('半') { 30 } else { before(time, "分").unwrap_or(0) };
        return (format!("{} {}", &text[..start], &text[end..]), Some((hour, minute)));
    }
    // A number, optionally with minutes, that a.m. or p.m. follows, or a number with minutes after a colon.
    for (at, _) in text.char_indices().filter(|&(_, c)| c.is_ascii_digit()) {
        if text[..at].ends_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let digits = text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| at + n);
        let hour: u32 = text[at..digits].parse().unwrap();
        let (minute, end) = match text[digits..].strip_prefix(':') {
            Some(rest) => (Some(rest[..2].parse().unwrap()), digits + 3),
            None => (None, digits),
        };
        let behind = text[end..].trim_start();
        let half = ["a.m.", "p.m.", "am", "pm"].into_iter().find(|half| behind.starts_with(half));
        let rest = |end: usize| format!("{} {}", &text[..at], &text[end..]);
        match (half, minute) {
            // A 12-hour clock never shows 0:30 or 13:30.
            (Some(_), _) if !(1..=12).contains(&hour) => return (rest(end), Some((hour, 60))),
            (Some(half), minute) => {
                let hour = hour % 12 + if half.starts_with('p') { 12 } else { 0 };
                return (rest(text.len() - behind.len() + half.len()), Some((hour, minute.unwrap_or(0))));
            }
            (None, Some(minute)) => return (rest(end), Some((hour, minute))),
            (None, None) => {}
        }
    }
    (text.to_owned(), None)
}

/// Reads a date: year, month, day. `None` if the text is ambiguous, or the day is outside its era.
fn read_date(text: &str) -> Option<(u32, u32, u32)> {
    let era = ERA_TABLE.iter().find(|(name, letter, ..)| {
        let short = text.strip_prefix(letter).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        text.contains(name) || short
    });
    let (year, month, day) = if text.contains('年') {
        (before(text, "年")?, before(text, "月")?, before(text, "日")?)
    } else if let Some(month) = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .find_map(|word| MONTHS.iter().position(|month| word.starts_with(month) && !WEEKDAYS.contains(&word)))
    {
        match numbers(text).as_slice() {
            [day, year] if year.len() == 4 => (year.parse().ok()?, month as u32 + 1, day.parse().ok()?),
            _ => return None,
        }
    } else {
        let found: Vec<u32> = numbers(text).iter().map(|run| run.parse().unwrap()).collect();
        match *found.as_slice() {
            [] => return None,
            [all] => (all / 10_000, all / 100 % 100, all % 100),
            [year, month, day] if era.is_some() || year > 31 => (year, month, day),
            // The larger number is the day. If neither exceeds 12, they must be equal.
            [a, b, year] if a > 12 || b > 12 || a == b => (year, a.min(b), a.max(b)),
            _ => return None,
        }
    };
    let Some((_, _, zero, first, last)) = era else { return Some((year, month, day)) };
    let iso = format!("{}-{month:02}-{day:02}", zero + year);
    (*first..=*last).contains(&iso.as_str()).then_some((zero + year, month, day))
}

/// Returns the weekday by Zeller's congruence (1882), with 0 for Saturday.
fn zeller(year: u32, month: u32, day: u32) -> usize {
    let (year, month) = if month < 3 { (year - 1, month + 12) } else { (year, month) };
    ((day + 13 * (month + 1) / 5 + year + year / 4 - year / 100 + year / 400) % 7) as usize
}

fn is_date(year: u32, month: u32, day: u32) -> bool {
    let is_leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    (1..=12).contains(&month) && (1..=lengths[month as usize - 1]).contains(&day)
}

/// Returns the ISO form of a text. `None` if its weekday is wrong, or it has no valid day or time.
fn read(source: &str) -> Option<String> {
    let (text, time) = read_time(&plain(source));
    let date = read_date(text.trim());
    if let Some((year, month, day)) = date {
        let named = text.split(|c: char| !c.is_ascii_alphabetic()).find_map(|word| {
            WEEKDAYS.iter().position(|name| word == *name || (word.starts_with(name) && word.ends_with("day")))
        });
        let marked = text.split_once('曜').and_then(|(front, _)| front.chars().last());
        let bracketed = text.split_once('(').and_then(|(_, behind)| behind.chars().next());
        let youbi = marked.or(bracketed).map(|c| YOUBI.iter().position(|&name| name == c).unwrap());
        let weekday = named.or(youbi);
        if !is_date(year, month, day) || weekday.is_some_and(|weekday| weekday != zeller(year, month, day)) {
            return None;
        }
    }
    if time.is_some_and(|(hour, minute)| hour > 23 || minute > 59) || (date, time) == (None, None) {
        return None;
    }
    let date = date.map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}"));
    let time = time.map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
    Some([date, time].into_iter().flatten().collect::<Vec<_>>().join("T"))
}

#[test]
fn the_reader_reads_known_dates() {
    for (source, target) in [
        ("令和8年11月20日(金)", "2026-11-20"),
        ("Nov. 20th, 2026", "2026-11-20"),
        ("Ｒ８．１１．２０", "2026-11-20"),
        ("H31.4.30", "2019-04-30"),
        ("平成元年一月八日 日曜日", "1989-01-08"),
        ("昭和六十四年一月七日午後三時半", "1989-01-07T15:30"),
        ("Friday, 20 Nov 2026 at 3:05 p.m.", "2026-11-20T15:05"),
        ("MAY 12, 1999 at 12:05 am", "1999-05-12T00:05"),
        ("二〇二六年十一月二十日", "2026-11-20"),
        ("千九百年二月二十八日", "1900-02-28"),
        ("20/11/2026, 9:05", "2026-11-20T09:05"),
        ("12/20/2026", "2026-12-20"),
        ("正午", "12:00"),
        ("20261120", "2026-11-20"),
    ] {
        assert_eq!(read(source).as_deref(), Some(target), "{source}");
    }
    for wrong in [
        "昭和64年1月8日",
        "2026年11月20日(木)",
        "Thu, 20 Nov 2026",
        "2026-02-29",
        "令和元年4月30日",
        "5/3/2026",
        "25:00",
        "0:30 p.m.",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn every_target_matches_its_text() {
    for seed in [1, 2] {
        let PairSplit { train, valid, test, .. } = dates(seed);
        for part in [train, valid, test] {
            for (source, target) in part.sources.iter().zip(&part.targets) {
                assert_eq!(read(source).as_ref(), Some(target), "{source}");
            }
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_pairs() {
    let (one, same, other) = (dates(7), dates(7), dates(8));
    assert_eq!((&one.train, &one.valid, &one.test), (&same.train, &same.valid, &same.test));
    assert_ne!(one.train, other.train);
    assert_ne!(one.test, other.test);
}

#[test]
fn splits_share_no_source_no_target_and_no_day() {
    let parts = dates(3);
    let of = |part: &SentencePairs| {
        let sources: HashSet<String> = part.sources.iter().cloned().collect();
        assert_eq!(sources.len(), part.len(), "a source comes twice");
        let days = |target: &String| target.split('T').next().unwrap().to_owned();
        (sources, part.targets.iter().map(days).collect::<HashSet<String>>())
    };
    let [train, valid, test] = [&parts.train, &parts.valid, &parts.test].map(of);
    for (a, b) in [(&train, &valid), (&train, &test), (&valid, &test)] {
        assert!(a.0.is_disjoint(&b.0) && a.1.is_disjoint(&b.1));
    }
}

#[test]
fn all_formats_occur() {
    let parts = dates(1);
    assert_eq!([parts.train.len(), parts.valid.len(), parts.test.len()], [TRAIN, VALID, TEST]);
    for part in [&parts.train, &parts.test] {
        let share = |has: &dyn Fn(&str) -> bool| {
            part.sources.iter().filter(|source| has(source)).count() as f64 / part.len() as f64
        };
        let japanese = share(&|text| text.contains(|c: char| !c.is_ascii()));
        assert!((0.4..0.6).contains(&japanese), "{japanese}");
        let with = |word: &str, least: f64| {
            let found = share(&|text| text.contains(word));
            assert!(found > least, "{word}: {found}");
        };
        for (name, ..) in ERA_TABLE {
            with(name, 0.01);
        }
        for word in ["午後", "時半", "元年", "(", "（", "曜日", "p.m.", " of ", " at ", "２", "二", "十", "/", "R", "H"]
        {
            with(word, 0.001);
        }
        let times = part.targets.iter().filter(|target| target.contains(':')).count() as f64 / part.len() as f64;
        assert!((0.2..0.4).contains(&times), "{times}");
    }
    // Short years at both ends of eras occur in training.
    let trained = |target: &str| parts.train.targets.iter().filter(|found| found.starts_with(target)).count();
    assert!(parts.train.sources.iter().any(|text| text.contains("noon")));
    assert!(trained("1926-12") > 10 && trained("1989-01") > 10 && trained("2019") > 10);
}
