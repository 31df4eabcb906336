//! Three limits of recurrent networks, measured before training: one state vector, the gradient by distance, and steps
//! in sequence.

use super::claims::Claim;
use crate::Result;
use crate::nn::{
    AttentionInput, Mode, MultiHeadAttention, MultiHeadAttentionConfig, Offsets, Recurrent, RecurrentConfig,
};
use crate::params::{Builder, Params};
use chumoku_kernels::{Philox, RecurrentCell};
use ndarray::Array2;
use serde::Serialize;

const WIDTH: usize = 64;
const HEADS: usize = 4;
const LENGTH: usize = 101;
/// The seeds of the weights, the inputs and the directions.
const SEEDS: u64 = 5;

/// Distances, in tokens, from the last token to the one whose gradient is measured.
pub const GRADIENT_DISTANCES: [usize; 5] = [1, 5, 10, 50, 100];

/// The gradient of the last output with respect to earlier inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GradientByDistance {
    /// `RNN`, `LSTM`, `GRU` or `attention`.
    pub network: &'static str,
    /// Length of the gradient at each of [`GRADIENT_DISTANCES`], relative to that at the last token. Each is a
    /// geometric mean over five networks with random weights and inputs.
    pub shares: Vec<f64>,
}

/// Three limits of recurrent networks of width 64, next to one layer of attention of the same width.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecurrentLimits {
    /// Tokens in a sequence.
    pub length: usize,
    /// The gradients of RNN, LSTM, GRU and attention.
    pub gradients: Vec<GradientByDistance>,
    /// The numbers that an LSTM carries from one token to the next: output and cell state.
    pub state_numbers: usize,
    /// The numbers of all tokens that a query of attention reads: keys and values.
    pub attended_numbers: usize,
    /// The steps of a recurrent network that must follow each other: one a token.
    pub recurrent_steps: usize,
    /// The matrix products of attention that must follow each other, at any length: projections, scores, weighted sum
    /// and output.
    pub attention_steps: usize,
}

/// A network that maps a sequence of vectors to another, and its backward pass.
enum Layer {
    Recurrent(Recurrent),
    Attention(Box<MultiHeadAttention>),
}

impl Layer {
    /// Returns the gradient of the inner product of the last output and `direction`, one row for each input.
    fn input_gradient(&self, params: &Params<f64>, x: Array2<f64>, direction: &[f64]) -> Result<Array2<f64>> {
        let offsets = Offsets::from_lengths([LENGTH]);
        let mut dy = Array2::zeros(x.dim());
        dy.row_mut(LENGTH - 1).iter_mut().zip(direction).for_each(|(to, from)| *to = *from);
        let mut grads = params.zeroed();
        Ok(match self {
            Layer::Recurrent(layer) => {
                let (_, cache) = layer.forward(params, x, &offsets, Mode::Eval)?;
                layer.backward(params, &cache, &offsets, dy, Mode::Eval, &mut grads)?
            }
            Layer::Attention(layer) => {
                let input = AttentionInput::self_attention(x.view(), &offsets);
                let (_, cache) = layer.forward(params, &input, Mode::Eval)?;
                layer.backward(params, &input, &cache, dy.view(), Mode::Eval, &mut grads)?.0
            }
        })
    }
}

/// Measures the limits. The result is the same on every machine, up to rounding.
pub(super) fn measure_limits() -> Result<RecurrentLimits> {
    let cells = [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru];
    let networks = cells.into_iter().map(Some).chain([None]);
    let gradients = networks.map(gradients_by_distance).collect::<Result<_>>()?;
    Ok(RecurrentLimits {
        length: LENGTH,
        gradients,
        state_numbers: 2 * WIDTH,
        attended_numbers: 2 * WIDTH * LENGTH,
        recurrent_steps: LENGTH,
        attention_steps: 4,
    })
}

/// Measures the gradients of a recurrent network, or of attention without a cell.
fn gradients_by_distance(cell: Option<RecurrentCell>) -> Result<GradientByDistance> {
    let mut builder = Builder::new();
    let layer = match cell {
        Some(cell) => {
            let (d_model, hidden_size) = (WIDTH, WIDTH);
            let config =
                RecurrentConfig { cell, num_layers: 1, d_model, hidden_size, bidirectional: false, dropout: 0.0 };
            Layer::Recurrent(Recurrent::new(&mut builder, &config))
        }
        None => {
            let config = MultiHeadAttentionConfig::new(WIDTH, HEADS)?;
            Layer::Attention(Box::new(MultiHeadAttention::new(&mut builder, config)))
        }
    };
    let layout = builder.finish();
    let mut logarithms = [0.0; GRADIENT_DISTANCES.len()];
    for seed in 1..=SEEDS {
        let params: Params<f64> = Params::init(&layout, seed);
        let random = Philox::new(seed, 1);
        let number = |i: usize| f64::from(random.uniform(i as u64 + 1)) * 2.0 - 1.0;
        let x = Array2::from_shape_fn((LENGTH, WIDTH), |(i, j)| number(i * WIDTH + j));
        let direction: Vec<f64> = (0..WIDTH).map(|j| number(LENGTH * WIDTH + j)).collect();
        let gradient = layer.input_gradient(&params, x, &direction)?;
        let size = |distance: usize| gradient.row(LENGTH - 1 - distance).iter().map(|g| g * g).sum::<f64>().sqrt();
        for (sum, distance) in logarithms.iter_mut().zip(GRADIENT_DISTANCES) {
            *sum += (size(distance) / size(0)).ln() / SEEDS as f64;
        }
    }
    let network = cell.map_or("attention", |cell| match cell {
        RecurrentCell::Rnn => "RNN",
        RecurrentCell::Lstm => "LSTM",
        RecurrentCell::Gru => "GRU",
    });
    Ok(GradientByDistance { network, shares: logarithms.iter().map(|sum| sum.exp()).collect() })
}

/// The share of the gradient at the last token below which it counts as vanished.
const VANISHED: f64 = 1e-3;

impl RecurrentLimits {
    /// Returns the share of a network's gradient at a distance.
    fn share(&self, network: &str, distance: usize) -> f64 {
        let at = GRADIENT_DISTANCES.iter().position(|other| *other == distance);
        let found = self.gradients.iter().find(|found| found.network == network);
        found.zip(at).and_then(|(found, at)| found.shares.get(at).copied()).unwrap_or(f64::NAN)
    }

    /// Checks the three claims.
    pub(super) fn judge(&self) -> [Claim; 3] {
        let all = ["RNN", "LSTM", "GRU", "attention"].map(|network| self.share(network, 50));
        let [rnn, lstm, gru, attention] = all;
        let vanishes = rnn.max(lstm).max(gru) < VANISHED && attention > VANISHED;
        let RecurrentLimits { length, state_numbers, attended_numbers, recurrent_steps, attention_steps, .. } = *self;
        [
            Claim::certain(
                localized!(
                    "the gradient of a recurrent network vanishes with distance, that of attention does not",
                    "再帰型ネットワークの勾配は距離とともに消失し、アテンションの勾配は消失しない",
                ),
                vanishes,
                localized!(
                    "before training, 50 tokens back, as a share of the gradient at the last token: RNN {rnn:.0e}, LSTM \
                     {lstm:.0e}, GRU {gru:.0e}, attention {attention:.2}",
                    "学習前、50 トークン前での勾配（最後のトークンでの勾配に対する比）: RNN {rnn:.0e}、LSTM {lstm:.0e}、GRU \
                     {gru:.0e}、アテンション {attention:.2}",
                ),
            ),
            Claim::certain(
                localized!(
                    "a recurrent network presses all information into one vector of fixed length",
                    "再帰型ネットワークはすべての情報を一つの固定長ベクトルに圧縮する",
                ),
                state_numbers < attended_numbers,
                localized!(
                    "at width {WIDTH} an LSTM carries {state_numbers} numbers to the next token, at any length; attention \
                     reads {attended_numbers} numbers of {length} tokens",
                    "幅 {WIDTH} の LSTM が次のトークンへ渡すのは、長さによらず {state_numbers} 個の数。アテンションは {length} トークンの \
                     {attended_numbers} 個の数を読む",
                ),
            ),
            Claim::certain(
                localized!(
                    "a recurrent network works through the tokens one after the other",
                    "再帰型ネットワークはトークンを一つずつ順に処理する",
                ),
                recurrent_steps > attention_steps,
                localized!(
                    "steps that wait for each other, for {length} tokens: {recurrent_steps}; of attention {attention_steps}, \
                     at any length",
                    "{length} トークンで、前の結果を待つステップ数: {recurrent_steps}。アテンションは長さによらず {attention_steps}",
                ),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Verdict;

    #[test]
    fn gradients_of_recurrent_networks_vanish_with_distance() {
        let limits = measure_limits().unwrap();
        for network in ["RNN", "LSTM", "GRU"] {
            let shares = GRADIENT_DISTANCES.map(|distance| limits.share(network, distance));
            assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{network}: {shares:?}");
            assert!(shares[3] < 1e-5 && shares[4] < 1e-10, "{network}: {shares:?}");
        }
        let attention = GRADIENT_DISTANCES.map(|distance| limits.share("attention", distance));
        // The last token is also the query, so its own gradient is larger. All others are equally far away.
        assert!(attention.iter().all(|share| (0.1..1.0).contains(share)), "{attention:?}");
        assert!((attention[0] / attention[4]).ln().abs() < 0.3, "{attention:?}");
        assert!(limits.judge().iter().all(|claim| claim.verdict == Verdict::Holds));
    }
}
