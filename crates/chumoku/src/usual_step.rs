//! The step of AdamW that training takes unless it is told otherwise, for training and for whoever shows it.

use chumoku_kernels::AdamW;

/// Of a classifier with its own network: the first step on a matrix, at the highest learning rate. Gradients are clipped
/// beside.
pub(crate) const CLASSIFIER: AdamW =
    AdamW { learning_rate: 1e-3, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weight_decay: 0.1, step: 1, grad_scale: 1.0 };

/// The same of a language model.
pub(crate) const LANGUAGE_MODEL: AdamW = AdamW { learning_rate: 2e-3, beta2: 0.99, ..CLASSIFIER };

/// The width of a large translator.
pub(crate) const LARGE_TRANSLATOR: usize = 256;

/// The same of a translator of a width.
pub(crate) fn translator(width: usize) -> AdamW {
    let learning_rate = if width < LARGE_TRANSLATOR { 3e-3 } else { 1e-3 };
    AdamW { learning_rate, weight_decay: 0.01, ..CLASSIFIER }
}
