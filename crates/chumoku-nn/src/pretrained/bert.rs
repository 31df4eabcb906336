//! BERT (Devlin et al. 2019) and models of the same architecture: MiniLM, E5, BGE and GTE. RoBERTa and XLM-R also
//! belong here; their positions start after the padding id.

use super::{
    PretrainedEncoder, PretrainedHead, TensorSource, activation_name, check_size, push_in_projection,
    push_weight_and_bias, unsupported,
};
use crate::Result;
use crate::layers::{
    AttentionOptions, EncoderConfig, HeadActivation, InputEmbeddingsOptions, LayerOptions, NormOrder, PositionKind,
};
use crate::models::TextEncoderConfig;
use serde::Deserialize;

/// `config.json` of a model whose `model_type` is `bert`, `roberta`, `xlm-roberta` or `camembert`.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct BertConfig {
    /// The model type.
    pub(crate) model_type: String,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of activations.
    pub(crate) hidden_size: usize,
    /// Number of layers.
    pub(crate) num_hidden_layers: usize,
    /// Heads of each layer's attention.
    pub(crate) num_attention_heads: usize,
    /// Width inside the feed-forward network.
    pub(crate) intermediate_size: usize,
    /// Number of rows of the position table.
    pub(crate) max_position_embeddings: usize,
    /// Number of token types.
    #[serde(default = "default_type_vocab_size")]
    pub(crate) type_vocab_size: usize,
    /// Activation of the feed-forward network.
    #[serde(default = "super::default_activation")]
    pub(crate) hidden_act: String,
    /// Dropout of each sublayer's output.
    #[serde(default = "super::default_dropout")]
    pub(crate) hidden_dropout_prob: f32,
    /// Dropout of attention weights.
    #[serde(default = "super::default_dropout")]
    pub(crate) attention_probs_dropout_prob: f32,
    /// Dropout before a classifier's last layer; same as `hidden_dropout_prob` by default.
    #[serde(default)]
    pub(crate) classifier_dropout: Option<f32>,
    /// ε of the normalizations.
    #[serde(default = "default_layer_norm_eps")]
    pub(crate) layer_norm_eps: f64,
    /// The id of the padding token.
    #[serde(default)]
    pub(crate) pad_token_id: Option<usize>,
    /// The kind of position embeddings.
    #[serde(default = "default_position_embedding_type")]
    pub(crate) position_embedding_type: String,
    /// True for a decoder.
    #[serde(default)]
    pub(crate) is_decoder: bool,
    /// True for a model with cross-attention.
    #[serde(default)]
    pub(crate) add_cross_attention: bool,
}

fn default_type_vocab_size() -> usize {
    2
}

fn default_layer_norm_eps() -> f64 {
    1e-12
}

fn default_position_embedding_type() -> String {
    "absolute".into()
}

impl BertConfig {
    fn is_roberta(&self) -> bool {
        self.model_type != "bert"
    }

    /// Returns the encoder and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn encoder(&self) -> Result<PretrainedEncoder> {
        if self.position_embedding_type != "absolute" {
            let found = format!("\"{}\"", self.position_embedding_type);
            return Err(unsupported("position_embedding_type", found, "\"absolute\""));
        }
        if self.is_decoder || self.add_cross_attention {
            return Err(unsupported("is_decoder, add_cross_attention", "true", "false"));
        }
        let first_position = if self.is_roberta() { self.pad_token_id.unwrap_or(1).saturating_add(1) } else { 0 };
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("max_position_embeddings", self.max_position_embeddings.saturating_sub(first_position), 1 << 20)?;
        if self.type_vocab_size > 0 {
            check_size("type_vocab_size", self.type_vocab_size, 1 << 10)?;
        }
        let config = TextEncoderConfig {
            vocab_size: self.vocab_size,
            encoder: EncoderConfig {
                num_layers: self.num_hidden_layers,
                d_model: self.hidden_size,
                num_heads: self.num_attention_heads,
                d_ff: self.intermediate_size,
                activation: activation_name(&self.hidden_act)?,
                norm_order: NormOrder::Post,
                dropout: self.hidden_dropout_prob,
                attention_dropout: self.attention_probs_dropout_prob,
                causal: false,
                attention: AttentionOptions::default(),
                options: LayerOptions { norm_epsilon: Some(self.layer_norm_eps), ..LayerOptions::default() },
            },
            position: PositionKind::Learned,
            max_length: self.max_position_embeddings - first_position,
            embedding_dropout: self.hidden_dropout_prob,
            embeddings: InputEmbeddingsOptions {
                norm_epsilon: Some(self.layer_norm_eps),
                token_types: self.type_vocab_size,
                first_position,
                ..InputEmbeddingsOptions::default()
            },
        };
        config.encoder.check()?;
        let prefix = if self.is_roberta() { "roberta." } else { "bert." };
        Ok(PretrainedEncoder { tensors: self.tensors(), config, prefix, head: self.head() })
    }

    fn head(&self) -> PretrainedHead {
        let dropout = self.classifier_dropout.unwrap_or(self.hidden_dropout_prob);
        let (architecture, layers) = match self.model_type.as_str() {
            "roberta" => ("RobertaForSequenceClassification", ["classifier.dense", "classifier.out_proj"]),
            "xlm-roberta" => ("XLMRobertaForSequenceClassification", ["classifier.dense", "classifier.out_proj"]),
            "camembert" => ("CamembertForSequenceClassification", ["classifier.dense", "classifier.out_proj"]),
            _ => ("BertForSequenceClassification", ["bert.pooler.dense", "classifier"]),
        };
        PretrainedHead::new(architecture, layers, HeadActivation::Tanh, dropout)
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = Vec::new();
        let whole = |ours: &str, theirs: &str| (ours.to_owned(), TensorSource::Tensor(theirs.to_owned()));
        tensors.push(whole("embedding.weight", "embeddings.word_embeddings.weight"));
        tensors.push(whole("position.weight", "embeddings.position_embeddings.weight"));
        if self.type_vocab_size > 0 {
            tensors.push(whole("token_type.weight", "embeddings.token_type_embeddings.weight"));
        }
        push_weight_and_bias(&mut tensors, "input_norm", "embeddings.LayerNorm");
        for i in 0..self.num_hidden_layers {
            let (ours, theirs) = (format!("encoder.layers.{i}"), format!("encoder.layer.{i}"));
            let projections = ["query", "key", "value"].map(|part| format!("{theirs}.attention.self.{part}"));
            push_in_projection(&mut tensors, &format!("{ours}.self_attn"), projections, self.hidden_size);
            for (our, their) in [
                ("self_attn.out_proj", "attention.output.dense"),
                ("norm1", "attention.output.LayerNorm"),
                ("linear1", "intermediate.dense"),
                ("linear2", "output.dense"),
                ("norm2", "output.LayerNorm"),
            ] {
                push_weight_and_bias(&mut tensors, &format!("{ours}.{our}"), &format!("{theirs}.{their}"));
            }
        }
        tensors
    }
}
