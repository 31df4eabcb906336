//! Traces of a classifier reading one sequence, and the gradients of a class's loss, for display.

use super::{Classifier, ClassifierCache};
use crate::layers::{
    AttentionTrace, Backbone, BackboneCache, DenseParameters, EmbeddingGradients, EmbeddingTrace, GradientTrace,
    LinearMatrices, Mode, NormParameters, Offsets, Pooling, Tokens, numbers, numbers_mut, to_f64,
};
use crate::params::Params;
use crate::{Error, Result};
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{CrossEntropy, Real, cross_entropy};
use ndarray::Array2;

/// A trace of the classifier from the last layer to the logits.
#[derive(Clone, Debug)]
pub struct HeadTrace {
    /// The final norm of a pre-norm encoder.
    pub norm: Option<NormParameters>,
    /// The model's own token vectors after the final norm: (tokens, d_model).
    pub hidden: Array2<f64>,
    /// The pooling method.
    pub pooling: Pooling,
    /// The dense layer after pooling, if any.
    pub dense: Option<DenseParameters>,
    /// The last layer: (width, classes) and (1, classes).
    pub last: LinearMatrices,
    /// The model's own logits: (1, classes).
    pub logits: Array2<f64>,
}

/// The cross-entropy of a class, and its gradients in one layer and after the last layer.
#[derive(Clone, Debug)]
pub struct LossTrace {
    /// The class.
    pub class: u32,
    /// −ln of the class's probability.
    pub loss: f64,
    /// The gradients in the layer.
    pub layer: GradientTrace,
    /// The gradients of normalized input embeddings, if the layer is the first.
    pub embedding: Option<EmbeddingGradients>,
    /// The gradients of γ and β of the final norm.
    pub norm: Option<NormParameters>,
    /// The gradients of the dense layer after pooling, if any.
    pub dense: Option<DenseParameters>,
    /// The gradients of the last layer.
    pub last: LinearMatrices,
}

/// A trace of a classifier.
#[derive(Clone, Debug)]
pub struct ClassifierTrace {
    /// The attention of one layer.
    pub attention: AttentionTrace,
    /// The head.
    pub head: HeadTrace,
    /// The loss of a class and its gradients, if requested.
    pub loss: Option<LossTrace>,
}

impl Classifier {
    /// Traces the attention of a layer and the head while the model reads one sequence. Returns `None` for a recurrent
    /// network.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace<T: Real>(&self, p: &Params<T>, ids: &[u32], layer: usize) -> Result<Option<ClassifierTrace>> {
        self.trace_with_loss(p, ids, layer, None)
    }

    /// Like [`Classifier::trace`], with the gradients of the cross-entropy of a class, by default of the most probable
    /// one. Gradients are those of the whole network without dropout, in the layer and after the last layer.
    ///
    /// # Errors
    /// If an id, the class or the length exceeds the model's limits.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn trace_backward<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        layer: usize,
        class: Option<u32>,
    ) -> Result<Option<ClassifierTrace>> {
        self.trace_with_loss(p, ids, layer, Some(class))
    }

    fn trace_with_loss<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        layer: usize,
        class: Option<Option<u32>>,
    ) -> Result<Option<ClassifierTrace>> {
        let (offsets, mode) = (Offsets::from_lengths([ids.len()]), Mode::Eval);
        let Backbone::Transformer(encoder) = &self.backbone else { return Ok(None) };
        in_pool(|| {
            let (x, embedding_cache) = self.embeddings.forward(p, Tokens::new(ids, &offsets), mode)?;
            let (hidden, cache) = encoder.forward(p, x, &offsets, mode)?;
            let attention = encoder.trace(p, &cache, &offsets, layer)?;
            let (pooled, pooling) = self.config.pooling.forward(hidden.view(), &offsets);
            let (logits, head) = self.head.forward(p, pooled, mode)?;
            let (dense, last) = self.head.parameters(p);
            let loss = match class {
                None => None,
                Some(class) => {
                    let class = class.unwrap_or_else(|| argmax(&logits));
                    let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
                    let options = CrossEntropy { label_smoothing: T::ZERO, class_weights: None, row_weights: None };
                    let loss = cross_entropy(numbers(&logits.view()), &[class], &options, numbers_mut(&mut d_logits))?;
                    let mut grads = Params::zeros(&self.layout);
                    let d_pooled = self.head.backward(p, &head, d_logits.view(), mode, &mut grads)?;
                    let dy = self.config.pooling.backward(&pooling, &offsets, d_pooled.view());
                    let is_first = layer == 0;
                    let layer = encoder.trace_gradients(p, (&cache, &offsets), dy, layer, &mut grads)?;
                    let embedding = match is_first && self.embeddings.norm_parameters(p).is_some() {
                        true => {
                            let dx = layer.x.mapv(T::round_from);
                            let sum = self.embeddings.backward_embedded(p, &embedding_cache, dx, mode, &mut grads)?;
                            let norm = self.embeddings.norm_parameters(&grads);
                            norm.map(|norm| EmbeddingGradients { sum: to_f64(sum.view()), norm })
                        }
                        false => None,
                    };
                    let (dense, last) = self.head.parameters(&grads);
                    let norm = encoder.norm_parameters(&grads);
                    Some(LossTrace { class, loss: loss.to_f64(), layer, embedding, norm, dense, last })
                }
            };
            let head = HeadTrace {
                norm: encoder.norm_parameters(p),
                hidden: to_f64(hidden.view()),
                pooling: self.config.pooling,
                dense,
                last,
                logits: to_f64(logits.view()),
            };
            Ok(Some(ClassifierTrace { attention, head, loss }))
        })
    }

    /// Traces the embeddings of one sequence, whose sum is the input of the first layer.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn trace_embeddings<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<EmbeddingTrace> {
        let offsets = Offsets::from_lengths([ids.len()]);
        self.embeddings.trace(p, Tokens::new(ids, &offsets))
    }

    /// Traces the attention of every layer in turn, in a single forward pass. Does nothing for a recurrent network.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        let offsets = Offsets::from_lengths([ids.len()]);
        let (_, cache) = self.forward(p, ids, &offsets, Mode::Eval)?;
        if let (Backbone::Transformer(encoder), BackboneCache::Transformer(cache)) = (&self.backbone, &cache.backbone) {
            encoder.trace_layers(p, cache, &offsets, each)?;
        }
        Ok(())
    }

    /// Returns the attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If the sequence or head does not exist, or the network has no attention.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn attention_weights<T: Real>(
        &self,
        cache: &ClassifierCache<T>,
        offsets: &Offsets,
        layer: usize,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        match (&self.backbone, &cache.backbone) {
            (Backbone::Transformer(encoder), BackboneCache::Transformer(cache)) => {
                encoder.attention_weights(cache, offsets, layer, sequence, head)
            }
            _ => Err(Error::NoAttention),
        }
    }
}

/// Returns the first largest element of the single row of logits.
fn argmax<T: Real>(logits: &Array2<T>) -> u32 {
    let row = logits.row(0);
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}
