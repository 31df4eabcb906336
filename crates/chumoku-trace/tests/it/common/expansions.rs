//! Evaluates expansions, to compare them with the numbers that they expand.

use chumoku_kernels::{Activation, activation_backward, activation_forward};
use chumoku_trace::{Expansion, ExpansionForm};

/// An expression that can be evaluated.
pub(crate) trait Evaluate {
    fn evaluate(&self) -> f64;
}

impl Evaluate for Expansion {
    fn evaluate(&self) -> f64 {
        match &self.form {
            ExpansionForm::Products { terms, bias } => {
                terms.iter().map(|[a, b]| a * b).sum::<f64>() + bias.unwrap_or(0.0)
            }
            ExpansionForm::WithSquare { product, square: [c, g] } => product.map_or(0.0, |[a, b]| a * b) + c * g * g,
            ExpansionForm::Terms(terms) => terms.iter().sum(),
            ExpansionForm::Average(terms, over) => terms.iter().sum::<f64>() / over,
            ExpansionForm::Tanh(a) => a.tanh(),
            ExpansionForm::Gate { terms: [a, b], is_tanh: true } => (a + b).tanh(),
            ExpansionForm::Gate { terms: [a, b], is_tanh: false } => 1.0 / (1.0 + (-(a + b)).exp()),
            ExpansionForm::Logarithm(a) => a.ln(),
            ExpansionForm::NegativeMean { terms, over } => -terms.iter().map(|[a, b]| a * b).sum::<f64>() / over,
            ExpansionForm::Difference([a, b], over) => (a - b) / over,
            ExpansionForm::SoftmaxGradient([a, g, mean]) => a * (g - mean),
            ExpansionForm::GateGradient { of: [g, y], is_tanh: true } => g * (1.0 - y * y),
            ExpansionForm::GateGradient { of: [g, y], is_tanh: false } => g * y * (1.0 - y),
            ExpansionForm::Activation(activation, a) => activate(*activation, *a),
            ExpansionForm::OverSqrt(a, n) => a / (*n as f64).sqrt(),
            ExpansionForm::Quotient(a, b) => {
                if *b == 0.0 {
                    0.0
                } else {
                    a / b
                }
            }
            ExpansionForm::Rotation { pair: [a, b], sign, angle } => a * angle.cos() + sign * b * angle.sin(),
            ExpansionForm::Exponential(a, b) => (a - b.unwrap_or(0.0)).exp(),
            ExpansionForm::Max(numbers) => numbers.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x)),
            ExpansionForm::LayerNorm { of: [x, mean, variance, epsilon], affine: [gamma, beta] } => {
                gamma.unwrap_or(1.0) * (x - mean) / (variance + epsilon).sqrt() + beta.unwrap_or(0.0)
            }
            ExpansionForm::RmsNorm { of: [x, square, epsilon], gamma } => {
                gamma.unwrap_or(1.0) * x / (square + epsilon).sqrt()
            }
            ExpansionForm::IsPositive(a) => f64::from(*a > 0.0),
            ExpansionForm::TanhDerivative(a) => 1.0 - a.tanh() * a.tanh(),
            ExpansionForm::GeluDerivative(a) => gelu_derivative(*a),
            ExpansionForm::SiluDerivative(a) => {
                let share = 1.0 / (1.0 + (-a).exp());
                share * (1.0 + a * (1.0 - share))
            }
            ExpansionForm::NormGradient { of: [g, x, along], center, under: [spread, epsilon] } => {
                (g - center.unwrap_or(0.0) - x * along) / (spread + epsilon).sqrt()
            }
            ExpansionForm::UnitGradient([g, u, along, length]) => (g - u * along) / length,
            ExpansionForm::Jacobian(a, None) => a * (1.0 - a),
            ExpansionForm::Jacobian(a, Some(b)) => -a * b,
            ExpansionForm::Update([rate, m, v, epsilon]) => rate * m / (v.sqrt() + epsilon),
            form => panic!("{form:?}: no rule to evaluate it"),
        }
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    let mut y = [f64::NAN];
    activation_forward(activation, &[x], &mut y).unwrap();
    y[0]
}

fn gelu_derivative(x: f64) -> f64 {
    let mut dx = [f64::NAN];
    activation_backward(Activation::Gelu, &[x], &[1.0], &mut dx).unwrap();
    dx[0]
}
