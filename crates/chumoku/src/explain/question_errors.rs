//! What a predictor of labels or of numbers gets wrong: the labels that it is surest of and that are not there, or that it is surest are
//! not there; and the numbers that are furthest outside of their intervals.

use super::attribution::Method;
use super::errors::{ConfidentError, ErrorKind, Errors, LabelErrors, Told, grouped};
use super::marked::{MarkedWord, marked};
use super::recorded::is_separator;
use crate::data::{LabelledText, ScoredText};
use crate::number::Estimate;
use crate::problem::Problem;
use crate::text::words_of;
use crate::text_classifier::TextClassifier;
use crate::{Error, NgramClassifier, Prediction, Result, sorting, tr};
use chumoku_text::beside::text_of;
use std::collections::HashSet;

/// What an effect on a number is.
const OF_NUMBERS: &str = "change in the number when the word is removed";

/// What is known of a model beside its answers.
struct Asked<'a> {
    name: &'a str,
    problem: &'a Problem,
    labels: &'a [String],
    method: Method,
    is_network_alone: bool,
    top: usize,
}

/// What finds the effect of the words of a text on a label or threshold, or on the number.
type Words<'a> = &'a mut dyn FnMut(&str, Option<usize>) -> Result<Vec<MarkedWord>>;
/// Is told how many errors have been explained, and of how many.
type Progress<'a> = &'a mut dyn FnMut(usize, usize);

impl Asked<'_> {
    fn report(&self, kind: ErrorKind, [rows, wrong]: [usize; 2], errors: Vec<ConfidentError>) -> Errors {
        let (groups, alone) = grouped(&errors);
        let is_of_number = kind == ErrorKind::Numbers && self.method == Method::LeaveOneOut;
        Errors {
            model: self.name.into(),
            kind,
            rows,
            wrong,
            accuracy: (rows - wrong) as f64 / rows.max(1) as f64,
            method: self.method.name().into(),
            unit: if is_of_number { OF_NUMBERS } else { self.method.unit() }.into(),
            is_network_alone: self.is_network_alone,
            groups,
            alone,
            errors,
            ..Errors::default()
        }
    }

    /// The labels that were missed or wrongly given in `examples`, of which the `top` surest are explained.
    fn of_labels(
        &self,
        examples: &[LabelledText],
        predictions: &[Prediction],
        words: Words<'_>,
        progress: Progress<'_>,
    ) -> Result<Errors> {
        let Some(blend) = self.problem.labels() else {
            return Err(Error::Setting(tr!("this model does not give labels", "このモデルは複数のラベルを答えません")));
        };
        let mut of_label: Vec<LabelErrors> = self
            .labels
            .iter()
            .map(|label| LabelErrors { label: label.clone(), missed: 0, of: 0, extra: 0, of_others: 0 })
            .collect();
        // Row, label, whether it was missed, and how sure.
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
        sorting::by(&mut found, |a, b| b.3.total_cmp(&a.3));
        found.truncate(self.top);
        let mut errors = Vec::with_capacity(found.len());
        for (done, &(row, label, missed, probability)) in found.iter().enumerate() {
            progress(done, found.len());
            let example = &examples[row];
            let mut words = words(&example.text, Some(label))?;
            if missed {
                turn(&mut words);
            }
            errors.push(ConfidentError {
                line: example.line,
                text: text_of(&example.text).to_owned(),
                told: Told::Label { label: self.labels[label].clone(), missed, probability },
                words,
            });
        }
        progress(found.len(), found.len());
        of_label.retain(|of| of.missed + of.extra > 0);
        sorting::by_key(&mut of_label, |of| std::cmp::Reverse(of.missed + of.extra));
        Ok(Errors { labels: of_label, ..self.report(ErrorKind::Labels, [examples.len(), wrong], errors) })
    }

    /// The numbers of `examples` that lie outside of their intervals, of which the `top` that are furthest off by them are explained.
    fn of_numbers(
        &self,
        examples: &[ScoredText],
        predictions: &[Prediction],
        words: Words<'_>,
        progress: Progress<'_>,
    ) -> Result<Errors> {
        let blend = self.problem.told_number()?;
        let found: Vec<Estimate> = predictions.iter().map(|p| blend.estimate(&p.probabilities)).collect();
        let off = |(example, told): (&ScoredText, &Estimate)| {
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
        sorting::by(&mut outside, |&a, &b| off[b].total_cmp(&off[a]));
        outside.truncate(self.top);
        let mut errors = Vec::with_capacity(outside.len());
        for (done, &row) in outside.iter().enumerate() {
            progress(done, outside.len());
            let (example, told) = (&examples[row], found[row]);
            let mut words = words(&example.text, None)?;
            if told.score < example.score {
                turn(&mut words);
            }
            let [score, low, high] = told.rounded();
            errors.push(ConfidentError {
                line: example.line,
                text: text_of(&example.text).to_owned(),
                told: Told::Number { truth: example.score, score, low, high, off: off[row] },
                words,
            });
        }
        progress(outside.len(), outside.len());
        let points = examples.iter().zip(&found).map(|(example, told)| [example.score, told.score]).collect();
        Ok(Errors { points, ..self.report(ErrorKind::Numbers, [examples.len(), wrong], errors) })
    }
}

/// What spoke against what was told spoke for the error.
fn turn(words: &mut [MarkedWord]) {
    words.iter_mut().filter_map(|word| word.effect.as_mut()).for_each(|effect| *effect = 0.0 - *effect);
}

impl TextClassifier {
    fn asked_of_errors<'a>(&'a self, name: &'a str, top: usize, method: Method) -> Asked<'a> {
        let is_network_alone = method == Method::IntegratedGradients && self.has_ngrams();
        Asked { name, problem: &self.config.problem, labels: &self.config.labels, method, is_network_alone, top }
    }

    /// The labels that are missed or wrongly given in rows whose labels are known; otherwise as [`TextClassifier::errors`].
    ///
    /// # Errors
    /// If a text cannot be read as tokens, or the model tells no labels.
    pub fn label_errors(
        &self,
        examples: &[LabelledText],
        name: &str,
        top: usize,
        method: Method,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Errors> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let mut words = |text: &str, label| self.marked_effects(text, label, method);
        self.asked_of_errors(name, top, method).of_labels(examples, &predictions, &mut words, progress)
    }

    /// The numbers that lie outside of their intervals, in rows whose numbers are known; otherwise as [`TextClassifier::errors`].
    ///
    /// Effects are those on the number; integrated gradients are of the threshold that it is least certain to lie above.
    ///
    /// # Errors
    /// If a text cannot be read as tokens, or the model tells no numbers.
    pub fn number_errors(
        &self,
        examples: &[ScoredText],
        name: &str,
        top: usize,
        method: Method,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Errors> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let blend = self.config.problem.told_number()?;
        let mut words = |text: &str, label| {
            if method != Method::LeaveOneOut {
                return self.marked_effects(text, label, method);
            }
            let own = self.text_of(text);
            let words = words_of(own, &self.tokenizer.encode(own)?);
            let whole = blend.estimate(&self.predict(&[text])?[0].probabilities).score;
            let without = self.without_words(text, &words, &mut |_, _| {})?;
            let of_word = |p: &Prediction| (whole - blend.estimate(&p.probabilities).score) as f32;
            let effects = words.iter().zip(&without).filter(|(word, _)| !is_separator(own, word, &self.tokenizer));
            Ok(marked(own, effects.map(|(word, without)| (word.bytes.clone(), of_word(without)))))
        };
        self.asked_of_errors(name, top, method).of_numbers(examples, &predictions, &mut words, progress)
    }
}

impl NgramClassifier {
    fn asked_of_errors<'a>(&'a self, name: &'a str, top: usize) -> Asked<'a> {
        let (problem, labels) = (&self.config.problem, &self.config.labels[..]);
        Asked { name, problem, labels, method: Method::LeaveOneOut, is_network_alone: false, top }
    }

    /// As [`TextClassifier::label_errors`], by leaving out each word.
    ///
    /// # Errors
    /// If the model tells no labels; else see [`NgramClassifier::predict`].
    pub fn label_errors(
        &self,
        examples: &[LabelledText],
        name: &str,
        top: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Errors> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let mut words = |text: &str, label: Option<usize>| {
            let class = label.unwrap_or_default();
            self.marked_effects(text, &|p| super::classifier::log_odds(p.probabilities[class].into()))
        };
        self.asked_of_errors(name, top).of_labels(examples, &predictions, &mut words, progress)
    }

    /// As [`TextClassifier::number_errors`], by leaving out each word.
    ///
    /// # Errors
    /// If the model tells no numbers; else see [`NgramClassifier::predict`].
    pub fn number_errors(
        &self,
        examples: &[ScoredText],
        name: &str,
        top: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Errors> {
        let predictions = self.predict(&examples.iter().map(|example| example.text.as_str()).collect::<Vec<_>>())?;
        let blend = self.config.problem.told_number()?;
        let mut words =
            |text: &str, _| self.marked_effects(text, &|p: &Prediction| blend.estimate(&p.probabilities).score);
        self.asked_of_errors(name, top).of_numbers(examples, &predictions, &mut words, progress)
    }
}
