//! `chumoku predict`: the class of texts given, or of every row of a file or of standard input, as a stream.

use super::load;
use super::stream::{Form, Given, stream};
use crate::ExitCode;
use crate::args::{Precision, Predict};
use crate::{harmless, threads};
use chumoku::data::Source;
use chumoku::{ModelKind, NgramClassifier, Prediction, TextClassifier};
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::Path;

/// What predicts classes.
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
        } else {
            let top = top(&model, &prediction, args.top.unwrap_or(1)).into_iter();
            let line: Vec<String> = top.map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            writeln!(out, "{}\t{}", line.join("\t"), harmless(text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn top<'a>(model: &'a Model, prediction: &Prediction, n: usize) -> Vec<(&'a str, f32)> {
    let ranked = prediction.ranked().into_iter().take(n);
    ranked.map(|class| (model.labels()[class].as_str(), prediction.probabilities[class])).collect()
}

/// A probability with as many digits as it is worth.
fn rounded(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// The answer of `--json` to a text, the same wherever the text came from; `top` if so many classes are asked for.
fn object(text: &str, model: &Model, prediction: &Prediction, asked: Option<usize>) -> Map<String, Value> {
    let class = |(label, p): (&str, f32)| json!({ "label": label, "probability": rounded(p) });
    let best = top(model, prediction, 1)[0];
    let mut object = Map::new();
    object.insert("text".into(), text.into());
    object.insert("label".into(), best.0.into());
    object.insert("probability".into(), rounded(best.1));
    if let Some(n) = asked {
        object.insert("top".into(), top(model, prediction, n).into_iter().map(class).collect());
    }
    object
}

/// The same for a row without an answer, its text aside.
fn unanswered(asked: Option<usize>) -> Map<String, Value> {
    let keys = ["label", "probability"].into_iter().map(|key| (key.to_owned(), Value::Null));
    keys.chain(asked.map(|_| ("top".to_owned(), json!([])))).collect()
}

/// The rows of a source, each with its label.
fn rows(args: &Predict, model: &Model, source: Source) -> anyhow::Result<ExitCode> {
    if args.json {
        let form = Form::Objects { unanswered: unanswered(args.top) };
        return stream(source, form, args.strict, |texts| {
            let predictions = model.predict(texts)?;
            let answers = texts.iter().zip(&predictions);
            Ok(answers.map(|(text, prediction)| vec![object(text, model, prediction, args.top).into()]).collect())
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
            let top = top(model, prediction, n).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
        };
        Ok(predictions.iter().map(added).collect())
    })
}
