//! Programs of traces for pages that recompute them when the reader changes a given number.

use crate::output::json::{json_matrix, json_number};
use crate::program::operation::{EntrywiseFunction, NormGradient, Operation, RotaryAngles, StepId};
use crate::program::quantity::Quantity;
use crate::program::recurrence::{StateGradient, StateRecurrence};
use crate::traces::attention_controls::{AttentionControls, MAX_NUMBERS};
use crate::traces::trace_steps::{Trace, TraceStep};
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use ndarray::{Array2, ArrayView1};
use serde_json::{Value, json};

impl Trace {
    /// Returns the displayed steps of the page and the others. They include the steps that the reader can switch on.
    pub(crate) fn page_steps(&self) -> [&[TraceStep]; 2] {
        match &self.controlled {
            Some(controlled) => [&controlled.steps, &controlled.hidden_steps],
            None => [&self.steps, &self.hidden_steps],
        }
    }

    /// Returns the steps of all heads in order; displayed steps have their ID on the page. Returns `None` if
    /// recomputing this count of numbers would slow the page down.
    pub(crate) fn program_json(&self, [digits, terms, size]: [usize; 3]) -> Option<Value> {
        let [shown, hidden] = self.page_steps();
        let mut steps: Vec<(&TraceStep, bool)> = shown.iter().map(|step| (step, true)).collect();
        steps.extend(hidden.iter().map(|step| (step, false)));
        if steps.iter().map(|(step, _)| step.value.len()).sum::<usize>() > MAX_NUMBERS {
            return None;
        }
        steps.sort_by_key(|(step, _)| step.id);
        let controls = self.controlled.as_ref().map(|controlled| &controlled.controls);
        let steps: Option<Vec<Value>> = steps
            .iter()
            .map(|(step, is_shown)| {
                let mut object = step_json(step, *is_shown, controls)?;
                self.add_token_rows(step, *is_shown, &mut object);
                // The rows of H′ and C′ are those of a step that follows.
                if let Operation::StateRecurrence(before) = &step.operation {
                    let is_it = |other: &&(&TraceStep, bool)| {
                        other.0.kind == step.kind && other.0.quantity == before.source_quantity()
                    };
                    object["source"] = steps.iter().find(is_it).map(|(step, _)| step.id).into();
                }
                Some(object)
            })
            .collect();
        let controls = controls.map(|controls| {
            json!({
                "beta": controls.scale.as_ref().map(|scale| scale.beta),
                "scale": controls.scale.as_ref().and_then(|scale| scale.scale),
                "scaled": controls.scale.as_ref().is_some_and(|scale| scale.is_scaled),
                "causal": controls.is_causal,
                "mask": controls.visible.is_some(),
                "bias": controls.has_bias,
                "max": controls.subtracts_max,
            })
        });
        Some(json!({ "digits": digits, "terms": terms, "size": size, "steps": steps?, "controls": controls }))
    }
}

impl TraceStep {
    /// Returns the control that switches the step, if there is one.
    pub(crate) fn control(&self) -> Option<&'static str> {
        match (&self.operation, self.quantity) {
            (Operation::Mask { .. }, _) | (_, Quantity::MaskedScores) => Some("mask"),
            (Operation::AddBias { .. }, _) | (_, Quantity::BiasedScores) => Some("bias"),
            (Operation::RowMax(_), Quantity::ScoreMax) => Some("max"),
            _ => None,
        }
    }
}

fn step_json(step: &TraceStep, is_shown: bool, controls: Option<&AttentionControls>) -> Option<Value> {
    let ScriptOperation { name, operands, settings: mut object } =
        script_operation(&step.operation, step.value.ncols())?;
    object["id"] = step.id.into();
    object["op"] = name.into();
    object["of"] = operands.into();
    object["sym"] = step.symbol.clone().into();
    if is_shown {
        object["at"] = step.anchor().into();
    }
    if step.operation == Operation::Given {
        object["given"] = json_matrix(&step.value);
        object["shares"] = (step.quantity == Quantity::Target).into();
    }
    let Some(controls) = controls else { return Some(object) };
    if let Some(control) = step.control() {
        object["control"] = control.into();
    }
    if let Operation::Mask { .. } = step.operation {
        object["seen"] = controls.visible.as_ref().map(visible_json).into();
        object["offset"] = controls.causal_offset.into();
    }
    let is_of_scores = matches!(step.quantity, Quantity::Scores | Quantity::ScaledScores);
    if let (Operation::Scale { .. }, Some(scale), true) = (&step.operation, &controls.scale, is_of_scores) {
        object["own"] = scale.head_factors.get(step.head.unwrap_or(0)).copied().unwrap_or(1.0).into();
    }
    Some(object)
}

fn visible_json(visible: &Array2<bool>) -> Value {
    let row = |row: ArrayView1<'_, bool>| row.iter().map(|x| u8::from(*x)).collect();
    let visible: Vec<Vec<u8>> = visible.rows().into_iter().map(row).collect();
    visible.into()
}

fn pooling_name(pooling: Pooling) -> &'static str {
    match pooling {
        Pooling::First => "first",
        Pooling::Last => "last",
        Pooling::Max => "max",
        Pooling::MeanSqrtLength => "mean_sqrt_length",
        Pooling::Mean => "mean",
    }
}

fn activation_name(activation: Activation) -> Option<&'static str> {
    Some(match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_tanh",
        Activation::Silu => "silu",
        _ => return None,
    })
}

/// An operation for the script.
struct ScriptOperation {
    name: &'static str,
    operands: Vec<Option<StepId>>,
    settings: Value,
}

/// Returns an operation for the script; `None` for an activation that the script does not know.
fn script_operation(operation: &Operation, columns: usize) -> Option<ScriptOperation> {
    let of = |name, ids: &[StepId], settings| {
        let operands = ids.iter().copied().map(Some).collect();
        ScriptOperation { name, operands, settings }
    };
    let plain = |name, ids: &[StepId]| of(name, ids, json!({}));
    let optional = |name, operands, settings| ScriptOperation { name, operands, settings };
    Some(match operation {
        Operation::Given => plain("Given", &[]),
        Operation::Sum(pair) => plain("Sum", pair),
        Operation::Hadamard(pair) => plain("Hadamard", pair),
        Operation::Product { factors: [a, b], bias } => optional("Product", vec![Some(*a), Some(*b), *bias], json!({})),
        Operation::WeightedSum(pair) => plain("Mixture", pair),
        Operation::ProductTransposed(pair) => plain("ProductTransposed", pair),
        Operation::PairSums(pair) => plain("PairSums", pair),
        Operation::PairGradient { of: a, keys, is_second } => {
            of("PairGradient", &[*a], json!({ "keys": keys, "second": is_second }))
        }
        Operation::Reshape { of: a, columns } => of("Reshaped", &[*a], json!({ "columns": columns })),
        Operation::TransposedProduct(pair) => plain("TransposedProduct", pair),
        Operation::ProductsTransposed { pairs, added } => {
            of("ProductsTransposed", &[pairs.as_flattened(), added].concat(), json!({ "pairs": pairs.len() }))
        }
        Operation::Difference { of: pair, over } => of("Difference", pair, json!({ "over": over })),
        Operation::SoftmaxGradient { shares, gradient } => plain("SoftmaxGradient", &[*shares, *gradient]),
        Operation::BroadcastRow { of: a, rows, over } => of("Spread", &[*a], json!({ "rows": rows, "over": over })),
        Operation::ColumnSums(a) => plain("ColumnSums", &[*a]),
        Operation::ColumnDotProducts(pair) => plain("ColumnProducts", pair),
        Operation::Columns { of: a, range } => of("Columns", &[*a], json!({ "from": range.start, "to": range.end })),
        Operation::Rotary { of: a, angles, is_back } => {
            let sign = if *is_back { -1 } else { 1 };
            match angles {
                RotaryAngles::Given(speeds) => of("Turned", &[*a, *speeds], json!({ "sign": sign })),
                RotaryAngles::Base(base) => {
                    let speed = |i: usize| base.powf(-2.0 * i as f64 / columns as f64);
                    let speeds: Vec<f64> = (0..columns / 2).map(speed).collect();
                    optional("Turned", vec![Some(*a), None], json!({ "sign": sign, "speeds": speeds }))
                }
            }
        }
        Operation::Scale { of: a, factor } => of("Scaled", &[*a], json!({ "factor": factor })),
        Operation::AddBias { of: a, bias } => of("Biased", &[*a], json!({ "bias": json_matrix(bias) })),
        Operation::Mask { of: a, visible } => of("Masked", &[*a], json!({ "seen": visible_json(visible) })),
        Operation::RowMax(a) => plain("Largest", &[*a]),
        Operation::Exp { of: a, largest } => optional("Exponentials", vec![Some(*a), *largest], json!({})),
        Operation::RowSums(a) => plain("RowSums", &[*a]),
        Operation::DivideByRowSums { of: a, sums } => plain("Shares", &[*a, *sums]),
        Operation::OneHot(a) => plain("OneHot", &[*a]),
        Operation::Concat(parts) => plain("Joined", parts),
        Operation::LayerNorm { of: a, gamma, beta, epsilon } => {
            optional("Normalised", vec![Some(*a), *gamma, *beta], json!({ "epsilon": epsilon }))
        }
        Operation::RmsNorm { of: a, gamma, epsilon } => {
            optional("RmsNormalised", vec![Some(*a), *gamma], json!({ "epsilon": epsilon }))
        }
        Operation::Pool { of: a, poolings } => {
            let poolings: Vec<&str> = poolings.iter().map(|pooling| pooling_name(*pooling)).collect();
            of("Pooled", &[*a], json!({ "poolings": poolings }))
        }
        Operation::PoolingGradient { of: a, gradient, pooling } => {
            of("Placed", &[*a, *gradient], json!({ "pooling": pooling_name(*pooling) }))
        }
        Operation::Activation { of: a, activation } => {
            of("Activated", &[*a], json!({ "curve": activation_name(*activation)? }))
        }
        Operation::Tanh(a) => of("Activated", &[*a], json!({ "curve": "tanh" })),
        Operation::ActivationDerivative { of: a, curve } => {
            let name = match curve {
                EntrywiseFunction::Activation(own) => activation_name(*own)?,
                EntrywiseFunction::Tanh => "tanh",
            };
            of("Slope", &[*a], json!({ "curve": name }))
        }
        Operation::Log(a) => plain("Logarithms", &[*a]),
        Operation::CrossEntropy { target, logarithms } => plain("CrossEntropy", &[*target, *logarithms]),
        Operation::UnitLength(a) => plain("UnitLength", &[*a]),
        Operation::UnitGradient { of: a, unit, gradient } => plain("UnitGradient", &[*a, *unit, *gradient]),
        Operation::NormGradient(NormGradient { of, plain, gamma, gradient, epsilon, is_rms }) => {
            let operands = vec![Some(*of), Some(*plain), Some(*gradient), *gamma];
            optional("NormGradient", operands, json!({ "epsilon": epsilon, "rms": is_rms }))
        }
        Operation::SoftmaxJacobian { shares, row } => of("SoftmaxJacobian", &[*shares], json!({ "row": row })),
        Operation::Moment { before, gradient, keep, is_square } => {
            optional("Moment", vec![Some(*gradient), *before], json!({ "keep": keep, "square": is_square }))
        }
        Operation::StateRecurrence(recurrence) => recurrence_operation("Before", recurrence, None),
        Operation::StateGradient(StateGradient { recurrence, gradient }) => {
            recurrence_operation("Later", recurrence, Some(*gradient))
        }
        Operation::GateGradient { gate, gradient, is_tanh } => {
            of("GateGradient", &[*gate, *gradient], json!({ "tanh": is_tanh }))
        }
        Operation::ComplementProduct(pair) => plain("Complement", pair),
        Operation::DifferenceProduct { gradient, of: [a, b] } => plain("Between", &[*gradient, *a, *b]),
        Operation::Gate { terms: [(a, i), (b, j)], width, is_tanh } => {
            of("Gate", &[*a, *b], json!({ "from": [i, j], "width": width, "tanh": is_tanh }))
        }
        Operation::GatedSum { pairs, is_complement } => {
            of("Gated", pairs.as_flattened(), json!({ "complement": is_complement }))
        }
        Operation::BiasCorrection { of: a, keep, step } => {
            of("Corrected", &[*a], json!({ "left": json_number(1.0 - keep.powf(f64::from(*step))) }))
        }
        Operation::AdamUpdate { moments, rate, epsilon } => {
            of("Update", moments, json!({ "rate": rate, "epsilon": epsilon }))
        }
        Operation::AdamWStep { of: a, update, rate, weight_decay } => {
            of("Stepped", &[*a, *update], json!({ "kept": 1.0 - rate * weight_decay }))
        }
    })
}

fn recurrence_operation(name: &'static str, of: &StateRecurrence, gradient: Option<StepId>) -> ScriptOperation {
    let [h, c] = of.first;
    let operands = [Some(of.sums), Some(of.weight), of.bias, h, c].into_iter().chain(gradient.map(Some)).collect();
    ScriptOperation { name, operands, settings: json!({ "cell": of.cell.name(), "state": of.is_state }) }
}
