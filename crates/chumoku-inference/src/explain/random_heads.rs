//! Statistics of random heads. A head gets a role only if its statistics exceed those of all random heads.
//!
//! Random heads have normally distributed queries and keys. They have the same tokens, width and mask as the real head.
//! A random share of each vector depends on the token, and the rest on its position, through sinusoids of all
//! wavelengths. This matters because random projections of positions attend along the diagonal by themselves.
//!
//! The scores are scaled until the rows are as concentrated as those of the real head. Sharpness alone therefore makes
//! no role. There are [`RANDOM_HEADS`] random heads. A head that is itself random exceeds all of them with probability
//! 1 / 400. With four roles, it gets one with a probability of at most 1 / 100.

use super::statistics::{HeadMeasures, measure_rows};
use chumoku_kernels::{Philox, SharedCache, parallel};
use std::ops::Range;
use std::sync::Arc;

/// The number of random heads for comparison.
pub(crate) const RANDOM_HEADS: usize = 399;

/// Factors of the scores, from uniform rows to the sharpest.
const FACTORS: [f32; 14] = [0.0, 0.35, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 24.0, 48.0, 128.0];

/// The number of sinusoids for positions.
const WAVES: usize = 16;

/// The maximum number of pairs of a query word and a key token. For longer texts, fewer queries are used, evenly
/// spread.
const MAX_PAIRS: usize = 12_000;

/// The seed of all random heads.
const SEED: u64 = 0x6368_756d_6f6b_7500;

/// The properties that random heads share with a real head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// The number of tokens in each word.
    pub(crate) tokens: Vec<usize>,
    /// Width of queries and keys.
    pub(crate) dim: usize,
    /// `true` if tokens cannot see later tokens.
    pub(crate) causal: bool,
}

/// The statistics of random heads of one shape.
#[derive(Debug)]
pub(crate) struct RandomHeads {
    /// For each head: entropy and role statistics, by increasing factor.
    heads: Vec<Vec<(f32, [f32; 4])>>,
}

/// Returns the query words used for comparison: all words, or an evenly spread selection.
pub(crate) fn sampled_queries(words: usize, tokens: usize) -> Vec<usize> {
    let count = words.min((MAX_PAIRS / tokens.max(1)).max(8));
    (0..count).map(|i| (2 * i + 1) * words / (2 * count)).collect()
}

/// The number of cached shapes, each with about 100 kB of statistics.
const CACHED_SHAPES: usize = 32;

/// The most recently used shapes.
static CACHE: SharedCache<Vec<(HeadShape, Arc<RandomHeads>)>> = SharedCache::new();

impl RandomHeads {
    pub(crate) fn for_shape(shape: &HeadShape) -> Arc<RandomHeads> {
        let known = CACHE.get().unwrap_or_default();
        if let Some((_, heads)) = known.iter().find(|(known, _)| known == shape) {
            return Arc::clone(heads);
        }
        let waves = waves(shape.tokens.iter().sum());
        let heads = parallel::map_indices(RANDOM_HEADS, |head| random_head(shape, &waves, head as u64));
        let found = Arc::new(RandomHeads { heads });
        let others = known.iter().take(CACHED_SHAPES - 1).cloned();
        CACHE.set(Arc::new(std::iter::once((shape.clone(), Arc::clone(&found))).chain(others).collect()));
        found
    }

    /// Returns the largest statistics of random heads with this entropy, in the order of
    /// [`HeadMeasures::role_figures`].
    pub(crate) fn largest_figures(&self, entropy: f32) -> [f32; 4] {
        let mut most = [f32::NEG_INFINITY; 4];
        for points in &self.heads {
            let found = interpolate(points, entropy);
            (0..4).for_each(|role| most[role] = most[role].max(found[role]));
        }
        most
    }
}

/// Interpolates the statistics at an entropy between the two nearest factors.
fn interpolate(points: &[(f32, [f32; 4])], entropy: f32) -> [f32; 4] {
    // The entropy falls as the factor rises.
    let after = points.partition_point(|(of, _)| *of > entropy);
    let (Some((high, from)), Some((low, to))) = (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after))
    else {
        return points[after.min(points.len() - 1)].1;
    };
    let share = if high > low { (high - entropy) / (high - low) } else { 0.0 };
    std::array::from_fn(|role| from[role] + share * (to[role] - from[role]))
}

/// Sine and cosine of the sinusoids at each position, [`WAVES`] pairs per token.
fn waves(tokens: usize) -> Vec<(f32, f32)> {
    let of = |token: usize, wave: usize| (token as f32 * 10_000f32.powf(-(wave as f32) / WAVES as f32)).sin_cos();
    (0..tokens).flat_map(|token| (0..WAVES).map(move |wave| of(token, wave))).collect()
}

/// Returns a random vector of `dim` values for each token. `share` of the variance depends on the position.
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
    // Scores of the tokens of each selected word, minus the largest in the row.
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
    fn a_statistic_must_exceed_that_of_every_random_head() {
        // Each role has its largest statistic in a different head.
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
