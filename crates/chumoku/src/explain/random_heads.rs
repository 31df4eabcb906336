//! What heads do by chance: the figures of random heads, which those of a real one must exceed before a role is named.
//!
//! A random head has queries and keys drawn from the normal distribution, for the same tokens, of the same width and with the
//! same mask as the real one. Each is made, in a share that is drawn too, of what a token is and of where it stands (waves
//! of all lengths, as sinusoidal positions have), because random projections of positions look along the diagonal by
//! themselves. Its scores are scaled until its rows are as concentrated as those of the real head, so that sharpness alone
//! makes no role. There are [`RANDOM_HEADS`], and a figure counts if it exceeds theirs all: a head that is one of them does
//! so with probability 1 / 400, and with four roles gets one with probability 1 / 100 at most.

use super::statistics::{HeadMeasures, measure_rows};
use chumoku_kernels::{Philox, parallel};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Random heads that a head is compared with.
pub(crate) const RANDOM_HEADS: usize = 399;

/// Factors of the scores, from the most even rows to the sharpest.
const FACTORS: [f32; 14] = [0.0, 0.35, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 24.0, 48.0, 128.0];

/// Waves of positions.
const WAVES: usize = 16;

/// Pairs of a query word and a key token that are looked at; of longer texts fewer queries, evenly spread.
const MAX_PAIRS: usize = 12_000;

/// The seed of all random heads.
const SEED: u64 = 0x6368_756d_6f6b_7500;

/// What random heads depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// Tokens of each word.
    pub(crate) tokens: Vec<usize>,
    /// Width of queries and keys.
    pub(crate) dim: usize,
    /// Whether a token sees none of those after it.
    pub(crate) causal: bool,
}

/// The figures of random heads of one shape.
#[derive(Debug)]
pub(crate) struct RandomHeads {
    /// Of each head its entropy and the figures of roles, for rising factors.
    heads: Vec<Vec<(f32, [f32; 4])>>,
}

/// The query words by which heads of this many words and tokens are compared: all, or some evenly spread.
pub(crate) fn sampled_queries(words: usize, tokens: usize) -> Vec<usize> {
    let count = words.min((MAX_PAIRS / tokens.max(1)).max(8));
    (0..count).map(|i| (2 * i + 1) * words / (2 * count)).collect()
}

/// Shapes that are remembered, each with about 100 kB of figures.
const CACHED_SHAPES: usize = 32;

/// The last shapes that were asked for.
static CACHE: Mutex<Vec<(HeadShape, Arc<RandomHeads>)>> = Mutex::new(Vec::new());

impl RandomHeads {
    pub(crate) fn for_shape(shape: &HeadShape) -> Arc<RandomHeads> {
        let find =
            |known: &[(HeadShape, Arc<RandomHeads>)]| known.iter().find(|(of, _)| of == shape).map(|(_, c)| c.clone());
        if let Some(found) = find(&CACHE.lock().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        let waves = waves(shape.tokens.iter().sum());
        let heads = parallel::map_indices(RANDOM_HEADS, |head| random_head(shape, &waves, head as u64));
        let found = Arc::new(RandomHeads { heads });
        let mut known = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(0, (shape.clone(), found.clone()));
        known.truncate(CACHED_SHAPES);
        found
    }

    /// The largest figures, in the order of [`Measures::of_roles`], that random heads of this entropy have.
    pub(crate) fn largest_figures(&self, entropy: f32) -> [f32; 4] {
        let mut most = [f32::NEG_INFINITY; 4];
        for points in &self.heads {
            let found = interpolate(points, entropy);
            (0..4).for_each(|role| most[role] = most[role].max(found[role]));
        }
        most
    }
}

/// The figures at an entropy, between those of the two factors around it.
fn interpolate(points: &[(f32, [f32; 4])], entropy: f32) -> [f32; 4] {
    // Entropy falls as the factor rises.
    let after = points.partition_point(|(of, _)| *of > entropy);
    let (Some((high, from)), Some((low, to))) = (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after))
    else {
        return points[after.min(points.len() - 1)].1;
    };
    let share = if high > low { (high - entropy) / (high - low) } else { 0.0 };
    std::array::from_fn(|role| from[role] + share * (to[role] - from[role]))
}

/// Sine and cosine of the waves at each position, [`WAVES`] pairs a token.
fn waves(tokens: usize) -> Vec<(f32, f32)> {
    let of = |token: usize, wave: usize| (token as f32 * 10_000f32.powf(-(wave as f32) / WAVES as f32)).sin_cos();
    (0..tokens).flat_map(|token| (0..WAVES).map(move |wave| of(token, wave))).collect()
}

/// Vectors of `dim` numbers for each token, a row of `waves`: `share` of their variance is by position.
fn random_vectors(random: &Philox, waves: &[(f32, f32)], dim: usize, share: f32) -> Vec<f32> {
    let tokens = waves.len() / WAVES;
    let normal = |index: usize| random.normal(index as u64);
    let [by_token, by_place] = [(1.0 - share).sqrt(), (share / WAVES as f32).sqrt()];
    let mut found: Vec<f32> = (0..tokens * dim).map(|i| by_token * normal(i)).collect();
    let coefficients: Vec<f32> = (0..2 * WAVES * dim).map(|i| by_place * normal(tokens * dim + i)).collect();
    for (vector, waves) in found.chunks_exact_mut(dim).zip(waves.chunks_exact(WAVES)) {
        for (&(sin, cos), pair) in waves.iter().zip(coefficients.chunks_exact(2 * dim)) {
            let (of_sin, of_cos) = pair.split_at(dim);
            vector.iter_mut().zip(of_sin.iter().zip(of_cos)).for_each(|(x, (a, b))| *x += a * sin + b * cos);
        }
    }
    found
}

fn random_head(shape: &HeadShape, waves: &[(f32, f32)], index: u64) -> Vec<(f32, [f32; 4])> {
    let mut end = 0;
    let words: Vec<Range<usize>> = shape.tokens.iter().map(|&count| (end..end + count, end += count).0).collect();
    let (tokens, dim) = (end, shape.dim.max(1));
    let [of_share, of_queries, of_keys] = [0, 1, 2].map(|part| Philox::new(SEED, 3 * index + part));
    let share = of_share.uniform(0);
    let [query, key] = [&of_queries, &of_keys].map(|random| random_vectors(random, waves, dim, share));
    let at = |vectors: &[f32], token: usize| vectors[token * dim..][..dim].to_vec();
    let chosen = sampled_queries(words.len(), tokens);
    // Scores of the tokens of each chosen word, less the largest of their row.
    let scores: Vec<Vec<Vec<f32>>> = chosen
        .iter()
        .map(|&word| {
            let of_token = |i: usize| {
                let query = at(&query, i);
                let seen = if shape.causal { i + 1 } else { tokens };
                let score = |key: &[f32]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() / (dim as f32).sqrt();
                let row: Vec<f32> = key.chunks_exact(dim).take(seen).map(score).collect();
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.into_iter().map(|score| score - most).collect::<Vec<f32>>()
            };
            words[word].clone().map(of_token).collect()
        })
        .collect();
    let of_factor = |factor: f32| {
        let rows: Vec<Vec<f32>> = scores
            .iter()
            .zip(&chosen)
            .map(|(of_tokens, &word)| {
                let seen = if shape.causal { word + 1 } else { words.len() };
                let mut row = vec![0.0f32; seen];
                for scores in of_tokens {
                    let weights: Vec<f32> = scores.iter().map(|score| (factor * score).exp()).collect();
                    let total = weights.iter().sum::<f32>() * of_tokens.len() as f32;
                    for (sum, tokens) in row.iter_mut().zip(&words) {
                        let tokens = tokens.start.min(weights.len())..tokens.end.min(weights.len());
                        *sum += weights[tokens].iter().sum::<f32>() / total;
                    }
                }
                row
            })
            .collect();
        let found: HeadMeasures = measure_rows(words.len(), chosen.iter().copied().zip(rows.iter().map(Vec::as_slice)));
        (found.entropy, found.role_figures())
    };
    FACTORS.map(of_factor).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_must_exceed_that_of_every_random_head() {
        // Each role has its largest figure in a head of its own.
        let head = |of: usize| {
            let figures = std::array::from_fn(|role| if role == of { 0.9 } else { of as f32 / 1000.0 });
            vec![(1.0, [0.0; 4]), (0.5, figures), (0.0, [1.0; 4])]
        };
        let chance = RandomHeads { heads: (0..RANDOM_HEADS).map(head).collect() };
        assert_eq!(chance.largest_figures(0.5), [0.9; 4]);
        // Between two factors, and beyond the last ones.
        assert_eq!(chance.largest_figures(0.75), [0.45; 4]);
        assert_eq!((chance.largest_figures(2.0), chance.largest_figures(-1.0)), ([0.0; 4], [1.0; 4]));
        assert_eq!(RandomHeads::for_shape(&HeadShape { tokens: vec![1; 4], dim: 2, causal: false }).heads.len(), 399);
    }
}
