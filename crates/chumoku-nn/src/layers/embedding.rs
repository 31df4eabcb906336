//! The token embedding, whose table is also the weight of an output layer.

use super::{array, contiguous, mat_ref, numbers, numbers_mut, zeros};
use crate::Result;
use crate::params::{Builder, Init, ParamId, Params};
use chumoku_kernels::{
    CrossEntropy, Epilogue, FusedGemm, OutputInit, Real, cross_entropy, embedding_backward, embedding_forward, gemm,
};
use ndarray::{Array2, ArrayView2, Axis};

/// `y_t = √d_model · table[id_t]` (Vaswani et al. 2017, section 3.4), or without the factor (Devlin et al. 2019).
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: ParamId,
    width: usize,
    scale: f64,
    /// A bias of the logits.
    output_bias: Option<ParamId>,
}

impl Embedding {
    /// Adds `weight` of shape (vocabulary, d_model) to the model, normal with deviation 1/√d_model.
    pub fn new(builder: &mut Builder, vocabulary: usize, d_model: usize) -> Self {
        let init = Init::Normal(1.0 / (d_model as f64).sqrt());
        let scale = (d_model as f64).sqrt();
        Embedding {
            weight: builder.add("weight", &[vocabulary, d_model], init),
            width: d_model,
            scale,
            output_bias: None,
        }
    }

    /// Like [`Embedding::new`] without the factor √d_model, initialized with deviation 0.02.
    pub(crate) fn unscaled(builder: &mut Builder, vocabulary: usize, d_model: usize) -> Self {
        let weight = builder.add("weight", &[vocabulary, d_model], Init::Normal(0.02));
        Embedding { weight, width: d_model, scale: 1.0, output_bias: None }
    }

    /// Adds a trained bias of the logits: `output_bias` (1, vocabulary), starting at 0.
    #[must_use]
    pub(crate) fn with_output_bias(self, builder: &mut Builder, vocabulary: usize) -> Self {
        Embedding { output_bias: Some(builder.add("output_bias", &[1, vocabulary], Init::Zeros)), ..self }
    }

    fn scale<T: Real>(&self) -> T {
        T::round_from(self.scale)
    }

    /// Returns the scaled vector of each token. `backward` needs the same ids.
    ///
    /// # Shapes
    /// `ids` (tokens,) → (tokens, d_model).
    ///
    /// # Errors
    /// If an id is not in the vocabulary.
    pub fn forward<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        self.multiplied_rows(p, ids, self.scale())
    }

    /// Returns the row of each token in the table, without the factor.
    pub(super) fn rows<T: Real>(&self, p: &Params<T>, ids: &[u32]) -> Result<Array2<T>> {
        self.multiplied_rows(p, ids, T::ONE)
    }

    fn multiplied_rows<T: Real>(&self, p: &Params<T>, ids: &[u32], factor: T) -> Result<Array2<T>> {
        let y = embedding_forward(ids, p.slice(self.weight), self.width, factor)?;
        array((ids.len(), self.width), y)
    }

    /// Returns whether the rows are multiplied by √d_model.
    pub(super) fn is_scaled(&self) -> bool {
        self.scale != 1.0
    }

    /// Returns true if the table is trained, given these gradients.
    pub(crate) fn is_trained<T: Real>(&self, grads: &Params<T>) -> bool {
        grads.is_trained(self.weight)
    }

    /// Adds the gradient of the table to `grads`.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn backward<T: Real>(&self, ids: &[u32], dy: ArrayView2<'_, T>, grads: &mut Params<T>) -> Result<()> {
        if !grads.is_trained(self.weight) {
            return Ok(());
        }
        let dy = contiguous(dy);
        let d_table = grads.slice_mut(self.weight);
        Ok(embedding_backward(ids, numbers(&dy.view()), self.width, self.scale(), d_table)?)
    }

    /// Returns the logits of the next token, with the table as weight: `x tableᵀ`, plus the bias if there is one (Press
    /// and Wolf 2017; Vaswani et al. 2017, section 3.4).
    ///
    /// # Shapes
    /// `x` (tokens, d_model) → (tokens, vocabulary).
    ///
    /// # Errors
    /// If `x` has another width.
    pub(crate) fn logits<T: Real>(&self, p: &Params<T>, x: ArrayView2<'_, T>) -> Result<Array2<T>> {
        let x = contiguous(x);
        let (x, b, precision) = (x.view(), p.transposed_operand(self.weight), p.precision());
        let bias = self.output_bias.map(|bias| p.slice(bias));
        let (rows, vocabulary) = (x.nrows(), b.matrix().cols());
        let product = FusedGemm { a: mat_ref(&x)?, b, bias, epilogue: Epilogue::Identity, precision };
        array((rows, vocabulary), product.compute()?)
    }

    /// Returns the mean cross-entropy of [`Embedding::logits`] with label smoothing.
    ///
    /// With `grads`, it adds the table's gradient there and returns the gradient of x; without, it returns an empty
    /// array.
    ///
    /// Logits are computed for a chunk of tokens at a time, so memory does not grow with tokens × vocabulary.
    ///
    /// # Shapes
    /// `x` (tokens, d_model), `labels` (tokens,) → dx (tokens, d_model).
    ///
    /// # Errors
    /// If there are no tokens, a label is not in the vocabulary, or the shapes do not match.
    pub(crate) fn loss<T: Real>(
        &self,
        p: &Params<T>,
        x: ArrayView2<'_, T>,
        labels: &[u32],
        label_smoothing: T,
        mut grads: Option<&mut Params<T>>,
    ) -> Result<(f64, Array2<T>)> {
        if labels.is_empty() || labels.len() != x.nrows() {
            let (what, expected) = ("embedding: labels", x.nrows().max(1));
            return Err(chumoku_kernels::Error::Length { what, expected, found: labels.len() }.into());
        }
        let options = CrossEntropy { label_smoothing, class_weights: None, row_weights: None };
        let x = contiguous(x);
        let mut dx = zeros(if grads.is_some() { x.dim() } else { (0, self.width) });
        let mut loss = 0.0;
        for (piece, labels) in labels.chunks(LOSS_CHUNK).enumerate() {
            let rows = piece * LOSS_CHUNK..piece * LOSS_CHUNK + labels.len();
            let part = x.slice_axis(Axis(0), rows.clone().into());
            let logits = self.logits(p, part)?;
            let mut d_logits = zeros(logits.dim());
            let mean = cross_entropy(numbers(&logits.view()), labels, &options, numbers_mut(&mut d_logits))?;
            let share = labels.len() as f64 / x.nrows() as f64;
            loss += share * mean.to_f64();
            let Some(grads) = &mut grads else { continue };
            // logits = x tableᵀ + bias
            if let Some(bias) = self.output_bias.filter(|&bias| grads.is_trained(bias)) {
                let d_bias = grads.slice_mut(bias);
                for row in d_logits.rows() {
                    d_bias.iter_mut().zip(row).for_each(|(to, &d)| *to += T::round_from(share) * d);
                }
            }
            let (d_logits, share) = (d_logits.view(), T::round_from(share));
            let product = FusedGemm {
                a: mat_ref(&d_logits)?,
                b: p.operand(self.weight),
                bias: None,
                epilogue: Epilogue::Identity,
                precision: p.precision(),
            };
            let of_part = product.compute()?;
            let to = &mut numbers_mut(&mut dx)[rows.start * self.width..rows.end * self.width];
            to.iter_mut().zip(of_part).for_each(|(to, d)| *to = share * d);
            if grads.is_trained(self.weight) {
                let part = part.mapv(|x| share * x);
                let d_table = grads.matrix_mut(self.weight);
                gemm(mat_ref(&d_logits)?.t(), mat_ref(&part.view())?, OutputInit::Keep, d_table, p.precision())?;
            }
        }
        Ok((loss, dx))
    }
}

/// Tokens whose logits exist at a time.
const LOSS_CHUNK: usize = 1024;
