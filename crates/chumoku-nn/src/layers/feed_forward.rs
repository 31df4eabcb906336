//! The position-wise feed-forward network.

use super::{EncoderConfig, FeedForwardKind, Linear, Mode, numbers, numbers_mut, zeros};
use crate::Result;
use crate::params::{Builder, Init, Params};
use chumoku_kernels::{Activation, Epilogue, Real, gated_backward, gated_forward};
use ndarray::{Array2, ArrayView2};

/// `y = W₂ f(W₁ x + b₁) + b₂` for each token (Vaswani et al. 2017, equation 2), or, gated, `y = W₂ (f(W x) ∘ V x)`
/// (Shazeer 2020, equation 6). Dropout applies to the input of W₂.
///
/// In a gated network, W and V are one parameter with the rows of W first, so one product computes both.
#[derive(Clone, Debug)]
pub struct FeedForward {
    pub(super) linear1: Linear,
    pub(super) linear2: Linear,
    pub(super) activation: Activation,
    pub(super) is_gated: bool,
    pub(super) d_ff: usize,
    dropout: f32,
    dropout_site: u32,
}

/// The cache of a [`FeedForward`] network's forward pass.
#[derive(Clone, Debug)]
pub struct FeedForwardCache<T> {
    activation_input: ActivationInput<T>,
    /// The input of W₂: (tokens, d_ff).
    hidden: Array2<T>,
}

/// The values before the activation that the backward pass needs.
#[derive(Clone, Debug)]
enum ActivationInput<T> {
    /// In training, the derivative of activation and dropout: (tokens, d_ff).
    Plain(Option<Vec<T>>),
    /// W x and V x: (tokens, 2 · d_ff).
    Gated(Array2<T>),
}

impl FeedForward {
    /// Adds `linear1` and `linear2`; `site` is the dropout site.
    pub fn new(
        builder: &mut Builder,
        [d_model, d_ff]: [usize; 2],
        activation: Activation,
        dropout: f32,
        site: u32,
    ) -> Self {
        FeedForward {
            linear1: builder.scope("linear1", |b| Linear::new(b, d_model, d_ff, true)),
            linear2: builder.scope("linear2", |b| Linear::new(b, d_ff, d_model, true)),
            activation,
            is_gated: false,
            d_ff,
            dropout,
            dropout_site: site,
        }
    }

    /// Adds the network of a configuration's layers.
    pub(super) fn from_config(builder: &mut Builder, config: &EncoderConfig, site: u32) -> Self {
        let EncoderConfig { d_model, d_ff, dropout, .. } = *config;
        let kind = config.options.feed_forward;
        if kind == FeedForwardKind::Plain {
            return FeedForward::new(builder, [d_model, d_ff], config.activation(), dropout, site);
        }
        // Each of the two matrices is initialized like a separate one.
        let init = Init::glorot(d_model, d_ff);
        FeedForward {
            linear1: builder.scope("linear1", |b| Linear::with_init(b, d_model, 2 * d_ff, kind.has_bias(), init)),
            linear2: builder.scope("linear2", |b| Linear::new(b, d_ff, d_model, kind.has_bias())),
            activation: config.activation(),
            is_gated: true,
            d_ff,
            dropout,
            dropout_site: site,
        }
    }

    /// Returns `linear2(dropout(f(linear1(x))))` and the cache for `backward`.
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → the same.
    ///
    /// # Errors
    /// If `x` has another width.
    pub fn forward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, FeedForwardCache<T>)> {
        self.forward_with_epilogue(p, x, Epilogue::Identity, mode)
    }

    /// Like [`FeedForward::forward`], with an epilogue applied to y.
    pub(crate) fn forward_with_epilogue<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        epilogue: Epilogue<'_, T>,
        mode: Mode,
    ) -> Result<(Array2<T>, FeedForwardCache<T>)> {
        let (before, after) = if self.is_gated {
            let before = self.linear1.forward(p, x)?;
            let mut after = zeros((x.nrows(), self.d_ff));
            gated_forward(self.activation, numbers(&before.view()), self.d_ff, numbers_mut(&mut after))?;
            mode.apply_dropout(&mut after, self.dropout, self.dropout_site)?;
            (ActivationInput::Gated(before), after)
        } else {
            let mut slope = mode.is_training().then(Vec::new);
            let after = self.hidden(p, x, slope.as_mut(), mode)?;
            (ActivationInput::Plain(slope), after)
        };
        let y = self.linear2.forward_with_epilogue(p, after.view(), epilogue)?;
        Ok((y, FeedForwardCache { activation_input: before, hidden: after }))
    }

    /// Returns `dropout(f(linear1(x)))` and, if requested, its derivative with respect to linear1(x).
    fn hidden<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        slope: Option<&mut Vec<T>>,
        mode: Mode,
    ) -> Result<Array2<T>> {
        let (activation, dropout) = (self.activation, mode.dropout(self.dropout, self.dropout_site));
        self.linear1.forward_with_epilogue(p, x, Epilogue::Activate { activation, dropout, slope })
    }

    /// Returns the gradient of x and adds the parameter gradients to `grads`.
    ///
    /// # Shapes
    /// `x`, `dy` and the returned dx (tokens, d_model).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        cache: &FeedForwardCache<T>,
        dy: ArrayView2<'_, T>,
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        let mut again = Vec::new();
        let slope = match &cache.activation_input {
            ActivationInput::Gated(before) => {
                return self.gated_backward(p, x, before, (&cache.hidden, dy), mode, grads);
            }
            ActivationInput::Plain(Some(slope)) => slope,
            ActivationInput::Plain(None) => {
                self.hidden(p, x, Some(&mut again), mode)?;
                &again
            }
        };
        // y = linear2(after), after = dropout(f(before))
        let d_before = self.linear2.backward_with_epilogue(
            p,
            cache.hidden.view(),
            dy,
            Epilogue::Multiply { factors: slope },
            grads,
        )?;
        // before = linear1(x)
        self.linear1.backward(p, x, d_before.view(), grads)
    }

    fn gated_backward<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        before: &Array2<T>,
        (after, dy): (&Array2<T>, ArrayView2<'_, T>),
        mode: Mode,
        grads: &mut Params<T>,
    ) -> Result<Array2<T>> {
        // y = linear2(after), after = dropout(f(W x) ∘ V x)
        let mut d_after = self.linear2.backward(p, after.view(), dy, grads)?;
        mode.apply_dropout(&mut d_after, self.dropout, self.dropout_site)?;
        let mut d_before = zeros(before.dim());
        let (before, d_after) = (before.view(), d_after.view());
        gated_backward(self.activation, numbers(&before), self.d_ff, numbers(&d_after), numbers_mut(&mut d_before))?;
        // before = linear1(x)
        self.linear1.backward(p, x, d_before.view(), grads)
    }
}
