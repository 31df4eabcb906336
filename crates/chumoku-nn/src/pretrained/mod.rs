//! Pretrained checkpoints: mappings from published architectures to our layers, and from their tensor names to our
//! parameters.
//!
//! There is one file per architecture. It defines the `config.json` of Hugging Face's library, the matching
//! [`TextEncoderConfig`], [`LanguageModelConfig`] or [`TranslatorConfig`], and the names of the tensors. Nothing here
//! reads files; the crate `chumoku` does.
//!
//! # Files
//!
//! - `bert`: BERT, MiniLM, E5, BGE, GTE, RoBERTa, XLM-R
//! - `distilbert`: DistilBERT
//! - `gpt2`: GPT-2
//! - `llama`: Llama, SmolLM2, Mistral, Qwen2, Qwen3
//! - `marian`: Marian (OPUS-MT)
//! - `modernbert`: ModernBERT
//! - `static_embedding`: one vector for each token, no network

mod bert;
mod distilbert;
mod gpt2;
mod llama;
mod marian;
mod modernbert;
mod static_embedding;

pub use bert::BertConfig;
pub use distilbert::DistilBertConfig;
pub use gpt2::Gpt2Config;
pub use llama::LlamaConfig;
pub(crate) use llama::RopeParameters;
pub use marian::MarianConfig;
pub use modernbert::ModernBertConfig;
pub use static_embedding::StaticEmbeddingConfig;

use crate::layers::{DenseHeadConfig, HeadActivation, Pooling};
use crate::models::{ClassifierConfig, LanguageModelConfig, TextEncoderConfig, TranslatorConfig};
use crate::{Error, Result};

/// The location of one of our parameters in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorSource {
    /// A tensor as stored.
    Tensor(String),
    /// The rows of several tensors, concatenated, with the number of rows of each. Here queries, keys and values are
    /// one parameter.
    Concatenated(Vec<String>, Vec<usize>),
    /// A matrix that the checkpoint stores transposed: (inputs, outputs) instead of (outputs, inputs).
    Transposed(String),
}

impl TensorSource {
    /// Returns the names of the tensors, in order.
    pub fn names(&self) -> &[String] {
        match self {
            TensorSource::Tensor(name) | TensorSource::Transposed(name) => std::slice::from_ref(name),
            TensorSource::Concatenated(names, _) => names,
        }
    }

    /// Returns the shapes of the tensors, given the shape `ours` of our parameter.
    pub fn shapes(&self, ours: &[usize]) -> Vec<Vec<usize>> {
        match self {
            TensorSource::Tensor(_) => vec![ours.to_vec()],
            TensorSource::Transposed(_) => vec![ours.iter().rev().copied().collect()],
            TensorSource::Concatenated(_, rows) => rows.iter().map(|&rows| [&[rows], &ours[1..]].concat()).collect(),
        }
    }

    fn add_prefix(&mut self, prefix: &str) {
        match self {
            TensorSource::Tensor(name) | TensorSource::Transposed(name) => name.insert_str(0, prefix),
            TensorSource::Concatenated(names, _) => names.iter_mut().for_each(|name| name.insert_str(0, prefix)),
        }
    }
}

/// A pretrained encoder: its configuration, and the location of its parameters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedEncoder {
    /// The configuration of the encoder.
    pub config: TextEncoderConfig,
    /// The name and location of each parameter. In checkpoints of a model with a head, the names of the encoder's
    /// tensors start with [`PretrainedEncoder::prefix`]; in others they do not.
    pub tensors: Vec<(String, TensorSource)>,
    /// The name prefix in checkpoints with a head.
    pub prefix: &'static str,
    /// The head for sequence classification.
    pub head: PretrainedHead,
}

/// A pretrained language model: its configuration, and the location of its parameters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedDecoder {
    /// The configuration of the language model.
    pub config: LanguageModelConfig,
    /// The name and location of each parameter.
    pub tensors: Vec<(String, TensorSource)>,
    /// Prefix of all names except the output layer's. Some checkpoints omit it.
    pub prefix: &'static str,
}

/// A pretrained translator: its configuration, and the location of its parameters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedTranslator {
    /// The configuration of the translator.
    pub config: TranslatorConfig,
    /// The name and location of each parameter.
    pub tensors: Vec<(String, TensorSource)>,
}

/// The head of a published sequence classifier.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedHead {
    /// The name of the architecture in `config.json`.
    pub architecture: &'static str,
    /// The pooling method, from tokens to a sequence.
    pub(crate) pooling: Pooling,
    /// The dense layer before the last linear layer.
    pub(crate) dense: DenseHeadConfig,
    /// Dropout of the input of the last layer.
    pub dropout: f32,
    /// The name and location of each parameter, without prefix.
    pub(crate) tensors: Vec<(String, TensorSource)>,
}

impl PretrainedHead {
    /// Builds a head of two linear layers with these names.
    fn new(architecture: &'static str, [dense, out]: [&str; 2], activation: HeadActivation, dropout: f32) -> Self {
        let mut tensors = Vec::new();
        push_weight_and_bias(&mut tensors, "head.dense", dense);
        push_weight_and_bias(&mut tensors, "head", out);
        PretrainedHead {
            architecture,
            pooling: Pooling::First,
            dense: DenseHeadConfig::new(activation),
            dropout,
            tensors,
        }
    }
}

impl PretrainedEncoder {
    /// Returns true if the encoder is only a table of vectors, without a network.
    pub fn is_static(&self) -> bool {
        self.config.encoder.num_layers == 0
    }

    /// Returns the configuration of the encoder with its head, for `num_classes` classes.
    pub fn classifier(&self, num_classes: usize) -> ClassifierConfig {
        let TextEncoderConfig { vocab_size, encoder, position, max_length, embedding_dropout, embeddings: input } =
            self.config.clone();
        ClassifierConfig {
            vocab_size,
            num_classes,
            backbone: encoder.into(),
            position,
            max_length,
            pooling: self.head.pooling,
            embedding_dropout,
            head_dropout: self.head.dropout,
            head_dense: Some(self.head.dense),
            embeddings: input,
        }
    }

    /// Returns the names and locations of the classifier's parameters, with the prefix.
    pub fn classifier_tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = self.tensors.clone();
        tensors.iter_mut().for_each(|(_, source)| source.add_prefix(self.prefix));
        tensors.extend(self.head.tensors.clone());
        tensors
    }
}

/// The default activation of configurations.
fn default_activation() -> String {
    "gelu".into()
}

/// The default dropout of configurations.
fn default_dropout() -> f32 {
    0.1
}

/// Adds `weight` and `bias` of a linear layer or a normalization.
fn push_weight_and_bias(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: &str) {
    for part in ["weight", "bias"] {
        tensors.push((format!("{ours}.{part}"), TensorSource::Tensor(format!("{theirs}.{part}"))));
    }
}

/// Adds the fused weight and bias of queries, keys and values, which a checkpoint stores separately with `rows` rows
/// each.
fn push_in_projection(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: [String; 3], rows: usize) {
    let apart = theirs.map(|name| (name, rows));
    push_fused(tensors, &format!("{ours}.in_proj_"), &apart, &["weight", "bias"]);
}

/// Adds fused parts of linear layers that a checkpoint stores separately, each with its number of outputs. `ours` is
/// the prefix of each part's name.
fn push_fused(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: &[(String, usize)], parts: &[&str]) {
    for part in parts {
        let names = theirs.iter().map(|(name, _)| format!("{name}.{part}")).collect();
        let rows = theirs.iter().map(|&(_, rows)| rows).collect();
        tensors.push((format!("{ours}{part}"), TensorSource::Concatenated(names, rows)));
    }
}

/// Converts the name of an activation in Hugging Face's library into ours.
fn activation_name(found: &str) -> Result<String> {
    match found {
        "gelu" | "gelu_python" => Ok("gelu".into()),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok("gelu_tanh".into()),
        "relu" => Ok("relu".into()),
        "silu" | "swish" => Ok("silu".into()),
        _ => Err(unsupported("hidden_act", format!("\"{found}\""), "\"gelu\", \"gelu_new\", \"relu\", \"silu\"")),
    }
}

fn unsupported(setting: &'static str, found: impl Into<String>, expected: &'static str) -> Error {
    Error::Unsupported { setting, found: found.into(), expected }
}

/// Checks that a number from a file is at least 1 and at most `most`.
fn check_size(name: &'static str, found: usize, most: usize) -> Result<()> {
    match found == 0 || found > most {
        true => Err(Error::Size { name, most, found }),
        false => Ok(()),
    }
}
