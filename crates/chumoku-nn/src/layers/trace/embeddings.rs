//! Traces of input embeddings: the vectors of one sequence that add up to the input of the first layer.

use super::NormParameters;
use crate::Result;
use crate::layers::{Embedding, InputEmbeddings, Offsets, PositionEncoding, Tokens, to_f64};
use crate::params::Params;
use chumoku_kernels::Real;
use ndarray::Array2;

/// A trace of the input embeddings of one sequence: `norm(factor · vectors + positions + types)`, as far as the model
/// has these parts.
#[derive(Clone, Debug)]
pub struct EmbeddingTrace {
    /// The id of each token.
    pub ids: Vec<u32>,
    /// The row of each token in the embedding table: (tokens, d_model).
    pub vectors: Array2<f64>,
    /// `true` if the rows are multiplied by √d_model.
    pub is_scaled: bool,
    /// The vectors of the positions: (tokens, d_model). `None` if positions act inside attention.
    pub positions: Option<Array2<f64>>,
    /// The token types, if the model has any.
    pub token_types: Option<TokenTypeTrace>,
    /// The normalization of the sum, if any.
    pub norm: Option<NormParameters>,
}

/// The token types of one sequence.
#[derive(Clone, Debug)]
pub struct TokenTypeTrace {
    /// The type of each token.
    pub ids: Vec<u32>,
    /// The row of each type in the table of types: (tokens, d_model).
    pub vectors: Array2<f64>,
}

/// The gradients of normalized input embeddings.
#[derive(Clone, Debug)]
pub struct EmbeddingGradients {
    /// The gradient of the sum before the normalization: (tokens, d_model).
    pub sum: Array2<f64>,
    /// The gradients of γ and β.
    pub norm: NormParameters,
}

impl EmbeddingTrace {
    /// Traces token embeddings and positions that are added to them, for a sequence that starts at position 0.
    pub(crate) fn new<T: Real>(
        p: &Params<T>,
        ids: &[u32],
        embedding: &Embedding,
        position: &PositionEncoding,
    ) -> Result<Self> {
        let vectors = to_f64(embedding.rows(p, ids)?.view());
        let positions = match position.is_added() {
            true => {
                let mut positions = Array2::from_elem(vectors.dim(), T::ZERO);
                position.forward(p, &mut positions, &Offsets::from_lengths([ids.len()]))?;
                Some(to_f64(positions.view()))
            }
            false => None,
        };
        let is_scaled = embedding.is_scaled();
        Ok(EmbeddingTrace { ids: ids.to_vec(), vectors, is_scaled, positions, token_types: None, norm: None })
    }

    /// Returns whether the rows of the table are the input themselves.
    pub fn is_plain(&self) -> bool {
        !self.is_scaled && self.positions.is_none() && self.token_types.is_none() && self.norm.is_none()
    }
}

impl InputEmbeddings {
    /// Traces the embeddings of one sequence.
    ///
    /// # Errors
    /// If an id, a token type or the length exceeds the model's limits.
    pub(crate) fn trace<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>) -> Result<EmbeddingTrace> {
        let token_types = match &self.token_type {
            Some(token_type) => {
                let ids = token_type.type_ids(tokens).into_owned();
                let vectors = to_f64(token_type.embedding.rows(p, &ids)?.view());
                Some(TokenTypeTrace { ids, vectors })
            }
            None => None,
        };
        let norm = self.norm_parameters(p);
        Ok(EmbeddingTrace { token_types, norm, ..EmbeddingTrace::new(p, tokens.ids, &self.embedding, &self.position)? })
    }

    /// Returns the parameters of the normalization; from gradients, their gradients.
    pub(crate) fn norm_parameters<T: Real>(&self, p: &Params<T>) -> Option<NormParameters> {
        self.norm.parameters(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{InputEmbeddingsConfig, InputEmbeddingsOptions, Mode, NormKind, PositionKind};
    use crate::params::Builder;

    /// Returns what the trace adds up to, computed in f64.
    fn sum(trace: &EmbeddingTrace) -> Array2<f64> {
        let factor = if trace.is_scaled { (trace.vectors.ncols() as f64).sqrt() } else { 1.0 };
        let types = trace.token_types.as_ref().map(|types| &types.vectors);
        let added = trace.positions.iter().chain(types).fold(&trace.vectors * factor, |sum, part| sum + part);
        let Some(norm) = &trace.norm else { return added };
        let mut y = added;
        for mut row in y.rows_mut() {
            let n = row.len() as f64;
            let mean = if norm.beta.is_some() { row.sum() / n } else { 0.0 };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            for (j, x) in row.iter_mut().enumerate() {
                let beta = norm.beta.as_ref().map_or(0.0, |beta| beta[[0, j]]);
                *x = (*x - mean) / (variance + norm.epsilon).sqrt() * norm.gamma[[0, j]] + beta;
            }
        }
        y
    }

    fn assert_equal<T: Real>(options: InputEmbeddingsOptions, position: PositionKind, tolerance: f64) {
        let config =
            InputEmbeddingsConfig { vocab_size: 12, d_model: 6, position, max_length: 8, dropout: 0.1, options };
        let mut builder = Builder::new();
        let input = InputEmbeddings::new(&mut builder, &config);
        let mut p: Params<T> = Params::init(&builder.finish(), 3);
        // γ and β that normalize nothing would hide that they are left out.
        for (i, x) in p.values_mut().iter_mut().enumerate() {
            *x += T::round_from(((i * 7 + 3) % 11) as f64 / 20.0);
        }
        let (ids, types) = ([1u32, 9, 2, 11, 2], [0u32, 0, 1, 1, 0]);
        let offsets = Offsets::from_lengths([ids.len()]);
        for types in [None, Some(&types[..])] {
            let tokens = Tokens { ids: &ids, offsets: &offsets, types };
            let own = to_f64(input.forward(&p, tokens, Mode::Eval).unwrap().0.view());
            let trace = input.trace(&p, tokens).unwrap();
            assert_eq!(trace.ids, ids);
            assert_eq!(trace.positions.is_some(), !matches!(position, PositionKind::None | PositionKind::Rotary));
            assert_eq!(trace.is_scaled, options.is_scaled());
            let difference = (&sum(&trace) - &own).iter().fold(0.0f64, |most, x| most.max(x.abs()));
            assert!(difference < tolerance, "{options:?}, {position:?}: {difference}");
            assert_eq!(trace.is_plain(), trace.vectors == own, "{options:?}, {position:?}");
        }
    }

    #[test]
    fn traced_vectors_add_up_to_the_input_of_the_first_layer() {
        let plain = InputEmbeddingsOptions::default();
        let all = [
            plain,
            InputEmbeddingsOptions { unscaled: true, ..plain },
            InputEmbeddingsOptions { norm_epsilon: Some(1e-12), token_types: 2, separator: Some(9), ..plain },
            InputEmbeddingsOptions { norm_epsilon: Some(1e-5), token_types: 2, first_position: 2, ..plain },
            InputEmbeddingsOptions { norm_epsilon: Some(1e-5), norm: NormKind::LayerWithoutBias, ..plain },
            InputEmbeddingsOptions { norm_epsilon: Some(1e-5), norm: NormKind::Rms, ..plain },
            InputEmbeddingsOptions { unscaled: true, token_types: 2, ..plain },
        ];
        let positions = [
            PositionKind::None,
            PositionKind::Sinusoidal,
            PositionKind::SinusoidalHalves,
            PositionKind::Learned,
            PositionKind::Rotary,
        ];
        for options in all {
            for position in positions {
                assert_equal::<f64>(options, position, 1e-12);
                assert_equal::<f32>(options, position, 2e-6);
            }
        }
    }
}
