//! `chumoku predict`: the class of texts given, or of every row of a file or of standard input, as a stream.

use super::stream::{Given, stream};
use crate::args::Predict;
use crate::{harmless, threads};
use chumoku::data::Source;
use chumoku::{Prediction, TextClassifier};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::process::ExitCode;

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextClassifier::load(&args.model)?;
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &args.reading)? {
        Given::Rows(source) => return rows(args, &model, *source),
        Given::Texts(texts) => texts,
    };
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let top = top(&model, &prediction, args.top);
        if args.json {
            writeln!(out, "{}", to_json(text, &model, &prediction, args.top))?;
        } else {
            let line: Vec<String> =
                top.iter().map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            writeln!(out, "{}\t{}", line.join("\t"), harmless(text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn top<'a>(model: &'a TextClassifier, prediction: &Prediction, n: usize) -> Vec<(&'a str, f32)> {
    let ranked = prediction.ranked().into_iter().take(n);
    ranked.map(|class| (model.labels()[class].as_str(), prediction.probabilities[class])).collect()
}

/// A probability with as many digits as it is worth.
fn rounded(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

fn to_json(text: &str, model: &TextClassifier, prediction: &Prediction, n: usize) -> Value {
    let top = top(model, prediction, n.max(1));
    let mut value = json!({ "text": text, "label": top[0].0, "probability": rounded(top[0].1) });
    if n > 1 {
        value["top"] = top.iter().map(|(label, p)| json!({ "label": label, "probability": rounded(*p) })).collect();
    }
    value
}

/// The rows of a source, each with its label.
fn rows(args: &Predict, model: &TextClassifier, source: Source) -> anyhow::Result<ExitCode> {
    let n = args.top.min(model.labels().len());
    let names: Vec<String> = (1..=n)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stream(source, &names, args.json, |texts| {
        let predictions = model.predict(texts)?;
        let added = |prediction: &Prediction| {
            let top = top(model, prediction, n).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
        };
        Ok(predictions.iter().map(added).collect())
    })
}
