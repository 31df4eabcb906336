//! When to say "I do not know": from which confidence on answers are right as often as was asked for, and which texts are unlike
//! those of training.

use crate::tr;
use serde::{Deserialize, Serialize};

/// What validation rows tell of confidence, which is the probability of the predicted class.
///
/// Answering only where the confidence is high trades answers for errors (the risk–coverage curve: El-Yaniv and Wiener, "On the
/// foundations of noise-free selective classification", 2010). A threshold keeps a promise on new texts if the errors among the
/// validation rows above it are so few that they would be so by chance in 5 % of the cases at most (Geifman and El-Yaniv, "Selective
/// classification for deep neural networks", 2017). Thresholds are tried from the most cautious on, and the first failure ends it, so
/// that trying many does not weaken the promise (fixed-sequence testing: Angelopoulos et al., "Learn then test", 2021).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Caution {
    /// Validation rows.
    pub rows: usize,
    /// The curve, from the most confident hundredth of the rows to all of them.
    pub steps: Vec<Step>,
    /// The share of a text's n-grams that the model knows, below which it is unlike those of training: one validation row in a
    /// hundred is. None where there are too few rows to tell.
    pub least_known: Option<f32>,
}

/// A point of the risk–coverage curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The least confidence that is answered.
    pub confidence: f32,
    /// Rows that have it.
    pub answered: usize,
    /// Those of them whose answer is wrong.
    pub wrong: usize,
}

/// The probability with which a promise may be broken.
const DELTA: f64 = 0.05;
/// Where the sequence of thresholds begins: at so many times as few rows as can keep the promise at all. Each has its part of
/// [`DELTA`].
const STARTS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Points of the curve.
const STEPS: usize = 100;
/// The share of training-like texts that are taken for unlike.
const UNLIKE: f64 = 0.01;
/// Fewest rows that tell which texts are unlike.
const LEAST_ROWS: usize = 20;

impl Caution {
    /// From validation rows: of each the confidence, and whether the answer is right; and the shares of known n-grams, if any.
    pub(crate) fn fit(rows: &[(f32, bool)], known: &[f32]) -> Caution {
        Caution { rows: rows.len(), steps: curve(rows), least_known: least_known(known) }
    }

    /// The step of the curve that answers most rows, so that this share of its answers is right.
    #[must_use]
    pub fn step(&self, level: f64) -> Option<Step> {
        let part = DELTA / STARTS.len() as f64;
        let least = part.ln() / level.ln();
        let passes = |step: &&Step| binomial_tail(step.wrong, step.answered, 1.0 - level) <= part;
        let chain = |start: &f64| {
            let from = self.steps.iter().skip_while(|step| (step.answered as f64) < start * least);
            from.take_while(passes).last().copied()
        };
        STARTS.iter().filter_map(chain).max_by_key(|step| step.answered)
    }

    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_step =
            |step: &Step| step.confidence.is_finite() && step.wrong <= step.answered && step.answered <= self.rows;
        let rises = self.steps.windows(2).all(|pair| pair[0].answered < pair[1].answered);
        if self.steps.iter().all(is_step) && rises && self.least_known.is_none_or(f32::is_finite) {
            return Ok(());
        }
        Err(tr!(
            "caution: expected steps that answer more and more of {} rows, found others",
            "caution: {} 行のうち答える行が増えていく steps が必要ですが、そうなっていません",
            self.rows
        ))
    }
}

/// The risk–coverage curve of rows, each with its confidence and whether the answer is right.
pub(crate) fn curve(rows: &[(f32, bool)]) -> Vec<Step> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut steps: Vec<Step> = Vec::with_capacity(STEPS);
    let (mut at, mut wrong) = (0, 0);
    for step in 1..=STEPS {
        let end = (sorted.len() * step).div_ceil(STEPS);
        // Equal confidences stand or fall together.
        while at < sorted.len() && (at < end || sorted[at].0 == sorted[at - 1].0) {
            wrong += usize::from(!sorted[at].1);
            at += 1;
        }
        if at > 0 && steps.last().is_none_or(|last| last.answered < at) {
            steps.push(Step { confidence: sorted[at - 1].0, answered: at, wrong });
        }
    }
    steps
}

/// The share below which one row in a hundred lies.
fn least_known(known: &[f32]) -> Option<f32> {
    let mut sorted = known.to_vec();
    sorted.sort_by(f32::total_cmp);
    let rank = ((sorted.len() as f64 * UNLIKE) as usize).max(1);
    sorted.get(rank - 1).copied().filter(|_| sorted.len() >= LEAST_ROWS)
}

/// The probability of `k` successes or fewer in `n` trials of probability `p`.
fn binomial_tail(k: usize, n: usize, p: f64) -> f64 {
    let (mut log_term, odds) = (n as f64 * (1.0 - p).ln(), (p / (1.0 - p)).ln());
    let mut sum = log_term.exp();
    for i in 0..k {
        log_term += ((n - i) as f64 / (i + 1) as f64).ln() + odds;
        sum += log_term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        // As scipy.stats.binom.cdf has them.
        for (k, n, p, expected) in [
            (0, 59, 0.05, 0.048_494_525_2),
            (3, 100, 0.05, 0.257_838_659_1),
            (40, 1000, 0.05, 0.080_636_573_3),
            (10, 10, 0.3, 1.0),
        ] {
            let found = binomial_tail(k, n, p);
            assert!((found - expected).abs() < 1e-8, "{k} {n} {p}: {found} {expected}");
        }
    }

    #[test]
    fn curves_keep_equal_confidences_together() {
        let rows = [(0.9, true), (0.9, false), (0.8, true), (0.7, false)];
        let step = |confidence, answered, wrong| Step { confidence, answered, wrong };
        assert_eq!(curve(&rows), [step(0.9, 2, 1), step(0.8, 3, 1), step(0.7, 4, 2)]);
        assert_eq!(curve(&[]), []);
        let many: Vec<(f32, bool)> = (0..1000).map(|i| (i as f32, true)).collect();
        let steps = curve(&many);
        assert_eq!((steps.len(), steps[0].answered, steps[99].answered), (STEPS, 10, 1000));
    }

    #[test]
    fn few_rows_promise_nothing() {
        let sure = |n: usize| Caution::fit(&vec![(0.99, true); n], &[]);
        // 0.95ⁿ ≤ 0.0125.
        assert_eq!((sure(85).step(0.95), sure(86).step(0.95).map(|step| step.answered)), (None, Some(86)));
        assert_eq!(Caution::default().step(0.5), None);
    }

    #[test]
    fn the_first_failure_ends_a_sequence() {
        let step = |answered: usize, wrong: usize| Step { confidence: 1.0 / answered as f32, answered, wrong };
        let caution = |steps: &[Step]| Caution { rows: 300, steps: steps.to_vec(), least_known: None };
        // Three hundred rows with four errors would do, had a sequence begun there: the first two end at 172, the third is later.
        let found = caution(&[step(100, 0), step(172, 4), step(300, 4)]).step(0.95).unwrap();
        assert_eq!(found.answered, 100);
        assert_eq!(caution(&[step(100, 0), step(300, 4)]).step(0.95).unwrap().answered, 300);
    }

    /// Rows whose confidence is the probability of being right.
    fn rows(n: usize, stream: u64) -> Vec<(f32, bool)> {
        let random = Philox::new(7, stream);
        let row = |i: u64| {
            let confidence = 0.5 + 0.5 * random.uniform(2 * i).sqrt();
            (confidence, random.uniform(2 * i + 1) < confidence)
        };
        (0..n as u64).map(row).collect()
    }

    #[test]
    fn promises_are_kept() {
        let (mut kept, mut answered, runs) = (0, 0.0, 300);
        for run in 0..runs {
            let caution = Caution::fit(&rows(1000, run), &[]);
            let Some(step) = caution.step(0.95) else {
                kept += 1;
                continue;
            };
            // The truth, not a sample of it: among so many rows.
            let new: Vec<(f32, bool)> =
                rows(20_000, 10_000 + run).into_iter().filter(|row| row.0 >= step.confidence).collect();
            let right = new.iter().filter(|row| row.1).count() as f64 / new.len() as f64;
            kept += u64::from(right >= 0.95);
            answered += new.len() as f64 / 20_000.0 / runs as f64;
        }
        assert!(kept as f64 >= 0.95 * runs as f64, "{kept} of {runs}");
        // With the probabilities known, 36 % could be answered; a thousand rows prove the promise for fewer.
        assert!(answered > 0.05, "{answered}");
    }

    #[test]
    fn one_row_in_a_hundred_is_unlike_the_others() {
        let known: Vec<f32> = (0..200).map(|i| i as f32 / 200.0).collect();
        assert_eq!(Caution::fit(&[], &known).least_known, Some(1.0 / 200.0));
        assert_eq!(Caution::fit(&[], &known[..19]).least_known, None);
    }

    #[test]
    fn damaged_curves_are_found() {
        let good = Caution::fit(&rows(100, 1), &[]);
        good.check().unwrap();
        let mut bad = good.clone();
        bad.steps[3].wrong = 101;
        assert!(bad.check().is_err());
        let mut bad = good;
        bad.steps.swap(0, 1);
        assert!(bad.check().is_err());
    }
}
