//! Model answers as JSON, for `chumoku predict --json`, similar commands, and `chumoku serve`.
//!
//! Each text gives one object, independent of where the text came from.
//!
//! # Files
//!
//! - `abstention_thresholds`: thresholds at which a text gets an answer
//! - `answer`: the answer of a predictor to one text
//! - `decision`: the decision to answer, and the abstention reason
//! - `generated`: translations, generated texts, vectors
//! - `tokens`: a text as tokens

mod abstention_thresholds;
mod answer;
mod decision;
mod generated;
mod tokens;

pub use abstention_thresholds::AbstentionThresholds;
pub use answer::{Answer, AnswerOptions, NUMBER_KEYS};
pub use decision::{AbstentionReason, AnswerDecision};
pub use generated::{continuation, translation, vector};
pub use tokens::{ModelTokenizer, Token};

use crate::row;
use crate::text_models::tagger::PredictedSpan;
use serde_json::{Map, Value, json};

/// Returns a probability, rounded to six decimals.
#[must_use]
pub fn rounded_probability(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// Inserts a text into an answer: as `text`, or as `texts` for a pair.
pub fn insert_text(object: &mut Map<String, Value>, text: &str) {
    let text = row::without_columns(text);
    match row::split_pair(text) {
        None => object.insert("text".into(), text.into()),
        Some((first, second)) => object.insert("texts".into(), json!([first, second])),
    };
}

/// Returns predicted spans as a list.
#[must_use]
pub fn spans_json(found: &[PredictedSpan]) -> Value {
    let span = |found: &PredictedSpan| {
        let probability = (found.probability * 1e6).round() / 1e6;
        let (start, end, label) = (found.span.start, found.span.end, &found.span.label);
        json!({ "start": start, "end": end, "label": label, "text": found.text, "probability": probability })
    };
    found.iter().map(span).collect()
}

/// Returns a text with its predicted spans.
#[must_use]
pub fn tagged_text_json(text: &str, found: &[PredictedSpan]) -> Value {
    json!({ "text": text, "spans": spans_json(found) })
}
