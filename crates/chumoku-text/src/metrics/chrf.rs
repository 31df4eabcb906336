//! chrF: how many sequences of characters translations and references share, which asks for no words.

use super::{MetricError, check_lines, is_space, line_references, ngrams, version};
use std::fmt;

/// The longest sequences of characters that count.
const ORDER: usize = 6;
/// Recall weighs this many times as much as precision.
const BETA: f64 = 2.0;

/// Corpus chrF2, from 0 to 100, with letter case and without white space, as sacreBLEU computes it.
///
/// ```text
/// chrF2 = 100 · (1 + β²) · P · R / (β² · P + R),   β = 2
/// P, R: means over the orders 1 to 6 of  matches / n-grams of the translations,  matches / n-grams of the references
/// ```
///
/// Characters are Unicode code points, and an order counts if both sides have n-grams of it. Of several references of a
/// line, the one with the highest score of its own counts.
///
/// Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation" (2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chrf;

/// What chrF counts; the counts of lines add up to those of a corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChrfCounts {
    /// N-grams of the translations, of the references, and matches: by order.
    orders: [[u64; 3]; ORDER],
}

/// A chrF score and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChrfScore {
    /// The score, from 0 to 100.
    pub score: f64,
    /// The mean precision, in per cent.
    pub precision: f64,
    /// The mean recall, in per cent.
    pub recall: f64,
}

impl Chrf {
    /// Counts one line against that of its references which it is closest to.
    pub fn count<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> ChrfCounts {
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
    /// `references` holds one set or more, each with one line for every hypothesis.
    ///
    /// # Errors
    /// If there is no line, no set of references, or a set of another number of lines.
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

    /// What a score with so many sets of references means, as sacreBLEU writes it; the version is our own.
    pub fn signature(&self, references: usize) -> String {
        format!("nrefs:{references}|case:mixed|eff:yes|nc:{ORDER}|nw:0|space:no|{}", version())
    }
}

/// The n-grams of a translation, of a reference, and those they share. Where the reference has none, those of the
/// translation do not count.
fn count_ngrams(hypothesis: &[char], reference: &[char], n: usize) -> [u64; 3] {
    let of = |characters: &[char]| (characters.len() + 1).saturating_sub(n) as u64;
    let reference_ngrams = ngrams(reference, n);
    let matches = |(ngram, count): (&[char], u64)| count.min(reference_ngrams.get(ngram).copied().unwrap_or(0));
    let matches = ngrams(hypothesis, n).into_iter().map(matches).sum();
    [if of(reference) == 0 { 0 } else { of(hypothesis) }, of(reference), matches]
}

impl ChrfCounts {
    /// Adds the counts of another line or corpus.
    pub fn add(&mut self, other: &ChrfCounts) {
        for (sum, order) in self.orders.iter_mut().zip(&other.orders) {
            sum.iter_mut().zip(order).for_each(|(sum, count)| *sum += count);
        }
    }

    /// The score of what was counted.
    pub fn score(&self) -> ChrfScore {
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
