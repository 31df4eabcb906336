//! Inference over many texts in parallel batches. Classifiers read long texts in windows and combine them into one row
//! of logits.

use crate::models::Classifier;
use crate::nn::Offsets;
use crate::params::Params;
use crate::text::{SpecialTokens, windows};
use crate::{Error, Result, sorting};
use ndarray::Array2;

/// Tokens in a batch, which one core processes alone. Small batches keep many cores busy with a few hundred rows.
pub(crate) const BATCH_TOKENS: usize = 1024;

/// Applies `f` to each batch in parallel and returns the results in order.
pub fn map_batches<R: Send>(batches: &[Vec<usize>], f: impl Fn(&[usize]) -> Result<R> + Sync) -> Result<Vec<R>> {
    chumoku_kernels::parallel_try_map(batches, |batch| f(batch))
}

/// Splits sequences into evaluation batches, shortest first.
pub fn batches_by_length(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let order = sorting::argsort_by(lengths.len(), &|a, b| lengths[a].cmp(&lengths[b]));
    batches_in_order(&order, lengths, budget)
}

/// Splits sequences, in this order, into batches of at most `budget` tokens. Each batch has at least one sequence.
pub fn batches_in_order(order: &[usize], lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut tokens = usize::MAX;
    for &i in order {
        match batches.last_mut() {
            Some(batch) if tokens + lengths[i] <= budget => {
                batch.push(i);
                tokens += lengths[i];
            }
            _ => {
                batches.push(vec![i]);
                tokens = lengths[i];
            }
        }
    }
    batches
}

/// The template of a model's inputs: the special tokens around a text, and the maximum number of tokens.
#[derive(Clone, Copy, Debug)]
pub struct InputTemplate<'a> {
    /// Special tokens around the text.
    pub special_tokens: &'a SpecialTokens,
    /// The maximum number of tokens in one input, special tokens included.
    pub max_tokens: usize,
}

impl InputTemplate<'_> {
    /// The maximum number of text tokens in one input, without special tokens.
    pub fn window_size(&self) -> usize {
        self.max_tokens.saturating_sub(self.special_tokens.len()).max(1)
    }

    /// Packs the sequences, each with its special tokens.
    pub fn pack<'a>(&self, sequences: impl Iterator<Item = &'a [u32]>) -> (Vec<u32>, Offsets) {
        let (mut ids, mut lengths) = (Vec::new(), Vec::new());
        for sequence in sequences {
            ids.extend(&self.special_tokens.prefix);
            ids.extend_from_slice(sequence);
            ids.extend(&self.special_tokens.suffix);
            lengths.push(sequence.len() + self.special_tokens.len());
        }
        (ids, Offsets::from_lengths(lengths))
    }
}

/// Computes the logits of each text, (texts, classes). `rows` are token ids without special tokens.
///
/// Long texts are read in windows of nearly equal size. Their logits are the mean over the windows, weighted by tokens.
/// The logits of a text do not depend on the other texts.
pub fn logits(
    model: &Classifier,
    params: &Params<f32>,
    template: InputTemplate<'_>,
    rows: &[Vec<u32>],
) -> Result<Array2<f32>> {
    let classes = model.config().num_classes;
    mean_over_windows(template, rows, classes, |ids, offsets| Ok(model.logits(params, ids, offsets)?))
}

/// Computes the input of a classifier's last layer for each text, (texts, width). Long texts are read as in [`logits`].
pub fn vectors(
    model: &Classifier,
    params: &Params<f32>,
    template: InputTemplate<'_>,
    rows: &[Vec<u32>],
) -> Result<Array2<f32>> {
    let width = model.config().backbone.width();
    mean_over_windows(template, rows, width, |ids, offsets| Ok(model.vectors(params, ids, offsets)?))
}

/// Calls `f` for batches of windows. The output row of a text, of length `width`, is the mean over its windows.
fn mean_over_windows(
    template: InputTemplate<'_>,
    rows: &[Vec<u32>],
    width: usize,
    f: impl Fn(&[u32], &Offsets) -> Result<Array2<f32>> + Sync,
) -> Result<Array2<f32>> {
    let limit = template.window_size();
    let pieces: Vec<(usize, &[u32])> = rows
        .iter()
        .enumerate()
        .flat_map(|(row, ids)| windows(ids.len(), limit).into_iter().map(move |window| (row, &ids[window])))
        .collect();
    let lengths: Vec<usize> = pieces.iter().map(|(_, ids)| ids.len() + template.special_tokens.len()).collect();
    let mut of_pieces = Array2::zeros((pieces.len(), width));
    let batches = batches_by_length(&lengths, BATCH_TOKENS);
    let found = map_batches(&batches, |batch| {
        let (ids, offsets) = template.pack(batch.iter().map(|&piece| pieces[piece].1));
        f(&ids, &offsets)
    })?;
    for (found, batch) in found.iter().zip(&batches) {
        for (row, &piece) in found.rows().into_iter().zip(batch) {
            of_pieces.row_mut(piece).assign(&row);
        }
    }
    let mut of_rows = Array2::zeros((rows.len(), width));
    // Pieces are in the order of the texts, so each sum is taken in a fixed order.
    for ((row, ids), found) in pieces.iter().zip(of_pieces.rows()) {
        let share = if rows[*row].is_empty() { 1.0 } else { ids.len() as f32 / rows[*row].len() as f32 };
        of_rows.row_mut(*row).scaled_add(share, &found);
    }
    Ok(of_rows)
}

/// Checks that a layer and head, both counted from 0, exist.
///
/// # Errors
/// If there is no such layer or head.
pub(crate) fn check_head([layer, head]: [usize; 2], [layers, heads]: [usize; 2]) -> Result<()> {
    match layer < layers && head < heads {
        true => Ok(()),
        false => Err(Error::Setting(crate::tr!(
            "layer {}, head {}: this model has layers 1 to {layers} and heads 1 to {heads}",
            "層 {}、ヘッド {}: このモデルの層は 1 から {layers} まで、ヘッドは 1 から {heads} までです",
            layer + 1,
            head + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_heads_are_named_in_the_error() {
        assert!(check_head([1, 3], [2, 4]).is_ok());
        let problem = check_head([1, 4], [2, 4]).unwrap_err().to_string();
        assert!(problem.contains("layer 2, head 5") && problem.contains("heads 1 to 4"), "{problem}");
    }
}
