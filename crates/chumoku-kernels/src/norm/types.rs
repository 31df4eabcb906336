//! Arguments and results of the normalizations.

/// Result of [`layer_norm_forward`](super::layer_norm_forward) and
/// [`layer_norm_forward_without_bias`](super::layer_norm_forward_without_bias).
#[derive(Clone, Debug)]
pub struct LayerNormOutput<T> {
    /// The normalized rows: (rows, width).
    pub y: Vec<T>,
    /// Each row's mean: (rows,).
    pub mean: Vec<T>,
    /// Each row's `1/√(variance + ε)`: (rows,).
    pub inverse_deviation: Vec<T>,
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNormForward<'a, T> {
    pub x: &'a [T],
    pub(crate) gamma: &'a [T],
    pub(crate) beta: Option<&'a [T]>,
    pub(crate) epsilon: T,
}

/// The backward pass of layer normalization, including the gradient of the residual connection around it.
///
/// With x̂ = (x − mean)·inverse_deviation and g = dy·γ, over a row of n:
/// `dx = residual + inverse_deviation · (g − Σg/n − x̂ · Σ(g·x̂)/n)`, `dγ = Σ_rows dy·x̂`, `dβ = Σ_rows dy`.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormBackward<'a, T> {
    /// Input of the forward pass: (rows, width).
    pub x: &'a [T],
    /// Scale of the forward pass: (width,).
    pub gamma: &'a [T],
    /// Means from the forward pass: (rows,).
    pub mean: &'a [T],
    /// Inverse deviations from the forward pass: (rows,).
    pub inverse_deviation: &'a [T],
    /// The gradient of y: (rows, width).
    pub dy: &'a [T],
    /// Added to dx, if set: (rows, width).
    pub residual: Option<&'a [T]>,
}

/// Result of [`rms_norm_forward`](super::rms_norm_forward).
#[derive(Clone, Debug)]
pub struct RmsNormOutput<T> {
    /// The normalized rows: (rows, width).
    pub y: Vec<T>,
    /// Each row's `1/√(mean(x²) + ε)`: (rows,).
    pub inverse_rms: Vec<T>,
}

/// The backward pass of RMS normalization, including the gradient of the residual connection around it.
///
/// With x̂ = x·inverse_rms and g = dy·γ, over a row of n:
/// `dx = residual + inverse_rms · (g − x̂ · Σ(g·x̂)/n)`, `dγ = Σ_rows dy·x̂`.
///
/// Maximum error in f32, in the range of the forward pass: for dx, 1e-6 of the row's largest inverse_rms·g plus 1e-6 of
/// the residual; for dγ, 1e-6 · √rows for a dy of up to 1.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormBackward<'a, T> {
    /// Input of the forward pass: (rows, width).
    pub x: &'a [T],
    /// Scale of the forward pass: (width,).
    pub gamma: &'a [T],
    /// Inverse RMS from the forward pass: (rows,).
    pub inverse_rms: &'a [T],
    /// The gradient of y: (rows, width).
    pub dy: &'a [T],
    /// Added to dx, if set: (rows, width).
    pub residual: Option<&'a [T]>,
}
