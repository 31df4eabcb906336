//! Rows of queries, keys and values made ready for an engine, and which of them are not finite.

use super::engine::{Engine, KEYS, Matrix, Task};
use super::heads::Heads;
use super::{Attention, on_engine};
use crate::Element;
use crate::element::Narrow;
use crate::isa::Simd;

/// Rows `first..first + count` of a sequence and head.
pub(super) struct Rows<'a, T> {
    pub(super) from: Heads<'a, T>,
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Above this, a row's sum of squares is called not finite: the products of such rows may overflow.
const LARGEST_SQUARE: f32 = 1e37;

impl<T: Narrow> Rows<'_, T> {
    /// The rows as f32, with 0 in place of rows that are not finite (or above 1e18), which `is_bad` is told; and their
    /// sums of squares. Rows that are f32 and finite are not copied.
    ///
    /// `buffer` holds `count` rows. The result may be read while it and the rows live.
    #[inline(always)]
    pub(super) fn stage<S: Simd>(
        &self,
        simd: S,
        buffer: &mut [f32],
        squares: &mut [f32],
        mut is_bad: impl FnMut(usize),
    ) -> Matrix {
        let width = self.from.dim();
        let mut any_bad = false;
        for (i, (square, staged)) in squares.iter_mut().zip(buffer.chunks_exact_mut(width)).take(self.count).enumerate()
        {
            let row = self.from.row(self.sequence, self.head, self.first + i);
            let row = match T::as_f32(row) {
                Some(row) => row,
                None => {
                    T::widen(row, staged);
                    &*staged
                }
            };
            *square = sum_of_squares(simd, row);
            // Not `>=`: NaN is bad too.
            if !(*square < LARGEST_SQUARE) {
                (*square, any_bad) = (0.0, true);
                is_bad(i);
                staged.fill(0.0);
            }
        }
        let at = self.from.layout.at(self.sequence, self.head, self.first);
        let (rows, cols) = (self.count, width);
        match T::as_f32(self.from.data) {
            Some(data) if !any_bad => {
                Matrix { data: data[at.min(data.len())..].as_ptr(), stride: self.from.layout.row_stride, rows, cols }
            }
            Some(_) => {
                for (i, staged) in buffer.chunks_exact_mut(width).take(self.count).enumerate() {
                    let row = self.from.row(self.sequence, self.head, self.first + i);
                    if let Some(row) = T::as_f32(row)
                        && sum_of_squares(simd, row) < LARGEST_SQUARE
                    {
                        staged.copy_from_slice(row);
                    }
                }
                Matrix { data: buffer.as_ptr(), stride: width, rows, cols }
            }
            None => Matrix { data: buffer.as_ptr(), stride: width, rows, cols },
        }
    }
}

/// Σ x²
#[inline(always)]
fn sum_of_squares<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut sum = simd.splat(0.0);
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        let x = simd.load(x);
        sum = simd.mul_add(x, x, sum);
    }
    let mut total = simd.sum(sum);
    for x in vectors.remainder() {
        total += x * x;
    }
    total
}

/// Keys of one sequence and head whose key or value row is not finite.
pub(super) fn bad_keys<T: Narrow>(args: &Attention<T>, sequence: usize, head: usize) -> Vec<usize> {
    struct Scan<'a, 'b, T: Element> {
        args: &'a Attention<'a, T>,
        sequence: usize,
        head: usize,
        bad: &'b mut Vec<usize>,
    }
    impl<T: Narrow> Task for Scan<'_, '_, T> {
        #[inline(always)]
        fn eval<E: Engine>(self, engine: E) {
            let (args, keys) = (self.args, self.args.keys(self.sequence));
            let mut buffer = vec![0.0; KEYS * args.key.dim().max(args.value.dim())];
            let mut squares = [0.0; KEYS];
            for first in (0..keys).step_by(KEYS) {
                let count = KEYS.min(keys - first);
                for from in [args.key, args.value] {
                    let rows = Rows { from, sequence: self.sequence, head: self.head, first, count };
                    rows.stage(engine.simd(), &mut buffer, &mut squares, |j| self.bad.push(first + j));
                }
            }
        }
    }
    let mut bad = Vec::new();
    on_engine(args, Scan { args, sequence, head, bad: &mut bad });
    bad
}
