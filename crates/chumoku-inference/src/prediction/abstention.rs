//! Abstention calibration: confidence thresholds for a requested accuracy, and detection of texts unlike the training
//! data.

use crate::hierarchy::Hierarchy;
use crate::ngram::NgramTarget;
use crate::prediction::decision_rule::DecisionRule;
use crate::scoring::argmax;
use crate::{sorting, tr};
use serde::{Deserialize, Serialize};

/// Confidence statistics of validation rows, from which abstention thresholds are chosen.
///
/// The confidence of a class is its predicted probability. In multi-label models, it is the probability that exactly
/// the predicted labels hold. For a rating, it is the probability of the level nearest to the predicted number.
///
/// Answering only at high confidence trades coverage for accuracy. This is the risk–coverage curve (El-Yaniv and
/// Wiener, "On the foundations of noise-free selective classification", 2010).
///
/// A threshold guarantees an accuracy on new texts if the validation rows above it have few errors. At any lower
/// accuracy, errors this rare would occur by chance in at most 5 % of cases. See Geifman and El-Yaniv, "Selective
/// classification for deep neural networks", 2017.
///
/// Thresholds are tested from the highest down, and testing stops at the first failure. Trying several thresholds
/// therefore does not weaken the guarantee (fixed-sequence testing: Angelopoulos et al., "Learn then test", 2021).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AbstentionCalibration {
    /// The number of validation rows.
    pub rows: usize,
    /// The risk–coverage curve, from the most confident hundredth of the rows to all rows.
    #[serde(rename = "steps")]
    pub risk_coverage_curve: Vec<CoveragePoint>,
    /// The minimum share of known n-grams. Texts below it are unlike the training data. One validation row in a hundred
    /// lies below it. `None` if there are too few rows.
    pub least_known: Option<f32>,
    /// For each class or label: the number of rows above each probability, and how many of them do not have the class.
    /// Points run from the most probable row to the least probable row that has the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Vec<CoveragePoint>>,
    /// For classes in a tree: the confidence of the answer at each level. One entry per validation row, for a few
    /// thousand rows at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelConfidences>,
}

/// The confidence of an answer at each level of the class tree, and the number of levels, from the top, that are right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelConfidences(pub Vec<f32>, pub usize);

/// The probability from which a class reaches a given precision.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrecisionThreshold {
    /// Counts of the validation rows above the threshold.
    pub point: CoveragePoint,
    /// Validation rows that have the class.
    pub(crate) positives: usize,
    /// `true` if the precision is guaranteed as [`AbstentionCalibration`] describes. `false` if only the validation
    /// rows reach it.
    pub(crate) is_guaranteed: bool,
}

/// A point of the risk–coverage curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoveragePoint {
    /// The lowest confidence that is answered.
    pub confidence: f32,
    /// The number of rows with at least this confidence.
    pub answered: usize,
    /// The number of wrong answers among them.
    pub wrong: usize,
}

/// The probability with which a guarantee may fail.
const DELTA: f64 = 0.05;
/// Starting points of the threshold sequences, as multiples of the smallest row count that can satisfy the guarantee.
/// Each sequence gets an equal share of [`DELTA`].
const SEQUENCE_STARTS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Points on the risk–coverage curve.
const CURVE_POINTS: usize = 100;
/// Points on the curve of each class.
const CLASS_CURVE_POINTS: usize = 32;
/// The share of validation texts that count as unlike the training data.
const UNLIKE_SHARE: f64 = 0.01;
/// The largest number of rows whose level confidences are stored.
const MAX_LEVEL_ROWS: usize = 4_000;
/// The smallest number of rows for a threshold on known n-grams.
const MIN_ROWS: usize = 20;

impl AbstentionCalibration {
    /// Fits the calibration on validation rows: pairs of confidence and correctness, and the shares of known n-grams,
    /// if any.
    pub fn fit(rows: &[(f32, bool)], known: &[f32]) -> AbstentionCalibration {
        AbstentionCalibration {
            rows: rows.len(),
            risk_coverage_curve: risk_coverage_curve(rows),
            least_known: known_share_threshold(known),
            ..AbstentionCalibration::default()
        }
    }

    /// Fits validation rows with one class each, from their probabilities, true classes and shares of known n-grams.
    /// The answers follow the model's decision rule or the class tree.
    pub fn fit_classes(
        probabilities: &[Vec<f32>],
        labels: &[u32],
        known: &[f32],
        (decision, hierarchy): (Option<&DecisionRule>, Option<&Hierarchy>),
    ) -> AbstentionCalibration {
        let answer = |p: &Vec<f32>| match (decision, hierarchy) {
            (Some(decision), _) => decision.class(p),
            (None, Some(tree)) => tree.predict(p),
            (None, None) => argmax(p) as usize,
        };
        let sure = probabilities.iter().zip(labels).map(|(p, &label)| {
            let class = answer(p);
            (p[class], class as u32 == label)
        });
        let mut calibration =
            AbstentionCalibration::fit(&sure.collect::<Vec<_>>(), known).with_class_curves(probabilities, labels);
        let rows = probabilities.iter().zip(labels).step_by(labels.len().div_ceil(MAX_LEVEL_ROWS).max(1));
        if let Some(tree) = hierarchy {
            let levels = |(p, &label): (&Vec<f32>, &u32)| LevelConfidences::new(tree, p, answer(p), label);
            calibration.levels = rows.map(levels).collect();
        }
        calibration
    }

    /// Adds a curve for each class, from the probabilities and the true answers of the same rows.
    pub fn with_class_curves<A: NgramTarget>(
        mut self,
        probabilities: &[Vec<f32>],
        answers: &[A],
    ) -> AbstentionCalibration {
        let classes = probabilities.first().map_or(0, Vec::len);
        let of_class = |class: usize| {
            let holds = answers.iter().map(|answer| answer.label_ids().contains(&(class as u32)));
            let rows: Vec<(f32, bool)> = probabilities.iter().map(|p| p[class]).zip(holds).collect();
            class_curve(&rows)
        };
        (self.rows, self.classes) = (answers.len(), (0..classes).map(of_class).collect());
        self
    }

    /// Returns the probability from which rows have a class with the given precision. Prefers a guaranteed threshold,
    /// and otherwise takes one that holds on the validation rows. `None` if there is neither.
    #[must_use]
    pub fn precision_threshold(&self, class: usize, precision: f64) -> Option<PrecisionThreshold> {
        let steps = self.classes.get(class)?;
        let there = steps.last().map_or(0, |last| last.answered - last.wrong);
        let reaches = |step: &&CoveragePoint| (step.answered - step.wrong) as f64 >= precision * step.answered as f64;
        let promised = guaranteed_threshold(steps, precision).map(|step| (step, true));
        let (step, is_promised) = promised.or_else(|| Some((*steps.iter().rev().find(reaches)?, false)))?;
        Some(PrecisionThreshold { point: step, positives: there, is_guaranteed: is_promised })
    }

    /// Returns the threshold that answers the most rows and guarantees this accuracy.
    #[must_use]
    pub fn threshold_for(&self, target_accuracy: f64) -> Option<CoveragePoint> {
        guaranteed_threshold(&self.risk_coverage_curve, target_accuracy)
    }

    /// Returns a confidence threshold for each level of the class tree. Answers that end at a level are right there
    /// with this accuracy. Levels without a guarantee get `None`. The last level is the whole path.
    ///
    /// Thresholds are chosen from the whole path upwards. Each level uses only the rows that no deeper level answers.
    /// Rows answered further down therefore do not support the guarantee of a level above.
    #[must_use]
    pub fn level_thresholds(&self, target_accuracy: f64) -> Vec<Option<CoveragePoint>> {
        let depth = self.levels.first().map_or(0, |LevelConfidences(sure, _)| sure.len());
        let mut found = vec![None; depth];
        let mut rows: Vec<&LevelConfidences> = self.levels.iter().collect();
        for level in (0..depth).rev() {
            found[level] = match level + 1 == depth {
                true => self.threshold_for(target_accuracy),
                false => {
                    let of_row = |LevelConfidences(sure, right): &&LevelConfidences| (sure[level], *right > level);
                    guaranteed_threshold(
                        &risk_coverage_curve(&rows.iter().map(of_row).collect::<Vec<_>>()),
                        target_accuracy,
                    )
                }
            };
            if let Some(step) = found[level] {
                rows.retain(|LevelConfidences(sure, _)| sure[level] < step.confidence);
            }
        }
        found
    }

    /// Checks that the stored values are consistent.
    pub fn check(&self) -> Result<(), String> {
        let is_step = |step: &CoveragePoint| {
            step.confidence.is_finite() && step.wrong <= step.answered && step.answered <= self.rows
        };
        let rises = |steps: &Vec<CoveragePoint>| steps.windows(2).all(|pair| pair[0].answered < pair[1].answered);
        let mut all = std::iter::once(&self.risk_coverage_curve).chain(&self.classes);
        let is_known = self.least_known.is_none_or(f32::is_finite);
        let depth = self.levels.first().map_or(0, |LevelConfidences(sure, _)| sure.len());
        let is_row = |LevelConfidences(sure, right): &LevelConfidences| {
            sure.len() == depth && *right <= depth && sure.iter().all(|p| p.is_finite())
        };
        if !self.levels.iter().all(is_row) {
            return Err(tr!(
                "caution: expected {depth} finite probabilities in each row of levels, found an invalid row",
                "caution: levels の各行には有限の確率が {depth} 個必要ですが、正しくない行があります"
            ));
        }
        if is_known && all.all(|steps| steps.iter().all(is_step) && rises(steps)) {
            return Ok(());
        }
        Err(tr!(
            "caution: expected steps that answer an increasing number of at most {} rows, found invalid steps",
            "caution: steps の answered は {} 以下で増えていく必要がありますが、そうなっていません",
            self.rows
        ))
    }
}

impl LevelConfidences {
    /// Returns the confidences of a row with these probabilities, the answer `class` and the true class `label`.
    pub(crate) fn new(tree: &Hierarchy, probabilities: &[f32], class: usize, label: u32) -> LevelConfidences {
        LevelConfidences(tree.level_confidences(probabilities, class), tree.shared_levels(class, label as usize))
    }

    /// Returns the level, from 1, at which the answer ends, and whether the answer is right there. `None` if the row is
    /// not answered.
    pub fn answered_level(&self, steps: &[Option<CoveragePoint>]) -> Option<(usize, bool)> {
        let level = deepest_confident_level(&self.0, steps)?;
        Some((level, self.1 >= level))
    }
}

/// Returns the deepest level, from 1, whose confidence reaches its threshold.
#[must_use]
pub(crate) fn deepest_confident_level(sure: &[f32], steps: &[Option<CoveragePoint>]) -> Option<usize> {
    let is_sure = |(p, step): (&f32, &Option<CoveragePoint>)| step.is_some_and(|step| *p >= step.confidence);
    sure.iter().zip(steps).rposition(is_sure).map(|at| at + 1)
}

/// Returns the threshold that answers the most rows among those that guarantee the accuracy.
fn guaranteed_threshold(steps: &[CoveragePoint], target_accuracy: f64) -> Option<CoveragePoint> {
    let part = DELTA / SEQUENCE_STARTS.len() as f64;
    let least = part.ln() / target_accuracy.ln();
    let passes = |step: &&CoveragePoint| binomial_cdf(step.wrong, step.answered, 1.0 - target_accuracy) <= part;
    let chain = |start: &f64| {
        let from = steps.iter().skip_while(|step| (step.answered as f64) < start * least);
        from.take_while(passes).last().copied()
    };
    SEQUENCE_STARTS.iter().filter_map(chain).max_by_key(|step| step.answered)
}

/// The curve of a class, from the probability of each row and whether the row has the class. The points split the
/// positive rows evenly.
fn class_curve(rows: &[(f32, bool)]) -> Vec<CoveragePoint> {
    let mut sorted = rows.to_vec();
    sorting::sort_by(&mut sorted, |a, b| b.0.total_cmp(&a.0));
    let there = sorted.iter().filter(|row| row.1).count();
    let mut steps: Vec<CoveragePoint> = Vec::new();
    let (mut at, mut right) = (0, 0);
    for step in 1..=CLASS_CURVE_POINTS.min(there) {
        let target = (there * step).div_ceil(CLASS_CURVE_POINTS.min(there));
        // Rows of equal probability are answered together.
        while at < sorted.len() && (right < target || sorted[at].0 == sorted[at - 1].0) {
            right += usize::from(sorted[at].1);
            at += 1;
        }
        if steps.last().is_none_or(|last| last.answered < at) {
            steps.push(CoveragePoint { confidence: sorted[at - 1].0, answered: at, wrong: at - right });
        }
    }
    steps
}

/// Returns the share of wrong answers among the 1 %, 2 %, … 100 % most confident rows. This is the risk–coverage curve
/// (El-Yaniv and Wiener 2010). The input is the confidence of each row and whether its answer is right. Rows of equal
/// confidence are answered together. The result is empty without rows.
///
/// ```
/// let risks = chumoku_inference::risks_by_coverage(&[(0.9, true), (0.8, true), (0.7, false), (0.6, true)]);
/// assert_eq!((risks[0], risks[49], risks[74], risks[99]), (0.0, 0.0, 1.0 / 3.0, 0.25));
/// ```
#[must_use]
pub fn risks_by_coverage(rows: &[(f32, bool)]) -> Vec<f32> {
    let steps = risk_coverage_curve(rows);
    let risk = |part: usize| {
        let target = (rows.len() * part).div_ceil(CURVE_POINTS);
        let step = steps.iter().find(|step| step.answered >= target)?;
        Some((step.wrong as f64 / step.answered as f64) as f32)
    };
    (1..=CURVE_POINTS).filter_map(risk).collect()
}

/// Computes the risk–coverage curve from the confidence of each row and whether its answer is right.
pub fn risk_coverage_curve(rows: &[(f32, bool)]) -> Vec<CoveragePoint> {
    let mut sorted = rows.to_vec();
    sorting::sort_by(&mut sorted, |a, b| b.0.total_cmp(&a.0));
    let mut steps: Vec<CoveragePoint> = Vec::with_capacity(CURVE_POINTS);
    let (mut at, mut wrong) = (0, 0);
    for step in 1..=CURVE_POINTS {
        let end = (sorted.len() * step).div_ceil(CURVE_POINTS);
        // Rows of equal confidence are answered together.
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

/// The share of known n-grams below which one row in a hundred lies.
fn known_share_threshold(known: &[f32]) -> Option<f32> {
    let mut sorted = known.to_vec();
    sorting::sort_by(&mut sorted, f32::total_cmp);
    let rank = ((sorted.len() as f64 * UNLIKE_SHARE) as usize).max(1);
    sorted.get(rank - 1).copied().filter(|_| sorted.len() >= MIN_ROWS)
}

/// The reason why an accuracy guarantee failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuaranteeViolation {
    /// The failure is within chance.
    Chance,
    /// The failure is beyond chance: the rows differ from the validation rows.
    Unlike,
}

/// Returns why the answered rows miss this accuracy, or `None` if they reach it.
pub fn guarantee_violation(right: usize, answered: usize, share: f64) -> Option<GuaranteeViolation> {
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

/// The probability of at most `k` successes in `n` trials with success probability `p`.
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
    fn tails_match_the_binomial_distribution() {
        // Values of scipy.stats.binom.cdf.
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
    fn failed_guarantees_are_distinguished_from_chance() {
        assert_eq!([guarantee_violation(95, 100, 0.95), guarantee_violation(0, 0, 0.95)], [None; 2]);
        // At most 93 of 100 successes occur in 23 % of draws, at most 86 in 0.05 %.
        assert_eq!(
            [93, 86].map(|right| guarantee_violation(right, 100, 0.95)),
            [Some(GuaranteeViolation::Chance), Some(GuaranteeViolation::Unlike)]
        );
    }

    #[test]
    fn rows_of_equal_confidence_share_a_point() {
        let rows = [(0.9, true), (0.9, false), (0.8, true), (0.7, false)];
        let step = |confidence, answered, wrong| CoveragePoint { confidence, answered, wrong };
        assert_eq!(risk_coverage_curve(&rows), [step(0.9, 2, 1), step(0.8, 3, 1), step(0.7, 4, 2)]);
        assert_eq!(risk_coverage_curve(&[]), []);
        let many: Vec<(f32, bool)> = (0..1000).map(|i| (i as f32, true)).collect();
        let steps = risk_coverage_curve(&many);
        assert_eq!((steps.len(), steps[0].answered, steps[99].answered), (CURVE_POINTS, 10, 1000));
    }

    #[test]
    fn few_rows_guarantee_nothing() {
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
        let calibration = |steps: &[CoveragePoint]| AbstentionCalibration {
            rows: 300,
            risk_coverage_curve: steps.to_vec(),
            ..AbstentionCalibration::default()
        };
        // Three hundred rows with four errors would pass if a sequence began there. The first two sequences end at row
        // 172, and the third begins later.
        let found = calibration(&[step(100, 0), step(172, 4), step(300, 4)]).threshold_for(0.95).unwrap();
        assert_eq!(found.answered, 100);
        assert_eq!(calibration(&[step(100, 0), step(300, 4)]).threshold_for(0.95).unwrap().answered, 300);
    }

    /// Rows whose confidence is their probability of being right.
    fn rows(n: usize, stream: u64) -> Vec<(f32, bool)> {
        let random = Philox::new(7, stream);
        let row = |i: u64| {
            let confidence = 0.5 + 0.5 * random.uniform(2 * i).sqrt();
            (confidence, random.uniform(2 * i + 1) < confidence)
        };
        (0..n as u64).map(row).collect()
    }

    #[test]
    fn guarantees_hold() {
        let (mut kept, mut answered, runs) = (0, 0.0, 300);
        for run in 0..runs {
            let calibration = AbstentionCalibration::fit(&rows(1000, run), &[]);
            let Some(step) = calibration.threshold_for(0.95) else {
                kept += 1;
                continue;
            };
            // The true accuracy instead of a sample, over this many rows.
            let new: Vec<(f32, bool)> =
                rows(20_000, 10_000 + run).into_iter().filter(|row| row.0 >= step.confidence).collect();
            let right = new.iter().filter(|row| row.1).count() as f64 / new.len() as f64;
            kept += u64::from(right >= 0.95);
            answered += new.len() as f64 / 20_000.0 / runs as f64;
        }
        assert!(kept as f64 >= 0.95 * runs as f64, "{kept} of {runs}");
        // With known probabilities, 36 % could be answered. A thousand rows only prove the guarantee for fewer.
        assert!(answered > 0.05, "{answered}");
    }

    #[test]
    fn one_row_in_a_hundred_is_unlike_the_others() {
        let known: Vec<f32> = (0..200).map(|i| i as f32 / 200.0).collect();
        assert_eq!(AbstentionCalibration::fit(&[], &known).least_known, Some(1.0 / 200.0));
        assert_eq!(AbstentionCalibration::fit(&[], &known[..19]).least_known, None);
    }

    #[test]
    fn classes_get_thresholds_at_which_they_are_precise() {
        let step = |confidence, answered, wrong| CoveragePoint { confidence, answered, wrong };
        let rows = [(0.9, true), (0.8, false), (0.8, true), (0.7, false), (0.6, true), (0.1, false)];
        assert_eq!(class_curve(&rows), [step(0.9, 1, 0), step(0.8, 3, 1), step(0.6, 5, 2)]);
        assert_eq!(class_curve(&[(0.3, false)]), []);
        let p: Vec<Vec<f32>> = rows.iter().map(|row| vec![row.0, 1.0 - row.0]).collect();
        let labels: Vec<u32> = rows.iter().map(|row| u32::from(!row.1)).collect();
        let calibration = AbstentionCalibration::default().with_class_curves(&p, &labels);
        assert_eq!((calibration.rows, calibration.classes.len()), (6, 2));
        let cut = |precision| {
            calibration
                .precision_threshold(0, precision)
                .map(|cut| (cut.point.answered, cut.positives, cut.is_guaranteed))
        };
        assert_eq!([cut(0.95), cut(0.66), cut(0.6)], [Some((1, 3, false)), Some((3, 3, false)), Some((5, 3, false))]);
        // Class 1 is right in the row where it is most probable.
        assert_eq!(calibration.precision_threshold(1, 0.99).map(|cut| cut.point.answered), Some(1));
        assert_eq!(calibration.precision_threshold(2, 0.5), None);
        let labels: Vec<Vec<u32>> = labels.iter().map(|&label| vec![label]).collect();
        assert_eq!(AbstentionCalibration::default().with_class_curves(&p, &labels), calibration);
        // Enough rows give a guarantee.
        let many = AbstentionCalibration::default().with_class_curves(&vec![vec![0.9, 0.1]; 90], &[0u32; 90]);
        assert!(many.precision_threshold(0, 0.95).unwrap().is_guaranteed && many.precision_threshold(1, 0.1).is_none());
    }

    #[test]
    fn damaged_curves_are_rejected() {
        let good = AbstentionCalibration::fit(&rows(100, 1), &[]);
        good.check().unwrap();
        let mut bad = good.clone();
        bad.risk_coverage_curve[3].wrong = 101;
        assert!(bad.check().is_err());
        let mut bad = good;
        bad.risk_coverage_curve.swap(0, 1);
        assert!(bad.check().is_err());
    }

    /// A tree of two levels: the confidence of each answer, with its probability of being right at the first level and
    /// on the whole path.
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

    /// Answers that end at a level reach the accuracy there by themselves. Answers that go deeper do not count.
    #[test]
    fn guarantees_hold_at_each_level() {
        let (mut kept, mut answered, runs) = ([0, 0], [0, 0], 100);
        for run in 0..runs {
            let rows = level_rows(1500, run);
            let whole: Vec<(f32, bool)> =
                rows.iter().map(|LevelConfidences(sure, right)| (sure[1], *right == 2)).collect();
            let calibration = AbstentionCalibration { levels: rows, ..AbstentionCalibration::fit(&whole, &[]) };
            calibration.check().unwrap();
            let steps = calibration.level_thresholds(0.9);
            assert_eq!(steps[1], calibration.threshold_for(0.9));
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
    fn the_deepest_confident_level_is_answered() {
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
