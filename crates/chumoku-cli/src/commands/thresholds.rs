//! From which probability on a class is the answer, as `--threshold` and `--precision-at-least` say.

use crate::UsageError;
use crate::args::{LabelThreshold, ThresholdArgs};
use crate::progress::print_status;
use chumoku::answers::Predictor;
use chumoku::lang::lang;
use chumoku::{AbstentionCalibration, tr};

/// What is known of a model's classes.
pub(super) struct ThresholdClasses<'a> {
    pub(super) labels: &'a [String],
    /// Whether a text may have several.
    pub(super) has_several: bool,
    pub(super) caution: Option<&'a AbstentionCalibration>,
}

impl<'a> ThresholdClasses<'a> {
    /// Of a model.
    pub(super) fn of_model(model: Predictor<'a>) -> anyhow::Result<ThresholdClasses<'a>> {
        if model.predicts_numbers() {
            return Err(UsageError(tr!(
                "--threshold, --precision-at-least: this model gives each text a number and no classes; leave them out",
                "--threshold、--precision-at-least: このモデルが答えるのはクラスではなく数値です。指定を外してください"
            ))
            .into());
        }
        Ok(ThresholdClasses {
            labels: model.labels(),
            has_several: model.is_multi_label(),
            caution: model.abstention(),
        })
    }

    /// The least probability of each class that is asked for.
    pub(super) fn thresholds(&self, asked: &ThresholdArgs) -> anyhow::Result<Vec<Option<f32>>> {
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
                "--threshold, --precision-at-least: every class has one, so some texts would have no answer: leave one class without \
                 (--abstain answers only where the model is sure)",
                "--threshold、--precision-at-least: すべてのクラスに指定されているため、答えのないテキストが出ます。1 つのクラスは指定を\
                 外してください（確信のあるときだけ答えさせるには --abstain）"
            );
            return Err(UsageError(problem).into());
        }
        Ok(least)
    }

    fn set(&self, flag: &str, least: &mut [Option<f32>], class: usize, value: f32) -> anyhow::Result<()> {
        if least[class].replace(value).is_some() {
            let label = crate::sanitize(&self.labels[class]);
            let problem = tr!("{flag}: “{label}” is given twice", "{flag}: 「{label}」が 2 回指定されています");
            return Err(UsageError(problem).into());
        }
        Ok(())
    }

    /// The classes that somebody means.
    fn classes_named(&self, flag: &str, given: &LabelThreshold) -> anyhow::Result<Vec<usize>> {
        let Some(label) = &given.label else {
            if self.has_several {
                return Ok((0..self.labels.len()).collect());
            }
            let (value, first) = (given.value, crate::sanitize(self.labels.last().map_or("", String::as_str)));
            let problem = tr!(
                "{flag} {value}: expected a class to answer from there on, such as {flag} {first}={value}",
                "{flag} {value}: どのクラスのしきい値かを、{flag} {first}={value} のように指定してください"
            );
            return Err(UsageError(problem).into());
        };
        if let Some(class) = self.labels.iter().position(|known| known == label) {
            return Ok(vec![class]);
        }
        const MOST: usize = 8;
        let mut known: Vec<String> = self.labels.iter().take(MOST).map(|label| crate::sanitize(label)).collect();
        if self.labels.len() > MOST {
            known.push("…".into());
        }
        let (label, known) = (crate::sanitize(label), known.join(lang().pick(", ", "、")));
        let problem = tr!(
            "{flag}: the model has no class “{label}”; expected one of {known}",
            "{flag}: 「{label}」というクラスはありません（{known} のいずれか）"
        );
        Err(UsageError(problem).into())
    }

    /// From which probability on so large a share of the rows is of the class, said aloud. None where so many labels were asked
    /// for at once that this one may stay as it is.
    fn threshold_for_precision(&self, class: usize, given: &LabelThreshold) -> anyhow::Result<Option<f32>> {
        let (label, level) = (crate::sanitize(&self.labels[class]), given.value);
        let percent = 100.0 * level;
        let Some(caution) = self.caution.filter(|caution| caution.classes.len() == self.labels.len()) else {
            let problem = tr!(
                "--precision-at-least: this folder does not say how probable its classes were in the validation rows: train it again, \
                 with validation rows",
                "--precision-at-least: 検証データでのクラスの確率がこのフォルダにありません。検証データのある学習をやり直してください"
            );
            return Err(UsageError(problem).into());
        };
        let Some(cut) = caution.precision_threshold(class, level) else {
            let text = tr!(
                "“{label}”: at no probability are {percent} % of the {} validation rows right",
                "「{label}」: {} 行の検証データでは、どの確率でも {percent} % は正しくなりません",
                caution.rows
            );
            if given.label.is_none() {
                print_status(["threshold", "しきい値"], &tr!("{text}; it stays as it is", "{text}。そのままにします"));
                return Ok(None);
            }
            let problem =
                tr!("--precision-at-least: {text}; ask for less", "--precision-at-least: {text}。値を下げてください");
            return Err(UsageError(problem).into());
        };
        let right = cut.point.answered - cut.point.wrong;
        let (precision, recall) =
            (100.0 * right as f64 / cut.point.answered as f64, 100.0 * right as f64 / cut.positives.max(1) as f64);
        let sure = 100.0 * cut.point.confidence;
        let proof = match cut.is_guaranteed {
            true => String::new(),
            false => tr!(
                "; too few rows to promise {percent} % of new texts",
                "（行が少なく、新しいテキストについて {percent} % を約束することはできません）"
            ),
        };
        print_status(
            ["threshold", "しきい値"],
            &tr!(
                "“{label}” from a probability of {sure:.1} % on: precision {precision:.1} %, recall {recall:.1} % in the validation \
                 rows{proof}",
                "「{label}」は確率 {sure:.1} % 以上: 検証データで適合率 {precision:.1} %、再現率 {recall:.1} %{proof}"
            ),
        );
        Ok(Some(cut.point.confidence))
    }
}
