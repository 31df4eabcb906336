//! Explanation of the similarity of two texts by an encoder: attention between words, and the effect of each word on
//! the cosine of the text vectors.

use super::attention_collector::AttentionCollector;
use super::attribution::Attribution;
use super::classifier::JOINING;
use super::explanation::{Explanation, ExplanationKind, HeadAblation, Truncation, Word, WordPiece};
use super::required_text::require_text;
use crate::nn::{Offsets, Tokens};
use crate::parallel_batches::check_head;
use crate::params::Params;
use crate::text::{Encoding, TokenSequence, WordSpan, word_spans};
use crate::text_models::embedder::TextEmbedder;
use crate::{Error, Result, tr};
use ndarray::{Array1, ArrayView1};
use std::ops::Range;

/// A text as the encoder reads it.
struct EncoderText {
    encoding: Encoding,
    /// The words that are read.
    spans: Vec<WordSpan>,
    /// The tokens of each word, special tokens included.
    tokens: Vec<Range<usize>>,
    /// The number of special tokens before and after the text.
    special_counts: [usize; 2],
    /// The number of tokens in the whole text, without special tokens.
    tokens_of_text: usize,
}

impl EncoderText {
    fn encode(given: &str, embedder: &TextEmbedder) -> Result<EncoderText> {
        let whole = embedder.tokenizer().encode(given, usize::MAX)?;
        let [before, after] = special_counts(&whole);
        let of_text = before..whole.ids.len() - after;
        let tokens_of_text = of_text.len();
        let mut encoded = TokenSequence::default();
        encoded.ids.extend(&whole.ids[of_text.clone()]);
        encoded.spans.extend(&whole.spans[of_text.clone()]);
        encoded.word_ids.extend(&whole.word_ids[of_text]);
        let mut spans = word_spans(given, &encoded);
        let encoding = embedder.tokenizer().encode(given, embedder.max_tokens())?;
        let around = special_counts(&encoding);
        let [before, after] = around;
        let read = encoding.ids.len() - before - after;
        spans.retain(|word| word.tokens.start < read);
        let each = |range: Range<usize>| range.map(|token| token..token + 1);
        let of_words = spans.iter().map(|word| word.tokens.start + before..word.tokens.end.min(read) + before);
        let tokens = each(0..before).chain(of_words).chain(each(before + read..encoding.ids.len())).collect();
        Ok(EncoderText { encoding, spans, tokens, special_counts: around, tokens_of_text })
    }

    /// Returns the number of text tokens that are read.
    fn num_read_tokens(&self) -> usize {
        self.encoding.ids.len() - self.special_counts[0] - self.special_counts[1]
    }

    /// Returns the text without each of its words. In a truncated text, only the word's tokens are removed, so that no
    /// later tokens move into view.
    fn without_words(&self, given: &str, embedder: &TextEmbedder) -> Result<Vec<Encoding>> {
        let tokenizer = embedder.tokenizer();
        let each = self.spans.iter().map(|word| {
            if self.num_read_tokens() == self.tokens_of_text {
                let without = format!("{}{}", &given[..word.bytes.start], &given[word.bytes.end..]);
                return Ok(tokenizer.encode(without.trim(), embedder.max_tokens())?);
            }
            let gone = word.tokens.start + self.special_counts[0]
                ..word.tokens.end.min(self.num_read_tokens()) + self.special_counts[0];
            let mut left = Encoding::default();
            left.ids = [&self.encoding.ids[..gone.start], &self.encoding.ids[gone.end..]].concat();
            left.type_ids = [&self.encoding.type_ids[..gone.start], &self.encoding.type_ids[gone.end..]].concat();
            Ok(left)
        });
        each.collect()
    }
}

/// Returns the number of special tokens before and after a text.
fn special_counts(encoding: &Encoding) -> [usize; 2] {
    let count = |special: &mut dyn Iterator<Item = &bool>| special.take_while(|&&special| special).count();
    let before = count(&mut encoding.special_mask.iter());
    [before, count(&mut encoding.special_mask[before..].iter().rev())]
}

/// The cosine of two vectors of length 1.
fn cosine(a: &ArrayView1<'_, f32>, b: &Array1<f32>) -> f32 {
    let product: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    product.clamp(-1.0, 1.0) as f32
}

impl TextEmbedder {
    /// Returns the vector for comparison, of length 1.
    fn target_vector(&self, text: &str, target: Option<&str>) -> Result<Array1<f32>> {
        let of = target.unwrap_or(text);
        if target.is_none() {
            require_text(text)?;
        } else if of.trim().is_empty() {
            return Err(Error::Setting(tr!("the text to compare with is empty", "比べるテキストが空です")));
        }
        let encoding = self.tokenizer().encode(&self.preprocess_with_default_prompt(of)?, self.max_tokens())?;
        Ok(self.vectors(self.params(), &[encoding], true)?.row(0).to_owned())
    }

    /// Returns the cosine of the vectors of a text and a target, with heads switched off while the text is read. Each
    /// head is (layer, head), counted from 0. Without a target, the text is compared with itself, as read with all
    /// heads.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized, or there is no such head.
    pub fn similarity_without(&self, text: &str, target: Option<&str>, heads: &[[usize; 2]]) -> Result<f32> {
        let against = self.target_vector(text, target)?;
        let encoder = &self.model().config().encoder;
        let mut params = self.params().clone();
        for &[layer, head] in heads {
            check_head([layer, head], [encoder.num_layers, encoder.num_heads])?;
            self.model().attention(layer).ablate_head(&mut params, head);
        }
        let encoding = self.tokenizer().encode(&self.preprocess_with_default_prompt(text)?, self.max_tokens())?;
        Ok(cosine(&self.vectors(&params, &[encoding], true)?.row(0), &against))
    }

    /// Explains the similarity of a text to `target`. `name` is the displayed name of the model. Without a target, the
    /// text is compared with itself, and the score of a word is how far the vector turns without it.
    ///
    /// Token weights are combined into word weights, as in [`TextClassifier::explain`](crate::TextClassifier::explain).
    /// The score of a word is the cosine of the two vectors with the word minus that without it (leave-one-out). Each
    /// head is switched off in turn while the text is read, and the resulting cosine is recorded.
    ///
    /// A text longer than the limit is truncated at its end.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized, a vector is not finite, or the model has no layers.
    pub fn explain(&self, text: &str, target: Option<&str>, name: &str) -> Result<Explanation> {
        require_text(text)?;
        self.check_layers()?;
        let against = self.target_vector(text, target)?;
        let given = self.preprocess_with_default_prompt(text)?;
        let reading = EncoderText::encode(&given, self)?;
        if reading.tokens.is_empty() {
            return Err(Error::Setting(tr!(
                "the text to explain has no token that the model reads; give another",
                "説明するテキストに、モデルが読めるトークンがありません。別のテキストを指定してください"
            )));
        }
        let cosines = |params: &Params<f32>, encodings: &[Encoding]| -> Result<Vec<f32>> {
            let vectors = self.vectors(params, encodings, true)?;
            Ok(vectors.rows().into_iter().map(|vector| cosine(&vector, &against)).collect())
        };
        let read = std::slice::from_ref(&reading.encoding);
        let whole = cosines(self.params(), read)?[0];
        let without_words = cosines(self.params(), &reading.without_words(&given, self)?)?;
        let [before, after] = reading.special_counts;
        let nothing = |count: usize| std::iter::repeat_n(0.0, count);
        let scores = without_words.iter().map(|without| whole - without);

        let Encoding { ids, type_ids: types, .. } = &reading.encoding;
        let offsets = Offsets::from_lengths([ids.len()]);
        let mut look = AttentionCollector::new(&reading.tokens);
        let tokens = Tokens { ids, offsets: &offsets, types: Some(types) };
        self.model().trace_layers(self.params(), tokens, &mut |record| look.add(record))?;
        let AttentionCollector { attention, derived, depth, .. } = look;
        let encoder = &self.model().config().encoder;
        let [layers, heads] = [encoder.num_layers, encoder.num_heads];
        let mut params = self.params().clone();
        let without = (0..layers * heads).map(|index| {
            let [layer, head] = [index / heads, index % heads];
            let attention = self.model().attention(layer);
            let found = attention.with_head_ablated(&mut params, head, |params| cosines(params, read))?[0];
            Ok(HeadAblation {
                layer,
                head,
                label: String::new(),
                probabilities: Vec::new(),
                whole: None,
                similarity: Some(found),
            })
        });
        let without = without.collect::<Result<_>>()?;
        let shown = |token: usize| self.tokenizer().display_token(ids[token]);
        let special = |range: Range<usize>| range.map(|token| Word { text: shown(token), special: true });
        let plain = reading.spans.iter().map(|word| Word { text: given[word.bytes.clone()].into(), special: false });
        let pieces =
            reading.tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        let label = target.unwrap_or(text).to_owned();
        Ok(Explanation {
            kind: ExplanationKind::Encoder,
            model: name.into(),
            text: text.into(),
            cut: Truncation::of(reading.num_read_tokens(), reading.tokens_of_text, false),
            label: label.clone(),
            similarity: Some(whole),
            number: None,
            levels: Vec::new(),
            exclusive: true,
            parts: None,
            probabilities: Vec::new(),
            pieces: pieces.map(|(word, t)| WordPiece { text: shown(t), word }).collect(),
            words: special(0..before).chain(plain).chain(special(ids.len() - after..ids.len())).collect(),
            layers,
            heads,
            attention,
            causal: encoder.causal,
            joining: JOINING.into(),
            derived,
            depth,
            without,
            attribution: Attribution {
                method: "leave-one-out".into(),
                class: label,
                unit: "change in cosine similarity when the word is removed".into(),
                scores: nothing(before).chain(scores).chain(nothing(after)).collect(),
                whole: None,
                beyond: Vec::new(),
                integral: None,
                curves: None,
            },
            columns: Vec::new(),
            prompt_words: None,
            lens: None,
            residual_path: None,
            patching: None,
        })
    }
}
