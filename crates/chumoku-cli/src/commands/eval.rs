//! `chumoku eval`: a model's scores on a labelled file.

use super::read_options;
use crate::args::Eval;
use crate::progress::count;
use crate::{report, threads};
use chumoku::TextClassifier;
use chumoku::data::load_labelled;
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Decides the bootstrap's resamples, so that the interval repeats.
const SEED: u64 = 42;

pub(crate) fn run(args: &Eval) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextClassifier::load(&args.model)?;
    let dataset = load_labelled(&args.data, &read_options(&args.reading, true))?;
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
