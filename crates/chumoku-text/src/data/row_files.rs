//! The files that the rows of a data set come from.

use std::path::{Path, PathBuf};

use super::error::Place;

/// The files of a data set, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFiles {
    files: Vec<RowFile>,
}

/// A file and its first row in the data set, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowFile {
    path: PathBuf,
    /// True if places are rows, as in Parquet.
    has_rows: bool,
    first: usize,
}

impl RowFiles {
    /// All rows come from one file.
    pub(crate) fn one(path: &Path, has_rows: bool) -> Self {
        RowFiles { files: vec![RowFile { path: path.to_owned(), has_rows, first: 0 }] }
    }

    /// The same rows under another name of their files.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.files.iter_mut().for_each(|file| path.clone_into(&mut file.path));
        self
    }

    /// Adds the files of the rows that follow the first `rows`.
    pub(crate) fn join(&mut self, rows: usize, next: RowFiles) {
        self.files.extend(next.files.into_iter().map(|file| RowFile { first: rows + file.first, ..file }));
    }

    /// The place of a row, which begins on this line of its file.
    pub(crate) fn place(&self, row: usize, line: u64) -> Place {
        let after = self.files.partition_point(|file| file.first <= row).max(1);
        let RowFile { path, has_rows, .. } = &self.files[after - 1];
        if *has_rows { Place::row(path, line) } else { Place::line(path, line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_file_that_they_come_from() {
        let mut files = RowFiles::one(Path::new("a.csv"), false);
        let mut others = RowFiles::one(Path::new("b.parquet"), true);
        others.join(3, RowFiles::one(Path::new("c.csv"), false));
        files.join(2, others);
        let place = |row: usize| files.place(row, 7).to_string();
        assert_eq!([0, 1].map(place), ["a.csv:7", "a.csv:7"]);
        assert_eq!([2, 4].map(place), ["b.parquet, row 7", "b.parquet, row 7"]);
        assert_eq!([5, 99].map(place), ["c.csv:7", "c.csv:7"]);
    }
}
