//! Error analysis of label and number models: the most confident missed and wrongly predicted labels, and the numbers
//! furthest outside their intervals.

use super::attention_collector::is_separator;
use super::attribution::AttributionMethod;
use super::classifier::log_odds;
use super::errors::{ConfidentError, ErrorAnalysis, ErrorContext, ErrorKind, ErrorOptions, LabelErrors, WrongAnswer};
use super::highlighted::{HighlightedWord, highlight};
use crate::Error;
use crate::Prediction;
use crate::Predictor;
use crate::Result;
use crate::blend::number::Estimate;
use crate::data::{MultiLabelExample, ScoreExample};
use crate::row::{AsRow, RowRef};
use crate::sorting;
use crate::text::word_spans;
use crate::text_models::classifier::TextClassifier;
use crate::tr;
use std::collections::HashSet;

/// Computes the effects of a text's words on a label or threshold, or on the number.
type WordEffectsFn<'a> = &'a mut dyn FnMut(RowRef<'_>, Option<usize>) -> Result<Vec<HighlightedWord>>;
/// Receives the number of explained errors, and the total.
type ProgressFn<'a> = &'a mut dyn FnMut(usize, usize);

impl ErrorContext<'_> {
    /// Analyzes missed and wrongly predicted labels in `examples`, and explains the `top` most confident ones.
    fn label_errors(
        &self,
        examples: &[MultiLabelExample],
        predictions: &[Prediction],
        words: WordEffectsFn<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<ErrorAnalysis> {
        let Some(blend) = self.target.labels() else {
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
                let (has, is_predicted) = (truth.contains(self.labels[label].as_str()), p >= *threshold);
                let of = &mut of_label[label];
                *(if has { &mut of.of } else { &mut of.of_others }) += 1;
                match (has, is_predicted) {
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
            let mut words = words(example.text.as_row(), Some(label))?;
            if missed {
                negate_effects(&mut words);
            }
            errors.push(ConfidentError {
                line: example.line,
                text: example.text.as_row().without_values().to_row(),
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
        let blend = self.target.require_number()?;
        let found: Vec<Estimate> = predictions.iter().map(|p| blend.estimate(&p.probabilities)).collect();
        let off = |(example, estimate): (&ScoreExample, &Estimate)| {
            let side = (estimate.high - estimate.score).max(estimate.score - estimate.low);
            (example.score - estimate.score).abs() / side.max(f64::MIN_POSITIVE)
        };
        let is_outside = |row: &usize| {
            let (truth, estimate) = (examples[*row].score, &found[*row]);
            truth < estimate.low || truth > estimate.high
        };
        let off: Vec<f64> = examples.iter().zip(&found).map(off).collect();
        let mut outside: Vec<usize> = (0..examples.len()).filter(is_outside).collect();
        let wrong = outside.len();
        sorting::sort_by(&mut outside, |&a, &b| off[b].total_cmp(&off[a]));
        outside.truncate(self.top);
        let mut errors = Vec::with_capacity(outside.len());
        for (done, &row) in outside.iter().enumerate() {
            progress(done, outside.len());
            let (example, estimate) = (&examples[row], found[row]);
            let mut words = words(example.text.as_row(), None)?;
            if estimate.score < example.score {
                negate_effects(&mut words);
            }
            let [score, low, high] = estimate.rounded();
            errors.push(ConfidentError {
                line: example.line,
                text: example.text.as_row().without_values().to_row(),
                answer: WrongAnswer::Number { truth: example.score, score, low, high, off: off[row] },
                words,
            });
        }
        progress(outside.len(), outside.len());
        let points = examples.iter().zip(&found).map(|(example, estimate)| [example.score, estimate.score]).collect();
        Ok(ErrorAnalysis { points, ..self.report(ErrorKind::Numbers, [examples.len(), wrong], errors) })
    }
}

/// A word that opposes the prediction supports the error, or the reverse.
fn negate_effects(words: &mut [HighlightedWord]) {
    words.iter_mut().filter_map(|word| word.effect.as_mut()).for_each(|effect| *effect = 0.0 - *effect);
}

impl Predictor<'_> {
    /// Analyzes missed and wrongly predicted labels on labeled rows, otherwise like [`Predictor::errors`].
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model is not a multi-label model.
    pub fn label_errors(
        self,
        examples: &[MultiLabelExample],
        options: ErrorOptions<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| &example.text).collect::<Vec<_>>())?;
        let mut words = |text: RowRef<'_>, label: Option<usize>| match self {
            Predictor::Classifier(model) => model.highlighted_effects(text, label, options.method),
            Predictor::Ngrams(model) => {
                let class = label.unwrap_or_default();
                model.highlighted_effects(text, &|p| log_odds(p.probabilities[class].into()))
            }
        };
        self.error_context(options).label_errors(examples, &predictions, &mut words, progress)
    }

    /// Analyzes numbers outside their intervals, otherwise like [`Predictor::errors`].
    ///
    /// Effects are on the number. Integrated gradients are on the threshold whose probability is nearest to ½.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or the model does not predict numbers.
    pub fn number_errors(
        self,
        examples: &[ScoreExample],
        options: ErrorOptions<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&examples.iter().map(|example| &example.text).collect::<Vec<_>>())?;
        let blend = self.target().require_number()?;
        let number = |p: &Prediction| blend.estimate(&p.probabilities).score;
        let mut words = |text: RowRef<'_>, label| match self {
            Predictor::Ngrams(model) => model.highlighted_effects(text, &number),
            Predictor::Classifier(model) if options.method == AttributionMethod::LeaveOneOut => {
                model.effects_on_number(text, &number)
            }
            Predictor::Classifier(model) => model.highlighted_effects(text, label, options.method),
        };
        self.error_context(options).number_errors(examples, &predictions, &mut words, progress)
    }
}

impl TextClassifier {
    /// Returns the words of a text with their effects on the predicted number.
    fn effects_on_number(&self, text: RowRef<'_>, number: &dyn Fn(&Prediction) -> f64) -> Result<Vec<HighlightedWord>> {
        let words = word_spans(text, &self.tokenizer.encode(text)?);
        let whole = number(&self.predict(&[text])?[0]);
        let without = self.predict_without_words(text, &words, &mut |_, _| {})?;
        let effects = words.iter().zip(&without).filter(|(word, _)| !is_separator(text, word, &self.tokenizer));
        let effects = effects.map(|(word, without)| (word.bytes.clone(), (whole - number(without)) as f32));
        Ok(highlight(text, effects))
    }
}
