//! `chumoku eval`: a model's scores on a file.

use super::read_options;
use super::train::{language, translate};
use crate::args::Eval;
use crate::progress::count;
use crate::{report, threads};
use chumoku::data::{DocumentBreaks, load_documents, load_labelled};
use chumoku::train::{LanguageScores, TranslationScores};
use chumoku::{ModelKind, TextClassifier, TextGenerator, TextTranslator, TranslateOptions};
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Decides the bootstrap's resamples, so that the interval repeats.
const SEED: u64 = 42;

pub(crate) fn run(args: &Eval) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let args = &mut args.clone();
    args.reading.keep(&mut args.data)?;
    match ModelKind::of(&args.model)? {
        ModelKind::Classifier => classes(args),
        ModelKind::Translator => translations(args),
        ModelKind::LanguageModel => text(args),
    }
}

fn translations(args: &Eval) -> anyhow::Result<ExitCode> {
    let model = TextTranslator::load(&args.model)?;
    let dataset = translate::load(&args.data, &read_options(&args.reading, false)?)?;
    let scores = TranslationScores::measure(&model, &dataset.pairs.iter().collect(), &TranslateOptions::default())?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&scores)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}, with a beam of 5\n", count(scores.pairs, "pair"))?;
    write!(out, "{}", translate::scored(&scores))?;
    if scores.cut_sources > 0 {
        let most = model.config().model.max_length - 1;
        say!(
            "cut       {} of the sources: the model reads {most} tokens, their ends were left out",
            scores.cut_sources
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Eval) -> anyhow::Result<ExitCode> {
    let model = TextGenerator::load(&args.model)?;
    let documents = load_documents(&args.data, DocumentBreaks::Auto, &read_options(&args.reading, false)?)?;
    say!("data      {}", documents.description);
    if documents.skipped.count > 0 {
        say!("skipped   {}", documents.skipped);
    }
    let scores = LanguageScores::measure(&model, &documents.texts)?;
    let mut out = stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&scores)?)?,
        false => write!(out, "{}\n\n{}", count(scores.tokens, "token"), language::scored(&scores))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn classes(args: &Eval) -> anyhow::Result<ExitCode> {
    let model = TextClassifier::load(&args.model)?;
    let dataset = load_labelled(&args.data, &read_options(&args.reading, true)?)?;
    say!("data      {}", dataset.description);
    if dataset.skipped.count > 0 {
        say!("skipped   {}", dataset.skipped);
    }
    dataset.check_known_labels(model.labels())?;
    let (whole, parts) = model.score(&dataset.examples, SEED)?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            json!({
                "rows": whole.rows,
                "accuracy": whole.accuracy,
                "macro_f1": whole.macro_f1,
                "scores": whole,
                "parts": { "attention": parts[0], "ngrams": parts[1] },
            })
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}\n", count(whole.rows, "row"))?;
    let alone = format!("  {} alone", model.config().model.body.network().noun());
    let rows = [("this model", &whole), (&alone, &parts[0]), ("  n-grams alone", &parts[1])];
    writeln!(out, "{}", report::comparison(&rows))?;
    write!(out, "{}", report::classes(&whole))?;
    Ok(ExitCode::SUCCESS)
}
