//! Implements `chumoku check`: checks the numbers of worked examples, and finds the first wrong step.

use crate::ExitCode;
use crate::args::CheckArgs;
use chumoku_trace::open_example;
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (mut all_true, mut all_read) = (true, true);
    for path in &args.files {
        // A file that cannot be read does not stop the check of the others.
        match check(path, args.json) {
            Ok(is_true) => all_true &= is_true,
            Err(error) if error.downcast_ref::<chumoku::Error>().is_some() => {
                say!("{}: {}", chumoku::lang::lang().pick("error", "エラー"), crate::usage::one_line(&error));
                all_read = false;
            }
            // The report could not be written.
            Err(error) => return Err(error),
        }
    }
    Ok(match (all_read, all_true) {
        (false, _) => ExitCode::from(2),
        (true, false) => ExitCode::from(1),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Prints the checks of a file, and returns true if all of them pass.
fn check(path: &Path, json: bool) -> anyhow::Result<bool> {
    let file = path.display().to_string();
    let example = open_example(path)?;
    let checked = example.check().map_err(|problem| {
        let (doing, file) = ("checking", file.clone());
        chumoku::Error::Example { action: doing, file, problem }
    })?;
    let mut out = stdout().lock();
    if json {
        let mut report = serde_json::to_value(&checked)?;
        report["file"] = file.into();
        writeln!(out, "{report}")?;
    } else {
        write!(out, "{}", checked.to_text(&file, &example))?;
    }
    Ok(checked.ok)
}
