//! Hooks that read or replace what an encoder or a decoder computes, for explanations: activation patching and the logit lens.

use crate::Result;
use chumoku_kernels::{Epilogue, Real};
use ndarray::Array2;

/// A place in an encoder or a decoder whose values a hook receives. Layers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationSite {
    /// The residual stream before this layer; after the last layer, with the number of layers: (tokens, d_model).
    Residual(usize),
    /// The outputs of a layer's heads of self-attention side by side, before W_O: (tokens, heads · value width).
    Heads(usize),
    /// The same for cross-attention.
    CrossHeads(usize),
    /// The output of a layer's self-attention after W_O, before it is added: (tokens, d_model).
    Attention(usize),
    /// The output of a layer's feed-forward network, before it is added: (tokens, d_model).
    FeedForward(usize),
}

/// A function that receives the values at every site in turn, and may change them.
pub(crate) type ActivationHook<'a, T> = &'a mut dyn FnMut(ActivationSite, &mut Array2<T>);

/// Adds the residual to a sublayer's output after a hook has seen it.
pub(super) fn add_residual<T: Real>(y: &mut Array2<T>, epilogue: &Epilogue<'_, T>) -> Result<()> {
    if let Epilogue::AddResidual { residual, .. } = epilogue {
        y.iter_mut().zip(*residual).for_each(|(y, &x)| *y += x);
    }
    Ok(())
}
