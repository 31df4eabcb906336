//! Llama (Touvron et al. 2023) and models of the same architecture. Mistral, Qwen2 and Qwen3 differ in biases, head
//! norms and windows. SmolLM is a Llama.

use super::{PretrainedDecoder, TensorSource, activation_name, check_size, push_fused, unsupported};
use crate::Result;
use crate::layers::{
    AttentionBias, AttentionOptions, EncoderConfig, FeedForwardKind, InputEmbeddingsOptions, LayerOptions,
    MultiHeadAttentionConfig, NormKind, NormOrder, PositionKind, Rotary, RotaryScaling,
};
use crate::models::LanguageModelConfig;
use serde::{Deserialize, Deserializer, Serialize};

/// `config.json` of a model whose `model_type` is `llama`, `mistral`, `qwen2` or `qwen3`.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct LlamaConfig {
    /// The model type.
    pub(crate) model_type: String,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of activations.
    pub(crate) hidden_size: usize,
    /// Width inside the feed-forward network.
    pub(crate) intermediate_size: usize,
    /// Number of layers.
    pub(crate) num_hidden_layers: usize,
    /// Heads of each layer's attention.
    pub(crate) num_attention_heads: usize,
    /// Number of key–value heads; same as the number of query heads by default.
    pub(crate) num_key_value_heads: Option<usize>,
    /// Width of a head; Qwen3's default is 128.
    pub(crate) head_dim: Option<usize>,
    /// Activation of the feed-forward network.
    #[serde(default = "default_hidden_act")]
    pub(crate) hidden_act: String,
    /// Maximum number of tokens.
    pub(crate) max_position_embeddings: usize,
    /// ε of the norms.
    #[serde(default = "default_rms_norm_eps")]
    pub(crate) rms_norm_eps: f64,
    /// The base of rotary positions, in older files.
    pub(crate) rope_theta: Option<f64>,
    /// The scaling of rotary positions, in older files.
    pub(crate) rope_scaling: Option<RopeParameters>,
    /// Base and scaling of rotary positions, in newer files.
    pub(crate) rope_parameters: Option<RopeParameters>,
    /// True if the output layer shares the embedding's matrix.
    #[serde(default)]
    pub(crate) tie_word_embeddings: bool,
    /// True if attention has biases.
    #[serde(default)]
    pub(crate) attention_bias: bool,
    /// True if the feed-forward network has biases.
    #[serde(default)]
    pub(crate) mlp_bias: bool,
    /// Dropout of attention weights.
    #[serde(default)]
    pub(crate) attention_dropout: f32,
    /// Number of tokens that a token sees, including itself. Mistral's default is 4096.
    #[serde(default, deserialize_with = "null_or_value")]
    pub(crate) sliding_window: Option<Option<usize>>,
    /// True if Qwen uses windows at all.
    pub(crate) use_sliding_window: Option<bool>,
    /// Number of layers in Qwen before those with windows.
    pub(crate) max_window_layers: Option<usize>,
    /// The kind of attention of each layer, in newer files.
    pub(crate) layer_types: Option<Vec<String>>,
}

/// Parameters of rotary positions.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
pub(crate) struct RopeParameters {
    /// "default", "linear" or "llama3".
    pub(crate) rope_type: Option<String>,
    /// Same as `rope_type`, in older files.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// The base of the angles.
    pub(crate) rope_theta: Option<f64>,
    /// The divisor of the rotation speeds.
    pub(crate) factor: Option<f64>,
    /// Same as in [`RotaryScaling::Llama3`].
    pub(crate) low_freq_factor: Option<f64>,
    /// Same as in [`RotaryScaling::Llama3`].
    pub(crate) high_freq_factor: Option<f64>,
    /// Number of positions in the original training.
    pub(crate) original_max_position_embeddings: Option<f64>,
    /// The rotated share of a head.
    pub(crate) partial_rotary_factor: Option<f64>,
}

fn default_hidden_act() -> String {
    "silu".into()
}

fn default_rms_norm_eps() -> f64 {
    1e-6
}

/// Distinguishes a null setting from a missing one.
fn null_or_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<usize>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl RopeParameters {
    fn scaling(&self) -> Result<Option<RotaryScaling>> {
        if let Some(part) = self.partial_rotary_factor.filter(|part| *part != 1.0) {
            return Err(unsupported("partial_rotary_factor", part.to_string(), "1"));
        }
        // Missing numbers become NaN, which the check rejects.
        let number = |x: Option<f64>| x.unwrap_or(f64::NAN);
        let kind = self.rope_type.as_deref().or(self.kind.as_deref()).unwrap_or("default");
        let scaling = match kind {
            "default" => return Ok(None),
            "linear" => RotaryScaling::Linear { factor: number(self.factor) },
            "llama3" => RotaryScaling::Llama3 {
                factor: number(self.factor),
                low_freq_factor: number(self.low_freq_factor),
                high_freq_factor: number(self.high_freq_factor),
                original_positions: number(self.original_max_position_embeddings),
            },
            other => {
                return Err(unsupported("rope_type", format!("\"{other}\""), "\"default\", \"linear\", \"llama3\""));
            }
        };
        scaling.check()?;
        Ok(Some(scaling))
    }
}

impl LlamaConfig {
    /// Returns the language model and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn decoder(&self) -> Result<PretrainedDecoder> {
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("max_position_embeddings", self.max_position_embeddings, 1 << 24)?;
        let rope = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref()).cloned().unwrap_or_default();
        let attention = AttentionOptions {
            num_key_heads: self.num_key_value_heads,
            window: self.window()?,
            rotary_base: Some(rope.rope_theta.or(self.rope_theta).unwrap_or(Rotary::BASE)),
            rotary_scaling: rope.scaling()?,
            head_dim: self.head_dim.or((self.model_type == "qwen3").then_some(128)),
            bias: match (self.model_type.as_str(), self.attention_bias) {
                ("qwen2", _) => AttentionBias::Inputs,
                ("llama" | "qwen3", true) => AttentionBias::All,
                _ => AttentionBias::None,
            },
            head_norm_epsilon: (self.model_type == "qwen3").then_some(self.rms_norm_eps),
            ..AttentionOptions::default()
        };
        let config = LanguageModelConfig {
            vocab_size: self.vocab_size,
            encoder: EncoderConfig {
                num_layers: self.num_hidden_layers,
                d_model: self.hidden_size,
                num_heads: self.num_attention_heads,
                d_ff: self.intermediate_size,
                activation: activation_name(&self.hidden_act)?,
                norm_order: NormOrder::Pre,
                dropout: 0.0,
                attention_dropout: self.attention_dropout,
                causal: true,
                attention,
                options: LayerOptions {
                    norm: NormKind::Rms,
                    norm_epsilon: Some(self.rms_norm_eps),
                    feed_forward: if self.mlp_bias { FeedForwardKind::GatedWithBias } else { FeedForwardKind::Gated },
                    ..LayerOptions::default()
                },
            },
            position: PositionKind::Rotary,
            max_length: self.max_position_embeddings,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions { unscaled: true, ..InputEmbeddingsOptions::default() },
            untied_output: !self.tie_word_embeddings,
        };
        config.encoder.check()?;
        // Reject invalid head counts before dividing by them.
        MultiHeadAttentionConfig::self_attention(self.hidden_size, self.num_attention_heads, config.encoder.attention)?;
        Ok(PretrainedDecoder { tensors: self.tensors(&config), config, prefix: PREFIX })
    }

    /// Returns the number of earlier tokens that a token sees, or `None` if it sees all.
    fn window(&self) -> Result<Option<usize>> {
        const MISTRAL: usize = 4096;
        let is_mistral = self.model_type == "mistral";
        let window = self.sliding_window.unwrap_or(is_mistral.then_some(MISTRAL));
        let Some(window) = window.filter(|_| is_mistral || self.use_sliding_window == Some(true)) else {
            return Ok(None);
        };
        let layers = self.num_hidden_layers;
        let with_windows = match &self.layer_types {
            Some(kinds) => kinds.iter().filter(|kind| *kind == "sliding_attention").count(),
            None if is_mistral => layers,
            None => layers.saturating_sub(self.max_window_layers.unwrap_or(0)),
        };
        match with_windows {
            0 => Ok(None),
            // The setting includes the token itself.
            all if all == layers && window > 0 => Ok(Some(window - 1)),
            some => Err(unsupported(
                "sliding_window",
                format!("{window} in {some} of {layers} layers"),
                "a window of at least 1 in all layers or in none",
            )),
        }
    }

    fn tensors(&self, config: &LanguageModelConfig) -> Vec<(String, TensorSource)> {
        let attention = &config.encoder.attention;
        let key_heads = attention.num_key_heads.unwrap_or(self.num_attention_heads);
        let width = attention.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads);
        let mut tensors = Vec::new();
        let mut whole = |ours: String, theirs: String| tensors.push((ours, TensorSource::Tensor(theirs)));
        whole("embedding.weight".into(), format!("{PREFIX}embed_tokens.weight"));
        whole("encoder.norm.weight".into(), format!("{PREFIX}norm.weight"));
        if config.untied_output {
            whole("output.weight".into(), "lm_head.weight".into());
        }
        for i in 0..self.num_hidden_layers {
            let (ours, theirs) = (format!("encoder.layers.{i}"), format!("{PREFIX}layers.{i}"));
            let mut whole = |our: &str, their: &str| {
                tensors.push((format!("{ours}.{our}"), TensorSource::Tensor(format!("{theirs}.{their}"))));
            };
            whole("norm1.weight", "input_layernorm.weight");
            whole("norm2.weight", "post_attention_layernorm.weight");
            whole("self_attn.out_proj.weight", "self_attn.o_proj.weight");
            whole("linear2.weight", "mlp.down_proj.weight");
            if attention.bias == AttentionBias::All {
                whole("self_attn.out_proj.bias", "self_attn.o_proj.bias");
            }
            if self.mlp_bias {
                whole("linear2.bias", "mlp.down_proj.bias");
            }
            if attention.head_norm_epsilon.is_some() {
                whole("self_attn.q_norm.weight", "self_attn.q_norm.weight");
                whole("self_attn.k_norm.weight", "self_attn.k_norm.weight");
            }
            let heads = [self.num_attention_heads, key_heads, key_heads];
            let inputs: Vec<(String, usize)> = ["q_proj", "k_proj", "v_proj"]
                .into_iter()
                .zip(heads)
                .map(|(part, heads)| (format!("{theirs}.self_attn.{part}"), heads * width))
                .collect();
            let of_attention: &[&str] = if attention.bias == AttentionBias::None { &["weight"] } else { &BOTH };
            push_fused(&mut tensors, &format!("{ours}.self_attn.in_proj_"), &inputs, of_attention);
            // The activated half comes first.
            let halves = ["gate_proj", "up_proj"].map(|part| (format!("{theirs}.mlp.{part}"), self.intermediate_size));
            let of_network: &[&str] = if self.mlp_bias { &BOTH } else { &["weight"] };
            push_fused(&mut tensors, &format!("{ours}.linear1."), &halves, of_network);
        }
        tensors
    }
}

/// Prefix of the names of all tensors except the output layer's.
const PREFIX: &str = "model.";
const BOTH: [&str; 2] = ["weight", "bias"];
