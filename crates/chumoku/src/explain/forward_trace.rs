//! What a model computes while it reads a text: one attention, and what comes of the vectors of the text's tokens in the end,
//! the text's own vector or a classifier's answer.

use super::loss::RecordedLoss;
use crate::models::HeadTrace;
use crate::nn::{AttentionTrace, Offsets, Pooling, Tokens};
use crate::params::Params;
use crate::pretrained::Dense;
use crate::text::Encoding;
use crate::{Error, Result, TextEmbedder, tr};
use ndarray::Array2;

/// What a model computed while it read a text.
#[derive(Clone, Debug)]
pub struct ForwardTrace {
    /// In one attention.
    pub attention: AttentionTrace,
    /// At its end, where it makes one vector of a text.
    pub vector: Option<RecordedVector>,
    /// At its end, where it chooses a class.
    pub answer: Option<RecordedAnswer>,
    /// Its loss, with the gradients, where they were asked for.
    pub loss: Option<RecordedLoss>,
}

/// How the vectors of a text's tokens became the probabilities of classes.
#[derive(Clone, Debug)]
pub struct RecordedAnswer {
    /// The names of the classes.
    pub labels: Vec<String>,
    /// Whether the attention is that of the last layer, whose output this goes on from.
    pub follows_attention: bool,
    /// What the network makes of its last layer's output.
    pub record: HeadTrace,
}

/// How the vectors of a text's tokens became one.
#[derive(Clone, Debug)]
pub struct RecordedVector {
    /// After the last layer: (tokens, d_model).
    pub hidden: Array2<f64>,
    /// How they are pooled, side by side.
    pub pooling: Vec<Pooling>,
    /// A layer after pooling, if there is one.
    pub dense: Option<RecordedDense>,
    /// Whether the vector is divided by its length.
    pub is_unit_length: bool,
    /// The model's own: (1, width).
    pub vector: Array2<f64>,
}

/// A layer after pooling: `activation(x W + b)`.
#[derive(Clone, Debug)]
pub struct RecordedDense {
    /// (in, out)
    pub weight: Array2<f64>,
    /// (1, out)
    pub bias: Option<Array2<f64>>,
    /// Whether the activation is tanh; else there is none.
    pub is_tanh: bool,
}

impl From<AttentionTrace> for ForwardTrace {
    fn from(attention: AttentionTrace) -> ForwardTrace {
        ForwardTrace { attention, vector: None, answer: None, loss: None }
    }
}

impl ForwardTrace {
    /// What a layer's attention computes while a text is read, and how its vector comes about.
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
                    "the model has {} dense layers after pooling: expected at most one, to be traced; `explain` shows what \
                     words do to its vectors",
                    "プーリングの後に全結合層が {} 層あります。トレースできるのは 1 層までです。語がベクトルに与える影響は `explain` で\
                     表示できます",
                    several.len()
                )));
            }
        };
        let offsets = Offsets::from_lengths([encoding.ids.len()]);
        let tokens = Tokens { ids: &encoding.ids, offsets: &offsets, types: Some(&encoding.type_ids) };
        let (attention, hidden) = model.model().trace(params, tokens, layer)?;
        let vector = model.vectors(params, std::slice::from_ref(encoding), model.sentence.normalize)?;
        let vector = RecordedVector {
            hidden: hidden.mapv(f64::from),
            pooling: model.sentence.pooling.clone(),
            dense,
            is_unit_length: model.sentence.normalize,
            vector: vector.mapv(f64::from),
        };
        Ok(ForwardTrace { vector: Some(vector), ..ForwardTrace::from(attention) })
    }
}

/// A dense layer in f64.
fn recorded_dense(dense: &Dense) -> RecordedDense {
    let inputs = dense.weight.len() / dense.outputs.max(1);
    RecordedDense {
        weight: Array2::from_shape_fn((inputs, dense.outputs), |(i, j)| f64::from(dense.weight[j * inputs + i])),
        bias: (!dense.bias.is_empty())
            .then(|| Array2::from_shape_fn((1, dense.outputs), |(_, j)| f64::from(dense.bias[j]))),
        is_tanh: dense.is_tanh,
    }
}
