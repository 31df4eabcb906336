//! The number types: `f32` runs the fast kernels, `f64` the plain reference.

use crate::activation::Activation;
use crate::adamw::AdamW;
use crate::dropout::Keep;
use crate::element::Element;
use crate::gemm::{MatMut, MatRef, Operand, PackedMatrix, Precision, Product, Start};
use crate::loss::CrossEntropy;
use crate::memory::written;
use crate::recurrent::{self, Deltas, Recurrence, Trace};
use crate::rotary::Rotate;
use crate::threads::for_each;
use crate::{activation, adamw, dropout, embedding, gemm, loss, norm, reference, rotary, softmax, sum};
use std::fmt::Display;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A floating-point type that the operations are defined for.
///
/// The provided methods are the plain reference; `f64` uses them as they are, `f32` replaces each with its fast
/// version. They are called through the checked functions at the top of the crate.
pub trait Real:
    Element<Sum = Self>
    + Display
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// −∞
    const NEG_INFINITY: Self;

    /// eˣ
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// √x
    fn sqrt(self) -> Self;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// The larger of two numbers; NaN if either is.
    fn max(self, other: Self) -> Self {
        let is_nan = self.partial_cmp(&self).is_none();
        if self > other || is_nan { self } else { other }
    }

    #[doc(hidden)]
    fn gemm(a: MatRef<Self>, b: MatRef<Self>, start: Start<Self>, c: MatMut<Self>, _: Precision) {
        reference::gemm(a, b, start, c);
    }
    #[doc(hidden)]
    fn product(product: Product<Self>) -> Vec<Self> {
        reference::product(product)
    }
    #[doc(hidden)]
    fn pack(_: MatRef<Self>, _: Precision) -> Option<PackedMatrix> {
        None
    }
    #[doc(hidden)]
    fn dropout(x: &mut [Self], keep: Keep) {
        reference::dropout(x, keep);
    }
    #[doc(hidden)]
    fn softmax_forward(x: &[Self], cols: usize, y: &mut [Self]) {
        reference::softmax_forward(x, cols, y);
    }
    #[doc(hidden)]
    fn layer_norm_forward(args: norm::Forward<Self>) -> norm::Normalised<Self> {
        reference::layer_norm_forward(args)
    }
    #[doc(hidden)]
    fn layer_norm_backward(args: norm::LayerNormBackward<Self>, sums: [&mut [Self]; 2]) -> Vec<Self> {
        reference::layer_norm_backward(args, sums)
    }
    #[doc(hidden)]
    fn activation_forward(kind: Activation, x: &[Self], y: &mut [Self]) {
        reference::activation_forward(kind, x, y);
    }
    #[doc(hidden)]
    fn activation_backward(kind: Activation, x: &[Self], dy: &[Self], dx: &mut [Self]) {
        reference::activation_backward(kind, x, dy, dx);
    }
    #[doc(hidden)]
    fn dropped(x: &[Self], keep: Keep) -> Vec<Self> {
        let mut y = x.to_vec();
        reference::dropout(&mut y, keep);
        y
    }
    #[doc(hidden)]
    fn embedding_backward(ids: &[u32], dy: &[Self], width: usize, scale: Self, d_table: &mut [Self]) {
        reference::embedding_backward(ids, dy, width, scale, d_table);
    }
    #[doc(hidden)]
    fn rotate(args: Rotate<Self>) {
        reference::rotate(args);
    }
    #[doc(hidden)]
    fn cross_entropy(x: &[Self], labels: &[u32], options: &CrossEntropy<Self>, d: &mut [Self]) -> Self {
        reference::cross_entropy(x, labels, options, d)
    }
    #[doc(hidden)]
    fn add_column_sums(x: &[Self], cols: usize, sums: &mut [Self]) {
        reference::add_column_sums(x, cols, sums);
    }
    #[doc(hidden)]
    fn adamw_step(options: &AdamW, param: &mut [Self], grad: &[Self], m: &mut [Self], v: &mut [Self]) {
        reference::adamw_step(options, param, grad, m, v);
    }
    #[doc(hidden)]
    fn recurrent_forward(
        r: &Recurrence,
        weight: Operand<Self>,
        bias: &[Self],
        projections: Vec<Self>,
        y: MatMut<Self>,
    ) -> Trace<Self> {
        reference::recurrent_forward(r, weight, bias, projections, y)
    }
    #[doc(hidden)]
    fn recurrent_backward(
        r: &Recurrence,
        weight: Operand<Self>,
        trace: &Trace<Self>,
        dy: MatRef<Self>,
    ) -> Deltas<Self> {
        reference::recurrent_backward(r, weight, trace, dy)
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;

    fn exp(self) -> f64 {
        f64::exp(self)
    }
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;

    fn exp(self) -> f32 {
        f32::exp(self)
    }
    fn ln(self) -> f32 {
        f32::ln(self)
    }
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }

    fn gemm(a: MatRef<f32>, b: MatRef<f32>, start: Start<f32>, c: MatMut<f32>, precision: Precision) {
        gemm::gemm_f32(a, b, start, c, precision);
    }
    fn product(product: Product<f32>) -> Vec<f32> {
        gemm::product_f32(product)
    }
    fn pack(b: MatRef<f32>, precision: Precision) -> Option<PackedMatrix> {
        Some(gemm::pack_f32(b, precision))
    }
    fn dropout(x: &mut [f32], keep: Keep) {
        dropout::dropout_f32(x, keep);
    }
    fn softmax_forward(x: &[f32], cols: usize, y: &mut [f32]) {
        softmax::forward_f32(x, cols, y);
    }
    fn layer_norm_forward(args: norm::Forward<f32>) -> norm::Normalised<f32> {
        norm::forward_f32(args)
    }
    fn layer_norm_backward(args: norm::LayerNormBackward<f32>, sums: [&mut [f32]; 2]) -> Vec<f32> {
        norm::backward_f32(args, sums)
    }
    fn activation_forward(kind: Activation, x: &[f32], y: &mut [f32]) {
        activation::forward_f32(kind, x, y);
    }
    fn activation_backward(kind: Activation, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        activation::backward_f32(kind, x, dy, dx);
    }
    fn dropped(x: &[f32], keep: Keep) -> Vec<f32> {
        dropout::dropped_f32(x, keep)
    }
    fn embedding_backward(ids: &[u32], dy: &[f32], width: usize, scale: f32, d_table: &mut [f32]) {
        embedding::backward_f32(ids, dy, width, scale, d_table);
    }
    fn rotate(args: Rotate<f32>) {
        rotary::rotate_f32(args);
    }
    fn cross_entropy(x: &[f32], labels: &[u32], options: &CrossEntropy<f32>, d: &mut [f32]) -> f32 {
        loss::cross_entropy_f32(x, labels, options, d)
    }
    fn add_column_sums(x: &[f32], cols: usize, sums: &mut [f32]) {
        sum::add_column_sums_f32(x, cols, sums);
    }
    fn adamw_step(options: &AdamW, param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
        adamw::step_f32(options, param, grad, m, v);
    }
    fn recurrent_forward(
        r: &Recurrence,
        weight: Operand<f32>,
        bias: &[f32],
        projections: Vec<f32>,
        y: MatMut<f32>,
    ) -> Trace<f32> {
        recurrent::forward_f32(r, weight, bias, projections, y)
    }
    fn recurrent_backward(r: &Recurrence, weight: Operand<f32>, trace: &Trace<f32>, dy: MatRef<f32>) -> Deltas<f32> {
        recurrent::backward_f32(r, weight, trace, dy)
    }
}

/// `len` times 0, written by all threads.
pub fn zeros<T: Real>(len: usize) -> Vec<T> {
    const PIECE: usize = 1 << 15;
    const ZEROS: usize = 1 << 8;
    // SAFETY: the pieces, and the parts of each, are ranges of their own that cover the vector; nothing is read.
    unsafe {
        written(len, |numbers| {
            for_each(len.div_ceil(PIECE), len, |piece| {
                for start in (piece * PIECE..len.min((piece + 1) * PIECE)).step_by(ZEROS) {
                    // Each piece is its own range.
                    numbers.write(start, &[T::ZERO; ZEROS][..ZEROS.min(len - start)]);
                }
            });
        })
    }
}
