//! The probability thresholds of classes, chosen by `--threshold` and `--precision-at-least`.

use crate::UsageError;
use crate::args::{LabelThreshold, ThresholdArgs};
use crate::progress::print_status;
use chumoku::answers::Predictor;
use chumoku::lang::lang;
use chumoku::{AbstentionCalibration, tr};

/// The classes of a model.
pub(crate) struct ThresholdClasses<'a> {
    pub(crate) labels: &'a [String],
    /// True for multi-label models.
    pub(crate) has_several: bool,
    pub(crate) abstention: Option<&'a AbstentionCalibration>,
}

impl<'a> ThresholdClasses<'a> {
    /// Returns the classes of a model.
    pub(crate) fn of_model(model: Predictor<'a>) -> anyhow::Result<ThresholdClasses<'a>> {
        if model.predicts_numbers() {
            return Err(UsageError(tr!(
                "--threshold, --precision-at-least: this model predicts a number, not classes; leave them out",
                "--threshold、--precision-at-least: このモデルが答えるのはクラスではなく数値です。指定を外してください"
            ))
            .into());
        }
        Ok(ThresholdClasses {
            labels: model.labels(),
            has_several: model.is_multi_label(),
            abstention: model.abstention(),
        })
    }

    /// Returns the requested probability threshold of each class.
    pub(crate) fn thresholds(&self, asked: &ThresholdArgs) -> anyhow::Result<Vec<Option<f32>>> {
        let mut least = vec![None; self.labels.len()];
        for given in &asked.threshold {
            for class in self.classes_named("--threshold", given)? {
                self.set("--threshold", &mut least, class, given.value as f32)?;
            }
        }
        for given in &asked.precision_at_least {
            for class in self.classes_named("--precision-at-least", given)? {
                if let Some(confidence) = self.threshold_for_precision(class, given)? {
                    self.set("--precision-at-least", &mut least, class, confidence)?;
                }
            }
        }
        if !self.has_several && least.iter().all(Option::is_some) {
            let problem = tr!(
                "--threshold, --precision-at-least: every class has a threshold, so some texts would have no answer; leave one class without \
                 (--abstain answers only if the model is confident)",
                "--threshold、--precision-at-least: すべてのクラスに指定されているため、答えのないテキストが出ます。1 つのクラスは指定を\
                 外してください（確信のあるときだけ答えさせるには --abstain）"
            );
            return Err(UsageError(problem).into());
        }
        Ok(least)
    }

    fn set(&self, flag: &str, least: &mut [Option<f32>], class: usize, value: f32) -> anyhow::Result<()> {
        if least[class].replace(value).is_some() {
            let label = chumoku::lang::sanitize(&self.labels[class]);
            let problem = tr!("{flag}: “{label}” is given twice", "{flag}: 「{label}」が 2 回指定されています");
            return Err(UsageError(problem).into());
        }
        Ok(())
    }

    /// Returns the classes that a flag names.
    fn classes_named(&self, flag: &str, given: &LabelThreshold) -> anyhow::Result<Vec<usize>> {
        let Some(label) = &given.label else {
            if self.has_several {
                return Ok((0..self.labels.len()).collect());
            }
            let (value, first) = (given.value, chumoku::lang::sanitize(self.labels.last().map_or("", String::as_str)));
            let problem = tr!(
                "{flag} {value}: expected the class of the threshold, such as {flag} {first}={value}",
                "{flag} {value}: どのクラスのしきい値かを、{flag} {first}={value} のように指定してください"
            );
            return Err(UsageError(problem).into());
        };
        if let Some(class) = self.labels.iter().position(|known| known == label) {
            return Ok(vec![class]);
        }
        const MOST: usize = 8;
        let mut known: Vec<String> =
            self.labels.iter().take(MOST).map(|label| chumoku::lang::sanitize(label)).collect();
        if self.labels.len() > MOST {
            known.push("…".into());
        }
        let (label, known) = (chumoku::lang::sanitize(label), known.join(lang().pick(", ", "、")));
        let problem = tr!(
            "{flag}: the model has no class “{label}”; expected one of {known}",
            "{flag}: 「{label}」というクラスはありません（{known} のいずれか）"
        );
        Err(UsageError(problem).into())
    }

    /// Chooses the probability threshold at which the given share of the answers is right, and reports it. Returns
    /// `None` if all labels were requested at once and this one keeps its threshold.
    fn threshold_for_precision(&self, class: usize, given: &LabelThreshold) -> anyhow::Result<Option<f32>> {
        let (label, level) = (chumoku::lang::sanitize(&self.labels[class]), given.value);
        let percent = 100.0 * level;
        let Some(caution) = self.abstention.filter(|caution| caution.classes.len() == self.labels.len()) else {
            let problem = tr!(
                "--precision-at-least: this folder has no class probabilities of the validation rows: train it again, \
                 with validation rows",
                "--precision-at-least: 検証データでのクラスの確率がこのフォルダにありません。検証データのある学習をやり直してください"
            );
            return Err(UsageError(problem).into());
        };
        let Some(cut) = caution.precision_threshold(class, level) else {
            let text = tr!(
                "“{label}”: no threshold makes {percent} % of the predictions right on the {} validation rows",
                "「{label}」: {} 行の検証データでは、どのしきい値でも適合率が {percent} % になりません",
                caution.rows
            );
            if given.label.is_none() {
                print_status(
                    ["threshold", "しきい値"],
                    &tr!("{text}; the threshold is unchanged", "{text}。そのままにします"),
                );
                return Ok(None);
            }
            let problem = tr!(
                "--precision-at-least: {text}; choose a lower value",
                "--precision-at-least: {text}。値を下げてください"
            );
            return Err(UsageError(problem).into());
        };
        let right = cut.point.answered - cut.point.wrong;
        let (precision, recall) =
            (100.0 * right as f64 / cut.point.answered as f64, 100.0 * right as f64 / cut.positives.max(1) as f64);
        let sure = 100.0 * cut.point.confidence;
        let proof = match cut.is_guaranteed {
            true => String::new(),
            false => tr!(
                "; too few rows to promise {percent} % on new texts",
                "（行が少なく、新しいテキストについて {percent} % を保証できません）"
            ),
        };
        print_status(
            ["threshold", "しきい値"],
            &tr!(
                "“{label}” at a probability of {sure:.1} % or above: precision {precision:.1} %, recall {recall:.1} % on the validation \
                 rows{proof}",
                "「{label}」は確率 {sure:.1} % 以上: 検証データで適合率 {precision:.1} %、再現率 {recall:.1} %{proof}"
            ),
        );
        Ok(Some(cut.point.confidence))
    }
}
