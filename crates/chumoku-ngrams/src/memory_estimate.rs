//! How many n-grams texts have, estimated from some of them, and the memory that training on them takes.

use super::column_matrix::{MAX_PLAIN, fitting_bytes};
use super::target::num_outputs;
use super::tokens::{NgramReader, NgramScheme};
use chumoku_kernels::parallel;

/// Texts whose n-grams are counted for an estimate.
const SAMPLE_TEXTS: usize = 1 << 10;
/// Bytes of a counted n-gram: its hash, and how often the text has it.
const COUNTED_BYTES: f64 = 12.0;
/// Bytes of counted n-grams that are held at a time. Few in tests, so that some texts are read several times there.
const MAX_COUNTED_BYTES: f64 = if cfg!(test) { 1e6 } else { 1.4e9 };
/// The most leading bits of a slice of hashes.
const MAX_SLICE_BITS: u32 = 6;

/// Estimated numbers of n-grams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NgramEstimate {
    /// N-grams of all texts, each counted once a text.
    pub(crate) ngrams: f64,
    /// N-grams that enough texts have, at the most.
    pub(crate) features: f64,
}

impl NgramEstimate {
    /// Estimates the numbers of n-grams from some of the texts. A feature is an n-gram of `at_least` so many texts.
    pub(crate) fn estimate(texts: &[&str], scheme: &NgramScheme, at_least: u32) -> NgramEstimate {
        /// More texts make rare n-grams features: their number grows a little faster than that of texts at first.
        const GROWTH: f64 = 2.0;
        let step = texts.len().div_ceil(SAMPLE_TEXTS).max(1);
        let sample: Vec<&str> = texts.iter().step_by(step).copied().collect();
        let read = |text: &&str| {
            let mut hashes = NgramReader::default().read(text, scheme).to_vec();
            hashes.dedup();
            hashes
        };
        let mut hashes = parallel::map(&sample, read).concat();
        let bytes = |texts: &[&str]| texts.iter().map(|text| text.len()).sum::<usize>() as f64;
        let scale = bytes(texts) / bytes(&sample).max(1.0);
        let ngrams = hashes.len() as f64 * scale;
        hashes.sort_unstable();
        let of_enough = |same: &&[u64]| same.len() >= at_least as usize;
        let features = hashes.chunk_by(|a, b| a == b).filter(of_enough).count() as f64 * scale;
        NgramEstimate { ngrams, features: if step > 1 { GROWTH * features } else { features } }
    }
}

/// The leading bits of slices if so many n-grams are counted one slice after the other: 0 for all at once.
pub(crate) fn slice_bits(ngrams: f64) -> u32 {
    (0..MAX_SLICE_BITS)
        .find(|bits| COUNTED_BYTES * ngrams <= MAX_COUNTED_BYTES * f64::from(1 << bits))
        .unwrap_or(MAX_SLICE_BITS)
}

/// Texts and validation texts, their answers, and the bounds of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainingEstimate {
    /// Of training and validation texts.
    pub(crate) estimates: [NgramEstimate; 2],
    pub(crate) texts: usize,
    pub(crate) classes: usize,
    pub(crate) is_multi_label: bool,
    pub(crate) max_features: usize,
}

impl TrainingEstimate {
    /// Bytes that training holds at the most: an upper bound, but for what the allocator adds.
    pub(crate) fn bytes(&self) -> f64 {
        /// Bytes of an n-gram in a column of counts: the distance from a row to the next takes three at the most where
        /// there are two million rows.
        const PACKED: f64 = 3.5;
        /// Bytes of a feature: its hash twice, its weight twice, its place in the table of hashes.
        const FEATURE: f64 = 8.0 + 8.0 + 4.0 + 4.0 + 8.0;
        let [NgramEstimate { ngrams, features }, NgramEstimate { ngrams: valid, .. }] = self.estimates;
        let outputs = num_outputs(self.classes, self.is_multi_label);
        let bits = slice_bits(ngrams);
        let is_whole = bits == 0;
        let counted = COUNTED_BYTES * ngrams / f64::from(1 << bits);
        let plain = if ngrams <= MAX_PLAIN as f64 { 8.0 * ngrams } else { 0.0 };
        // The weights of the solution, of the best one so far, and of the model.
        let features = features.min(self.max_features as f64) * (FEATURE + 12.0 * outputs as f64);
        let valid = if is_whole { (COUNTED_BYTES + 8.0) * valid } else { 0.0 };
        // Slices of each text, and the sums of squares of some parts.
        let rows = self.texts as f64 * (64.0 + 8.0 * 16.0);
        counted + PACKED * ngrams + plain + features + valid + rows + fitting_bytes(self.texts, outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plain_frequencies;

    #[test]
    fn some_texts_tell_of_all() {
        let scheme = NgramScheme::default();
        let texts: Vec<String> = (0..5_000).map(|i| format!("row {i} of {} words", i * i % 977)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut reader = NgramReader::default();
        let all: usize = texts.iter().map(|text| reader.read(text, &scheme).chunk_by(|a, b| a == b).count()).sum();
        let found = NgramEstimate::estimate(&texts, &scheme, 2);
        assert!((found.ngrams / all as f64 - 1.0).abs() < 0.02, "{found:?} of {all}");
        let features = |texts: &[&str], at_least: u32| {
            let counts = plain_frequencies(texts, &scheme);
            counts.values().filter(|&&texts| texts >= at_least).count() as f64
        };
        assert!(found.features >= features(&texts, 2), "{found:?} of {}", features(&texts, 2));
        // Few are counted exactly.
        let some = &texts[..900];
        assert_eq!(
            [1, 2].map(|least| NgramEstimate::estimate(some, &scheme, least).features),
            [1, 2].map(|least| features(some, least))
        );
        assert_eq!(NgramEstimate::estimate(&[], &scheme, 1), NgramEstimate::default());
    }

    #[test]
    fn slices_are_as_many_as_memory_wants() {
        assert_eq!([0.0, 80_000.0, 90_000.0, 1e12].map(slice_bits), [0, 0, 1, MAX_SLICE_BITS]);
    }
}
