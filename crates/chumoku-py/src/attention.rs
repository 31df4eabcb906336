//! Attention on arrays, called by `chumoku.attention` and the PyTorch operators.
//!
//! Arrays are (batch, heads, length, width) by shape and strides, or, with offsets, packed (tokens, heads, width).

use crate::addresses::{Array, AttentionElement, ElementType, OutputArrays};
use crate::pool::{self, Execution};
use chumoku_kernels::{
    Attention, AttentionDropout, AttentionStatistics, BackwardInputs, Causal, Gradients, Heads, HeadsMut, Mask,
    MaskView, Philox, Precision, Real, ScoreStage, TopKeys, bf16, f16,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::fmt::Display;

/// Number of multiply-adds below which a call stays on its thread, because waking other threads would take longer.
const MIN_PARALLEL_WORK: usize = 1 << 17;

fn value_error(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// All settings of a call except its arrays.
#[pyclass(frozen, module = "chumoku._chumoku")]
#[derive(Clone, Debug)]
pub(crate) struct Options {
    scale: Option<f64>,
    causal: bool,
    diagonal: Causal,
    window: Option<[Option<usize>; 2]>,
    softcap: Option<f64>,
    alibi: Option<Vec<f32>>,
    key_lengths: Option<Vec<usize>>,
    query_offsets: Option<Vec<usize>>,
    key_offsets: Option<Vec<usize>>,
    dropout: Option<AttentionDropout>,
    precision: Precision,
    /// Number of OpenMP threads to use; 0 uses the thread pool.
    openmp: usize,
}

#[pymethods]
impl Options {
    /// `diagonal` is "top_left", "bottom_right" or the index of the key at the first query's position.
    #[new]
    #[pyo3(signature = (*, scale=None, causal=false, diagonal=None, window=None, softcap=None, alibi=None,
        key_lengths=None, query_offsets=None, key_offsets=None, dropout=0.0, seed=0, precision="highest", openmp=0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        scale: Option<f64>,
        causal: bool,
        diagonal: Option<&Bound<'_, PyAny>>,
        window: Option<(Option<usize>, Option<usize>)>,
        softcap: Option<f64>,
        alibi: Option<Vec<f32>>,
        key_lengths: Option<Vec<usize>>,
        query_offsets: Option<Vec<usize>>,
        key_offsets: Option<Vec<usize>>,
        dropout: f32,
        seed: u64,
        precision: &str,
        openmp: usize,
    ) -> PyResult<Self> {
        let diagonal = match diagonal {
            None => Causal::default(),
            Some(given) => match given.extract::<i64>() {
                Ok(offset) => Causal::Offset(offset),
                Err(_) => match given.extract::<&str>()? {
                    "top_left" => Causal::TopLeft,
                    "bottom_right" => Causal::BottomRight,
                    other => {
                        let problem = "causal: expected \"top_left\", \"bottom_right\" or a number";
                        return Err(PyValueError::new_err(format!("{problem}, got {other:?}")));
                    }
                },
            },
        };
        if query_offsets.is_some() != key_offsets.is_some() {
            return Err(PyValueError::new_err("expected query_offsets and key_offsets, or neither"));
        }
        let precision = Precision::from_name(precision).ok_or_else(|| {
            let known = Precision::ALL.map(|known| known.name()).join(", ");
            PyValueError::new_err(format!("precision: expected one of {known}, got {precision:?}"))
        })?;
        let dropout = (dropout != 0.0).then(|| AttentionDropout { rate: dropout, random: Philox::new(seed, 0) });
        let window = window.map(|(left, right)| [left, right]);
        Ok(Options {
            scale,
            causal,
            diagonal,
            window,
            softcap,
            alibi,
            key_lengths,
            query_offsets,
            key_offsets,
            dropout,
            precision,
            openmp,
        })
    }
}

/// The arrays that attention reads.
struct AttentionInputs<'a> {
    options: &'a Options,
    query: &'a Array,
    key: &'a Array,
    value: &'a Array,
    mask: Option<&'a Array>,
    sinks: Option<&'a Array>,
}

/// Shape and strides of a rank-4 array.
fn rank_4_layout(what: &str, array: &Array) -> PyResult<([usize; 4], [usize; 3])> {
    match (&array.shape[..], &array.strides[..]) {
        (&[a, b, c, d], &[x, y, z, w]) if w == 1 || d <= 1 || array.shape.contains(&0) => Ok(([a, b, c, d], [x, y, z])),
        (&[..], &[.., last]) if array.shape.len() == 4 => {
            let problem =
                format!("expected the numbers of a row side by side, got stride {last}: copy the array first");
            Err(PyValueError::new_err(format!("{what}: {problem}")))
        }
        _ => {
            let problem = format!("expected shape (batch, heads, length, width), got {:?}", array.shape);
            Err(PyValueError::new_err(format!("{what}: {problem}")))
        }
    }
}

/// Number of heads and width of a packed array, and its strides between heads and between tokens.
fn packed_layout(what: &str, array: &Array) -> PyResult<([usize; 2], [usize; 2])> {
    match (&array.shape[..], &array.strides[..]) {
        (&[_, heads, width], &[row, head, last]) if array.shape.contains(&0) || last == 1 || width <= 1 => {
            Ok(([heads, width], [head, row]))
        }
        _ => {
            let problem = format!(
                "expected shape (tokens, heads, width) with the numbers of a row side by side, got {:?} with strides {:?}",
                array.shape, array.strides
            );
            Err(PyValueError::new_err(format!("{what}: {problem}")))
        }
    }
}

fn heads<'a, T: AttentionElement>(
    what: &str,
    array: &'a Array,
    offsets: Option<&'a Vec<usize>>,
) -> PyResult<Heads<'a, T>> {
    let data = array.slice::<T>(what)?;
    if let Some(offsets) = offsets {
        check_tokens(what, array, offsets)?;
        let (sizes, strides) = packed_layout(what, array)?;
        return Heads::packed_strided(data, offsets, sizes, strides).map_err(value_error);
    }
    let (shape, strides) = rank_4_layout(what, array)?;
    Heads::strided(data, shape, strides).map_err(value_error)
}

fn heads_mut<'a, T: AttentionElement>(
    what: &str,
    array: &'a Array,
    written: &mut OutputArrays<'a>,
    offsets: Option<&'a Vec<usize>>,
) -> PyResult<HeadsMut<'a, T>> {
    let data = written.next::<T>(what)?;
    if let Some(offsets) = offsets {
        check_tokens(what, array, offsets)?;
        let (sizes, strides) = packed_layout(what, array)?;
        return HeadsMut::packed_strided(data, offsets, sizes, strides).map_err(value_error);
    }
    let (shape, strides) = rank_4_layout(what, array)?;
    HeadsMut::strided(data, shape, strides).map_err(value_error)
}

/// Checks that the sequences cover all tokens.
fn check_tokens(what: &str, array: &Array, offsets: &[usize]) -> PyResult<()> {
    let (tokens, last) = (array.shape.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    if tokens == last {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what}: expected offsets that end at its {tokens} tokens, got {last}")))
}

impl AttentionInputs<'_> {
    /// Builds the kernel call.
    fn kernel_call<T: AttentionElement>(&self) -> PyResult<Attention<'_, T>> {
        let o = self.options;
        let query = heads::<T>("query", self.query, o.query_offsets.as_ref())?;
        let key = heads::<T>("key", self.key, o.key_offsets.as_ref())?;
        let value = heads::<T>("value", self.value, o.key_offsets.as_ref())?;
        let mut attention = Attention::new(query, key, value).precision(o.precision);
        if let Some(scale) = o.scale {
            attention = attention.scale(scale);
        }
        if let Some(cap) = o.softcap {
            attention = attention.softcap(cap);
        }
        // Without a band, the diagonal still gives the positions of queries, which ALiBi needs.
        if o.window.is_some() || o.alibi.is_some() {
            let [left, right] = o.window.unwrap_or_default();
            attention = attention.window(left, right, o.diagonal);
        }
        if o.causal {
            attention = attention.causal(o.diagonal);
        }
        if let Some(slopes) = &o.alibi {
            attention = attention.alibi(slopes);
        }
        if let Some(sinks) = self.sinks {
            attention = attention.sinks(sinks.slice::<f32>("sinks")?);
        }
        if let Some(lengths) = &o.key_lengths {
            attention = attention.key_lengths(lengths);
        }
        if let Some(dropout) = o.dropout {
            attention = attention.dropout(dropout);
        }
        if let Some(mask) = self.mask {
            let view = (&mask.shape[..], &mask.strides[..]);
            let mask = match mask.kind {
                ElementType::Bool => MaskView::strided(mask.slice::<bool>("mask")?, view.0, view.1).map(Mask::Boolean),
                _ => MaskView::strided(mask.slice::<T::Sum>("mask")?, view.0, view.1).map(Mask::Additive),
            };
            attention = attention.mask(mask.map_err(value_error)?);
        }
        Ok(attention)
    }

    fn input_arrays(&self) -> Vec<&Array> {
        [self.query, self.key, self.value].into_iter().chain(self.mask).chain(self.sinks).collect()
    }

    /// Chooses the threads that run the call.
    fn execution(&self) -> Execution {
        // Packed (tokens, heads, width), else (batch, heads, length, width).
        let axis = if self.options.key_offsets.is_some() { 0 } else { 2 };
        let keys = self.key.shape.get(axis).copied().unwrap_or(0);
        match self.query.shape.iter().fold(2 * keys, |work, &size| work.saturating_mul(size)) {
            ..MIN_PARALLEL_WORK => Execution::CallingThread,
            _ if self.options.openmp == 0 => Execution::Pool,
            _ => Execution::OpenMp(self.options.openmp),
        }
    }

    /// Shape of the weights (batch, heads, L, S), checked against the array `weights`.
    fn check_weights(&self, weights: &Array) -> PyResult<[usize; 4]> {
        match (&self.query.shape[..], &self.key.shape[..], &weights.shape[..]) {
            (&[b, h, l, _], &[_, _, s, _], shape) if shape == [b, h, l, s] => Ok([b, h, l, s]),
            _ => Err(PyValueError::new_err("weights: expected an array of shape (batch, heads, queries, keys)")),
        }
    }
}

macro_rules! dispatch_dtype {
    ($kind:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $kind {
            ElementType::F32 => $function::<f32>($($argument),*),
            ElementType::F64 => $function::<f64>($($argument),*),
            ElementType::Bf16 => $function::<bf16>($($argument),*),
            ElementType::F16 => $function::<f16>($($argument),*),
            ElementType::Bool | ElementType::I64 => {
                Err(PyTypeError::new_err("query: expected an array of float32, float64, bfloat16 or float16"))
            }
        }
    };
}

/// Attention forward: writes the output and, if requested, the log-sum-exp of each query's scores.
#[pyfunction]
#[pyo3(signature = (options, query, key, value, mask, sinks, output, log_sum_exp))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn attention_forward(
    py: Python<'_>,
    options: &Bound<'_, Options>,
    query: Array,
    key: Array,
    value: Array,
    mask: Option<Array>,
    sinks: Option<Array>,
    output: Array,
    log_sum_exp: Option<Array>,
) -> PyResult<()> {
    let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
    let inputs = AttentionInputs { options: options.get(), query: &query, key: &key, value: &value, mask, sinks };
    dispatch_dtype!(query.kind, forward(py, &inputs, &output, log_sum_exp.as_ref()))
}

fn forward<T: AttentionElement>(
    py: Python<'_>,
    inputs: &AttentionInputs<'_>,
    output: &Array,
    log_sum_exp: Option<&Array>,
) -> PyResult<()> {
    let attention = inputs.kernel_call::<T>()?;
    let mut written = OutputArrays::new([output].into_iter().chain(log_sum_exp).collect(), &inputs.input_arrays())?;
    let output = heads_mut::<T>("output", output, &mut written, inputs.options.query_offsets.as_ref())?;
    let log_sum_exp = log_sum_exp.map(|_| written.next::<T::Sum>("log_sum_exp")).transpose()?;
    let run = || match log_sum_exp {
        Some(log_sum_exp) => attention.forward_with_log_sum_exp(output, log_sum_exp),
        None => attention.forward(output),
    };
    pool::run(py, inputs.execution(), run)?.map_err(value_error)
}

/// Attention backward: writes the gradients of query, key and value and, if requested, of the mask and the sinks.
#[pyfunction]
#[pyo3(signature = (options, query, key, value, mask, sinks, output, log_sum_exp, d_output, d_log_sum_exp,
    d_query, d_key, d_value, d_mask, d_sinks))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn attention_backward(
    py: Python<'_>,
    options: &Bound<'_, Options>,
    query: Array,
    key: Array,
    value: Array,
    mask: Option<Array>,
    sinks: Option<Array>,
    output: Array,
    log_sum_exp: Array,
    d_output: Array,
    d_log_sum_exp: Option<Array>,
    d_query: Array,
    d_key: Array,
    d_value: Array,
    d_mask: Option<Array>,
    d_sinks: Option<Array>,
) -> PyResult<()> {
    let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
    let inputs = AttentionInputs { options: options.get(), query: &query, key: &key, value: &value, mask, sinks };
    let saved = (&output, &log_sum_exp, &d_output, d_log_sum_exp.as_ref());
    let gradients = ([&d_query, &d_key, &d_value], d_mask.as_ref(), d_sinks.as_ref());
    dispatch_dtype!(query.kind, backward(py, &inputs, saved, gradients))
}

fn backward<T: AttentionElement>(
    py: Python<'_>,
    inputs: &AttentionInputs<'_>,
    (output, log_sum_exp, d_output, d_log_sum_exp): (&Array, &Array, &Array, Option<&Array>),
    ([d_query, d_key, d_value], d_mask, d_sinks): ([&Array; 3], Option<&Array>, Option<&Array>),
) -> PyResult<()> {
    let attention = inputs.kernel_call::<T>()?;
    let o = inputs.options;
    let mut read = inputs.input_arrays();
    read.extend([output, log_sum_exp, d_output].into_iter().chain(d_log_sum_exp));
    let all = [d_query, d_key, d_value].into_iter().chain(d_mask).chain(d_sinks);
    let mut written = OutputArrays::new(all.collect(), &read)?;
    let saved = BackwardInputs {
        output: heads::<T>("output", output, o.query_offsets.as_ref())?,
        log_sum_exp: log_sum_exp.slice::<T::Sum>("log_sum_exp")?,
        d_output: heads::<T>("d_output", d_output, o.query_offsets.as_ref())?,
        d_log_sum_exp: d_log_sum_exp.map(|d| d.slice::<T::Sum>("d_log_sum_exp")).transpose()?,
    };
    let gradients = Gradients {
        query: heads_mut::<T>("d_query", d_query, &mut written, o.query_offsets.as_ref())?,
        key: heads_mut::<T>("d_key", d_key, &mut written, o.key_offsets.as_ref())?,
        value: heads_mut::<T>("d_value", d_value, &mut written, o.key_offsets.as_ref())?,
        mask: d_mask.map(|_| written.next::<T::Sum>("d_mask")).transpose()?,
        sinks: d_sinks.map(|_| written.next::<T::Sum>("d_sinks")).transpose()?,
    };
    pool::run(py, inputs.execution(), || attention.backward(saved, gradients))?.map_err(value_error)
}

/// Writes the weights of every query for every key, before dropout: (batch, heads, queries, keys).
#[pyfunction]
#[pyo3(signature = (options, query, key, value, mask, sinks, weights))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn attention_weights(
    py: Python<'_>,
    options: &Bound<'_, Options>,
    query: Array,
    key: Array,
    value: Array,
    mask: Option<Array>,
    sinks: Option<Array>,
    weights: Array,
) -> PyResult<()> {
    let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
    let inputs = AttentionInputs { options: options.get(), query: &query, key: &key, value: &value, mask, sinks };
    dispatch_dtype!(query.kind, full_weights(py, &inputs, &weights))
}

fn full_weights<T: AttentionElement>(py: Python<'_>, inputs: &AttentionInputs<'_>, weights: &Array) -> PyResult<()> {
    let attention = inputs.kernel_call::<T>()?;
    let [batch, heads, queries, keys] = inputs.check_weights(weights)?;
    let all = OutputArrays::new(vec![weights], &inputs.input_arrays())?.next::<T::Sum>("weights")?;
    let run = || -> chumoku_kernels::Result<()> {
        for (pair, weights) in (0..batch * heads).zip(all.chunks_exact_mut((queries * keys).max(1))) {
            let (sequence, head) = (pair / heads, pair % heads);
            let seen = inputs.options.key_lengths.as_ref().map_or(keys, |lengths| lengths[sequence]);
            if seen == keys {
                attention.scores(ScoreStage::Weights, sequence, head, weights)?;
                continue;
            }
            // Expands rows over the sequence's own keys to rows over all keys.
            let mut own = vec![T::Sum::ZERO; queries * seen];
            attention.scores(ScoreStage::Weights, sequence, head, &mut own)?;
            for (i, row) in weights.chunks_exact_mut(keys).enumerate() {
                row[..seen].copy_from_slice(&own[i * seen..(i + 1) * seen]);
                row[seen..].fill(T::Sum::ZERO);
            }
        }
        Ok(())
    };
    pool::run(py, Execution::Pool, run)?.map_err(value_error)
}

/// Computes statistics of the weights without an array of queries × keys. Writes each statistic that has an output
/// array.
#[pyfunction]
#[pyo3(signature = (options, query, key, value, mask, sinks, mass, entropy, top_keys, top_weights))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn attention_statistics(
    py: Python<'_>,
    options: &Bound<'_, Options>,
    query: Array,
    key: Array,
    value: Array,
    mask: Option<Array>,
    sinks: Option<Array>,
    mass: Option<Array>,
    entropy: Option<Array>,
    top_keys: Option<Array>,
    top_weights: Option<Array>,
) -> PyResult<()> {
    let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
    let inputs = AttentionInputs { options: options.get(), query: &query, key: &key, value: &value, mask, sinks };
    let top = top_keys.as_ref().zip(top_weights.as_ref());
    dispatch_dtype!(query.kind, statistics(py, &inputs, [mass.as_ref(), entropy.as_ref()], top))
}

fn statistics<T: AttentionElement>(
    py: Python<'_>,
    inputs: &AttentionInputs<'_>,
    [mass, entropy]: [Option<&Array>; 2],
    top: Option<(&Array, &Array)>,
) -> PyResult<()> {
    let attention = inputs.kernel_call::<T>()?;
    let all = mass.into_iter().chain(entropy).chain(top.into_iter().flat_map(|(keys, weights)| [keys, weights]));
    let mut written = OutputArrays::new(all.collect(), &inputs.input_arrays())?;
    let mass = mass.map(|_| written.next::<T::Sum>("mass")).transpose()?;
    let entropy = entropy.map(|_| written.next::<T::Sum>("entropy")).transpose()?;
    let count = top.map_or(0, |(keys, _)| keys.shape.last().copied().unwrap_or(0));
    let top = match top {
        Some(_) => Some((written.next::<i64>("top keys")?, written.next::<T::Sum>("top weights")?)),
        None => None,
    };
    let run = || -> chumoku_kernels::Result<()> {
        let Some((keys, weights)) = top else {
            return attention.statistics(AttentionStatistics { mass, entropy, top: None });
        };
        let mut places = vec![None; keys.len()];
        let top = TopKeys { count, keys: &mut places, weights };
        attention.statistics(AttentionStatistics { mass, entropy, top: Some(top) })?;
        for (key, place) in keys.iter_mut().zip(places) {
            *key = place.map_or(-1, |place| place as i64);
        }
        Ok(())
    };
    pool::run(py, Execution::Pool, run)?.map_err(value_error)
}

/// Describes in one line which code path a call takes, and why.
#[pyfunction]
#[pyo3(signature = (options, query, key, value, mask, sinks))]
pub(crate) fn attention_plan(
    options: &Bound<'_, Options>,
    query: Array,
    key: Array,
    value: Array,
    mask: Option<Array>,
    sinks: Option<Array>,
) -> PyResult<String> {
    fn plan<T: AttentionElement>(inputs: &AttentionInputs<'_>) -> PyResult<String> {
        Ok(inputs.kernel_call::<T>()?.explain().map_err(value_error)?.to_string())
    }
    let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
    let inputs = AttentionInputs { options: options.get(), query: &query, key: &key, value: &value, mask, sinks };
    dispatch_dtype!(query.kind, plan(&inputs))
}
