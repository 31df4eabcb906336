//! What a model's answers are as JSON: the objects of `chumoku predict --json` and its like, and of `chumoku serve`.
//!
//! One text, one object, the same wherever the text came from.
//!
//! # Files
//!
//! - `bounds`: thresholds at which a text gets an answer
//! - `predictor`: classifiers and n-gram models behind one interface
//! - `tokens`: a text as tokens
//! - `verdict`: the decision to answer, and the abstention reason
//! - `written`: translations, generated texts, vectors

mod abstention_thresholds;
mod decision;
mod generated;
mod predictor;
mod tokens;

pub use abstention_thresholds::AbstentionThresholds;
pub use decision::{AbstentionReason, AnswerDecision};
pub use generated::{continuation, translation, vector};
pub use predictor::{NUMBER_KEYS, Predictor};
pub use tokens::{ModelTokenizer, Token};

use crate::text_tagger::PredictedSpan;
use crate::{pair, row};
use serde_json::{Map, Value, json};

/// A probability with as many digits as it is worth.
#[must_use]
pub fn rounded_probability(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// Puts a text into an answer: as `text` or, both of a pair, as `texts`.
pub fn insert_text(object: &mut Map<String, Value>, text: &str) {
    let text = row::text_of(text);
    match pair::split(text) {
        None => object.insert("text".into(), text.into()),
        Some((first, second)) => object.insert("texts".into(), json!([first, second])),
    };
}

/// Spans that were found in a text, as a list.
#[must_use]
pub fn spans_json(found: &[PredictedSpan]) -> Value {
    let span = |found: &PredictedSpan| {
        let probability = (found.probability * 1e6).round() / 1e6;
        let (start, end, label) = (found.span.start, found.span.end, &found.span.label);
        json!({ "start": start, "end": end, "label": label, "text": found.text, "probability": probability })
    };
    found.iter().map(span).collect()
}

/// A text with the spans that were found in it.
#[must_use]
pub fn tagged_text_json(text: &str, found: &[PredictedSpan]) -> Value {
    json!({ "text": text, "spans": spans_json(found) })
}
