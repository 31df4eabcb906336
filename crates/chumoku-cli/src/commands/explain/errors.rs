//! `chumoku explain --errors`: what a classifier gets wrong, the surest first, by the words that caused it.

use super::model::{LeftOut, with_classes};
use crate::args::Explain;
use crate::commands::pictures::{Outcome, terminal_options};
use crate::commands::{load, model_name, pairs, read_options};
use crate::progress::tell;
use crate::{ExitCode, Usage};
use chumoku::data::{Dataset, load_labelled};
use chumoku::explain::shorten;
use chumoku::{Lang, ModelKind, tr};
use chumoku_view::{errors_to_html, render_errors};
use std::io::{Write, stdout};
use std::path::Path;

pub(super) fn run(args: &Explain, file: Option<&Path>, lang: Lang) -> anyhow::Result<ExitCode> {
    let Some(file) = file else {
        let problem = tr!(
            "--errors: name a file of labelled rows, as `chumoku explain {} --errors test.csv`; a model's folder does not hold the \
             rows it was tested on",
            "--errors: ラベルの付いたファイルを `chumoku explain {} --errors test.csv` のように指定してください。モデルのフォルダには評価に\
             使った行が含まれていません",
            args.model.display()
        );
        return Err(Usage(problem).into());
    };
    let (name, top) = (model_name(&args.model), args.of_errors.top());
    let mut progress = LeftOut::of_errors();
    let mut told = |done, all| progress.show(done, all);
    let errors = match ModelKind::of(&args.model)? {
        ModelKind::Ngrams => {
            let model = load::ngrams(&args.model, args.precision)?;
            let rows = rows(args, file, &model.config().labels, model.config().reads_pairs())?;
            model.errors(&rows.examples, &name, top, &mut told)?
        }
        _ => {
            let model = with_classes(&args.model, args.precision)?;
            let rows = rows(args, file, model.labels(), model.config().reads_pairs())?;
            model.errors(&rows.examples, &name, top, args.method.into(), &mut told)?
        }
    };
    let json = || shorten(serde_json::to_value(&errors).expect("plain data"));
    let mut outcome = Outcome::default();
    if let Some(path) = &args.html {
        outcome.write(path, || Ok(errors_to_html(&errors, lang)));
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => writeln!(stdout(), "{}", json())?,
        other => {
            if let Some(path) = other {
                outcome.write(path, || Ok(format!("{}\n", json())));
            }
            write!(stdout(), "{}", render_errors(&errors, &terminal_options(lang)))?;
        }
    }
    outcome.say();
    outcome.result()?;
    Ok(ExitCode::SUCCESS)
}

/// The labelled rows of a file, all of classes that the model knows.
fn rows(args: &Explain, file: &Path, labels: &[String], reads_pairs: bool) -> anyhow::Result<Dataset> {
    let dataset = load_labelled(file, &read_options(&args.of_errors.reading(), true)?)?;
    tell(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        tell(["skipped", "除外"], &dataset.skipped.to_string());
    }
    pairs::check_rows(reads_pairs, pairs::is_pair(dataset.examples.first().map(|example| example.text.as_str())))?;
    dataset.check_known_labels(labels)?;
    Ok(dataset)
}
