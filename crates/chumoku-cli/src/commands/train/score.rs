//! Trains a model that predicts a number for each text.

use super::continued::OldRowSource;
use super::{Trainers, continued, load_all, load_held_out, report_sizes};
use crate::ExitCode;
use crate::args::TrainArgs;
use crate::data::{load_number_rows, read_options, report_columns};
use crate::progress::print_status;
use crate::report::training::{optional_sections, scored_on_heading};
use crate::report::{abstain_summary, free_lines, numbers, paragraph};
use chumoku::data::{LabelOptions, ReadOptions, options_for_all_files};
use chumoku::train::{
    BaseModel, DataSource, NumberScores, SourceData, TrainingData, format_value, train_ngram_number, train_number,
};
use chumoku::{NumberLabel, tr};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args, known)?;
    report_data(&data);
    let trainers = Trainers { ngrams: train_ngram_number, ensemble: train_number };
    trainers.run(args, &data, (threads, start), print_summary)
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData<NumberLabel>> {
    let Some(path) = &args.data else {
        refuse!(
            "there is no built-in data with numbers: name a file, such as chumoku train reviews.csv --task score",
            "数値の付いた内蔵のデータはありません。ファイルを指定してください（例: chumoku train reviews.csv --task score）"
        );
    };
    let mut options = read_options(&args.reading, false)?;
    let mut numbers = options.clone();
    numbers.numbers = true;
    let like = options_for_all_files(path, &args.more, &numbers)?;
    let train = load_all(args, path, [&options, &like], load_number_rows)?;
    // A small file may not show how the numbers are written.
    options.decimal = train.decimal();
    let [valid, test] = load_held_out(args, |path| load_number_rows(path, &options))?;
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more));
    if let Some(known) = known {
        let new = SourceData::new(source, train, [valid, test]);
        let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load_number_rows(path, options);
        let old = OldRowSource { options: &options, load: &read, built_in: Vec::new() };
        return continued::continued_data(args, known, new, old);
    }
    let mut data = TrainingData::from_scores(&train, valid.as_ref(), test.as_ref())?;
    data.sources.extend(source);
    Ok(data)
}

/// Reports rows and numbers.
fn report_data(data: &TrainingData<NumberLabel>) {
    report_sizes(["rows", "行数"], [&data.train, &data.valid, &data.test].map(|rows| rows.len()));
    let discretizer = &data.discretizer;
    let numbers = data.train.labels.iter().map(|measured| measured.number);
    let mean = numbers.sum::<f64>() / data.train.len().max(1) as f64;
    let [least, most] = discretizer.range;
    let (bins, questions) = (discretizer.values.len(), discretizer.thresholds.len());
    let how = match discretizer.has_levels() {
        true => tr!("{bins} levels", "{bins} 段階"),
        false => tr!("predicted with {questions} thresholds", "しきい値 {questions} 個で予測"),
    };
    let [least, most] = [least, most].map(format_number);
    let mean = format_value(mean);
    let text = tr!("{least} to {most}, mean {mean}; {how}", "{least}〜{most}、平均 {mean}、{how}");
    print_status(["numbers", "数値"], &text);
    report_columns(&data.columns);
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
}

/// Formats a number as in the file, unless it is very long.
fn format_number(x: f64) -> String {
    let text = x.to_string();
    if text.len() <= 12 { text } else { format_value(x) }
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
fn print_summary(metrics: &Value, noun: &str, next: &str) -> anyhow::Result<()> {
    let found = numbers::predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &NumberScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n");
    let above = format!("{warning}{}\n{}\n", scored_on_heading(metrics, scores.rows), numbers::comparison(&rows));
    let sure = abstain_summary(&metrics["abstain"]);
    let below = format!("{}{sure}{}\n{next}", numbers::interval_coverage(scores), optional_sections(metrics));
    let levels = numbers::level_table(scores);
    let fits = levels.lines().count() <= free_lines(&[&above, &below]);
    write!(std::io::stdout().lock(), "{above}{}{below}", if fits { &levels } else { "" })?;
    Ok(())
}
