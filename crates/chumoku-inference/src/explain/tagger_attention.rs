//! Attention of a tagger's network.

use super::attention_collector::{AttentionCollector, FramedText, display_word};
use super::attribution::Attribution;
use super::classifier::JOINING;
use super::explanation::{Explanation, ExplanationKind, Truncation, Word, WordPiece};
use super::required_text::require_text;
use crate::Result;
use crate::nn::{Offsets, Tokens};
use crate::row::AsRow;
use crate::text_models::tagger::TextTagger;

impl TextTagger {
    /// Returns the attention of the network's encoder to `text`, limited to the first window. `None` without a network.
    /// `name` is the displayed name of the model.
    ///
    /// The attention does not depend on a span, and the explanation has no scores. [`TextTagger::explain`] gives the
    /// effects of words on a span.
    ///
    /// # Errors
    /// If the text is empty or cannot be tokenized.
    pub fn attention(&self, text: &str, name: &str) -> Result<Option<Explanation>> {
        let Some(network) = &self.network else { return Ok(None) };
        require_text(text)?;
        let tokenizer = &network.tokenizer;
        let FramedText { ids, spans, tokens, special_names: around, tokens_of_text } =
            FramedText::read(text, tokenizer, network.config.max_tokens)?;
        let read = ids.len() - tokenizer.special_tokens().len();
        let mut look = AttentionCollector::new(&tokens);
        let offsets = Offsets::from_lengths([ids.len()]);
        network.model.trace_layers(&network.params, Tokens::new(&ids, &offsets), &mut |record| look.add(record))?;
        let AttentionCollector { attention, derived, depth, .. } = look;
        let encoder = &network.config.model.encoder.encoder;
        let [before, after] = around.map(|names| names.into_iter().map(|text| Word { text, special: true }));
        let plain = spans.iter().map(|word| display_word(text.as_row(), word, tokenizer));
        let words: Vec<Word> = before.chain(plain).chain(after).collect();
        let pieces = tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        Ok(Some(Explanation {
            kind: ExplanationKind::Encoder,
            model: name.into(),
            text: text.into(),
            cut: Truncation::of(read, tokens_of_text, false),
            label: text.into(),
            similarity: None,
            number: None,
            levels: Vec::new(),
            probabilities: Vec::new(),
            exclusive: true,
            parts: None,
            pieces: pieces.map(|(word, t)| WordPiece { text: tokenizer.token(ids[t]), word }).collect(),
            layers: encoder.num_layers,
            heads: encoder.num_heads,
            attention,
            causal: encoder.causal,
            joining: JOINING.into(),
            derived,
            depth,
            without: Vec::new(),
            attribution: Attribution { scores: vec![0.0; words.len()], ..Attribution::default() },
            words,
            columns: Vec::new(),
            prompt_words: None,
            lens: None,
            residual_path: None,
            patching: None,
        }))
    }
}
