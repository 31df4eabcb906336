//! Tests of the whole module: results, messages, and the absence of panics.

mod choosing;
mod documents;
mod errors;
mod excel_files;
mod first_look;
mod formats;
mod json_arrays;
mod label_sets;
mod memory;
mod no_panic;
mod pairs;
mod parquet_files;
mod recognising;
mod round_trip;
mod shared_data;
mod splitting;
mod table_errors;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::dataset::MAX_CLASSES;
use super::limits::MAX_TEXT_BYTES;
use super::pairs::PairRecords;
use super::split::split_texts;
use super::*;
use crate::row::{AsRow, Row};

/// A folder of files for one test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns a message without the path of the folder.
    fn message(&self, error: &DataError) -> String {
        let prefix = format!("{}{}", self.0.path().display(), std::path::MAIN_SEPARATOR);
        let message = error.to_string().replace(&prefix, "");
        assert!(!message.contains('\n'), "not one line: {message}");
        message
    }
}

fn gz(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// The options of `train`.
fn labeled() -> ReadOptions {
    ReadOptions { require_label: true, ..ReadOptions::default() }
}

fn skipping() -> ReadOptions {
    ReadOptions { skip_bad_rows: true, ..labeled() }
}

/// Returns the texts and labels of a file.
fn pairs(path: &Path, options: &ReadOptions) -> Vec<(String, String)> {
    let dataset = load_labeled(path, options).unwrap();
    dataset.examples.into_iter().map(|example| (example.text.as_row().text().to_owned(), example.label)).collect()
}

/// Returns all rows of a file, in the columns of its layout.
fn rows(path: &Path, options: &ReadOptions) -> Vec<Vec<String>> {
    let records = RowSource::open(path, options).unwrap().records();
    records.map(|record| record.unwrap().fields).collect()
}

/// Returns the message of the error from loading a file.
fn message(name: &str, bytes: impl AsRef<[u8]>, options: &ReadOptions) -> String {
    let folder = Folder::new();
    let path = folder.file(name, bytes);
    match load_labeled(&path, options) {
        Ok(dataset) => panic!("no error, but {:?}", dataset.examples),
        Err(error) => folder.message(&error),
    }
}
