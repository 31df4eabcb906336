//! Texts from files, labelled, in pairs or plain: recognising the format, choosing the columns, reading, splitting,
//! writing.
//!
//! The way of a file through this module, one source file each:
//!
//! 1. [`Source::open`] undoes gzip (`gzip.rs`) and any encoding but UTF-8 (`encoding_names.rs`, `decode.rs`), then cuts the
//!    stream into lines of bounded length (`lines.rs`). What comes through a pipe is kept to be read twice ([`Kept`]), or
//!    taken as it comes (`arriving.rs`).
//! 2. The format follows from the extension and the first lines (`detect.rs`), and one reader turns lines into
//!    [`Record`]s (`delimited.rs`, `tsv.rs`, `json_lines.rs`, `json_array.rs`, `fasttext.rs`, `parquet.rs`, `excel.rs`).
//! 3. A sample of the first rows says whether there is a header and which columns hold the text and the label: `look/`
//!    scores each reading, and stops where two are about as likely.
//! 4. [`Source::records`] streams the rows in constant memory; [`load_labelled`] collects them (`dataset.rs`).
//!    Several files may be joined (`joined.rs`); each row keeps its file (`row_files.rs`).
//! 5. Pairs for translation come from two columns (`look/pair_columns.rs`) or from two parallel files (`pairs/parallel.rs`):
//!    [`PairRecords`] streams them, [`load_pairs`] collects them (`pairs.rs`). [`load_documents`] reads plain text and
//!    columns of documents for language models (`documents.rs`). [`recognise`] says which of these a file is for.
//! 6. [`load_spans`] reads texts with labelled spans, from CoNLL files and JSONL (`spans/`).
//! 7. The values of feature columns come with each text ([`FeatureSource`], [`crate::beside`]).
//! 8. [`split()`] divides examples without letting a text into two parts; [`shared_texts`] finds leaks; [`Stats`]
//!    describes; [`RecordWriter`] writes rows back with added columns; [`Fingerprint`] tells whether others have the same rows.
//!
//! Nothing here panics on what a file holds: whatever is wrong is a [`DataError`] that says where and what to do.
//!
//! # Files
//!
//! - `arriving`: streams that are inspected before they are complete
//! - `copying`: temporary copies of streams
//! - `dataset`: labelled rows in memory, and their checks
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
//! - `joined`: several training files as one
//! - `json_array`: JSON arrays
//! - `json_lines`: JSONL
//! - `kept`: streams that are kept for a second pass
//! - `label_sets`: several labels a text
//! - `label_variants`: labels that differ only in spelling
//! - `limits`: largest text, row and table
//! - `lines`: lines of bounded length
//! - `look`: the first look at a table: header, columns, labels
//! - `no_excel`: stub used when the feature `excel` is off
//! - `no_parquet`: stub used when the feature `parquet` is off
//! - `normalize`: texts reduced for comparison
//! - `open`: opening a path: gzip, byte order mark, encoding
//! - `pair_parts`: translation pairs in three parts
//! - `pairs`: translation pairs; parallel files in `pairs/parallel.rs`
//! - `parquet`: Parquet
//! - `reader`: one interface to all readers
//! - `recognise`: the task that a file is for
//! - `record`: one row, and the count of skipped rows
//! - `related`: rows that share a text
//! - `row_files`: the file and line of each row
//! - `scores`: texts with a number
//! - `source`: an open file of labelled texts
//! - `spans`: texts with labelled spans
//! - `split`: training, validation and test rows
//! - `stats`: summary of a data set
//! - `system`: meanings of system errors
//! - `table`: rows of an open file with their columns
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
mod stats;
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

// Stubs for formats that are off.
#[cfg(not(feature = "excel"))]
use no_excel as excel;
#[cfg(not(feature = "parquet"))]
use no_parquet as parquet;

pub use crate::lang::wording::{format_thousands, format_thousands_wide};
pub use concatenation::{Append, options_for_all_files};
pub use dataset::{Dataset, Example, MAX_CLASSES, MIN_TRAINING_ROWS, load_labeled, load_with_incomplete_rows};
pub use documents::{DocumentBreaks, DocumentSplit, Documents, MIN_CHARACTERS, VALIDATION_FRACTION, load_documents};
pub use error::{ColumnRole, DataError, SourceLocation};
pub use files::DataFiles;
pub use fingerprint::Fingerprint;
pub use format::{Format, ReadOptions};
pub use io_errors::{is_disk_full, is_unwritable_path};
pub use label_variants::{LabelVariants, describe_variants, label_key, label_variants, merge_labels};
pub use limits::{MAX_ROW_BYTES, MAX_TEXT_BYTES};
pub use multi_label::{MultiLabelDataset, MultiLabelExample, load_multi_label, looks_multi_label};
pub use normalize::normalize;
pub use open::check_path;
pub use pair_split::{PairSplit, SentencePairs};
pub use pairs::{PairDataset, PairRecords, SentencePair, load_pairs};
pub use record::{Record, SkippedRow, SkippedRows, TableLayout};
pub use related_rows::group_related;
pub use schema_inference::columns::{ColumnChoice, FeatureSource};
pub use schema_inference::label_form::LabelOptions;
pub use schema_inference::missing::read_labels;
pub use schema_inference::quantity::{parse_number, parse_separated_number};
pub use scores::{ScoreDataset, ScoreExample, load_scores};
pub use source::{Records, RowSource};
pub use spans::{Span, SpanDataset, SpanExample, SpanUnit, is_conll, load_spans};
pub use split::{LabelConflicts, SharedText, SharedTexts, Split, shared_texts, split, split_texts};
pub use stats::{DatasetStats, TextLengths};
pub use stream_copies::{StreamCopies, standard_input};
pub use task_detection::{DetectedTask, TrainingTask, detect_task};
pub use writer::{OutputFormat, RecordWriter, escape_formula};
