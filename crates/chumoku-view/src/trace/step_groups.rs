//! Sections of a page: steps that belong together, such as those of attention or of a parameter's update.

use super::quantity::Quantity;
use super::step_kind::StepKind;
use chumoku::lang::Lang;

/// The part of a network that a quantity belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkPart {
    Input,
    Recurrent,
    Attention,
    FeedForward,
    Vector,
    Loss,
}

/// A section of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepGroup {
    Forward(NetworkPart),
    Backward(NetworkPart),
    Update(Quantity),
    AfterStep,
}

impl NetworkPart {
    fn of(quantity: Quantity) -> NetworkPart {
        // Quantities are in the order of a trace.
        let ends = [
            (Quantity::X, NetworkPart::Input),
            (Quantity::StepOutput, NetworkPart::Recurrent),
            (Quantity::FinalNorm, NetworkPart::Attention),
            (Quantity::FinalNorm2, NetworkPart::FeedForward),
            (Quantity::Vector, NetworkPart::Vector),
        ];
        let found = ends.iter().find(|(last, _)| quantity as usize <= *last as usize);
        found.map_or(NetworkPart::Loss, |(_, part)| *part)
    }

    fn title(self, lang: Lang) -> &'static str {
        match self {
            NetworkPart::Input => lang.pick("Input", "入力"),
            NetworkPart::Recurrent => lang.pick("Recurrent network", "リカレントネットワーク"),
            NetworkPart::Attention => lang.pick("Attention", "アテンション"),
            NetworkPart::FeedForward => lang.pick("Feed-forward network", "フィードフォワードネットワーク"),
            NetworkPart::Vector => lang.pick("Vector of the text", "テキストのベクトル"),
            NetworkPart::Loss => lang.pick("Classes and loss", "クラスと損失"),
        }
    }
}

impl StepGroup {
    pub(super) fn of(kind: StepKind, quantity: Quantity) -> StepGroup {
        match kind {
            StepKind::Value => StepGroup::Forward(NetworkPart::of(quantity)),
            StepKind::AfterStep if !quantity.is_parameter() => StepGroup::AfterStep,
            StepKind::FirstMomentBefore | StepKind::SecondMomentBefore => StepGroup::Update(quantity),
            kind if kind.is_of_optimizer() => StepGroup::Update(quantity),
            _ => StepGroup::Backward(NetworkPart::of(quantity)),
        }
    }

    /// Returns whether the group follows the forward pass.
    pub(super) fn is_after_forward(self) -> bool {
        !matches!(self, StepGroup::Forward(_))
    }

    pub(super) fn title(self, lang: Lang) -> String {
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
