//! `chumoku predict`: the class of texts given, or of every row of a file or of standard input, as a stream.

use super::read_options;
use crate::args::Predict;
use crate::harmless;
use crate::{Usage, threads};
use anyhow::Context;
use chumoku::data::{Format, OutputForm, ReadOptions, Record, RecordWriter, Source};
use chumoku::{Prediction, TextClassifier};
use serde_json::{Value, json};
use std::io::{BufWriter, IsTerminal, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Rows predicted at a time: memory does not grow with the file.
const CHUNK: usize = 256;

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextClassifier::load(&args.model)?;
    if let Some(path) = &args.input {
        let options = read_options(&args.reading, false);
        let source = if path.as_os_str() == "-" {
            Source::from_reader(Path::new("standard input"), stdin(), &options)?
        } else {
            Source::open(path, &options)?
        };
        say!("data      {}", source.describe());
        return rows(args, &model, source);
    }
    if args.texts.is_empty() {
        if stdin().is_terminal() {
            let problem = "no text: give one, e.g. chumoku predict MODEL \"some text\", or a file with --input";
            return Err(Usage(problem.into()).into());
        }
        let asked = read_options(&args.reading, false);
        let options = ReadOptions { text: None, label: None, format: Some(Format::PlainText), ..asked };
        let source = Source::from_reader(Path::new("standard input"), stdin(), &options)?;
        return rows(args, &model, source);
    }
    if let Some(at) = args.texts.iter().position(|text| text.trim().is_empty()) {
        return Err(
            Usage(format!("text {} of {} is empty; give some text to classify", at + 1, args.texts.len())).into()
        );
    }
    let texts: Vec<&str> = args.texts.iter().map(String::as_str).collect();
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let top = top(&model, &prediction, args.top);
        if args.json {
            writeln!(out, "{}", to_json(text, &model, &prediction, args.top))?;
        } else {
            let line: Vec<String> =
                top.iter().map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            writeln!(out, "{}\t{}", line.join("\t"), harmless(text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn top<'a>(model: &'a TextClassifier, prediction: &Prediction, n: usize) -> Vec<(&'a str, f32)> {
    let ranked = prediction.ranked().into_iter().take(n);
    ranked.map(|class| (model.labels()[class].as_str(), prediction.probabilities[class])).collect()
}

/// A probability with as many digits as it is worth.
fn rounded(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

fn to_json(text: &str, model: &TextClassifier, prediction: &Prediction, n: usize) -> Value {
    let top = top(model, prediction, n.max(1));
    let mut value = json!({ "text": text, "label": top[0].0, "probability": rounded(top[0].1) });
    if n > 1 {
        value["top"] = top.iter().map(|(label, p)| json!({ "label": label, "probability": rounded(*p) })).collect();
    }
    value
}

/// Streams the rows of a source through the model, in order and with all their columns.
fn rows(args: &Predict, model: &TextClassifier, source: Source) -> anyhow::Result<ExitCode> {
    let layout = source.layout().clone();
    let n = args.top.min(model.labels().len());
    let names: Vec<String> = (1..=n)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let form = if args.json { OutputForm::JsonLines } else { OutputForm::LikeInput };
    let text_column = source.columns().text;
    let mut writer = RecordWriter::new(BufWriter::new(stdout().lock()), &layout, &names, form)?;
    let mut records = source.records();
    let mut chunk: Vec<Record> = Vec::with_capacity(CHUNK);
    loop {
        chunk.clear();
        let mut failed = None;
        for record in records.by_ref().take(CHUNK) {
            match record {
                Ok(record) => chunk.push(record),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let texts: Vec<&str> = chunk.iter().map(|record| record.field(text_column)).collect();
        for (record, prediction) in chunk.iter().zip(model.predict(&texts)?) {
            let added: Vec<Value> = top(model, &prediction, n)
                .into_iter()
                .flat_map(|(label, p)| [Value::from(label), rounded(p)])
                .collect();
            writer.write(record, &added)?;
        }
        if let Some(error) = failed {
            // What was read before the fault has been answered; it is written out before the error is told.
            writer.finish()?.flush().context("writing the predictions")?;
            return Err(error.into());
        }
        if chunk.len() < CHUNK {
            break;
        }
    }
    writer.finish()?.flush().context("writing the predictions")?;
    let skipped = records.skipped();
    if skipped.count > 0 {
        say!("skipped   {skipped}");
    }
    Ok(ExitCode::SUCCESS)
}
