//! How well spans are found: precision, recall and F1 as conlleval and seqeval compute them. A span counts as found if its
//! borders and its kind are right.

use super::few_rows;
use super::resample::exact_interval;
use crate::data::Span;
use chumoku_kernels::Philox;
use serde::Serialize;
use std::collections::BTreeMap;

/// Scores of one kind of spans, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpanScore {
    /// The kind; empty of all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Share of the spans found that are right; 0 if none is found.
    pub precision: f64,
    /// Share of the true spans that are found; 0 if there are none.
    pub recall: f64,
    /// Their harmonic mean; 0 if both are.
    pub f1: f64,
    /// True spans.
    pub spans: usize,
    /// Spans found.
    pub found: usize,
}

/// How well spans are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpanScores {
    /// Texts.
    pub rows: usize,
    /// Over all spans (micro).
    #[serde(flatten)]
    pub all: SpanScore,
    /// Where the F1 lies in 95 of 100 resamples of the texts.
    pub f1_interval: [f64; 2],
    /// Of each kind, by name.
    pub kinds: Vec<SpanScore>,
}

/// Right, true and found spans.
type Tally = [usize; 3];

impl SpanScore {
    fn of(label: &str, [right, spans, found]: Tally) -> SpanScore {
        let share = |of: usize| if of == 0 { 0.0 } else { right as f64 / of as f64 };
        let f1 = if spans + found == 0 { 0.0 } else { 2.0 * right as f64 / (spans + found) as f64 };
        SpanScore { label: label.to_owned(), precision: share(found), recall: share(spans), f1, spans, found }
    }
}

impl SpanScores {
    /// Of texts with true spans and those found.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a [Span], &'a [Span])>, seed: u64) -> SpanScores {
        let mut kinds: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut texts: Vec<Tally> = Vec::new();
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
        let sum = |tallies: &mut dyn Iterator<Item = &Tally>| {
            tallies.fold([0; 3], |all, one| [all[0] + one[0], all[1] + one[1], all[2] + one[2]])
        };
        let n = texts.len() as u64;
        let resample = |k: u64| {
            let random = Philox::new(seed, k);
            let draw = |i: u64| {
                let [low, high, ..] = random.block(i);
                let x = u64::from(high) << 32 | u64::from(low);
                &texts[((u128::from(x) * u128::from(n)) >> 64) as usize]
            };
            SpanScore::of("", sum(&mut (0..n).map(draw))).f1
        };
        let mut f1s: Vec<f64> = (0..RESAMPLES).map(resample).collect();
        f1s.sort_by(f64::total_cmp);
        let tails = [f1s[RESAMPLES as usize / 40], f1s[(RESAMPLES - RESAMPLES / 40 - 1) as usize]];
        // Resamples of texts that are all right, or all wrong, do not differ.
        let told: Vec<&Tally> = texts.iter().filter(|[_, truth, found]| truth + found > 0).collect();
        let right = told.iter().filter(|[right, truth, found]| right == truth && right == found).count();
        let is_uniform = right == told.len() || told.iter().all(|[right, ..]| *right == 0);
        let exact = exact_interval(right, told.len()).filter(|_| is_uniform);
        SpanScores {
            rows: texts.len(),
            all: SpanScore::of("", sum(&mut texts.iter())),
            f1_interval: exact.unwrap_or(tails),
            kinds: kinds.into_iter().map(|(label, tally)| SpanScore::of(label, tally)).collect(),
        }
    }

    /// What must be known before the figures, if anything.
    pub fn warning(&self) -> Option<String> {
        few_rows(self.rows)
    }
}

const RESAMPLES: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(usize, usize, &str)]) -> Vec<Span> {
        list.iter().map(|&(start, end, label)| Span { start, end, label: label.into() }).collect()
    }

    #[test]
    fn scores_are_those_of_seqeval() {
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
        // Nine right texts of nine leave open that one in three is wrong.
        let right = SpanScores::of(std::iter::repeat_n((&truth[1][..], &truth[1][..]), 9), 1);
        assert!((right.f1_interval[0] - 0.025f64.powf(1.0 / 9.0)).abs() < 1e-9 && right.f1_interval[1] == 1.0);
        let none = SpanScores::of([(&[][..], &[][..])].into_iter(), 1);
        assert_eq!([none.all.precision, none.all.recall, none.all.f1], [0.0; 3]);
    }
}
