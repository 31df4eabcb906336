//! What a classifier computes while it reads one sequence, and the gradients of a class's loss, for whoever shows them.

use super::Classifier;
use crate::Result;
use crate::layers::{
    AttentionRecord, Body, BodyCache, DenseRecord, GradientRecord, LinearMatrices, Mode, NormRecord, Offsets, Pooling,
    Tokens, numbers, numbers_mut, wide,
};
use crate::params::Params;
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{CrossEntropy, Real, cross_entropy};
use ndarray::Array2;

/// What a classifier makes of what its last layer comes to.
#[derive(Clone, Debug)]
pub struct AnswerRecord {
    /// The normalisation behind the last layer, of an encoder that normalises before each part.
    pub norm: Option<NormRecord>,
    /// The model's own vectors of the tokens, normalised: (tokens, d_model).
    pub hidden: Array2<f64>,
    /// How they become one.
    pub pooling: Pooling,
    /// The layer after pooling, if there is one.
    pub dense: Option<DenseRecord>,
    /// The last layer: (width, classes) and (1, classes).
    pub last: LinearMatrices,
    /// The model's own logits: (1, classes).
    pub logits: Array2<f64>,
}

/// The cross-entropy of a class, and its gradients in one layer and behind the last.
#[derive(Clone, Debug)]
pub struct LossRecord {
    /// The class.
    pub class: u32,
    /// −ln of its probability.
    pub loss: f64,
    /// In the layer.
    pub layer: GradientRecord,
    /// Of γ and β of the normalisation behind the last layer.
    pub norm: Option<NormRecord>,
    /// Of the layer after pooling, if there is one.
    pub dense: Option<DenseRecord>,
    /// Of the last layer.
    pub last: LinearMatrices,
}

/// What a classifier's layer makes of one sequence, what the head makes of the last layer, and the gradients of the loss.
type Whole = (AttentionRecord, AnswerRecord, Option<LossRecord>);

impl Classifier {
    /// What the attention of a layer is given and makes when the model reads one sequence, and what the head makes of the
    /// last layer; none without attention.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn record<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        layer: usize,
    ) -> Result<Option<(AttentionRecord, AnswerRecord)>> {
        Ok(self.recorded(p, ids, layer, None)?.map(|(attention, answer, _)| (attention, answer)))
    }

    /// The same, and the gradients of the cross-entropy of a class or, without one, of the most probable: those of the whole
    /// network, in the layer and behind the last, without dropout.
    ///
    /// # Errors
    /// If an id, the class or the length is beyond the model's.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn record_backward<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        layer: usize,
        class: Option<u32>,
    ) -> Result<Option<(AttentionRecord, AnswerRecord, LossRecord)>> {
        let found = self.recorded(p, ids, layer, Some(class))?;
        Ok(found.and_then(|(attention, answer, loss)| Some((attention, answer, loss?))))
    }

    fn recorded<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        layer: usize,
        class: Option<Option<u32>>,
    ) -> Result<Option<Whole>> {
        let (offsets, mode) = (Offsets::of_lengths([ids.len()]), Mode::Eval);
        let Body::Transformer(encoder) = &self.body else { return Ok(None) };
        in_pool(|| {
            let (x, _) = self.input.forward(p, Tokens::new(ids, &offsets), mode)?;
            let (hidden, cache) = encoder.forward(p, x, &offsets, mode)?;
            let attention = encoder.record(p, &cache, &offsets, layer)?;
            let (pooled, pooling) = self.config.pooling.forward(hidden.view(), &offsets);
            let (logits, head) = self.head.forward(p, pooled, mode)?;
            let (dense, last) = self.head.record(p);
            let loss = match class {
                None => None,
                Some(class) => {
                    let class = class.unwrap_or_else(|| most(&logits));
                    let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
                    let options = CrossEntropy { label_smoothing: T::ZERO, class_weights: None, row_weights: None };
                    let loss = cross_entropy(numbers(&logits.view()), &[class], &options, numbers_mut(&mut d_logits))?;
                    let mut grads = Params::zeros(&self.layout);
                    let d_pooled = self.head.backward(p, &head, d_logits.view(), mode, &mut grads)?;
                    let dy = self.config.pooling.backward(&pooling, &offsets, d_pooled.view());
                    let layer = encoder.record_gradients(p, (&cache, &offsets), dy, layer, &mut grads)?;
                    let (dense, last) = self.head.record(&grads);
                    let norm = encoder.record_norm(&grads);
                    Some(LossRecord { class, loss: loss.to_f64(), layer, norm, dense, last })
                }
            };
            let answer = AnswerRecord {
                norm: encoder.record_norm(p),
                hidden: wide(hidden.view()),
                pooling: self.config.pooling,
                dense,
                last,
                logits: wide(logits.view()),
            };
            Ok(Some((attention, answer, loss)))
        })
    }

    /// The same for every layer in turn, the model reading once; nothing without attention.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    pub fn each_record<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        each: &mut dyn FnMut(&AttentionRecord),
    ) -> Result<()> {
        let offsets = Offsets::of_lengths([ids.len()]);
        let (_, cache) = self.forward(p, ids, &offsets, Mode::Eval)?;
        if let (Body::Transformer(encoder), BodyCache::Transformer(cache)) = (&self.body, &cache.body) {
            encoder.each_record(p, cache, &offsets, each)?;
        }
        Ok(())
    }
}

/// The first largest of the one row of logits.
fn most<T: Real>(logits: &Array2<T>) -> u32 {
    let row = logits.row(0);
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}
