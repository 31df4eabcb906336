//! Texts that a command is given, and files that it streams through a model.

use super::read_options;
use crate::Usage;
use crate::args::Reading;
use anyhow::Context;
use chumoku::data::{Format, OutputForm, ReadOptions, Record, RecordWriter, Source};
use serde_json::Value;
use std::io::{BufWriter, IsTerminal, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Rows answered at a time: memory does not grow with the file.
const CHUNK: usize = 256;

/// What a command is to work on.
pub(super) enum Given<'a> {
    Texts(Vec<&'a str>),
    Rows(Box<Source>),
}

impl<'a> Given<'a> {
    /// The file of `--input`, the texts of the command line or, without both, lines of standard input.
    pub(super) fn of(
        command: &str,
        input: Option<&Path>,
        texts: &'a [String],
        reading: &Reading,
    ) -> anyhow::Result<Given<'a>> {
        let standard_input = |options: &ReadOptions| Source::from_reader(Path::new("standard input"), stdin(), options);
        if let Some(path) = input {
            let options = read_options(reading, false);
            let is_piped = path.as_os_str() == "-";
            let source = if is_piped { standard_input(&options)? } else { Source::open(path, &options)? };
            say!("data      {}", source.describe());
            return Ok(Given::Rows(Box::new(source)));
        }
        if texts.is_empty() {
            if stdin().is_terminal() {
                let problem =
                    format!("no text: give one, e.g. chumoku {command} MODEL \"some text\", or a file with --input");
                return Err(Usage(problem).into());
            }
            let asked = read_options(reading, false);
            let options = ReadOptions { text: None, label: None, format: Some(Format::PlainText), ..asked };
            return Ok(Given::Rows(Box::new(standard_input(&options)?)));
        }
        if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
            let problem = format!("text {} of {} is empty; give some text to {command}", at + 1, texts.len());
            return Err(Usage(problem).into());
        }
        Ok(Given::Texts(texts.iter().map(String::as_str).collect()))
    }
}

/// Streams the rows of a source, in order and with all their columns; `answer` gives the values to add to each of some
/// texts.
pub(super) fn stream(
    source: Source,
    names: &[&str],
    json: bool,
    mut answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    let layout = source.layout().clone();
    let form = if json { OutputForm::JsonLines } else { OutputForm::LikeInput };
    let text_column = source.columns().text;
    let mut writer = RecordWriter::new(BufWriter::new(stdout().lock()), &layout, names, form)?;
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
        for (record, added) in chunk.iter().zip(answer(&texts)?) {
            writer.write(record, &added)?;
        }
        if let Some(error) = failed {
            // What was read before the fault has been answered; it is written out before the error is told.
            writer.finish()?.flush().context("writing the answers")?;
            return Err(error.into());
        }
        if chunk.len() < CHUNK {
            break;
        }
    }
    writer.finish()?.flush().context("writing the answers")?;
    let skipped = records.skipped();
    if skipped.count > 0 {
        say!("skipped   {skipped}");
    }
    Ok(ExitCode::SUCCESS)
}
