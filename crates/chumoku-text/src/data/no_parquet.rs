//! Stub used when the feature `parquet` is off: Parquet files are recognized and refused.

// Compiled for its test in every build.
#![cfg_attr(feature = "parquet", allow(dead_code))]

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;

use super::error::{DataError, SourceLocation};
use super::record::Record;

/// A stub for the reader of Parquet files, which this build does not have.
pub(crate) struct ParquetReader {
    never: Infallible,
    pub(crate) columns: Vec<String>,
}

impl ParquetReader {
    pub(crate) fn open(path: &Path, _file: File) -> Result<Self, DataError> {
        Err(DataError::NoParquet { path: path.to_owned() })
    }

    pub(crate) fn location(&self, _row: u64) -> SourceLocation {
        match self.never {}
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use super::{DataError, ParquetReader, Path};

    #[test]
    fn a_parquet_file_is_refused() {
        let path = Path::new("rows");
        let error = ParquetReader::open(path, tempfile::tempfile().unwrap()).err().unwrap();
        assert!(matches!(error, DataError::NoParquet { .. }) && error.is_usage(), "{error}");
        let message = error.to_string();
        assert!(message.contains("feature `parquet`") && message.contains("CSV or JSONL"), "{message}");
    }
}
