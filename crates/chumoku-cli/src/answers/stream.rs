//! Inputs of a command, and streaming rows through a model.

use super::row_output::{AnswerWriter, SharedBuffer};
use super::row_queue::{FIRST_CHUNK_ROWS, MAX_CHUNK_ROWS, RowReceiver, StreamRow, row_queue};
use super::shard::{InputSummary, ShardPlan, ShardWriter};
use crate::ExitCode;
use crate::args::{ReadArgs, Shard};
use crate::data::{pairs, read_options};
use crate::output::add_standard_input;
use crate::progress::{RowProgress, pluralize, print_status};
use chumoku::answers::AnswerFormat;
use chumoku::data::{
    ColumnChoice, DataError, ReadOptions, Record, RowSource, SkippedRows, TableLayout, standard_input,
};
use chumoku::row::{Row, RowRef, as_rows};
use chumoku::{stage_timer, tr};
use serde_json::Value;
use std::io::{BufWriter, IsTerminal, StdoutLock, stdin, stdout};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A chunk that is answered faster keeps the cores too little busy: the next may be larger.
const FAST_CHUNK_TIME: Duration = Duration::from_millis(500);

/// The input of a command.
pub(crate) enum CommandInput<'a> {
    Texts(Vec<&'a str>),
    Rows(Box<RowSource>),
}

impl<'a> CommandInput<'a> {
    /// Opens the file of `--input`, the texts of the command line or, without both, standard input.
    pub(crate) fn open(
        command: &str,
        input: Option<&Path>,
        texts: &'a [String],
        reading: &ReadArgs,
        reads_pairs: bool,
    ) -> anyhow::Result<CommandInput<'a>> {
        let is_dash = |name: &str| name == "-";
        let is_piped = input.is_some_and(|path| path.as_os_str() == "-") || matches!(texts, [text] if is_dash(text));
        if input.is_none() && !is_piped && !texts.is_empty() {
            if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
                refuse!(
                    "text {} of {} is empty; {command} expects nonempty texts",
                    "{1} 個のうち {0} 番目のテキストが空です。{command} に渡すテキストを指定してください",
                    at + 1,
                    texts.len()
                );
            }
            return Ok(CommandInput::Texts(texts.iter().map(String::as_str).collect()));
        }
        let options = row_options(reading, reads_pairs)?;
        let source = match input {
            Some(path) if !is_piped => RowSource::open(path, &options)?,
            // A pipe named as a file: its format is recognized once enough has arrived.
            Some(_) if options.format.is_none() => {
                RowSource::from_reader(Path::new(standard_input()), stdin(), &options)?
            }
            None if !is_piped && stdin().is_terminal() => {
                refuse!(
                    "no text: give one, such as chumoku {command} MODEL \"some text\", or a file with --input",
                    "テキストがありません。chumoku {command} MODEL \"テキスト\" のように指定するか、--input でファイルを指定してください"
                );
            }
            _ => {
                add_standard_input()?;
                RowSource::from_live_stream(Path::new(standard_input()), stdin(), &options)?
            }
        };
        pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
        print_status(["data", "データ"], &source.describe());
        Ok(CommandInput::Rows(Box::new(source)))
    }
}

/// Returns the read options of rows to answer.
fn row_options(reading: &ReadArgs, reads_pairs: bool) -> anyhow::Result<ReadOptions> {
    let mut options = read_options(reading, false)?;
    (options.faults_in_place, options.pairs) = (true, reads_pairs);
    Ok(options)
}

/// Opens the rows of a file, or of standard input (`-`), without printing its description.
pub(crate) fn open_rows(file: &Path, reading: &ReadArgs, reads_pairs: bool) -> anyhow::Result<RowSource> {
    let options = row_options(reading, reads_pairs)?;
    let source = match file.as_os_str() == "-" {
        true => RowSource::from_reader(Path::new(standard_input()), stdin(), &options)?,
        false => RowSource::open(file, &options)?,
    };
    pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
    Ok(source)
}

/// Options for the answers to rows, and for writing them.
pub(crate) struct StreamOptions {
    pub(crate) format: AnswerFormat,
    /// Start the output with a byte order mark.
    pub(crate) bom: bool,
    /// End at the first row that cannot be answered.
    pub(crate) strict: bool,
    /// The shard to write instead of all rows.
    pub(crate) shard: Option<ShardPlan>,
}

impl StreamOptions {
    /// Returns the options for all rows, without a byte order mark.
    pub(crate) fn new(format: AnswerFormat) -> StreamOptions {
        StreamOptions { format, bom: false, strict: false, shard: None }
    }
}

/// Streams the rows of a source, in order. `answer` returns the added column values, or the object, for each of some
/// texts.
///
/// A row that cannot be answered keeps its place and gets the reason. With `strict`, it ends the stream after the
/// answers to the rows before it.
pub(crate) fn stream(
    source: RowSource,
    options: StreamOptions,
    mut answer: impl FnMut(&[RowRef<'_>]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    let strict = options.strict;
    let columns = source.columns().clone();
    let shard = options.shard.as_ref().map(|plan| plan.shard);
    let mut writer = RowOutput::new(source.layout(), &columns, options)?;
    let (rows, reader) = read_ahead(source, shard, strict);
    let mut progress = RowProgress::new();
    let mut unanswered = (0, String::new());
    let mut size = FIRST_CHUNK_ROWS;
    loop {
        let reading = stage_timer::begin(stage_timer::READING);
        let (chunk, mut end) = rows.take(size, || writer.flush())?;
        drop(reading);
        let start = Instant::now();
        let chunk_size = chunk.len();
        let strict_end = chunk.iter().position(|row| strict && row.fault.is_some());
        let kept = strict_end.unwrap_or(chunk.len());
        let texts = chunk[..kept].iter().filter(|row| row.fault.is_none());
        let texts: Vec<Row> = texts.map(|row| columns.row(&row.record)).collect();
        let mut found = if texts.is_empty() { Vec::new() } else { answer(&as_rows(&texts))? }.into_iter();
        let _writing = stage_timer::begin(stage_timer::WRITING);
        for (at, row) in chunk.into_iter().enumerate() {
            match row.fault {
                Some(fault) if at == kept => {
                    end = Some(Err(fault));
                    break;
                }
                Some(fault) => {
                    let reason = fault.reason();
                    writer.write(row.index, &row.record, None, Some(&reason))?;
                    if unanswered.0 == 0 {
                        unanswered.1 = reason;
                    }
                    unanswered.0 += 1;
                }
                None => writer.write(row.index, &row.record, found.next(), None)?,
            }
        }
        size = next_chunk_rows(size, chunk_size, start.elapsed());
        progress.add(kept);
        if let Some(end) = end {
            progress.finish();
            // Rows before the error are answered and written before the error is returned.
            writer.flush()?;
            end?;
            break;
        }
    }
    let ReadSummary { skipped, input } = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    writer.finish(input)?;
    if skipped.count > 0 {
        print_status(["skipped", "除外"], &skipped.to_string());
    }
    if let (n @ 1.., first) = unanswered {
        print_status(["unanswered", "未回答"], &unanswered_message(n, &first));
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes rows without an answer: their number, and the reason for the first.
pub(crate) fn unanswered_message(n: usize, first: &str) -> String {
    let rows = pluralize(n, "row");
    let have = if n == 1 { "has" } else { "have" };
    tr!("{rows} {have} no answer, the first because: {first}", "{n} 行に答えがありません。最初の理由: {first}")
}

/// Output of rows: to standard output, or as a shard.
enum RowOutput<'a> {
    Rows(AnswerWriter<BufWriter<StdoutLock<'a>>>),
    Shard {
        answers: AnswerWriter<SharedBuffer>,
        portion: SharedBuffer,
        writer: Box<ShardWriter<'a>>,
        /// Index of the row after the last one.
        next: u64,
    },
}

impl RowOutput<'_> {
    fn new(layout: &TableLayout, columns: &ColumnChoice, options: StreamOptions) -> anyhow::Result<Self> {
        let StreamOptions { format, bom, shard, .. } = options;
        let Some(plan) = shard else {
            let out = BufWriter::new(stdout().lock());
            return Ok(RowOutput::Rows(AnswerWriter::new(out, layout, columns, format, bom)?));
        };
        let portion = SharedBuffer::default();
        let mut answers = AnswerWriter::new(portion.clone(), layout, columns, format, bom)?;
        answers.flush()?;
        let writer = Box::new(ShardWriter::new(plan, &portion.take()));
        Ok(RowOutput::Shard { answers, portion, writer, next: 0 })
    }

    /// Writes row `at` of the input with its answer or with the reason why it has none.
    fn write(
        &mut self,
        at: u64,
        record: &Record,
        answer: Option<Vec<Value>>,
        reason: Option<&str>,
    ) -> Result<(), DataError> {
        match self {
            RowOutput::Rows(answers) => answers.write(record, answer, reason),
            RowOutput::Shard { answers, portion, writer, next } => {
                answers.skip_rows(at - *next);
                *next = at + 1;
                answers.write(record, answer, reason)?;
                answers.flush()?;
                writer.add_row(&portion.take())
            }
        }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        match self {
            RowOutput::Rows(answers) => answers.flush(),
            RowOutput::Shard { writer, .. } => writer.flush(),
        }
    }

    fn finish(self, input: InputSummary) -> Result<(), DataError> {
        match self {
            RowOutput::Rows(mut answers) => answers.flush(),
            RowOutput::Shard { writer, .. } => writer.finish(input),
        }
    }
}

/// Summary of the reader thread.
#[derive(Default)]
struct ReadSummary {
    skipped: SkippedRows,
    input: InputSummary,
}

/// Reads rows in a separate thread, so that the answering thread sees how many have arrived. The thread ends with the
/// rows.
///
/// For a shard, only its rows are sent, but all rows are read. If `strict` is set, errors in the rows of other shards
/// end the stream too.
fn read_ahead(source: RowSource, shard: Option<Shard>, strict: bool) -> (RowReceiver, JoinHandle<ReadSummary>) {
    let (sender, rows) = row_queue();
    let reader = thread::spawn(move || {
        let (mut records, mut input) = (source.records(), InputSummary::default());
        while let Some(row) = records.next_with_fault().transpose() {
            let at = input.rows;
            let mut row = row.map(|(record, fault)| StreamRow { index: at, record, fault });
            if let (Some(shard), Ok(StreamRow { record, fault, .. })) = (shard, &mut row) {
                input.rows += 1;
                input.fingerprint.add_row(record);
                if at % shard.count as u64 != shard.index as u64 - 1 {
                    match fault.take().filter(|_| strict) {
                        None => continue,
                        Some(fault) => row = Err(fault),
                    }
                }
            }
            match row {
                Ok(row) => {
                    if !sender.send(row) {
                        break;
                    }
                }
                Err(error) => {
                    sender.end(Err(error));
                    break;
                }
            }
        }
        ReadSummary { skipped: records.skipped().clone(), input }
    });
    (rows, reader)
}

/// Returns the size of the next chunk, from the time that the last one took. No answer depends on the size, because
/// rows are independent.
fn next_chunk_rows(size: usize, answered: usize, took: Duration) -> usize {
    match answered == size && took < FAST_CHUNK_TIME {
        true => (2 * size).min(MAX_CHUNK_ROWS),
        false if took > 4 * FAST_CHUNK_TIME => (size / 2).max(FIRST_CHUNK_ROWS),
        false => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_if_answered_fast() {
        let milliseconds = Duration::from_millis;
        assert_eq!(next_chunk_rows(256, 256, milliseconds(100)), 512);
        assert_eq!(next_chunk_rows(4096, 4096, milliseconds(1)), 4096);
        // Slow rows do not make the next chunk larger.
        assert_eq!(next_chunk_rows(256, 3, milliseconds(1)), 256);
        assert_eq!(next_chunk_rows(512, 512, milliseconds(1000)), 512);
        assert_eq!(next_chunk_rows(1024, 1024, milliseconds(3000)), 512);
        assert_eq!(next_chunk_rows(256, 256, milliseconds(9000)), 256);
    }
}
