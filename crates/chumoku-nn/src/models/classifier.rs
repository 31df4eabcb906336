//! A text classifier: embeddings, a transformer or recurrent backbone, pooling, and a linear head.

mod trace;

use super::residual_reader::{LayerStack, ReadOut, ResidualReader};
use crate::Result;
use crate::layers::map_groups;
use crate::layers::{
    Backbone, BackboneCache, BackboneConfig, ClassifierHead, ClassifierHeadCache, DenseHeadConfig, InputEmbeddings,
    InputEmbeddingsCache, InputEmbeddingsConfig, InputEmbeddingsOptions, Mode, MultiHeadAttention, Offsets, Pooling,
    PoolingCache, PositionKind, RecurrentConfig, Tokens, numbers, numbers_mut,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{CrossEntropy, Error as KernelError, Real, RecurrentCell, binary_cross_entropy, cross_entropy};
use ndarray::{Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use trace::{ClassifierTrace, HeadTrace, LossTrace};

/// The sizes and options of a [`Classifier`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Number of classes.
    pub num_classes: usize,
    /// The backbone.
    #[serde(flatten)]
    pub backbone: BackboneConfig,
    /// Positional encoding.
    pub position: PositionKind,
    /// The longest sequence, in tokens.
    pub max_length: usize,
    /// The pooling method, from tokens to a sequence.
    pub pooling: Pooling,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Dropout of the input of the last linear layer.
    pub head_dropout: f32,
    /// A dense layer before the last layer of the head, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dense: Option<DenseHeadConfig>,
    /// Variants of the embeddings.
    #[serde(flatten)]
    pub embeddings: InputEmbeddingsOptions,
}

impl ClassifierConfig {
    /// Returns the multiply–adds of one forward pass over a sequence of `tokens` tokens.
    pub fn multiply_adds(&self, tokens: f64) -> f64 {
        let (per_token, per_pair) = self.backbone.multiply_adds();
        tokens * (per_token + per_pair * tokens) + (self.backbone.d_model() * self.num_classes) as f64
    }

    /// Returns a recurrent classifier of the same size: one bidirectional layer, with the width that matches the number
    /// of parameters best.
    ///
    /// A recurrent network sees the order of tokens by itself, so it has no positional encoding.
    ///
    /// # Errors
    /// If this configuration is invalid.
    pub fn with_cell(&self, cell: RecurrentCell) -> Result<ClassifierConfig> {
        let wide = |hidden_size: usize| {
            let d_model = self.backbone.d_model();
            let body = RecurrentConfig { cell, num_layers: 1, d_model, hidden_size, bidirectional: true, dropout: 0.0 };
            ClassifierConfig { backbone: body.into(), position: PositionKind::None, ..self.clone() }
        };
        let size = |config: ClassifierConfig| -> Result<usize> { Ok(Classifier::new(config)?.layout().len()) };
        let target = size(self.clone())?;
        let mut hidden_size = 4;
        while size(wide(hidden_size + 4))? <= target {
            hidden_size += 4;
        }
        let [below, above] = [size(wide(hidden_size))?, size(wide(hidden_size + 4))?];
        Ok(wide(if above.abs_diff(target) < below.abs_diff(target) { hidden_size + 4 } else { hidden_size }))
    }
}

/// The model: its layers, and the layout of their parameters.
#[derive(Clone, Debug)]
pub struct Classifier {
    config: ClassifierConfig,
    layout: Arc<ParamLayout>,
    embeddings: InputEmbeddings,
    backbone: Backbone,
    head: ClassifierHead,
}

/// The cache of a [`Classifier`]'s forward pass.
#[derive(Clone, Debug)]
pub struct ClassifierCache<T> {
    embeddings: InputEmbeddingsCache<T>,
    backbone: BackboneCache<T>,
    pooling: PoolingCache,
    head: ClassifierHeadCache<T>,
}

const HEAD_DROPOUT_SITE: u32 = 1;

/// Checks that each of at least one sequence has its label or labels. The kernels only see the number of logits.
fn check_label_count(found: usize, sequences: usize) -> Result<()> {
    match found == sequences && found > 0 {
        true => Ok(()),
        false => Err(KernelError::Length { what: "classifier: labels", expected: sequences.max(1), found }.into()),
    }
}

impl Classifier {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its [`Classifier::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: ClassifierConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let input = InputEmbeddingsConfig {
            vocab_size: config.vocab_size,
            d_model: config.backbone.d_model(),
            position: config.position,
            max_length: config.max_length,
            dropout: config.embedding_dropout,
            options: config.embeddings,
        };
        let input = InputEmbeddings::new(&mut builder, &input);
        let mut body = config.backbone.clone();
        if let BackboneConfig::Transformer(encoder) = &mut body {
            encoder.attention.position = config.position;
        }
        let body = Backbone::new(&mut builder, &body)?;
        let sizes = [config.backbone.width(), config.num_classes];
        let head =
            |b: &mut Builder| ClassifierHead::new(b, sizes, config.head_dense, config.head_dropout, HEAD_DROPOUT_SITE);
        let head = builder.scope("head", head);
        Ok(Classifier { config, layout: builder.finish(), embeddings: input, backbone: body, head })
    }

    /// The configuration.
    pub fn config(&self) -> &ClassifierConfig {
        &self.config
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Returns the logits of each sequence, and the cache for `backward`.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        ids: &[u32],
        offsets: &Offsets,
        mode: Mode,
    ) -> Result<(Array2<T>, ClassifierCache<T>)> {
        in_pool(|| {
            let (x, input) = self.embeddings.forward(p, Tokens::new(ids, offsets), mode)?;
            let (x, body) = self.backbone.forward(p, x, offsets, mode)?;
            let (pooled, pooling) = self.config.pooling.forward(x.view(), offsets);
            let (logits, head) = self.head.forward(p, pooled, mode)?;
            Ok((logits, ClassifierCache { embeddings: input, backbone: body, pooling, head }))
        })
    }

    /// Returns only the logits, the same as [`Classifier::forward`] in evaluation mode.
    ///
    /// Sequences go through all layers in groups that are small enough to stay in a core's cache.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        self.map_groups(ids, offsets, self.config.num_classes, |ids, offsets| {
            Ok(self.head.forward(p, self.pooled_vectors(p, ids, offsets)?, Mode::Eval)?.0)
        })
    }

    /// Returns the vector of each sequence before the last layer.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → vectors (sequences, width of the backbone).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn vectors<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        self.map_groups(ids, offsets, self.config.backbone.width(), |ids, offsets| {
            self.head.last_layer_input(p, self.pooled_vectors(p, ids, offsets)?)
        })
    }

    /// Calls `f` for groups of sequences that fit a core's cache, and concatenates the returned rows of `width`
    /// numbers.
    fn map_groups<T: Real>(
        &self,
        ids: &[u32],
        offsets: &Offsets,
        width: usize,
        f: impl Fn(&[u32], &Offsets) -> Result<Array2<T>> + Sync,
    ) -> Result<Array2<T>> {
        let tokens = self.backbone.tokens_per_group();
        let ids_of = ("classifier: ids", ids.len());
        let parts = map_groups(ids_of, offsets, tokens, |range, offsets| f(&ids[range], offsets))?;
        let mut rows = Array2::from_elem((0, width), T::ZERO);
        for part in &parts {
            rows.append(Axis(0), part.view()).expect("all rows have the same length");
        }
        Ok(rows)
    }

    fn pooled_vectors<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let (x, _) = self.embeddings.forward(p, Tokens::new(ids, offsets), Mode::Eval)?;
        let x = self.backbone.infer(p, x, offsets)?;
        Ok(self.config.pooling.forward(x.view(), offsets).0)
    }

    /// Returns the mean loss of a batch's labels. If the loss is finite, adds its gradient to `grads`.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets`; `labels` (sequences,).
    ///
    /// # Errors
    /// If there are no sequences, an id, a label or a length exceeds the model's limits, or the shapes do not match.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        labels: &[u32],
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        self.loss_and_logits(p, (ids, offsets), labels, options, mode, grads).map(|(loss, _)| loss)
    }

    /// Returns [`loss`](Self::loss) and the logits, (sequences, classes), from which it was computed.
    ///
    /// # Errors
    /// Like [`loss`](Self::loss).
    pub fn loss_and_logits<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        labels: &[u32],
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<(T, Array2<T>)> {
        let (logits, cache) = self.forward(p, ids, offsets, mode)?;
        let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
        check_label_count(labels.len(), logits.nrows())?;
        let loss = cross_entropy(numbers(&logits.view()), labels, options, numbers_mut(&mut d_logits))?;
        if loss.is_finite() {
            self.backward(p, (ids, offsets), &cache, d_logits.view(), mode, grads)?;
        }
        Ok((loss, logits))
    }

    /// Returns the mean multi-label loss of a batch, `−Σ_k (y_k ln p_k + (1 − y_k) ln(1 − p_k))` with the sigmoid
    /// `p = 1 / (1 + e⁻ᶻ)` of each logit. If the loss is finite, adds its gradient to `grads`.
    ///
    /// With `weights`, the mean over sequences is `Σ_i r_i loss_i / Σ_i r_i`. Weights of 1 give the same bits as no
    /// weights.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets`; the labels of each sequence, ascending; `weights` (sequences,).
    ///
    /// # Errors
    /// If there are no sequences or the shapes do not match. If an id, a label or a length exceeds the model's limits.
    /// If weights are negative, not finite or all 0.
    pub fn multi_label_loss<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        (labels, weights): (&[Vec<u32>], Option<&[T]>),
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        let (logits, cache) = self.forward(p, ids, offsets, mode)?;
        let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
        check_label_count(labels.len(), logits.nrows())?;
        let loss = binary_cross_entropy(numbers(&logits.view()), labels, weights, numbers_mut(&mut d_logits))?;
        if loss.is_finite() {
            self.backward(p, (ids, offsets), &cache, d_logits.view(), mode, grads)?;
        }
        Ok(loss)
    }

    /// Adds the parameter gradients to `grads`; `d_logits` is the gradient of the logits.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        cache: &ClassifierCache<T>,
        d_logits: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        in_pool(|| {
            let d_pooled = self.head.backward(p, &cache.head, d_logits, mode, grads)?;
            let dx = self.config.pooling.backward(&cache.pooling, offsets, d_pooled.view());
            let dx = self.backbone.backward(p, &cache.backbone, offsets, dx, mode, grads)?;
            self.embeddings.backward(p, Tokens::new(ids, offsets), &cache.embeddings, dx, mode, grads)
        })
    }

    /// Returns the scaled vector of each token from the embedding table, before positions and norm.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id is not in the vocabulary.
    pub fn token_embeddings<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        self.embeddings.embedding().forward(p, ids)
    }

    /// Like [`Classifier::forward`] in evaluation mode, with other vectors instead of [`Classifier::token_embeddings`].
    /// `ids` only determines the token types.
    ///
    /// # Shapes
    /// `x` (tokens, d_model), `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If a length exceeds the model's limits, or the shapes do not match.
    pub fn forward_embedded<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        (ids, offsets): (&[u32], &Offsets),
    ) -> Result<(Array2<T>, ClassifierCache<T>)> {
        let expected = ids.len() * self.config.backbone.d_model();
        if x.len() != expected {
            let (what, found) = ("classifier: embeddings", x.len());
            return Err(KernelError::Length { what, expected, found }.into());
        }
        in_pool(|| {
            let (x, input) = self.embeddings.forward_embedded(p, x, Tokens::new(ids, offsets), &[], Mode::Eval)?;
            let (x, body) = self.backbone.forward(p, x, offsets, Mode::Eval)?;
            let (pooled, pooling) = self.config.pooling.forward(x.view(), offsets);
            let (logits, head) = self.head.forward(p, pooled, Mode::Eval)?;
            Ok((logits, ClassifierCache { embeddings: input, backbone: body, pooling, head }))
        })
    }

    /// Returns the gradient of the input vectors of [`Classifier::forward_embedded`], given the gradient of its logits.
    /// Parameter gradients are added to `grads`, which must have no frozen parameters: layers whose parameters are all
    /// frozen are not differentiated.
    ///
    /// # Shapes
    /// `d_logits` (sequences, classes) → dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    ///
    /// # Panics
    /// If the embeddings are frozen in `grads`.
    pub fn backward_embedded<T: Real>(
        &self,
        p: &Params<T>,
        offsets: &Offsets,
        cache: &ClassifierCache<T>,
        d_logits: ArrayView2<'_, T>,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        assert!(
            self.embeddings.embedding().is_trained(grads),
            "the embeddings must not be frozen, because their gradient is requested"
        );
        in_pool(|| {
            let d_pooled = self.head.backward(p, &cache.head, d_logits, Mode::Eval, grads)?;
            let dx = self.config.pooling.backward(&cache.pooling, offsets, d_pooled.view());
            let dx = self.backbone.backward(p, &cache.backbone, offsets, dx, Mode::Eval, grads)?;
            self.embeddings.backward_embedded(p, &cache.embeddings, dx, Mode::Eval, grads)
        })
    }

    /// Returns the embeddings of one sequence, with positions and token types: (tokens, d_model).
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn embed<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        let offsets = Offsets::from_lengths([ids.len()]);
        Ok(self.embeddings.forward(p, Tokens::new(ids, &offsets), Mode::Eval)?.0)
    }

    /// Returns the scaled vectors of the embedding table for one sequence, and the vectors of its positions: (tokens,
    /// d_model) each. The latter are 0 if positions act inside attention.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn token_and_position_vectors<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<(Array2<T>, Array2<T>)> {
        let offsets = Offsets::from_lengths([ids.len()]);
        self.embeddings.token_and_position_vectors(p, Tokens::new(ids, &offsets))
    }

    /// Returns a reader of the residual stream, whose logits are (sequences, classes). `None` for a recurrent network.
    pub fn residual_reader<'a, T: Real>(&'a self, p: &'a Params<T>) -> Option<ResidualReader<'a, T>> {
        let Backbone::Transformer(encoder) = &self.backbone else { return None };
        let read_out = ReadOut::new(self.config.num_classes, move |x, offsets| {
            let (pooled, _) = self.config.pooling.forward(encoder.normalize(p, x)?.view(), offsets);
            Ok(self.head.forward(p, pooled, Mode::Eval)?.0)
        });
        Some(ResidualReader::new(LayerStack::Encoder(encoder), p, read_out))
    }

    /// Returns the attention of a layer, or `None` for a recurrent network.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn attention(&self, layer: usize) -> Option<&MultiHeadAttention> {
        match &self.backbone {
            Backbone::Transformer(encoder) => Some(encoder.layers()[layer].attention()),
            Backbone::Recurrent(_) => None,
        }
    }
}
