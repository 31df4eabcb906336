//! The tokens of a text, as returned by `/tokenize`.

use crate::characters::CharacterOffsets;
use crate::text::TextTokenizer;
use crate::{Result, TextClassifier, TextEmbedder, TextGenerator, TextTranslator};
use serde::Serialize;

/// A model with a tokenizer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ModelTokenizer<'m> {
    /// The tokens of a classifier's network.
    Classifier(&'m TextClassifier),
    /// The tokens of a translator's source.
    Translator(&'m TextTranslator),
    /// The tokens of a language model.
    Generator(&'m TextGenerator),
    /// The tokens of a pretrained encoder, which truncates long texts.
    Embedder(&'m TextEmbedder),
}

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// The token's index in the vocabulary.
    pub(crate) id: u32,
    /// The token's name.
    pub text: String,
    /// `true` for special tokens such as `[CLS]`.
    pub(crate) special: bool,
    /// The index of the first character. `None` for special tokens.
    pub(crate) start: Option<usize>,
    /// The index after the last character.
    pub(crate) stop: Option<usize>,
}

impl<'m> ModelTokenizer<'m> {
    /// Returns the tokens of a text with their character positions. Includes special tokens if `special` is set.
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn tokens(self, text: &str, special: bool) -> Result<Vec<Token>> {
        let Some(tokenizer) = self.tokenizer() else {
            let ModelTokenizer::Embedder(model) = self else { return Ok(Vec::new()) };
            let encoding = model.tokenizer().encode(text, model.max_tokens())?;
            let places = CharacterOffsets::new(text);
            let each = encoding.ids.iter().zip(&encoding.spans).zip(&encoding.special_mask);
            let each = each.filter(|(_, is_special)| special || !**is_special);
            let token = |((&id, &span), &is_special): ((&u32, &(usize, usize)), &bool)| {
                new_token(id, model.tokenizer().display_token(id), (!is_special).then_some(span), &places)
            };
            return Ok(each.map(token).collect());
        };
        let (encoded, places) = (tokenizer.encode(text)?, CharacterOffsets::new(text));
        let around = |ids: &[u32]| -> Vec<Token> {
            let shown = ids.iter().filter(|_| special);
            shown.map(|&id| new_token(id, tokenizer.token(id), None, &places)).collect()
        };
        let inside = encoded.ids.iter().zip(&encoded.spans);
        let inside = inside.map(|(&id, &span)| new_token(id, tokenizer.token(id), Some(span), &places));
        let frame = tokenizer.special_tokens();
        Ok(around(&frame.prefix).into_iter().chain(inside).chain(around(&frame.suffix)).collect())
    }

    /// Returns the number of tokens that the model reads for a text, special tokens included.
    ///
    /// # Errors
    /// If the text cannot be tokenized.
    pub fn count(self, text: &str) -> Result<usize> {
        Ok(match (self, self.tokenizer()) {
            (_, Some(tokenizer)) => tokenizer.encode(text)?.ids.len() + tokenizer.special_tokens().len(),
            (ModelTokenizer::Embedder(model), None) => model.tokenizer().encode(text, model.max_tokens())?.ids.len(),
            (_, None) => 0,
        })
    }

    /// Returns the tokenizer of the model. Encoders have a tokenizer of another type.
    fn tokenizer(self) -> Option<&'m TextTokenizer> {
        match self {
            ModelTokenizer::Classifier(model) => Some(&model.tokenizer),
            ModelTokenizer::Translator(model) => Some(model.tokenizers.source()),
            ModelTokenizer::Generator(model) => Some(&model.tokenizer),
            ModelTokenizer::Embedder(_) => None,
        }
    }
}

fn new_token(id: u32, text: String, span: Option<(usize, usize)>, places: &CharacterOffsets) -> Token {
    let place = |byte: usize| places.character(byte);
    let [start, stop] = span.map_or([None; 2], |(start, stop)| [Some(place(start)), Some(place(stop))]);
    Token { id, text, special: span.is_none(), start, stop }
}
