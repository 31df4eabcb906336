//! The peers of `chumoku bench attention` in Rust: candle's CPU flash attention and burn's attention on its CPU backend.
//!
//! ```text
//! cargo run --release -- candle|burn [--batch 1] [--heads 8] [--kv-heads N] [--length 1024] [--keys N] [--dim 64]
//!     [--causal] [--backward] [--threads N]
//! ```
//! Measures f32 on random data and prints one JSON object with the same fields. The result is checked before the
//! timing.

use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Tensor as BurnTensor, TensorData, module};
use candle_nn::attention::{AttnMask, flash_attn};
use chumoku_kernels::{Attention, Causal, Heads, Philox, reference};
use serde_json::json;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// The sizes to measure. Query heads share key heads if `kv_heads` is smaller than `heads`.
struct Problem {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    length: usize,
    keys: usize,
    dim: usize,
    is_causal: bool,
    is_backward: bool,
    threads: usize,
}

impl Problem {
    fn parse(args: impl Iterator<Item = String>) -> Result<Problem, Failure> {
        let args: Vec<String> = args.collect();
        let known = ["--batch", "--heads", "--kv-heads", "--length", "--keys", "--dim", "--threads"];
        let mut values = std::collections::HashMap::new();
        let (mut is_causal, mut is_backward) = (false, false);
        let mut rest = args.iter();
        while let Some(flag) = rest.next() {
            match flag.as_str() {
                "--causal" => is_causal = true,
                "--backward" => is_backward = true,
                flag if known.contains(&flag) => {
                    let value = rest.next().ok_or(format!("{flag}: expected a number"))?;
                    let number: usize = value.parse().map_err(|_| format!("{flag}: expected a number, got {value}"))?;
                    values.insert(flag, number);
                }
                flag => return Err(format!("unknown flag {flag}").into()),
            }
        }
        let get = |flag, default| values.get(flag).copied().unwrap_or(default);
        let (heads, length) = (get("--heads", 8), get("--length", 1024));
        Ok(Problem {
            batch: get("--batch", 1),
            heads,
            kv_heads: get("--kv-heads", heads),
            length,
            keys: get("--keys", length),
            dim: get("--dim", 64),
            is_causal,
            is_backward,
            threads: get("--threads", std::thread::available_parallelism()?.get()),
        })
    }

    fn query_shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.dim]
    }

    fn key_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.dim]
    }

    /// 4·B·H·L·S·D, halved if causal, and 3.5 times that with the backward pass.
    fn operations(&self) -> f64 {
        let pairs = (self.batch * self.heads) as f64 * self.length as f64 * self.keys as f64;
        let halved = if self.is_causal { 0.5 } else { 1.0 };
        4.0 * pairs * self.dim as f64 * halved * if self.is_backward { 3.5 } else { 1.0 }
    }
}

fn normals(shape: [usize; 4], stream: u64) -> Vec<f32> {
    let random = Philox::new(1, stream);
    (0..shape.iter().product::<usize>() as u64).map(|i| random.normal(i)).collect()
}

/// The relative error (L2) of rows of `output`, (batch, heads, length, dim), against double precision.
fn error(p: &Problem, inputs: &[Vec<f32>; 3], output: &[f32]) -> Result<f64, Failure> {
    let [query, key, value] = inputs;
    let mut attention = Attention::new(
        Heads::bhld(query, p.query_shape())?,
        Heads::bhld(key, p.key_shape())?,
        Heads::bhld(value, p.key_shape())?,
    );
    if p.is_causal {
        attention = attention.causal(Causal::BottomRight);
    }
    let output = Heads::bhld(output, p.query_shape())?;
    let (mut wrong, mut size) = (0.0, 0.0);
    for sample in 0..64 {
        let (s, h, i) = (sample % p.batch, sample * 7 % p.heads, sample * 1009 % p.length);
        let expected = reference::attention_row(&attention, s, h, i).output;
        for (&y, x) in output.row(s, h, i).iter().zip(expected) {
            wrong += (f64::from(y) - x).powi(2);
            size += x * x;
        }
    }
    Ok((wrong / size).sqrt())
}

/// Sorted milliseconds of each run, after two warm-up runs. The number of runs is that of `chumoku bench`.
fn time(mut work: impl FnMut() -> Result<(), Failure>) -> Result<Vec<f64>, Failure> {
    work()?;
    work()?;
    let (mut times, mut total) = (Vec::new(), 0.0);
    let wants_more = |runs, total| match runs {
        0 => true,
        1..3 => total < 6e4,
        3..5 => total < 2e4,
        5..100 => total < 1e3,
        _ => false,
    };
    while wants_more(times.len(), total) {
        let start = Instant::now();
        work()?;
        times.push(1e3 * start.elapsed().as_secs_f64());
        total += times[times.len() - 1];
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// candle's flash attention reads (batch, length, heads, dim) and writes (batch, heads, length, dim).
fn candle(p: &Problem, inputs: &[Vec<f32>; 3]) -> Result<(f64, Vec<f64>), Failure> {
    if p.is_backward {
        return Err("candle's CPU flash attention has no backward pass".into());
    }
    let tensor = |data: &[f32], shape: [usize; 4]| {
        candle_core::Tensor::from_slice(data, &shape, &candle_core::Device::Cpu)?.transpose(1, 2)?.contiguous()
    };
    let query = tensor(&inputs[0], p.query_shape())?;
    let (key, value) = (tensor(&inputs[1], p.key_shape())?, tensor(&inputs[2], p.key_shape())?);
    let scale = 1.0 / (p.dim as f32).sqrt();
    let run = || {
        let mask = if p.is_causal { AttnMask::causal_with_offset(p.keys - p.length) } else { AttnMask::None };
        flash_attn::<f32>(&query, &key, &value, scale, mask, None, None)
    };
    let error = error(p, inputs, &run()?.flatten_all()?.to_vec1::<f32>()?)?;
    let times = time(|| {
        std::hint::black_box(run()?);
        Ok(())
    })?;
    Ok((error, times))
}

/// burn's `module::attention` on the Flex backend, (batch, heads, length, dim).
fn burn(p: &Problem, inputs: &[Vec<f32>; 3]) -> Result<(f64, Vec<f64>), Failure> {
    if p.kv_heads != p.heads {
        return Err("burn's attention needs as many key heads as query heads".into());
    }
    let device = if p.is_backward { Device::flex().autodiff() } else { Device::flex() };
    let tensor = |data: &[f32], shape: [usize; 4]| {
        let tensor = BurnTensor::<4>::from_data(TensorData::new(data.to_vec(), shape), &device);
        if p.is_backward { tensor.require_grad() } else { tensor }
    };
    let query = tensor(&inputs[0], p.query_shape());
    let (key, value) = (tensor(&inputs[1], p.key_shape()), tensor(&inputs[2], p.key_shape()));
    let d_output = BurnTensor::<4>::from_data(TensorData::new(normals(p.query_shape(), 3), p.query_shape()), &device);
    let options = AttentionModuleOptions { is_causal: p.is_causal, ..Default::default() };
    let run = || module::attention(query.clone(), key.clone(), value.clone(), None, None, options);
    let output = run().into_data().try_to_vec::<f32>().map_err(|error| format!("{error:?}"))?;
    let error = error(p, inputs, &output)?;
    let times = time(|| {
        let output = run();
        if p.is_backward {
            let gradients = (output * d_output.clone()).sum().backward();
            std::hint::black_box(query.grad(&gradients).zip(key.grad(&gradients)).zip(value.grad(&gradients)));
        } else {
            std::hint::black_box(output);
        }
        Ok(())
    })?;
    Ok((error, times))
}

/// The peak resident memory of this process, including the program and its inputs.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let peer = args.next().unwrap_or_default();
    let p = Problem::parse(args)?;
    rayon::ThreadPoolBuilder::new().num_threads(p.threads).build_global()?;
    let inputs = [(p.query_shape(), 0), (p.key_shape(), 1), (p.key_shape(), 2)].map(|(shape, s)| normals(shape, s));
    let (version, (error, times)) = match peer.as_str() {
        "candle" => ("0.11.0", candle(&p, &inputs)?),
        "burn" => ("0.22.0", burn(&p, &inputs)?),
        _ => return Err("expected candle or burn".into()),
    };
    let allowed = 1e-4;
    if error.is_nan() || error > allowed {
        return Err(format!("the answer is off by {error:e}").into());
    }
    let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
    println!(
        "{}",
        json!({
            "median_ms": median,
            "min_ms": times[0],
            "max_ms": times[times.len() - 1],
            "runs": times.len(),
            "gflops": p.operations() / median / 1e6,
            "tokens_per_second": (p.batch * p.length) as f64 / median * 1e3,
            "peak_bytes": peak_bytes(),
            "threads": p.threads,
            "error": error,
            "peer": peer,
            "version": version,
        })
    );
    Ok(())
}
