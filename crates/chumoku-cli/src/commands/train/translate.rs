//! Training a translator.

use super::Session;
use crate::args::Train;
use crate::commands::explain::terminal_options;
use crate::commands::{quoted, read_options};
use crate::harmless;
use chumoku::ModelKind;
use chumoku::builtin;
use chumoku::data::thousands;
use chumoku::data::{DataFiles, PairDataset, PairParts, Pairs, ReadOptions, load_pairs};
use chumoku::lang::lang;
use chumoku::train::{TranslationScores, TranslatorOutcome, train_translator};
use chumoku::view::render_alignment;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Seed of the built-in dates: runs with different seeds train on the same pairs.
const DATES: u64 = 0;

pub(super) fn run(args: &Train, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (data, names) = data(args)?;
    describe(&data, &names);
    let session = Session::new(args, ModelKind::Translator, threads, start)?;
    let trained = session
        .train(|options, out, stop, observe| train_translator(&data, names.clone(), options, out, stop, observe))?;
    let Some(outcome) = trained else { return Ok(session.interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| show(&data, &outcome, place, args.data.is_none()))
}

pub(crate) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<PairDataset> {
    let dataset = load_pairs(&DataFiles::of_argument(path), options)?;
    say!("data      {}", dataset.description);
    if dataset.skipped.count > 0 {
        say!("skipped   {}", dataset.skipped);
    }
    Ok(dataset)
}

fn data(args: &Train) -> anyhow::Result<(PairParts, [String; 2])> {
    let Some(path) = &args.data else {
        say!(
            "data      the built-in dates: dates and times as people write them, English and Japanese, to ISO 8601 (give \
             a file to train on your own pairs)"
        );
        return Ok((builtin::dates(DATES), ["date".into(), "ISO 8601".into()]));
    };
    let options = read_options(&args.reading, false)?;
    let train = load(path, &options)?;
    let valid = args.valid.as_deref().map(|path| load(path, &options)).transpose()?;
    let test = args.test.as_deref().map(|path| load(path, &options)).transpose()?;
    let names = train.names.clone();
    Ok((PairParts::new(&train, valid.as_ref(), test.as_ref())?, names))
}

/// Rows and lengths.
fn describe(data: &PairParts, names: &[String; 2]) {
    let [train, valid, test] = [&data.train, &data.valid, &data.test].map(|part| thousands(part.len()));
    say!("pairs     {train} to train on, {valid} to validate, {test} to test");
    for (name, texts) in names.iter().zip([&data.train.sources, &data.train.targets]) {
        let mut lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
        lengths.sort_unstable();
        let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
        let longest = lengths.last().copied().unwrap_or(0);
        let [median, most, longest] = [at(50), at(90), longest].map(thousands);
        say!("lengths   {}: median {median} characters, 90 % up to {most}, longest {longest}", harmless(name));
    }
    for note in &data.notes {
        say!("note      {note}");
    }
}

/// Pairs shown after training.
const SHOWN: usize = 5;

/// The scores, and some translations beside what was expected.
fn show(data: &PairParts, outcome: &TranslatorOutcome, place: &Path, is_builtin: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let (part, pairs) = match outcome.metrics["scored_on"].as_str() {
        Some("test") => ("pairs that training never saw", &data.test),
        Some("valid") => ("validation pairs (there are no test pairs: the figures are optimistic)", &data.valid),
        _ => ("training pairs (there are no others: the figures say nothing about new texts)", &data.train),
    };
    let scores = &outcome.test;
    writeln!(out, "On {} {part}, with a beam of 5:\n", thousands(scores.pairs))?;
    writeln!(out, "{}", scored(scores))?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        writeln!(out, "The weights are those after epoch {} of {epochs}, the best.\n", best.epoch)?;
    }
    let shown = pairs.len().min(SHOWN);
    let sources: Vec<&str> = pairs.sources[..shown].iter().map(String::as_str).collect();
    let translations = outcome.model.translate(&sources, &Default::default())?;
    for ((source, translation), target) in sources.iter().zip(&translations).zip(&pairs.targets) {
        writeln!(out, "  {}", harmless(source))?;
        let is_right = translation.text() == target;
        writeln!(out, "    → {}{}", harmless(translation.text()), if is_right { "  (as expected)" } else { "" })?;
        if !is_right {
            writeln!(out, "    expected {}", harmless(target))?;
        }
    }
    let name = place.display().to_string();
    if is_builtin {
        writeln!(out, "\nOne of them, explained:\n")?;
        let alignment = outcome.model.explain(aligned(pairs), None, &name)?;
        write!(out, "{}", render_alignment(&alignment, None, &terminal_options(lang())))?;
    }
    let place = quoted(&name);
    writeln!(out, "\nNext:")?;
    writeln!(out, "  chumoku translate {place} \"some text\"")?;
    writeln!(out, "  chumoku translate {place} --input texts.txt > translated.txt")?;
    writeln!(out, "  chumoku explain {place} \"some text\" --html alignment.html")?;
    Ok(())
}

/// Scores, one a line.
pub(crate) fn scored(scores: &TranslationScores) -> String {
    format!(
        "BLEU    {:>6.1}   {}\nchrF2   {:>6.1}   {}\nexact   {:>6.1} %\n",
        scores.bleu,
        scores.bleu_signature,
        scores.chrf,
        scores.chrf_signature,
        100.0 * scores.exact
    )
}

/// A source whose translation stands in another order, short enough for a picture.
fn aligned(pairs: &Pairs) -> &str {
    let suits = |source: &&String| source.is_ascii() && source.contains(' ') && (12..=20).contains(&source.len());
    pairs.sources.iter().find(suits).unwrap_or(&pairs.sources[0])
}
