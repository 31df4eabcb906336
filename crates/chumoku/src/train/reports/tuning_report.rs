//! The report of a search: in `metrics.json`, in the model card, and in `tune.jsonl`.

use crate::lang::{escape_markdown, lang};
use crate::model_folder::TUNE_LOG;
use crate::scoring::{AccuracyDifference, Scores};
use crate::{sorting, tr};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;

/// A trial of settings: a line of `tune.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// The number of the trial, from 0. Trial 0 has the initial settings.
    pub(crate) trial: u64,
    /// The settings, in the format of `--settings`.
    pub(crate) set: String,
    /// The settings that differ from the best ones before.
    pub(crate) changed: String,
    /// The mean −ln p of the validation rows' classes. `None` if training failed.
    pub(crate) log_loss: Option<f64>,
    /// The epoch after which the network was stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) given_up: Option<u64>,
    /// The accuracy on the validation rows.
    pub(crate) accuracy: f64,
    /// The decrease of the log-loss from the best settings before.
    pub(crate) gain: f64,
    /// The standard error of the gain. Infinite for a single row, which is null in JSON.
    #[serde(deserialize_with = "infinite_if_null")]
    pub(crate) standard_error: f64,
    /// True if these become the best settings.
    pub(crate) kept: bool,
    /// The weight of the data against the n-gram model's penalty.
    pub(crate) c: f64,
    /// The time of the n-gram model; 0 if it was known already.
    pub(crate) seconds_ngrams: f64,
    /// The time of the network; 0 if it was known already.
    pub(crate) seconds_network: f64,
    /// The multiply–adds of the network, if no epoch is skipped.
    pub(crate) work: f64,
}

fn infinite_if_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// The results of a search, and the answers of the initial settings.
pub(crate) struct TuningReport {
    pub(crate) trials: Vec<Trial>,
    /// The best settings, in the format of `--settings`.
    pub(crate) set: String,
    /// The number of validation rows.
    pub(crate) rows: usize,
    /// The model of the initial settings on the reported rows: its scores, and whether each answer is correct. `None`
    /// if these are the best settings.
    pub(crate) defaults: Option<(Scores, Vec<bool>)>,
    /// The content of `tune.jsonl`.
    pub(crate) log: Vec<u8>,
}

/// The scores of a model on the reported rows.
pub(crate) struct ReportedScores<'a> {
    pub(crate) scores: &'a Scores,
    /// The confidence of each answer, and whether it is correct.
    pub(crate) confidences: &'a [(f32, bool)],
    /// The part of the data that has the rows.
    pub(crate) part: &'a str,
}

/// The number of trials in the table.
const TABLE_TRIALS: usize = 10;

impl TuningReport {
    /// Adds the trials and their gain to the report of a model with these scores.
    pub(crate) fn add_to_report(
        self,
        ReportedScores { scores, confidences, part }: ReportedScores<'_>,
        metrics: &mut Value,
        card: &mut String,
        files: &mut Vec<(&'static str, Vec<u8>)>,
    ) {
        // The settings were chosen on the validation rows, so a gain there would be biased.
        let gain = self.defaults.as_ref().filter(|_| part == "test").map(|(before, right)| {
            let now: Vec<bool> = confidences.iter().map(|row| row.1).collect();
            let difference = AccuracyDifference::compare(&now, right);
            let figures = |scores: &Scores| {
                json!({ "accuracy": scores.accuracy, "macro_f1": scores.macro_f1, "log_loss": scores.log_loss })
            };
            json!({
                "defaults": figures(before),
                "tuned": figures(scores),
                "accuracy_difference": difference.value(),
                "interval": difference.interval(),
                "rows": difference.rows,
                "tuned_only": difference.first_only,
                "defaults_only": difference.second_only,
            })
        });
        let of_trial = |trial: &Trial| {
            json!({
                "trial": trial.trial,
                "set": trial.set,
                "changed": trial.changed,
                "log_loss": trial.log_loss,
                "given_up": trial.given_up,
                "accuracy": trial.accuracy,
                "gain": trial.gain,
                "standard_error": trial.standard_error,
                "kept": trial.kept,
            })
        };
        let tuning = json!({
            "trials": self.trials.len(),
            "valid_rows": self.rows,
            "set": self.set,
            "tried": self.trials.iter().map(of_trial).collect::<Vec<_>>(),
            "gain": gain,
        });
        *card += &section(&tuning);
        metrics["tuning"] = tuning;
        files.push((TUNE_LOG, self.log));
    }
}

/// Returns the trials of a `tuning` object, lowest log-loss first.
fn best_first(tuning: &Value) -> Vec<&Value> {
    let tried = tuning["tried"].as_array().into_iter().flatten();
    let mut trials: Vec<&Value> = tried.filter(|trial| trial["log_loss"].is_number()).collect();
    let loss = |trial: &Value| trial["log_loss"].as_f64().unwrap_or(f64::INFINITY);
    sorting::sort_by(&mut trials, |a, b| loss(a).total_cmp(&loss(b)));
    trials
}

/// The display name of settings; the defaults have none.
fn settings_name(set: &str) -> String {
    if set.is_empty() { tr!("the defaults", "既定値") } else { set.to_owned() }
}

/// The section of the model card.
fn section(tuning: &Value) -> String {
    let mut card = tr!(
        "\n## Tuning\n\n{} sets of settings were tried and scored by their log-loss on the {} validation rows. \
         Settings were kept only if they were better than the best before by more than the standard error (twice that \
         for random settings). The smallest log-losses:\n\n\
         | log-loss | accuracy | settings |\n|---|---|---|\n",
        "\n## チューニング\n\n{} 通りの設定を試し、検証データ {} 行での対数損失で比べました。それまでの最良との差が標準誤差より\
         大きいとき（無作為に選んだ設定では 2 倍より大きいとき）だけ採用しています。対数損失の小さい順:\n\n| 対数損失 | 正解率 | 設定 |\n|---|---|---|\n",
        tuning["trials"],
        tuning["valid_rows"]
    );
    for trial in best_first(tuning).into_iter().take(TABLE_TRIALS) {
        let number = |key: &str| trial[key].as_f64().unwrap_or(f64::NAN);
        let set = escape_markdown(&settings_name(trial["set"].as_str().unwrap_or_default()));
        let taken = trial["set"] == tuning["set"];
        let set = if taken { format!("**{set}**") } else { set };
        let _ = writeln!(card, "| {:.4} | {:.1} % | {set} |", number("log_loss"), 100.0 * number("accuracy"));
    }
    card + "\n" + &gain_sentences(tuning).join(lang().pick(" ", "")) + "\n"
}

/// Describes the chosen settings of a `tuning` object and their gain, in sentences.
#[must_use]
pub fn gain_sentences(tuning: &Value) -> Vec<String> {
    let set = tuning["set"].as_str().unwrap_or_default();
    let tried = tuning["tried"].as_array().map_or(&[][..], Vec::as_slice);
    let first = tried.first().and_then(|trial| trial["set"].as_str()).unwrap_or_default();
    if set == first {
        return vec![tr!(
            "The settings of the first trial stay: no other was clearly better on the validation rows.",
            "最初の試行の設定のままです。検証データで明らかにそれより良い設定はありませんでした。"
        )];
    }
    let mut sentences = vec![tr!("Settings used: --settings {set}.", "採用した設定: --settings {set}。")];
    let gain = &tuning["gain"];
    let number = |value: &Value| 100.0 * value.as_f64().unwrap_or(f64::NAN);
    sentences.push(match gain.is_null() {
        true => tr!(
            "There are no test rows, so the gain on new texts is unknown.",
            "テスト用の行がないため、新しいテキストでどれだけ良くなるかは分かりません。"
        ),
        false => {
            let [now, before] = [&gain["tuned"], &gain["defaults"]];
            let [low, high] = [0, 1].map(|end| number(&gain["interval"][end]));
            let [accuracy, accuracy_before] = [now, before].map(|scores| number(&scores["accuracy"]));
            let [loss, loss_before] = [now, before].map(|scores| scores["log_loss"].as_f64().unwrap_or(f64::NAN));
            let (rows, points) = (&gain["rows"], number(&gain["accuracy_difference"]));
            tr!(
                "On the {rows} test rows, which no trial used: accuracy {accuracy:.1} %, {accuracy_before:.1} % before \
                 ({points:+.1} points, 95 % interval {low:+.1} to {high:+.1}); log-loss {loss:.4}, {loss_before:.4} before.",
                "どの試行でも見ていないテストデータ {rows} 行での正解率は {accuracy:.1} %、チューニング前は {accuracy_before:.1} %\
                 （差 {points:+.1} ポイント、95 % 区間 {low:+.1}〜{high:+.1}）。対数損失は {loss:.4}、チューニング前は \
                 {loss_before:.4} です。"
            )
        }
    });
    sentences
}

/// A trial of a search, as a table row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrialRow {
    /// The log-loss on the validation rows.
    pub log_loss: f64,
    /// The accuracy on the validation rows.
    pub accuracy: f64,
    /// The settings.
    pub settings: String,
    /// True if these settings were chosen.
    pub is_chosen: bool,
}

/// Returns the best trials of a `tuning` object, as table rows.
#[must_use]
pub fn best_trials(tuning: &Value, most: usize) -> Vec<TrialRow> {
    let row = |trial: &Value| {
        let number = |key: &str| trial[key].as_f64().unwrap_or(f64::NAN);
        let set = trial["set"].as_str().unwrap_or_default();
        let is_chosen = trial["set"] == tuning["set"];
        TrialRow { log_loss: number("log_loss"), accuracy: number("accuracy"), settings: settings_name(set), is_chosen }
    };
    best_first(tuning).into_iter().take(most).map(row).collect()
}
