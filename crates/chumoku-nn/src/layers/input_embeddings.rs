//! What a model's first layer is given: a vector for each token, with its place.

use super::{Embedding, Mode, Norm, NormCache, NormKind, Offsets, PositionEncoding, PositionKind};
use crate::Result;
use crate::params::{Builder, ParamMark, Params};
use chumoku_kernels::Real;
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Variants of [`Input`], in models' configurations: what is left out there is as in the transformer's paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputEmbeddingsOptions {
    /// Embeddings are not multiplied by √d_model, and the sum is normalised, with this ε (Devlin et al. 2019).
    #[serde(rename = "embedding_norm_epsilon", skip_serializing_if = "Option::is_none")]
    pub norm_epsilon: Option<f64>,
    /// Which normalisation that is.
    #[serde(rename = "embedding_norm", skip_serializing_if = "is_layer_norm")]
    pub norm: NormKind,
    /// Embeddings are not multiplied by √d_model.
    #[serde(rename = "unscaled_embedding", skip_serializing_if = "is_false")]
    pub unscaled: bool,
    /// Kinds of tokens that have a vector each (BERT's first and second sentence); none unless it is set.
    #[serde(skip_serializing_if = "is_zero")]
    pub token_types: usize,
    /// The token between two texts: it is of the first kind, what follows it of the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<u32>,
    /// Rows of a learned positional encoding before that of a sequence's first token.
    #[serde(skip_serializing_if = "is_zero")]
    pub first_position: usize,
}

fn is_false(x: &bool) -> bool {
    !x
}

fn is_layer_norm(kind: &NormKind) -> bool {
    *kind == NormKind::Layer
}

fn is_zero(x: &usize) -> bool {
    *x == 0
}

/// The sizes of an [`Input`].
#[derive(Clone, Copy, Debug)]
pub struct InputEmbeddingsConfig {
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of the vectors.
    pub d_model: usize,
    /// Positional encoding.
    pub position: PositionKind,
    /// The longest sequence, in tokens.
    pub max_length: usize,
    /// Dropout of the sum.
    pub dropout: f32,
    /// Whatever else it can be told.
    pub options: InputEmbeddingsOptions,
}

/// `dropout(√d · embedding + position)` (Vaswani et al. 2017, sections 3.4 and 3.5), the same without √d (Radford et al.
/// 2018), or `dropout(norm(embedding + position + type))` (Devlin et al. 2019, figure 2).
#[derive(Clone, Debug)]
pub struct InputEmbeddings {
    embedding: Embedding,
    position: PositionEncoding,
    token_type: Option<TokenTypes>,
    norm: Option<Norm>,
    dropout: f32,
    end: ParamMark,
}

/// The vectors of kinds of tokens.
#[derive(Clone, Debug)]
struct TokenTypes {
    embedding: Embedding,
    num_types: usize,
    separator: Option<u32>,
}

impl TokenTypes {
    /// The kind of each token: as given or, behind the first separator of its sequence, 1.
    fn type_ids<'a>(&self, tokens: Tokens<'a>) -> Cow<'a, [u32]> {
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

/// What an [`Input`] remembers.
#[derive(Clone, Debug)]
pub struct InputEmbeddingsCache<T>(Option<(Array2<T>, NormCache<T>)>);

/// Tokens of packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// Their ids.
    pub ids: &'a [u32],
    /// Their sequences.
    pub offsets: &'a Offsets,
    /// Their kinds, where the model has any; all 0 if left out.
    pub types: Option<&'a [u32]>,
}

impl<'a> Tokens<'a> {
    /// Tokens of one kind.
    pub fn new(ids: &'a [u32], offsets: &'a Offsets) -> Self {
        Tokens { ids, offsets, types: None }
    }
}

/// Number of its dropout among those of a model.
const DROPOUT_SITE: u32 = 0;

impl InputEmbeddings {
    /// Adds `embedding`, `position`, `token_type` and `input_norm`, those that there are.
    pub fn new(builder: &mut Builder, config: &InputEmbeddingsConfig) -> Self {
        let InputEmbeddingsConfig { vocab_size, d_model, options, .. } = *config;
        let embedding = |b: &mut Builder| match options.unscaled || options.norm_epsilon.is_some() {
            true => Embedding::unscaled(b, vocab_size, d_model),
            false => Embedding::new(b, vocab_size, d_model),
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
        InputEmbeddings { embedding, position, token_type, norm, dropout: config.dropout, end: builder.mark() }
    }

    /// The table of token embeddings.
    pub fn embedding(&self) -> &Embedding {
        &self.embedding
    }

    /// The vector of each token, and what `backward` needs of the computation.
    ///
    /// # Shapes
    /// (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id, a kind or a length is beyond the model's, or the shapes do not fit.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        mode: Mode,
    ) -> Result<(Array2<T>, InputEmbeddingsCache<T>)> {
        self.forward_at(p, tokens, &[], mode)
    }

    /// As [`Input::forward`], for tokens that follow `starts` others of each sequence (none if left out).
    ///
    /// # Errors
    /// As for [`Input::forward`].
    pub fn forward_at<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        starts: &[usize],
        mode: Mode,
    ) -> Result<(Array2<T>, InputEmbeddingsCache<T>)> {
        let x = self.embedding.forward(p, tokens.ids)?;
        self.forward_embedded(p, x, tokens, starts, mode)
    }

    /// As [`Input::forward_at`], with vectors in the place of those that the table has for the tokens, of which the kinds are
    /// read alone.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// As for [`Input::forward`].
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
        let cache = match &self.norm {
            None => None,
            Some(norm) => {
                let (y, cache) = norm.forward(p, x.view())?;
                Some((std::mem::replace(&mut x, y), cache))
            }
        };
        mode.apply_dropout(&mut x, self.dropout, DROPOUT_SITE)?;
        Ok((x, InputEmbeddingsCache(cache)))
    }

    /// Adds the gradients of the parameters to `grads`.
    ///
    /// # Shapes
    /// `dy` (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        cache: &InputEmbeddingsCache<T>,
        dy: Array2<T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<()> {
        if !grads.has_trained_before(self.end) {
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

    /// The gradient of the tokens' vectors as the table has them, scaled; that of the norm is added to `grads`.
    ///
    /// # Shapes
    /// `dy` and the dx returned (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not fit.
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
        match (&self.norm, &cache.0) {
            (Some(norm), Some((x, cache))) => norm.backward(p, x.view(), cache, dy.view(), None, grads),
            _ => Ok(dy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_first_separator_is_of_the_second_kind() {
        let options =
            InputEmbeddingsOptions { token_types: 2, separator: Some(9), ..InputEmbeddingsOptions::default() };
        let position = PositionKind::Sinusoidal;
        let config =
            InputEmbeddingsConfig { vocab_size: 10, d_model: 4, position, max_length: 8, dropout: 0.0, options };
        let mut builder = Builder::new();
        let input = InputEmbeddings::new(&mut builder, &config);
        let p: Params<f32> = Params::init(&builder.finish(), 1);
        // Two pairs, of which the second has a separator too many, and a single text.
        let (ids, offsets) = ([1, 9, 2, 9, 3, 4, 9, 9, 5, 6], Offsets::from_lengths([4, 5, 1]));
        let of = |types| input.forward(&p, Tokens { ids: &ids, offsets: &offsets, types }, Mode::Eval).unwrap().0;
        assert_eq!(of(None), of(Some(&[0, 0, 1, 1, 0, 0, 0, 1, 1, 0])));
        assert_ne!(of(None), of(Some(&[0; 10])));
    }
}
