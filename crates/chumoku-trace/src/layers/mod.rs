//! Layers as steps of a program.
//!
//! # Files
//!
//! - `additive_score`: the score vᵀ tanh(q + k)
//! - `attention_steps`: the steps of attention
//! - `classes`: logits, probabilities and loss
//! - `embeddings`: the sum of embeddings
//! - `feed_forward`: the feed-forward network
//! - `program_builder`: a program under construction
//! - `recurrent`: the steps of recurrent networks
//! - `sublayer`: residual connections and norms
//! - `text_vector`: last norm, pooling, dense layer

pub(crate) mod additive_score;
pub(crate) mod attention_steps;
pub(crate) mod classes;
pub(crate) mod embeddings;
pub(crate) mod feed_forward;
pub(crate) mod program_builder;
pub(crate) mod recurrent;
pub(crate) mod sublayer;
pub(crate) mod text_vector;
