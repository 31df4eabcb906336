//! What a predictor gets wrong: the surest errors first, each with what its words do, grouped by the words that caused them.

use super::attention_collector::is_separator;
use super::attribution::AttributionMethod;
use super::highlighted::{HighlightedWord, highlight};
use crate::data::Example;
use crate::text_classifier::TextClassifier;
use crate::{NgramClassifier, Prediction, Result, sorting};
use chumoku_text::feature_columns::text_of;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A word causes an error if its effect is at least so large a part of the largest of its text, and at least so large.
const CAUSE_SHARE: f32 = 0.5;
const MIN_EFFECT: f32 = 0.05;

/// What a predictor tells of which errors are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// One class a text: another is wrong.
    #[default]
    Classes,
    /// Any number of labels: each that is missed or wrongly given is an error.
    Labels,
    /// A number: one whose interval does not hold the true number is wrong.
    Numbers,
}

/// What a predictor gets wrong in rows whose answers are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ErrorAnalysis {
    /// What the model is called.
    pub model: String,
    /// What it tells.
    pub kind: ErrorKind,
    /// Rows that were answered.
    pub rows: usize,
    /// Those of them that were answered wrongly: with another class, with other labels, or with an interval that does not hold the
    /// true number.
    pub wrong: usize,
    /// The share of the others; 0 of no rows.
    pub accuracy: f64,
    /// How the effect of words was found, as [`Attribution::method`](super::Attribution::method).
    pub method: String,
    /// What an effect is, as [`Attribution::unit`](super::Attribution::unit).
    pub unit: String,
    /// Whether the effects are those on the network by itself, while n-grams have a part in the answers.
    pub is_network_alone: bool,
    /// Which classes were taken for which, the most frequent first.
    pub confusions: Vec<Confusion>,
    /// Of labels how often each was missed and wrongly given, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelErrors>,
    /// Of numbers the true and the predicted one of each row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<[f64; 2]>,
    /// Words that caused at least two of `errors`, those that caused most first.
    pub groups: Vec<ErrorGroup>,
    /// The others, as places in `errors`.
    pub alone: Vec<usize>,
    /// The surest errors, the surest first; of numbers those that are furthest off by their intervals.
    pub errors: Vec<ConfidentError>,
}

/// How often a label was told wrongly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelErrors {
    /// The label.
    pub label: String,
    /// Rows that have it, and were not given it.
    pub missed: usize,
    /// Rows that have it.
    pub of: usize,
    /// Rows that were given it, and do not have it.
    pub extra: usize,
    /// Rows that do not have it.
    pub of_others: usize,
}

/// A class that was taken for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The class of the rows.
    pub truth: String,
    /// The class that was answered.
    pub answer: String,
    /// How often.
    pub rows: usize,
    /// Rows of the class `truth`, however they were answered.
    pub of: usize,
}

/// Errors that one word caused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorGroup {
    /// The word, in small letters.
    pub word: String,
    /// They, as places in [`Errors::errors`], the surest first.
    pub errors: Vec<usize>,
}

/// A row that was answered wrongly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfidentError {
    /// The line of the file on which it begins.
    pub line: u64,
    /// Its text.
    pub text: String,
    /// What was told, and what is true.
    #[serde(flatten)]
    pub answer: WrongAnswer,
    /// Its words with what each does to the answer: above 0 it speaks for the wrong one, or takes the number further from the true one.
    pub words: Vec<HighlightedWord>,
}

/// What was told wrongly, and what is true.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum WrongAnswer {
    /// Another class.
    Class {
        /// Its class.
        truth: String,
        /// The class that was answered.
        answer: String,
        /// The probability of that.
        probability: f32,
        /// The probability of its class.
        probability_of_truth: f32,
    },
    /// A label that is not there, or none where it is.
    Label {
        /// The label.
        label: String,
        /// Whether the row has it and was not given it; else it was given it and does not have it.
        missed: bool,
        /// The probability of what was told: of the label, or of its absence.
        probability: f32,
    },
    /// A number whose interval does not hold the true one.
    Number {
        /// The true number.
        truth: f64,
        /// The number that was told.
        score: f64,
        /// The interval's lower end.
        low: f64,
        /// The interval's upper end.
        high: f64,
        /// How many times the longer side of the interval it is off.
        off: f64,
    },
}

impl WrongAnswer {
    /// From how large an effect on a word may cause the error.
    fn min_effect(&self) -> f32 {
        match self {
            WrongAnswer::Class { .. } | WrongAnswer::Label { .. } => MIN_EFFECT,
            // Effects are in the unit of the number.
            WrongAnswer::Number { score, low, high, .. } => MIN_EFFECT * (high - score).max(score - low) as f32,
        }
    }
}

impl ConfidentError {
    /// The words that speak for the wrong answer at least half as much as the strongest of them: places in `words`, the strongest
    /// first.
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

/// The errors by the word that caused most of them, then by the one that caused most of the rest, and so on; and those that are
/// left when no word caused two.
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
        // Of equals the one with the larger effect, then the first by its letters.
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

/// What is known of a model beside its answers.
struct ErrorContext<'a> {
    model: &'a str,
    labels: &'a [String],
    method: AttributionMethod,
    is_network_alone: bool,
}

/// The errors among the predictions of `examples`, of which the `top` surest are explained.
fn find_errors(
    asked: ErrorContext<'_>,
    examples: &[Example],
    predictions: &[Prediction],
    top: usize,
    mut words: impl FnMut(&str) -> Result<Vec<HighlightedWord>>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ErrorAnalysis> {
    let ErrorContext { model, labels, method, is_network_alone } = asked;
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

    let shown = &wrong[..top.min(wrong.len())];
    let mut errors = Vec::with_capacity(shown.len());
    for (done, (example, p)) in shown.iter().enumerate() {
        progress(done, shown.len());
        let of_truth = labels.iter().position(|label| *label == example.label);
        errors.push(ConfidentError {
            line: example.line,
            text: text_of(&example.text).to_owned(),
            answer: WrongAnswer::Class {
                truth: example.label.clone(),
                answer: labels[p.class()].clone(),
                probability: sure(p),
                probability_of_truth: of_truth.map_or(0.0, |class| p.probabilities[class]),
            },
            words: words(&example.text)?,
        });
    }
    progress(shown.len(), shown.len());
    let (groups, alone) = group_by_cause(&errors);
    let rows = examples.len();
    Ok(ErrorAnalysis {
        model: model.into(),
        rows,
        wrong: wrong.len(),
        accuracy: (rows - wrong.len()) as f64 / rows.max(1) as f64,
        method: method.name().into(),
        unit: method.unit().into(),
        is_network_alone,
        confusions,
        groups,
        alone,
        errors,
        ..ErrorAnalysis::default()
    })
}

fn texts(examples: &[Example]) -> Vec<&str> {
    examples.iter().map(|example| example.text.as_str()).collect()
}

impl TextClassifier {
    /// What the model gets wrong in labelled rows; the `top` surest errors with the effect of each word. `name` is what the model
    /// is called; `progress` is told how many errors have been explained, and of how many.
    ///
    /// Effects are those on the whole predictor, but integrated gradients those on its network alone.
    ///
    /// # Errors
    /// If a text cannot be read as tokens.
    pub fn errors(
        &self,
        examples: &[Example],
        name: &str,
        top: usize,
        method: AttributionMethod,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&texts(examples))?;
        let is_network_alone = method == AttributionMethod::IntegratedGradients && self.has_ngrams();
        let asked = ErrorContext { model: name, labels: &self.config.labels, method, is_network_alone };
        let words = |text: &str| self.highlighted_effects(text, None, method);
        find_errors(asked, examples, &predictions, top, words, progress)
    }
}

impl TextClassifier {
    /// The words of a text with what each does to `class` or, where none is given, to what is explained of the text.
    pub(super) fn highlighted_effects(
        &self,
        text: &str,
        class: Option<usize>,
        method: AttributionMethod,
    ) -> Result<Vec<HighlightedWord>> {
        let found = self.word_effects(text, class, method, &mut |_, _| {})?;
        let which = usize::from(method == AttributionMethod::LeaveOneOut);
        // Columns beside the text are no words of it.
        let text = self.text_without_columns(text);
        let own = found.words.iter().zip(&found.effects).filter(|(word, _)| !is_separator(text, word, &self.tokenizer));
        Ok(highlight(text, own.map(|(word, both)| (word.bytes.clone(), both[which]))))
    }
}

impl NgramClassifier {
    /// As [`TextClassifier::errors`], by leaving out each word.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub fn errors(
        &self,
        examples: &[Example],
        name: &str,
        top: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ErrorAnalysis> {
        let predictions = self.predict(&texts(examples))?;
        let (labels, method) = (&self.config.labels[..], AttributionMethod::LeaveOneOut);
        let asked = ErrorContext { model: name, labels, method, is_network_alone: false };
        let words = |text: &str| Ok(self.explain(text, name)?.highlighted_words());
        find_errors(asked, examples, &predictions, top, words, progress)
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
            text: String::new(),
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
    fn errors_stand_with_the_word_that_caused_most() {
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
        // "bad" caused two, one of which "not" has already.
        assert_eq!(found, [("not", &[0, 3, 4][..]), ("room", &[2, 5])]);
        assert_eq!(alone, [1, 6]);
        // A word twice in one text caused one error.
        let (groups, alone) = group_by_cause(&[error(0.9, &[("no", 1.0), ("no", 1.0)]), error(0.8, &[("yes", 1.0)])]);
        assert!(groups.is_empty());
        assert_eq!(alone, [0, 1]);
    }
}
