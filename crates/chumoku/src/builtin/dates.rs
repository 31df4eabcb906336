//! The built-in data for translation: dates and times as people write them, in English and Japanese → ISO 8601.
//!
//! ```text
//! 令和8年11月20日(金)              2026-11-20
//! Nov. 20th, 2026               2026-11-20
//! 昭和六十四年一月七日午後三時五分   1989-01-07T15:05
//! ```
//!
//! The pairs are made by a generator, so none of them is anyone's text. Each says what its text alone determines:
//! `11/20/2026` is there and `5/3/2026`, which two countries read differently, is not; a time without a.m. or p.m. is one
//! of the 24-hour clock; days of the week are right; an era begins and ends on its day. No date and no time of day that
//! is in one part is in another, so the test asks for dates that were never seen.

mod english;
mod japanese;

use crate::calendar::{Date, ERAS, Era, FIRST_DATE, LAST_DATE};
use crate::data::{PairSplit, SentencePairs};
use chumoku_kernels::Philox;
use std::collections::HashSet;

/// Pairs to learn from.
const TRAIN: usize = 30_000;
/// Pairs to choose by.
const VALID: usize = 500;
/// Pairs to report.
const TEST: usize = 1_000;

/// Streams of random numbers; the drawing of part p has `DRAW + p`.
const SPLIT_STREAM: u64 = 1;
const DRAW_STREAM: u64 = 2;

/// The pairs of a seed: 30,000 to train on, 500 to validate and 1,000 to test.
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

/// The part that a day or a minute of the day belongs to.
fn split_of(seed: u64, outcome: u64) -> DateSplit {
    match Philox::new(seed, SPLIT_STREAM).uniform(outcome) {
        share if share < 0.85 => DateSplit::Train,
        share if share < 0.90 => DateSplit::Valid,
        _ => DateSplit::Test,
    }
}

fn draw(seed: u64, part: DateSplit, wanted: usize) -> SentencePairs {
    let mut draw = RandomChoices { random: Philox::new(seed, DRAW_STREAM + part as u64), at: 0 };
    let (mut pairs, mut seen) = (SentencePairs::default(), HashSet::new());
    while pairs.len() < wanted {
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

/// A day, and the era it is to be written in, if in one.
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
    /// Seven of ten are days, a quarter days with a time, the others times alone.
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

    /// Noon and midnight, whose names say nothing to those who have not learnt them.
    fn is_noon_or_midnight(&self) -> bool {
        self.day.is_none() && self.time.is_some_and(|time| time.minute == 0 && time.hour % 12 == 0)
    }

    /// What must not be in two parts, as a number: the day, or the time where there is no day.
    fn split_key(&self) -> u64 {
        match (self.day, self.time) {
            (Some(day), _) => day.date.days().unsigned_abs() << 1 | u64::from(day.date.days() < 0),
            (None, Some(time)) => 1 << 32 | u64::from(time.hour * 60 + time.minute),
            (None, None) => 0,
        }
    }
}

impl Day {
    /// Two of five by a year of an era, each year as often as any other, so that short first and last ones are learnt.
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
    /// Full and half hours oftener than others, as in life.
    fn draw(draw: &mut RandomChoices) -> Self {
        let hour = draw.below(24) as u32;
        let minute = match draw.below(5) {
            0 => 0,
            1 => 30,
            _ => draw.below(60) as u32,
        };
        Time { hour, minute }
    }

    /// The hour of the 12-hour clock, and whether it is after noon.
    fn to_12_hour(self) -> (u32, bool) {
        (self.hour % 12, self.hour >= 12)
    }
}

/// Random choices, one after the other.
struct RandomChoices {
    random: Philox,
    at: u64,
}

impl RandomChoices {
    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        let [word, ..] = self.random.block(self.at);
        self.at += 1;
        ((u64::from(word) * n as u64) >> 32) as usize
    }

    /// True one time in `n`.
    fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests;
