//! Marian (Junczys-Dowmunt et al. 2018), as OPUS-MT's translators are (Tiedemann and Thottingal 2020): the transformer as
//! published, with SiLU, and a bias of the logits.

use super::{
    PretrainedTranslator, TensorSource, activation_name, check_size, gelu, push_in_projection, push_weight_and_bias,
    tenth, unsupported,
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
    /// The same of the target, where it is said.
    pub decoder_vocab_size: Option<usize>,
    /// Width of activations.
    pub d_model: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Heads of each of the encoder's attentions.
    pub encoder_attention_heads: usize,
    /// Width inside the encoder's feed-forward networks.
    pub encoder_ffn_dim: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Heads of each of the decoder's attentions.
    pub decoder_attention_heads: usize,
    /// Width inside the decoder's feed-forward networks.
    pub decoder_ffn_dim: usize,
    /// Activation of the feed-forward networks.
    #[serde(default = "gelu")]
    pub activation_function: String,
    /// The most tokens that it reads or writes.
    pub max_position_embeddings: usize,
    /// Dropout of embeddings and of each part's output.
    #[serde(default = "tenth")]
    pub dropout: f32,
    /// Dropout of attention weights.
    #[serde(default)]
    pub attention_dropout: f32,
    /// Whether embeddings are multiplied by √d_model.
    #[serde(default)]
    pub scale_embedding: bool,
    /// Whether positions are sines and cosines, where older files have it.
    pub static_position_embeddings: Option<bool>,
    /// Whether norms stand before each part, where older files have it.
    #[serde(default)]
    pub normalize_before: bool,
    /// Whether embeddings are normalised, where older files have it.
    #[serde(default)]
    pub normalize_embedding: bool,
    /// Whether a norm follows the last layer, where older files have it.
    #[serde(default)]
    pub add_final_layer_norm: bool,
    /// Whether both sides have one table of embeddings.
    pub share_encoder_decoder_embeddings: Option<bool>,
    /// Whether the output layer has the embedding's matrix.
    pub tie_word_embeddings: Option<bool>,
}

impl MarianConfig {
    /// The translator, and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range, or a setting asks for what is not there.
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
            },
        };
        for layers in [&config.encoder, &config.decoder()] {
            layers.check()?;
            // Heads that do not fit are refused before they are divided by.
            MultiHeadAttentionConfig::self_attention(layers.d_model, layers.num_heads, layers.attention)?;
        }
        Ok(PretrainedTranslator { tensors: self.tensors(), config })
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = vec![
            ("embedding.weight".into(), TensorSource::Tensor(format!("{PREFIX}shared.weight"))),
            ("output_bias".into(), TensorSource::Tensor(OUTPUT_BIAS.into())),
        ];
        // Their names of the norms, each after the part that stands before it.
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

/// What stands before the names of all tensors but the bias of the logits.
const PREFIX: &str = "model.";
/// The bias of the logits.
const OUTPUT_BIAS: &str = "final_logits_bias";
