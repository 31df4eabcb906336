//! Texts that a command is given, and rows that it streams through a model.

use super::{pairs, read_options};
use crate::ExitCode;
use crate::Usage;
use crate::args::Reading;
use crate::progress::{RowProgress, count, tell};
use chumoku::data::{
    Columns, DataError, Format, Layout, OutputForm, Record, RecordWriter, Skipped, Source, standard_input,
};
use chumoku::{stages, tr};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write, stdin, stdout};
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
/// The column of the reason why a row has no answer.
const ERROR: &str = "error";

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
        let mut options = read_options(reading, false)?;
        (options.faults_in_place, options.pairs) = (true, reads_pairs);
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
            _ => Source::from_live(Path::new(standard_input()), stdin(), &options)?,
        };
        pairs::check_rows(reads_pairs, source.columns().second.is_some())?;
        tell(["data", "データ"], &source.describe());
        Ok(Given::Rows(Box::new(source)))
    }
}

/// The form in which rows are answered.
pub(super) enum Form<'a> {
    /// The rows as they came, with these columns behind theirs.
    Columns { names: &'a [&'a str], bom: bool },
    /// Objects of the command's own; one without an answer has these values.
    Objects { unanswered: Map<String, Value> },
}

/// Streams the rows of a source, in order. `answer` gives for each of some texts the values of the columns to add, or
/// the object.
///
/// A row that cannot be answered keeps its place, with the reason; if `strict`, it ends the stream, behind the answers to
/// the rows before it.
pub(super) fn stream(
    source: Source,
    form: Form<'_>,
    strict: bool,
    mut answer: impl FnMut(&[&str]) -> anyhow::Result<Vec<Vec<Value>>>,
) -> anyhow::Result<ExitCode> {
    let columns = source.columns().clone();
    let mut writer = Answers::new(source.layout(), &columns, form)?;
    let (rows, reader) = read_ahead(source);
    let mut progress = RowProgress::new();
    let mut unanswered = (0, String::new());
    let mut size = CHUNK;
    loop {
        let reading = stages::begin(stages::READING);
        let (chunk, mut end) = gather(&rows, &mut writer, size)?;
        drop(reading);
        let start = Instant::now();
        let chunk_size = chunk.len();
        let strict_end = chunk.iter().position(|(_, fault)| strict && fault.is_some());
        let kept = strict_end.unwrap_or(chunk.len());
        let texts = chunk[..kept].iter().filter(|(_, fault)| fault.is_none());
        let texts: Vec<Cow<'_, str>> = texts.map(|(record, _)| columns.text_of(record)).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let mut found = if texts.is_empty() { Vec::new() } else { answer(&texts)? }.into_iter();
        let _writing = stages::begin(stages::WRITING);
        for (at, (record, fault)) in chunk.into_iter().enumerate() {
            match fault {
                Some(fault) if at == kept => {
                    end = Some(Err(fault));
                    break;
                }
                Some(fault) => {
                    let reason = fault.reason();
                    writer.write(&record, None, Some(&reason))?;
                    if unanswered.0 == 0 {
                        unanswered.1 = reason;
                    }
                    unanswered.0 += 1;
                }
                None => writer.write(&record, found.next(), None)?,
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
    let skipped = reader.join().unwrap_or_default();
    if skipped.count > 0 {
        tell(["skipped", "除外"], &skipped.to_string());
    }
    if let (n @ 1.., first) = unanswered {
        let rows = count(n, "row");
        let have = if n == 1 { "has" } else { "have" };
        let said =
            tr!("{rows} {have} no answer, the first because: {first}", "{n} 行に答えがありません。最初の理由: {first}");
        tell(["unanswered", "未回答"], &said);
    }
    Ok(ExitCode::SUCCESS)
}

/// A row, and what keeps it from being answered.
type Row = (Record, Option<DataError>);
/// What ends a stream: its end, or what cannot be read past.
type End = Result<(), DataError>;

/// Reads rows in a thread of its own, so that whoever answers them sees which have come. The thread ends with the rows
/// and says which were left out.
fn read_ahead(source: Source) -> (Receiver<Result<Row, DataError>>, JoinHandle<Skipped>) {
    let (sender, rows) = sync_channel(CHUNK);
    let reader = thread::spawn(move || {
        let mut records = source.records();
        while let Some(row) = records.next_in_place().transpose() {
            let failed = row.is_err();
            if sender.send(row).is_err() || failed {
                break;
            }
        }
        records.skipped().clone()
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
    writer: &mut Answers<'_>,
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
                bytes += row.0.fields.iter().map(String::len).sum::<usize>();
                chunk.push(row);
            }
            Ok(Err(error)) => return Ok((chunk, Some(Err(error)))),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return Ok((chunk, Some(Ok(())))),
        }
    }
    Ok((chunk, None))
}

/// Where answers are written.
enum Answers<'a> {
    Columns {
        writer: RecordWriter<BufWriter<StdoutLock<'a>>>,
        /// Columns added, that of reasons not counted.
        added: usize,
    },
    Objects {
        out: BufWriter<StdoutLock<'a>>,
        unanswered: Map<String, Value>,
        columns: Columns,
        /// The names of the input's columns; none where it has only texts.
        keys: Option<Vec<String>>,
    },
}

impl Answers<'_> {
    fn new(layout: &Layout, columns: &Columns, form: Form<'_>) -> anyhow::Result<Self> {
        let out = BufWriter::new(stdout().lock());
        Ok(match form {
            Form::Objects { unanswered } => {
                let keys = (layout.format != Format::PlainText).then(|| layout.keys());
                Answers::Objects { out, unanswered, columns: columns.clone(), keys }
            }
            Form::Columns { names, bom } => {
                if bom && matches!(layout.format, Format::JsonLines | Format::Json | Format::Parquet) {
                    let problem = tr!(
                        "--bom: the rows are written as JSON, which has no byte order mark; leave it out",
                        "--bom: 行は JSON で書き出され、JSON に BOM は付きません。--bom を外してください"
                    );
                    return Err(Usage(problem).into());
                }
                let form = if bom { OutputForm::Marked } else { OutputForm::LikeInput };
                let all = [names, &[ERROR]].concat();
                Answers::Columns { writer: RecordWriter::new(out, layout, &all, form)?, added: names.len() }
            }
        })
    }

    /// Writes a row with its answer or, without one, with the reason.
    fn write(&mut self, record: &Record, answer: Option<Vec<Value>>, reason: Option<&str>) -> Result<(), DataError> {
        let reason = reason.map_or(Value::Null, Value::from);
        match self {
            Answers::Columns { writer, added } => {
                let mut values = answer.unwrap_or_else(|| vec![Value::Null; *added]);
                values.push(reason);
                writer.write(record, &values)
            }
            Answers::Objects { out, unanswered, columns, keys } => {
                let mut object = Map::new();
                match answer.and_then(|mut values| values.pop()) {
                    Some(Value::Object(answer)) => object = answer,
                    _ => {
                        chumoku::answers::put_text(&mut object, &columns.text_of(record));
                        object.extend(unanswered.clone());
                    }
                }
                if let Some(keys) = keys {
                    object.insert("input".into(), record.to_object(keys).into());
                }
                if !reason.is_null() {
                    object.insert(ERROR.into(), reason);
                }
                writeln!(out, "{}", Value::Object(object)).map_err(|source| DataError::Write { source })
            }
        }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        match self {
            Answers::Columns { writer, .. } => writer.flush(),
            Answers::Objects { out, .. } => out.flush().map_err(|source| DataError::Write { source }),
        }
    }
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
