//! Scores of taggers.

use crate::ExitCode;
use crate::args::EvalArgs;
use crate::data::{load_span_rows, read_options};
use crate::models::{load, load_with_training_texts, report_training_overlap};
use crate::report::training::this_model;
use crate::report::{paragraph, spans};
use chumoku::TextTagger;
use chumoku::row::AsRow;
use serde_json::json;
use std::io::{Write, stdout};

pub(super) fn eval(args: &EvalArgs, seed: u64) -> anyhow::Result<ExitCode> {
    let (model, training_texts): (&TextTagger, _) =
        load_with_training_texts(&args.model, || Ok(load::tagger(&args.model, args.precision)?))?;
    let data = load_span_rows(&args.data, &read_options(&args.reading, false)?)?;
    data.check_known_labels(model.labels())?;
    let texts: Vec<_> = data.examples.iter().map(|row| row.text.as_row()).collect();
    let overlap = report_training_overlap(training_texts.as_ref(), &texts);
    let scores = model.score(&data.examples, seed)?;
    let mut out = stdout().lock();
    if args.json {
        let scores =
            json!({ "rows": scores.rows, "rows_trained_on": overlap, "span_f1": scores.all.f1, "scores": scores });
        writeln!(out, "{scores}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(warning) = scores.warning() {
        writeln!(out, "{}\n", paragraph(&warning))?;
    }
    writeln!(out, "{}", spans::comparison(&[(this_model(), &scores)]))?;
    write!(out, "{}", spans::kind_table(&scores))?;
    Ok(ExitCode::SUCCESS)
}
