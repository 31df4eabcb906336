//! Decompresses gzip. Errors say whether the file is truncated or damaged.

use std::io::{self, Read};

use crate::tr;
use flate2::read::MultiGzDecoder;

/// An error below the level of lines. It travels inside an [`io::Error`] to the code that knows the location.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamFault {
    #[error("{0}")]
    Gzip(String),
    #[error("{}", tr!("bytes that are invalid in {encoding} at byte {offset}", "{offset} バイト目に {encoding} として不正なバイト"))]
    Encoding { encoding: &'static str, offset: u64 },
    #[error("{}", tr!("UTF-8 where {encoding} is expected", "{encoding} ではなく UTF-8 です"))]
    Utf8 { encoding: &'static str },
}

/// Decompresses a gzip stream of one or more members.
pub(crate) struct GzipReader<R>(MultiGzDecoder<R>);

impl<R: Read> GzipReader<R> {
    pub(crate) fn new(input: R) -> Self {
        GzipReader(MultiGzDecoder::new(input))
    }
}

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let found = tr!("a truncated file", "ファイルが途中で切れています");
                io::Error::new(io::ErrorKind::InvalidData, StreamFault::Gzip(found))
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => io::Error::new(
                io::ErrorKind::InvalidData,
                StreamFault::Gzip(tr!("damage ({error})", "データが壊れています")),
            ),
            _ => error,
        })
    }
}
