//! Progress of training: a bar on a terminal, plain lines elsewhere, all on standard error.

use crate::report::{fit, wrap};
use chumoku::Lang;
use chumoku::data::{RowCounter, format_thousands};
use chumoku::lang::lang;
use chumoku::tr;
use chumoku::train::{Metric, TrainEvent, TrainSettings};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Columns of a line.
const WIDTH: usize = 80;

/// Columns of the label of a line, with its separator.
const LABEL_WIDTH: usize = 10;

/// Formats a status line: label and text.
///
/// Lines for a terminal are wrapped with a hanging indent, because a terminal would break words and numbers. Japanese
/// is always wrapped, since its characters are twice as wide. English in a file stays on one line, so that programs can
/// search it.
fn status_line(label: &str, text: &str) -> String {
    if lang() == Lang::En && !stderr().is_terminal() {
        return format!("{label:<9} {text}");
    }
    let below = format!("\n{}", " ".repeat(LABEL_WIDTH));
    fit(label, LABEL_WIDTH - 1) + " " + &wrap(text, WIDTH - LABEL_WIDTH).replace('\n', &below)
}

/// Prints a status line on standard error; the label is given in both languages.
pub(crate) fn print_status([english, japanese]: [&str; 2], text: &str) {
    say!("{}", status_line(lang().pick(english, japanese), text));
}

/// Shows the progress events of a training run.
pub(crate) struct TrainProgress {
    bar: Option<ProgressBar>,
    is_terminal: bool,
    /// When the command started.
    start: Instant,
    steps: u64,
    /// True if the bar shows work before or after the training steps.
    is_working: bool,
    last_line: Instant,
    score: String,
}

/// Interval of plain lines within an epoch.
const LINE_INTERVAL: Duration = Duration::from_secs(20);

impl TrainProgress {
    /// Creates the progress of a command that started at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        TrainProgress {
            start,
            bar: None,
            is_terminal: stderr().is_terminal(),
            steps: 0,
            is_working: false,
            last_line: Instant::now(),
            score: String::new(),
        }
    }

    fn print_line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say!("{line}"),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: TrainEvent<'_>) {
        match event {
            TrainEvent::Message(what, text) => {
                // The shown work has finished.
                if std::mem::take(&mut self.is_working) {
                    self.finish();
                }
                self.print_line(&status_line(what, &text));
            }
            TrainEvent::Progress(what, text) => {
                self.is_working = true;
                if self.is_terminal {
                    let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
                    bar.set_message(status_line(what, &text));
                    bar.tick();
                } else if self.steps > 0 && self.last_line.elapsed() >= LINE_INTERVAL {
                    self.last_line = Instant::now();
                    self.print_line(&status_line(what, &text));
                }
            }
            TrainEvent::Estimated {
                settings, steps, steps_done: done, remaining: expected, peak_bytes: bytes, ..
            } => {
                let plan = describe_plan(settings, steps, self.start.elapsed() + expected, bytes);
                self.print_line(&status_line(lang().pick("plan", "計画"), &plan));
                self.steps = steps;
                self.is_working = false;
                self.finish();
                if self.is_terminal {
                    let bar = ProgressBar::new(steps).with_position(done);
                    let style = ProgressStyle::with_template(
                        lang()
                            .pick("{bar:24} {pos}/{len}  {msg}  {eta} left", "{bar:8} {pos}/{len}  {msg}  残り {eta}"),
                    );
                    if let Ok(style) = style {
                        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
                    }
                    self.bar = Some(bar);
                }
            }
            TrainEvent::Step { step, loss, tokens_per_second } => {
                let (score, rate) = (&self.score, format_thousands(tokens_per_second as usize));
                let message =
                    tr!("loss {loss:.3}{score}  {rate} tokens/s", "損失 {loss:.3}{score}  {rate} トークン/秒");
                if let Some(bar) = &self.bar {
                    bar.set_position(step);
                    bar.set_message(message);
                } else if self.steps > 0 && self.last_line.elapsed() >= LINE_INTERVAL {
                    self.last_line = Instant::now();
                    self.print_line(&tr!(
                        "step {step} of {}  {message}",
                        "ステップ {step} / {}  {message}",
                        self.steps
                    ));
                }
            }
            TrainEvent::Evaluated { epoch, loss, metrics, is_best, is_held_out } => {
                self.last_line = Instant::now();
                let show = |metric: &Metric| match metric.is_share {
                    true => format!("  {} {:>5.1} %", metric.name, 100.0 * metric.value),
                    false => format!("  {} {:.3}", metric.name, metric.value),
                };
                self.score = metrics.last().map(show).unwrap_or_default();
                self.print_line(&tr!(
                    "epoch {epoch:>3}  loss {loss:.3}  {}{}{}",
                    "エポック {epoch:>3}  損失 {loss:.3}  {}{}{}",
                    if is_held_out { lang().pick("validation", "検証") } else { lang().pick("training", "学習") },
                    metrics.iter().map(show).collect::<String>(),
                    if is_best && is_held_out { lang().pick("  best", "  最良") } else { "" }
                ));
            }
            _ => {}
        }
    }
}

/// Describes the planned run; `time` is the expected duration of the whole command.
fn describe_plan(settings: &TrainSettings, steps: u64, time: Duration, bytes: usize) -> String {
    // Early stopping makes epochs and time upper limits.
    let may_stop = settings.patience < settings.epochs;
    let (epochs, patience) = (settings.epochs as usize, settings.patience as usize);
    let (tokens, time, memory) =
        (format_thousands(settings.batch_tokens), format_duration(time), format_mebibytes(bytes));
    match lang() {
        Lang::En => {
            let [most, stops, most_time] = match may_stop {
                true => ["at most ", &format!("; stops {} after the best", pluralize(patience, "epoch")), " at most"],
                false => [""; 3],
            };
            format!(
                "{most}{}, {} of up to {tokens} tokens{stops}; expected time {time} in all{most_time}, memory \
                 at most {memory}",
                pluralize(epochs, "epoch"),
                pluralize(steps as usize, "step")
            )
        }
        Lang::Ja => {
            let [most, stops] = match may_stop {
                true => ["最大 ", &format!("、最良から {patience} エポックで停止")],
                false => [""; 2],
            };
            let steps = format_thousands(steps as usize);
            format!(
                "{most}{epochs} エポック、{steps} ステップ（各 {tokens} トークンまで）{stops}、全体の予想時間 {most}{time}、\
                 メモリ 最大 {memory}"
            )
        }
    }
}

/// Progress of a stream of rows: a changing line on a terminal, otherwise a line from time to time. Silent if answers
/// go to the same terminal, and at first, since most streams are short.
pub(crate) struct RowProgress {
    label: [&'static str; 2],
    bar: Option<ProgressBar>,
    is_silent: bool,
    start: Instant,
    last_report: Duration,
    rows: usize,
}

/// Interval at which the progress of reading a file is looked at.
const READING_TICK: Duration = Duration::from_millis(100);

/// Streams that take less time show no progress.
const QUIET_TIME: Duration = Duration::from_secs(2);

impl RowProgress {
    pub(crate) fn new() -> Self {
        let is_silent = stderr().is_terminal() && std::io::stdout().is_terminal();
        let label = ["rows", "進捗"];
        RowProgress { label, bar: None, is_silent, start: Instant::now(), last_report: Duration::ZERO, rows: 0 }
    }

    /// Runs `load`, and shows its progress by the counter of its rows.
    pub(crate) fn while_reading<R>(counter: &RowCounter, load: impl FnOnce() -> R) -> R {
        let (finished, wait) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut progress =
                    RowProgress { label: ["reading", "読み込み"], is_silent: false, ..RowProgress::new() };
                let before = counter.rows();
                while wait.recv_timeout(READING_TICK) == Err(RecvTimeoutError::Timeout) {
                    progress.set((counter.rows() - before) as usize);
                }
                progress.finish();
            });
            // Dropped at the end and in a panic, which ends the thread.
            let _finished = finished;
            load()
        })
    }

    /// Counts rows that have been answered.
    pub(crate) fn add(&mut self, rows: usize) {
        self.set(self.rows + rows);
    }

    /// Sets the number of finished rows, and shows it.
    fn set(&mut self, rows: usize) {
        self.rows = rows;
        let elapsed = self.start.elapsed();
        if !self.is_silent && elapsed >= QUIET_TIME && stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
            bar.set_message(status_line(lang().pick(self.label[0], self.label[1]), &rows_done(self.rows, elapsed)));
            bar.tick();
        } else if !self.is_silent && is_due(&mut self.last_report, elapsed) {
            print_status(self.label, &rows_done(self.rows, elapsed));
        }
    }

    /// Removes the line.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Returns true if a plain line is due, and then updates `last_report`, the time of the last one.
fn is_due(last_report: &mut Duration, elapsed: Duration) -> bool {
    let is_due = elapsed.saturating_sub(*last_report) >= LINE_INTERVAL;
    if is_due {
        *last_report = elapsed;
    }
    is_due
}

/// Formats progress: `12,000 done, 1,200 a second`.
fn rows_done(rows: usize, elapsed: Duration) -> String {
    let done = format_thousands(rows);
    let rate = format_thousands((rows as f64 / elapsed.as_secs_f64().max(1e-3)) as usize);
    tr!("{done} done, {rate} a second", "{done} 行（毎秒 {rate} 行）")
}

/// Formats a count with its English noun.
pub(crate) fn pluralize(n: usize, singular: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{} {singular}s", format_thousands(n)) }
}

/// Formats a duration for users.
pub(crate) fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => tr!("{} s", "{} 秒", seconds.max(1)),
        100..=5999 => tr!("{} min", "{} 分", (seconds + 30) / 60),
        _ => tr!("{} h {} min", "{} 時間 {} 分", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a size in mebibytes, rounded up.
pub(crate) fn format_mebibytes(bytes: usize) -> String {
    format!("{} MiB", format_thousands(bytes.div_ceil(1 << 20)))
}

/// Reports how many source texts were truncated.
pub(crate) fn report_source_truncation(cut: usize, most: usize) {
    let text = tr!(
        "source texts truncated: {cut} (the model reads at most {most} tokens)",
        "原文 {cut} 個を、モデルの上限の {most} トークンで切り詰めました"
    );
    print_status(["cut", "切り捨て"], &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::train::DataShape;

    #[test]
    fn the_plan_mentions_early_stopping_only_if_possible() {
        const SHAPE: DataShape<'_> = DataShape { lengths: &[10, 20], class_rows: &[1, 1], vocab_size: 100 };
        let settings = |epochs, patience| {
            let mut settings = chumoku::train::Plan::new(&SHAPE).settings;
            (settings.epochs, settings.patience) = (epochs, patience);
            settings
        };
        let plan = |epochs, patience| describe_plan(&settings(epochs, patience), 7, Duration::from_secs(20), 5 << 20);
        let once = plan(1, 20);
        assert!(once.starts_with("1 epoch, 7 steps"), "{once}");
        assert!(!once.contains("stops") && once.contains("20 s in all, memory at most 5 MiB"), "{once}");
        let long = plan(60, 20);
        assert!(long.contains("at most 60 epochs") && long.contains("stops 20 epochs after the best"), "{long}");
        assert!(long.contains("20 s in all at most"), "{long}");
    }

    #[test]
    fn progress_lines_come_every_twenty_seconds() {
        let mut last_report = Duration::ZERO;
        let due: Vec<u64> = (0..90).filter(|&s| is_due(&mut last_report, Duration::from_secs(s))).collect();
        assert_eq!(due, [20, 40, 60, 80]);
        assert_eq!(rows_done(12_000, Duration::from_secs(10)), "12,000 done, 1,200 a second");
    }

    #[test]
    fn progress_of_reading_ends_with_the_work() {
        let counter = RowCounter::default();
        assert_eq!(RowProgress::while_reading(&counter, || 7), 7);
        let panics = || RowProgress::while_reading(&counter, || panic!("as a test"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    }

    #[test]
    fn counts_sizes_and_durations_are_readable() {
        assert_eq!([0, 1, 1000].map(|n| pluralize(n, "row")), ["0 rows", "1 row", "1,000 rows"]);
        assert_eq!([1, 1 << 20, 1_000_000_000].map(format_mebibytes), ["1 MiB", "1 MiB", "954 MiB"]);
        assert_eq!(format_duration(Duration::from_millis(10)), "1 s");
        assert_eq!(format_duration(Duration::from_secs(130)), "2 min");
        assert_eq!(format_duration(Duration::from_secs(7260)), "2 h 1 min");
    }
}
