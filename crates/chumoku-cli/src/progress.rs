//! What people see while a model trains: a bar on a terminal, plain lines elsewhere. All on standard error.

use chumoku::train::Event;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// Shows the events of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    is_terminal: bool,
    steps: u64,
    last_line: Instant,
    score: String,
}

/// Between plain lines within an epoch.
const LINE_EVERY: Duration = Duration::from_secs(20);

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new() -> Self {
        Progress {
            bar: None,
            is_terminal: stderr().is_terminal(),
            steps: 0,
            last_line: Instant::now(),
            score: String::new(),
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say!("{line}"),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Note(note) => self.say(&format!("note      {note}")),
            Event::Baseline { seconds, features, valid } => {
                let score = valid.map_or(String::new(), |(accuracy, f1)| {
                    format!(", validation accuracy {:.1} %, macro-F1 {:.1} %", 100.0 * accuracy, 100.0 * f1)
                });
                let features = thousands(features);
                self.say(&format!("baseline  {features} n-grams and a linear model in {seconds:.1} s{score}"));
            }
            Event::Ready { plan, parameters, steps, done, tokens, long_rows, expected, bytes } => {
                let [sum, median, longest] = tokens;
                let body = &plan.model.body;
                let window = plan.model.max_length - 1;
                self.say(&format!(
                    "tokens    {} in the training rows (median {median}, longest {longest}), vocabulary {}",
                    thousands(sum),
                    thousands(plan.model.vocab_size)
                ));
                self.say(&format!(
                    "model     {}, {}: {} parameters",
                    body.network().noun(),
                    body.sizes(),
                    thousands(parameters)
                ));
                if long_rows > 0 {
                    self.say(&format!(
                        "long      {} of more than {window} tokens: nothing is cut; training reads a window of \
                         them at a random place each epoch, evaluation reads all windows and averages",
                        count(long_rows, "row")
                    ));
                }
                if plan.class_weights.is_some() {
                    self.say("weights   classes are unbalanced: rare ones count more (by the root of their rarity)");
                }
                self.say(&format!(
                    "plan      at most {}, {} of up to {} tokens; stops {} after the best; expected time {} at most, \
                     memory {}",
                    count(plan.epochs as usize, "epoch"),
                    count(steps as usize, "step"),
                    thousands(plan.batch_tokens),
                    count(plan.patience as usize, "epoch"),
                    duration(expected),
                    megabytes(bytes)
                ));
                self.steps = steps;
                if self.is_terminal {
                    let bar = ProgressBar::new(steps).with_position(done);
                    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}  {eta} left");
                    if let Ok(style) = style {
                        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
                    }
                    self.bar = Some(bar);
                }
            }
            Event::Step { step, loss, tokens_per_second } => {
                let message =
                    format!("loss {loss:.3}{}  {} tokens/s", self.score, thousands(tokens_per_second as usize));
                if let Some(bar) = &self.bar {
                    bar.set_position(step);
                    bar.set_message(message);
                } else if self.last_line.elapsed() >= LINE_EVERY {
                    self.last_line = Instant::now();
                    self.say(&format!("step {step} of {}  {message}", self.steps));
                }
            }
            Event::Evaluated { epoch, loss, accuracy, macro_f1, is_best, is_held_out } => {
                self.last_line = Instant::now();
                self.score = format!("  F1 {:.1} %", 100.0 * macro_f1);
                self.say(&format!(
                    "epoch {epoch:>3}  loss {loss:.3}  {} accuracy {:>5.1} %  macro-F1 {:>5.1} %{}",
                    if is_held_out { "validation" } else { "training" },
                    100.0 * accuracy,
                    100.0 * macro_f1,
                    if is_best { "  best" } else { "" }
                ));
            }
        }
    }
}

/// A whole number with commas.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something.
pub(crate) fn count(n: usize, singular: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{} {singular}s", thousands(n)) }
}

/// A time as people say it.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => format!("{} s", seconds.max(1)),
        100..=5999 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A size in megabytes.
pub(crate) fn megabytes(bytes: usize) -> String {
    format!("{} MB", thousands(bytes.div_ceil(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!([0, 999, 1000, 1234567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(duration(Duration::from_millis(10)), "1 s");
        assert_eq!(duration(Duration::from_secs(130)), "2 min");
        assert_eq!(duration(Duration::from_secs(7260)), "2 h 1 min");
    }
}
