//! What is examined: a labelled file, and with it perhaps a test file and unlabelled texts.

use crate::Result;
use crate::data::{Dataset, Example, ReadOptions, RowSource, SkippedRows, load_with_incomplete_rows};
use std::path::{Path, PathBuf};

/// The files to examine.
#[derive(Clone, Debug)]
pub struct Given {
    /// The labelled rows that have a text and a label.
    pub dataset: Dataset,
    /// Those that lack one of the two.
    pub gaps: Vec<Example>,
    /// Texts that are to tell how good a model is.
    pub test: Option<Texts>,
    /// Texts that may be labelled next.
    pub unlabelled: Option<Texts>,
}

/// The texts of a file, with their labels where it has some.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its rows that have a text; the label is empty where there is none.
    pub rows: Vec<Example>,
    /// The rows that were left out.
    pub skipped: SkippedRows,
    /// What the file was taken for and why, in one line.
    pub description: String,
}

impl Given {
    /// Reads a labelled file.
    ///
    /// # Errors
    /// Whatever is wrong with the file, but for rows without a text or a label.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Given> {
        let (dataset, gaps) = load_with_incomplete_rows(path, options)?;
        Ok(Given { dataset, gaps, test: None, unlabelled: None })
    }
}

impl Texts {
    /// Reads the texts of a file; rows without one are left out.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Texts> {
        let mut options = options.clone();
        (options.require_label, options.require_text, options.pairs) = (false, false, true);
        let source = RowSource::open(path, &options)?;
        let (path, description, columns) = (source.layout().path.clone(), source.describe(), source.columns().clone());
        let (mut records, mut rows) = (source.records(), Vec::new());
        while let Some(record) = records.next() {
            let record = record?;
            let label = columns.label.map_or_else(String::new, |label| record.field(label).trim().to_owned());
            let text = records.source().row_text(&record).into_owned();
            if !text.trim().is_empty() {
                rows.push(Example { text, label, line: record.line });
            }
        }
        Ok(Texts { path, rows, skipped: records.skipped().clone(), description })
    }
}
