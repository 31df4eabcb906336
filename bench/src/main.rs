//! The one harness that measures Chumoku: training and inference of the classifier, as `peers/torch_train.py` does it.
//!
//! ```text
//! cargo run --release -p bench -- train [--layers 4] [--d-model 256] [--heads 8] [--batch 32] [--length 128]
//!     [--vocab 8000] [--classes 4] [--steps 20] [--warmup 3] [--threads 2] [--dropout 0.1]
//!     [--precision highest] [--lengths FILE]
//! ```
//!
//! (`accuracy` measures the defaults on real data: see `accuracy.rs`.)
//!
//! The same flags, random data and output (one JSON object) as the peer. The answer is checked before it is timed: the
//! f32 logits must agree with the plain reference in double precision.

mod accuracy;
mod options;
mod stats;

use chumoku::Precision;
use chumoku::models::{Classifier, ClassifierConfig};
use chumoku::nn::{EncoderConfig, Mode, Noise, NormOrder, Offsets, Pooling, PositionKind};
use chumoku::params::Params;
use chumoku::train::{Plan, Shape, State};
use chumoku_kernels::{CrossEntropy, Philox, Real, cross_entropy};
use options::Options;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;

/// A batch of random tokens and labels.
struct Batch {
    ids: Vec<u32>,
    offsets: Offsets,
    labels: Vec<u32>,
}

fn batches(options: &Options) -> Vec<Batch> {
    let lengths = options
        .lengths
        .clone()
        .unwrap_or_else(|| vec![options.length; options.batch * (options.steps + options.warmup)]);
    let random = Philox::new(1, 1);
    let mut drawn = 0..;
    let mut draw = |n: usize| {
        let index = drawn.next().unwrap_or(0u64);
        ((f64::from(random.uniform(index)) * n as f64) as u32).min(n as u32 - 1)
    };
    lengths
        .chunks(options.batch)
        .map(|lengths| {
            let tokens: usize = lengths.iter().sum();
            Batch {
                ids: (0..tokens).map(|_| draw(options.vocab)).collect(),
                offsets: Offsets::of_lengths(lengths.iter().copied()),
                labels: lengths.iter().map(|_| draw(options.classes)).collect(),
            }
        })
        .collect()
}

fn model(options: &Options) -> Classifier {
    let encoder = EncoderConfig {
        num_layers: options.layers,
        d_model: options.d_model,
        num_heads: options.heads,
        d_ff: 4 * options.d_model,
        activation: "gelu".into(),
        norm_order: NormOrder::Pre,
        dropout: options.dropout,
        attention_dropout: options.dropout,
        causal: false,
    };
    Classifier::new(ClassifierConfig {
        vocab_size: options.vocab,
        num_classes: options.classes,
        encoder,
        position: PositionKind::Sinusoidal,
        max_length: 4096,
        pooling: Pooling::Mean,
        embedding_dropout: options.dropout,
        head_dropout: 0.0,
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

/// The largest difference of the f32 logits to the reference's, relative to their largest magnitude.
fn check(model: &Classifier, params: &Params<f32>, batch: &Batch) -> f64 {
    // One short sequence: the reference is slow.
    let length = batch.offsets.range(0).len().min(64);
    let (ids, offsets) = (&batch.ids[..length], Offsets::of_lengths([length]));
    let mut wide = Params::<f64>::zeros(model.layout());
    wide.values_mut().iter_mut().zip(params.values()).for_each(|(w, p)| *w = f64::of(f64::from(*p)));
    let fast = model.forward(params, ids, &offsets, Mode::Eval).expect("the batch fits the model").0;
    let plain = model.forward(&wide, ids, &offsets, Mode::Eval).expect("the batch fits the model").0;
    let size = plain.iter().fold(0.0f64, |size, x| size.max(x.abs()));
    fast.iter().zip(&plain).map(|(f, p)| (f64::from(*f) - p).abs()).fold(0.0, f64::max) / size
}

fn main() {
    let fail = |problem: String| -> ! {
        eprintln!("error: {problem}");
        std::process::exit(2)
    };
    if std::env::args().nth(1).as_deref() == Some("accuracy") {
        return accuracy::run(std::env::args().skip(2)).unwrap_or_else(|problem| fail(problem));
    }
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|problem| fail(problem));
    chumoku_kernels::keep_freed_memory();
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global().expect("the first pool of the process");
    let (model, batches) = (model(&options), batches(&options));
    let mut plan = Plan::new(&Shape {
        lengths: &[options.length],
        class_rows: &vec![1; options.classes],
        vocab_size: options.vocab,
    });
    plan.model = model.config().clone();
    let mut state = State::new(model.layout(), 1);
    state.set_precision(options.precision);
    let error = check(&model, &state.params, &batches[0]);
    let allowed = if options.precision == Precision::Medium { 3e-2 } else { 1e-4 };
    assert!(error < allowed, "the logits are off by {error:e}");

    let mut grads = Params::zeros(model.layout());
    let (mut times, mut tokens) = (Vec::new(), 0);
    for (step, batch) in batches.iter().enumerate() {
        let start = Instant::now();
        if options.is_training {
            let mode = Mode::Train(Noise { seed: 1, step: step as u64 });
            let (logits, cache) = model.forward(&state.params, &batch.ids, &batch.offsets, mode).expect("it fits");
            let mut d_logits = ndarray::Array2::zeros(logits.dim());
            let smooth = CrossEntropy { label_smoothing: 0.1, class_weights: None };
            let d = d_logits.as_slice_mut().expect("made here");
            cross_entropy(logits.as_slice().expect("made there"), &batch.labels, &smooth, d).expect("it fits");
            grads.clear();
            let packed = (&batch.ids[..], &batch.offsets);
            model.backward(&state.params, packed, &cache, d_logits.view(), mode, &mut grads).expect("it fits");
            state.apply(&grads, &plan, 1000).expect("finite gradients");
        } else {
            model.logits(&state.params, &batch.ids, &batch.offsets).expect("it fits");
        }
        if step >= options.warmup {
            times.push(start.elapsed().as_secs_f64());
            tokens += batch.ids.len();
        }
    }
    let total: f64 = times.iter().sum();
    println!(
        "{}",
        serde_json::json!({
            "mode": if options.is_training { "train" } else { "infer" },
            "tokens_per_second": tokens as f64 / total,
            "median_ms": 1e3 * stats::median(&mut times),
            "min_ms": 1e3 * times[0],
            "max_ms": 1e3 * times[times.len() - 1],
            "runs": times.len(),
            "peak_bytes": stats::peak_bytes(),
            "error": error,
            "precision": options.precision.name(),
            "isa": chumoku::active_isa().name(),
            "threads": options.threads,
        })
    );
}
