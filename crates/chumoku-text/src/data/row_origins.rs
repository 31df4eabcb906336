//! The files that the rows of a data set come from.

use std::path::{Path, PathBuf};

use super::error::SourceLocation;
use super::label_variants::FileLabels;

/// The files of a data set, in the order of their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowOrigins {
    files: Vec<OriginFile>,
}

/// A file, with the index of its first row in the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OriginFile {
    path: PathBuf,
    /// True if locations are row numbers, as in Parquet.
    counts_rows: bool,
    first_row: usize,
}

impl RowOrigins {
    /// Creates the origins of rows that come from one file.
    pub(crate) fn one(path: &Path, has_rows: bool) -> Self {
        RowOrigins { files: vec![OriginFile { path: path.to_owned(), counts_rows: has_rows, first_row: 0 }] }
    }

    /// Returns the same rows under another path.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.files.iter_mut().for_each(|file| path.clone_into(&mut file.path));
        self
    }

    /// Appends the files of the rows after the first `rows`.
    pub(crate) fn append(&mut self, rows: usize, next: RowOrigins) {
        self.files.extend(next.files.into_iter().map(|file| OriginFile { first_row: rows + file.first_row, ..file }));
    }

    /// Groups labels by file. `rows` has the labels of each row, in order.
    pub(crate) fn group_labels<'a, L>(&self, rows: impl IntoIterator<Item = L>) -> Vec<FileLabels<'a>>
    where
        L: IntoIterator<Item = &'a String>,
    {
        let mut found: Vec<_> = self.files.iter().map(|file| FileLabels::new(&file.path, [])).collect();
        for (row, labels) in rows.into_iter().enumerate() {
            let after = self.files.partition_point(|file| file.first_row <= row).max(1);
            found[after - 1].labels.extend(labels.into_iter().map(String::as_str));
        }
        found
    }

    /// Returns the location of a row that starts on this line of its file.
    pub(crate) fn location(&self, row: usize, line: u64) -> SourceLocation {
        let after = self.files.partition_point(|file| file.first_row <= row).max(1);
        let OriginFile { path, counts_rows: has_rows, .. } = &self.files[after - 1];
        if *has_rows { SourceLocation::row(path, line) } else { SourceLocation::line(path, line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_file_that_they_come_from() {
        let mut files = RowOrigins::one(Path::new("a.csv"), false);
        let mut others = RowOrigins::one(Path::new("b.parquet"), true);
        others.append(3, RowOrigins::one(Path::new("c.csv"), false));
        files.append(2, others);
        let place = |row: usize| files.location(row, 7).to_string();
        assert_eq!([0, 1].map(place), ["a.csv:7", "a.csv:7"]);
        assert_eq!([2, 4].map(place), ["b.parquet, row 7", "b.parquet, row 7"]);
        assert_eq!([5, 99].map(place), ["c.csv:7", "c.csv:7"]);
    }
}
