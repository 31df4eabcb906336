//! Finds labels that are likely wrong, with reasons.

use super::annotation::top_two;
use super::confident_learning::ConfidentJoint;
use super::false_alarms;
use super::odd_labels::OddLabel;
use super::out_of_fold::OutOfFoldModels;
use super::scripts::Script;
use super::shingles::NearPair;
use crate::row::RowRef;
use crate::{NgramEffect, sorting};
use chumoku_kernels::cancel::CancelFlag;
use chumoku_kernels::parallel;
use std::collections::{BTreeMap, BTreeSet};

/// A label that is likely wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelIssue {
    /// The row, from 0.
    pub row: usize,
    /// The given label.
    pub(crate) label: u32,
    /// The more likely label.
    pub(crate) likely: u32,
    /// Probability of the given label.
    pub(crate) given_probability: f32,
    /// Probability of the likely label.
    pub probability: f32,
    /// The n-grams that favor the likely label most over the given one, with their contributions to the log-odds.
    pub(crate) ngrams: Vec<NgramEffect>,
    /// Rows with an equal or nearly equal text but another label.
    pub(crate) contradicted_by: Vec<usize>,
}

/// An estimate of how many labels are wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelNoise {
    /// Number of rows whose label was checked.
    pub(crate) num_judged: usize,
    /// True if the models predict labels better than their frequencies do. If not, no label is reported.
    pub is_informed: bool,
    /// Estimated number of these rows with a wrong label.
    pub wrong_rows: f64,
    /// The same by given and likely label, the most frequent pair first.
    pub pairs: Vec<PairNoise>,
    /// Number of labels that confident learning flags.
    pub num_flagged: usize,
    /// Expected number of false alarms among these, estimated from the most confident rows and how often their labels
    /// differ.
    pub false_alarms: f64,
    /// True if nearly all of these are expected to be false alarms. No label is reported as likely wrong then.
    pub is_weak: bool,
    /// Expected number of false alarms among the labels reported as likely wrong.
    pub listed_false_alarms: f64,
}

/// Estimated number of labels of one class that belong to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairNoise {
    /// The given label.
    pub given: u32,
    /// The likely label.
    pub likely: u32,
    /// Estimated number of rows.
    pub rows: f64,
    /// Share of the rows with the given label.
    pub share: f64,
}

impl LabelNoise {
    /// Returns the estimated share of wrong labels among the checked rows.
    pub fn share(&self) -> f64 {
        if self.num_judged == 0 { 0.0 } else { self.wrong_rows / self.num_judged as f64 }
    }
}

/// The result of checking all labels.
pub(super) struct LabelReview {
    pub(super) issues: Vec<LabelIssue>,
    pub(super) ranking: Vec<usize>,
    pub(super) noise: LabelNoise,
}

/// Most n-grams in a reason.
const MAX_NGRAMS: usize = 3;
/// Largest share of false alarms among flagged labels for models that are strong enough.
const WEAK_SHARE: f64 = 0.8;
/// Largest share of false alarms among the labels reported as likely wrong.
const MAX_LISTED_SHARE: f64 = 0.5;

/// Checks every label against models of other texts. Labels with a single text cannot be checked.
///
/// Rows are ranked by the probability of their own label, the smallest first. As many rows are flagged as confident
/// learning estimates to be wrong: the first in the ranking whose most probable label is another. Ranking the
/// off-diagonal rows of the confident joint first finds fewer of the labels flipped at random, with cleanlab too. The
/// reason is that a row that reaches no threshold is not counted, however improbable its label is.
///
/// At most half of the labels reported as likely wrong are expected to be false alarms. If nearly all flagged labels
/// are, none is reported.
pub(super) fn review_labels(
    models: &OutOfFoldModels,
    texts: &[RowRef<'_>],
    labels: &[u32],
    near: &[NearPair],
    odd_labels: &[OddLabel],
) -> LabelReview {
    let single: BTreeSet<u32> = odd_labels.iter().filter(|odd| odd.has_one_text).map(|odd| odd.label).collect();
    let rows: Vec<usize> = (0..labels.len()).filter(|&row| !single.contains(&labels[row])).collect();
    let probabilities: Vec<f32> = rows.iter().flat_map(|&row| models.row(row)).copied().collect();
    let given: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
    let mut noise = estimate_noise(&ConfidentJoint::estimate(&probabilities, &given, models.classes), &given);
    let own = |at: usize| models.row(rows[at])[given[at] as usize];
    let order = sorting::argsort_by(rows.len(), &|a, b| own(a).total_cmp(&own(b)));
    let ranking = order.iter().map(|&at| rows[at]).collect();
    if !is_informed(&probabilities, &given, models.classes) {
        let noise = LabelNoise { num_judged: rows.len(), ..LabelNoise::default() };
        return LabelReview { issues: Vec::new(), ranking, noise };
    }
    let most = noise.wrong_rows.round() as usize;
    let doubted = order.iter().copied().filter(|&at| top_two(models.row(rows[at])).0 != given[at]).take(most);
    let doubted = limit_false_alarms(doubted.collect(), &probabilities, &given, &mut noise);
    let contradictions = contradictions(labels, near);
    let halting = CancelFlag::current();
    let doubt = |&at: &usize| {
        halting.check();
        let (row, label) = (rows[at], given[at]);
        let p = models.row(row);
        let likely = top_two(p).0;
        LabelIssue {
            row,
            label,
            likely,
            given_probability: p[label as usize],
            probability: p[likely as usize],
            ngrams: reason_ngrams(texts[row].text(), models.ngram_effects(row, texts[row], [likely, label])),
            contradicted_by: contradictions.get(&row).cloned().unwrap_or_default(),
        }
    };
    let doubts = parallel::map(&doubted, doubt);
    LabelReview { issues: doubts, ranking, noise }
}

/// Selects the `doubted` labels to report as likely wrong. Stores the expected false alarms in `noise`.
fn limit_false_alarms(doubted: Vec<usize>, probabilities: &[f32], given: &[u32], noise: &mut LabelNoise) -> Vec<usize> {
    let classes = probabilities.len() / given.len().max(1);
    let of_row = |(p, &label): (&[f32], &u32)| {
        let likely = top_two(p).0;
        (p[likely as usize], likely != label)
    };
    let rows: Vec<(f32, bool)> = probabilities.chunks_exact(classes.max(1)).zip(given).map(of_row).collect();
    let chances = false_alarms::false_alarm_probabilities(&rows);
    noise.num_flagged = doubted.len();
    noise.false_alarms = doubted.iter().map(|&at| chances[at]).sum::<f64>() + 0.0;
    noise.is_weak = noise.false_alarms > WEAK_SHARE * doubted.len() as f64;
    if noise.is_weak {
        return Vec::new();
    }
    // The least likely false alarms first; in a tie, the most suspicious.
    let mut by_chance: Vec<usize> = (0..doubted.len()).collect();
    sorting::sort_by(&mut by_chance, |&a, &b| chances[doubted[a]].total_cmp(&chances[doubted[b]]));
    let (mut sum, mut kept, mut listed) = (0.0, 0, 0.0);
    for (n, &place) in by_chance.iter().enumerate() {
        sum += chances[doubted[place]];
        if sum <= MAX_LISTED_SHARE * (n + 1) as f64 {
            (kept, listed) = (n + 1, sum);
        }
    }
    noise.listed_false_alarms = listed;
    let mut places = by_chance[..kept].to_vec();
    places.sort_unstable();
    places.into_iter().map(|place| doubted[place]).collect()
}

/// Returns whether the models predict the given labels better than their frequencies do, beyond chance. That is the
/// case if the sum of the differences of logarithms exceeds its standard error.
fn is_informed(probabilities: &[f32], given: &[u32], classes: usize) -> bool {
    let mut shares = vec![0.0_f64; classes];
    given.iter().for_each(|&label| shares[label as usize] += 1.0 / given.len() as f64);
    let gain = |(p, &label): (&[f32], &u32)| f64::from(p[label as usize].max(1e-30)).ln() - shares[label as usize].ln();
    let gains: Vec<f64> = probabilities.chunks_exact(classes).zip(given).map(gain).collect();
    let square: f64 = gains.iter().map(|gain| gain * gain).sum();
    gains.iter().sum::<f64>() > square.sqrt()
}

fn estimate_noise(confident: &ConfidentJoint, given: &[u32]) -> LabelNoise {
    let mut of_label: BTreeMap<u32, usize> = BTreeMap::new();
    given.iter().for_each(|&label| *of_label.entry(label).or_default() += 1);
    let pair = |(&[given, likely], &rows): (&[u32; 2], &f64)| {
        let share = rows / of_label[&given] as f64;
        PairNoise { given, likely, rows, share }
    };
    let mut pairs: Vec<PairNoise> = confident.pairs.iter().map(pair).collect();
    sorting::sort_by(&mut pairs, |a, b| b.rows.total_cmp(&a.rows));
    LabelNoise {
        num_judged: given.len(),
        is_informed: true,
        wrong_rows: confident.num_wrong(),
        pairs,
        ..LabelNoise::default()
    }
}

/// Returns for each row the rows with nearly the same text but another label.
fn contradictions(labels: &[u32], near: &[NearPair]) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &NearPair { texts: [a, b], .. } in near {
        if b < labels.len() && labels[a] != labels[b] {
            found.entry(a).or_default().push(b);
            found.entry(b).or_default().push(a);
        }
    }
    found
}

/// Returns the strongest n-grams of a text. Whole words are preferred over parts of words. Of n-grams that contain each
/// other (“film”, “a film”), only the strongest is kept.
fn reason_ngrams(text: &str, effects: Vec<(String, f32)>) -> Vec<NgramEffect> {
    let lower = text.to_lowercase();
    let words: BTreeSet<&str> = lower.split(|c: char| !c.is_alphanumeric() && !"'’".contains(c)).collect();
    let (whole, parts): (Vec<_>, Vec<_>) = effects
        .into_iter()
        .filter(|(ngram, effect)| *effect > 0.0 && is_informative(ngram))
        .partition(|(ngram, _)| has_whole_words(ngram, &words));
    distinct_ngrams(if whole.is_empty() { parts } else { whole })
}

/// Returns whether an n-gram has a letter or digit, and more than a single kana.
fn is_informative(ngram: &str) -> bool {
    let is_kana = |c: char| ('ぁ'..='ん').contains(&c);
    let inside = ngram.replace("[START]", "").replace("[END]", "");
    let mut letters = inside.chars().filter(|c| c.is_alphanumeric());
    letters.next().is_some_and(|first| !is_kana(first) || letters.next().is_some())
}

/// Returns whether an n-gram consists of whole words, or of characters of a script without spaces.
fn has_whole_words(ngram: &str, words: &BTreeSet<&str>) -> bool {
    let is_unspaced = |c| matches!(Script::of(c), Some(Script::Japanese | Script::SoutheastAsian));
    let is_sign = |part: &str| ["[START]", "[END]"].contains(&part) || !part.chars().any(char::is_alphanumeric);
    ngram.chars().any(is_unspaced) || ngram.split(' ').all(|part| is_sign(part) || words.contains(part))
}

fn distinct_ngrams(effects: Vec<(String, f32)>) -> Vec<NgramEffect> {
    let mut kept: Vec<NgramEffect> = Vec::new();
    let bare = |name: &str| name.trim_matches('_').to_owned();
    for (ngram, effect) in effects {
        let name = bare(&ngram);
        let says_the_same = |other: &NgramEffect| {
            let other = bare(&other.ngram);
            other.contains(&name) || name.contains(&other)
        };
        if kept.len() < MAX_NGRAMS && !kept.iter().any(says_the_same) {
            kept.push(NgramEffect { ngram, effect });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(text: &str, effects: &[(&str, f32)]) -> Vec<String> {
        let effects = effects.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect();
        reason_ngrams(text, effects).into_iter().map(|ngram| ngram.ngram).collect()
    }

    #[test]
    fn reasons_are_distinct_words() {
        let effects =
            [("film", 0.5), ("a film", 0.4), (".", 0.4), ("ul", 0.3), ("dull", 0.2), ("day", 0.1), ("x", 0.05)];
        assert_eq!(reasons("A film, a dull day. x", &effects), ["film", "dull", "day"]);
        assert_eq!(reasons("a film", &[("_fil", 0.2), ("film", -0.1)]), ["_fil"]);
        assert_eq!(reasons("朝食も良い。", &[("も", 0.5), ("良い", 0.4), ("。[END]", 0.2)]), ["良い"]);
        assert!(reasons("y", &[("y", -0.1)]).is_empty());
    }

    #[test]
    fn models_that_guess_are_not_informed() {
        let given = [0, 0, 1, 1];
        assert!(is_informed(&[0.9, 0.1, 0.8, 0.2, 0.1, 0.9, 0.2, 0.8], &given, 2));
        assert!(!is_informed(&[0.5; 8], &given, 2));
        assert!(!is_informed(&[0.6, 0.4, 0.4, 0.6, 0.5, 0.5, 0.45, 0.55], &given, 2));
        assert!(!is_informed(&[], &[], 2));
    }

    #[test]
    fn contradictions_are_listed_for_both_rows() {
        let near = [[0, 1], [0, 2], [1, 5]].map(|texts| NearPair { texts, similarity: 0.9 });
        assert_eq!(contradictions(&[0, 1, 0], &near), BTreeMap::from([(0, vec![1]), (1, vec![0])]));
    }
}
