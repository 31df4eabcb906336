//! Estimates of the number of n-grams from a sample of texts, and of the memory for training.

use super::column_matrix::{MAX_PLAIN, fitting_bytes};
use super::features::{ENTRY_BYTES, GROUP_BYTES, GROUPS};
use super::target::num_outputs;
use super::tokens::{NgramReader, NgramScheme};
use chumoku_kernels::{num_threads, parallel};
use chumoku_text::row::RowRef;

/// Number of texts in the sample.
const SAMPLE_TEXTS: usize = 1 << 10;
/// Bytes per counted n-gram: its hash and its count in the text.
const COUNTED_BYTES: f64 = 12.0;
/// Maximum bytes of counted n-grams in memory. Tests use a small limit, so that some texts are read several times.
const MAX_COUNTED_BYTES: f64 = if cfg!(test) { 1e6 } else { 1.4e9 };
/// Maximum number of leading bits that define a slice of hashes.
const MAX_SLICE_BITS: u32 = 6;

/// Estimated numbers of n-grams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NgramEstimate {
    /// N-grams of all texts, each counted once per text.
    pub(crate) ngrams: f64,
    /// Estimated upper bound of the n-grams that occur in enough texts.
    pub(crate) features: f64,
}

impl NgramEstimate {
    /// Estimates the numbers of n-grams from a sample. A feature is an n-gram that occurs in at least `at_least` texts.
    pub(crate) fn estimate(texts: &[RowRef<'_>], scheme: &NgramScheme, at_least: u32) -> NgramEstimate {
        /// With more texts, rare n-grams become features: at first their number grows a little faster than that of
        /// texts.
        const GROWTH: f64 = 2.0;
        let step = texts.len().div_ceil(SAMPLE_TEXTS).max(1);
        let sample: Vec<RowRef<'_>> = texts.iter().step_by(step).copied().collect();
        let read = |text: &RowRef<'_>| {
            let mut hashes = NgramReader::default().read(*text, scheme).to_vec();
            hashes.dedup();
            hashes
        };
        let mut hashes = parallel::map(&sample, read).concat();
        let scale = text_bytes(texts) / text_bytes(&sample).max(1.0);
        let ngrams = hashes.len() as f64 * scale;
        hashes.sort_unstable();
        let of_enough = |same: &&[u64]| same.len() >= at_least as usize;
        let features = hashes.chunk_by(|a, b| a == b).filter(of_enough).count() as f64 * scale;
        NgramEstimate { ngrams, features: if step > 1 { GROWTH * features } else { features } }
    }
}

/// Returns the bytes of the texts, with their feature values.
pub(crate) fn text_bytes(texts: &[RowRef<'_>]) -> f64 {
    texts.iter().map(|row| row.joined_len()).sum::<usize>() as f64
}

/// Returns a number that the n-grams of the texts do not exceed, each counted once per text. Each length starts at most
/// once per byte; those inside words also at the boundaries of words. Each text of a pair may share all steps of the
/// three overlaps of both blocks.
fn max_ngrams(texts: &[RowRef<'_>], scheme: &NgramScheme) -> f64 {
    let inside = scheme.inside_words.map_or(0, |(shortest, longest)| longest + 1 - shortest);
    let per_byte = scheme.words + scheme.characters + 2 * inside;
    let overlaps = if scheme.pairs { 60 } else { 0 };
    per_byte as f64 * text_bytes(texts) + ((8 * per_byte + overlaps) * texts.len()) as f64
}

/// Returns the number of leading bits that define slices of hashes for these texts. Reads a sample only if
/// [`max_ngrams`] exceeds the memory limit.
pub(crate) fn slice_bits_for(texts: &[RowRef<'_>], scheme: &NgramScheme) -> u32 {
    match slice_bits(max_ngrams(texts, scheme)) {
        0 => 0,
        _ => slice_bits(NgramEstimate::estimate(texts, scheme, 1).ngrams),
    }
}

/// Returns the number of leading bits that define slices of hashes, given the number of n-grams. 0 means that all
/// n-grams are counted at once.
pub(crate) fn slice_bits(ngrams: f64) -> u32 {
    (0..MAX_SLICE_BITS)
        .find(|bits| COUNTED_BYTES * ngrams <= MAX_COUNTED_BYTES * f64::from(1 << bits))
        .unwrap_or(MAX_SLICE_BITS)
}

/// An estimate of training: texts and validation texts, their targets, and the limits of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainingEstimate {
    /// Estimates of training and validation texts.
    pub(crate) estimates: [NgramEstimate; 2],
    pub(crate) texts: usize,
    pub(crate) classes: usize,
    pub(crate) is_multi_label: bool,
    pub(crate) max_features: usize,
}

impl TrainingEstimate {
    /// Returns an upper bound on the bytes held by training, without the allocator's overhead.
    pub(crate) fn bytes(&self) -> f64 {
        /// Bytes of an n-gram in a column of counts. With two million rows, the distance between rows takes at most
        /// three bytes.
        const PACKED: f64 = 3.5;
        /// Bytes of a feature: its hash twice, its weight twice, and its entry in the hash table.
        const FEATURE: f64 = 8.0 + 8.0 + 4.0 + 4.0 + 8.0;
        let [NgramEstimate { ngrams, features }, NgramEstimate { ngrams: valid, .. }] = self.estimates;
        let outputs = num_outputs(self.classes, self.is_multi_label);
        let bits = slice_bits(ngrams);
        let is_whole = bits == 0;
        let counted = COUNTED_BYTES * ngrams / f64::from(1 << bits);
        let plain = if ngrams <= MAX_PLAIN as f64 { 8.0 * ngrams } else { 0.0 };
        // The weights of the current solution, of the best one so far, and of the model.
        let features = features.min(self.max_features as f64) * (FEATURE + 12.0 * outputs as f64);
        // N-grams in the order of their hashes, of one group on each thread.
        let collected =
            (ENTRY_BYTES as f64 * counted / COUNTED_BYTES).min((GROUP_BYTES * num_threads().min(GROUPS)) as f64);
        let valid = if is_whole { (COUNTED_BYTES + 8.0) * valid } else { 0.0 };
        // Row slices of each text, and sums of squares of some column groups.
        let rows = self.texts as f64 * (64.0 + 8.0 * 16.0);
        counted + collected + PACKED * ngrams + plain + features + valid + rows + fitting_bytes(self.texts, outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plain_frequencies;
    use chumoku_text::row::{Row, as_rows};

    #[test]
    fn estimates_from_a_sample_match_all_texts() {
        let scheme = NgramScheme::default();
        let texts: Vec<String> = (0..5_000).map(|i| format!("row {i} of {} words", i * i % 977)).collect();
        let texts = as_rows(&texts);
        let mut reader = NgramReader::default();
        let all: usize = texts.iter().map(|text| reader.read(*text, &scheme).chunk_by(|a, b| a == b).count()).sum();
        let found = NgramEstimate::estimate(&texts, &scheme, 2);
        assert!((found.ngrams / all as f64 - 1.0).abs() < 0.02, "{found:?} of {all}");
        let features = |texts: &[RowRef<'_>], at_least: u32| {
            let counts = plain_frequencies(texts, &scheme);
            counts.values().filter(|&&texts| texts >= at_least).count() as f64
        };
        assert!(found.features >= features(&texts, 2), "{found:?} of {}", features(&texts, 2));
        // Small inputs are counted exactly.
        let some = &texts[..900];
        assert_eq!(
            [1, 2].map(|least| NgramEstimate::estimate(some, &scheme, least).features),
            [1, 2].map(|least| features(some, least))
        );
        assert_eq!(NgramEstimate::estimate(&[], &scheme, 1), NgramEstimate::default());
    }

    #[test]
    fn no_text_has_more_ngrams_than_the_bound() {
        let texts = ["", "a", "a b c d e f g h", "I'm 10 % sure!?", "日本語の文", "ﷺ ㍿ İ ½", "x1y2z3", "..."];
        let pairs = texts.iter().flat_map(|text| [Row::pair(text, "b c 日本"), Row::pair(text, text)]);
        for (rows, pairs) in [(texts.map(Row::from).to_vec(), false), (pairs.collect(), true)] {
            let schemes =
                [(3, 4, None), (3, 4, Some((1, 8))), (1, 1, None), (1, 1, Some((1, 1))), (2, 1, Some((3, 3)))];
            for (words, characters, inside_words) in schemes {
                let scheme = NgramScheme { words, characters, inside_words, pairs, ..NgramScheme::default() };
                for row in as_rows(&rows) {
                    let count = NgramReader::default().read(row, &scheme).chunk_by(|a, b| a == b).count();
                    assert!(count as f64 <= max_ngrams(&[row], &scheme), "{row:?}: {count}");
                }
            }
        }
    }

    #[test]
    fn the_number_of_slices_follows_the_memory_limit() {
        assert_eq!([0.0, 80_000.0, 90_000.0, 1e12].map(slice_bits), [0, 0, 1, MAX_SLICE_BITS]);
    }
}
