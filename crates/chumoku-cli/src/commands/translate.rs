//! Implements `chumoku translate`: the given texts, or every row of a file or of standard input, as a stream.

use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::TranslateArgs;
use crate::models::load;
use crate::progress::report_source_truncation;
use crate::{ExitCode, threads};
use chumoku::answers::{self, AnswerFormat};
use chumoku::data::RowSource;
use chumoku::lang::sanitize;
use chumoku::row::RowRef;
use chumoku::{TextTranslator, TranslateOptions, Translation};
use serde_json::Value;
use std::io::{Write, stdout};

pub(crate) fn run(mut args: TranslateArgs) -> anyhow::Result<ExitCode> {
    args.reading.use_training_source(&args.model);
    threads::start_pool(args.threads)?;
    let model = load::translator(&args.model, args.precision)?;
    args.reading.use_side_names(&model.config().names[..1]);
    let args = &args;
    refuse_if!(
        args.n_best > args.beam,
        "--n-best: expected at most {} (--beam), found {}",
        "--n-best: {}（--beam）以下の数が必要ですが、{} です",
        args.beam,
        args.n_best
    );
    let mut options = TranslateOptions::default();
    options.beam = args.beam;
    options.length_penalty = args.length_penalty;
    let mut cut = 0;
    let texts = match CommandInput::open("translate", args.input.as_deref(), &args.texts, &args.reading, false)? {
        CommandInput::Rows(source) => {
            let code = translate_rows(args, model, &options, *source, &mut cut);
            report_truncation(model, cut);
            return code;
        }
        CommandInput::Texts(texts) => texts,
    };
    let mut out = stdout().lock();
    for (text, translation) in texts.iter().zip(model.translate(&texts, &options)?) {
        cut += usize::from(translation.is_truncated);
        if args.json {
            writeln!(
                out,
                "{}",
                Value::Object(answers::translation(text, &translation, model, args.n_best, args.alignment)?)
            )?;
            continue;
        }
        for (at, (text, _)) in translation.hypotheses.iter().take(args.n_best).enumerate() {
            match args.n_best {
                1 => writeln!(out, "{}", sanitize(text))?,
                _ => writeln!(out, "{}\t{}", translation.rounded_score(at), sanitize(text))?,
            }
        }
    }
    report_truncation(model, cut);
    Ok(ExitCode::SUCCESS)
}

/// Translates the rows of a source, and counts the truncated source texts.
fn translate_rows(
    args: &TranslateArgs,
    model: &TextTranslator,
    options: &TranslateOptions,
    source: RowSource,
    cut: &mut usize,
) -> anyhow::Result<ExitCode> {
    let mut translate = |rows: &[RowRef<'_>]| -> anyhow::Result<Vec<Translation>> {
        let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
        let found = model.translate(&texts, options)?;
        *cut += found.iter().filter(|translation| translation.is_truncated).count();
        Ok(found)
    };
    if args.json {
        let format = AnswerFormat::objects(&["translation", "score"]);
        return stream(source, StreamOptions { strict: args.strict, ..StreamOptions::new(format) }, |rows| {
            let found = translate(rows)?;
            let answers = rows.iter().zip(&found);
            answers
                .map(|(row, translation)| {
                    Ok(vec![answers::translation(row.text(), translation, model, args.n_best, args.alignment)?.into()])
                })
                .collect()
        });
    }
    let names: Vec<String> = (1..=args.n_best)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("translation{suffix}"), format!("score{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let format = AnswerFormat::columns(&names);
    stream(source, StreamOptions { format, bom: args.bom, strict: args.strict, shard: None }, |rows| {
        let added = |translation: &Translation| {
            let each = translation.hypotheses.iter().enumerate().take(args.n_best);
            let mut values: Vec<Value> =
                each.flat_map(|(at, (text, _))| [text.as_str().into(), translation.rounded_score(at)]).collect();
            values.resize(names.len(), Value::Null);
            values
        };
        Ok(translate(rows)?.iter().map(added).collect())
    })
}

fn report_truncation(model: &TextTranslator, cut: usize) {
    if cut > 0 {
        report_source_truncation(cut, model.config().model.max_length - 1);
    }
}
