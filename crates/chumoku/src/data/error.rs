//! The one error type of reading and writing data files, and the places it points to.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::wording::{count, quoted, size};

/// Where in a file something is: `train.csv:17:4`, or `train.parquet, row 17`.
///
/// Lines and columns count from 1; a column is a count of characters, as editors show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The line, or the row where the format has no lines.
    pub line: u64,
    /// The character within the line, where one can be named.
    pub column: Option<u64>,
    /// Whether `line` counts rows, as in Parquet.
    pub is_row: bool,
}

impl Place {
    /// A line of a text file.
    pub fn line(path: &Path, line: u64) -> Self {
        Place { path: path.to_owned(), line, column: None, is_row: false }
    }

    /// A row of a file without lines.
    pub fn row(path: &Path, row: u64) -> Self {
        Place { is_row: true, ..Place::line(path, row) }
    }

    /// The same place, narrowed to one character of its line.
    pub fn at_column(self, column: u64) -> Self {
        Place { column: Some(column), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (self.is_row, self.column) {
            (true, _) => write!(f, "{path}, row {}", self.line),
            (false, Some(column)) => write!(f, "{path}:{}:{column}", self.line),
            (false, None) => write!(f, "{path}:{}", self.line),
        }
    }
}

/// What a column is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The text to classify.
    Text,
    /// The class it belongs to.
    Label,
    /// The text to translate.
    Source,
    /// Its translation.
    Target,
}

impl Role {
    /// The command line flag that names the column.
    pub fn flag(self) -> &'static str {
        match self {
            Role::Text | Role::Source => "--text",
            Role::Label | Role::Target => "--label",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Text => "text",
            Role::Label => "label",
            Role::Source => "source",
            Role::Target => "target",
        })
    }
}

/// Whatever can be wrong with a data file.
///
/// Each message is one line: where, what was being done, what was expected, what was found, what to do about it.
/// All of them are wrong usage or unreadable input, so a command that meets one ends with status 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each variant and field is")]
pub enum DataError {
    // The file as a whole.
    #[error("{}: opening the data: expected a file, found nothing of that name{hint}", path.display())]
    Missing { path: PathBuf, hint: String },
    #[error("{}: opening the data: expected a file, found a folder; name a file inside it{hint}", path.display())]
    Folder { path: PathBuf, hint: String },
    #[error("{}: {doing}: {source}; check the path, its permissions and the disk", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}: reading the data: expected rows, found an empty file; check that it was written or downloaded whole", path.display())]
    Empty { path: PathBuf },
    #[error("{}: reading the data: expected rows below the header ({columns}), found none; check that the file was written whole", path.display())]
    OnlyHeader { path: PathBuf, columns: String },
    #[error("{}: recognising the format: expected CSV, TSV, JSONL, Parquet, fastText or plain text, found {found}; {advice}", path.display())]
    OtherFormat { path: PathBuf, found: &'static str, advice: &'static str },
    #[error("{}: decompressing gzip: expected the end of the stream, found {found}{after}; download or compress the file again", path.display())]
    Gzip { path: PathBuf, found: String, after: String },
    #[error("{}: reading Parquet: expected a whole, undamaged file, found: {detail}; write or download the file again", path.display())]
    Parquet { path: PathBuf, detail: String },
    #[error("{}: reading Parquet: expected a column of strings, found {columns}; write the texts as a string column", path.display())]
    NoStringColumns { path: PathBuf, columns: String },

    // Characters.
    #[error(
        "--encoding {label}: expected the name of an encoding (such as shift_jis, euc-jp, windows-1252, utf-16le), found {}{hint}",
        quoted(label)
    )]
    UnknownEncoding { label: String, hint: String },
    #[error(
        "{place}: reading text: expected UTF-8, found other bytes at byte {offset} of the file; name its encoding, such as --encoding {guess}"
    )]
    NotUtf8 { place: Place, offset: u64, guess: &'static str },
    #[error(
        "{place}: reading text: expected {encoding}, found bytes that it does not have at byte {offset} of the file; try another --encoding"
    )]
    NotInEncoding { place: Place, offset: u64, encoding: &'static str },
    #[error(
        "{place}: reading text: expected characters, found a NUL byte; is it a binary file, or UTF-16 (--encoding utf-16le)?"
    )]
    Nul { place: Place },

    // Rows.
    #[error("{place}: reading a {format} row: expected {}, as in line {model}, found {found}; {advice}, or leave such rows out with --skip-bad-rows", count(*.expected, "column"))]
    Ragged { place: Place, format: &'static str, expected: u64, found: u64, model: u64, advice: &'static str },
    #[error(
        "{place}: reading a CSV field: expected a closing quote (\") for the one that opens here, found {found}; close it, write a quote inside quotes twice (\"\"), or leave such rows out with --skip-bad-rows"
    )]
    UnclosedQuote { place: Place, found: String },
    #[error(
        "{place}: reading a CSV field: expected {expected} after its closing quote, found {} at {found_at}; write a quote inside quotes twice (\"\"), or leave such rows out with --skip-bad-rows",
        quoted(found)
    )]
    StrayQuote { place: Place, found_at: String, expected: &'static str, found: String },
    #[error(
        "{place}: reading a header: expected at most {limit} columns, found {found}; is it a table with one text per row?"
    )]
    TooManyColumns { place: Place, limit: usize, found: usize },
    #[error(
        "{place}: reading JSON: expected one object on the line, found: {detail}; mend the line, or leave such rows out with --skip-bad-rows"
    )]
    BadJson { place: Place, detail: String },
    #[error("{place}: reading JSON: expected an object ({{…}}) on each line, found {found}; {advice}")]
    NotAnObject { place: Place, found: &'static str, advice: &'static str },
    #[error("{place}: reading the {role}: expected a string, number or true/false in {}, found {found}; flatten it, or choose another column with {}", quoted(column), role.flag())]
    Nested { place: Place, role: Role, column: String, found: &'static str },
    #[error(
        "{place}: reading the text: expected some characters, found an empty text; fill it in, or leave such rows out with --skip-bad-rows"
    )]
    EmptyText { place: Place },
    #[error(
        "{place}: reading the label: expected a class name, found {found}; fill it in, or leave such rows out with --skip-bad-rows"
    )]
    EmptyLabel { place: Place, found: &'static str },
    #[error(
        "{place}: reading pairs: expected a source and its target, found an empty {role}; fill it in, or leave such rows out with --skip-bad-rows"
    )]
    EmptySide { place: Place, role: Role },
    #[error(
        "{place}: reading pairs: expected a partner for each line, found the end of {} after {}; this is the first line without one: check that both files were written whole and line up",
        other.display(), count(*.lines, "line")
    )]
    Unpaired { place: Place, other: PathBuf, lines: u64 },
    #[error(
        "{place}: reading the label: expected one label, found {found} ({labels}); keep one for each text, or leave such rows out with --skip-bad-rows"
    )]
    SeveralLabels { place: Place, found: usize, labels: String },
    #[error("{place}: reading {what}: expected at most {}, found {}; cut it into shorter texts, or leave such rows out with --skip-bad-rows", size(*.limit), size(*.bytes))]
    TooLong { place: Place, what: &'static str, limit: u64, bytes: u64 },
    #[error("{place}: reading a line: expected its end, found none within {}; is it a text file?", size(*.bytes))]
    EndlessLine { place: Place, bytes: u64 },

    // Columns.
    #[error("{}: choosing the {role} column: expected {}, found no such column among {columns}{hint}", path.display(), quoted(wanted))]
    NoSuchColumn { path: PathBuf, role: Role, wanted: String, columns: String, hint: String },
    #[error("{}: choosing the {role} column: expected one that stands out, found {candidates}; name one with {} NAME", path.display(), role.flag())]
    Ambiguous { path: PathBuf, role: Role, candidates: String },
    #[error("{}: choosing the {role} column: expected {wanted}, found only {columns}; {advice}", path.display())]
    NoColumn { path: PathBuf, role: Role, wanted: &'static str, columns: String, advice: &'static str },
    #[error("{}: choosing the columns: expected the {} and the {} in two columns, found {} named for both; change --text or --label", path.display(), roles[0], roles[1], quoted(column))]
    SameColumn { path: PathBuf, roles: [Role; 2], column: String },
    #[error("{}: reading one of two parallel files: expected lines of text, found Parquet; name it alone, or write each side as a text file", path.display())]
    NotParallel { path: PathBuf },

    // The data set as a whole.
    #[error("{}: reading labelled texts: expected rows, found none that can be used ({skipped}); mend the file or choose other columns with --text and --label", path.display())]
    NoUsableRows { path: PathBuf, skipped: String },
    #[error("{}: reading pairs: expected rows, found none that can be used ({skipped}); mend the data or choose other columns with --text and --label", path.display())]
    NoUsablePairs { path: PathBuf, skipped: String },
    #[error("{}: preparing to train: expected at least {}, found {}; add more examples", path.display(), count(*.least, "row"), count(*.rows, "row"))]
    TooFewRows { path: PathBuf, rows: u64, least: u64 },
    #[error("{}: preparing to train: expected two or more classes, found only {} in all {}; is {column} the label? Name another with --label", path.display(), quoted(label), count(*.rows, "row"))]
    OneClass { path: PathBuf, label: String, rows: u64, column: String },
    #[error(
        "{place}: reading the label: expected at most {limit} classes, found more in {column}; is it an identifier? Name another column with --label"
    )]
    TooManyClasses { place: Place, limit: usize, column: String },
    #[error(
        "{place}: checking the labels: expected a class of the training data ({known}), found {}{hint}; correct it, or add such rows to the training data",
        quoted(label)
    )]
    UnknownLabel { place: Place, label: String, known: Box<str>, hint: Box<str> },

    // Output.
    #[error("writing the output: {source}; check the disk and who reads it")]
    Write { source: io::Error },
    #[error(
        "writing row {row}: expected fields that a TSV file can hold, found a line break that would be read back wrongly; write JSON instead (--json)"
    )]
    Unwritable { row: u64 },
}

impl DataError {
    /// Whether only one row is lost, so that reading can go on behind it when bad rows may be skipped.
    pub fn is_row_error(&self) -> bool {
        self.row().is_some()
    }

    /// The line of the row to skip, if this error concerns one row only.
    pub(crate) fn row(&self) -> Option<u64> {
        match self {
            DataError::Ragged { place, .. }
            | DataError::UnclosedQuote { place, .. }
            | DataError::StrayQuote { place, .. }
            | DataError::BadJson { place, .. }
            | DataError::NotAnObject { place, .. }
            | DataError::Nested { place, .. }
            | DataError::EmptyText { place }
            | DataError::EmptyLabel { place, .. }
            | DataError::EmptySide { place, .. }
            | DataError::SeveralLabels { place, .. }
            | DataError::TooLong { place, .. } => Some(place.line),
            _ => None,
        }
    }

    /// Whether the reader of the output has gone away, which ends a pipeline quietly (`chumoku predict … | head`).
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, DataError::Write { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
