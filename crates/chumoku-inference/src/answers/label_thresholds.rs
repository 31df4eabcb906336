//! Probability thresholds of classes, for `--threshold` and `--precision-at-least`.

use crate::lang::{lang, sanitize};
use crate::{Error, Predictor, Result, tr};

/// A threshold for one label, or for all labels.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelThreshold {
    /// The label; `None` for all labels of a multi-label model.
    pub label: Option<String>,
    /// The threshold: a probability or a share.
    pub value: f64,
}

/// Thresholds at which a class is predicted.
#[derive(Clone, Debug, Default)]
pub struct ThresholdOptions {
    /// Minimum probabilities of classes.
    pub thresholds: Vec<LabelThreshold>,
    /// Minimum shares of the predictions of a class that are right. They choose probabilities on the validation rows.
    pub precisions: Vec<LabelThreshold>,
}

impl ThresholdOptions {
    /// Returns `true` if any threshold was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.thresholds.is_empty() || !self.precisions.is_empty()
    }

    /// Returns the probability threshold of each class, and reports each chosen one in a sentence.
    ///
    /// # Errors
    /// If the model predicts a number, or a threshold cannot be used.
    pub(crate) fn resolve(&self, model: Predictor<'_>, report: &mut dyn FnMut(&str)) -> Result<Vec<Option<f32>>> {
        if model.predicts_numbers() {
            return Err(Error::Setting(tr!(
                "--threshold, --precision-at-least: this model predicts a number, not classes; leave them out",
                "--threshold、--precision-at-least: このモデルが答えるのはクラスではなく数値です。指定を外してください"
            )));
        }
        ThresholdResolver { model, report }.resolve(self)
    }
}

/// Resolves thresholds for the classes of a model.
struct ThresholdResolver<'m, 'r> {
    model: Predictor<'m>,
    /// Receives a sentence for each chosen threshold.
    report: &'r mut dyn FnMut(&str),
}

impl ThresholdResolver<'_, '_> {
    /// Returns the requested probability threshold of each class.
    fn resolve(&mut self, options: &ThresholdOptions) -> Result<Vec<Option<f32>>> {
        let mut least = vec![None; self.model.labels().len()];
        for given in &options.thresholds {
            for class in self.classes_named("--threshold", given)? {
                self.set("--threshold", &mut least, class, given.value as f32)?;
            }
        }
        for given in &options.precisions {
            for class in self.classes_named("--precision-at-least", given)? {
                if let Some(confidence) = self.threshold_for_precision(class, given)? {
                    self.set("--precision-at-least", &mut least, class, confidence)?;
                }
            }
        }
        if !self.model.is_multi_label() && least.iter().all(Option::is_some) {
            let problem = tr!(
                "--threshold, --precision-at-least: every class has a threshold, so some texts would have no answer; leave one class without \
                 (--abstain answers only if the model is confident)",
                "--threshold、--precision-at-least: すべてのクラスに指定されているため、答えのないテキストが出ます。1 つのクラスは指定を\
                 外してください（確信のあるときだけ答えさせるには --abstain）"
            );
            return Err(Error::Setting(problem));
        }
        Ok(least)
    }

    fn set(&self, flag: &str, least: &mut [Option<f32>], class: usize, value: f32) -> Result<()> {
        if least[class].replace(value).is_some() {
            let label = sanitize(&self.model.labels()[class]);
            let problem = tr!("{flag}: “{label}” is given twice", "{flag}: 「{label}」が 2 回指定されています");
            return Err(Error::Setting(problem));
        }
        Ok(())
    }

    /// Returns the classes that a flag names.
    fn classes_named(&self, flag: &str, given: &LabelThreshold) -> Result<Vec<usize>> {
        let Some(label) = &given.label else {
            if self.model.is_multi_label() {
                return Ok((0..self.model.labels().len()).collect());
            }
            let (value, first) = (given.value, sanitize(self.model.labels().last().map_or("", String::as_str)));
            let problem = tr!(
                "{flag} {value}: expected the class of the threshold, such as {flag} {first}={value}",
                "{flag} {value}: どのクラスのしきい値かを、{flag} {first}={value} のように指定してください"
            );
            return Err(Error::Setting(problem));
        };
        if let Some(class) = self.model.labels().iter().position(|known| known == label) {
            return Ok(vec![class]);
        }
        const MOST: usize = 8;
        let mut known: Vec<String> = self.model.labels().iter().take(MOST).map(|label| sanitize(label)).collect();
        if self.model.labels().len() > MOST {
            known.push("…".into());
        }
        let (label, known) = (sanitize(label), known.join(lang().pick(", ", "、")));
        let problem = tr!(
            "{flag}: the model has no class “{label}”; expected one of {known}",
            "{flag}: 「{label}」というクラスはありません（{known} のいずれか）"
        );
        Err(Error::Setting(problem))
    }

    /// Chooses the probability threshold at which the given share of the answers is right, and reports it. Returns
    /// `None` if all labels were requested at once and this one keeps its threshold.
    fn threshold_for_precision(&mut self, class: usize, given: &LabelThreshold) -> Result<Option<f32>> {
        let (label, level) = (sanitize(&self.model.labels()[class]), given.value);
        let percent = 100.0 * level;
        let Some(calibration) =
            self.model.abstention().filter(|calibration| calibration.classes.len() == self.model.labels().len())
        else {
            let problem = tr!(
                "--precision-at-least: this folder has no class probabilities of the validation rows: train it again, \
                 with validation rows",
                "--precision-at-least: 検証データでのクラスの確率がこのフォルダにありません。検証データのある学習をやり直してください"
            );
            return Err(Error::Setting(problem));
        };
        let Some(cut) = calibration.precision_threshold(class, level) else {
            let text = tr!(
                "“{label}”: no threshold makes {percent} % of the predictions right on the {} validation rows",
                "「{label}」: {} 行の検証データでは、どのしきい値でも適合率が {percent} % になりません",
                calibration.rows
            );
            if given.label.is_none() {
                (self.report)(&tr!("{text}; the threshold is unchanged", "{text}。そのままにします"));
                return Ok(None);
            }
            let problem = tr!(
                "--precision-at-least: {text}; choose a lower value",
                "--precision-at-least: {text}。値を下げてください"
            );
            return Err(Error::Setting(problem));
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
        (self.report)(&tr!(
            "“{label}” at a probability of {sure:.1} % or above: precision {precision:.1} %, recall {recall:.1} % on the validation \
                 rows{proof}",
            "「{label}」は確率 {sure:.1} % 以上: 検証データで適合率 {precision:.1} %、再現率 {recall:.1} %{proof}"
        ));
        Ok(Some(cut.point.confidence))
    }
}
