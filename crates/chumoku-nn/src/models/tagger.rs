//! A tagger: an encoder, and a tag for each unit of a text (word or character) by the vector of its token (Devlin et al. 2019,
//! section 5.3).

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
    /// Units of one token that are told apart: the others of a longer token are as the last of these.
    pub num_places: usize,
    /// Dropout of what the last linear layer is given.
    pub head_dropout: f32,
    /// The function after one more linear layer before the last, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dense: Option<DenseHeadConfig>,
    /// The encoder.
    #[serde(flatten)]
    pub encoder: TextEncoderConfig,
}

/// Where the units of some sequences are that are to get a tag.
#[derive(Clone, Copy, Debug)]
pub struct TaggedUnits<'a> {
    /// The token of each, counted over all sequences: of a word that is cut into several its first.
    pub tokens: &'a [usize],
    /// How many units of its token stand before each.
    pub positions: &'a [u32],
}

/// The model: its parts, and where their parameters lie.
///
/// `logits = head(x[token of the unit] + e[place in the token])` for the encoder's vectors x. The encoder's parameters have the
/// names that [`TextEncoder`] gives them; the others' begin with `head.`.
#[derive(Clone, Debug)]
pub struct TokenTagger {
    config: TokenTaggerConfig,
    layout: Arc<ParamLayout>,
    encoder: TextEncoder,
    places: Embedding,
    head: ClassifierHead,
}

/// What a [`TokenTagger`] remembers.
#[derive(Clone, Debug)]
pub struct TokenTaggerCache<T> {
    encoder: TextEncoderCache<T>,
    head: ClassifierHeadCache<T>,
}

const HEAD_DROPOUT_SITE: u32 = 1;

impl TokenTagger {
    /// The model of a configuration; its parameters are made by [`Params::init`] from its [`TokenTagger::layout`].
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
        Ok(TokenTagger { layout: builder.finish(), config, encoder, places, head })
    }

    /// The configuration.
    pub fn config(&self) -> &TokenTaggerConfig {
        &self.config
    }

    /// Names and places of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The places of units, those of long tokens with the last that is told apart.
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

    /// The vectors of units: (units, d_model).
    fn unit_vectors<T: Real>(
        &self,
        p: &Params<T>,
        x: &Array2<T>,
        units: TaggedUnits<'_>,
        places: &[u32],
    ) -> Result<Array2<T>> {
        let mut at = x.select(Axis(0), units.tokens);
        at.zip_mut_with(&self.places.forward(p, places)?, |x, &e| *x += e);
        Ok(at)
    }

    /// The logits of each unit, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// `tokens` (tokens,), `units` (units,) → logits (units, tags).
    ///
    /// # Errors
    /// If an id, a unit or a length is beyond the model's.
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

    /// The logits alone, as [`TokenTagger::forward`] in use makes them.
    ///
    /// Sequences go through all layers in groups small enough to stay in a core's cache.
    ///
    /// # Errors
    /// If an id, a unit or a length is beyond the model's.
    pub fn logits<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>, units: TaggedUnits<'_>) -> Result<Array2<T>> {
        let places = self.clamped_positions(units, tokens.ids.len())?;
        let groups = self.encoder.map_groups(p, tokens, |x, _| Ok(x))?;
        let mut all: Vec<T> = Vec::with_capacity(tokens.ids.len() * self.config.encoder.encoder.d_model);
        groups.iter().for_each(|x| all.extend_from_slice(numbers(&x.view())));
        let x = array((tokens.ids.len(), self.config.encoder.encoder.d_model), all)?;
        Ok(self.head.forward(p, self.unit_vectors(p, &x, units, &places)?, Mode::Eval)?.0)
    }

    /// What the attention of every layer in turn is given and makes, the model reading one sequence once.
    ///
    /// # Errors
    /// If an id or the length is beyond the model's.
    pub fn trace_layers<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        each: &mut dyn FnMut(&AttentionTrace),
    ) -> Result<()> {
        self.encoder.trace_layers(p, tokens, each)
    }

    /// The mean loss of the tags of units, and its gradient, which is added to `grads` if it is finite.
    ///
    /// # Shapes
    /// `tokens` (tokens,); `units` (units,); `tags` (units,).
    ///
    /// # Errors
    /// If there are no units, an id, a unit, a tag or a length is beyond the model's, or the shapes do not fit.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        (units, tags): (TaggedUnits<'_>, &[u32]),
        options: &CrossEntropy<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<T> {
        let (logits, cache) = self.forward(p, tokens, units, mode)?;
        let mut d_logits = zeros(logits.dim());
        let loss = cross_entropy(numbers(&logits.view()), tags, options, numbers_mut(&mut d_logits))?;
        if loss.is_finite() {
            self.backward(p, (tokens, units), &cache, d_logits.view(), mode, grads)?;
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
            self.places.backward(&places, d_at.view(), grads)?;
            let mut dx: Array2<T> = zeros((tokens.ids.len(), self.config.encoder.encoder.d_model));
            for (&token, d) in units.tokens.iter().zip(d_at.rows()) {
                dx.row_mut(token).zip_mut_with(&d, |dx, &d| *dx += d);
            }
            self.encoder.backward(p, tokens, &cache.encoder, dx, mode, grads)
        })
    }
}
