//! The interface of data for continued training, for all tasks: reading old rows and adding new ones.

use super::base_model::BaseModel;
use super::combined_rows::SourceData;
use super::comparison::{NEW_TEST, NEW_VALID};
use super::replay_target::ReplayTarget;
use crate::Result;
use crate::row::RowRef;
use crate::train::data::training_data::TrainingData;
use std::path::Path;

/// The data to continue training on: old rows, replayed with new ones.
pub trait ReplayData: Sized {
    /// A file of such rows.
    type File;

    /// The path of a file, as the user gave it.
    fn path(file: &Self::File) -> &Path;

    /// The texts of the rows of a file.
    fn texts(file: &Self::File) -> Vec<RowRef<'_>>;

    /// Checks that the answers of two files have the same form.
    ///
    /// # Errors
    /// If they differ.
    fn check_compatible(_old: &Self::File, _new: &Self::File) -> Result<()> {
        Ok(())
    }

    /// Reads the rows that a model was trained on, in its terms: those of a file, after those of the files `before` it.
    ///
    /// # Errors
    /// The same as for [`add_new`](Self::add_new).
    fn read_old(known: &BaseModel, before: Option<&Self>, file: SourceData<Self::File>) -> Result<Self>;

    /// Combines the `old` rows of a base model, in their parts, with those of `new` files, which are split as for a new
    /// model. New classes and labels are added. New rows that are among the old ones are left out.
    ///
    /// Old rows are part of the training data if `replays` is true. Otherwise they only serve for the comparison.
    ///
    /// # Errors
    /// If no new row is left to train on, a label occurs only in a validation or test file, or rows do not fit the
    /// model.
    fn add_new(known: &BaseModel, old: Option<&Self>, new: SourceData<Self::File>, replays: bool) -> Result<Self>;

    /// The number of rows.
    fn num_rows(&self) -> usize;

    /// The classes, labels or kinds of spans. For numbers, the thresholds.
    fn labels(&self) -> &[String];

    /// The smallest and the largest number, for numbers.
    fn range(&self) -> Option<[f64; 2]> {
        None
    }

    /// The SHA-256 of all texts and answers, in order.
    fn sha256(&self) -> String;

    /// The texts of new held-out rows.
    fn new_held_out_texts(&self) -> Vec<RowRef<'_>>;

    /// The notes for the report.
    fn notes(&mut self) -> &mut Vec<String>;
}

/// Returns the new rows among the compared ones.
pub(crate) fn new_rows<'a, R>(compared: &'a [(&'static str, R)]) -> impl Iterator<Item = &'a R> {
    compared.iter().filter(|(name, _)| [NEW_VALID, NEW_TEST].contains(name)).map(|(_, rows)| rows)
}

impl<A: ReplayTarget> ReplayData for TrainingData<A> {
    type File = A::File;

    fn path(file: &A::File) -> &Path {
        A::path(file)
    }

    fn texts(file: &A::File) -> Vec<RowRef<'_>> {
        A::texts(file)
    }

    fn check_compatible(old: &A::File, new: &A::File) -> Result<()> {
        A::check_compatible(old, new)
    }

    fn read_old(known: &BaseModel, before: Option<&Self>, file: SourceData<A::File>) -> Result<Self> {
        TrainingData::combine_old_and_new(known, before, file, true, true)
    }

    fn add_new(known: &BaseModel, old: Option<&Self>, new: SourceData<A::File>, replays: bool) -> Result<Self> {
        TrainingData::combine_old_and_new(known, old, new, replays, false)
    }

    fn num_rows(&self) -> usize {
        self.train.len() + self.valid.len() + self.test.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn range(&self) -> Option<[f64; 2]> {
        (!self.discretizer.thresholds.is_empty()).then_some(self.discretizer.range)
    }

    fn sha256(&self) -> String {
        self.fingerprint()
    }

    fn new_held_out_texts(&self) -> Vec<RowRef<'_>> {
        let compared = self.continued.iter().flat_map(|further| new_rows(&further.compared));
        compared.flat_map(|rows| rows.texts()).collect()
    }

    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }
}
