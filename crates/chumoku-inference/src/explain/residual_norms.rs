//! The lengths of the vectors that add up to the residual stream of each token, from its embedding to the last layer.

use crate::models::ResidualRecording;
use crate::nn::MultiHeadAttention;
use crate::params::Params;
use ndarray::{Array2, Axis, Slice};
use serde::{Deserialize, Serialize};

/// The contributions to the residual stream of each token: the length of each vector that is added to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResidualNorms {
    /// The id of each token.
    pub ids: Vec<u32>,
    /// The factor of the embeddings, usually 1 or √d_model.
    pub scale: f32,
    /// The scaled vector of each token in the embedding table: (tokens).
    pub embedding: Vec<f32>,
    /// The vector of each position: (tokens). Empty if positions are not added to the embeddings.
    pub position: Vec<f32>,
    /// The residual stream before each layer and after the last: (layers + 1, tokens).
    pub residual: Vec<f32>,
    /// The output of each head after W_O, without the bias: (layers, heads, tokens).
    pub heads: Vec<f32>,
    /// The output of attention: (layers, tokens).
    pub attention: Vec<f32>,
    /// The output of the feed-forward network: (layers, tokens).
    pub feed_forward: Vec<f32>,
}

/// The embeddings of a text.
pub(super) struct EmbeddedTokens<'a> {
    pub(super) ids: &'a [u32],
    pub(super) scale: f32,
    /// The scaled vectors of the table.
    pub(super) vectors: Array2<f32>,
    /// The vectors of the positions; 0 if they are not added here.
    pub(super) positions: Array2<f32>,
}

/// Returns the length of each row.
fn lengths(x: &Array2<f32>) -> Vec<f32> {
    let length = |row: ndarray::ArrayView1<'_, f32>| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    x.outer_iter().map(|row| length(row) as f32).collect()
}

impl ResidualNorms {
    /// Measures a recording. `attention` returns the attention of a layer.
    pub(super) fn measure<'a>(
        tokens: EmbeddedTokens<'_>,
        recording: &ResidualRecording<f32>,
        params: &Params<f32>,
        attention: impl Fn(usize) -> &'a MultiHeadAttention,
    ) -> ResidualNorms {
        let all = |list: &[Array2<f32>]| list.iter().flat_map(lengths).collect::<Vec<f32>>();
        let mut heads = Vec::new();
        for (layer, outputs) in recording.heads.iter().enumerate() {
            let matrices = attention(layer).matrices(params);
            let width = outputs.ncols() / matrices.num_heads.max(1);
            for head in 0..matrices.num_heads {
                let columns = Slice::from(head * width..(head + 1) * width);
                let output = outputs.slice_axis(Axis(1), columns).mapv(f64::from);
                let added = output.dot(&matrices.output.slice_axis(Axis(0), columns));
                heads.extend(lengths(&added.mapv(|x| x as f32)));
            }
        }
        let position = if tokens.positions.iter().all(|&x| x == 0.0) { Vec::new() } else { lengths(&tokens.positions) };
        ResidualNorms {
            ids: tokens.ids.to_vec(),
            scale: tokens.scale,
            embedding: lengths(&tokens.vectors),
            position,
            residual: all(&recording.residual),
            heads,
            attention: all(&recording.attention),
            feed_forward: all(&recording.feed_forward),
        }
    }

    /// Checks the lengths of all lists.
    pub(super) fn is_consistent(&self, layers: usize, heads: usize) -> bool {
        let tokens = self.ids.len();
        self.embedding.len() == tokens
            && [0, tokens].contains(&self.position.len())
            && self.residual.len() == (layers + 1) * tokens
            && self.heads.len() == layers * heads * tokens
            && self.attention.len() == layers * tokens
            && self.feed_forward.len() == layers * tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::attention_collector::tests::language_model;
    use crate::nn::{AttentionOptions, Offsets, PositionKind};
    use ndarray::array;

    #[test]
    fn rows_have_their_lengths() {
        assert_eq!(lengths(&array![[3.0f32, 4.0], [0.0, 0.0], [-5.0, 12.0]]), [5.0, 0.0, 13.0]);
    }

    /// The measured vectors add up: start + attention + feed-forward is the next residual stream, and the heads with the
    /// bias are the attention. The lengths are those of vectors computed again from the traces of the layers.
    #[test]
    fn vectors_add_up_to_the_residual_stream() {
        let attention = AttentionOptions { num_key_heads: Some(2), ..Default::default() };
        let (model, params) = language_model(PositionKind::Sinusoidal, attention, (11, 0.5));
        let ids = [3, 1, 4, 1, 5];
        let reader = model.residual_reader(&params);
        let recording = reader.record(model.embed(&params, &ids).unwrap()).unwrap();
        let (vectors, positions) = model.token_and_position_vectors(&params, &ids).unwrap();
        let sum = &vectors + &positions;
        assert!(sum.iter().zip(&recording.residual[0]).all(|(a, b)| (a - b).abs() < 1e-5));
        let tokens = EmbeddedTokens { ids: &ids, scale: 4.0, vectors, positions };
        let path = ResidualNorms::measure(tokens, &recording, &params, |layer| model.attention(layer));
        assert!(path.is_consistent(2, 4) && !path.is_consistent(2, 3));

        let near = |a: f32, b: f64| assert!((f64::from(a) - b).abs() < 2e-4 * b.abs().max(1.0), "{a} and {b}");
        let length = |row: &ndarray::ArrayView1<'_, f64>| row.dot(row).sqrt();
        let mut layer = 0;
        model
            .trace_layers(&params, &ids, &mut |trace| {
                let m = &trace.matrices;
                let mut all = Array2::<f64>::zeros(trace.x.dim());
                for head in 0..4 {
                    let part = |x: &Array2<f64>, index: usize| {
                        x.slice_axis(Axis(1), Slice::from(index * 4..(index + 1) * 4)).to_owned()
                    };
                    let moved = trace.weights[head].dot(&part(&trace.projected[2], head / 2));
                    let added = moved.dot(&m.output.slice_axis(Axis(0), Slice::from(head * 4..(head + 1) * 4)));
                    for token in 0..5 {
                        near(path.heads[(layer * 4 + head) * 5 + token], length(&added.row(token)));
                    }
                    all += &added;
                }
                all += m.output_bias.as_ref().unwrap();
                for token in 0..5 {
                    near(path.attention[layer * 5 + token], length(&all.row(token)));
                    near(path.residual[layer * 5 + token], length(&trace.x.row(token)));
                    let after = recording.residual[layer + 1].row(token).mapv(f64::from);
                    let added = &after - &trace.sum.row(token);
                    near(path.feed_forward[layer * 5 + token], length(&added.view()));
                }
                layer += 1;
            })
            .unwrap();
        // The last lens is the model's own answer.
        let lens = reader.logits_at(&recording, 2, 0..5).unwrap();
        let offsets = Offsets::from_lengths([5]);
        let own = model.logits(&params, &ids, &offsets).unwrap();
        assert!(lens.iter().zip(&own).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}
