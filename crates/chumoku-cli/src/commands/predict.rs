//! Implements `chumoku predict`: the class, labels or number of the given texts, or of every row of a file or of
//! standard input, as a stream.

use super::row_output::{AnswerFormat, RowAnswers};
use super::shard::{self, ShardPlan};
use super::stream::{CommandInput, stream_shard};
use super::{columns, load, pairs};
use crate::ExitCode;
use crate::args::{PredictArgs, ReadArgs};
use crate::progress::print_status;
use crate::{UsageError, sanitize, threads};
use chumoku::ModelKind;
use chumoku::Predictor;
use chumoku::UnreadableValues;
use chumoku::answers::AbstentionReason;
use chumoku::answers::AbstentionThresholds;
use chumoku::answers::Answer;
use chumoku::answers::AnswerDecision;
use chumoku::answers::AnswerOptions;
use chumoku::row;
use chumoku::row::FeatureRequest;
use chumoku::tr;
use serde_json::Value;
use std::io::{Write, stdout};

/// Chooses the confidence thresholds of `--abstain`, and reports them.
fn abstain_thresholds(model: Predictor<'_>, level: f64) -> anyhow::Result<AbstentionThresholds> {
    let bounds = AbstentionThresholds::for_accuracy(model, level)
        .map_err(|problem| UsageError(format!("--abstain {level}: {problem}")))?;
    print_status(["answers", "回答"], bounds.describe());
    Ok(bounds)
}

/// The inputs that a model reads from a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelInputs {
    /// True if texts are pairs.
    pub(crate) pairs: bool,
    /// The feature columns.
    pub(crate) feature_columns: Vec<FeatureRequest>,
}

/// A loaded model, with what the flags ask of it.
struct PredictSetup {
    model: Predictor<'static>,
    options: AnswerOptions,
    inputs: ModelInputs,
    /// The requested shard.
    shard: Option<ShardPlan>,
}

/// Loads the model, and checks that the flags suit it.
fn load_checked(args: &PredictArgs) -> anyhow::Result<PredictSetup> {
    if args.html.is_some() {
        let problem = tr!(
            "--html: only available for taggers; use chumoku explain --html for other models",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(UsageError(problem).into());
    }
    let load = || load::predictor(&args.model, args.precision, &args.thresholds);
    let (model, shard) = shard::load_with_shard(args, load)?;
    if args.top.is_some() && model.predicts_numbers() {
        let problem = tr!(
            "--top: this model predicts a number, not classes; leave it out",
            "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    let bounds = args.abstain.map(|level| abstain_thresholds(model, level)).transpose()?;
    let inputs = ModelInputs {
        pairs: model.reads_pairs(),
        feature_columns: columns::required_columns(model.columns(), &args.set)?,
    };
    Ok(PredictSetup { model, options: AnswerOptions::new(args.top, bounds), inputs, shard })
}

/// Returns a predictor of rows, and the inputs of the model. If `each_label` is set, multi-label models answer with
/// objects that hold the probability of each label.
pub(crate) fn row_predictor(
    args: &PredictArgs,
    each_label: bool,
) -> anyhow::Result<(RowAnswers<'static>, ModelInputs)> {
    if ModelKind::from_folder(&args.model)? == ModelKind::Tagger {
        columns::required_columns(&[], &args.set)?;
        return Ok((super::tagger::row_predictor(args)?, ModelInputs::default()));
    }
    let PredictSetup { model, options, inputs, .. } = load_checked(args)?;
    let is_json = args.json || each_label && model.is_multi_label();
    Ok((row_answers(model, options, is_json, args.bom), inputs))
}

pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    if ModelKind::from_folder(&args.model)? == ModelKind::Tagger {
        columns::required_columns(&[], &args.set)?;
        return super::tagger::predict(args);
    }
    let PredictSetup { model, options, inputs, shard } = load_checked(args)?;
    let reading = ReadArgs { feature_columns: inputs.feature_columns, ..args.reading.clone() };
    let texts = match CommandInput::open("predict", args.input.as_deref(), &args.texts, &reading, inputs.pairs)? {
        CommandInput::Rows(source) => {
            let mut unread = UnreadableValues::new(model.columns());
            let RowAnswers { form, mut answer } = row_answers(model, options, args.json, args.bom);
            let ended = stream_shard(*source, form, (args.strict, shard), |texts| {
                unread.count(texts);
                answer(texts)
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
    for answer in options.answers(model, &texts)? {
        match args.json {
            true => writeln!(out, "{}", Value::Object(answer.json()))?,
            false => writeln!(out, "{}\t{}", answer_line(&answer, args.top), sanitize(&row::display(answer.text())))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats an answer for the terminal, without its text.
fn answer_line(answer: &Answer<'_>, top: Option<usize>) -> String {
    if let Some(reason) = answer.abstention_reason() {
        let said = match reason {
            AbstentionReason::LowConfidence => tr!("(not sure)", "（確信なし）"),
            AbstentionReason::UnlikeTraining => tr!("(unlike the training texts)", "（学習データと似ていない）"),
        };
        return format!("{said}\t{:.1} %", 100.0 * answer.confidence());
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

/// Returns a predictor of rows; the answers are objects if `is_json` is set, else columns, after a byte order mark if
/// `bom` is set.
fn row_answers(model: Predictor<'static>, options: AnswerOptions, is_json: bool, bom: bool) -> RowAnswers<'static> {
    let form = match is_json {
        true => AnswerFormat::Objects { unanswered: options.empty_json(model) },
        false => AnswerFormat::Columns { names: options.column_names(model), bom },
    };
    let cells = move |answer: &Answer<'_>| if is_json { vec![answer.json().into()] } else { answer.cells() };
    let answer = move |texts: &[&str]| Ok(options.answers(model, texts)?.iter().map(cells).collect());
    RowAnswers { form, answer: Box::new(answer) }
}
