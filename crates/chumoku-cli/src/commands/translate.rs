//! `chumoku translate`: texts given, or every row of a file or of standard input, as a stream.

use super::stream::{Given, stream};
use crate::args::Translate;
use crate::{Usage, harmless, threads};
use chumoku::{TextTranslator, TranslateOptions, Translation};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::process::ExitCode;

pub(crate) fn run(args: &Translate) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextTranslator::load(&args.model)?;
    if args.n_best > args.beam {
        let problem = format!("--n-best: expected at most {}, as wide as --beam is, got {}", args.beam, args.n_best);
        return Err(Usage(problem).into());
    }
    let options = TranslateOptions { beam: args.beam, length_penalty: args.length_penalty };
    let mut cut = 0;
    let texts = match Given::of("translate", args.input.as_deref(), &args.texts, &args.reading)? {
        Given::Rows(source) => {
            let code = stream(*source, &["translation", "score"], args.json, |texts| {
                let found = model.translate(texts, &options)?;
                cut += found.iter().filter(|translation| translation.is_cut).count();
                Ok(found.iter().map(|translation| vec![translation.text().into(), score(translation, 0)]).collect())
            });
            tell_of_cuts(&model, cut);
            return code;
        }
        Given::Texts(texts) => texts,
    };
    let mut out = stdout().lock();
    for (text, translation) in texts.iter().zip(model.translate(&texts, &options)?) {
        cut += usize::from(translation.is_cut);
        if args.json {
            writeln!(out, "{}", to_json(text, &translation, &model, args)?)?;
            continue;
        }
        for (at, (text, _)) in translation.hypotheses.iter().take(args.n_best).enumerate() {
            match args.n_best {
                1 => writeln!(out, "{}", harmless(text))?,
                _ => writeln!(out, "{}\t{}", score(&translation, at), harmless(text))?,
            }
        }
    }
    tell_of_cuts(&model, cut);
    Ok(ExitCode::SUCCESS)
}

/// A score with as many digits as it is worth.
fn score(translation: &Translation, at: usize) -> Value {
    json!((translation.hypotheses[at].1.score * 1e6).round() / 1e6)
}

fn tell_of_cuts(model: &TextTranslator, cut: usize) {
    if cut > 0 {
        let most = model.config().model.max_length - 1;
        say!("cut       {cut} of the sources: the model reads {most} tokens, their ends were left out");
    }
}

fn to_json(text: &str, translation: &Translation, model: &TextTranslator, args: &Translate) -> anyhow::Result<Value> {
    let mut value = json!({ "text": text, "translation": translation.text(), "score": score(translation, 0) });
    if args.n_best > 1 {
        let each = translation.hypotheses.iter().take(args.n_best).enumerate();
        value["n_best"] =
            each.map(|(at, (text, _))| json!({ "text": text, "score": score(translation, at) })).collect();
    }
    if translation.is_cut {
        value["is_cut"] = true.into();
    }
    if args.alignment {
        let alignment = model.align(text, Some(translation.text()))?;
        let layers = alignment.layers.iter().map(|layer| {
            let heads = layer.outer_iter().map(|head| {
                let rows = head.rows().into_iter().map(|row| Value::from(row.to_vec()));
                rows.collect::<Value>()
            });
            heads.collect::<Value>()
        });
        value["alignment"] = json!({
            "source": alignment.source,
            "target": alignment.target,
            "layers": layers.collect::<Value>(),
        });
    }
    Ok(value)
}
