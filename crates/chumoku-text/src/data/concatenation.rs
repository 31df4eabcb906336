//! Concatenates several training files whose columns agree.

use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use super::documents::Documents;
use super::error::DataError;
use super::format::{Format, ReadOptions};
use super::multi_label::MultiLabelDataset;
use super::pairs::PairDataset;
use super::record::{SkippedRows, TableLayout};
use super::scores::ScoreDataset;
use super::source::RowSource;
use super::spans::SpanDataset;
use crate::lang::lang;
use crate::lang::wording::list_names;
use crate::tr;

/// Rows of a file to which those of other files can be appended.
pub trait Append: Sized {
    /// Appends the rows of the next file.
    ///
    /// # Errors
    ///
    /// If the next file writes its numbers in another format.
    fn append(&mut self, next: Self) -> Result<(), DataError>;
}

/// The path of several files, for messages.
fn joined_path(first: &Path, next: &Path) -> PathBuf {
    PathBuf::from(format!("{}{}{}", first.display(), lang().pick(", ", "、"), next.display()))
}

impl SkippedRows {
    /// Adds the skipped rows of another file.
    fn append(&mut self, next: SkippedRows) {
        self.count += next.count;
        self.rows.extend(next.rows);
        self.rows.truncate(Self::MAX_DESCRIBED);
    }
}

/// Concatenates the weights of two files. Rows without weights get the weight 1.
fn concat_weights(weights: [Option<Vec<f32>>; 2], rows: [usize; 2]) -> Option<Vec<f32>> {
    if weights.iter().all(Option::is_none) {
        return None;
    }
    let mut rows = rows.into_iter();
    let filled = weights.map(|weights| {
        let rows = rows.next().unwrap_or_default();
        weights.unwrap_or_else(|| vec![1.0; rows])
    });
    Some(filled.concat())
}

macro_rules! append {
    ($($rows:ident $(after $check:ident)?),*) => {
        $(impl Append for $rows {
            fn append(&mut self, next: Self) -> Result<(), DataError> {
                $(self.$check(&next)?;)?
                self.path = joined_path(&self.path, &next.path);
                let rows = [self.examples.len(), next.examples.len()];
                self.weights = concat_weights([self.weights.take(), next.weights], rows);
                self.files.append(rows[0], next.files);
                self.examples.extend(next.examples);
                self.skipped.append(next.skipped);
                Ok(())
            }
        })*
    };
}

append!(Dataset, MultiLabelDataset, ScoreDataset after merge_number_format);

macro_rules! with_path {
    ($($rows:ident),*) => {
        $(impl $rows {
            /// Returns the same rows under another path, for messages.
            #[must_use]
            pub fn with_path(mut self, path: &Path) -> Self {
                path.clone_into(&mut self.path);
                self.files = self.files.with_path(path);
                self
            }
        })*
    };
}

with_path!(Dataset, MultiLabelDataset, ScoreDataset, SpanDataset);

impl Append for SpanDataset {
    fn append(&mut self, next: Self) -> Result<(), DataError> {
        self.path = joined_path(&self.path, &next.path);
        self.files.append(self.examples.len(), next.files);
        self.examples.extend(next.examples);
        self.skipped.append(next.skipped);
        self.notes.extend(next.notes);
        Ok(())
    }
}

impl Append for Documents {
    fn append(&mut self, next: Self) -> Result<(), DataError> {
        self.path = joined_path(&self.path, &next.path);
        self.texts.extend(next.texts);
        self.skipped.append(next.skipped);
        Ok(())
    }
}

impl Append for PairDataset {
    fn append(&mut self, next: Self) -> Result<(), DataError> {
        self.origins.append(self.pairs.len(), next.origins);
        self.pairs.extend(next.pairs);
        self.skipped.append(next.skipped);
        Ok(())
    }
}

/// Returns the options for reading further files with the columns that were chosen in the first one.
///
/// # Errors
///
/// A file that cannot be read, or whose columns differ from those of the first.
pub fn options_for_all_files(
    first: &Path,
    others: &[PathBuf],
    options: &ReadOptions,
) -> Result<ReadOptions, DataError> {
    let mut options = options.clone();
    if others.is_empty() {
        return Ok(options);
    }
    let source = RowSource::open(first, &ReadOptions { pairs: true, ..options.clone() })?;
    let (layout, columns) = (source.layout().clone(), source.columns());
    if layout.has_names() {
        let name = |column: usize| layout.columns[column].clone();
        if options.text.is_none() {
            options.text = Some(match columns.second {
                Some(second) => format!("{},{}", name(columns.text), name(second)),
                None => name(columns.text),
            });
        }
        if options.label.is_none() {
            options.label = columns.label.map(name);
        }
    }
    for path in others {
        let next = RowSource::open(path, &ReadOptions { pairs: true, require_label: false, ..options.clone() });
        let found = match next {
            Ok(next) if have_same_columns(&layout, next.layout()) => continue,
            Ok(next) => describe_columns(next.layout()),
            Err(DataError::NoSuchColumn { columns, .. }) => columns,
            Err(error) => return Err(error),
        };
        return Err(DataError::ColumnsDiffer {
            path: path.clone(),
            first: first.to_owned(),
            expected: describe_columns(&layout).into(),
            found: found.into(),
        });
    }
    Ok(options)
}

/// Returns whether two files have the same columns. With names, their order does not matter.
fn have_same_columns(first: &TableLayout, next: &TableLayout) -> bool {
    let sorted = |layout: &TableLayout| {
        let mut names: Vec<String> = layout.columns.iter().map(|name| name.trim().to_lowercase()).collect();
        names.sort_unstable();
        names
    };
    let lines = |layout: &TableLayout| matches!(layout.format, Format::FastText | Format::PlainText);
    // Objects may lack keys that others have.
    let are_objects = [first, next].iter().all(|layout| matches!(layout.format, Format::JsonLines | Format::Json));
    match (first.has_names(), next.has_names()) {
        (true, true) => are_objects || sorted(first) == sorted(next),
        (false, false) => lines(first) == lines(next) && first.columns.len() == next.columns.len(),
        _ => false,
    }
}

/// Describes the columns of a file, for a message.
fn describe_columns(layout: &TableLayout) -> String {
    match layout.has_names() {
        true => list_names(&layout.columns),
        false => {
            let n = layout.columns.len();
            tr!("{n} without names", "名前のない {n} 列")
        }
    }
}
