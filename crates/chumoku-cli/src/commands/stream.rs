//! Texts that a command is given, and rows that it streams through a model.

use super::shard::{Input, Piece, ShardWriter};
use super::written::{Answers, Form, Portion};
use super::{pairs, read_options};
use crate::ExitCode;
use crate::Usage;
use crate::args::{Reading, Shard};
use crate::output::add_standard_input;
use crate::progress::{RowProgress, count, tell};
use chumoku::data::{Columns, DataError, Layout, ReadOptions, Record, Skipped, Source, standard_input};
use chumoku::{stages, tr};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{BufWriter, IsTerminal, StdoutLock, stdin, stdout};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Rows answered at a time, at first.
const CHUNK: usize = 256;
/// The most rows answered at a time, so that memory does not grow with the file: some hundred batches, for many cores.
const LARGEST_CHUNK: usize = 4096;
/// Bytes of rows from which a chunk takes no further one.
const LARGEST_BYTES: usize = 16 << 20;
/// How long a chunk of more than [`CHUNK`] rows may be gathered: rows that come slowly are not to wait for each other.
const GATHERING: Duration = Duration::from_millis(50);
/// A chunk that is answered sooner is small work for the cores there are: the next may be larger.
const SOON: Duration = Duration::from_millis(500);
/// How long a chunk waits for its next row; one that takes longer is somebody's who waits for an answer.
const MOMENT: Duration = Duration::from_millis(5);

/// What a command is to work on.
pub(super) enum Given<'a> {
    Texts(Vec<&'a str>),
    Rows(Box<Source>),
}

impl<'a> Given<'a> {
    /// The file of `--input`, the texts of the command line or, without both, what comes on standard input.
    pub(super) fn of(
        command: &str,
        input: Option<&Path>,
        texts: &'a [String],
        reading: &Reading,
        reads_pairs: bool,
    ) -> anyhow::Result<Given<'a>> {
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
                return Err(Usage(problem).into());
            }
            return Ok(Given::Texts(texts.iter().map(String::as_str).collect()));
        }
        let options = options(reading, reads_pairs)?;
        let source = match input {
            Some(path) if !is_piped => Source::open(path, &options)?,
            // As a file: what it is can wait until enough of it has come to tell.
            Some(_) if options.format.is_none() => Source::from_reader(Path::new(standard_input()), stdin(), &options)?,
            None if !is_piped && stdin().is_terminal() => {
                let problem = tr!(
                    "no text: give one, e.g. chumoku {command} MODEL \"some text\", or a file with --input",
                    "テキストがありません。chumoku {command} MODEL \"テキスト\" のように指定するか、--input でファイルを指定してください"
                );
                return Err(Usage(problem).into());
            }
            _ => {
                add_standard_input()?;
                Source::from_live(Path::new(standard_input()), stdin(), &options)?
            }
        };
        pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
        tell(["data", "データ"], &source.describe());
        Ok(Given::Rows(Box::new(source)))
    }
}

/// How rows are read that are to be answered.
fn options(reading: &Reading, reads_pairs: bool) -> anyhow::Result<ReadOptions> {
    let mut options = read_options(reading, false)?;
    (options.faults_in_place, options.pairs) = (true, reads_pairs);
    Ok(options)
}

/// The rows of a file, without a word about it.
pub(super) fn source(file: &Path, reading: &Reading, reads_pairs: bool) -> anyhow::Result<Source> {
    let source = Source::open(file, &options(reading, reads_pairs)?)?;
    pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
    Ok(source)
}

/// Streams the rows of a source, in order. `answer` gives for each of some texts the values of the columns to add, or
/// the object.
///
/// A row that cannot be answered keeps its place, with the reason; if `strict`, it ends the stream, behind the answers to
/// the rows before it.
pub(super) fn stream(
    source: Source,
    form: Form,
    strict: bool,
    answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    stream_piece(source, form, (strict, None), answer)
}

/// The same of the rows of one shard, if that is asked for.
pub(super) fn stream_piece(
    source: Source,
    form: Form,
    (strict, piece): (bool, Option<Piece>),
    mut answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    let columns = source.columns().clone();
    let shard = piece.as_ref().map(|piece| piece.shard);
    let mut writer = Output::new(source.layout(), &columns, form, piece)?;
    let (rows, reader) = read_ahead(source, shard, strict);
    let mut progress = RowProgress::new();
    let mut unanswered = (0, String::new());
    let mut size = CHUNK;
    loop {
        let reading = stages::begin(stages::READING);
        let (chunk, mut end) = gather(&rows, &mut writer, size)?;
        drop(reading);
        let start = Instant::now();
        let chunk_size = chunk.len();
        let strict_end = chunk.iter().position(|row| strict && row.fault.is_some());
        let kept = strict_end.unwrap_or(chunk.len());
        let texts = chunk[..kept].iter().filter(|row| row.fault.is_none());
        let texts: Vec<Cow<'_, str>> = texts.map(|row| columns.text_of(&row.record)).collect();
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
                    writer.write(row.at, &row.record, None, Some(&reason))?;
                    if unanswered.0 == 0 {
                        unanswered.1 = reason;
                    }
                    unanswered.0 += 1;
                }
                None => writer.write(row.at, &row.record, found.next(), None)?,
            }
        }
        size = next_size(size, chunk_size, start.elapsed());
        progress.add(kept);
        if let Some(end) = end {
            progress.finish();
            // What was read before a fault has been answered; it is written out before the fault is told.
            writer.flush()?;
            end?;
            break;
        }
    }
    let Seen { skipped, input } = reader.join().unwrap_or_default();
    writer.end(input)?;
    if skipped.count > 0 {
        tell(["skipped", "除外"], &skipped.to_string());
    }
    if let (n @ 1.., first) = unanswered {
        tell(["unanswered", "未回答"], &without_answer(n, &first));
    }
    Ok(ExitCode::SUCCESS)
}

/// How many rows have no answer, and why the first has none.
pub(super) fn without_answer(n: usize, first: &str) -> String {
    let rows = count(n, "row");
    let have = if n == 1 { "has" } else { "have" };
    tr!("{rows} {have} no answer, the first because: {first}", "{n} 行に答えがありません。最初の理由: {first}")
}

/// Where rows are written: to standard output as they are, or as a shard.
enum Output<'a> {
    Rows(Answers<BufWriter<StdoutLock<'a>>>),
    Shard {
        answers: Answers<Portion>,
        portion: Portion,
        writer: Box<ShardWriter<'a>>,
        /// The row behind the last.
        next: u64,
    },
}

impl Output<'_> {
    fn new(layout: &Layout, columns: &Columns, form: Form, piece: Option<Piece>) -> anyhow::Result<Self> {
        let Some(piece) = piece else {
            return Ok(Output::Rows(Answers::new(BufWriter::new(stdout().lock()), layout, columns, form)?));
        };
        let portion = Portion::default();
        let mut answers = Answers::new(portion.clone(), layout, columns, form)?;
        answers.flush()?;
        let writer = Box::new(ShardWriter::new(piece, &portion.take()));
        Ok(Output::Shard { answers, portion, writer, next: 0 })
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
            Output::Rows(answers) => answers.write(record, answer, reason),
            Output::Shard { answers, portion, writer, next } => {
                answers.pass(at - *next);
                *next = at + 1;
                answers.write(record, answer, reason)?;
                answers.flush()?;
                writer.row(&portion.take())
            }
        }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        match self {
            Output::Rows(answers) => answers.flush(),
            Output::Shard { writer, .. } => writer.flush(),
        }
    }

    fn end(self, input: Input) -> Result<(), DataError> {
        match self {
            Output::Rows(mut answers) => answers.flush(),
            Output::Shard { writer, .. } => writer.end(input),
        }
    }
}

/// A row.
struct Row {
    /// How many rows the input has before it.
    at: u64,
    record: Record,
    /// What keeps it from being answered.
    fault: Option<DataError>,
}

/// What ends a stream: its end, or what cannot be read past.
type End = Result<(), DataError>;

/// What was seen of a source.
#[derive(Default)]
struct Seen {
    skipped: Skipped,
    input: Input,
}

/// Reads rows in a thread of its own, so that whoever answers them sees which have come. The thread ends with the rows
/// and says what it saw.
///
/// Of a shard its rows come alone, but all are read; if `strict`, what is wrong with those of others ends the stream too.
fn read_ahead(
    source: Source,
    shard: Option<Shard>,
    strict: bool,
) -> (Receiver<Result<Row, DataError>>, JoinHandle<Seen>) {
    let (sender, rows) = sync_channel(CHUNK);
    let reader = thread::spawn(move || {
        let (mut records, mut input) = (source.records(), Input::default());
        while let Some(row) = records.next_in_place().transpose() {
            let at = input.rows;
            let mut row = row.map(|(record, fault)| Row { at, record, fault });
            if let (Some(shard), Ok(Row { record, fault, .. })) = (shard, &mut row) {
                input.rows += 1;
                input.fingerprint.add_row(record);
                if at % shard.of as u64 != shard.at as u64 - 1 {
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
        Seen { skipped: records.skipped().clone(), input }
    });
    (rows, reader)
}

/// Rows to answer at a time after a chunk of so many took so long: no answer depends on it, since each is its row's own.
fn next_size(size: usize, answered: usize, took: Duration) -> usize {
    match answered == size && took < SOON {
        true => (2 * size).min(LARGEST_CHUNK),
        false if took > 4 * SOON => (size / 2).max(CHUNK),
        false => size,
    }
}

/// Whether a chunk of so many rows and bytes, gathered for so long, takes another row; `size` is the most.
fn takes_more(rows: usize, bytes: usize, size: usize, took: Duration) -> bool {
    rows < size && bytes < LARGEST_BYTES && (rows < CHUNK || took < GATHERING)
}

/// At most `size` rows to answer next, and how the stream ends if it does. Before a wait all answers are handed on.
fn gather(
    rows: &Receiver<Result<Row, DataError>>,
    writer: &mut Output<'_>,
    size: usize,
) -> anyhow::Result<(Vec<Row>, Option<End>)> {
    let mut chunk = Vec::with_capacity(size);
    let (mut bytes, mut start) = (0, Instant::now());
    while takes_more(chunk.len(), bytes, size, start.elapsed()) {
        let next = match chunk.is_empty() {
            false => rows.recv_timeout(MOMENT),
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
        assert_eq!(next_size(256, 256, milliseconds(100)), 512);
        assert_eq!(next_size(4096, 4096, milliseconds(1)), 4096);
        // Rows that come slowly are no reason.
        assert_eq!(next_size(256, 3, milliseconds(1)), 256);
        assert_eq!(next_size(512, 512, milliseconds(1000)), 512);
        assert_eq!(next_size(1024, 1024, milliseconds(3000)), 512);
        assert_eq!(next_size(256, 256, milliseconds(9000)), 256);
    }

    #[test]
    fn chunks_end_where_rows_are_large_or_slow() {
        let (soon, late) = (Duration::ZERO, GATHERING);
        assert!(takes_more(4095, LARGEST_BYTES - 1, 4096, soon));
        assert!(!takes_more(4096, 0, 4096, soon) && !takes_more(256, 0, 256, soon));
        assert!(!takes_more(1, LARGEST_BYTES, 4096, soon), "one row of 16 MiB is enough");
        assert!(takes_more(255, 0, 4096, late) && !takes_more(256, 0, 4096, late));
    }
}
