//! Error analysis of a classifier: the most confident errors with the effect of each word, grouped by the words that
//! caused them.

use super::attention_collector::is_separator;
use super::attribution::AttributionMethod;
use super::highlighted::{HighlightedWord, highlight};
use crate::Prediction;
use crate::PredictionTarget;
use crate::Predictor;
use crate::Result;
use crate::data::Example;
use crate::row::{AsRow, Row, RowRef};
use crate::sorting;
use crate::text_models::classifier::TextClassifier;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The minimum effect of a word that causes an error: as a share of the largest effect in the text, and in absolute
/// terms.
const CAUSE_SHARE: f32 = 0.5;
const MIN_EFFECT: f32 = 0.05;

/// The unit of an effect on a number.
const NUMBER_UNIT: &str = "change in the number when the word is removed";

/// The kind of prediction whose errors are analyzed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Classes. A prediction of another class is an error.
    #[default]
    Classes,
    /// Labels. Each missed or wrongly predicted label is an error.
    Labels,
    /// Numbers. An interval without the true number is an error.
    Numbers,
}

/// The errors of a model on labeled rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ErrorAnalysis {
    /// The name of the model.
    pub model: String,
    /// The kind of prediction.
    pub kind: ErrorKind,
    /// The number of rows with a prediction.
    pub rows: usize,
    /// The number of wrong predictions: another class, other labels, or an interval without the true number.
    pub wrong: usize,
    /// The share of right predictions. 0 without rows.
    pub accuracy: f64,
    /// The attribution method, as in [`Attribution::method`](super::Attribution::method).
    pub method: String,
    /// The unit of an effect, as in [`Attribution::unit`](super::Attribution::unit).
    pub unit: String,
    /// `true` if the effects are on the network alone, although an n-gram model contributes to the answers.
    pub is_network_alone: bool,
    /// Confusions of classes, most frequent first.
    pub confusions: Vec<Confusion>,
    /// How often each label was missed or wrongly predicted, most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelErrors>,
    /// For numbers: the true and the predicted number of each row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<[f64; 2]>,
    /// Words that caused at least two of `errors`, most errors first.
    pub groups: Vec<ErrorGroup>,
    /// Indices into `errors` of the other errors.
    pub alone: Vec<usize>,
    /// The most confident errors, in descending order. For numbers, those furthest outside their intervals.
    pub errors: Vec<ConfidentError>,
}

/// The errors of one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelErrors {
    /// The label.
    pub label: String,
    /// The number of rows with the label where it was not predicted.
    pub missed: usize,
    /// The number of rows with the label.
    pub of: usize,
    /// The number of rows without the label where it was predicted.
    pub extra: usize,
    /// The number of rows without the label.
    pub of_others: usize,
}

/// A confusion of two classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The true class.
    pub truth: String,
    /// The predicted class.
    pub answer: String,
    /// The number of rows.
    pub rows: usize,
    /// The number of rows of the class `truth`, with any prediction.
    pub of: usize,
}

/// Errors caused by one word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorGroup {
    /// The word in lower case.
    pub word: String,
    /// Indices into [`ErrorAnalysis::errors`], most confident first.
    pub errors: Vec<usize>,
}

/// A row with a wrong prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfidentError {
    /// The line of the file where the row begins.
    pub line: u64,
    /// The text of the row.
    pub text: Row,
    /// The prediction and the truth.
    #[serde(flatten)]
    pub answer: WrongAnswer,
    /// The words with their effects. A positive effect supports the wrong answer, or moves the number further from the
    /// true one.
    pub words: Vec<HighlightedWord>,
}

/// A wrong prediction, and the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// Another class.
    Class {
        /// The true class.
        truth: String,
        /// The predicted class.
        answer: String,
        /// The probability of the predicted class.
        probability: f32,
        /// The probability of the true class.
        probability_of_truth: f32,
    },
    /// A label that was wrongly predicted or missed.
    Label {
        /// The label.
        label: String,
        /// `true` if the row has the label and it was not predicted. `false` if it was predicted and the row does not
        /// have it.
        missed: bool,
        /// The probability of the wrong prediction: of the label, or of its absence.
        probability: f32,
    },
    /// A number whose interval does not contain the true one.
    Number {
        /// The true number.
        truth: f64,
        /// The predicted number.
        score: f64,
        /// The lower end of the interval.
        low: f64,
        /// The upper end of the interval.
        high: f64,
        /// The error as a multiple of the longer side of the interval.
        off: f64,
    },
}

impl WrongAnswer {
    /// The smallest effect with which a word may cause the error.
    fn min_effect(&self) -> f32 {
        match self {
            WrongAnswer::Class { .. } | WrongAnswer::Label { .. } => MIN_EFFECT,
            // Effects have the unit of the number.
            WrongAnswer::Number { score, low, high, .. } => MIN_EFFECT * (high - score).max(score - low) as f32,
        }
    }
}

impl ConfidentError {
    /// Returns the words with at least half the strongest effect in favor of the wrong answer. The result holds indices
    /// into `words`, strongest first.
    #[must_use]
    pub fn causes(&self) -> Vec<usize> {
        let effect = |i: usize| self.words[i].effect.unwrap_or(0.0);
        let mut found: Vec<usize> =
            (0..self.words.len()).filter(|&i| effect(i) >= self.answer.min_effect() && effect(i) > 0.0).collect();
        sorting::sort_by(&mut found, |&a, &b| effect(b).total_cmp(&effect(a)));
        let most = found.first().map_or(0.0, |&first| effect(first));
        found.retain(|&i| effect(i) >= CAUSE_SHARE * most);
        found
    }
}

/// Groups errors by cause. Takes the word that caused the most errors, then the one that caused the most of the rest,
/// and so on. Also returns the errors that remain when no word caused two.
pub(super) fn group_by_cause(errors: &[ConfidentError]) -> (Vec<ErrorGroup>, Vec<usize>) {
    let causes = |error: &ConfidentError| -> BTreeMap<String, f32> {
        let mut found = BTreeMap::new();
        for i in error.causes() {
            *found.entry(error.words[i].text.to_lowercase()).or_insert(0.0) += error.words[i].effect.unwrap_or(0.0);
        }
        found
    };
    let of_errors: Vec<BTreeMap<String, f32>> = errors.iter().map(causes).collect();
    let words: BTreeSet<&String> = of_errors.iter().flat_map(BTreeMap::keys).collect();
    let mut left: Vec<usize> = (0..errors.len()).collect();
    let mut groups = Vec::new();
    loop {
        let count = |word: &String| left.iter().filter(|&&i| of_errors[i].contains_key(word)).count();
        let effect = |word: &String| left.iter().filter_map(|&i| of_errors[i].get(word)).sum::<f32>();
        // Ties go to the word with the larger total effect, then to the first in alphabetical order.
        let found = words.iter().map(|&word| (count(word), effect(word), word)).fold(
            None,
            |best: Option<(usize, f32, &String)>, next| match best {
                Some(best) if (best.0, best.1) >= (next.0, next.1) => Some(best),
                _ => Some(next),
            },
        );
        let Some((_, _, word)) = found.filter(|(count, ..)| *count >= 2) else { break };
        let (own, rest) = left.into_iter().partition(|&i| of_errors[i].contains_key(word));
        groups.push(ErrorGroup { word: word.clone(), errors: own });
        left = rest;
    }
    (groups, left)
}

/// How errors are analyzed.
#[derive(Clone, Copy, Debug)]
pub struct ErrorOptions<'a> {
    /// The displayed name of the model.
    pub name: &'a str,
    /// The number of errors to explain word by word.
    pub top: usize,
    /// The attribution method. Models without a network always leave out words.
    pub method: AttributionMethod,
}

/// The model's properties for the error analysis.
pub(super) struct ErrorContext<'a> {
    pub(super) name: &'a str,
    pub(super) top: usize,
    pub(super) method: AttributionMethod,
    pub(super) target: &'a PredictionTarget,
    pub(super) labels: &'a [String],
    /// `true` if effects are on the network of an ensemble.
    pub(super) is_network_alone: bool,
}

/// Analyzes the errors in the predictions for `examples`, and explains the most confident ones.
fn find_errors(
    context: &ErrorContext<'_>,
    examples: &[Example],
    predictions: &[Prediction],
    mut words: impl FnMut(RowRef<'_>) -> Result<Vec<HighlightedWord>>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ErrorAnalysis> {
    let labels = context.labels;
    let mut wrong: Vec<(&Example, &Prediction)> =
        examples.iter().zip(predictions).filter(|(example, p)| labels[p.class()] != example.label).collect();
    let sure = |p: &Prediction| p.probabilities[p.class()];
    sorting::sort_by(&mut wrong, |a, b| sure(b.1).total_cmp(&sure(a.1)));

    let mut of_class: BTreeMap<&str, usize> = BTreeMap::new();
    examples.iter().for_each(|example| *of_class.entry(&example.label).or_default() += 1);
    let mut pairs: BTreeMap<[&str; 2], usize> = BTreeMap::new();
    wrong.iter().for_each(|(example, p)| *pairs.entry([&example.label, &labels[p.class()]]).or_default() += 1);
    let mut confusions: Vec<Confusion> = pairs
        .into_iter()
        .map(|([truth, answer], rows)| Confusion {
            truth: truth.into(),
            answer: answer.into(),
            rows,
            of: of_class[truth],
        })
        .collect();
    sorting::sort_by_key(&mut confusions, |confusion| std::cmp::Reverse(confusion.rows));

    let shown = &wrong[..context.top.min(wrong.len())];
    let mut errors = Vec::with_capacity(shown.len());
    for (done, (example, p)) in shown.iter().enumerate() {
        progress(done, shown.len());
        let of_truth = labels.iter().position(|label| *label == example.label);
        errors.push(ConfidentError {
            line: example.line,
            text: example.text.as_row().without_values().to_row(),
            answer: WrongAnswer::Class {
                truth: example.label.clone(),
                answer: labels[p.class()].clone(),
                probability: sure(p),
                probability_of_truth: of_truth.map_or(0.0, |class| p.probabilities[class]),
            },
            words: words(example.text.as_row())?,
        });
    }
    progress(shown.len(), shown.len());
    Ok(ErrorAnalysis { confusions, ..context.report(ErrorKind::Classes, [examples.len(), wrong.len()], errors) })
}

impl ErrorContext<'_> {
    /// Returns the analysis of the `wrong` rows among all `rows`, without the parts that only one kind has.
    pub(super) fn report(
        &self,
        kind: ErrorKind,
        [rows, wrong]: [usize; 2],
        errors: Vec<ConfidentError>,
    ) -> ErrorAnalysis {
        let (groups, alone) = group_by_cause(&errors);
        let is_on_number = kind == ErrorKind::Numbers && self.method == AttributionMethod::LeaveOneOut;
        ErrorAnalysis {
            model: self.name.into(),
            kind,
            rows,
            wrong,
            accuracy: (rows - wrong) as f64 / rows.max(1) as f64,
            method: self.method.name().into(),
            unit: if is_on_number { NUMBER_UNIT } else { self.method.unit() }.into(),
            is_network_alone: self.is_network_alone,
            groups,
            alone,
            errors,
            ..ErrorAnalysis::default()
        }
    }
}

impl<'m> Predictor<'m> {
    pub(super) fn error_context<'a>(self, options: ErrorOptions<'a>) -> ErrorContext<'a>
    where
        'm: 'a,
    {
        let method = match self {
            Predictor::Classifier(_) => options.method,
            Predictor::Ngrams(_) => AttributionMethod::LeaveOneOut,
        };
        ErrorContext {
            name: options.name,
            top: options.top,
            method,
            target: self.target(),
            labels: self.labels(),
            is_network_alone: method == AttributionMethod::IntegratedGradients && self.is_ensemble(),
        }
    }

    /// Analyzes the model's errors on labeled rows, and explains the most confident ones word by word. `progress`
    /// receives the number of explained errors, and the total.
    ///
    /// Effects are on the ensemble, except that integrated gradients are on the network alone.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn errors(
        self,
        examples: &[Example],
        options: ErrorOptions<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let texts: Vec<&Row> = examples.iter().map(|example| &example.text).collect();
        let words = |text: RowRef<'_>| match self {
            Predictor::Classifier(model) => model.highlighted_effects(text, None, options.method),
            Predictor::Ngrams(model) => Ok(model.explain(text, options.name)?.highlighted_words()),
        };
        find_errors(&self.error_context(options), examples, &self.predict(&texts)?, words, progress)
    }
}

impl TextClassifier {
    /// Returns the words of a text with their effects on `class`. Defaults to the class to explain.
    pub(super) fn highlighted_effects(
        &self,
        text: RowRef<'_>,
        class: Option<usize>,
        method: AttributionMethod,
    ) -> Result<Vec<HighlightedWord>> {
        let found = self.word_effects(text, class, method, &mut |_, _| {})?;
        let which = usize::from(method == AttributionMethod::LeaveOneOut);
        let own = found.words.iter().zip(&found.effects).filter(|(word, _)| !is_separator(text, word, &self.tokenizer));
        Ok(highlight(text, own.map(|(word, both)| (word.bytes.clone(), both[which]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(probability: f32, words: &[(&str, f32)]) -> ConfidentError {
        let marked = |&(text, effect): &(&str, f32)| HighlightedWord {
            text: text.into(),
            effect: Some(effect),
            is_spaced: true,
        };
        ConfidentError {
            line: 1,
            text: Row::default(),
            answer: WrongAnswer::Class {
                truth: "a".into(),
                answer: "b".into(),
                probability,
                probability_of_truth: 1.0 - probability,
            },
            words: words.iter().map(marked).collect(),
        }
    }

    #[test]
    fn causes_are_the_words_near_the_strongest() {
        let found = error(0.9, &[("a", 1.0), ("b", -9.0), ("c", 2.0), ("d", 0.99)]).causes();
        assert_eq!(found, [2, 0]);
        assert!(error(0.9, &[("a", 0.0), ("b", -1.0)]).causes().is_empty());
    }

    #[test]
    fn errors_are_grouped_by_the_word_that_caused_most() {
        let errors = [
            error(0.99, &[("Not", 1.0), ("bad", 0.9)]),
            error(0.98, &[("only", 3.0), ("bad", 0.1)]),
            error(0.97, &[("bad", 1.0), ("room", 0.8)]),
            error(0.96, &[("not", 0.6), ("good", 1.0)]),
            error(0.95, &[("NOT", 1.0), ("bad", -1.0)]),
            error(0.94, &[("room", 2.0)]),
            error(0.93, &[("fine", -2.0)]),
        ];
        let (groups, alone) = group_by_cause(&errors);
        let found: Vec<(&str, &[usize])> =
            groups.iter().map(|group| (group.word.as_str(), &group.errors[..])).collect();
        // "bad" caused two errors, one of which already belongs to "not".
        assert_eq!(found, [("not", &[0, 3, 4][..]), ("room", &[2, 5])]);
        assert_eq!(alone, [1, 6]);
        // A word that occurs twice in one text caused one error.
        let (groups, alone) = group_by_cause(&[error(0.9, &[("no", 1.0), ("no", 1.0)]), error(0.8, &[("yes", 1.0)])]);
        assert!(groups.is_empty());
        assert_eq!(alone, [0, 1]);
    }
}
