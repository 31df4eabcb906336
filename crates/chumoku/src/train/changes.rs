//! What became of old and new rows where a model was trained further.

use super::{Further, NEW_VALID, OLD_TEST, OLD_VALID, TrainingData};
use crate::Result;
use crate::prediction::Prediction;
use crate::scoring::{accuracy_gain, quick_scores};
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
pub(super) struct Changes<'a> {
    data: &'a TrainingData,
    further: &'a Further,
    seed: u64,
    /// Of each of the rows that are compared, the old model's class.
    was: Vec<Vec<u32>>,
    found: Vec<Change>,
}

impl<'a> Changes<'a> {
    /// With the answers of the old model, whose classes are `labels`; none where no model is trained further.
    pub(super) fn begin(
        data: &'a TrainingData,
        labels: &[String],
        predict: Predict<'_>,
        seed: u64,
    ) -> Result<Option<Self>> {
        let Some(further) = &data.further else { return Ok(None) };
        let number = |prediction: &Prediction| {
            let label = &labels[prediction.class()];
            data.labels.iter().position(|other| other == label).unwrap_or_default() as u32
        };
        let answers = further.compared.iter().map(|(_, rows)| Ok(predict(&rows.texts())?.iter().map(number).collect()));
        let was = answers.collect::<Result<_>>()?;
        Ok(Some(Changes { data, further, seed, was, found: Vec::new() }))
    }

    /// Adds what the new model says before its n-grams learn from the validation rows, as they do once all is chosen: of new
    /// validation rows, which the old model has not seen. Old ones both have learnt from in the end.
    pub(super) fn before_refit(&mut self, predict: Predict<'_>) -> Result<()> {
        self.add(predict, |rows_of| rows_of == NEW_VALID)
    }

    /// Adds what the new model says of all other rows.
    pub(super) fn after_refit(&mut self, predict: Predict<'_>) -> Result<()> {
        self.add(predict, |rows_of| rows_of != NEW_VALID)
    }

    fn add(&mut self, predict: Predict<'_>, is_asked: impl Fn(&str) -> bool) -> Result<()> {
        let classes = self.data.labels.len();
        for ((rows_of, rows), was) in
            self.further.compared.iter().zip(&self.was).filter(|((name, _), _)| is_asked(name))
        {
            let texts = rows.texts();
            let is: Vec<u32> = predict(&texts)?.iter().map(|prediction| prediction.class() as u32).collect();
            let figures = |answers: &[u32]| {
                let (accuracy, macro_f1) = quick_scores(&rows.labels, answers, classes);
                Figures { accuracy, macro_f1 }
            };
            let (gain, interval) = accuracy_gain(&rows.judged(&is, &texts), was, classes, self.seed);
            let (before, after) = (figures(was), figures(&is));
            self.found.push(Change { rows_of, rows: rows.len(), before, after, gain, interval });
        }
        Ok(())
    }

    /// What `metrics.json` says of it, with the section of the model card.
    pub(super) fn report(mut self) -> (Value, String) {
        self.found.sort_by_key(|change| self.further.compared.iter().position(|(name, _)| *name == change.rows_of));
        let forgets = self.found.iter().any(Change::forgets);
        let metrics = json!({ "replays": self.further.replays, "changes": self.found, "forgets": forgets });
        (metrics, section(&self.found, forgets))
    }
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
        OLD_VALID => tr!("old validation rows", "元の検証データ"),
        OLD_TEST => tr!("old test rows", "元のテストデータ"),
        NEW_VALID => tr!("new validation rows", "新しい検証データ"),
        _ => tr!("new test rows", "新しいテストデータ"),
    }
}

/// The section of the model card.
fn section(changes: &[Change], forgets: bool) -> String {
    let mut card = tr!(
        "\n\n## Before and after\n\nThe model was trained further from another. Accuracy before and after, on the same rows:\n\n\
         | | rows | before | after | gain, 95 % interval |\n|---|---|---|---|---|\n",
        "\n\n## 追加学習の前後\n\n別のモデルから追加学習しました。同じ行での前後の正解率です。\n\n\
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
            "\n**Some of what the model knew is forgotten**: it is worse on old rows than chance explains.\n",
            "\n**前に覚えたことの一部が失われています。** 元のデータでの正解率が、偶然では説明できないほど下がりました。\n"
        );
    }
    card
}
