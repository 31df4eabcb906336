//! ModernBERT (Warner et al. 2024): rotary positions, pre-norm layers, gated feed-forward networks, and local attention
//! in most layers.

use super::{
    PretrainedEncoder, PretrainedHead, RopeParameters, TensorSource, activation_name, check_size, unsupported,
};
use crate::Result;
use crate::layers::{
    AttentionBias, AttentionOptions, DenseHeadConfig, EncoderConfig, FeedForwardKind, HeadActivation,
    InputEmbeddingsOptions, LayerOptions, LocalLayers, NormKind, NormOrder, Pooling, PositionKind,
};
use crate::models::TextEncoderConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `config.json` of a model whose `model_type` is `modernbert`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModernBertConfig {
    /// The model type.
    pub(crate) model_type: String,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of activations.
    pub hidden_size: usize,
    /// Width inside the feed-forward network.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Heads of each layer's attention.
    pub num_attention_heads: usize,
    /// Activation of the feed-forward network.
    pub(crate) hidden_activation: String,
    /// The longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// ε of the normalizations.
    pub(crate) norm_eps: f64,
    /// True if normalizations have biases.
    pub(crate) norm_bias: bool,
    /// True if attention has biases.
    pub(crate) attention_bias: bool,
    /// True if the feed-forward network has biases.
    pub(crate) mlp_bias: bool,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Dropout in the feed-forward network.
    pub mlp_dropout: f32,
    /// The interval of layers with global attention, starting with the first layer.
    pub global_attn_every_n_layers: usize,
    /// The window of local attention, both sides together.
    pub(crate) local_attention: usize,
    /// The base of rotary positions in global layers.
    pub global_rope_theta: f64,
    /// The base of rotary positions in local layers; same as the global one by default.
    pub(crate) local_rope_theta: Option<f64>,
    /// The kind of attention of each layer, in newer files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) layer_types: Option<Vec<String>>,
    /// The bases by kind of layer, in newer files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rope_parameters: Option<BTreeMap<String, Option<RopeParameters>>>,
    /// The pooling method of a classifier: `cls` or `mean`.
    pub classifier_pooling: String,
    /// True if the dense layer of a classifier has a bias.
    pub(crate) classifier_bias: bool,
    /// The activation of the dense layer of a classifier.
    pub(crate) classifier_activation: String,
    /// Dropout before a classifier's last layer.
    pub classifier_dropout: f32,
}

/// The defaults of Hugging Face's library.
impl Default for ModernBertConfig {
    fn default() -> Self {
        ModernBertConfig {
            model_type: "modernbert".into(),
            vocab_size: 50368,
            hidden_size: 768,
            intermediate_size: 1152,
            num_hidden_layers: 22,
            num_attention_heads: 12,
            hidden_activation: super::default_activation(),
            max_position_embeddings: 8192,
            norm_eps: 1e-5,
            norm_bias: false,
            attention_bias: false,
            mlp_bias: false,
            attention_dropout: 0.0,
            embedding_dropout: 0.0,
            mlp_dropout: 0.0,
            global_attn_every_n_layers: 3,
            local_attention: 128,
            global_rope_theta: 160_000.0,
            local_rope_theta: Some(10_000.0),
            layer_types: None,
            rope_parameters: None,
            classifier_pooling: "cls".into(),
            classifier_bias: false,
            classifier_activation: super::default_activation(),
            classifier_dropout: 0.0,
        }
    }
}

const GLOBAL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

impl ModernBertConfig {
    /// Returns the encoder and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn encoder(&self) -> Result<PretrainedEncoder> {
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("max_position_embeddings", self.max_position_embeddings, 1 << 20)?;
        check_size("global_attn_every_n_layers", self.global_attn_every_n_layers, 1 << 10)?;
        let [global_base, local_base] = self.rotary_bases()?;
        let norm = if self.norm_bias { NormKind::Layer } else { NormKind::LayerWithoutBias };
        let local_layers = LocalLayers {
            global_every: self.global_every()?,
            window: self.local_attention / 2,
            rotary_base: local_base,
        };
        let config = TextEncoderConfig {
            vocab_size: self.vocab_size,
            encoder: EncoderConfig {
                num_layers: self.num_hidden_layers,
                d_model: self.hidden_size,
                num_heads: self.num_attention_heads,
                d_ff: self.intermediate_size,
                activation: activation_name(&self.hidden_activation)?,
                norm_order: NormOrder::Pre,
                dropout: self.mlp_dropout,
                attention_dropout: self.attention_dropout,
                causal: false,
                attention: AttentionOptions {
                    rotary_base: Some(global_base),
                    bias: if self.attention_bias { AttentionBias::All } else { AttentionBias::None },
                    ..AttentionOptions::default()
                },
                options: LayerOptions {
                    norm,
                    norm_epsilon: Some(self.norm_eps),
                    feed_forward: match self.mlp_bias {
                        true => FeedForwardKind::GatedWithBias,
                        false => FeedForwardKind::Gated,
                    },
                    first_norm_left_out: true,
                    local_layers: (local_layers.global_every > 1).then_some(local_layers),
                },
            },
            position: PositionKind::Rotary,
            max_length: self.max_position_embeddings,
            embedding_dropout: self.embedding_dropout,
            embeddings: InputEmbeddingsOptions {
                norm_epsilon: Some(self.norm_eps),
                norm,
                ..InputEmbeddingsOptions::default()
            },
        };
        config.encoder.check()?;
        Ok(PretrainedEncoder { tensors: self.tensors(), config, prefix: "model.", head: self.head()? })
    }

    /// Returns the rotary bases of global and local layers.
    fn rotary_bases(&self) -> Result<[f64; 2]> {
        let mut bases = [self.global_rope_theta, self.local_rope_theta.unwrap_or(self.global_rope_theta)];
        for (kind, base) in [GLOBAL, LOCAL].into_iter().zip(&mut bases) {
            let Some(Some(found)) = self.rope_parameters.as_ref().and_then(|all| all.get(kind)) else { continue };
            if let Some(kind) = found.rope_type.as_deref().filter(|kind| *kind != "default") {
                return Err(unsupported("rope_type", format!("\"{kind}\""), "\"default\""));
            }
            *base = found.rope_theta.unwrap_or(*base);
        }
        Ok(bases)
    }

    /// Returns the interval of global layers, also for newer files that list the kind of each layer.
    fn global_every(&self) -> Result<usize> {
        let Some(kinds) = &self.layer_types else { return Ok(self.global_attn_every_n_layers) };
        let every = kinds.iter().skip(1).position(|kind| kind == GLOBAL).map_or(kinds.len().max(1), |at| at + 1);
        let expected = (0..self.num_hidden_layers).map(|i| if i % every == 0 { GLOBAL } else { LOCAL });
        match kinds.iter().map(String::as_str).eq(expected) {
            true => Ok(every),
            false => Err(unsupported(
                "layer_types",
                kinds.join(", "),
                "full_attention at a fixed interval, starting with the first layer",
            )),
        }
    }

    fn head(&self) -> Result<PretrainedHead> {
        let pooling = match self.classifier_pooling.as_str() {
            "cls" => Pooling::First,
            "mean" => Pooling::Mean,
            other => return Err(unsupported("classifier_pooling", format!("\"{other}\""), "\"cls\", \"mean\"")),
        };
        let activation = match self.classifier_activation.as_str() {
            "gelu" => HeadActivation::Gelu,
            "relu" => HeadActivation::Relu,
            "tanh" => HeadActivation::Tanh,
            other => {
                return Err(unsupported(
                    "classifier_activation",
                    format!("\"{other}\""),
                    "\"gelu\", \"relu\", \"tanh\"",
                ));
            }
        };
        let norm = if self.norm_bias { NormKind::Layer } else { NormKind::LayerWithoutBias };
        let dense = DenseHeadConfig { activation, bias: self.classifier_bias, norm: Some((norm, self.norm_eps)) };
        let mut tensors = Vec::new();
        push_weight(&mut tensors, "head.dense", "head.dense", self.classifier_bias);
        push_weight(&mut tensors, "head.norm", "head.norm", self.norm_bias);
        push_weight(&mut tensors, "head", "classifier", true);
        let architecture = "ModernBertForSequenceClassification";
        Ok(PretrainedHead { architecture, pooling, dense, dropout: self.classifier_dropout, tensors })
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = Vec::new();
        push_weight(&mut tensors, "embedding", "embeddings.tok_embeddings", false);
        push_weight(&mut tensors, "input_norm", "embeddings.norm", self.norm_bias);
        for i in 0..self.num_hidden_layers {
            let (ours, theirs) = (format!("encoder.layers.{i}"), format!("layers.{i}"));
            let mut whole = |our: &str, their: &str| {
                tensors.push((format!("{ours}.{our}"), TensorSource::Tensor(format!("{theirs}.{their}"))));
            };
            whole("self_attn.in_proj_weight", "attn.Wqkv.weight");
            if self.attention_bias {
                whole("self_attn.in_proj_bias", "attn.Wqkv.bias");
            }
            for (our, their, bias) in [
                ("self_attn.out_proj", "attn.Wo", self.attention_bias),
                ("norm1", "attn_norm", self.norm_bias),
                ("linear1", "mlp.Wi", self.mlp_bias),
                ("linear2", "mlp.Wo", self.mlp_bias),
                ("norm2", "mlp_norm", self.norm_bias),
            ] {
                if (our, i) != ("norm1", 0) {
                    push_weight(&mut tensors, &format!("{ours}.{our}"), &format!("{theirs}.{their}"), bias);
                }
            }
        }
        push_weight(&mut tensors, "encoder.norm", "final_norm", self.norm_bias);
        tensors
    }

    /// Returns the names and locations of the parameters of a
    /// [`MaskedLanguageModel`](crate::models::MaskedLanguageModel). The published model has a bias of the logits,
    /// `decoder.bias`; ours is 0.
    ///
    /// # Errors
    /// Same as for [`ModernBertConfig::encoder`].
    pub fn masked_tensors(&self) -> Result<Vec<(String, TensorSource)>> {
        let PretrainedEncoder { mut tensors, prefix, .. } = self.encoder()?;
        tensors.iter_mut().for_each(|(_, source)| source.add_prefix(prefix));
        push_weight(&mut tensors, "head.dense", "head.dense", self.norm_bias);
        push_weight(&mut tensors, "head.norm", "head.norm", self.norm_bias);
        Ok(tensors)
    }
}

/// Adds a weight and, if `bias` is set, a bias.
fn push_weight(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: &str, bias: bool) {
    for part in ["weight", "bias"].into_iter().take(1 + usize::from(bias)) {
        tensors.push((format!("{ours}.{part}"), TensorSource::Tensor(format!("{theirs}.{part}"))));
    }
}
