//! The gated product of feed-forward networks.

use super::{Activation, reference, value_and_slope};
use crate::isa::{self, Simd, SimdOp};
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// Computes the gated product `y = f(g) ∘ u` of rows that contain g and u side by side: the first half is activated,
/// and the second is multiplied by it.
///
/// With g = xW and u = xV this is the inner part of GEGLU (GELU), SwiGLU (SiLU) and ReGLU (ReLU). One product with both
/// matrices side by side gives such rows. Files that store the halves in the opposite order must be reordered on
/// loading.
///
/// Maximum relative error in f32: that of f (see [`Activation`]) plus 6e-8. Non-finite values propagate: 0 · NaN and 0
/// · ∞ are NaN.
///
/// # Shapes
/// `x` (tokens, 2·width): g, then u; `y` (tokens, width).
///
/// # Errors
/// If `width` is 0 or too large for memory, or the lengths do not match.
///
/// Source: Shazeer, "GLU Variants Improve Transformer" (2020), equations 5 and 6.
pub fn gated_forward<T: Real>(kind: Activation, x: &[T], width: usize, y: &mut [T]) -> Result<()> {
    let tokens = token_count(x.len(), width)?;
    Error::check_length("gated product: y", tokens * width, y.len())?;
    let _timed = profile::memory_bound::<T>("gated product", x.len() / 2 * 3);
    T::run::<GatedForward>((kind, x, width, y));
    Ok(())
}

/// Computes the gradients of both halves, `dg = dy ∘ u ∘ f′(g)` and `du = dy ∘ f(g)`, from the input of the forward
/// pass. f is recomputed.
///
/// Maximum relative error in f32: those of f′ and f (see [`Activation`]) plus 1.2e-7.
///
/// # Shapes
/// `x` (tokens, 2·width), as in the forward pass; `dy` (tokens, width); `dx` (tokens, 2·width): dg, then du.
///
/// # Errors
/// If `width` is 0 or too large for memory, or the lengths do not match.
pub fn gated_backward<T: Real>(kind: Activation, x: &[T], width: usize, dy: &[T], dx: &mut [T]) -> Result<()> {
    let tokens = token_count(x.len(), width)?;
    Error::check_length("gated product: dy", tokens * width, dy.len())?;
    Error::check_length("gated product: dx", x.len(), dx.len())?;
    let _timed = profile::memory_bound::<T>("gated product, backward", x.len() / 2 * 5);
    T::run::<GatedBackward>((kind, x, width, dy, dx));
    Ok(())
}

/// Returns the number of rows of 2·width.
fn token_count(len: usize, width: usize) -> Result<usize> {
    let Some(row) = width.checked_mul(2).filter(|&row| row > 0) else {
        let problem = format!("expected from 1 to {}, got {width}", usize::MAX / 2);
        return Err(Error::value("gated product: width", problem));
    };
    if !len.is_multiple_of(row) {
        let problem = format!("expected rows of {row} values, 2 · {width}, got {len} values");
        return Err(Error::value("gated product: x", problem));
    }
    Ok(len / row)
}

implementations! {
    /// Both implementations of [`gated_forward`].
    GatedForward<'a, T>(kind: Activation, x: &'a [T], width: usize, y: &'a mut [T]) -> () {
        fast: forward_f32,
        reference: reference::gated_forward,
    }
}

implementations! {
    /// Both implementations of [`gated_backward`].
    GatedBackward<'a, T>(kind: Activation, x: &'a [T], width: usize, dy: &'a [T], dx: &'a mut [T]) -> () {
        fast: backward_f32,
        reference: reference::gated_backward,
    }
}

/// Results in a piece of work, in whole rows, at least one.
const PIECE: usize = 1 << 13;

struct GatedForwardRows<'a> {
    kind: Activation,
    x: &'a [f32],
    width: usize,
    y: &'a mut [f32],
}

impl SimdOp for GatedForwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        for (x, y) in self.x.chunks_exact(2 * self.width).zip(self.y.chunks_exact_mut(self.width)) {
            let (g, u) = x.split_at(self.width);
            for ((g, u), y) in g.chunks(S::LANES).zip(u.chunks(S::LANES)).zip(y.chunks_mut(S::LANES)) {
                let (f, _) = value_and_slope(simd, self.kind, simd.load_up_to(g, 0.0));
                simd.store_up_to(y, simd.mul(f, simd.load_up_to(u, 0.0)));
            }
        }
    }
}

fn forward_f32(kind: Activation, x: &[f32], width: usize, y: &mut [f32]) {
    let (tokens, size) = (y.len() / width, PIECE.div_ceil(width));
    let work = y.len() * 5;
    let y = SharedMut::new(y);
    for_each(tokens.div_ceil(size), work, |piece| {
        let (first, count) = (piece * size, size.min(tokens - piece * size));
        // SAFETY: each piece is its own range of rows.
        let y = unsafe { y.slice(first * width, count * width) };
        isa::dispatch(GatedForwardRows { kind, x: &x[2 * first * width..][..2 * count * width], width, y });
    });
}

struct GatedBackwardRows<'a> {
    kind: Activation,
    x: &'a [f32],
    width: usize,
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl SimdOp for GatedBackwardRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let rows = self.x.chunks_exact(2 * self.width).zip(self.dy.chunks_exact(self.width));
        for ((x, dy), dx) in rows.zip(self.dx.chunks_exact_mut(2 * self.width)) {
            let ((g, u), (dg, du)) = (x.split_at(self.width), dx.split_at_mut(self.width));
            let inputs = g.chunks(S::LANES).zip(u.chunks(S::LANES)).zip(dy.chunks(S::LANES));
            let outputs = dg.chunks_mut(S::LANES).zip(du.chunks_mut(S::LANES));
            for (((g, u), dy), (dg, du)) in inputs.zip(outputs) {
                let d = simd.load_up_to(dy, 0.0);
                let (f, slope) = value_and_slope(simd, self.kind, simd.load_up_to(g, 0.0));
                // y = f(g)·u  →  dg = dy·u·f′(g), du = dy·f(g)
                simd.store_up_to(dg, simd.mul(simd.mul(d, simd.load_up_to(u, 0.0)), slope));
                simd.store_up_to(du, simd.mul(d, f));
            }
        }
    }
}

fn backward_f32(kind: Activation, x: &[f32], width: usize, dy: &[f32], dx: &mut [f32]) {
    let (tokens, size) = (dy.len() / width, PIECE.div_ceil(width));
    let dx = SharedMut::new(dx);
    for_each(tokens.div_ceil(size), dy.len() * 9, |piece| {
        let (first, count) = (piece * size, size.min(tokens - piece * size));
        let both = 2 * first * width..2 * (first + count) * width;
        // SAFETY: each piece is its own range of rows.
        let dx = unsafe { dx.slice(both.start, both.len()) };
        let dy = &dy[first * width..][..count * width];
        isa::dispatch(GatedBackwardRows { kind, x: &x[both], width, dy, dx });
    });
}
