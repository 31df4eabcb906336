//! In the place of `excel.rs` where the feature of that name is off: a workbook is recognised and refused.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;

use super::error::{DataError, Place};
use super::record::Record;

/// A reader of Excel workbooks, of which this build has none.
pub(crate) struct ExcelReader {
    never: Infallible,
}

impl ExcelReader {
    pub(crate) fn open(path: &Path, _file: File, _sheet: Option<&str>) -> Result<Self, DataError> {
        Err(DataError::NoExcel { path: path.to_owned() })
    }

    pub(crate) fn place(&self, _row: u64) -> Place {
        match self.never {}
    }

    pub(crate) fn describe_sheet(&self) -> String {
        match self.never {}
    }

    pub(crate) fn settle(&mut self, _first: &mut VecDeque<Record>) {
        match self.never {}
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{DataError, ReadOptions, load_labelled};

    #[test]
    fn a_workbook_is_recognised_and_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        std::fs::write(&path, b"PK\x03\x04....xl/workbook.xml").unwrap();
        let error = load_labelled(&path, &ReadOptions::default()).unwrap_err();
        assert!(matches!(error, DataError::NoExcel { .. }) && error.is_usage(), "{error}");
        let said = error.to_string();
        assert!(said.contains("feature `excel`") && said.contains("CSV"), "{said}");
    }
}
