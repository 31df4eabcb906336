//! Everything but attention.

use crate::activation::Activation;
use crate::adamw::AdamW;
use crate::dropout::{Dropout, GROUP, Keep};
use crate::gemm::{MatMut, MatRef, Product, Start, Then};
use crate::loss::CrossEntropy;
use crate::math::erfc_f64;
use crate::norm::{Forward, LayerNormBackward, Normalised};
use crate::real::Real;
use crate::rotary::{Rotate, Turn};

/// The matrix product, `c[i][j] = start + Σ_p a[i][p] · b[p][j]`.
pub fn gemm<T: Real>(a: MatRef<T>, b: MatRef<T>, start: Start<T>, mut c: MatMut<T>) {
    for i in 0..a.rows() {
        let row = c.row_mut(i);
        for (j, c) in row.iter_mut().enumerate() {
            let first = match start {
                Start::Zero => T::ZERO,
                Start::Keep => *c,
                Start::Bias(bias) => bias[j],
            };
            *c = first + (0..a.cols()).map(|p| a.at(i, p) * b.at(p, j)).sum();
        }
    }
}

/// The matrix product and what follows it, `then(bias + A·B)`.
pub fn product<T: Real>(p: Product<T>) -> Vec<T> {
    let shape = (p.a.rows(), p.b.matrix().cols());
    let start = p.start();
    let drop = |c: &mut [T], dropout: Option<Dropout>| {
        if let Some(keep) = dropout.and_then(Keep::of) {
            T::dropout(c, keep);
        }
    };
    let mut c = vec![T::ZERO; shape.0 * shape.1];
    gemm(p.a, p.b.matrix(), start, MatMut::new(&mut c, shape.0, shape.1).expect("made so"));
    match p.then {
        Then::Nothing => {}
        Then::Activate { activation, dropout, slope } => {
            if let Some(slope) = slope {
                *slope = vec![T::ZERO; c.len()];
                activation_backward(activation, &c, &vec![T::ONE; c.len()], slope);
                drop(slope, dropout);
            }
            let mut y = vec![T::ZERO; c.len()];
            activation_forward(activation, &c, &mut y);
            drop(&mut y, dropout);
            c = y;
        }
        Then::Add { dropout, residual } => {
            drop(&mut c, dropout);
            c.iter_mut().zip(residual).for_each(|(c, &x)| *c += x);
        }
        Then::Multiply { by } => {
            c.iter_mut().zip(by).for_each(|(c, &x)| *c = if x == T::ZERO { T::ZERO } else { *c * x });
        }
    }
    c
}

/// Dropout in place, a number at a time.
#[doc(hidden)]
pub fn dropout<T: Real>(x: &mut [T], keep: Keep) {
    for (group, x) in x.chunks_mut(GROUP).enumerate() {
        for (x, &factor) in x.iter_mut().zip(keep.group(group as u64).as_flattened()) {
            // Selected rather than multiplied: what is dropped is 0 even if it was not finite.
            *x = if factor == 0.0 { T::ZERO } else { *x * T::of(f64::from(factor)) };
        }
    }
}

/// `y_j = exp(x_j − max) / Σ exp(x_k − max)` over rows of `cols`; 0 for a row of −∞.
pub fn softmax_forward<T: Real>(x: &[T], cols: usize, y: &mut [T]) {
    for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
        let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
        let shift = if largest == T::NEG_INFINITY { T::ZERO } else { largest };
        for (&x, y) in x.iter().zip(&mut *y) {
            *y = (x - shift).exp();
        }
        let total: T = y.iter().copied().sum();
        for y in y {
            *y = if total == T::ZERO { T::ZERO } else { *y / total };
        }
    }
}

/// `y = γ (x − mean)/√(variance + ε) + β` over rows of the length of γ.
#[doc(hidden)]
pub fn layer_norm_forward<T: Real>(f: Forward<T>) -> Normalised<T> {
    let n = f.gamma.len();
    let (mut y, mut means, mut inverse_deviation) = (Vec::new(), Vec::new(), Vec::new());
    for x in f.x.chunks_exact(n) {
        let mean = x.iter().copied().sum::<T>() / T::of(n as f64);
        let variance = x.iter().map(|&x| (x - mean) * (x - mean)).sum::<T>() / T::of(n as f64);
        let inverse = T::ONE / (variance + f.epsilon).sqrt();
        y.extend((0..n).map(|i| f.gamma[i] * (x[i] - mean) * inverse + f.beta[i]));
        means.push(mean);
        inverse_deviation.push(inverse);
    }
    Normalised { y, mean: means, inverse_deviation }
}

/// `dx = residual + inverse (g − mean(g) − x̂ mean(g x̂))` with g = dy γ; adds `dy x̂` to dγ and dy to dβ.
#[doc(hidden)]
pub fn layer_norm_backward<T: Real>(b: LayerNormBackward<T>, [d_gamma, d_beta]: [&mut [T]; 2]) -> Vec<T> {
    let n = b.gamma.len();
    let mut dx = Vec::with_capacity(b.x.len());
    for (row, (x, dy)) in b.x.chunks_exact(n).zip(b.dy.chunks_exact(n)).enumerate() {
        let inverse = b.inverse_deviation[row];
        let normal = |i: usize| (x[i] - b.mean[row]) * inverse;
        let mean_g = (0..n).map(|i| dy[i] * b.gamma[i]).sum::<T>() / T::of(n as f64);
        let mean_gx = (0..n).map(|i| dy[i] * b.gamma[i] * normal(i)).sum::<T>() / T::of(n as f64);
        for i in 0..n {
            let residual = b.residual.map_or(T::ZERO, |residual| residual[row * n + i]);
            dx.push(residual + inverse * (dy[i] * b.gamma[i] - mean_g - normal(i) * mean_gx));
            d_gamma[i] += dy[i] * normal(i);
            d_beta[i] += dy[i];
        }
    }
    dx
}

/// Φ(x), the normal distribution function.
fn normal_distribution(x: f64) -> f64 {
    0.5 * erfc_f64(-x / std::f64::consts::SQRT_2)
}

/// ReLU, `y = max(0, x)`, or GELU, `y = x Φ(x)`.
pub fn activation_forward<T: Real>(kind: Activation, x: &[T], y: &mut [T]) {
    for (&x, y) in x.iter().zip(y) {
        *y = match kind {
            Activation::Relu if x < T::ZERO => T::ZERO,
            Activation::Relu => x,
            Activation::Gelu => T::of(x.to_f64() * normal_distribution(x.to_f64())),
        };
    }
}

/// The gradient of ReLU, `dx = dy [x > 0]`, or of GELU, `dx = dy (Φ(x) + x φ(x))`.
pub fn activation_backward<T: Real>(kind: Activation, x: &[T], dy: &[T], dx: &mut [T]) {
    for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
        let x = x.to_f64();
        let slope = match kind {
            Activation::Relu => f64::from(x > 0.0) + if x.is_nan() { x } else { 0.0 },
            Activation::Gelu => {
                let bell = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
                normal_distribution(x) + x * bell
            }
        };
        *dx = dy * T::of(slope);
    }
}

/// The gradient of an embedding table, `d_table[id_t] += scale · dy_t`.
pub fn embedding_backward<T: Real>(ids: &[u32], dy: &[T], width: usize, scale: T, d_table: &mut [T]) {
    for (t, &id) in ids.iter().enumerate() {
        for i in 0..width {
            d_table[id as usize * width + i] += scale * dy[t * width + i];
        }
    }
}

/// `y_i = x_i cos θ_i − x_{i+h} sin θ_i`, `y_{i+h} = x_{i+h} cos θ_i + x_i sin θ_i`, with h half the width.
#[doc(hidden)]
pub fn rotate<T: Real>(mut args: Rotate<T>) {
    let half = args.x.dim() / 2;
    for place in args.rows {
        let (cos, sin) = args.table.row(&args.table.double, place.position);
        for head in 0..args.x.heads() {
            let row = args.x.row_mut(place.sequence, head, place.row);
            for i in 0..half {
                let (x, y) = (row[i].to_f64(), row[i + half].to_f64());
                let sin = if args.turn == Turn::Forward { sin[i] } else { -sin[i] };
                (row[i], row[i + half]) = (T::of(x * cos[i] - y * sin), T::of(y * cos[i] + x * sin));
            }
        }
    }
}

/// Adds the sum of each column, `sums[j] += Σ_i x[i][j]`.
pub fn add_column_sums<T: Real>(x: &[T], cols: usize, sums: &mut [T]) {
    for row in x.chunks_exact(cols) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
    }
}

/// One step of AdamW; the formula stands at [`crate::adamw_step`].
pub fn adamw_step<T: Real>(o: &AdamW, param: &mut [T], grad: &[T], m: &mut [T], v: &mut [T]) {
    let (rate, root) = o.corrections();
    for i in 0..param.len() {
        let g = grad[i] * T::of(o.grad_scale);
        m[i] = T::of(o.beta1) * m[i] + T::of(1.0 - o.beta1) * g;
        v[i] = T::of(o.beta2) * v[i] + T::of(1.0 - o.beta2) * g * g;
        let step = T::of(rate) * m[i] / (v[i].sqrt() / T::of(root) + T::of(o.epsilon));
        param[i] = param[i] * T::of(1.0 - o.learning_rate * o.weight_decay) - step;
    }
}

/// The mean loss and its gradient; the formula stands at [`crate::cross_entropy`].
pub fn cross_entropy<T: Real>(x: &[T], labels: &[u32], options: &CrossEntropy<T>, d: &mut [T]) -> T {
    let classes = x.len() / labels.len();
    let shared = options.shared(classes, labels);
    let mut loss = T::ZERO;
    for ((x, d), &label) in x.chunks_exact(classes).zip(d.chunks_exact_mut(classes)).zip(labels) {
        let label = label as usize;
        let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
        let log_total = x.iter().map(|&x| (x - largest).exp()).sum::<T>().ln() + largest;
        let certain = (T::ONE - options.label_smoothing) * options.weight(label);
        // −ln p_c = log_total − x_c, and its gradient is p − onehot(c).
        let in_all = certain + shared.spread * shared.weights_in_all;
        for (class, (&x, d)) in x.iter().zip(d).enumerate() {
            let target = shared.spread * options.weight(class) + if class == label { certain } else { T::ZERO };
            loss += target * (log_total - x);
            *d = ((x - log_total).exp() * in_all - target) / shared.divisor;
        }
    }
    loss / shared.divisor
}
