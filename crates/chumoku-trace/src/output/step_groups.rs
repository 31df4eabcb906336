//! Sections of a page: steps that belong together, such as those of attention or of a parameter's update.

use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use chumoku::lang::Lang;
use chumoku::tr_in;

/// The stage of a network that a quantity belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkStage {
    Input,
    Recurrent,
    Attention,
    FeedForward,
    Vector,
    Loss,
}

/// A section of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepGroup {
    Forward(NetworkStage),
    Backward(NetworkStage),
    Update(Quantity),
    AfterStep,
}

impl NetworkStage {
    fn of(quantity: Quantity) -> NetworkStage {
        // Quantities are in the order of a trace.
        let ends = [
            (Quantity::X, NetworkStage::Input),
            (Quantity::StepOutput, NetworkStage::Recurrent),
            (Quantity::FinalNorm, NetworkStage::Attention),
            (Quantity::FinalNorm2, NetworkStage::FeedForward),
            (Quantity::Vector, NetworkStage::Vector),
        ];
        let found = ends.iter().find(|(last, _)| quantity as usize <= *last as usize);
        found.map_or(NetworkStage::Loss, |(_, part)| *part)
    }

    fn title(self, lang: Lang) -> &'static str {
        match self {
            NetworkStage::Input => lang.pick("Input", "入力"),
            NetworkStage::Recurrent => lang.pick("Recurrent network", "リカレントネットワーク"),
            NetworkStage::Attention => lang.pick("Attention", "アテンション"),
            NetworkStage::FeedForward => lang.pick("Feed-forward network", "フィードフォワードネットワーク"),
            NetworkStage::Vector => lang.pick("Vector of the text", "テキストのベクトル"),
            NetworkStage::Loss => lang.pick("Classes and loss", "クラスと損失"),
        }
    }
}

impl StepGroup {
    pub(crate) fn of(kind: StepKind, quantity: Quantity) -> StepGroup {
        match kind {
            StepKind::Value => StepGroup::Forward(NetworkStage::of(quantity)),
            StepKind::AfterStep if !quantity.is_parameter() => StepGroup::AfterStep,
            StepKind::FirstMomentBefore | StepKind::SecondMomentBefore => StepGroup::Update(quantity),
            kind if kind.is_of_optimizer() => StepGroup::Update(quantity),
            _ => StepGroup::Backward(NetworkStage::of(quantity)),
        }
    }

    /// Returns whether the group follows the forward pass.
    pub(crate) fn is_after_forward(self) -> bool {
        !matches!(self, StepGroup::Forward(_))
    }

    pub(crate) fn title(self, lang: Lang) -> String {
        match self {
            StepGroup::Forward(part) => part.title(lang).to_owned(),
            StepGroup::Backward(part) => {
                tr_in!("Backward: {}", "逆伝播：{}", lang, part.title(lang).to_lowercase())
            }
            StepGroup::Update(quantity) => tr_in!("Update of {}", "{} の更新", lang, quantity.symbol()),
            StepGroup::AfterStep => lang.pick("After the step", "更新後").to_owned(),
        }
    }
}
