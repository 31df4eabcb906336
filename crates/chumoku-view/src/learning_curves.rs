//! Learning curves: loss and scores of a training run by step.

use crate::figure::{Content, CurvePanels, Curves, Figure, FigureAxis};
use chumoku::Result;
use chumoku::lang::Lang;
use chumoku::tr_in;
use chumoku::train::{LogRecord, LoggedEvaluation, load_learning_log};
use std::path::Path;

/// The learning curves of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurves {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The logged losses and evaluations in the order of the steps.
    pub(crate) records: Vec<LogRecord>,
}

/// Number of evaluations from which the curves show evaluations alone. Fewer would not show how the loss falls.
const MIN_EVALUATIONS: usize = 4;

/// Scores that are shares, in the order of the legend, with their names.
const SHARES: [(&str, &str, &str); 4] = [
    ("accuracy", "accuracy", "正解率"),
    ("macro_f1", "macro-F1", "マクロ F1"),
    ("micro_f1", "micro-F1", "ミクロ F1"),
    ("span_f1", "span F1", "スパンの F1"),
];

/// Scores that are no shares, with their names.
const OTHERS: [(&str, &str, &str); 1] = [("mean_absolute_error", "mean absolute error", "平均絶対誤差")];

impl LearningCurves {
    /// Reads the log of a model's folder. `model` is its name in pictures.
    ///
    /// # Errors
    /// If the log cannot be read or holds no loss.
    pub fn load(folder: &Path, model: &str) -> Result<LearningCurves> {
        Ok(LearningCurves { model: model.into(), records: load_learning_log(folder)? })
    }

    fn evaluations(&self) -> impl Iterator<Item = (&LogRecord, &LoggedEvaluation)> {
        self.records.iter().filter_map(|record| Some((record, record.evaluation.as_ref()?)))
    }

    /// Returns `true` if the evaluated rows are held out.
    fn is_held_out(&self) -> bool {
        self.evaluations().all(|(_, evaluation)| evaluation.is_held_out)
    }

    /// The loss and, for tasks that have them, the scores, one below the other.
    #[must_use]
    pub fn figure(&self, lang: Lang) -> Figure {
        let panels: Vec<(String, Curves)> = [
            Some(self.loss_panel(lang)),
            self.score_panel(["Scores", "スコア"], &SHARES, lang),
            self.score_panel(["Error", "誤差"], &OTHERS, lang),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut notes = vec![
            lang.pick(
                "The training loss is a moving average. It includes dropout and label smoothing, so it may stay above the \
                 validation loss.",
                "学習の損失は移動平均です。ドロップアウトとラベル平滑化を含むため、検証の損失より高いことがあります。",
            )
            .to_owned(),
        ];
        if self.evaluations().any(|(record, _)| record.train_accuracy.is_some()) {
            let text = lang.pick(
                "The accuracy in training counts the answers that each batch got before it was trained on, with dropout.",
                "学習の正解率は、各バッチで学習する直前の答え（ドロップアウトあり）から数えたものです。",
            );
            notes.push(text.to_owned());
        }
        if !self.is_held_out() {
            let text = lang.pick(
                "There were no validation rows: the training rows were evaluated.",
                "検証データがないため、学習データで評価しました。",
            );
            notes.push(text.to_owned());
        }
        Figure {
            title: tr_in!("{}: learning curves", "{}: 学習曲線", lang, self.model),
            subtitle: self.subtitle(lang),
            notes,
            content: Content::Panels(CurvePanels { panels, range: None }),
            lang,
        }
    }

    fn subtitle(&self, lang: Lang) -> String {
        let (steps, epochs) = self.records.last().map_or((0, 0), |record| (record.step, record.epoch));
        tr_in!("steps: {}, epochs: {}", "ステップ: {}、エポック: {}", lang, steps, epochs)
    }

    fn evaluated_rows(&self, lang: Lang) -> &'static str {
        match self.is_held_out() {
            true => lang.pick("validation", "検証"),
            false => lang.pick("training rows", "学習データ"),
        }
    }

    fn loss_panel(&self, lang: Lang) -> (String, Curves) {
        let is_of_evaluations = self.evaluations().count() >= MIN_EVALUATIONS;
        let mut shown: Vec<&LogRecord> =
            self.records.iter().filter(|record| !is_of_evaluations || record.evaluation.is_some()).collect();
        // An evaluation after a logged step has the same step and loss: one place of the axis.
        shown.dedup_by(|next, before| {
            let is_same = next.step == before.step;
            if is_same && next.evaluation.is_some() {
                *before = *next;
            }
            is_same
        });
        let evaluated = |record: &&LogRecord| record.evaluation.as_ref().map_or(f32::NAN, |found| found.loss as f32);
        let series = [
            (lang.pick("training", "学習").to_owned(), shown.iter().map(|record| record.loss as f32).collect()),
            (self.evaluated_rows(lang).to_owned(), shown.iter().map(evaluated).collect()),
        ];
        (lang.pick("Loss", "損失").into(), curves(lang, &shown, series.to_vec()))
    }

    /// The scores of this table that the task has; `None` if it has none of them.
    fn score_panel(
        &self,
        [english, japanese]: [&str; 2],
        table: &[(&str, &str, &str)],
        lang: Lang,
    ) -> Option<(String, Curves)> {
        let shown: Vec<&LogRecord> = self.evaluations().map(|(record, _)| record).collect();
        let mut series: Vec<(String, Vec<f32>)> = Vec::new();
        let rows = self.evaluated_rows(lang);
        for &(key, en, ja) in table {
            let name = lang.pick(en, ja);
            let value = |evaluation: &LoggedEvaluation| {
                evaluation.metrics.iter().find(|(other, _)| other == key).map(|(_, value)| *value as f32)
            };
            let values: Vec<Option<f32>> = self.evaluations().map(|(_, evaluation)| value(evaluation)).collect();
            if values.iter().any(Option::is_some) {
                let values = values.into_iter().map(|value| value.unwrap_or(f32::NAN));
                series.push((tr_in!("{}: {}", "{}: {}", lang, name, rows), values.collect()));
            }
        }
        let trained = |record: &&LogRecord| record.train_accuracy.map_or(f32::NAN, |value| value as f32);
        if table.iter().any(|row| row.0 == "accuracy") && shown.iter().any(|record| record.train_accuracy.is_some()) {
            let name = lang.pick("accuracy: training", "正解率: 学習").to_owned();
            series.insert(0, (name, shown.iter().map(trained).collect()));
        }
        let caption = lang.pick(english, japanese);
        (!series.is_empty()).then(|| (caption.into(), curves(lang, &shown, series)))
    }
}

fn curves(lang: Lang, shown: &[&LogRecord], series: Vec<(String, Vec<f32>)>) -> Curves {
    let x = FigureAxis {
        name: lang.pick("steps", "ステップ").into(),
        labels: shown.iter().map(|record| record.step.to_string()).collect(),
        is_numbered: false,
    };
    Curves { x, y: String::new(), series, between: Vec::new(), is_logarithmic: false, spread: Vec::new() }
}

/// The heights of a sparkline.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws numbers as a line of bars, at most `width` of them. More numbers are averaged in groups of about equal size.
///
/// The smallest number has the lowest bar, the largest the highest. Numbers that are not finite have a space.
#[must_use]
pub fn sparkline(numbers: &[f64], width: usize) -> String {
    let count = numbers.len().min(width);
    let mean = |group: &[f64]| {
        let finite: Vec<f64> = group.iter().copied().filter(|x| x.is_finite()).collect();
        finite.iter().sum::<f64>() / finite.len() as f64
    };
    let groups: Vec<f64> =
        (0..count).map(|i| mean(&numbers[i * numbers.len() / count..(i + 1) * numbers.len() / count])).collect();
    let finite = || groups.iter().copied().filter(|x| x.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let bar = |x: f64| match x.is_finite() {
        true if high > low => BARS[((x - low) / (high - low) * (BARS.len() - 1) as f64).round() as usize],
        true => BARS[0],
        false => ' ',
    };
    groups.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log in a folder, as `train` writes it.
    fn load(lines: &[String]) -> LearningCurves {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("log.jsonl"), lines.join("\n") + "\n").unwrap();
        LearningCurves::load(folder.path(), "m").unwrap()
    }

    fn panels(curves: &LearningCurves, lang: Lang) -> Vec<(String, Curves)> {
        let Content::Panels(panels) = curves.figure(lang).content else { panic!("panels") };
        panels.panels
    }

    #[test]
    fn a_classifier_has_its_loss_and_its_scores_by_step() {
        let line = |epoch: u64| {
            let loss = 1.0 / epoch as f64;
            serde_json::json!({
                "step": 60 * epoch, "epoch": epoch, "loss": loss, "valid_loss": loss / 2.0, "train_accuracy": 0.5,
                "valid_accuracy": 0.25 * epoch as f64, "valid_macro_f1": 0.125, "best": true,
            })
            .to_string()
        };
        let step = serde_json::json!({ "step": 50, "epoch": 0, "loss": 3.0 }).to_string();
        let run = load(&[vec![step.clone()], (1..=4).map(line).collect()].concat());
        let [loss, scores] = &panels(&run, Lang::En)[..] else { panic!("two panels") };
        // With four evaluations, other steps are left out.
        assert_eq!(loss.1.x.labels, ["60", "120", "180", "240"]);
        let names = |curves: &Curves| curves.series.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&loss.1), ["training", "validation"]);
        assert_eq!(loss.1.series[1].1, [0.5, 0.25, 1.0 / 6.0, 0.125]);
        assert_eq!(names(&scores.1), ["accuracy: training", "accuracy: validation", "macro-F1: validation"]);
        assert_eq!(scores.1.series[1].1, [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(run.figure(Lang::Ja).title, "m: 学習曲線");
        // Fewer evaluations: every logged step, and a gap where nothing was evaluated.
        let run = load(&[step, line(1)]);
        let loss = &panels(&run, Lang::En)[0].1;
        assert_eq!(loss.x.labels, ["50", "60"]);
        assert!(loss.series[1].1[0].is_nan());
        assert_eq!(loss.series[1].1[1], 0.5);
        let drawn = run.figure(Lang::En).scene().to_svg();
        assert!(!drawn.contains("NaN") && drawn.contains("validation"), "{drawn}");
    }

    /// An epoch of 50 steps ends with a logged step and an evaluation: the axis has one place for both.
    #[test]
    fn each_step_is_one_place_of_the_axis() {
        let step = |step: u64| serde_json::json!({ "step": step, "epoch": 0, "loss": 3.0 }).to_string();
        let evaluation =
            serde_json::json!({ "step": 50, "epoch": 1, "loss": 3.0, "valid_loss": 2.0, "valid_accuracy": 0.5 });
        let run = load(&[step(50), evaluation.to_string(), step(100)]);
        let loss = &panels(&run, Lang::En)[0].1;
        assert_eq!(loss.x.labels, ["50", "100"]);
        assert_eq!(loss.series[0].1, [3.0, 3.0]);
        assert_eq!(loss.series[1].1[0], 2.0);
    }

    #[test]
    fn a_translator_has_its_loss_alone_and_a_regressor_its_error() {
        let line = |key: &str| {
            format!("{{\"step\":9,\"epoch\":1,\"loss\":1.0,\"valid_loss\":2.0,\"valid_{key}\":0.5,\"held_out\":false}}")
        };
        let run = load(&[line("perplexity")]);
        assert_eq!(panels(&run, Lang::En).len(), 1);
        assert_eq!(panels(&run, Lang::Ja)[0].1.series[1].0, "学習データ");
        assert!(run.figure(Lang::En).notes.last().unwrap().contains("no validation rows"));
        let run = load(&[line("mean_absolute_error")]);
        assert_eq!(panels(&run, Lang::En)[1].0, "Error");
    }

    #[test]
    fn sparklines_rise_with_the_numbers() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 80), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[3.0, 3.0], 80), "▁▁");
        assert_eq!(sparkline(&[f64::NAN, 1.0, 2.0], 80), " ▁█");
        assert_eq!(sparkline(&[], 80), "");
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(sparkline(&many, 16), "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██");
    }
}
