//! Steps after the last layer: its normalization, pooling, and the dense layer.

use crate::layers::program_builder::ProgramBuilder;
use crate::layers::sublayer::NormSite;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use chumoku::tr;

impl ProgramBuilder<'_> {
    /// Adds the normalization after the last layer, if the options ask for it.
    pub(crate) fn add_last_norm(&mut self, last: Option<StepId>) -> Result<Option<StepId>, String> {
        self.check_norm(NormSite::Layers)?;
        match (self.example.options.last_norm, last) {
            (None, _) => Ok(last),
            (Some(_), Some(of)) => self.add_norm(of, Quantity::LastNorm, NormSite::Layers).map(Some),
            (Some(_), None) => Err(tr!(
                "options.last_norm: expected an output of attention or of a feed-forward network to normalize",
                "options.last_norm: 正規化する値（アテンションかフィードフォワードネットワークの出力）が必要です"
            )),
        }
    }

    /// Adds pooling, the dense layer and the division by the length, as far as the options ask for them.
    pub(crate) fn add_text_vector(&mut self, last: Option<StepId>) -> Result<Option<StepId>, String> {
        let options = &self.example.options;
        let hidden = self.whole_input(Quantity::Hidden)?;
        let has = |quantity| self.example.inputs.contains_key(&quantity);
        let asks =
            options.unit_length || self.dense_request().is_some() || has(Quantity::DenseW) || has(Quantity::Hidden);
        let Some(of) = hidden.or(last).filter(|_| !options.pooling.is_empty()) else {
            return match asks || !options.pooling.is_empty() {
                false => Ok(None),
                true => Err(tr!(
                    "options.pooling: expected a pooling (such as \"mean\"), and hidden or the inputs of an output",
                    "options.pooling: 行を一つにまとめる方法（\"mean\" など）と、hidden か、出力を計算できる入力が必要です"
                )),
            };
        };
        let pooled = Operation::Pool { of, poolings: options.pooling.clone() };
        let row = self.program.add_computed(Quantity::Pooled, None, pooled)?;
        let row = self.add_dense(row)?;
        match options.unit_length {
            true => self.program.add_computed(Quantity::Vector, None, Operation::UnitLength(row)).map(Some),
            false => Ok(Some(row)),
        }
    }

    /// Adds the dense layer, its activation and its normalization.
    fn add_dense(&mut self, row: StepId) -> Result<StepId, String> {
        use Quantity::{Dense, DenseActivated, DenseB, DenseNorm, DenseTanh, DenseW};
        let options = &self.example.options;
        self.check_norm(NormSite::Dense)?;
        if let Some(found) = self.dense_request().filter(|_| !self.example.inputs.contains_key(&DenseW)) {
            return Err(tr!(
                "{found}: expected inputs.W_dense too, the weights of the dense layer",
                "{found}: 全結合層の重み行列 inputs.W_dense も必要です"
            ));
        }
        if options.dense_tanh && options.dense_activation.is_some() {
            return Err(tr!(
                "options.dense_tanh and options.dense_activation: expected only one of the two",
                "options.dense_tanh と options.dense_activation: どちらか一つだけが必要です"
            ));
        }
        let Some(mut row) = self.project(row, [DenseW, DenseB, Dense])? else { return Ok(row) };
        if options.dense_tanh {
            row = self.program.add_computed(DenseTanh, None, Operation::Tanh(row))?;
        }
        if let Some(activation) = options.dense_activation {
            row = self.program.add_computed(DenseActivated, None, Operation::Activation { of: row, activation })?;
        }
        match options.dense_norm {
            Some(_) => self.add_norm(row, DenseNorm, NormSite::Dense),
            None => Ok(row),
        }
    }

    /// Returns the first input or option, except W_dense, that asks for a dense layer.
    fn dense_request(&self) -> Option<&'static str> {
        let options = &self.example.options;
        let said = [
            ("inputs.b_dense", self.example.inputs.contains_key(&Quantity::DenseB)),
            ("options.dense_tanh", options.dense_tanh),
            ("options.dense_activation", options.dense_activation.is_some()),
            ("options.dense_norm", options.dense_norm.is_some()),
        ];
        said.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
    }
}
