//! Implements `predict` for autoencoders: each text as its code lets the decoder write it.

use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::PredictArgs;
use crate::models::load;
use crate::progress::report_source_truncation;
use crate::{ExitCode, UsageError};
use chumoku::answers::{self, AnswerFormat};
use chumoku::lang::sanitize;
use chumoku::{TranslateOptions, Translation, tr};
use serde_json::Value;
use std::io::{Write, stdout};

/// Columns and keys of a row's answer.
const NAMES: [&str; 2] = ["reconstruction", "score"];

pub(super) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    check_flags(args)?;
    let model = load::autoencoder(&args.model, args.precision)?;
    let mut cut = 0;
    let mut reconstruct = |texts: &[&str]| -> anyhow::Result<Vec<Translation>> {
        let found = model.reconstruct(texts, &TranslateOptions::default())?;
        cut += found.iter().filter(|one| one.is_truncated).count();
        Ok(found)
    };
    let mut code = ExitCode::SUCCESS;
    match CommandInput::open("predict", args.input.as_deref(), &args.texts, &args.reading, false)? {
        CommandInput::Rows(source) => {
            let format = if args.json { AnswerFormat::objects(&NAMES) } else { AnswerFormat::columns(&NAMES) };
            let options = StreamOptions { format, bom: args.bom, strict: args.strict, shard: None };
            code = stream(*source, options, |rows| {
                let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
                let rows = texts.iter().copied().zip(reconstruct(&texts)?);
                let values = |(text, found): (&str, Translation)| match args.json {
                    true => vec![answers::reconstruction(text, &found).into()],
                    false => vec![found.text().into(), found.rounded_score(0)],
                };
                Ok(rows.map(values).collect())
            })?;
        }
        CommandInput::Texts(texts) => {
            let mut out = stdout().lock();
            for (text, found) in texts.iter().zip(reconstruct(&texts)?) {
                match args.json {
                    true => writeln!(out, "{}", Value::Object(answers::reconstruction(text, &found)))?,
                    false => writeln!(out, "{}", sanitize(found.text()))?,
                }
            }
        }
    }
    if cut > 0 {
        report_source_truncation(cut, model.max_tokens());
    }
    Ok(code)
}

/// Refuses the flags of models that answer with a class or a number.
fn check_flags(args: &PredictArgs) -> Result<(), UsageError> {
    let flags = [
        ("--set", !args.set.values.is_empty()),
        ("--abstain", args.abstain.is_some()),
        ("--threshold", !args.thresholds.threshold.is_empty()),
        ("--precision-at-least", !args.thresholds.precision_at_least.is_empty()),
        ("--top", args.top.is_some()),
        ("--shard", args.shard.is_some()),
        ("--html", args.html.is_some()),
    ];
    let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(UsageError(tr!(
        "{flag}: an autoencoder answers with the reconstructed text alone; leave it out",
        "{flag}: オートエンコーダーの答えは復元したテキストだけです。指定を外してください"
    )))
}
