//! Implements `chumoku bench train` and `chumoku bench infer`: the transformer classifier on random tokens.

use super::{BenchReport, RunTimes, deviation::Deviation, memory, profile::StepProfile, time_ms};
use crate::UsageError;
use crate::args::BenchClassifierArgs;
use crate::progress::pluralize;
use anyhow::{Context, Result};
use chumoku::lang::{lang, system_message};
use chumoku::models::{Classifier, ClassifierConfig};
use chumoku::nn::{DropoutSeed, EncoderConfig, InputEmbeddingsOptions, Mode, Offsets, Pooling, PositionKind};
use chumoku::params::Params;
use chumoku::tr;
use chumoku::train::{DataShape, MicroBatchGradients, Plan, StepOutput, TrainState, default_micro_batches};
use chumoku_kernels::{CrossEntropy, Philox, Precision, Roofline};
use std::path::Path;

const NUM_CLASSES: usize = 4;

/// Sequences of random tokens, with random labels.
struct RandomBatch {
    ids: Vec<u32>,
    offsets: Offsets,
    labels: Vec<u32>,
}

impl RandomBatch {
    fn new(lengths: &[usize], vocab: usize, stream: u64) -> RandomBatch {
        let random = Philox::new(1, stream);
        let mut drawn = 0..;
        let mut draw = |n: usize| (f64::from(random.uniform(drawn.next().unwrap_or(0))) * n as f64) as u32;
        let ids = (0..lengths.iter().sum()).map(|_| draw(vocab)).collect();
        let labels = lengths.iter().map(|_| draw(NUM_CLASSES)).collect();
        RandomBatch { ids, offsets: Offsets::from_lengths(lengths.iter().copied()), labels }
    }

    fn tokens(&self) -> usize {
        self.ids.len()
    }
}

/// A model with its training state.
struct BenchModel {
    model: Classifier,
    state: TrainState,
    micro_batches: MicroBatchGradients,
    plan: Plan,
}

impl BenchModel {
    fn new(args: &BenchClassifierArgs, max_length: usize) -> Result<BenchModel> {
        let encoder = EncoderConfig {
            dropout: args.dropout,
            attention_dropout: args.dropout,
            ..EncoderConfig::new(args.layers, args.d_model, args.heads, 4 * args.d_model)
        };
        let model = Classifier::new(ClassifierConfig {
            vocab_size: args.vocab,
            num_classes: NUM_CLASSES,
            backbone: encoder.into(),
            position: PositionKind::Sinusoidal,
            max_length,
            pooling: Pooling::Mean,
            embedding_dropout: args.dropout,
            head_dropout: 0.0,
            head_dense: None,
            embeddings: InputEmbeddingsOptions::default(),
        })?;
        let mut plan =
            Plan::new(&DataShape { lengths: &[max_length], class_rows: &[1; NUM_CLASSES], vocab_size: args.vocab });
        plan.model = model.config().clone();
        let mut state = TrainState::new(Params::init(model.layout(), 1));
        state.set_precision(args.precision.into());
        let gradients = MicroBatchGradients::new(model.layout(), num_micro_batches(args, max_length));
        Ok(BenchModel { micro_batches: gradients, model, state, plan })
    }

    /// Returns the deviation of the logits of the first tokens of `batch` from those in double precision.
    fn check(&self, batch: &RandomBatch) -> Result<Deviation> {
        // One short sequence: the reference implementation is slow.
        let length = batch.offsets.range(0).len().min(64);
        let (ids, offsets) = (&batch.ids[..length], Offsets::from_lengths([length]));
        let mut wide = Params::<f64>::zeros(self.model.layout());
        wide.values_mut().iter_mut().zip(self.state.params.values()).for_each(|(w, &p)| *w = p.into());
        let fast = self.model.forward(&self.state.params, ids, &offsets, Mode::Eval)?.0;
        let plain = self.model.forward(&wide, ids, &offsets, Mode::Eval)?.0;
        Ok(Deviation::of(fast.iter().map(|&x| x.into()), plain.as_slice().context("logits lie in one piece")?))
    }

    fn infer(&self, batch: &RandomBatch) -> Result<()> {
        self.model.logits(&self.state.params, &batch.ids, &batch.offsets)?;
        Ok(())
    }

    /// Runs forward, loss, backward and an optimizer step, as `chumoku train` does.
    fn train(&mut self, batch: &RandomBatch) -> Result<()> {
        let BenchModel { model, state, micro_batches: gradients, plan } = self;
        let (params, step, offsets) = (&state.params, state.step, &batch.offsets);
        let options = CrossEntropy { label_smoothing: 0.1, class_weights: None, row_weights: None };
        gradients.train_step(&Vec::from_iter(0..offsets.sequences()), |rows, part, grads| {
            let ids: Vec<u32> = rows.iter().flat_map(|&row| &batch.ids[offsets.range(row)]).copied().collect();
            let labels: Vec<u32> = rows.iter().map(|&row| batch.labels[row]).collect();
            let lengths = Offsets::from_lengths(rows.iter().map(|&row| offsets.range(row).len()));
            let mode = Mode::Train(DropoutSeed { seed: part as u64, step });
            let loss = model.loss(params, (&ids, &lengths), &labels, &options, mode, grads)?;
            Ok(StepOutput::new(loss.into(), rows.len() as f64, ids.len()))
        })?;
        state.optimizer_step(gradients.grads(), &plan.settings, 1000)?;
        Ok(())
    }
}

pub(super) fn measure(args: &BenchClassifierArgs, is_training: bool) -> Result<BenchReport> {
    let title = title(args, is_training);
    let lengths = args.lengths.as_deref().map(read_lengths).transpose()?;
    let longest = lengths.as_ref().map_or(args.length, |lengths| lengths.iter().copied().max().unwrap_or(0));
    memory::check(&title, memory_needed(args, longest, is_training))?;
    let lengths = lengths.unwrap_or_else(|| vec![args.length; args.batch]);
    let batches = lengths.chunks(args.batch).zip(0..);
    let batches: Vec<RandomBatch> =
        batches.map(|(lengths, stream)| RandomBatch::new(lengths, args.vocab, stream)).collect();

    let mut bench = BenchModel::new(args, longest)?;
    let deviation = bench.check(&batches[0])?;
    deviation.require(if args.precision == crate::args::Precision::Medium { 5e-2 } else { 1e-4 })?;
    let mut run = |batch: &RandomBatch| if is_training { bench.train(batch) } else { bench.infer(batch) };
    run(&batches[0])?;
    run(&batches[0])?;
    let times = match args.lengths {
        None => RunTimes::measure(|| run(&batches[0]))?,
        Some(_) => RunTimes::new(batches.iter().map(|batch| time_ms(|| run(batch))).collect::<Result<_>>()?),
    };
    // Batches of different lengths take different times, so the speed is that of all batches together.
    let steps = batches.len() as f64;
    let of_step = if args.lengths.is_none() { times.median() } else { times.total() / steps };
    let budget = match args.profile {
        true => Some(profile_runs(&batches, times.runs(), of_step, run)?),
        false => None,
    };
    let tokens: usize = batches.iter().map(RandomBatch::tokens).sum();
    let milliseconds = if args.lengths.is_none() { times.median() } else { times.total() };
    let operations: f64 = batches.iter().map(|batch| flops(args, batch, is_training)).sum();
    let [kernel, kernel_in_japanese] = kernel_description(args.precision.into());
    Ok(BenchReport {
        title,
        flops: operations * times.median() / milliseconds,
        tokens_per_second: tokens as f64 / milliseconds * 1e3,
        times,
        peak_bytes: memory::peak(),
        peak_scope: lang().pick("of the whole process", "プロセス全体"),
        deviation,
        kernel,
        kernel_in_japanese,
        profile: budget,
    })
}

/// Repeats the runs with profiling.
fn profile_runs(
    batches: &[RandomBatch],
    runs: usize,
    milliseconds: f64,
    mut run: impl FnMut(&RandomBatch) -> Result<()> + Send,
) -> Result<StepProfile> {
    let (done, profile) = chumoku_kernels::profile(|| batches.iter().cycle().take(runs).try_for_each(&mut run));
    done?;
    Ok(StepProfile::new(profile, Roofline::measure(), runs, milliseconds))
}

/// Describes the kernels, in English and in Japanese.
fn kernel_description(precision: Precision) -> [String; 2] {
    let (isa, precision) = (chumoku::active_isa(), precision.name());
    both!("matrix products and attention on {isa}, {precision}", "{isa} での行列積とアテンション、{precision}")
}

/// Floating-point operations of the linear layers and of attention. The backward pass takes twice the forward pass for
/// the layers, and 2.5 times for attention, which recomputes its weights.
fn flops(args: &BenchClassifierArgs, batch: &RandomBatch, is_training: bool) -> f64 {
    let [layers, d_model] = [args.layers, args.d_model].map(|n| n as f64);
    let linear = 24.0 * d_model * d_model * batch.tokens() as f64;
    let pairs: f64 = batch.offsets.ranges().map(|range| (range.len() as f64).powi(2)).sum();
    let attention = 4.0 * pairs * d_model;
    let head = 2.0 * d_model * (NUM_CLASSES * batch.offsets.sequences()) as f64;
    let [of_linear, of_attention] = if is_training { [3.0, 3.5] } else { [1.0, 1.0] };
    of_linear * (layers * linear + head) + of_attention * layers * attention
}

/// Number of micro-batches per batch.
fn num_micro_batches(args: &BenchClassifierArgs, longest: usize) -> usize {
    args.parts.unwrap_or_else(|| default_micro_batches(args.batch.saturating_mul(longest)))
}

/// Estimated memory of the benchmark, in bytes.
fn memory_needed(args: &BenchClassifierArgs, longest: usize, is_training: bool) -> f64 {
    let [layers, d_model, vocab] = [args.layers, args.d_model, args.vocab].map(|n| n as f64);
    let tokens = args.batch as f64 * longest as f64;
    // Weights, two moments, two averages, and a copy in double precision; the gradients of each micro-batch.
    let parameters = vocab * d_model + layers * 12.0 * d_model * d_model;
    // Activations that the layers keep per token in training, measured on a real run.
    let activations = tokens * d_model * if is_training { 20.0 * layers } else { 20.0 };
    let copies = 7 + if is_training { num_micro_batches(args, longest) } else { 1 };
    copies as f64 * 4.0 * parameters + 4.0 * activations + 4.0 * longest as f64 * d_model
}

fn title(args: &BenchClassifierArgs, is_training: bool) -> String {
    let BenchClassifierArgs { d_model, batch, length, .. } = args;
    let (n, h) = (args.layers, args.heads);
    let (layers, heads) = (pluralize(n, "layer"), pluralize(h, "head"));
    let doing = if is_training { lang().pick("training", "学習") } else { lang().pick("inference", "推論") };
    let tokens = match &args.lengths {
        None => tr!("{batch}x{length} tokens", "{batch}x{length} トークン"),
        Some(_) => tr!("{batch} sequences", "{batch} 系列"),
    };
    let precision = chumoku::Precision::from(args.precision).name();
    tr!(
        "{doing}, {layers}, d_model {d_model}, {heads}, {tokens}, {precision}",
        "{doing}、{n} 層、d_model {d_model}、ヘッド {h}、{tokens}、{precision}"
    )
}

/// Reads one length per line.
fn read_lengths(path: &Path) -> Result<Vec<usize>> {
    let refuse = |problem: String| {
        UsageError(tr!("bench: --lengths {}: {problem}", "bench: --lengths {}: {problem}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(system_message(&error)))?;
    let number = |(line, text): (usize, &str)| match text.trim().parse() {
        Ok(n) if n >= 1 => Ok(n),
        _ => Err(refuse(tr!(
            "line {}: expected a whole number of at least 1, got {text:?}",
            "{} 行目: 1 以上の整数が必要ですが、{text:?} です",
            line + 1
        ))),
    };
    let lengths: Vec<usize> = text.lines().enumerate().map(number).collect::<Result<_, _>>()?;
    if lengths.is_empty() {
        return Err(refuse(tr!(
            "expected one length per line, found an empty file",
            "1 行に 1 つの長さが必要ですが、何もありません"
        ))
        .into());
    }
    Ok(lengths)
}
