//! What the network of a tagger looks at in a text.

use super::attribution::Attribution;
use super::classifier::JOINING;
use super::explanation::{ExplainedKind, Explanation, Piece, TextCut, Word};
use super::recorded::{Look, Reading, shown_word};
use crate::nn::{Offsets, Tokens};
use crate::text_tagger::TextTagger;
use crate::{Error, Result, tr};

impl TextTagger {
    /// The attention of the network's encoder to `text`, of a long one to its first window; none without a network. `name` is what the
    /// model is called in pictures.
    ///
    /// It is of the text, whichever span is looked at; what words do to a span is told by [`TextTagger::explain`], and here by
    /// no score.
    ///
    /// # Errors
    /// If the text is empty or cannot be read as tokens.
    pub fn attention(&self, text: &str, name: &str) -> Result<Option<Explanation>> {
        let Some(network) = &self.network else { return Ok(None) };
        if text.trim().is_empty() {
            return Err(Error::Setting(tr!("the text to explain is empty", "説明するテキストが空です")));
        }
        let tokenizer = &network.tokenizer;
        let Reading { ids, spans, tokens, around, tokens_of_text } =
            Reading::of(text, tokenizer, network.config.max_tokens)?;
        let read = ids.len() - tokenizer.frame().len();
        let mut look = Look::new(&tokens);
        let offsets = Offsets::of_lengths([ids.len()]);
        network.model.each_record(&network.params, Tokens::new(&ids, &offsets), &mut |record| look.add(record))?;
        let Look { attention, derived, depth, .. } = look;
        let encoder = &network.config.model.encoder.encoder;
        let [before, after] = around.map(|names| names.into_iter().map(|text| Word { text, special: true }));
        let plain = spans.iter().map(|word| shown_word(text, word, tokenizer));
        let words: Vec<Word> = before.chain(plain).chain(after).collect();
        let pieces = tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        Ok(Some(Explanation {
            kind: ExplainedKind::Encoder,
            model: name.into(),
            text: text.into(),
            cut: TextCut::of(read, tokens_of_text, false),
            label: text.into(),
            similarity: None,
            number: None,
            levels: Vec::new(),
            probabilities: Vec::new(),
            exclusive: true,
            parts: None,
            pieces: pieces.map(|(word, t)| Piece { text: tokenizer.token(ids[t]), word }).collect(),
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
        }))
    }
}
