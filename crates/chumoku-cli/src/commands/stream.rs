//! Texts that a command is given, and rows that it streams through a model.

use super::row_output::{AnswerFormat, AnswerWriter, SharedBuffer};
use super::shard::{InputSummary, ShardPlan, ShardWriter};
use super::{pairs, read_options};
use crate::ExitCode;
use crate::UsageError;
use crate::args::{ReadArgs, Shard};
use crate::output::add_standard_input;
use crate::progress::{RowProgress, pluralize, print_status};
use chumoku::data::{
    ColumnChoice, DataError, ReadOptions, Record, RowSource, SkippedRows, TableLayout, standard_input,
};
use chumoku::{stages, tr};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{BufWriter, IsTerminal, StdoutLock, stdin, stdout};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Rows answered at a time, at first.
const FIRST_CHUNK_ROWS: usize = 256;
/// The most rows answered at a time, so that memory does not grow with the file: some hundred batches, for many cores.
const MAX_CHUNK_ROWS: usize = 4096;
/// Bytes of rows from which a chunk takes no further one.
const MAX_CHUNK_BYTES: usize = 16 << 20;
/// How long a chunk of more than [`CHUNK`] rows may be gathered: rows that come slowly are not to wait for each other.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// A chunk that is answered sooner is small work for the cores there are: the next may be larger.
const FAST_CHUNK_TIME: Duration = Duration::from_millis(500);
/// How long a chunk waits for its next row; one that takes longer is somebody's who waits for an answer.
const NEXT_ROW_TIMEOUT: Duration = Duration::from_millis(5);

/// What a command is to work on.
pub(super) enum CommandInput<'a> {
    Texts(Vec<&'a str>),
    Rows(Box<RowSource>),
}

impl<'a> CommandInput<'a> {
    /// The file of `--input`, the texts of the command line or, without both, what comes on standard input.
    pub(super) fn open(
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
                let problem = tr!(
                    "text {} of {} is empty; give some text to {command}",
                    "{1} 個のうち {0} 番目のテキストが空です。{command} に渡すテキストを指定してください",
                    at + 1,
                    texts.len()
                );
                return Err(UsageError(problem).into());
            }
            return Ok(CommandInput::Texts(texts.iter().map(String::as_str).collect()));
        }
        let options = row_options(reading, reads_pairs)?;
        let source = match input {
            Some(path) if !is_piped => RowSource::open(path, &options)?,
            // As a file: what it is can wait until enough of it has come to tell.
            Some(_) if options.format.is_none() => {
                RowSource::from_reader(Path::new(standard_input()), stdin(), &options)?
            }
            None if !is_piped && stdin().is_terminal() => {
                let problem = tr!(
                    "no text: give one, e.g. chumoku {command} MODEL \"some text\", or a file with --input",
                    "テキストがありません。chumoku {command} MODEL \"テキスト\" のように指定するか、--input でファイルを指定してください"
                );
                return Err(UsageError(problem).into());
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

/// How rows are read that are to be answered.
fn row_options(reading: &ReadArgs, reads_pairs: bool) -> anyhow::Result<ReadOptions> {
    let mut options = read_options(reading, false)?;
    (options.faults_in_place, options.pairs) = (true, reads_pairs);
    Ok(options)
}

/// The rows of a file, without a word about it.
pub(super) fn open_rows(file: &Path, reading: &ReadArgs, reads_pairs: bool) -> anyhow::Result<RowSource> {
    let source = RowSource::open(file, &row_options(reading, reads_pairs)?)?;
    pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
    Ok(source)
}

/// Streams the rows of a source, in order. `answer` gives for each of some texts the values of the columns to add, or
/// the object.
///
/// A row that cannot be answered keeps its place, with the reason; if `strict`, it ends the stream, behind the answers to
/// the rows before it.
pub(super) fn stream(
    source: RowSource,
    form: AnswerFormat,
    strict: bool,
    answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    stream_shard(source, form, (strict, None), answer)
}

/// The same of the rows of one shard, if that is asked for.
pub(super) fn stream_shard(
    source: RowSource,
    form: AnswerFormat,
    (strict, piece): (bool, Option<ShardPlan>),
    mut answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    let columns = source.columns().clone();
    let shard = piece.as_ref().map(|piece| piece.shard);
    let mut writer = RowOutput::new(source.layout(), &columns, form, piece)?;
    let (rows, reader) = read_ahead(source, shard, strict);
    let mut progress = RowProgress::new();
    let mut unanswered = (0, String::new());
    let mut size = FIRST_CHUNK_ROWS;
    loop {
        let reading = stages::begin(stages::READING);
        let (chunk, mut end) = gather(&rows, &mut writer, size)?;
        drop(reading);
        let start = Instant::now();
        let chunk_size = chunk.len();
        let strict_end = chunk.iter().position(|row| strict && row.fault.is_some());
        let kept = strict_end.unwrap_or(chunk.len());
        let texts = chunk[..kept].iter().filter(|row| row.fault.is_none());
        let texts: Vec<Cow<'_, str>> = texts.map(|row| columns.row_text(&row.record)).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let mut found = if texts.is_empty() { Vec::new() } else { answer(&texts)? }.into_iter();
        let _writing = stages::begin(stages::WRITING);
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
            // What was read before a fault has been answered; it is written out before the fault is told.
            writer.flush()?;
            end?;
            break;
        }
    }
    let ReadSummary { skipped, input } = reader.join().unwrap_or_default();
    writer.finish(input)?;
    if skipped.count > 0 {
        print_status(["skipped", "除外"], &skipped.to_string());
    }
    if let (n @ 1.., first) = unanswered {
        print_status(["unanswered", "未回答"], &unanswered_message(n, &first));
    }
    Ok(ExitCode::SUCCESS)
}

/// How many rows have no answer, and why the first has none.
pub(super) fn unanswered_message(n: usize, first: &str) -> String {
    let rows = pluralize(n, "row");
    let have = if n == 1 { "has" } else { "have" };
    tr!("{rows} {have} no answer, the first because: {first}", "{n} 行に答えがありません。最初の理由: {first}")
}

/// Where rows are written: to standard output as they are, or as a shard.
enum RowOutput<'a> {
    Rows(AnswerWriter<BufWriter<StdoutLock<'a>>>),
    Shard {
        answers: AnswerWriter<SharedBuffer>,
        portion: SharedBuffer,
        writer: Box<ShardWriter<'a>>,
        /// The row behind the last.
        next: u64,
    },
}

impl RowOutput<'_> {
    fn new(
        layout: &TableLayout,
        columns: &ColumnChoice,
        form: AnswerFormat,
        piece: Option<ShardPlan>,
    ) -> anyhow::Result<Self> {
        let Some(piece) = piece else {
            return Ok(RowOutput::Rows(AnswerWriter::new(BufWriter::new(stdout().lock()), layout, columns, form)?));
        };
        let portion = SharedBuffer::default();
        let mut answers = AnswerWriter::new(portion.clone(), layout, columns, form)?;
        answers.flush()?;
        let writer = Box::new(ShardWriter::new(piece, &portion.take()));
        Ok(RowOutput::Shard { answers, portion, writer, next: 0 })
    }

    /// Writes row `at` of the input with its answer or, without one, with the reason.
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

/// A row.
struct StreamRow {
    /// How many rows the input has before it.
    index: u64,
    record: Record,
    /// What keeps it from being answered.
    fault: Option<DataError>,
}

/// What ends a stream: its end, or what cannot be read past.
type StreamEnd = Result<(), DataError>;

/// What was seen of a source.
#[derive(Default)]
struct ReadSummary {
    skipped: SkippedRows,
    input: InputSummary,
}

/// Reads rows in a thread of its own, so that whoever answers them sees which have come. The thread ends with the rows
/// and says what it saw.
///
/// Of a shard its rows come alone, but all are read; if `strict`, what is wrong with those of others ends the stream too.
fn read_ahead(
    source: RowSource,
    shard: Option<Shard>,
    strict: bool,
) -> (Receiver<Result<StreamRow, DataError>>, JoinHandle<ReadSummary>) {
    let (sender, rows) = sync_channel(FIRST_CHUNK_ROWS);
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
            let failed = row.is_err();
            if sender.send(row).is_err() || failed {
                break;
            }
        }
        ReadSummary { skipped: records.skipped().clone(), input }
    });
    (rows, reader)
}

/// Rows to answer at a time after a chunk of so many took so long: no answer depends on it, since each is its row's own.
fn next_chunk_rows(size: usize, answered: usize, took: Duration) -> usize {
    match answered == size && took < FAST_CHUNK_TIME {
        true => (2 * size).min(MAX_CHUNK_ROWS),
        false if took > 4 * FAST_CHUNK_TIME => (size / 2).max(FIRST_CHUNK_ROWS),
        false => size,
    }
}

/// Whether a chunk of so many rows and bytes, gathered for so long, takes another row; `size` is the most.
fn has_room(rows: usize, bytes: usize, size: usize, took: Duration) -> bool {
    rows < size && bytes < MAX_CHUNK_BYTES && (rows < FIRST_CHUNK_ROWS || took < GATHER_TIME)
}

/// At most `size` rows to answer next, and how the stream ends if it does. Before a wait all answers are handed on.
fn gather(
    rows: &Receiver<Result<StreamRow, DataError>>,
    writer: &mut RowOutput<'_>,
    size: usize,
) -> anyhow::Result<(Vec<StreamRow>, Option<StreamEnd>)> {
    let mut chunk = Vec::with_capacity(size);
    let (mut bytes, mut start) = (0, Instant::now());
    while has_room(chunk.len(), bytes, size, start.elapsed()) {
        let next = match chunk.is_empty() {
            false => rows.recv_timeout(NEXT_ROW_TIMEOUT),
            true => match rows.try_recv() {
                Err(TryRecvError::Empty) => {
                    writer.flush()?;
                    rows.recv().map_err(|_| RecvTimeoutError::Disconnected)
                }
                other => other.map_err(|_| RecvTimeoutError::Disconnected),
            },
        };
        match next {
            Ok(Ok(row)) => {
                if chunk.is_empty() {
                    start = Instant::now();
                }
                bytes += row.record.fields.iter().map(String::len).sum::<usize>();
                chunk.push(row);
            }
            Ok(Err(error)) => return Ok((chunk, Some(Err(error)))),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return Ok((chunk, Some(Ok(())))),
        }
    }
    Ok((chunk, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_where_they_are_answered_soon() {
        let milliseconds = Duration::from_millis;
        assert_eq!(next_chunk_rows(256, 256, milliseconds(100)), 512);
        assert_eq!(next_chunk_rows(4096, 4096, milliseconds(1)), 4096);
        // Rows that come slowly are no reason.
        assert_eq!(next_chunk_rows(256, 3, milliseconds(1)), 256);
        assert_eq!(next_chunk_rows(512, 512, milliseconds(1000)), 512);
        assert_eq!(next_chunk_rows(1024, 1024, milliseconds(3000)), 512);
        assert_eq!(next_chunk_rows(256, 256, milliseconds(9000)), 256);
    }

    #[test]
    fn chunks_end_where_rows_are_large_or_slow() {
        let (soon, late) = (Duration::ZERO, GATHER_TIME);
        assert!(has_room(4095, MAX_CHUNK_BYTES - 1, 4096, soon));
        assert!(!has_room(4096, 0, 4096, soon) && !has_room(256, 0, 256, soon));
        assert!(!has_room(1, MAX_CHUNK_BYTES, 4096, soon), "one row of 16 MiB is enough");
        assert!(has_room(255, 0, 4096, late) && !has_room(256, 0, 4096, late));
    }
}
