//! `chumoku translate`: texts given, or every row of a file or of standard input, as a stream.

use super::load;
use super::stream::{Given, stream};
use super::written::Form;
use crate::ExitCode;
use crate::args::Translate;
use crate::{Usage, harmless, threads};
use chumoku::answers;
use chumoku::data::Source;
use chumoku::{TextTranslator, TranslateOptions, Translation, tr};
use serde_json::Value;
use std::io::{Write, stdout};

pub(crate) fn run(args: &Translate) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = load::translator(&args.model, args.precision)?;
    if args.n_best > args.beam {
        let problem = tr!(
            "--n-best: expected at most {}, as wide as --beam is, got {}",
            "--n-best: --beam と同じ {} 以下でなければなりませんが、{} です",
            args.beam,
            args.n_best
        );
        return Err(Usage(problem).into());
    }
    let mut options = TranslateOptions::default();
    options.beam = args.beam;
    options.length_penalty = args.length_penalty;
    let mut cut = 0;
    let texts = match Given::of("translate", args.input.as_deref(), &args.texts, &args.reading, false)? {
        Given::Rows(source) => {
            let code = rows(args, model, &options, *source, &mut cut);
            tell_of_cuts(model, cut);
            return code;
        }
        Given::Texts(texts) => texts,
    };
    let mut out = stdout().lock();
    for (text, translation) in texts.iter().zip(model.translate(&texts, &options)?) {
        cut += usize::from(translation.is_cut);
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
                1 => writeln!(out, "{}", harmless(text))?,
                _ => writeln!(out, "{}\t{}", translation.rounded_score(at), harmless(text))?,
            }
        }
    }
    tell_of_cuts(model, cut);
    Ok(ExitCode::SUCCESS)
}

/// The rows of a source, each with its translation; counts the sources that were cut.
fn rows(
    args: &Translate,
    model: &TextTranslator,
    options: &TranslateOptions,
    source: Source,
    cut: &mut usize,
) -> anyhow::Result<ExitCode> {
    let mut translate = |texts: &[&str]| -> anyhow::Result<Vec<Translation>> {
        let found = model.translate(texts, options)?;
        *cut += found.iter().filter(|translation| translation.is_cut).count();
        Ok(found)
    };
    if args.json {
        let unanswered = ["translation", "score"].into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
        return stream(source, Form::Objects { unanswered }, args.strict, |texts| {
            let found = translate(texts)?;
            let answers = texts.iter().zip(&found);
            answers
                .map(|(text, translation)| {
                    Ok(vec![answers::translation(text, translation, model, args.n_best, args.alignment)?.into()])
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
    stream(source, Form::columns(&names, args.bom), args.strict, |texts| {
        let added = |translation: &Translation| {
            let each = translation.hypotheses.iter().enumerate().take(args.n_best);
            let mut values: Vec<Value> =
                each.flat_map(|(at, (text, _))| [text.as_str().into(), translation.rounded_score(at)]).collect();
            values.resize(names.len(), Value::Null);
            values
        };
        Ok(translate(texts)?.iter().map(added).collect())
    })
}

fn tell_of_cuts(model: &TextTranslator, cut: usize) {
    if cut > 0 {
        super::train::translate::tell_of_cuts(cut, model.config().model.max_length - 1);
    }
}
