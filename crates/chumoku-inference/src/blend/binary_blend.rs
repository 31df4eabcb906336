//! Multi-label prediction: calibrated probabilities from the network and the n-gram model, and thresholds for the
//! predicted labels.

use crate::sorting;
use serde::{Deserialize, Serialize};

/// `p_k = 1 / (1 + exp(−(network · z_network,k + ngrams · z_ngrams,k + offset_k)))`, with a threshold for each
/// label.
///
/// The two weights and the offsets are fitted on validation rows by maximum likelihood. This is a logistic regression
/// (Platt 1999) on the log-odds of both members, with weights shared by all labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryBlend {
    /// Weight of the network's log-odds.
    #[serde(rename = "attention")]
    pub network: f32,
    /// Weight of the n-gram model's log-odds.
    pub ngrams: f32,
    /// The offset that is added to the log-odds of each label.
    pub offsets: Vec<f32>,
    /// The lowest probability at which each label is predicted.
    pub thresholds: Vec<f32>,
}

/// The strength of the prior on weights and offsets, in rows.
const PRIOR_ROWS: f64 = 4.0;

/// The smallest gain, in rows, for which a label leaves the shared threshold.
const MIN_GAIN: f64 = 2.0;

/// The range of thresholds.
const THRESHOLD_RANGE: [f32; 2] = [0.02, 0.98];

impl BinaryBlend {
    /// Uses the network alone, without scaling.
    pub fn network_only(labels: usize) -> BinaryBlend {
        BinaryBlend { network: 1.0, ngrams: 0.0, offsets: vec![0.0; labels], thresholds: vec![0.5; labels] }
    }

    /// Converts a blend fitted on n-gram log-odds alone: the fitted weight becomes the n-gram weight.
    pub(crate) fn into_ngrams_only(self) -> BinaryBlend {
        BinaryBlend { network: 0.0, ngrams: self.network, ..self }
    }

    /// Returns label probabilities from the log-odds of both members.
    pub fn probabilities(&self, network: &[f32], ngrams: Option<&[f32]>) -> Vec<f32> {
        let score = |label: usize| {
            let of_ngrams = ngrams.map_or(0.0, |ngrams| self.ngrams * ngrams[label]);
            self.network * network[label] + of_ngrams + self.offsets[label]
        };
        (0..network.len()).map(|label| sigmoid(score(label))).collect()
    }

    /// Returns the predicted labels in ascending order.
    pub fn predicted_labels(&self, probabilities: &[f32]) -> Vec<u32> {
        let all = (0..).zip(probabilities).zip(&self.thresholds);
        all.filter(|((_, p), threshold)| p >= threshold).map(|((label, _), _)| label).collect()
    }

    /// The confidence that the predicted labels are exactly the true ones. Labels are treated as independent.
    pub fn confidence(&self, probabilities: &[f32]) -> f32 {
        let all = probabilities.iter().zip(&self.thresholds);
        let of_label = |(p, threshold): (&f32, &f32)| f64::from(if p >= threshold { *p } else { 1.0 - p });
        all.map(of_label).map(|p| p.max(1e-30).ln()).sum::<f64>().exp() as f32
    }

    /// Checks the values for this number of labels.
    pub(crate) fn check(&self, labels: usize) -> Result<(), String> {
        let numbers = [&[self.network, self.ngrams][..], &self.offsets, &self.thresholds].concat();
        if self.offsets.len() == labels && self.thresholds.len() == labels && numbers.iter().all(|x| x.is_finite()) {
            return Ok(());
        }
        Err(crate::tr!(
            "labels: expected a finite offset and threshold for each of {labels}, found {} and {}",
            "labels: {labels} 個のラベルそれぞれに有限の offset と threshold が必要ですが、{} 個と {} 個です",
            self.offsets.len(),
            self.thresholds.len()
        ))
    }

    /// Fits weights and offsets, then thresholds, on rows of log-odds with their labels. With empty `ngrams`, fits one
    /// weight. Rows count equally unless `row_weights` are given.
    pub fn fit(
        network: &[Vec<f32>],
        ngrams: &[Vec<f32>],
        truth: &[Vec<u32>],
        row_weights: Option<&[f32]>,
        labels: usize,
    ) -> BinaryBlend {
        let both = !ngrams.is_empty();
        let prior = if both { [0.5, 0.5] } else { [1.0, 0.0] };
        let mut blend = BinaryBlend {
            network: prior[0] as f32,
            ngrams: prior[1] as f32,
            offsets: vec![0.0; labels],
            thresholds: vec![0.5; labels],
        };
        if truth.is_empty() {
            return blend;
        }
        let data = BlendData { network, ngrams, truth, row_weights, labels, prior };
        let w = data.fit();
        // A weight must not be negative. If one is, fit the other member alone.
        if both && w.shared[1] < 0.0 {
            return BinaryBlend::fit(network, &[], truth, row_weights, labels);
        }
        if both && w.shared[0] < 0.0 {
            let alone = BinaryBlend::fit(ngrams, &[], truth, row_weights, labels);
            return BinaryBlend { network: 0.0, ngrams: alone.network, ..alone };
        }
        blend.network = if both { w.shared[0] } else { w.shared[0].max(0.01) } as f32;
        blend.ngrams = w.shared[1] as f32;
        blend.offsets = w.offsets.iter().map(|&x| x as f32).collect();
        let none = vec![0.0; labels];
        let row = |i: usize| blend.probabilities(&network[i], Some(ngrams.get(i).unwrap_or(&none)));
        let probabilities: Vec<Vec<f32>> = (0..truth.len()).map(row).collect();
        blend.thresholds = fit_thresholds(&probabilities, truth, row_weights, labels);
        blend
    }
}

/// Returns 1 / (1 + e⁻ᶻ).
pub fn sigmoid(z: f32) -> f32 {
    1.0 / (1.0 + (-z).exp())
}

/// ln(1 / (1 + e⁻ᶻ)).
pub(crate) fn log_sigmoid(z: f32) -> f32 {
    z.min(0.0) - (-z.abs()).exp().ln_1p()
}

/// Chooses thresholds that approximately maximize micro-F1 on these rows.
///
/// At the maximum of F = 2·TP / (P + T), a label is predicted where p exceeds F/2. This threshold is the same for all
/// labels. See Lipton, Elkan and Naryanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", 2014. A
/// label leaves it only if its own rows gain by more than a few rows can cause. Rows count equally unless `weights` are
/// given.
pub fn fit_thresholds(
    probabilities: &[Vec<f32>],
    truth: &[Vec<u32>],
    weights: Option<&[f32]>,
    labels: usize,
) -> Vec<f32> {
    let mut of_labels: Vec<Vec<WeightedScore>> = vec![Vec::with_capacity(truth.len()); labels];
    for (row, (p, truth)) in probabilities.iter().zip(truth).enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
        for (label, &p) in p.iter().enumerate() {
            let right = if truth.contains(&(label as u32)) { weight } else { 0.0 };
            of_labels[label].push(WeightedScore { p, weight, positive_weight: right });
        }
    }
    let mut all: Vec<WeightedScore> = of_labels.concat();
    let there: f64 = all.iter().map(|answered| answered.positive_weight).sum();
    if there == 0.0 {
        return vec![0.5; labels];
    }
    let f1 = |right: f64, predicted: f64| 2.0 * right / (predicted + there);
    let shared = best_threshold(&mut all, &f1);
    let most = f1(shared.true_positives, shared.predicted);
    let clamp = |threshold: f32| threshold.clamp(THRESHOLD_RANGE[0], THRESHOLD_RANGE[1]);
    let of_label = |rows: &mut Vec<WeightedScore>| {
        // Overall F1 grows where 2·TP − F·P does.
        let worth = |right: f64, predicted: f64| 2.0 * right - most * predicted;
        let at = |threshold: f32| {
            let kept = rows.iter().filter(|row| row.p >= threshold);
            let (right, predicted) = kept.fold((0.0, 0.0), |(r, n), row| (r + row.positive_weight, n + row.weight));
            worth(right, predicted)
        };
        let usual = at(shared.threshold);
        let own = best_threshold(rows, &worth);
        let gain = worth(own.true_positives, own.predicted) - usual;
        clamp(if gain > MIN_GAIN { 0.5 * (own.threshold + shared.threshold) } else { shared.threshold })
    };
    of_labels.iter_mut().map(of_label).collect()
}

/// A label of a row: probability, row weight, and the row weight if the label holds, else 0.
#[derive(Clone, Copy)]
struct WeightedScore {
    p: f32,
    weight: f64,
    positive_weight: f64,
}

/// A threshold with the weight of its true positives and of its predictions.
struct BestThreshold {
    threshold: f32,
    true_positives: f64,
    predicted: f64,
}

/// Returns the threshold that maximizes `worth(right, predicted)`, midway to the next lower probability.
fn best_threshold(rows: &mut [WeightedScore], worth: &dyn Fn(f64, f64) -> f64) -> BestThreshold {
    sorting::sort_by(rows, |a, b| b.p.total_cmp(&a.p));
    let mut best = BestThreshold { threshold: 1.0, true_positives: 0.0, predicted: 0.0 };
    let (mut right, mut predicted) = (0.0, 0.0);
    for (at, row) in rows.iter().enumerate() {
        right += row.positive_weight;
        predicted += row.weight;
        let next = rows.get(at + 1).map_or(0.0, |next| next.p);
        if next < row.p && worth(right, predicted) > worth(best.true_positives, best.predicted) {
            best = BestThreshold { threshold: 0.5 * (row.p + next), true_positives: right, predicted };
        }
    }
    best
}

/// The weights shared by all labels, and the offset of each label.
#[derive(Clone)]
struct BlendWeights {
    shared: [f64; 2],
    offsets: Vec<f64>,
}

struct BlendData<'a> {
    network: &'a [Vec<f32>],
    ngrams: &'a [Vec<f32>],
    truth: &'a [Vec<u32>],
    /// Row weights. All rows count equally if absent.
    row_weights: Option<&'a [f32]>,
    labels: usize,
    prior: [f64; 2],
}

/// Value, gradient and Hessian of the objective. The Hessian block of the offsets is diagonal.
struct BlendDerivatives {
    value: f64,
    shared: [f64; 2],
    offsets: Vec<f64>,
    h_shared: [[f64; 2]; 2],
    h_offsets: Vec<f64>,
    h_mixed: Vec<[f64; 2]>,
}

impl BlendData<'_> {
    fn derivatives(&self, w: &BlendWeights) -> BlendDerivatives {
        let k = self.labels;
        let mut s = BlendDerivatives {
            value: 0.0,
            shared: [0.0; 2],
            offsets: vec![0.0; k],
            h_shared: [[0.0; 2]; 2],
            h_offsets: vec![PRIOR_ROWS * 0.25; k],
            h_mixed: vec![[0.0; 2]; k],
        };
        for i in 0..2 {
            let pull = w.shared[i] - self.prior[i];
            s.value += 0.5 * PRIOR_ROWS * pull * pull;
            s.shared[i] += PRIOR_ROWS * pull;
            s.h_shared[i][i] += PRIOR_ROWS;
        }
        for (label, &offset) in w.offsets.iter().enumerate() {
            s.value += 0.5 * PRIOR_ROWS * 0.25 * offset * offset;
            s.offsets[label] += PRIOR_ROWS * 0.25 * offset;
        }
        for (row, truth) in self.truth.iter().enumerate() {
            let counts = self.row_weights.map_or(1.0, |weights| f64::from(weights[row]));
            for label in 0..k {
                let x = [
                    f64::from(self.network[row][label]),
                    self.ngrams.get(row).map_or(0.0, |ngrams| f64::from(ngrams[label])),
                ];
                let z = w.shared[0] * x[0] + w.shared[1] * x[1] + w.offsets[label];
                let holds = truth.contains(&(label as u32));
                let margin = if holds { z } else { -z };
                s.value += counts * ((-margin).max(0.0) + (-margin.abs()).exp().ln_1p());
                let p = 1.0 / (1.0 + (-z).exp());
                let (residual, curvature) = (counts * (p - f64::from(u8::from(holds))), counts * (p * (1.0 - p)));
                s.offsets[label] += residual;
                s.h_offsets[label] += curvature;
                for i in 0..2 {
                    s.shared[i] += residual * x[i];
                    s.h_mixed[label][i] += curvature * x[i];
                    for j in 0..2 {
                        s.h_shared[i][j] += curvature * x[i] * x[j];
                    }
                }
            }
        }
        s
    }

    /// Newton's method with the offsets eliminated. The step is halved until the objective falls.
    fn fit(&self) -> BlendWeights {
        let mut w = BlendWeights { shared: self.prior, offsets: vec![0.0; self.labels] };
        for _ in 0..50 {
            let s = self.derivatives(&w);
            let (mut h, mut g) = (s.h_shared, s.shared);
            for label in 0..self.labels {
                let mixed = s.h_mixed[label];
                for i in 0..2 {
                    g[i] -= mixed[i] * s.offsets[label] / s.h_offsets[label];
                    for j in 0..2 {
                        h[i][j] -= mixed[i] * mixed[j] / s.h_offsets[label];
                    }
                }
            }
            let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
            let step =
                [(h[1][1] * g[0] - h[0][1] * g[1]) / determinant, (h[0][0] * g[1] - h[1][0] * g[0]) / determinant];
            let of_offset = |label: usize| {
                let mixed = s.h_mixed[label];
                (s.offsets[label] - mixed[0] * step[0] - mixed[1] * step[1]) / s.h_offsets[label]
            };
            let offsets: Vec<f64> = (0..self.labels).map(of_offset).collect();
            let mut size = 1.0;
            let next = loop {
                let next = BlendWeights {
                    shared: [w.shared[0] - size * step[0], w.shared[1] - size * step[1]],
                    offsets: w.offsets.iter().zip(&offsets).map(|(x, step)| x - size * step).collect(),
                };
                if self.derivatives(&next).value <= s.value || size < 1e-6 {
                    break next;
                }
                size *= 0.5;
            };
            let moved = size * step.iter().chain(&offsets).map(|x| x.abs()).fold(0.0, f64::max);
            w = next;
            if moved < 1e-7 {
                break;
            }
        }
        w
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    /// Log-odds, with labels drawn from `scale · z + offset`.
    fn rows(n: usize, scale: f32, offsets: &[f32], stream: u64) -> (Vec<Vec<f32>>, Vec<Vec<u32>>) {
        let random = Philox::new(1, stream);
        (0..n)
            .map(|i| {
                let z: Vec<f32> = (0..offsets.len()).map(|k| 2.0 * random.normal((i * 16 + k) as u64) - 1.0).collect();
                let holds = |k: &u32| {
                    let p = sigmoid(scale * z[*k as usize] + offsets[*k as usize]);
                    random.uniform((1 << 40) + (i * 16) as u64 + u64::from(*k)) < p
                };
                let truth = (0..offsets.len() as u32).filter(holds).collect();
                (z, truth)
            })
            .unzip()
    }

    #[test]
    fn true_weights_and_offsets_are_recovered() {
        let offsets = [0.0, 1.0, -2.0];
        let (z, truth) = rows(20_000, 0.5, &offsets, 1);
        let blend = BinaryBlend::fit(&z, &[], &truth, None, 3);
        assert!((blend.network - 0.5).abs() < 0.03, "{blend:?}");
        for (found, expected) in blend.offsets.iter().zip(offsets) {
            assert!((found - expected).abs() < 0.1, "{blend:?}");
        }
        // Noise gets no weight.
        let (noise, _) = rows(20_000, 1.0, &offsets, 2);
        let blend = BinaryBlend::fit(&noise, &z, &truth, None, 3);
        assert!(blend.network.abs() < 0.03 && (blend.ngrams - 0.5).abs() < 0.03, "{blend:?}");
        assert_eq!(BinaryBlend::fit(&[], &[], &[], None, 3), BinaryBlend::network_only(3));
    }

    #[test]
    fn probabilities_match_frequencies() {
        let (z, truth) = rows(20_000, 0.7, &[0.3, -1.5], 3);
        let blend = BinaryBlend::fit(&z, &[], &truth, None, 2);
        for label in 0..2 {
            for [low, high] in [[0.0, 0.3], [0.3, 0.6], [0.6, 1.0]] {
                let p: Vec<(f32, bool)> = z
                    .iter()
                    .zip(&truth)
                    .map(|(z, truth)| (blend.probabilities(z, None)[label], truth.contains(&(label as u32))))
                    .filter(|(p, _)| (low..high).contains(p))
                    .collect();
                let [predicted, counted] =
                    [p.iter().map(|(p, _)| *p).sum::<f32>(), p.iter().filter(|(_, h)| *h).count() as f32];
                assert!(
                    (predicted - counted).abs() / (p.len() as f32) < 0.02,
                    "{label} {low}: {predicted} {counted} of {}",
                    p.len()
                );
            }
        }
    }

    #[test]
    fn thresholds_maximize_f1() {
        let (z, truth) = rows(4_000, 1.0, &[0.0, -1.0, -3.0], 4);
        let p: Vec<Vec<f32>> =
            z.iter().map(|z| (0..3).map(|k| sigmoid(z[k] + [0.0, -1.0, -3.0][k])).collect()).collect();
        let found = fit_thresholds(&p, &truth, None, 3);
        let f1 = |thresholds: &[f32]| {
            let blend = BinaryBlend { thresholds: thresholds.to_vec(), ..BinaryBlend::network_only(3) };
            let predicted: Vec<Vec<u32>> = p.iter().map(|p| blend.predicted_labels(p)).collect();
            crate::scoring::micro_f1(&truth, &predicted, None)
        };
        let best = (1..50).map(|i| f1(&[i as f32 / 50.0; 3])).fold(0.0, f64::max);
        assert!(f1(&found) > best - 0.002, "{} {best}", f1(&found));
        assert!(f1(&found) > f1(&[0.5; 3]), "{found:?}");
        // In theory, the threshold is half of F1 for all labels.
        assert!(found.iter().all(|t| (f64::from(*t) - best / 2.0).abs() < 0.08), "{found:?} {best}");
        assert_eq!(fit_thresholds(&[vec![0.2]], &[vec![]], None, 1), [0.5]);
    }

    /// Rows of weight 2 give the same blend and thresholds as two copies of each row.
    #[test]
    fn a_row_weight_of_two_equals_two_copies_of_the_row() {
        let (z, truth) = rows(300, 0.7, &[0.3, -1.5], 6);
        let (noise, _) = rows(300, 1.0, &[0.3, -1.5], 7);
        let weights: Vec<f32> = (0..300).map(|row| if row % 3 == 0 { 2.0 } else { 1.0 }).collect();
        let weighted = BinaryBlend::fit(&z, &noise, &truth, Some(&weights), 2);
        let again: Vec<usize> = (0..300).chain((0..300).filter(|row| row % 3 == 0)).collect();
        let pick = |rows: &[Vec<f32>]| again.iter().map(|&row| rows[row].clone()).collect::<Vec<_>>();
        let twice: Vec<Vec<u32>> = again.iter().map(|&row| truth[row].clone()).collect();
        let twice = BinaryBlend::fit(&pick(&z), &pick(&noise), &twice, None, 2);
        let numbers =
            |blend: &BinaryBlend| [&[blend.network, blend.ngrams][..], &blend.offsets, &blend.thresholds].concat();
        let is_near = numbers(&weighted).iter().zip(numbers(&twice)).all(|(a, b)| (a - b).abs() < 1e-5);
        let plain = BinaryBlend::fit(&z, &noise, &truth, None, 2);
        assert!(is_near && weighted != plain, "{weighted:?} {twice:?}");
        assert_eq!(BinaryBlend::fit(&z, &noise, &truth, Some(&[1.0; 300]), 2), plain);
    }

    #[test]
    fn logarithms_of_small_probabilities_stay_finite() {
        assert!((log_sigmoid(-200.0) + 200.0).abs() < 1e-3 && log_sigmoid(200.0) == 0.0);
        assert!((log_sigmoid(0.3) - sigmoid(0.3).ln()).abs() < 1e-6);
    }
}
