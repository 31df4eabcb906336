//! Recurrent networks over packed sequences: RNN, LSTM and GRU, forward and backward through time.
//!
//! What does not depend on the step before, the products of all inputs with the input weights, is the caller's: one
//! matrix product over all tokens makes the projections that [`Recurrence::forward`] is given. The gradients of both
//! weights are products over all tokens too, of what [`Recurrence::backward`] returns. In between stands what has to go
//! step by step: `steps` takes the sequences that are alive at a step through one product with the recurrent weights,
//! `cells` turns their sums into gates, state and output.
//!
//! A sequence's result depends on no other sequence and on no number of threads: threads share out whole sequences.
//!
//! # Files
//!
//! - `cells`: gates, state and output of a step
//! - `problem`: arguments and formulas
//! - `reference`: the plain version
//! - `steps`: the loop through time

mod cells;
pub(crate) mod reference;
mod steps;
mod types;

pub use types::{ProjectionGradients, Recurrence, RecurrentActivations, RecurrentCell};

use crate::gemm::{MatMut, MatRef, Rhs};
use crate::number::{Implementations, Real};
use crate::profile::{self, Cost, Operation};
use crate::{Error, Result};

impl Recurrence<'_> {
    /// The output of every step.
    ///
    /// # Shapes
    /// `weight` (hidden, gates · hidden) = `W_hhᵀ`; `bias` (gates · hidden,); `projections` (tokens, gates · hidden) =
    /// `W_ih x + b_ih`, which become the gates; `y` (tokens, hidden), written.
    ///
    /// # Errors
    /// If the shapes do not fit, or the offsets do not ascend from 0.
    pub fn forward<T: Real>(
        &self,
        weight: Rhs<'_, T>,
        bias: &[T],
        projections: Vec<T>,
        y: MatMut<'_, T>,
    ) -> Result<RecurrentActivations<T>> {
        let tokens = self.tokens()?;
        let width = self.cell.gates() * self.hidden;
        check_shape("recurrence: weight", (self.hidden, width), (weight.matrix().rows(), weight.matrix().cols()))?;
        Error::check_length("recurrence: bias", width, bias.len())?;
        Error::check_length("recurrence: projections", tokens.saturating_mul(width), projections.len())?;
        check_shape("recurrence: y", (tokens, self.hidden), (y.rows(), y.cols()))?;
        profile::count_multiply_adds(&[tokens, self.hidden, width]);
        let _timed = self.timed::<T>("recurrence", tokens);
        Ok(T::run::<RecurrentForward>((self, weight, bias, projections, y)))
    }

    /// The gradients of the projections.
    ///
    /// # Shapes
    /// `weight` (gates · hidden, hidden) = `W_hh`; `trace` of the forward pass; `dy` (tokens, hidden), the gradient of y.
    ///
    /// # Errors
    /// As for [`Recurrence::forward`].
    pub fn backward<T: Real>(
        &self,
        weight: Rhs<'_, T>,
        trace: &RecurrentActivations<T>,
        dy: MatRef<'_, T>,
    ) -> Result<ProjectionGradients<T>> {
        let tokens = self.tokens()?;
        let width = self.cell.gates() * self.hidden;
        check_shape("recurrence: weight", (width, self.hidden), (weight.matrix().rows(), weight.matrix().cols()))?;
        Error::check_length("recurrence: gates", tokens.saturating_mul(width), trace.gates.len())?;
        Error::check_length("recurrence: state", self.state_len(), trace.state.len())?;
        Error::check_length("recurrence: previous", tokens.saturating_mul(self.hidden), trace.previous_outputs.len())?;
        check_shape("recurrence: dy", (tokens, self.hidden), (dy.rows(), dy.cols()))?;
        if !dy.has_contiguous_rows() {
            return Err(Error::value("recurrence: dy", "expected rows whose numbers lie side by side"));
        }
        let _timed = self.timed::<T>("recurrence, backward", tokens);
        Ok(T::run::<RecurrentBackward>((self, weight, trace, dy)))
    }
}

impl Recurrence<'_> {
    fn timed<T>(&self, name: &'static str, tokens: usize) -> profile::OperationGuard {
        let width = self.cell.gates() * self.hidden;
        profile::operation(|| {
            let bytes = 2 * tokens * (width + self.hidden) * size_of::<T>();
            let cost = Cost::products(profile::saturating_product(&[tokens, self.hidden, width]), None, bytes);
            (Operation::new(name, [self.hidden, width]), cost)
        })
    }
}

/// Both versions of [`Recurrence::forward`].
struct RecurrentForward;

impl Implementations for RecurrentForward {
    type Args<'a, T: Real> = (&'a Recurrence<'a>, Rhs<'a, T>, &'a [T], Vec<T>, MatMut<'a, T>);
    type Output<T: Real> = RecurrentActivations<T>;
    fn fast((r, weight, bias, projections, y): Self::Args<'_, f32>) -> RecurrentActivations<f32> {
        steps::forward_f32(r, weight, bias, projections, y)
    }
    fn reference((r, weight, bias, projections, y): Self::Args<'_, f64>) -> RecurrentActivations<f64> {
        reference::recurrent_forward(r, weight, bias, projections, y)
    }
}

/// Both versions of [`Recurrence::backward`].
struct RecurrentBackward;

impl Implementations for RecurrentBackward {
    type Args<'a, T: Real> = (&'a Recurrence<'a>, Rhs<'a, T>, &'a RecurrentActivations<T>, MatRef<'a, T>);
    type Output<T: Real> = ProjectionGradients<T>;
    fn fast((r, weight, trace, dy): Self::Args<'_, f32>) -> ProjectionGradients<f32> {
        steps::backward_f32(r, weight, trace, dy)
    }
    fn reference((r, weight, trace, dy): Self::Args<'_, f64>) -> ProjectionGradients<f64> {
        reference::recurrent_backward(r, weight, trace, dy)
    }
}

fn check_shape(what: &'static str, expected: (usize, usize), found: (usize, usize)) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::shape(what, expected, found)) }
}
