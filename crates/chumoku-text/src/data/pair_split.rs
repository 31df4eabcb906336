//! Splits sentence pairs into training, validation and test sets.

use super::error::DataError;
use super::pairs::{PairDataset, SentencePair};
use super::split::{shared_rows, split_texts};
use crate::lang::wording::quote;
use crate::row::AsRow;
use crate::tr;

/// The fraction of pairs held out for validation, and for testing.
const HELD_OUT_FRACTION: f64 = 0.1;
/// Most pairs in each set: translating them takes time, and more would hardly make the scores more precise.
const MAX_HELD_OUT: f64 = 1_000.0;

/// Source texts and their translations, in parallel lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentencePairs {
    /// The source texts.
    pub sources: Vec<String>,
    /// The translation of each source.
    pub targets: Vec<String>,
}

impl SentencePairs {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

impl<'a> FromIterator<&'a SentencePair> for SentencePairs {
    fn from_iter<I: IntoIterator<Item = &'a SentencePair>>(pairs: I) -> Self {
        let (sources, targets) = pairs.into_iter().map(|pair| (pair.source.clone(), pair.target.clone())).unzip();
        SentencePairs { sources, targets }
    }
}

/// Pairs for training, validation and testing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairSplit {
    /// Training pairs.
    pub train: SentencePairs,
    /// Validation pairs, for early stopping and settings.
    pub valid: SentencePairs,
    /// Test pairs.
    pub test: SentencePairs,
    /// Warnings for the report.
    pub notes: Vec<String>,
}

impl PairSplit {
    /// Creates the three sets. For each set without a file of its own, a tenth of the pairs, at most 1,000, is split
    /// off the training file.
    ///
    /// Pairs whose sources are equal after [`normalize`](super::normalize) go to the same set. The split depends only
    /// on the texts, not on the seed, so runs with different seeds compare.
    ///
    /// # Errors
    ///
    /// If there are too few pairs to train on.
    pub fn new(
        train: &PairDataset,
        valid: Option<&PairDataset>,
        test: Option<&PairDataset>,
    ) -> Result<PairSplit, DataError> {
        train.check_trainable()?;
        let held_out = HELD_OUT_FRACTION.min(MAX_HELD_OUT / train.pairs.len() as f64);
        let share = |given: Option<&PairDataset>| if given.is_some() { 0.0 } else { held_out };
        let sources: Vec<&str> = train.pairs.iter().map(|pair| &*pair.source).collect();
        let split = split_texts(&sources, 0, share(valid), share(test));
        let of = |rows: &[usize]| rows.iter().map(|&row| &train.pairs[row]).collect::<SentencePairs>();
        let own = |given: Option<&PairDataset>, rows: &[usize]| match given {
            Some(dataset) => dataset.pairs.iter().collect(),
            None => of(rows),
        };
        let mut notes = Vec::new();
        for (name, other) in [(tr!("validation", "検証"), valid), (tr!("test", "テスト"), test)] {
            let Some(other) = other else { continue };
            let [a, b] = [train, other].map(|data| data.pairs.iter().map(|pair| &*pair.source).collect::<Vec<_>>());
            let shared = shared_rows(&a, &b);
            if let Some(first) = shared.examples.first() {
                notes.push(tr!(
                    "warning: {} of {} {name} pairs have a source that is also in the training file, e.g. {} ({} and \
                     {}): their score says nothing about new texts",
                    "警告: {name}データの {1} 組のうち {0} 組は、原文が学習ファイルにもあります（{2} など。{3} と {4}）。\
                     その評価値からは、新しいテキストについて何も分かりません",
                    shared.count,
                    other.pairs.len(),
                    quote(first.text.as_row().text()),
                    train.location(first.rows[0]),
                    other.location(first.rows[1]),
                ));
            }
        }
        let (train, valid, test) = (of(&split.train), own(valid, &split.valid), own(test, &split.test));
        Ok(PairSplit { train, valid, test, notes })
    }
}
