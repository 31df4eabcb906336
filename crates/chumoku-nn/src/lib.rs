//! Transformer layers and models on CPUs, forward and backward, with decoding and sampling.
//!
//! [`layers`] holds the layers, [`models`] what is built of them: a classifier, a translator, a language model. Their
//! parameters lie in one flat buffer ([`params`]). [`attention`] has hard and soft attention as plain functions,
//! [`decoding`] beam search, [`sampling`] the choice of a token from its logits, and [`count`] what a network costs, by
//! formulas. All of it runs on `f32` with the fast kernels of [`chumoku_kernels`], and on `f64` with their plain
//! reference.
//!
//! The heart of every layer is scaled dot-product attention (Vaswani et al. 2017, equation 1):
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
//! ```
//!
//! A head computes it for queries, keys and values of its own, and [`MultiHeadAttention`](layers::MultiHeadAttention)
//! joins the heads. Where layers follow other papers, their pages name them: layer normalisation (Ba, Kiros and Hinton
//! 2016) before each part or after it (Xiong et al. 2020); positions that are sinusoidal, rotary (Su et al. 2021) or
//! linear biases (Press, Smith and Lewis 2022); fewer heads of keys and values (Shazeer 2019, Ainslie et al. 2023); an
//! output layer that shares the embedding's table (Press and Wolf 2017).
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
//!
//! # Contract
//!
//! * **Exactness:** every layer reproduces PyTorch's outputs and gradients, computed in double precision, to within
//!   1e-5 of the largest number of each tensor. Gradients in `f64` agree with central differences to 2e-8 of the
//!   largest plus 1e-9. Decoding token by token gives what all tokens at once give, to 2e-6 of the largest plus 1e-6 in
//!   `f32`. These are the limits of the tests, at [`Precision::Highest`](chumoku_kernels::Precision::Highest), which
//!   holds unless [`Params::set_precision`](params::Params::set_precision) chooses a faster level.
//! * **Determinism:** the same input, parameters, instruction set and build give the same bytes, whatever the number of
//!   threads. Initial parameters depend on their names and the seed, dropout on the seed, the step and the place alone.
//! * **No leaks:** a sequence's result does not depend on the others in its batch. What a mask forbids reaches no
//!   output and no gradient, even if it is NaN; a query with nothing to attend to gets 0 from every head.
//! * **NaN:** a NaN that is attended to shows in the output. Sampling and beam search refuse logits that are NaN
//!   ([`Error::NotANumber`]).
//! * Shapes are checked, and errors say what was expected and what came. Nothing is read, written or printed.
//!
//! # Files
//!
//! - `attention`: hard and soft attention as free functions
//! - `count`: costs of a network by formulas
//! - `decoding`: beam search
//! - `error`: errors
//! - `layers`: layers, each with forward and backward
//! - `models`: whole networks
//! - `params`: parameters in one flat buffer; low-rank updates (LoRA) in `params/low_rank.rs`
//! - `pretrained`: published architectures
//! - `probability`: softmax, log-softmax and log-sum-exp of a row
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
