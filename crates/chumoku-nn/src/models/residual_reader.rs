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

/// The sizes that decide how much work it is to patch every site of a stack of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchingSizes {
    /// The number of layers.
    pub layers: usize,
    /// The number of heads of each attention.
    pub heads: usize,
    /// True for a decoder, whose layers have two attentions.
    pub has_cross_attention: bool,
    /// The number of tokens of the patched sequence.
    pub tokens: usize,
    /// The number of patched positions.
    pub positions: usize,
    /// The number of tokens that a decoder after the layers reads for each sequence; 0 without one.
    pub decoded_tokens: usize,
    /// The number of logits of a sequence.
    pub answers: usize,
}

/// The work of patching every site. The layers below a site run once, when the sequence is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchingWork {
    /// The number of sites. The answers are read once for each.
    pub sites: usize,
    /// The number of layers that a patched sequence goes through, summed over all sites.
    pub layers: usize,
    /// The same, with the sites that are patched together counted once. They share keys and values of the memory.
    pub layers_of_batches: usize,
}

/// Sites of one kind in one layer that are patched together, each in its own copy of the sequence.
struct PatchedBatch {
    site: SiteKind,
    layer: usize,
    indices: Range<usize>,
}

impl PatchingSizes {
    /// Returns the number of sequences that are patched together.
    fn sequences_in_batch(&self) -> usize {
        let tokens = self.tokens.max(self.decoded_tokens).max(1);
        (PATCHED_TOKENS / tokens).min(PATCHED_LOGITS / self.answers.max(1)).max(1)
    }

    /// Returns the number of layers with such sites. A residual stream also has one after the last layer.
    fn depths(&self, site: SiteKind) -> usize {
        match site {
            SiteKind::Residual => self.layers + 1,
            SiteKind::CrossHeads if !self.has_cross_attention => 0,
            _ => self.layers,
        }
    }

    /// Returns all sites in batches.
    fn batches(&self) -> impl Iterator<Item = PatchedBatch> + use<'_> {
        let together = self.sequences_in_batch();
        let count = |site: SiteKind| match site {
            SiteKind::Heads | SiteKind::CrossHeads => self.heads,
            SiteKind::Residual | SiteKind::FeedForward => self.positions,
        };
        let in_layer = move |site: SiteKind, layer: usize| {
            let starts = (0..count(site)).step_by(together);
            starts.map(move |start| PatchedBatch { site, layer, indices: start..(start + together).min(count(site)) })
        };
        SiteKind::ALL
            .into_iter()
            .flat_map(move |site| (0..self.depths(site)).flat_map(move |layer| in_layer(site, layer)))
    }

    /// Returns the work of [`ResidualReader::patch`].
    pub fn work(&self) -> PatchingWork {
        let mut work = PatchingWork::default();
        for PatchedBatch { layer, indices, .. } in self.batches() {
            let layers = self.layers - layer;
            work.sites += indices.len();
            work.layers += layers * indices.len();
            work.layers_of_batches += layers;
        }
        work
    }
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
        let sizes = PatchingSizes {
            layers: self.stack.layers(),
            heads: self.stack.heads(),
            has_cross_attention: matches!(self.stack, LayerStack::Decoder(..)),
            tokens: text.residual[0].nrows(),
            positions: positions.len(),
            decoded_tokens: self.read_out.decoded_tokens,
            answers: self.read_out.answers,
        };
        let batches: Vec<PatchedBatch> = sizes.batches().collect();
        let measures = parallel_try_map(&batches, |PatchedBatch { site, layer, indices }| {
            let logits = self.patched([text, other], positions, (*site, *layer), indices.clone().collect())?;
            Ok::<_, crate::Error>(logits.outer_iter().map(&measure).collect::<Vec<M>>())
        })?;
        let [residual, heads, cross_heads, feed_forward] =
            SiteKind::ALL.map(|site| (0..sizes.depths(site)).map(|_| Vec::new()).collect());
        let mut sites = PatchedSites { residual, heads, cross_heads, feed_forward };
        for (PatchedBatch { site, layer, .. }, measures) in batches.iter().zip(measures) {
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

    const SIZES: PatchingSizes = PatchingSizes {
        layers: 2,
        heads: 4,
        has_cross_attention: false,
        tokens: 8,
        positions: 8,
        decoded_tokens: 0,
        answers: 3,
    };

    #[test]
    fn long_prefixes_and_large_vocabularies_are_patched_in_small_batches() {
        let together = |tokens, decoded_tokens, answers| {
            PatchingSizes { tokens, decoded_tokens, answers, ..SIZES }.sequences_in_batch()
        };
        assert_eq!(together(8, 0, 3), PATCHED_TOKENS / 8);
        assert_eq!(together(8, 512, 3), PATCHED_TOKENS / 512);
        assert_eq!(together(8, 2, PATCHED_LOGITS / 3), 3);
        // Sequences of any length go through, and a model without answers too.
        assert_eq!([together(5000, 0, 3), together(0, 0, 0)], [1, PATCHED_TOKENS]);
    }

    #[test]
    fn work_counts_the_layers_above_each_site() {
        // Residual streams run 2, 1 and 0 layers; heads and feed-forward networks 2 and 1.
        let work = PatchingWork { sites: 3 * 8 + 2 * 4 + 2 * 8, layers: 3 * (8 + 4 + 8), layers_of_batches: 9 };
        assert_eq!(SIZES.work(), work);
        let decoder = PatchingSizes { has_cross_attention: true, ..SIZES };
        let of_decoder = PatchingWork { sites: work.sites + 8, layers: work.layers + 12, layers_of_batches: 12 };
        assert_eq!(decoder.work(), of_decoder);
        // Long sequences are patched one at a time.
        let long = PatchingSizes { tokens: PATCHED_TOKENS, ..SIZES };
        assert_eq!(long.work(), PatchingWork { layers_of_batches: work.layers, ..work });
        // Few positions of a long text.
        let few = PatchingSizes { positions: 1, ..long };
        assert_eq!(few.work(), PatchingWork { sites: 3 + 8 + 2, layers: 3 * 6, layers_of_batches: 18 });
    }
}
