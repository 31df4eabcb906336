//! A text as a model's tokens: the objects of `/tokenize`.

use crate::text::TextTokenizer;
use crate::{Result, TextClassifier, TextEmbedder, TextGenerator, TextTranslator};
use serde::Serialize;

/// Whose tokens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ModelTokenizer<'m> {
    /// Those of a classifier's network.
    Classifier(&'m TextClassifier),
    /// Those of a translator's sources.
    Translator(&'m TextTranslator),
    /// Those of a language model.
    Generator(&'m TextGenerator),
    /// Those of a pretrained encoder, which cuts off what is too long.
    Embedder(&'m TextEmbedder),
}

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// Its name.
    pub text: String,
    /// Set for tokens around the text, such as `[CLS]`.
    pub special: bool,
    /// Its first character; none if it is special.
    pub start: Option<usize>,
    /// The character behind its last.
    pub stop: Option<usize>,
}

impl<'m> ModelTokenizer<'m> {
    /// The tokens of a text, each with its place in it in characters, and with those around it if `special` asks for them.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text.
    pub fn tokens(self, text: &str, special: bool) -> Result<Vec<Token>> {
        let Some(tokenizer) = self.tokenizer() else {
            let ModelTokenizer::Embedder(model) = self else { return Ok(Vec::new()) };
            let encoding = model.tokenizer().encode(text, model.limit())?;
            let places = CharacterStarts::new(text);
            let each = encoding.ids.iter().zip(&encoding.spans).zip(&encoding.special_mask);
            let each = each.filter(|(_, is_special)| special || !**is_special);
            let token = |((&id, &span), &is_special): ((&u32, &(usize, usize)), &bool)| {
                new_token(id, model.tokenizer().display_token(id), (!is_special).then_some(span), &places)
            };
            return Ok(each.map(token).collect());
        };
        let (encoded, places) = (tokenizer.encode(text)?, CharacterStarts::new(text));
        let around = |ids: &[u32]| -> Vec<Token> {
            let shown = ids.iter().filter(|_| special);
            shown.map(|&id| new_token(id, tokenizer.token(id), None, &places)).collect()
        };
        let inside = encoded.ids.iter().zip(&encoded.spans);
        let inside = inside.map(|(&id, &span)| new_token(id, tokenizer.token(id), Some(span), &places));
        let frame = tokenizer.special_tokens();
        Ok(around(&frame.prefix).into_iter().chain(inside).chain(around(&frame.suffix)).collect())
    }

    /// How many tokens the model reads of a text, those around it included.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text.
    pub fn count(self, text: &str) -> Result<usize> {
        Ok(match (self, self.tokenizer()) {
            (_, Some(tokenizer)) => tokenizer.encode(text)?.ids.len() + tokenizer.special_tokens().len(),
            (ModelTokenizer::Embedder(model), None) => model.tokenizer().encode(text, model.limit())?.ids.len(),
            (_, None) => 0,
        })
    }

    /// The tokenizer of the model; an encoder has one of another kind.
    fn tokenizer(self) -> Option<&'m TextTokenizer> {
        match self {
            ModelTokenizer::Classifier(model) => Some(&model.tokenizer),
            ModelTokenizer::Translator(model) => Some(model.tokenizers.source()),
            ModelTokenizer::Generator(model) => Some(&model.tokenizer),
            ModelTokenizer::Embedder(_) => None,
        }
    }
}

fn new_token(id: u32, text: String, span: Option<(usize, usize)>, places: &CharacterStarts) -> Token {
    let place = |byte: usize| places.character(byte);
    let [start, stop] = span.map_or([None; 2], |(start, stop)| [Some(place(start)), Some(place(stop))]);
    Token { id, text, special: span.is_none(), start, stop }
}

/// Where the characters of a text begin.
struct CharacterStarts(Vec<usize>);

impl CharacterStarts {
    fn new(text: &str) -> CharacterStarts {
        CharacterStarts(text.char_indices().map(|(at, _)| at).collect())
    }

    /// The number of the character at a byte.
    fn character(&self, byte: usize) -> usize {
        self.0.partition_point(|&at| at < byte)
    }
}
