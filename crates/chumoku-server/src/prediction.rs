//! Predictions of classifiers and taggers, and the JSON of their answers.

use crate::answer_body::AnswerBody;
use crate::limits::Limits;
use crate::model::{LoadedModel, ServerModel};
use crate::request_error::{RequestError, Result};
use chumoku::answers::{AnswerOptions, tagged_text_json};
use chumoku::row::{AsRow, Row, RowRef, as_rows};
use chumoku::{PredictedSpan, Prediction, Predictor};
use serde_json::{Value, json};

/// Texts to predict, and the format of the answer.
#[derive(Debug)]
pub(crate) struct PredictRequest {
    pub(crate) rows: Vec<Row>,
    /// True if the request had a single text: its answer is not in a list.
    pub(crate) is_one: bool,
    pub(crate) form: PredictFormat,
}

/// Format of an answer.
#[derive(Debug)]
pub(crate) enum PredictFormat {
    /// Labels with their scores; `raw` for logarithms.
    Scores { raw: bool },
    /// The object of `chumoku predict --json`.
    Full(Box<AnswerOptions>),
}

/// Predictions or spans of a batch.
pub(crate) enum BatchResults {
    Spans(Vec<Vec<PredictedSpan>>),
    Predictions(Vec<Prediction>),
}

impl BatchResults {
    /// Takes out the results of the first `count` texts.
    pub(crate) fn split_first(&mut self, count: usize) -> BatchResults {
        match self {
            BatchResults::Spans(found) => BatchResults::Spans(found.drain(..count.min(found.len())).collect()),
            BatchResults::Predictions(found) => {
                BatchResults::Predictions(found.drain(..count.min(found.len())).collect())
            }
        }
    }
}

/// Predicts some texts.
pub(crate) fn predict_batch(loaded: &LoadedModel, rows: &[RowRef<'_>]) -> Result<BatchResults> {
    match &loaded.model {
        ServerModel::Tagger(model) => {
            Ok(BatchResults::Spans(model.predict(&rows.iter().map(|row| row.text()).collect::<Vec<_>>())?))
        }
        model => {
            let predictor = model.predictor().ok_or_else(RequestError::model_failed)?;
            Ok(BatchResults::Predictions(predictor.predict(rows)?))
        }
    }
}

impl PredictRequest {
    /// Predicts the texts in chunks and writes the answer.
    pub(crate) fn answer(&self, loaded: &LoadedModel, limits: &Limits) -> Result<AnswerBody> {
        let values =
            chunks(&self.rows, limits.batch_characters).flat_map(|rows| match predict_batch(loaded, &as_rows(rows)) {
                Ok(found) => self.values(loaded, rows, found),
                Err(refusal) => Box::new(std::iter::once(Err(refusal))),
            });
        AnswerBody::list(values, self.is_one, limits.answer)
    }

    /// Writes the answer from results that are already computed.
    pub(crate) fn write(&self, loaded: &LoadedModel, found: BatchResults, limits: &Limits) -> Result<AnswerBody> {
        AnswerBody::list(self.values(loaded, &self.rows, found), self.is_one, limits.answer)
    }

    /// Returns the answer to each text, computed lazily.
    fn values<'a>(&'a self, loaded: &'a LoadedModel, rows: &'a [Row], found: BatchResults) -> Values<'a> {
        match found {
            BatchResults::Spans(found) => Box::new(rows.iter().zip(found).map(|(row, found)| {
                Ok(match self.form {
                    PredictFormat::Scores { .. } => token_entities(&found),
                    PredictFormat::Full(_) => tagged_text_json(row.as_row().text(), &found),
                })
            })),
            BatchResults::Predictions(found) => Box::new(rows.iter().zip(found).map(|(row, prediction)| {
                let predictor = loaded.model.predictor().ok_or_else(RequestError::model_failed)?;
                Ok(match &self.form {
                    PredictFormat::Scores { raw } => scores(predictor, &prediction, *raw),
                    PredictFormat::Full(options) => {
                        Value::Object(options.answer(predictor, row.as_row(), prediction).json())
                    }
                })
            })),
        }
    }
}

type Values<'a> = Box<dyn Iterator<Item = Result<Value>> + 'a>;

/// Splits rows into chunks of at most `most` bytes, or of one row.
fn chunks(mut rows: &[Row], most: usize) -> impl Iterator<Item = &[Row]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |row: &&Row| {
            bytes += row.as_row().joined_len();
            bytes <= most
        };
        let count = rows.iter().take_while(fits).count().max(1).min(rows.len());
        let (first, rest) = rows.split_at(count);
        rows = rest;
        (!first.is_empty()).then_some(first)
    })
}

fn scores(predictor: Predictor<'_>, prediction: &Prediction, raw: bool) -> Value {
    let each = predictor.scores(prediction, raw).into_iter();
    each.map(|(label, score)| json!({ "label": label, "score": score })).collect()
}

/// Returns spans in the format of Hugging Face's token classification.
fn token_entities(found: &[PredictedSpan]) -> Value {
    let entity = |found: &PredictedSpan| {
        let score = (found.probability * 1e6).round() / 1e6;
        let (start, end, label) = (found.span.start, found.span.end, &found.span.label);
        json!({ "entity_group": label, "score": score, "word": found.text, "start": start, "end": end })
    };
    found.iter().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_all_texts_in_order_within_the_limit() {
        let rows: Vec<Row> = [3, 0, 9, 1, 1, 1, 5].map(|length| "x".repeat(length).into()).into();
        let lengths = |most: usize| -> Vec<Vec<usize>> {
            chunks(&rows, most).map(|chunk| chunk.iter().map(|row| row.as_row().joined_len()).collect()).collect()
        };
        assert_eq!(lengths(4), [vec![3, 0], vec![9], vec![1, 1, 1], vec![5]]);
        assert_eq!(lengths(0), [vec![3], vec![0], vec![9], vec![1], vec![1], vec![1], vec![5]].to_vec());
        assert_eq!(lengths(99).len(), 1);
        assert_eq!(chunks(&[], 9).count(), 0);
    }
}
