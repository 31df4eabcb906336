//! Stub used when the feature `excel` is off: workbooks are recognized and refused.

// Compiled for its test in every build.
#![cfg_attr(feature = "excel", allow(dead_code))]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;

use super::error::{DataError, SourceLocation};
use super::format::ReadOptions;
use super::record::Record;

/// A stub for the reader of Excel workbooks, which this build does not have.
pub(crate) struct ExcelReader {
    never: Infallible,
}

impl ExcelReader {
    pub(crate) fn open(path: &Path, _file: File, _options: &ReadOptions) -> Result<Self, DataError> {
        Err(DataError::NoExcel { path: path.to_owned() })
    }

    pub(crate) fn location(&self, _row: u64) -> SourceLocation {
        match self.never {}
    }

    pub(crate) fn describe_sheet(&self) -> String {
        match self.never {}
    }

    pub(crate) fn drop_empty_columns(&mut self, _first: &mut VecDeque<Record>) {
        match self.never {}
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use super::{DataError, ExcelReader, Path, ReadOptions};

    #[test]
    fn a_workbook_is_refused() {
        let path = Path::new("rows");
        let error = ExcelReader::open(path, tempfile::tempfile().unwrap(), &ReadOptions::default()).err().unwrap();
        assert!(matches!(error, DataError::NoExcel { .. }) && error.is_usage(), "{error}");
        let message = error.to_string();
        assert!(message.contains("feature `excel`") && message.contains("CSV"), "{message}");
    }
}
