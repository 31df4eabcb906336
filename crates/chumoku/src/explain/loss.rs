//! The loss of a model that reads a text, its gradients in one layer, and the step that training takes down them.

use crate::lang::wording::{did_you_mean, quote};
use crate::models::LossTrace;
use crate::nn::{DenseParameters, GradientTrace, LinearMatrices, NormParameters};
use crate::{Error, Result, TextClassifier, tr};
use chumoku_kernels::AdamW;

/// The cross-entropy of a model's network on a text, and its gradients in one layer: those of the whole network, without
/// dropout, smoothing of labels, or weights of classes.
#[derive(Clone, Debug)]
pub struct RecordedLoss {
    /// What is to be predicted.
    pub target: LossTarget,
    /// The loss, as the model computed it.
    pub loss: f64,
    /// In the layer.
    pub layer: GradientTrace,
    /// Behind the last layer, of a classifier.
    pub answer: Option<AnswerGradients>,
    /// The step of AdamW that training takes unless it is told otherwise: the first on a matrix, at the highest learning rate.
    pub step: AdamW,
}

/// What a loss is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossTarget {
    /// A class, by its number from 0 and its name.
    Class(usize, String),
    /// Each token of the text but the first, after those before it.
    NextTokens,
    /// Each token of a translation, and its end.
    Translation,
}

/// The gradients of what makes an answer of the last layer's output. They lie as the parameters do.
#[derive(Clone, Debug)]
pub struct AnswerGradients {
    /// Of γ and β of the normalisation behind the last layer.
    pub norm: Option<NormParameters>,
    /// Of the layer after pooling.
    pub dense: Option<DenseParameters>,
    /// Of the last layer.
    pub last: LinearMatrices,
}

impl RecordedLoss {
    pub(super) fn for_class(record: LossTrace, labels: &[String], step: AdamW) -> RecordedLoss {
        let LossTrace { class, loss, layer, norm, dense, last } = record;
        let class = class as usize;
        let label = labels.get(class).cloned().unwrap_or_default();
        let answer = Some(AnswerGradients { norm, dense, last });
        RecordedLoss { target: LossTarget::Class(class, label), loss, layer, answer, step }
    }

    pub(super) fn for_tokens(target: LossTarget, loss: f64, layer: GradientTrace, step: AdamW) -> RecordedLoss {
        RecordedLoss { target, loss, layer, answer: None, step }
    }
}

impl TextClassifier {
    /// The number of the class that a loss is of, where one is named.
    pub(super) fn loss_class(&self, class: Option<&str>) -> Result<Option<u32>> {
        if !self.config.target.is_one_class() {
            return Err(Error::Setting(tr!(
                "gradients: expected a model that chooses one class, whose loss is a cross-entropy; this one gives several labels, or \
                 numbers",
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
