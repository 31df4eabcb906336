//! Explanation of a classification: attention between words, and the effect of each word on the prediction.

use super::attention_collector::{AttentionCollector, FramedText, display_word, is_separator};
use super::attribution::{Attribution, AttributionMethod, PathIntegral, WordEffect};
use super::columns;
use super::explanation::{
    EnsembleHeadAblation, EnsembleMembers, Explanation, ExplanationKind, HeadAblation, Truncation, Word, WordPiece,
};
use super::inner_steps::InnerSteps;
use super::integrated_gradients::PathIntegrator;
use super::label_probability::LabelProbability;
use super::required_text::require_text;
use crate::blend::Blend;
use crate::prediction::Prediction;
use crate::prediction::target::PredictionTarget;
use crate::row::{AsRow, Row, RowRef, as_rows};
use crate::text::{WordSpan, windows, word_spans};
use crate::text_models::classifier::TextClassifier;
use crate::{Result, parallel_batches, sorting};
use ndarray::Array2;

/// The rule by which token weights become word weights.
pub(crate) const JOINING: &str = "sum over keys, mean over queries";

/// The number of words left out or masked in one batch.
pub(super) const BATCH_WORDS: usize = 256;

/// Returns ln p − ln(1 − p).
pub(super) fn log_odds(p: f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    (p / (1.0 - p)).ln()
}

/// Returns the predictions of both ensemble members, and how much each contributes.
fn ensemble_members(
    whole: &Prediction,
    blend: Blend,
    (problem, class): (&PredictionTarget, usize),
    ranked: impl Fn(&[f32]) -> Vec<LabelProbability>,
) -> Option<EnsembleMembers> {
    let ngrams = whole.ngrams.as_ref()?;
    let exp = |log_p: &[f32]| log_p.iter().map(|x| x.exp()).collect::<Vec<f32>>();
    // Contributions to the log-odds of the predicted class against the next most probable one, or of a label against
    // its absence. They sum to the contribution of the ensemble.
    let order = whole.ranked();
    let members = [&whole.network, ngrams];
    let (weights, moved) = match problem.binary_blend() {
        None => {
            let next = order.iter().copied().find(|other| *other != class);
            let moved = |log_p: &Vec<f32>| next.map_or(0.0, |next| log_p[class] - log_p[next]);
            ([blend.network, blend.ngrams], members.map(moved))
        }
        Some(blend) => {
            let moved = |log_p: &Vec<f32>| log_odds(f64::from(log_p[class]).exp()) as f32;
            ([blend.network, blend.ngrams], members.map(moved))
        }
    };
    let [of_network, of_ngrams] = [weights[0] * moved[0], weights[1] * moved[1]];
    Some(EnsembleMembers {
        network: ranked(&exp(&whole.network)),
        ngrams: ranked(&exp(ngrams)),
        network_weight: weights[0] / (weights[0] + weights[1]).max(f32::MIN_POSITIVE),
        ngram_share: of_ngrams.abs() / (of_network.abs() + of_ngrams.abs()).max(f32::MIN_POSITIVE),
        against: [of_network < 0.0, of_ngrams < 0.0],
    })
}

/// Sums the token scores of each word.
pub(super) fn sum_by_word(of_tokens: &[f64], words: &[WordSpan]) -> impl Iterator<Item = f32> {
    words.iter().map(|word| of_tokens[word.tokens.clone()].iter().sum::<f64>() as f32)
}

/// The effect of each word of a text on its prediction.
pub(super) struct TextEffects {
    pub(super) words: Vec<WordSpan>,
    pub(super) prediction: Prediction,
    /// The explained class.
    pub(super) class: usize,
    /// The effect of each word on the network alone and on the ensemble. Integrated gradients only have the first.
    pub(super) effects: Vec<[f32; 2]>,
    pub(super) integral: Option<PathIntegral>,
}

impl TextClassifier {
    /// Explains the prediction for `text`. `name` is the displayed name of the model.
    ///
    /// Attention weights of sub-word tokens are combined into word weights: summed over the tokens of a key word,
    /// averaged over those of a query word. Each row therefore still sums to 1. Each word also has a score: the
    /// log-odds of the predicted class with the word minus those without it (leave-one-out; Li, Monroe and Jurafsky
    /// 2016). The score is computed for the network alone and, if there is an n-gram model, for the ensemble.
    ///
    /// Each head is switched off in turn, and the resulting predictions of network and ensemble are recorded.
    ///
    /// For texts longer than one window, attention covers the first window, and scores cover the whole text. Recurrent
    /// networks have no attention: the explanation has scores, but no layers and heads.
    ///
    /// # Errors
    /// If the text is empty, or cannot be tokenized.
    pub fn explain(&self, text: impl AsRow, name: &str) -> Result<Explanation> {
        self.explain_with_method(text.as_row(), name, AttributionMethod::LeaveOneOut, &mut |_, _| {})
    }

    /// Explains like [`TextClassifier::explain`], with a given attribution method. `progress` receives the number of
    /// words left out so far, and the total.
    ///
    /// Integrated gradients explain the network's log-odds of the class, or its logit for labels and numbers. The
    /// baseline replaces each text token by the mean of all embeddings. The scores sum to the change in log-odds, up to
    /// the gap in [`Attribution::integral`].
    ///
    /// # Errors
    /// As for [`TextClassifier::explain`].
    pub(crate) fn explain_with_method(
        &self,
        row: RowRef<'_>,
        name: &str,
        method: AttributionMethod,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Explanation> {
        self.explain_row(row, name, (method, None), &InnerSteps::default(), progress)
    }

    /// Explains like `TextClassifier::explain_with_method`, for a label of a multi-label model instead of the most
    /// probable one. `steps` requests the logit lens and patching.
    ///
    /// # Errors
    /// As for [`TextClassifier::explain`] and [`TextClassifier::patch`], and if the model is not a multi-label model or
    /// there is no label with this name.
    pub fn explain_label(
        &self,
        text: impl AsRow,
        name: &str,
        method: (AttributionMethod, Option<&str>),
        steps: &InnerSteps<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Explanation> {
        self.explain_row(text.as_row(), name, method, steps, progress)
    }

    fn explain_row(
        &self,
        row: RowRef<'_>,
        name: &str,
        (method, label): (AttributionMethod, Option<&str>),
        steps: &InnerSteps<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Explanation> {
        require_text(row)?;
        let requested =
            label.map(|label| self.config.target.label_to_explain(&self.config.labels, label)).transpose()?;
        let patching = steps.patch(|other, aligned| self.patch(row, other, label, aligned))?;
        let found = self.word_effects(row, requested, method, progress)?;
        let TextEffects { words: all_words, prediction: whole, class, effects, integral } = found;
        let FramedText { ids, spans: words, tokens, special_names: around, tokens_of_text } =
            FramedText::read(row, &self.tokenizer, self.config.max_tokens())?;
        let read = ids.len() - self.tokenizer.special_tokens().len();
        let has_halves = whole.ngrams.is_some();
        let of_class = |prediction: &Prediction| log_odds(prediction.probabilities[class].into());
        let rows = columns::rows_without(self.config.columns(), row);
        let without = self.predict(&rows)?;
        let of_columns = without.iter().map(|without| (of_class(&whole) - of_class(without)) as f32);
        let columns = columns::column_effects(self.config.columns(), row, of_columns);
        // The n-gram model has no gradients.
        let has_whole = has_halves && method == AttributionMethod::LeaveOneOut;
        let (of_read, of_rest) = effects.split_at(words.len());
        let [before, after] = around.each_ref().map(Vec::len);
        let nothing = |count: usize| std::iter::repeat_n(0.0, count);
        let all_effects = |member: usize| {
            let of_text = of_read.iter().map(move |both| both[member]);
            nothing(before).chain(of_text).chain(nothing(after)).collect()
        };
        let beyond = all_words[words.len()..].iter().zip(of_rest).map(|(word, &[score, of_whole])| WordEffect {
            text: row.text()[word.bytes.clone()].into(),
            score,
            whole: has_whole.then_some(of_whole),
        });

        // A recurrent network has no attention.
        let [layers, heads] = self.config.model.backbone.transformer().map_or([0; 2], |c| [c.num_layers, c.num_heads]);
        let mut look = AttentionCollector::new(&tokens);
        self.model.trace_layers(&self.params, &ids, &mut |record| look.add(record))?;
        let AttentionCollector { attention, derived, depth, .. } = look;
        let labels = &self.config.labels;
        let ranked = |p: &[f32]| {
            let mut all: Vec<LabelProbability> = labels
                .iter()
                .zip(p)
                .map(|(label, &probability)| LabelProbability { label: label.clone(), probability })
                .collect();
            sorting::sort_by(&mut all, |a, b| b.probability.total_cmp(&a.probability));
            all
        };
        let [before, after] = around.map(|names| names.into_iter().map(|text| Word { text, special: true }));
        let probabilities = ranked(&whole.probabilities);
        let order: Vec<usize> =
            probabilities.iter().filter_map(|shown| labels.iter().position(|label| *label == shown.label)).collect();
        // The threshold of a number and a requested label stay the same without the head.
        let stays = self.config.target.number().is_some() || requested.is_some();
        let predicted = |most: usize| if stays { class } else { most };
        let without = (0..layers * heads).map(|index| {
            let [layer, head] = [index / heads, index % heads];
            let prediction = self.predict_without_heads(&[row], &[[layer, head]])?.remove(0);
            let of_whole = EnsembleHeadAblation {
                label: labels[predicted(prediction.class())].clone(),
                probabilities: order.iter().map(|&class| prediction.probabilities[class]).collect(),
            };
            Ok(match has_halves {
                false => {
                    let EnsembleHeadAblation { label, probabilities } = of_whole;
                    HeadAblation { layer, head, label, probabilities, whole: None, similarity: None }
                }
                true => HeadAblation {
                    layer,
                    head,
                    label: labels[predicted(prediction.network_class())].clone(),
                    probabilities: order.iter().map(|&class| prediction.network[class].exp()).collect(),
                    whole: Some(of_whole),
                    similarity: None,
                },
            })
        });
        let without = without.collect::<Result<_>>()?;
        let recording = self.record_residual(&ids)?;
        let lens = recording.as_ref().filter(|_| steps.has_lens);
        let lens = lens.map(|recording| self.logit_lens(recording, class, &order)).transpose()?;
        let residual_path = recording.map(|recording| self.residual_norms(&ids, &recording)).transpose()?;
        let plain = words.iter().map(|word| display_word(row, word, &self.tokenizer));
        let pieces = tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        Ok(Explanation {
            kind: ExplanationKind::Classifier,
            model: name.into(),
            text: row.without_values().to_row(),
            cut: (read < tokens_of_text).then_some(Truncation { read, tokens: tokens_of_text, is_end: false }),
            label: labels[class].clone(),
            similarity: None,
            number: self.config.target.estimate(&whole),
            levels: super::explanation::level_probabilities(self.config.class_hierarchy(), &whole.probabilities, class),
            exclusive: self.config.target.is_one_class(),
            parts: ensemble_members(&whole, self.config.blend, (&self.config.target, class), ranked),
            probabilities,
            pieces: pieces.map(|(word, t)| WordPiece { text: self.tokenizer.token(ids[t]), word }).collect(),
            words: before.chain(plain).chain(after).collect(),
            layers,
            heads,
            attention,
            causal: self.config.model.backbone.transformer().is_some_and(|c| c.causal),
            joining: JOINING.into(),
            derived,
            depth: depth.filter(|_| layers > 0),
            without,
            attribution: Attribution {
                method: method.name().into(),
                class: labels[class].clone(),
                unit: method.unit().into(),
                scores: all_effects(0),
                whole: has_whole.then(|| all_effects(1)),
                beyond: beyond.collect(),
                integral,
                curves: None,
            },
            columns,
            prompt_words: None,
            lens,
            residual_path,
            patching,
        })
    }

    /// Returns the effect of each word on the prediction of `class`. Defaults to the class to explain.
    pub(super) fn word_effects(
        &self,
        row: RowRef<'_>,
        class: Option<usize>,
        method: AttributionMethod,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<TextEffects> {
        let encoded = self.tokenizer.encode(row)?;
        let words = word_spans(row, &encoded);
        let prediction = self.predict(&[row])?.remove(0);
        let class = class.unwrap_or_else(|| self.config.target.class_to_explain(&prediction));
        // Log-odds of the network alone, if there is an n-gram model, and of the ensemble.
        let has_halves = prediction.ngrams.is_some();
        let both = |prediction: &Prediction| {
            let of_whole = log_odds(prediction.probabilities[class].into());
            [if has_halves { log_odds(f64::from(prediction.network[class]).exp()) } else { of_whole }, of_whole]
        };
        let with = both(&prediction);
        let (effects, integral) = match method {
            AttributionMethod::LeaveOneOut => {
                let without = self.predict_without_words(row, &words, progress)?;
                let effect = |prediction| {
                    let without = both(prediction);
                    [0, 1].map(|member| (with[member] - without[member]) as f32)
                };
                (without.iter().map(effect).collect(), None)
            }
            AttributionMethod::IntegratedGradients => {
                let (of_tokens, integral) = PathIntegrator::new(self)?.integrate(&encoded.ids, class)?;
                (sum_by_word(&of_tokens, &words).map(|score| [score, 0.0]).collect(), Some(integral))
            }
        };
        Ok(TextEffects { words, prediction, class, effects, integral })
    }

    /// Predicts the text without each word in turn.
    ///
    /// A text that fits into one window is tokenized again without the word. For longer texts, only the windows with
    /// the word are computed again, without its tokens. The cost therefore grows linearly with the number of words
    /// instead of quadratically.
    pub(super) fn predict_without_words(
        &self,
        row: RowRef<'_>,
        words: &[WordSpan],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Prediction>> {
        let ids = self.tokenizer.encode(row)?.ids;
        let windows = windows(ids.len(), self.input_template().window_size());
        let read = |rows: &[Vec<u32>]| parallel_batches::logits(&self.model, &self.params, self.input_template(), rows);
        let of_windows = match windows.len() {
            1 => None,
            _ => Some(read(&windows.iter().map(|window| ids[window.clone()].to_vec()).collect::<Vec<_>>())?),
        };
        let mut found = Vec::with_capacity(words.len());
        for batch in words.chunks(BATCH_WORDS) {
            progress(found.len(), words.len());
            // The separator between two texts belongs to neither and stays.
            let without = |word: &WordSpan| match is_separator(row, word, &self.tokenizer) {
                true => row.to_row(),
                false => row.without_range(word.bytes.clone()),
            };
            let texts: Vec<Row> = batch.iter().map(without).collect();
            let Some(of_windows) = &of_windows else {
                found.extend(self.predict(&texts)?);
                continue;
            };
            // Each window that loses tokens, as a separate text.
            let mut changed = Vec::new();
            for (number, word) in batch.iter().enumerate() {
                if is_separator(row, word, &self.tokenizer) {
                    continue;
                }
                for (index, window) in windows.iter().enumerate() {
                    let [start, end] =
                        [word.tokens.start, word.tokens.end].map(|at| at.clamp(window.start, window.end));
                    if start < end {
                        changed.push((number, index, [&ids[window.start..start], &ids[end..window.end]].concat()));
                    }
                }
            }
            let rows: Vec<Vec<u32>> = changed.iter().map(|(_, _, ids)| ids.clone()).collect();
            let anew = read(&rows)?;
            let mut logits = Array2::<f32>::zeros((batch.len(), of_windows.ncols()));
            for (row, mut sum) in logits.rows_mut().into_iter().enumerate() {
                let mut tokens = 0;
                for (index, window) in windows.iter().enumerate() {
                    let (of_window, count) = match changed.binary_search_by_key(&(row, index), |c| (c.0, c.1)) {
                        Ok(other) => (anew.row(other), changed[other].2.len()),
                        Err(_) => (of_windows.row(index), window.len()),
                    };
                    // Windows are weighted by their tokens.
                    sum.scaled_add(count as f32, &of_window);
                    tokens += count;
                }
                sum /= tokens.max(1) as f32;
            }
            found.extend(self.predictions(&logits, &as_rows(&texts), &vec![windows.len(); batch.len()])?);
        }
        progress(words.len(), words.len());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_its_share_and_direction() {
        let logs = |p: [f32; 2]| p.map(f32::ln).to_vec();
        let of = |network: [f32; 2], ngrams: [f32; 2]| {
            let whole = Prediction {
                probabilities: vec![0.6, 0.4],
                network: logs(network),
                ngrams: Some(logs(ngrams)),
                windows: 1,
                answer: None,
            };
            let ranked = |p: &[f32]| {
                let named = |(label, &probability): (&str, &f32)| LabelProbability { label: label.into(), probability };
                ["a", "b"].into_iter().zip(p).map(named).collect()
            };
            ensemble_members(&whole, Blend { network: 3.0, ngrams: 1.0 }, (&PredictionTarget::OneClass, 0), ranked)
                .unwrap()
        };
        // The network opposes the class with 3 · ln 2, and the n-gram model supports it with ln 32.
        let found = of([1.0 / 3.0, 2.0 / 3.0], [32.0 / 33.0, 1.0 / 33.0]);
        assert_eq!((found.against, found.network_weight), ([true, false], 0.75));
        assert!((found.ngram_share - 5.0 / 8.0).abs() < 1e-5, "{}", found.ngram_share);
        assert!((found.network[0].probability - 1.0 / 3.0).abs() < 1e-6, "{:?}", found.network);
        let found = of([2.0 / 3.0, 1.0 / 3.0], [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(found.against, [false, true]);
        assert!((found.ngram_share - 0.25).abs() < 1e-5, "{}", found.ngram_share);
    }
}
