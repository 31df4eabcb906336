//! Three limits of recurrent networks. The gradient by distance is measured before training. The state and the steps in
//! sequence are counted from the shapes, at two lengths.

use super::claims::Claim;
use crate::Result;
use crate::count::{CountConfig, NetworkCost, NetworkKind};
use crate::nn::{
    AttentionInput, Mode, MultiHeadAttention, MultiHeadAttentionConfig, Offsets, Recurrent, RecurrentConfig,
};
use crate::params::{Builder, Params};
use chumoku_kernels::{MatMut, MatRef, Philox, Precision, Recurrence, RecurrentCell};
use ndarray::Array2;
use serde::Serialize;

const WIDTH: usize = 64;
const HEADS: usize = 4;
const LENGTH: usize = 101;
/// The seeds of the weights, the inputs and the directions.
const SEEDS: u64 = 5;

/// Distances, in tokens, from the last token to the one whose gradient is measured.
pub(crate) const GRADIENT_DISTANCES: [usize; 5] = [1, 5, 10, 50, 100];

/// The gradient of the last output with respect to earlier inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GradientByDistance {
    /// `RNN`, `LSTM`, `GRU` or `attention`.
    pub network: &'static str,
    /// Length of the gradient at each of [`GRADIENT_DISTANCES`], relative to that at the last token. Each is a
    /// geometric mean over five networks with random weights and inputs.
    pub(crate) shares: Vec<f64>,
}

/// The state and the steps of both networks at one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LimitCounts {
    /// Tokens in a sequence.
    pub length: usize,
    /// The numbers that an LSTM carries from one token to the next: output and cell state.
    pub(crate) state_numbers: usize,
    /// The numbers of all tokens that a query of attention reads: keys and values.
    pub(crate) attended_numbers: usize,
    /// The steps of the LSTM that must wait for each other.
    pub(crate) recurrent_steps: u128,
    /// The steps of attention that must wait for each other. A layer is one step.
    pub(crate) attention_steps: u128,
}

/// Three limits of recurrent networks of width 64, next to one layer of attention of the same width.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecurrentLimits {
    /// Tokens in a sequence whose gradients are measured.
    pub length: usize,
    /// The gradients of RNN, LSTM, GRU and attention.
    pub gradients: Vec<GradientByDistance>,
    /// State and steps at this length and at twice the length, counted from the shapes.
    pub(crate) counts: [LimitCounts; 2],
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

/// Measures the gradients and counts the rest. The result is the same on every machine, up to rounding.
pub(super) fn measure_limits() -> Result<RecurrentLimits> {
    let cells = [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru];
    let networks = cells.into_iter().map(Some).chain([None]);
    let gradients = networks.map(gradients_by_distance).collect::<Result<_>>()?;
    Ok(RecurrentLimits { length: LENGTH, gradients, counts: [limit_counts(LENGTH)?, limit_counts(2 * LENGTH)?] })
}

/// Counts state and steps for sequences of `length` tokens.
fn limit_counts(length: usize) -> Result<LimitCounts> {
    let recurrent = count_network(NetworkKind::Recurrent(RecurrentCell::Lstm), length)?;
    let attention = count_network(NetworkKind::Attention, length)?;
    let attended = attention.steps.iter().filter(|step| ["W_K", "W_V"].contains(&step.name));
    Ok(LimitCounts {
        length,
        state_numbers: lstm_state_numbers(length)?,
        attended_numbers: attended.map(|step| step.shape.iter().product::<usize>()).sum(),
        recurrent_steps: recurrent.sequential_steps,
        attention_steps: attention.sequential_steps,
    })
}

/// Counts one layer for one sequence, as `chumoku count` does.
fn count_network(network: NetworkKind, length: usize) -> Result<NetworkCost> {
    let config = CountConfig {
        network,
        batch: 1,
        length,
        d_model: WIDTH,
        num_heads: HEADS,
        num_layers: 1,
        ..CountConfig::default()
    };
    Ok(config.count()?)
}

/// Runs an LSTM and returns the size of its output and cell state at one token.
fn lstm_state_numbers(length: usize) -> Result<usize> {
    let cell = RecurrentCell::Lstm;
    let gates = cell.gates() * WIDTH;
    let offsets = [0, length];
    let recurrence =
        Recurrence { cell, hidden: WIDTH, offsets: &offsets, is_reversed: false, precision: Precision::default() };
    let weight = vec![0.0_f64; WIDTH * gates];
    let mut outputs = vec![0.0_f64; length * WIDTH];
    let activations = recurrence.forward(
        MatRef::new(&weight, WIDTH, gates)?.into(),
        &vec![0.0; gates],
        vec![0.0; length * gates],
        MatMut::new(&mut outputs, length, WIDTH)?,
    )?;
    Ok((activations.previous_outputs.len() + activations.state.len()) / length)
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
    pub(super) fn check_claims(&self) -> [Claim; 3] {
        let all = ["RNN", "LSTM", "GRU", "attention"].map(|network| self.share(network, 50));
        let [rnn, lstm, gru, attention] = all;
        // NaN is below no limit, so that an unknown gradient has not vanished.
        let vanishes = [rnn, lstm, gru].iter().all(|share| *share < VANISHED) && attention > VANISHED;
        let [near, far] = self.counts;
        let is_fixed = near.state_numbers == far.state_numbers && near.attended_numbers < far.attended_numbers;
        let is_smaller = self.counts.iter().all(|counts| counts.state_numbers < counts.attended_numbers);
        let is_serial = near.recurrent_steps < far.recurrent_steps && near.attention_steps == far.attention_steps;
        let LimitCounts { length, state_numbers, attended_numbers, recurrent_steps, attention_steps } = near;
        let (far_length, far_state, far_attended) = (far.length, far.state_numbers, far.attended_numbers);
        let (far_recurrent, far_attention) = (far.recurrent_steps, far.attention_steps);
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
                is_fixed && is_smaller,
                localized!(
                    "counted from the shapes at width {WIDTH}: of {length} and {far_length} tokens an LSTM carries \
                     {state_numbers} and {far_state} numbers to the next token, and attention reads {attended_numbers} \
                     and {far_attended}",
                    "幅 {WIDTH} の形から数えて、{length} トークンと {far_length} トークンで、LSTM が次のトークンへ渡す数は \
                     {state_numbers} 個と {far_state} 個、アテンションが読む数は {attended_numbers} 個と {far_attended} 個",
                ),
            ),
            Claim::certain(
                localized!(
                    "a recurrent network works through the tokens one after the other",
                    "再帰型ネットワークはトークンを一つずつ順に処理する",
                ),
                is_serial && recurrent_steps > attention_steps,
                localized!(
                    "counted steps that wait for each other, for {length} and {far_length} tokens: {recurrent_steps} and \
                     {far_recurrent}; of a layer of attention {attention_steps} and {far_attention}",
                    "前の結果を待つステップを数えると、{length} トークンと {far_length} トークンで {recurrent_steps} と \
                     {far_recurrent}。アテンションの層では {attention_steps} と {far_attention}",
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
        assert!(limits.check_claims().iter().all(|claim| claim.verdict == Verdict::Holds));
    }

    #[test]
    fn state_and_steps_are_counted() {
        let counts = [LENGTH, 2 * LENGTH].map(|length| limit_counts(length).unwrap());
        for (counts, length) in counts.into_iter().zip([LENGTH, 2 * LENGTH]) {
            let expected = LimitCounts {
                length,
                state_numbers: 2 * WIDTH,
                attended_numbers: 2 * WIDTH * length,
                recurrent_steps: length as u128,
                attention_steps: 1,
            };
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn each_claim_can_fail() {
        let limits = measure_limits().unwrap();
        let verdict = |limits: &RecurrentLimits, claim: usize| limits.check_claims()[claim].verdict;
        // A gradient that is not a number has not vanished, whichever network it belongs to.
        for network in 0..limits.gradients.len() {
            let mut unknown = limits.clone();
            unknown.gradients[network].shares = vec![f64::NAN; GRADIENT_DISTANCES.len()];
            assert_eq!(verdict(&unknown, 0), Verdict::DoesNotHold, "{network}");
        }
        let mut growing = limits.clone();
        growing.counts[1].state_numbers += 1;
        assert_eq!(verdict(&growing, 1), Verdict::DoesNotHold);
        let mut serial = limits;
        serial.counts[1].attention_steps += 1;
        assert_eq!(verdict(&serial, 2), Verdict::DoesNotHold);
    }
}
