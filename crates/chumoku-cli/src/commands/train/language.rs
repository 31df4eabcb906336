//! Training a language model.

use super::Session;
use crate::Usage;
use crate::args::Train;
use crate::commands::{quoted, read_options};
use chumoku::ModelKind;
use chumoku::data::thousands;
use chumoku::data::{DocumentBreaks, DocumentParts, Documents, load_documents};
use chumoku::sampling::Sampling;
use chumoku::train::{LanguageModelOutcome, LanguageScores, train_language_model};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Characters of which something can be learnt.
const LEAST: usize = 1_000;

/// Share of the text that is held out to choose by.
const VALID: f64 = 0.1;

pub(super) fn run(args: &Train, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args)?;
    let session = Session::new(args, ModelKind::LanguageModel, threads, start)?;
    let trained =
        session.train(|options, out, stop, observe| train_language_model(&data, options, out, stop, observe))?;
    let Some(outcome) = trained else { return Ok(session.interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| show(&outcome, place))
}

fn data(args: &Train) -> anyhow::Result<DocumentParts> {
    let Some(path) = &args.data else {
        let problem =
            "a language model has no built-in data: give a file of text, e.g. chumoku train book.txt --task lm";
        return Err(Usage(problem.into()).into());
    };
    let options = read_options(&args.reading, false)?;
    let load = |path: &Path| -> anyhow::Result<Documents> {
        let documents = load_documents(path, DocumentBreaks::Auto, &options)?;
        say!("data      {}", documents.description);
        if documents.skipped.count > 0 {
            say!("skipped   {}", documents.skipped);
        }
        Ok(documents)
    };
    let documents = load(path)?;
    let texts = |path: &Path| Ok::<_, anyhow::Error>(load(path)?.texts);
    let valid = args.valid.as_deref().map(texts).transpose()?;
    let test = args.test.as_deref().map(texts).transpose()?;
    let characters: usize = documents.texts.iter().map(|text| text.chars().count()).sum();
    if characters < LEAST {
        let problem = format!(
            "{}: taken for plain text that a language model is to continue: expected at least {} characters, found \
             {characters}; for a classifier give texts with labels (CSV, TSV, JSONL, fastText lines)",
            path.display(),
            thousands(LEAST)
        );
        return Err(Usage(problem).into());
    }
    let mut parts = documents.split(0, if valid.is_some() { 0.0 } else { VALID }, 0.0);
    say!("parts     {}", parts.description);
    parts.valid = valid.unwrap_or(parts.valid);
    parts.test = test.unwrap_or(parts.test);
    Ok(parts)
}

/// The scores, and how the model goes on.
fn show(outcome: &LanguageModelOutcome, place: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let part = match outcome.metrics["scored_on"].as_str() {
        Some("test") => "text that training never saw",
        Some("valid") => "the validation text (there is no test text: the figures are a little optimistic)",
        _ => "the training text (there is no other: the figures say nothing about new texts)",
    };
    let scores = &outcome.test;
    writeln!(out, "On {} tokens of {part}:\n", thousands(scores.tokens))?;
    write!(out, "{}", scored(scores))?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        writeln!(out, "\nThe weights are those after epoch {} of {epochs}, the best.", best.epoch)?;
    }
    writeln!(out, "\nWhat the model writes:\n")?;
    let sampling = Sampling { temperature: 0.8, ..Sampling::default() };
    let mut text = String::new();
    outcome.model.generate("", 200, &sampling, &mut |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    })?;
    for line in text.lines() {
        writeln!(out, "  {}", crate::harmless(line))?;
    }
    let place = quoted(&place.display().to_string());
    writeln!(out, "\nNext:")?;
    writeln!(out, "  chumoku generate {place} \"some text\"")?;
    Ok(())
}

/// Scores, one a line.
pub(crate) fn scored(scores: &LanguageScores) -> String {
    let mut text = format!("loss                    {:>9.4} nats a token\n", scores.loss);
    for (name, value) in scores.perplexities() {
        // What a model has never seen the like of needs no decimals.
        let value = if value < 1e6 { format!("{value:.3}") } else { format!("{value:.1e}") };
        text += &format!("perplexity per {name:<9}{value:>9}\n");
    }
    if scores.unknown > 0 {
        let share = 100.0 * scores.unknown as f64 / scores.tokens.max(1) as f64;
        text += &format!("unknown words           {share:>9.1} %   (to the perplexities all are one word)\n");
    }
    text
}
