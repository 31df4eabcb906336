//! Selects texts to label next: texts that the models are least certain of, and that differ from each other and from
//! the labeled ones.

use super::shingles::{NearPair, Shingling, jaccard, near_pairs};
use crate::sorting;

/// A text to label next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AnnotationCandidate {
    /// The row of the unlabeled file, from 0.
    pub row: usize,
    /// The most probable class.
    pub class: u32,
    /// Its probability.
    pub probability: f32,
    /// The uncertainty of the models: 1 minus the difference of the two largest probabilities.
    pub(crate) uncertainty: f32,
}

/// Size of the candidate pool, as a multiple of the number to select.
const POOL_FACTOR: usize = 10;

/// Returns the most probable class and the two largest probabilities.
pub(super) fn top_two(probabilities: &[f32]) -> (u32, [f32; 2]) {
    let (mut class, mut top) = (0, [0.0_f32; 2]);
    for (other, &p) in (0..).zip(probabilities) {
        match p > top[0] {
            true => (class, top) = (other, [p, top[0]]),
            false => top[1] = top[1].max(p),
        }
    }
    (class, top)
}

/// Selects up to `count` texts from the `probabilities` (texts, classes), greedily. Each step takes the text with the
/// largest product of uncertainty and dissimilarity to the texts selected so far. Texts nearly equal to labeled or
/// selected ones are skipped.
pub(super) fn select(
    texts: &[&str],
    probabilities: &[f32],
    labelled: &[&str],
    shingling: Shingling,
    count: usize,
) -> Vec<AnnotationCandidate> {
    let classes = probabilities.len() / texts.len().max(1);
    let of = |row: usize| {
        let (class, [first, second]) = top_two(&probabilities[row * classes..][..classes]);
        AnnotationCandidate { row, class, probability: first, uncertainty: 1.0 - (first - second) }
    };
    let all: Vec<&str> = labelled.iter().chain(texts).copied().collect();
    let mut is_known = vec![false; texts.len()];
    for NearPair { texts: [known, row], .. } in near_pairs(&all, shingling) {
        if known < labelled.len() && row >= labelled.len() {
            is_known[row - labelled.len()] = true;
        }
    }
    let has_words = |row: &usize| texts[*row].chars().any(char::is_alphanumeric);
    let mut pool: Vec<AnnotationCandidate> =
        (0..texts.len()).filter(|row| !is_known[*row] && has_words(row)).map(of).collect();
    sorting::sort_by(&mut pool, |a, b| b.uncertainty.total_cmp(&a.uncertainty).then(a.row.cmp(&b.row)));
    pool.truncate(count.saturating_mul(POOL_FACTOR));
    let shingles: Vec<Vec<u64>> = pool.iter().map(|next| shingling.hashes(texts[next.row])).collect();
    let mut likeness = vec![0.0_f32; pool.len()];
    let mut taken = Vec::new();
    while taken.len() < count {
        let score = |at: usize| pool[at].uncertainty * (1.0 - likeness[at]);
        let free = (0..pool.len()).filter(|&at| likeness[at] < super::shingles::MIN_SIMILARITY);
        let best = free.max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a)));
        let Some(best) = best else { break };
        taken.push(pool[best]);
        for (likeness, other) in likeness.iter_mut().zip(&shingles) {
            *likeness = likeness.max(jaccard(&shingles[best], other));
        }
        likeness[best] = 1.0;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertain_and_dissimilar_texts_come_first() {
        let texts = ["a cold soup", "a cold soup!", "the bill was large", "well known text", "a dull evening", "…"];
        let probabilities = [0.5, 0.5, 0.51, 0.49, 0.75, 0.25, 0.5, 0.5, 0.9, 0.1, 0.5, 0.5];
        let labelled = ["Well known text."];
        let found = select(&texts, &probabilities, &labelled, Shingling::for_texts(&texts), 10);
        assert_eq!(found.iter().map(|next| next.row).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(found[1], AnnotationCandidate { row: 2, class: 0, probability: 0.75, uncertainty: 0.5 });
        assert_eq!(select(&texts, &probabilities, &labelled, Shingling::for_texts(&texts), 1).len(), 1);
        assert_eq!(select(&[], &[], &labelled, Shingling::for_texts(&texts), 3), []);
    }

    #[test]
    fn ties_go_to_the_first_class() {
        assert_eq!(top_two(&[0.2, 0.4, 0.4]), (1, [0.4, 0.4]));
    }
}
