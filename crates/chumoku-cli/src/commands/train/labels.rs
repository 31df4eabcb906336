//! Trains a multi-label classifier.

use super::continued::OldRowSource;
use super::{
    Trainers, continued, hierarchy, load_all, load_held_out, report_file_differences, report_sizes, report_variants,
};
use crate::ExitCode;
use crate::args::TrainArgs;
use crate::data::{load_label_rows, read_options, report_columns};
use crate::progress::print_status;
use crate::report::training::{optional_sections, scored_on_heading};
use crate::report::{abstain_summary, free_lines, labels, paragraph};
use chumoku::data::{format_thousands, options_for_all_files};
use chumoku::lang::{lang, sanitize};
use chumoku::train::{BaseModel, DataSource, LabelScores, SourceData, TrainingData, train_labels, train_ngram_labels};
use chumoku::{sorting, tr};
use serde_json::Value;
use std::io::Write;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args, known)?;
    report_data(&data);
    let trainers = Trainers { ngrams: train_ngram_labels, ensemble: train_labels };
    trainers.run(args, &data, (threads, start), print_summary)
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData<Vec<u32>>> {
    let Some(path) = &args.data else {
        refuse!(
            "there is no built-in multi-label data: name a file, such as chumoku train tagged.csv --task labels",
            "複数のラベルが付いた内蔵のデータはありません。ファイルを指定してください（例: chumoku train tagged.csv --task labels）"
        );
    };
    let options = read_options(&args.reading, false)?;
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let how = args.multi_label.options();
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more).with_labels(&how));
    let mut options = options;
    let known_labels: &[String] = known.map_or(&[], |known| &known.labels[..]);
    options.use_label_spellings(known_labels);
    let like = options_for_all_files(path, &args.more, &options)?;
    let mut train = load_all(args, path, [&options, &like], |path, options| load_label_rows(path, options, &how))?;
    if options.merge_labels.is_some() {
        train.merge_labels(known_labels);
        options.use_label_spellings(&train.labels());
    }
    report_variants(train.examples.iter().flat_map(|example| &example.labels).map(String::as_str));
    report_file_differences(args, known, train.labels_by_file(), true);
    let [mut valid, mut test] = load_held_out(args, |path| load_label_rows(path, &options, &how))?;
    if let Some(known) = known {
        let new = SourceData::new(source, train, [valid, test]);
        let old = OldRowSource { options: &options, load: &load_label_rows, built_in: Vec::new() };
        return continued::continued_data(args, known, new, old);
    }
    let tree = hierarchy::label_tree(args.hierarchy.as_deref(), &mut train, [&mut valid, &mut test])?;
    let mut data = TrainingData::from_label_sets(&train, valid.as_ref(), test.as_ref())?;
    data.hierarchy = tree;
    data.sources.extend(source);
    Ok(data)
}

/// Reports rows and labels.
fn report_data(data: &TrainingData<Vec<u32>>) {
    report_sizes(["rows", "行数"], [&data.train, &data.valid, &data.test].map(|rows| rows.len()));
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
    report_columns(&data.columns);
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
fn print_summary(metrics: &Value, noun: &str, next: &str) -> anyhow::Result<()> {
    let found = labels::predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &LabelScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n");
    let levels = labels::label_level_table(&rows);
    let above =
        format!("{warning}{}\n{}{levels}\n", scored_on_heading(metrics, scores.rows), labels::comparison(&rows));
    let below = format!("{}{}\n{next}", abstain_summary(&metrics["abstain"]), optional_sections(metrics));
    let thresholds = labels::thresholds(metrics);
    // Two headings, the summary of all labels, and blank lines.
    const FRAME: usize = 5;
    let room = free_lines(&[&above, &below]).saturating_sub(FRAME);
    let labels = labels::label_table(scores, &thresholds, "metrics.json", room.max(1));
    write!(std::io::stdout().lock(), "{above}{labels}{below}")?;
    Ok(())
}
