//! The log on standard error: events and requests, never the texts of requests.

use chumoku::lang::sanitize;
use chumoku::tr;
use serde_json::{Map, Value};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of lines waiting to be written. Further lines are dropped, so that a slow log reader blocks nothing.
const MAX_WAITING_LINES: usize = 1024;

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Sentences.
    Text,
    /// One JSON object per line.
    Json,
    /// Events only, as sentences, and no requests.
    Off,
}

/// Messages to the writer thread.
enum LogItem {
    Line(String),
    /// Answered once all earlier lines have been written.
    Flush(SyncSender<()>),
}

/// A handle of the log. A separate thread writes it.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    form: LogFormat,
    lines: SyncSender<LogItem>,
    dropped: Arc<AtomicU64>,
}

impl LogWriter {
    /// Starts a log on standard error.
    pub(crate) fn start(form: LogFormat) -> std::io::Result<LogWriter> {
        LogWriter::to_writer(form, standard_error()?)
    }

    fn to_writer(form: LogFormat, out: impl Write + Send + 'static) -> std::io::Result<LogWriter> {
        let (lines, given) = sync_channel(MAX_WAITING_LINES);
        let journal = LogWriter { form, lines, dropped: Arc::default() };
        let dropped = journal.dropped.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || write_lines(form, out, &given, &dropped))?;
        Ok(journal)
    }

    pub(crate) fn format(&self) -> LogFormat {
        self.form
    }

    /// Logs an event: name, fields, and a sentence.
    pub(crate) fn event<const N: usize>(&self, name: &str, fields: [(&str, Value); N], sentence: &str) {
        self.line(format_event(self.form, name, fields, sentence));
    }

    /// Logs an answered request. The sentence is built only if it is shown.
    pub(crate) fn request<const N: usize>(&self, fields: [(&str, Value); N], sentence: impl FnOnce() -> String) {
        match self.form {
            LogFormat::Off => {}
            LogFormat::Text => self.line(format!("{} {}", now(), sentence())),
            LogFormat::Json => self.line(json_object("request", fields, None)),
        }
    }

    fn line(&self, text: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(LogItem::Line(text)) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all lines are written, but at most this long.
    pub(crate) fn flush(&self, most: Duration) {
        let until = Instant::now() + most;
        let (written, is_written) = sync_channel(1);
        let mut item = LogItem::Flush(written);
        while let Err(TrySendError::Full(back)) = self.lines.try_send(item) {
            if Instant::now() >= until {
                return;
            }
            item = back;
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = is_written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// Opens standard error without the process-wide lock: a reader that stops must block only the log.
#[cfg(unix)]
fn standard_error() -> std::io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Opens standard error. For a console this is the standard library's stream, which prints Unicode regardless of the
/// code page.
#[cfg(not(unix))]
fn standard_error() -> std::io::Result<Box<dyn Write + Send>> {
    #[cfg(windows)]
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        use std::os::windows::io::AsHandle;
        return Ok(Box::new(std::fs::File::from(std::io::stderr().as_handle().try_clone_to_owned()?)));
    }
    Ok(Box::new(std::io::stderr()))
}

/// Writes lines until all senders are gone. Errors of the stream are ignored.
fn write_lines(form: LogFormat, mut out: impl Write, given: &Receiver<LogItem>, dropped: &AtomicU64) {
    let mut say = |text: &str| {
        let _ = out.write_all((sanitize(text) + "\n").as_bytes());
    };
    while let Ok(item) = given.recv() {
        let lost = dropped.swap(0, Relaxed);
        if lost > 0 {
            let message = tr!(
                "log       {lost} lines were dropped, because the log was not read fast enough",
                "ログ      読み出しが追いつかず、{lost} 行を捨てました"
            );
            say(&format_event(form, "dropped", [("lines", lost.into())], &message));
        }
        match item {
            LogItem::Line(text) => say(&text),
            LogItem::Flush(written) => drop(written.try_send(())),
        }
    }
}

fn format_event<const N: usize>(form: LogFormat, name: &str, fields: [(&str, Value); N], sentence: &str) -> String {
    match form {
        LogFormat::Json => json_object(name, fields, Some(sentence)),
        LogFormat::Text | LogFormat::Off => sentence.to_owned(),
    }
}

fn json_object<const N: usize>(name: &str, fields: [(&str, Value); N], message: Option<&str>) -> String {
    let mut object = Map::new();
    object.insert("time".into(), now().into());
    object.insert("event".into(), name.into());
    object.extend(fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.into(), value)));
    message.into_iter().for_each(|message| drop(object.insert("message".into(), message.into())));
    Value::from(object).to_string()
}

/// Returns the time in UTC, to milliseconds (RFC 3339).
fn now() -> String {
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn rfc3339(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (day, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Years start in March, so that the leap day is the last day (H. Hinnant, "chrono-compatible low-level date
    // algorithms").
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

    /// Writes each buffer into a channel.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_blocks_nothing_and_dropped_lines_are_counted() {
        let (pipe, read) = sync_channel(0);
        let journal = LogWriter::to_writer(LogFormat::Text, Pipe(pipe)).unwrap();
        let lines = MAX_WAITING_LINES + 100;
        let begun = Instant::now();
        (0..lines).for_each(|n| journal.event("line", [], &format!("line\t{n}")));
        journal.flush(Duration::from_millis(30));
        assert!(begun.elapsed() >= Duration::from_millis(30) && begun.elapsed() < Duration::from_secs(9));
        let flushing = std::thread::spawn({
            let journal = journal.clone();
            move || journal.flush(Duration::from_secs(60))
        });
        drop(journal);
        // The writer thread ends with the last handle.
        let output: String = read.iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect();
        flushing.join().unwrap();
        let output: Vec<&str> = output.lines().collect();
        let kept = output.iter().filter(|line| line.starts_with("line ")).count();
        assert!((MAX_WAITING_LINES..lines).contains(&kept), "{kept}");
        let dropped =
            output.iter().find_map(|line| line.strip_prefix("log       ")?.split(' ').next()?.parse::<usize>().ok());
        assert_eq!(dropped, Some(lines - kept), "{output:#?}");
    }

    #[test]
    fn times_are_formatted_as_rfc3339() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), date);
        }
    }
}
