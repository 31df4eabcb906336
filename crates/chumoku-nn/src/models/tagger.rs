//! A tagger: an encoder that predicts a tag for each unit (word or character) of a text from the vector of the unit's
//! token (Devlin et al. 2019, section 5.3).

use super::residual_reader::{LayerStack, ReadOut, ResidualReader};
use super::text_encoder::{TextEncoder, TextEncoderCache, TextEncoderConfig};
use crate::Result;
use crate::layers::{
    AttentionTrace, ClassifierHead, ClassifierHeadCache, DenseHeadConfig, Embedding, Mode, Tokens, array, numbers,
    numbers_mut, zeros,
};
use crate::params::{Builder, ParamLayout, Params};
use chumoku_kernels::parallel::in_pool;
use chumoku_kernels::{CrossEntropy, Error as KernelError, Real, cross_entropy};
use ndarray::{Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The sizes and options of a [`TokenTagger`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenTaggerConfig {
    /// Number of tags.
    pub num_tags: usize,
    /// Number of distinct positions of units within a token. Further units of a long token use the last position.
    pub num_places: usize,
    /// Dropout of the input of the last linear layer.
    pub head_dropout: f32,
    /// A dense layer before the last layer of the head, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dense: Option<DenseHeadConfig>,
    /// The encoder.
    #[serde(flatten)]
    pub encoder: TextEncoderConfig,
}

/// The units of some sequences that get a tag.
#[derive(Clone, Copy, Debug)]
pub struct TaggedUnits<'a> {
    /// The token of each unit, as an index over all sequences. A word of several tokens uses its first.
    pub tokens: &'a [usize],
    /// The position of each unit within its token.
    pub positions: &'a [u32],
}

/// The model: its layers, and the layout of their parameters.
///
/// `logits = head(x[token of the unit] + e[position in the token])` for the encoder's vectors x. The encoder's
/// parameters are named as in [`TextEncoder`]; all others start with `head.`.
#[derive(Clone, Debug)]
pub struct TokenTagger {
    config: TokenTaggerConfig,
    layout: Arc<ParamLayout>,
    encoder: TextEncoder,
    position_embedding: Embedding,
    head: ClassifierHead,
}

/// The cache of a [`TokenTagger`]'s forward pass.
#[derive(Clone, Debug)]
pub struct TokenTaggerCache<T> {
    encoder: TextEncoderCache<T>,
    head: ClassifierHeadCache<T>,
}

const HEAD_DROPOUT_SITE: u32 = 1;

impl TokenTagger {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its [`TokenTagger::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TokenTaggerConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let width = config.encoder.encoder.d_model;
        let encoder = TextEncoder::add_to(&mut builder, config.encoder.clone())?;
        let (places, head) = builder.scope("head", |b| {
            let places = b.scope("places", |b| Embedding::unscaled(b, config.num_places.max(1), width));
            (
                places,
                ClassifierHead::new(
                    b,
                    [width, config.num_tags],
                    config.head_dense,
                    config.head_dropout,
                    HEAD_DROPOUT_SITE,
                ),
            )
        });
        Ok(TokenTagger { layout: builder.finish(), config, encoder, position_embedding: places, head })
    }

    /// The configuration.
    pub fn config(&self) -> &TokenTaggerConfig {
        &self.config
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Returns the positions of units, clamped to the last position of the configuration.
    fn clamped_positions(&self, units: TaggedUnits<'_>, tokens: usize) -> Result<Vec<u32>> {
        if units.tokens.len() != units.positions.len() {
            let (expected, found) = (units.tokens.len(), units.positions.len());
            return Err(KernelError::Length { what: "tagger: places", expected, found }.into());
        }
        if let Some(token) = units.tokens.iter().find(|&&token| token >= tokens) {
            let problem = format!("expected tokens below {tokens}, got {token}");
            return Err(KernelError::Value { what: "tagger: units", problem }.into());
        }
        let last = self.config.num_places.max(1) as u32 - 1;
        Ok(units.positions.iter().map(|&place| place.min(last)).collect())
    }

    /// Returns the vectors of units: (units, d_model).
    fn unit_vectors<T: Real>(
        &self,
        p: &Params<T>,
        x: &Array2<T>,
        units: TaggedUnits<'_>,
        places: &[u32],
    ) -> Result<Array2<T>> {
        let mut at = x.select(Axis(0), units.tokens);
        at.zip_mut_with(&self.position_embedding.forward(p, places)?, |x, &e| *x += e);
        Ok(at)
    }

    /// Returns the logits of each unit, and the cache for `backward`.
    ///
    /// # Shapes
    /// `tokens` (tokens,), `units` (units,) → logits (units, tags).
    ///
    /// # Errors
    /// If an id, a unit or a length exceeds the model's limits.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        units: TaggedUnits<'_>,
        mode: Mode,
    ) -> Result<(Array2<T>, TokenTaggerCache<T>)> {
        let places = self.clamped_positions(units, tokens.ids.len())?;
        in_pool(|| {
            let (x, encoder) = self.encoder.forward(p, tokens, mode)?;
            let at = self.unit_vectors(p, &x, units, &places)?;
            let (logits, head) = self.head.forward(p, at, mode)?;
            Ok((logits, TokenTaggerCache { encoder, head }))
        })
    }

    /// Returns the embeddings of one sequence, with positions and token types: (tokens, d_model).
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn embed<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<Array2<T>> {
        self.encoder.embed(p, tokens)
    }

    /// Returns a reader of the residual stream, with the logits of the same units of each sequence: (sequences · units,
    /// tags). The tokens of `units` are indices within a sequence.
    pub fn residual_reader<'a, T: Real>(&'a self, p: &'a Params<T>, units: TaggedUnits<'a>) -> ResidualReader<'a, T> {
        let encoder = self.encoder.encoder();
        let read_out = ReadOut::new(self.config.num_tags, move |x, offsets| {
            let in_sequence = |start: usize| units.tokens.iter().map(move |token| start + token);
            let tokens: Vec<usize> = offsets.ranges().flat_map(|range| in_sequence(range.start)).collect();
            let positions = units.positions.repeat(offsets.sequences());
            let units = TaggedUnits { tokens: &tokens, positions: &positions };
            let places = self.clamped_positions(units, x.nrows())?;
            let x = encoder.normalize(p, x)?;
            Ok(self.head.forward(p, self.unit_vectors(p, &x, units, &places)?, Mode::Eval)?.0)
        });
        ResidualReader::new(LayerStack::Encoder(encoder), p, read_out)
    }

    /// Returns only the logits, the same as [`TokenTagger::forward`] in evaluation mode.
    ///
    /// Sequences go through all layers in groups that are small enough to stay in a core's cache.
    ///
    /// # Errors
    /// If an id, a unit or a length exceeds the model's limits.
    pub fn logits<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>, units: TaggedUnits<'_>) -> Result<Array2<T>> {
        let places = self.clamped_positions(units, tokens.ids.len())?;
        let groups = self.encoder.map_groups(p, tokens, |x, _| Ok(x))?;
        let mut all: Vec<T> = Vec::with_capacity(tokens.ids.len() * self.config.encoder.encoder.d_model);
        groups.iter().for_each(|x| all.extend_from_slice(numbers(&x.view())));
        let x = array((tokens.ids.len(), self.config.encoder.encoder.d_model), all)?;
        Ok(self.head.forward(p, self.unit_vectors(p, &x, units, &places)?, Mode::Eval)?.0)
    }

    /// Traces the attention of every layer in turn, in a single forward pass over one sequence.
    ///
    /// # Errors
    /// If an id or the length exceeds the model's limits.
    pub fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        self.encoder.trace_layers(p, tokens, each)
    }

    /// Returns the mean loss of the tags of units. If the loss is finite, adds its gradient to `grads`.
    ///
    /// # Shapes
    /// `tokens` (tokens,); `units` (units,); `tags` (units,).
    ///
    /// # Errors
    /// If there are no units or the shapes do not match. If an id, a unit, a tag or a length exceeds the model's
    /// limits.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        (units, tags): (TaggedUnits<'_>, &[u32]),
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        self.loss_and_logits(p, tokens, (units, tags), options, mode, grads).map(|(loss, _)| loss)
    }

    /// Returns [`loss`](Self::loss) and the logits, (units, tags), from which it was computed.
    ///
    /// # Errors
    /// Like [`loss`](Self::loss).
    pub fn loss_and_logits<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        (units, tags): (TaggedUnits<'_>, &[u32]),
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<(T, Array2<T>)> {
        let (logits, cache) = self.forward(p, tokens, units, mode)?;
        let mut d_logits = zeros(logits.dim());
        let loss = cross_entropy(numbers(&logits.view()), tags, options, numbers_mut(&mut d_logits))?;
        if loss.is_finite() {
            self.backward(p, (tokens, units), &cache, d_logits.view(), mode, grads)?;
        }
        Ok((loss, logits))
    }

    /// Adds the parameter gradients to `grads`; `d_logits` is the gradient of the logits.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        (tokens, units): (Tokens<'_>, TaggedUnits<'_>),
        cache: &TokenTaggerCache<T>,
        d_logits: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        let places = self.clamped_positions(units, tokens.ids.len())?;
        in_pool(|| {
            let d_at = self.head.backward(p, &cache.head, d_logits, mode, grads)?;
            // at = x[token] + e[place]
            self.position_embedding.backward(&places, d_at.view(), grads)?;
            let mut dx: Array2<T> = zeros((tokens.ids.len(), self.config.encoder.encoder.d_model));
            for (&token, d) in units.tokens.iter().zip(d_at.rows()) {
                dx.row_mut(token).zip_mut_with(&d, |dx, &d| *dx += d);
            }
            self.encoder.backward(p, tokens, &cache.encoder, dx, mode, grads)
        })
    }
}
