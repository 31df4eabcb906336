//! The additive score of a query and a key, vᵀ tanh(q + k) (Bahdanau et al. 2014).

use crate::layers::program_builder::{ProgramBuilder, shape_error};
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity::{PairScores, PairSums, PairTanh, Q, ScoreVector, Scores};
use chumoku::tr;

impl ProgramBuilder<'_> {
    /// Adds the scores of all pairs of a query and a key, then the same numbers as a matrix.
    pub(crate) fn add_additive_scores(
        &mut self,
        head: Option<usize>,
        [query, key]: [StepId; 2],
    ) -> Result<StepId, String> {
        let Some(vector) = self.head_input(ScoreVector, head)? else {
            return Err(tr!(
                "options.score \"additive\": expected inputs.v_a, the vector that is multiplied with tanh(q + k)",
                "options.score の \"additive\" には、tanh(q + k) に掛けるベクトル inputs.v_a が必要です"
            ));
        };
        let (queries, keys) = (self.shape(query), self.shape(key));
        if self.shape(vector) != (queries.1, 1) {
            let expected = tr!("{}×1", "{}×1 ", queries.1);
            return Err(shape_error(ScoreVector.name(), self.program.value(vector), &expected, Q.name(), queries));
        }
        let sums = self.program.add_computed(PairSums, head, Operation::PairSums([query, key]))?;
        let tanh = self.program.add_computed(PairTanh, head, Operation::Tanh(sums))?;
        let product = Operation::Product { factors: [tanh, vector], bias: None };
        let scores = self.program.add_computed(PairScores, head, product)?;
        self.program.add_computed(Scores, head, Operation::Reshape { of: scores, columns: keys.0 })
    }
}
