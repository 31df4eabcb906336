//! The formats of data files, and what a caller may ask of reading one.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::stream_copies::StreamCopies;
use crate::feature_columns::FeatureRequest;
use crate::lang::lang;
use crate::tr;

/// How rows are laid out in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Fields between delimiters, quoted as RFC 4180 says; a quoted field may hold line breaks.
    Csv {
        /// The character between fields: `,`, `;`, `|`, or a tab in a file named `.csv`.
        delimiter: char,
    },
    /// Fields between tabs; a quote is a plain character unless reading it as a quote is what makes the row fit.
    Tsv,
    /// One JSON object a line.
    JsonLines,
    /// One JSON array of objects, texts or lists, or an object whose only key holds it.
    Json,
    /// `__label__x text`, one a line.
    FastText,
    /// Apache Parquet.
    Parquet,
    /// A sheet of an Excel workbook.
    Excel,
    /// One text a line, no label.
    PlainText,
}

impl Format {
    /// The name, in one word, for messages about a row.
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

/// What to read and how; the default lets the file speak for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The text column: its name, or its number counted from 1.
    pub text: Option<String>,
    /// The label column: its name, or its number counted from 1.
    pub label: Option<String>,
    /// The encoding, if not UTF-8 (or UTF-16 with a byte order mark): any label of the WHATWG Encoding Standard.
    pub encoding: Option<String>,
    /// Leave out rows that cannot be used, and count them, in place of stopping at the first.
    pub skip_bad_rows: bool,
    /// Open a file whose first rows cannot all be used; each fault comes in its place when the rows are read
    /// ([`Records::next_in_place`](super::Records::next_in_place)).
    pub faults_in_place: bool,
    /// Whether a label column must be found; if not, one is used only when its name says so.
    pub require_label: bool,
    /// Whether labels are numbers to be predicted: a column of them is taken where no name says which is the label.
    pub numbers: bool,
    /// Whether the text may be two columns, the two texts of a [pair](crate::pair): those that `text` names, as
    /// `premise,hypothesis`, or that have names of a pair.
    pub pairs: bool,
    /// The columns beside the text that are wanted, in order; each text is then a row with their values
    /// ([`beside`](crate::beside)).
    pub features: Vec<FeatureRequest>,
    /// Whether a line of fastText may have several labels.
    pub several_labels: bool,
    /// Whether a row with an empty text is an error, as it always is where labelled rows are read.
    pub require_text: bool,
    /// Whether the first row of a CSV or TSV file, or of a sheet, is a header; looked for in the file if `None`.
    pub header: Option<bool>,
    /// The values of a label or a number that mean that there is none; the usual ones (`NaN`, `NULL`, `N/A`, `?` …) if
    /// `None`. An empty field always does.
    pub missing: Option<Vec<String>>,
    /// Labels that differ only in letter case, width, white space or hyphens become one: of these where one of them is, else the
    /// most frequent spelling. `None` leaves them as they are.
    pub merge_labels: Option<Vec<String>>,
    /// The sheet of an Excel workbook; if `None` the first that holds a table and is not hidden.
    pub sheet: Option<String>,
    /// The format; recognised from name and content if `None`.
    pub format: Option<Format>,
    /// With a `format` of CSV: its delimiter is to be found in the file, whatever `format` says.
    pub find_delimiter: bool,
    /// Data that came through pipes and is read from copies.
    pub copies: StreamCopies,
    /// How the training file of a model was read: this fills what is not given, as far as it fits the file.
    pub training_options: Option<Box<ReadOptions>>,
}

impl ReadOptions {
    /// Returns the options that a model's folder remembers.
    pub(crate) fn training_options(&self) -> Option<&ReadOptions> {
        self.training_options.as_deref()
    }

    /// Writes labels as these are written, where spellings are to be merged.
    pub fn use_label_spellings<S: AsRef<str>>(&mut self, labels: &[S]) {
        if self.merged_labels().is_some() {
            self.merge_labels = Some(labels.iter().map(|label| label.as_ref().to_owned()).collect());
        }
    }

    /// The labels whose spellings are merged, if they are.
    pub(crate) fn merged_labels(&self) -> Option<&[String]> {
        self.merge_labels.as_deref().or_else(|| self.training_options()?.merge_labels.as_deref())
    }

    /// Checks whether rows that cannot be used are left out. Rows to be answered are not, unless that is asked for: each has its
    /// answer or the reason why it has none.
    pub(crate) fn skips_bad_rows(&self) -> bool {
        self.skip_bad_rows
            || !self.faults_in_place && self.training_options().is_some_and(|options| options.skip_bad_rows)
    }
}
