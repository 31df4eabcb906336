//! Integrated gradients (Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep Networks") of a classifier's
//! network. They integrate the log-odds of a class along a path from a neutral baseline to the text.

use super::attribution::PathIntegral;
use crate::nn::Offsets;
use crate::parallel_batches::batches_in_order;
use crate::params::Params;
use crate::text::windows;
use crate::text_models::classifier::TextClassifier;
use crate::{Error, Result, tr};
use chumoku_kernels::Precision;
use ndarray::{Array1, Array2, ArrayView1, Axis};
use std::borrow::Cow;
use std::ops::Range;

/// Nodes and weights of Gauss–Legendre quadrature on −1 to 1. Each node also stands for its negative.
const GAUSS: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_3),
];

/// The accepted gap, relative to the change in log-odds.
const TOLERANCE: f64 = 0.01;
/// The gap that is always accepted. Smaller gaps are not displayed.
pub(super) const NEGLIGIBLE_GAP: f64 = 1e-3;
/// The number of panels at which refinement stops.
const MAX_PANELS: usize = 32;
/// The maximum number of tokens differentiated at a time. It limits the memory for layer caches.
const BATCH_TOKENS: usize = 512;
/// The number of embedding rows summed at a time.
const EMBEDDING_ROWS: usize = 4096;

/// A network whose log-odds are integrated along paths.
pub(super) struct PathIntegrator<'a> {
    classifier: &'a TextClassifier,
    /// The network's parameters at the highest precision. Rounding would otherwise appear as a gap.
    params: Cow<'a, Params<f32>>,
    /// Parameter gradients, which are discarded.
    scratch: Params<f32>,
    /// The mean of all embeddings, which is the baseline of each text token: (d_model,).
    mean: Array1<f32>,
}

/// The integral between two points of a path.
struct QuadraturePanel {
    range: Range<f64>,
    /// The log-odds at both ends.
    ends: [f64; 2],
    /// The score of each token.
    scores: Vec<f64>,
}

impl QuadraturePanel {
    fn gap(&self) -> f64 {
        (self.scores.iter().sum::<f64>() - (self.ends[1] - self.ends[0])).abs()
    }
}

/// The path of one text.
struct TextPath<'p, 'a> {
    class: usize,
    windows: Vec<PathWindow>,
    paths: &'p mut PathIntegrator<'a>,
}

/// A window of the text.
struct PathWindow {
    /// The indices of its tokens in the text.
    tokens: Range<usize>,
    /// The token ids, special tokens included.
    ids: Vec<u32>,
    /// The token vectors: (ids, d_model).
    embeddings: Array2<f32>,
    /// The difference of the token vectors between the end and the start of the path. 0 for tokens that do not move.
    delta: Array2<f32>,
}

impl<'a> PathIntegrator<'a> {
    pub(super) fn new(of: &'a TextClassifier) -> Result<PathIntegrator<'a>> {
        let mut params = Cow::Borrowed(&of.params);
        if params.precision() != Precision::Highest {
            params.to_mut().set_precision(Precision::Highest);
        }
        let vocabulary = of.model.config().vocab_size;
        let mut mean = Array1::<f64>::zeros(of.model.config().backbone.d_model());
        let all: Vec<u32> = (0..vocabulary as u32).collect();
        for ids in all.chunks(EMBEDDING_ROWS) {
            for row in of.model.token_embeddings(&params, ids)?.rows() {
                mean.zip_mut_with(&row, |sum, &x| *sum += f64::from(x));
            }
        }
        let mean = mean.mapv(|sum| (sum / vocabulary.max(1) as f64) as f32);
        Ok(PathIntegrator { classifier: of, params, scratch: Params::zeros(of.model.layout()), mean })
    }

    /// Returns the scores of a text's tokens, and how well they sum to the change in the log-odds of `class`.
    ///
    /// Special tokens and the separator between two texts do not move. All windows of a long text move together.
    pub(super) fn integrate(&mut self, ids: &[u32], class: usize) -> Result<(Vec<f64>, PathIntegral)> {
        let mut path = TextPath { class, windows: self.windows(ids)?, paths: self };
        let ends = [path.log_odds(0.0)?, path.log_odds(1.0)?];
        let change = ends[1] - ends[0];
        let enough = (TOLERANCE * change.abs()).max(NEGLIGIBLE_GAP);
        let mut panels = vec![path.panel(0.0..1.0, ends)?];
        let gap = |panels: &[QuadraturePanel]| panels.iter().map(QuadraturePanel::gap).sum::<f64>();
        // The loop stops for NaN, which more panels cannot fix.
        while gap(&panels) > enough && panels.len() < MAX_PANELS {
            let worst = (0..panels.len()).fold(0, |worst, i| match panels[i].gap() > panels[worst].gap() {
                true => i,
                false => worst,
            });
            let QuadraturePanel { range, ends, .. } = panels.swap_remove(worst);
            let middle = 0.5 * (range.start + range.end);
            let between = path.log_odds(middle)?;
            panels.push(path.panel(range.start..middle, [ends[0], between])?);
            panels.push(path.panel(middle..range.end, [between, ends[1]])?);
        }
        let gap = gap(&panels);
        if !(gap + change).is_finite() {
            return Err(Error::NotFinite(tr!(
                "integrated gradients: the network's log-odds or their gradient is not a number on the path from the mean embedding \
                 to the text; --method leave-one-out needs no gradients",
                "integrated gradients: 平均の埋め込みからテキストまでの途中で、対数オッズかその勾配が数値になりません。--method \
                 leave-one-out は勾配を使いません"
            )));
        }
        let mut scores = vec![0.0; ids.len()];
        for panel in &panels {
            scores.iter_mut().zip(&panel.scores).for_each(|(sum, score)| *sum += score);
        }
        let [baseline, text, gap] = [ends[0], ends[1], gap].map(|x| x as f32);
        Ok((scores, PathIntegral { baseline, text, gap, nodes: 2 * GAUSS.len() * panels.len() }))
    }

    fn windows(&self, ids: &[u32]) -> Result<Vec<PathWindow>> {
        let template = self.classifier.input_template();
        let between = self.classifier.tokenizer.pair_separator();
        let before = template.special_tokens.prefix.len();
        let each = windows(ids.len(), template.window_size()).into_iter().map(|tokens| {
            let wrapped = template.special_tokens.wrap(&ids[tokens.clone()]);
            let end = self.classifier.model.token_embeddings(&self.params, &wrapped)?;
            let mut moved = Array2::zeros(end.dim());
            for (i, mut row) in moved.rows_mut().into_iter().enumerate().skip(before).take(tokens.len()) {
                if Some(wrapped[i]) != between {
                    row.assign(&(&end.row(i) - &self.mean));
                }
            }
            Ok(PathWindow { tokens, ids: wrapped, embeddings: end, delta: moved })
        });
        each.collect()
    }
}

/// Returns the log-odds of a class and their gradient. For labels and numbers, the log-odds of a class are its logit.
fn log_odds_and_gradient(of: &TextClassifier, logits: ArrayView1<'_, f64>, class: usize) -> (f64, Array1<f64>) {
    let mut gradient = Array1::zeros(logits.len());
    gradient[class] = 1.0;
    if !of.config.target.is_one_class() {
        return (logits[class], gradient);
    }
    // z_c − ln Σ_{k≠c} e^{z_k}
    let others = || logits.iter().enumerate().filter(|&(other, _)| other != class);
    let top = others().fold(f64::NEG_INFINITY, |top, (_, &z)| top.max(z));
    let sum: f64 = others().map(|(_, z)| (z - top).exp()).sum();
    for (other, z) in others() {
        gradient[other] = -(z - top).exp() / sum;
    }
    (logits[class] - top - sum.ln(), gradient)
}

impl TextPath<'_, '_> {
    /// Returns the log-odds at a point of the path, from 0 to 1.
    fn log_odds(&mut self, at: f64) -> Result<f64> {
        Ok(self.evaluate(&[at], false)?.0[0])
    }

    fn panel(&mut self, range: Range<f64>, ends: [f64; 2]) -> Result<QuadraturePanel> {
        let [middle, half] = [0.5 * (range.start + range.end), 0.5 * (range.end - range.start)];
        let nodes = || GAUSS.iter().flat_map(|&(x, weight)| [(-x, weight), (x, weight)]);
        let at: Vec<f64> = nodes().map(|(x, _)| middle + half * x).collect();
        let (_, along) = self.evaluate(&at, true)?;
        let mut scores = vec![0.0; self.windows.last().map_or(0, |window| window.tokens.end)];
        for ((_, weight), along) in nodes().zip(&along) {
            scores.iter_mut().zip(along).for_each(|(sum, x)| *sum += half * weight * x);
        }
        Ok(QuadraturePanel { range, ends, scores })
    }

    /// Evaluates the log-odds at some points of the path. If requested, also returns each token's part of the
    /// derivative along the path.
    fn evaluate(&mut self, points: &[f64], with_gradients: bool) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
        let PathIntegrator { classifier: of, params, scratch, .. } = &mut *self.paths;
        let (windows, model) = (&self.windows, &of.model);
        // Every window at every point is one sequence.
        let sequences: Vec<(usize, &PathWindow)> =
            (0..points.len()).flat_map(|point| windows.iter().map(move |window| (point, window))).collect();
        let lengths: Vec<usize> = sequences.iter().map(|(_, window)| window.ids.len()).collect();
        let order: Vec<usize> = (0..sequences.len()).collect();
        let batches = batches_in_order(&order, &lengths, BATCH_TOKENS);
        let forward = |batch: &[usize], params: &Params<f32>| {
            let (mut ids, mut x) = (Vec::new(), Vec::new());
            for (point, window) in batch.iter().map(|&sequence| sequences[sequence]) {
                ids.extend_from_slice(&window.ids);
                let back = (1.0 - points[point]) as f32;
                x.extend(window.embeddings.iter().zip(&window.delta).map(|(end, moved)| end - back * moved));
            }
            let offsets = Offsets::from_lengths(batch.iter().map(|&sequence| lengths[sequence]));
            let x =
                Array2::from_shape_vec((ids.len(), model.config().backbone.d_model()), x).expect("a vector a token");
            let (logits, cache) = model.forward_embedded(params, x, (&ids, &offsets))?;
            Ok::<_, Error>((logits, cache, offsets))
        };
        let tokens = windows.last().map_or(0, |window| window.tokens.end);
        let share = |window: &PathWindow| if tokens == 0 { 1.0 } else { window.tokens.len() as f64 / tokens as f64 };
        let mut joined = Array2::<f64>::zeros((points.len(), model.config().num_classes));
        let mut kept = None;
        for batch in &batches {
            let (logits, cache, offsets) = forward(batch, params)?;
            for (logits, &sequence) in logits.rows().into_iter().zip(batch) {
                let (point, window) = sequences[sequence];
                let part = share(window);
                joined.row_mut(point).zip_mut_with(&logits, |sum, &z| *sum += part * f64::from(z));
            }
            // A single batch keeps its cache and is not computed twice.
            kept = (batches.len() == 1 && with_gradients).then_some((cache, offsets));
        }
        let (params, scratch) = (&*params, scratch);
        let found: Vec<(f64, Array1<f64>)> =
            joined.axis_iter(Axis(0)).map(|logits| log_odds_and_gradient(of, logits, self.class)).collect();
        let log_odds = found.iter().map(|(odds, _)| *odds).collect();
        if !with_gradients {
            return Ok((log_odds, Vec::new()));
        }
        let mut along = vec![vec![0.0; tokens]; points.len()];
        for batch in &batches {
            let (cache, offsets) = match kept.take() {
                Some(kept) => kept,
                None => forward(batch, params).map(|(_, cache, offsets)| (cache, offsets))?,
            };
            let mut d_logits = Array2::zeros((batch.len(), model.config().num_classes));
            for (mut row, &sequence) in d_logits.rows_mut().into_iter().zip(batch) {
                let (point, window) = sequences[sequence];
                let part = share(window);
                row.zip_mut_with(&found[point].1, |to, &x| *to = (part * x) as f32);
            }
            let dx = model.backward_embedded(params, &offsets, &cache, d_logits.view(), scratch)?;
            let before = of.input_template().special_tokens.prefix.len();
            for (range, &sequence) in offsets.ranges().zip(batch) {
                let (point, window) = sequences[sequence];
                for (i, token) in window.tokens.clone().enumerate() {
                    let [dx, moved] = [dx.row(range.start + before + i), window.delta.row(before + i)];
                    along[point][token] = dx.iter().zip(moved).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                }
            }
        }
        Ok((log_odds, along))
    }
}
