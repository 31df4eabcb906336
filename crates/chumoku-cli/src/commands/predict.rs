//! `chumoku predict`: the class, labels or number of texts given, or of every row of a file or of standard input, as a stream.

use super::shard::{self, Piece};
use super::stream::{Given, stream_piece};
use super::written::{Answer, Answering, Form};
use super::{columns, load, pairs};
use crate::ExitCode;
use crate::args::{Predict, Reading};
use crate::progress::tell;
use crate::{Usage, harmless, threads};
use chumoku::answers::{Bounds, NUMBER, Objection, Predictor, Verdict, rounded};
use chumoku::data::Source;
use chumoku::row::Asked;
use chumoku::{ModelKind, Prediction, Unread, pair, tr};
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

/// What a model reads of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Whether texts are pairs.
    pub(crate) pairs: bool,
    /// The columns beside the text.
    pub(crate) beside: Vec<Asked>,
}

/// A model, from which confidence on it answers, its input, and the shard that is asked for.
type Checked = (Predictor<'static>, Option<Bounds>, Reads, Option<Piece>);

/// Loads the model, and checks that the flags are for it.
fn checked(args: &Predict) -> anyhow::Result<Checked> {
    if args.html.is_some() {
        let problem = tr!(
            "--html: only models that mark spans have such a page; chumoku explain --html shows the answers of others",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(Usage(problem).into());
    }
    let (model, piece) = shard::beside(args, || load(args))?;
    if args.top.is_some() && model.tells_numbers() {
        let problem = tr!(
            "--top: this model gives each text a number and no classes; leave it out",
            "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    let bounds = args.abstain.map(|level| bounds(model, level)).transpose()?;
    let reads = Reads { pairs: model.reads_pairs(), beside: columns::asked_of(model.columns(), &args.set)? };
    Ok((model, bounds, reads, piece))
}

/// How rows are answered, and what the model reads of them. If `each_label` is set, several labels are answered by an object, in
/// which each has its probability.
pub(crate) fn answering(args: &Predict, each_label: bool) -> anyhow::Result<(Answering<'static>, Reads)> {
    if ModelKind::of(&args.model)? == ModelKind::Tagger {
        columns::asked_of(&[], &args.set)?;
        return Ok((super::tagged::answering(args)?, Reads::default()));
    }
    let (model, bounds, reads, _) = checked(args)?;
    let is_json = args.json || each_label && model.has_several();
    Ok((of_rows(args, model, (bounds, is_json)), reads))
}

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    if ModelKind::of(&args.model)? == ModelKind::Tagger {
        columns::asked_of(&[], &args.set)?;
        return super::tagged::predict(args);
    }
    let (model, bounds, reads, piece) = checked(args)?;
    let reading = Reading { beside: reads.beside, ..args.reading.clone() };
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &reading, reads.pairs)? {
        Given::Rows(source) => return rows(args, (model, bounds), *source, piece),
        Given::Texts(texts) => columns::beside(pairs::of_arguments(texts, reads.pairs)?, model.columns(), &args.set)?,
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
            let p = 100.0
                * match model.problem().is_one_class() {
                    true => model.told(&prediction, verdict).1,
                    false => model.sureness(&prediction),
                };
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
fn rows(
    args: &Predict,
    (model, bounds): (Predictor<'static>, Option<Bounds>),
    source: Source,
    piece: Option<Piece>,
) -> anyhow::Result<ExitCode> {
    let mut unread = Unread::of(model.columns());
    let Answering { form, mut answer } = of_rows(args, model, (bounds, args.json));
    let ended = stream_piece(source, form, (args.strict, piece), |texts| {
        unread.see(texts);
        answer(texts)
    });
    columns::tell_of(&unread);
    ended
}

/// How rows are answered: by objects, if `is_json` is set.
fn of_rows(args: &Predict, model: Predictor<'static>, (bounds, is_json): (Option<Bounds>, bool)) -> Answering<'static> {
    let top = args.top;
    if is_json {
        let answer = move |texts: &[&str]| {
            let predictions = model.predict(texts)?;
            let answer = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.as_ref().map(|bounds| bounds.verdict(model, text, prediction));
                vec![model.object(text, prediction, (top, verdict)).into()]
            };
            Ok(texts.iter().zip(&predictions).map(answer).collect())
        };
        return Answering { form: Form::Objects { unanswered: model.unanswered(top) }, answer: Box::new(answer) };
    }
    let columns = |names: &[&str], answer: Answer<'static>| Answering { form: Form::columns(names, args.bom), answer };
    if model.tells_numbers() || model.has_several() && top.is_none() {
        let mut names = if model.tells_numbers() { NUMBER.to_vec() } else { vec!["labels"] };
        let width = names.len();
        names.extend(bounds.as_ref().map(|_| "abstained"));
        let added = move |text: &str, prediction: &Prediction| {
            let objection = bounds.as_ref().map(|bounds| bounds.verdict(model, text, prediction).objection());
            let mut told = match objection.flatten() {
                Some(_) => vec![Value::from(""); width],
                None => told(model, prediction),
            };
            told.extend(objection.map(|objection| Value::from(objection.map_or("", Objection::name))));
            told
        };
        return columns(&names, of_each(model, added));
    }
    if let Some(bounds) = bounds {
        let added = move |text: &str, prediction: &Prediction| {
            let verdict = bounds.verdict(model, text, prediction);
            let (told, probability) = model.told(prediction, Some(verdict));
            let objection = verdict.objection();
            let label = if objection.is_some() { "" } else { told };
            vec![Value::from(label), rounded(probability), objection.map_or("", Objection::name).into()]
        };
        return columns(&["label", "probability", "abstained"], of_each(model, added));
    }
    let n = top.unwrap_or(1).min(model.labels().len());
    let names: Vec<String> = (1..=n)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let added = move |_: &str, prediction: &Prediction| {
        let top = model.answer(prediction, top).into_iter();
        top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
    };
    columns(&names, of_each(model, added))
}

/// A number with its interval, or the labels, as columns have them.
fn told(model: Predictor<'_>, prediction: &Prediction) -> Vec<Value> {
    if let Some(estimate) = model.estimate(prediction) {
        return estimate.rounded().map(Value::from).to_vec();
    }
    let names: Vec<&str> = model.answer(prediction, None).into_iter().map(|(label, _)| label).collect();
    vec![names.join(SEPARATOR).into()]
}

/// What answers texts, of what each prediction becomes.
fn of_each(
    model: Predictor<'static>,
    each: impl Fn(&str, &Prediction) -> Vec<Value> + Send + 'static,
) -> Answer<'static> {
    Box::new(move |texts| {
        let predictions = model.predict(texts)?;
        Ok(texts.iter().zip(&predictions).map(|(text, prediction)| each(text, prediction)).collect())
    })
}
