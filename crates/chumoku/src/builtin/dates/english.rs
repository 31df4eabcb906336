//! Dates and times as people write them in English.

use super::{RandomChoices, Time};
use crate::calendar::{Date, MONTHS, WEEKDAYS};

pub(super) fn day(draw: &mut RandomChoices, date: Date) -> String {
    let text = match draw.below(4) {
        0 => in_numbers(draw, date),
        _ => in_words(draw, date),
    };
    if draw.chance(16) { text.to_uppercase() } else { text }
}

pub(super) fn moment(draw: &mut RandomChoices, date: Date, at: Time) -> String {
    let (day, time) = (day(draw, date), time(draw, at));
    let is_iso = day == date.to_string() && !time.contains(char::is_alphabetic);
    match draw.below(8) {
        0 => format!("{time} on {day}"),
        1 => format!("{time}, {day}"),
        2 | 3 if is_iso => format!("{day}T{time}"),
        2 | 3 => format!("{day}, {time}"),
        4 | 5 => format!("{day} {time}"),
        _ => format!("{day} at {time}"),
    }
}

pub(super) fn time_alone(draw: &mut RandomChoices, at: Time) -> String {
    match at {
        // With a day, midnight could mean either end of the day.
        Time { hour: 0, minute: 0 } if draw.chance(2) => "midnight".to_owned(),
        _ if draw.chance(4) => format!("at {}", time(draw, at)),
        _ => time(draw, at),
    }
}

fn time(draw: &mut RandomChoices, at: Time) -> String {
    let Time { hour, minute } = at;
    let (short, is_afternoon) = at.to_12_hour();
    if draw.chance(3) {
        return format!("{hour:02}:{minute:02}");
    }
    // The meaning of 12 a.m. and 12 p.m. is ambiguous.
    match at {
        Time { hour: 0, minute: 0 } => return "00:00".to_owned(),
        Time { hour: 12, minute: 0 } => return "noon".to_owned(),
        _ => {}
    }
    let short = if short == 0 { 12 } else { short };
    let half = if is_afternoon {
        draw.choose(&[" p.m.", " PM", "pm", " pm"])
    } else {
        draw.choose(&[" a.m.", " AM", "am", " am"])
    };
    if minute == 0 && !draw.chance(3) { format!("{short}{half}") } else { format!("{short}:{minute:02}{half}") }
}

fn in_words(draw: &mut RandomChoices, date: Date) -> String {
    let Date { year, day, .. } = date;
    let name = month(draw, date);
    let ordinal = format!("{day}{}", suffix(day));
    let number = if draw.chance(2) { day.to_string() } else { ordinal.clone() };
    let text = match draw.below(8) {
        0..=2 => format!("{name} {number}, {year}"),
        3 => format!("{name} {number} {year}"),
        4 | 5 => format!("{number} {name} {year}"),
        6 => {
            let the = draw.choose(&["", "the "]);
            let comma = draw.choose(&["", ","]);
            format!("{the}{ordinal} of {name}{comma} {year}")
        }
        _ => return format!("{day:02}-{}-{year}", &MONTHS[date.month as usize - 1][..3]),
    };
    if !draw.chance(3) {
        return text;
    }
    let weekday = WEEKDAYS[date.weekday()];
    let weekday = draw.choose(&[weekday, &weekday[..3]]);
    let between = draw.choose(&[", ", ", ", " "]);
    format!("{weekday}{between}{text}")
}

/// Returns the name of the month, in full or abbreviated.
fn month(draw: &mut RandomChoices, date: Date) -> String {
    let name = MONTHS[date.month as usize - 1];
    if name.len() <= 4 && !draw.chance(4) || draw.chance(2) {
        return name.to_owned();
    }
    let short = if name == "September" && draw.chance(2) { "Sept" } else { &name[..3] };
    // "May" is not an abbreviation.
    let dot = if name.len() == 3 { "" } else { draw.choose(&["", "."]) };
    format!("{short}{dot}")
}

fn suffix(day: u32) -> &'static str {
    match (day / 10, day % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// Writes year, month and day, or another order if the numbers make it unambiguous.
fn in_numbers(draw: &mut RandomChoices, Date { year, month, day }: Date) -> String {
    let is_certain = day > 12 || day == month;
    match draw.below(8) {
        0 | 1 if is_certain => format!("{month}/{day}/{year}"),
        2 if is_certain => format!("{day}/{month}/{year}"),
        3 if is_certain => format!("{day}.{month}.{year}"),
        4 => format!("{year}{month:02}{day:02}"),
        5 => format!("{year}/{month}/{day}"),
        _ => {
            let between = draw.choose(&["-", "-", "/", "."]);
            format!("{year}{between}{month:02}{between}{day:02}")
        }
    }
}
