//! Why a text got its class: attention by word, and what each word does to the prediction.

use crate::look::{Look, Reading};
use crate::text::CLS;
use crate::text_classifier::{Prediction, TextClassifier};
use crate::trace::TextCut;
use crate::view::{Attribution, ExplainedKind, Explanation, LabelProbability, Parts, Piece, WithoutHead, Word};
use crate::{Error, Result};

/// How weights between tokens become weights between words.
pub(crate) const JOINING: &str = "sum over keys, mean over queries";

impl TextClassifier {
    /// Explains the prediction for `text`; `name` is what the model is called in pictures.
    ///
    /// Attention weights of sub-word tokens are joined to words: added over the tokens of a key word, averaged over
    /// those of a query word, so that each row still sums to 1. Beside them stands a score for each word: the log-odds
    /// of the predicted class with the word minus those without it (leave-one-out; Li, Monroe and Jurafsky 2016), by
    /// the whole predictor.
    ///
    /// Each head is switched off in turn, and what is then predicted stands beside.
    ///
    /// Of a text longer than the model's window, attention is shown for the first window. Of a recurrent network, which
    /// has no attention, there are the scores alone: no layers, no heads.
    ///
    /// # Errors
    /// If the text is empty, or cannot be read as tokens.
    pub fn explain(&self, text: &str, name: &str) -> Result<Explanation> {
        if text.trim().is_empty() {
            return Err(Error::Setting("the text to explain is empty".into()));
        }
        let Reading { ids, spans: words, tokens, tokens_of_text } =
            Reading::of(text, &self.tokenizer, self.config.model.max_length)?;
        let read = ids.len() - 1;

        let mut variants = vec![text.to_owned()];
        variants.extend(words.iter().map(|word| format!("{}{}", &text[..word.bytes.start], &text[word.bytes.end..])));
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        let predictions = self.predict(&variants)?;
        let whole = &predictions[0];
        let class = whole.class();
        let log_odds = |prediction: &Prediction| {
            let p = f64::from(prediction.probabilities[class]).clamp(1e-12, 1.0 - 1e-12);
            (p / (1.0 - p)).ln()
        };
        let scores = predictions[1..].iter().map(|without| (log_odds(whole) - log_odds(without)) as f32);

        // A recurrent network has no attention to show.
        let [layers, heads] = self.config.model.body.transformer().map_or([0; 2], |c| [c.num_layers, c.num_heads]);
        let mut look = Look::new(&tokens);
        self.model.each_record(&self.params, &ids, &mut |record| look.add(record))?;
        let Look { attention, derived, depth, .. } = look;
        let labels = &self.config.labels;
        let ranked = |p: &[f32]| {
            let mut all: Vec<LabelProbability> = labels
                .iter()
                .zip(p)
                .map(|(label, &probability)| LabelProbability { label: label.clone(), probability })
                .collect();
            all.sort_by(|a, b| b.probability.total_cmp(&a.probability));
            all
        };
        let exp = |log_p: &[f32]| log_p.iter().map(|x| x.exp()).collect::<Vec<f32>>();
        let blend = self.config.blend;
        let special = Word { text: CLS.into(), special: true };
        let probabilities = ranked(&whole.probabilities);
        let without = (0..layers * heads).map(|index| {
            let [layer, head] = [index / heads, index % heads];
            let prediction = self.predict_without(&[text], &[[layer, head]])?.remove(0);
            let of = |label: &LabelProbability| {
                labels.iter().position(|name| *name == label.label).map_or(0.0, |class| prediction.probabilities[class])
            };
            let probabilities = probabilities.iter().map(of).collect();
            Ok(WithoutHead { layer, head, label: labels[prediction.class()].clone(), probabilities })
        });
        let without = without.collect::<Result<_>>()?;
        let plain = words.iter().map(|word| Word { text: text[word.bytes.clone()].into(), special: false });
        let pieces = tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        Ok(Explanation {
            kind: ExplainedKind::Classifier,
            model: name.into(),
            text: text.into(),
            cut: (read < tokens_of_text).then_some(TextCut { read, tokens: tokens_of_text, is_end: false }),
            label: labels[class].clone(),
            probabilities,
            parts: whole.ngrams.as_ref().map(|ngrams| Parts {
                attention: ranked(&exp(&whole.attention)),
                ngrams: ranked(&exp(ngrams)),
                attention_weight: blend.attention / (blend.attention + blend.ngrams).max(f32::MIN_POSITIVE),
            }),
            pieces: pieces.map(|(word, t)| Piece { text: self.tokenizer.token(ids[t]), word }).collect(),
            words: std::iter::once(special).chain(plain).collect(),
            layers,
            heads,
            attention,
            causal: self.config.model.body.transformer().is_some_and(|c| c.causal),
            joining: JOINING.into(),
            derived,
            depth: depth.filter(|_| layers > 0),
            without,
            attribution: Attribution {
                method: "leave-one-out".into(),
                class: labels[class].clone(),
                unit: "change in log-odds when the word is removed".into(),
                scores: std::iter::once(0.0).chain(scores).collect(),
            },
        })
    }
}
