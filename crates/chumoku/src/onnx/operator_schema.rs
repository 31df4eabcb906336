//! The attributes, inputs and outputs of the operator `Attention`.

use crate::tensors::Tensor;
use crate::tr;
use serde::{Deserialize, Deserializer};

/// The operator's attributes, under ONNX's names; `None` means ONNX's default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Attributes {
    /// Causal masking: query i sees the keys up to its own position, which is `i + past keys`, or `i + nonpad_kv_seqlen
    /// − queries`, or `i`.
    #[serde(deserialize_with = "zero_or_one")]
    pub is_causal: Option<bool>,
    /// Factor of the products of queries and keys; 1/√dim by default.
    pub scale: Option<f64>,
    /// Scores s become `softcap · tanh(s / softcap)` before masks are added; 0 disables it.
    pub softcap: Option<f64>,
    /// Number of query heads, for inputs with three axes.
    pub q_num_heads: Option<i64>,
    /// Number of key and value heads, for inputs with three axes.
    pub kv_num_heads: Option<i64>,
    /// Contents of `qk_matmul_output`: 0 (default) `scale · Q Kᵀ`, 1 after softcap, 2 after masks, 3 the weights.
    pub qk_matmul_output_mode: Option<i64>,
    /// Number of keys that a query sees before its own position; −1 for all.
    pub left_window_size: Option<i64>,
    /// Number of keys that a query sees after its own position; −1 for all.
    pub right_window_size: Option<i64>,
    /// Type of softmax: 1 f32, 10 f16, 11 f64, 16 bf16; by default the type of Q. For f32 and f64 it is a lower bound:
    /// 11 makes everything run in f64, with the reference implementation. For f16 and bf16, both 1 and 11 mean f32.
    pub softmax_precision: Option<i64>,
}

fn zero_or_one<'de, D: Deserializer<'de>>(number: D) -> Result<Option<bool>, D::Error> {
    match i64::deserialize(number)? {
        0 => Ok(Some(false)),
        1 => Ok(Some(true)),
        other => Err(serde::de::Error::custom(tr!(
            "is_causal: expected 0 or 1, got {other}",
            "is_causal: 0 か 1 が必要ですが、{other} です"
        ))),
    }
}

impl Attributes {
    /// Returns these attributes, with those of `other` in place of `None`.
    pub fn or(self, other: Attributes) -> Attributes {
        Attributes {
            is_causal: self.is_causal.or(other.is_causal),
            scale: self.scale.or(other.scale),
            softcap: self.softcap.or(other.softcap),
            q_num_heads: self.q_num_heads.or(other.q_num_heads),
            kv_num_heads: self.kv_num_heads.or(other.kv_num_heads),
            qk_matmul_output_mode: self.qk_matmul_output_mode.or(other.qk_matmul_output_mode),
            left_window_size: self.left_window_size.or(other.left_window_size),
            right_window_size: self.right_window_size.or(other.right_window_size),
            softmax_precision: self.softmax_precision.or(other.softmax_precision),
        }
    }
}

/// The operator's inputs, for B sequences, H query heads, H_kv key and value heads (a divisor of H), L queries, S keys
/// and P past keys.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Inputs<'a> {
    /// Q: (B, H, L, dim) or (B, L, H · dim), of f32, f64, f16 or bf16.
    pub query: &'a Tensor,
    /// K: (B, H_kv, S, dim) or (B, S, H_kv · dim), of the type of Q.
    pub key: &'a Tensor,
    /// V: (B, H_kv, S, value dim) or (B, S, H_kv · value dim), of any floating-point type.
    pub value: &'a Tensor,
    /// `attn_mask`: one to four axes that broadcast to (B, H, L, P + S), of bool (`true` = attend) or floating point
    /// (added to the scores). If its last axis is shorter, the keys beyond it are hidden.
    pub mask: Option<&'a Tensor>,
    /// `past_key`: (B, H_kv, P, dim), of the type of K.
    pub(crate) past_key: Option<&'a Tensor>,
    /// `past_value`: (B, H_kv, P, value dim), of the type of V.
    pub(crate) past_value: Option<&'a Tensor>,
    /// `nonpad_kv_seqlen`: (B), the number of keys of each sequence without padding. Cannot be combined with past keys.
    pub key_lengths: Option<&'a Tensor>,
}

impl<'a> Inputs<'a> {
    /// Creates inputs of queries, keys and values only.
    pub fn new(query: &'a Tensor, key: &'a Tensor, value: &'a Tensor) -> Self {
        Inputs { query, key, value, mask: None, past_key: None, past_value: None, key_lengths: None }
    }
}

/// The outputs to compute besides Y.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestedOutputs {
    /// `present_key` and `present_value`. They are always computed if past ones are given.
    pub(crate) present: bool,
    /// `qk_matmul_output`, the only output with all B · H · L · (P + S) numbers.
    pub(crate) qk_matmul_output: bool,
}

/// The operator's outputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outputs {
    /// Y: (B, H, L, value dim) or (B, L, H · value dim), with the layout and type of Q.
    pub output: Tensor,
    /// `present_key`: (B, H_kv, P + S, dim), of the type of K.
    pub(crate) present_key: Option<Tensor>,
    /// `present_value`: (B, H_kv, P + S, value dim), of the type of V.
    pub(crate) present_value: Option<Tensor>,
    /// `qk_matmul_output`: (B, H, L, P + S), of the type of Q.
    pub(crate) qk_matmul_output: Option<Tensor>,
}
