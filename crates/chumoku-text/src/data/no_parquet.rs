//! In the place of `parquet.rs` where the feature of that name is off: a Parquet file is recognised and refused.

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;

use super::error::{DataError, Place};
use super::record::Record;

/// A reader of Parquet files, of which this build has none.
pub(crate) struct ParquetReader {
    never: Infallible,
    pub(crate) columns: Vec<String>,
}

impl ParquetReader {
    pub(crate) fn open(path: &Path, _file: File) -> Result<Self, DataError> {
        Err(DataError::NoParquet { path: path.to_owned() })
    }

    pub(crate) fn place(&self, _row: u64) -> Place {
        match self.never {}
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{DataError, ReadOptions, Source, load_labelled};

    #[test]
    fn a_parquet_file_is_recognised_and_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        std::fs::write(&path, b"PAR1xxxxPAR1").unwrap();
        let error = load_labelled(&path, &ReadOptions::default()).unwrap_err();
        assert!(matches!(error, DataError::NoParquet { .. }) && error.is_usage(), "{error}");
        let said = error.to_string();
        assert!(said.contains("feature `parquet`") && said.contains("CSV or JSONL"), "{said}");
        // Anything else is read as ever.
        std::fs::write(&path, "text,label\na film,good\n").unwrap();
        assert!(Source::open(&path, &ReadOptions::default()).is_ok());
    }
}
