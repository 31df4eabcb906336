//! Dates and times as people write them in Japanese.

use super::{Day, RandomChoices, Time};
use crate::calendar::Date;

const WEEKDAYS: [char; 7] = ['日', '月', '火', '水', '木', '金', '土'];
const DIGITS: [char; 10] = ['〇', '一', '二', '三', '四', '五', '六', '七', '八', '九'];

/// The script of the numbers in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumeralScript {
    Ascii,
    /// ２０２６
    FullWidth,
    /// 二〇二六
    Kanji,
}

impl NumeralScript {
    fn draw(draw: &mut RandomChoices) -> Self {
        draw.choose(&[
            NumeralScript::Ascii,
            NumeralScript::Ascii,
            NumeralScript::Ascii,
            NumeralScript::FullWidth,
            NumeralScript::Kanji,
        ])
    }

    /// Writes a number in a date or time.
    fn number(self, number: u32) -> String {
        match self {
            NumeralScript::Kanji => kanji(number),
            _ => number.to_string(),
        }
    }

    /// Converts the finished text, whose digits are still ASCII.
    fn finish(self, draw: &mut RandomChoices, text: String) -> String {
        if self != NumeralScript::FullWidth {
            return text;
        }
        let marks = draw.chance(2);
        let wide = |c: char| match c {
            // Full-width forms follow ASCII at this distance.
            '0'..='9' => char::from_u32(c as u32 + 0xFEE0).unwrap_or(c),
            '!'..='~' if marks => char::from_u32(c as u32 + 0xFEE0).unwrap_or(c),
            _ => c,
        };
        text.chars().map(wide).collect()
    }
}

pub(super) fn day(draw: &mut RandomChoices, day: Day) -> String {
    let script = NumeralScript::draw(draw);
    let text = date(draw, script, day);
    script.finish(draw, text)
}

pub(super) fn moment(draw: &mut RandomChoices, day: Day, at: Time) -> String {
    let script = NumeralScript::draw(draw);
    let (day, time) = (date(draw, script, day), time(draw, script, at));
    // Two adjacent numbers would read as one.
    let must_part = day.ends_with(|c: char| c.is_ascii_digit()) && time.starts_with(|c: char| c.is_ascii_digit());
    let between = if must_part { draw.choose(&[" ", "\u{3000}"]) } else { draw.choose(&["", "", " ", "の"]) };
    script.finish(draw, format!("{day}{between}{time}"))
}

pub(super) fn time_alone(draw: &mut RandomChoices, at: Time) -> String {
    let script = NumeralScript::draw(draw);
    let text = time(draw, script, at);
    script.finish(draw, text)
}

fn date(draw: &mut RandomChoices, script: NumeralScript, day: Day) -> String {
    let Day { date: Date { year, month, day: number, .. }, era } = day;
    let text = if script != NumeralScript::Kanji && draw.chance(4) {
        let between = draw.choose(&[".", "/", "."]);
        match era {
            Some(era) => {
                let of_era = match era.year(day.date) {
                    1 if draw.chance(2) => "元".to_owned(),
                    year if draw.chance(4) => format!("{year:02}"),
                    year => year.to_string(),
                };
                format!("{}{of_era}{between}{month}{between}{number}", era.letter)
            }
            None if draw.chance(2) => format!("{year}{between}{month:02}{between}{number:02}"),
            None => format!("{year}{between}{month}{between}{number}"),
        }
    } else {
        let year = match era {
            Some(era) => match era.year(day.date) as u32 {
                1 if !draw.chance(4) => format!("{}元", era.name),
                year => format!("{}{}", era.name, script.number(year)),
            },
            None => {
                let before = if draw.chance(8) { "西暦" } else { "" };
                let year = year as u32;
                let one_by_one = script == NumeralScript::Kanji && !draw.chance(4);
                let year = if one_by_one { digits(year) } else { script.number(year) };
                format!("{before}{year}")
            }
        };
        match script != NumeralScript::Kanji && draw.chance(6) {
            true => format!("{year}年{month:02}月{number:02}日"),
            false => format!("{year}年{}月{}日", script.number(month), script.number(number)),
        }
    };
    let weekday = WEEKDAYS[day.date.weekday()];
    match draw.below(9) {
        0 => format!("{text}({weekday})"),
        1 => format!("{text}（{weekday}）"),
        2 => format!("{text}（{weekday}曜日）"),
        3 => format!("{text} {weekday}曜日"),
        4 if text.ends_with('日') => format!("{text}{weekday}曜日"),
        _ => text,
    }
}

/// Writes a time. Without 午前 or 午後, it uses the 24-hour clock.
fn time(draw: &mut RandomChoices, script: NumeralScript, at: Time) -> String {
    let Time { hour, minute } = at;
    if script != NumeralScript::Kanji && draw.chance(4) {
        return format!("{hour}:{minute:02}");
    }
    if (hour, minute) == (12, 0) && draw.chance(2) {
        return "正午".to_owned();
    }
    let (short, is_afternoon) = at.to_12_hour();
    let (half, hour) = match (draw.chance(2), is_afternoon) {
        (false, _) => ("", hour),
        (true, false) => ("午前", short),
        (true, true) => ("午後", short),
    };
    let minute = match minute {
        0 if !draw.chance(4) => String::new(),
        0 if script == NumeralScript::Kanji => String::new(),
        30 if draw.chance(2) => "半".to_owned(),
        minute if script != NumeralScript::Kanji && draw.chance(3) => format!("{minute:02}分"),
        minute => format!("{}分", script.number(minute)),
    };
    format!("{half}{}時{minute}", script.number(hour))
}

/// Writes a number digit by digit: 二〇二六.
fn digits(number: u32) -> String {
    number.to_string().bytes().map(|digit| DIGITS[usize::from(digit - b'0')]).collect()
}

/// Writes a number as it is spoken: 二十三, 二千二十六.
fn kanji(number: u32) -> String {
    if number == 0 {
        return DIGITS[0].to_string();
    }
    let mut out = String::new();
    for (unit, name) in [(1000, "千"), (100, "百"), (10, "十"), (1, "")] {
        let digit = number / unit % 10;
        // 十, not 一十.
        if digit > 1 || (digit == 1 && unit == 1) {
            out.push(DIGITS[digit as usize]);
        }
        if digit > 0 {
            out.push_str(name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_kanji() {
        let known =
            [(0, "〇"), (1, "一"), (10, "十"), (11, "十一"), (20, "二十"), (64, "六十四"), (1989, "千九百八十九")];
        assert!(known.iter().all(|&(number, text)| kanji(number) == text));
        assert_eq!((kanji(2026), digits(2026)), ("二千二十六".to_owned(), "二〇二六".to_owned()));
    }
}
