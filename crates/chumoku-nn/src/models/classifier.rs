//! A text classifier: embedding, positions, a transformer or recurrent network, pooling, and a linear layer.

mod trace;

use crate::Result;
use crate::layers::map_groups;
use crate::layers::{
    Backbone, BackboneCache, BackboneConfig, ClassifierHead, ClassifierHeadCache, DenseHeadConfig, InputEmbeddings,
    InputEmbeddingsCache, InputEmbeddingsConfig, InputEmbeddingsOptions, Mode, MultiHeadAttention, Offsets, Pooling,
    PoolingCache, PositionKind, RecurrentConfig, Tokens, numbers, numbers_mut,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{CrossEntropy, Error as KernelError, Real, RecurrentCell, check_row_weights, cross_entropy};
use ndarray::{Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use trace::{HeadTrace, LossTrace};

/// The sizes and options of a [`Classifier`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Number of classes.
    pub num_classes: usize,
    /// The network that reads the tokens.
    #[serde(flatten)]
    pub body: BackboneConfig,
    /// Positional encoding.
    pub position: PositionKind,
    /// The longest sequence, in tokens.
    pub max_length: usize,
    /// From tokens to a sequence.
    pub pooling: Pooling,
    /// Dropout of the embeddings.
    pub embedding_dropout: f32,
    /// Dropout of what the last linear layer is given.
    pub head_dropout: f32,
    /// The function after one more linear layer before the last, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dense: Option<DenseHeadConfig>,
    /// Variants of the embeddings.
    #[serde(flatten)]
    pub embeddings: InputEmbeddingsOptions,
}

impl ClassifierConfig {
    /// Multiply–adds of reading a sequence of so many tokens once, forward.
    pub fn multiply_adds(&self, tokens: f64) -> f64 {
        let (per_token, per_pair) = self.body.multiply_adds();
        tokens * (per_token + per_pair * tokens) + (self.body.d_model() * self.num_classes) as f64
    }

    /// A recurrent classifier of the same size: one layer in both directions, as wide as brings the number of
    /// parameters nearest.
    ///
    /// It sees the order of tokens by itself, so it has no positional encoding.
    ///
    /// # Errors
    /// If this configuration makes no model.
    pub fn with_cell(&self, cell: RecurrentCell) -> Result<ClassifierConfig> {
        let wide = |hidden_size: usize| {
            let d_model = self.body.d_model();
            let body = RecurrentConfig { cell, num_layers: 1, d_model, hidden_size, bidirectional: true, dropout: 0.0 };
            ClassifierConfig { body: body.into(), position: PositionKind::None, ..self.clone() }
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

/// The model: its parts, and where their parameters lie.
#[derive(Clone, Debug)]
pub struct Classifier {
    config: ClassifierConfig,
    layout: Arc<ParamLayout>,
    embeddings: InputEmbeddings,
    backbone: Backbone,
    head: ClassifierHead,
}

/// What a [`Classifier`] remembers.
#[derive(Clone, Debug)]
pub struct ClassifierCache<T> {
    embeddings: InputEmbeddingsCache<T>,
    backbone: BackboneCache<T>,
    pooling: PoolingCache,
    head: ClassifierHeadCache<T>,
}

const HEAD_DROPOUT_SITE: u32 = 1;

impl Classifier {
    /// The model of a configuration; its parameters are made by [`Params::init`] from its [`Classifier::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: ClassifierConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let input = InputEmbeddingsConfig {
            vocab_size: config.vocab_size,
            d_model: config.body.d_model(),
            position: config.position,
            max_length: config.max_length,
            dropout: config.embedding_dropout,
            options: config.embeddings,
        };
        let input = InputEmbeddings::new(&mut builder, &input);
        let mut body = config.body.clone();
        if let BackboneConfig::Transformer(encoder) = &mut body {
            encoder.attention.position = config.position;
        }
        let body = Backbone::new(&mut builder, &body)?;
        let sizes = [config.body.width(), config.num_classes];
        let head =
            |b: &mut Builder| ClassifierHead::new(b, sizes, config.head_dense, config.head_dropout, HEAD_DROPOUT_SITE);
        let head = builder.scope("head", head);
        Ok(Classifier { config, layout: builder.finish(), embeddings: input, backbone: body, head })
    }

    /// The configuration.
    pub fn config(&self) -> &ClassifierConfig {
        &self.config
    }

    /// Names and places of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The logits of each sequence, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
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

    /// The logits alone, as [`Classifier::forward`] in use makes them.
    ///
    /// Sequences go through all layers in groups small enough to stay in a core's cache.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn logits<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        self.map_groups(ids, offsets, self.config.num_classes, |ids, offsets| {
            Ok(self.head.forward(p, self.pooled_vectors(p, ids, offsets)?, Mode::Eval)?.0)
        })
    }

    /// The vector of each sequence that the last layer is given.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets` → vectors (sequences, width of the body).
    ///
    /// # Errors
    /// If an id or a length is beyond the model's.
    pub fn vectors<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        self.map_groups(ids, offsets, self.config.body.width(), |ids, offsets| {
            self.head.last_layer_input(p, self.pooled_vectors(p, ids, offsets)?)
        })
    }

    /// Calls `f` for groups of sequences that stay in a core's cache, and joins the rows that it returns, `width` wide.
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
            rows.append(Axis(0), part.view()).expect("rows have one length");
        }
        Ok(rows)
    }

    fn pooled_vectors<T: Real>(&self, p: &Params<T>, ids: &[u32], offsets: &Offsets) -> Result<Array2<T>> {
        let (x, _) = self.embeddings.forward(p, Tokens::new(ids, offsets), Mode::Eval)?;
        let x = self.backbone.infer(p, x, offsets)?;
        Ok(self.config.pooling.forward(x.view(), offsets).0)
    }

    /// The mean loss of a batch's labels, and its gradient, which is added to `grads` if it is finite.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets`; `labels` (sequences,).
    ///
    /// # Errors
    /// If there are no sequences, an id, a label or a length is beyond the model's, or the shapes do not fit.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        labels: &[u32],
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        let (logits, cache) = self.forward(p, ids, offsets, mode)?;
        let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
        let loss = cross_entropy(numbers(&logits.view()), labels, options, numbers_mut(&mut d_logits))?;
        if loss.is_finite() {
            self.backward(p, (ids, offsets), &cache, d_logits.view(), mode, grads)?;
        }
        Ok(loss)
    }

    /// The mean over sequences of the loss of their labels, which do not exclude each other, and its gradient, which is added
    /// to `grads` if it is finite: `−Σ_k (y_k ln p_k + (1 − y_k) ln(1 − p_k))` with `p = 1 / (1 + e⁻ᶻ)` of each logit.
    ///
    /// Sequences count as their `weights` say, or all alike: the mean is `Σ_i r_i loss_i / Σ_i r_i`. Weights of 1 give the
    /// same bits as none.
    ///
    /// # Shapes
    /// `ids` (tokens,) in the sequences of `offsets`; for each sequence its labels, ascending; `weights` (sequences,).
    ///
    /// # Errors
    /// If there are no sequences, an id, a label or a length is beyond the model's, the weights are negative, not finite or all
    /// 0, or the shapes do not fit.
    pub fn multi_label_loss<T: Real>(
        &self,
        p: &Params<T>,
        (ids, offsets): (&[u32], &Offsets),
        (labels, weights): (&[Vec<u32>], Option<&[T]>),
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        let (logits, cache) = self.forward(p, ids, offsets, mode)?;
        let (rows, classes) = logits.dim();
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row].to_f64());
        if labels.len() != rows || rows == 0 {
            let (expected, found) = (rows.max(1), labels.len());
            return Err(KernelError::Length { what: "classifier: labels", expected, found }.into());
        }
        if let Some(&label) = labels.iter().flatten().find(|&&label| label as usize >= classes) {
            let problem = format!("expected labels below {classes}, got {label}");
            return Err(KernelError::Value { what: "classifier: labels", problem }.into());
        }
        check_row_weights("classifier: weights", weights, rows)?;
        let all: f64 = (0..rows).map(weight).sum();
        let mut loss = 0.0;
        let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
        for (row, labels) in labels.iter().enumerate() {
            let (weight, z) = (weight(row), logits.row(row));
            let divisor = all / weight;
            let mut d = d_logits.row_mut(row);
            d.iter_mut().zip(&z).for_each(|(d, z)| *d = T::round_from(1.0 / ((1.0 + (-z.to_f64()).exp()) * divisor)));
            let absent = |z: &T| z.to_f64().max(0.0) + (-z.to_f64().abs()).exp().ln_1p();
            loss += weight * z.iter().map(absent).sum::<f64>();
            for &label in labels {
                loss -= weight * z[label as usize].to_f64();
                d[label as usize] -= T::round_from(1.0 / divisor);
            }
        }
        let loss = T::round_from(loss / all);
        if loss.is_finite() {
            self.backward(p, (ids, offsets), &cache, d_logits.view(), mode, grads)?;
        }
        Ok(loss)
    }

    /// Adds to `grads`; `d_logits` is the gradient of what `forward` returned.
    ///
    /// # Errors
    /// If the shapes do not fit.
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

    /// The vector that the table of embeddings has for each token, scaled, before positions and norm.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id is beyond the vocabulary.
    pub fn token_embeddings<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        self.embeddings.embedding().forward(p, ids)
    }

    /// As [`Classifier::forward`] in use, with other vectors in the place of [`Classifier::embeddings`]; what makes tokens
    /// of one kind or another is read of `ids`.
    ///
    /// # Shapes
    /// `x` (tokens, d_model), `ids` (tokens,) in the sequences of `offsets` → logits (sequences, classes).
    ///
    /// # Errors
    /// If a length is beyond the model's, or the shapes do not fit.
    pub fn forward_embedded<T: Real>(
        &self,
        p: &Params<T>,
        x: Array2<T>,
        (ids, offsets): (&[u32], &Offsets),
    ) -> Result<(Array2<T>, ClassifierCache<T>)> {
        let expected = ids.len() * self.config.body.d_model();
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

    /// The gradient of what [`Classifier::forward_embedded`] was given; `d_logits` is that of what it returned. Gradients of
    /// parameters are added to `grads` on the way, of which none may be frozen: a layer below which all are frozen is
    /// not differentiated.
    ///
    /// # Shapes
    /// `d_logits` (sequences, classes) → dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
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
        assert!(self.embeddings.embedding().is_trained(grads), "gradients of embeddings are asked for");
        in_pool(|| {
            let d_pooled = self.head.backward(p, &cache.head, d_logits, Mode::Eval, grads)?;
            let dx = self.config.pooling.backward(&cache.pooling, offsets, d_pooled.view());
            let dx = self.backbone.backward(p, &cache.backbone, offsets, dx, Mode::Eval, grads)?;
            self.embeddings.backward_embedded(p, &cache.embeddings, dx, Mode::Eval, grads)
        })
    }

    /// The attention of a layer, if it has attention.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn attention(&self, layer: usize) -> Option<&MultiHeadAttention> {
        match &self.backbone {
            Backbone::Transformer(encoder) => Some(encoder.layers()[layer].attention()),
            Backbone::Recurrent(_) => None,
        }
    }

    /// The attention weights of one layer, sequence and head: (tokens, tokens).
    ///
    /// # Errors
    /// If there is no such sequence or head, or no attention at all.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn attention_weights<T: Real>(
        &self,
        cache: &ClassifierCache<T>,
        offsets: &Offsets,
        layer: usize,
        sequence: usize,
        head: usize,
    ) -> Result<Array2<T>> {
        self.backbone.attention_weights(&cache.backbone, offsets, layer, sequence, head)
    }
}
