//! A text as a model's tokens: the objects of `/tokenize`.

use crate::text::TextTokenizer;
use crate::{Result, TextClassifier, TextEmbedder, TextGenerator, TextTranslator};
use serde_json::{Value, json};

/// Whose tokens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Tokenized<'m> {
    /// Those of a classifier's network.
    Classifier(&'m TextClassifier),
    /// Those of a translator's sources.
    Translator(&'m TextTranslator),
    /// Those of a language model.
    Generator(&'m TextGenerator),
    /// Those of a pretrained encoder, which cuts off what is too long.
    Embedder(&'m TextEmbedder),
}

impl Tokenized<'_> {
    /// The tokens of a text, each with its place in it in characters, and with those around it if `special` asks for them.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text.
    pub fn tokens(self, text: &str, special: bool) -> Result<Value> {
        match self {
            Tokenized::Classifier(model) => of(&model.tokenizer, text, special),
            Tokenized::Translator(model) => of(model.tokenizers.source(), text, special),
            Tokenized::Generator(model) => of(&model.tokenizer, text, special),
            Tokenized::Embedder(model) => {
                let encoding = model.tokenizer().encode(text, model.limit())?;
                let places = Places::of(text);
                let each = encoding.ids.iter().zip(&encoding.spans).zip(&encoding.special);
                let each = each.filter(|(_, is_special)| special || !**is_special);
                Ok(each
                    .map(|((&id, &span), &is_special)| {
                        token(id, model.tokenizer().shown(id), (!is_special).then_some(span), &places)
                    })
                    .collect())
            }
        }
    }

    /// How many tokens the model reads of a text, those around it included.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text.
    pub fn count(self, text: &str) -> Result<usize> {
        Ok(match self {
            Tokenized::Embedder(model) => model.tokenizer().encode(text, model.limit())?.ids.len(),
            _ => self.tokens(text, true)?.as_array().map_or(0, Vec::len),
        })
    }
}

fn of(tokenizer: &TextTokenizer, text: &str, special: bool) -> Result<Value> {
    let (encoded, places) = (tokenizer.encode(text)?, Places::of(text));
    let around = |ids: &[u32]| -> Vec<Value> {
        let shown = ids.iter().filter(|_| special);
        shown.map(|&id| token(id, tokenizer.token(id), None, &places)).collect()
    };
    let inside = encoded.ids.iter().zip(&encoded.spans);
    let inside = inside.map(|(&id, &span)| token(id, tokenizer.token(id), Some(span), &places));
    let frame = tokenizer.frame();
    Ok(around(&frame.before).into_iter().chain(inside).chain(around(&frame.after)).collect())
}

fn token(id: u32, text: String, span: Option<(usize, usize)>, places: &Places) -> Value {
    let place = |byte: usize| places.character(byte);
    let [start, stop] = span.map_or([None; 2], |(start, stop)| [Some(place(start)), Some(place(stop))]);
    json!({ "id": id, "text": text, "special": span.is_none(), "start": start, "stop": stop })
}

/// Where the characters of a text begin.
struct Places(Vec<usize>);

impl Places {
    fn of(text: &str) -> Places {
        Places(text.char_indices().map(|(at, _)| at).collect())
    }

    /// The number of the character at a byte.
    fn character(&self, byte: usize) -> usize {
        self.0.partition_point(|&at| at < byte)
    }
}
