//! Opens a path as text: file checks, gzip, byte order marks and encodings.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::decode::{DecodingReader, Utf8Evidence, looks_garbled};
use super::detect;
use super::encoding_names::encoding_by_name;
use super::error::DataError;
use super::format::{Format, ReadOptions};
use super::gzip::GzipReader;
use super::lines::LineReader;
use super::live_stream::{DetectionPhase, LiveStream};
use super::temporary_copy::to_temporary_file;
use crate::lang::wording::{did_you_mean, list_names};
use crate::tr;

/// Bytes that are inspected to recognize a file.
const HEAD_BYTES: usize = 64 * 1024;

/// An opened file, decompressed and decoded.
pub(crate) struct DecodedFile {
    pub(crate) content: FileContent,
    pub(crate) gzip: bool,
    /// The encoding, if it was not UTF-8.
    pub(crate) encoding: Option<&'static str>,
    /// True if the decoded text looks as if it had another encoding.
    pub(crate) is_garbled: bool,
}

/// The content of a file.
pub(crate) enum FileContent {
    Text {
        lines: LineReader,
        /// The start of the text, for format detection.
        head: String,
        /// True if `head` is the complete text.
        whole: bool,
        /// True if the first rows must be returned without waiting for more than `head`.
        is_live: bool,
    },
    Parquet(File),
    Excel(File),
}

/// Opens a file by its path.
pub(crate) fn open_path(path: &Path, options: &ReadOptions) -> Result<DecodedFile, DataError> {
    let io = |source| DataError::Io { path: path.to_owned(), doing: "opening the data", source };
    if let Some(kept) = options.copies.open(path) {
        let (again, file) = kept.map_err(io)?;
        return open_reader(path, Box::new(again), Some(file), None, options);
    }
    let metadata = check_path(path)?;
    let file = File::open(path).map_err(io)?;
    let reopen = if metadata.is_file() { Some(File::open(path).map_err(io)?) } else { None };
    open_reader(path, Box::new(file), reopen, None, options)
}

/// Checks that a path is a file or a pipe.
pub fn check_path(path: &Path) -> Result<fs::Metadata, DataError> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    let metadata = match fs::metadata(path) {
        // A name with `*` or `:` is invalid on Windows.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => {
            if is_address(path) {
                return Err(DataError::WebAddress { path: path.to_owned() });
            }
            return Err(DataError::FileNotFound { path: path.to_owned(), hint: sibling_hint(path) });
        }
        other => other.map_err(|source| DataError::Io { path: path.to_owned(), doing: "opening the data", source })?,
    };
    match metadata.is_dir() {
        true => Err(DataError::IsFolder { path: path.to_owned(), hint: folder_hint(path) }),
        false => Ok(metadata),
    }
}

/// Opens a stream whose rows are needed as they arrive. `path` is used as in [`open_reader`].
pub(crate) fn open_live(
    path: &Path,
    input: impl Read + Send + 'static,
    options: &ReadOptions,
) -> Result<DecodedFile, DataError> {
    let (arriving, looking) = LiveStream::new(input);
    open_reader(path, Box::new(arriving), None, Some(looking), options)
}

/// Opens a stream. Messages call it `path`, and the extension of `path` counts as for a file.
///
/// `seekable` is the same content as a file, which saves Parquet and Excel a copy. `looking` is given for a live
/// stream.
pub(crate) fn open_reader(
    path: &Path,
    input: Box<dyn Read + Send>,
    seekable: Option<File>,
    looking: Option<DetectionPhase>,
    options: &ReadOptions,
) -> Result<DecodedFile, DataError> {
    // An unknown encoding is a usage error, whatever the file holds.
    let remembered = options.training_options().and_then(|options| options.encoding.as_deref());
    let is_remembered = options.encoding.is_none();
    let named = options.encoding.as_deref().or(remembered).map(encoding_by_name).transpose()?;
    let mut raw = PeekedReader::new(input);
    let gzip = raw.head.starts_with(&[0x1f, 0x8b]);
    // Gzip, Parquet and Excel are never typed by a user.
    let looking = looking.filter(|looking| {
        let is_typed = !gzip && !raw.head.starts_with(b"PAR1") && !detect::is_workbook(&raw.head);
        if !is_typed {
            looking.end();
        }
        is_typed
    });
    if gzip {
        raw = PeekedReader::new(Box::new(GzipReader::new(raw)));
    }
    if raw.head.is_empty() && raw.error.is_none() {
        return Err(DataError::Empty { path: path.to_owned() });
    }
    let is_parquet = raw.head.starts_with(b"PAR1");
    if is_parquet || detect::is_workbook(&raw.head) {
        let file = match seekable {
            Some(file) if !gzip => file,
            // These formats are read from their end.
            _ => to_temporary_file(path, raw)?,
        };
        let content = if is_parquet { FileContent::Parquet(file) } else { FileContent::Excel(file) };
        return Ok(DecodedFile { content, gzip, encoding: None, is_garbled: false });
    }
    if options.format == Some(Format::Parquet) || (raw.error.is_none() && detect::extension(path) == "parquet") {
        let detail = tr!("no “PAR1” where the file begins", "先頭に “PAR1” がありません");
        return Err(DataError::Parquet { path: path.to_owned(), detail });
    }
    if let Some((found, advice)) = detect::unsupported_format(&raw.head) {
        return Err(DataError::UnsupportedFormat { path: path.to_owned(), found, advice });
    }
    let is_excel_by_name = raw.error.is_none() && ["xlsx", "xlsm"].contains(&detect::extension(path).as_str());
    if options.format == Some(Format::Excel) || is_excel_by_name {
        let detail = tr!("no zip archive", "zip アーカイブではありません");
        return Err(DataError::Excel { path: path.to_owned(), detail });
    }
    let marked = match raw.head.as_slice() {
        [0xff, 0xfe, ..] => Some(encoding_rs::UTF_16LE),
        [0xfe, 0xff, ..] => Some(encoding_rs::UTF_16BE),
        [0xef, 0xbb, 0xbf, ..] => Some(encoding_rs::UTF_8),
        _ => None,
    };
    let mut encoding = marked.or(named).filter(|&encoding| encoding != encoding_rs::UTF_8);
    let mut evidence = Utf8Evidence::default();
    evidence.feed(&raw.head);
    match encoding.filter(|_| marked.is_none()) {
        // The encoding of the training file need not be that of this file.
        Some(_) if is_remembered && evidence.is_likely() => encoding = None,
        Some(found)
            if evidence.contradicts(found, raw.is_complete) || is_wide(found) && evidence.is_valid_text(&raw.head) =>
        {
            return Err(DataError::IsUtf8 { path: path.to_owned(), encoding: found.name() });
        }
        _ => {}
    }
    let mut offset = 0;
    let text = match encoding {
        Some(encoding) => PeekedReader::new(Box::new(DecodingReader::new(raw, encoding))),
        None => {
            if marked.is_some() {
                offset = raw.skip(3);
            }
            raw
        }
    };
    let head = &text.head[text.position..];
    if text.is_complete && text.error.is_none() && head.iter().all(u8::is_ascii_whitespace) {
        return Err(DataError::Empty { path: path.to_owned() });
    }
    let (whole, head) = (text.is_complete, String::from_utf8_lossy(head).into_owned());
    let carriage_returns = head.contains('\r') && !head.contains('\n');
    let lines = LineReader::new(path, Box::new(text), offset, carriage_returns);
    let is_live = looking.is_some() && !whole;
    if let Some(looking) = looking {
        looking.end();
    }
    let is_garbled = encoding.is_some() && looks_garbled(&head);
    let content = FileContent::Text { lines, head, whole, is_live };
    Ok(DecodedFile { content, gzip, encoding: encoding.map(|encoding| encoding.name()), is_garbled })
}

/// A stream with its first bytes in memory. An error met while reading them is returned when the reader gets there.
struct PeekedReader {
    head: Vec<u8>,
    position: usize,
    /// True if the stream ended within `head`.
    is_complete: bool,
    error: Option<io::Error>,
    rest: Box<dyn Read + Send>,
}

impl PeekedReader {
    fn new(mut rest: Box<dyn Read + Send>) -> Self {
        let mut head = vec![0; HEAD_BYTES];
        let (mut filled, mut whole, mut error) = (0, false, None);
        while filled < HEAD_BYTES {
            match rest.read(&mut head[filled..]) {
                Ok(0) => {
                    whole = true;
                    break;
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The data received so far is enough for detection, unless there is none.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && filled > 0 => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
        }
        head.truncate(filled);
        PeekedReader { head, position: 0, is_complete: whole, error, rest }
    }

    /// Skips the first `n` bytes of the head.
    fn skip(&mut self, n: usize) -> u64 {
        self.position = n.min(self.head.len());
        self.position as u64
    }
}

impl Read for PeekedReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let ready = &self.head[self.position..];
        if !ready.is_empty() {
            let n = ready.len().min(out.len());
            out[..n].copy_from_slice(&ready[..n]);
            self.position += n;
            return Ok(n);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None if self.is_complete => Ok(0),
            None => self.rest.read(out),
        }
    }
}

/// Returns whether an encoding has two bytes per code unit, so that line ends contain a zero byte.
fn is_wide(encoding: &encoding_rs::Encoding) -> bool {
    encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE
}

/// Returns whether a path is a web or storage address.
fn is_address(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let scheme =
        name.split_once(':').filter(|(_, rest)| rest.starts_with('/')).map(|(scheme, _)| scheme.to_lowercase());
    let is_scheme = |scheme: String| ["http", "https", "ftp", "s3", "gs", "hf", "hdfs"].contains(&scheme.as_str());
    scheme.is_some_and(is_scheme)
}

/// Suggests a file in the same folder with a similar name.
fn sibling_hint(path: &Path) -> String {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return String::new();
    };
    if name.contains(['*', '?']) {
        // Shells on Windows never expand patterns. Those on Unix pass them unchanged if no file matches.
        return tr!(
            "; the shell did not expand the pattern: name each file",
            "。シェルがパターンをファイル名に展開していません。ファイルを 1 つずつ指定してください"
        );
    }
    let hint = did_you_mean(name, names_in(folder).iter().map(String::as_str));
    if hint.is_empty() { tr!("; check the path", "。パスを確認してください") } else { hint }
}

/// Lists some data files in a folder.
fn folder_hint(path: &Path) -> String {
    let files: Vec<String> = names_in(path).into_iter().filter(|name| detect::is_data_name(Path::new(name))).collect();
    if files.is_empty() {
        String::new()
    } else {
        tr!(", such as {}", "（{} など）", list_names(&files[..files.len().min(3)]))
    }
}

/// Returns some names in a folder, sorted. Empty if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(1_000).flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
