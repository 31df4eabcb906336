//! The input of an examination: a labeled file, and optionally a test file and unlabeled texts.

use crate::Result;
use crate::data::{Dataset, Example, ReadOptions, RowSource, SkippedRows, load_with_incomplete_rows};
use crate::row::AsRow;
use std::path::{Path, PathBuf};

/// The files to examine.
#[derive(Clone, Debug)]
pub struct DoctorInput {
    /// The labeled rows with a text and a label.
    pub dataset: Dataset,
    /// Rows without a text or without a label.
    pub incomplete: Vec<Example>,
    /// The test file.
    pub test: Option<DoctorTexts>,
    /// Unlabeled texts, candidates to label next.
    pub unlabeled: Option<DoctorTexts>,
}

/// The texts of a file, with labels if it has any.
#[derive(Clone, Debug)]
pub struct DoctorTexts {
    /// Path of the file, as the user gave it.
    pub path: PathBuf,
    /// Rows with a text; the label is empty if there is none.
    pub rows: Vec<Example>,
    /// Skipped rows.
    pub skipped: SkippedRows,
    /// The detected format and the reason for it, in one line.
    pub description: String,
}

impl DoctorInput {
    /// Reads a labeled file.
    ///
    /// # Errors
    /// If the file cannot be read or parsed. Rows without a text or a label are no error.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<DoctorInput> {
        let (dataset, gaps) = load_with_incomplete_rows(path, options)?;
        Ok(DoctorInput { dataset, incomplete: gaps, test: None, unlabeled: None })
    }
}

impl DoctorTexts {
    /// Reads the texts of a file and skips rows without one.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<DoctorTexts> {
        let mut options = options.clone();
        (options.require_label, options.require_text, options.pairs) = (false, false, true);
        let source = RowSource::open(path, &options)?;
        let (path, description, columns) = (source.layout().path.clone(), source.describe(), source.columns().clone());
        let (mut records, mut rows) = (source.records(), Vec::new());
        while let Some(record) = records.next() {
            let record = record?;
            let label = columns.label.map_or_else(String::new, |label| record.field(label).trim().to_owned());
            let text = records.source().row(&record);
            if text.as_row().is_pair() || !text.as_row().text().trim().is_empty() {
                rows.push(Example { text, label, line: record.line });
            }
        }
        Ok(DoctorTexts { path, rows, skipped: records.skipped().clone(), description })
    }
}
