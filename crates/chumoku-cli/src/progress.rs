//! Progress of training: a bar on a terminal, plain lines elsewhere, all on standard error.

use crate::report::{fit, percent, wrap};
use chumoku::data::{RowCounter, format_thousands};
use chumoku::lang::lang;
use chumoku::train::{Metric, TrainEvent, TrainSettings};
use chumoku::{Lang, tr};
use chumoku_view::sparkline;
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
    curves: EpochCurves,
}

/// Loss and score after each epoch, for the lines at the end of training.
#[derive(Default)]
struct EpochCurves {
    losses: Vec<f64>,
    scores: Vec<f64>,
    /// The epoch of the first loss: not 1 in a resumed run.
    first_epoch: u64,
    /// The metric of the scores.
    metric: Option<Metric>,
    is_held_out: bool,
}

/// Epochs from which curves are drawn.
const MIN_CURVE_EPOCHS: usize = 3;

/// Columns of a curve.
const CURVE_WIDTH: usize = 30;

impl EpochCurves {
    fn add(&mut self, epoch: u64, loss: f64, metrics: &[Metric], is_held_out: bool) {
        if self.losses.is_empty() {
            self.first_epoch = epoch;
        }
        self.metric = metrics.last().copied();
        self.is_held_out = is_held_out;
        self.losses.push(loss);
        self.scores.push(self.metric.map_or(f64::NAN, |metric| metric.value));
    }

    /// Returns the lines: label and text. Short runs have none.
    fn lines(&self) -> Vec<([&'static str; 2], String)> {
        let (Some(metric), true) = (self.metric, self.losses.len() >= MIN_CURVE_EPOCHS) else { return Vec::new() };
        let ends = |numbers: &[f64], show: &dyn Fn(f64) -> String| {
            let [first, last] = [numbers.first(), numbers.last()].map(|x| show(x.copied().unwrap_or(f64::NAN)));
            let line = sparkline(numbers, CURVE_WIDTH);
            tr!("{line}  {first} to {last}", "{line}  {first} → {last}")
        };
        let score = |value: f64| format_value(&Metric { value, ..metric });
        let rows = match self.is_held_out {
            true => tr!("validation {}", "検証の{}", metric.name),
            false => tr!("training {}", "学習の{}", metric.name),
        };
        let since = match self.first_epoch {
            0 | 1 => String::new(),
            first => tr!("  from epoch {first}", "  エポック {first} から"),
        };
        vec![
            (["loss", "損失"], ends(&self.losses, &|loss| format!("{loss:.3}")) + &since),
            (["score", "スコア"], format!("{}  {rows}", ends(&self.scores, &score))),
        ]
    }
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
            curves: EpochCurves::default(),
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

    /// Draws the loss and the score of each epoch, each as a line of bars.
    pub(crate) fn show_curves(&self) {
        for (label, text) in self.curves.lines() {
            print_status(label, &text);
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
            TrainEvent::Evaluated { epoch, loss, train_accuracy, metrics, is_best, is_held_out } => {
                self.last_line = Instant::now();
                self.score = metrics.last().map(format_metric).unwrap_or_default();
                self.curves.add(epoch, loss, metrics, is_held_out);
                self.print_line(&tr!(
                    "epoch {epoch:>3}  loss {loss:.3}{}{}",
                    "エポック {epoch:>3}  損失 {loss:.3}{}{}",
                    format_evaluation(train_accuracy, metrics, is_held_out),
                    if is_best && is_held_out { lang().pick("  best", "  最良") } else { "" }
                ));
            }
            _ => {}
        }
    }
}

fn format_metric(metric: &Metric) -> String {
    let width = if metric.is_share { 7 } else { 0 };
    format!("  {} {:>width$}", metric.name, format_value(metric))
}

fn format_value(metric: &Metric) -> String {
    match metric.is_share {
        true => percent(metric.value),
        false => format!("{:.3}", metric.value),
    }
}

/// Formats the accuracy in training, and the metrics of the evaluated rows. If the first of these is the accuracy too,
/// its name is not repeated, so that the line fits a terminal.
fn format_evaluation(train_accuracy: Option<f64>, metrics: &[Metric], is_held_out: bool) -> String {
    let accuracy = train_accuracy.map(|value| {
        let name = lang().pick("accuracy", "正解率");
        Metric { name, key: "accuracy", value, is_share: true }
    });
    let both = match (&accuracy, metrics.split_first()) {
        (Some(accuracy), Some((first, others))) if first.key == accuracy.key => Some((first, others)),
        _ => None,
    };
    let rows = match (is_held_out, both.is_some()) {
        (true, true) => lang().pick("valid", "検証"),
        (true, false) => lang().pick("validation", "検証"),
        (false, _) => lang().pick("training", "学習"),
    };
    let evaluated: String = match both {
        Some((first, others)) => {
            format!(" {:>5.1} %", 100.0 * first.value) + &others.iter().map(format_metric).collect::<String>()
        }
        None => metrics.iter().map(format_metric).collect(),
    };
    let trained = accuracy.as_ref().map(format_metric).unwrap_or_default();
    format!("{trained}  {rows}{evaluated}")
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

/// Interval at which the progress of reading a file is checked.
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
    fn the_line_of_an_epoch_has_the_accuracy_in_training_and_fits_a_terminal() {
        let metric = |name, key, value, is_share| Metric { name, key, value, is_share };
        let classes = [metric("accuracy", "accuracy", 1.0, true), metric("macro-F1", "macro_f1", 0.5, true)];
        let line = format_evaluation(Some(0.75), &classes, true);
        assert_eq!(line, "  accuracy  75.0 %  valid 100.0 %  macro-F1  50.0 %");
        assert!("epoch   1  loss 0.696".len() + line.len() + "  best".len() <= WIDTH);
        // Without validation rows, the training rows are evaluated.
        let line = format_evaluation(Some(0.75), &classes, false);
        assert_eq!(line, "  accuracy  75.0 %  training 100.0 %  macro-F1  50.0 %");
        let losses = [metric("loss", "loss", 0.25, false), metric("perplexity", "perplexity", 2.0, false)];
        assert_eq!(format_evaluation(None, &losses, true), "  validation  loss 0.250  perplexity 2.000");
        let tags = [metric("loss", "log_loss", 0.25, false), metric("span F1", "span_f1", 0.5, true)];
        let line = format_evaluation(Some(0.5), &tags, true);
        assert_eq!(line, "  accuracy  50.0 %  validation  loss 0.250  span F1  50.0 %");
    }

    #[test]
    fn curves_of_three_epochs_or_more_fit_a_terminal() {
        let mut curves = EpochCurves::default();
        for epoch in 0..100 {
            assert_eq!(curves.lines().is_empty(), epoch < MIN_CURVE_EPOCHS, "{epoch}");
            let value = 0.01 * f64::from(epoch as u32);
            curves.add(
                epoch as u64 + 1,
                0.75 - 0.5 * value,
                &[Metric { name: "macro-F1", key: "macro_f1", value, is_share: true }],
                true,
            );
        }
        let lines = curves.lines();
        let [loss, score] = [0, 1].map(|i| lines[i].1.as_str());
        assert!(loss.starts_with('█') && loss.ends_with("▁  0.750 to 0.255"), "{loss}");
        assert!(score.starts_with('▁') && score.ends_with("█  0.0 % to 99.0 %  validation macro-F1"), "{score}");
        assert!(lines.iter().all(|(_, text)| LABEL_WIDTH + text.chars().count() <= WIDTH));
    }

    /// As docs/training.md says: one bar for each epoch of this run, or for several neighbors in long runs.
    #[test]
    fn curves_of_resumed_and_long_runs_say_what_they_show() {
        let metric = Metric { name: "macro-F1", key: "macro_f1", value: 0.5, is_share: true };
        let loss_line = |epochs: std::ops::RangeInclusive<u64>| {
            let mut curves = EpochCurves::default();
            epochs.for_each(|epoch| curves.add(epoch, 1.0 / epoch as f64, &[metric], true));
            curves.lines()[0].1.clone()
        };
        let bars = |line: &str| line.chars().take_while(|c| !c.is_whitespace()).count();
        let resumed = loss_line(6..=10);
        assert!(bars(&resumed) == 5 && resumed.ends_with("0.167 to 0.100  from epoch 6"), "{resumed}");
        let long = loss_line(1..=60);
        assert!(bars(&long) == CURVE_WIDTH && long.ends_with("  1.000 to 0.017"), "{long}");
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
