//! The loss of a model on a text, its gradients in one layer, and the optimizer step.

use crate::lang::wording::{did_you_mean, quote};
use crate::models::LossTrace;
use crate::nn::{DenseParameters, EmbeddingGradients, GradientTrace, LinearMatrices, NormParameters};
use crate::{Error, Result, TextClassifier, tr};
use chumoku_kernels::AdamW;

/// The cross-entropy of a model's network on a text, and the gradients of one layer. The gradients are those of the
/// whole network, without dropout, label smoothing and class weights.
#[derive(Clone, Debug)]
pub struct RecordedLoss {
    /// The prediction target of the loss.
    pub target: LossTarget,
    /// The loss computed by the model.
    pub loss: f64,
    /// The gradients in the layer.
    pub layer: GradientTrace,
    /// The gradients of a classifier's normalized embeddings, if the layer is the first.
    pub embedding: Option<EmbeddingGradients>,
    /// The gradients after the last layer, for classifiers.
    pub answer: Option<AnswerGradients>,
    /// The first AdamW step of default training, on a matrix, at the peak learning rate.
    pub step: AdamW,
}

/// The target of a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossTarget {
    /// A class: its index and name.
    Class(usize, String),
    /// Each token of the text except the first, given the tokens before it.
    NextTokens,
    /// Each token of a translation, and its end token.
    Translation,
}

/// The gradients after the last layer. Their layout is that of the parameters.
#[derive(Clone, Debug)]
pub struct AnswerGradients {
    /// The gradients of γ and β in the normalization after the last layer.
    pub norm: Option<NormParameters>,
    /// The gradients of the dense layer after pooling.
    pub dense: Option<DenseParameters>,
    /// The gradients of the output layer.
    pub last: LinearMatrices,
}

impl RecordedLoss {
    pub(super) fn for_class(record: LossTrace, labels: &[String], step: AdamW) -> RecordedLoss {
        let LossTrace { class, loss, layer, embedding, norm, dense, last } = record;
        let class = class as usize;
        let label = labels.get(class).cloned().unwrap_or_default();
        let answer = Some(AnswerGradients { norm, dense, last });
        RecordedLoss { target: LossTarget::Class(class, label), loss, layer, embedding, answer, step }
    }

    pub(super) fn for_tokens(target: LossTarget, loss: f64, layer: GradientTrace, step: AdamW) -> RecordedLoss {
        RecordedLoss { target, loss, layer, embedding: None, answer: None, step }
    }
}

impl TextClassifier {
    /// Returns the index of the class of the loss, if a class is named.
    pub(super) fn loss_class(&self, class: Option<&str>) -> Result<Option<u32>> {
        if !self.config.target.is_one_class() {
            return Err(Error::Setting(tr!(
                "gradients: expected a model of mutually exclusive classes, whose loss is a cross-entropy; this one predicts several \
                 labels or numbers",
                "勾配: 一つのクラスを選ぶモデル（損失は交差エントロピー）が必要です。このモデルは複数のラベルか数値を答えます"
            )));
        }
        let Some(class) = class else { return Ok(None) };
        let labels = self.labels();
        match labels.iter().position(|label| label == class) {
            Some(found) => Ok(Some(found as u32)),
            None => {
                let hint = did_you_mean(class, labels.iter().map(String::as_str));
                let (class, known) = (quote(class), labels.join(", "));
                Err(Error::Setting(tr!(
                    "the model has no class {class}{hint}; it has {known}",
                    "モデルに{class}というクラスはありません{hint}。あるのは {known} です"
                )))
            }
        }
    }
}
