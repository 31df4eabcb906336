//! Descriptions of the gradients of a model's trace, and of the AdamW step at its end.

use chumoku::explain::LossTarget;
use chumoku::lang::{Lang, show_controls};
use chumoku_kernels::AdamW;

/// The loss whose gradients a model's trace shows.
#[derive(Clone, Debug)]
pub(crate) struct TracedLoss {
    /// The prediction target.
    pub(crate) target: LossTarget,
    /// The loss that the model computed.
    pub value: f64,
    /// Symbol of the given gradient that arrives from the layers above; `None` if the trace contains every step up to
    /// the loss.
    pub(crate) arriving: Option<String>,
    /// Symbol of the gradient of an input that other layers read too. The trace shows only the part through this
    /// attention.
    pub(crate) partial: Option<String>,
    /// Symbol of the updated matrix, and the settings of the step.
    pub step: (String, AdamW),
}

impl TracedLoss {
    /// Describes the loss and the step in a few sentences.
    #[must_use]
    pub(crate) fn to_text(&self, lang: Lang) -> String {
        let TracedLoss { target, value, arriving, partial, step: (matrix, adamw) } = self;
        let AdamW { learning_rate, beta1, beta2, epsilon, weight_decay, .. } = adamw;
        let settings = format!("η = {learning_rate}, β₁ = {beta1}, β₂ = {beta2}, ε = {epsilon:e}, λ = {weight_decay}");
        match lang {
            Lang::En => {
                let of = match target {
                    LossTarget::Class(_, label) => format!(
                        "the cross-entropy of the class “{}” ({value:.4}), by the network alone, without dropout, label \
                         smoothing or class weights",
                        show_controls(label)
                    ),
                    LossTarget::NextTokens => format!(
                        "the mean cross-entropy of the text’s tokens, each after those before it ({value:.4}), without dropout"
                    ),
                    LossTarget::Translation => format!(
                        "the mean cross-entropy of the translation’s tokens ({value:.4}), without dropout or label smoothing"
                    ),
                };
                let mut text = format!("Gradients are of {of}.");
                if let Some(letter) = arriving {
                    text += &format!(
                        " {letter} is given: it arrives from the layers above, as computed by the model’s own backward \
                         pass."
                    );
                }
                if let Some(letter) = partial {
                    text += &format!(" {letter} is the part through this attention; other layers read the same input.");
                }
                text + &format!(
                    " At the end {matrix} takes the first step of AdamW, with the default settings of training \
                         ({settings}); other parameters are updated in the same way."
                )
            }
            Lang::Ja => {
                let of = match target {
                    LossTarget::Class(_, label) => format!(
                        "クラス「{}」の交差エントロピー（{value:.4}）の勾配を示す。ネットワークだけの値で、ドロップアウト、ラベル平滑化、\
                         クラスの重みは使わない。",
                        show_controls(label)
                    ),
                    LossTarget::NextTokens => format!(
                        "テキストの各トークンをその前のトークンから予測するときの交差エントロピーの平均（{value:.4}）の勾配を示す。\
                         ドロップアウトは使わない。"
                    ),
                    LossTarget::Translation => format!(
                        "訳文の各トークンの交差エントロピーの平均（{value:.4}）の勾配を示す。ドロップアウトとラベル平滑化は使わない。"
                    ),
                };
                let mut text = of;
                if let Some(letter) = arriving {
                    text += &format!(
                        "{letter} は入力として与えた勾配で、上の層すべてを通って届いたもの（モデル自身の逆伝播の値）。"
                    );
                }
                if let Some(letter) = partial {
                    text += &format!("{letter} はこのアテンションを通る分だけで、同じ値をほかの層も読む。");
                }
                text + &format!(
                    "最後に、学習の既定の設定（{settings}）で {matrix} に AdamW の最初の 1 ステップを適用する。ほかのパラメータも\
                         同様に更新される。"
                )
            }
        }
    }
}
