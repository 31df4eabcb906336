//! Traces of a model's forward pass over a text: one attention, followed by the text vector or a classifier's answer.

use super::loss::RecordedLoss;
use crate::models::HeadTrace;
use crate::nn::{AttentionTrace, EmbeddingTrace, Offsets, Pooling, Tokens};
use crate::params::Params;
use crate::pretrained::DenseProjection;
use crate::text::Encoding;
use crate::{Error, Result, TextEmbedder, tr};
use ndarray::Array2;

/// The trace of a forward pass.
#[derive(Clone, Debug)]
pub struct ForwardTrace {
    /// The embeddings, if the traced layer is the first. Their sum is the layer's input. In a decoder, cross-attention
    /// reads it after self-attention.
    pub embedding: Option<EmbeddingTrace>,
    /// The trace of one attention.
    pub attention: AttentionTrace,
    /// The computation of the text vector, for encoders.
    pub vector: Option<RecordedVector>,
    /// The computation of the class probabilities, for classifiers.
    pub answer: Option<RecordedAnswer>,
    /// The loss with its gradients, if requested.
    pub loss: Option<RecordedLoss>,
}

/// The computation of class probabilities from the token vectors of a text.
#[derive(Clone, Debug)]
pub struct RecordedAnswer {
    /// The names of the classes.
    pub labels: Vec<String>,
    /// `true` if the traced attention is in the last layer, whose output is the input here.
    pub follows_attention: bool,
    /// The computation after the last layer.
    pub record: HeadTrace,
}

/// The computation of a text vector from the token vectors.
#[derive(Clone, Debug)]
pub struct RecordedVector {
    /// The output of the last layer: (tokens, d_model).
    pub hidden: Array2<f64>,
    /// The poolings, whose results are concatenated.
    pub pooling: Vec<Pooling>,
    /// The dense layer after pooling, if there is one.
    pub dense: Option<RecordedDense>,
    /// `true` if the vector is divided by its length.
    pub is_unit_length: bool,
    /// The text vector: (1, width).
    pub vector: Array2<f64>,
}

/// A dense layer after pooling: `activation(x W + b)`.
#[derive(Clone, Debug)]
pub struct RecordedDense {
    /// (in, out)
    pub weight: Array2<f64>,
    /// (1, out)
    pub bias: Option<Array2<f64>>,
    /// `true` for a tanh activation, `false` for none.
    pub is_tanh: bool,
}

impl From<AttentionTrace> for ForwardTrace {
    fn from(attention: AttentionTrace) -> ForwardTrace {
        ForwardTrace { embedding: None, attention, vector: None, answer: None, loss: None }
    }
}

impl ForwardTrace {
    /// Traces one attention layer and the text vector.
    ///
    /// # Errors
    /// If several dense layers follow pooling.
    pub(super) fn from_encoder(
        model: &TextEmbedder,
        params: &Params<f32>,
        encoding: &Encoding,
        layer: usize,
    ) -> Result<ForwardTrace> {
        let dense = match &model.sentence.dense[..] {
            [] => None,
            [dense] => Some(recorded_dense(dense)),
            several => {
                return Err(Error::Setting(tr!(
                    "the model has {} dense layers after pooling: expected at most one for a trace; `explain` shows the effects \
                     of words on its vectors",
                    "プーリングの後に全結合層が {} 層あります。トレースできるのは 1 層までです。語がベクトルに与える影響は `explain` で\
                     表示できます",
                    several.len()
                )));
            }
        };
        let offsets = Offsets::from_lengths([encoding.ids.len()]);
        let tokens = Tokens { ids: &encoding.ids, offsets: &offsets, types: Some(&encoding.type_ids) };
        let (attention, hidden) = model.model().trace(params, tokens, layer)?;
        let embedding = of_first_layer(layer, || Ok(model.model().trace_embeddings(params, tokens)?))?;
        let vector = model.vectors(params, std::slice::from_ref(encoding), model.sentence.normalize)?;
        let vector = RecordedVector {
            hidden: hidden.mapv(f64::from),
            pooling: model.sentence.pooling.clone(),
            dense,
            is_unit_length: model.sentence.normalize,
            vector: vector.mapv(f64::from),
        };
        Ok(ForwardTrace { embedding, vector: Some(vector), ..ForwardTrace::from(attention) })
    }
}

/// Returns the trace of the embeddings if the layer is the first.
pub(super) fn of_first_layer(
    layer: usize,
    trace: impl FnOnce() -> Result<EmbeddingTrace>,
) -> Result<Option<EmbeddingTrace>> {
    if layer == 0 { trace().map(Some) } else { Ok(None) }
}

/// Converts a dense layer to f64.
fn recorded_dense(dense: &DenseProjection) -> RecordedDense {
    let inputs = dense.weight.len() / dense.outputs.max(1);
    RecordedDense {
        weight: Array2::from_shape_fn((inputs, dense.outputs), |(i, j)| f64::from(dense.weight[j * inputs + i])),
        bias: (!dense.bias.is_empty())
            .then(|| Array2::from_shape_fn((1, dense.outputs), |(_, j)| f64::from(dense.bias[j]))),
        is_tanh: dense.is_tanh,
    }
}
