//! Checks samples of a result against double precision, few enough to be quick at any length.

use super::{BenchGradients, BenchResults, BenchShape, nan_array};
use crate::commands::bench::deviation::Deviation;
use anyhow::Result;
use chumoku_kernels::reference::attention_keys;
use chumoku_kernels::{Attention, BackwardInputs, Element, Heads, HeadsMut, Philox, Precision, reference};
use rayon::prelude::*;

/// Maximum number of multiplications to check rows of the output.
const MAX_MULTIPLICATIONS: usize = 1 << 28;

/// Checks sampled rows of the output and, with a backward pass, of the gradients. Returns the worst deviation.
pub(super) fn check_samples<T>(p: &BenchShape, inputs: [&[T]; 3], results: &BenchResults<T>) -> Result<Deviation>
where
    T: Element<Sum = f32>,
{
    let attention = p.attention(inputs, Precision::Highest)?;
    let row_work = p.keys.saturating_mul(p.dim.saturating_add(p.value_dim)).max(1);
    let rows = sample((MAX_MULTIPLICATIONS / row_work).clamp(16, 256));
    let rows: Vec<_> = rows.map(|random| [random(p.batch), random(p.heads), random(p.length)]).collect();
    let output = Heads::bhld(&results.output, p.output_shape())?;
    let of_output = deviation(&rows, output, |[s, h, i]| reference::attention_row(&attention, s, h, i).output);
    let Some(g) = &results.gradients else { return Ok(of_output) };
    let d_output = Heads::bhld(&g.d_output, p.output_shape())?;
    let saved = BackwardInputs { output, log_sum_exp: &[], d_output, d_log_sum_exp: None };
    let of_queries = deviation(&rows, Heads::bhld(&g.d_query, p.query_shape())?, |[s, h, i]| {
        reference::attention_row_backward(&attention, saved, s, h, i).d_query
    });
    let [of_keys, of_values] = key_gradients(p, inputs, g)?;
    Ok([of_queries, of_keys, of_values].into_iter().fold(of_output, Deviation::worse))
}

/// Returns the deviation of these rows, each given by sequence, head and position.
fn deviation<T: Element>(
    rows: &[[usize; 3]],
    found: Heads<'_, T>,
    expected: impl Fn([usize; 3]) -> Vec<f64> + Sync,
) -> Deviation {
    let of_row = |&[s, h, i]: &[usize; 3]| Deviation::of(doubles(found.row(s, h, i)), &expected([s, h, i]));
    rows.par_iter().map(of_row).reduce(Deviation::default, Deviation::merge)
}

/// Checks the gradients of sampled keys and values of one head. Each sums over all queries, so their log-sum-exp and
/// outputs come from a forward pass of that head in f32, at the highest precision.
fn key_gradients<T: Element<Sum = f32>>(
    p: &BenchShape,
    inputs: [&[T]; 3],
    g: &BenchGradients<T>,
) -> Result<[Deviation; 2]> {
    let group = p.heads / p.kv_heads;
    let one = BenchShape { batch: 1, heads: group, kv_heads: 1, ..*p };
    // The last head of keys, and the queries that read it.
    let last = |numbers: &[T], shape: [usize; 4]| -> Vec<f32> {
        let count: usize = shape.iter().product();
        numbers[numbers.len() - count..].iter().map(|x| x.to_f64() as f32).collect()
    };
    let [query, key, value] =
        [last(inputs[0], one.query_shape()), last(inputs[1], one.key_shape()), last(inputs[2], one.value_shape())];
    let d_output = last(&g.d_output, one.output_shape());
    let attention: Attention<'_, f32> = one.attention([&query, &key, &value], Precision::Highest)?;
    let mut output = nan_array::<f32>(d_output.len())?;
    let mut log_sum_exp = nan_array::<f32>(group * p.length)?;
    attention.forward_with_log_sum_exp(HeadsMut::bhld(&mut output, one.output_shape())?, &mut log_sum_exp)?;

    let scale = 1.0 / (p.dim as f64).sqrt();
    let of_key = |j: usize| {
        let (k, v) = (row(&key, j, p.dim), row(&value, j, p.value_dim));
        let (mut d_key, mut d_value) = (vec![0.0; p.dim], vec![0.0; p.value_dim]);
        for i in (0..group * p.length).filter(|i| attention_keys(&attention, 0, i % p.length).contains(&j)) {
            let (q, d) = (row(&query, i, p.dim), row(&d_output, i, p.value_dim));
            // p = exp(score − lse), dV_j = Σ p dO_i, dK_j = Σ scale · p (dO_i · v_j − dO_i · o_i) q_i
            let weight = (scale * dot(q, k) - f64::from(log_sum_exp[i])).exp();
            let d_score = weight * (dot(d, v) - dot(d, row(&output, i, p.value_dim)));
            d_key.iter_mut().zip(q).for_each(|(to, &q)| *to += scale * d_score * f64::from(q));
            d_value.iter_mut().zip(d).for_each(|(to, &d)| *to += weight * f64::from(d));
        }
        let of = |gradients: &[T], expected: &[f64]| {
            let at = gradients.len() - (p.keys - j) * expected.len();
            Deviation::of(doubles(&gradients[at..]), expected)
        };
        [of(&g.d_key, &d_key), of(&g.d_value, &d_value)]
    };
    let sum = |[a, b]: [Deviation; 2], [c, d]: [Deviation; 2]| [a.merge(c), b.merge(d)];
    Ok(sample(32).map(|random| of_key(random(p.keys))).reduce(Default::default, sum))
}

/// Draws `count` times. Each draw is a function that returns random indices below its argument; the first draw returns
/// the largest index.
fn sample(count: usize) -> impl ParallelIterator<Item = impl Fn(usize) -> usize> {
    (0..count as u64).into_par_iter().map(|draw| {
        let random = Philox::new(2, draw);
        let calls = std::cell::Cell::new(0);
        move |below: usize| {
            calls.set(calls.get() + 1);
            let share = if draw == 0 { 1.0 } else { f64::from(random.uniform(calls.get())) };
            ((share * below as f64) as usize).min(below - 1)
        }
    })
}

fn row(numbers: &[f32], i: usize, width: usize) -> &[f32] {
    &numbers[i * width..][..width]
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn doubles<T: Element>(numbers: &[T]) -> impl Iterator<Item = f64> {
    numbers.iter().map(|x| x.to_f64())
}
