//! What normalisations are given, and what they make.

/// What [`layer_norm_forward`](super::layer_norm_forward) and [`layer_norm_forward_without_bias`](super::layer_norm_forward_without_bias) make of rows.
#[derive(Clone, Debug)]
pub struct LayerNormOutput<T> {
    /// The rows: (rows, width).
    pub y: Vec<T>,
    /// Each row's mean: (rows,).
    pub mean: Vec<T>,
    /// Each row's `1/√(variance + ε)`: (rows,).
    pub inverse_deviation: Vec<T>,
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LayerNormForward<'a, T> {
    pub x: &'a [T],
    pub gamma: &'a [T],
    pub beta: Option<&'a [T]>,
    pub epsilon: T,
}

/// The backward pass of layer normalisation, with the gradient that passes it by on the residual connection.
///
/// With x̂ = (x − mean)·inverse_deviation and g = dy·γ, over a row of n:
/// `dx = residual + inverse_deviation · (g − Σg/n − x̂ · Σ(g·x̂)/n)`, `dγ = Σ_rows dy·x̂`, `dβ = Σ_rows dy`.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormBackward<'a, T> {
    /// As in the forward pass: (rows, width).
    pub x: &'a [T],
    /// As in the forward pass: (width,).
    pub gamma: &'a [T],
    /// From the forward pass: (rows,).
    pub mean: &'a [T],
    /// From the forward pass: (rows,).
    pub inverse_deviation: &'a [T],
    /// The gradient of y: (rows, width).
    pub dy: &'a [T],
    /// Added to dx if given: (rows, width).
    pub residual: Option<&'a [T]>,
}

/// What [`rms_norm_forward`](super::rms_norm_forward) makes of rows.
#[derive(Clone, Debug)]
pub struct RmsNormOutput<T> {
    /// The rows: (rows, width).
    pub y: Vec<T>,
    /// Each row's `1/√(mean(x²) + ε)`: (rows,).
    pub inverse_rms: Vec<T>,
}

/// The backward pass of RMS normalisation, with the gradient that passes it by on the residual connection.
///
/// With x̂ = x·inverse_rms and g = dy·γ, over a row of n:
/// `dx = residual + inverse_rms · (g − x̂ · Σ(g·x̂)/n)`, `dγ = Σ_rows dy·x̂`.
///
/// Largest error in f32, where forward holds: of dx 1e-6 of the largest inverse_rms·g of the row plus that of the residual;
/// of dγ 1e-6 · √rows for a dy of up to 1.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormBackward<'a, T> {
    /// As in the forward pass: (rows, width).
    pub x: &'a [T],
    /// As in the forward pass: (width,).
    pub gamma: &'a [T],
    /// From the forward pass: (rows,).
    pub inverse_rms: &'a [T],
    /// The gradient of y: (rows, width).
    pub dy: &'a [T],
    /// Added to dx if given: (rows, width).
    pub residual: Option<&'a [T]>,
}
