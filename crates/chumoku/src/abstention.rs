//! When to say "I do not know": from which confidence on answers are right as often as was asked for, and which texts are unlike
//! those of training.

use crate::decision_rule::DecisionRule;
use crate::hierarchy::Hierarchy;
use crate::ngram::NgramTarget;
use crate::scoring::largest;
use crate::{sorting, tr};
use serde::{Deserialize, Serialize};

/// What validation rows tell of confidence, which is the probability of the predicted class; of labels that do not exclude each other,
/// that of those that are predicted and of the absence of the others together; of a rating, that of the level nearest to the number.
///
/// Answering only where the confidence is high trades answers for errors (the risk–coverage curve: El-Yaniv and Wiener, "On the
/// foundations of noise-free selective classification", 2010). A threshold keeps a promise on new texts if the errors among the
/// validation rows above it are so few that they would be so by chance in 5 % of the cases at most (Geifman and El-Yaniv, "Selective
/// classification for deep neural networks", 2017). Thresholds are tried from the most cautious on, and the first failure ends it, so
/// that trying many does not weaken the promise (fixed-sequence testing: Angelopoulos et al., "Learn then test", 2021).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AbstentionCalibration {
    /// Validation rows.
    pub rows: usize,
    /// The curve, from the most confident hundredth of the rows to all of them.
    pub steps: Vec<CoveragePoint>,
    /// The share of a text's n-grams that the model knows, below which it is unlike those of training: one validation row in a
    /// hundred is. None where there are too few rows to tell.
    pub least_known: Option<f32>,
    /// For each class or label: how many of the rows that are at least so probably of it are. From the most probable row on, to the
    /// least probable one that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Vec<CoveragePoint>>,
    /// Of classes that stand in a tree, how sure the answer is at each level: a validation row each, some thousands at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelConfidences>,
}

/// How sure an answer is at each level of the tree of its classes, and at how many levels from the top it is right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelConfidences(pub Vec<f32>, pub usize);

/// From which probability on rows are taken for a class.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrecisionThreshold {
    /// What the validation rows from there on are.
    pub point: CoveragePoint,
    /// Validation rows of the class.
    pub positives: usize,
    /// Whether the precision is promised, as [`Caution`] says, or only what these rows have.
    pub is_guaranteed: bool,
}

/// A point of the risk–coverage curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoveragePoint {
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
const SEQUENCE_STARTS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Points of the curve.
const CURVE_POINTS: usize = 100;
/// Points for each class.
const CLASS_CURVE_POINTS: usize = 32;
/// The share of training-like texts that are taken for unlike.
const UNLIKE_SHARE: f64 = 0.01;
/// Rows of which all levels are kept.
const MAX_LEVEL_ROWS: usize = 4_000;
/// Fewest rows that tell which texts are unlike.
const MIN_ROWS: usize = 20;

impl AbstentionCalibration {
    /// From validation rows: of each the confidence, and whether the answer is right; and the shares of known n-grams, if any.
    pub(crate) fn fit(rows: &[(f32, bool)], known: &[f32]) -> AbstentionCalibration {
        AbstentionCalibration {
            rows: rows.len(),
            steps: risk_coverage_curve(rows),
            least_known: known_share_threshold(known),
            ..AbstentionCalibration::default()
        }
    }

    /// Fits validation rows of one class each, from their probabilities, right answers and shares of known n-grams. Answers
    /// follow from the model's decision, or from the tree of the classes.
    pub(crate) fn fit_classes(
        probabilities: &[Vec<f32>],
        labels: &[u32],
        known: &[f32],
        (decision, hierarchy): (Option<&DecisionRule>, Option<&Hierarchy>),
    ) -> AbstentionCalibration {
        let answer = |p: &Vec<f32>| match (decision, hierarchy) {
            (Some(decision), _) => decision.class(p),
            (None, Some(tree)) => tree.predict(p),
            (None, None) => largest(p) as usize,
        };
        let sure = probabilities.iter().zip(labels).map(|(p, &label)| {
            let class = answer(p);
            (p[class], class as u32 == label)
        });
        let mut caution =
            AbstentionCalibration::fit(&sure.collect::<Vec<_>>(), known).with_class_curves(probabilities, labels);
        let rows = probabilities.iter().zip(labels).step_by(labels.len().div_ceil(MAX_LEVEL_ROWS).max(1));
        if let Some(tree) = hierarchy {
            let levels = |(p, &label): (&Vec<f32>, &u32)| LevelConfidences::new(tree, p, answer(p), label);
            caution.levels = rows.map(levels).collect();
        }
        caution
    }

    /// With what is told of each class by the probabilities of the same rows and their answers.
    pub(crate) fn with_class_curves<A: NgramTarget>(
        mut self,
        probabilities: &[Vec<f32>],
        answers: &[A],
    ) -> AbstentionCalibration {
        let classes = probabilities.first().map_or(0, Vec::len);
        let of_class = |class: usize| {
            let holds = answers.iter().map(|answer| answer.numbers().contains(&(class as u32)));
            let rows: Vec<(f32, bool)> = probabilities.iter().map(|p| p[class]).zip(holds).collect();
            class_curve(&rows)
        };
        (self.rows, self.classes) = (answers.len(), (0..classes).map(of_class).collect());
        self
    }

    /// From which probability on so large a share of the rows is of a class: where that can be promised, else where it is so of the
    /// validation rows. None where it is so nowhere.
    #[must_use]
    pub fn precision_threshold(&self, class: usize, precision: f64) -> Option<PrecisionThreshold> {
        let steps = self.classes.get(class)?;
        let there = steps.last().map_or(0, |last| last.answered - last.wrong);
        let reaches = |step: &&CoveragePoint| (step.answered - step.wrong) as f64 >= precision * step.answered as f64;
        let promised = guaranteed_threshold(steps, precision).map(|step| (step, true));
        let (step, is_promised) = promised.or_else(|| Some((*steps.iter().rev().find(reaches)?, false)))?;
        Some(PrecisionThreshold { point: step, positives: there, is_guaranteed: is_promised })
    }

    /// The step of the curve that answers most rows, so that this share of its answers is right.
    #[must_use]
    pub fn threshold_for(&self, level: f64) -> Option<CoveragePoint> {
        guaranteed_threshold(&self.steps, level)
    }

    /// From which confidence on a tree's answer is given down to each level, so that this share of the answers that end at a level is
    /// right there; none for levels that promise nothing. The last level is the whole path.
    ///
    /// Thresholds are found from the whole path up: each on the rows that are not answered further down, so that what is
    /// answered there does not vouch for the others.
    #[must_use]
    pub fn level_thresholds(&self, share: f64) -> Vec<Option<CoveragePoint>> {
        let depth = self.levels.first().map_or(0, |LevelConfidences(sure, _)| sure.len());
        let mut found = vec![None; depth];
        let mut rows: Vec<&LevelConfidences> = self.levels.iter().collect();
        for level in (0..depth).rev() {
            found[level] = match level + 1 == depth {
                true => self.threshold_for(share),
                false => {
                    let of_row = |LevelConfidences(sure, right): &&LevelConfidences| (sure[level], *right > level);
                    guaranteed_threshold(&risk_coverage_curve(&rows.iter().map(of_row).collect::<Vec<_>>()), share)
                }
            };
            if let Some(step) = found[level] {
                rows.retain(|LevelConfidences(sure, _)| sure[level] < step.confidence);
            }
        }
        found
    }

    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_step = |step: &CoveragePoint| {
            step.confidence.is_finite() && step.wrong <= step.answered && step.answered <= self.rows
        };
        let rises = |steps: &Vec<CoveragePoint>| steps.windows(2).all(|pair| pair[0].answered < pair[1].answered);
        let mut all = std::iter::once(&self.steps).chain(&self.classes);
        let is_known = self.least_known.is_none_or(f32::is_finite);
        let depth = self.levels.first().map_or(0, |LevelConfidences(sure, _)| sure.len());
        let is_row = |LevelConfidences(sure, right): &LevelConfidences| {
            sure.len() == depth && *right <= depth && sure.iter().all(|p| p.is_finite())
        };
        if !self.levels.iter().all(is_row) {
            return Err(tr!(
                "caution: expected {depth} probabilities for each row of levels, found others",
                "caution: levels の各行に確率が {depth} 個必要ですが、そうなっていません"
            ));
        }
        if is_known && all.all(|steps| steps.iter().all(is_step) && rises(steps)) {
            return Ok(());
        }
        Err(tr!(
            "caution: expected steps that answer more and more of {} rows, found others",
            "caution: {} 行のうち答える行が増えていく steps が必要ですが、そうなっていません",
            self.rows
        ))
    }
}

impl LevelConfidences {
    /// Of a row with these probabilities, whose answer is `class` and whose right class is `label`.
    pub(crate) fn new(tree: &Hierarchy, probabilities: &[f32], class: usize, label: u32) -> LevelConfidences {
        LevelConfidences(tree.level_confidences(probabilities, class), tree.shared_levels(class, label as usize))
    }

    /// The level, from 1, at which the answer ends by these steps, and whether it is right there; none if it is not given.
    pub(crate) fn answered_level(&self, steps: &[Option<CoveragePoint>]) -> Option<(usize, bool)> {
        let level = deepest_confident_level(&self.0, steps)?;
        Some((level, self.1 >= level))
    }
}

/// The deepest level, from 1, that is sure enough by these steps.
#[must_use]
pub fn deepest_confident_level(sure: &[f32], steps: &[Option<CoveragePoint>]) -> Option<usize> {
    let is_sure = |(p, step): (&f32, &Option<CoveragePoint>)| step.is_some_and(|step| *p >= step.confidence);
    sure.iter().zip(steps).rposition(is_sure).map(|at| at + 1)
}

/// The step that takes most rows of those that keep the promise of this share.
fn guaranteed_threshold(steps: &[CoveragePoint], level: f64) -> Option<CoveragePoint> {
    let part = DELTA / SEQUENCE_STARTS.len() as f64;
    let least = part.ln() / level.ln();
    let passes = |step: &&CoveragePoint| binomial_cdf(step.wrong, step.answered, 1.0 - level) <= part;
    let chain = |start: &f64| {
        let from = steps.iter().skip_while(|step| (step.answered as f64) < start * least);
        from.take_while(passes).last().copied()
    };
    SEQUENCE_STARTS.iter().filter_map(chain).max_by_key(|step| step.answered)
}

/// The curve of a class from the probabilities of rows and whether they are of it: a step for each part of those that are.
fn class_curve(rows: &[(f32, bool)]) -> Vec<CoveragePoint> {
    let mut sorted = rows.to_vec();
    sorting::sort_by(&mut sorted, |a, b| b.0.total_cmp(&a.0));
    let there = sorted.iter().filter(|row| row.1).count();
    let mut steps: Vec<CoveragePoint> = Vec::new();
    let (mut at, mut right) = (0, 0);
    for step in 1..=CLASS_CURVE_POINTS.min(there) {
        let wanted = (there * step).div_ceil(CLASS_CURVE_POINTS.min(there));
        // Equal probabilities stand or fall together.
        while at < sorted.len() && (right < wanted || sorted[at].0 == sorted[at - 1].0) {
            right += usize::from(sorted[at].1);
            at += 1;
        }
        if steps.last().is_none_or(|last| last.answered < at) {
            steps.push(CoveragePoint { confidence: sorted[at - 1].0, answered: at, wrong: at - right });
        }
    }
    steps
}

/// The share of wrong answers among the 1 %, 2 %, … 100 % of rows whose answers are the surest, from the confidence of each row and
/// whether its answer is right: the risk–coverage curve (El-Yaniv and Wiener 2010). Rows of equal confidence are answered together; empty
/// without rows.
///
/// ```
/// let risks = chumoku::risks_by_coverage(&[(0.9, true), (0.8, true), (0.7, false), (0.6, true)]);
/// assert_eq!((risks[0], risks[49], risks[74], risks[99]), (0.0, 0.0, 1.0 / 3.0, 0.25));
/// ```
#[must_use]
pub fn risks_by_coverage(rows: &[(f32, bool)]) -> Vec<f32> {
    let steps = risk_coverage_curve(rows);
    let risk = |part: usize| {
        let wanted = (rows.len() * part).div_ceil(CURVE_POINTS);
        let step = steps.iter().find(|step| step.answered >= wanted)?;
        Some((step.wrong as f64 / step.answered as f64) as f32)
    };
    (1..=CURVE_POINTS).filter_map(risk).collect()
}

/// The risk–coverage curve of rows, each with its confidence and whether the answer is right.
pub(crate) fn risk_coverage_curve(rows: &[(f32, bool)]) -> Vec<CoveragePoint> {
    let mut sorted = rows.to_vec();
    sorting::sort_by(&mut sorted, |a, b| b.0.total_cmp(&a.0));
    let mut steps: Vec<CoveragePoint> = Vec::with_capacity(CURVE_POINTS);
    let (mut at, mut wrong) = (0, 0);
    for step in 1..=CURVE_POINTS {
        let end = (sorted.len() * step).div_ceil(CURVE_POINTS);
        // Equal confidences stand or fall together.
        while at < sorted.len() && (at < end || sorted[at].0 == sorted[at - 1].0) {
            wrong += usize::from(!sorted[at].1);
            at += 1;
        }
        if at > 0 && steps.last().is_none_or(|last| last.answered < at) {
            steps.push(CoveragePoint { confidence: sorted[at - 1].0, answered: at, wrong });
        }
    }
    steps
}

/// The share below which one row in a hundred lies.
fn known_share_threshold(known: &[f32]) -> Option<f32> {
    let mut sorted = known.to_vec();
    sorting::sort_by(&mut sorted, f32::total_cmp);
    let rank = ((sorted.len() as f64 * UNLIKE_SHARE) as usize).max(1);
    sorted.get(rank - 1).copied().filter(|_| sorted.len() >= MIN_ROWS)
}

/// Why answers break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuaranteeViolation {
    /// Chance explains it.
    Chance,
    /// Chance does not: the rows are unlike the validation rows.
    Unlike,
}

/// The breach of the promise of this share by rows that were answered; none if they keep it.
pub(crate) fn guarantee_violation(right: usize, answered: usize, share: f64) -> Option<GuaranteeViolation> {
    let is_kept = right as f64 >= share * answered as f64;
    let by_chance = || {
        if binomial_cdf(right, answered, share) > DELTA {
            GuaranteeViolation::Chance
        } else {
            GuaranteeViolation::Unlike
        }
    };
    (!is_kept).then(by_chance)
}

/// The probability of `k` successes or fewer in `n` trials of probability `p`.
fn binomial_cdf(k: usize, n: usize, p: f64) -> f64 {
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
            let found = binomial_cdf(k, n, p);
            assert!((found - expected).abs() < 1e-8, "{k} {n} {p}: {found} {expected}");
        }
    }

    #[test]
    fn broken_promises_are_told_from_chance() {
        assert_eq!([guarantee_violation(95, 100, 0.95), guarantee_violation(0, 0, 0.95)], [None; 2]);
        // 93 right ones of 100 or fewer come about in 23 % of draws, 86 or fewer in 0.05 %.
        assert_eq!(
            [93, 86].map(|right| guarantee_violation(right, 100, 0.95)),
            [Some(GuaranteeViolation::Chance), Some(GuaranteeViolation::Unlike)]
        );
    }

    #[test]
    fn curves_keep_equal_confidences_together() {
        let rows = [(0.9, true), (0.9, false), (0.8, true), (0.7, false)];
        let step = |confidence, answered, wrong| CoveragePoint { confidence, answered, wrong };
        assert_eq!(risk_coverage_curve(&rows), [step(0.9, 2, 1), step(0.8, 3, 1), step(0.7, 4, 2)]);
        assert_eq!(risk_coverage_curve(&[]), []);
        let many: Vec<(f32, bool)> = (0..1000).map(|i| (i as f32, true)).collect();
        let steps = risk_coverage_curve(&many);
        assert_eq!((steps.len(), steps[0].answered, steps[99].answered), (CURVE_POINTS, 10, 1000));
    }

    #[test]
    fn few_rows_promise_nothing() {
        let sure = |n: usize| AbstentionCalibration::fit(&vec![(0.99, true); n], &[]);
        // 0.95ⁿ ≤ 0.0125.
        assert_eq!(
            (sure(85).threshold_for(0.95), sure(86).threshold_for(0.95).map(|step| step.answered)),
            (None, Some(86))
        );
        assert_eq!(AbstentionCalibration::default().threshold_for(0.5), None);
    }

    #[test]
    fn the_first_failure_ends_a_sequence() {
        let step = |answered: usize, wrong: usize| CoveragePoint { confidence: 1.0 / answered as f32, answered, wrong };
        let caution = |steps: &[CoveragePoint]| AbstentionCalibration {
            rows: 300,
            steps: steps.to_vec(),
            ..AbstentionCalibration::default()
        };
        // Three hundred rows with four errors would do, had a sequence begun there: the first two end at 172, the third is later.
        let found = caution(&[step(100, 0), step(172, 4), step(300, 4)]).threshold_for(0.95).unwrap();
        assert_eq!(found.answered, 100);
        assert_eq!(caution(&[step(100, 0), step(300, 4)]).threshold_for(0.95).unwrap().answered, 300);
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
            let caution = AbstentionCalibration::fit(&rows(1000, run), &[]);
            let Some(step) = caution.threshold_for(0.95) else {
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
        assert_eq!(AbstentionCalibration::fit(&[], &known).least_known, Some(1.0 / 200.0));
        assert_eq!(AbstentionCalibration::fit(&[], &known[..19]).least_known, None);
    }

    #[test]
    fn classes_are_cut_where_they_are_precise() {
        let step = |confidence, answered, wrong| CoveragePoint { confidence, answered, wrong };
        let rows = [(0.9, true), (0.8, false), (0.8, true), (0.7, false), (0.6, true), (0.1, false)];
        assert_eq!(class_curve(&rows), [step(0.9, 1, 0), step(0.8, 3, 1), step(0.6, 5, 2)]);
        assert_eq!(class_curve(&[(0.3, false)]), []);
        let p: Vec<Vec<f32>> = rows.iter().map(|row| vec![row.0, 1.0 - row.0]).collect();
        let labels: Vec<u32> = rows.iter().map(|row| u32::from(!row.1)).collect();
        let caution = AbstentionCalibration::default().with_class_curves(&p, &labels);
        assert_eq!((caution.rows, caution.classes.len()), (6, 2));
        let cut = |precision| {
            caution.precision_threshold(0, precision).map(|cut| (cut.point.answered, cut.positives, cut.is_guaranteed))
        };
        assert_eq!([cut(0.95), cut(0.66), cut(0.6)], [Some((1, 3, false)), Some((3, 3, false)), Some((5, 3, false))]);
        // Class 1 is right in the row that is most probably of it.
        assert_eq!(caution.precision_threshold(1, 0.99).map(|cut| cut.point.answered), Some(1));
        assert_eq!(caution.precision_threshold(2, 0.5), None);
        let labels: Vec<Vec<u32>> = labels.iter().map(|&label| vec![label]).collect();
        assert_eq!(AbstentionCalibration::default().with_class_curves(&p, &labels), caution);
        // Enough rows promise it.
        let many = AbstentionCalibration::default().with_class_curves(&vec![vec![0.9, 0.1]; 90], &[0u32; 90]);
        assert!(many.precision_threshold(0, 0.95).unwrap().is_guaranteed && many.precision_threshold(1, 0.1).is_none());
    }

    #[test]
    fn damaged_curves_are_found() {
        let good = AbstentionCalibration::fit(&rows(100, 1), &[]);
        good.check().unwrap();
        let mut bad = good.clone();
        bad.steps[3].wrong = 101;
        assert!(bad.check().is_err());
        let mut bad = good;
        bad.steps.swap(0, 1);
        assert!(bad.check().is_err());
    }

    /// A tree of two levels: how sure an answer is, and the probability that it is right at the first level and the whole.
    fn level_rows(n: usize, stream: u64) -> Vec<LevelConfidences> {
        let random = Philox::new(9, stream);
        let row = |i: u64| {
            let top = 0.5 + 0.5 * random.uniform(4 * i).powf(0.2);
            let whole = top * (0.3 + 0.7 * random.uniform(4 * i + 1).powf(0.1));
            let u = random.uniform(4 * i + 2);
            LevelConfidences(vec![top, whole], if u < whole { 2 } else { usize::from(u < top) })
        };
        (0..n as u64).map(row).collect()
    }

    /// Answers that end at a level are right there as often as promised, by themselves: those that go further down do not help.
    #[test]
    fn promises_are_kept_at_each_level() {
        let (mut kept, mut answered, runs) = ([0, 0], [0, 0], 100);
        for run in 0..runs {
            let rows = level_rows(1500, run);
            let whole: Vec<(f32, bool)> =
                rows.iter().map(|LevelConfidences(sure, right)| (sure[1], *right == 2)).collect();
            let caution = AbstentionCalibration { levels: rows, ..AbstentionCalibration::fit(&whole, &[]) };
            caution.check().unwrap();
            let steps = caution.level_thresholds(0.9);
            assert_eq!(steps[1], caution.threshold_for(0.9));
            let ends: Vec<(usize, bool)> =
                level_rows(5_000, 10_000 + run).iter().filter_map(|row| row.answered_level(&steps)).collect();
            for level in [1, 2] {
                let of_level: Vec<bool> = ends.iter().filter(|end| end.0 == level).map(|end| end.1).collect();
                let right = of_level.iter().filter(|right| **right).count();
                kept[level - 1] += u64::from(right as f64 >= 0.9 * of_level.len() as f64);
                answered[level - 1] += of_level.len();
            }
        }
        assert!(kept.iter().all(|kept| *kept as f64 >= 0.95 * runs as f64), "{kept:?} of {runs}");
        assert!(answered.iter().all(|n| *n as f64 > 0.05 * 5_000.0 * runs as f64), "{answered:?}");
    }

    #[test]
    fn the_deepest_sure_level_is_answered() {
        let step = |confidence| Some(CoveragePoint { confidence, answered: 1, wrong: 0 });
        let level = |sure: [f32; 3], steps: [Option<CoveragePoint>; 3]| deepest_confident_level(&sure, &steps);
        assert_eq!(level([0.9, 0.8, 0.7], [step(0.9), step(0.8), step(0.7)]), Some(3));
        assert_eq!(level([0.9, 0.8, 0.7], [step(0.9), step(0.8), None]), Some(2));
        assert_eq!(level([0.9, 0.8, 0.7], [step(0.9), step(0.81), step(0.71)]), Some(1));
        assert_eq!(level([0.9, 0.8, 0.7], [step(0.91), None, step(0.71)]), None);
        let damaged =
            AbstentionCalibration { levels: vec![LevelConfidences(vec![0.5], 2)], ..AbstentionCalibration::default() };
        assert!(damaged.check().is_err());
    }
}
