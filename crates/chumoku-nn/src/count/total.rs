//! From the steps of a network to its totals.

use super::exact::Exact;
use super::steps::{Kind, Step};
use super::{Count, CountConfig, Counted, CountedStep};
use crate::Result;

/// The steps' figures, and their sums.
///
/// # Errors
/// If one is 2¹²⁸ or more.
pub(super) fn total(config: &CountConfig, steps: Vec<Step>) -> Result<Count> {
    let bytes = Exact::from(config.bytes);
    let result = |step: &Step| step.shape.iter().map(|&size| Exact::from(size)).product::<Exact>();
    let sum =
        |of: &dyn Fn(&Step) -> Exact| -> Exact { steps.iter().map(|step| Exact::from(step.times) * of(step)).sum() };
    let moved = |step: &Step| bytes * (step.reads + step.parameters_read + result(step));
    let held = |step: &Step| bytes * result(step);
    let held_fused = |step: &Step| held(step).only_if(step.kind != Kind::Pairs);
    let work = |is_counted: &dyn Fn(Kind) -> bool| {
        sum(&|step| step.multiply_adds.0.only_if(is_counted(step.kind))).get("multiply-adds")
    };

    let parameters = sum(&|step| step.parameters.0);
    let longest = match config.network {
        Counted::EncoderDecoder => config.length.max(config.target_length()),
        _ => config.length,
    };
    let residual: Exact = [config.batch, longest, config.d_model].into_iter().map(Exact::from).product();
    let working = steps.iter().map(|step| bytes * (step.reads + result(step))).fold(Exact::ZERO, Exact::max);

    let quadratic = work(&Kind::is_quadratic)?;
    // Both are known at this length, and one grows with its square: the other's share says where they meet.
    let is_of_one_length = config.keys.is_none_or(|keys| keys == config.length)
        && (config.network != Counted::EncoderDecoder || config.target_length() == config.length);
    let meet = |linear: u128| {
        (quadratic > 0 && is_of_one_length).then(|| config.length as f64 * linear as f64 / quadratic as f64)
    };
    let linear = work(&|kind| !kind.is_quadratic() && kind != Kind::Head)?;
    let projections = work(&|kind| kind == Kind::Projection)?;

    let finished = |step: &Step| -> Result<CountedStep> {
        Ok(CountedStep {
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
            is_fused_away: step.kind == Kind::Pairs,
        })
    };
    Ok(Count {
        network: config.network.name(),
        steps: steps.iter().map(finished).collect::<Result<_>>()?,
        parameters: parameters.get("parameters")?,
        multiply_adds: sum(&|step| step.multiply_adds.0).get("multiply-adds")?,
        bytes: sum(&moved).get("bytes")?,
        held: sum(&held).get("bytes")?,
        held_fused: sum(&held_fused).get("bytes")?,
        peak: (bytes * (parameters + residual) + working).get("bytes")?,
        key_value_cache: (bytes * cached(config)).get("bytes")?,
        quadratic_from: meet(linear),
        attention_quadratic_from: meet(projections),
        sequential_steps: match config.network {
            Counted::Attention => 1,
            Counted::Transformer | Counted::Decoder => config.num_layers as u128,
            Counted::EncoderDecoder => config.num_layers as u128 + config.num_decoder_layers() as u128,
            Counted::Recurrent(_) => config.num_layers as u128 * config.length as u128,
        },
    })
}

/// Numbers of the keys and values that writing keeps.
fn cached(config: &CountConfig) -> Exact {
    let decoder = config.decoder();
    let key_heads = decoder.num_key_heads.unwrap_or(decoder.num_heads);
    let (layers, tokens) = match config.network {
        Counted::Decoder => (config.num_layers, Exact::from(config.length)),
        Counted::EncoderDecoder => {
            (config.num_decoder_layers(), Exact::from(config.length) + Exact::from(config.target_length()))
        }
        _ => return Exact::ZERO,
    };
    [2, layers, config.batch, key_heads, decoder.head_dim()].into_iter().map(Exact::from).product::<Exact>() * tokens
}
