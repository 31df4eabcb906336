//! Effects of words and n-grams on the answer of a model without attention.

use super::classifier::{BATCH_WORDS, JOINING, log_odds};
use super::columns::{column_effects, rows_without};
use super::highlighted::{HighlightedWord, highlight};
use super::required_text::require_text;
use super::{Attribution, Explanation, ExplanationKind, LabelProbability, Word};
use crate::row::{AsRow, Row, RowRef};
use crate::{NgramClassifier, Prediction, Result};
use std::ops::Range;

impl NgramClassifier {
    /// Explains the prediction for `text`. `name` is the displayed name of the model.
    ///
    /// The explanation has no attention. The score of a word is the log-odds of the predicted class with the word minus
    /// those without it.
    ///
    /// # Errors
    /// If the text is empty.
    pub fn explain(&self, text: impl AsRow, name: &str) -> Result<Explanation> {
        self.explain_label(text, name, None)
    }

    /// Explains like [`NgramClassifier::explain`], for a label of a multi-label model instead of the most probable one.
    ///
    /// # Errors
    /// As for [`NgramClassifier::explain`], and if the model is not a multi-label model or there is no label with this
    /// name.
    pub fn explain_label(&self, text: impl AsRow, name: &str, label: Option<&str>) -> Result<Explanation> {
        self.explain_row(text.as_row(), name, label)
    }

    fn explain_row(&self, row: RowRef<'_>, name: &str, label: Option<&str>) -> Result<Explanation> {
        let columns = self.columns();
        let text = row.text();
        require_text(row)?;
        let spans = crate::ngram::words(text);
        let whole = &self.predict(&[row])?[0];
        let class = self.config.settings().class_to_explain(whole, label)?;
        let of = |prediction: &Prediction| log_odds(prediction.probabilities[class].into());
        let scores = self.effects_of_words(row, &spans, (whole, &of))?;
        let of_columns = self.effects_of_variants(&rows_without(columns, row), (whole, &of))?;
        let labels = &self.config.labels;
        let of_class =
            |class: usize| LabelProbability { label: labels[class].clone(), probability: whole.probabilities[class] };
        Ok(Explanation {
            kind: ExplanationKind::Ngrams,
            model: name.into(),
            text: row.without_values().to_row(),
            cut: None,
            label: labels[class].clone(),
            similarity: None,
            number: self.config.target.estimate(whole),
            levels: super::explanation::level_probabilities(self.config.class_hierarchy(), &whole.probabilities, class),
            probabilities: whole.ranked().into_iter().map(of_class).collect(),
            exclusive: self.config.target.is_one_class(),
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
            columns: column_effects(columns, row, of_columns.into_iter()),
            prompt_words: None,
            lens: None,
            residual_path: None,
            patching: None,
        })
    }

    /// Returns the decrease of the value `of` from `whole` to each variant of the row.
    fn effects_of_variants(&self, variants: &[Row], (whole, of): Baseline<'_>) -> Result<Vec<f32>> {
        Ok(self.predict(variants)?.iter().map(|without| (of(whole) - of(without)) as f32).collect())
    }

    /// Returns the decrease of the value for the row without each of its words.
    fn effects_of_words(&self, row: RowRef<'_>, spans: &[Range<usize>], against: Baseline<'_>) -> Result<Vec<f32>> {
        let mut scores = Vec::with_capacity(spans.len());
        // Batches limit the memory: each variant is as long as the text.
        for words in spans.chunks(BATCH_WORDS) {
            let without = |word: &Range<usize>| row.without_range(word.clone());
            scores.extend(self.effects_of_variants(&words.iter().map(without).collect::<Vec<_>>(), against)?);
        }
        Ok(scores)
    }

    /// Returns the words of a text with their effects on a value `of` its prediction.
    pub(super) fn highlighted_effects(
        &self,
        row: RowRef<'_>,
        of: &dyn Fn(&Prediction) -> f64,
    ) -> Result<Vec<HighlightedWord>> {
        let spans = crate::ngram::words(row.text());
        let effects = self.effects_of_words(row, &spans, (&self.predict(&[row])?[0], of))?;
        Ok(highlight(row, spans.into_iter().zip(effects)))
    }
}

/// A prediction, and the value of it that is compared.
type Baseline<'a> = (&'a Prediction, &'a dyn Fn(&Prediction) -> f64);
