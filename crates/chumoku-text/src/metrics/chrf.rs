//! chrF: the character n-grams that translations and references share. It does not depend on word boundaries.

use super::{MetricError, check_lines, is_space, line_references, ngrams, version};
use std::fmt;

/// The longest character n-gram that counts.
const ORDER: usize = 6;
/// The weight of recall relative to precision.
const BETA: f64 = 2.0;

/// Corpus chrF2 from 0 to 100, case-sensitive and without white space, as in sacreBLEU.
///
/// ```text
/// chrF2 = 100 · (1 + β²) · P · R / (β² · P + R),   β = 2
/// P, R: means over the orders 1 to 6 of  matches / n-grams of the translations,  matches / n-grams of the references
/// ```
///
/// Characters are Unicode code points. An order counts if both sides have n-grams of it. If a line has several
/// references, the one with the highest chrF counts.
///
/// Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation" (2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chrf;

/// N-gram counts. The counts of a corpus are the sums of those of its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChrfCounts {
    /// For each order: n-grams of the translations, n-grams of the references, matches.
    orders: [[u64; 3]; ORDER],
}

/// A chrF score and its components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChrfScore {
    /// The score, from 0 to 100.
    pub score: f64,
    /// The mean precision, in percent.
    pub(crate) precision: f64,
    /// The mean recall, in percent.
    pub(crate) recall: f64,
}

impl Chrf {
    /// Counts the n-grams of one line against its closest reference.
    pub(crate) fn count<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> ChrfCounts {
        let characters = |text: &str| text.chars().filter(|&c| !is_space(c)).collect::<Vec<char>>();
        let hypothesis = characters(hypothesis);
        let mut best: Option<(f64, ChrfCounts)> = None;
        for reference in references {
            let reference = characters(reference.as_ref());
            let orders = std::array::from_fn(|order| count_ngrams(&hypothesis, &reference, order + 1));
            let counts = ChrfCounts { orders };
            let score = counts.score().score;
            if best.as_ref().is_none_or(|&(highest, _)| score > highest) {
                best = Some((score, counts));
            }
        }
        best.map(|(_, counts)| counts).unwrap_or_default()
    }

    /// Scores a corpus.
    ///
    /// `references` holds one or more sets, each with one line for every hypothesis.
    ///
    /// # Errors
    /// If there are no lines or no references, or if a set has another number of lines.
    pub fn corpus<H: AsRef<str>, R: AsRef<str>>(
        &self,
        hypotheses: &[H],
        references: &[&[R]],
    ) -> Result<ChrfScore, MetricError> {
        check_lines(hypotheses.len(), references)?;
        let mut sum = ChrfCounts::default();
        for (line, hypothesis) in hypotheses.iter().enumerate() {
            sum.add(&self.count(hypothesis.as_ref(), &line_references(references, line)));
        }
        Ok(sum.score())
    }

    /// Returns the signature of a score, as sacreBLEU writes it, for this number of reference sets. The version is
    /// chumoku's.
    pub fn signature(&self, references: usize) -> String {
        format!("nrefs:{references}|case:mixed|eff:yes|nc:{ORDER}|nw:0|space:no|{}", version())
    }
}

/// Counts the n-grams of a translation, of a reference, and those they share. If the reference has none of this order,
/// the n-grams of the translation do not count.
fn count_ngrams(hypothesis: &[char], reference: &[char], n: usize) -> [u64; 3] {
    let of = |characters: &[char]| (characters.len() + 1).saturating_sub(n) as u64;
    let reference_ngrams = ngrams(reference, n);
    let matches = |(ngram, count): (&[char], u64)| count.min(reference_ngrams.get(ngram).copied().unwrap_or(0));
    let matches = ngrams(hypothesis, n).into_iter().map(matches).sum();
    [if of(reference) == 0 { 0 } else { of(hypothesis) }, of(reference), matches]
}

impl ChrfCounts {
    /// Adds the counts of another line or corpus.
    pub(crate) fn add(&mut self, other: &ChrfCounts) {
        for (sum, order) in self.orders.iter_mut().zip(&other.orders) {
            sum.iter_mut().zip(order).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Computes the score from the counts.
    pub(crate) fn score(&self) -> ChrfScore {
        let (mut precision, mut recall, mut effective) = (0.0, 0.0, 0.0);
        for &[hypothesis, reference, matches] in &self.orders {
            if hypothesis > 0 && reference > 0 {
                precision += matches as f64 / hypothesis as f64;
                recall += matches as f64 / reference as f64;
                effective += 1.0;
            }
        }
        let mut score = 0.0;
        if precision + recall > 0.0 {
            precision /= effective;
            recall /= effective;
            let factor = BETA.powi(2);
            score = (1.0 + factor) * precision * recall / (factor * precision + recall);
        }
        ChrfScore { score: 100.0 * score, precision: 100.0 * precision, recall: 100.0 * recall }
    }
}

impl fmt::Display for ChrfScore {
    /// `chrF2 = 52.98`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chrF2 = {:.2}", self.score)
    }
}
