//! Trains a classifier.

use super::{TrainSession, check_watch_text, continued, hierarchy, load_all, masked, report_variants};
use crate::ExitCode;
use crate::args::{Architecture, TrainArgs};
use crate::commands::{read_options, shell_quoted};
use crate::progress::print_status;
use crate::{UsageError, report, sanitize};
use chumoku::ModelKind;
use chumoku::builtin;
use chumoku::data::format_thousands;
use chumoku::data::{Dataset, LabelOptions, ReadOptions, load_labeled, merge_labels, options_for_all_files};
use chumoku::lang::lang;
use chumoku::train::{
    BaseModel, DataSource, Scores, SourceData, TrainOptions, TrainingData, check_tune, choice_sentence, network_name,
    train, train_ngram_classifier, tune, tune_ngrams,
};
use chumoku::{FeatureColumn, row, sorting, stages, tr};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let reading = stages::begin(stages::READING);
    let data = data(args, known)?;
    drop(reading);
    report_data(&data);
    // Checked before the output folder is created.
    args.class_weights.as_ref().map(|weights| weights.for_data(&data)).transpose()?;
    data.check_optimize(args.optimize.map(Into::into))?;
    if args.tune.is_some() {
        check_tune(&data, &TrainOptions::default())?;
    }
    if args.architecture() == Architecture::Ngrams {
        return ngrams(args, &data, threads, start);
    }
    check_watch_text(args, &data)?;
    let texts = masked::pretraining_texts(args, &data)?;
    let mut session = TrainSession::new(args, ModelKind::Classifier, threads, start)?;
    if let Some(texts) = texts {
        let Some(base) = masked::pretrain_base(&session, &texts, threads)? else {
            return Ok(session.report_interrupted());
        };
        session.options.from = Some(base);
    }
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune(&data, budget, training),
        None => train(&data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| {
        let noun = network_name(outcome.model.config().model.backbone.kind());
        let advice = with_choice(outcome.choice.as_deref(), outcome.advice.as_deref().unwrap_or_default());
        print_summary(
            &outcome.metrics,
            noun,
            &next_commands(place, args.data.is_none(), true, data.reads_pairs()),
            &advice,
        )
    })
}

/// Appends the chosen training method to the advice.
fn with_choice(choice: Option<&str>, advice: &str) -> String {
    choice.map_or_else(|| advice.to_owned(), |choice| tr!("{advice} Chosen: {choice}.", "{advice}選択: {choice}。"))
}

/// Refuses flags that need a network.
pub(super) fn check_ngrams(args: &TrainArgs) -> Result<(), UsageError> {
    if args.epochs.is_some() {
        let problem = tr!(
            "--epochs: an n-gram model is not trained in epochs; leave it out",
            "--epochs: n-gram モデルの学習にエポックはありません。指定を外してください"
        );
        return Err(UsageError(problem));
    }
    if args.parts.is_some() {
        let problem = tr!(
            "--parts: an n-gram model is not trained in batches; leave it out",
            "--parts: n-gram モデルの学習にバッチはありません。指定を外してください"
        );
        return Err(UsageError(problem));
    }
    Ok(())
}

/// Trains the n-gram model alone.
fn ngrams(args: &TrainArgs, data: &TrainingData, threads: usize, start: Instant) -> anyhow::Result<ExitCode> {
    check_ngrams(args)?;
    let session = TrainSession::new(args, ModelKind::Ngrams, threads, start)?;
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune_ngrams(data, budget, training),
        None => train_ngram_classifier(data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(false, &outcome.metrics, |place| {
        let next = next_commands(place, args.data.is_none(), false, data.reads_pairs());
        print_summary(&outcome.metrics, "", &next, outcome.advice.as_deref().unwrap_or_default())
    })
}

/// Returns the heading of the scores: the rows they were measured on.
pub(super) fn scored_on_heading(metrics: &serde_json::Value, rows: usize) -> String {
    let count = format_thousands(rows);
    match metrics["scored_on"].as_str() {
        Some("test") => tr!("On {count} test rows, not used in training:", "学習に使っていない {count} 行での結果:"),
        Some("valid") => tr!(
            "On {count} validation rows (no test rows: the scores are optimistic):",
            "検証データ {count} 行での結果（テスト用の行がないため、楽観的な値です）:"
        ),
        _ => tr!(
            "On {count} training rows (no other rows: the scores are no estimate for new texts):",
            "学習データ {count} 行での結果（ほかに行がないため、新しいテキストについては\n何も分かりません）:"
        ),
    }
}

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first. `noun` names
/// the model's network.
fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, Scores)>> {
    let scores = |value: &Value| serde_json::from_value::<Scores>(value.clone());
    let whole = scores(&metrics["scores"])?;
    let leaked = report::leaked_rows_name(metrics);
    let parts = &metrics["parts"];
    let names = [
        (leaked.unwrap_or_default(), &metrics["unseen"]),
        (tr!("  its {noun} alone", "  {noun}単独"), &parts["attention"]),
        (tr!("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), &parts["ngrams"]),
        (tr!("baseline: transformer, from scratch", "比較対象: ゼロから学習したもの"), &parts["from_scratch"]),
        (tr!("baseline: most frequent class", "比較対象: 最も多いクラス"), &parts["majority"]),
    ];
    let mut rows = vec![(this_model().to_owned(), whole)];
    let optimize = &metrics["optimize"];
    if !optimize.is_null() {
        let name = match optimize["applied"] == true {
            true => tr!("  without --optimize macro-f1", "  --optimize macro-f1 なし"),
            false => tr!("  with --optimize macro-f1", "  --optimize macro-f1 あり"),
        };
        rows.push((name, scores(&optimize["scores"])?));
    }
    for (name, value) in names.into_iter().filter(|(_, value)| !value.is_null()) {
        rows.push((name, scores(value)?));
    }
    Ok(rows)
}

/// Formats the full report: warnings, predictors side by side, and each class of the first.
pub(in crate::commands) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &Scores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let whole = rows[0].1;
    let warning = whole.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n\n");
    let on = scored_on_heading(metrics, whole.rows);
    let classes = report::level_table(&rows) + &report::class_report(whole, "metrics.json");
    let sure = report::abstain_table(&metrics["abstain"]);
    let asked = optional_sections(metrics);
    let mut out = format!("{warning}{on}\n\n{}\n{classes}{sure}{asked}", report::predictor_table(&rows));
    if let Some(choice) = choice_sentence(metrics) {
        out += &format!("\n{}\n", report::paragraph(&tr!("Chosen: {choice}.", "選択: {choice}。")));
    }
    out += &weights_sentence(metrics, noun);
    Ok(out)
}

/// Describes which epoch the network's weights are from, and why. Empty for a model without epochs.
fn weights_sentence(metrics: &Value, noun: &str) -> String {
    let [best, epochs, chosen] =
        [&metrics["best_epoch"], &metrics["epochs"], &metrics["choice"]["epochs"]].map(Value::as_u64);
    let Some(epochs) = epochs.filter(|epochs| *epochs > 0) else { return String::new() };
    let text = match (best, chosen) {
        (Some(best), _) => tr!(
            "The {noun}'s weights are those after epoch {best} of {epochs}, the best.",
            "{noun}の重みは、全 {epochs} エポック中で最良のエポック {best} のものです。"
        ),
        (None, Some(chosen)) => tr!(
            "The {noun}'s weights are those after epoch {epochs}, the last: cross-validation chose {chosen} epochs.",
            "{noun}の重みは、最後のエポック {epochs} のものです。エポック数 {chosen} は交差検証で選びました。"
        ),
        (None, None) => tr!(
            "The {noun}'s weights are those after epoch {epochs}, the last: there were no held-out rows to choose one.",
            "{noun}の重みは、最後のエポック {epochs} のものです。エポックを選ぶための行はありません。"
        ),
    };
    format!("\n{}\n", report::paragraph(&text))
}

/// Formats the sections that the user requested: cross-validation, the search for settings, and the changes by
/// continued training.
pub(super) fn optional_sections(metrics: &Value) -> String {
    report::cross_validation(&metrics["folds"])
        + &super::tune::format_trials(&metrics["tuning"])
        + &continued::format_changes(&metrics["further"])
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
fn print_summary(metrics: &Value, noun: &str, next: &str, advice: &str) -> anyhow::Result<()> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &Scores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let whole = rows[0].1;
    let warning = whole.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n");
    let sure = report::abstain_summary(&metrics["abstain"]);
    let above =
        format!("{warning}{}\n{}{sure}", scored_on_heading(metrics, whole.rows), report::predictor_table(&rows));
    let levels = report::level_table(&rows);
    let levels = if levels.is_empty() { levels } else { format!("\n{levels}") };
    let asked = optional_sections(metrics);
    let below = format!("{asked}\n{next}{}\n", report::paragraph(advice));
    let room = report::free_lines(&[&above, &levels, &below]);
    write!(std::io::stdout().lock(), "{above}{levels}{}{below}", report::short_class_table(whole, room))?;
    Ok(())
}

/// Returns the name of the model in tables.
pub(crate) fn this_model() -> &'static str {
    lang().pick("this model", "このモデル")
}

/// Lists the next commands: predict, explain, the full report, and training on the user's own texts.
pub(super) fn next_commands(place: &Path, is_builtin: bool, has_page: bool, reads_pairs: bool) -> String {
    let mut lines = vec![tr!("Next:", "次にできること:")];
    let place = shell_quoted(&place.display().to_string());
    let page = if has_page { " --html why.html" } else { "" };
    let [text, first, second] = [["some text", "テキスト"], ["first text", "1 つ目"], ["second text", "2 つ目"]]
        .map(|[en, ja]| lang().pick(en, ja));
    let [predict, explain] = match reads_pairs {
        false => [format!("\"{text}\""), format!("\"{text}\"")],
        true => [format!("\"{first}\" \"{second}\""), format!("\"{first}\" --target \"{second}\"")],
    };
    lines.push(format!("  chumoku predict {place} {predict}"));
    lines.push(format!("  chumoku explain {place} {explain}{page}"));
    lines.push(tr!(
        "  chumoku info {place} --report   every class, calibration",
        "  chumoku info {place} --report   全クラス、較正など"
    ));
    if is_builtin {
        lines.push(tr!(
            "  chumoku train your-file.csv   your texts: CSV, TSV, JSONL, Parquet, Excel, .gz",
            "  chumoku train your-file.csv   自分のテキスト（CSV、Excel、JSONL など）"
        ));
    }
    lines.join("\n") + "\n"
}

pub(crate) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<Dataset> {
    let dataset = load_labeled(path, options)?;
    print_status(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        print_status(["skipped", "除外"], &dataset.skipped.to_string());
    }
    Ok(dataset)
}

/// Loads the built-in reviews.
pub(crate) fn builtin_reviews() -> TrainingData {
    let text = tr!(
        "the built-in reviews: 1,000 short texts, half English and half Japanese (name a file to train on your own texts)",
        "内蔵のレビュー。短いテキスト 1,000 件で、半分は英語、半分は日本語（自分のデータで学習するにはファイルを指定）"
    );
    print_status(["data", "データ"], &text);
    builtin::reviews()
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData> {
    let options = read_options(&args.reading, true)?;
    let Some(path) = &args.data else {
        if args.hierarchy.is_some() {
            return Err(UsageError(tr!(
                "--hierarchy: the built-in reviews have two classes and no tree; leave it out, or give a file",
                "--hierarchy: 内蔵のレビューは 2 クラスで、階層はありません。指定を外すか、ファイルを指定してください"
            ))
            .into());
        }
        return Ok(builtin_reviews());
    };
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more));
    let mut options = options;
    let known_labels: &[String] = known.map_or(&[], |known| &known.labels[..]);
    options.use_label_spellings(known_labels);
    let like = options_for_all_files(path, &args.more, &options)?;
    let mut dataset = load_all(args, path, [&options, &like], load)?;
    if options.merge_labels.is_some() {
        merge_labels(dataset.examples.iter_mut().map(|example| &mut example.label), known_labels);
        options.use_label_spellings(&dataset.labels());
    }
    report_variants(dataset.examples.iter().map(|example| example.label.as_str()));
    // Other files may name their columns differently: the same options apply to each.
    let mut valid = args.valid.as_deref().map(|path| load(path, &options)).transpose()?;
    let mut test = args.test.as_deref().map(|path| load(path, &options)).transpose()?;
    if let Some(known) = known {
        let new = SourceData::new(source, dataset, [valid, test]);
        let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load(path, options);
        return continued::continued_data(args, known, &options, new, (&read, Some(builtin::reviews())));
    }
    let tree = hierarchy::class_tree(args.hierarchy.as_deref(), &mut dataset, [&mut valid, &mut test])?;
    let mut data = TrainingData::new(&dataset, valid.as_ref(), test.as_ref())?;
    data.hierarchy = tree;
    data.sources.extend(source);
    Ok(data)
}

/// Reports rows, classes and lengths.
pub(crate) fn report_data(data: &TrainingData) {
    let (train, valid, test) = (data.train.len(), data.valid.len(), data.test.len());
    let [train, valid, test] = [train, valid, test].map(format_thousands);
    let text =
        tr!("{train} to train on, {valid} to validate, {test} to test", "学習 {train}、検証 {valid}、テスト {test}");
    print_status(["rows", "行数"], &text);
    let mut counts: Vec<(usize, &str)> =
        data.class_rows().into_iter().zip(data.labels.iter().map(String::as_str)).collect();
    sorting::sort_by_key(&mut counts, |(n, _)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(6).map(|(n, label)| format!("{} {}", sanitize(label), format_thousands(*n))).collect();
    let more = if counts.len() > 6 {
        let (n, last) = counts[counts.len() - 1];
        tr!(", … {} {n}", "、… {} {n}", sanitize(last))
    } else {
        String::new()
    };
    let shown = shown.join(lang().pick(", ", "、"));
    print_status(["classes", "クラス"], &format!("{}: {shown}{more}", counts.len()));
    let mut lengths: Vec<usize> =
        data.train.texts.iter().map(|text| row::without_columns(text).chars().count()).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    let [median, most, longest] = [at(50), at(90), longest].map(format_thousands);
    let text = tr!(
        "median {median} characters, 90 % up to {most}, longest {longest}",
        "中央値 {median} 文字、90 % は {most} 文字以下、最長 {longest} 文字"
    );
    print_status(["lengths", "長さ"], &text);
    report_columns(&data.columns);
    for note in &data.notes {
        print_status(["note", "注記"], note);
    }
}

/// Reports the contents of the feature columns.
pub(super) fn report_columns(columns: &[FeatureColumn]) {
    for column in columns {
        print_status(["column", "列"], &column.describe());
    }
}
