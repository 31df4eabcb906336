//! `chumoku eval`: a model's scores on a file.

use super::coverage;
use super::errors;
use super::pictures::Outcome;
use super::read_options;
use super::seen::{tell_of_seen, with_seen};
use super::train::classify::this_model;
use super::train::{labels, language, score, translate};
use super::{load, pairs};
use crate::args::{Eval, Reading};
use crate::progress::{count, tell};
use crate::{ExitCode, Usage};
use crate::{report, threads};
use chumoku::answers::Predictor;
use chumoku::data::{Dataset, DocumentBreaks, ReadOptions, load_documents, load_labelled, thousands};
use chumoku::hierarchy::Hierarchy;
use chumoku::lang::lang;
use chumoku::train::{LanguageScores, Scores, SeenTexts, TranslationScores, network_name};
use chumoku::{ModelKind, Prediction, SideColumn, TranslateOptions, Unread, tr};
use serde_json::json;
use std::io::{Write, stdout};

/// Decides the bootstrap's resamples, so that the interval repeats.
const SEED: u64 = 42;

pub(crate) fn run(args: &Eval) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let args = &mut args.clone();
    args.reading.keep(&mut args.data)?;
    args.reading.remember(&args.model);
    let kind = ModelKind::of(&args.model)?;
    if args.errors.is_some() && !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        return Err(no_errors().into());
    }
    if args.pictures.any() && !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        return Err(no_picture().into());
    }
    if args.thresholds.is_asked()
        && matches!(kind, ModelKind::Tagger | ModelKind::Translator | ModelKind::LanguageModel)
    {
        return Err(Usage(tr!(
            "--threshold, --precision-at-least: this model tells no classes; leave them out",
            "--threshold、--precision-at-least: このモデルはクラスを答えません。指定を外してください"
        ))
        .into());
    }
    if !matches!(kind, ModelKind::Classifier | ModelKind::Ngrams) {
        super::columns::asked_of(&[], &args.set)?;
    }
    match kind {
        ModelKind::Ngrams => ngrams(args),
        ModelKind::Tagger => super::tagged::eval(args, SEED),
        ModelKind::Translator => translations(args),
        ModelKind::LanguageModel => text(args),
        // Says what is wrong with a model of another kind.
        _ => classes(args),
    }
}

/// What is said where a picture is asked for that there is not.
fn no_picture() -> Usage {
    Usage(tr!(
        "--svg, --png, --pdf: only models of one class a text (risk–coverage curve) and of numbers (scatter plot) have a picture; leave \
         them out",
        "--svg、--png、--pdf: 図があるのは、1 テキスト 1 クラスのモデル（リスク・カバレッジ曲線）と数値のモデル（散布図）だけです。指定を\
         外してください"
    ))
}

/// What is said where rows are asked for that there are not.
fn no_errors() -> Usage {
    Usage(tr!(
        "--errors: only of models that give each text one class; leave it out",
        "--errors: テキストごとに 1 つのクラスを答えるモデルだけで使えます。指定を外してください"
    ))
}

/// Writes the rows that are answered wrongly and draws the risk–coverage curve, where these are asked for.
fn after(
    args: &Eval,
    dataset: &Dataset,
    labels: &[String],
    predict: impl FnOnce(&[&str]) -> chumoku::Result<Vec<Prediction>>,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    if args.errors.is_none() && !args.pictures.any() {
        return Ok(outcome);
    }
    let texts: Vec<&str> = dataset.examples.iter().map(|example| example.text.as_str()).collect();
    let predictions = predict(&texts)?;
    if let Some(path) = &args.errors {
        outcome.write(path, || errors::to_csv(&dataset.examples, &predictions, labels));
    }
    args.pictures.write(&coverage::figure(dataset, labels, &predictions), &mut outcome);
    outcome.say();
    Ok(outcome)
}

fn translations(args: &Eval) -> anyhow::Result<ExitCode> {
    let model = load::translator(&args.model, args.precision)?;
    let dataset = translate::load(&args.data, &read_options(&args.reading, false)?)?;
    let scores = TranslationScores::measure(model, &dataset.pairs.iter().collect(), &TranslateOptions::default())?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&scores)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (n, pairs) = (thousands(scores.pairs), count(scores.pairs, "pair"));
    writeln!(out, "{}\n", tr!("{pairs}, with a beam of 5", "{n} 組、ビーム幅 5"))?;
    write!(out, "{}", translate::scored(&scores))?;
    if scores.cut_sources > 0 {
        let most = model.config().model.max_length - 1;
        translate::tell_of_cuts(scores.cut_sources, most);
    }
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Eval) -> anyhow::Result<ExitCode> {
    let model = load::generator(&args.model, args.precision)?;
    let documents = load_documents(&args.data, DocumentBreaks::Auto, &read_options(&args.reading, false)?)?;
    tell(["data", "データ"], &documents.description);
    if documents.skipped.count > 0 {
        tell(["skipped", "除外"], &documents.skipped.to_string());
    }
    let scores = LanguageScores::measure(model, &documents.texts)?;
    let mut out = stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&scores)?)?,
        false => {
            let (n, tokens) = (thousands(scores.tokens), count(scores.tokens, "token"));
            write!(out, "{}\n\n{}", tr!("{tokens}", "{n} トークン"), language::scored(&scores))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How the file is read for a model of these columns.
fn options_of(args: &Eval, columns: &[SideColumn], require_label: bool) -> anyhow::Result<ReadOptions> {
    let beside = super::columns::asked_of(columns, &args.set)?;
    read_options(&Reading { beside, ..args.reading.clone() }, require_label)
}

/// Says which values of columns cannot be read.
fn tell_of_unread(columns: &[SideColumn], rows: &[&str]) {
    let mut unread = Unread::of(columns);
    unread.see(rows);
    super::columns::tell_of(&unread);
}

/// A labelled file, and how many of its rows have a text that the model was trained on, where that is known.
fn labelled(
    (args, seen): (&Eval, Option<&SeenTexts>),
    (labels, hierarchy): (&[String], Option<&Hierarchy>),
    reads_pairs: bool,
    columns: &[SideColumn],
) -> anyhow::Result<(Dataset, Option<usize>)> {
    let mut options = options_of(args, columns, true)?;
    options.merge_into(labels);
    let mut dataset = load_labelled(&args.data, &options)?;
    tell(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        tell(["skipped", "除外"], &dataset.skipped.to_string());
    }
    if let Some(tree) = hierarchy {
        dataset.examples.iter_mut().for_each(|example| example.label = tree.tidy(&example.label));
    }
    let texts: Vec<&str> = dataset.examples.iter().map(|example| example.text.as_str()).collect();
    pairs::check_rows(reads_pairs, pairs::is_pair(texts.first().copied()))?;
    dataset.check_known_labels(labels)?;
    tell_of_unread(columns, &texts);
    let seen = tell_of_seen(seen, &texts);
    Ok((dataset, seen))
}

/// The scores for people: what must be said first, predictors side by side, and each class.
fn print(rows: &[(&str, &Scores)]) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let whole = rows[0].1;
    if let Some(warning) = whole.warning() {
        writeln!(out, "{}\n", report::filled(&warning))?;
    }
    let (n, rows_counted) = (thousands(whole.rows), count(whole.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows_counted}", "{n} 行"))?;
    writeln!(out, "{}", report::comparison(rows))?;
    write!(out, "{}{}", report::levels(rows), report::classes(whole, "--json"))?;
    Ok(())
}

/// Scores of any number of labels a text.
fn labels(args: &Eval, model: Predictor<'_>, seen: Option<&SeenTexts>) -> anyhow::Result<ExitCode> {
    let columns = model.columns();
    let mut options = options_of(args, columns, false)?;
    options.merge_into(model.labels());
    let mut sets = labels::load(&args.data, &options, &args.several.options_like(&args.reading))?;
    if let Some(tree) = model.tree_of_labels() {
        let names = sets.examples.iter_mut().flat_map(|example| &mut example.labels);
        names.for_each(|label| *label = tree.tidy(label));
    }
    let texts: Vec<&str> = sets.examples.iter().map(|example| example.text.as_str()).collect();
    pairs::check_rows(model.reads_pairs(), pairs::is_pair(texts.first().copied()))?;
    sets.check_known_labels(model.labels())?;
    tell_of_unread(columns, &texts);
    let seen = tell_of_seen(seen, &texts);
    let scores = model.score_labels(&sets.examples, SEED)?;
    let mut out = stdout().lock();
    if args.json {
        let scores = json!({
            "rows": scores.rows,
            "rows_trained_on": seen,
            "micro_f1": scores.micro_f1,
            "macro_f1": scores.macro_f1,
            "scores": scores,
        });
        writeln!(out, "{scores}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(warning) = scores.warning() {
        writeln!(out, "{}\n", report::filled(&warning))?;
    }
    let (n, rows) = (thousands(scores.rows), count(scores.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows}", "{n} 行"))?;
    let rows = [(this_model(), &scores)];
    writeln!(out, "{}{}", labels::comparison(&rows), report::label_levels(&rows))?;
    let thresholds = model.problem().labels().map(|blend| &blend.thresholds[..]).unwrap_or_default();
    write!(out, "{}", report::several_labels(&scores, thresholds, "--json", usize::MAX))?;
    Ok(ExitCode::SUCCESS)
}

/// Scores of a number for each text.
fn numbers(args: &Eval, model: Predictor<'_>, seen: Option<&SeenTexts>) -> anyhow::Result<ExitCode> {
    let data = score::load(&args.data, &options_of(args, model.columns(), false)?)?;
    let texts: Vec<&str> = data.examples.iter().map(|example| example.text.as_str()).collect();
    pairs::check_rows(model.reads_pairs(), pairs::is_pair(texts.first().copied()))?;
    tell_of_unread(model.columns(), &texts);
    let seen = tell_of_seen(seen, &texts);
    let (scores, points) = model.score_numbers(&data.examples, SEED)?;
    let mut outcome = Outcome::default();
    args.pictures.write(&score::scatter(&points), &mut outcome);
    outcome.say();
    let mut out = stdout().lock();
    if args.json {
        let scores = json!({
            "rows": scores.rows,
            "rows_trained_on": seen,
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
        writeln!(out, "{}\n", report::filled(&warning))?;
    }
    let (n, rows) = (thousands(scores.rows), count(scores.rows, "row"));
    writeln!(out, "{}\n", tr!("{rows}", "{n} 行"))?;
    writeln!(out, "{}", score::comparison(&[(this_model(), &scores)]))?;
    write!(out, "{}", score::details(&scores, &points))?;
    outcome.result().map(|()| ExitCode::SUCCESS)
}

/// What a model is worth that gives a text no class but labels or a number; none of others.
fn questions(args: &Eval, model: Predictor<'_>, seen: Option<&SeenTexts>) -> anyhow::Result<Option<ExitCode>> {
    if model.problem().is_one_class() {
        return Ok(None);
    }
    if args.errors.is_some() {
        return Err(no_errors().into());
    }
    if model.tells_numbers() {
        return numbers(args, model, seen).map(Some);
    }
    if args.pictures.any() {
        return Err(no_picture().into());
    }
    labels(args, model, seen).map(Some)
}

fn classes(args: &Eval) -> anyhow::Result<ExitCode> {
    let load = || load::classifier_at(&args.model, args.precision, &args.thresholds);
    let (model, seen) = with_seen(&args.model, load)?;
    if let Some(code) = questions(args, Predictor::Classifier(model), seen.as_ref())? {
        return Ok(code);
    }
    let config = model.config();
    let known = (model.labels(), config.hierarchy.as_ref());
    let (dataset, seen) = labelled((args, seen.as_ref()), known, config.reads_pairs(), config.columns())?;
    let (whole, parts) = model.score(&dataset.examples, SEED)?;
    let drawn = after(args, &dataset, model.labels(), |texts| model.predict(texts))?;
    if args.json {
        let scores = json!({
            "rows": whole.rows,
            "rows_trained_on": seen,
            "accuracy": whole.accuracy,
            "macro_f1": whole.macro_f1,
            "scores": whole,
            "parts": { "attention": parts[0], "ngrams": parts[1] },
        });
        writeln!(stdout(), "{scores}")?;
        return drawn.result().map(|()| ExitCode::SUCCESS);
    }
    let noun = network_name(model.config().model.body.network());
    let alone = tr!("  {noun} alone", "  {noun}単独");
    let ngrams = lang().pick("  n-grams alone", "  n-gram 単独");
    let mut rows = vec![(this_model(), &whole)];
    // A published classifier is a network alone.
    if model.has_ngrams() {
        rows.extend([(&alone[..], &parts[0]), (ngrams, &parts[1])]);
    }
    print(&rows)?;
    drawn.result().map(|()| ExitCode::SUCCESS)
}

fn ngrams(args: &Eval) -> anyhow::Result<ExitCode> {
    let load = || load::ngrams_at(&args.model, args.precision, &args.thresholds);
    let (model, seen) = with_seen(&args.model, load)?;
    if let Some(code) = questions(args, Predictor::Ngrams(model), seen.as_ref())? {
        return Ok(code);
    }
    let known = (model.labels(), model.config().hierarchy.as_ref());
    let (dataset, seen) = labelled((args, seen.as_ref()), known, model.config().reads_pairs(), model.columns())?;
    let scores = model.score(&dataset.examples, SEED)?;
    let drawn = after(args, &dataset, model.labels(), |texts| model.predict(texts))?;
    if args.json {
        let scores = json!({
            "rows": scores.rows,
            "rows_trained_on": seen,
            "accuracy": scores.accuracy,
            "macro_f1": scores.macro_f1,
            "scores": scores,
        });
        writeln!(stdout(), "{scores}")?;
        return drawn.result().map(|()| ExitCode::SUCCESS);
    }
    print(&[(this_model(), &scores)])?;
    drawn.result().map(|()| ExitCode::SUCCESS)
}
