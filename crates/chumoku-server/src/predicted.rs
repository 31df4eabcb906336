//! Requests to predictors and taggers, and the JSON of their answers.

use crate::limits::Limits;
use crate::model::{Loaded, Model};
use crate::refusal::{Refusal, Result};
use crate::written::Written;
use chumoku::answers::{Bounds, Predictor, spanned};
use chumoku::{FoundSpan, Prediction};
use serde_json::{Value, json};

/// Texts to predict, and the form of the answer.
#[derive(Debug)]
pub(crate) struct Predict {
    pub(crate) texts: Vec<String>,
    /// Set if the request had a single text: its answer is not in a list.
    pub(crate) is_one: bool,
    pub(crate) form: Form,
}

/// The form of an answer.
#[derive(Debug)]
pub(crate) enum Form {
    /// Labels with their scores; `raw` for logarithms.
    Scores { raw: bool },
    /// The object of `chumoku predict --json`, with the `top` classes or with abstention by `bounds`.
    Full { top: Option<usize>, bounds: Option<Box<Bounds>> },
}

/// Predictions or spans of a batch.
pub(crate) enum Found {
    Spans(Vec<Vec<FoundSpan>>),
    Predictions(Vec<Prediction>),
}

impl Found {
    /// Takes out the results of the first `count` texts.
    pub(crate) fn split_first(&mut self, count: usize) -> Found {
        match self {
            Found::Spans(found) => Found::Spans(found.drain(..count.min(found.len())).collect()),
            Found::Predictions(found) => Found::Predictions(found.drain(..count.min(found.len())).collect()),
        }
    }
}

/// Predicts some texts.
pub(crate) fn find(loaded: &Loaded, texts: &[&str]) -> Result<Found> {
    match &loaded.model {
        Model::Tagger(model) => Ok(Found::Spans(model.predict(texts)?)),
        model => {
            let predictor = model.predictor().ok_or_else(Refusal::broken)?;
            Ok(Found::Predictions(predictor.predict(texts)?))
        }
    }
}

impl Predict {
    /// Predicts the texts in chunks and writes the answer.
    pub(crate) fn answer(&self, loaded: &Loaded, limits: &Limits) -> Result<Written> {
        let values = chunks(&self.texts, limits.batch_characters).flat_map(|texts| {
            let given: Vec<&str> = texts.iter().map(String::as_str).collect();
            match find(loaded, &given) {
                Ok(found) => self.values(loaded, texts, found),
                Err(refusal) => Box::new(std::iter::once(Err(refusal))),
            }
        });
        Written::list(values, self.is_one, limits.answer)
    }

    /// Writes the answer from results that are already computed.
    pub(crate) fn write(&self, loaded: &Loaded, found: Found, limits: &Limits) -> Result<Written> {
        Written::list(self.values(loaded, &self.texts, found), self.is_one, limits.answer)
    }

    /// The answer to each text, made one at a time.
    fn values<'a>(&'a self, loaded: &'a Loaded, texts: &'a [String], found: Found) -> Values<'a> {
        match found {
            Found::Spans(found) => Box::new(texts.iter().zip(found).map(|(text, found)| {
                Ok(match self.form {
                    Form::Scores { .. } => entities(&found),
                    Form::Full { .. } => spanned(text, &found),
                })
            })),
            Found::Predictions(found) => Box::new(texts.iter().zip(found).map(|(text, prediction)| {
                let predictor = loaded.model.predictor().ok_or_else(Refusal::broken)?;
                Ok(match &self.form {
                    Form::Scores { raw } => scores(predictor, &prediction, *raw),
                    Form::Full { top, bounds } => {
                        let verdict = bounds.as_ref().map(|bounds| bounds.verdict(predictor, text, &prediction));
                        Value::Object(predictor.object(text, &prediction, (*top, verdict)))
                    }
                })
            })),
        }
    }
}

type Values<'a> = Box<dyn Iterator<Item = Result<Value>> + 'a>;

/// Cuts texts into chunks of at most `most` bytes, or of one text.
fn chunks(mut texts: &[String], most: usize) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |text: &&String| {
            bytes += text.len();
            bytes <= most
        };
        let count = texts.iter().take_while(fits).count().max(1).min(texts.len());
        let (first, rest) = texts.split_at(count);
        texts = rest;
        (!first.is_empty()).then_some(first)
    })
}

fn scores(predictor: Predictor<'_>, prediction: &Prediction, raw: bool) -> Value {
    let each = predictor.scores(prediction, raw).into_iter();
    each.map(|(label, score)| json!({ "label": label, "score": score })).collect()
}

/// Spans as token classifiers of Hugging Face's libraries give them.
fn entities(found: &[FoundSpan]) -> Value {
    let entity = |found: &FoundSpan| {
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
    fn chunks_hold_all_texts_in_order_and_no_more_than_they_may() {
        let texts: Vec<String> = [3, 0, 9, 1, 1, 1, 5].map(|length| "x".repeat(length)).into();
        let lengths = |most: usize| -> Vec<Vec<usize>> {
            chunks(&texts, most).map(|chunk| chunk.iter().map(String::len).collect()).collect()
        };
        assert_eq!(lengths(4), [vec![3, 0], vec![9], vec![1, 1, 1], vec![5]]);
        assert_eq!(lengths(0), [vec![3], vec![0], vec![9], vec![1], vec![1], vec![1], vec![5]].to_vec());
        assert_eq!(lengths(99).len(), 1);
        assert_eq!(chunks(&[], 9).count(), 0);
    }
}
