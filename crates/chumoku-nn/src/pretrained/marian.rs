//! Marian (Junczys-Dowmunt et al. 2018), the architecture of OPUS-MT translators (Tiedemann and Thottingal 2020): the
//! original transformer with SiLU and a bias of the logits.

use super::{
    PretrainedTranslator, TensorSource, activation_name, check_size, push_in_projection, push_weight_and_bias,
    unsupported,
};
use crate::Result;
use crate::layers::{AttentionOptions, EncoderConfig, LayerOptions, MultiHeadAttentionConfig, NormOrder, PositionKind};
use crate::models::{TranslatorConfig, TranslatorOptions};
use serde::Deserialize;

/// `config.json` of a model whose `model_type` is `marian`.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct MarianConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Vocabulary size of the target, if the file contains it.
    pub(crate) decoder_vocab_size: Option<usize>,
    /// Width of activations.
    pub(crate) d_model: usize,
    /// Layers of the encoder.
    pub(crate) encoder_layers: usize,
    /// Heads of each attention in the encoder.
    pub(crate) encoder_attention_heads: usize,
    /// Width inside the encoder's feed-forward networks.
    pub(crate) encoder_ffn_dim: usize,
    /// Layers of the decoder.
    pub(crate) decoder_layers: usize,
    /// Heads of each attention in the decoder.
    pub(crate) decoder_attention_heads: usize,
    /// Width inside the decoder's feed-forward networks.
    pub(crate) decoder_ffn_dim: usize,
    /// Activation of the feed-forward networks.
    #[serde(default = "super::default_activation")]
    pub(crate) activation_function: String,
    /// Maximum number of tokens of source and target.
    pub(crate) max_position_embeddings: usize,
    /// Dropout of embeddings and of each sublayer's output.
    #[serde(default = "super::default_dropout")]
    pub dropout: f32,
    /// Dropout of attention weights.
    #[serde(default)]
    pub(crate) attention_dropout: f32,
    /// True if embeddings are multiplied by √d_model.
    #[serde(default)]
    pub(crate) scale_embedding: bool,
    /// True for sinusoidal positions, in older files.
    pub(crate) static_position_embeddings: Option<bool>,
    /// True for pre-norm layers, in older files.
    #[serde(default)]
    pub(crate) normalize_before: bool,
    /// True for normalized embeddings, in older files.
    #[serde(default)]
    pub(crate) normalize_embedding: bool,
    /// True for a final norm, in older files.
    #[serde(default)]
    pub(crate) add_final_layer_norm: bool,
    /// True if both sides share one embedding table.
    pub(crate) share_encoder_decoder_embeddings: Option<bool>,
    /// True if the output layer shares the embedding's matrix.
    pub(crate) tie_word_embeddings: Option<bool>,
}

impl MarianConfig {
    /// Returns the translator and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn translator(&self) -> Result<PretrainedTranslator> {
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("max_position_embeddings", self.max_position_embeddings, 1 << 20)?;
        let settings = [
            ("scale_embedding", self.scale_embedding, true),
            ("static_position_embeddings", self.static_position_embeddings.unwrap_or(true), true),
            ("normalize_before", self.normalize_before, false),
            ("normalize_embedding", self.normalize_embedding, false),
            ("add_final_layer_norm", self.add_final_layer_norm, false),
            ("share_encoder_decoder_embeddings", self.share_encoder_decoder_embeddings.unwrap_or(true), true),
            ("tie_word_embeddings", self.tie_word_embeddings.unwrap_or(true), true),
        ];
        for (setting, found, expected) in settings {
            if found != expected {
                return Err(unsupported(setting, found.to_string(), if expected { "true" } else { "false" }));
            }
        }
        if let Some(size) = self.decoder_vocab_size.filter(|&size| size != self.vocab_size) {
            return Err(unsupported("decoder_vocab_size", size.to_string(), "vocab_size"));
        }
        let known = activation_name(&self.activation_function).map_err(|_| {
            let found = format!("\"{}\"", self.activation_function);
            unsupported("activation_function", found, "\"gelu\", \"gelu_new\", \"relu\", \"swish\"")
        })?;
        let config = TranslatorConfig {
            source_vocab_size: self.vocab_size,
            target_vocab_size: self.vocab_size,
            joint_vocabulary: true,
            encoder: EncoderConfig {
                num_layers: self.encoder_layers,
                d_model: self.d_model,
                num_heads: self.encoder_attention_heads,
                d_ff: self.encoder_ffn_dim,
                activation: known,
                norm_order: NormOrder::Post,
                dropout: self.dropout,
                attention_dropout: self.attention_dropout,
                causal: false,
                attention: AttentionOptions::default(),
                options: LayerOptions::default(),
            },
            num_decoder_layers: self.decoder_layers,
            position: PositionKind::SinusoidalHalves,
            max_length: self.max_position_embeddings,
            embedding_dropout: self.dropout,
            options: TranslatorOptions {
                decoder_num_heads: Some(self.decoder_attention_heads),
                decoder_d_ff: Some(self.decoder_ffn_dim),
                output_bias: true,
                bottleneck: None,
                absolute_positions: false,
            },
        };
        for layers in [&config.encoder, &config.decoder()] {
            layers.check()?;
            // Reject invalid head counts before dividing by them.
            MultiHeadAttentionConfig::self_attention(layers.d_model, layers.num_heads, layers.attention)?;
        }
        Ok(PretrainedTranslator { tensors: self.tensors(), config })
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = vec![
            ("embedding.weight".into(), TensorSource::Tensor(format!("{PREFIX}shared.weight"))),
            ("output_bias".into(), TensorSource::Tensor(OUTPUT_BIAS.into())),
        ];
        // Marian's names of the norms. Each norm follows its sublayer.
        const ENCODER: [(&str, &str); 2] = [("norm1", "self_attn_layer_norm"), ("norm2", "final_layer_norm")];
        const DECODER: [(&str, &str); 3] =
            [("norm1", "self_attn_layer_norm"), ("norm2", "encoder_attn_layer_norm"), ("norm3", "final_layer_norm")];
        let sides = [
            ("encoder", self.encoder_layers, &[("self_attn", "self_attn")][..], &ENCODER[..]),
            (
                "decoder",
                self.decoder_layers,
                &[("self_attn", "self_attn"), ("multihead_attn", "encoder_attn")],
                &DECODER,
            ),
        ];
        for (side, layers, attentions, norms) in sides {
            for i in 0..layers {
                let (ours, theirs) = (format!("{side}.layers.{i}"), format!("{PREFIX}{side}.layers.{i}"));
                for (our, their) in attentions {
                    let inputs = ["q_proj", "k_proj", "v_proj"].map(|part| format!("{theirs}.{their}.{part}"));
                    push_in_projection(&mut tensors, &format!("{ours}.{our}"), inputs, self.d_model);
                    let out = format!("{theirs}.{their}.out_proj");
                    push_weight_and_bias(&mut tensors, &format!("{ours}.{our}.out_proj"), &out);
                }
                for (our, their) in norms.iter().chain(&[("linear1", "fc1"), ("linear2", "fc2")]) {
                    push_weight_and_bias(&mut tensors, &format!("{ours}.{our}"), &format!("{theirs}.{their}"));
                }
            }
        }
        tensors
    }
}

/// Prefix of the names of all tensors except the bias of the logits.
const PREFIX: &str = "model.";
/// The bias of the logits.
const OUTPUT_BIAS: &str = "final_logits_bias";
