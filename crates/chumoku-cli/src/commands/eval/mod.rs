//! Implements `chumoku eval`: scores of a model on a file.
//!
//! # Files
//!
//! - `coverage`: the risk–coverage curve
//! - `errors`: `--errors`
//! - `tagger`: taggers

mod coverage;
mod errors;
mod tagger;

use crate::args::{EvalArgs, ReadArgs};
use crate::data::{
    columns, load_autoencoder_rows, load_class_rows, load_label_rows, load_number_rows, load_text_documents,
    load_translation_rows, pairs, read_options,
};
use crate::models::load::report_threshold;
use crate::models::{load, load_with_training_texts, report_training_overlap};
use crate::pictures::OutputFiles;
use crate::progress::{pluralize, report_source_truncation};
use crate::report::texts::{format_language_scores, format_reconstruction_scores, format_translation_scores};
use crate::report::training::this_model;
use crate::report::{classes, labels, numbers, paragraph};
use crate::{ExitCode, UsageError, threads};
use chumoku::answers::{PredictOptions, load_predictor};
use chumoku::data::{Dataset, ReadOptions, format_thousands};
use chumoku::lang::lang;
use chumoku::row::{AsRow, RowRef};
use chumoku::train::{LanguageScores, Scores, TrainingTexts, TranslationScores, network_name};
use chumoku::{FeatureColumn, ModelKind, Prediction, Predictor, TranslateOptions, UnreadableValues, tr};
use serde_json::json;
use std::io::{Write, stdout};

/// Seed of the bootstrap, so that intervals are reproducible.
const SEED: u64 = 42;

pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let args = &mut args.clone();
    args.reading.buffer_pipe(&mut args.data)?;
    args.reading.use_training_source(&args.model);
    let kind = ModelKind::from_folder(&args.model)?;
    if args.errors.is_some() && !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        return Err(errors_unavailable().into());
    }
    if args.pictures.is_any_given() && !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        return Err(picture_unavailable().into());
    }
    refuse_if!(
        args.thresholds.is_given()
            && matches!(
                kind,
                ModelKind::Tagger | ModelKind::Translator | ModelKind::Autoencoder | ModelKind::LanguageModel
            ),
        "--threshold, --precision-at-least: this model predicts no classes; leave them out",
        "--threshold、--precision-at-least: このモデルはクラスを答えません。指定を外してください"
    );
    if !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        columns::required_columns(&[], &args.set)?;
    }
    match kind {
        ModelKind::Tagger => tagger::eval(args, SEED),
        ModelKind::Translator => eval_translator(args),
        ModelKind::Autoencoder => eval_autoencoder(args),
        ModelKind::LanguageModel => eval_language_model(args),
        // Loading fails with a message for any other kind of model.
        _ => eval_predictor(args),
    }
}

/// The error for a picture that the model does not have.
fn picture_unavailable() -> UsageError {
    UsageError(tr!(
        "--svg, --png, --pdf: only models of one class per text (risk–coverage curve) and of numbers (scatter plot) have a picture; leave \
         them out",
        "--svg、--png、--pdf: 図があるのは、1 テキスト 1 クラスのモデル（リスク・カバレッジ曲線）と数値のモデル（散布図）だけです。指定を\
         外してください"
    ))
}

/// The error for a table of wrong rows that the model does not have.
fn errors_unavailable() -> UsageError {
    UsageError(tr!(
        "--errors: only available for models that predict one class per text; leave it out",
        "--errors: テキストごとに 1 つのクラスを答えるモデルだけで使えます。指定を外してください"
    ))
}

/// Writes the wrongly predicted rows and draws the risk–coverage curve, if requested.
fn write_errors_and_curve(
    args: &EvalArgs,
    dataset: &Dataset,
    labels: &[String],
    predict: impl FnOnce(&[RowRef<'_>]) -> chumoku::Result<Vec<Prediction>>,
) -> anyhow::Result<OutputFiles> {
    let mut outcome = OutputFiles::default();
    if args.errors.is_none() && !args.pictures.is_any_given() {
        return Ok(outcome);
    }
    let texts: Vec<RowRef<'_>> = dataset.examples.iter().map(|example| example.text.as_row()).collect();
    let predictions = predict(&texts)?;
    if let Some(path) = &args.errors {
        outcome.write(path, || errors::to_csv(&dataset.examples, &predictions, labels));
    }
    args.pictures.write(&coverage::figure(dataset, labels, &predictions), &mut outcome);
    outcome.report();
    Ok(outcome)
}

fn eval_translator(args: &mut EvalArgs) -> anyhow::Result<ExitCode> {
    let model = load::translator(&args.model, args.precision)?;
    args.reading.use_side_names(&model.config().names);
    let dataset = load_translation_rows(&args.data, &read_options(&args.reading, false)?)?;
    let scores = TranslationScores::measure(model, &dataset.pairs.iter().collect(), &TranslateOptions::default())?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&scores)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (n, pairs) = (format_thousands(scores.pairs), pluralize(scores.pairs, "pair"));
    writeln!(out, "{}\n", tr!("{pairs}, with a beam of 5", "{n} 組、ビーム幅 5"))?;
    write!(out, "{}", format_translation_scores(&scores))?;
    if scores.cut_sources > 0 {
        let most = model.config().model.max_length - 1;
        report_source_truncation(scores.cut_sources, most);
    }
    Ok(ExitCode::SUCCESS)
}

fn eval_autoencoder(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    let model = load::autoencoder(&args.model, args.precision)?;
    let texts = load_autoencoder_rows(&args.data, &read_options(&args.reading, false)?)?;
    let scores =
        TranslationScores::measure_autoencoder(model, &texts.pairs.iter().collect(), &TranslateOptions::default())?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&scores)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (n, texts, width) = (format_thousands(scores.pairs), pluralize(scores.pairs, "text"), model.embedding_dim());
    writeln!(out, "{}\n", tr!("{texts}, through {width} numbers", "{n} 個のテキスト、{width} 個の数を経由"))?;
    write!(out, "{}", format_reconstruction_scores(&scores))?;
    if scores.cut_sources > 0 {
        report_source_truncation(scores.cut_sources, model.max_tokens());
    }
    Ok(ExitCode::SUCCESS)
}

fn eval_language_model(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    let model = load::generator(&args.model, args.precision)?;
    let documents = load_text_documents(&args.data, &read_options(&args.reading, false)?)?;
    let scores = LanguageScores::measure(model, &documents.texts)?;
    let mut out = stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&scores)?)?,
        false => {
            let (n, tokens) = (format_thousands(scores.tokens), pluralize(scores.tokens, "token"));
            write!(out, "{}\n\n{}", tr!("{tokens}", "{n} トークン"), format_language_scores(&scores))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the read options for a model with these feature columns.
fn read_options_with_columns(
    args: &EvalArgs,
    columns: &[FeatureColumn],
    require_label: bool,
) -> anyhow::Result<ReadOptions> {
    let beside = columns::required_columns(columns, &args.set)?;
    read_options(&ReadArgs { feature_columns: beside, ..args.reading.clone() }, require_label)
}

/// Reports values of feature columns that could not be read.
fn report_unread_values(columns: &[FeatureColumn], rows: &[RowRef<'_>]) {
    let mut unread = UnreadableValues::new(columns);
    unread.count(rows);
    columns::report_unread(&unread);
}

/// Loads a labeled file, and counts the rows whose text the model was trained on, if that is known.
fn load_labelled_rows(
    args: &EvalArgs,
    model: Predictor<'_>,
    training_texts: Option<&TrainingTexts>,
) -> anyhow::Result<(Dataset, Option<usize>)> {
    let (labels, columns) = (model.labels(), model.columns());
    let mut options = read_options_with_columns(args, columns, true)?;
    options.use_label_spellings(labels);
    let mut dataset = load_class_rows(&args.data, &options)?;
    if let Some(tree) = model.hierarchy() {
        dataset.examples.iter_mut().for_each(|example| example.label = tree.normalize_label(&example.label));
    }
    let texts: Vec<RowRef<'_>> = dataset.examples.iter().map(|example| example.text.as_row()).collect();
    pairs::check_rows(model.reads_pairs(), pairs::are_pairs(&texts))?;
    dataset.check_known_labels(labels)?;
    report_unread_values(columns, &texts);
    let overlap = report_training_overlap(training_texts, &texts);
    Ok((dataset, overlap))
}

/// Prints scores: the warning first, then predictors side by side, then each class.
fn print_scores(rows: &[(&str, &Scores)]) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let whole = rows[0].1;
    if let Some(warning) = whole.warning() {
        writeln!(out, "{}\n", paragraph(&warning))?;
    }
    let (n, rows_counted) = (format_thousands(whole.rows), pluralize(whole.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows_counted}", "{n} 行"))?;
    writeln!(out, "{}{}", classes::predictor_table(rows), classes::level_table(rows))?;
    write!(out, "{}", classes::class_report(whole, "--json"))?;
    Ok(())
}

/// Scores a multi-label model.
fn eval_labels(
    args: &EvalArgs,
    model: Predictor<'_>,
    training_texts: Option<&TrainingTexts>,
) -> anyhow::Result<ExitCode> {
    let columns = model.columns();
    let mut options = read_options_with_columns(args, columns, false)?;
    options.use_label_spellings(model.labels());
    let mut sets = load_label_rows(&args.data, &options, &args.multi_label.options_or_remembered(&args.reading))?;
    if let Some(tree) = model.label_hierarchy() {
        let names = sets.examples.iter_mut().flat_map(|example| &mut example.labels);
        names.for_each(|label| *label = tree.normalize_label(label));
    }
    let texts: Vec<RowRef<'_>> = sets.examples.iter().map(|example| example.text.as_row()).collect();
    pairs::check_rows(model.reads_pairs(), pairs::are_pairs(&texts))?;
    sets.check_known_labels(model.labels())?;
    report_unread_values(columns, &texts);
    let overlap = report_training_overlap(training_texts, &texts);
    let scores = model.score_labels(&sets.examples, SEED)?;
    let mut out = stdout().lock();
    if args.json {
        let scores = json!({
            "rows": scores.rows,
            "rows_trained_on": overlap,
            "micro_f1": scores.micro_f1,
            "macro_f1": scores.macro_f1,
            "scores": scores,
        });
        writeln!(out, "{scores}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(warning) = scores.warning() {
        writeln!(out, "{}\n", paragraph(&warning))?;
    }
    let (n, rows) = (format_thousands(scores.rows), pluralize(scores.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows}", "{n} 行"))?;
    let rows = [(this_model(), &scores)];
    writeln!(out, "{}{}", labels::comparison(&rows), labels::label_level_table(&rows))?;
    let thresholds = model.target().labels().map(|blend| &blend.thresholds[..]).unwrap_or_default();
    write!(out, "{}", labels::label_table(&scores, thresholds, "--json", usize::MAX))?;
    Ok(ExitCode::SUCCESS)
}

/// Scores a model that predicts numbers.
fn eval_numbers(
    args: &EvalArgs,
    model: Predictor<'_>,
    training_texts: Option<&TrainingTexts>,
) -> anyhow::Result<ExitCode> {
    let data = load_number_rows(&args.data, &read_options_with_columns(args, model.columns(), false)?)?;
    let texts: Vec<RowRef<'_>> = data.examples.iter().map(|example| example.text.as_row()).collect();
    pairs::check_rows(model.reads_pairs(), pairs::are_pairs(&texts))?;
    report_unread_values(model.columns(), &texts);
    let overlap = report_training_overlap(training_texts, &texts);
    let (scores, points) = model.score_numbers(&data.examples, SEED)?;
    let mut outcome = OutputFiles::default();
    args.pictures.write(&numbers::scatter(&points), &mut outcome);
    outcome.report();
    let mut out = stdout().lock();
    if args.json {
        let scores = json!({
            "rows": scores.rows,
            "rows_trained_on": overlap,
            "mean_absolute_error": scores.mean_absolute_error,
            "r2": scores.r2,
            "spearman": scores.spearman,
            "coverage": scores.coverage,
            "scores": scores,
        });
        writeln!(out, "{scores}")?;
        return outcome.result().map(|()| ExitCode::SUCCESS);
    }
    if let Some(warning) = scores.warning() {
        writeln!(out, "{}\n", paragraph(&warning))?;
    }
    let (n, rows) = (format_thousands(scores.rows), pluralize(scores.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows}", "{n} 行"))?;
    writeln!(out, "{}", numbers::comparison(&[(this_model(), &scores)]))?;
    write!(out, "{}", numbers::score_details(&scores, &points))?;
    outcome.result().map(|()| ExitCode::SUCCESS)
}

/// Scores a model of labels or numbers. Returns `None` for models of one class per text.
fn eval_labels_or_numbers(
    args: &EvalArgs,
    model: Predictor<'_>,
    training_texts: Option<&TrainingTexts>,
) -> anyhow::Result<Option<ExitCode>> {
    if model.target().is_one_class() {
        return Ok(None);
    }
    if args.errors.is_some() {
        return Err(errors_unavailable().into());
    }
    if model.predicts_numbers() {
        return eval_numbers(args, model, training_texts).map(Some);
    }
    if args.pictures.is_any_given() {
        return Err(picture_unavailable().into());
    }
    eval_labels(args, model, training_texts).map(Some)
}

/// Returns the options with which the model predicts.
fn predict_options(args: &EvalArgs) -> PredictOptions {
    PredictOptions {
        thresholds: args.thresholds.options(),
        precision: args.precision.map(Into::into),
        ..PredictOptions::default()
    }
}

fn eval_predictor(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    let load = || Ok(load_predictor(&args.model, &predict_options(args), &mut report_threshold)?);
    let (model, training_texts) = load_with_training_texts(&args.model, load)?;
    if let Some(code) = eval_labels_or_numbers(args, model, training_texts.as_ref())? {
        return Ok(code);
    }
    let (dataset, overlap) = load_labelled_rows(args, model, training_texts.as_ref())?;
    let (whole, parts) = model.score(&dataset.examples, SEED)?;
    let drawn = write_errors_and_curve(args, &dataset, model.labels(), |texts| model.predict(texts))?;
    if args.json {
        let mut scores = json!({
            "rows": whole.rows,
            "rows_trained_on": overlap,
            "accuracy": whole.accuracy,
            "macro_f1": whole.macro_f1,
            "scores": whole,
        });
        if let Some([attention, ngrams]) = &parts {
            scores["parts"] = json!({ "attention": attention, "ngrams": ngrams });
        }
        writeln!(stdout(), "{scores}")?;
        return drawn.result().map(|()| ExitCode::SUCCESS);
    }
    let alone = model.network_kind().map(network_name).map(|noun| tr!("  {noun} alone", "  {noun}単独"));
    let mut rows = vec![(this_model(), &whole)];
    // A published classifier has no n-gram model.
    if let (Some(alone), Some([attention, ngrams]), true) = (&alone, &parts, model.is_ensemble()) {
        rows.extend([(&alone[..], attention), (lang().pick("  n-grams alone", "  n-gram 単独"), ngrams)]);
    }
    print_scores(&rows)?;
    drawn.result().map(|()| ExitCode::SUCCESS)
}
