//! Programs of traces for pages that recompute them when the reader changes a given number.

use super::formula::inverse_sqrt_of;
use super::json::{json_matrix, json_number};
use super::operation::{EntrywiseFunction, NormGradient, Operation, RotaryAngles, StepId};
use super::quantity::Quantity;
use super::recurrence::{StateGradient, StateRecurrence};
use super::trace_steps::{Trace, TraceStep};
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;
use serde_json::{Map, Value, json};

/// Maximum count of numbers of a trace that its page recomputes.
const MAX_NUMBERS: usize = 60_000;

impl Trace {
    /// Returns the steps of all heads in order; displayed steps have their ID on the page. Returns `None` if
    /// recomputing this count of numbers would slow the page down.
    pub(super) fn program_json(&self, digits: usize, terms: usize) -> Option<Value> {
        let mut steps: Vec<(&TraceStep, bool)> = self.steps.iter().map(|step| (step, true)).collect();
        steps.extend(self.hidden_steps.iter().map(|step| (step, false)));
        if steps.iter().map(|(step, _)| step.value.len()).sum::<usize>() > MAX_NUMBERS {
            return None;
        }
        steps.sort_by_key(|(step, _)| step.id);
        let steps: Option<Vec<Value>> = steps.into_iter().map(|(step, is_shown)| step_json(step, is_shown)).collect();
        Some(json!({ "digits": digits, "terms": terms, "steps": steps? }))
    }
}

fn step_json(step: &TraceStep, is_shown: bool) -> Option<Value> {
    let (name, of, mut object) = operation_json(&step.operation, step.value.ncols())?;
    object.insert("id".into(), step.id.into());
    object.insert("op".into(), name.into());
    object.insert("of".into(), of.into());
    if is_shown {
        object.insert("at".into(), step.anchor().into());
    }
    if step.operation == Operation::Given {
        object.insert("name".into(), step.symbol.clone().into());
        object.insert("given".into(), json_matrix(&step.value));
        object.insert("shares".into(), (step.quantity == Quantity::Target).into());
    }
    Some(Value::Object(object))
}

fn pooling_name(way: Pooling) -> &'static str {
    match way {
        Pooling::First => "first",
        Pooling::Last => "last",
        Pooling::Max => "max",
        Pooling::MeanSqrtLength => "mean_sqrt_length",
        _ => "mean",
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

/// The name of an operation in the script, its operands, and its other settings.
type NamedOperation = (&'static str, Vec<Option<StepId>>, Map<String, Value>);

fn operation_json(operation: &Operation, columns: usize) -> Option<NamedOperation> {
    let all = |ids: &[StepId]| ids.iter().copied().map(Some).collect::<Vec<_>>();
    let (name, of, settings) = match operation {
        Operation::Given => ("Given", Vec::new(), json!({})),
        Operation::Sum(pair) => ("Sum", all(pair), json!({})),
        Operation::Hadamard(pair) => ("Hadamard", all(pair), json!({})),
        Operation::Product { factors: [a, b], bias } => ("Product", vec![Some(*a), Some(*b), *bias], json!({})),
        Operation::WeightedSum(pair) => ("Mixture", all(pair), json!({})),
        Operation::ProductTransposed(pair) => ("ProductTransposed", all(pair), json!({})),
        Operation::TransposedProduct(pair) => ("TransposedProduct", all(pair), json!({})),
        Operation::ProductsTransposed { pairs, added } => {
            let of = pairs.iter().flatten().chain(added).copied().map(Some).collect();
            ("ProductsTransposed", of, json!({ "pairs": pairs.len() }))
        }
        Operation::Difference { of, over } => ("Difference", all(of), json!({ "over": over })),
        Operation::SoftmaxGradient { shares, gradient } => ("SoftmaxGradient", all(&[*shares, *gradient]), json!({})),
        Operation::BroadcastRow { of, rows, over } => ("Spread", all(&[*of]), json!({ "rows": rows, "over": over })),
        Operation::ColumnSums(of) => ("ColumnSums", all(&[*of]), json!({})),
        Operation::ColumnDotProducts(pair) => ("ColumnProducts", all(pair), json!({})),
        Operation::Columns { of, range } => ("Columns", all(&[*of]), json!({ "from": range.start, "to": range.end })),
        Operation::Rotary { of, angles, is_back } => {
            let sign = if *is_back { -1 } else { 1 };
            match angles {
                RotaryAngles::Given(speeds) => ("Turned", all(&[*of, *speeds]), json!({ "sign": sign })),
                RotaryAngles::Base(base) => {
                    let speed = |i: usize| base.powf(-2.0 * i as f64 / columns as f64);
                    let speeds: Vec<f64> = (0..columns / 2).map(speed).collect();
                    ("Turned", vec![Some(*of), None], json!({ "sign": sign, "speeds": speeds }))
                }
            }
        }
        Operation::Scale { of, factor } => {
            ("Scaled", all(&[*of]), json!({ "factor": factor, "root": inverse_sqrt_of(*factor) }))
        }
        Operation::AddBias { of, bias } => ("Biased", all(&[*of]), json!({ "bias": json_matrix(bias) })),
        Operation::Mask { of, seen } => {
            let seen: Vec<Vec<u8>> =
                seen.rows().into_iter().map(|row| row.iter().map(|x| u8::from(*x)).collect()).collect();
            ("Masked", all(&[*of]), json!({ "seen": seen }))
        }
        Operation::RowMax(of) => ("Largest", all(&[*of]), json!({})),
        Operation::Exp { of, largest } => ("Exponentials", vec![Some(*of), *largest], json!({})),
        Operation::RowSums(of) => ("RowSums", all(&[*of]), json!({})),
        Operation::DivideByRowSums { of, sums } => ("Shares", all(&[*of, *sums]), json!({})),
        Operation::OneHot(of) => ("OneHot", all(&[*of]), json!({})),
        Operation::Concat(parts) => ("Joined", all(parts), json!({})),
        Operation::LayerNorm { of, gamma, beta, epsilon } => {
            ("Normalised", vec![Some(*of), *gamma, *beta], json!({ "epsilon": epsilon }))
        }
        Operation::RmsNorm { of, gamma, epsilon } => {
            ("RmsNormalised", vec![Some(*of), *gamma], json!({ "epsilon": epsilon }))
        }
        Operation::Pool { of, ways } => {
            let ways: Vec<&str> = ways.iter().map(|way| pooling_name(*way)).collect();
            ("Pooled", all(&[*of]), json!({ "ways": ways }))
        }
        Operation::PoolingGradient { of, gradient, way } => {
            ("Placed", all(&[*of, *gradient]), json!({ "way": pooling_name(*way) }))
        }
        Operation::Activation { of, activation: own } => {
            ("Activated", all(&[*of]), json!({ "curve": activation_name(*own)? }))
        }
        Operation::Tanh(of) => ("Activated", all(&[*of]), json!({ "curve": "tanh" })),
        Operation::ActivationDerivative { of, curve } => {
            let name = match curve {
                EntrywiseFunction::Activation(own) => activation_name(*own)?,
                EntrywiseFunction::Tanh => "tanh",
            };
            ("Slope", all(&[*of]), json!({ "curve": name }))
        }
        Operation::Log(of) => ("Logarithms", all(&[*of]), json!({})),
        Operation::CrossEntropy { target, logarithms } => ("CrossEntropy", all(&[*target, *logarithms]), json!({})),
        Operation::UnitLength(of) => ("UnitLength", all(&[*of]), json!({})),
        Operation::UnitGradient { of, unit, gradient } => ("UnitGradient", all(&[*of, *unit, *gradient]), json!({})),
        Operation::NormGradient(NormGradient { of, plain, gamma, gradient, epsilon, is_rms }) => {
            let of = vec![Some(*of), Some(*plain), Some(*gradient), *gamma];
            ("NormGradient", of, json!({ "epsilon": epsilon, "rms": is_rms }))
        }
        Operation::SoftmaxJacobian { shares, row } => ("SoftmaxJacobian", all(&[*shares]), json!({ "row": row })),
        Operation::Moment { before, gradient, keep, is_square } => {
            ("Moment", vec![Some(*gradient), *before], json!({ "keep": keep, "square": is_square }))
        }
        Operation::StateRecurrence(before) => {
            let (of, settings) = recurrence_json(before);
            ("Before", of, settings)
        }
        Operation::StateGradient(StateGradient { recurrence: before, gradient }) => {
            let (mut of, settings) = recurrence_json(before);
            of.push(Some(*gradient));
            ("Later", of, settings)
        }
        Operation::GateGradient { gate, gradient, is_tanh } => {
            ("GateGradient", all(&[*gate, *gradient]), json!({ "tanh": is_tanh }))
        }
        Operation::ComplementProduct(pair) => ("Complement", all(pair), json!({})),
        Operation::DifferenceProduct { gradient, of: [a, b] } => ("Between", all(&[*gradient, *a, *b]), json!({})),
        Operation::Gate { terms: [(a, i), (b, j)], width, is_tanh } => {
            ("Gate", all(&[*a, *b]), json!({ "from": [i, j], "width": width, "tanh": is_tanh }))
        }
        Operation::GatedSum { pairs, is_complement } => {
            ("Gated", all(pairs.as_flattened()), json!({ "complement": is_complement }))
        }
        Operation::BiasCorrection { of, keep, step } => {
            ("Corrected", all(&[*of]), json!({ "left": json_number(1.0 - keep.powf(f64::from(*step))) }))
        }
        Operation::AdamUpdate { moments, rate, epsilon } => {
            ("Update", all(moments), json!({ "rate": rate, "epsilon": epsilon }))
        }
        Operation::AdamWStep { of, update, rate, weight_decay } => {
            ("Stepped", all(&[*of, *update]), json!({ "kept": 1.0 - rate * weight_decay }))
        }
    };
    let Value::Object(settings) = settings else { return None };
    Some((name, of, settings))
}

/// Returns the operands of a recurrence and its other settings.
fn recurrence_json(
    StateRecurrence { cell, sums, weight, bias, first: [h, c], is_state }: &StateRecurrence,
) -> (Vec<Option<StepId>>, Value) {
    (vec![Some(*sums), Some(*weight), *bias, *h, *c], json!({ "cell": cell.name(), "state": is_state }))
}
