//! The steps that use each parameter of a model, by the parameter's name.

use super::{CountConfig, NetworkKind};
use std::ops::Range;

/// Rows of a parameter that one step of a network uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepParameter {
    /// The part of an encoder–decoder, as in [`StepCost::part`](super::StepCost::part).
    pub part: &'static str,
    /// The name of the step, as in [`StepCost::name`](super::StepCost::name).
    pub step: &'static str,
    /// The layer, from 0, of a step that repeats.
    pub layer: Option<usize>,
    /// The rows of the parameter.
    pub rows: Range<usize>,
}

impl CountConfig {
    /// Returns the steps that use a parameter with this name and number of rows. A vector has a row for each number.
    ///
    /// Queries, keys and values share a parameter, and so do both matrices of a gated feed-forward network. An unknown
    /// name has no steps.
    pub fn steps_of_parameter(&self, name: &str, rows: usize) -> Vec<StepParameter> {
        let mut path: Vec<&str> = name.split('.').collect();
        let leaf = path.pop().unwrap_or_default();
        let (root, module) = (path.first().copied().unwrap_or_default(), path.last().copied().unwrap_or_default());
        let layer = match path.iter().position(|part| *part == "layers") {
            Some(at) => path.get(at + 1).and_then(|number| number.parse().ok()),
            // `weight_ih_l0_reverse` of a recurrent network.
            None => leaf.split("_l").nth(1).and_then(|rest| rest.split('_').next()?.parse().ok()),
        };
        let is_decoder = match root {
            "decoder" | "position" => true,
            // One table for both sides belongs to the encoder.
            "embedding" => self.target_vocab_size.is_some(),
            _ => leaf == "output_bias",
        };
        let part = match self.network {
            NetworkKind::EncoderDecoder if path.contains(&"multihead_attn") => "cross",
            NetworkKind::EncoderDecoder if is_decoder => "decoder",
            NetworkKind::EncoderDecoder => "encoder",
            _ => "",
        };
        let of = |step, rows| StepParameter { part, step, layer, rows };
        let queries = self.head_dim.map_or(self.d_model, |width| self.num_heads * width).min(rows);
        let keys = queries + (rows - queries) / 2;
        let step = match (module, leaf) {
            (_, "in_proj_weight" | "in_proj_bias") => {
                return vec![of("W_Q", 0..queries), of("W_K", queries..keys), of("W_V", keys..rows)];
            }
            ("linear1", _) if self.gated => {
                return vec![of("feed-forward gate", 0..rows / 2), of("feed-forward in", rows / 2..rows)];
            }
            (_, "q_proj_weight") => "W_Q",
            (_, "k_proj_weight") => "W_K",
            (_, "v_proj_weight") => "W_V",
            (_, "beta") => "beta",
            (_, "output_bias") | ("output", _) => "output",
            (_, leaf) if leaf.starts_with("weight_hh_") => "state, step by step",
            ("recurrent", _) => "input projection",
            ("embedding" | "source_embedding", _) => "embedding",
            ("position" | "source_position", _) => "positions",
            ("token_type", _) => "token types",
            ("input_norm", _) => "input norm",
            ("norm1", _) => "norm 1",
            ("norm2", _) => "norm 2",
            ("norm3", _) => "norm 3",
            ("norm", _) if path.contains(&"head") => "head, norm",
            ("norm", _) => "final norm",
            ("q_norm" | "k_norm", _) => "head norms",
            ("out_proj", _) => "W_O",
            ("linear1", _) => "feed-forward in",
            ("linear2", _) => "feed-forward out",
            ("down", _) => "bottleneck in",
            ("up", _) => "bottleneck out",
            ("dense", _) => "head, dense",
            ("head", _) => "head",
            _ => return Vec::new(),
        };
        vec![of(step, 0..rows)]
    }
}
