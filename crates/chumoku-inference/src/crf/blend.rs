//! The blend of a conditional random field with a network that predicts each unit independently: a product of experts
//! (Hinton 2002).
//!
//! ```text
//! score(y) = network · Σ_t ln p(y_t) + crf · score_crf(y)
//! ```

use super::chain::{ForwardBackward, path_score};
use super::tags::TagScheme;
use super::{Crf, Transitions};
use crate::tr;
use chumoku_kernels::parallel;
use serde::{Deserialize, Serialize};

/// The weights of the two members.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaggerBlend {
    /// The weight of the network's log-probabilities.
    pub network: f32,
    /// The weight of the random field's scores.
    pub crf: f32,
}

/// The emissions of both members for a text.
#[derive(Clone, Debug)]
pub struct MemberEmissions {
    /// The scores of the random field: (units, labels).
    pub crf: Vec<f32>,
    /// The log-probabilities of the network: (units, labels). Empty without a network.
    pub network: Vec<f32>,
}

impl TaggerBlend {
    /// Uses only the network.
    pub const NETWORK: TaggerBlend = TaggerBlend { network: 1.0, crf: 0.0 };
    /// Uses only the conditional random field.
    pub const CRF: TaggerBlend = TaggerBlend { network: 0.0, crf: 1.0 };

    /// Checks the weights.
    pub(crate) fn check(self) -> Result<(), String> {
        match [self.network, self.crf].iter().all(|x| x.is_finite() && *x >= 0.0) {
            true => Ok(()),
            false => Err(tr!(
                "blend: expected two weights of at least 0, found {} and {}",
                "blend: 0 以上の重みが二つ必要ですが、{} と {} です",
                self.network,
                self.crf
            )),
        }
    }

    /// Returns the blended score of each label at each unit.
    pub(crate) fn emissions(self, emissions: &MemberEmissions) -> Vec<f32> {
        match emissions.network.is_empty() {
            true => emissions.crf.iter().map(|e| self.crf * e).collect(),
            false => {
                emissions.crf.iter().zip(&emissions.network).map(|(e, n)| self.crf * e + self.network * n).collect()
            }
        }
    }

    /// Returns the score of each pair of consecutive labels.
    pub(crate) fn transitions(self, crf: &Crf, tags: TagScheme) -> Transitions {
        tags.transitions(&crf.transitions.iter().map(|w| self.crf * w).collect::<Vec<f32>>())
    }

    /// Fits the weights by maximum likelihood of these rows' labels. The problem is convex. Steps along each axis,
    /// halved when neither lowers the loss, reach the minimum.
    pub fn fit(crf: &Crf, tags: TagScheme, rows: &[(MemberEmissions, Vec<usize>)]) -> TaggerBlend {
        /// The number of rows that a distance of 1 from equal weights counts as.
        const PRIOR_ROWS: f64 = 4.0;
        const EVEN: TaggerBlend = TaggerBlend { network: 0.5, crf: 0.5 };
        let loss = |shares: TaggerBlend| -> f64 {
            let transitions = shares.transitions(crf, tags);
            let of_row = |(members, labels): &(MemberEmissions, Vec<usize>)| {
                if labels.is_empty() {
                    return 0.0;
                }
                let emissions = shares.emissions(members);
                let sums = ForwardBackward::new(&emissions, &transitions);
                sums.map_or(f64::INFINITY, |sums| sums.log_z - path_score(&emissions, &transitions, labels))
            };
            // Losses are summed in the order of the rows, independent of threads.
            let losses = parallel::map(rows, of_row);
            let pull = f64::from(shares.network - EVEN.network).powi(2) + f64::from(shares.crf - EVEN.crf).powi(2);
            losses.iter().sum::<f64>() + 0.5 * PRIOR_ROWS * pull
        };
        let (mut best, mut step) = (EVEN, 0.25_f32);
        let mut least = loss(best);
        while step > 0.01 {
            let moves = [(step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step)];
            let next = moves.map(|(n, c)| TaggerBlend { network: best.network + n, crf: best.crf + c });
            let allowed = next.into_iter().filter(|next| next.network >= 0.0 && next.crf >= 0.0 && next.network < 8.0);
            let found = allowed.map(|next| (loss(next), next)).min_by(|a, b| a.0.total_cmp(&b.0));
            match found {
                Some((lower, next)) if lower < least => (best, least) = (next, lower),
                _ => step /= 2.0,
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    const TAGS: TagScheme = TagScheme { kinds: 2, each_word: true };

    /// Rows of three units. A member's labels are right with its probability in `trusted`, and otherwise random.
    fn rows(n: u64, trusted: [f32; 2]) -> Vec<(MemberEmissions, Vec<usize>)> {
        let random = Philox::new(3, 9);
        let row = |i: u64| {
            let draw = |k: u64| random.uniform(i * 32 + k);
            let labels: Vec<usize> = (0..3).map(|t| usize::from(draw(t) < 0.5)).collect();
            let example = |half: u64, trust: f32| {
                let of = |t: usize| {
                    let is_right = draw(8 + 4 * half + t as u64) < trust;
                    let says = if is_right { labels[t] } else { 1 - labels[t] };
                    (0..2).map(|y| if y == says { 0.9_f32.ln() } else { 0.1_f32.ln() }).collect::<Vec<_>>()
                };
                (0..3).flat_map(of).collect::<Vec<f32>>()
            };
            (MemberEmissions { crf: example(0, trusted[0]), network: example(1, trusted[1]) }, labels)
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn the_reliable_member_gets_the_weight() {
        let crf = Crf { hashes: vec![], weights: vec![], transitions: vec![0.0; 6] };
        let network = TaggerBlend::fit(&crf, TAGS, &rows(2000, [0.5, 0.9]));
        assert!((network.network - 1.0).abs() < 0.1 && network.crf < 0.06, "{network:?}");
        let of_crf = TaggerBlend::fit(&crf, TAGS, &rows(2000, [0.9, 0.5]));
        assert!((of_crf.crf - 1.0).abs() < 0.1 && of_crf.network < 0.06, "{of_crf:?}");
        // Two independently reliable members get full weights.
        let both = TaggerBlend::fit(&crf, TAGS, &rows(2000, [0.9, 0.9]));
        assert!((both.crf - 1.0).abs() < 0.15 && (both.network - 1.0).abs() < 0.15, "{both:?}");
        assert_eq!(TaggerBlend::fit(&crf, TAGS, &[]), TaggerBlend { network: 0.5, crf: 0.5 });
        assert!(TaggerBlend { network: -1.0, crf: 0.5 }.check().is_err() && both.check().is_ok());
    }
}
