//! Text data from files: labeled texts, pairs and plain text. Detects formats, chooses columns, reads, splits and
//! writes.
//!
//! The stages, one source file each:
//!
//! 1. [`RowSource::open`] decompresses gzip (`gzip.rs`), decodes other encodings (`encoding_names.rs`, `decode.rs`),
//!    and splits the stream into lines of bounded length (`lines.rs`). A pipe is copied to be read twice
//!    ([`StreamCopies`]), or read as it arrives (`live_stream.rs`).
//! 2. The extension and the first lines determine the format (`detect.rs`). A reader turns lines into [`Record`]s
//!    (`delimited.rs`, `tsv.rs`, `json_lines.rs`, `json_array.rs`, `fasttext.rs`, `parquet.rs`, `excel.rs`).
//! 3. A sample of the first rows shows whether there is a header, and which columns hold the text and the label.
//!    `schema_inference/` scores each reading and stops if two are about equally likely.
//! 4. [`RowSource::records`] streams the rows in constant memory, and [`load_labeled`] collects them (`dataset.rs`).
//!    Several files can be concatenated (`concatenation.rs`). Each row keeps its file (`row_origins.rs`).
//! 5. Translation pairs come from two columns (`schema_inference/pair_columns.rs`) or from two parallel files
//!    (`pairs/parallel.rs`). `PairRecords` streams them, and [`load_pairs`] collects them (`pairs.rs`).
//!    [`load_documents`] reads plain text and columns of documents for language models (`documents.rs`).
//!    [`detect_task`] returns the task that a file is for.
//! 6. [`load_spans`] reads texts with labeled spans from CoNLL files and JSONL (`spans/`).
//! 7. Each text comes with the values of its feature columns ([`FeatureSource`], [`crate::row`]).
//! 8. [`split()`] splits examples so that equal texts stay together, and [`shared_texts`] finds leaks.
//!    [`RecordWriter`] writes rows back with added columns. [`Fingerprint`] hashes rows, to compare them across machines.
//!
//! No file content causes a panic: every problem is a [`DataError`] that says where it is and what to do.
//!
//! # Files
//!
//! - `concatenation`: several training files read as one
//! - `dataset`: labeled rows in memory, and their checks
//! - `decode`: encodings other than UTF-8
//! - `delimited`: CSV
//! - `detect`: detection of the format
//! - `documents`: documents for language models
//! - `encoding_names`: names of encodings
//! - `error`: `DataError`, with file, line and column
//! - `excel`: Excel workbooks
//! - `fasttext`: fastText and plain lines
//! - `files`: arguments that name files
//! - `fingerprint`: hash of rows
//! - `format`: formats and read options
//! - `gzip`: gzip
//! - `io_errors`: meanings of system errors
//! - `json_array`: JSON arrays
//! - `json_lines`: JSONL
//! - `label_variants`: labels that differ only in spelling
//! - `limits`: largest text, row and table
//! - `lines`: lines of bounded length
//! - `live_stream`: streams whose format is detected before they end
//! - `multi_label`: several labels per text
//! - `no_excel`: stub used when the feature `excel` is off
//! - `no_parquet`: stub used when the feature `parquet` is off
//! - `normalize`: texts normalized for comparison
//! - `open`: opening a path: gzip, byte order mark, encoding
//! - `pair_split`: training, validation and test pairs
//! - `pairs`: translation pairs; parallel files in `pairs/parallel.rs`
//! - `parquet`: Parquet
//! - `reader`: one interface to all readers
//! - `record`: one row, and the count of skipped rows
//! - `related_rows`: rows that share a text
//! - `row_origins`: the file and line of each row
//! - `schema_inference`: header, text and label columns of a table
//! - `scores`: texts with a number
//! - `source`: an open file of labeled texts
//! - `spans`: texts with labeled spans
//! - `split`: training, validation and test sets
//! - `stream_copies`: copies of streams that are read twice
//! - `table`: rows of an open file with their columns
//! - `task_detection`: the task that a file is for
//! - `temporary_copy`: temporary copies of streams
//! - `tsv`: TSV, with and without quotes
//! - `width`: number of columns in each row
//! - `writer`: rows written back with added columns

mod concatenation;
mod dataset;
mod decode;
mod delimited;
mod detect;
mod documents;
mod encoding_names;
mod error;
#[cfg(feature = "excel")]
mod excel;
mod fasttext;
mod files;
mod fingerprint;
mod format;
mod gzip;
mod io_errors;
mod json_array;
mod json_lines;
mod label_variants;
mod limits;
mod lines;
mod live_stream;
mod multi_label;
#[cfg(any(test, not(feature = "excel")))]
mod no_excel;
#[cfg(any(test, not(feature = "parquet")))]
mod no_parquet;
mod normalize;
mod open;
mod pair_split;
mod pairs;
#[cfg(feature = "parquet")]
mod parquet;
mod reader;
mod record;
mod related_rows;
mod row_origins;
mod schema_inference;
mod scores;
mod source;
mod spans;
mod split;
mod stream_copies;
mod table;
mod task_detection;
mod temporary_copy;
mod tsv;
mod width;
mod writer;

#[cfg(all(test, feature = "parquet", feature = "excel"))]
use crate::panics;

#[cfg(all(test, feature = "parquet", feature = "excel"))]
mod tests;

// Stubs for formats that are disabled.
#[cfg(not(feature = "excel"))]
use no_excel as excel;
#[cfg(not(feature = "parquet"))]
use no_parquet as parquet;

pub use crate::lang::wording::{format_thousands, format_thousands_wide};
pub use concatenation::{Append, options_for_all_files};
pub use dataset::{Dataset, Example, load_labeled, load_with_incomplete_rows};
pub use documents::{DocumentBreaks, DocumentSplit, Documents, MIN_CHARACTERS, VALIDATION_FRACTION, load_documents};
pub use error::{ColumnRole, DataError, SourceLocation};
pub use files::DataFiles;
pub use fingerprint::Fingerprint;
pub use format::{Format, ReadOptions, RowCounter};
pub use io_errors::{is_disk_full, is_unwritable_path};
pub use label_variants::{
    FileLabels, LabelVariants, describe_file_differences, describe_variants, label_key, label_variants, merge_labels,
};
pub use multi_label::{MultiLabelDataset, MultiLabelExample, load_multi_label, looks_multi_label};
pub use normalize::normalize;
pub use open::check_path;
pub use pair_split::{PairSplit, SentencePairs};
pub use pairs::{PairDataset, SentencePair, load_pairs, load_texts_as_pairs};
pub use record::{Record, SkippedRow, SkippedRows, TableLayout};
pub use related_rows::group_related;
pub use schema_inference::columns::{ColumnChoice, FeatureSource};
pub use schema_inference::label_form::LabelOptions;
pub use schema_inference::missing::read_labels;
pub use schema_inference::quantity::{PointGroups, parse_number_with_groups, parse_separated_number};
pub use scores::{ScoreDataset, ScoreExample, load_scores};
pub use source::{Records, RowSource};
pub use spans::{Span, SpanDataset, SpanExample, SpanUnit, is_conll, load_spans};
pub use split::{LabelConflicts, SharedText, SharedTexts, Split, shared_texts, split};
pub use stream_copies::{StreamCopies, standard_input};
pub use task_detection::{DetectedTask, TrainingTask, detect_task};
pub use writer::{OutputFormat, RecordWriter, escape_formula};
