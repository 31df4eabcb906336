//! Trains a model that predicts a number for each text.

use super::classify::{check_ngrams, next_commands, optional_sections, scored_on_heading, this_model};
use super::{TrainSession, check_watch_text, continued, load_all};
use crate::ExitCode;
use crate::UsageError;
use crate::args::{Architecture, TrainArgs};
use crate::commands::pictures::terminal_options;
use crate::commands::read_options;
use crate::progress::print_status;
use crate::report::{self, align_right, fit};
use chumoku::ModelKind;
use chumoku::data::{LabelOptions, ReadOptions, ScoreDataset, format_thousands, load_scores, options_for_all_files};
use chumoku::lang::lang;
use chumoku::train::{
    BaseModel, DataSource, NumberScores, SourceData, TrainOutcome, TrainingData, format_value, network_name,
    train_ngram_number, train_number,
};
use chumoku::{NumberLabel, tr};
use chumoku_view::{Content, Figure, Scatter};
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
        let trained = session.train(|training| train_ngram_number(&data, training))?;
        let Some(TrainOutcome { metrics, .. }) = trained else { return Ok(session.report_interrupted()) };
        return session.finish(false, &metrics, |place| {
            print_summary(&metrics, "", &next_commands(place, false, true, data.reads_pairs()))
        });
    }
    check_watch_text(args, &data)?;
    let session = TrainSession::new(args, ModelKind::Classifier, threads, start)?;
    let trained = session.train(|training| train_number(&data, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| {
        let noun = network_name(outcome.model.config().model.backbone.kind());
        print_summary(&outcome.metrics, noun, &next_commands(place, false, true, data.reads_pairs()))
    })
}

pub(crate) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<ScoreDataset> {
    let scores = load_scores(path, options)?;
    print_status(["data", "データ"], &scores.description);
    if scores.skipped.count > 0 {
        print_status(["skipped", "除外"], &scores.skipped.to_string());
    }
    Ok(scores)
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData<NumberLabel>> {
    let Some(path) = &args.data else {
        let problem = tr!(
            "there is no built-in data with numbers: name a file, such as chumoku train reviews.csv --task score",
            "数値の付いた内蔵のデータはありません。ファイルを指定してください（例: chumoku train reviews.csv --task score）"
        );
        return Err(UsageError(problem).into());
    };
    let options = read_options(&args.reading, false)?;
    let mut numbers = options.clone();
    numbers.numbers = true;
    let like = options_for_all_files(path, &args.more, &numbers)?;
    let train = load_all(args, path, [&options, &like], load)?;
    let valid = args.valid.as_deref().map(|path| load(path, &options)).transpose()?;
    let test = args.test.as_deref().map(|path| load(path, &options)).transpose()?;
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more));
    if let Some(known) = known {
        let new = SourceData::new(source, train, [valid, test]);
        let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load(path, options);
        return continued::continued_data(args, known, &options, new, (&read, None));
    }
    let mut data = TrainingData::from_scores(&train, valid.as_ref(), test.as_ref())?;
    data.sources.extend(source);
    Ok(data)
}

/// Reports rows and numbers.
fn report_data(data: &TrainingData<NumberLabel>) {
    let [train, valid, test] = [&data.train, &data.valid, &data.test].map(|rows| format_thousands(rows.len()));
    let text =
        tr!("{train} to train on, {valid} to validate, {test} to test", "学習 {train}、検証 {valid}、テスト {test}");
    print_status(["rows", "行数"], &text);
    let scale = &data.scale;
    let numbers = data.train.labels.iter().map(|measured| measured.number);
    let mean = numbers.sum::<f64>() / data.train.len().max(1) as f64;
    let [least, most] = scale.range;
    let (bins, questions) = (scale.values.len(), scale.thresholds.len());
    let how = match scale.has_levels() {
        true => tr!("{bins} levels", "{bins} 段階"),
        false => tr!("predicted with {questions} thresholds", "しきい値 {questions} 個で予測"),
    };
    let [least, most] = [least, most].map(format_number);
    let mean = format_value(mean);
    let text = tr!("{least} to {most}, mean {mean}; {how}", "{least}〜{most}、平均 {mean}、{how}");
    print_status(["numbers", "数値"], &text);
    super::classify::report_columns(&data.columns);
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
}

/// Formats a number as in the file, unless it is very long.
fn format_number(x: f64) -> String {
    let text = x.to_string();
    if text.len() <= 12 { text } else { format_value(x) }
}

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first.
fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, NumberScores)>> {
    let scores = |value: &Value| serde_json::from_value::<NumberScores>(value.clone());
    let parts = &metrics["parts"];
    let names = [
        (report::leaked_rows_name(metrics).unwrap_or_default(), &metrics["unseen"]),
        (tr!("  its {noun} alone", "  {noun}単独"), &parts["attention"]),
        (tr!("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), &parts["ngrams"]),
        (tr!("baseline: always the median", "比較対象: 常に中央値"), &parts["median"]),
    ];
    let mut rows = vec![(this_model().to_owned(), scores(&metrics["scores"])?)];
    for (name, value) in names.into_iter().filter(|(_, value)| !value.is_null()) {
        rows.push((name, scores(value)?));
    }
    Ok(rows)
}

/// Formats the full report, except the points, which the folder does not hold.
pub(in crate::commands) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &NumberScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n\n");
    let (on, table) = (scored_on_heading(metrics, scores.rows), comparison(&rows));
    let (levels, intervals, sure) =
        (level_table(scores), interval_coverage(scores), report::abstain_table(&metrics["abstain"]));
    Ok(format!("{warning}{on}\n\n{table}\n{levels}{intervals}{sure}{}", optional_sections(metrics)))
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
fn print_summary(metrics: &Value, noun: &str, next: &str) -> anyhow::Result<()> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &NumberScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| report::paragraph(&warning) + "\n");
    let above = format!("{warning}{}\n{}\n", scored_on_heading(metrics, scores.rows), comparison(&rows));
    let sure = report::abstain_summary(&metrics["abstain"]);
    let below = format!("{}{sure}{}\n{next}", interval_coverage(scores), optional_sections(metrics));
    let levels = level_table(scores);
    let fits = levels.lines().count() <= report::free_lines(&[&above, &below]);
    write!(std::io::stdout().lock(), "{above}{}{below}", if fits { &levels } else { "" })?;
    Ok(())
}

/// Formats a row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &NumberScores)]) -> String {
    let names = rows[0].1.named_figures().map(|(name, _)| align_right(name, 8));
    let interval = lang().pick("95 % of error", "95 % 区間");
    let mut out = format!("{} {}   {interval}\n", fit("", 27), names.join(" "));
    for (name, scores) in rows {
        let values = scores.named_figures().map(|(_, x)| align_right(&format_value(x), 8));
        let [low, high] = scores.mean_absolute_error_interval.map(format_value);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        out += &format!("{} {}   {interval}\n", fit(name, 27), values.join(" "));
    }
    out
}

/// Formats levels, points and interval coverage.
pub(crate) fn score_details(scores: &NumberScores, points: &[[f64; 2]]) -> String {
    let text = scatter(points).to_text(&terminal_options(lang()));
    // Its title and number of rows are printed above.
    let points = text.lines().skip(3).map(|line| format!("{line}\n")).collect::<String>();
    level_table(scores) + &points + &interval_coverage(scores)
}

/// Formats a row for each level, if numbers have levels.
fn level_table(scores: &NumberScores) -> String {
    let mut out = String::new();
    if !scores.levels.is_empty() {
        let heads = match lang() {
            chumoku::Lang::En => ["rows", "predicted", "error", "nearest"],
            chumoku::Lang::Ja => ["行数", "予測の平均", "絶対誤差", "丸めて一致"],
        };
        let heads = heads.map(|head| align_right(head, 10));
        out += &format!("{} {}\n", align_right(lang().pick("true", "真の値"), 8), heads.join(" "));
        for of in &scores.levels {
            let [mean, error] =
                [of.mean_prediction, of.mean_absolute_error].map(|x| x.map_or_else(|| "–".to_owned(), format_value));
            let exact = of.exact.map_or_else(|| "–".to_owned(), |x| format!("{:.1} %", 100.0 * x));
            let cells = [format_thousands(of.rows), mean, error, exact].map(|cell| align_right(&cell, 10));
            out += &format!("{} {}\n", align_right(&of.level.to_string(), 8), cells.join(" "));
        }
        if scores.elsewhere > 0 {
            let (rows, [least, most]) = (format_thousands(scores.elsewhere), scores.level_range());
            out += &tr!(
                "{rows} rows have other numbers; the model predicts from {least} to {most}.\n",
                "ほかの数値の行が {rows} 行あります。モデルの予測は {least} から {most} までです。\n"
            );
        }
        out.push('\n');
    }
    out
}

/// Formats the coverage of the intervals.
fn interval_coverage(scores: &NumberScores) -> String {
    let mut out = String::new();
    if let (Some(coverage), Some(width)) = (scores.coverage, scores.mean_width) {
        let (coverage, width) = (100.0 * coverage, format_value(width));
        let text = tr!(
            "The 90 % intervals contain {coverage:.1} % of the true numbers; mean width {width}.",
            "90 % 区間に真の値が入った割合は {coverage:.1} %、区間の幅の平均は {width} です。"
        );
        out += &format!("{}\n", crate::report::paragraph(&text));
    }
    out
}

/// Draws the points as a figure.
pub(crate) fn scatter(points: &[[f64; 2]]) -> Figure {
    let rows = format_thousands(points.len());
    Figure {
        title: tr!("Predicted against true numbers", "真の値と予測"),
        subtitle: tr!("{rows} rows; the line marks equality", "{rows} 行。線の上では両者が等しい"),
        notes: Vec::new(),
        content: Content::Scatter(Scatter { points: points.to_vec() }),
        lang: lang(),
    }
}
