//! Layers, one per file, each with `forward` and its gradient `backward`.
//!
//! Activations are packed: a batch of sequences is one `(tokens, width)` array with [`Offsets`], the start of each
//! sequence. There is no padding. `forward` returns the output and a cache for `backward`. `backward` adds to the
//! parameter gradients and returns the gradient of the input.
//!
//! Layers are generic over the number type: `f32` runs the fast kernels, `f64` the plain reference, which checks the
//! gradients.
//!
//! # Files
//!
//! - `activation_hook`: hooks that read or replace intermediate values
//! - `alibi`: slopes of linear biases
//! - `backbone`: the backbone of a classifier: an encoder or a recurrent network
//! - `decoder`: the decoder stack
//! - `decoder_layer`: self-attention, cross-attention, feed-forward
//! - `dropout`: training or evaluation mode, and the random stream
//! - `embedding`: token embeddings, also as an output layer with its loss
//! - `encoder`: the encoder stack
//! - `encoder_config`: sizes and options of an encoder
//! - `encoder_layer`: self-attention and feed-forward
//! - `feed_forward`: the position-wise network
//! - `head`: the head of a classifier
//! - `input_embeddings`: token embeddings with positions and token types
//! - `linear`: `y = x Wᵀ + b`
//! - `multi_head_attention`: self- and cross-attention
//! - `norm`: layer norm or RMS norm, and its position in a layer
//! - `pooling`: token vectors to one vector for each sequence
//! - `position`: sinusoidal and learned positions
//! - `recurrent`: RNN, LSTM and GRU layers
//! - `rotary`: rotary positions
//! - `sublayer`: residual connection and norm around an inner layer
//! - `trace`: intermediate values and gradients for display

mod activation_hook;
mod alibi;
mod backbone;
mod decoder;
mod decoder_layer;
mod dropout;
mod embedding;
mod encoder;
mod encoder_config;
mod encoder_layer;
mod feed_forward;
mod head;
mod input_embeddings;
mod linear;
mod multi_head_attention;
mod norm;
mod pooling;
mod position;
mod recurrent;
mod rotary;
mod sublayer;
mod trace;

pub(crate) use activation_hook::{ActivationHook, ActivationSite};
pub use alibi::alibi_slopes;
pub(crate) use backbone::{Backbone, BackboneCache};
pub use backbone::{BackboneConfig, BackboneKind};
pub use decoder::{Decoder, DecoderCache, DecoderState};
pub use decoder_layer::{DecoderGradients, DecoderInput, DecoderLayer, DecoderLayerCache, DecoderLayerState, Memory};
pub use dropout::{DropoutSeed, Mode};
pub use embedding::Embedding;
pub use encoder::{Encoder, EncoderCache};
pub use encoder_config::{ACTIVATIONS, EncoderConfig, FeedForwardKind, LayerOptions, LocalLayers};
pub use encoder_layer::{EncoderLayer, EncoderLayerCache};
pub use feed_forward::{FeedForward, FeedForwardCache};
pub(crate) use head::{ClassifierHead, ClassifierHeadCache};
pub use head::{DenseHeadConfig, HeadActivation};
pub(crate) use input_embeddings::{InputEmbeddings, InputEmbeddingsCache, InputEmbeddingsConfig};
pub use input_embeddings::{InputEmbeddingsOptions, Tokens};
pub use linear::Linear;
pub use multi_head_attention::{
    AttentionBias, AttentionInput, AttentionMatrices, AttentionOptions, MultiHeadAttention, MultiHeadAttentionCache,
    MultiHeadAttentionConfig, ProjectedMemory,
};
pub(crate) use norm::OptionalNorm;
pub use norm::{Norm, NormCache, NormKind, NormOrder};
pub use pooling::{Pooling, PoolingCache};
pub use position::{PositionEncoding, PositionKind, sinusoidal, sinusoidal_halves};
pub use recurrent::{Recurrent, RecurrentCache, RecurrentConfig};
pub use rotary::{Rotary, RotaryScaling};
pub use trace::{
    AttentionTrace, BackwardTrace, DenseParameters, EmbeddingGradients, EmbeddingTrace, FeedForwardMatrices,
    FeedForwardTrace, GradientTrace, LinearMatrices, NormParameters, TokenTypeTrace,
};

use crate::Result;
use crate::params::{ParamId, Params};
use chumoku_kernels::{MatMut, MatRef, Real, parallel, parallel_try_map};
use ndarray::{Array2, ArrayView2, CowArray, Ix2};
use std::ops::Range;

/// The start of each sequence in a packed batch, and the number of tokens at the end: `[0, l1, l1 + l2, …]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets(Vec<usize>);

impl Offsets {
    /// Builds the offsets of sequences of these lengths; a length may be 0.
    pub fn from_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut offsets = vec![0];
        let mut sum = 0;
        for length in lengths {
            sum += length;
            offsets.push(sum);
        }
        Offsets(offsets)
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.0.len() - 1
    }

    /// Number of tokens in all sequences.
    pub fn tokens(&self) -> usize {
        self.0[self.0.len() - 1]
    }

    /// The token range of sequence `s`.
    pub fn range(&self, s: usize) -> std::ops::Range<usize> {
        self.0[s]..self.0[s + 1]
    }

    /// The token range of each sequence.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.0.windows(2).map(|w| w[0]..w[1])
    }

    /// Returns ranges of consecutive sequences with at least `tokens` tokens each (the last may have fewer). Without
    /// sequences there are none.
    pub(crate) fn groups(&self, tokens: usize) -> Vec<std::ops::Range<usize>> {
        let (mut groups, mut start) = (Vec::new(), 0);
        for s in 0..self.sequences() {
            if self.range(s).end - self.range(start).start >= tokens || s + 1 == self.sequences() {
                groups.push(start..s + 1);
                start = s + 1;
            }
        }
        groups
    }

    /// The offsets as plain numbers.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}

/// Calls `each` with groups of at least `tokens` tokens, and returns the results in order. Groups run in parallel and
/// are small enough to stay in a core's cache. `each` gets a group's token range and its own offsets.
///
/// # Errors
/// If the number of ids differs from the number of tokens, or if `each` returns an error.
pub(crate) fn map_groups<R: Send>(
    (what, ids): (&'static str, usize),
    offsets: &Offsets,
    tokens: usize,
    each: impl Fn(Range<usize>, &Offsets) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if ids != offsets.tokens() {
        return Err(chumoku_kernels::Error::Length { what, expected: offsets.tokens(), found: ids }.into());
    }
    let groups = offsets.groups(tokens);
    parallel_try_map(groups, |sequences: Range<usize>| {
        let range = offsets.range(sequences.start).start..offsets.range(sequences.end - 1).end;
        each(range, &Offsets::from_lengths(sequences.map(|s| offsets.range(s).len())))
    })
}

/// Returns `x` with contiguous rows; copies only if necessary.
pub(crate) fn contiguous<T: Real>(x: ArrayView2<'_, T>) -> CowArray<'_, T, Ix2> {
    if x.is_standard_layout() { x.into() } else { x.as_standard_layout().into_owned().into() }
}

/// The numbers of a contiguous array.
pub(crate) fn numbers<'a, T>(x: &'a ArrayView2<'_, T>) -> &'a [T] {
    x.as_slice().expect("the array is contiguous")
}

pub(crate) fn numbers_mut<T>(x: &mut Array2<T>) -> &mut [T] {
    x.as_slice_mut().expect("new arrays are contiguous")
}

pub(crate) fn mat_ref<'a, T: Real>(x: &'a ArrayView2<'_, T>) -> Result<MatRef<'a, T>> {
    let (rows, cols) = x.dim();
    Ok(MatRef::new(numbers(x), rows, cols)?)
}

pub(crate) fn mat_mut<T: Real>(x: &mut Array2<T>) -> Result<MatMut<'_, T>> {
    let (rows, cols) = x.dim();
    Ok(MatMut::new(numbers_mut(x), rows, cols)?)
}

/// Computes `a += b`.
pub(crate) fn add_assign<T: Real>(a: &mut Array2<T>, b: ArrayView2<'_, T>) {
    const CHUNK: usize = 1 << 14;
    let b = contiguous(b);
    let (a, b) = (numbers_mut(a), b.as_slice().unwrap_or_default());
    parallel::for_each_chunk(a, CHUNK, |piece, a| {
        a.iter_mut().zip(&b[piece * CHUNK..]).for_each(|(a, &b)| *a += b);
    });
}

/// Converts the result of a kernel into an array.
pub(crate) fn array<T>(shape: (usize, usize), numbers: Vec<T>) -> Result<Array2<T>> {
    Ok(Array2::from_shape_vec(shape, numbers).expect("kernels return as many numbers as documented"))
}

/// An array of zeros.
pub(crate) fn zeros<T: Real>(shape: (usize, usize)) -> Array2<T> {
    Array2::from_shape_vec(shape, chumoku_kernels::zeros(shape.0 * shape.1))
        .expect("the buffer has the requested length")
}

/// Converts numbers to f64.
pub(crate) fn to_f64<T: Real>(x: ArrayView2<'_, T>) -> Array2<f64> {
    x.mapv(|x| x.to_f64())
}

/// Returns a parameter of one axis as a row, in f64.
pub(crate) fn row_f64<T: Real>(p: &Params<T>, id: ParamId) -> Array2<f64> {
    let numbers: Vec<f64> = p.slice(id).iter().map(|x| x.to_f64()).collect();
    Array2::from_shape_vec((1, numbers.len()), numbers).expect("a row holds all numbers")
}
