//! Token embedding.

use super::{array, numbers, packed};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{Real, embedding_backward, embedding_forward};
use ndarray::{Array2, ArrayView2};

/// `y_t = √d_model · table[id_t]` (Vaswani et al. 2017, section 3.4).
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: ParamId,
    width: usize,
}

impl Embedding {
    /// Adds `weight` of shape (vocabulary, d_model) to the model, normal with deviation 1/√d_model.
    pub fn new(builder: &mut Builder, vocabulary: usize, d_model: usize) -> Self {
        let init = Init::Normal(1.0 / (d_model as f64).sqrt());
        Embedding { weight: builder.add("weight", &[vocabulary, d_model], init), width: d_model }
    }

    fn scale<T: Real>(&self) -> T {
        T::of((self.width as f64).sqrt())
    }

    /// # Shapes
    /// `ids` (tokens,) → (tokens, d_model). To be remembered for `backward`: the ids.
    ///
    /// # Errors
    /// If an id is beyond the vocabulary.
    pub fn forward<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        let y = embedding_forward(ids, p.slice(self.weight), self.width, self.scale())?;
        array((ids.len(), self.width), y)
    }

    /// # Errors
    /// If the shapes do not fit.
    pub fn backward<T: Real>(&self, ids: &[u32], dy: ArrayView2<'_, T>, grads: &mut Params<T>) -> Result<()> {
        let dy = packed(dy);
        let d_table = grads.slice_mut(self.weight);
        Ok(embedding_backward(ids, numbers(&dy.view()), self.width, self.scale(), d_table)?)
    }
}
