//! `chumoku explain --errors`: what a classifier gets wrong, the surest first, by the words that caused it.

use super::model::{LeftOut, with_classes};
use crate::args::{Explain, Reading};
use crate::commands::columns::{Unread, asked_of};
use crate::commands::pictures::{Outcome, terminal_options};
use crate::commands::{load, model_name, not_over, pairs, read_options};
use crate::progress::tell;
use crate::{ExitCode, Usage};
use chumoku::data::{Dataset, load_labelled};
use chumoku::explain::shorten;
use chumoku::hierarchy::Hierarchy;
use chumoku::{Lang, ModelKind, SideColumn, tr};
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
    for read in [file, &args.model] {
        not_over(read, [("--html", &args.html), ("--json", &args.json)])?;
    }
    let (name, top) = (model_name(&args.model), args.of_errors.top());
    let mut progress = LeftOut::of_errors();
    let mut told = |done, all| progress.show(done, all);
    let errors = match ModelKind::of(&args.model)? {
        ModelKind::Ngrams => {
            let model = load::ngrams(&args.model, args.precision)?;
            let config = model.config();
            let known = (&config.labels[..], config.hierarchy.as_ref());
            let rows = rows(args, file, known, config.reads_pairs(), model.columns())?;
            model.errors(&rows.examples, &name, top, &mut told)?
        }
        _ => {
            let model = with_classes(&args.model, args.precision)?;
            let known = (model.labels(), model.config().tree());
            let rows = rows(args, file, known, model.config().reads_pairs(), model.config().columns())?;
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

/// The labelled rows of a file, all of classes that the model knows, with the columns that it reads.
fn rows(
    args: &Explain,
    file: &Path,
    (labels, hierarchy): (&[String], Option<&Hierarchy>),
    reads_pairs: bool,
    columns: &[SideColumn],
) -> anyhow::Result<Dataset> {
    let reading = Reading { beside: asked_of(columns, &args.set)?, ..args.of_errors.reading() };
    let mut dataset = load_labelled(file, &read_options(&reading, true)?)?;
    tell(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        tell(["skipped", "除外"], &dataset.skipped.to_string());
    }
    if let Some(tree) = hierarchy {
        dataset.examples.iter_mut().for_each(|example| example.label = tree.tidy(&example.label));
    }
    let texts: Vec<&str> = dataset.examples.iter().map(|example| example.text.as_str()).collect();
    pairs::check_rows(reads_pairs, pairs::is_pair(texts.first().copied()))?;
    let mut unread = Unread::of(columns);
    unread.see(&texts);
    unread.tell();
    dataset.check_known_labels(labels)?;
    Ok(dataset)
}
