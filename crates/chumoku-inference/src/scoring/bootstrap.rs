//! Bootstrap intervals of scores.
//!
//! The bootstrap (Efron 1979, percentile method) draws as many rows as there are, with replacement, and scores them.
//! The middle 95 % of 1,000 such scores are the interval. The plain bootstrap misleads for rare classes. Resamples
//! without the class have one F1 fewer to average, and a class whose rows were all answered alike seems certain. So it
//! is changed in three ways:
//!
//! - Texts are drawn, not rows: rows of equal text (except for case and white space) and class stay together. Copies of
//!   a text are no further evidence.
//! - If a resample misses a class, one text of the class is added. The mean is over the same classes in every resample.
//! - Each class has one imaginary additional text, with the mean recall of all classes. Ten wrong rows do not prove
//!   that the eleventh is wrong. (It is a prior worth one observation, as in empirical Bayes.)
//!
//! If all rows are correct, or all are wrong, resamples do not differ. Exact intervals replace them (Clopper and
//! Pearson 1934): 29 correct rows of 29 are compatible with one wrong text in nine.
//!
//! The tests simulate the coverage of the intervals for balanced and for rare classes.

use super::clopper_pearson::clopper_pearson;
use crate::data::normalize;
use crate::row::{Row, RowRef};
use crate::sorting;
use chumoku_kernels::{Philox, parallel};
use std::collections::HashMap;

/// True and predicted classes of rows.
#[derive(Clone, Copy, Debug)]
pub struct PredictedRows<'a> {
    /// The class of each row.
    pub truth: &'a [u32],
    /// The class predicted for each row.
    pub predicted: &'a [u32],
    /// The text of each row; empty if all texts differ.
    pub texts: &'a [RowRef<'a>],
}

/// The intervals of accuracy and macro-F1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Intervals {
    pub(super) accuracy: [f64; 2],
    pub(super) macro_f1: [f64; 2],
}

/// Number of bootstrap resamples.
pub(super) const RESAMPLES: u64 = 1000;

/// Draws as many of `rows` rows as there are, with replacement.
pub(super) fn drawn_rows(random: &Philox, rows: usize) -> impl Iterator<Item = usize> {
    let words = (0..rows.div_ceil(4) as u64).flat_map(|block| random.block(block)).take(rows);
    words.map(move |word| ((u64::from(word) * rows as u64) >> 32) as usize)
}

/// The 95 % bootstrap interval of a figure, which is computed for the random numbers of each resample.
pub(super) fn bootstrap_interval(seed: u64, figure: impl Fn(&Philox) -> f64) -> [f64; 2] {
    let mut found: Vec<f64> = (0..RESAMPLES).map(|resample| figure(&Philox::new(seed, resample))).collect();
    found.sort_by(f64::total_cmp);
    let tail = found.len() / 40;
    [found[tail], found[found.len() - 1 - tail]]
}

/// Probability that an interval misses the truth.
const MISS_RATE: f64 = 0.05;

/// Returns the exact interval of accuracy if all texts are correct, or all are wrong; otherwise `None`.
pub(super) fn exact_interval(right: usize, texts: usize) -> Option<[f64; 2]> {
    (texts > 0 && (right == 0 || right == texts)).then(|| clopper_pearson(right, texts, MISS_RATE))
}

/// Rows of one text and class, with the same answers of N predictors.
struct AnswerGroup<const N: usize> {
    class: u32,
    predicted: [u32; N],
    rows: f64,
}

/// Correct, true and predicted rows of each class, for one predictor.
#[derive(Clone)]
struct ClassTally {
    right: Vec<f64>,
    truth: Vec<f64>,
    predicted: Vec<f64>,
}

impl ClassTally {
    fn new(classes: usize) -> ClassTally {
        let zeros = vec![0.0; classes];
        ClassTally { right: zeros.clone(), truth: zeros.clone(), predicted: zeros }
    }

    fn add(&mut self, class: usize, predicted: usize, rows: f64) {
        self.truth[class] += rows;
        self.predicted[predicted] += rows;
        if class == predicted {
            self.right[class] += rows;
        }
    }

    fn clear(&mut self) {
        [&mut self.right, &mut self.truth, &mut self.predicted].into_iter().for_each(|counts| counts.fill(0.0));
    }

    /// Returns accuracy, and the mean F1 over `occurring` classes.
    fn accuracy_and_macro_f1(&self, occurring: f64) -> [f64; 2] {
        let f1 = |class: usize| {
            let rows = self.truth[class] + self.predicted[class];
            if rows > 0.0 { 2.0 * self.right[class] / rows } else { 0.0 }
        };
        let rows: f64 = self.truth.iter().sum();
        let f1s: f64 = (0..self.truth.len()).map(f1).sum();
        [self.right.iter().sum::<f64>() / rows.max(f64::MIN_POSITIVE), f1s / occurring.max(1.0)]
    }
}

/// The population that resamples are drawn from.
struct Population<const N: usize> {
    /// Groups, sorted by class.
    groups: Vec<AnswerGroup<N>>,
    /// Start of each class in `groups`, and the end.
    starts: Vec<usize>,
    totals: [ClassTally; N],
    /// Number of classes among rows and answers.
    occurring: [f64; N],
    /// Mean recall over the classes with rows.
    recall: [f64; N],
    /// Cumulative weights of the classes as wrong answers.
    wrong_shares: [Vec<f64>; N],
}

impl<const N: usize> Population<N> {
    fn new(truth: &[u32], predicted: [&[u32]; N], texts: &[RowRef<'_>], classes: usize) -> Self {
        let mut found: HashMap<(Row, u32, [u32; N]), f64> = HashMap::new();
        let mut groups = Vec::new();
        let mut whole = [(); N].map(|()| ClassTally::new(classes));
        for (row, &class) in truth.iter().enumerate() {
            let answers = predicted.map(|predicted| predicted[row]);
            for (tally, answer) in whole.iter_mut().zip(answers) {
                tally.add(class as usize, answer as usize, 1.0);
            }
            match texts.get(row) {
                Some(text) => *found.entry((normalize(text), class, answers)).or_default() += 1.0,
                None => groups.push(AnswerGroup { class, predicted: answers, rows: 1.0 }),
            }
        }
        groups.extend(found.into_iter().map(|((_, class, predicted), rows)| AnswerGroup { class, predicted, rows }));
        // The order of a hash map is not fixed. Groups that are equal in these fields are interchangeable.
        sorting::sort_by(&mut groups, |a, b| {
            (a.class, a.predicted).cmp(&(b.class, b.predicted)).then(a.rows.total_cmp(&b.rows))
        });
        let starts =
            (0..=classes).map(|class| groups.partition_point(|group| (group.class as usize) < class)).collect();
        let occurs = |tally: &ClassTally, class: usize| tally.truth[class] + tally.predicted[class] > 0.0;
        let occurring = std::array::from_fn(|n| (0..classes).filter(|&class| occurs(&whole[n], class)).count() as f64);
        let recall = std::array::from_fn(|n| {
            let recalls: Vec<f64> = (0..classes)
                .filter(|&class| whole[n].truth[class] > 0.0)
                .map(|class| whole[n].right[class] / whole[n].truth[class])
                .collect();
            recalls.iter().sum::<f64>() / recalls.len().max(1) as f64
        });
        let wrong = std::array::from_fn(|n| {
            let tally: &ClassTally = &whole[n];
            let mut sum = 0.0;
            let shares = (0..classes).map(|class| {
                // Half a row, so that a class that was never predicted can occur.
                sum += if occurs(tally, class) { tally.predicted[class] + 0.5 } else { 0.0 };
                sum
            });
            shares.collect()
        });
        Population { groups, starts, totals: whole, occurring, recall, wrong_shares: wrong }
    }

    /// Draws one resample. Returns accuracy and macro-F1 of each predictor.
    fn draw(&self, random: &Philox, tallies: &mut [ClassTally; N]) -> [[f64; 2]; N] {
        tallies.iter_mut().for_each(ClassTally::clear);
        let texts = self.groups.len();
        let mut blocks = (0..).flat_map(|block| random.block(block)).map(u64::from);
        let mut word = || blocks.next().expect("there is no end of words");
        for _ in 0..texts {
            let group = ((word() * texts as u64) >> 32) as usize;
            let second = word();
            self.add_group(group, second, tallies);
        }
        for class in 0..self.starts.len() - 1 {
            let (start, end) = (self.starts[class], self.starts[class + 1]);
            if start < end && tallies[0].truth[class] == 0.0 {
                let group = start + ((word() * (end - start) as u64) >> 32) as usize;
                let second = word();
                self.add_group(group, second, tallies);
            }
        }
        std::array::from_fn(|n| tallies[n].accuracy_and_macro_f1(self.occurring[n]))
    }

    /// Adds a group. With the probability of one additional text in its class, adds the imaginary text instead.
    fn add_group(&self, group: usize, word: u64, tallies: &mut [ClassTally; N]) {
        let AnswerGroup { class, predicted, rows } = &self.groups[group];
        let class = *class as usize;
        let texts = (self.starts[class + 1] - self.starts[class]) as u64;
        let place = word * (texts + 1);
        if place >> 32 > 0 {
            for (tally, &answer) in tallies.iter_mut().zip(predicted) {
                tally.add(class, answer as usize, *rows);
            }
            return;
        }
        // The remaining bits of the word are random too.
        let u = (place & 0xffff_ffff) as f64 / (1u64 << 32) as f64;
        for (n, tally) in tallies.iter_mut().enumerate() {
            let answer = if u < self.recall[n] {
                class
            } else {
                self.wrong_class(n, class, (u - self.recall[n]) / (1.0 - self.recall[n]))
            };
            tally.add(class, answer, self.totals[n].truth[class] / texts as f64);
        }
    }

    /// Returns another class, in proportion to its predictions; `u` from 0 to 1 decides.
    fn wrong_class(&self, n: usize, class: usize, u: f64) -> usize {
        let sums = &self.wrong_shares[n];
        let before = if class == 0 { 0.0 } else { sums[class - 1] };
        let own = sums[class] - before;
        let mut at = u * (sums[sums.len() - 1] - own);
        if at >= before {
            at += own;
        }
        sums.partition_point(|&sum| sum <= at).min(sums.len() - 1)
    }

    /// Returns accuracy and macro-F1 of each predictor in each resample.
    fn resamples(&self, seed: u64) -> Vec<[[f64; 2]; N]> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        let classes = self.starts.len() - 1;
        // Allocate tallies once for several resamples.
        const AT_A_TIME: u64 = 16;
        let draw = |first: usize| {
            let mut tallies = [(); N].map(|()| ClassTally::new(classes));
            let first = first as u64 * AT_A_TIME;
            let draw = |resample| self.draw(&Philox::new(seed, (1 << 61) + resample), &mut tallies);
            (first..RESAMPLES.min(first + AT_A_TIME)).map(draw).collect()
        };
        parallel::map_indices(RESAMPLES.div_ceil(AT_A_TIME) as usize, draw)
            .into_iter()
            .flat_map(|each: Vec<_>| each)
            .collect()
    }
}

impl Population<1> {
    /// Returns exact intervals if all rows are correct, or all are wrong.
    ///
    /// If all are correct, the class with the fewest texts is the least certain. The lower limit assumes full recall
    /// for the other classes, and the lowest compatible recall for this one.
    fn exact_intervals(&self) -> Option<Intervals> {
        let [tally] = &self.totals;
        let (right, rows) = (tally.right.iter().sum::<f64>(), tally.truth.iter().sum::<f64>());
        let texts = self.groups.len();
        if right > 0.0 && right < rows {
            return None;
        }
        let accuracy = exact_interval(if right > 0.0 { texts } else { 0 }, texts)?;
        let [mut low, high] = accuracy;
        if right > 0.0 {
            let few = self.starts.windows(2).map(|ends| ends[1] - ends[0]).filter(|&texts| texts > 0).min()?;
            let [recall, _] = exact_interval(few, few)?;
            let f1 = 2.0 * recall / (1.0 + recall);
            low = low.min(1.0 - (1.0 - f1) / self.occurring[0]);
        }
        Some(Intervals { accuracy, macro_f1: [low, high] })
    }
}

/// Returns the intervals of a predictor's scores.
pub(super) fn intervals(rows: &PredictedRows<'_>, classes: usize, seed: u64) -> Intervals {
    let population = Population::new(rows.truth, [rows.predicted], rows.texts, classes);
    if let Some(exact) = population.exact_intervals() {
        return exact;
    }
    let found = population.resamples(seed);
    let of = |figure: usize| percentile_interval(found.iter().map(|[figures]| figures[figure]).collect());
    Intervals { accuracy: of(0), macro_f1: of(1) }
}

/// Returns the gain in macro-F1 of `rows` over `other` answers, with its interval.
pub(super) fn macro_f1_gain(rows: &PredictedRows<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    gain(1, rows, other, classes, seed)
}

/// Returns the gain in accuracy of `rows` over `other` answers, with its interval.
pub fn accuracy_gain(rows: &PredictedRows<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    gain(0, rows, other, classes, seed)
}

fn gain(figure: usize, rows: &PredictedRows<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    let population = Population::new(rows.truth, [rows.predicted, other], rows.texts, classes);
    let [ours, theirs] = [0, 1].map(|n| population.totals[n].accuracy_and_macro_f1(population.occurring[n])[figure]);
    if rows.predicted == other
        && let Some([_, most]) = exact_interval(0, population.groups.len())
    {
        // Predictors that agree on these texts may differ on others, as far as an exact interval allows.
        return (0.0, [-most, most]);
    }
    let gains = population.resamples(seed).into_iter().map(|[ours, theirs]| ours[figure] - theirs[figure]);
    (ours - theirs, percentile_interval(gains.collect()))
}

/// Returns the 2.5th and 97.5th percentile.
pub(super) fn percentile_interval(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(0.0);
    [at(0.025), at(0.975)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{AsRow, as_rows};

    /// A simulated test set: rows per class, probability of each answer for each class, and copies of each text.
    struct Case {
        rows: &'static [usize],
        answers: fn(usize, usize) -> f64,
        copies: usize,
    }

    /// Returns the coverage of the macro-F1 interval over simulated test sets. The rows of each class are fixed, the
    /// answers random.
    fn coverage(case: &Case) -> f64 {
        let classes = case.rows.len();
        let mut expected = ClassTally::new(classes);
        for (class, &rows) in case.rows.iter().enumerate() {
            (0..classes).for_each(|answer| expected.add(class, answer, rows as f64 * (case.answers)(class, answer)));
        }
        let [_, truth] = expected.accuracy_and_macro_f1(classes as f64);
        let sets = testkit::cases("chumoku", 100, 300);
        let covered = (0..u64::from(sets)).filter(|&set| {
            let random = Philox::new(11, set);
            let (mut labels, mut predicted, mut texts) = (Vec::new(), Vec::new(), Vec::new());
            for class in 0..classes {
                for _ in 0..case.rows[class] {
                    let mut u = f64::from(random.uniform(texts.len() as u64));
                    let answer = (0..classes - 1).find(|&answer| {
                        u -= (case.answers)(class, answer);
                        u < 0.0
                    });
                    let text = format!("{}", texts.len());
                    for _ in 0..case.copies {
                        labels.push(class as u32);
                        predicted.push(answer.unwrap_or(classes - 1) as u32);
                        texts.push(text.clone());
                    }
                }
            }
            let texts = as_rows(&texts);
            let rows = PredictedRows { truth: &labels, predicted: &predicted, texts: &texts };
            let [low, high] = intervals(&rows, classes, set).macro_f1;
            (low..=high).contains(&truth)
        });
        covered.count() as f64 / f64::from(sets)
    }

    /// Correct with probability `right`, otherwise any other class.
    fn even(class: usize, answer: usize, right: f64, others: usize) -> f64 {
        if class == answer { right } else { (1.0 - right) / others as f64 }
    }

    #[test]
    fn few_correct_rows_leave_a_wide_interval() {
        let truth: Vec<u32> = (0..29).map(|i| u32::from(i >= 25)).collect();
        let wrong: Vec<u32> = truth.iter().map(|class| 1 - class).collect();
        let found = |predicted: &[u32]| intervals(&PredictedRows { truth: &truth, predicted, texts: &[] }, 2, 1);
        let [accuracy, rare] = [29.0, 4.0].map(|n| 0.025f64.powf(1.0 / n));
        let Intervals { accuracy: [low, high], macro_f1 } = found(&truth);
        assert!((low - accuracy).abs() < 1e-9 && high == 1.0, "{low} {high}");
        // The rare class may have a recall of only 40 %, which gives it an F1 of 0.57 and a mean of 0.78.
        assert!((macro_f1[0] - (1.0 + 2.0 * rare / (1.0 + rare)) / 2.0).abs() < 1e-9 && macro_f1[1] == 1.0);
        let Intervals { accuracy: [low, high], .. } = found(&wrong);
        assert!(low == 0.0 && (high - (1.0 - accuracy)).abs() < 1e-9, "{low} {high}");
        // Copies of one text count as one text.
        let rows = PredictedRows { truth: &truth, predicted: &truth, texts: &["the same".as_row(); 29] };
        assert!(intervals(&rows, 2, 1).accuracy[0] < 0.2);
        // Equal answers do not prove that two predictors are equal.
        let rows = PredictedRows { truth: &truth, predicted: &truth, texts: &[] };
        let (gain, [low, high]) = accuracy_gain(&rows, &truth, 2, 1);
        assert!(gain == 0.0 && low == -high && (high - (1.0 - accuracy)).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn the_interval_has_its_nominal_coverage() {
        // The standard error is 0.013 for 300 sets and 0.022 for 100. A plain bootstrap of rows covers 10 to 30 % in
        // the third case. It covers half in the last one, where each text counts five times.
        let balanced = Case { rows: &[100, 100], answers: |c, a| even(c, a, 0.8, 1), copies: 1 };
        let rare = Case { rows: &[600, 8], answers: |c, a| even(c, a, [0.99, 0.4][c], 1), copies: 1 };
        let hardly_predicted = Case { rows: &[500, 5], answers: |c, a| even(c, a, [0.999, 0.02][c], 1), copies: 1 };
        let falling = Case { rows: &[200, 100, 30, 10, 3], answers: |c, a| even(c, a, 0.75, 4), copies: 1 };
        let copied = Case { rows: &[60, 30], answers: |c, a| even(c, a, 0.8, 1), copies: 5 };
        for (name, case, least, most) in [
            ("balanced", balanced, 0.91, 0.985),
            ("rare", rare, 0.91, 1.0),
            ("hardly predicted", hardly_predicted, 0.91, 1.0),
            ("falling", falling, 0.91, 1.0),
            ("copied", copied, 0.91, 0.985),
        ] {
            let share = coverage(&case);
            assert!((least..=most).contains(&share), "{name}: {share}");
        }
    }

    #[test]
    fn a_class_that_is_never_predicted_keeps_the_interval_below_one() {
        // One row in a hundred, never predicted. A resample without the class used to score 100 %.
        let truth: Vec<u32> = (0..300).map(|i| u32::from(i % 100 == 0)).collect();
        let rows = PredictedRows { truth: &truth, predicted: &[0; 300], texts: &[] };
        let [low, high] = intervals(&rows, 2, 1).macro_f1;
        assert!(low > 0.45 && low < 0.5 && high > 0.55 && high < 0.9, "{low} {high}");
    }

    #[test]
    fn every_resample_contains_every_class() {
        // One text of 300: a third of plain resamples would miss it.
        let truth: Vec<u32> = (0..300).map(|i| u32::from(i == 7)).collect();
        let population = Population::new(&truth, [&truth], &[], 2);
        let mut tallies = [ClassTally::new(2)];
        for resample in 0..100 {
            let [[accuracy, macro_f1]] = population.draw(&Philox::new(5, resample), &mut tallies);
            assert!(tallies[0].truth.iter().all(|&rows| rows > 0.0), "{resample}: {:?}", tallies[0].truth);
            // If all answers and the imaginary one are correct, every score is 1.
            assert_eq!([accuracy, macro_f1], [1.0; 2], "{resample}");
        }
    }

    #[test]
    fn copies_of_texts_do_not_narrow_the_interval() {
        let texts: Vec<String> = (0..60).map(|i| format!("text {i}")).collect();
        let of = |copies: usize| {
            let rows = (0..60).flat_map(|i| std::iter::repeat_n(i, copies));
            let (truth, predicted): (Vec<u32>, Vec<u32>) =
                rows.clone().map(|i| (i % 2, if i % 5 == 0 { 1 - i % 2 } else { i % 2 })).unzip();
            let texts: Vec<RowRef<'_>> = rows.map(|i| texts[i as usize].as_row()).collect();
            let [low, high] =
                intervals(&PredictedRows { truth: &truth, predicted: &predicted, texts: &texts }, 2, 3).accuracy;
            high - low
        };
        let (once, many) = (of(1), of(50));
        assert!((once - many).abs() < 0.02 && once > 0.15, "{once} {many}");
    }

    #[test]
    fn an_interval_is_the_middle_95_percent() {
        assert_eq!(percentile_interval((0..1000).rev().map(f64::from).collect()), [25.0, 975.0]);
        assert_eq!(percentile_interval(Vec::new()), [0.0; 2]);
    }

    #[test]
    fn a_gain_is_paired() {
        let truth: Vec<u32> = (0..400).map(|i| i % 2).collect();
        let wrong = |share: u32| -> Vec<u32> {
            truth.iter().zip(0..).map(|(&t, i)| if i % share == 0 { 1 - t } else { t }).collect()
        };
        let (ours, theirs) = (wrong(20), wrong(10));
        let rows = PredictedRows { truth: &truth, predicted: &ours, texts: &[] };
        // The other predictor errs on the same rows and some more: a small but certain difference.
        let (gain, [low, high]) = macro_f1_gain(&rows, &theirs, 2, 1);
        assert!((gain - 0.05).abs() < 0.01 && low > 0.02 && high < 0.08, "{gain} {low} {high}");
        // Equal answers do not prove equal predictors.
        let (gain, [low, high]) = macro_f1_gain(&rows, &ours, 2, 1);
        assert!(gain == 0.0 && low == -high && high > 0.0 && high < 0.01, "{gain} {low} {high}");
    }
}
