//! Pooling: from token vectors to one vector per sequence.

use super::{Offsets, zeros};
use chumoku_kernels::Real;
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// The pooling method. A sequence without tokens gets zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean over tokens.
    Mean,
    /// The maximum of each column.
    Max,
    /// The first token's vector.
    First,
    /// The last token's vector.
    Last,
    /// The sum over tokens, divided by the square root of their number.
    MeanSqrtLength,
}

/// For [`Pooling::Max`], the token that each column of each sequence came from.
#[derive(Clone, Debug)]
pub struct PoolingCache(Vec<usize>);

impl Pooling {
    /// Returns one vector per sequence, and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, width) → (sequences, width).
    pub fn forward<T: Real>(self, x: ArrayView2<'_, T>, offsets: &Offsets) -> (Array2<T>, PoolingCache) {
        let width = x.ncols();
        let mut y = zeros((offsets.sequences(), width));
        let mut from = Vec::new();
        for (s, range) in offsets.ranges().enumerate() {
            let Some(first) = range.clone().next() else {
                from.extend((self == Pooling::Max).then_some(usize::MAX).into_iter().cycle().take(width));
                continue;
            };
            let mut y = y.row_mut(s);
            match self {
                Pooling::First => y.assign(&x.row(first)),
                Pooling::Last => y.assign(&x.row(range.end - 1)),
                Pooling::Mean | Pooling::MeanSqrtLength => {
                    let share = self.token_weight(range.len());
                    for token in range {
                        y.zip_mut_with(&x.row(token), |y, &x| *y += x * share);
                    }
                }
                Pooling::Max => {
                    for column in 0..width {
                        let largest = |best, token| if x[[token, column]] > x[[best, column]] { token } else { best };
                        let token = range.clone().fold(first, largest);
                        y[column] = x[[token, column]];
                        from.push(token);
                    }
                }
            }
        }
        (y, PoolingCache(from))
    }

    /// Returns the weight of each token in a mean over `tokens` tokens.
    fn token_weight<T: Real>(self, tokens: usize) -> T {
        let tokens = T::round_from(tokens as f64);
        T::ONE / if self == Pooling::MeanSqrtLength { T::round_from(tokens.to_f64().sqrt()) } else { tokens }
    }

    /// Returns the gradient of x.
    ///
    /// # Shapes
    /// `dy` (sequences, width) → dx (tokens, width).
    pub fn backward<T: Real>(self, cache: &PoolingCache, offsets: &Offsets, dy: ArrayView2<'_, T>) -> Array2<T> {
        let width = dy.ncols();
        let mut dx = zeros((offsets.tokens(), width));
        for (s, range) in offsets.ranges().enumerate().filter(|(_, range)| !range.is_empty()) {
            match self {
                Pooling::First => dx.row_mut(range.start).assign(&dy.row(s)),
                Pooling::Last => dx.row_mut(range.end - 1).assign(&dy.row(s)),
                Pooling::Mean | Pooling::MeanSqrtLength => {
                    let share = self.token_weight(range.len());
                    for token in range {
                        dx.row_mut(token).zip_mut_with(&dy.row(s), |dx, &dy| *dx = dy * share);
                    }
                }
                Pooling::Max => {
                    for column in 0..width {
                        dx[[cache.0[s * width + column], column]] = dy[[s, column]];
                    }
                }
            }
        }
        dx
    }
}
