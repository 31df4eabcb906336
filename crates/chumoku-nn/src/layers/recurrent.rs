//! Recurrent networks (RNN, LSTM and GRU) with several layers, in one direction or both.

use super::{Mode, Offsets, array, contiguous, mat_ref, numbers, zeros};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{
    Epilogue, FusedGemm, MatMut, MatRef, OutputInit, Real, Recurrence, RecurrentActivations, RecurrentCell,
    add_column_sums, gemm,
};
use ndarray::{Array2, ArrayView2};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The sizes and options of a [`Recurrent`] network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecurrentConfig {
    /// The kind of cell.
    #[serde(serialize_with = "name_of")]
    pub cell: RecurrentCell,
    /// Number of layers.
    pub num_layers: usize,
    /// Width of the input.
    pub d_model: usize,
    /// Width of the output of each direction.
    pub hidden_size: usize,
    /// True to add a second network that reads each sequence from its end. Its output follows the first one's columns.
    pub bidirectional: bool,
    /// Dropout between layers.
    pub dropout: f32,
}

impl RecurrentConfig {
    /// Width of the output.
    pub fn width(&self) -> usize {
        self.hidden_size * self.directions()
    }

    fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }
}

/// A [`Cell`] in files, as its name.
pub(super) struct CellName(pub(super) RecurrentCell);

impl<'de> Deserialize<'de> for CellName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format_args!("cell: expected rnn, lstm or gru, got {name:?}"));
        RecurrentCell::from_name(&name).map(CellName).ok_or_else(unknown)
    }
}

fn name_of<S: Serializer>(cell: &RecurrentCell, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cell.name())
}

/// A recurrent network over packed sequences, like PyTorch's `RNN`, `LSTM` and `GRU`, with an initial state of 0.
///
/// The projections of the input are one product over all tokens. The sequential part is
/// [`chumoku_kernels::Recurrence`], which documents the formulas. The gradients of weights are again products over all
/// tokens.
#[derive(Clone, Debug)]
pub struct Recurrent {
    config: RecurrentConfig,
    /// The layers, each with the parameters of each direction.
    layers: Vec<Vec<DirectionParams>>,
}

/// The parameters of one layer in one direction.
#[derive(Clone, Debug)]
struct DirectionParams {
    /// (gates · hidden, inputs)
    weight_ih: ParamId,
    /// (gates · hidden, hidden)
    weight_hh: ParamId,
    /// (gates · hidden,)
    bias_ih: ParamId,
    /// (gates · hidden,)
    bias_hh: ParamId,
}

/// The cache of a [`Recurrent`] network's forward pass: each layer's input and the trace of each direction.
#[derive(Clone, Debug)]
pub struct RecurrentCache<T>(Vec<(Array2<T>, Vec<RecurrentActivations<T>>)>);

/// Returns the dropout site of a layer.
fn dropout_site(layer: usize) -> u32 {
    8 * (layer as u32 + 1)
}

impl Recurrent {
    /// Adds `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, the same with `_reverse` for the other
    /// direction, and so on for each layer. Initialization is uniform in ±1/√hidden, as in PyTorch.
    pub fn new(builder: &mut Builder, config: &RecurrentConfig) -> Self {
        let (hidden, rows) = (config.hidden_size, config.cell.gates() * config.hidden_size);
        let init = Init::Uniform(1.0 / (hidden as f64).sqrt());
        let mut direction = |inputs: usize, suffix: String| DirectionParams {
            weight_ih: builder.add(&format!("weight_ih_{suffix}"), &[rows, inputs], init),
            weight_hh: builder.add(&format!("weight_hh_{suffix}"), &[rows, hidden], init),
            bias_ih: builder.add(&format!("bias_ih_{suffix}"), &[rows], init),
            bias_hh: builder.add(&format!("bias_hh_{suffix}"), &[rows], init),
        };
        let mut layer = |layer: usize| {
            let inputs = if layer == 0 { config.d_model } else { config.width() };
            let suffixes = ["", "_reverse"].iter().take(config.directions());
            suffixes.map(|suffix| direction(inputs, format!("l{layer}{suffix}"))).collect()
        };
        Recurrent { config: config.clone(), layers: (0..config.num_layers).map(&mut layer).collect() }
    }

    fn recurrence<'a, T: Real>(&self, p: &Params<T>, offsets: &'a Offsets, direction: usize) -> Recurrence<'a> {
        Recurrence {
            cell: self.config.cell,
            hidden: self.config.hidden_size,
            offsets: offsets.as_slice(),
            is_reversed: direction == 1,
            precision: p.precision(),
        }
    }

    /// Returns the hidden states of the last layer, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, inputs) → (tokens, width): the output of the last layer at each token.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, RecurrentCache<T>)> {
        let mut cache = Vec::with_capacity(self.layers.len());
        for (i, layer) in self.layers.iter().enumerate() {
            let (mut y, traces) = self.layer(p, layer, x.view(), offsets)?;
            if i + 1 < self.layers.len() {
                mode.apply_dropout(&mut y, self.config.dropout, dropout_site(i))?;
            }
            cache.push((x, traces));
            x = y;
        }
        Ok((x, RecurrentCache(cache)))
    }

    /// Like [`Recurrent::forward`] in evaluation mode, without a cache.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn infer<T: Real>(&self, p: &Params<T>, mut x: Array2<T>, offsets: &Offsets) -> Result<Array2<T>> {
        for layer in &self.layers {
            x = self.layer(p, layer, x.view(), offsets)?.0;
        }
        Ok(x)
    }

    /// Runs one layer: (tokens, inputs) → (tokens, width), with the trace of each direction.
    fn layer<T: Real>(
        &self,
        p: &Params<T>,
        layer: &[DirectionParams],
        x: ArrayView2<'_, T>,
        offsets: &Offsets,
    ) -> Result<(Array2<T>, Vec<RecurrentActivations<T>>)> {
        let (hidden, width) = (self.config.hidden_size, self.config.width());
        let x = contiguous(x);
        let x = x.view();
        let mut y = zeros((x.nrows(), width));
        let mut traces = Vec::with_capacity(layer.len());
        for (i, direction) in layer.iter().enumerate() {
            let (a, b) = (mat_ref(&x)?, p.transposed_operand(direction.weight_ih));
            let bias = Some(p.slice(direction.bias_ih));
            let projections =
                FusedGemm { a, b, bias, epilogue: Epilogue::Identity, precision: p.precision() }.compute()?;
            // Each direction writes its own columns.
            let columns = super::numbers_mut(&mut y).get_mut(i * hidden..).unwrap_or_default();
            let columns = MatMut::strided(columns, x.nrows(), hidden, width)?;
            let (weight, bias) = (p.transposed_operand(direction.weight_hh), p.slice(direction.bias_hh));
            traces.push(self.recurrence(p, offsets, i).forward(weight, bias, projections, columns)?);
        }
        Ok((y, traces))
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    ///
    /// # Shapes
    /// `dy` (tokens, width) → dx (tokens, inputs).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        cache: &RecurrentCache<T>,
        offsets: &Offsets,
        mut dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        for (i, (layer, (x, traces))) in self.layers.iter().zip(&cache.0).enumerate().rev() {
            if i + 1 < self.layers.len() {
                mode.apply_dropout(&mut dy, self.config.dropout, dropout_site(i))?;
            }
            dy = self.layer_backward(p, layer, (x.view(), traces), offsets, dy.view(), grads)?;
        }
        Ok(dy)
    }

    fn layer_backward<T: Real>(
        &self,
        p: &Params<T>,
        layer: &[DirectionParams],
        (x, traces): (ArrayView2<'_, T>, &[RecurrentActivations<T>]),
        offsets: &Offsets,
        dy: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let (hidden, width, precision) = (self.config.hidden_size, self.config.width(), p.precision());
        let (x, dy) = (contiguous(x), contiguous(dy));
        let (x, dy) = (x.view(), dy.view());
        let (tokens, rows) = (x.nrows(), self.config.cell.gates() * hidden);
        let mut dx: Option<Vec<T>> = None;
        for (i, (direction, trace)) in layer.iter().zip(traces).enumerate() {
            let columns = numbers(&dy).get(i * hidden..).unwrap_or_default();
            let columns = MatRef::strided(columns, tokens, hidden, width, 1)?;
            let deltas = self.recurrence(p, offsets, i).backward(p.operand(direction.weight_hh), trace, columns)?;
            let d_input = MatRef::new(&deltas.input, tokens, rows)?;
            let d_hidden = MatRef::new(deltas.hidden(), tokens, rows)?;
            // projections = x W_ihᵀ + b_ih  →  dW_ih = dᵀ x, db_ih = Σ_tokens d, dx = d W_ih
            if grads.is_trained(direction.weight_ih) {
                gemm(d_input.t(), mat_ref(&x)?, OutputInit::Keep, grads.matrix_mut(direction.weight_ih), precision)?;
            }
            // s = h′ W_hhᵀ + b_hh  →  dW_hh = dᵀ h′, db_hh = Σ_tokens d
            let previous = MatRef::new(&trace.previous_outputs, tokens, hidden)?;
            if grads.is_trained(direction.weight_hh) {
                gemm(d_hidden.t(), previous, OutputInit::Keep, grads.matrix_mut(direction.weight_hh), precision)?;
            }
            // If both projections share one gradient, it is summed once.
            let mut sums = vec![T::ZERO; rows];
            add_column_sums(&deltas.input, &mut sums)?;
            if grads.is_trained(direction.bias_ih) {
                grads.slice_mut(direction.bias_ih).iter_mut().zip(&sums).for_each(|(d, &sum)| *d += sum);
            }
            if let Some(hidden) = &deltas.hidden {
                sums.fill(T::ZERO);
                add_column_sums(hidden, &mut sums)?;
            }
            if grads.is_trained(direction.bias_hh) {
                grads.slice_mut(direction.bias_hh).iter_mut().zip(&sums).for_each(|(d, &sum)| *d += sum);
            }
            let then = match &dx {
                Some(dx) => Epilogue::AddResidual { dropout: None, residual: dx },
                None => Epilogue::Identity,
            };
            let b = p.operand(direction.weight_ih);
            dx = Some(FusedGemm { a: d_input, b, bias: None, epilogue: then, precision }.compute()?);
        }
        array(x.dim(), dx.unwrap_or_default())
    }
}
