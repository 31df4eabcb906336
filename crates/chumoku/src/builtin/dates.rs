//! The built-in data set for translation: dates and times as people write them in English and Japanese → ISO 8601.
//!
//! ```text
//! 令和8年11月20日(金)              2026-11-20
//! Nov. 20th, 2026               2026-11-20
//! 昭和六十四年一月七日午後三時五分   1989-01-07T15:05
//! ```
//!
//! A generator makes the pairs, so no text belongs to anyone. Each text determines its target alone. `11/20/2026`
//! occurs, but `5/3/2026` does not, since two countries read it differently. Times without a.m. or p.m. use the 24-hour
//! clock. Weekdays are correct, and eras begin and end on their exact day. No date or time of day occurs in two splits,
//! so the test set contains only unseen dates.

mod english;
mod japanese;

use super::random_choices::RandomChoices;
use crate::calendar::{Date, ERAS, Era, FIRST_DATE, LAST_DATE};
use crate::data::{PairSplit, SentencePairs};
use chumoku_kernels::Philox;
use std::collections::HashSet;

/// The number of training pairs.
const TRAIN: usize = 30_000;
/// The number of validation pairs.
const VALID: usize = 500;
/// The number of test pairs.
const TEST: usize = 1_000;

/// Random streams. The pairs of split p use `DRAW_STREAM + p`.
const SPLIT_STREAM: u64 = 1;
const DRAW_STREAM: u64 = 2;

/// Returns the pairs of a seed: 30,000 for training, 500 for validation and 1,000 for testing.
///
/// ```
/// let dates = chumoku::builtin::dates(1);
/// assert_eq!([dates.train.len(), dates.valid.len(), dates.test.len()], [30_000, 500, 1_000]);
/// assert_eq!(dates.test.sources[0], "Fri, 2nd August 1918");
/// assert_eq!(dates.test.targets[0], "1918-08-02");
/// ```
pub fn dates(seed: u64) -> PairSplit {
    let [train, valid, test] = [(DateSplit::Train, TRAIN), (DateSplit::Valid, VALID), (DateSplit::Test, TEST)]
        .map(|(part, pairs)| draw(seed, part, pairs));
    PairSplit { train, valid, test, notes: Vec::new() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DateSplit {
    Train,
    Valid,
    Test,
}

/// Returns the split of a day or of a minute of the day.
fn split_of(seed: u64, outcome: u64) -> DateSplit {
    match Philox::new(seed, SPLIT_STREAM).uniform(outcome) {
        share if share < 0.85 => DateSplit::Train,
        share if share < 0.90 => DateSplit::Valid,
        _ => DateSplit::Test,
    }
}

fn draw(seed: u64, part: DateSplit, count: usize) -> SentencePairs {
    let mut draw = RandomChoices::new(seed, DRAW_STREAM + part as u64);
    let (mut pairs, mut seen) = (SentencePairs::default(), HashSet::new());
    while pairs.len() < count {
        let moment = Moment::draw(&mut draw);
        let its_part = if moment.is_noon_or_midnight() { DateSplit::Train } else { split_of(seed, moment.split_key()) };
        if its_part != part {
            continue;
        }
        let text = moment.write(&mut draw);
        if seen.insert(text.clone()) {
            pairs.sources.push(text);
            pairs.targets.push(moment.iso());
        }
    }
    pairs
}

/// A day, a time of day, or both.
struct Moment {
    day: Option<Day>,
    time: Option<Time>,
}

/// A day, and the era in which its year is written, if any.
#[derive(Clone, Copy)]
struct Day {
    date: Date,
    era: Option<&'static Era>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Time {
    hour: u32,
    minute: u32,
}

impl Moment {
    /// Draws a day (17 of 24), a day with a time (6 of 24), or a time alone (1 of 24).
    fn draw(draw: &mut RandomChoices) -> Self {
        let kind = draw.below(24);
        Moment { day: (kind > 0).then(|| Day::draw(draw)), time: (kind < 7).then(|| Time::draw(draw)) }
    }

    fn write(&self, draw: &mut RandomChoices) -> String {
        let is_japanese = self.day.is_some_and(|day| day.era.is_some()) || draw.chance(4);
        match (self.day, self.time) {
            (Some(day), None) if is_japanese => japanese::day(draw, day),
            (Some(day), Some(time)) if is_japanese => japanese::moment(draw, day, time),
            (None, Some(time)) if is_japanese => japanese::time_alone(draw, time),
            (Some(day), None) => english::day(draw, day.date),
            (Some(day), Some(time)) => english::moment(draw, day.date, time),
            (None, Some(time)) => english::time_alone(draw, time),
            (None, None) => String::new(),
        }
    }

    fn iso(&self) -> String {
        let day = self.day.map(|day| day.date.to_string());
        let time = self.time.map(|Time { hour, minute }| format!("{hour:02}:{minute:02}"));
        [day, time].into_iter().flatten().collect::<Vec<_>>().join("T")
    }

    /// Returns `true` for noon and midnight, which may be written as names. Names cannot be derived from other times,
    /// so they belong to training.
    fn is_noon_or_midnight(&self) -> bool {
        self.day.is_none() && self.time.is_some_and(|time| time.minute == 0 && time.hour % 12 == 0)
    }

    /// Returns the key that must not occur in two splits: the day, or the time if there is no day.
    fn split_key(&self) -> u64 {
        match (self.day, self.time) {
            (Some(day), _) => day.date.days().unsigned_abs() << 1 | u64::from(day.date.days() < 0),
            (None, Some(time)) => 1 << 32 | u64::from(time.hour * 60 + time.minute),
            (None, None) => 0,
        }
    }
}

impl Day {
    /// Draws a day. Two of five are written with an era. Each era year is equally likely, so that short first and last
    /// years occur often enough in training.
    fn draw(draw: &mut RandomChoices) -> Self {
        let between = |draw: &mut RandomChoices, first: Date, last: Date| {
            let days = last.days() - first.days() + 1;
            Date::from_days(first.days() + draw.below(days as usize) as i64)
        };
        if draw.below(5) >= 2 {
            return Day { date: between(draw, FIRST_DATE, LAST_DATE), era: None };
        }
        let mut year = draw.below(ERAS.iter().map(Era::years).sum());
        let mut era = &ERAS[0];
        for next in &ERAS[1..] {
            if year < era.years() {
                break;
            }
            year -= era.years();
            era = next;
        }
        let year = era.first.year + year as i64;
        let (january, december) = (Date { year, month: 1, day: 1 }, Date { year, month: 12, day: 31 });
        Day { date: between(draw, january.max(era.first), december.min(era.last)), era: Some(era) }
    }
}

impl Time {
    /// Draws a time. Full and half hours are more frequent than others, as in real texts.
    fn draw(draw: &mut RandomChoices) -> Self {
        let hour = draw.below(24) as u32;
        let minute = match draw.below(5) {
            0 => 0,
            1 => 30,
            _ => draw.below(60) as u32,
        };
        Time { hour, minute }
    }

    /// Returns the hour of the 12-hour clock, and whether it is after noon.
    fn to_12_hour(self) -> (u32, bool) {
        (self.hour % 12, self.hour >= 12)
    }
}

#[cfg(test)]
mod tests;
