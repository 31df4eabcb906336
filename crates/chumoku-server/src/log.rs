//! What is said on standard error: events and requests, never the texts themselves.

use serde_json::{Map, Value};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Sentences.
    Text,
    /// An object a line.
    Json,
    /// Events alone, as sentences, and no requests.
    Off,
}

impl Log {
    /// Something that happened: a name, what belongs to it, and a sentence.
    pub(crate) fn event<const N: usize>(self, name: &str, fields: [(&str, Value); N], sentence: &str) {
        match self {
            Log::Json => self.object(name, fields, Some(sentence)),
            Log::Text | Log::Off => line(sentence),
        }
    }

    /// A request that was answered; the sentence is made only where it is shown.
    pub(crate) fn request<const N: usize>(self, fields: [(&str, Value); N], sentence: impl FnOnce() -> String) {
        match self {
            Log::Off => {}
            Log::Text => line(&format!("{} {}", time(), sentence())),
            Log::Json => self.object("request", fields, None),
        }
    }

    fn object<const N: usize>(self, name: &str, fields: [(&str, Value); N], message: Option<&str>) {
        let mut object = Map::new();
        object.insert("time".into(), time().into());
        object.insert("event".into(), name.into());
        object.extend(fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.into(), value)));
        message.into_iter().for_each(|message| drop(object.insert("message".into(), message.into())));
        line(&Value::from(object).to_string());
    }
}

/// A line on standard error; nobody listening is no reason to stop serving.
fn line(text: &str) {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let whole: String = plain.chain(['\n']).collect();
    let _ = std::io::stderr().write_all(whole.as_bytes());
}

/// The time in UTC, to milliseconds (RFC 3339).
fn time() -> String {
    moment(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn moment(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (day, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Years begin in March, so that the leap day is their last (H. Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + 400 * era + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (hour, minute, second, milliseconds) =
        (second / 3600, second / 60 % 60, second % 60, since_1970.subsec_millis());
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(moment(Duration::from_secs(seconds)), date);
        }
    }
}
