//! `chumoku bench attention`: scaled dot-product attention on random queries, keys and values.

mod check;

use super::{BenchReport, RunTimes, memory, time_ms};
use crate::UsageError;
use crate::args::{BenchAttentionArgs, Dtype};
use anyhow::Result;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku_kernels::reference::attention_keys;
use chumoku_kernels::{
    Attention, AttentionPlan, BackwardInputs, Causal, Element, Gradients, Heads, HeadsMut, Philox, Precision, bf16, f16,
};
use rayon::prelude::*;

/// Sizes and mask of the benchmark.
#[derive(Clone, Copy, Debug)]
struct BenchShape {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    /// Queries per sequence.
    length: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
    is_causal: bool,
    window: Option<usize>,
}

impl BenchShape {
    fn new(args: &BenchAttentionArgs) -> Result<BenchShape> {
        let kv_heads = args.kv_heads.unwrap_or(args.heads);
        refuse_if!(
            !args.heads.is_multiple_of(kv_heads),
            "--kv-heads: expected a divisor of the {} heads of queries, got {kv_heads}",
            "--kv-heads: クエリのヘッド数 {} の約数が必要ですが、{kv_heads} です",
            args.heads
        );
        Ok(BenchShape {
            batch: args.batch,
            heads: args.heads,
            kv_heads,
            length: args.length,
            keys: args.keys.unwrap_or(args.length),
            dim: args.dim,
            value_dim: args.value_dim.unwrap_or(args.dim),
            is_causal: args.causal,
            window: args.window,
        })
    }

    fn query_shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.dim]
    }

    fn key_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.dim]
    }

    fn value_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.value_dim]
    }

    fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.value_dim]
    }

    fn rows(&self) -> usize {
        self.batch * self.heads * self.length
    }

    /// Floating-point operations of the forward pass: 4 per query–key pair and element of a head, averaged over `dim`
    /// and `value_dim`. Causality halves the pairs; with a window, only visible pairs count.
    fn flops<T: Element>(&self, attention: &Attention<'_, T>) -> f64 {
        let pairs = match self.window {
            None => self.length as f64 * self.keys as f64 * if self.is_causal { 0.5 } else { 1.0 },
            Some(_) => (0..self.length).map(|i| attention_keys(attention, 0, i).len() as f64).sum(),
        };
        2.0 * (self.batch * self.heads) as f64 * pairs * (self.dim as f64 + self.value_dim as f64)
    }

    /// Bytes of inputs and results, and of the check.
    fn memory_needed(&self, size: usize, is_backward: bool) -> f64 {
        let count = |shape: [usize; 4]| shape.iter().map(|&n| n as f64).product::<f64>();
        let inputs = count(self.query_shape()) + count(self.key_shape()) + count(self.value_shape());
        let outputs = count(self.output_shape());
        let rows = outputs / self.value_dim as f64;
        if !is_backward {
            return size as f64 * (inputs + outputs);
        }
        let one = (2.0 * inputs + 2.0 * outputs) / (self.batch as f64 * self.kv_heads as f64);
        size as f64 * 2.0 * (inputs + outputs) + 4.0 * (rows + one)
    }

    /// Returns the attention over these inputs, each (batch, heads, length, dim).
    fn attention<'a, T: Element>(
        &self,
        [query, key, value]: [&'a [T]; 3],
        precision: Precision,
    ) -> Result<Attention<'a, T>> {
        let mut attention = Attention::new(
            Heads::bhld(query, self.query_shape())?,
            Heads::bhld(key, self.key_shape())?,
            Heads::bhld(value, self.value_shape())?,
        );
        if let Some(window) = self.window {
            attention = attention.window(Some(window), Some(window), Causal::BottomRight);
        }
        if self.is_causal {
            attention = attention.causal(Causal::BottomRight);
        }
        Ok(attention.precision(precision))
    }
}

/// Outputs of attention, NaN until written.
struct BenchResults<T> {
    output: Vec<T>,
    gradients: Option<BenchGradients<T>>,
}

/// Inputs and outputs of the backward pass.
struct BenchGradients<T> {
    d_output: Vec<T>,
    log_sum_exp: Vec<f32>,
    d_query: Vec<T>,
    d_key: Vec<T>,
    d_value: Vec<T>,
}

impl<T: Element<Sum = f32>> BenchResults<T> {
    /// Allocates the results, with a backward pass if `d_output` is given.
    fn new(p: &BenchShape, d_output: Option<Vec<T>>) -> Result<Self> {
        let gradients = |d_output| -> Result<_> {
            Ok(BenchGradients {
                d_output,
                log_sum_exp: nan_array(p.rows())?,
                d_query: nan_array(p.query_shape().iter().product())?,
                d_key: nan_array(p.key_shape().iter().product())?,
                d_value: nan_array(p.value_shape().iter().product())?,
            })
        };
        let output = nan_array(p.output_shape().iter().product())?;
        Ok(BenchResults { output, gradients: d_output.map(gradients).transpose()? })
    }

    fn run(&mut self, p: &BenchShape, attention: &Attention<'_, T>) -> Result<()> {
        let output = HeadsMut::bhld(&mut self.output, p.output_shape())?;
        let Some(g) = &mut self.gradients else { return Ok(attention.forward(output)?) };
        attention.forward_with_log_sum_exp(output, &mut g.log_sum_exp)?;
        let saved = BackwardInputs {
            output: Heads::bhld(&self.output, p.output_shape())?,
            log_sum_exp: &g.log_sum_exp,
            d_output: Heads::bhld(&g.d_output, p.output_shape())?,
            d_log_sum_exp: None,
        };
        let gradients = Gradients {
            query: HeadsMut::bhld(&mut g.d_query, p.query_shape())?,
            key: HeadsMut::bhld(&mut g.d_key, p.key_shape())?,
            value: HeadsMut::bhld(&mut g.d_value, p.value_shape())?,
            mask: None,
            sinks: None,
        };
        Ok(attention.backward(saved, gradients)?)
    }
}

/// Describes the kernel, in English and in Japanese.
fn kernel_description<T: Element>(attention: &Attention<'_, T>) -> [String; 2] {
    let describe = |plan: AttentionPlan| {
        let ((queries, keys), tasks, scratch) = (plan.tile, plan.tasks, plan.scratch_bytes / 1024);
        let kernel = plan.kernel;
        both!(
            "{kernel}, {queries} x {keys} a block, {tasks} tasks, {scratch} KiB a thread",
            "{kernel}、ブロック {queries} x {keys}、タスク {tasks}、スレッドごとに {scratch} KiB"
        )
    };
    attention.explain().map_or_else(|error| [error.to_string(), error.to_string()], describe)
}

/// Allocates an array of NaN.
fn nan_array<T: Element>(len: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    let refused = |_| {
        UsageError(tr!(
            "bench: not enough memory for an array of {len} numbers; choose smaller sizes",
            "bench: 数 {len} 個の配列のメモリを確保できません。大きさを小さくしてください"
        ))
    };
    array.try_reserve_exact(len).map_err(refused)?;
    array.resize(len, T::round_from(f64::NAN));
    Ok(array)
}

/// Draws numbers from the standard normal distribution.
fn random_normals<T: Element>(shape: [usize; 4], stream: u64) -> Result<Vec<T>> {
    let mut array = nan_array(shape.iter().product())?;
    let random = Philox::new(1, stream);
    let fill = |(i, x): (usize, &mut T)| *x = T::round_from(f64::from(random.normal(i as u64)));
    array.par_iter_mut().enumerate().for_each(fill);
    Ok(array)
}

pub(super) fn measure(args: &BenchAttentionArgs) -> Result<BenchReport> {
    let problem = BenchShape::new(args)?;
    match args.dtype {
        Dtype::F32 => measure_as::<f32>(args, &problem),
        Dtype::Bf16 => measure_as::<bf16>(args, &problem),
        Dtype::F16 => measure_as::<f16>(args, &problem),
    }
}

fn measure_as<T: Element<Sum = f32>>(args: &BenchAttentionArgs, p: &BenchShape) -> Result<BenchReport> {
    let title = title::<T>(args, p);
    memory::check(&title, p.memory_needed(size_of::<T>(), args.backward))?;
    let [query, key, value] = [
        random_normals::<T>(p.query_shape(), 0)?,
        random_normals(p.key_shape(), 1)?,
        random_normals(p.value_shape(), 2)?,
    ];
    let d_output = args.backward.then(|| random_normals(p.output_shape(), 3)).transpose()?;
    let precision = args.precision.into();
    let inputs = [&query[..], &key, &value];
    let attention = p.attention(inputs, precision)?;

    // The first call allocates memory that later calls reuse.
    let before = memory::resident();
    memory::reset_peak();
    let mut results = BenchResults::new(p, d_output)?;
    let first = time_ms(|| results.run(p, &attention))?;
    let peak_bytes = memory::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));

    let deviation = check::check_samples(p, inputs, &results)?;
    deviation.require(tolerance::<T>(precision))?;
    if first < 1e3 {
        // The check has evicted what the first call had brought into the caches.
        results.run(p, &attention)?;
    }
    let times = RunTimes::measure(|| results.run(p, &attention))?;
    let [kernel, kernel_in_japanese] = kernel_description(&attention);
    Ok(BenchReport {
        title,
        flops: p.flops(&attention) * if args.backward { 3.5 } else { 1.0 },
        tokens_per_second: (p.batch * p.length) as f64 / times.median() * 1e3,
        times,
        peak_bytes,
        peak_scope: lang().pick("excluding inputs", "入力を除く"),
        deviation,
        kernel,
        kernel_in_japanese,
        profile: None,
    })
}

/// Largest relative error of a correct result: rounding of the products and of the output, with some margin.
fn tolerance<T: Element>(precision: Precision) -> f64 {
    let of_precision = match precision {
        Precision::Highest => 1e-5,
        Precision::High => 1e-4,
        Precision::Medium => 5e-2,
    };
    let of_type = match T::NAME {
        "bf16" => 5e-2,
        "f16" => 1e-2,
        _ => 0.0,
    };
    f64::max(of_precision, of_type)
}

fn title<T: Element>(args: &BenchAttentionArgs, p: &BenchShape) -> String {
    let BenchShape { batch, heads, length, dim, keys, kv_heads, value_dim, .. } = p;
    let mut title = tr!("attention {batch}x{heads}x{length}x{dim}", "アテンション {batch}x{heads}x{length}x{dim}");
    if keys != length {
        title += &tr!(", {keys} keys", "、キー {keys}");
    }
    if kv_heads != heads {
        title += &tr!(", {kv_heads} key heads", "、キーのヘッド {kv_heads}");
    }
    if value_dim != dim {
        title += &tr!(", values {value_dim} wide", "、値の幅 {value_dim}");
    }
    let (dtype, precision) = (T::NAME, chumoku_kernels::Precision::from(args.precision).name());
    title += &tr!(", {dtype}, {precision}", "、{dtype}、{precision}");
    if p.is_causal {
        title += lang().pick(", causal", "、因果的");
    }
    if let Some(window) = p.window {
        title += &tr!(", window {window}", "、窓 {window}");
    }
    if args.backward { title + lang().pick(", with backward", "、逆伝播つき") } else { title }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBLEM: BenchShape = BenchShape {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        length: 5,
        keys: 7,
        dim: 3,
        value_dim: 2,
        is_causal: false,
        window: None,
    };

    #[test]
    fn wrong_results_have_large_deviations() -> Result<()> {
        let p = BenchShape { is_causal: true, ..PROBLEM };
        let [query, key, value] = [
            random_normals::<f32>(p.query_shape(), 0)?,
            random_normals(p.key_shape(), 1)?,
            random_normals(p.value_shape(), 2)?,
        ];
        let inputs = [&query[..], &key, &value];
        let mut results = BenchResults::new(&p, Some(random_normals(p.output_shape(), 3)?))?;
        let error =
            |results: &BenchResults<f32>| check::check_samples(&p, inputs, results).map(|found| found.relative_error());
        assert!(error(&results)?.is_nan(), "nothing was written");
        results.run(&p, &p.attention(inputs, Precision::Highest)?)?;
        assert!(error(&results)? < 1e-5);
        for broken in 0..4 {
            let mut results = BenchResults::new(&p, Some(random_normals(p.output_shape(), 3)?))?;
            results.run(&p, &p.attention(inputs, Precision::Highest)?)?;
            let gradients = results.gradients.as_mut().unwrap();
            let broken = [&mut results.output, &mut gradients.d_query, &mut gradients.d_key, &mut gradients.d_value]
                [broken]
                .iter_mut();
            broken.for_each(|x| *x *= 1.01);
            assert!(error(&results)? > 1e-3);
        }
        Ok(())
    }
}
