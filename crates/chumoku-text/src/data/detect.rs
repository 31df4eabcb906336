//! Detects the format of a text file from its name and first lines.

use std::path::Path;

use super::delimited::named_delimiter;
use super::error::ColumnRole;
use super::fasttext::LABEL_PREFIX;
use super::format::{Format, ReadOptions};
use super::json_array::is_array;
use super::schema_inference::names::{is_text_name, looks_like_name, role_of_name};
use super::schema_inference::reasons::{as_in_training, as_requested};
use crate::lang::lang;

/// Most lines of the head that are inspected.
const MAX_LINES: usize = 200;

/// The candidate delimiters for files without a telling extension.
const DELIMITERS: [char; 3] = [',', ';', '|'];

/// Returns the last extension in lowercase. For `.gz` files, the one before it.
pub(crate) fn extension(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or(String::new(), |(_, extension)| extension.to_owned())
}

/// Returns whether the extension is that of a data file.
pub(crate) fn is_data_name(path: &Path) -> bool {
    let extensions = [
        "csv", "tsv", "tab", "jsonl", "ndjson", "json", "parquet", "xlsx", "xlsm", "txt", "text", "dat", "ft",
        "fasttext", "conll", "conllu", "iob", "iob2", "bio", "bioes",
    ];
    extensions.contains(&extension(path).as_str())
}

const ZIP: &[u8] = b"PK\x03\x04";
const OLD_OFFICE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
const SAVE_AS_ADVICE: (&str, &str) = (
    "save it as an Excel workbook (.xlsx) without a password, or as CSV (UTF-8)",
    "パスワードなしの Excel ブック（.xlsx）か CSV（UTF-8）で保存してください",
);
/// A password-protected workbook, and advice, in both languages.
pub(crate) const LOCKED_WORKBOOK: ((&str, &str), (&str, &str)) =
    (("a workbook that a password protects", "パスワードで保護されたブック"), SAVE_AS_ADVICE);

/// Returns whether a file starts like an Excel workbook: a zip archive with the parts of one.
pub(crate) fn is_workbook(head: &[u8]) -> bool {
    let is_package = || contains(head, b"[Content_Types].xml") && !contains(head, b"word/") && !contains(head, b"ppt/");
    head.starts_with(ZIP) && (contains(head, b"xl/") || is_package())
}

fn contains(head: &[u8], pattern: &[u8]) -> bool {
    head.windows(pattern.len()).any(|window| window == pattern)
}

fn contains_utf16(head: &[u8], pattern: &str) -> bool {
    contains(head, &pattern.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
}

/// Recognizes unsupported formats, for the message. Returns what the file is and what to do.
pub(crate) fn unsupported_format(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let pick = |english, japanese| lang().pick(english, japanese);
    if head.starts_with(OLD_OFFICE) && contains_utf16(head, "EncryptedPackage") {
        let (found, advice) = LOCKED_WORKBOOK;
        return Some((pick(found.0, found.1), pick(advice.0, advice.1)));
    }
    if head.starts_with(ZIP) && contains(head, b"application/vnd.oasis.opendocument.spreadsheet") {
        let found = pick("an OpenDocument spreadsheet (.ods)", "OpenDocument スプレッドシート（.ods）");
        return Some((found, pick(SAVE_AS_ADVICE.0, SAVE_AS_ADVICE.1)));
    }
    let table: [(&[u8], &'static str, &'static str); 9] = [
        (ZIP, pick("a zip archive", "zip アーカイブ"), pick("unpack it first", "先に展開してください")),
        (
            OLD_OFFICE,
            pick(
                "an Office document of 1997 to 2003 (.xls), or one that a password protects",
                "1997〜2003 形式の Office 文書（.xls）か、パスワードで保護された文書",
            ),
            pick(SAVE_AS_ADVICE.0, SAVE_AS_ADVICE.1),
        ),
        (
            b"\x28\xb5\x2f\xfd",
            pick("zstd compression", "zstd 圧縮"),
            pick("decompress it with zstd -d, or use gzip", "zstd -d で展開するか、gzip を使ってください"),
        ),
        (
            b"\xfd7zXZ\x00",
            pick("xz compression", "xz 圧縮"),
            pick("decompress it with xz -d, or use gzip", "xz -d で展開するか、gzip を使ってください"),
        ),
        (
            b"BZh91AY&SY",
            pick("bzip2 compression", "bzip2 圧縮"),
            pick("decompress it with bzip2 -d, or use gzip", "bzip2 -d で展開するか、gzip を使ってください"),
        ),
        (
            b"ARROW1",
            pick("an Arrow file", "Arrow ファイル"),
            pick("write it as Parquet", "Parquet で書き出してください"),
        ),
        (
            b"SQLite format 3\0",
            pick("an SQLite database", "SQLite データベース"),
            pick("export the table as CSV", "表を CSV で書き出してください"),
        ),
        (
            b"%PDF-",
            pick("a PDF document", "PDF 文書"),
            pick("extract its text first", "先にテキストを取り出してください"),
        ),
        (
            b"\x93NUMPY",
            pick("a NumPy array", "NumPy 配列"),
            pick("write the texts as CSV or JSONL", "テキストを CSV か JSONL で書き出してください"),
        ),
    ];
    if head.get(257..262) == Some(b"ustar") {
        return Some((pick("a tar archive", "tar アーカイブ"), pick("unpack it first", "先に展開してください")));
    }
    table.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, found, advice)| (found, advice))
}

/// The detected format of a file.
pub(crate) struct DetectedFormat {
    pub(crate) format: Format,
    pub(crate) why: &'static str,
    /// False if the format is only a guess from commas, which occur in prose too.
    pub(crate) is_certain: bool,
}

/// Detects the format of a text file. Returns it with the reason.
///
/// The criteria are, in order: the options, unambiguous first lines, the extension, and a delimiter that splits every
/// row into the same number of fields.
pub(crate) fn detect(path: &Path, head: &str, whole: bool, options: &ReadOptions) -> DetectedFormat {
    let sure = |format, why| DetectedFormat { format, why, is_certain: true };
    let requested = as_requested();
    let lines = complete_lines(head, whole);
    match options.format {
        Some(Format::Csv { .. }) if options.find_delimiter => {
            return sure(Format::Csv { delimiter: csv_delimiter(head, whole) }, requested);
        }
        Some(format) => return sure(format, requested),
        None => {}
    }
    if let Some(found) = training_format(path, head, whole, options) {
        return found;
    }
    let by_name = lang().pick("the file's name", "ファイル名から");
    let first = lines.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or("");
    let extension = extension(path);
    let is_json = ["jsonl", "ndjson", "json"].contains(&extension.as_str());
    if is_array(head, whole, is_json) {
        return sure(Format::Json, lang().pick("it is one JSON array", "全体が 1 つの JSON 配列"));
    }
    match extension.as_str() {
        "jsonl" | "ndjson" | "json" => return sure(Format::JsonLines, by_name),
        "ft" | "fasttext" => return sure(Format::FastText, by_name),
        _ => {}
    }
    if first.starts_with(LABEL_PREFIX) {
        return sure(Format::FastText, lang().pick("its lines begin with __label__", "行が __label__ で始まる"));
    }
    if is_object(first) {
        return sure(Format::JsonLines, lang().pick("its lines are JSON objects", "各行が JSON オブジェクト"));
    }
    if let Some(delimiter) = named_delimiter(first) {
        let why = lang().pick("its first line names the delimiter", "1 行目が区切り文字を示す");
        return sure(Format::Csv { delimiter }, why);
    }
    match extension.as_str() {
        "csv" => sure(Format::Csv { delimiter: csv_delimiter(head, whole) }, by_name),
        "tsv" | "tab" => sure(Format::Tsv, by_name),
        _ if has_tabs(&lines) || TableShape::from_head(head, whole, '\t').is_regular() => {
            let why = lang().pick("each line has the same number of tabs", "各行のタブの数が等しい");
            sure(Format::Tsv, why)
        }
        name => {
            let found = DELIMITERS.into_iter().find_map(|delimiter| detect_table(head, whole, delimiter));
            // An extension such as `.txt` means lines of text. A stream has no extension.
            let found = found.or_else(|| if name.is_empty() { detect_single_column(head, whole) } else { None });
            found.unwrap_or_else(|| {
                let why = lang().pick("no field delimiter fits all lines", "すべての行に合う区切り文字がない");
                DetectedFormat { format: Format::PlainText, why, is_certain: false }
            })
        }
    }
}

/// Returns the format of the training file if this file may have it too. Its extension must not contradict the format,
/// and the first row must contain the delimiter.
fn training_format(path: &Path, head: &str, whole: bool, options: &ReadOptions) -> Option<DetectedFormat> {
    let of = options.training_options()?;
    let format = of.format?;
    let names: &[&str] = match format {
        Format::Csv { .. } | Format::Tsv => &["csv", "tsv", "tab"],
        Format::JsonLines => &["jsonl", "ndjson"],
        Format::Json => &["json"],
        Format::FastText => &["ft", "fasttext"],
        Format::PlainText => &[],
        Format::Parquet | Format::Excel => return None,
    };
    let extension = extension(path);
    let promised = ["csv", "tsv", "tab", "jsonl", "ndjson", "json", "ft", "fasttext"];
    if promised.contains(&extension.as_str()) && !names.contains(&extension.as_str()) {
        return None;
    }
    let fits = |delimiter| TableShape::from_head(head, whole, delimiter).first.len() > 1;
    let format = match format {
        Format::Csv { .. } if of.find_delimiter => Format::Csv { delimiter: csv_delimiter(head, whole) },
        Format::Csv { delimiter } if !fits(delimiter) => return None,
        Format::Tsv if !fits('\t') => return None,
        Format::JsonLines if !head.trim_start().starts_with('{') => return None,
        Format::FastText if !head.contains(LABEL_PREFIX) => return None,
        other => other,
    };
    Some(DetectedFormat { format, why: as_in_training(), is_certain: true })
}

/// Returns the lines of the head that are complete.
fn complete_lines(head: &str, whole: bool) -> Vec<&str> {
    let end = if whole { head.len() } else { head.rfind(['\n', '\r']).unwrap_or(head.len()) };
    head[..end].split(['\n', '\r']).filter(|line| !line.is_empty()).take(MAX_LINES).collect()
}

/// Returns whether a line is a JSON object, or the start of one that exceeds the head.
fn is_object(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('{')
        && match serde_json::from_str::<serde_json::Value>(line) {
            Ok(value) => value.is_object(),
            Err(error) => error.is_eof() && line.len() > 2,
        }
}

/// Returns whether tabs split nine of ten lines into the same number of fields, two or more. Tabs are rare in prose, so
/// the remaining lines are errors to report, not a reason to reject the table.
fn has_tabs(lines: &[&str]) -> bool {
    let Some(expected) = lines.first().map(|line| line.matches('\t').count()).filter(|&tabs| tabs > 0) else {
        return false;
    };
    lines.iter().filter(|line| line.matches('\t').count() == expected).count() * 10 >= lines.len() * 9
}

/// Returns the delimiter of a CSV file: the first that makes a regular table, preferably with a known column name in
/// the first row. Otherwise the first one that occurs in the first row.
fn csv_delimiter(head: &str, whole: bool) -> char {
    if let Some(named) = head.lines().next().and_then(named_delimiter) {
        return named;
    }
    let shapes = [',', ';', '\t', '|'].map(|delimiter| (delimiter, TableShape::from_head(head, whole, delimiter)));
    // If semicolons separate fields too, commas between digits are decimal commas.
    let has_semicolons = shapes[1].1.is_regular();
    let is_decimal = |delimiter: char| delimiter == ',' && has_semicolons && has_decimal_commas(head, whole);
    let found = |fits: fn(&TableShape<'_>) -> bool| {
        shapes.iter().find(|(delimiter, shape)| fits(shape) && !is_decimal(*delimiter)).map(|(found, _)| *found)
    };
    found(|shape| shape.is_regular() && shape.names_a_column())
        .or_else(|| found(|shape| shape.is_regular()))
        .or_else(|| found(|shape| shape.first.len() > 1))
        .unwrap_or(',')
}

/// Returns whether most lines after the first have a comma between two digits.
fn has_decimal_commas(head: &str, whole: bool) -> bool {
    let lines = complete_lines(head, whole);
    let has_one = |line: &&&str| {
        line.as_bytes()
            .windows(3)
            .any(|three| three[1] == b',' && three[0].is_ascii_digit() && three[2].is_ascii_digit())
    };
    let rows = lines.len().saturating_sub(1);
    rows > 0 && lines.iter().skip(1).filter(has_one).count() * 2 > rows
}

/// Detects a delimited table in a file without a telling extension. Either the first row has a known column name, or
/// all rows have the same number of fields, two or more. In the second case, delimiters must not be followed by spaces
/// outside quotes, as they are in prose.
fn detect_table(head: &str, whole: bool, delimiter: char) -> Option<DetectedFormat> {
    let shape = TableShape::from_head(head, whole, delimiter);
    let format = Format::Csv { delimiter };
    if shape.names_a_column() && (shape.is_regular() || shape.is_mostly_regular() || shape.is_header_alone()) {
        let why = lang().pick("its first line names columns", "1 行目が列の名前");
        return Some(DetectedFormat { format, why, is_certain: true });
    }
    let is_even = shape.widths.len() > 1 && shape.widths.iter().all(|&width| width == shape.first.len());
    let is_prose = shape.spaced_rows * 2 > shape.widths.len();
    if !is_even || shape.first.len() < 2 || is_prose {
        return None;
    }
    let why = lang().pick("each line has the same number of fields", "各行のフィールドの数が等しい");
    Some(DetectedFormat { format, why, is_certain: shape.quoted_rows * 2 >= shape.widths.len() })
}

/// Detects a table of one column: the first line is the name of a text column, followed by texts without empty lines.
/// If commas occur outside quotes, which CSV does not allow, the rows are lines.
fn detect_single_column(head: &str, whole: bool) -> Option<DetectedFormat> {
    let mut lines = head.trim_end().lines();
    let name = lines.next()?.trim();
    let is_text = |line: &str| !line.trim().is_empty() && !line.contains('\t');
    if !is_text_name(name) || lines.clone().next().is_none() || !lines.all(is_text) {
        return None;
    }
    let is_csv = TableShape::from_head(head, whole, ',').widths.iter().all(|&width| width == 1);
    let format = if is_csv { Format::Csv { delimiter: ',' } } else { Format::Tsv };
    let why = lang().pick("its first line names a column", "1 行目が列の名前");
    Some(DetectedFormat { format, why, is_certain: true })
}

/// The shape of the first rows with a delimiter, with quotes read as in CSV.
struct TableShape<'a> {
    /// The raw fields of the first row.
    first: Vec<&'a str>,
    /// The number of fields of each row.
    widths: Vec<usize>,
    /// Rows in which a space follows a delimiter, outside quotes.
    spaced_rows: usize,
    /// Rows with a quoted field.
    quoted_rows: usize,
}

impl<'a> TableShape<'a> {
    fn from_head(head: &'a str, whole: bool, delimiter: char) -> Self {
        let mut shape = TableShape { first: Vec::new(), widths: Vec::new(), spaced_rows: 0, quoted_rows: 0 };
        let mut rest = head;
        while !rest.is_empty() && shape.widths.len() < MAX_LINES {
            let Some((row, behind)) = RawRow::split_first(rest, whole, delimiter) else { break };
            rest = behind;
            if row.fields.iter().all(|field| field.trim().is_empty()) {
                continue;
            }
            shape.widths.push(row.fields.len());
            let is_spaced = |field: &&str| field.starts_with(' ') && !is_quoted_after_spaces(field);
            shape.spaced_rows += usize::from(row.fields.iter().skip(1).any(is_spaced));
            shape.quoted_rows += usize::from(row.has_quotes);
            if shape.first.is_empty() {
                shape.first = row.fields;
            }
        }
        shape
    }

    /// Returns whether nine of ten rows have as many fields as the first, two or more.
    fn is_regular(&self) -> bool {
        let fitting = self.widths.iter().filter(|&&width| width == self.first.len()).count();
        self.first.len() > 1 && self.widths.len() > 1 && fitting * 10 >= self.widths.len() * 9
    }

    /// Returns whether at least half of the rows have that number of fields, and no space follows a delimiter. Under
    /// known column names, the other rows are errors to report.
    fn is_mostly_regular(&self) -> bool {
        let fitting = self.widths.iter().filter(|&&width| width == self.first.len()).count();
        self.spaced_rows == 0 && self.widths.len() > 1 && fitting * 2 >= self.widths.len()
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.first.iter().map(|field| field.trim().trim_matches('"'))
    }

    /// Returns whether the first row consists of names, one of them known.
    fn names_a_column(&self) -> bool {
        self.first.len() > 1
            && self.names().any(|name| role_of_name(name).is_some())
            && self.names().all(|name| name.is_empty() || looks_like_name(name))
    }

    /// Returns whether only the first row has been received, and it names a text column.
    fn is_header_alone(&self) -> bool {
        self.widths.len() == 1
            && self.spaced_rows == 0
            && self.names().any(|name| role_of_name(name) == Some(ColumnRole::Text))
    }
}

/// Quoted fields after spaces in the head of a CSV file, as in `a, "b, c"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpacedQuotes {
    /// There are none, or no quote after a space ends its field.
    None,
    /// Every quote after a space ends its field.
    All,
    /// Some do; on this line more text follows.
    Some(u64),
}

impl SpacedQuotes {
    pub(crate) fn from_head(head: &str, whole: bool, delimiter: char) -> SpacedQuotes {
        let (mut rest, mut found, mut odd_line) = (head, false, None);
        while let Some((row, behind)) = RawRow::split_first(rest, whole, delimiter).filter(|_| !rest.is_empty()) {
            let is_spaced = |field: &&&str| field.starts_with(' ') && field.trim_start_matches(' ').starts_with('"');
            for field in row.fields.iter().filter(is_spaced) {
                // An open quote may close beyond the head.
                let text = head[field.as_ptr() as usize - head.as_ptr() as usize..].trim_start_matches(' ');
                match is_quoted_after_spaces(field) {
                    true => found = true,
                    false if !whole && closing_quote(text).is_none() => {}
                    false => _ = odd_line.get_or_insert(head[..head.len() - rest.len()].lines().count() as u64 + 1),
                }
            }
            rest = behind;
        }
        match (found, odd_line) {
            (false, _) => SpacedQuotes::None,
            (true, None) => SpacedQuotes::All,
            (true, Some(line)) => SpacedQuotes::Some(line),
        }
    }
}

/// Returns whether a raw field is a quoted one after spaces.
fn is_quoted_after_spaces(field: &str) -> bool {
    let quoted = field.trim_start_matches(' ');
    quoted.len() < field.len() && closing_quote(quoted).is_some_and(|end| end + 1 == quoted.len())
}

/// The raw fields of a row, including their quotes.
struct RawRow<'a> {
    fields: Vec<&'a str>,
    has_quotes: bool,
}

impl<'a> RawRow<'a> {
    /// Splits off the first row of `text`. Returns `None` if the text is incomplete and ends before the row does.
    fn split_first(text: &'a str, whole: bool, delimiter: char) -> Option<(RawRow<'a>, &'a str)> {
        let mut row = RawRow { fields: Vec::new(), has_quotes: false };
        let mut rest = text;
        loop {
            let ends = |c: char| c == delimiter || c == '\n' || c == '\r';
            let end = match quoted_end(rest, ends) {
                Some(end) => {
                    row.has_quotes = true;
                    end
                }
                // An open quote may close beyond the head.
                None if rest.starts_with('"') && !whole && closing_quote(rest).is_none() => return None,
                None => rest.find(ends).unwrap_or(rest.len()),
            };
            row.fields.push(&rest[..end]);
            rest = &rest[end..];
            match rest.chars().next() {
                None => return whole.then_some((row, rest)),
                Some(c) if c == delimiter => rest = &rest[c.len_utf8()..],
                Some(_) => return Some((row, rest.strip_prefix("\r\n").unwrap_or(&rest[1..]))),
            }
        }
    }
}

/// Returns the end of the quoted field at the start of `text` or after spaces. `None` if there is none, or if other
/// characters follow it.
fn quoted_end(text: &str, ends: impl Fn(char) -> bool) -> Option<usize> {
    let quoted = text.trim_start_matches(' ');
    let end = text.len() - quoted.len() + closing_quote(quoted)? + 1;
    text[end..].chars().next().is_none_or(ends).then_some(end)
}

/// Returns the position of the quote that closes the one at the start of `text`.
fn closing_quote(text: &str) -> Option<usize> {
    let mut at = text.strip_prefix('"').map(|_| 1)?;
    loop {
        let quote = at + text[at..].find('"')?;
        if !text[quote + 1..].starts_with('"') {
            return Some(quote);
        }
        at = quote + 2;
    }
}
