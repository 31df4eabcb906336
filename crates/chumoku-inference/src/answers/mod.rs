//! Model answers as JSON, for `chumoku predict --json`, similar commands, and `chumoku serve`.
//!
//! Each text gives one object, independent of where the text came from.
//!
//! # Files
//!
//! - `abstention_thresholds`: thresholds at which a text gets an answer
//! - `answer`: the answer of a predictor to one text
//! - `decision`: the decision to answer, and the abstention reason
//! - `feature_values`: values of feature columns for all texts
//! - `generated`: translations, generated texts, vectors
//! - `label_thresholds`: probability thresholds of classes
//! - `row_predictor`: answers to rows, as columns or objects
//! - `tokens`: a text as tokens

mod abstention_thresholds;
mod answer;
mod decision;
mod feature_values;
mod generated;
mod label_thresholds;
mod row_predictor;
mod tokens;

pub use abstention_thresholds::AbstentionThresholds;
pub use answer::{Answer, AnswerOptions};
pub use decision::{AbstentionReason, AnswerDecision};
pub use feature_values::{ModelInputs, feature_values, required_columns};
pub use generated::{continuation, reconstruction, translation, vector};
pub use label_thresholds::{LabelThreshold, ThresholdOptions};
pub use row_predictor::{
    AnswerFormat, PredictOptions, RowPredictor, load_ngrams, load_predictor, load_tagger, span_format, span_values,
};
pub use tokens::{ModelTokenizer, Token};

use crate::row::AsRow;
use crate::text_models::tagger::PredictedSpan;
use serde_json::{Map, Value, json};

/// Returns a probability, rounded to six decimals.
#[must_use]
pub(crate) fn rounded_probability(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// Inserts a text into an answer: as `text`, or as `texts` for a pair.
pub fn insert_text(object: &mut Map<String, Value>, row: impl AsRow) {
    match row.as_row().pair() {
        None => object.insert("text".into(), row.as_row().text().into()),
        Some((first, second)) => object.insert("texts".into(), json!([first, second])),
    };
}

/// Returns predicted spans as a list.
#[must_use]
pub(crate) fn spans_json(found: &[PredictedSpan]) -> Value {
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
