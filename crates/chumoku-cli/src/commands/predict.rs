//! `chumoku predict`: the class, labels or number of texts given, or of every row of a file or of standard input, as a stream.

use super::stream::{Form, Given, stream};
use super::{columns, load, pairs};
use crate::ExitCode;
use crate::args::{Predict, Reading};
use crate::progress::tell;
use crate::{Usage, harmless, threads};
use chumoku::answers::{Bounds, NUMBER, Objection, Predictor, Verdict, rounded};
use chumoku::data::Source;
use chumoku::{ModelKind, Prediction, pair, tr};
use serde_json::Value;
use std::io::{Write, stdout};

/// Between the labels of a row, in a column: what `chumoku train --separator` takes.
const SEPARATOR: &str = "|";

/// The model that is asked for.
fn load(args: &Predict) -> anyhow::Result<Predictor<'static>> {
    let (folder, precision, asked) = (&args.model, args.precision, &args.thresholds);
    Ok(match ModelKind::of(folder)? {
        ModelKind::Ngrams => Predictor::Ngrams(load::ngrams_at(folder, precision, asked)?),
        // Says what is wrong with a model of another kind.
        _ => Predictor::Classifier(load::classifier_at(folder, precision, asked)?),
    })
}

/// From where on answers are given, said aloud.
fn bounds(model: Predictor<'_>, level: f64) -> anyhow::Result<Bounds> {
    let bounds = Bounds::of(model, level).map_err(|problem| Usage(format!("--abstain {level}: {problem}")))?;
    tell(["answers", "回答"], bounds.describe());
    Ok(bounds)
}

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    if ModelKind::of(&args.model)? == ModelKind::Tagger {
        columns::asked_of(&[], &args.set)?;
        return super::tagged::predict(args);
    }
    if args.html.is_some() {
        let problem = tr!(
            "--html: only models that mark spans have such a page; chumoku explain --html shows the answers of others",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(Usage(problem).into());
    }
    let model = load(args)?;
    if args.top.is_some() && model.tells_numbers() {
        let problem = tr!(
            "--top: this model gives each text a number and no classes; leave it out",
            "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    let bounds = args.abstain.map(|level| bounds(model, level)).transpose()?;
    let reads_pairs = model.reads_pairs();
    let reading = Reading { beside: columns::asked_of(model.columns(), &args.set)?, ..args.reading.clone() };
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &reading, reads_pairs)? {
        Given::Rows(source) => return rows(args, model, bounds.as_ref(), *source),
        Given::Texts(texts) => columns::beside(pairs::of_arguments(texts, reads_pairs)?, model.columns(), &args.set)?,
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let verdict = bounds.as_ref().map(|bounds| bounds.verdict(model, text, &prediction));
        if args.json {
            writeln!(out, "{}", Value::Object(model.object(text, &prediction, (args.top, verdict))))?;
        } else if let Some(objection) = verdict.and_then(Verdict::objection) {
            let said = match objection {
                Objection::Unsure => tr!("(not sure)", "（確信なし）"),
                Objection::Unlike => tr!("(unlike the training texts)", "（学習データと似ていない）"),
            };
            let p = 100.0 * model.told(&prediction, verdict).1;
            writeln!(out, "{said}\t{p:.1} %\t{}", harmless(&pair::shown(text)))?;
        } else if let (Some(Verdict::Down(_)), None) = (verdict, args.top) {
            let (label, p) = model.told(&prediction, verdict);
            writeln!(out, "{}\t{:.1} %\t{}", harmless(label), 100.0 * p, harmless(&pair::shown(text)))?;
        } else if let Some(estimate) = model.estimate(&prediction) {
            let [score, low, high] = estimate.rounded().map(|x| x.to_string());
            let interval = tr!("{low} to {high}", "{low}〜{high}");
            writeln!(out, "{score}\t{interval}\t{}", harmless(&pair::shown(text)))?;
        } else {
            let answer = model.answer(&prediction, args.top).into_iter();
            let mut line: Vec<String> =
                answer.map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            if line.is_empty() {
                line.push(tr!("(no label)\t", "（ラベルなし）\t"));
            }
            writeln!(out, "{}\t{}", line.join("\t"), harmless(&pair::shown(text)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of a source, each with its label.
fn rows(args: &Predict, model: Predictor<'_>, bounds: Option<&Bounds>, source: Source) -> anyhow::Result<ExitCode> {
    let mut unread = columns::Unread::of(model.columns());
    let ended = answered(args, model, bounds, source, &mut |texts| {
        unread.see(texts);
        model.predict(texts)
    });
    unread.tell();
    ended
}

/// The rows of a source with what `predict` says of them.
fn answered(
    args: &Predict,
    model: Predictor<'_>,
    bounds: Option<&Bounds>,
    source: Source,
    predict: &mut dyn FnMut(&[&str]) -> chumoku::Result<Vec<Prediction>>,
) -> anyhow::Result<ExitCode> {
    if args.json {
        let form = Form::Objects { unanswered: model.unanswered(args.top) };
        return stream(source, form, args.strict, |texts| {
            let predictions = predict(texts)?;
            let answers = texts.iter().zip(&predictions);
            let answer = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.map(|bounds| bounds.verdict(model, text, prediction));
                vec![model.object(text, prediction, (args.top, verdict)).into()]
            };
            Ok(answers.map(answer).collect())
        });
    }
    if model.tells_numbers() {
        return stream(source, Form::Columns { names: &NUMBER, bom: args.bom }, args.strict, |texts| {
            let numbers = |p: &Prediction| {
                model.estimate(p).map(|estimate| estimate.rounded().map(Value::from).to_vec()).unwrap_or_default()
            };
            Ok(predict(texts)?.iter().map(numbers).collect())
        });
    }
    if model.has_several() && args.top.is_none() {
        return stream(source, Form::Columns { names: &["labels"], bom: args.bom }, args.strict, |texts| {
            let joined = |prediction: &Prediction| {
                let names: Vec<&str> = model.answer(prediction, None).into_iter().map(|(label, _)| label).collect();
                vec![Value::from(names.join(SEPARATOR))]
            };
            Ok(predict(texts)?.iter().map(joined).collect())
        });
    }
    if let Some(bounds) = bounds {
        let names = ["label", "probability", "abstained"];
        return stream(source, Form::Columns { names: &names, bom: args.bom }, args.strict, |texts| {
            let predictions = predict(texts)?;
            let added = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.verdict(model, text, prediction);
                let (told, probability) = model.told(prediction, Some(verdict));
                let objection = verdict.objection();
                let label = if objection.is_some() { "" } else { told };
                vec![Value::from(label), rounded(probability), objection.map_or("", Objection::name).into()]
            };
            Ok(texts.iter().zip(&predictions).map(added).collect())
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
        let predictions = predict(texts)?;
        let added = |prediction: &Prediction| {
            let top = model.answer(prediction, args.top).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
        };
        Ok(predictions.iter().map(added).collect())
    })
}
