//! Implements `chumoku predict`: the class, labels or number of the given texts, or of every row of a file or of
//! standard input, as a stream.
//!
//! # Files
//!
//! - `tagger`: taggers

mod tagger;

pub(crate) use tagger::cannot_divide_conll;

use crate::ExitCode;
use crate::answers::row_output::RowAnswers;
use crate::answers::shard::{self, ShardPlan};
use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::{PredictArgs, ReadArgs};
use crate::data::{columns, pairs};
use crate::models::load::report_threshold;
use crate::progress::print_status;
use crate::{UsageError, threads};
use chumoku::answers::{AbstentionReason, AnswerDecision, ModelInputs, RowPredictor, load_predictor};
use chumoku::lang::sanitize;
use chumoku::{ModelKind, UnreadableValues, pair, tr};
use serde_json::Value;
use std::io::{Write, stdout};

/// A model that suits the flags, and the requested shard.
struct PredictSetup {
    predictor: RowPredictor<'static>,
    shard: Option<ShardPlan>,
}

/// Loads the model, checks that the flags suit it, and reports its abstention thresholds. If `each_label` is set,
/// multi-label models answer with objects.
fn load_checked(args: &PredictArgs, each_label: bool) -> anyhow::Result<PredictSetup> {
    if args.html.is_some() {
        let problem = tr!(
            "--html: only available for taggers; use chumoku explain --html for other models",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(UsageError(problem).into());
    }
    let mut options = args.options();
    let load = || Ok(load_predictor(&args.model, &options, &mut report_threshold)?);
    let (model, shard) = shard::load_with_shard(args, load)?;
    options.as_objects |= each_label && model.is_multi_label();
    let predictor = RowPredictor::new(model, &options)?;
    if let Some(thresholds) = predictor.thresholds() {
        print_status(["answers", "回答"], thresholds.describe());
    }
    Ok(PredictSetup { predictor, shard })
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
    let PredictSetup { predictor, .. } = load_checked(args, each_label)?;
    let inputs = predictor.inputs().clone();
    Ok((RowAnswers { form: predictor.format(), answer: Box::new(move |texts| Ok(predictor.answer(texts)?)) }, inputs))
}

pub(crate) fn run(mut args: PredictArgs) -> anyhow::Result<ExitCode> {
    args.reading.use_training_source(&args.model);
    let args = &args;
    threads::start_pool(args.threads)?;
    if ModelKind::from_folder(&args.model)? == ModelKind::Tagger {
        columns::required_columns(&[], &args.set)?;
        return tagger::predict(args);
    }
    let PredictSetup { predictor, shard } = load_checked(args, false)?;
    let (model, inputs) = (predictor.model(), predictor.inputs());
    let reading = ReadArgs { feature_columns: inputs.feature_columns.clone(), ..args.reading.clone() };
    let texts = match CommandInput::open("predict", args.input.as_deref(), &args.texts, &reading, inputs.pairs)? {
        CommandInput::Rows(source) => {
            let mut unread = UnreadableValues::new(model.columns());
            let options = StreamOptions { format: predictor.format(), bom: args.bom, strict: args.strict, shard };
            let ended = stream(*source, options, |texts| {
                unread.count(texts);
                Ok(predictor.answer(texts)?)
            });
            columns::report_unread(&unread);
            return ended;
        }
        CommandInput::Texts(texts) => {
            columns::texts_with_values(pairs::from_arguments(texts, inputs.pairs)?, model.columns(), &args.set)?
        }
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let verdict = predictor.decide(text, &prediction);
        if args.json {
            writeln!(out, "{}", Value::Object(predictor.object(text, &prediction)))?;
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
