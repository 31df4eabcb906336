//! AdamW in one pass over parameters, gradients and both moments.
//!
//! Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2. The bias correction has
//! the form of PyTorch's `AdamW`.

use crate::isa::{self, Simd, SimdOp};
use crate::number::{Real, implementations};
use crate::profile;
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result};

/// The settings of one AdamW step.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Decay of the first moment, β₁.
    pub beta1: f64,
    /// Decay of the second moment, β₂.
    pub beta2: f64,
    /// Added to the root of the second moment, ε.
    pub epsilon: f64,
    /// Weight decay λ; parameters shrink by learning_rate · λ.
    pub weight_decay: f64,
    /// Number of this step, from 1.
    pub step: u64,
    /// Factor on the gradients (clipping), usually at most 1.
    pub grad_scale: f64,
}

impl AdamW {
    /// Returns the learning rate corrected by (1 − β₁ᵗ), and the root of (1 − β₂ᵗ).
    pub(crate) fn corrections(&self) -> (f64, f64) {
        let t = self.step as f64;
        (self.learning_rate / (1.0 - self.beta1.powf(t)), (1.0 - self.beta2.powf(t)).sqrt())
    }
}

/// Performs one AdamW step. With g = grad · grad_scale:
/// `m = β₁ m + (1 − β₁) g`, `v = β₂ v + (1 − β₂) g²`,
/// `param = param · (1 − lr λ) − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)`.
///
/// # Shapes
/// All four arrays have the same length.
///
/// # Errors
/// If the lengths differ, or `step` is 0.
pub fn adamw_step<T: Real>(options: &AdamW, param: &mut [T], grad: &[T], [m, v]: [&mut [T]; 2]) -> Result<()> {
    Error::check_length("adamw: grad", param.len(), grad.len())?;
    Error::check_length("adamw: m", param.len(), m.len())?;
    Error::check_length("adamw: v", param.len(), v.len())?;
    if options.step == 0 {
        return Err(Error::value("adamw: step", "expected 1 or more, got 0"));
    }
    // All arrays are read and written, except the gradient.
    let _timed = profile::memory_bound::<T>("AdamW", 7 * param.len());
    T::run::<AdamWStep>((options, param, grad, m, v));
    Ok(())
}

implementations! {
    /// Both implementations of [`adamw_step`].
    AdamWStep<'a, T>(options: &'a AdamW, param: &'a mut [T], grad: &'a [T], m: &'a mut [T], v: &'a mut [T]) -> () {
        fast: step_f32,
        reference: reference::adamw_step,
    }
}

/// Values in a piece of work.
const PIECE: usize = 1 << 14;

struct AdamWChunk<'a> {
    options: &'a AdamW,
    param: &'a mut [f32],
    grad: &'a [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
}

impl SimdOp for AdamWChunk<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let o = self.options;
        let (rate, root) = o.corrections();
        let (rate, inverse_root, epsilon) = (rate as f32, (1.0 / root) as f32, o.epsilon as f32);
        let shrink = (1.0 - o.learning_rate * o.weight_decay) as f32;
        let (beta1, beta2, grad_scale) = (o.beta1 as f32, o.beta2 as f32, o.grad_scale as f32);
        let (rest1, rest2) = ((1.0 - o.beta1) as f32, (1.0 - o.beta2) as f32);
        // Plain loops: the compiler vectorizes them for the instruction set of `dispatch`.
        for (((p, &g), m), v) in self.param.iter_mut().zip(self.grad).zip(self.m).zip(self.v) {
            let g = g * grad_scale;
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * g * g;
            *p = *p * shrink - rate * *m / (v.sqrt() * inverse_root + epsilon);
        }
    }
}

fn step_f32(options: &AdamW, param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
    let len = param.len();
    let (param, m, v) = (SharedMut::new(param), SharedMut::new(m), SharedMut::new(v));
    for_each(len.div_ceil(PIECE), len * 8, |piece| {
        let (start, count) = (piece * PIECE, PIECE.min(len - piece * PIECE));
        // SAFETY: each piece is its own range.
        let (param, m, v) = unsafe { (param.slice(start, count), m.slice(start, count), v.slice(start, count)) };
        isa::dispatch(AdamWChunk { options, param, grad: &grad[start..start + count], m, v });
    });
}

/// The reference implementation.
pub(crate) mod reference {
    use super::AdamW;
    use crate::number::Real;

    /// Performs one AdamW step with the formula of [`crate::adamw_step`].
    pub(crate) fn adamw_step<T: Real>(o: &AdamW, param: &mut [T], grad: &[T], m: &mut [T], v: &mut [T]) {
        let (rate, root) = o.corrections();
        for i in 0..param.len() {
            let g = grad[i] * T::round_from(o.grad_scale);
            m[i] = T::round_from(o.beta1) * m[i] + T::round_from(1.0 - o.beta1) * g;
            v[i] = T::round_from(o.beta2) * v[i] + T::round_from(1.0 - o.beta2) * g * g;
            let step = T::round_from(rate) * m[i] / (v[i].sqrt() / T::round_from(root) + T::round_from(o.epsilon));
            param[i] = param[i] * T::round_from(1.0 - o.learning_rate * o.weight_decay) - step;
        }
    }
}
