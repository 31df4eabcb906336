//! What became of old and new rows where a model was trained further.

use super::{NEW_VALID, OLD_TEST, OLD_VALID, TrainingData};
use crate::Result;
use crate::prediction::Prediction;
use crate::scoring::{accuracy_gain, largest, quick_scores};
use crate::tr;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;

/// What became of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Which rows: `old_valid`, `old_test`, `new_valid`, `new_test`.
    pub rows_of: &'static str,
    /// How many.
    pub rows: usize,
    /// What the old model was worth on them.
    pub before: Figures,
    /// What the new one is.
    pub after: Figures,
    /// What accuracy gained.
    pub gain: f64,
    /// The 95 % interval of that, from paired resamples.
    pub interval: [f64; 2],
    /// Rows of classes that the old model knew which the new one takes for one that it did not.
    pub taken_for_new: usize,
}

/// How good answers are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The share of right ones.
    pub accuracy: f64,
    /// The mean F1 of the classes.
    pub macro_f1: f64,
}

/// How a model answers.
type Predict<'a> = &'a dyn Fn(&[&str]) -> Result<Vec<Prediction>>;

/// The old model's answers beside the new one's.
///
/// Test rows are told by the whole models. Validation rows are told by the networks alone, since n-grams learn from them once all is
/// chosen, and left out where there is no network.
pub(super) fn changes(
    data: &TrainingData,
    labels: &[String],
    [before, after]: [Predict<'_>; 2],
    seed: u64,
) -> Result<Option<(Value, String)>> {
    let Some(further) = &data.further else { return Ok(None) };
    let classes = data.labels.len();
    let number = |class: usize| data.labels.iter().position(|other| *other == labels[class]).unwrap_or_default() as u32;
    let mut found = Vec::new();
    for (rows_of, rows) in &further.compared {
        let texts = rows.texts();
        let is_network = matches!(*rows_of, OLD_VALID | NEW_VALID);
        let answers = |predict: Predict<'_>| -> Result<Vec<usize>> {
            let predictions = predict(&texts)?;
            let heard = predictions.iter().filter(|p| !is_network || !p.attention.is_empty());
            Ok(heard.map(|p| if is_network { largest(&p.attention) as usize } else { p.class() }).collect())
        };
        let was: Vec<u32> = answers(before)?.into_iter().map(number).collect();
        let is: Vec<u32> = answers(after)?.into_iter().map(|class| class as u32).collect();
        if was.len() < rows.len() {
            continue;
        }
        let figures = |answers: &[u32]| {
            let (accuracy, macro_f1) = quick_scores(&rows.labels, answers, classes);
            Figures { accuracy, macro_f1 }
        };
        let (gain, interval) = accuracy_gain(&rows.judged(&is, &texts), &was, classes, seed);
        let is_added = |class: &u32| !labels.contains(&data.labels[*class as usize]);
        let taken_for_new = is.iter().zip(&rows.labels).filter(|(is, truth)| is_added(is) && !is_added(truth)).count();
        let (before, after) = (figures(&was), figures(&is));
        found.push(Change { rows_of, rows: rows.len(), before, after, gain, interval, taken_for_new });
    }
    let forgets = found.iter().any(Change::forgets);
    let metrics = json!({ "replays": further.replays, "changes": found, "forgets": forgets });
    Ok(Some((metrics, section(&found, forgets))))
}

impl Change {
    /// Whether these are old rows, and worse by more than chance explains.
    fn forgets(&self) -> bool {
        matches!(self.rows_of, OLD_VALID | OLD_TEST) && self.interval[1] < 0.0
    }
}

/// What rows that are compared are called in the language of the process.
pub fn name_of_rows(rows_of: &str) -> String {
    match rows_of {
        OLD_VALID => tr!("old validation, network", "元の検証（ネットワーク）"),
        OLD_TEST => tr!("old test rows", "元のテストデータ"),
        NEW_VALID => tr!("new validation, network", "新しい検証（ネットワーク）"),
        _ => tr!("new test rows", "新しいテストデータ"),
    }
}

/// The section of the model card.
fn section(changes: &[Change], forgets: bool) -> String {
    let mut card = tr!(
        "\n\n## Before and after\n\nThe model was trained further from another. Accuracy before and after, on the same rows; on \
         validation rows that of the network alone, since n-grams learn from them in the end:\n\n\
         | | rows | before | after | gain, 95 % interval |\n|---|---|---|---|---|\n",
        "\n\n## 追加学習の前後\n\n別のモデルから追加学習しました。同じ行での前後の正解率です。n-gram は最後に検証データからも学習するため、\
         検証データではネットワーク単独の値を示します。\n\n\
         | | 行数 | 前 | 後 | 増減と 95 % 区間 |\n|---|---|---|---|---|\n"
    );
    for change in changes {
        let [before, after] = [change.before, change.after].map(|worth| format!("{:.1} %", 100.0 * worth.accuracy));
        let [low, high] = change.interval.map(|x| format!("{:+.1}", 100.0 * x));
        let (name, gain) = (name_of_rows(change.rows_of), 100.0 * change.gain);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        let _ = writeln!(card, "| {name} | {} | {before} | {after} | {gain:+.1} ({interval}) |", change.rows);
    }
    if forgets {
        card += &tr!(
            "\n**On old rows the model is worse than before**, by more than chance explains.\n",
            "\n**元のデータでの正解率が、偶然では説明できないほど下がりました。**\n"
        );
    }
    card
}
