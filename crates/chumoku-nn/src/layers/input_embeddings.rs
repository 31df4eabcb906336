//! Input embeddings: a vector for each token, with its position.

use super::norm::{OptionalNorm, OptionalNormCache, borrowed};
use super::{Embedding, Mode, Norm, NormKind, Offsets, PositionEncoding, PositionKind};
use crate::Result;
use crate::params::{Builder, ParamMark, Params};
use chumoku_kernels::Real;
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Variants of `InputEmbeddings`, in model configurations. Omitted options follow the original transformer paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputEmbeddingsOptions {
    /// Normalizes the sum with this ε, and does not multiply embeddings by √d_model (Devlin et al. 2019).
    #[serde(rename = "embedding_norm_epsilon", skip_serializing_if = "Option::is_none")]
    pub norm_epsilon: Option<f64>,
    /// The kind of that normalization.
    #[serde(rename = "embedding_norm", skip_serializing_if = "crate::is_default")]
    pub norm: NormKind,
    /// Does not multiply embeddings by √d_model.
    #[serde(rename = "unscaled_embedding", skip_serializing_if = "crate::is_default")]
    pub unscaled: bool,
    /// Number of token types, each with its own vector (BERT's first and second sentence); none by default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub token_types: usize,
    /// The token between two texts. It has the first type, and the tokens after it have the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<u32>,
    /// Number of rows of a learned positional encoding before the row of a sequence's first token.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub first_position: usize,
}

impl InputEmbeddingsOptions {
    /// Returns `true` if embeddings are multiplied by √d_model.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        !self.unscaled && self.norm_epsilon.is_none()
    }
}

/// The sizes of [`InputEmbeddings`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputEmbeddingsConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of the vectors.
    pub(crate) d_model: usize,
    /// Positional encoding.
    pub(crate) position: PositionKind,
    /// The longest sequence, in tokens.
    pub(crate) max_length: usize,
    /// Dropout of the sum.
    pub dropout: f32,
    /// Other options.
    pub options: InputEmbeddingsOptions,
}

/// `dropout(√d · embedding + position)` (Vaswani et al. 2017, sections 3.4 and 3.5), the same without √d (Radford et
/// al. 2018), or `dropout(norm(embedding + position + type))` (Devlin et al. 2019, figure 2).
#[derive(Clone, Debug)]
pub(crate) struct InputEmbeddings {
    pub(super) embedding: Embedding,
    pub(super) position: PositionEncoding,
    pub(super) token_type: Option<TokenTypes>,
    pub(super) norm: OptionalNorm,
    dropout: f32,
    params_end: ParamMark,
}

/// The embedding of token types.
#[derive(Clone, Debug)]
pub(super) struct TokenTypes {
    pub(super) embedding: Embedding,
    num_types: usize,
    separator: Option<u32>,
}

impl TokenTypes {
    /// Returns the type of each token: the given one, or 1 after the first separator of its sequence and 0 before.
    pub(super) fn type_ids<'a>(&self, tokens: Tokens<'a>) -> Cow<'a, [u32]> {
        if let Some(types) = tokens.types {
            return types.into();
        }
        let mut kinds = vec![0; tokens.ids.len()];
        if let Some(separator) = self.separator.filter(|_| self.num_types > 1) {
            for range in tokens.offsets.ranges() {
                let place = tokens.ids[range.clone()].iter().position(|&id| id == separator);
                place.into_iter().for_each(|place| kinds[range.start + place + 1..range.end].fill(1));
            }
        }
        kinds.into()
    }
}

/// The cache of the forward pass of [`InputEmbeddings`].
#[derive(Clone, Debug)]
pub(crate) struct InputEmbeddingsCache<T>(OptionalNormCache<T>);

/// Tokens of packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// The token ids.
    pub ids: &'a [u32],
    /// The sequences of the tokens.
    pub offsets: &'a Offsets,
    /// The token types, if the model has any; all 0 if omitted.
    pub types: Option<&'a [u32]>,
}

impl<'a> Tokens<'a> {
    /// Builds tokens of a single type.
    pub fn new(ids: &'a [u32], offsets: &'a Offsets) -> Self {
        Tokens { ids, offsets, types: None }
    }
}

/// The dropout site of the input embeddings.
const DROPOUT_SITE: u32 = 0;

impl InputEmbeddings {
    /// Adds `embedding`, `position`, `token_type` and `input_norm`, as far as configured.
    pub(crate) fn new(builder: &mut Builder, config: &InputEmbeddingsConfig) -> Self {
        let InputEmbeddingsConfig { vocab_size, d_model, options, .. } = *config;
        let embedding = |b: &mut Builder| match options.is_scaled() {
            true => Embedding::new(b, vocab_size, d_model),
            false => Embedding::unscaled(b, vocab_size, d_model),
        };
        let position = |b: &mut Builder| {
            PositionEncoding::with_first_position(
                b,
                config.position,
                options.first_position,
                [config.max_length, d_model],
            )
        };
        let embedding = builder.scope("embedding", embedding);
        let position = builder.scope("position", position);
        let token_type = (options.token_types > 0).then(|| TokenTypes {
            embedding: builder.scope("token_type", |b| Embedding::unscaled(b, options.token_types, d_model)),
            num_types: options.token_types,
            separator: options.separator,
        });
        let norm = options
            .norm_epsilon
            .map(|epsilon| builder.scope("input_norm", |b| Norm::new(b, options.norm, d_model, epsilon)));
        let norm = OptionalNorm(norm);
        InputEmbeddings { embedding, position, token_type, norm, dropout: config.dropout, params_end: builder.mark() }
    }

    /// The table of token embeddings.
    pub(crate) fn embedding(&self) -> &Embedding {
        &self.embedding
    }

    /// Returns the scaled vectors of the table, and the vectors of the positions that are added to them; 0 if positions
    /// act inside attention.
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub(crate) fn token_and_position_vectors<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
    ) -> Result<(Array2<T>, Array2<T>)> {
        let vectors = self.embedding.forward(p, tokens.ids)?;
        let mut positions = Array2::from_elem(vectors.dim(), T::ZERO);
        self.position.forward_at(p, &mut positions, tokens.offsets, &[])?;
        Ok((vectors, positions))
    }

    /// Returns the vector of each token, and the cache for `backward`.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id, a token type or a length exceeds the model's limits, or the shapes do not match.
    pub(crate) fn forward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        mode: Mode,
    ) -> Result<(Array2<T>, InputEmbeddingsCache<T>)> {
        self.forward_at(p, tokens, &[], mode)
    }

    /// Like [`InputEmbeddings::forward`], for tokens that follow `starts` earlier tokens of each sequence (0 if empty).
    ///
    /// # Errors
    /// Same as for [`InputEmbeddings::forward`].
    pub(crate) fn forward_at<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        starts: &[usize],
        mode: Mode,
    ) -> Result<(Array2<T>, InputEmbeddingsCache<T>)> {
        let x = self.embedding.forward(p, tokens.ids)?;
        self.forward_embedded(p, x, tokens, starts, mode)
    }

    /// Like [`InputEmbeddings::forward_at`], with given vectors instead of those of the table. `tokens` only determines
    /// the token types.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// Same as for [`InputEmbeddings::forward`].
    pub(crate) fn forward_embedded<T: Real>(
        &self,
        p: &Params<T>,
        mut x: Array2<T>,
        tokens: Tokens<'_>,
        starts: &[usize],
        mode: Mode,
    ) -> Result<(Array2<T>, InputEmbeddingsCache<T>)> {
        self.position.forward_at(p, &mut x, tokens.offsets, starts)?;
        if let Some(token_type) = &self.token_type {
            x += &token_type.embedding.forward(p, &token_type.type_ids(tokens))?;
        }
        let (mut y, cache) = self.norm.forward(p, x)?;
        mode.apply_dropout(&mut y, self.dropout, DROPOUT_SITE)?;
        Ok((y, InputEmbeddingsCache(cache)))
    }

    /// Adds the gradients of the parameters to `grads`.
    ///
    /// # Shapes
    /// `dy` (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn backward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        cache: &InputEmbeddingsCache<T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        if !grads.has_trained_before(self.params_end) {
            return Ok(());
        }
        let dx = self.backward_embedded(p, cache, dy, mode, grads)?;
        let dx: ArrayView2<'_, T> = dx.view();
        // x = embedding + position + type
        if let Some(token_type) = &self.token_type {
            token_type.embedding.backward(&token_type.type_ids(tokens), dx, grads)?;
        }
        self.position.backward(dx, tokens.offsets, grads);
        self.embedding.backward(tokens.ids, dx, grads)
    }

    /// Returns the gradient of the scaled token vectors from the table, and adds the norm's gradients to `grads`.
    ///
    /// # Shapes
    /// `dy` and the returned dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn backward_embedded<T: Real>(
        &self,
        p: &Params<T>,
        cache: &InputEmbeddingsCache<T>,
        mut dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        mode.apply_dropout(&mut dy, self.dropout, DROPOUT_SITE)?;
        // y = norm(x)
        self.norm.backward(p, borrowed(&cache.0), dy, None, grads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_after_the_first_separator_have_the_second_type() {
        let options =
            InputEmbeddingsOptions { token_types: 2, separator: Some(9), ..InputEmbeddingsOptions::default() };
        let position = PositionKind::Sinusoidal;
        let config =
            InputEmbeddingsConfig { vocab_size: 10, d_model: 4, position, max_length: 8, dropout: 0.0, options };
        let mut builder = Builder::new();
        let input = InputEmbeddings::new(&mut builder, &config);
        let p: Params<f32> = Params::init(&builder.finish(), 1);
        // Two pairs, the second with one separator too many, and a single text.
        let (ids, offsets) = ([1, 9, 2, 9, 3, 4, 9, 9, 5, 6], Offsets::from_lengths([4, 5, 1]));
        let of = |types| input.forward(&p, Tokens { ids: &ids, offsets: &offsets, types }, Mode::Eval).unwrap().0;
        assert_eq!(of(None), of(Some(&[0, 0, 1, 1, 0, 0, 0, 1, 1, 0])));
        assert_ne!(of(None), of(Some(&[0; 10])));
    }
}
