//! The steps of a layer's feed-forward network.

use crate::layers::program_builder::ProgramBuilder;
use crate::layers::sublayer::NormSite;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use chumoku::nn::NormOrder;
use chumoku::tr;

/// Inputs of attention: with any of these, X alone is not the input of the feed-forward network.
pub(crate) const ATTENTION_INPUTS: [Quantity; 9] = [
    Quantity::WQ,
    Quantity::WK,
    Quantity::WV,
    Quantity::Q,
    Quantity::K,
    Quantity::V,
    Quantity::Scores,
    Quantity::ScaledScores,
    Quantity::Weights,
];

impl ProgramBuilder<'_> {
    /// Adds the feed-forward network after attention or, without attention, after the input. Returns the last step so
    /// far (Vaswani et al. 2017, section 3.3; Shazeer 2020).
    pub(crate) fn add_feed_forward(
        &mut self,
        x: Option<StepId>,
        attention: Option<StepId>,
    ) -> Result<Option<StepId>, String> {
        use Quantity::{Activated, B1, B2, BGate, FeedForward, FinalNorm2, Gate, Gated, Inner, Norm2, Residual2};
        use Quantity::{W1, W2, WGate};
        let options = &self.example.options;
        let has = |quantity| self.example.inputs.contains_key(&quantity);
        self.check_norm(NormSite::FeedForward)?;
        if !has(W1) {
            return match self.feed_forward_request() {
                None => Ok(attention),
                Some(found) => Err(tr!(
                    "{found}: expected inputs.W_1 too, the first weights of the feed-forward network",
                    "{found}: フィードフォワードネットワークの始まりである inputs.W_1 も必要です"
                )),
            };
        }
        let is_alone = !ATTENTION_INPUTS.into_iter().any(has);
        let Some(from) = attention.or(x.filter(|_| is_alone)) else {
            return Err(tr!(
                "inputs.W_1: expected an input of the feed-forward network: an output of attention, or X alone",
                "inputs.W_1: フィードフォワードネットワークに与える値（アテンションの出力、または X だけ）が必要です"
            ));
        };
        let Some(activation) = options.activation else {
            return Err(tr!(
                "inputs.W_1: expected options.activation, such as \"relu\", for the first linear layer",
                "inputs.W_1: 1 つ目の線形層の後の活性化関数を示す options.activation（\"relu\" など）が必要です"
            ));
        };
        if has(BGate) && !has(WGate) {
            return Err(tr!("inputs.b_gate: expected inputs.W_gate too", "inputs.b_gate: inputs.W_gate も必要です"));
        }
        let source = match options.norm_2 {
            Some(NormOrder::Pre) => self.add_norm(from, Norm2, NormSite::FeedForward)?,
            _ => from,
        };
        let Some(inner) = self.project(source, [W1, B1, Inner])? else { return Ok(attention) };
        let mut last = self.program.add_computed(Activated, None, Operation::Activation { of: inner, activation })?;
        if let Some(gate) = self.project(source, [WGate, BGate, Gate])? {
            let (expected, found) = (self.shape(inner).1, self.shape(gate).1);
            if expected != found {
                return Err(tr!(
                    "inputs.W_gate: expected {expected} columns, as W_1 has, found {found}",
                    "inputs.W_gate: W_1 と同じく {expected} 列が必要ですが、{found} 列です"
                ));
            }
            last = self.program.add_computed(Gated, None, Operation::Hadamard([last, gate]))?;
        }
        let Some(output) = self.project(last, [W2, B2, FeedForward])? else {
            return match has(B2) || options.norm_2.is_some() {
                false => Ok(Some(last)),
                true => Err(tr!(
                    "inputs.W_2: expected the weights of the second linear layer, before b_2 and the residual connection",
                    "inputs.W_2: b_2 と残差接続の前に来る 2 つ目の線形層の重み行列が必要です"
                )),
            };
        };
        self.add_residual_and_norm(Some(from), output, NormSite::FeedForward, [Residual2, FinalNorm2]).map(Some)
    }

    /// Returns the first input or option, except W_1, that asks for a feed-forward network.
    fn feed_forward_request(&self) -> Option<String> {
        use Quantity::{B1, B2, BGate, Beta2, Gamma2, W2, WGate};
        let options = &self.example.options;
        let inputs = [Gamma2, Beta2, B1, WGate, BGate, W2, B2].into_iter();
        let given = inputs.filter(|quantity| self.example.inputs.contains_key(quantity));
        let given = given.map(|quantity| format!("inputs.{}", quantity.name()));
        let said = [("activation", options.activation.is_some()), ("norm_2", options.norm_2.is_some())].into_iter();
        let said = said.filter(|(_, is_set)| *is_set).map(|(name, _)| format!("options.{name}"));
        given.chain(said).next()
    }
}
