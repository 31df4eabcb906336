//! The residual stream of an encoder or a decoder, recorded and patched, with the answers that the model reads from it.

use crate::Result;
use crate::layers::{ActivationHook, ActivationSite, Decoder, DecoderInput, Encoder, Memory, Offsets};
use crate::params::Params;
use chumoku_kernels::{Real, parallel_try_map};
use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Slice};
use std::ops::Range;

/// Number of tokens that go through the layers together while sites are patched.
const PATCHED_TOKENS: usize = 1024;

/// Number of logits that are in memory for each batch of patched sequences.
const PATCHED_LOGITS: usize = 1 << 22;

/// The layers whose residual stream is read.
pub(super) enum LayerStack<'a, T> {
    /// An encoder, or the layers of a language model.
    Encoder(&'a Encoder),
    /// A decoder that attends to the memory of one source.
    Decoder(&'a Decoder, Array2<T>),
}

impl<T: Real> LayerStack<'_, T> {
    fn layers(&self) -> usize {
        match self {
            LayerStack::Encoder(encoder) => encoder.layers().len(),
            LayerStack::Decoder(decoder, _) => decoder.layers().len(),
        }
    }

    /// Returns the number of heads of each attention.
    fn heads(&self) -> usize {
        let heads = match self {
            LayerStack::Encoder(encoder) => encoder.layers().first().map(|layer| layer.num_heads()),
            LayerStack::Decoder(decoder, _) => decoder.layers().first().map(|layer| layer.num_heads()),
        };
        heads.unwrap_or(0)
    }

    /// Returns the number of layers with such sites. A residual stream also has one after the last layer.
    fn depths(&self, site: SiteKind) -> usize {
        match (site, self) {
            (SiteKind::Residual, _) => self.layers() + 1,
            (SiteKind::CrossHeads, LayerStack::Encoder(_)) => 0,
            _ => self.layers(),
        }
    }

    /// Runs the layers from `first` on over the residual stream.
    fn run(
        &self,
        params: &Params<T>,
        x: Array2<T>,
        offsets: &Offsets,
        first: usize,
        hook: ActivationHook<'_, T>,
    ) -> Result<Array2<T>> {
        match self {
            LayerStack::Encoder(encoder) => encoder.run_with_hook(params, x, offsets, first, hook),
            LayerStack::Decoder(decoder, memory) => {
                let source = Offsets::from_lengths([memory.nrows()]);
                let memory = Memory { output: memory.view(), offsets: &source };
                decoder.run_with_hook(params, x, DecoderInput { offsets, memory }, first, hook)
            }
        }
    }
}

/// The part of a model that computes logits from the residual stream after some layer.
pub(super) struct ReadOut<'a, T> {
    /// Computes logits: (tokens, d_model) → (rows, answers).
    logits: ReadOutFunction<'a, T>,
    /// The number of answers.
    answers: usize,
    /// The number of tokens that it decodes for each sequence.
    decoded_tokens: usize,
}

type ReadOutFunction<'a, T> = Box<dyn Fn(Array2<T>, &Offsets) -> Result<Array2<T>> + Sync + 'a>;

impl<'a, T> ReadOut<'a, T> {
    /// Builds the part of a model that has `answers` logits in a row. `logits` reads the residual stream before the final
    /// norm.
    pub(super) fn new(
        answers: usize,
        logits: impl Fn(Array2<T>, &Offsets) -> Result<Array2<T>> + Sync + 'a,
    ) -> ReadOut<'a, T> {
        ReadOut { logits: Box::new(logits), answers, decoded_tokens: 0 }
    }

    /// Sets the number of tokens that a decoder reads for each sequence.
    pub(super) fn with_decoded_tokens(self, decoded_tokens: usize) -> ReadOut<'a, T> {
        ReadOut { decoded_tokens, ..self }
    }
}

/// The layers of a model with the part that computes logits from their residual stream.
pub struct ResidualReader<'a, T> {
    stack: LayerStack<'a, T>,
    params: &'a Params<T>,
    read_out: ReadOut<'a, T>,
}

/// The values at every site of a stack of layers while it reads one sequence. Each field but `residual` has one array
/// per layer.
#[derive(Clone, Debug)]
pub struct ResidualRecording<T> {
    /// The residual stream before each layer and after the last: (tokens, d_model).
    pub residual: Vec<Array2<T>>,
    /// The outputs of the heads of self-attention before W_O: (tokens, heads · value width).
    pub heads: Vec<Array2<T>>,
    /// The outputs of the heads of cross-attention before W_O. Empty for an encoder.
    pub cross_heads: Vec<Array2<T>>,
    /// The output of self-attention: (tokens, d_model).
    pub attention: Vec<Array2<T>>,
    /// The output of the feed-forward network: (tokens, d_model).
    pub feed_forward: Vec<Array2<T>>,
}

/// A measure of the logits of one sequence after patching each site with the values of another sequence.
#[derive(Clone, Debug)]
pub struct PatchedSites<M> {
    /// For each depth, before the first layer to after the last: one for each patched position.
    pub residual: Vec<Vec<M>>,
    /// For each layer, the output of each head of self-attention at all patched positions: one for each head.
    pub heads: Vec<Vec<M>>,
    /// The same for each head of cross-attention. Empty for an encoder.
    pub cross_heads: Vec<Vec<M>>,
    /// For each layer: one for each patched position.
    pub feed_forward: Vec<Vec<M>>,
}

impl<M> PatchedSites<M> {
    fn list(&mut self, site: SiteKind) -> &mut Vec<Vec<M>> {
        match site {
            SiteKind::Residual => &mut self.residual,
            SiteKind::Heads => &mut self.heads,
            SiteKind::CrossHeads => &mut self.cross_heads,
            SiteKind::FeedForward => &mut self.feed_forward,
        }
    }
}

/// One kind of site in one layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SiteKind {
    Residual,
    Heads,
    CrossHeads,
    FeedForward,
}

impl SiteKind {
    const ALL: [SiteKind; 4] = [SiteKind::Residual, SiteKind::Heads, SiteKind::CrossHeads, SiteKind::FeedForward];
}

/// Returns the number of sequences that are patched together, given the size of each: tokens in the layers, tokens in a
/// decoder that follows, and logits.
fn sequences_in_batch([tokens, decoded_tokens]: [usize; 2], logits: usize) -> usize {
    (PATCHED_TOKENS / tokens.max(decoded_tokens).max(1)).min(PATCHED_LOGITS / logits.max(1)).max(1)
}

impl<'a, T: Real> ResidualReader<'a, T> {
    pub(super) fn new(stack: LayerStack<'a, T>, params: &'a Params<T>, read_out: ReadOut<'a, T>) -> Self {
        ResidualReader { stack, params, read_out }
    }

    /// Records what the layers compute for one sequence. `x` has its embeddings.
    ///
    /// # Shapes
    /// `x` (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn record(&self, x: Array2<T>) -> Result<ResidualRecording<T>> {
        let offsets = Offsets::from_lengths([x.nrows()]);
        let mut found = ResidualRecording {
            residual: Vec::new(),
            heads: Vec::new(),
            cross_heads: Vec::new(),
            attention: Vec::new(),
            feed_forward: Vec::new(),
        };
        self.stack.run(self.params, x, &offsets, 0, &mut |site, values| {
            let list = match site {
                ActivationSite::Residual(_) => &mut found.residual,
                ActivationSite::Heads(_) => &mut found.heads,
                ActivationSite::CrossHeads(_) => &mut found.cross_heads,
                ActivationSite::Attention(_) => &mut found.attention,
                ActivationSite::FeedForward(_) => &mut found.feed_forward,
            };
            list.push(values.clone());
        })?;
        Ok(found)
    }

    /// Returns the logits that the model reads from the residual stream after `depth` layers: the logit lens
    /// (nostalgebraist 2020). Reads `tokens` alone, so that a caller with a large vocabulary can read few at a time.
    ///
    /// # Shapes
    /// (rows, answers).
    ///
    /// # Errors
    /// If the shapes do not match.
    ///
    /// # Panics
    /// If there is no such depth or token.
    pub fn logits_at(&self, recording: &ResidualRecording<T>, depth: usize, tokens: Range<usize>) -> Result<Array2<T>> {
        let x = recording.residual[depth].slice_axis(Axis(0), Slice::from(tokens)).to_owned();
        let offsets = Offsets::from_lengths([x.nrows()]);
        (self.read_out.logits)(x, &offsets)
    }

    /// Returns the logits that the model reads from the residual stream after the last layer.
    ///
    /// # Shapes
    /// (rows, answers).
    ///
    /// # Errors
    /// If the shapes do not match.
    ///
    /// # Panics
    /// If the recording is of a model with another number of layers.
    pub fn logits(&self, recording: &ResidualRecording<T>) -> Result<Array2<T>> {
        let depth = self.stack.layers();
        self.logits_at(recording, depth, 0..recording.residual[depth].nrows())
    }

    /// Patches each site of the first sequence in turn with the values of the second sequence, and measures the logits
    /// (Wang et al. 2022; Meng et al. 2022). `positions` has pairs: a position in the first sequence, and the position in
    /// the second one that replaces it. Only measures are kept, because a vocabulary may have 100,000 logits.
    ///
    /// # Errors
    /// If the shapes do not match.
    ///
    /// # Panics
    /// If a position is beyond its sequence.
    pub fn patch<M: Send>(
        &self,
        [text, other]: [&ResidualRecording<T>; 2],
        positions: &[[usize; 2]],
        measure: impl Fn(ArrayView1<'_, T>) -> M + Sync,
    ) -> Result<PatchedSites<M>> {
        let (stack, heads) = (&self.stack, self.stack.heads());
        let count = |site: SiteKind| match site {
            SiteKind::Heads | SiteKind::CrossHeads => heads,
            SiteKind::Residual | SiteKind::FeedForward => positions.len(),
        };
        let tokens = [text.residual[0].nrows(), self.read_out.decoded_tokens];
        let together = sequences_in_batch(tokens, self.read_out.answers);
        let mut jobs = Vec::new();
        for site in SiteKind::ALL {
            for layer in 0..stack.depths(site) {
                let starts = (0..count(site)).step_by(together);
                jobs.extend(starts.map(|start| (site, layer, start..(start + together).min(count(site)))));
            }
        }
        let measures = parallel_try_map(&jobs, |(site, layer, range)| {
            let logits = self.patched([text, other], positions, (*site, *layer), range.clone().collect::<Vec<_>>())?;
            Ok::<_, crate::Error>(logits.outer_iter().map(&measure).collect::<Vec<M>>())
        })?;
        let [residual, heads, cross_heads, feed_forward] =
            SiteKind::ALL.map(|site| (0..stack.depths(site)).map(|_| Vec::new()).collect());
        let mut sites = PatchedSites { residual, heads, cross_heads, feed_forward };
        for ((site, layer, _), measures) in jobs.iter().zip(measures) {
            sites.list(*site)[*layer].extend(measures);
        }
        Ok(sites)
    }

    /// Returns the logits of copies of the text. In copy i, the site `indices[i]` of a layer has the other's values.
    fn patched(
        &self,
        [text, other]: [&ResidualRecording<T>; 2],
        positions: &[[usize; 2]],
        (site, layer): (SiteKind, usize),
        indices: Vec<usize>,
    ) -> Result<Array2<T>> {
        let tokens = text.residual[0].nrows();
        let offsets = Offsets::from_lengths(indices.iter().map(|_| tokens));
        let replace_rows = |x: &mut Array2<T>, from: &Array2<T>| {
            for (copy, &position) in indices.iter().enumerate() {
                let [to, source] = positions[position];
                x.row_mut(copy * tokens + to).assign(&from.row(source));
            }
        };
        // The layers below compute the same for every copy.
        let mut x = Array2::from_elem((0, text.residual[layer].ncols()), T::ZERO);
        indices.iter().for_each(|_| append(&mut x, text.residual[layer].view()));
        if let SiteKind::Residual = site {
            replace_rows(&mut x, &other.residual[layer]);
        }
        let replace_heads = |x: &mut Array2<T>, from: &Array2<T>| {
            let width = x.ncols() / self.stack.heads().max(1);
            for (copy, &head) in indices.iter().enumerate() {
                let columns = Slice::from(head * width..(head + 1) * width);
                for &[to, source] in positions {
                    let (from, mut row) = (from.row(source), x.row_mut(copy * tokens + to));
                    row.slice_axis_mut(Axis(0), columns).assign(&from.slice_axis(Axis(0), columns));
                }
            }
        };
        let x = self.stack.run(self.params, x, &offsets, layer, &mut |at, values| match (site, at) {
            (SiteKind::FeedForward, ActivationSite::FeedForward(index)) if index == layer => {
                replace_rows(values, &other.feed_forward[layer]);
            }
            (SiteKind::Heads, ActivationSite::Heads(index)) if index == layer => {
                replace_heads(values, &other.heads[layer]);
            }
            (SiteKind::CrossHeads, ActivationSite::CrossHeads(index)) if index == layer => {
                replace_heads(values, &other.cross_heads[layer]);
            }
            _ => {}
        })?;
        (self.read_out.logits)(x, &offsets)
    }
}

fn append<T: Real>(rows: &mut Array2<T>, more: ArrayView2<'_, T>) {
    rows.append(Axis(0), more).expect("all rows have the same length");
}

impl<T> std::fmt::Debug for ResidualReader<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResidualReader").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prefixes_and_large_vocabularies_are_patched_in_small_batches() {
        assert_eq!(sequences_in_batch([8, 0], 3), PATCHED_TOKENS / 8);
        assert_eq!(sequences_in_batch([8, 512], 3), PATCHED_TOKENS / 512);
        assert_eq!(sequences_in_batch([8, 2], PATCHED_LOGITS / 3), 3);
        // Sequences of any length go through, and a model without answers too.
        assert_eq!([sequences_in_batch([5000, 0], 3), sequences_in_batch([0, 0], 0)], [1, PATCHED_TOKENS]);
    }
}
