//! The input of the first layer: embeddings, positions and token types, and the normalization of their sum.

use crate::layers::program_builder::{ProgramBuilder, shape_error};
use crate::layers::sublayer::NormSite;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use chumoku::tr;

impl ProgramBuilder<'_> {
    /// Adds the embeddings. Returns X: their normalized sum (Vaswani et al. 2017, section 3.4; Devlin et al. 2019, figure
    /// 2), or the given one. X that is given beside embeddings is the output of an attention before this one.
    pub(crate) fn add_embeddings(&mut self) -> Result<Option<StepId>, String> {
        self.check_norm(NormSite::Embeddings)?;
        let has = |quantity| self.example.inputs.contains_key(&quantity);
        let (has_x, has_norm) = (has(Quantity::X), self.example.options.embedding_norm.is_some());
        let addends: Vec<Quantity> =
            [Quantity::Positions, Quantity::TypeVectors].into_iter().filter(|addend| has(*addend)).collect();
        let end = if has_x || has_norm { Quantity::EmbeddingSum } else { Quantity::X };
        let ids = self.whole_input(Quantity::TokenIds)?;
        let embeddings = match self.whole_input(Quantity::TokenVectors)? {
            Some(of) => {
                let is_sum = end == Quantity::X && addends.is_empty();
                let quantity = if is_sum { Quantity::X } else { Quantity::Embeddings };
                let factor = (self.shape(of).1 as f64).sqrt();
                Some(self.program.add_computed(quantity, None, Operation::Scale { of, factor })?)
            }
            None => self.whole_input(Quantity::Embeddings)?,
        };
        if has_norm && (has_x || embeddings.is_none()) {
            return Err(tr!(
                "options.embedding_norm: expected token_vectors or embeddings, whose sum it normalizes, and no X",
                "options.embedding_norm: 和を正規化する token_vectors か embeddings が必要で、X は与えられません"
            ));
        }
        let Some(mut sum) = embeddings else {
            let x = self.whole_input(Quantity::X)?;
            x.map_or(Ok(()), |x| self.check_ids(ids, x))?;
            return Ok(x);
        };
        self.check_ids(ids, sum)?;
        for (i, addend) in addends.iter().enumerate() {
            if *addend == Quantity::TypeVectors {
                let types = self.whole_input(Quantity::TypeIds)?;
                self.check_ids(types, sum)?;
            }
            let Some(added) = self.whole_input(*addend)? else { continue };
            let (matrix, shape) = (self.program.value(added), self.shape(sum));
            if matrix.dim() != shape {
                let expected = tr!("{}×{}", "{}×{} ", shape.0, shape.1);
                return Err(shape_error(addend.name(), matrix, &expected, "embeddings", shape));
            }
            let quantity = if i + 1 == addends.len() { end } else { Quantity::PositionSum };
            sum = self.program.add_computed(quantity, None, Operation::Sum([sum, added]))?;
        }
        match (has_norm, has_x) {
            (true, _) => self.add_norm(sum, Quantity::X, NormSite::Embeddings).map(Some),
            (_, true) => self.whole_input(Quantity::X),
            _ => Ok(Some(sum)),
        }
    }

    /// Checks that there is one id for each row of a matrix.
    fn check_ids(&self, ids: Option<StepId>, rows: StepId) -> Result<(), String> {
        let shape = self.shape(rows);
        let Some(ids) = ids.filter(|ids| self.shape(*ids) != (shape.0, 1)) else { return Ok(()) };
        let name = self.program.step(ids).quantity.name();
        let other = if self.program.step(rows).quantity == Quantity::X { "X" } else { "embeddings" };
        let expected = tr!("{}×1", "{}×1 ", shape.0);
        Err(shape_error(name, self.program.value(ids), &expected, other, shape))
    }
}
