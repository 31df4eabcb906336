//! Trains a multi-label classifier.

use super::classify::{check_ngrams, next_commands, optional_sections, scored_on_heading, this_model};
use super::{TrainSession, check_watch_text, continued, hierarchy, load_all, report_variants};
use crate::ExitCode;
use crate::UsageError;
use crate::args::{Architecture, TrainArgs};
use crate::commands::read_options;
use crate::progress::print_status;
use crate::report::{self, align_right, fit, label_level_table, label_table};
use crate::sanitize;
use chumoku::data::{
    LabelOptions, MultiLabelDataset, ReadOptions, format_thousands, load_multi_label, options_for_all_files,
};
use chumoku::lang::lang;
use chumoku::tr;
use chumoku::train::{
    BaseModel, DataSource, LabelScores, SourceData, TrainOutcome, TrainingData, network_name, train_labels,
    train_ngram_labels,
};
use chumoku::{ModelKind, sorting};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args, known)?;
    report_data(&data);
    if args.architecture() == Architecture::Ngrams {
        check_ngrams(args)?;
        let session = TrainSession::new(args, ModelKind::Ngrams, threads, start)?;
        let trained = session.train(|training| train_ngram_labels(&data, training))?;
        let Some(TrainOutcome { metrics, .. }) = trained else { return Ok(session.report_interrupted()) };
        return session.finish(false, &metrics, |place| {
            print_summary(&metrics, "", &next_commands(place, false, true, data.reads_pairs()))
        });
    }
    check_watch_text(args, &data)?;
    let session = TrainSession::new(args, ModelKind::Classifier, threads, start)?;
    let trained = session.train(|training| train_labels(&data, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| {
        let noun = network_name(outcome.model.config().model.backbone.kind());
        print_summary(&outcome.metrics, noun, &next_commands(place, false, true, data.reads_pairs()))
    })
}

/// Loads a file with the given label options.
pub(crate) fn load(path: &Path, options: &ReadOptions, how: &LabelOptions) -> anyhow::Result<MultiLabelDataset> {
    let sets = load_multi_label(path, options, how)?;
    print_status(["data", "データ"], &sets.description);
    if sets.skipped.count > 0 {
        print_status(["skipped", "除外"], &sets.skipped.to_string());
    }
    Ok(sets)
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData<Vec<u32>>> {
    let Some(path) = &args.data else {
        let problem = tr!(
            "there is no built-in multi-label data: name a file, such as chumoku train tagged.csv --task labels",
            "複数のラベルが付いた内蔵のデータはありません。ファイルを指定してください（例: chumoku train tagged.csv --task labels）"
        );
        return Err(UsageError(problem).into());
    };
    let options = read_options(&args.reading, false)?;
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let how = args.multi_label.options();
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more).with_labels(&how));
    let mut options = options;
    let known_labels: &[String] = known.map_or(&[], |known| &known.labels[..]);
    options.use_label_spellings(known_labels);
    let like = options_for_all_files(path, &args.more, &options)?;
    let mut train = load_all(args, path, [&options, &like], |path, options| load(path, options, &how))?;
    if options.merge_labels.is_some() {
        train.merge_labels(known_labels);
        options.use_label_spellings(&train.labels());
    }
    report_variants(train.examples.iter().flat_map(|example| &example.labels).map(String::as_str));
    let mut valid = args.valid.as_deref().map(|path| load(path, &options, &how)).transpose()?;
    let mut test = args.test.as_deref().map(|path| load(path, &options, &how)).transpose()?;
    if let Some(known) = known {
        let new = SourceData::new(source, train, [valid, test]);
        return continued::continued_data(args, known, &options, new, (&load, None));
    }
    let tree = hierarchy::label_tree(args.hierarchy.as_deref(), &mut train, [&mut valid, &mut test])?;
    let mut data = TrainingData::from_label_sets(&train, valid.as_ref(), test.as_ref())?;
    data.hierarchy = tree;
    data.sources.extend(source);
    Ok(data)
}

/// Reports rows and labels.
fn report_data(data: &TrainingData<Vec<u32>>) {
    let (train, valid, test) = (data.train.len(), data.valid.len(), data.test.len());
    let [train, valid, test] = [train, valid, test].map(format_thousands);
    let text =
        tr!("{train} to train on, {valid} to validate, {test} to test", "学習 {train}、検証 {valid}、テスト {test}");
    print_status(["rows", "行数"], &text);
    let mut counts: Vec<(usize, &String)> = data.class_rows().into_iter().zip(&data.labels).collect();
    sorting::sort_by_key(&mut counts, |(n, _)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(6).map(|(n, label)| format!("{} {}", sanitize(label), format_thousands(*n))).collect();
    let more = if counts.len() > 6 { lang().pick(", …", "、…") } else { "" };
    let shown = shown.join(lang().pick(", ", "、"));
    let rows = data.train.len().max(1) as f64;
    let mean = counts.iter().map(|(n, _)| *n).sum::<usize>() as f64 / rows;
    let none = data.train.labels.iter().filter(|labels| labels.is_empty()).count();
    let none = match none {
        0 => String::new(),
        n => tr!("; {} rows without labels", "。ラベルのない行 {}", format_thousands(n)),
    };
    let text = tr!(
        "{}, {mean:.2} per row{none}: {shown}{more}",
        "{} 個、1 行あたり {mean:.2} 個{none}: {shown}{more}",
        counts.len()
    );
    print_status(["labels", "ラベル"], &text);
    super::classify::report_columns(&data.columns);
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
}

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first.
fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, LabelScores)>> {
    let scores = |value: &Value| serde_json::from_value::<LabelScores>(value.clone());
    let parts = &metrics["parts"];
    let names = [
        (report::leaked_rows_name(metrics).unwrap_or_default(), &metrics["unseen"]),
        (tr!("  its {noun} alone", "  {noun}単独"), &parts["attention"]),
        (tr!("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), &parts["ngrams"]),
        (tr!("baseline: commonest label", "比較対象: 最も多いラベル"), &parts["most_frequent"]),
    ];
    let mut rows = vec![(this_model().to_owned(), scores(&metrics["scores"])?)];
    for (name, value) in names.into_iter().filter(|(_, value)| !value.is_null()) {
        rows.push((name, scores(value)?));
    }
    Ok(rows)
}

/// Returns the probability threshold of each label.
fn thresholds(metrics: &Value) -> Vec<f32> {
    let thresholds = metrics["blend"]["thresholds"].as_array().into_iter().flatten();
    thresholds.map(|threshold| threshold.as_f64().unwrap_or_default() as f32).collect()
}

/// Formats the full report.
pub(in crate::commands) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &LabelScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n\n");
    let labels = label_table(scores, &thresholds(metrics), "metrics.json", usize::MAX);
    let on = scored_on_heading(metrics, scores.rows);
    let sure = report::abstain_table(&metrics["abstain"]);
    let table = comparison(&rows) + &label_level_table(&rows);
    Ok(format!("{warning}{on}\n\n{table}\n{labels}{sure}{}", optional_sections(metrics)))
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
fn print_summary(metrics: &Value, noun: &str, next: &str) -> anyhow::Result<()> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &LabelScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n");
    let levels = label_level_table(&rows);
    let above = format!("{warning}{}\n{}{levels}\n", scored_on_heading(metrics, scores.rows), comparison(&rows));
    let below = format!("{}{}\n{next}", report::abstain_summary(&metrics["abstain"]), optional_sections(metrics));
    let thresholds = thresholds(metrics);
    // Two headings, the summary of all labels, and blank lines.
    const FRAME: usize = 5;
    let room = report::free_lines(&[&above, &below]).saturating_sub(FRAME);
    let labels = label_table(scores, &thresholds, "metrics.json", room.max(1));
    write!(std::io::stdout().lock(), "{above}{labels}{below}")?;
    Ok(())
}

/// Formats a row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &LabelScores)]) -> String {
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let names = rows[0].1.averages().map(|(name, _)| align_right(name, 9));
    let interval = lang().pick("95 % of micro-F1", "ミクロの 95 % 区間");
    let mut out = format!("{} {}   {interval}\n", fit("", 28), names.join(" "));
    for (name, scores) in rows {
        let values = scores.averages().map(|(_, x)| align_right(&percent(x), 9));
        let [low, high] = scores.micro_f1_interval.map(percent);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        out += &format!("{} {}   {interval}\n", fit(name, 28), values.join(" "));
    }
    out
}
