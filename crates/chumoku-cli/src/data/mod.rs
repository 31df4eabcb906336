//! Files of rows: how they are read, what they must hold, and reports of what they hold.
//!
//! # Files
//!
//! - `classes`: training rows with classes
//! - `columns`: feature columns of a model
//! - `files`: loading files
//! - `pairs`: text pairs
//! - `reading`: read options

mod classes;
pub(crate) mod columns;
mod files;
pub(crate) mod pairs;
mod reading;

pub(crate) use classes::{
    PRONOUNS_SEED, builtin_class_rows, builtin_coin_flips, builtin_pronouns, builtin_reviews, report_class_rows,
    report_columns, report_sizes,
};
pub(crate) use files::{
    load_autoencoder_rows, load_class_rows, load_label_rows, load_number_rows, load_span_rows, load_text_documents,
    load_translation_rows, report_skipped,
};
pub(crate) use reading::read_options;
