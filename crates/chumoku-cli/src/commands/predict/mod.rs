//! Implements `chumoku predict`: the class, labels or number of the given texts, or of every row of a file or of
//! standard input, as a stream.
//!
//! # Files
//!
//! - `tagger`: taggers

mod tagger;

pub(crate) use tagger::cannot_divide_conll;

use crate::ExitCode;
use crate::answers::row_output::{AnswerFn, AnswerFormat, ModelInputs, RowAnswers};
use crate::answers::shard;
use crate::answers::shard::ShardPlan;
use crate::answers::stream::{CommandInput, stream_shard};
use crate::args::{PredictArgs, ReadArgs};
use crate::data::{columns, pairs};
use crate::models::load;
use crate::progress::print_status;
use crate::{UsageError, threads};
use chumoku::answers::{
    AbstentionReason, AbstentionThresholds, AnswerDecision, NUMBER_KEYS, Predictor, rounded_probability,
};
use chumoku::data::RowSource;
use chumoku::lang::sanitize;
use chumoku::{ModelKind, Prediction, UnreadableValues, pair, tr};
use serde_json::Value;
use std::io::{Write, stdout};

/// Separator of the labels of a row in a column: `chumoku train --separator` accepts it.
const SEPARATOR: &str = "|";

/// Loads the model with the requested thresholds.
fn load(args: &PredictArgs) -> anyhow::Result<Predictor<'static>> {
    let (folder, precision, asked) = (&args.model, args.precision, &args.thresholds);
    Ok(match ModelKind::from_folder(folder)? {
        ModelKind::Ngrams => Predictor::Ngrams(load::ngrams_with_thresholds(folder, precision, asked)?),
        // Loading fails with a message for any other kind of model.
        _ => Predictor::Classifier(load::classifier_with_thresholds(folder, precision, asked)?),
    })
}

/// Chooses the confidence thresholds of `--abstain`, and reports them.
fn abstain_thresholds(model: Predictor<'_>, level: f64) -> anyhow::Result<AbstentionThresholds> {
    let bounds = AbstentionThresholds::for_accuracy(model, level)
        .map_err(|problem| UsageError(format!("--abstain {level}: {problem}")))?;
    print_status(["answers", "回答"], bounds.describe());
    Ok(bounds)
}

/// The model, its abstention thresholds, its inputs, and the requested shard.
type PredictSetup = (Predictor<'static>, Option<AbstentionThresholds>, ModelInputs, Option<ShardPlan>);

/// Loads the model, and checks that the flags suit it.
fn load_checked(args: &PredictArgs) -> anyhow::Result<PredictSetup> {
    if args.html.is_some() {
        let problem = tr!(
            "--html: only available for taggers; use chumoku explain --html for other models",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(UsageError(problem).into());
    }
    let (model, piece) = shard::load_with_shard(args, || load(args))?;
    if args.top.is_some() && model.predicts_numbers() {
        let problem = tr!(
            "--top: this model predicts a number, not classes; leave it out",
            "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    let bounds = args.abstain.map(|level| abstain_thresholds(model, level)).transpose()?;
    let reads = ModelInputs {
        pairs: model.reads_pairs(),
        feature_columns: columns::required_columns(model.columns(), &args.set)?,
    };
    Ok((model, bounds, reads, piece))
}

/// Returns a predictor of rows, and the inputs of the model. If `each_label` is set, multi-label models answer with
/// objects that hold the probability of each label.
pub(crate) fn row_predictor(
    args: &PredictArgs,
    each_label: bool,
) -> anyhow::Result<(RowAnswers<'static>, ModelInputs)> {
    if ModelKind::from_folder(&args.model)? == ModelKind::Tagger {
        columns::required_columns(&[], &args.set)?;
        return Ok((tagger::row_predictor(args)?, ModelInputs::default()));
    }
    let (model, bounds, reads, _) = load_checked(args)?;
    let is_json = args.json || each_label && model.is_multi_label();
    Ok((row_answers(args, model, (bounds, is_json)), reads))
}

pub(crate) fn run(mut args: PredictArgs) -> anyhow::Result<ExitCode> {
    args.reading.use_training_source(&args.model);
    let args = &args;
    threads::start_pool(args.threads)?;
    if ModelKind::from_folder(&args.model)? == ModelKind::Tagger {
        columns::required_columns(&[], &args.set)?;
        return tagger::predict(args);
    }
    let (model, bounds, reads, piece) = load_checked(args)?;
    let reading = ReadArgs { feature_columns: reads.feature_columns, ..args.reading.clone() };
    let texts = match CommandInput::open("predict", args.input.as_deref(), &args.texts, &reading, reads.pairs)? {
        CommandInput::Rows(source) => return predict_rows(args, (model, bounds), *source, piece),
        CommandInput::Texts(texts) => {
            columns::texts_with_values(pairs::from_arguments(texts, reads.pairs)?, model.columns(), &args.set)?
        }
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let verdict = bounds.as_ref().map(|bounds| bounds.decide(model, text, &prediction));
        if args.json {
            writeln!(out, "{}", Value::Object(model.answer_json(text, &prediction, (args.top, verdict))))?;
        } else if let Some(objection) = verdict.and_then(AnswerDecision::abstention_reason) {
            let said = match objection {
                AbstentionReason::LowConfidence => tr!("(not sure)", "（確信なし）"),
                AbstentionReason::UnlikeTraining => tr!("(unlike the training texts)", "（学習データと似ていない）"),
            };
            let p = 100.0
                * match model.target().is_one_class() {
                    true => model.answered_class(&prediction, verdict).1,
                    false => model.confidence(&prediction),
                };
            writeln!(out, "{said}\t{p:.1} %\t{}", sanitize(&pair::display(text)))?;
        } else if let (Some(AnswerDecision::UpToLevel(_)), None) = (verdict, args.top) {
            let (label, p) = model.answered_class(&prediction, verdict);
            writeln!(out, "{}\t{:.1} %\t{}", sanitize(label), 100.0 * p, sanitize(&pair::display(text)))?;
        } else if let Some(estimate) = model.estimate(&prediction) {
            let [score, low, high] = estimate.rounded().map(|x| x.to_string());
            let interval = tr!("{low} to {high}", "{low}〜{high}");
            writeln!(out, "{score}\t{interval}\t{}", sanitize(&pair::display(text)))?;
        } else {
            let answer = model.answer_labels(&prediction, args.top).into_iter();
            let mut line: Vec<String> =
                answer.map(|(label, p)| format!("{}\t{:.1} %", sanitize(label), 100.0 * p)).collect();
            if line.is_empty() {
                line.push(tr!("(no label)\t", "（ラベルなし）\t"));
            }
            writeln!(out, "{}\t{}", line.join("\t"), sanitize(&pair::display(text)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Predicts the rows of a source.
fn predict_rows(
    args: &PredictArgs,
    (model, bounds): (Predictor<'static>, Option<AbstentionThresholds>),
    source: RowSource,
    piece: Option<ShardPlan>,
) -> anyhow::Result<ExitCode> {
    let mut unread = UnreadableValues::new(model.columns());
    let RowAnswers { form, mut answer } = row_answers(args, model, (bounds, args.json));
    let ended = stream_shard(source, form, (args.strict, piece), |texts| {
        unread.count(texts);
        answer(texts)
    });
    columns::report_unread(&unread);
    ended
}

/// Returns a predictor of rows; the answers are objects if `is_json` is set.
fn row_answers(
    args: &PredictArgs,
    model: Predictor<'static>,
    (bounds, is_json): (Option<AbstentionThresholds>, bool),
) -> RowAnswers<'static> {
    let top = args.top;
    if is_json {
        let answer = move |texts: &[&str]| {
            let predictions = model.predict(texts)?;
            let answer = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.as_ref().map(|bounds| bounds.decide(model, text, prediction));
                vec![model.answer_json(text, prediction, (top, verdict)).into()]
            };
            Ok(texts.iter().zip(&predictions).map(answer).collect())
        };
        return RowAnswers {
            form: AnswerFormat::Objects { unanswered: model.empty_answer_json(top) },
            answer: Box::new(answer),
        };
    }
    let columns =
        |names: &[&str], answer: AnswerFn<'static>| RowAnswers { form: AnswerFormat::columns(names, args.bom), answer };
    if model.predicts_numbers() || model.is_multi_label() && top.is_none() {
        let mut names = if model.predicts_numbers() { NUMBER_KEYS.to_vec() } else { vec!["labels"] };
        let width = names.len();
        names.extend(bounds.as_ref().map(|_| "abstained"));
        let added = move |text: &str, prediction: &Prediction| {
            let objection = bounds.as_ref().map(|bounds| bounds.decide(model, text, prediction).abstention_reason());
            let mut told = match objection.flatten() {
                Some(_) => vec![Value::from(""); width],
                None => answer_cells(model, prediction),
            };
            told.extend(objection.map(|objection| Value::from(objection.map_or("", AbstentionReason::name))));
            told
        };
        return columns(&names, answer_each(model, added));
    }
    if let Some(bounds) = bounds {
        let added = move |text: &str, prediction: &Prediction| {
            let verdict = bounds.decide(model, text, prediction);
            let (told, probability) = model.answered_class(prediction, Some(verdict));
            let objection = verdict.abstention_reason();
            let label = if objection.is_some() { "" } else { told };
            vec![
                Value::from(label),
                rounded_probability(probability),
                objection.map_or("", AbstentionReason::name).into(),
            ]
        };
        return columns(&["label", "probability", "abstained"], answer_each(model, added));
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
        let top = model.answer_labels(prediction, top).into_iter();
        top.flat_map(|(label, p)| [Value::from(label), rounded_probability(p)]).collect()
    };
    columns(&names, answer_each(model, added))
}

/// Formats a number with its interval, or the labels, as cells.
fn answer_cells(model: Predictor<'_>, prediction: &Prediction) -> Vec<Value> {
    if let Some(estimate) = model.estimate(prediction) {
        return estimate.rounded().map(Value::from).to_vec();
    }
    let names: Vec<&str> = model.answer_labels(prediction, None).into_iter().map(|(label, _)| label).collect();
    vec![names.join(SEPARATOR).into()]
}

/// Builds an answer function from the cells of each prediction.
fn answer_each(
    model: Predictor<'static>,
    each: impl Fn(&str, &Prediction) -> Vec<Value> + Send + 'static,
) -> AnswerFn<'static> {
    Box::new(move |texts| {
        let predictions = model.predict(texts)?;
        Ok(texts.iter().zip(&predictions).map(|(text, prediction)| each(text, prediction)).collect())
    })
}
