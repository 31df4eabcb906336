//! An open file as rows: its format, its column names, and a sample of the first rows.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use serde_json::Value;

use super::detect::{self, DetectedFormat, SpacedQuotes};
use super::error::{ColumnRole, DataError, SourceLocation};
use super::excel::ExcelReader;
use super::fasttext::FAST_TEXT_COLUMNS;
use super::format::{Format, ReadOptions};
use super::json_array::ElementKind;
use super::json_lines::json_type_name;
use super::limits::{MAX_COLUMNS, MAX_TEXT_BYTES};
use super::open::{DecodedFile, FileContent};
use super::parquet::ParquetReader;
use super::reader::FormatReader;
use super::record::{Record, SkippedRows, TableLayout};
use super::schema_inference::header::{self, HeaderScore};
use super::schema_inference::profile::nested_value;
use crate::lang::lang;
use crate::lang::wording::{format_count, list_names, quote};
use crate::tr;

/// Most rows in the sample.
const SAMPLE_ROWS: usize = 1_000;
/// Most memory of the sample, in bytes.
const SAMPLE_BYTES: usize = 16 << 20;
/// The deepest nesting of objects whose values become columns.
const MAX_DEPTH: usize = 5;
/// Most rows above a sheet's table that may be titles.
const MAX_TITLE_ROWS: usize = 10;

/// An open file whose format is known and whose first rows have been sampled. The caller decides what its columns mean.
pub(crate) struct DataTable {
    pub(crate) layout: TableLayout,
    pub(crate) options: ReadOptions,
    pub(crate) skipped: SkippedRows,
    /// The first rows, which are returned before those of the reader.
    pub(crate) sample: VecDeque<Record>,
    /// Errors among the first rows that are to be returned in their place. Each has the number of sample rows before
    /// it.
    faults: VecDeque<(usize, DataError)>,
    /// Number of sample rows returned so far.
    sample_rows_read: usize,
    origin: FormatOrigin,
    reader: FormatReader,
    /// The key of an unpacked object, whose keys became columns.
    unpacked_key: Option<String>,
}

/// How the format was detected, for the description.
struct FormatOrigin {
    format_why: &'static str,
    /// False if the format is a guess.
    is_certain: bool,
    gzip: bool,
    encoding: Option<&'static str>,
    /// The row of a sheet in which the table starts.
    first_row: u64,
    /// True if the decoded text looks as if it had another encoding.
    is_garbled: bool,
    /// Quoted fields after spaces.
    quotes: SpacedQuotes,
    /// True if the first row may also be the opposite: a header, or data.
    header_is_close: bool,
}

impl DataTable {
    pub(crate) fn from_file(path: &Path, opened: DecodedFile, options: &ReadOptions) -> Result<Self, DataError> {
        let mut quotes = SpacedQuotes::None;
        let (found, mut reader, live_lines) = match opened.content {
            FileContent::Parquet(file) => {
                let reader = FormatReader::Parquet(Box::new(ParquetReader::open(path, file)?));
                let why = lang().pick("its first bytes", "先頭のバイトから");
                (DetectedFormat { format: Format::Parquet, why, is_certain: true }, reader, None)
            }
            FileContent::Excel(file) => {
                let reader = FormatReader::Excel(ExcelReader::open(path, file, options)?);
                let why = lang().pick("its first bytes", "先頭のバイトから");
                (DetectedFormat { format: Format::Excel, why, is_certain: true }, reader, None)
            }
            FileContent::Text { lines, head, whole, is_live } => {
                let found = detect::detect(path, &head, whole, options);
                let mut reader = FormatReader::for_lines(found.format, lines, options.several_labels);
                if let (FormatReader::Csv(reader), Format::Csv { delimiter }) = (&mut reader, found.format) {
                    quotes = SpacedQuotes::from_head(&head, whole, delimiter);
                    reader.skips_spaces = quotes == SpacedQuotes::All;
                }
                (found, reader, is_live.then(|| head.matches('\n').count() as u64))
            }
        };
        let DetectedFormat { format, why: format_why, is_certain: is_sure } = found;
        let mut skipped = SkippedRows::default();
        let mut first = RowSample::default();
        first.read_rows(&mut reader, options, &mut skipped, live_lines)?;
        let mut layout = TableLayout { path: path.to_owned(), format, header: false, columns: Vec::new() };
        if let FormatReader::Excel(reader) = &mut reader {
            reader.drop_empty_columns(&mut first.rows);
            first.drop_titles(options);
        }
        let first_row = first.rows.front().map_or(1, |row| row.line);
        let mut header_is_close = false;
        layout.columns = match &reader {
            FormatReader::JsonArray(reader) if reader.elements == Some(ElementKind::Objects) => {
                layout.header = true;
                all_keys(&first.rows)
            }
            FormatReader::JsonArray(reader) if reader.elements == Some(ElementKind::Texts) => vec!["text".to_owned()],
            FormatReader::Csv(_) | FormatReader::Tsv(_) | FormatReader::Excel(_) | FormatReader::JsonArray(_) => {
                let score = first.header_score(0, options);
                (layout.header, header_is_close) = (score.is_header(), score.is_close());
                if score.is_ambiguous() && options.require_label && !options.faults_in_place {
                    let fields = first.rows.front().map_or_else(String::new, |row| list_names(&row.fields));
                    return Err(DataError::AmbiguousHeader { path: path.to_owned(), first: fields.into() });
                }
                let names = if layout.header { first.take_header() } else { None };
                if first.rows.is_empty() && live_lines.is_some() {
                    // So far the stream has only sent the header.
                    first.read_rows(&mut reader, options, &mut skipped, live_lines)?;
                }
                let width = first.rows.front().map_or(0, |row| row.fields.len());
                names.map_or_else(|| (1..=width).map(|n| format!("column_{n}")).collect(), |row| row.fields)
            }
            FormatReader::Json(_) => all_keys(&first.rows),
            FormatReader::FastText(_) => FAST_TEXT_COLUMNS.map(str::to_owned).to_vec(),
            FormatReader::Plain(_) => vec!["text".to_owned()],
            FormatReader::Parquet(reader) => reader.columns.clone(),
        };
        let RowSample { rows: mut sample, mut faults } = first;
        if sample.is_empty() {
            return Err(if let Some((_, fault)) = faults.pop_front() {
                fault
            } else if skipped.count > 0 {
                DataError::NoUsableRows { path: path.to_owned(), skipped: skipped.to_string() }
            } else if layout.columns.is_empty() {
                DataError::Empty { path: path.to_owned() }
            } else {
                DataError::OnlyHeader { path: path.to_owned(), columns: list_names(&layout.columns) }
            });
        }
        for row in &mut sample {
            row.set_fields(&layout.columns);
        }
        let (gzip, encoding, is_garbled) = (opened.gzip, opened.encoding, opened.is_garbled);
        let origin = FormatOrigin {
            format_why,
            is_certain: is_sure,
            gzip,
            encoding,
            first_row,
            is_garbled,
            quotes,
            header_is_close,
        };
        Ok(DataTable {
            layout,
            options: options.clone(),
            skipped,
            sample,
            faults,
            sample_rows_read: 0,
            origin,
            reader,
            unpacked_key: None,
        })
    }

    /// Returns false if the format is only a guess from commas, which occur in prose too.
    pub(crate) fn is_certain(&self) -> bool {
        self.origin.is_certain || self.options.text.is_some()
    }

    /// Unpacks objects with texts in two or more languages, as in `{"translation": {"ja": "…", "en": "…"}}`. Their keys
    /// become columns. Returns whether there is such an object.
    pub(crate) fn unpack_translations(&mut self) -> bool {
        let holds_texts = |value: &Value| {
            value.as_object().is_some_and(|object| object.len() > 1 && object.values().all(|text| text.is_string()))
        };
        let is_translation = |key: &&String| {
            let mut values =
                self.sample.iter().filter_map(|row| row.object.as_ref()?.get(*key)).filter(|value| !value.is_null());
            let first = values.next().is_some_and(holds_texts);
            first && values.all(Value::is_object)
        };
        let Some(key) = self.layout.columns.iter().find(is_translation).cloned() else {
            return false;
        };
        self.sample.iter_mut().for_each(|row| unpack_object(row, &key));
        self.layout.columns = all_keys(&self.sample);
        self.sample.iter_mut().for_each(|row| row.set_fields(&self.layout.columns));
        self.unpacked_key = Some(key);
        true
    }

    /// Turns the values inside objects into columns, named by paths such as `message.body`.
    pub(crate) fn flatten(&mut self) {
        let is_object = |key: &String| {
            let mut values =
                self.sample.iter().filter_map(|row| row.value(key)).filter(|value| !value.is_null()).peekable();
            values.peek().is_some() && values.all(Value::is_object)
        };
        if !self.layout.columns.iter().any(is_object) {
            return;
        }
        let mut columns: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for key in &self.layout.columns {
            if !is_object(key) {
                columns.extend(seen.insert(key.clone()).then(|| key.clone()));
                continue;
            }
            let mut paths = Vec::new();
            for value in self.sample.iter().filter_map(|row| row.value(key)) {
                collect_paths(value, key, MAX_DEPTH, &mut paths);
            }
            columns.extend(paths.into_iter().filter(|path| seen.insert(path.clone())));
        }
        columns.truncate(MAX_COLUMNS);
        self.layout.columns = columns;
        self.sample.iter_mut().for_each(|row| row.set_fields(&self.layout.columns));
    }

    /// Describes the file and its format in one line: `train.csv: CSV with a header, 2 columns (the file's name)`
    pub(crate) fn describe(&self) -> String {
        let TableLayout { path, format, header, columns } = &self.layout;
        let (n, in_all) = (columns.len(), format_count(columns.len() as u64, "column"));
        let shape = match format {
            Format::Json if !matches!(&self.reader, FormatReader::JsonArray(reader) if reader.elements == Some(ElementKind::Lists)) =>
            {
                let (array, keys) = (self.array_noun(), format_count(n as u64, "key"));
                match header {
                    true => tr!(", {array}, {keys}", "、{array}、キー {n} 個"),
                    false => tr!(", {array}", "、{array}"),
                }
            }
            Format::Csv { .. } | Format::Tsv | Format::Excel | Format::Json => {
                let sheet = match &self.reader {
                    FormatReader::Excel(reader) => reader.describe_sheet(),
                    FormatReader::JsonArray(_) => tr!(", {}", "、{}", self.array_noun()),
                    _ => String::new(),
                };
                let with = lang().pick(if *header { "with" } else { "without" }, if *header { "あり" } else { "なし" });
                let row = match self.origin.first_row {
                    row if row > 1 && *header && !sheet.is_empty() => tr!(" (row {row})", "（{row} 行目）"),
                    _ => String::new(),
                };
                let comma = if sheet.is_empty() { "" } else { lang().pick(",", "") };
                let shape = tr!(" {with} a header{row}, {in_all}", "、見出し行{with}{row}、{n} 列");
                format!("{sheet}{comma}{shape}")
            }
            Format::JsonLines => {
                let keys = format_count(n as u64, "key");
                tr!(", {keys}", "、キー {n} 個")
            }
            Format::Parquet => tr!(", {in_all}", "、{n} 列"),
            Format::FastText | Format::PlainText => String::new(),
        };
        let gzip = if self.origin.gzip { lang().pick(", gzip", "、gzip") } else { "" };
        let encoding = match (self.origin.encoding, self.origin.is_garbled) {
            (None, _) => String::new(),
            (Some(name), false) => tr!(", decoded from {name}", "、{name} から変換"),
            (Some(name), true) => tr!(
                ", decoded from {name}, which gives odd characters: check --encoding",
                "、{name} から変換しましたが、文字化けのようです。--encoding を確認してください"
            ),
        };
        let quotes = match self.origin.quotes {
            SpacedQuotes::None => String::new(),
            SpacedQuotes::All => tr!("; spaces after delimiters left out", "。区切り文字の後の空白は除去"),
            SpacedQuotes::Some(line) => tr!(
                "; quotes after spaces kept: in line {line} more text follows one",
                "。空白の後の引用符は保持（{line} 行目で引用符の後に文字が続くため）"
            ),
        };
        let (path, why) = (path.display(), self.origin.format_why);
        let close = match (self.origin.header_is_close, header) {
            (false, _) => String::new(),
            (true, true) => {
                tr!("; the first row may also be data (--header no)", "。1 行目はデータかもしれません（--header no）")
            }
            (true, false) => {
                tr!(
                    "; the first row may also name the columns (--header yes)",
                    "。1 行目は見出しかもしれません（--header yes）"
                )
            }
        };
        tr!(
            "{path}: {format}{shape}{gzip}{encoding} ({why}){close}{quotes}",
            "{path}: {format}{shape}{gzip}{encoding}（{why}）{close}{quotes}"
        )
    }

    /// Names the type of a JSON array.
    fn array_noun(&self) -> &'static str {
        match &self.reader {
            FormatReader::JsonArray(reader) => reader.elements.map_or("", ElementKind::array_noun),
            _ => "",
        }
    }

    /// Returns the location of a row, for messages.
    pub(crate) fn location(&self, line: u64) -> SourceLocation {
        match &self.reader {
            FormatReader::Parquet(reader) => reader.location(line),
            FormatReader::Excel(reader) => reader.location(line),
            FormatReader::JsonArray(_) => SourceLocation::row(&self.layout.path, line),
            _ => SourceLocation::line(&self.layout.path, line),
        }
    }

    /// Returns the next row, starting with the sample. Reading may continue after a row error, but not after any other
    /// error.
    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let is_next = |(before, _): &(usize, DataError)| *before == self.sample_rows_read;
        if let Some((_, fault)) = if self.faults.front().is_some_and(is_next) { self.faults.pop_front() } else { None }
        {
            return Err(fault);
        }
        if let Some(row) = self.sample.pop_front() {
            self.options.rows_read.add_row();
            self.sample_rows_read += 1;
            return Ok(Some(row));
        }
        let Some(mut row) = self.reader.next_row()? else {
            return Ok(None);
        };
        self.options.rows_read.add_row();
        if let Some(key) = &self.unpacked_key {
            unpack_object(&mut row, key);
        }
        row.set_fields(&self.layout.columns);
        Ok(Some(row))
    }

    /// Skips a row with an error if bad rows are skipped, else returns the error.
    pub(crate) fn skip_row(&mut self, error: DataError) -> Result<(), DataError> {
        skip_or_fail(error, &self.options, &mut self.skipped)
    }

    /// Describes a missing value for messages: no such key, null, or else `empty`.
    pub(crate) fn describe_missing(&self, record: &Record, column: usize, empty: impl Into<Box<str>>) -> Box<str> {
        let key = &self.layout.columns[column];
        match &record.object {
            Some(object) if !object.contains_key(key) => tr!("no key {}", "キー{}のない行", quote(key)).into(),
            Some(object) if object[key].is_null() => "null".into(),
            _ => empty.into(),
        }
    }

    /// Checks that a text is a plain value within the size limit.
    pub(crate) fn check_text(&self, record: &Record, role: ColumnRole, column: usize) -> Result<(), DataError> {
        self.check_scalar(record, role, column)?;
        let bytes = record.field(column).len() as u64;
        if bytes > MAX_TEXT_BYTES {
            let place = self.location(record.line);
            return Err(DataError::TooLong {
                place,
                what: lang().pick("a text", "テキスト"),
                limit: MAX_TEXT_BYTES,
                bytes,
            });
        }
        Ok(())
    }

    /// Checks that the value of a column is not a list or an object.
    pub(crate) fn check_scalar(&self, record: &Record, role: ColumnRole, column: usize) -> Result<(), DataError> {
        match nested_value(&self.layout, record, column) {
            None => Ok(()),
            Some(value) => {
                let (column, flag) = (self.layout.columns[column].clone(), role.flag());
                let inner = value.as_object().and_then(|object| object.keys().next());
                let advice = match inner {
                    Some(key) => tr!(
                        "name a value in it by its path, as {flag} {column}.{key}, or choose another column with {flag}",
                        "{flag} {column}.{key} のようにパスで中の値を指定するか、{flag} で別の列を選んでください"
                    ),
                    None => tr!(
                        "flatten it, or choose another column with {flag}",
                        "平らな値にするか、{flag} で別の列を選んでください"
                    ),
                };
                let place = self.location(record.line);
                Err(DataError::NestedValue {
                    place,
                    role,
                    column: column.into(),
                    found: json_type_name(value),
                    advice: advice.into(),
                })
            }
        }
    }
}

/// The first rows, with the errors among them that are returned in place.
#[derive(Default)]
struct RowSample {
    rows: VecDeque<Record>,
    faults: VecDeque<(usize, DataError)>,
}

impl RowSample {
    /// Reads rows. The first error ends reading, so that it shows before any work is done, unless errors are returned
    /// in place. For a live stream, waits only for the lines received so far, and for one row.
    fn read_rows(
        &mut self,
        reader: &mut FormatReader,
        options: &ReadOptions,
        skipped: &mut SkippedRows,
        live_lines: Option<u64>,
    ) -> Result<(), DataError> {
        let mut bytes = 0;
        while self.rows.len() <= SAMPLE_ROWS && bytes < SAMPLE_BYTES {
            let is_enough = live_lines.is_some_and(|lines| reader.lines_begun() >= lines);
            if is_enough && !self.rows.is_empty() {
                break;
            }
            match reader.next_row() {
                Ok(None) => break,
                Ok(Some(row)) => {
                    bytes += row.memory_bytes();
                    self.rows.push_back(row);
                }
                Err(error) => match skip_or_fail(error, options, skipped) {
                    Ok(()) => {}
                    Err(error) if options.faults_in_place => {
                        let is_last = !error.is_row_error();
                        self.faults.push_back((self.rows.len(), error));
                        if is_last || self.faults.len() > SAMPLE_ROWS {
                            break;
                        }
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Scores the row at `at` as the header of the rows below it.
    fn header_score(&self, at: usize, options: &ReadOptions) -> HeaderScore {
        let below: Vec<&[String]> = self.rows.iter().skip(at + 1).map(|row| row.fields.as_slice()).collect();
        header::score_header(self.rows.get(at).map_or(&[], |row| &row.fields), &below, options)
    }

    /// Drops titles above a sheet's table: rows with a single value above a row of names.
    fn drop_titles(&mut self, options: &ReadOptions) {
        let filled = |row: &Record| row.fields.iter().filter(|value| !value.trim().is_empty()).count();
        let titles = self.rows.iter().take(MAX_TITLE_ROWS + 1).take_while(|row| filled(row) == 1).count();
        if titles == 0
            || titles > MAX_TITLE_ROWS
            || options.header.is_some()
            || !self.header_score(titles, options).is_header()
        {
            return;
        }
        for _ in 0..titles {
            self.take_header();
        }
    }

    /// Removes the first row, which holds names.
    fn take_header(&mut self) -> Option<Record> {
        self.faults.iter_mut().for_each(|(before, _)| *before = before.saturating_sub(1));
        self.rows.pop_front()
    }
}

/// Skips a row with an error if bad rows are skipped, else returns the error.
pub(crate) fn skip_or_fail(
    error: DataError,
    options: &ReadOptions,
    skipped: &mut SkippedRows,
) -> Result<(), DataError> {
    match error.skippable_row() {
        Some(line) if options.skips_bad_rows() => {
            skipped.add(line, error.to_string());
            Ok(())
        }
        _ => Err(error),
    }
}

/// Returns the keys of all objects, in order of first occurrence.
fn all_keys(rows: &VecDeque<Record>) -> Vec<String> {
    let mut seen = HashSet::new();
    let keys = rows.iter().filter_map(|row| row.object.as_ref()).flat_map(|object| object.keys());
    keys.filter(|key| seen.insert(key.as_str())).take(MAX_COLUMNS).cloned().collect()
}

/// Collects the paths to the values inside an object that are not objects.
fn collect_paths(value: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    match value.as_object().filter(|object| depth > 0 && !object.is_empty()) {
        Some(object) => {
            object.iter().for_each(|(key, value)| collect_paths(value, &format!("{path}.{key}"), depth - 1, found))
        }
        None if value.is_null() || found.len() >= MAX_COLUMNS => {}
        None => found.push(path.to_owned()),
    }
}

/// Replaces an object by its keys.
fn unpack_object(row: &mut Record, key: &str) {
    let Some(object) = &mut row.object else { return };
    if let Some(Value::Object(inner)) = object.shift_remove(key) {
        for (key, value) in inner {
            object.entry(key).or_insert(value);
        }
    }
}
