//! Implements `chumoku explain --errors`: the most confident wrong answers, grouped by the words that caused them.

use super::model::ExplainProgress;
use crate::ExitCode;
use crate::args::{ExplainArgs, ReadArgs};
use crate::data::columns::{report_unread, required_columns};
use crate::data::{load_label_rows, load_number_rows, pairs, read_options};
use crate::models::{load, model_name};
use crate::pictures::OutputFiles;
use crate::progress::print_status;
use crate::terminal::terminal_options;
use chumoku::data::{Example, MultiLabelExample, ReadOptions, ScoreExample, load_labeled};
use chumoku::explain::{ErrorOptions, shorten_numbers};
use chumoku::row::{AsRow, Row, RowRef};
use chumoku::{Lang, ModelKind, Predictor, UnreadableValues};
use chumoku_view::{errors_to_html, render_errors};
use std::io::{Write, stdout};
use std::path::Path;

pub(super) fn run(args: &ExplainArgs, file: Option<&Path>, lang: Lang) -> anyhow::Result<ExitCode> {
    let Some(file) = file else {
        refuse!(
            "--errors: name a file of labeled rows, as `chumoku explain {} --errors test.csv`; a model folder does not contain the \
             rows it was tested on",
            "--errors: ラベルの付いたファイルを `chumoku explain {} --errors test.csv` のように指定してください。モデルのフォルダには評価に\
             使った行が含まれていません",
            args.model.display()
        );
    };
    let name = model_name(&args.model);
    let options = ErrorOptions { name: &name, top: args.error_args.top(), method: args.method.into() };
    let mut progress = ExplainProgress::for_errors();
    let mut report = |done, all| progress.show(done, all);
    let model = load_predictor(args)?;
    let errors = if model.is_multi_label() {
        model.label_errors(&load_label_sets(args, file, model)?, options, &mut report)?
    } else if model.predicts_numbers() {
        model.number_errors(&load_numbers(args, file, model)?, options, &mut report)?
    } else {
        model.errors(&load_classes(args, file, model)?, options, &mut report)?
    };
    let json = || shorten_numbers(serde_json::to_value(&errors).expect("plain data"));
    let mut outcome = OutputFiles::default();
    if let Some(path) = &args.html {
        outcome.write(path, || Ok(errors_to_html(&errors, lang)));
    }
    match &args.json {
        Some(path) if path.is_standard_output() => writeln!(stdout(), "{}", json())?,
        other => {
            if let Some(path) = other {
                outcome.write(path, || Ok(format!("{}\n", json())));
            }
            write!(stdout(), "{}", render_errors(&errors, &terminal_options(lang)))?;
        }
    }
    outcome.report();
    outcome.result()?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the model, which must predict classes, labels or numbers.
fn load_predictor(args: &ExplainArgs) -> anyhow::Result<Predictor<'static>> {
    let kind = ModelKind::from_folder(&args.model)?;
    if !matches!(kind, ModelKind::Ngrams | ModelKind::Classifier) {
        let what = kind.describe();
        refuse!(
            "--errors: only for models that predict classes, labels or numbers; this model is {what}. `chumoku eval` shows the scores of its \
             answers",
            "--errors: クラス、複数のラベル、数値を答えるモデルで使えます。このモデルは{what}です。予測の評価は `chumoku eval` で\
             表示できます"
        );
    }
    Ok(load::predictor(&args.model, args.precision)?)
}

/// Returns the read options of the file, with the feature columns of the model.
fn read_options_with_columns(
    args: &ExplainArgs,
    model: Predictor<'_>,
    require_label: bool,
) -> anyhow::Result<ReadOptions> {
    let reading = ReadArgs { feature_columns: required_columns(model.columns(), &args.set)?, ..args.reading.clone() };
    let mut options = read_options(&reading, require_label)?;
    options.use_label_spellings(model.labels());
    Ok(options)
}

/// Refuses pairs for a model of single texts and single texts for a model of pairs. Reports values of columns that
/// could not be read.
fn check_rows<'a>(model: Predictor<'_>, rows: impl Iterator<Item = &'a Row>) -> anyhow::Result<()> {
    let rows: Vec<RowRef<'_>> = rows.map(AsRow::as_row).collect();
    pairs::check_rows(model.reads_pairs(), pairs::are_pairs(&rows))?;
    let mut unread = UnreadableValues::new(model.columns());
    unread.count(&rows);
    report_unread(&unread);
    Ok(())
}

/// Loads rows with one class each. All classes must be known to the model.
fn load_classes(args: &ExplainArgs, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<Example>> {
    let mut dataset = load_labeled(file, &read_options_with_columns(args, model, true)?)?;
    print_status(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        print_status(["skipped", "除外"], &dataset.skipped.to_string());
    }
    if let Some(tree) = model.hierarchy() {
        dataset.examples.iter_mut().for_each(|example| example.label = tree.normalize_label(&example.label));
    }
    check_rows(model, dataset.examples.iter().map(|example| &example.text))?;
    dataset.check_known_labels(model.labels())?;
    Ok(dataset.examples)
}

/// Loads rows with any number of labels each, and adds the ancestors of labels in a tree. All labels must be known to
/// the model.
fn load_label_sets(args: &ExplainArgs, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<MultiLabelExample>> {
    let mut sets = load_label_rows(
        file,
        &read_options_with_columns(args, model, false)?,
        &args.error_args.multi_label.options_or_remembered(&args.reading),
    )?;
    if let Some(tree) = model.label_hierarchy() {
        for example in &mut sets.examples {
            example.labels.iter_mut().for_each(|label| *label = tree.normalize_label(label));
        }
    }
    check_rows(model, sets.examples.iter().map(|example| &example.text))?;
    sets.check_known_labels(model.labels())?;
    if let Some(tree) = model.label_hierarchy() {
        sets.examples.iter_mut().for_each(|example| example.labels = tree.complete_labels(&example.labels));
    }
    Ok(sets.examples)
}

/// Loads rows with a number each.
fn load_numbers(args: &ExplainArgs, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<ScoreExample>> {
    let scores = load_number_rows(file, &read_options_with_columns(args, model, false)?)?;
    check_rows(model, scores.examples.iter().map(|example| &example.text))?;
    Ok(scores.examples)
}
