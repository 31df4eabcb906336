//! How many n-grams texts have, estimated from some of them, and the memory that training on them takes.

use super::answer::outputs_of;
use super::columns::{MOST_PLAIN, bytes_of_fitting};
use super::tokens::{NgramScheme, Reader};
use chumoku_kernels::parallel;

/// Texts whose n-grams are counted for an estimate.
const SAMPLE: usize = 1 << 10;
/// Bytes of a counted n-gram: its hash, and how often the text has it.
const COUNTED: f64 = 12.0;
/// Bytes of counted n-grams that are held at a time. Few in tests, so that some texts are read several times there.
const MOST_COUNTED: f64 = if cfg!(test) { 1e6 } else { 1e9 };
/// The most leading bits of a slice of hashes.
const MOST_BITS: u32 = 6;

/// N-grams of all texts, each counted once a text, about.
pub(crate) fn ngrams_of(texts: &[&str], scheme: &NgramScheme) -> f64 {
    let sample: Vec<&str> = texts.iter().step_by(texts.len().div_ceil(SAMPLE).max(1)).copied().collect();
    let count = |text: &&str| Reader::default().read(text, scheme).chunk_by(|a, b| a == b).count();
    let found: usize = parallel::map(&sample, count).iter().sum();
    let bytes = |texts: &[&str]| texts.iter().map(|text| text.len()).sum::<usize>() as f64;
    found as f64 * bytes(texts) / bytes(&sample).max(1.0)
}

/// The leading bits of slices if so many n-grams are counted one slice after the other: 0 for all at once.
pub(crate) fn bits_of_slices(ngrams: f64) -> u32 {
    (0..MOST_BITS).find(|bits| COUNTED * ngrams <= MOST_COUNTED * f64::from(1 << bits)).unwrap_or(MOST_BITS)
}

/// Texts and validation texts, their answers, and the bounds of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    /// N-grams of training and validation texts, each counted once a text.
    pub(crate) ngrams: [f64; 2],
    pub(crate) texts: usize,
    pub(crate) classes: usize,
    pub(crate) is_set: bool,
    /// Texts that must contain an n-gram for it to be a feature.
    pub(crate) at_least: u32,
    pub(crate) most_features: usize,
}

impl Amounts {
    /// Bytes that training holds at the most: an upper bound, but for what the allocator adds.
    pub(crate) fn bytes(&self) -> f64 {
        /// Bytes of an n-gram in a column of counts: the distance from a row to the next takes three at the most where
        /// there are two million rows.
        const PACKED: f64 = 3.5;
        /// Bytes of a feature: its hash twice, its weight twice, its place in the table of hashes.
        const FEATURE: f64 = 8.0 + 8.0 + 4.0 + 4.0 + 8.0;
        let [ngrams, valid] = self.ngrams;
        let outputs = outputs_of(self.classes, self.is_set);
        let bits = bits_of_slices(ngrams);
        let is_whole = bits == 0;
        let counted = COUNTED * ngrams / f64::from(1 << bits);
        let plain = if ngrams <= MOST_PLAIN as f64 { 8.0 * ngrams } else { 0.0 };
        let features = (ngrams / f64::from(self.at_least.max(1))).min(self.most_features as f64);
        // The weights of the solution, of the best one so far, and of the model.
        let features = features * (FEATURE + 12.0 * outputs as f64);
        let valid = if is_whole { (COUNTED + 8.0) * valid } else { 0.0 };
        // Slices of each text, and the sums of squares of some parts.
        let rows = self.texts as f64 * (64.0 + 8.0 * 16.0);
        counted + PACKED * ngrams + plain + features + valid + rows + bytes_of_fitting(self.texts, outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_texts_tell_of_all() {
        let scheme = NgramScheme::default();
        let texts: Vec<String> = (0..5_000).map(|i| format!("row {i} of {} words", i * i % 977)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut reader = Reader::default();
        let all: usize = texts.iter().map(|text| reader.read(text, &scheme).chunk_by(|a, b| a == b).count()).sum();
        let found = ngrams_of(&texts, &scheme);
        assert!((found / all as f64 - 1.0).abs() < 0.02, "{found} of {all}");
        assert_eq!(ngrams_of(&[], &scheme), 0.0);
    }

    #[test]
    fn slices_are_as_many_as_memory_wants() {
        assert_eq!([0.0, 80_000.0, 90_000.0, 1e12].map(bits_of_slices), [0, 0, 1, MOST_BITS]);
    }
}
