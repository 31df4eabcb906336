//! What the gradients of a model's trace are of, and the step that a matrix takes at its end, in words.

use chumoku::explain::LossTarget;
use chumoku::lang::{Lang, show_controls};
use chumoku_kernels::AdamW;

/// What the gradients of a model's trace are of.
#[derive(Clone, Debug)]
pub struct TracedLoss {
    /// What is to be predicted.
    pub target: LossTarget,
    /// The loss, as the model computed it.
    pub value: f64,
    /// The letter of the gradient that is given, as it arrives from what lies above; none where all are shown from the loss on.
    pub arriving: Option<String>,
    /// The letter of the gradient of what others read too, of which the part that comes through this attention is shown.
    pub partial: Option<String>,
    /// The letter of the matrix that takes a step, and the settings of the step.
    pub step: (String, AdamW),
}

impl TracedLoss {
    /// Some sentences.
    #[must_use]
    pub fn to_text(&self, lang: Lang) -> String {
        let TracedLoss { target, value, arriving, partial, step: (matrix, adamw) } = self;
        let AdamW { learning_rate, beta1, beta2, epsilon, weight_decay, .. } = adamw;
        let settings = format!("η = {learning_rate}, β₁ = {beta1}, β₂ = {beta2}, ε = {epsilon:e}, λ = {weight_decay}");
        match lang {
            Lang::En => {
                let of = match target {
                    LossTarget::Class(_, label) => format!(
                        "the cross-entropy of the class “{}” ({value:.4}), by the network alone, without dropout, smoothing of \
                         labels or weights of classes",
                        show_controls(label)
                    ),
                    LossTarget::NextTokens => format!(
                        "the mean cross-entropy of the text’s tokens, each after those before it ({value:.4}), without dropout"
                    ),
                    LossTarget::Translation => format!(
                        "the mean cross-entropy of the translation’s tokens ({value:.4}), without dropout or smoothing of labels"
                    ),
                };
                let mut text = format!("Gradients are of {of}.");
                if let Some(letter) = arriving {
                    text += &format!(
                        " {letter} is given: it is what arrives from all that lies above, as the model’s own backward pass \
                         computes it."
                    );
                }
                if let Some(letter) = partial {
                    text += &format!(" {letter} is what comes through this attention; other layers read the same.");
                }
                text + &format!(
                    " At the end {matrix} takes the first step of AdamW, with the settings that training has by default \
                         ({settings}); other parameters take theirs likewise."
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
                        "{letter} は与えられた値で、上にある層すべてを通って届く勾配（モデル自身の逆伝播の値）。"
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
