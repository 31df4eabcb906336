//! Residual connections and normalizations around the sublayers, and the normalizations after the layers.

use crate::examples::options::ExampleOptions;
use crate::layers::program_builder::ProgramBuilder;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use chumoku::nn::{NormKind, NormOrder};
use chumoku::tr;

/// A place of a normalization: the embeddings, a sublayer with its residual connection, or after the layers.
#[derive(Clone, Copy)]
pub(crate) enum NormSite {
    Attention,
    FeedForward,
    /// The sum of embeddings.
    Embeddings,
    /// After all layers.
    Layers,
    /// The dense layer after pooling.
    Dense,
}

/// Settings of the normalization at a place.
struct NormSettings {
    order: Option<NormOrder>,
    is_rms: bool,
    epsilon: f64,
    /// γ and β.
    parameters: [Quantity; 2],
    /// The options for its position, or its presence, and for RMS normalization.
    names: [&'static str; 2],
}

impl NormSite {
    fn settings(self, options: &ExampleOptions) -> NormSettings {
        match self {
            NormSite::Attention => NormSettings {
                order: options.norm,
                is_rms: options.rms_norm,
                epsilon: options.epsilon,
                parameters: [Quantity::NormGamma, Quantity::NormBeta],
                names: ["norm", "rms_norm"],
            },
            NormSite::FeedForward => NormSettings {
                order: options.norm_2,
                is_rms: options.rms_norm_2,
                epsilon: options.epsilon_2.unwrap_or(options.epsilon),
                parameters: [Quantity::Gamma2, Quantity::Beta2],
                names: ["norm_2", "rms_norm_2"],
            },
            NormSite::Embeddings => NormSettings {
                order: options.embedding_norm.map(|_| NormOrder::Post),
                is_rms: options.embedding_norm == Some(NormKind::Rms),
                epsilon: options.epsilon_embedding.unwrap_or(options.epsilon),
                parameters: [Quantity::EmbeddingGamma, Quantity::EmbeddingBeta],
                names: ["embedding_norm"; 2],
            },
            NormSite::Layers => NormSettings {
                order: options.last_norm.map(|_| NormOrder::Post),
                is_rms: options.last_norm == Some(NormKind::Rms),
                epsilon: options.epsilon_last.unwrap_or(options.epsilon),
                parameters: [Quantity::LastGamma, Quantity::LastBeta],
                names: ["last_norm"; 2],
            },
            NormSite::Dense => NormSettings {
                order: options.dense_norm.map(|_| NormOrder::Post),
                is_rms: options.dense_norm == Some(NormKind::Rms),
                epsilon: options.epsilon_dense.unwrap_or(options.epsilon),
                parameters: [Quantity::DenseGamma, Quantity::DenseBeta],
                names: ["dense_norm"; 2],
            },
        }
    }
}

impl ProgramBuilder<'_> {
    /// Checks that inputs and options of a normalization fit together.
    pub(crate) fn check_norm(&self, part: NormSite) -> Result<(), String> {
        let has = |quantity| self.example.inputs.contains_key(&quantity);
        let norm = part.settings(&self.example.options);
        let [gamma, beta] = norm.parameters;
        let ([order, rms], [gamma_name, beta_name]) = (norm.names, norm.parameters.map(Quantity::name));
        if let NormSite::Embeddings | NormSite::Layers | NormSite::Dense = part {
            if norm.order.is_none() && (has(gamma) || has(beta)) {
                return Err(tr!(
                    "{gamma_name} and {beta_name}: expected options.{order}, \"layer\" or \"rms\", for the kind of \
                     normalization",
                    "{gamma_name} と {beta_name}: 正規化の種類を示す options.{order}（\"layer\" か \"rms\"）が必要です"
                ));
            }
            if norm.is_rms && has(beta) {
                return Err(tr!(
                    "options.{order}: expected no {beta_name}, which RMS normalization does not have",
                    "options.{order}: RMS 正規化に {beta_name} はありません"
                ));
            }
            return Ok(());
        }
        if norm.order.is_none() && (has(gamma) || has(beta)) {
            return Err(tr!(
                "{gamma_name} and {beta_name}: expected options.{order}, \"pre\" or \"post\", for their position",
                "{gamma_name} と {beta_name}: どこに置くかを示す options.{order}（\"pre\" か \"post\"）が必要です"
            ));
        }
        if norm.is_rms && (norm.order.is_none() || has(beta)) {
            return Err(tr!(
                "options.{rms}: expected options.{order}, \"pre\" or \"post\", for its position, and no {beta_name}, \
                 which RMS normalization does not have",
                "options.{rms}: どこに置くかを示す options.{order}（\"pre\" か \"post\"）が必要です。RMS 正規化に {beta_name} は\
                 ありません"
            ));
        }
        Ok(())
    }

    /// Adds a normalization.
    pub(crate) fn add_norm(&mut self, of: StepId, result: Quantity, part: NormSite) -> Result<StepId, String> {
        let norm = part.settings(&self.example.options);
        let (columns, name) = (self.shape(of).1, self.program.step(of).quantity.name());
        let [gamma, beta] = norm.parameters;
        let gamma = self.row_input(gamma, columns, name)?;
        let beta = self.row_input(beta, columns, name)?;
        let epsilon = norm.epsilon;
        let operation = match norm.is_rms {
            true => Operation::RmsNorm { of, gamma, epsilon },
            false => Operation::LayerNorm { of, gamma, beta, epsilon },
        };
        self.program.add_computed(result, None, operation)
    }

    /// Adds a residual connection and a normalization around a sublayer, as far as the options ask for them.
    pub(crate) fn add_residual_and_norm(
        &mut self,
        x: Option<StepId>,
        output: StepId,
        part: NormSite,
        [residual, normalized]: [Quantity; 2],
    ) -> Result<StepId, String> {
        let order = part.settings(&self.example.options).order;
        let is_claimed = self.example.claims.iter().any(|(_, claimed, _)| *claimed == residual);
        let has_residual = self.example.options.residual || order.is_some() || is_claimed;
        let (Some(x), true) = (x, has_residual) else { return Ok(output) };
        if self.shape(x) != self.shape(output) {
            let [[a, b], [c, d]] = [x, output].map(|id| [self.shape(id).0, self.shape(id).1]);
            let [x, output] = [x, output].map(|id| self.program.step(id).quantity.name());
            let name = residual.name();
            return Err(tr!(
                "{name}: {x} is {a}×{b} and {output} {c}×{d}: expected equal shapes, to add them",
                "{name}: {x} は {a}×{b}、{output} は {c}×{d} です。足し合わせるには同じ形でなければなりません"
            ));
        }
        let sum = self.program.add_computed(residual, None, Operation::Sum([x, output]))?;
        match order {
            Some(NormOrder::Post) => self.add_norm(sum, normalized, part),
            _ => Ok(sum),
        }
    }
}
