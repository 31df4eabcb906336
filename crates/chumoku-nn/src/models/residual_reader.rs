//! The residual stream of an encoder model, recorded and patched, with the answers that the model reads from it.

use crate::Result;
use crate::layers::{ActivationSite, Encoder, Offsets};
use crate::params::Params;
use chumoku_kernels::{Real, parallel_try_map};
use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Slice};

/// Number of tokens that go through the layers together while sites are patched.
const PATCHED_TOKENS: usize = 1024;

/// Computes logits from the residual stream after some layer: (tokens, d_model) → (rows, answers).
type ReadOut<'a, T> = Box<dyn Fn(Array2<T>, &Offsets) -> Result<Array2<T>> + Sync + 'a>;

/// An encoder with the part of its model that computes logits from the residual stream.
pub struct ResidualReader<'a, T> {
    encoder: &'a Encoder,
    params: &'a Params<T>,
    read_out: ReadOut<'a, T>,
}

/// The values at every site of an encoder while it reads one sequence. Each field but `residual` has one array per
/// layer.
#[derive(Clone, Debug)]
pub struct EncoderRecording<T> {
    /// The residual stream before each layer and after the last: (tokens, d_model).
    pub residual: Vec<Array2<T>>,
    /// The outputs of the heads before W_O: (tokens, heads · value width).
    pub heads: Vec<Array2<T>>,
    /// The output of attention: (tokens, d_model).
    pub attention: Vec<Array2<T>>,
    /// The output of the feed-forward network: (tokens, d_model).
    pub feed_forward: Vec<Array2<T>>,
}

/// A measure of the logits of one sequence after patching each site with the values of another sequence.
#[derive(Clone, Debug)]
pub struct PatchedSites<M> {
    /// For each depth, before the first layer to after the last: one for each patched position.
    pub residual: Vec<Vec<M>>,
    /// For each layer, the output of each head at all patched positions: one for each head.
    pub heads: Vec<Vec<M>>,
    /// For each layer: one for each patched position.
    pub feed_forward: Vec<Vec<M>>,
}

/// One kind of site in one layer.
#[derive(Clone, Copy)]
enum SiteKind {
    Residual,
    Heads,
    FeedForward,
}

impl<'a, T: Real> ResidualReader<'a, T> {
    /// Builds a reader; `read_out` computes logits from the residual stream before the final norm.
    pub(super) fn new(
        encoder: &'a Encoder,
        params: &'a Params<T>,
        read_out: impl Fn(Array2<T>, &Offsets) -> Result<Array2<T>> + Sync + 'a,
    ) -> Self {
        ResidualReader { encoder, params, read_out: Box::new(read_out) }
    }

    /// Records what the encoder computes for one sequence. `x` has its embeddings.
    ///
    /// # Shapes
    /// `x` (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn record(&self, x: Array2<T>) -> Result<EncoderRecording<T>> {
        let offsets = Offsets::from_lengths([x.nrows()]);
        let mut found = EncoderRecording {
            residual: Vec::new(),
            heads: Vec::new(),
            attention: Vec::new(),
            feed_forward: Vec::new(),
        };
        self.encoder.run_with_hook(self.params, x, &offsets, 0, &mut |site, values| {
            let list = match site {
                ActivationSite::Residual(_) => &mut found.residual,
                ActivationSite::Heads(_) => &mut found.heads,
                ActivationSite::Attention(_) => &mut found.attention,
                ActivationSite::FeedForward(_) => &mut found.feed_forward,
            };
            list.push(values.clone());
        })?;
        Ok(found)
    }

    /// Returns the logits that the model reads from the residual stream before the first layer and after each layer:
    /// the logit lens (nostalgebraist 2020).
    ///
    /// # Shapes
    /// (rows, answers) for each depth.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn logit_lens(&self, recording: &EncoderRecording<T>) -> Result<Vec<Array2<T>>> {
        recording.residual.iter().map(|x| (self.read_out)(x.clone(), &Offsets::from_lengths([x.nrows()]))).collect()
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
    /// If the recording is of an encoder with another number of layers.
    pub fn logits(&self, recording: &EncoderRecording<T>) -> Result<Array2<T>> {
        let x = &recording.residual[self.encoder.layers().len()];
        (self.read_out)(x.clone(), &Offsets::from_lengths([x.nrows()]))
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
        [text, other]: [&EncoderRecording<T>; 2],
        positions: &[[usize; 2]],
        measure: impl Fn(ArrayView1<'_, T>) -> M + Sync,
    ) -> Result<PatchedSites<M>> {
        let layers = self.encoder.layers().len();
        let heads = self.encoder.layers().first().map_or(0, |layer| layer.num_heads());
        let count = |site: SiteKind| if let SiteKind::Heads = site { heads } else { positions.len() };
        let copies = (PATCHED_TOKENS / text.residual[0].nrows().max(1)).max(1);
        let mut jobs = Vec::new();
        for site in [SiteKind::Residual, SiteKind::Heads, SiteKind::FeedForward] {
            for layer in 0..layers + usize::from(matches!(site, SiteKind::Residual)) {
                let starts = (0..count(site)).step_by(copies);
                jobs.extend(starts.map(|start| (site, layer, start..(start + copies).min(count(site)))));
            }
        }
        let measures = parallel_try_map(&jobs, |(site, layer, range)| {
            let logits = self.patched([text, other], positions, (*site, *layer), range.clone().collect::<Vec<_>>())?;
            Ok::<_, crate::Error>(logits.outer_iter().map(&measure).collect::<Vec<M>>())
        })?;
        let empty = |layers: usize| (0..layers).map(|_| Vec::new()).collect();
        let mut sites = PatchedSites { residual: empty(layers + 1), heads: empty(layers), feed_forward: empty(layers) };
        for ((site, layer, _), measures) in jobs.iter().zip(measures) {
            let list = match site {
                SiteKind::Residual => &mut sites.residual,
                SiteKind::Heads => &mut sites.heads,
                SiteKind::FeedForward => &mut sites.feed_forward,
            };
            list[*layer].extend(measures);
        }
        Ok(sites)
    }

    /// Returns the logits of copies of the text. In copy i, the site `indices[i]` of a layer has the other's values.
    fn patched(
        &self,
        [text, other]: [&EncoderRecording<T>; 2],
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
        let x = self.encoder.run_with_hook(self.params, x, &offsets, layer, &mut |at, values| match (site, at) {
            (SiteKind::FeedForward, ActivationSite::FeedForward(index)) if index == layer => {
                replace_rows(values, &other.feed_forward[layer]);
            }
            (SiteKind::Heads, ActivationSite::Heads(index)) if index == layer => {
                let width = values.ncols() / self.encoder.layers()[layer].num_heads().max(1);
                for (copy, &head) in indices.iter().enumerate() {
                    let columns = Slice::from(head * width..(head + 1) * width);
                    for &[to, source] in positions {
                        let from = other.heads[layer].row(source);
                        let mut row = values.row_mut(copy * tokens + to);
                        row.slice_axis_mut(Axis(0), columns).assign(&from.slice_axis(Axis(0), columns));
                    }
                }
            }
            _ => {}
        })?;
        (self.read_out)(x, &offsets)
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
