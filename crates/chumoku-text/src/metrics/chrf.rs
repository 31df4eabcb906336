//! chrF: how many sequences of characters translations and references share, which asks for no words.

use super::{MetricError, check_lines, is_space, ngrams, of_line, version, words};
use std::fmt;
use std::hash::Hash;

/// Corpus chrF, from 0 to 100, with letter case and without white space, as sacreBLEU computes it.
///
/// ```text
/// chrFᵦ = 100 · (1 + β²) · P · R / (β² · P + R)
/// P, R: means over the orders of  matches / n-grams of the translations,  matches / n-grams of the references
/// ```
///
/// Characters are Unicode code points; the orders are those of characters and then of words, and an order counts if both
/// sides have n-grams of it. Of several references that of a line counts which is closest by its own score.
///
/// Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation" (2015); word orders: Popović, "chrF++:
/// words helping character n-grams" (2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chrf {
    /// The longest sequences of characters: 6 by default.
    pub char_order: usize,
    /// The longest sequences of words: 0 for chrF, 2 for chrF++.
    pub word_order: usize,
    /// β: recall weighs β times as much as precision; 2 by default.
    pub beta: u32,
}

/// What chrF counts; the counts of lines add up to those of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChrfCounts {
    metric: Chrf,
    /// N-grams of the translations, of the references, and matches: by order, characters first.
    orders: Vec<[u64; 3]>,
}

/// A chrF score and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChrfScore {
    /// What it is a score of.
    pub metric: Chrf,
    /// The score, from 0 to 100.
    pub score: f64,
    /// The mean precision, in per cent.
    pub precision: f64,
    /// The mean recall, in per cent.
    pub recall: f64,
}

impl Default for Chrf {
    /// chrF2.
    fn default() -> Self {
        Chrf { char_order: 6, word_order: 0, beta: 2 }
    }
}

impl Chrf {
    /// chrF2++: words and pairs of words count too.
    pub fn plus_plus() -> Self {
        Chrf { word_order: 2, ..Chrf::default() }
    }

    /// Its name: `chrF2`, `chrF2++`.
    pub fn name(&self) -> String {
        format!("chrF{}{}", self.beta, "+".repeat(self.word_order))
    }

    /// Counts of nothing.
    fn nothing(&self) -> ChrfCounts {
        ChrfCounts { metric: *self, orders: vec![[0; 3]; self.char_order + self.word_order] }
    }

    /// Counts one line against that of its references which it is closest to.
    pub fn count<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> ChrfCounts {
        let hypothesis = Line::of(hypothesis);
        let mut best: Option<(f64, ChrfCounts)> = None;
        for reference in references {
            let reference = Line::of(reference.as_ref());
            let mut counts = self.nothing();
            let (of_chars, of_words) = counts.orders.split_at_mut(self.char_order);
            of_chars.iter_mut().zip(1..).for_each(|(order, n)| *order = shared(&hypothesis.chars, &reference.chars, n));
            of_words.iter_mut().zip(1..).for_each(|(order, n)| *order = shared(&hypothesis.words, &reference.words, n));
            let score = counts.score().score;
            if best.as_ref().is_none_or(|&(highest, _)| score > highest) {
                best = Some((score, counts));
            }
        }
        best.map_or_else(|| self.nothing(), |(_, counts)| counts)
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
        let mut sum = self.nothing();
        for (line, hypothesis) in hypotheses.iter().enumerate() {
            sum.add(&self.count(hypothesis.as_ref(), &of_line(references, line)));
        }
        Ok(sum.score())
    }

    /// What a score with so many sets of references means, as sacreBLEU writes it; the version is our own.
    pub fn signature(&self, references: usize) -> String {
        let Chrf { char_order, word_order, .. } = self;
        format!("nrefs:{references}|case:mixed|eff:yes|nc:{char_order}|nw:{word_order}|space:no|{}", version())
    }
}

/// A line as chrF sees it.
struct Line<'a> {
    /// Its characters without white space.
    chars: Vec<char>,
    /// Its words, with one ASCII mark at the end or else at the beginning as a word of its own.
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let mut cut = Vec::new();
        for word in words(text) {
            let (mut front, mut back) = (word.chars(), word.chars());
            let (first, last) = (front.next(), back.next_back());
            let is_mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
            // A word of one character leaves nothing on either side.
            if back.as_str().is_empty() {
                cut.push(word);
            } else if is_mark(last) {
                cut.extend([back.as_str(), &word[back.as_str().len()..]]);
            } else if is_mark(first) {
                cut.extend([&word[..word.len() - front.as_str().len()], front.as_str()]);
            } else {
                cut.push(word);
            }
        }
        Line { chars: text.chars().filter(|&c| !is_space(c)).collect(), words: cut }
    }
}

/// The n-grams of a translation, of a reference, and those they share. Where the reference has none, those of the
/// translation do not count.
fn shared<T: Eq + Hash>(hypothesis: &[T], reference: &[T], n: usize) -> [u64; 3] {
    let of = |tokens: &[T]| (tokens.len() + 1).saturating_sub(n) as u64;
    let reference_ngrams = ngrams(reference, n);
    let matches = |(ngram, count): (&[T], u64)| count.min(reference_ngrams.get(ngram).copied().unwrap_or(0));
    let matches = ngrams(hypothesis, n).into_iter().map(matches).sum();
    [if of(reference) == 0 { 0 } else { of(hypothesis) }, of(reference), matches]
}

impl ChrfCounts {
    /// Adds the counts of another line or corpus.
    ///
    /// # Panics
    /// If they are counts of another metric, which is a mistake of the caller's.
    pub fn add(&mut self, other: &ChrfCounts) {
        assert_eq!(self.metric, other.metric, "counts of two metrics do not add up");
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
            let factor = f64::from(self.metric.beta).powi(2);
            score = (1.0 + factor) * precision * recall / (factor * precision + recall);
        }
        ChrfScore { metric: self.metric, score: 100.0 * score, precision: 100.0 * precision, recall: 100.0 * recall }
    }
}

impl fmt::Display for ChrfScore {
    /// `chrF2 = 52.98`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:.2}", self.metric.name(), self.score)
    }
}
