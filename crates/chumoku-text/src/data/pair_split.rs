//! Sentence pairs in three parts: to learn from, to choose by, to report.

use super::error::DataError;
use super::pairs::{PairDataset, SentencePair};
use super::split::{shared_rows, split_texts};
use crate::lang::wording::quote;
use crate::tr;

/// The share of pairs held out for validation, and for testing.
const HELD_OUT_FRACTION: f64 = 0.1;
/// The most pairs of each: translating them takes time, and more would not make the scores much surer.
const MAX_HELD_OUT: f64 = 1_000.0;

/// Texts and their translations, side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentencePairs {
    /// What is translated.
    pub sources: Vec<String>,
    /// What each source becomes.
    pub targets: Vec<String>,
}

impl SentencePairs {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there is none.
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

/// Pairs to learn from, to choose by and to report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairSplit {
    /// To learn from.
    pub train: SentencePairs,
    /// To choose by: when to stop, which settings.
    pub valid: SentencePairs,
    /// To report.
    pub test: SentencePairs,
    /// What the reader of the report should know: what was odd.
    pub notes: Vec<String>,
}

impl PairSplit {
    /// Parts of the files given: a tenth of the pairs, at most 1,000, is split off the training file for each part that
    /// has no file of its own.
    ///
    /// Pairs whose sources are equal after [`normalize`](super::normalize) go to the same part, and the split depends
    /// on the texts alone, not on the seed, so runs with different seeds compare.
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
        let split = split_texts(train.pairs.iter().map(|pair| &*pair.source), 0, share(valid), share(test));
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
                    quote(&first.text),
                    train.location(first.rows[0]),
                    other.location(first.rows[1]),
                ));
            }
        }
        let (train, valid, test) = (of(&split.train), own(valid, &split.valid), own(test, &split.test));
        Ok(PairSplit { train, valid, test, notes })
    }
}
