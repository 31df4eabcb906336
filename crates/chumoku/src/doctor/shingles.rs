//! Finds nearly equal texts. Each text is cut into *shingles*, overlapping runs of characters. MinHash with banding
//! finds pairs that probably share many of them (Broder, "On the resemblance and containment of documents", 1997). Each
//! candidate pair is then verified by its true Jaccard similarity.

use crate::ngram::hash::finalize;
use crate::text::unspaced_fraction;
use chumoku_kernels::cancel::CancelFlag;
use chumoku_kernels::{fnv1a, parallel};
use rayon::slice::ParallelSliceMut;

/// Smallest Jaccard similarity of nearly equal texts.
pub(super) const MIN_SIMILARITY: f32 = 0.8;

/// Number of bands. Two texts of similarity s agree in a band with probability sᴿ, and in any of B bands with 1 − (1 −
/// sᴿ)ᴮ. That is 0.9993 for s = 0.8, 0.68 for 0.6, and 0.09 for 0.4.
const BANDS: usize = 24;
const ROWS: usize = 6;
/// Texts of a bucket that each text is compared with: the first ones and those just before it. The texts in between are
/// similar to these.
const BUCKET_HEAD: usize = 8;
const BUCKET_RECENT: usize = 16;

/// The length of shingles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shingling {
    /// Characters per shingle.
    length: usize,
}

impl Shingling {
    /// Chooses the length for these texts. It is shorter for scripts without spaces, whose characters carry more
    /// information.
    pub(super) fn for_texts(texts: &[&str]) -> Shingling {
        Shingling { length: if unspaced_fraction(texts.iter().copied()) > 0.3 { 3 } else { 5 } }
    }

    /// Returns the distinct shingles of a text as ascending hashes. Only letters and digits count, in lower case, with
    /// one space for anything between them. If a text has none, all characters count. A text shorter than a shingle is
    /// one shingle.
    pub(super) fn hashes(self, text: &str) -> Vec<u64> {
        let folded = fold_text(text);
        let mut hashes: Vec<u64> = match folded.len() <= self.length {
            true if folded.is_empty() => Vec::new(),
            true => vec![hash(&folded)],
            false => folded.windows(self.length).map(hash).collect(),
        };
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

fn fold_text(text: &str) -> Vec<char> {
    let mut folded: Vec<char> = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c.is_alphanumeric() {
            true => folded.extend(c.to_lowercase()),
            false if folded.last().is_some_and(|last| *last != ' ') => folded.push(' '),
            false => {}
        }
    }
    if folded.last() == Some(&' ') {
        folded.pop();
    }
    if folded.is_empty() { text.split_whitespace().flat_map(str::chars).collect() } else { folded }
}

/// FNV-1a of the characters, then the finalizer of MurmurHash3.
fn hash(shingle: &[char]) -> u64 {
    finalize(fnv1a(shingle.iter().copied()))
}

/// The Jaccard similarity of two ascending lists of shingles; 1 if both are empty.
pub(super) fn jaccard(a: &[u64], b: &[u64]) -> f32 {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, shared) = (i + 1, j + 1, shared + 1),
        }
    }
    let all = a.len() + b.len() - shared;
    if all == 0 { 1.0 } else { shared as f32 / all as f32 }
}

/// Returns the bands of a text. Each band hashes its minimum hashes under [`ROWS`] permutations.
fn bands(shingles: &[u64]) -> [u64; BANDS] {
    let mut least = [u64::MAX; BANDS * ROWS];
    for &shingle in shingles {
        for (order, least) in least.iter_mut().enumerate() {
            // An odd factor for each permutation. The leading bits of the products decide, and they depend on all bits.
            let key = (order as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *least = (*least).min((shingle ^ key).wrapping_mul(key.rotate_left(31) | 1));
        }
    }
    let of_band = |rows: &[u64]| rows.iter().fold(1, |h, &least| finalize(h ^ least));
    std::array::from_fn(|band| of_band(&least[band * ROWS..(band + 1) * ROWS]))
}

/// A pair of nearly equal texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NearPair {
    /// The earlier and the later text.
    pub(super) texts: [usize; 2],
    /// Their Jaccard similarity.
    pub(super) similarity: f32,
}

/// Returns pairs of nearly equal texts, in order. Among many similar texts not every pair is listed, but each text is
/// paired with some earlier one. Empty texts match nothing.
pub(super) fn near_pairs(texts: &[&str], shingling: Shingling) -> Vec<NearPair> {
    let halting = CancelFlag::current();
    let bands: Vec<Option<[u64; BANDS]>> = parallel::map(texts, |text| {
        halting.check();
        Some(shingling.hashes(text)).filter(|shingles| !shingles.is_empty()).map(|shingles| bands(&shingles))
    });
    let of_band = |band: usize| {
        let known = (0..).zip(&bands).filter_map(|(text, bands)| bands.map(|bands| (bands[band], text)));
        let mut places: Vec<(u64, u32)> = known.collect();
        places.sort_unstable();
        let buckets = places.chunk_by(|a, b| a.0 == b.0);
        buckets.flat_map(bucket_pairs).collect::<Vec<[u32; 2]>>()
    };
    let mut candidates: Vec<[u32; 2]> = parallel::map_indices(BANDS, of_band).concat();
    candidates.par_sort_unstable();
    candidates.dedup();
    let verified = |pair: &[u32; 2]| {
        halting.check();
        let pair = pair.map(|text| text as usize);
        let [first, second] = pair.map(|text| shingling.hashes(texts[text]));
        let similarity = jaccard(&first, &second);
        (similarity >= MIN_SIMILARITY).then_some(NearPair { texts: pair, similarity })
    };
    parallel::map(&candidates, verified).into_iter().flatten().collect()
}

/// Returns the pairs of a bucket that are compared.
fn bucket_pairs(bucket: &[(u64, u32)]) -> Vec<[u32; 2]> {
    let with = |later: usize| {
        let before = (0..later.min(BUCKET_HEAD)).chain(later.saturating_sub(BUCKET_RECENT).max(BUCKET_HEAD)..later);
        before.map(move |earlier| [bucket[earlier].1, bucket[later].1])
    };
    (1..bucket.len()).flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENTENCE: &str = "The waiter brought us a bowl of cold soup and a very large bill";

    #[test]
    fn similarity_is_the_jaccard_index_of_the_shingles() {
        let shingling = Shingling { length: 3 };
        let [a, b] = ["abcd", "bcde"].map(|text| shingling.hashes(text));
        // abc, bcd; bcd, cde
        assert_eq!(jaccard(&a, &b), 1.0 / 3.0);
        assert_eq!(jaccard(&a, &a), 1.0);
        // Punctuation and case are ignored, unless there is nothing else.
        assert_eq!(shingling.hashes("A fine  day!"), shingling.hashes("a FINE day"));
        assert_ne!(shingling.hashes(":-)"), shingling.hashes(":-("));
        assert!(shingling.hashes(" \n").is_empty());
        assert_eq!(shingling.hashes("ab").len(), 1);
    }

    #[test]
    fn similar_texts_are_found_among_many() {
        let mut texts: Vec<String> =
            (0..300).map(|i| format!("{} says {} to number {i}", i * 7919 % 1000, i * 104_729 % 997)).collect();
        texts[20] = SENTENCE.into();
        texts[250] = SENTENCE.replace("cold", "bold") + "!";
        texts[280] = SENTENCE.to_uppercase();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = near_pairs(&texts, Shingling::for_texts(&texts));
        assert_eq!(found.iter().map(|near| near.texts).collect::<Vec<_>>(), [[20, 250], [20, 280], [250, 280]]);
        assert_eq!(found[1].similarity, 1.0);
        // Five of the five-character shingles differ.
        let all = Shingling::for_texts(&texts).hashes(SENTENCE).len() as f32;
        assert!((found[0].similarity - (all - 5.0) / (all + 5.0)).abs() < 1e-6, "{found:?} {all}");
    }

    #[test]
    fn japanese_texts_use_shorter_shingles() {
        let texts = ["部屋がとても広くて快適でした。", "部屋がとても広くて快適でした", "朝食は普通でした。"];
        assert_eq!(Shingling::for_texts(&texts), Shingling { length: 3 });
        assert_eq!(near_pairs(&texts, Shingling::for_texts(&texts)), [NearPair { texts: [0, 1], similarity: 1.0 }]);
    }

    /// Each of a thousand equal texts is compared with few others, and all are linked.
    #[test]
    fn many_equal_texts_take_few_comparisons() {
        let texts = vec![SENTENCE; 1000];
        let found = near_pairs(&texts, Shingling::for_texts(&texts));
        assert!(found.len() <= 1000 * (BUCKET_HEAD + BUCKET_RECENT), "{}", found.len());
        for later in 1..1000 {
            assert!(found.iter().any(|near| near.texts == [0, later]), "{later}");
        }
    }
}
