//! Recognising the format of a text file from its name and its first lines.

use std::path::Path;

use super::format::Format;

/// Lines of the head that are looked at.
const LINES: usize = 200;

/// The prefix that fastText puts before a label.
pub(crate) const LABEL_PREFIX: &str = "__label__";

/// The last extension in lower case, the one before it for names that end in `.gz`.
pub(crate) fn extension(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or(String::new(), |(_, extension)| extension.to_owned())
}

/// Whether the name alone promises a data file.
pub(crate) fn is_data_name(path: &Path) -> bool {
    let extensions =
        ["csv", "tsv", "tab", "jsonl", "ndjson", "json", "parquet", "txt", "text", "dat", "ft", "fasttext"];
    extensions.contains(&extension(path).as_str())
}

/// Whether the name promises a table, so that delimiters in the text need not be taken at their word.
pub(crate) fn is_table_name(path: &Path) -> bool {
    matches!(extension(path).as_str(), "csv" | "tsv" | "tab")
}

/// Formats that are recognised only to be declined: what it is, and what to do.
pub(crate) fn other_format(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let table: &[(&[u8], &str, &str)] = &[
        (b"PK\x03\x04", "a zip archive or an Excel workbook", "save the sheet as CSV (UTF-8), or unpack the archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "save the sheet as CSV (UTF-8)"),
        (b"\x28\xb5\x2f\xfd", "zstd compression", "decompress it with zstd -d, or use gzip"),
        (b"\xfd7zXZ\x00", "xz compression", "decompress it with xz -d, or use gzip"),
        (b"BZh91AY&SY", "bzip2 compression", "decompress it with bzip2 -d, or use gzip"),
        (b"ARROW1", "an Arrow file", "write it as Parquet"),
        (b"SQLite format 3\0", "an SQLite database", "export the table as CSV"),
        (b"%PDF-", "a PDF document", "extract its text first"),
        (b"\x93NUMPY", "a NumPy array", "write the texts as CSV or JSONL"),
    ];
    if head.get(257..262) == Some(b"ustar") {
        return Some(("a tar archive", "unpack it first"));
    }
    table.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, found, advice)| (found, advice))
}

/// The format of a text file, and why: what the first lines show beyond doubt, then the extension, then a delimiter
/// that cuts every line into the same number of fields.
pub(crate) fn detect(path: &Path, head: &str, whole: bool) -> (Format, &'static str) {
    let lines = complete_lines(head, whole);
    let first = lines.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or("");
    let extension = extension(path);
    match extension.as_str() {
        "jsonl" | "ndjson" | "json" => return (Format::JsonLines, "the file's name"),
        "ft" | "fasttext" => return (Format::FastText, "the file's name"),
        _ => {}
    }
    if first.starts_with(LABEL_PREFIX) {
        return (Format::FastText, "its lines begin with __label__");
    }
    if is_object(first) {
        return (Format::JsonLines, "its lines are JSON objects");
    }
    match extension.as_str() {
        "csv" => (Format::Csv { delimiter: csv_delimiter(&lines) }, "the file's name"),
        "tsv" | "tab" => (Format::Tsv, "the file's name"),
        _ if has_tabs(&lines) => (Format::Tsv, "each line has the same number of tabs"),
        _ => match [',', ';', '|'].into_iter().find(|&delimiter| is_table(&lines, delimiter)) {
            Some(delimiter) => (Format::Csv { delimiter }, "each line has the same number of fields"),
            None => (Format::PlainText, "no field delimiter fits all lines"),
        },
    }
}

/// The lines of the head that are known to be whole.
fn complete_lines(head: &str, whole: bool) -> Vec<&str> {
    let end = if whole { head.len() } else { head.rfind(['\n', '\r']).unwrap_or(head.len()) };
    head[..end].split(['\n', '\r']).filter(|line| !line.is_empty()).take(LINES).collect()
}

/// Whether a line is a JSON object, or the beginning of one that is too long to be seen whole.
fn is_object(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('{')
        && match serde_json::from_str::<serde_json::Value>(line) {
            Ok(value) => value.is_object(),
            Err(error) => error.is_eof() && line.len() > 2,
        }
}

/// Whether tabs cut nine lines of ten into the same number of fields, two or more. Text hardly holds tabs, so one
/// row that does not fit is an error to show, not a reason to see no table.
fn has_tabs(lines: &[&str]) -> bool {
    let Some(expected) = lines.first().map(|line| line.matches('\t').count()).filter(|&tabs| tabs > 0) else {
        return false;
    };
    lines.iter().filter(|line| line.matches('\t').count() == expected).count() * 10 >= lines.len() * 9
}

/// The delimiter of a file that calls itself CSV: a comma, unless the first line has none and another fits all lines.
fn csv_delimiter(lines: &[&str]) -> char {
    let comma_fits = lines.first().is_none_or(|line| fields(line, ',') != Some(1));
    let other = [';', '\t', '|'].into_iter().find(|&delimiter| {
        let expected = lines.first().and_then(|line| fields(line, delimiter));
        // Rows over several lines count differently from the outside; the first lines are enough of a sign.
        expected.is_some_and(|n| n > 1) && lines.iter().take(2).all(|line| fields(line, delimiter) == expected)
    });
    if comma_fits { ',' } else { other.unwrap_or(',') }
}

/// Whether a delimiter makes a table of a file that promises none: the same number of fields, two or more, in each of
/// at least two lines, and not as prose has it, with a space behind.
fn is_table(lines: &[&str], delimiter: char) -> bool {
    let Some(expected) = lines.first().and_then(|line| fields(line, delimiter)) else {
        return false;
    };
    if expected < 2 || lines.len() < 2 {
        return false;
    }
    let prose = [delimiter, ' '].iter().collect::<String>();
    let like_prose = lines.iter().filter(|line| line.contains(&prose)).count();
    like_prose * 2 <= lines.len() && lines.iter().all(|line| fields(line, delimiter) == Some(expected))
}

/// The number of fields in a line, quotes respected; `None` if a quote is left open.
fn fields(line: &str, delimiter: char) -> Option<usize> {
    let (mut count, mut quoted) = (1, false);
    for c in line.chars() {
        if c == '"' {
            quoted = !quoted;
        } else if c == delimiter && !quoted {
            count += 1;
        }
    }
    (!quoted).then_some(count)
}
