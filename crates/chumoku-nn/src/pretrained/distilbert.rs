//! DistilBERT (Sanh et al. 2019): BERT without token types, with its own tensor names.

use super::{
    PretrainedEncoder, PretrainedHead, TensorSource, activation_name, check_size, push_in_projection,
    push_weight_and_bias,
};
use crate::Result;
use crate::layers::{
    AttentionOptions, EncoderConfig, HeadActivation, InputEmbeddingsOptions, LayerOptions, NormOrder, PositionKind,
};
use crate::models::TextEncoderConfig;
use serde::Deserialize;

/// `config.json` of a model whose `model_type` is `distilbert`.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct DistilBertConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of activations.
    pub dim: usize,
    /// Number of layers.
    pub(crate) n_layers: usize,
    /// Heads of each layer's attention.
    pub(crate) n_heads: usize,
    /// Width inside the feed-forward network.
    pub(crate) hidden_dim: usize,
    /// Number of rows of the position table.
    pub(crate) max_position_embeddings: usize,
    /// Activation of the feed-forward network.
    #[serde(default = "super::default_activation")]
    pub(crate) activation: String,
    /// Dropout of each sublayer's output.
    #[serde(default = "super::default_dropout")]
    pub dropout: f32,
    /// Dropout of attention weights.
    #[serde(default = "super::default_dropout")]
    pub(crate) attention_dropout: f32,
    /// Dropout before a classifier's last layer.
    #[serde(default = "default_seq_classif_dropout")]
    pub(crate) seq_classif_dropout: f32,
}

fn default_seq_classif_dropout() -> f32 {
    0.2
}

/// ε of the normalizations, which the file does not contain.
const EPSILON: f64 = 1e-12;

impl DistilBertConfig {
    /// Returns the encoder and the names of its tensors.
    ///
    /// # Errors
    /// If a size is out of range or a setting is not supported.
    pub fn encoder(&self) -> Result<PretrainedEncoder> {
        check_size("vocab_size", self.vocab_size, 1 << 24)?;
        check_size("max_position_embeddings", self.max_position_embeddings, 1 << 20)?;
        let config = TextEncoderConfig {
            vocab_size: self.vocab_size,
            encoder: EncoderConfig {
                num_layers: self.n_layers,
                d_model: self.dim,
                num_heads: self.n_heads,
                d_ff: self.hidden_dim,
                activation: activation_name(&self.activation)?,
                norm_order: NormOrder::Post,
                dropout: self.dropout,
                attention_dropout: self.attention_dropout,
                causal: false,
                attention: AttentionOptions::default(),
                options: LayerOptions { norm_epsilon: Some(EPSILON), ..LayerOptions::default() },
            },
            position: PositionKind::Learned,
            max_length: self.max_position_embeddings,
            embedding_dropout: self.dropout,
            embeddings: InputEmbeddingsOptions { norm_epsilon: Some(EPSILON), ..InputEmbeddingsOptions::default() },
        };
        config.encoder.check()?;
        let layers = ["pre_classifier", "classifier"];
        let dropout = self.seq_classif_dropout;
        let head = PretrainedHead::new("DistilBertForSequenceClassification", layers, HeadActivation::Relu, dropout);
        Ok(PretrainedEncoder { tensors: self.tensors(), config, prefix: "distilbert.", head })
    }

    fn tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = Vec::new();
        let whole = |ours: &str, theirs: &str| (ours.to_owned(), TensorSource::Tensor(theirs.to_owned()));
        tensors.push(whole("embedding.weight", "embeddings.word_embeddings.weight"));
        tensors.push(whole("position.weight", "embeddings.position_embeddings.weight"));
        push_weight_and_bias(&mut tensors, "input_norm", "embeddings.LayerNorm");
        for i in 0..self.n_layers {
            let (ours, theirs) = (format!("encoder.layers.{i}"), format!("transformer.layer.{i}"));
            let projections = ["q_lin", "k_lin", "v_lin"].map(|part| format!("{theirs}.attention.{part}"));
            push_in_projection(&mut tensors, &format!("{ours}.self_attn"), projections, self.dim);
            for (our, their) in [
                ("self_attn.out_proj", "attention.out_lin"),
                ("norm1", "sa_layer_norm"),
                ("linear1", "ffn.lin1"),
                ("linear2", "ffn.lin2"),
                ("norm2", "output_layer_norm"),
            ] {
                push_weight_and_bias(&mut tensors, &format!("{ours}.{our}"), &format!("{theirs}.{their}"));
            }
        }
        tensors
    }
}
