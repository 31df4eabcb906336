//! Totals of a network from its steps.

use super::exact::CheckedU128;
use super::steps::{StepFormulas, StepRole};
use super::{CountConfig, NetworkCost, NetworkKind, StepCost};
use crate::Result;

/// Evaluates the formulas of all steps and sums them.
///
/// # Errors
/// If a figure is 2¹²⁸ or more.
pub(super) fn total_cost(config: &CountConfig, steps: Vec<StepFormulas>) -> Result<NetworkCost> {
    let bytes = CheckedU128::from(config.bytes);
    let result = |step: &StepFormulas| step.shape.iter().map(|&size| CheckedU128::from(size)).product::<CheckedU128>();
    let sum = |of: &dyn Fn(&StepFormulas) -> CheckedU128| -> CheckedU128 {
        steps.iter().map(|step| CheckedU128::from(step.times) * of(step)).sum()
    };
    let moved = |step: &StepFormulas| bytes * (step.reads + step.parameters_read + result(step));
    let held = |step: &StepFormulas| bytes * result(step);
    let held_fused = |step: &StepFormulas| held(step).only_if(step.kind != StepRole::Scores);
    let work = |is_counted: &dyn Fn(StepRole) -> bool| {
        sum(&|step| step.multiply_adds.0.only_if(is_counted(step.kind))).get("multiply-adds")
    };

    let parameters = sum(&|step| step.parameters.0);
    let longest = match config.network {
        NetworkKind::EncoderDecoder => config.length.max(config.target_length()),
        _ => config.length,
    };
    let residual: CheckedU128 = [config.batch, longest, config.d_model].into_iter().map(CheckedU128::from).product();
    let working =
        steps.iter().map(|step| bytes * (step.reads + result(step))).fold(CheckedU128::ZERO, CheckedU128::max);

    let quadratic = work(&StepRole::is_quadratic)?;
    // Both costs are known at this length, and one grows with its square. Their ratio gives the length where they are
    // equal.
    let is_of_one_length = config.keys.is_none_or(|keys| keys == config.length)
        && (config.network != NetworkKind::EncoderDecoder
            || config.target_length() == config.length && config.bottleneck.is_none());
    let meet = |linear: u128| {
        (quadratic > 0 && is_of_one_length).then(|| config.length as f64 * linear as f64 / quadratic as f64)
    };
    let linear = work(&|kind| !kind.is_quadratic() && kind != StepRole::Head)?;
    let projections = work(&|kind| kind == StepRole::Projection)?;

    let finished = |step: &StepFormulas| -> Result<StepCost> {
        Ok(StepCost {
            part: step.part,
            name: step.name,
            shape: step.shape.clone(),
            times: step.times,
            parameters: step.parameters.0.get("parameters")?,
            parameters_formula: step.parameters.1.clone(),
            multiply_adds: step.multiply_adds.0.get("multiply-adds")?,
            multiply_adds_formula: step.multiply_adds.1.clone(),
            growth: step.growth.clone(),
            bytes: moved(step).get("bytes")?,
            held: held(step).get("bytes")?,
            is_fused_away: step.kind == StepRole::Scores,
        })
    };
    Ok(NetworkCost {
        network: config.network.name(),
        steps: steps.iter().map(finished).collect::<Result<_>>()?,
        parameters: parameters.get("parameters")?,
        multiply_adds: sum(&|step| step.multiply_adds.0).get("multiply-adds")?,
        bytes: sum(&moved).get("bytes")?,
        held: sum(&held).get("bytes")?,
        held_fused: sum(&held_fused).get("bytes")?,
        peak: (bytes * (parameters + residual) + working).get("bytes")?,
        key_value_cache: (bytes * key_value_numbers(config)).get("bytes")?,
        quadratic_from: meet(linear),
        attention_quadratic_from: meet(projections),
        sequential_steps: match config.network {
            NetworkKind::Attention | NetworkKind::AdditiveAttention => 1,
            NetworkKind::Transformer | NetworkKind::Decoder => config.num_layers as u128,
            NetworkKind::EncoderDecoder => config.num_layers as u128 + config.num_decoder_layers() as u128,
            NetworkKind::Recurrent(_) => config.num_layers as u128 * config.length as u128,
        },
    })
}

/// Numbers in the key–value cache during decoding.
fn key_value_numbers(config: &CountConfig) -> CheckedU128 {
    let decoder = config.decoder();
    let key_heads = decoder.num_key_heads.unwrap_or(decoder.num_heads);
    let (layers, tokens) = match config.network {
        NetworkKind::Decoder => (config.num_layers, CheckedU128::from(config.length)),
        NetworkKind::EncoderDecoder => {
            let tokens = [config.memory_length(), config.target_length()].into_iter().map(CheckedU128::from).sum();
            (config.num_decoder_layers(), tokens)
        }
        _ => return CheckedU128::ZERO,
    };
    [2, layers, config.batch, key_heads, decoder.head_dim()].into_iter().map(CheckedU128::from).product::<CheckedU128>()
        * tokens
}
