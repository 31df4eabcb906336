//! Training a classifier.

use super::Session;
use crate::args::Train;
use crate::commands::explain::terminal_options;
use crate::commands::{quoted, read_options};
use crate::{harmless, report};
use chumoku::ModelKind;
use chumoku::builtin;
use chumoku::data::thousands;
use chumoku::data::{Dataset, ReadOptions, load_labelled};
use chumoku::lang::lang;
use chumoku::train::{Outcome, TrainingData, train};
use chumoku::view::render;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(args: &Train, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args)?;
    describe(&data);
    let session = Session::new(args, ModelKind::Classifier, threads, start)?;
    let outcome = session.train(|options, out, stop, observe| train(&data, options, out, stop, observe))?;
    session.finish(outcome.interrupted, &outcome.metrics, |place| show(&data, &outcome, place, args.data.is_none()))
}

pub(crate) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<Dataset> {
    let dataset = load_labelled(path, options)?;
    say!("data      {}", dataset.description);
    if dataset.skipped.count > 0 {
        say!("skipped   {}", dataset.skipped);
    }
    Ok(dataset)
}

/// The data where no file is given.
pub(crate) fn built_in() -> TrainingData {
    say!(
        "data      the built-in reviews: 1,000 short texts, half English and half Japanese (give a file to train on your \
         own)"
    );
    builtin::reviews()
}

fn data(args: &Train) -> anyhow::Result<TrainingData> {
    let options = read_options(&args.reading, true)?;
    let Some(path) = &args.data else { return Ok(built_in()) };
    let dataset = load(path, &options)?;
    // Other files may name their columns differently: what was asked for is asked of each.
    let valid = args.valid.as_deref().map(|path| load(path, &options)).transpose()?;
    let test = args.test.as_deref().map(|path| load(path, &options)).transpose()?;
    Ok(TrainingData::new(&dataset, valid.as_ref(), test.as_ref())?)
}

/// Rows, classes and lengths.
pub(crate) fn describe(data: &TrainingData) {
    let (train, valid, test) = (data.train.len(), data.valid.len(), data.test.len());
    say!("rows      {} to train on, {} to validate, {} to test", thousands(train), thousands(valid), thousands(test));
    let mut counts: Vec<(usize, &str)> =
        data.class_rows().into_iter().zip(data.labels.iter().map(String::as_str)).collect();
    counts.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(6).map(|(n, label)| format!("{} {}", harmless(label), thousands(*n))).collect();
    let more = if counts.len() > 6 {
        format!(", … {} {}", harmless(counts[counts.len() - 1].1), counts[counts.len() - 1].0)
    } else {
        String::new()
    };
    say!("classes   {}: {}{more}", counts.len(), shown.join(", "));
    let mut lengths: Vec<usize> = data.train.texts.iter().map(|text| text.chars().count()).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    say!(
        "lengths   median {} characters, 90 % up to {}, longest {}",
        thousands(at(50)),
        thousands(at(90)),
        thousands(longest)
    );
    for note in &data.notes {
        say!("note      {note}");
    }
}

/// The scores beside the baselines and, for the built-in data, one held-out text explained.
fn show(data: &TrainingData, outcome: &Outcome, place: &Path, is_builtin: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let part = match outcome.metrics["scored_on"].as_str() {
        Some("test") => "rows that training never saw",
        Some("valid") => "validation rows (there are no test rows: the figure is optimistic)",
        _ => "training rows (there are no others: the figure says nothing about new texts)",
    };
    writeln!(out, "On {} {part}:\n", thousands(outcome.test.rows))?;
    let [attention, ngrams, majority] = &outcome.parts;
    let noun = outcome.model.config().model.body.network().noun();
    let alone = format!("  its {noun} alone");
    let rows = [
        ("this model", &outcome.test),
        (&alone, attention),
        ("baseline: n-grams, linear", ngrams),
        ("baseline: most frequent class", majority),
    ];
    writeln!(out, "{}", report::comparison(&rows))?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        writeln!(out, "The {noun}'s weights are those after epoch {} of {epochs}, the best.\n", best.epoch)?;
    }
    writeln!(out, "{}", report::classes(&outcome.test))?;
    let name = place.display();
    if is_builtin {
        let text = held_out(data, outcome)?;
        writeln!(out, "One of them, explained:\n")?;
        let explanation = outcome.model.explain(text, &name.to_string())?;
        let layer = explanation.layers.saturating_sub(1);
        writeln!(out, "{}", render(&explanation, layer, 0, &terminal_options(lang())))?;
        writeln!(out, "Next:")?;
        writeln!(out, "  chumoku train your-file.csv           your own texts: CSV, TSV, JSONL, Parquet, .gz")?;
    } else {
        writeln!(out, "Next:")?;
    }
    let place = quoted(&name.to_string());
    writeln!(out, "  chumoku predict {place} \"some text\"")?;
    writeln!(out, "  chumoku explain {place} \"some text\" --html why.html")?;
    Ok(())
}

/// A short held-out text that the model gets right, with a negation in it if there is one.
fn held_out<'a>(data: &'a TrainingData, outcome: &Outcome) -> anyhow::Result<&'a str> {
    let texts = data.test.texts();
    let predictions = outcome.model.predict(&texts)?;
    let right = |i: &usize| predictions[*i].class() as u32 == data.test.labels[*i];
    let suits = |i: &usize| (5..=12).contains(&texts[*i].split_whitespace().count()) && right(i);
    let negated = |i: &usize| texts[*i].contains(" not ") || texts[*i].contains("n't ");
    let found = (0..texts.len()).find(|i| suits(i) && negated(i)).or_else(|| (0..texts.len()).find(suits));
    Ok(texts[found.unwrap_or(0)])
}
