//! An opened data file: what it is, which columns matter, and its rows as a stream.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::columns::{self, Columns};
use super::detect;
use super::error::{DataError, Place, Role};
use super::fasttext::FAST_TEXT_COLUMNS;
use super::format::{Format, ReadOptions};
use super::header::has_header;
use super::json_lines::kind;
use super::open::{Content, Opened, open_path, open_reader};
use super::parquet::ParquetReader;
use super::profile::nested_value;
use super::reader::{MAX_COLUMNS, MAX_TEXT_BYTES, Reader};
use super::record::{Layout, Record, Skipped};
use super::wording::{count, listed};

/// Rows looked at to choose the columns.
const SAMPLE_ROWS: usize = 1_000;
/// Bytes of memory they may take.
const SAMPLE_BYTES: usize = 16 << 20;

/// A data file that has been opened, recognised, and sampled to choose its columns.
pub struct Source {
    layout: Layout,
    columns: Columns,
    origin: Origin,
    options: ReadOptions,
    reader: Reader,
    sample: VecDeque<Record>,
    skipped: Skipped,
}

/// How the file was recognised, for the description.
struct Origin {
    format_why: &'static str,
    gzip: bool,
    encoding: Option<&'static str>,
}

impl Source {
    /// Opens a file, recognises its format and chooses its columns from the first thousand rows or so.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the file or the options, as far as the sample shows it.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, DataError> {
        Self::from_opened(path, open_path(path, options)?, options)
    }

    /// The same for a stream such as standard input; `name` stands for the path in messages, and an extension in it
    /// counts as a file's would.
    ///
    /// # Errors
    ///
    /// As for [`Source::open`].
    pub fn from_reader(name: &Path, input: impl Read + 'static, options: &ReadOptions) -> Result<Self, DataError> {
        Self::from_opened(name, open_reader(name, Box::new(input), None::<File>, options)?, options)
    }

    fn from_opened(path: &Path, opened: Opened, options: &ReadOptions) -> Result<Self, DataError> {
        let (format, format_why, mut reader) = match opened.content {
            Content::Parquet(file) => {
                (Format::Parquet, "its first bytes", Reader::Parquet(Box::new(ParquetReader::open(path, file)?)))
            }
            Content::Text { lines, head, whole } => {
                let (format, why) = match options.format {
                    Some(format) => (format, "as asked"),
                    None => detect::detect(path, &head, whole),
                };
                (format, why, Reader::of_lines(format, lines))
            }
        };
        let mut skipped = Skipped::default();
        let mut sample = sample(&mut reader, options, &mut skipped)?;
        let mut layout = Layout { path: path.to_owned(), format, header: false, columns: Vec::new() };
        layout.columns = match &reader {
            Reader::Csv(_) | Reader::Tsv(_) => {
                layout.header = sample.front().is_some_and(|first| {
                    let below: Vec<&[String]> = sample.iter().skip(1).map(|row| row.fields.as_slice()).collect();
                    has_header(&first.fields, &below, options)
                });
                let names = if layout.header { sample.pop_front() } else { None };
                let width = sample.front().map_or(0, |row| row.fields.len());
                names.map_or_else(|| (1..=width).map(|n| format!("column_{n}")).collect(), |row| row.fields)
            }
            Reader::Json(_) => keys(&sample),
            Reader::FastText(_) => FAST_TEXT_COLUMNS.map(str::to_owned).to_vec(),
            Reader::Plain(_) => vec!["text".to_owned()],
            Reader::Parquet(reader) => reader.columns.clone(),
        };
        if sample.is_empty() {
            return Err(if skipped.count > 0 {
                DataError::NoUsableRows { path: path.to_owned(), skipped: skipped.to_string() }
            } else if layout.columns.is_empty() {
                DataError::Empty { path: path.to_owned() }
            } else {
                DataError::OnlyHeader { path: path.to_owned(), columns: listed(&layout.columns) }
            });
        }
        for row in &mut sample {
            row.fill(&layout.columns);
        }
        let columns = columns::choose(&layout, &sample.iter().collect::<Vec<_>>(), options)?;
        if !layout.has_names() {
            layout.columns[columns.text] = "text".to_owned();
            if let Some(label) = columns.label {
                layout.columns[label] = "label".to_owned();
            }
        }
        let origin = Origin { format_why, gzip: opened.gzip, encoding: opened.encoding };
        let source = Source { layout, columns, origin, options: options.clone(), reader, sample, skipped };
        if options.require_text && !options.skip_bad_rows {
            // Better now than after half of the work.
            source.sample.iter().try_for_each(|row| source.check(row))?;
        }
        Ok(source)
    }

    /// The format and the names of the columns.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The columns in use.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// What was recognised and why, in one line:
    /// `train.csv: CSV with a header, 2 columns (the file's name); text = column “review” (its name), …`
    pub fn describe(&self) -> String {
        let Layout { path, format, header, columns } = &self.layout;
        let shape = match format {
            Format::Csv { .. } | Format::Tsv => format!(
                " {} a header, {}",
                if *header { "with" } else { "without" },
                count(columns.len() as u64, "column")
            ),
            Format::JsonLines => format!(", {}", count(columns.len() as u64, "key")),
            Format::Parquet => format!(", {}", count(columns.len() as u64, "column")),
            Format::FastText | Format::PlainText => String::new(),
        };
        let gzip = if self.origin.gzip { ", gzip" } else { "" };
        let encoding = self.origin.encoding.map_or(String::new(), |name| format!(", decoded from {name}"));
        let mut out = format!("{}: {format}{shape}{gzip}{encoding} ({})", path.display(), self.origin.format_why);
        match format {
            Format::PlainText => out.push_str("; each line is a text"),
            Format::FastText => out.push_str("; the label is in front of each text"),
            _ => {
                let Columns { text, label, text_why, label_why } = &self.columns;
                out.push_str(&format!("; text = {} ({text_why})", self.layout.column_title(*text)));
                match label {
                    Some(label) => {
                        out.push_str(&format!(", label = {} ({label_why})", self.layout.column_title(*label)));
                    }
                    None => out.push_str(", no label"),
                }
            }
        }
        out
    }

    /// Streams the rows, those of the sample first, in constant memory.
    pub fn records(self) -> Records {
        Records { source: self, done: false }
    }

    /// Where a row is, for messages.
    pub fn place(&self, line: u64) -> Place {
        match &self.reader {
            Reader::Parquet(reader) => reader.place(line),
            _ => Place::line(&self.layout.path, line),
        }
    }

    /// Checks what every use of a row relies on: the text is a plain value and not too long.
    fn check(&self, record: &Record) -> Result<(), DataError> {
        self.check_plain(record, Role::Text, self.columns.text)?;
        let text = record.field(self.columns.text);
        if self.options.require_text && text.trim().is_empty() {
            return Err(DataError::EmptyText { place: self.place(record.line) });
        }
        let bytes = text.len() as u64;
        if bytes > MAX_TEXT_BYTES {
            let place = self.place(record.line);
            return Err(DataError::TooLong { place, what: "a text", limit: MAX_TEXT_BYTES, bytes });
        }
        Ok(())
    }

    /// Checks that the value of a column is no list or object.
    pub(crate) fn check_plain(&self, record: &Record, role: Role, column: usize) -> Result<(), DataError> {
        match nested_value(&self.layout, record, column) {
            None => Ok(()),
            Some(value) => Err(DataError::Nested {
                place: self.place(record.line),
                role,
                column: self.layout.columns[column].clone(),
                found: kind(value),
            }),
        }
    }
}

/// Reads the first rows. An error ends it at once, so that it is seen before any work is done.
fn sample(reader: &mut Reader, options: &ReadOptions, skipped: &mut Skipped) -> Result<VecDeque<Record>, DataError> {
    let (mut rows, mut bytes) = (VecDeque::new(), 0);
    while rows.len() <= SAMPLE_ROWS && bytes < SAMPLE_BYTES {
        match reader.next_row() {
            Ok(None) => break,
            Ok(Some(row)) => {
                bytes += row.bytes();
                rows.push_back(row);
            }
            Err(error) => skip(error, options, skipped)?,
        }
    }
    Ok(rows)
}

/// Counts a row error if rows may be skipped, else gives the error back.
fn skip(error: DataError, options: &ReadOptions, skipped: &mut Skipped) -> Result<(), DataError> {
    match error.row() {
        Some(line) if options.skip_bad_rows => {
            skipped.add(line, error.to_string());
            Ok(())
        }
        _ => Err(error),
    }
}

/// The keys of all objects, in the order in which they first come.
fn keys(rows: &VecDeque<Record>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let keys = rows.iter().filter_map(|row| row.object.as_ref()).flat_map(|object| object.keys());
    keys.filter(|key| seen.insert(key.as_str())).take(MAX_COLUMNS).cloned().collect()
}

/// The rows of a file, one after the other. Ends after the first error.
pub struct Records {
    source: Source,
    done: bool,
}

impl Records {
    /// The file the rows come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The rows left out so far.
    pub fn skipped(&self) -> &Skipped {
        &self.source.skipped
    }

    /// Counts a row error of the caller's if rows may be skipped; else ends the stream and gives the error back.
    pub(crate) fn leave_out(&mut self, error: DataError) -> Result<(), DataError> {
        let result = skip(error, &self.source.options, &mut self.source.skipped);
        self.done = result.is_err();
        result
    }

    fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let mut row = match self.source.sample.pop_front() {
            Some(row) => row,
            None => match self.source.reader.next_row()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        row.fill(&self.source.layout.columns);
        self.source.check(&row)?;
        Ok(Some(row))
    }
}

impl Iterator for Records {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.next_row() {
                Ok(Some(row)) => return Some(Ok(row)),
                Ok(None) => self.done = true,
                Err(error) => {
                    if let Err(error) = self.leave_out(error) {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}
