//! BLEU: the fraction of n-grams that occur in the references, with a penalty for translations that are too short.

use super::tokens::BleuTokenizer;
use super::{MetricError, check_lines, line_references, ngrams, version, words};
use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;

/// The longest n-gram that BLEU counts.
pub(crate) const MAX_ORDER: usize = 4;

/// Corpus BLEU from 0 to 100, case-sensitive, with smoothing `exp` and orders 1 to 4, as in sacreBLEU.
///
/// ```text
/// BLEU = BP · exp(¼ · Σₙ ln pₙ)      pₙ = 100 · matches / totals of n-grams, n = 1 … 4, over the whole corpus
/// BP   = exp(1 − r / c) if c < r, else 1      c, r: lengths of the translations and of the references, in tokens
/// ```
///
/// An n-gram matches at most as often as it occurs in one of its line's references. The reference closest in length
/// determines r, and the shorter one wins a tie. The k-th order without a match has pₙ = 100 / (2ᵏ · totals).
///
/// Source: Papineni, Roukos, Ward and Zhu, "BLEU: a Method for Automatic Evaluation of Machine Translation" (2002);
/// smoothing: Chen and Cherry, "A Systematic Comparison of Smoothing Techniques for Sentence-Level BLEU" (2014), method
/// 3; details: Post, "A Call for Clarity in Reporting BLEU Scores" (2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bleu {
    /// The tokenizer.
    pub tokenizer: BleuTokenizer,
}

/// N-gram counts. The counts of a corpus are the sums of those of its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BleuCounts {
    /// N-grams of the translations that occur in the references, by order.
    pub matches: [u64; MAX_ORDER],
    /// All n-grams of the translations, by order.
    pub totals: [u64; MAX_ORDER],
    /// Number of tokens in the translations.
    pub(crate) hypothesis_length: u64,
    /// Number of tokens in the references closest in length.
    pub(crate) reference_length: u64,
}

/// A BLEU score and its components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BleuScore {
    /// The score, from 0 to 100.
    pub score: f64,
    /// The precisions by order, in percent, after smoothing. All are 0 if nothing matches.
    pub(crate) precisions: [f64; MAX_ORDER],
    /// The brevity penalty, from 0 to 1.
    pub(crate) brevity_penalty: f64,
    /// The counts behind the score.
    pub(crate) counts: BleuCounts,
}

impl Bleu {
    /// Creates the metric with a tokenizer.
    pub fn new(tokenizer: BleuTokenizer) -> Self {
        Bleu { tokenizer }
    }

    /// Counts the n-grams of one line against its references.
    pub(crate) fn count<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> BleuCounts {
        let hypothesis = self.tokenizer.tokenize(hypothesis);
        let hypothesis: Vec<&str> = words(&hypothesis).collect();
        let references: Vec<String> = references.iter().map(|text| self.tokenizer.tokenize(text.as_ref())).collect();
        let references: Vec<Vec<&str>> = references.iter().map(|text| words(text).collect()).collect();
        let length = hypothesis.len();
        let closest = references.iter().map(Vec::len).min_by_key(|&found| (found.abs_diff(length), found));
        let mut counts = BleuCounts {
            hypothesis_length: length as u64,
            reference_length: closest.unwrap_or(0) as u64,
            ..BleuCounts::default()
        };
        for n in 1..=MAX_ORDER {
            let mut most: HashMap<&[&str], u64> = HashMap::new();
            for (ngram, count) in references.iter().flat_map(|reference| ngrams(reference, n)) {
                let entry = most.entry(ngram).or_default();
                *entry = count.max(*entry);
            }
            for (ngram, count) in ngrams(&hypothesis, n) {
                counts.totals[n - 1] += count;
                counts.matches[n - 1] += count.min(most.get(ngram).copied().unwrap_or(0));
            }
        }
        counts
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
    ) -> Result<BleuScore, MetricError> {
        check_lines(hypotheses.len(), references)?;
        let mut counts = BleuCounts::default();
        for (line, hypothesis) in hypotheses.iter().enumerate() {
            counts += self.count(hypothesis.as_ref(), &line_references(references, line));
        }
        Ok(counts.score())
    }

    /// Returns the signature of a score, as sacreBLEU writes it, for this number of reference sets. The version is
    /// chumoku's.
    pub fn signature(&self, references: usize) -> String {
        let tokens = self.tokenizer.name();
        format!("nrefs:{references}|case:mixed|eff:no|tok:{tokens}|smooth:exp|{}", version())
    }
}

impl BleuCounts {
    /// Computes the score from the counts.
    pub(crate) fn score(&self) -> BleuScore {
        let (length, reference) = (self.hypothesis_length as f64, self.reference_length as f64);
        // For an empty translation the exponent is −∞ and the penalty 0.
        let brevity_penalty = if length < reference { (1.0 - reference / length).exp() } else { 1.0 };
        let mut precisions = [0.0; MAX_ORDER];
        let mut score = 0.0;
        if self.matches.iter().any(|&matches| matches > 0) {
            let mut halving = 1.0;
            for ((precision, &matches), &total) in precisions.iter_mut().zip(&self.matches).zip(&self.totals) {
                if total == 0 {
                    break;
                }
                if matches == 0 {
                    halving *= 2.0;
                    *precision = 100.0 / (halving * total as f64);
                } else {
                    *precision = 100.0 * matches as f64 / total as f64;
                }
            }
            // An order without n-grams has the logarithm −∞, so the score is 0.
            let mean = (precisions.iter().map(|p: &f64| p.ln()).sum::<f64>() / MAX_ORDER as f64).exp();
            // Rounding can put e^(ln 100) above 100.
            score = (brevity_penalty * mean).min(100.0);
        }
        BleuScore { score, precisions, brevity_penalty, counts: *self }
    }
}

impl AddAssign for BleuCounts {
    fn add_assign(&mut self, other: BleuCounts) {
        for n in 0..MAX_ORDER {
            self.matches[n] += other.matches[n];
            self.totals[n] += other.totals[n];
        }
        self.hypothesis_length += other.hypothesis_length;
        self.reference_length += other.reference_length;
    }
}

impl fmt::Display for BleuScore {
    /// `BLEU = 36.09 69.1/43.6/29.3/20.0 (BP = 0.984 ratio = 0.984 hyp_len = 12345 ref_len = 12546)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BleuCounts { hypothesis_length, reference_length, .. } = self.counts;
        let ratio = if reference_length == 0 { 0.0 } else { hypothesis_length as f64 / reference_length as f64 };
        let precisions = self.precisions.map(|precision| format!("{precision:.1}")).join("/");
        write!(
            f,
            "BLEU = {:.2} {precisions} (BP = {:.3} ratio = {ratio:.3} hyp_len = {hypothesis_length} ref_len = \
             {reference_length})",
            self.score, self.brevity_penalty
        )
    }
}
