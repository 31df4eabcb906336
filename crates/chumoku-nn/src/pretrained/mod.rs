//! Pretrained checkpoints: what published architectures are in our layers, and what they call our parameters.
//!
//! One file an architecture: its `config.json` as Hugging Face's library writes it, the [`TextEncoderConfig`],
//! [`LanguageModelConfig`] or [`TranslatorConfig`] that it stands for, and the names of its tensors. Nothing here reads files: the crate `chumoku` does.
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
pub use llama::{LlamaConfig, RopeParameters};
pub use marian::MarianConfig;
pub use modernbert::ModernBertConfig;
pub use static_embedding::StaticEmbeddingConfig;

use crate::layers::{DenseHeadConfig, HeadActivation, Pooling};
use crate::models::{ClassifierConfig, LanguageModelConfig, TextEncoderConfig, TranslatorConfig};
use crate::{Error, Result};

/// Where the numbers of one of our parameters lie in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorSource {
    /// A tensor as it is.
    Tensor(String),
    /// The rows of several tensors one after another, so many of each: queries, keys and values are one parameter here.
    Concatenated(Vec<String>, Vec<usize>),
    /// A matrix that the checkpoint holds as (inputs, outputs), where ours is (outputs, inputs).
    Transposed(String),
}

impl TensorSource {
    /// The names of the tensors, in their order.
    pub fn names(&self) -> &[String] {
        match self {
            TensorSource::Tensor(name) | TensorSource::Transposed(name) => std::slice::from_ref(name),
            TensorSource::Concatenated(names, _) => names,
        }
    }

    /// The shapes of the tensors, where our parameter has the shape `ours`.
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

/// A pretrained encoder: what it is in our layers, and where its parameters lie.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedEncoder {
    /// The model.
    pub config: TextEncoderConfig,
    /// The name of each of its parameters and where its numbers lie. Checkpoints of a model with a head have
    /// [`PretrainedEncoder::prefix`] before the names of the encoder's tensors, those of the encoder alone have not.
    pub tensors: Vec<(String, TensorSource)>,
    /// What stands before the names where the checkpoint has a head.
    pub prefix: &'static str,
    /// The head that makes it a sequence classifier.
    pub head: PretrainedHead,
}

/// A pretrained language model: what it is in our layers, and where its parameters lie.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedDecoder {
    /// The model.
    pub config: LanguageModelConfig,
    /// The name of each of its parameters and where its numbers lie.
    pub tensors: Vec<(String, TensorSource)>,
    /// What stands before the names of all but the output layer's, though some checkpoints leave it out.
    pub prefix: &'static str,
}

/// A pretrained translator: what it is in our layers, and where its parameters lie.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedTranslator {
    /// The model.
    pub config: TranslatorConfig,
    /// The name of each of its parameters and where its numbers lie.
    pub tensors: Vec<(String, TensorSource)>,
}

/// The head of a published sequence classifier.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PretrainedHead {
    /// What `config.json` calls the whole model.
    pub architecture: &'static str,
    /// From tokens to a sequence.
    pub pooling: Pooling,
    /// What comes before its last linear layer.
    pub dense: DenseHeadConfig,
    /// Dropout of what the last layer is given.
    pub dropout: f32,
    /// The names of its parameters, and where their numbers lie. No prefix stands before these.
    pub tensors: Vec<(String, TensorSource)>,
}

impl PretrainedHead {
    /// With two linear layers of these names.
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
    /// Whether it is a table of vectors and no network.
    pub fn is_static(&self) -> bool {
        self.config.encoder.num_layers == 0
    }

    /// The encoder with its head, for so many classes.
    pub fn classifier(&self, num_classes: usize) -> ClassifierConfig {
        let TextEncoderConfig { vocab_size, encoder, position, max_length, embedding_dropout, embeddings: input } =
            self.config.clone();
        ClassifierConfig {
            vocab_size,
            num_classes,
            body: encoder.into(),
            position,
            max_length,
            pooling: self.head.pooling,
            embedding_dropout,
            head_dropout: self.head.dropout,
            head_dense: Some(self.head.dense),
            embeddings: input,
        }
    }

    /// The names of the classifier's parameters, and where their numbers lie: with the prefix where one stands.
    pub fn classifier_tensors(&self) -> Vec<(String, TensorSource)> {
        let mut tensors = self.tensors.clone();
        tensors.iter_mut().for_each(|(_, source)| source.add_prefix(self.prefix));
        tensors.extend(self.head.tensors.clone());
        tensors
    }
}

/// The activation of a configuration that does not name one.
fn gelu() -> String {
    "gelu".into()
}

/// The dropout of a configuration that does not state one.
fn tenth() -> f32 {
    0.1
}

/// Adds `weight` and `bias` of a linear layer or a normalisation.
fn push_weight_and_bias(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: &str) {
    for part in ["weight", "bias"] {
        tensors.push((format!("{ours}.{part}"), TensorSource::Tensor(format!("{theirs}.{part}"))));
    }
}

/// Adds the fused weight and bias of queries, keys and values, `rows` each, that a checkpoint holds apart.
fn push_in_projection(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: [String; 3], rows: usize) {
    let apart = theirs.map(|name| (name, rows));
    push_fused(tensors, &format!("{ours}.in_proj_"), &apart, &["weight", "bias"]);
}

/// Adds the fused parts of linear layers that a checkpoint holds apart, with so many outputs each; `ours` is put before
/// the name of each part.
fn push_fused(tensors: &mut Vec<(String, TensorSource)>, ours: &str, theirs: &[(String, usize)], parts: &[&str]) {
    for part in parts {
        let names = theirs.iter().map(|(name, _)| format!("{name}.{part}")).collect();
        let rows = theirs.iter().map(|&(_, rows)| rows).collect();
        tensors.push((format!("{ours}{part}"), TensorSource::Concatenated(names, rows)));
    }
}

/// The name of an activation in our configurations, from Hugging Face's.
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

/// That a number out of a file is at least 1 and at most what anybody uses.
fn check_size(name: &'static str, found: usize, most: usize) -> Result<()> {
    match found == 0 || found > most {
        true => Err(Error::Size { name, most, found }),
        false => Ok(()),
    }
}
