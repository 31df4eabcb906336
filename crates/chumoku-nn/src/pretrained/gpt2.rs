//! GPT-2 (Radford et al. 2019): learned positions, and linear layers whose matrices are stored transposed.

use super::{PretrainedDecoder, TensorSource, activation_name, check_size, push_weight_and_bias, unsupported};
use crate::Result;
use crate::layers::{AttentionOptions, EncoderConfig, InputEmbeddingsOptions, LayerOptions, NormOrder, PositionKind};
use crate::models::LanguageModelConfig;
use serde::Deserialize;

/// `config.json` of a model whose `model_type` is `gpt2`.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Gpt2Config {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of activations.
    pub(crate) n_embd: usize,
    /// Number of layers.
    pub(crate) n_layer: usize,
    /// Heads of each layer's attention.
    pub(crate) n_head: usize,
    /// Number of rows of the position table.
    pub(crate) n_positions: usize,
    /// Width inside the feed-forward network; four times the width of activations by default.
    pub(crate) n_inner: Option<usize>,
    /// Activation of the feed-forward network.
    #[serde(default = "default_activation_function")]
    pub(crate) activation_function: String,
    /// ε of the normalizations.
    #[serde(default = "default_layer_norm_epsilon")]
    pub(crate) layer_norm_epsilon: f64,
    /// Dropout of each sublayer's output.
    #[serde(default = "super::default_dropout")]
    pub(crate) resid_pdrop: f32,
    /// Dropout of the embeddings.
    #[serde(default = "super::default_dropout")]
    pub(crate) embd_pdrop: f32,
    /// Dropout of attention weights.
    #[serde(default = "super::default_dropout")]
    pub(crate) attn_pdrop: f32,
    /// True if scores are divided by √(head width).
    #[serde(default = "default_true")]
    pub(crate) scale_attn_weights: bool,
    /// True if scores are also divided by the layer number.
    #[serde(default)]
    pub(crate) scale_attn_by_inverse_layer_idx: bool,
    /// True for a model with cross-attention.
    #[serde(default)]
    pub(crate) add_cross_attention: bool,
    /// True if the output layer shares the embedding's matrix.
    #[serde(default = "default_true")]
    pub(crate) tie_word_embeddings: bool,
}

fn default_activation_function() -> String {
    "gelu_new".into()
}

fn default_layer_norm_epsilon() -> f64 {
    1e-5
}

fn default_true() -> bool {
    true
}

/// Prefix of the names of all tensors except the output layer's.
const PREFIX: &str = "transformer.";

impl Gpt2Config {
    /// Returns the language model and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn decoder(&self) -> Result<PretrainedDecoder> {
        for (setting, is_set, expected) in [
            ("scale_attn_weights", !self.scale_attn_weights, "true"),
            ("scale_attn_by_inverse_layer_idx", self.scale_attn_by_inverse_layer_idx, "false"),
            ("add_cross_attention", self.add_cross_attention, "false"),
        ] {
            if is_set {
                return Err(unsupported(setting, if expected == "true" { "false" } else { "true" }, expected));
            }
        }
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("n_positions", self.n_positions, 1 << 20)?;
        let config = LanguageModelConfig {
            vocab_size: self.vocab_size,
            encoder: EncoderConfig {
                num_layers: self.n_layer,
                d_model: self.n_embd,
                num_heads: self.n_head,
                d_ff: self.n_inner.unwrap_or(self.n_embd.saturating_mul(4)),
                activation: activation_name(&self.activation_function)?,
                norm_order: NormOrder::Pre,
                dropout: self.resid_pdrop,
                attention_dropout: self.attn_pdrop,
                causal: true,
                attention: AttentionOptions::default(),
                options: LayerOptions { norm_epsilon: Some(self.layer_norm_epsilon), ..LayerOptions::default() },
            },
            position: PositionKind::Learned,
            max_length: self.n_positions,
            embedding_dropout: self.embd_pdrop,
            embeddings: InputEmbeddingsOptions { unscaled: true, ..InputEmbeddingsOptions::default() },
            untied_output: !self.tie_word_embeddings,
        };
        config.encoder.check()?;
        Ok(PretrainedDecoder { tensors: self.tensors(), config, prefix: PREFIX })
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = Vec::new();
        let mut whole = |ours: &str, theirs: String| tensors.push((ours.into(), TensorSource::Tensor(theirs)));
        whole("embedding.weight", format!("{PREFIX}wte.weight"));
        whole("position.weight", format!("{PREFIX}wpe.weight"));
        if !self.tie_word_embeddings {
            whole("output.weight", "lm_head.weight".into());
        }
        push_weight_and_bias(&mut tensors, "encoder.norm", &format!("{PREFIX}ln_f"));
        for i in 0..self.n_layer {
            let (ours, theirs) = (format!("encoder.layers.{i}"), format!("{PREFIX}h.{i}"));
            push_weight_and_bias(&mut tensors, &format!("{ours}.norm1"), &format!("{theirs}.ln_1"));
            push_weight_and_bias(&mut tensors, &format!("{ours}.norm2"), &format!("{theirs}.ln_2"));
            for (our, their) in [
                ("self_attn.in_proj_", "attn.c_attn"),
                ("self_attn.out_proj.", "attn.c_proj"),
                ("linear1.", "mlp.c_fc"),
                ("linear2.", "mlp.c_proj"),
            ] {
                let [weight, bias] = ["weight", "bias"].map(|part| format!("{theirs}.{their}.{part}"));
                tensors.push((format!("{ours}.{our}weight"), TensorSource::Transposed(weight)));
                tensors.push((format!("{ours}.{our}bias"), TensorSource::Tensor(bias)));
            }
        }
        tensors
    }
}
