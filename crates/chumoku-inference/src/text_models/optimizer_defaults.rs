//! Default AdamW settings, used for training and for its display.

use crate::nn::EncoderConfig;
use chumoku_kernels::AdamW;

/// The first step of a classifier with its own network, on a matrix, at the peak learning rate. Gradient clipping is
/// separate.
pub const CLASSIFIER: AdamW =
    AdamW { learning_rate: 1e-3, beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weight_decay: 0.1, step: 1, grad_scale: 1.0 };

/// The defaults of a language model.
pub const LANGUAGE_MODEL: AdamW = AdamW { learning_rate: 2e-3, beta2: 0.99, ..CLASSIFIER };

/// The width from which a translator is large.
pub const LARGE_TRANSLATOR: usize = 256;

/// The defaults of a translator of this width.
pub fn translator(width: usize) -> AdamW {
    let learning_rate = if width < LARGE_TRANSLATOR { 3e-3 } else { 1e-3 };
    AdamW { learning_rate, weight_decay: 0.01, ..CLASSIFIER }
}

/// The number of layer parameters below which an encoder is small. Small encoders take larger and more steps.
const SMALL_ENCODER: usize = 8_000_000;

/// The number of layer parameters from which an encoder is large. Large encoders take smaller steps.
const LARGE_ENCODER: usize = 50_000_000;

fn layer_parameters(body: &EncoderConfig) -> usize {
    body.num_layers * body.d_model * (4 * body.d_model + 2 * body.d_ff)
}

/// Returns `true` if the pretrained encoder is small.
pub fn is_small_encoder(body: &EncoderConfig) -> bool {
    layer_parameters(body) < SMALL_ENCODER
}

/// The defaults for fine-tuning a pretrained model. The learning rate follows Devlin et al. (2019) for models of their
/// size.
pub fn fine_tuning(body: &EncoderConfig) -> AdamW {
    let learning_rate = match layer_parameters(body) {
        ..SMALL_ENCODER => 3e-4,
        SMALL_ENCODER..LARGE_ENCODER => 5e-5,
        LARGE_ENCODER.. => 2e-5,
    };
    AdamW { learning_rate, beta2: 0.999, weight_decay: 0.01, ..CLASSIFIER }
}
