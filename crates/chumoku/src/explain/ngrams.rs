//! What words and n-grams do to the answer of a model without attention.

use super::classifier::{BATCH_WORDS, JOINING, log_odds};
use super::columns::{effects, rows_without};
use super::marked::{MarkedWord, marked};
use super::{Attribution, ExplainedKind, Explanation, LabelProbability, Word};
use crate::{Error, NgramClassifier, NgramClassifierConfig, Prediction, Result, tr};
use std::ops::Range;

impl NgramClassifier {
    /// Explains the prediction for `text`; `name` is what the model is called.
    ///
    /// An explanation without attention: each word's score is the log-odds of the predicted class with the word minus
    /// those without it.
    ///
    /// # Errors
    /// If the text is empty.
    pub fn explain(&self, text: &str, name: &str) -> Result<Explanation> {
        self.explain_label(text, name, None)
    }

    /// As [`NgramClassifier::explain`], of the label of this name instead of the most probable one, where a text may have several.
    ///
    /// # Errors
    /// As for [`NgramClassifier::explain`], and if labels exclude each other or there is none of this name.
    pub fn explain_label(&self, text: &str, name: &str, label: Option<&str>) -> Result<Explanation> {
        let columns = self.columns();
        // What stands beside the text stays behind it, whatever is cut out of it.
        let row = text;
        let text = self.ngrams.scheme().text_of(row);
        if text.trim().is_empty() {
            return Err(Error::Setting(tr!("the text to explain is empty", "説明する文が空です")));
        }
        let spans = crate::ngram::words(text);
        let whole = &self.predict(&[row])?[0];
        let class = self.class_to_explain(whole, label)?;
        let of = |prediction: &Prediction| log_odds(prediction.probabilities[class].into());
        let scores = self.effects_of_words(row, &spans, (whole, &of))?;
        let of_columns = self.effects_of(&rows_without(columns, row), (whole, &of))?;
        let labels = &self.config.labels;
        let of_class =
            |class: usize| LabelProbability { label: labels[class].clone(), probability: whole.probabilities[class] };
        Ok(Explanation {
            kind: ExplainedKind::Ngrams,
            model: name.into(),
            text: text.into(),
            cut: None,
            label: labels[class].clone(),
            similarity: None,
            number: self.estimate(whole),
            levels: super::explanation::levels(self.config.tree(), &whole.probabilities, class),
            probabilities: whole.ranked().into_iter().map(of_class).collect(),
            exclusive: self.config.problem.is_one_class(),
            parts: None,
            pieces: Vec::new(),
            words: spans.iter().map(|word| Word { text: text[word.clone()].into(), special: false }).collect(),
            layers: 0,
            heads: 0,
            attention: Vec::new(),
            causal: false,
            joining: JOINING.into(),
            derived: Default::default(),
            depth: None,
            without: Vec::new(),
            attribution: Attribution {
                method: "leave-one-out".into(),
                class: labels[class].clone(),
                unit: "change in log-odds when the word is removed".into(),
                scores,
                whole: None,
                beyond: Vec::new(),
                integral: None,
                curves: None,
            },
            columns: effects(columns, row, of_columns.into_iter()),
        })
    }

    /// The class, label or threshold that is to be explained.
    pub(crate) fn class_to_explain(&self, prediction: &Prediction, label: Option<&str>) -> Result<usize> {
        let NgramClassifierConfig { problem, labels, .. } = &self.config;
        match label {
            Some(label) => problem.label_to_explain(labels, label),
            None => Ok(problem.questioned(prediction)),
        }
    }

    /// By how much `of` is larger of the `whole` than of each of the variants.
    fn effects_of(&self, variants: &[String], (whole, of): Against<'_>) -> Result<Vec<f32>> {
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        Ok(self.predict(&variants)?.iter().map(|without| (of(whole) - of(without)) as f32).collect())
    }

    /// The same of a row without each of its words.
    fn effects_of_words(&self, row: &str, spans: &[Range<usize>], against: Against<'_>) -> Result<Vec<f32>> {
        let mut scores = Vec::with_capacity(spans.len());
        // Some words at a time: each variant is as long as the text.
        for words in spans.chunks(BATCH_WORDS) {
            let without = |word: &Range<usize>| format!("{}{}", &row[..word.start], &row[word.end..]);
            scores.extend(self.effects_of(&words.iter().map(without).collect::<Vec<_>>(), against)?);
        }
        Ok(scores)
    }

    /// The words of a text with what each does to a figure `of` its prediction.
    pub(super) fn marked_effects(&self, row: &str, of: &dyn Fn(&Prediction) -> f64) -> Result<Vec<MarkedWord>> {
        let text = self.ngrams.scheme().text_of(row);
        let spans = crate::ngram::words(text);
        let effects = self.effects_of_words(row, &spans, (&self.predict(&[row])?[0], of))?;
        Ok(marked(text, spans.into_iter().zip(effects)))
    }
}

/// A prediction, and the figure of it that others are held against.
type Against<'a> = (&'a Prediction, &'a dyn Fn(&Prediction) -> f64);
