//! What a score could as well have been: the bootstrap that intervals come from.
//!
//! The bootstrap (Efron 1979, percentile method) draws as many rows as there are, with replacement, and scores them; the
//! middle 95 % of 1,000 such scores are the interval. Taken as it is, it misleads where a class is rare: resamples without
//! the class have one F1 fewer to take the mean of, and a class of which all rows were answered alike seems certain. So
//! three things are done:
//!
//! - What is drawn is texts, not rows: rows of equal text (but for case and white space) and class stand or fall
//!   together, and many copies of a text are no more evidence than one.
//! - A class that a draw leaves out is drawn from once more by itself, so no class is lost. The mean is over the same
//!   classes in every resample.
//! - Each class has one imaginary text more, right as often as a text of the mean class is. It is what ten rows that are
//!   all wrong do not rule out: that the eleventh is right. (A prior worth one observation, its mean taken from all
//!   classes, as in empirical Bayes.)
//!
//! Resamples do not differ if all rows are right, or all are wrong. Exact intervals stand there (Clopper and Pearson
//! 1934): 29 right rows of 29 leave open that one text in nine is wrong.
//!
//! The tests simulate how often intervals cover the truth, for balanced and for rare classes.

use super::beta::share_limits;
use crate::data::normalize;
use crate::sorting;
use chumoku_kernels::{Philox, parallel};
use std::collections::HashMap;

/// Scored rows.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The class of each row.
    pub truth: &'a [u32],
    /// The class predicted for each row.
    pub predicted: &'a [u32],
    /// The text of each row; empty if all are taken to differ.
    pub texts: &'a [&'a str],
}

/// Accuracy and macro-F1 with their intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Intervals {
    pub(super) accuracy: [f64; 2],
    pub(super) macro_f1: [f64; 2],
}

const RESAMPLES: u64 = 1000;

/// The share of intervals that may miss the truth.
const LEVEL: f64 = 0.05;

/// The exact interval of the share of right texts if all are right, or none is; none otherwise.
pub(super) fn exact_interval(right: usize, texts: usize) -> Option<[f64; 2]> {
    (texts > 0 && (right == 0 || right == texts)).then(|| share_limits(right, texts, LEVEL))
}

/// Rows of one text and class, as answered by N predictors.
struct Group<const N: usize> {
    class: u32,
    predicted: [u32; N],
    rows: f64,
}

/// The rows of a class and of their answers, of one predictor.
#[derive(Clone)]
struct Tally {
    right: Vec<f64>,
    truth: Vec<f64>,
    predicted: Vec<f64>,
}

impl Tally {
    fn new(classes: usize) -> Tally {
        let zeros = vec![0.0; classes];
        Tally { right: zeros.clone(), truth: zeros.clone(), predicted: zeros }
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

    /// Accuracy, and mean F1 over `occurring` classes.
    fn figures(&self, occurring: f64) -> [f64; 2] {
        let f1 = |class: usize| {
            let rows = self.truth[class] + self.predicted[class];
            if rows > 0.0 { 2.0 * self.right[class] / rows } else { 0.0 }
        };
        let rows: f64 = self.truth.iter().sum();
        let f1s: f64 = (0..self.truth.len()).map(f1).sum();
        [self.right.iter().sum::<f64>() / rows.max(f64::MIN_POSITIVE), f1s / occurring.max(1.0)]
    }
}

/// What resamples are drawn from.
struct Population<const N: usize> {
    /// By class.
    groups: Vec<Group<N>>,
    /// Where the groups of each class begin, and their end.
    starts: Vec<usize>,
    whole: [Tally; N],
    /// Classes that occur, among rows or answers.
    occurring: [f64; N],
    /// Mean recall of the classes that have rows.
    recall: [f64; N],
    /// For each class, what share of wrong answers goes to it or to one before it.
    wrong: [Vec<f64>; N],
}

impl<const N: usize> Population<N> {
    fn new(truth: &[u32], predicted: [&[u32]; N], texts: &[&str], classes: usize) -> Self {
        let mut found: HashMap<(String, u32, [u32; N]), f64> = HashMap::new();
        let mut groups = Vec::new();
        let mut whole = [(); N].map(|()| Tally::new(classes));
        for (row, &class) in truth.iter().enumerate() {
            let answers = predicted.map(|predicted| predicted[row]);
            for (tally, answer) in whole.iter_mut().zip(answers) {
                tally.add(class as usize, answer as usize, 1.0);
            }
            match texts.get(row) {
                Some(text) => *found.entry((normalize(text), class, answers)).or_default() += 1.0,
                None => groups.push(Group { class, predicted: answers, rows: 1.0 }),
            }
        }
        groups.extend(found.into_iter().map(|((_, class, predicted), rows)| Group { class, predicted, rows }));
        // The order in which they were found is not fixed; groups that are alike in all of this are the same to a draw.
        sorting::sort_by(&mut groups, |a, b| {
            (a.class, a.predicted).cmp(&(b.class, b.predicted)).then(a.rows.total_cmp(&b.rows))
        });
        let starts =
            (0..=classes).map(|class| groups.partition_point(|group| (group.class as usize) < class)).collect();
        let occurs = |tally: &Tally, class: usize| tally.truth[class] + tally.predicted[class] > 0.0;
        let occurring = std::array::from_fn(|n| (0..classes).filter(|&class| occurs(&whole[n], class)).count() as f64);
        let recall = std::array::from_fn(|n| {
            let recalls: Vec<f64> = (0..classes)
                .filter(|&class| whole[n].truth[class] > 0.0)
                .map(|class| whole[n].right[class] / whole[n].truth[class])
                .collect();
            recalls.iter().sum::<f64>() / recalls.len().max(1) as f64
        });
        let wrong = std::array::from_fn(|n| {
            let tally: &Tally = &whole[n];
            let mut sum = 0.0;
            let shares = (0..classes).map(|class| {
                // Half a row, so that a class that was never predicted may be.
                sum += if occurs(tally, class) { tally.predicted[class] + 0.5 } else { 0.0 };
                sum
            });
            shares.collect()
        });
        Population { groups, starts, whole, occurring, recall, wrong }
    }

    /// Draws once: accuracy and macro-F1 of each predictor.
    fn draw(&self, random: &Philox, tallies: &mut [Tally; N]) -> [[f64; 2]; N] {
        tallies.iter_mut().for_each(Tally::clear);
        let texts = self.groups.len();
        let mut blocks = (0..).flat_map(|block| random.block(block)).map(u64::from);
        let mut word = || blocks.next().expect("there is no end of words");
        for _ in 0..texts {
            let group = ((word() * texts as u64) >> 32) as usize;
            let second = word();
            self.take(group, second, tallies);
        }
        for class in 0..self.starts.len() - 1 {
            let (start, end) = (self.starts[class], self.starts[class + 1]);
            if start < end && tallies[0].truth[class] == 0.0 {
                let group = start + ((word() * (end - start) as u64) >> 32) as usize;
                let second = word();
                self.take(group, second, tallies);
            }
        }
        std::array::from_fn(|n| tallies[n].figures(self.occurring[n]))
    }

    /// Adds a group or, with the chance of one text more in its class, the imaginary one.
    fn take(&self, group: usize, word: u64, tallies: &mut [Tally; N]) {
        let Group { class, predicted, rows } = &self.groups[group];
        let class = *class as usize;
        let texts = (self.starts[class + 1] - self.starts[class]) as u64;
        let place = word * (texts + 1);
        if place >> 32 > 0 {
            for (tally, &answer) in tallies.iter_mut().zip(predicted) {
                tally.add(class, answer as usize, *rows);
            }
            return;
        }
        // What is left of the word is as random as all of it.
        let u = (place & 0xffff_ffff) as f64 / (1u64 << 32) as f64;
        for (n, tally) in tallies.iter_mut().enumerate() {
            let answer = if u < self.recall[n] {
                class
            } else {
                self.mistaken(n, class, (u - self.recall[n]) / (1.0 - self.recall[n]))
            };
            tally.add(class, answer, self.whole[n].truth[class] / texts as f64);
        }
    }

    /// Another class, as often as it is predicted; `u` from 0 to 1 decides.
    fn mistaken(&self, n: usize, class: usize, u: f64) -> usize {
        let sums = &self.wrong[n];
        let before = if class == 0 { 0.0 } else { sums[class - 1] };
        let own = sums[class] - before;
        let mut at = u * (sums[sums.len() - 1] - own);
        if at >= before {
            at += own;
        }
        sums.partition_point(|&sum| sum <= at).min(sums.len() - 1)
    }

    /// Accuracy and macro-F1 of each predictor in each resample.
    fn resamples(&self, seed: u64) -> Vec<[[f64; 2]; N]> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        let classes = self.starts.len() - 1;
        // Tallies are made once for a few resamples.
        const AT_A_TIME: u64 = 16;
        let draw = |first: usize| {
            let mut tallies = [(); N].map(|()| Tally::new(classes));
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
    /// The intervals where all rows are right, or all are wrong.
    ///
    /// With all right, the class of the fewest texts leaves most open: the others may be found always, and it as seldom
    /// as its own texts allow.
    fn exact(&self) -> Option<Intervals> {
        let [tally] = &self.whole;
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

/// The intervals of a predictor's scores.
pub(super) fn intervals(rows: &Judged<'_>, classes: usize, seed: u64) -> Intervals {
    let population = Population::new(rows.truth, [rows.predicted], rows.texts, classes);
    if let Some(exact) = population.exact() {
        return exact;
    }
    let found = population.resamples(seed);
    let of = |figure: usize| middle(found.iter().map(|[figures]| figures[figure]).collect());
    Intervals { accuracy: of(0), macro_f1: of(1) }
}

/// By how much the macro-F1 of `rows` is above that of `other` answers to them: the figure, and its interval.
pub(super) fn macro_f1_gain(rows: &Judged<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    gain(1, rows, other, classes, seed)
}

/// The same of accuracy.
pub(crate) fn accuracy_gain(rows: &Judged<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    gain(0, rows, other, classes, seed)
}

fn gain(figure: usize, rows: &Judged<'_>, other: &[u32], classes: usize, seed: u64) -> (f64, [f64; 2]) {
    let population = Population::new(rows.truth, [rows.predicted, other], rows.texts, classes);
    let [ours, theirs] = [0, 1].map(|n| population.whole[n].figures(population.occurring[n])[figure]);
    if rows.predicted == other
        && let Some([_, most]) = exact_interval(0, population.groups.len())
    {
        // Answers that never differ on these texts may differ on as many others as an exact interval allows.
        return (0.0, [-most, most]);
    }
    let gains = population.resamples(seed).into_iter().map(|[ours, theirs]| ours[figure] - theirs[figure]);
    (ours - theirs, middle(gains.collect()))
}

/// The 2.5th and 97.5th percentile.
pub(super) fn middle(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(0.0);
    [at(0.025), at(0.975)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test set: rows of each class, how often each class is answered with each, and how often each text is repeated.
    struct Case {
        rows: &'static [usize],
        answers: fn(usize, usize) -> f64,
        copies: usize,
    }

    /// In what share of simulated test sets the interval of macro-F1 covers the true one; the rows of each class are
    /// fixed, their answers drawn.
    fn coverage(case: &Case) -> f64 {
        let classes = case.rows.len();
        let mut expected = Tally::new(classes);
        for (class, &rows) in case.rows.iter().enumerate() {
            (0..classes).for_each(|answer| expected.add(class, answer, rows as f64 * (case.answers)(class, answer)));
        }
        let [_, truth] = expected.figures(classes as f64);
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
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let rows = Judged { truth: &labels, predicted: &predicted, texts: &texts };
            let [low, high] = intervals(&rows, classes, set).macro_f1;
            (low..=high).contains(&truth)
        });
        covered.count() as f64 / f64::from(sets)
    }

    /// Right with this chance, else any of the others.
    fn even(class: usize, answer: usize, right: f64, others: usize) -> f64 {
        if class == answer { right } else { (1.0 - right) / others as f64 }
    }

    #[test]
    fn few_rows_that_are_all_right_are_no_certainty() {
        let truth: Vec<u32> = (0..29).map(|i| u32::from(i >= 25)).collect();
        let wrong: Vec<u32> = truth.iter().map(|class| 1 - class).collect();
        let found = |predicted: &[u32]| intervals(&Judged { truth: &truth, predicted, texts: &[] }, 2, 1);
        let [accuracy, rare] = [29.0, 4.0].map(|n| 0.025f64.powf(1.0 / n));
        let Intervals { accuracy: [low, high], macro_f1 } = found(&truth);
        assert!((low - accuracy).abs() < 1e-9 && high == 1.0, "{low} {high}");
        // The rare class may be found in 40 % of its texts, which makes its F1 0.57 and the mean 0.78.
        assert!((macro_f1[0] - (1.0 + 2.0 * rare / (1.0 + rare)) / 2.0).abs() < 1e-9 && macro_f1[1] == 1.0);
        let Intervals { accuracy: [low, high], .. } = found(&wrong);
        assert!(low == 0.0 && (high - (1.0 - accuracy)).abs() < 1e-9, "{low} {high}");
        // Copies of one text are one text.
        let rows = Judged { truth: &truth, predicted: &truth, texts: &["the same"; 29] };
        assert!(intervals(&rows, 2, 1).accuracy[0] < 0.2);
        // Nor do equal answers prove that two predictors are equal.
        let rows = Judged { truth: &truth, predicted: &truth, texts: &[] };
        let (gain, [low, high]) = accuracy_gain(&rows, &truth, 2, 1);
        assert!(gain == 0.0 && low == -high && (high - (1.0 - accuracy)).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        // A standard error is 0.013 at 300 sets, 0.022 at 100. A plain bootstrap of rows covers 10 to 30 % in the third case, and in
        // the last half of them, since each text counts five times there.
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
    fn a_class_that_is_never_predicted_makes_no_interval_up_to_everything() {
        // One row in a hundred, never predicted: the score of a resample without the class was 100 %.
        let truth: Vec<u32> = (0..300).map(|i| u32::from(i % 100 == 0)).collect();
        let rows = Judged { truth: &truth, predicted: &[0; 300], texts: &[] };
        let [low, high] = intervals(&rows, 2, 1).macro_f1;
        assert!(low > 0.45 && low < 0.5 && high > 0.55 && high < 0.9, "{low} {high}");
    }

    #[test]
    fn no_resample_is_without_a_class() {
        // One text of 300: a third of all draws would be without it.
        let truth: Vec<u32> = (0..300).map(|i| u32::from(i == 7)).collect();
        let population = Population::new(&truth, [&truth], &[], 2);
        let mut tallies = [Tally::new(2)];
        for resample in 0..100 {
            let [[accuracy, macro_f1]] = population.draw(&Philox::new(5, resample), &mut tallies);
            assert!(tallies[0].truth.iter().all(|&rows| rows > 0.0), "{resample}: {:?}", tallies[0].truth);
            // Where all answers are right, and so is the imaginary one, no class costs anything by its absence.
            assert_eq!([accuracy, macro_f1], [1.0; 2], "{resample}");
        }
    }

    #[test]
    fn copies_narrow_no_interval() {
        let texts: Vec<String> = (0..60).map(|i| format!("text {i}")).collect();
        let of = |copies: usize| {
            let rows = (0..60).flat_map(|i| std::iter::repeat_n(i, copies));
            let (truth, predicted): (Vec<u32>, Vec<u32>) =
                rows.clone().map(|i| (i % 2, if i % 5 == 0 { 1 - i % 2 } else { i % 2 })).unzip();
            let texts: Vec<&str> = rows.map(|i| texts[i as usize].as_str()).collect();
            let [low, high] = intervals(&Judged { truth: &truth, predicted: &predicted, texts: &texts }, 2, 3).accuracy;
            high - low
        };
        let (once, many) = (of(1), of(50));
        assert!((once - many).abs() < 0.02 && once > 0.15, "{once} {many}");
    }

    #[test]
    fn an_interval_is_the_middle_95_of_100() {
        assert_eq!(middle((0..1000).rev().map(f64::from).collect()), [25.0, 975.0]);
        assert_eq!(middle(Vec::new()), [0.0; 2]);
    }

    #[test]
    fn a_gain_is_paired() {
        let truth: Vec<u32> = (0..400).map(|i| i % 2).collect();
        let wrong = |share: u32| -> Vec<u32> {
            truth.iter().zip(0..).map(|(&t, i)| if i % share == 0 { 1 - t } else { t }).collect()
        };
        let (ours, theirs) = (wrong(20), wrong(10));
        let rows = Judged { truth: &truth, predicted: &ours, texts: &[] };
        // The same rows wrong and some more: a small difference that is still sure.
        let (gain, [low, high]) = macro_f1_gain(&rows, &theirs, 2, 1);
        assert!((gain - 0.05).abs() < 0.01 && low > 0.02 && high < 0.08, "{gain} {low} {high}");
        // Equal answers are no proof of equal predictors.
        let (gain, [low, high]) = macro_f1_gain(&rows, &ours, 2, 1);
        assert!(gain == 0.0 && low == -high && high > 0.0 && high < 0.01, "{gain} {low} {high}");
    }
}
