//! A step of AdamW: from gradients to updated parameters.

use crate::examples::matrices::{read_numbers, require_complete};
use crate::examples::object::JsonObject;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use chumoku::tr;
use chumoku_kernels::AdamW;
use ndarray::Array2;
use std::collections::HashMap;

/// Settings of a step, and the moments before it.
#[derive(Clone, Debug)]
pub(crate) struct AdamWSettings {
    learning_rate: f64,
    /// Decay rates of the two moments.
    decay_rates: [f64; 2],
    epsilon: f64,
    weight_decay: f64,
    /// Number of the step, from 1.
    step: u32,
    /// The moments before the step, if they are not 0.
    moments_before: HashMap<(StepKind, Quantity), Array2<f64>>,
    /// The only parameter that is updated, if not all are; the loss after the step is then not computed.
    only_parameter: Option<Quantity>,
}

/// A condition on a setting, with its descriptions in English and Japanese.
type SettingRange = (fn(f64) -> bool, &'static str, &'static str);

const KEYS: [&str; 8] = ["learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "step", "m", "v"];

impl AdamWSettings {
    pub(crate) fn read(text: &str) -> Result<AdamWSettings, String> {
        let file = JsonObject::read(text, "optimizer", &KEYS)?;
        let number = |key: &str, usual: f64, (is_fine, en, ja): SettingRange| {
            let found = file.value::<f64>(key, "optimizer.", ["a number", "数値"])?.unwrap_or(usual);
            match found.is_finite() && is_fine(found) {
                true => Ok(found),
                false => Err(tr!(
                    "optimizer.{key}: expected {}, found {found}",
                    "optimizer.{key}: {}が必要ですが、{found} です",
                    chumoku::lang::lang().pick(en, ja)
                )),
            }
        };
        let positive: SettingRange = (|x| x > 0.0, "a number above 0", "正の数");
        let natural: SettingRange = (|x| x >= 0.0, "0 or more", "0 以上の数");
        let share: SettingRange = (|x| (0.0..1.0).contains(&x), "0 or more and less than 1", "0 以上 1 未満の数");
        let step = file.value::<u32>("step", "optimizer.", ["a whole number from 1", "1 以上の整数"])?.unwrap_or(1);
        if step == 0 {
            return Err(tr!(
                "optimizer.step: expected a whole number from 1, found 0",
                "optimizer.step: 1 以上の整数が必要ですが、0 です"
            ));
        }
        let mut before = HashMap::new();
        let parameters: Vec<Quantity> = Quantity::all().filter(|quantity| quantity.is_parameter()).collect();
        let names: Vec<&str> = parameters.iter().map(|quantity| quantity.name()).collect();
        for (key, kind) in [("m", StepKind::FirstMomentBefore), ("v", StepKind::SecondMomentBefore)] {
            let Some(text) = file.raw_value(key) else { continue };
            let place = format!("optimizer.{key}");
            let moments = JsonObject::read(text, &place, &names)?;
            for &quantity in &parameters {
                let Some(text) = moments.raw_value(quantity.name()) else { continue };
                let place = format!("{place}.{}", quantity.name());
                let mut matrices = read_numbers(text, &place)?.matrices;
                let count = matrices.len();
                let Some(matrix) = matrices.pop().filter(|_| count == 1) else {
                    return Err(tr!(
                        "{place}: expected one matrix, found {count}",
                        "{place}: 行列は一つだけ必要ですが、{count} 個です"
                    ));
                };
                let matrix = require_complete(matrix, &place)?;
                if let Some(x) = matrix.iter().find(|x| key == "v" && (x.is_nan() || **x < 0.0)) {
                    return Err(tr!(
                        "{place}: expected means of squares, 0 or more, found {x}",
                        "{place}: 二乗の平均（0 以上の数）が必要ですが、{x} です"
                    ));
                }
                before.insert((kind, quantity), matrix);
            }
        }
        Ok(AdamWSettings {
            learning_rate: number("learning_rate", 1e-3, positive)?,
            decay_rates: [number("beta1", 0.9, share)?, number("beta2", 0.999, share)?],
            epsilon: number("epsilon", 1e-8, natural)?,
            weight_decay: number("weight_decay", 0.01, natural)?,
            step,
            moments_before: before,
            only_parameter: None,
        })
    }

    /// Returns the settings of a step that updates one parameter only.
    pub(crate) fn for_parameter(step: &AdamW, only: Quantity) -> AdamWSettings {
        AdamWSettings {
            learning_rate: step.learning_rate,
            decay_rates: [step.beta1, step.beta2],
            epsilon: step.epsilon,
            weight_decay: step.weight_decay,
            step: u32::try_from(step.step).unwrap_or(u32::MAX),
            moments_before: HashMap::new(),
            only_parameter: Some(only),
        }
    }
}

impl Program {
    /// Adds an AdamW step for each parameter that has a gradient (Loshchilov and Hutter 2019), or for one parameter
    /// only. Without this restriction the steps to the loss are computed again with the new parameters. Weight decay
    /// applies to matrices only.
    ///
    /// # Errors
    /// If a moment has another shape than its parameter, or belongs to none.
    pub(crate) fn add_optimizer_step(&mut self, optimizer: &AdamWSettings) -> Result<(), String> {
        let is_parameter = |id: &StepId| {
            let step = self.step(*id);
            step.operation == Operation::Given && step.kind == StepKind::Value && step.quantity.is_parameter()
        };
        let parameters: Vec<StepId> = (0..self.steps().len()).filter(is_parameter).collect();
        let mut after = HashMap::new();
        for id in parameters {
            let quantity = self.step(id).quantity;
            if optimizer.only_parameter.is_some_and(|only| only != quantity) {
                continue;
            }
            let Some(gradient) = self.find_kind(StepKind::Gradient, quantity, None) else { continue };
            after.insert(id, self.add_adamw_step(optimizer, id, gradient)?);
        }
        if let Some((kind, quantity)) =
            optimizer.moments_before.keys().find(|(kind, of)| self.find_kind(*kind, *of, None).is_none())
        {
            let (key, name) = (if *kind == StepKind::FirstMomentBefore { "m" } else { "v" }, quantity.name());
            return Err(tr!(
                "optimizer.{key}.{name}: expected inputs.{name} too, and a loss that follows from it",
                "optimizer.{key}.{name}: inputs.{name} と、そこから導かれる損失が必要です"
            ));
        }
        let Some(loss) = self.find(Quantity::Loss, None).filter(|_| optimizer.only_parameter.is_none()) else {
            return Ok(());
        };
        for id in 0..=loss {
            let mut operation = self.step(id).operation.clone();
            let is_changed = operation.operands_mut().into_iter().any(|of| after.contains_key(of));
            if is_changed {
                let operation = operation.map_operands(|of| after.get(&of).copied().unwrap_or(of));
                after.insert(id, self.add_derived(id, StepKind::AfterStep, "", operation)?);
            }
        }
        Ok(())
    }

    /// Adds the step of one parameter.
    fn add_adamw_step(&mut self, optimizer: &AdamWSettings, id: StepId, gradient: StepId) -> Result<StepId, String> {
        let AdamWSettings { learning_rate: rate, decay_rates: keep, epsilon, weight_decay, step, .. } = *optimizer;
        let quantity = self.step(id).quantity;
        let mut moments = [StepKind::FirstMomentBefore, StepKind::SecondMomentBefore].into_iter().map(|kind| {
            let Some(matrix) = optimizer.moments_before.get(&(kind, quantity)) else { return Ok(None) };
            let (expected, found) = (self.value(id).dim(), matrix.dim());
            if expected != found {
                let (key, name) = (if kind == StepKind::FirstMomentBefore { "m" } else { "v" }, quantity.name());
                return Err(tr!(
                    "optimizer.{key}.{name} is {}×{}: expected {}×{}, as {name} is",
                    "optimizer.{key}.{name} は {}×{} ですが、{name} と同じ {}×{} が必要です",
                    found.0,
                    found.1,
                    expected.0,
                    expected.1
                ));
            }
            Ok(Some(self.add_given_kind(kind, quantity, None, matrix.clone())))
        });
        let before: [Option<StepId>; 2] =
            [moments.next().transpose()?.flatten(), moments.next().transpose()?.flatten()];
        let names =
            [(StepKind::FirstMoment, StepKind::CorrectedFirst), (StepKind::SecondMoment, StepKind::CorrectedSecond)];
        let mut corrected = [id; 2];
        for (i, (kind, kind_corrected)) in names.into_iter().enumerate() {
            let moment = Operation::Moment { before: before[i], gradient, keep: keep[i], is_square: i == 1 };
            let of = self.add_derived(id, kind, "", moment)?;
            corrected[i] =
                self.add_derived(id, kind_corrected, "", Operation::BiasCorrection { of, keep: keep[i], step })?;
        }
        let update = Operation::AdamUpdate { moments: corrected, rate, epsilon };
        let update = self.add_derived(id, StepKind::Update, "", update)?;
        let weight_decay = if quantity.is_matrix() { weight_decay } else { 0.0 };
        self.add_derived(id, StepKind::AfterStep, "", Operation::AdamWStep { of: id, update, rate, weight_decay })
    }
}
