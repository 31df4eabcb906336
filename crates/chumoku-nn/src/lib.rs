//! Transformer layers and models on CPUs, forward and backward, with decoding and sampling.
//!
//! [`layers`] holds the layers, [`models`] what is built of them: a classifier, a translator, a language model. Their
//! parameters lie in one flat buffer ([`params`]). [`attention`] has hard and soft attention as plain functions,
//! [`decoding`] beam search, [`sampling`] the choice of a token from its logits, and [`count`] what a network costs, by
//! formulas. All of it runs on `f32` with the fast kernels of [`chumoku_kernels`], and on `f64` with their plain reference.
//!
//! The heart of every layer is scaled dot-product attention (Vaswani et al. 2017, equation 1):
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
//! ```
//!
//! A layer is made of a [`Builder`](params::Builder), which names its parameters and remembers where they lie, and is
//! called with the numbers beside it:
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
//! let offsets = Offsets::of_lengths([3, 5]);
//! let x = Array2::from_shape_fn((8, 64), |(token, column)| ((token * 64 + column) as f32).sin());
//! let input = AttentionInput::of_self(x.view(), &offsets);
//! let (y, cache) = attention.forward(&params, &input, Mode::Eval)?;
//! assert_eq!(y.dim(), (8, 64));
//!
//! // The gradients of ½ Σ y².
//! let mut grads = Params::zeros(params.layout());
//! let (dx, _) = attention.backward(&params, &input, &cache, y.view(), Mode::Eval, &mut grads)?;
//! assert_eq!(dx.dim(), x.dim());
//! # Ok::<(), chumoku_nn::Error>(())
//! ```

pub mod attention;
pub mod count;
pub mod decoding;
mod error;
pub mod layers;
pub mod models;
pub mod params;
pub mod probability;
pub mod sampling;

pub use error::{Error, Result};
