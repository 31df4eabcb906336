//! Static embeddings: a table of one vector per token without a network, as in the StaticEmbedding module of
//! sentence-transformers and in model2vec.

use super::{PretrainedEncoder, PretrainedHead, TensorSource, check_size};
use crate::Result;
use crate::layers::{
    DenseHeadConfig, EncoderConfig, HeadActivation, InputEmbeddingsOptions, NormOrder, Pooling, PositionKind,
};
use crate::models::TextEncoderConfig;

/// Maximum number of tokens of a text. The original library has no limit; this one bounds memory.
const LONGEST: usize = 1 << 18;

/// The table in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaticEmbeddingConfig {
    /// The name of the tensor.
    pub tensor: String,
    /// (vocabulary, width).
    pub(crate) shape: [usize; 2],
}

impl StaticEmbeddingConfig {
    /// Builds the configuration of a table with this name and shape (vocabulary, width).
    pub fn new(tensor: &str, shape: [usize; 2]) -> Self {
        StaticEmbeddingConfig { tensor: tensor.to_owned(), shape }
    }

    /// Returns an encoder without layers, which maps every token to its row, and the name of its tensor.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn encoder(&self) -> Result<PretrainedEncoder> {
        let [vocab_size, d_model] = self.shape;
        check_size("vocab_size", vocab_size, 1 << 24)?;
        check_size("width", d_model, 1 << 16)?;
        let config = TextEncoderConfig {
            vocab_size,
            encoder: EncoderConfig { norm_order: NormOrder::Post, ..EncoderConfig::new(0, d_model, 1, d_model) },
            position: PositionKind::None,
            max_length: LONGEST,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions { unscaled: true, ..InputEmbeddingsOptions::default() },
        };
        // There are no published classifiers of this kind, so the head is a placeholder.
        let head = PretrainedHead {
            architecture: "StaticEmbedding",
            pooling: Pooling::Mean,
            dense: DenseHeadConfig::new(HeadActivation::Tanh),
            dropout: 0.0,
            tensors: Vec::new(),
        };
        let tensors = vec![("embedding.weight".into(), TensorSource::Tensor(self.tensor.clone()))];
        Ok(PretrainedEncoder { config, tensors, prefix: "", head })
    }
}
