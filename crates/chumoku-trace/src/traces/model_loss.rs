//! The gradients of a model's loss for the steps of its trace: from the loss or, below the last layer, from the
//! gradient that arrives from above.

use crate::examples::optimizer::AdamWSettings;
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use crate::traces::trace_steps::{Trace, TraceStep};
use crate::traces::traced_loss::TracedLoss;
use chumoku::explain::{AnswerGradients, ForwardTrace, RecordedLoss};
use chumoku::nn::EmbeddingGradients;
use ndarray::Array2;

/// The parameter whose update is shown.
const UPDATED_PARAMETER: Quantity = Quantity::WQ;

/// Returns the last step of the layer.
fn last_step(program: &Program) -> Option<usize> {
    let ends = [Quantity::FinalNorm2, Quantity::Residual2, Quantity::FinalNorm, Quantity::Residual];
    ends.into_iter().find_map(|quantity| program.find(quantity, None))
}

/// Adds the gradients of a loss to the steps of a model's trace.
///
/// # Errors
/// If a step has an operation without a gradient rule.
pub(crate) fn add_gradients(program: &mut Program, of: &ForwardTrace, loss: &RecordedLoss) -> Result<(), String> {
    // With the last layer, every step up to the loss exists.
    let is_whole = of.answer.as_ref().is_some_and(|answer| answer.follows_attention);
    let arriving = last_step(program).filter(|_| !is_whole).map(|id| (id, &loss.layer.output));
    program.add_gradients(arriving)
}

/// Adds the gradients and an AdamW step of one matrix.
pub(crate) fn add_step(program: &mut Program, of: &ForwardTrace, loss: &RecordedLoss) -> Result<(), String> {
    add_gradients(program, of, loss)?;
    program.add_optimizer_step(&AdamWSettings::for_parameter(&loss.step, UPDATED_PARAMETER))
}

/// Returns the differences between the gradients of the model's backward pass and the computed ones, relative to the
/// largest number of each. Biases are left out: the gradient of the key bias is 0 except for rounding.
pub(crate) fn gradient_differences(program: &Program, loss: &RecordedLoss) -> Vec<(&'static str, f64)> {
    let own = &loss.layer;
    let [queries, keys, values] = &own.attention.weights;
    let mut all: Vec<(Quantity, &Array2<f64>)> = vec![
        (Quantity::X, &own.x),
        (Quantity::WQ, queries),
        (Quantity::WK, keys),
        (Quantity::WV, values),
        (Quantity::WO, &own.attention.output),
    ];
    if let Some(EmbeddingGradients { sum, norm }) = &loss.embedding {
        let has_sum = program.find(Quantity::EmbeddingSum, None).is_some();
        all.push((if has_sum { Quantity::EmbeddingSum } else { Quantity::Embeddings }, sum));
        all.push((Quantity::EmbeddingGamma, &norm.gamma));
    }
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
    let largest_of = |own: &Array2<f64>| own.fold(0.0f64, |most, x| most.max(x.abs()));
    let most = all.iter().map(|(_, own)| largest_of(own)).fold(0.0, f64::max);
    let off = |(quantity, own): (Quantity, &Array2<f64>)| {
        let id = program.find_kind(StepKind::Gradient, quantity, None)?;
        let worked = program.value(id);
        if worked.dim() != own.dim() {
            return Some((quantity.name(), f64::INFINITY));
        }
        // For a zero gradient the model has only rounding noise, which is compared with the size of the other
        // gradients.
        let is_zero = worked.iter().all(|x| x.abs() <= 1e-12 * most);
        let largest = if is_zero { most } else { largest_of(own) };
        let off = worked.iter().zip(own).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0f64, |most, x| if x.is_nan() { f64::INFINITY } else { most.max(x) });
        Some((quantity.name(), if off == 0.0 { 0.0 } else { off / largest }))
    };
    all.into_iter().filter_map(off).collect()
}

/// Describes the gradients of a trace.
pub(crate) fn traced_loss(trace: &Trace, loss: &RecordedLoss) -> TracedLoss {
    let is_arriving = |step: &&TraceStep| step.kind == StepKind::Gradient && step.formula.is_none();
    let is_partial = |step: &&TraceStep| step.kind == StepKind::Gradient && step.quantity == Quantity::Memory;
    let letter = |is_it: &dyn Fn(&&TraceStep) -> bool| trace.steps.iter().find(is_it).map(|step| step.symbol.clone());
    TracedLoss {
        target: loss.target.clone(),
        value: loss.loss,
        arriving: letter(&is_arriving),
        partial: letter(&is_partial),
        step: (UPDATED_PARAMETER.symbol().to_owned(), loss.step),
    }
}
