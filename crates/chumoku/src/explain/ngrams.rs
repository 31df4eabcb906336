//! What words and n-grams do to the answer of a model without attention.

use super::classifier::{BATCH_WORDS, JOINING};
use super::columns::{effects, rows_without};
use super::{Attribution, ExplainedKind, Explanation, LabelProbability, Word};
use crate::{Error, NgramClassifier, Prediction, Result, tr};
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
        let columns = self.columns();
        // What stands beside the text stays behind it, whatever is cut out of it.
        let row = text;
        let text = self.ngrams.scheme().text_of(row);
        if text.trim().is_empty() {
            return Err(Error::Setting(tr!("the text to explain is empty", "説明する文が空です")));
        }
        let spans = crate::ngram::words(text);
        let whole = &self.predict(&[row])?[0];
        let class = whole.class();
        let log_odds = |prediction: &Prediction| {
            let p = f64::from(prediction.probabilities[class]).clamp(1e-12, 1.0 - 1e-12);
            (p / (1.0 - p)).ln()
        };
        let effects_of = |variants: &[String]| -> Result<Vec<f32>> {
            let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
            let effect = |without: &Prediction| (log_odds(whole) - log_odds(without)) as f32;
            Ok(self.predict(&variants)?.iter().map(effect).collect())
        };
        let mut scores = Vec::with_capacity(spans.len());
        // Some words at a time: each variant is as long as the text.
        for words in spans.chunks(BATCH_WORDS) {
            let without = |word: &Range<usize>| format!("{}{}", &row[..word.start], &row[word.end..]);
            scores.extend(effects_of(&words.iter().map(without).collect::<Vec<_>>())?);
        }
        let of_columns = effects_of(&rows_without(columns, row))?;
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
            number: None,
            levels: super::explanation::levels(self.config.hierarchy.as_ref(), &whole.probabilities, class),
            probabilities: whole.ranked().into_iter().map(of_class).collect(),
            exclusive: true,
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
}
