//! Transformer layers and models on CPUs, forward and backward, with decoding and sampling.
//!
//! [`layers`] holds the layers, and [`models`] the networks built from them: a classifier, a tagger, a translator and
//! language models. Their parameters are one flat buffer ([`params`]). [`attention`] has hard and soft attention as
//! plain functions, [`decoding`] beam search, and [`sampling`] the choice of a token from its logits. [`count`]
//! computes the cost of a network by formulas. On `f32`, everything runs with the fast kernels of [`chumoku_kernels`];
//! on `f64`, with their plain reference.
//!
//! The core of every layer is scaled dot-product attention (Vaswani et al. 2017, equation 1):
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
//! ```
//!
//! Each head computes it for its own queries, keys and values, and [`MultiHeadAttention`](layers::MultiHeadAttention)
//! combines the heads. Layers that follow other papers cite them:
//!
//! - layer normalization (Ba, Kiros and Hinton 2016), before or after each sublayer (Xiong et al. 2020)
//! - sinusoidal positions, rotary positions (Su et al. 2021) or linear biases (Press, Smith and Lewis 2022)
//! - fewer key–value heads (Shazeer 2019, Ainslie et al. 2023)
//! - an output layer that shares the embedding's table (Press and Wolf 2017)
//!
//! A [`Builder`](params::Builder) creates a layer: it names the parameters and records their layout. The numbers are a
//! separate argument of each call:
//!
//! ```
//! use chumoku_nn::layers::{AttentionInput, Mode, MultiHeadAttention, MultiHeadAttentionConfig, Offsets};
//! use chumoku_nn::params::{Builder, Params};
//! use ndarray::Array2;
//!
//! let mut builder = Builder::new();
//! let attention = MultiHeadAttention::new(&mut builder, MultiHeadAttentionConfig::new(64, 4)?);
//! let params = Params::<f32>::init(&builder.finish(), 1);
//!
//! // Two sequences, of 3 and of 5 tokens, one after the other: there is no padding.
//! let offsets = Offsets::from_lengths([3, 5]);
//! let x = Array2::from_shape_fn((8, 64), |(token, column)| ((token * 64 + column) as f32).sin());
//! let input = AttentionInput::self_attention(x.view(), &offsets);
//! let (y, cache) = attention.forward(&params, &input, Mode::Eval)?;
//! assert_eq!(y.dim(), (8, 64));
//!
//! // The gradients of ½ Σ y².
//! let mut grads = Params::zeros(params.layout());
//! let (dx, _) = attention.backward(&params, &input, &cache, y.view(), Mode::Eval, &mut grads)?;
//! assert_eq!(dx.dim(), x.dim());
//! # Ok::<(), chumoku_nn::Error>(())
//! ```
//!
//! # Contract
//!
//! * **Exactness:** every layer reproduces PyTorch's double-precision outputs and gradients to within 1e-5 of the
//!   largest number of each tensor. Gradients in `f64` agree with central differences to 2e-8 of the largest number
//!   plus 1e-9. In `f32`, decoding token by token agrees with a pass over all tokens to 2e-6 of the largest number plus
//!   1e-6. The tests enforce these limits at [`Precision::Highest`](chumoku_kernels::Precision::Highest), the default.
//!   [`Params::set_precision`](params::Params::set_precision) selects a faster level.
//! * **Determinism:** the same input, parameters, instruction set and build give the same bytes for any number of
//!   threads. Initial parameters depend only on their names and the seed, dropout only on the seed, the step and the
//!   dropout site.
//! * **No leaks:** the result of a sequence does not depend on the other sequences of its batch. Masked values reach no
//!   output and no gradient, even if they are NaN. A query without visible keys gets 0 from every head.
//! * **NaN:** a NaN that is attended to reaches the output. Sampling and beam search reject NaN logits
//!   ([`Error::NanLogit`]).
//! * **Shapes:** shapes are checked, and errors state the expected and the actual shape. The crate does no input or
//!   output.
//!
//! # Files
//!
//! - `attention`: hard and soft attention as free functions
//! - `count`: cost of a network by formulas
//! - `decoding`: beam search
//! - `error`: errors
//! - `layers`: layers, each with forward and backward
//! - `models`: whole networks
//! - `params`: parameters in one flat buffer; low-rank updates (LoRA) in `params/low_rank.rs`
//! - `pretrained`: published architectures
//! - `probability`: log-softmax and log-sum-exp of a row
//! - `sampling`: choice of a token from logits

pub mod attention;
pub mod count;
pub mod decoding;
mod error;
pub mod layers;
pub mod models;
pub mod params;
pub mod pretrained;
pub mod probability;
pub mod sampling;

pub use error::{Error, Result};

/// Returns true for an option that configurations omit because it has its default.
fn is_default<T: Default + PartialEq>(option: &T) -> bool {
    *option == T::default()
}
