//! Error analysis of label and number models: the most confident missed and wrongly predicted labels, and the numbers
//! furthest outside their intervals.

use super::attention_collector::is_separator;
use super::attribution::AttributionMethod;
use super::errors::{ConfidentError, ErrorAnalysis, ErrorKind, LabelErrors, WrongAnswer, group_by_cause};
use super::highlighted::{HighlightedWord, highlight};
use crate::blend::number::Estimate;
use crate::data::{MultiLabelExample, ScoreExample};
use crate::prediction::target::PredictionTarget;
use crate::text::word_spans;
use crate::text_models::classifier::TextClassifier;
use crate::{Error, NgramClassifier, Prediction, Result, sorting, tr};
use chumoku_text::feature_columns::text_of;
use std::collections::HashSet;

/// The unit of an effect on a number.
const NUMBER_UNIT: &str = "change in the number when the word is removed";

/// The model's properties for the error analysis.
struct LabelErrorContext<'a> {
    name: &'a str,
    problem: &'a PredictionTarget,
    labels: &'a [String],
    method: AttributionMethod,
    is_network_alone: bool,
    top: usize,
}

/// Computes the effects of a text's words on a label or threshold, or on the number.
type WordEffectsFn<'a> = &'a mut dyn FnMut(&str, Option<usize>) -> Result<Vec<HighlightedWord>>;
/// Receives the number of explained errors, and the total.
type ProgressFn<'a> = &'a mut dyn FnMut(usize, usize);

impl LabelErrorContext<'_> {
    fn report(&self, kind: ErrorKind, [rows, wrong]: [usize; 2], errors: Vec<ConfidentError>) -> ErrorAnalysis {
        let (groups, alone) = group_by_cause(&errors);
        let is_of_number = kind == ErrorKind::Numbers && self.method == AttributionMethod::LeaveOneOut;
        ErrorAnalysis {
            model: self.name.into(),
            kind,
            rows,
            wrong,
            accuracy: (rows - wrong) as f64 / rows.max(1) as f64,
            method: self.method.name().into(),
            unit: if is_of_number { NUMBER_UNIT } else { self.method.unit() }.into(),
            is_network_alone: self.is_network_alone,
            groups,
            alone,
            errors,
            ..ErrorAnalysis::default()
        }
    }

    /// Analyzes missed and wrongly predicted labels in `examples`, and explains the `top` most confident ones.
    fn label_errors(
        &self,
        examples: &[MultiLabelExample],
        predictions: &[Prediction],
        words: WordEffectsFn<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<ErrorAnalysis> {
        let Some(blend) = self.problem.labels() else {
            return Err(Error::Setting(tr!(
                "this is not a multi-label model",
                "複数のラベルを答えるモデルではありません"
            )));
        };
        let mut of_label: Vec<LabelErrors> = self
            .labels
            .iter()
            .map(|label| LabelErrors { label: label.clone(), missed: 0, of: 0, extra: 0, of_others: 0 })
            .collect();
        // Row, label, whether it was missed, and confidence.
        let mut found: Vec<(usize, usize, bool, f32)> = Vec::new();
        let mut wrong = 0;
        for (row, (example, prediction)) in examples.iter().zip(predictions).enumerate() {
            let truth: HashSet<&str> = example.labels.iter().map(String::as_str).collect();
            let before = found.len();
            for (label, (&p, threshold)) in prediction.probabilities.iter().zip(&blend.thresholds).enumerate() {
                let (has, told) = (truth.contains(self.labels[label].as_str()), p >= *threshold);
                let of = &mut of_label[label];
                *(if has { &mut of.of } else { &mut of.of_others }) += 1;
                match (has, told) {
                    (true, false) => {
                        of.missed += 1;
                        found.push((row, label, true, 1.0 - p));
                    }
                    (false, true) => {
                        of.extra += 1;
                        found.push((row, label, false, p));
                    }
                    _ => {}
                }
            }
            wrong += usize::from(found.len() > before);
        }
        sorting::sort_by(&mut found, |a, b| b.3.total_cmp(&a.3));
        found.truncate(self.top);
        let mut errors = Vec::with_capacity(found.len());
        for (done, &(row, label, missed, probability)) in found.iter().enumerate() {
            progress(done, found.len());
            let example = &examples[row];
            let mut words = words(&example.text, Some(label))?;
            if missed {
                negate_effects(&mut words);
            }
            errors.push(ConfidentError {
                line: example.line,
                text: text_of(&example.text).to_owned(),
                answer: WrongAnswer::Label { label: self.labels[label].clone(), missed, probability },
                words,
            });
        }
        progress(found.len(), found.len());
        of_label.retain(|of| of.missed + of.extra > 0);
        sorting::sort_by_key(&mut of_label, |of| std::cmp::Reverse(of.missed + of.extra));
        Ok(ErrorAnalysis { labels: of_label, ..self.report(ErrorKind::Labels, [examples.len(), wrong], errors) })
    }

    /// Analyzes the numbers of `examples` outside their intervals, and explains the `top` that are furthest off
    /// relative to their intervals.
    fn number_errors(
        &self,
        examples: &[ScoreExample],
        predictions: &[Prediction],
        words: WordEffectsFn<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<ErrorAnalysis> {
        let blend = self.problem.require_number()?;
        let found: Vec<Estimate> = predictions.iter().map(|p| blend.estimate(&p.probabilities)).collect();
        let off = |(example, told): (&ScoreExample, &Estimate)| {
            let side = (told.high - told.score).max(told.score - told.low);
            (example.score - told.score).abs() / side.max(f64::MIN_POSITIVE)
        };
        let is_outside = |row: &usize| {
            let (truth, told) = (examples[*row].score, &found[*row]);
            truth < told.low || truth > told.high
        };
        let off: Vec<f64> = examples.iter().zip(&found).map(off).collect();
        let mut outside: Vec<usize> = (0..examples.len()).filter(is_outside).collect();
        let wrong = outside.len();
        sorting::sort_by(&mut outside, |&a, &b| off[b].total_cmp(&off[a]));
        outside.truncate(self.top);
        let mut errors = Vec::with_capacity(outside.len());
        for (done, &row) in outside.iter().enumerate() {
            progress(done, outside.len());
            let (example, told) = (&examples[row], found[row]);
            let mut words = words(&example.text, None)?;
            if told.score < example.score {
                negate_effects(&mut words);
            }
            let [score, low, high] = told.rounded();
            errors.push(ConfidentError {
                line: example.line,
                text: text_of(&example.text).to_owned(),
                answer: WrongAnswer::Number { truth: example.score, score, low, high, off: off[row] },
                words,
            });
        }
        progress(outside.len(), outside.len());
        let points = examples.iter().zip(&found).map(|(example, told)| [example.score, told.score]).collect();
        Ok(ErrorAnalysis { points, ..self.report(ErrorKind::Numbers, [examples.len(), wrong], errors) })
    }
}

/// A word that opposes the prediction supports the error, or the reverse.
fn negate_effects(words: &mut [HighlightedWord]) {
    words.iter_mut().filter_map(|word| word.effect.as_mut()).for_each(|effect| *effect = 0.0 - *effect);
}

impl TextClassifier {
    fn error_context<'a>(&'a self, name: &'a str, top: usize, method: AttributionMethod) -> LabelErrorContext<'a> {
        let is_network_alone = method == AttributionMethod::IntegratedGradients && self.has_ngrams();
        LabelErrorContext {
            name,
            problem: &self.config.target,
            labels: &self.config.labels,
            method,
            is_network_alone,
            top,
        }
    }

    /// Analyzes missed and wrongly predicted labels on labeled rows, otherwise like [`TextClassifier::errors`].
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model is not a multi-label model.
    pub fn label_errors(
        &self,
        examples: &[MultiLabelExample],
        name: &str,
        top: usize,
        method: AttributionMethod,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let mut words = |text: &str, label| self.highlighted_effects(text, label, method);
        self.error_context(name, top, method).label_errors(examples, &predictions, &mut words, progress)
    }

    /// Analyzes numbers outside their intervals, otherwise like [`TextClassifier::errors`].
    ///
    /// Effects are on the number. Integrated gradients are on the threshold whose probability is nearest to ½.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model does not predict numbers.
    pub fn number_errors(
        &self,
        examples: &[ScoreExample],
        name: &str,
        top: usize,
        method: AttributionMethod,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let blend = self.config.target.require_number()?;
        let mut words = |text: &str, label| {
            if method != AttributionMethod::LeaveOneOut {
                return self.highlighted_effects(text, label, method);
            }
            let own = self.text_without_columns(text);
            let words = word_spans(own, &self.tokenizer.encode(own)?);
            let whole = blend.estimate(&self.predict(&[text])?[0].probabilities).score;
            let without = self.predict_without_words(text, &words, &mut |_, _| {})?;
            let of_word = |p: &Prediction| (whole - blend.estimate(&p.probabilities).score) as f32;
            let effects = words.iter().zip(&without).filter(|(word, _)| !is_separator(own, word, &self.tokenizer));
            Ok(highlight(own, effects.map(|(word, without)| (word.bytes.clone(), of_word(without)))))
        };
        self.error_context(name, top, method).number_errors(examples, &predictions, &mut words, progress)
    }
}

impl NgramClassifier {
    fn error_context<'a>(&'a self, name: &'a str, top: usize) -> LabelErrorContext<'a> {
        let (problem, labels) = (&self.config.target, &self.config.labels[..]);
        LabelErrorContext {
            name,
            problem,
            labels,
            method: AttributionMethod::LeaveOneOut,
            is_network_alone: false,
            top,
        }
    }

    /// Analyzes errors like [`TextClassifier::label_errors`], by leaving out each word.
    ///
    /// # Errors
    /// If the model is not a multi-label model. Otherwise see [`NgramClassifier::predict`].
    pub fn label_errors(
        &self,
        examples: &[MultiLabelExample],
        name: &str,
        top: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let mut words = |text: &str, label: Option<usize>| {
            let class = label.unwrap_or_default();
            self.highlighted_effects(text, &|p| super::classifier::log_odds(p.probabilities[class].into()))
        };
        self.error_context(name, top).label_errors(examples, &predictions, &mut words, progress)
    }

    /// Analyzes errors like [`TextClassifier::number_errors`], by leaving out each word.
    ///
    /// # Errors
    /// If the model does not predict numbers. Otherwise see [`NgramClassifier::predict`].
    pub fn number_errors(
        &self,
        examples: &[ScoreExample],
        name: &str,
        top: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let blend = self.config.target.require_number()?;
        let mut words =
            |text: &str, _| self.highlighted_effects(text, &|p: &Prediction| blend.estimate(&p.probabilities).score);
        self.error_context(name, top).number_errors(examples, &predictions, &mut words, progress)
    }
}
