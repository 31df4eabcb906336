//! Streams a translation word by word, with the alignment of each word.

use crate::events::EventSender;
use crate::request_error::{RequestError, Result};
use chumoku::answers::translation;
use chumoku::explain::PartialTranslation;
use chumoku::{TextTranslator, TranslateOptions};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// A request for a streamed translation.
#[derive(Debug)]
pub(crate) struct TranslationStreamRequest {
    pub(crate) text: String,
    pub(crate) options: TranslateOptions,
    /// Receives each step.
    pub(crate) events: EventSender,
}

/// Translates a text, and sends an event for each step of the search. The first event has the words of the source. Each
/// event has the number of words kept from the previous best hypothesis, and the new words with their weights. Returns
/// the JSON of `chumoku translate --json`.
pub(crate) fn stream_translation(model: &TextTranslator, request: &TranslationStreamRequest) -> Result<Value> {
    let TranslationStreamRequest { text, options, events: pieces } = request;
    let mut shown: Option<(Vec<String>, Vec<Vec<f32>>)> = None;
    let found = model.translate_streaming(text, options, &mut |growing| {
        // A slow client misses steps: each event is relative to the last one sent.
        if pieces.is_behind() {
            return ControlFlow::Continue(());
        }
        let mut event = match &shown {
            None => event(&growing, 0),
            Some((words, weights)) => {
                let now = growing.words.iter().zip(&growing.weights);
                let kept = now.zip(words.iter().zip(weights)).take_while(|(now, before)| now == before).count();
                // A step may add a part of a word that is not yet text.
                if kept == words.len() && kept == growing.words.len() {
                    return ControlFlow::Continue(());
                }
                event(&growing, kept)
            }
        };
        if shown.is_none() {
            event["source"] = growing.source_words.iter().map(|word| json!(word.text)).collect();
        }
        shown = Some((growing.words, growing.weights));
        if pieces.send(&event).is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    translation(text, &found, model, 1, false).map(Value::from).map_err(RequestError::from)
}

/// Returns the event of a step: the number of words that stay, and the new words.
fn event(growing: &PartialTranslation<'_>, kept: usize) -> Value {
    let rounded = |x: &f32| json!((f64::from(*x) * 1e4).round() / 1e4);
    let weights = growing.weights[kept..].iter().map(|row| row.iter().map(rounded).collect::<Value>());
    json!({ "text": growing.text, "kept": kept, "words": growing.words[kept..], "weights": weights.collect::<Value>() })
}
