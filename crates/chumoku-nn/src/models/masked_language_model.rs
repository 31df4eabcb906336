//! A masked language model: an encoder that learns a language by predicting masked tokens (Devlin et al. 2019).

use super::text_encoder::{TextEncoder, TextEncoderConfig};
use crate::Result;
use crate::layers::{Linear, Mode, Norm, NormKind, Tokens, array, numbers, numbers_mut, zeros};
use crate::params::{Builder, Init, ParamLayout, Params};
use chumoku_kernels::{Activation, Real, activation_backward, activation_forward};
use ndarray::{Array2, Axis};
use std::sync::Arc;

/// The model: an encoder and, for training, a head whose last weight is the embedding table.
///
/// The encoder's parameters are named as in [`TextEncoder`]; those of the head start with `head.`.
#[derive(Clone, Debug)]
pub struct MaskedLanguageModel {
    encoder: TextEncoder,
    layout: Arc<ParamLayout>,
    dense: Linear,
    norm: Norm,
}

impl MaskedLanguageModel {
    /// Builds the model of a configuration. Its parameters come from [`Params::init`] from its
    /// [`MaskedLanguageModel::layout`].
    ///
    /// # Errors
    /// If the heads do not divide d_model.
    pub fn new(config: TextEncoderConfig) -> Result<Self> {
        let mut builder = Builder::new();
        let (width, epsilon) = (config.encoder.d_model, config.embeddings.norm_epsilon.unwrap_or(Norm::EPSILON));
        // Models whose norms have no bias have no biases at all.
        let (kind, has_bias) = (config.embeddings.norm, config.embeddings.norm == NormKind::Layer);
        let encoder = TextEncoder::add_to(&mut builder, config)?;
        let (dense, norm) = builder.scope("head", |b| {
            let dense = b.scope("dense", |b| Linear::with_init(b, width, width, has_bias, Init::Normal(0.02)));
            (dense, b.scope("norm", |b| Norm::new(b, kind, width, epsilon)))
        });
        Ok(MaskedLanguageModel { encoder, layout: builder.finish(), dense, norm })
    }

    /// The names, shapes and offsets of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// Returns the mean loss of the tokens `hidden` at the positions `at`. In training, adds its gradient to `grads`.
    ///
    /// `logits = norm(gelu(x V ᵀ + c)) tableᵀ` for the encoder's vector x at each position.
    ///
    /// # Shapes
    /// `tokens` (tokens,), some of them masked; `at` (positions,) indexes them; `hidden` (positions,) holds the
    /// original ids.
    ///
    /// # Errors
    /// If there are no positions, or an id or a length exceeds the model's limits.
    pub fn loss<T: Real>(
        &self,
        p: &Params<T>,
        tokens: Tokens<'_>,
        (at, hidden): (&[usize], &[u32]),
        mode: Mode,
        grads: Option<&mut Params<T>>,
    ) -> Result<f64> {
        let (x, of_encoder) = self.encoder.forward(p, tokens, mode)?;
        let x_at = x.select(Axis(0), at);
        let [h, a] = self.transform(p, &x_at)?;
        let (y, of_norm) = self.norm.forward(p, a.view())?;
        let table = self.encoder.token_embedding();
        let Some(grads) = grads else { return Ok(table.loss(p, y.view(), hidden, T::ZERO, None)?.0) };
        let (loss, dy) = table.loss(p, y.view(), hidden, T::ZERO, Some(&mut *grads))?;
        // y = norm(a)
        let da = self.norm.backward(p, a.view(), &of_norm, dy.view(), None, grads)?;
        // a = gelu(h)
        let mut dh = vec![T::ZERO; h.len()];
        activation_backward(Activation::Gelu, numbers(&h.view()), numbers(&da.view()), &mut dh)?;
        // h = x V ᵀ + c, for the vectors at the masked positions
        let dh: Array2<T> = array(h.dim(), dh)?;
        let dx_at = self.dense.backward(p, x_at.view(), dh.view(), grads)?;
        let mut dx: Array2<T> = zeros(x.dim());
        for (&place, d) in at.iter().zip(dx_at.rows()) {
            dx.row_mut(place).zip_mut_with(&d, |dx, &d| *dx += d);
        }
        self.encoder.backward(p, tokens, &of_encoder, dx, mode, grads)?;
        Ok(loss)
    }

    /// Returns `x V ᵀ + c` and its GELU.
    fn transform<T: Real>(&self, p: &Params<T>, x: &Array2<T>) -> Result<[Array2<T>; 2]> {
        let h = self.dense.forward(p, x.view())?;
        let mut a = zeros(h.dim());
        activation_forward(Activation::Gelu, numbers(&h.view()), numbers_mut(&mut a))?;
        Ok([h, a])
    }

    /// Returns the logits of the original tokens at the positions `at`: (positions, vocabulary).
    ///
    /// # Errors
    /// If an id or a length exceeds the model's limits.
    pub fn logits<T: Real>(&self, p: &Params<T>, tokens: Tokens<'_>, at: &[usize]) -> Result<Array2<T>> {
        let (x, _) = self.encoder.forward(p, tokens, Mode::Eval)?;
        let [_, a] = self.transform(p, &x.select(Axis(0), at))?;
        let (y, _) = self.norm.forward(p, a.view())?;
        self.encoder.token_embedding().logits(p, y.view())
    }
}
