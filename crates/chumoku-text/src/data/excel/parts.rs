//! Checks the parts of a workbook: each is inflated and measured once before it is used.
//!
//! A few kilobytes of deflated zeros become gigabytes, and the sizes in an archive may be wrong. So may the number of
//! shared strings, for which `calamine` allocates memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use crate::data::error::DataError;
use crate::data::limits::MAX_ROW_BYTES;
use crate::lang::lang;
use crate::lang::wording::{format_size, quote};
use crate::tr;

/// Most bytes of a sheet, and of the shared strings (1 GiB).
const MAX_PART_BYTES: u64 = 1 << 30;
/// Most bytes of the styles, and of the list of sheets (32 MiB).
const MAX_SMALL_BYTES: u64 = 32 << 20;
/// Memory for an element in addition to its text.
const ELEMENT_BYTES: u64 = 16;
/// Bytes of a part that are kept to inspect its first element.
const HEAD_BYTES: usize = 64 * 1024;
/// Most bytes of any other part, such as pictures (256 MiB). A larger sheet is not read a second time for its merged
/// cells.
const MAX_OTHER_BYTES: u64 = 256 << 20;

/// The kind of a part, by its name. A part with another name may still be a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Strings,
    Sheet,
    Styles,
    Other,
}

impl PartKind {
    fn from_name(name: &str) -> Self {
        match name.rsplit(['/', '\\']).next().unwrap_or_default() {
            "sharedstrings.xml" => PartKind::Strings,
            "styles.xml" | "workbook.xml" => PartKind::Styles,
            _ if name.contains("sheet") && name.ends_with(".xml") => PartKind::Sheet,
            _ => PartKind::Other,
        }
    }

    fn max_bytes(self) -> u64 {
        match self {
            PartKind::Strings | PartKind::Sheet => MAX_PART_BYTES,
            PartKind::Styles => MAX_SMALL_BYTES,
            PartKind::Other => MAX_OTHER_BYTES,
        }
    }
}

/// Checks that the archive is a workbook whose parts can be read. Returns whether it has a large sheet.
pub(super) fn check_archive(path: &Path, file: &File) -> Result<bool, DataError> {
    let damaged = |error: String| DataError::Excel { path: path.to_owned(), detail: error };
    let file = file.try_clone().map_err(|error| damaged(error.to_string()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(error.to_string()))?;
    let names: Vec<String> = archive.file_names().flatten().map(|name| name.to_lowercase()).collect();
    if !names.iter().any(|name| name.contains("workbook") && name.ends_with(".xml")) {
        return Err(not_a_workbook(path, &names));
    }
    let mut is_large = false;
    for index in 0..archive.len() {
        let part = archive.by_index(index).map_err(|error| damaged(error.to_string()))?;
        let shown = part.name().map_err(|error| damaged(error.to_string()))?.into_owned();
        let kind = PartKind::from_name(&shown.to_lowercase());
        let weighed = measure_part(part, kind).map_err(|error| match error {
            PartFault::Read(error) => damaged(error.to_string()),
            PartFault::TooLarge(limit) => {
                let (part, limit) = (quote(&shown), format_size(limit));
                damaged(tr!("its part {part} unpacks to more than {limit}", "{part}を展開すると {limit} を超えます"))
            }
            PartFault::UnboundedText => {
                let (part, limit) = (quote(&shown), format_size(MAX_ROW_BYTES));
                damaged(tr!(
                    "its part {part} has more than {limit} without a tag",
                    "{part}に、タグのない {limit} を超える部分があります"
                ))
            }
        })?;
        is_large |= weighed.bytes > MAX_OTHER_BYTES && kind == PartKind::Sheet;
        if kind == PartKind::Strings && !weighed.has_plausible_count() {
            let message = tr!("its count of shared strings is wrong", "共有文字列の数が正しくありません");
            return Err(damaged(message));
        }
    }
    Ok(is_large)
}

/// The error for an archive that is not a workbook.
fn not_a_workbook(path: &Path, names: &[String]) -> DataError {
    let pick = |english, japanese| lang().pick(english, japanese);
    let has = |part: &str| names.iter().any(|name| name.starts_with(part) || name.ends_with(part));
    let as_xlsx = pick(
        "save it as an Excel workbook (.xlsx) or as CSV (UTF-8)",
        "Excel ブック（.xlsx）か CSV（UTF-8）で保存してください",
    );
    let (found, advice) = if has("workbook.bin") {
        (pick("a binary Excel workbook (.xlsb)", "バイナリ形式の Excel ブック（.xlsb）"), as_xlsx)
    } else if has("word/document.xml") {
        (pick("a Word document", "Word 文書"), pick("save its text first", "先にテキストを取り出してください"))
    } else {
        let found = pick("a zip archive that holds no Excel workbook", "Excel ブックではない zip アーカイブ");
        (found, pick("unpack it first", "先に展開してください"))
    };
    DataError::UnsupportedFormat { path: path.to_owned(), found, advice }
}

enum PartFault {
    Read(io::Error),
    TooLarge(u64),
    /// More text without a tag than a row may have.
    UnboundedText,
}

/// The size of a part.
struct PartSize {
    bytes: u64,
    elements: u64,
    head: Vec<u8>,
}

/// Inflates and discards a part. Its bytes must stay within its limit, plus the memory of its elements except for
/// sheets. The text between two tags must stay within the limit of a row.
fn measure_part(mut part: impl Read, kind: PartKind) -> Result<PartSize, PartFault> {
    let limit = kind.max_bytes();
    let mut weighed = PartSize { bytes: 0, elements: 0, head: Vec::new() };
    let (mut buffer, mut piece) = (vec![0; 64 * 1024], 0_u64);
    loop {
        let read = match part.read(&mut buffer) {
            Ok(0) => return Ok(weighed),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PartFault::Read(error)),
        };
        let bytes = &buffer[..read];
        if weighed.head.len() < HEAD_BYTES {
            let room = (HEAD_BYTES - weighed.head.len()).min(read);
            weighed.head.extend_from_slice(&bytes[..room]);
        }
        weighed.bytes += read as u64;
        for &byte in bytes {
            piece += 1;
            if byte == b'<' {
                weighed.elements += 1;
                piece = 0;
            }
        }
        let cost = if kind == PartKind::Sheet { 0 } else { ELEMENT_BYTES * weighed.elements };
        if weighed.bytes + cost > limit {
            return Err(PartFault::TooLarge(limit));
        }
        if piece > MAX_ROW_BYTES {
            return Err(PartFault::UnboundedText);
        }
    }
}

impl PartSize {
    /// Returns whether the shared strings start directly with their element, and claim no more strings than there are
    /// elements.
    fn has_plausible_count(&self) -> bool {
        let beginning = String::from_utf8_lossy(&self.head);
        let mut rest = beginning.trim_start_matches('\u{feff}').trim_start();
        while rest.starts_with("<?") {
            let Some(end) = rest.find("?>") else { return false };
            rest = rest[end + 2..].trim_start();
        }
        let Some(tag) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) else { return false };
        let name = tag.0.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or_default();
        if name.rsplit(':').next() != Some("sst") {
            return false;
        }
        let claimed = tag.0.split("uniqueCount").skip(1).map(|value| {
            let digits = value.trim_start_matches([' ', '\t', '\r', '\n', '=', '"', '\'', '+', '0']);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if end == 0 { Some(0) } else { digits[..end].parse::<u64>().ok() }
        });
        claimed.into_iter().all(|claimed| claimed.is_some_and(|claimed| claimed <= self.elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> PartSize {
        measure_part(text.as_bytes(), PartKind::Strings).ok().unwrap()
    }

    #[test]
    fn claimed_string_counts_are_checked() {
        let strings = |count: &str| of(&format!("<?xml version='1.0'?>\n<x:sst {count}><si><t>a</t></si></x:sst>"));
        assert!(strings("uniqueCount=\"1\"").has_plausible_count());
        assert!(strings("count='1'").has_plausible_count());
        assert!(!strings("uniqueCount=\"99999999999\"").has_plausible_count());
        assert!(!strings("uniqueCount = '99999999999999999999999'").has_plausible_count());
        assert!(!of("<!-- --><sst uniqueCount=\"99999999999\"/>").has_plausible_count());
        assert!(!of("<a><sst uniqueCount=\"99999999999\"/></a>").has_plausible_count());
    }

    #[test]
    fn oversized_parts_are_not_inflated_further() {
        let endless = || io::repeat(b'a');
        assert!(matches!(measure_part(endless(), PartKind::Sheet), Err(PartFault::UnboundedText)));
        assert!(matches!(measure_part(io::repeat(b'<'), PartKind::Styles), Err(PartFault::TooLarge(MAX_SMALL_BYTES))));
        assert_eq!(of("<a>b</a>").elements, 2);
    }
}
