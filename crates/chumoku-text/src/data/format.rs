//! Data formats and read options.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream_copies::StreamCopies;
use crate::lang::lang;
use crate::row::FeatureRequest;
use crate::tr;

/// The format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Fields with a delimiter, quoted according to RFC 4180. A quoted field may contain line breaks.
    Csv {
        /// The delimiter: `,`, `;`, `|`, or a tab in a file named `.csv`.
        delimiter: char,
    },
    /// Fields separated by tabs. A quote is an ordinary character unless the row fits only when it is read as a quote.
    Tsv,
    /// One JSON object per line.
    JsonLines,
    /// One JSON array of objects, texts or lists, or an object that contains one such array.
    Json,
    /// `__label__x text` on each line.
    FastText,
    /// Apache Parquet.
    Parquet,
    /// A sheet of an Excel workbook.
    Excel,
    /// One text per line, without labels.
    PlainText,
}

impl Format {
    /// The name of the format, for messages about rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Csv { .. } => "CSV",
            Format::Tsv => "TSV",
            Format::JsonLines => "JSONL",
            Format::Json => "JSON",
            Format::FastText => "fastText",
            Format::Parquet => "Parquet",
            Format::Excel => "Excel",
            Format::PlainText => lang().pick("plain text", "プレーンテキスト"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Format::Csv { delimiter: ',' } => Ok(()),
            Format::Csv { delimiter: '\t' } => f.write_str(lang().pick(" (tabs)", "（タブ区切り）")),
            Format::Csv { delimiter } => f.write_str(&tr!(" ({delimiter} between fields)", "（{delimiter} 区切り）")),
            _ => Ok(()),
        }
    }
}

/// A count of rows that another thread can watch while a file is read. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct RowCounter(Arc<AtomicU64>);

impl RowCounter {
    /// Returns the count.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more row.
    pub(crate) fn add_row(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts do not change how a file is read.
impl PartialEq for RowCounter {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RowCounter {}

/// The options for reading a data file. By default, everything is detected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The text column, by name or by number from 1.
    pub text: Option<String>,
    /// The label column, by name or by number from 1.
    pub label: Option<String>,
    /// The encoding, as a label of the WHATWG Encoding Standard or an alias. Not needed for UTF-8, or for UTF-16 with a
    /// byte order mark.
    pub encoding: Option<String>,
    /// Skip and count rows that cannot be used, instead of stopping at the first.
    pub skip_bad_rows: bool,
    /// Open a file even if some of its first rows are bad. Each error is returned in its place when the rows are read
    /// ([`Records::next_with_fault`](super::Records::next_with_fault)).
    pub faults_in_place: bool,
    /// Require a label column. Otherwise one is used only if its name shows that it is the label.
    pub require_label: bool,
    /// Labels are numbers: a numeric column is used if no column is named as the label.
    pub numbers: bool,
    /// The text may be two columns, the texts of a [pair](crate::row): those in `text`, as in `premise,hypothesis`, or
    /// columns with the names of a pair.
    pub pairs: bool,
    /// The requested feature columns, in order. Each text then becomes a row with their values
    /// ([`row`](crate::row)).
    pub features: Vec<FeatureRequest>,
    /// A fastText line may have several labels.
    pub(crate) several_labels: bool,
    /// An empty text is an error. This always holds for labeled rows.
    pub require_text: bool,
    /// The first row of a CSV or TSV file, or of a sheet, is a header. Detected if `None`.
    pub header: Option<bool>,
    /// The values that stand for a missing label or number. `None` means the usual ones (`NaN`, `NULL`, `N/A`, `?` …).
    /// An empty field is always missing.
    pub missing: Option<Vec<String>>,
    /// Merge labels that differ only in case, width, white space or hyphens. The spelling is the one in this list, else
    /// the most frequent one. `None` keeps all labels as they are.
    pub merge_labels: Option<Vec<String>>,
    /// The decimal separator of numbers that may have two readings, such as `1.234`. Detected if `None`.
    pub decimal: Option<char>,
    /// The sheet of an Excel workbook. If `None`, the first visible sheet with a table.
    pub sheet: Option<String>,
    /// The format. Detected from name and content if `None`.
    pub format: Option<Format>,
    /// If `format` is CSV: detect the delimiter in the file and ignore the one in `format`.
    pub find_delimiter: bool,
    /// Copies of data that came through pipes.
    pub copies: StreamCopies,
    /// Counts the rows that are read, for progress. Clones of the options share it.
    pub rows_read: RowCounter,
    /// The read options of the training file. They fill options that are not set, as far as they fit the file.
    pub training_options: Option<Box<ReadOptions>>,
}

impl ReadOptions {
    /// Returns the read options of the model's training file.
    pub(crate) fn training_options(&self) -> Option<&ReadOptions> {
        self.training_options.as_deref()
    }

    /// Uses the spelling of these labels, if spellings are merged.
    pub fn use_label_spellings<S: AsRef<str>>(&mut self, labels: &[S]) {
        if self.merged_labels().is_some() {
            self.merge_labels = Some(labels.iter().map(|label| label.as_ref().to_owned()).collect());
        }
    }

    /// Returns the labels whose spellings are used, if spellings are merged.
    pub(crate) fn merged_labels(&self) -> Option<&[String]> {
        self.merge_labels.as_deref().or_else(|| self.training_options()?.merge_labels.as_deref())
    }

    /// Returns the decimal separator of numbers that may have two readings.
    pub(crate) fn decimal(&self) -> Option<char> {
        self.decimal.or_else(|| self.training_options()?.decimal)
    }

    /// Returns whether bad rows are skipped. The option of the training file does not apply to rows to be predicted,
    /// because each of those gets a prediction or an error.
    pub(crate) fn skips_bad_rows(&self) -> bool {
        self.skip_bad_rows
            || !self.faults_in_place && self.training_options().is_some_and(|options| options.skip_bad_rows)
    }
}
