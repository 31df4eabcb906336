//! The reference implementation: one value at a time.

use super::Activation;
use crate::math::erfc_f64;
use crate::number::Real;

/// Returns f(x), and the two terms of f′(x).
fn value_and_slope(kind: Activation, x: f64) -> (f64, [f64; 2]) {
    match kind {
        Activation::Relu => (if x < 0.0 { 0.0 } else { x }, [f64::from(x > 0.0), if x.is_nan() { x } else { 0.0 }]),
        Activation::Gelu => {
            // Φ(x), the normal distribution function, and φ(x), its slope.
            let function = 0.5 * erfc_f64(-x / std::f64::consts::SQRT_2);
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            (multiply_or_zero(x, function), [function, multiply_or_zero(x, density)])
        }
        Activation::GeluTanh => {
            // x/2 (1 + tanh(u/2)) = x σ(u)
            let factor = (8.0 / std::f64::consts::PI).sqrt();
            times_logistic(x, factor * (x + 0.044715 * x * x * x), factor * (1.0 + 3.0 * 0.044715 * x * x))
        }
        Activation::Silu => times_logistic(x, x, 1.0),
    }
}

/// Returns `x σ(u)`, and the terms of `σ(u) + x u′ σ(u) σ(−u)`.
fn times_logistic(x: f64, u: f64, du: f64) -> (f64, [f64; 2]) {
    let (share, other) = (1.0 / (1.0 + (-u).exp()), 1.0 / (1.0 + u.exp()));
    (multiply_or_zero(x, share), [share, multiply_or_zero(x * du, share * other)])
}

/// Computes `x · factor`, for factors that vanish faster than any x grows: 0 if the factor is 0.
fn multiply_or_zero(x: f64, factor: f64) -> f64 {
    if factor == 0.0 { 0.0 } else { x * factor }
}

/// Computes the activation of every value, `y = f(x)`: ReLU `max(0, x)`, GELU `x Φ(x)`, its tanh approximation
/// `x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))`, or SiLU `x σ(x)`.
pub(crate) fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) {
    for (&x, y) in x.iter().zip(y) {
        *y = T::round_from(value_and_slope(kind, x.to_f64()).0);
    }
}

/// Computes the gradient `dx = dy f′(x)`. The slope is `[x > 0]` for ReLU and `Φ(x) + x φ(x)` for GELU. For `x σ(u)`,
/// which includes SiLU and the tanh approximation of GELU, it is `σ(u) + x u′ σ(u) σ(−u)`.
pub(crate) fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) {
    for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
        *dx = dy * T::round_from(value_and_slope(kind, x.to_f64()).1.iter().sum());
    }
}

/// Computes the gated product `y = f(g) u` of rows that hold g and then u, with `width` values each.
pub(crate) fn gated_forward<T: Real>(kind: Activation, x: &[T], width: usize, y: &mut [T]) {
    for (x, y) in x.chunks_exact(2 * width).zip(y.chunks_exact_mut(width)) {
        let (g, u) = x.split_at(width);
        activation_forward(kind, g, y);
        y.iter_mut().zip(u).for_each(|(y, &u)| *y *= u);
    }
}

/// Computes its gradients `dg = dy u f′(g)` and `du = dy f(g)`, in rows of both.
pub(crate) fn gated_backward<T: Real>(kind: Activation, x: &[T], width: usize, dy: &[T], dx: &mut [T]) {
    let rows = x.chunks_exact(2 * width).zip(dy.chunks_exact(width));
    for ((x, dy), dx) in rows.zip(dx.chunks_exact_mut(2 * width)) {
        let ((g, u), (dg, du)) = (x.split_at(width), dx.split_at_mut(width));
        let d: Vec<T> = dy.iter().zip(u).map(|(&dy, &u)| dy * u).collect();
        activation_backward(kind, g, &d, dg);
        activation_forward(kind, g, du);
        du.iter_mut().zip(dy).for_each(|(du, &dy)| *du *= dy);
    }
}
