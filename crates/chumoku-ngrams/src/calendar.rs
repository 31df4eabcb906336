//! Days, dates and the eras of Japan.

use std::fmt;

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// The year of the common era; 0 is 1 BCE.
    pub year: i64,
    /// From 1.
    pub month: u32,
    /// From 1.
    pub day: u32,
}

/// The months in English, January first.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The days of the week in English, Sunday first.
pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The first supported date: on it Japan adopted the Gregorian calendar.
pub const FIRST_DATE: Date = Date { year: 1873, month: 1, day: 1 };
/// The last supported date.
pub const LAST_DATE: Date = Date { year: 2049, month: 12, day: 31 };

/// Days of four centuries, after which the calendar repeats.
const CYCLE: i64 = 146_097;

impl Date {
    /// Returns the days since 1970-01-01.
    ///
    /// Years are counted from March, so that the leap day comes last. Then the m-th month starts on day
    /// `(153·m + 2) / 5` of the year, and the y-th year of a cycle on day `365·y + y/4 − y/100`.
    ///
    /// Source: Richards, "Calendars", in: Explanatory Supplement to the Astronomical Almanac, 3rd edition (2013), with
    /// Howard Hinnant's counting from March ("chrono-Compatible Low-Level Date Algorithms", 2013).
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month < 3);
        let of_cycle = year.rem_euclid(400);
        let month = i64::from((self.month + 9) % 12);
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        // From 0000-03-01 to 1970-01-01 there are 719,468 days.
        year.div_euclid(400) * CYCLE + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
    }

    /// Returns the date `days` days after 1970-01-01, the inverse of [`Date::days`].
    pub fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let day = days.rem_euclid(CYCLE);
        // Without the earlier leap days, every year has 365 days.
        let of_cycle = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let of_year = day - (365 * of_cycle + of_cycle / 4 - of_cycle / 100);
        let month = (5 * of_year + 2) / 153;
        let year = days.div_euclid(CYCLE) * 400 + of_cycle + i64::from(month >= 10);
        Date { year, month: (month as u32 + 2) % 12 + 1, day: (of_year - (153 * month + 2) / 5) as u32 + 1 }
    }

    /// Returns the day of the week, 0 for Sunday.
    pub fn weekday(self) -> usize {
        // 1970-01-01 was a Thursday.
        (self.days() + 4).rem_euclid(7) as usize
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// An era of Japan.
#[derive(Debug, PartialEq, Eq)]
pub struct Era {
    /// The name, such as 令和.
    pub name: &'static str,
    /// The letter that abbreviates it, such as R.
    pub letter: char,
    /// The year of the common era in which it began.
    first_year: i64,
    /// The first date of the era.
    pub first: Date,
    /// The last date of the era.
    pub last: Date,
}

impl Era {
    const fn new(name: &'static str, letter: char, begin: i64, first: Date, last: Date) -> Self {
        Era { name, letter, first_year: begin, first, last }
    }

    /// Returns the year of the era that a date is in, from 1.
    pub fn year(&self, date: Date) -> i64 {
        date.year - self.first_year + 1
    }

    /// Returns the number of its years, including partial ones.
    pub fn years(&self) -> usize {
        (self.last.year - self.first.year + 1) as usize
    }
}

const fn date(year: i64, month: u32, day: u32) -> Date {
    Date { year, month, day }
}

/// The eras since the adoption of the Gregorian calendar. The emperors Meiji and Taishō died on the first day of the
/// next era, so two days belong to two eras. Shōwa and Heisei ended the day before the next era began.
pub static ERAS: [Era; 5] = [
    Era::new("明治", 'M', 1868, FIRST_DATE, date(1912, 7, 30)),
    Era::new("大正", 'T', 1912, date(1912, 7, 30), date(1926, 12, 25)),
    Era::new("昭和", 'S', 1926, date(1926, 12, 25), date(1989, 1, 7)),
    Era::new("平成", 'H', 1989, date(1989, 1, 8), date(2019, 4, 30)),
    Era::new("令和", 'R', 2019, date(2019, 5, 1), LAST_DATE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_weekdays_of_known_dates() {
        // Thursday; Friday; the moon landing, a Sunday; leap days; first days of eras; Julian day numbers 0 and
        // 2,400,000.5.
        let known = [
            (date(1970, 1, 1), 0, 4),
            (date(2026, 11, 20), 20_777, 5),
            (date(1969, 7, 20), -165, 0),
            (date(2000, 2, 29), 11_016, 2),
            (date(1900, 3, 1), -25_508, 4),
            (date(1873, 1, 1), -35_428, 3),
            (date(1926, 12, 25), -15_713, 6),
            (date(1989, 1, 8), 6_947, 0),
            (date(2019, 5, 1), 18_017, 3),
            (date(-4713, 11, 24), -2_440_588, 1),
            (date(1858, 11, 17), -40_587, 3),
        ];
        for (date, days, weekday) in known {
            assert_eq!((date.days(), date.weekday()), (days, weekday), "{date}");
            assert_eq!(Date::from_days(days), date);
        }
    }

    #[test]
    fn days_and_dates_are_inverse_and_consecutive() {
        let mut before = Date::from_days(-800_001);
        for days in -800_000..800_000 {
            let date = Date::from_days(days);
            assert_eq!(date.days(), days);
            let is_leap = before.year % 4 == 0 && (before.year % 100 != 0 || before.year % 400 == 0);
            let length = match before.month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match before {
                Date { day, .. } if day < length => Date { day: day + 1, ..before },
                Date { year, month: 12, .. } => Date { year: year + 1, month: 1, day: 1 },
                Date { year, month, .. } => Date { year, month: month + 1, day: 1 },
            };
            assert_eq!(date, next);
            before = date;
        }
    }

    #[test]
    fn eras_are_consecutive() {
        for pair in ERAS.windows(2) {
            let gap = pair[1].first.days() - pair[0].last.days();
            assert!((0..=1).contains(&gap), "{} {}", pair[0].name, pair[1].name);
            assert_eq!(pair[1].year(pair[1].first), 1);
        }
        let last = |name: &str| ERAS.iter().find(|era| era.name == name).map(|era| era.year(era.last));
        assert_eq!([last("明治"), last("大正"), last("昭和"), last("平成")], [Some(45), Some(15), Some(64), Some(31)]);
        assert_eq!(ERAS[0].year(FIRST_DATE), 6);
    }
}
