//! Translation metrics: corpus BLEU and chrF with the numbers and signatures of sacreBLEU.
//!
//! Scores compare only if tokens, smoothing and references are the same (Post, "A Call for Clarity in Reporting BLEU
//! Scores", 2018). So each score is reported with its signature. Both metrics follow sacreBLEU 2 in every detail,
//! including the definition of white space.
//!
//! ```
//! use chumoku_text::metrics::{Bleu, Chrf};
//! let hypotheses = ["The cat sits on a mat.", "It rains."];
//! let references = ["The cat sits on the mat.", "It is raining."];
//! let bleu = Bleu::default();
//! let score = bleu.corpus(&hypotheses, &[&references])?;
//! assert_eq!(score.to_string(), "BLEU = 38.66 80.0/50.0/33.3/25.0 (BP = 0.905 ratio = 0.909 hyp_len = 10 ref_len = 11)");
//! assert!(bleu.signature(1).starts_with("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:chumoku-"));
//! let score = Chrf.corpus(&hypotheses, &[&references])?;
//! assert_eq!(score.to_string(), "chrF2 = 52.98");
//! # Ok::<(), chumoku_text::metrics::MetricError>(())
//! ```
//!
//! # Files
//!
//! - `bleu`: BLEU
//! - `chrf`: chrF
//! - `tokens`: tokenizers of BLEU

mod bleu;
mod chrf;
mod tokens;

pub use bleu::{Bleu, BleuScore};
pub use chrf::{Chrf, ChrfScore};
pub use tokens::BleuTokenizer;

use crate::tr;
use std::collections::HashMap;
use std::hash::Hash;

/// The errors of comparing hypotheses with references.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// There are no lines to score.
    #[error("{}", tr!("scoring translations: expected at least one line, found none", "翻訳を採点できません。行が 1 つもありません"))]
    NoLines,
    /// There are no references.
    #[error("{}", tr!("scoring translations: expected at least one set of references, found none", "翻訳を採点できません。参照訳がありません"))]
    NoReferences,
    /// The numbers of lines differ.
    #[error(
        "{}", tr!("scoring translations: expected as many references as hypotheses, found {references} and {hypotheses}: line \
         {line} of the {longer} has no partner", "翻訳を採点できません。参照訳と訳文の数が同じはずですが、{references} と {hypotheses} です。{longer}の {line} 行目に対応する行がありません"))]
    Unpaired {
        /// Lines of the hypotheses.
        hypotheses: usize,
        /// Number of lines in the first reference set that differs.
        references: usize,
        /// The first line without a counterpart, from 1.
        line: usize,
        /// The longer side: `hypotheses` or `references`, with the number of the set if there are several.
        longer: String,
    },
}

/// Checks that every set of references has a line for each hypothesis.
fn check_lines<R>(hypotheses: usize, references: &[&[R]]) -> Result<(), MetricError> {
    if references.is_empty() {
        return Err(MetricError::NoReferences);
    }
    if let Some(set) = references.iter().position(|set| set.len() != hypotheses) {
        let found = references[set].len();
        let longer = match (found > hypotheses, references.len()) {
            (false, _) => tr!("hypotheses", "訳文"),
            (true, 1) => tr!("references", "参照訳"),
            (true, _) => tr!("references (set {})", "参照訳（{} 組目）", set + 1),
        };
        let line = found.min(hypotheses) + 1;
        return Err(MetricError::Unpaired { hypotheses, references: found, line, longer });
    }
    if hypotheses == 0 { Err(MetricError::NoLines) } else { Ok(()) }
}

/// Returns the references of one line, one from each set.
fn line_references<'a, R: AsRef<str>>(references: &[&'a [R]], line: usize) -> Vec<&'a str> {
    references.iter().map(|set| set[line].as_ref()).collect()
}

/// The last part of a signature: the program and its version.
fn version() -> String {
    format!("version:chumoku-{}", env!("CARGO_PKG_VERSION"))
}

/// White space as in Python's `str.split`: Unicode white space and four control characters.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Splits a text at white space.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Counts each n-gram of length `n`.
fn ngrams<T: Eq + Hash>(tokens: &[T], n: usize) -> HashMap<&[T], u64> {
    let mut counts = HashMap::new();
    for ngram in tokens.windows(n) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests;
