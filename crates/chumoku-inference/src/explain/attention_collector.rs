//! Combines the attention traces of a model's layers into word weights and derived values.

use super::explanation::{DerivedAttention, QueriesAndKeys, Word};
use crate::Result;
use crate::nn::AttentionTrace;
use crate::row::{AsRow, RowRef};
use crate::text::{TextTokenizer, WordSpan, word_spans};
use ndarray::{Array2, Axis, Slice};
use std::ops::Range;

/// A text with special tokens, as a model reads it.
#[derive(Debug)]
pub struct FramedText {
    /// The tokens that are read, special tokens included.
    pub ids: Vec<u32>,
    /// The words of the text that are read.
    pub(crate) spans: Vec<WordSpan>,
    /// The tokens of each word. Each special token, such as `[CLS]`, is a word.
    pub tokens: Vec<Range<usize>>,
    /// The names of the special tokens before and after the text.
    pub(crate) special_names: [Vec<String>; 2],
    /// The number of tokens in the whole text, without special tokens.
    pub(crate) tokens_of_text: usize,
}

impl FramedText {
    /// Tokenizes a text and truncates it to `most` tokens, special tokens included.
    pub fn read(text: impl AsRow, tokenizer: &TextTokenizer, most: usize) -> Result<FramedText> {
        FramedText::read_row(text.as_row(), tokenizer, most)
    }

    fn read_row(text: RowRef<'_>, tokenizer: &TextTokenizer, most: usize) -> Result<FramedText> {
        let encoded = tokenizer.encode(text)?;
        let frame = tokenizer.special_tokens();
        let (before, limit) = (frame.prefix.len(), most.saturating_sub(frame.len()));
        let mut spans = word_spans(text, &encoded);
        spans.retain(|word| word.tokens.start < limit);
        let shown = spans.last().map_or(0, |word| word.tokens.end.min(limit));
        let of_words = spans.iter().map(|word| word.tokens.start + before..word.tokens.end.min(shown) + before);
        let ids = frame.wrap(&encoded.ids[..shown]);
        let each = |range: Range<usize>| range.map(|token| token..token + 1);
        let tokens = each(0..before).chain(of_words).chain(each(before + shown..ids.len())).collect();
        let names = |ids: &[u32]| ids.iter().map(|&id| tokenizer.token(id)).collect();
        let around = [names(&frame.prefix), names(&frame.suffix)];
        Ok(FramedText { ids, spans, tokens, special_names: around, tokens_of_text: encoded.ids.len() })
    }

    /// Returns the displayed words.
    pub fn word_names(&self, text: impl AsRow, tokenizer: &TextTokenizer) -> Vec<String> {
        let plain = self.spans.iter().map(|word| display_word(text.as_row(), word, tokenizer).text);
        let [before, after] = &self.special_names;
        before.iter().cloned().chain(plain).chain(after.iter().cloned()).collect()
    }
}

/// Returns `true` if a word is the separator between the two texts of a pair.
pub(crate) fn is_separator(row: RowRef<'_>, word: &WordSpan, tokenizer: &TextTokenizer) -> bool {
    tokenizer.pair_separator().is_some() && row.gap().as_ref() == Some(&word.bytes)
}

/// Returns a word as in the text. The separator of a pair is displayed as its token.
pub(crate) fn display_word(row: RowRef<'_>, word: &WordSpan, tokenizer: &TextTokenizer) -> Word {
    match tokenizer.pair_separator().filter(|_| is_separator(row, word, tokenizer)) {
        Some(between) => Word { text: tokenizer.token(between), special: true },
        None => Word { text: row.text()[word.bytes.clone()].into(), special: false },
    }
}

/// Collects the attention of a stack of self-attention layers while it reads one sequence.
#[derive(Debug)]
pub struct AttentionCollector<'a> {
    /// The tokens of each word.
    words: &'a [Range<usize>],
    /// Weights between words: (layers, heads, words, words).
    pub attention: Vec<f32>,
    pub(crate) derived: DerivedAttention,
    /// `None` if scores are not only products of queries and keys.
    pub(crate) depth: Option<QueriesAndKeys>,
    /// Rollout up to the last layer, by token.
    rollout: Option<Array2<f64>>,
}

impl<'a> AttentionCollector<'a> {
    /// Starts a collection; `words` are the tokens of each word.
    pub fn new(words: &'a [Range<usize>]) -> AttentionCollector<'a> {
        let depth = Some(QueriesAndKeys::default());
        AttentionCollector { words, attention: Vec::new(), derived: DerivedAttention::default(), depth, rollout: None }
    }

    /// Adds the next layer.
    pub fn add(&mut self, record: &AttentionTrace) {
        self.add_depth(record);
        self.add_rollout(record);
        for (head, weights) in record.weights.iter().enumerate() {
            self.attention.extend(word_weights(weights, [self.words; 2]));
            self.add_value_weighted(record, head);
        }
    }

    /// `α_ij ‖v_j W_O‖` of one head, normalized in each row (Kobayashi et al. 2020, "Attention is Not Only a Weight:
    /// Analyzing Transformers with Vector Norms").
    fn add_value_weighted(&mut self, record: &AttentionTrace, head: usize) {
        let m = &record.matrices;
        let columns = |x: &Array2<f64>, axis, index: usize, count: usize| {
            let width = x.len_of(axis) / count;
            x.slice_axis(axis, Slice::from(index * width..(index + 1) * width)).to_owned()
        };
        let key_head = head / (m.num_heads / m.num_key_heads);
        let values = columns(&record.projected[2], Axis(1), key_head, m.num_key_heads);
        let output = columns(&m.output, Axis(0), head, m.num_heads);
        // ‖v W‖² = v (W Wᵀ) vᵀ, and W Wᵀ is small.
        let turned = values.dot(&output.dot(&output.t()));
        let lengths = (&turned * &values).sum_axis(Axis(1)).mapv(|square| square.max(0.0).sqrt());
        let weighted = word_weights(&(&record.weights[head] * &lengths), [self.words; 2]);
        let plain = &self.attention[self.attention.len() - weighted.len()..];
        let n = self.words.len();
        for (row, plain) in weighted.chunks_exact(n.max(1)).zip(plain.chunks_exact(n.max(1))) {
            let sum: f32 = row.iter().sum();
            // If all values have length 0, keep the weights.
            let shares = row.iter().zip(plain).map(|(x, plain)| if sum > 0.0 { x / sum } else { *plain });
            self.derived.value_weighted.extend(shares);
        }
    }

    /// `R_l = (½ A_l + ½ I) R_{l−1}`, A_l the mean over heads (Abnar and Zuidema 2020, "Quantifying Attention Flow in
    /// Transformers", equation 1).
    fn add_rollout(&mut self, record: &AttentionTrace) {
        let Some(first) = record.weights.first() else { return };
        let share = 0.5 / record.weights.len() as f64;
        let mut mixed = Array2::from_diag_elem(first.nrows(), 0.5);
        record.weights.iter().for_each(|weights| mixed.scaled_add(share, weights));
        let rollout = match &self.rollout {
            Some(below) => mixed.dot(below),
            None => mixed,
        };
        self.derived.rollout.extend(word_weights(&rollout, [self.words; 2]));
        self.rollout = Some(rollout);
    }

    fn add_depth(&mut self, record: &AttentionTrace) {
        let m = &record.matrices;
        // A window masks keys, and hard attention has no softmax.
        if m.options.window.is_some() || m.options.hard_attention {
            self.depth = None;
        }
        let Some(depth) = &mut self.depth else { return };
        let [queries, keys, _] = &record.projected;
        depth.dim = queries.ncols() / m.num_heads.max(1);
        depth.scale = m.options.beta.unwrap_or(1.0 / (depth.dim as f64).sqrt());
        if let Some(slopes) = &m.slopes {
            depth.slopes.get_or_insert_default().push(slopes.iter().map(|&x| x as f32).collect());
        }
        for head in 0..m.num_heads {
            let key_head = head / (m.num_heads / m.num_key_heads);
            for (of, x, head) in [(&mut depth.queries, queries, head), (&mut depth.keys, keys, key_head)] {
                let columns = head * depth.dim..(head + 1) * depth.dim;
                of.extend(x.slice_axis(Axis(1), Slice::from(columns)).iter().map(|&x| x as f32));
            }
        }
    }
}

/// Combines token weights into word weights: summed over the tokens of a key word, averaged over those of a query word.
/// Each row therefore still sums to 1. `words` are the tokens of the query words and of the key words.
pub fn word_weights(weights: &Array2<f64>, words: [&[Range<usize>]; 2]) -> Vec<f32> {
    let mut found = Vec::with_capacity(words[0].len() * words[1].len());
    for query in words[0] {
        for key in words[1] {
            let sum: f64 = query.clone().flat_map(|q| key.clone().map(move |k| [q, k])).map(|at| weights[at]).sum();
            found.push((sum / query.len().max(1) as f64) as f32);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::models::{LanguageModel, LanguageModelConfig};
    use crate::nn::{AttentionOptions, EncoderConfig, InputEmbeddingsOptions, PositionKind};
    use crate::params::Params;
    use crate::text::{NormalizationForm, TokenizationUnit, TokenizerConfig};
    use ndarray::array;
    use testkit::Random;

    const IDS: [u32; 7] = [3, 1, 4, 1, 5, 9, 2];
    const WORDS: [Range<usize>; 4] = [0..1, 1..4, 4..5, 5..7];

    fn models() -> Vec<(LanguageModel, Params<f32>)> {
        let variants = [
            (PositionKind::Learned, AttentionOptions::default()),
            (PositionKind::Rotary, AttentionOptions { num_key_heads: Some(2), ..Default::default() }),
            (PositionKind::Alibi, AttentionOptions { beta: Some(0.7), train_beta: true, ..Default::default() }),
        ];
        variants.map(|(position, attention)| language_model(position, attention, (7, 0.6))).into()
    }

    /// A language model of two layers with random parameters of this size.
    pub(in crate::explain) fn language_model(
        position: PositionKind,
        attention: AttentionOptions,
        (seed, size): (u64, f32),
    ) -> (LanguageModel, Params<f32>) {
        let encoder = EncoderConfig { causal: true, attention, ..EncoderConfig::new(2, 16, 4, 24) };
        let config = LanguageModelConfig {
            vocab_size: 11,
            encoder,
            position,
            max_length: 9,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        let model = LanguageModel::new(config).unwrap();
        let mut params = Params::zeros(model.layout());
        let mut random = Random::new(seed);
        params.values_mut().iter_mut().for_each(|value| *value = size * random.number() as f32);
        (model, params)
    }

    fn look<'a>(
        model: &LanguageModel,
        params: &Params<f32>,
        words: &'a [Range<usize>],
    ) -> (AttentionCollector<'a>, Vec<AttentionTrace>) {
        let (mut look, mut records) = (AttentionCollector::new(words), Vec::new());
        let each = &mut |record: &AttentionTrace| {
            look.add(record);
            records.push(record.clone());
        };
        model.trace_layers(params, &IDS, each).unwrap();
        (look, records)
    }

    /// The vectors `f(x_j) = v_j W_O` of a head.
    fn moved(record: &AttentionTrace, head: usize) -> Array2<f64> {
        let m = &record.matrices;
        let width = m.output.nrows() / m.num_heads;
        let key_head = head * m.num_key_heads / m.num_heads;
        let values = &record.projected[2];
        Array2::from_shape_fn((values.nrows(), m.output.ncols()), |(token, column)| {
            (0..width).map(|i| values[[token, key_head * width + i]] * m.output[[head * width + i, column]]).sum()
        })
    }

    fn near(a: impl IntoIterator<Item = f64>, b: impl IntoIterator<Item = f64>) {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().collect(), b.into_iter().collect());
        assert_eq!(a.len(), b.len());
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!((a - b).abs() < 2e-5, "{i}: {a} and {b}");
        }
    }

    #[test]
    fn words_sum_keys_and_average_queries() {
        let weights = array![[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.3], [0.25, 0.25, 0.3, 0.2]];
        let found = word_weights(&weights, [&[0..1, 1..3], &[0..1, 1..4]]);
        let expected = [0.1f32, 0.9, 0.325, 0.675];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn weights_are_the_softmax_of_queries_and_keys() {
        for (model, params) in models() {
            let (look, records) = look(&model, &params, &WORDS);
            let depth = look.depth.unwrap();
            for (index, (head, record)) in records.iter().flat_map(|r| (0..4).map(move |h| (h, r))).enumerate() {
                let at = |x: &[f32], token: usize| x[(index * IDS.len() + token) * depth.dim..][..depth.dim].to_vec();
                let slope = depth.slopes.as_ref().map_or(0.0, |slopes| f64::from(slopes[index / 4][head]));
                for i in 0..IDS.len() {
                    let exp: Vec<f64> = (0..=i)
                        .map(|j| {
                            let pairs = at(&depth.queries, i).into_iter().zip(at(&depth.keys, j));
                            let product: f64 = pairs.map(|(q, k)| f64::from(q) * f64::from(k)).sum();
                            (depth.scale * product - slope * i.abs_diff(j) as f64).exp()
                        })
                        .collect();
                    let sum: f64 = exp.iter().sum();
                    near(record.weights[head].row(i).iter().take(i + 1).copied(), exp.into_iter().map(|x| x / sum));
                }
            }
        }
    }

    #[test]
    fn head_outputs_sum_to_the_layer_output_and_their_lengths_weight_the_values() {
        for (model, params) in models() {
            let (look, records) = look(&model, &params, &WORDS);
            for (layer, record) in records.iter().enumerate() {
                let mut output = record.x.clone();
                if let Some(bias) = &record.matrices.output_bias {
                    output += bias;
                }
                for head in 0..4 {
                    let moved = moved(record, head);
                    output += &record.weights[head].dot(&moved);
                    let length = |token: usize| moved.row(token).dot(&moved.row(token)).sqrt();
                    let weighted = Array2::from_shape_fn((7, 7), |(i, j)| record.weights[head][[i, j]] * length(j));
                    let by_word = word_weights(&weighted, [&WORDS; 2]);
                    let shares = by_word.chunks(4).flat_map(|row| {
                        let sum: f32 = row.iter().sum();
                        row.iter().map(move |x| f64::from(x / sum))
                    });
                    let found = &look.derived.value_weighted[(layer * 4 + head) * 16..][..16];
                    near(found.iter().map(|&x| x.into()), shares);
                }
                near(record.sum.iter().copied(), output);
            }
        }
    }

    #[test]
    fn rollout_is_the_product_of_all_layers_so_far() {
        let (model, params) = models().remove(0);
        let (look, records) = look(&model, &params, &WORDS);
        let mut product = Array2::<f64>::eye(7);
        for (layer, record) in records.iter().enumerate() {
            let mixed = Array2::from_shape_fn((7, 7), |(i, j)| {
                let mean: f64 = record.weights.iter().map(|weights| weights[[i, j]] / 4.0).sum();
                0.5 * mean + if i == j { 0.5 } else { 0.0 }
            });
            product = mixed.dot(&product);
            let expected = word_weights(&product, [&WORDS; 2]);
            let found = &look.derived.rollout[layer * 16..][..16];
            near(found.iter().map(|&x| x.into()), expected.into_iter().map(f64::from));
        }
    }

    #[test]
    fn a_silenced_head_contributes_nothing() {
        for (model, params) in models() {
            let (_, before) = look(&model, &params, &WORDS);
            let mut silenced = params.clone();
            model.attention(0).ablate_head(&mut silenced, 2);
            let (_, after) = look(&model, &silenced, &WORDS);
            let without = &before[0].sum - &before[0].weights[2].dot(&moved(&before[0], 2));
            near(after[0].sum.iter().copied(), without);
            // The head keeps its weights, and the layer above gets different inputs.
            assert_eq!(after[0].weights, before[0].weights);
            assert_ne!(after[1].x, before[1].x);
        }
    }

    #[test]
    fn a_window_leaves_no_queries_and_keys() {
        let (model, params) = models().remove(0);
        let mut config = model.config().clone();
        config.encoder.attention.window = Some(2);
        let narrow = LanguageModel::new(config).unwrap();
        assert!(look(&narrow, &params, &WORDS).0.depth.is_none());
    }

    #[test]
    fn hard_attention_leaves_no_queries_and_keys() {
        let (model, params) = models().remove(0);
        let mut config = model.config().clone();
        config.encoder.attention.hard_attention = true;
        let hard = LanguageModel::new(config).unwrap();
        assert!(look(&hard, &params, &WORDS).0.depth.is_none());
    }

    #[test]
    fn zero_values_leave_the_weights_unchanged() {
        let (model, params) = models().remove(0);
        let nothing = Params::zeros(params.layout());
        let (look, _) = look(&model, &nothing, &WORDS);
        assert!(look.attention.iter().all(|x| x.is_finite()));
        assert_eq!(look.derived.value_weighted, look.attention);
    }

    #[test]
    fn a_text_is_read_up_to_the_last_token_that_fits() {
        let form = NormalizationForm::NfkcLowercase;
        let config = TokenizerConfig { vocab_size: 60, min_frequency: 1, form, unit: TokenizationUnit::Subwords };
        let tokenizer = TextTokenizer::train(&["ab ab ab cd cd", "q w"], &config).unwrap();
        let text = "ab wxyz cd";
        let all = tokenizer.encode(text).unwrap();
        let words = word_spans(text, &all);
        let cut_word = words[1].tokens.clone();
        assert!(words.len() == 3 && cut_word.len() > 2, "{words:?}");
        for most in 1..all.ids.len() + 4 {
            let reading = FramedText::read(text, &tokenizer, most).unwrap();
            // [CLS] and as many tokens as fit.
            let expected = all.ids.len().min(most - 1);
            assert_eq!(reading.ids[0], tokenizer.cls_id());
            assert_eq!(reading.ids[1..], all.ids[..expected], "{most}");
            let started = words.iter().filter(|word| word.tokens.start < expected).count();
            assert_eq!(reading.word_names(text, &tokenizer), [&["[CLS]", "ab", "wxyz", "cd"][..started + 1]].concat());
            // Each token that is read belongs to one word, in order.
            assert_eq!(reading.tokens.len(), started + 1);
            assert!(reading.tokens.windows(2).all(|two| two[0].end == two[1].start && two[1].start < two[1].end));
            assert_eq!(reading.tokens.last().unwrap().end, reading.ids.len());
        }
        assert_eq!(FramedText::read("", &tokenizer, 5).unwrap().ids, [tokenizer.cls_id()]);
    }
}
