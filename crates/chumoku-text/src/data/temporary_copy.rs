//! Copies streams to temporary files. The size of a stream is bounded by free memory, because the rows go there next,
//! and no line may be endless.

use super::error::{DataError, SourceLocation};
use super::gzip::StreamFault;
use super::lines::MAX_LINE_SCAN;
use crate::memory;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// The limits of a copy.
#[derive(Clone, Copy, Debug)]
struct CopyLimits {
    /// Bytes of the whole stream.
    total: u64,
    /// Bytes of one line.
    line: u64,
}

/// A reader that fails when the stream or a line exceeds its limit.
struct BoundedReader<R> {
    input: R,
    limits: CopyLimits,
    total: u64,
    /// Bytes of the current line so far, and its number.
    line: (u64, u64),
}

/// The limit that was exceeded. Used as the source of an I/O error.
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
                // `\r\n` ends one line, not two.
                *number += u64::from(piece.ends_with(b"\n"));
                *bytes = 0;
            }
        }
        if self.total > self.limits.total {
            return Err(io::Error::other(UnboundedInput::Stream));
        }
        Ok(n)
    }
}

/// Copies a stream to a temporary file and rewinds the file. Messages call the stream `path`.
///
/// # Errors
/// If the stream cannot be read, is larger than free memory, or has an endless line. If the disk has no space for the
/// copy.
pub(super) fn to_temporary_file(path: &Path, input: impl Read) -> Result<File, DataError> {
    copy(path, input, CopyLimits { total: memory::available_bytes(), line: MAX_LINE_SCAN })
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
            Some(UnboundedInput::Stream) => DataError::EndlessStream { path: path.to_owned(), bytes: limits.total },
            None => DataError::Copy { path: path.to_owned(), source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CopyLimits = CopyLimits { total: 1 << 20, line: 1 << 16 };

    #[test]
    fn endless_streams_are_refused() {
        let path = Path::new("-");
        // As many bytes as are allowed, and one more.
        let rows = b"a row\r\n".repeat(1 << 20);
        let mut all = Vec::new();
        copy(path, &rows[..1 << 20], LIMITS).unwrap().read_to_end(&mut all).unwrap();
        assert!(all == rows[..1 << 20]);
        let error = copy(path, &rows[..(1 << 20) + 1], LIMITS).unwrap_err();
        assert!(matches!(error, DataError::EndlessStream { bytes: 1_048_576, .. }), "{error}");
        // An endless line after two complete ones.
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
