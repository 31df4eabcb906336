//! A program under construction, and the helpers that all its parts share.

use crate::examples::example::WorkedExample;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use crate::program::steps::Program;
use chumoku::tr;
use ndarray::Array2;

/// A program under construction.
pub(crate) struct ProgramBuilder<'a> {
    pub(crate) example: &'a WorkedExample,
    pub(crate) program: Program,
    /// Numbers of heads of the queries, and of the keys and values.
    pub(crate) heads: [usize; 2],
    /// True if the steps of attention that options leave out are added too.
    pub(crate) is_controllable: bool,
}

/// Returns the error that an input does not fit another matrix.
pub(crate) fn shape_error(
    name: &str,
    found: &Array2<f64>,
    expected: &str,
    other: &str,
    shape: (usize, usize),
) -> String {
    let (rows, columns) = found.dim();
    tr!(
        "inputs.{name} is {rows}×{columns}: expected {expected}, as {other} is {}×{}",
        "inputs.{name} は {rows}×{columns} ですが、{other} が {}×{} なので {expected}が必要です",
        shape.0,
        shape.1
    )
}

impl ProgramBuilder<'_> {
    pub(crate) fn shape(&self, id: StepId) -> (usize, usize) {
        self.program.value(id).dim()
    }

    /// Returns the step of an input that has one matrix for all heads.
    pub(crate) fn whole_input(&mut self, quantity: Quantity) -> Result<Option<StepId>, String> {
        let Some(matrices) = self.example.inputs.get(&quantity) else { return Ok(None) };
        let [matrix] = &matrices[..] else {
            let (name, found) = (quantity.name(), matrices.len());
            return Err(tr!(
                "inputs.{name}: expected one matrix, found {found}",
                "inputs.{name}: 行列は一つだけ必要ですが、{found} 個です"
            ));
        };
        Ok(Some(self.program.add_given(quantity, None, matrix.clone())))
    }

    /// Returns the step of an input with one row, which is added to or multiplied with each row of a matrix of this
    /// width.
    pub(crate) fn row_input(
        &mut self,
        quantity: Quantity,
        columns: usize,
        other: &str,
    ) -> Result<Option<StepId>, String> {
        let Some(id) = self.whole_input(quantity)? else { return Ok(None) };
        let (rows, found) = self.shape(id);
        if (rows, found) != (1, columns) {
            let name = quantity.name();
            return Err(tr!(
                "inputs.{name} is {rows}×{found}: expected 1×{columns}, as {other} has {columns} columns",
                "inputs.{name} は {rows}×{found} ですが、{other} が {columns} 列なので 1×{columns} が必要です"
            ));
        }
        Ok(Some(id))
    }

    /// Adds `source · weight + bias`, if the weight is given.
    pub(crate) fn project(
        &mut self,
        source: StepId,
        [weight, bias, result]: [Quantity; 3],
    ) -> Result<Option<StepId>, String> {
        let Some(id) = self.whole_input(weight)? else { return Ok(None) };
        let (source_shape, matrix) = (self.shape(source), self.program.value(id));
        if matrix.nrows() != source_shape.1 {
            let name = self.program.step(source).quantity.name();
            let expected = tr!("{} rows", "{} 行", source_shape.1);
            return Err(shape_error(weight.name(), matrix, &expected, name, source_shape));
        }
        let columns = matrix.ncols();
        let bias = self.row_input(bias, columns, weight.name())?;
        Ok(Some(self.program.add_computed(result, None, Operation::Product { factors: [source, id], bias })?))
    }
}
