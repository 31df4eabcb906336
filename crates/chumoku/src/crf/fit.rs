//! Training: the penalised likelihood, climbed sentence by sentence (AdaGrad; Duchi, Hazan and Singer 2011).
//!
//! Each sentence is learnt from in its turn, so nothing depends on threads. Weights of features that a sentence does not have would
//! only shrink by the penalty; that is made up for when they next occur.

use super::Crf;
use super::chain::{Sums, score};
use super::tags::Tags;
use chumoku_kernels::Philox;
use std::collections::HashMap;

/// Step size at first.
const RATE: f32 = 0.3;
/// What squares of gradients begin with.
const FLOOR: f32 = 0.1;

/// A sentence to learn from.
pub(crate) struct Sentence {
    /// Of each unit the hashes of what is seen.
    pub(crate) seen: Vec<Vec<u64>>,
    /// The label of each.
    pub(crate) labels: Vec<usize>,
}

/// Scores of each label at each unit.
pub(super) fn emissions(weights: &[f32], known: &[Vec<u32>], labels: usize) -> Vec<f32> {
    let mut out = vec![0.0; known.len() * labels];
    for (row, features) in out.chunks_exact_mut(labels).zip(known) {
        for &feature in features {
            let weights = &weights[feature as usize * labels..][..labels];
            row.iter_mut().zip(weights).for_each(|(e, w)| *e += w);
        }
    }
    out
}

/// Trains with an L2 penalty of `strength` for so many epochs; `told` gets the model after each and says whether to go on.
pub(crate) fn fit(
    sentences: &[Sentence],
    tags: Tags,
    (strength, least): (f32, u32),
    seed: u64,
    epochs: u64,
    mut told: impl FnMut(u64, f64, &dyn Fn() -> Crf) -> bool,
) {
    let labels = tags.count();
    let mut counts: HashMap<u64, u32> = HashMap::new();
    sentences.iter().flat_map(|s| &s.seen).flatten().for_each(|hash| *counts.entry(*hash).or_default() += 1);
    let mut hashes: Vec<u64> = counts.into_iter().filter(|(_, n)| *n >= least).map(|(hash, _)| hash).collect();
    hashes.sort_unstable();
    let number = |hash: &u64| hashes.binary_search(hash).ok().map(|at| at as u32);
    let known: Vec<Vec<Vec<u32>>> = sentences
        .iter()
        .map(|s| s.seen.iter().map(|seen| seen.iter().filter_map(number).collect()).collect())
        .collect();

    let mut weights = vec![0.0_f32; hashes.len() * labels];
    let mut squares = vec![FLOOR; weights.len()];
    let mut touched = vec![0_u32; hashes.len()];
    let mut transitions = tags.transitions(&vec![0.0; (labels + 1) * labels]);
    let mut transition_squares = vec![f64::from(FLOOR); transitions.scores.len()];
    let mut step = 0_u32;
    let penalty = strength / sentences.len().max(1) as f32;
    for epoch in 1..=epochs {
        let mut loss = 0.0;
        for at in Philox::new(seed, 0x6372_6600 + epoch).permutation(sentences.len()) {
            let (sentence, known) = (&sentences[at], &known[at]);
            if known.is_empty() {
                continue;
            }
            step += 1;
            // What the penalty has done since these features were last seen.
            for &feature in known.iter().flatten() {
                let since = (step - touched[feature as usize]) as f32;
                touched[feature as usize] = step;
                if since > 0.0 {
                    let row = feature as usize * labels..(feature as usize + 1) * labels;
                    let pairs = weights[row.clone()].iter_mut().zip(&squares[row]);
                    pairs.for_each(|(w, square)| *w /= 1.0 + RATE * penalty * since / square.sqrt());
                }
            }
            let e = emissions(&weights, known, labels);
            let Some(sums) = Sums::of(&e, &transitions) else { continue };
            loss += sums.log_z - score(&e, &transitions, &sentence.labels);
            for (t, features) in known.iter().enumerate() {
                let truth = sentence.labels[t];
                let gradient = sums.marginals(t, labels).enumerate();
                let gradient: Vec<f32> = gradient.map(|(y, p)| p as f32 - f32::from(u8::from(y == truth))).collect();
                for &feature in features {
                    let row = feature as usize * labels..(feature as usize + 1) * labels;
                    let all = weights[row.clone()].iter_mut().zip(&mut squares[row]).zip(&gradient);
                    for ((w, square), g) in all {
                        *square += g * g;
                        *w -= RATE * g / square.sqrt();
                    }
                }
            }
            let mut pairs = vec![0.0; transitions.scores.len()];
            sums.add_pairs(&transitions, &mut pairs);
            for (t, &label) in sentence.labels.iter().enumerate() {
                let from = if t == 0 { labels } else { sentence.labels[t - 1] };
                pairs[from * labels + label] -= 1.0;
            }
            for (at, gradient) in pairs.into_iter().enumerate() {
                let score = transitions.scores[at];
                if score.is_finite() && gradient != 0.0 {
                    let gradient = gradient + f64::from(penalty) * score;
                    transition_squares[at] += gradient * gradient;
                    transitions.set(at, score - f64::from(RATE) * gradient / transition_squares[at].sqrt());
                }
            }
        }
        let model = || Crf {
            hashes: hashes.clone(),
            weights: weights.clone(),
            transitions: transitions.scores.iter().map(|x| if x.is_finite() { *x as f32 } else { 0.0 }).collect(),
        };
        if !told(epoch, loss, &model) {
            return;
        }
    }
}
