//! Copies of streams in temporary files: as much as fits into memory, where the rows go next, and no line without an end.

use super::error::{DataError, SourceLocation};
use super::gzip::StreamFault;
use super::lines::MAX_LINE_SCAN;
use crate::memory;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// The most that is copied of a stream.
#[derive(Clone, Copy, Debug)]
struct CopyLimits {
    /// Bytes.
    all: u64,
    /// Bytes between two ends of lines.
    line: u64,
}

/// A stream that fails where it shows no end.
struct BoundedReader<R> {
    input: R,
    limits: CopyLimits,
    total: u64,
    /// Bytes of the line so far, and the number of the line.
    line: (u64, u64),
}

/// The reason why a stream is not copied further, as the source of an I/O error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnboundedInput {
    Line(u64),
    Stream,
}

impl fmt::Display for UnboundedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for UnboundedInput {}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        self.total += n as u64;
        for piece in out[..n].split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (bytes, number) = &mut self.line;
            *bytes += piece.len() as u64;
            if *bytes > self.limits.line {
                return Err(io::Error::other(UnboundedInput::Line(*number)));
            }
            if piece.ends_with(b"\n") || piece.ends_with(b"\r") {
                // A line break of two bytes ends one line.
                *number += u64::from(piece.ends_with(b"\n"));
                *bytes = 0;
            }
        }
        if self.total > self.limits.all {
            return Err(io::Error::other(UnboundedInput::Stream));
        }
        Ok(n)
    }
}

/// Copies a stream, called `path` in messages, to a temporary file, and goes back to the file's beginning.
///
/// # Errors
/// If the stream cannot be read, is larger than free memory, or has a line without an end.
/// If there is no room for the copy.
pub(super) fn to_temporary_file(path: &Path, input: impl Read) -> Result<File, DataError> {
    copy(path, input, CopyLimits { all: memory::available_bytes(), line: MAX_LINE_SCAN })
}

fn copy(path: &Path, input: impl Read, limits: CopyLimits) -> Result<File, DataError> {
    let mut input = BoundedReader { input, limits, total: 0, line: (0, 1) };
    let mut copy = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut input, &mut file)?;
        file.rewind()?;
        Ok(file)
    };
    copy().map_err(|source| {
        let inner = source.get_ref();
        if let Some(StreamFault::Gzip(found)) = inner.and_then(|inner| inner.downcast_ref::<StreamFault>()) {
            return DataError::Gzip { path: path.to_owned(), found: found.clone(), after: String::new() };
        }
        match inner.and_then(|inner| inner.downcast_ref::<UnboundedInput>()) {
            Some(&UnboundedInput::Line(line)) => {
                DataError::EndlessLine { place: SourceLocation::line(path, line), bytes: limits.line }
            }
            Some(UnboundedInput::Stream) => DataError::EndlessStream { path: path.to_owned(), bytes: limits.all },
            None => DataError::Copy { path: path.to_owned(), source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CopyLimits = CopyLimits { all: 1 << 20, line: 1 << 16 };

    #[test]
    fn a_stream_without_an_end_is_left() {
        let path = Path::new("-");
        // As many bytes as are allowed, and one more.
        let rows = b"a row\r\n".repeat(1 << 20);
        let mut all = Vec::new();
        copy(path, &rows[..1 << 20], LIMITS).unwrap().read_to_end(&mut all).unwrap();
        assert!(all == rows[..1 << 20]);
        let error = copy(path, &rows[..(1 << 20) + 1], LIMITS).unwrap_err();
        assert!(matches!(error, DataError::EndlessStream { bytes: 1_048_576, .. }), "{error}");
        // A line without an end, behind two that have one.
        for end in ["\n", "\r\n"] {
            let start = format!("a{end}b{end}");
            let error = copy(path, start.as_bytes().chain(io::repeat(b'x')), LIMITS).unwrap_err();
            let line = match error {
                DataError::EndlessLine { ref place, bytes: 65_536 } => place.line,
                _ => panic!("{error}"),
            };
            assert_eq!(line, 3);
        }
    }
}
