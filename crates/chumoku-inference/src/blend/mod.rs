//! Calibrated probabilities from the scores of both ensemble members: the network and the n-gram model.
//!
//! # Files
//!
//! - `binary_blend`: weights, offsets and thresholds of binary outputs: labels, and thresholds of numbers
//! - `number`: numbers predicted through thresholds, with conformal intervals

pub mod binary_blend;
pub mod number;

use chumoku_nn::probability::{log_softmax, max_and_sum_exp};
use serde::{Deserialize, Serialize};

/// `p = softmax(network · log p_network + ngrams · log p_ngrams)`.
///
/// The two weights are fitted on validation rows by maximum likelihood. This blends the members (a product of experts,
/// Hinton 2002) and calibrates the result. With one weight, it is temperature scaling (Guo et al. 2017). The problem is
/// convex.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blend {
    /// Weight of the network's log-probabilities.
    #[serde(rename = "attention")]
    pub network: f32,
    /// Weight of the n-gram model's log-probabilities.
    pub ngrams: f32,
}

impl Blend {
    /// Uses the network alone, without scaling.
    pub const NETWORK_ONLY: Blend = Blend { network: 1.0, ngrams: 0.0 };

    /// Returns class probabilities from the log-probabilities of both members.
    pub fn probabilities(&self, network: &[f32], ngrams: Option<&[f32]>) -> Vec<f32> {
        let scores: Vec<f32> = match ngrams {
            Some(ngrams) => network.iter().zip(ngrams).map(|(a, n)| self.network * a + self.ngrams * n).collect(),
            None => network.iter().map(|a| self.network * a).collect(),
        };
        log_softmax(&scores).iter().map(|x| x.exp()).collect()
    }

    /// Fits the weights on rows of log-probabilities with their labels. Rows count equally unless `weights` are given.
    /// With empty `ngrams`, fits one weight: the temperature.
    ///
    /// A prior pulls the weights towards (1, 0), or (½, ½) for two members. It counts as much as a few rows and keeps
    /// small validation splits from extremes.
    pub fn fit(network: &[Vec<f32>], ngrams: &[Vec<f32>], labels: &[u32], weights: Option<&[f32]>) -> Blend {
        let both = !ngrams.is_empty();
        let prior = if both { [0.5, 0.5] } else { [1.0, 0.0] };
        if labels.is_empty() {
            return Blend { network: prior[0] as f32, ngrams: prior[1] as f32 };
        }
        const PRIOR_ROWS: f64 = 4.0;
        let mut w = prior;
        // Newton's method on a convex function of two variables. The step is halved until the objective falls.
        let objective = |w: [f64; 2]| -> (f64, [f64; 2], [[f64; 2]; 2]) {
            let (mut value, mut gradient, mut hessian) = (0.0, [0.0; 2], [[0.0; 2]; 2]);
            for i in 0..2 {
                let pull = w[i] - prior[i];
                value += 0.5 * PRIOR_ROWS * pull * pull;
                gradient[i] += PRIOR_ROWS * pull;
                hessian[i][i] += PRIOR_ROWS;
            }
            for (row, &label) in labels.iter().enumerate() {
                let a = &network[row];
                let n = both.then(|| &ngrams[row]);
                let counts = weights.map_or(1.0, |weights| f64::from(weights[row]));
                let feature = |class: usize| [f64::from(a[class]), n.map_or(0.0, |n| f64::from(n[class]))];
                let scores: Vec<f64> = (0..a.len()).map(|c| w[0] * feature(c)[0] + w[1] * feature(c)[1]).collect();
                let (largest, total) = max_and_sum_exp(&scores);
                value -= counts * (scores[label as usize] - largest - total.ln());
                let (mut mean, mut square) = ([0.0; 2], [[0.0; 2]; 2]);
                for (class, score) in scores.iter().enumerate() {
                    let p = (score - largest).exp() / total;
                    let x = feature(class);
                    for i in 0..2 {
                        mean[i] += p * x[i];
                        for j in 0..2 {
                            square[i][j] += p * x[i] * x[j];
                        }
                    }
                }
                let right = feature(label as usize);
                for i in 0..2 {
                    gradient[i] += counts * (mean[i] - right[i]);
                    for j in 0..2 {
                        hessian[i][j] += counts * (square[i][j] - mean[i] * mean[j]);
                    }
                }
            }
            (value, gradient, hessian)
        };
        for _ in 0..50 {
            let (value, g, h) = objective(w);
            let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
            let step =
                [(h[1][1] * g[0] - h[0][1] * g[1]) / determinant, (h[0][0] * g[1] - h[1][0] * g[0]) / determinant];
            let mut size = 1.0;
            let next = loop {
                let next = [w[0] - size * step[0], w[1] - size * step[1]];
                if objective(next).0 <= value || size < 1e-6 {
                    break next;
                }
                size *= 0.5;
            };
            let moved = (next[0] - w[0]).abs() + (next[1] - w[1]).abs();
            w = next;
            if moved < 1e-9 {
                break;
            }
        }
        if !both {
            return Blend { network: w[0].max(0.01) as f32, ngrams: 0.0 };
        }
        // A weight must not be negative. If one is, fit the other member alone.
        if w[1] < 0.0 {
            return Blend::fit(network, &[], labels, weights);
        }
        if w[0] < 0.0 {
            let alone = Blend::fit(ngrams, &[], labels, weights);
            return Blend { network: 0.0, ngrams: alone.network };
        }
        Blend { network: w[0] as f32, ngrams: w[1] as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    /// Rows with labels drawn from softmax(scale · scores).
    fn rows(n: usize, scale: f32, stream: u64) -> (Vec<Vec<f32>>, Vec<u32>) {
        let random = Philox::new(1, stream);
        (0..n)
            .map(|i| {
                let scores: Vec<f32> = (0..3).map(|c| 2.0 * random.normal((i * 8 + c) as u64)).collect();
                let p = log_softmax(&scores.iter().map(|s| s * scale).collect::<Vec<_>>());
                let mut draw = random.uniform((1 << 40) + i as u64);
                let label = p.iter().position(|p| {
                    draw -= p.exp();
                    draw < 0.0
                });
                (log_softmax(&scores), label.unwrap_or(2) as u32)
            })
            .unzip()
    }

    #[test]
    fn overconfident_probabilities_are_smoothed() {
        let (scores, labels) = rows(20_000, 0.5, 1);
        let blend = Blend::fit(&scores, &[], &labels, None);
        assert!((blend.network - 0.5).abs() < 0.03, "{blend:?}");
    }

    #[test]
    fn a_row_weight_of_two_equals_two_copies_of_the_row() {
        let (scores, labels) = rows(200, 0.7, 4);
        let (noise, _) = rows(200, 1.0, 5);
        let weights: Vec<f32> = labels.iter().map(|&label| if label == 1 { 2.0 } else { 1.0 }).collect();
        let weighted = Blend::fit(&scores, &noise, &labels, Some(&weights));
        let ones = vec![1.0; labels.len()];
        assert_eq!(Blend::fit(&scores, &noise, &labels, Some(&ones)), Blend::fit(&scores, &noise, &labels, None));
        let again: Vec<usize> = (0..labels.len()).chain((0..labels.len()).filter(|&row| labels[row] == 1)).collect();
        let pick = |rows: &[Vec<f32>]| again.iter().map(|&row| rows[row].clone()).collect::<Vec<_>>();
        let twice: Vec<u32> = again.iter().map(|&row| labels[row]).collect();
        let twice = Blend::fit(&pick(&scores), &pick(&noise), &twice, None);
        let near = (weighted.network - twice.network).abs() < 1e-5 && (weighted.ngrams - twice.ngrams).abs() < 1e-5;
        assert!(near && weighted != Blend::fit(&scores, &noise, &labels, None), "{weighted:?} {twice:?}");
    }

    #[test]
    fn noise_gets_no_weight_and_true_scores_get_all() {
        let (scores, labels) = rows(5_000, 1.0, 2);
        let (noise, _) = rows(5_000, 1.0, 3);
        let blend = Blend::fit(&scores, &noise, &labels, None);
        assert!((blend.network - 1.0).abs() < 0.07 && blend.ngrams.abs() < 0.05, "{blend:?}");
        let blend = Blend::fit(&noise, &scores, &labels, None);
        assert!((blend.ngrams - 1.0).abs() < 0.07 && blend.network.abs() < 0.05, "{blend:?}");
    }

    #[test]
    fn probabilities_sum_to_one() {
        let blend = Blend { network: 0.7, ngrams: 0.4 };
        let p = blend.probabilities(&log_softmax(&[1.0, 2.0]), Some(&log_softmax(&[-800.0, 900.0])));
        assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-6 && p[1] > 0.99);
        assert_eq!(Blend::fit(&[], &[], &[], None), Blend::NETWORK_ONLY);
    }
}
