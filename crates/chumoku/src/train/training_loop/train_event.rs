//! Progress events of a training run.

use super::train_settings::TrainSettings;
use super::trainable::Metric;
use crate::lang::lang;
use std::time::Duration;

/// Progress events of a training run.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainEvent<'a> {
    /// A message for the user: topic and text.
    Message(&'static str, String),
    /// Progress of a slow operation: topic and detail. The next event replaces it.
    Progress(&'static str, String),
    /// Emitted after the first steps, once the run time can be estimated.
    Estimated {
        /// The settings.
        settings: &'a TrainSettings,
        /// Total number of steps, over all epochs.
        steps: u64,
        /// Steps finished before this run, when resuming.
        steps_done: u64,
        /// Estimated time to the end if no epoch is skipped, from the speed of the first steps.
        remaining: Duration,
        /// Estimated peak memory of the process, in bytes.
        peak_bytes: usize,
        /// Estimated multiply–adds of all epochs and evaluations. `None` for tasks that do not count them.
        multiply_adds: Option<u64>,
    },
    /// An optimizer step.
    Step {
        /// Number of the step, from 1.
        step: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// Tokens per second since the run began.
        tokens_per_second: f64,
    },
    /// An evaluation of the averaged weights on the validation rows.
    Evaluated {
        /// Epochs finished.
        epoch: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// Share of the training rows answered right during the epoch, each before the step that it was part of, with
        /// dropout. `None` for tasks that do not count answers.
        train_accuracy: Option<f64>,
        /// The metrics. The last one is the metric to watch.
        metrics: &'a [Metric],
        /// True for the best evaluation so far.
        is_best: bool,
        /// True if the rows are held out. Without validation rows, the training rows are evaluated.
        is_held_out: bool,
    },
}

/// The topic label of a message. Japanese labels have at most four characters, the width of the column.
pub(crate) fn topic_label(english: &'static str) -> &'static str {
    let japanese = match english {
        "note" => "注記",
        "tokens" => "トークン",
        "model" => "モデル",
        "long" => "長文",
        "weights" => "重み",
        "n-grams" => "n-gram",
        "baseline" => "比較対象",
        "fold" => "交差検証",
        "offer" => "提案",
        "columns" => "列",
        "choice" => "選択",
        "tune" => "調整",
        "trial" => "試行",
        "workers" => "分散",
        "memory" => "メモリ",
        same => same,
    };
    lang().pick(english, japanese)
}
