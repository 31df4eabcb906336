//! The gradients of a model's loss, added to the steps of its trace: from the loss or, below the last layer, from what arrives
//! there from above.

use super::kind::StepKind;
use super::optimizer::Optimizer;
use super::program::Program;
use super::quantity::Quantity;
use super::shown::{Trace, TraceStep};
use chumoku::explain::{AnswerGradients, LossTarget, Recorded, RecordedLoss};
use chumoku::lang::{Lang, clean};
use chumoku_kernels::AdamW;
use ndarray::Array2;

/// The matrix that takes a step.
const STEPPED: Quantity = Quantity::WQ;

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

/// What the layer comes to: the last of its steps.
fn end(program: &Program) -> Option<usize> {
    let ends = [Quantity::FinalNorm2, Quantity::Residual2, Quantity::FinalNorm, Quantity::Residual];
    ends.into_iter().find_map(|quantity| program.find(quantity, None))
}

/// Adds the gradients of a loss to the steps of what a model computed.
///
/// # Errors
/// If something was computed by an operation that has no rule.
pub(super) fn add_gradients(program: &mut Program, of: &Recorded, loss: &RecordedLoss) -> Result<(), String> {
    // From the last layer on everything is there, up to the loss.
    let is_whole = of.answer.as_ref().is_some_and(|answer| answer.is_behind);
    let arriving = end(program).filter(|_| !is_whole).map(|id| (id, &loss.layer.output));
    program.backward(arriving)
}

/// The same, and a step of AdamW on one matrix.
pub(super) fn add_step(program: &mut Program, of: &Recorded, loss: &RecordedLoss) -> Result<(), String> {
    add_gradients(program, of, loss)?;
    program.optimize(&Optimizer::of(&loss.step, STEPPED))
}

/// By how much the gradients of the model's own backward pass differ from those worked out, relative to the largest number of
/// each. Those of biases are left out: that of keys is 0 but for rounding.
pub(super) fn differences(program: &Program, loss: &RecordedLoss) -> Vec<(&'static str, f64)> {
    let own = &loss.layer;
    let [queries, keys, values] = &own.attention.weights;
    let mut all: Vec<(Quantity, &Array2<f64>)> = vec![
        (Quantity::X, &own.x),
        (Quantity::WQ, queries),
        (Quantity::WK, keys),
        (Quantity::WV, values),
        (Quantity::WO, &own.attention.output),
    ];
    all.extend(own.norm.iter().map(|norm| (Quantity::NormGamma, &norm.gamma)));
    if let Some(network) = &own.feed_forward {
        all.push((Quantity::W1, &network.first.weight));
        all.extend(network.gate.iter().map(|gate| (Quantity::WGate, &gate.weight)));
        all.push((Quantity::W2, &network.second.weight));
    }
    all.extend(own.feed_forward_norm.iter().map(|norm| (Quantity::Gamma2, &norm.gamma)));
    if let Some(AnswerGradients { norm, dense, last }) = &loss.answer {
        all.extend(norm.iter().map(|norm| (Quantity::LastGamma, &norm.gamma)));
        all.extend(dense.iter().map(|dense| (Quantity::DenseW, &dense.linear.weight)));
        all.push((Quantity::ClassW, &last.weight));
    }
    let off = |(quantity, own): (Quantity, &Array2<f64>)| {
        let id = program.find_kind(StepKind::Gradient, quantity, None)?;
        let worked = program.value(id);
        if worked.dim() != own.dim() {
            return Some((quantity.name(), f64::INFINITY));
        }
        let largest = own.fold(0.0f64, |most, x| most.max(x.abs()));
        let off = worked.iter().zip(own).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0f64, |most, x| if x.is_nan() { f64::INFINITY } else { most.max(x) });
        Some((quantity.name(), if off == 0.0 { 0.0 } else { off / largest }))
    };
    all.into_iter().filter_map(off).collect()
}

impl TracedLoss {
    /// What is to be said of the gradients of a trace.
    pub(super) fn of(trace: &Trace, loss: &RecordedLoss) -> TracedLoss {
        let is_arriving = |step: &&TraceStep| step.kind == StepKind::Gradient && step.formula.is_none();
        let is_partial = |step: &&TraceStep| step.kind == StepKind::Gradient && step.quantity == Quantity::Memory;
        let letter =
            |is_it: &dyn Fn(&&TraceStep) -> bool| trace.steps.iter().find(is_it).map(|step| step.symbol.clone());
        TracedLoss {
            target: loss.target.clone(),
            value: loss.loss,
            arriving: letter(&is_arriving),
            partial: letter(&is_partial),
            step: (STEPPED.symbol().to_owned(), loss.step),
        }
    }

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
                        clean(label)
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
                        clean(label)
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
