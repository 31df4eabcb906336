//! Scores of predicted spans: precision, recall and F1 as in conlleval and seqeval. A span is correct if its boundaries
//! and its label are.

use super::bootstrap::{bootstrap_interval, exact_interval};
use super::few_rows_warning;
use crate::data::Span;
use chumoku_kernels::Philox;
use serde::Serialize;
use std::collections::BTreeMap;

/// Scores of the spans of one label, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpanScore {
    /// The label; empty for all spans.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Share of the predicted spans that are correct; 0 if there are none.
    pub precision: f64,
    /// Share of the true spans that are predicted; 0 if there are none.
    pub recall: f64,
    /// The harmonic mean of precision and recall; 0 if both are 0.
    pub f1: f64,
    /// Number of true spans.
    pub spans: usize,
    /// Number of predicted spans.
    pub found: usize,
}

/// Scores of predicted spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpanScores {
    /// Number of texts.
    pub rows: usize,
    /// Scores over all spans (micro-average).
    #[serde(flatten)]
    pub all: SpanScore,
    /// The 95 % bootstrap interval of F1 over texts.
    pub f1_interval: [f64; 2],
    /// Scores of each label, by name.
    pub kinds: Vec<SpanScore>,
}

/// Numbers of correct, true and predicted spans.
type SpanTally = [usize; 3];

impl SpanScore {
    fn of(label: &str, [right, spans, found]: SpanTally) -> SpanScore {
        let share = |of: usize| if of == 0 { 0.0 } else { right as f64 / of as f64 };
        let f1 = if spans + found == 0 { 0.0 } else { 2.0 * right as f64 / (spans + found) as f64 };
        SpanScore { label: label.to_owned(), precision: share(found), recall: share(spans), f1, spans, found }
    }
}

impl SpanScores {
    /// Scores texts with true and predicted spans.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a [Span], &'a [Span])>, seed: u64) -> SpanScores {
        let mut kinds: BTreeMap<&str, SpanTally> = BTreeMap::new();
        let mut texts: Vec<SpanTally> = Vec::new();
        for (truth, found) in rows {
            let mut tally = [0, truth.len(), found.len()];
            truth.iter().for_each(|span| kinds.entry(&span.label).or_default()[1] += 1);
            for span in found {
                let of_kind = kinds.entry(&span.label).or_default();
                of_kind[2] += 1;
                if truth.contains(span) {
                    of_kind[0] += 1;
                    tally[0] += 1;
                }
            }
            texts.push(tally);
        }
        let sum = |tallies: &mut dyn Iterator<Item = &SpanTally>| {
            tallies.fold([0; 3], |all, one| [all[0] + one[0], all[1] + one[1], all[2] + one[2]])
        };
        let n = texts.len() as u64;
        let f1 = |random: &Philox| {
            let draw = |i: u64| {
                let [low, high, ..] = random.block(i);
                let x = u64::from(high) << 32 | u64::from(low);
                &texts[((u128::from(x) * u128::from(n)) >> 64) as usize]
            };
            SpanScore::of("", sum(&mut (0..n).map(draw))).f1
        };
        // If all texts are correct, or all are wrong, resamples do not differ.
        let counted: Vec<&SpanTally> = texts.iter().filter(|[_, truth, found]| truth + found > 0).collect();
        let right = counted.iter().filter(|[right, truth, found]| right == truth && right == found).count();
        let is_uniform = right == counted.len() || counted.iter().all(|[right, ..]| *right == 0);
        let exact = exact_interval(right, counted.len()).filter(|_| is_uniform);
        SpanScores {
            rows: texts.len(),
            all: SpanScore::of("", sum(&mut texts.iter())),
            f1_interval: exact.unwrap_or_else(|| bootstrap_interval(seed, f1)),
            kinds: kinds.into_iter().map(|(label, tally)| SpanScore::of(label, tally)).collect(),
        }
    }

    /// Returns a warning to show before the scores, if there is one.
    pub fn warning(&self) -> Option<String> {
        few_rows_warning(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(usize, usize, &str)]) -> Vec<Span> {
        list.iter().map(|&(start, end, label)| Span { start, end, label: label.into() }).collect()
    }

    #[test]
    fn scores_match_seqeval() {
        // True: B-PER I-PER O B-LOC / O B-LOC; found: B-PER I-PER O B-PER / B-LOC O (seqeval 1.2.2: 1/3, 1/3, 1/3).
        let truth = [spans(&[(0, 2, "PER"), (3, 4, "LOC")]), spans(&[(1, 2, "LOC")])];
        let found = [spans(&[(0, 2, "PER"), (3, 4, "PER")]), spans(&[(0, 1, "LOC")])];
        let scores = SpanScores::of(truth.iter().map(Vec::as_slice).zip(found.iter().map(Vec::as_slice)), 1);
        let third = 1.0 / 3.0;
        assert_eq!([scores.all.precision, scores.all.recall, scores.all.f1], [third; 3]);
        assert_eq!((scores.kinds[0].label.as_str(), scores.kinds[0].f1, scores.kinds[0].spans), ("LOC", 0.0, 2));
        let person = &scores.kinds[1];
        assert_eq!([person.precision, person.recall, person.f1], [0.5, 1.0, 2.0 / 3.0]);
        assert_eq!(scores.f1_interval, [0.0, 0.5]);
        // Nine correct texts of nine are compatible with one wrong in three.
        let right = SpanScores::of(std::iter::repeat_n((&truth[1][..], &truth[1][..]), 9), 1);
        assert!((right.f1_interval[0] - 0.025f64.powf(1.0 / 9.0)).abs() < 1e-9 && right.f1_interval[1] == 1.0);
        let none = SpanScores::of([(&[][..], &[][..])].into_iter(), 1);
        assert_eq!([none.all.precision, none.all.recall, none.all.f1], [0.0; 3]);
    }
}
