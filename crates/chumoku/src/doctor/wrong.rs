//! Labels that are likely wrong, and why.

use super::confident::Confident;
use super::names::OddLabel;
use super::out_of_fold::OutOfFold;
use super::shingles::Near;
use crate::NgramEffect;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A label that is likely wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// The row, from 0.
    pub row: usize,
    /// Its label.
    pub label: u32,
    /// The label that is more likely.
    pub likely: u32,
    /// Probability of the given label.
    pub given_probability: f32,
    /// Probability of the likely one.
    pub probability: f32,
    /// The n-grams that speak most for the likely label against the given one, with what each adds to the log-odds.
    pub ngrams: Vec<NgramEffect>,
    /// Rows with an equal or nearly equal text and another label.
    pub contradicted_by: Vec<usize>,
}

/// An estimate of how many labels are wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// Rows whose label was judged.
    pub judged: usize,
    /// Estimated rows among them with a wrong label.
    pub rows: f64,
    /// The same by given label and likely one, the most first.
    pub pairs: Vec<PairNoise>,
}

/// How many labels of one class probably belong to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairNoise {
    /// The label that is given.
    pub given: u32,
    /// The likely one.
    pub likely: u32,
    /// Estimated rows.
    pub rows: f64,
    /// Their share of the rows with the given label.
    pub share: f64,
}

impl Noise {
    /// The share of the judged rows.
    pub fn share(&self) -> f64 {
        if self.judged == 0 { 0.0 } else { self.rows / self.judged as f64 }
    }
}

/// What is found of labels.
pub(super) struct Judged {
    pub(super) doubts: Vec<Doubt>,
    pub(super) ranking: Vec<usize>,
    pub(super) noise: Noise,
}

/// N-grams that a reason names.
const NAMED: usize = 3;

/// Judges every label by models of other texts; those of one text alone cannot be judged.
pub(super) fn judge(
    by_others: &OutOfFold,
    texts: &[&str],
    labels: &[u32],
    near: &[Near],
    odd_labels: &[OddLabel],
) -> Judged {
    let single: BTreeSet<u32> = odd_labels.iter().filter(|odd| odd.single).map(|odd| odd.label).collect();
    let rows: Vec<usize> = (0..labels.len()).filter(|&row| !single.contains(&labels[row])).collect();
    let probabilities: Vec<f32> = rows.iter().flat_map(|&row| by_others.of(row)).copied().collect();
    let given: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
    let confident = Confident::of(&probabilities, &given, by_others.classes);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let is_doubted = |at: usize| confident.counted[at].is_some_and(|class| class != given[at]);
    let suspicion = |at: usize| {
        let p = by_others.of(rows[at]);
        let own = p[given[at] as usize];
        match std::env::var("DOCTOR_RANK").as_deref() {
            Ok("margin") => {
                let other = p.iter().enumerate().filter(|(c, _)| *c != given[at] as usize).map(|(_, p)| *p).fold(0.0, f32::max);
                own - other
            }
            Ok("ratio") => {
                let other = p.iter().enumerate().filter(|(c, _)| *c != given[at] as usize).map(|(_, p)| *p).fold(0.0, f32::max);
                own.ln() - other.ln()
            }
            Ok("adj") => own - confident.thresholds[given[at] as usize] as f32,
            _ => own,
        }
    };
    let all = std::env::var("DOCTOR_ALL").is_ok();
    order.sort_by(|&a, &b| {
        let first = if all { std::cmp::Ordering::Equal } else { is_doubted(b).cmp(&is_doubted(a)) };
        first.then(suspicion(a).total_cmp(&suspicion(b))).then(a.cmp(&b))
    });
    let doubted: Vec<usize> = order.iter().copied().filter(|&at| is_doubted(at)).collect();
    let contradictions = contradictions(labels, near);
    let doubt = |&at: &usize| {
        let (row, label) = (rows[at], given[at]);
        let likely = confident.counted[at].unwrap_or(label);
        let p = by_others.of(row);
        Doubt {
            row,
            label,
            likely,
            given_probability: p[label as usize],
            probability: p[likely as usize],
            ngrams: telling(by_others.effects(row, texts[row], [likely, label])),
            contradicted_by: contradictions.get(&row).cloned().unwrap_or_default(),
        }
    };
    let doubts = doubted.par_iter().map(doubt).collect();
    let ranking = order.iter().map(|&at| rows[at]).collect();
    Judged { doubts, ranking, noise: noise(&confident, &given) }
}

fn noise(confident: &Confident, given: &[u32]) -> Noise {
    let mut of_label: BTreeMap<u32, usize> = BTreeMap::new();
    given.iter().for_each(|&label| *of_label.entry(label).or_default() += 1);
    let pair = |(&[given, likely], &rows): (&[u32; 2], &f64)| {
        let share = rows / of_label[&given] as f64;
        PairNoise { given, likely, rows, share }
    };
    let mut pairs: Vec<PairNoise> = confident.pairs.iter().map(pair).collect();
    pairs.sort_by(|a, b| b.rows.total_cmp(&a.rows));
    Noise { judged: given.len(), rows: confident.wrong(), pairs }
}

/// For each row, the rows with nearly the same text and another label.
fn contradictions(labels: &[u32], near: &[Near]) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &Near { texts: [a, b], .. } in near {
        if b < labels.len() && labels[a] != labels[b] {
            found.entry(a).or_default().push(b);
            found.entry(b).or_default().push(a);
        }
    }
    found
}

/// The strongest n-grams, of several that say the same (“film”, “a film”, “_fil”) one.
fn telling(effects: Vec<(String, f32)>) -> Vec<NgramEffect> {
    let mut kept: Vec<NgramEffect> = Vec::new();
    let bare = |name: &str| name.trim_matches('_').to_owned();
    for (ngram, effect) in effects.into_iter().take_while(|(_, effect)| *effect > 0.0) {
        let name = bare(&ngram);
        let says_the_same = |other: &NgramEffect| {
            let other = bare(&other.ngram);
            other.contains(&name) || name.contains(&other)
        };
        if !kept.iter().any(says_the_same) {
            kept.push(NgramEffect { ngram, effect });
        }
        if kept.len() == NAMED {
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_do_not_repeat_themselves() {
        let effects = [("film", 0.5), ("a film", 0.4), ("_fil", 0.3), ("dull", 0.2), ("day", 0.1), ("x", 0.05), ("y", -0.1)];
        let found = telling(effects.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect());
        assert_eq!(found.iter().map(|ngram| ngram.ngram.as_str()).collect::<Vec<_>>(), ["film", "dull", "day"]);
        assert!(telling(vec![("y".into(), -0.1)]).is_empty());
    }

    #[test]
    fn contradictions_are_told_of_both_rows() {
        let near = [[0, 1], [0, 2], [1, 5]].map(|texts| Near { texts, similarity: 0.9 });
        assert_eq!(contradictions(&[0, 1, 0], &near), BTreeMap::from([(0, vec![1]), (1, vec![0])]));
    }
}
