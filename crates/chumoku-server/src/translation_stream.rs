//! A translation told word by word, with where each word comes from.

use crate::events::EventSender;
use crate::request_error::{RequestError, Result};
use chumoku::answers::translation;
use chumoku::explain::PartialTranslation;
use chumoku::{TextTranslator, TranslateOptions};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// What is asked.
#[derive(Debug)]
pub(crate) struct TranslationStreamRequest {
    pub(crate) text: String,
    pub(crate) options: TranslateOptions,
    /// Who is handed each step.
    pub(crate) events: EventSender,
}

/// Translates a text, and hands out how the translation grows: the words of the source, then at each step how many words of
/// the best hypothesis before stay, and those that follow with their weights. Gives what `chumoku translate --json` prints.
pub(crate) fn stream_translation(model: &TextTranslator, asked: &TranslationStreamRequest) -> Result<Value> {
    let TranslationStreamRequest { text, options, events: pieces } = asked;
    let mut shown: Option<(Vec<String>, Vec<Vec<f32>>)> = None;
    let found = model.translate_streaming(text, options, &mut |growing| {
        // Steps are skipped for a slow client: each event is relative to the one sent before it.
        if pieces.is_behind() {
            return ControlFlow::Continue(());
        }
        let mut event = match &shown {
            None => event(&growing, 0),
            Some((words, weights)) => {
                let now = growing.words.iter().zip(&growing.weights);
                let kept = now.zip(words.iter().zip(weights)).take_while(|(now, before)| now == before).count();
                // A step may add a piece of a word that is no text yet.
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

/// A step: how many words stay, and those that follow.
fn event(growing: &PartialTranslation<'_>, kept: usize) -> Value {
    let rounded = |x: &f32| json!((f64::from(*x) * 1e4).round() / 1e4);
    let weights = growing.weights[kept..].iter().map(|row| row.iter().map(rounded).collect::<Value>());
    json!({ "text": growing.text, "kept": kept, "words": growing.words[kept..], "weights": weights.collect::<Value>() })
}
