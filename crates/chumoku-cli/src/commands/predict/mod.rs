//! Implements `chumoku predict`: the class, labels or number of given texts, or of each row of a file or of standard
//! input, as a stream.
//!
//! # Files
//!
//! - `autoencoder`: autoencoders
//! - `tagger`: taggers

mod autoencoder;
mod tagger;

pub(crate) use tagger::cannot_divide_conll;

use crate::answers::row_output::RowAnswers;
use crate::answers::shard::{self, ShardPlan};
use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::{PredictArgs, ReadArgs};
use crate::data::{columns, pairs};
use crate::models::load::report_threshold;
use crate::progress::print_status;
use crate::{ExitCode, threads};
use chumoku::answers::{AbstentionReason, Answer, AnswerDecision, ModelInputs, RowPredictor, load_predictor};
use chumoku::lang::sanitize;
use chumoku::row::as_rows;
use chumoku::{ModelKind, UnreadableValues, tr};
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
    refuse_if!(
        args.html.is_some(),
        "--html: only available for taggers; use chumoku explain --html for other models",
        "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
    );
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
    Ok((RowAnswers { form: predictor.format(), answer: Box::new(move |texts| Ok(predictor.values(texts)?)) }, inputs))
}

pub(crate) fn run(mut args: PredictArgs) -> anyhow::Result<ExitCode> {
    args.reading.use_training_source(&args.model);
    let args = &args;
    threads::start_pool(args.threads)?;
    match ModelKind::from_folder(&args.model)? {
        ModelKind::Tagger => {
            columns::required_columns(&[], &args.set)?;
            return tagger::predict(args);
        }
        ModelKind::Autoencoder => return autoencoder::predict(args),
        _ => {}
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
                Ok(predictor.values(texts)?)
            });
            columns::report_unread(&unread);
            return ended;
        }
        CommandInput::Texts(texts) => {
            columns::rows_with_values(pairs::from_arguments(texts, inputs.pairs)?, model.columns(), &args.set)?
        }
    };
    let mut out = stdout().lock();
    for answer in predictor.answers(&as_rows(&texts))? {
        match args.json {
            true => writeln!(out, "{}", Value::Object(answer.json()))?,
            false => writeln!(out, "{}\t{}", answer_line(&answer, args.top), sanitize(&answer.text().display()))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats an answer for the terminal, without its text.
fn answer_line(answer: &Answer<'_>, top: Option<usize>) -> String {
    if let Some(reason) = answer.abstention_reason() {
        let message = match reason {
            AbstentionReason::LowConfidence => tr!("(not sure)", "（確信なし）"),
            AbstentionReason::UnlikeTraining => tr!("(unlike the training texts)", "（学習データと似ていない）"),
        };
        return format!("{message}\t{:.1} %", 100.0 * answer.confidence());
    }
    let labeled = |(label, p): (&str, f32)| format!("{}\t{:.1} %", sanitize(label), 100.0 * p);
    if let (Some(AnswerDecision::UpToLevel(_)), None) = (answer.decision, top) {
        return labeled(answer.class());
    }
    if let Some(numbers) = answer.number() {
        let [score, low, high] = numbers.map(|x| x.to_string());
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        return format!("{score}\t{interval}");
    }
    let labels: Vec<String> = answer.labels().into_iter().map(labeled).collect();
    match labels.is_empty() {
        true => tr!("(no label)\t", "（ラベルなし）\t"),
        false => labels.join("\t"),
    }
}
