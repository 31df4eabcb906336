//! `chumoku predict`: the class, labels or number of texts given, or of every row of a file or of standard input, as a stream.

use super::load;
use super::stream::{Form, Given, stream};
use crate::ExitCode;
use crate::args::{Precision, Predict};
use crate::{harmless, threads};
use chumoku::data::Source;
use chumoku::{Estimate, ModelKind, NgramClassifier, Prediction, TextClassifier, tr};
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::Path;

/// Between the labels of a row, in a column: what `chumoku train --separator` takes.
const SEPARATOR: &str = "|";

/// What a number has, in JSON and in columns.
const NUMBER: [&str; 3] = ["score", "low", "high"];

/// What predicts classes, labels or numbers.
enum Model {
    Classifier(&'static TextClassifier),
    Ngrams(&'static NgramClassifier),
}

impl Model {
    fn load(folder: &Path, precision: Option<Precision>) -> anyhow::Result<Model> {
        Ok(match ModelKind::of(folder)? {
            ModelKind::Ngrams => Model::Ngrams(load::ngrams(folder, precision)?),
            // Says what is wrong with a model of another kind.
            _ => Model::Classifier(load::classifier(folder, precision)?),
        })
    }

    fn labels(&self) -> &[String] {
        match self {
            Model::Classifier(model) => model.labels(),
            Model::Ngrams(model) => model.labels(),
        }
    }

    /// Whether a text may have several labels.
    fn has_several(&self) -> bool {
        matches!(self, Model::Classifier(model) if model.config().problem.labels().is_some())
    }

    /// The number, where that is what the model tells.
    fn estimate(&self, prediction: &Prediction) -> Option<Estimate> {
        match self {
            Model::Classifier(model) => model.estimate(prediction),
            Model::Ngrams(_) => None,
        }
    }

    /// Whether texts get numbers.
    fn tells_numbers(&self) -> bool {
        matches!(self, Model::Classifier(model) if model.config().problem.number().is_some())
    }

    /// The classes or labels that are the answer, the most probable first: those that are predicted, or so many as were asked
    /// for.
    fn answer<'a>(&'a self, prediction: &Prediction, top: Option<usize>) -> Vec<(&'a str, f32)> {
        let found = match (self, top) {
            (_, Some(n)) => prediction.ranked().into_iter().take(n).collect(),
            (Model::Classifier(model), None) => model.predicted(prediction),
            (Model::Ngrams(_), None) => vec![prediction.class()],
        };
        found.into_iter().map(|class| (self.labels()[class].as_str(), prediction.probabilities[class])).collect()
    }

    fn predict(&self, texts: &[&str]) -> chumoku::Result<Vec<Prediction>> {
        match self {
            Model::Classifier(model) => model.predict(texts),
            Model::Ngrams(model) => model.predict(texts),
        }
    }
}

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = Model::load(&args.model, args.precision)?;
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &args.reading)? {
        Given::Rows(source) => return rows(args, &model, *source),
        Given::Texts(texts) => texts,
    };
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        if args.json {
            writeln!(out, "{}", Value::Object(object(text, &model, &prediction, args.top)))?;
        } else if let Some(estimate) = model.estimate(&prediction) {
            let [score, low, high] = estimate.rounded().map(|x| x.to_string());
            let interval = tr!("{low} to {high}", "{low}〜{high}");
            writeln!(out, "{score}\t{interval}\t{}", harmless(text))?;
        } else {
            let answer = model.answer(&prediction, args.top).into_iter();
            let mut line: Vec<String> =
                answer.map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            if line.is_empty() {
                line.push(tr!("(no label)\t", "（ラベルなし）\t"));
            }
            writeln!(out, "{}\t{}", line.join("\t"), harmless(text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A probability with as many digits as it is worth.
fn rounded(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// The answer of `--json` to a text, the same wherever the text came from; `top` if so many classes are asked for.
fn object(text: &str, model: &Model, prediction: &Prediction, asked: Option<usize>) -> Map<String, Value> {
    let class = |(label, p): (&str, f32)| json!({ "label": label, "probability": rounded(p) });
    let mut object = Map::new();
    object.insert("text".into(), text.into());
    if let Some(estimate) = model.estimate(prediction) {
        object.extend(NUMBER.into_iter().zip(estimate.rounded()).map(|(key, x)| (key.to_owned(), json!(x))));
        return object;
    }
    if model.has_several() {
        object.insert("labels".into(), model.answer(prediction, asked).into_iter().map(class).collect());
        return object;
    }
    let best = prediction.class();
    object.insert("label".into(), model.labels()[best].as_str().into());
    object.insert("probability".into(), rounded(prediction.probabilities[best]));
    if let Some(n) = asked {
        object.insert("top".into(), model.answer(prediction, Some(n)).into_iter().map(class).collect());
    }
    object
}

/// The same for a row without an answer, its text aside.
fn unanswered(model: &Model, asked: Option<usize>) -> Map<String, Value> {
    if model.tells_numbers() {
        return NUMBER.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
    }
    if model.has_several() {
        return Map::from_iter([("labels".to_owned(), Value::Null)]);
    }
    let keys = ["label", "probability"].into_iter().map(|key| (key.to_owned(), Value::Null));
    keys.chain(asked.map(|_| ("top".to_owned(), json!([])))).collect()
}

/// The rows of a source, each with its label.
fn rows(args: &Predict, model: &Model, source: Source) -> anyhow::Result<ExitCode> {
    if args.json {
        let form = Form::Objects { unanswered: unanswered(model, args.top) };
        return stream(source, form, args.strict, |texts| {
            let predictions = model.predict(texts)?;
            let answers = texts.iter().zip(&predictions);
            Ok(answers.map(|(text, prediction)| vec![object(text, model, prediction, args.top).into()]).collect())
        });
    }
    if model.tells_numbers() {
        return stream(source, Form::Columns { names: &NUMBER, bom: args.bom }, args.strict, |texts| {
            let numbers = |p: &Prediction| {
                model.estimate(p).map(|estimate| estimate.rounded().map(Value::from).to_vec()).unwrap_or_default()
            };
            Ok(model.predict(texts)?.iter().map(numbers).collect())
        });
    }
    if model.has_several() && args.top.is_none() {
        return stream(source, Form::Columns { names: &["labels"], bom: args.bom }, args.strict, |texts| {
            let joined = |prediction: &Prediction| {
                let names: Vec<&str> = model.answer(prediction, None).into_iter().map(|(label, _)| label).collect();
                vec![Value::from(names.join(SEPARATOR))]
            };
            Ok(model.predict(texts)?.iter().map(joined).collect())
        });
    }
    let n = args.top.unwrap_or(1).min(model.labels().len());
    let names: Vec<String> = (1..=n)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stream(source, Form::Columns { names: &names, bom: args.bom }, args.strict, |texts| {
        let predictions = model.predict(texts)?;
        let added = |prediction: &Prediction| {
            let top = model.answer(prediction, Some(n)).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
        };
        Ok(predictions.iter().map(added).collect())
    })
}
