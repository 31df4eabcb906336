//! Rows of any task, as whoever trains a model further handles them: read, divided, told from the old ones.

use super::replay_target::ReplayTarget;
use super::{BaseModel, NEW_TEST, NEW_VALID, SourceData, TrainingData};
use crate::Result;
use std::path::Path;

/// What a model is trained on, of which old rows are learnt again with new ones.
pub trait ReplayData: Sized {
    /// A file of such rows.
    type File;

    /// The file, as it was named.
    fn path(file: &Self::File) -> &Path;

    /// The texts of its rows.
    fn texts(file: &Self::File) -> Vec<&str>;

    /// Refuses answers that do not go with those of another file.
    ///
    /// # Errors
    /// If there are any.
    fn check_alike(_old: &Self::File, _new: &Self::File) -> Result<()> {
        Ok(())
    }

    /// The rows that a model was trained on, as it knows them: those of a file, after those `before` it if there are such.
    ///
    /// # Errors
    /// As for [`further`](Self::further).
    fn again(known: &BaseModel, before: Option<&Self>, file: SourceData<Self::File>) -> Result<Self>;

    /// What a model that is `known` is trained further on: its `old` rows, in the parts that they were in, and those of `new` files,
    /// split as for a new model. New classes and labels are added. New rows that are among the old ones stay out.
    ///
    /// Unless it `replays` them, old rows are compared on and nothing else.
    ///
    /// # Errors
    /// If no new row is left to train on, a label occurs only in a validation or test file, or rows are not of the model's kind.
    fn further(known: &BaseModel, old: Option<&Self>, new: SourceData<Self::File>, replays: bool) -> Result<Self>;

    /// All rows.
    fn num_rows(&self) -> usize;

    /// Classes, labels or kinds of spans; of numbers, the thresholds.
    fn labels(&self) -> &[String];

    /// Of numbers, the least and the largest.
    fn range(&self) -> Option<[f64; 2]> {
        None
    }

    /// SHA-256 of all texts and answers, in order.
    fn sha256(&self) -> String;

    /// The texts of new rows that are held out.
    fn new_held_out(&self) -> Vec<&str>;

    /// What the reader of the report should know.
    fn notes(&mut self) -> &mut Vec<String>;
}

/// Of rows that are compared, the new ones.
pub(super) fn new_rows<'a, R>(compared: &'a [(&'static str, R)]) -> impl Iterator<Item = &'a R> {
    compared.iter().filter(|(name, _)| [NEW_VALID, NEW_TEST].contains(name)).map(|(_, rows)| rows)
}

impl<A: ReplayTarget> ReplayData for TrainingData<A> {
    type File = A::File;

    fn path(file: &A::File) -> &Path {
        A::path(file)
    }

    fn texts(file: &A::File) -> Vec<&str> {
        A::texts(file)
    }

    fn check_alike(old: &A::File, new: &A::File) -> Result<()> {
        A::check_alike(old, new)
    }

    fn again(known: &BaseModel, before: Option<&Self>, file: SourceData<A::File>) -> Result<Self> {
        TrainingData::combine_old_and_new(known, before, file, true, true)
    }

    fn further(known: &BaseModel, old: Option<&Self>, new: SourceData<A::File>, replays: bool) -> Result<Self> {
        TrainingData::combine_old_and_new(known, old, new, replays, false)
    }

    fn num_rows(&self) -> usize {
        self.train.len() + self.valid.len() + self.test.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn range(&self) -> Option<[f64; 2]> {
        (!self.scale.thresholds.is_empty()).then_some(self.scale.range)
    }

    fn sha256(&self) -> String {
        self.fingerprint()
    }

    fn new_held_out(&self) -> Vec<&str> {
        let compared = self.further.iter().flat_map(|further| new_rows(&further.compared));
        compared.flat_map(|rows| rows.texts()).collect()
    }

    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }
}
