//! Recurrent networks over packed sequences: RNN, LSTM and GRU, forward and backward through time.
//!
//! The caller computes everything that does not depend on the previous step. One matrix product of all inputs with the
//! input weights gives the projections for [`Recurrence::forward`]. The gradients of both weights are products over all
//! tokens too, from the results of [`Recurrence::backward`]. This module does the steps in between. `steps` multiplies
//! the active sequences of a step with the recurrent weights, and `cells` turns the sums into gates, state and output.
//!
//! The result of a sequence does not depend on other sequences or the number of threads: threads share whole sequences.
//!
//! # Files
//!
//! - `cells`: gates, state and output of a step
//! - `reference`: the reference implementation
//! - `steps`: the loop through time
//! - `types`: cells with their formulas, arguments and results

mod cells;
pub(crate) mod reference;
mod steps;
mod types;

pub use types::{ProjectionGradients, Recurrence, RecurrentActivations, RecurrentCell};

use crate::gemm::{MatMut, MatRef, Rhs};
use crate::number::{Real, implementations};
use crate::profile::{self, Cost, Operation};
use crate::{Error, Result};

impl Recurrence<'_> {
    /// Computes the output of every step.
    ///
    /// # Shapes
    /// `weight` (hidden, gates · hidden) = `W_hhᵀ`; `bias` (gates · hidden,); `projections` (tokens, gates · hidden) =
    /// `W_ih x + b_ih`, which are overwritten by the gates; `y` (tokens, hidden), output.
    ///
    /// # Errors
    /// If the shapes do not match, or the offsets do not ascend from 0.
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

    /// Computes the gradients of the projections.
    ///
    /// # Shapes
    /// `weight` (gates · hidden, hidden) = `W_hh`; `trace` from the forward pass; `dy` (tokens, hidden), the gradient
    /// of y.
    ///
    /// # Errors
    /// Same as for [`Recurrence::forward`].
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
            return Err(Error::value("recurrence: dy", "expected contiguous rows"));
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

implementations! {
    /// Both implementations of [`Recurrence::forward`].
    RecurrentForward<'a, T>(
        r: &'a Recurrence<'a>, weight: Rhs<'a, T>, bias: &'a [T], projections: Vec<T>, y: MatMut<'a, T>
    ) -> RecurrentActivations<T> { fast: steps::forward_f32, reference: reference::recurrent_forward }
}

implementations! {
    /// Both implementations of [`Recurrence::backward`].
    RecurrentBackward<'a, T>(
        r: &'a Recurrence<'a>, weight: Rhs<'a, T>, trace: &'a RecurrentActivations<T>, dy: MatRef<'a, T>
    ) -> ProjectionGradients<T> { fast: steps::backward_f32, reference: reference::recurrent_backward }
}

fn check_shape(what: &'static str, expected: (usize, usize), found: (usize, usize)) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::shape(what, expected, found)) }
}
