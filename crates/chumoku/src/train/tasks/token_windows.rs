//! Windows of documents: the sections that a language model or an encoder in pretraining reads at once.

use crate::train::training_loop::random_streams;
use chumoku_kernels::Philox;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The section of a document that is read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenWindow {
    pub(super) document: usize,
    pub(super) tokens: Range<usize>,
}

/// Divides documents of these lengths into windows of at most `most` tokens. The first window of each document has
/// length `first`.
pub(super) fn windows(
    lengths: impl IntoIterator<Item = usize>,
    most: usize,
    first: impl Fn(usize) -> usize,
) -> Vec<TokenWindow> {
    let mut found = Vec::new();
    for (document, end) in lengths.into_iter().enumerate() {
        let mut start = 0;
        let mut stop = first(document).clamp(1, most).min(end);
        while start < end {
            found.push(TokenWindow { document, tokens: start..stop });
            (start, stop) = (stop, end.min(stop + most));
        }
    }
    found
}

/// The windows of the training documents. Each epoch divides documents at other positions.
#[derive(Debug)]
pub(super) struct EpochWindows {
    lengths: Vec<usize>,
    /// The maximum length of a window.
    most: usize,
    /// Documents of at most this length stay whole.
    whole: usize,
    /// The windows of the most recent epoch, with its number.
    last: Mutex<(u64, Arc<Vec<TokenWindow>>)>,
}

impl EpochWindows {
    /// Prepares windows of at most `most` tokens, for documents of these lengths.
    pub(super) fn new(lengths: impl IntoIterator<Item = usize>, most: usize) -> EpochWindows {
        EpochWindows { lengths: lengths.into_iter().collect(), most, whole: 0, last: Mutex::default() }
    }

    /// Keeps documents whole that fit into one window.
    pub(super) fn keep_short_documents(self) -> EpochWindows {
        EpochWindows { whole: self.most, ..self }
    }

    /// Returns the windows of an epoch.
    pub(super) fn of_epoch(&self, seed: u64, epoch: u64) -> Arc<Vec<TokenWindow>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1.is_empty() || last.0 != epoch {
            let random = Philox::new(seed, random_streams::WINDOWS + epoch);
            let first = |document: usize| match self.lengths[document] <= self.whole {
                true => self.most,
                false => 1 + (f64::from(random.uniform(document as u64)) * self.most as f64) as usize,
            };
            *last = (epoch, Arc::new(windows(self.lengths.iter().copied(), self.most, first)));
        }
        Arc::clone(&last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 5] = [10, 5, 1, 0, 23];

    fn check(found: &[TokenWindow]) {
        let mut seen = vec![Vec::new(); LENGTHS.len()];
        for TokenWindow { document, tokens } in found {
            assert!(!tokens.is_empty() && tokens.len() <= 5, "{document} {tokens:?}");
            seen[*document].extend(tokens.clone());
        }
        let all = LENGTHS.map(|length| (0..length).collect::<Vec<_>>());
        assert_eq!(seen, all);
    }

    #[test]
    fn every_token_is_in_one_window() {
        for first in 1..9 {
            check(&windows(LENGTHS, 5, |_| first));
        }
    }

    #[test]
    fn every_epoch_has_other_windows() {
        let of_document = |found: &[TokenWindow], document| found.iter().filter(|at| at.document == document).count();
        let (all, long) = (EpochWindows::new(LENGTHS, 5), EpochWindows::new(LENGTHS, 5).keep_short_documents());
        let mut seen = std::collections::HashSet::new();
        for epoch in 0..20 {
            let [found, kept] = [&all, &long].map(|windows| windows.of_epoch(7, epoch));
            check(&found);
            check(&kept);
            assert_eq!(of_document(&kept, 1), 1, "short ones stay whole");
            seen.insert(found.iter().map(|window| window.tokens.clone()).collect::<Vec<_>>());
        }
        assert!(seen.len() > 10, "{}", seen.len());
    }
}
