//! The run: baseline, tokens, plan, steps, evaluations, checkpoints, and at the end the report.

use super::state::Best;
use super::{Blend, Plan, Scores, Shape, State, TrainingData, batches, checkpoint, log_softmax, quick_scores};
use crate::models::Classifier;
use crate::ngram::{NgramConfig, NgramData, NgramModel};
use crate::nn::{Mode, Network, Noise, PositionKind};
use crate::params::Params;
use crate::text::{TextTokenizer, TokenizerConfig};
use crate::text_classifier::{MODEL_TYPE, ModelConfig, TextClassifier};
use crate::{Error, Result, inference};
use chumoku_kernels::{CrossEntropy, Philox, Precision, cross_entropy};
use ndarray::Array2;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the caller decides of a run.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Decides initial weights, order and dropout.
    pub seed: u64,
    /// Epochs at most; chosen from the data if absent.
    pub epochs: Option<u64>,
    /// The network that reads the tokens.
    pub network: Network,
    /// Positional encoding of a transformer.
    pub position: PositionKind,
    /// How exact matrix products are.
    pub precision: Precision,
    /// Continue from the newest checkpoint in the folder.
    pub resume: bool,
    /// Time between checkpoints, beside those after each epoch. Does not change results.
    pub checkpoint_every: Duration,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            seed: 42,
            epochs: None,
            network: Network::Transformer,
            position: PositionKind::Sinusoidal,
            // The fastest, and what it loses cannot be told from chance: `docs/training.md` has the figures.
            precision: Precision::Medium,
            resume: false,
            checkpoint_every: Duration::from_secs(30),
        }
    }
}

/// What happens in a run, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that the user should know.
    Note(String),
    /// The n-gram baseline is trained: accuracy and macro-F1 on the validation rows, if there are any.
    Baseline {
        /// The time it took.
        seconds: f64,
        /// N-grams that it knows.
        features: usize,
        /// Accuracy and macro-F1 on the validation rows.
        valid: Option<(f64, f64)>,
    },
    /// All is ready for the first step.
    Ready {
        /// The settings.
        plan: &'a Plan,
        /// Numbers that training changes.
        parameters: usize,
        /// Steps in all epochs.
        steps: u64,
        /// Steps taken already, when resuming.
        done: u64,
        /// Tokens of the training rows, median and longest.
        tokens: [usize; 3],
        /// Training rows that are longer than a window.
        long_rows: usize,
        /// Time that all epochs would take, measured on one step.
        expected: Duration,
        /// Memory that training will hold, about.
        bytes: usize,
    },
    /// A step was taken.
    Step {
        /// Number of the step, from 1.
        step: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// Tokens a second since the run began.
        tokens_per_second: f64,
    },
    /// The averaged weights were evaluated on the validation rows.
    Evaluated {
        /// Epochs finished.
        epoch: u64,
        /// Moving average of the training loss.
        loss: f64,
        /// Share of the validation rows predicted right.
        accuracy: f64,
        /// Macro-F1 on the validation rows.
        macro_f1: f64,
        /// Whether it is the best so far.
        is_best: bool,
        /// Whether the rows were kept from training; without validation rows the training rows have to do.
        is_held_out: bool,
    },
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The model, as it was saved.
    pub model: TextClassifier,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test rows: the whole predictor.
    pub test: Scores,
    /// Scores on the test rows of the network alone, the n-grams alone, and the most frequent class.
    pub parts: [Scores; 3],
    /// The best evaluation.
    pub best: Option<Best>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// Trains a classifier and writes the model folder `out`.
///
/// The bytes of `model.safetensors` follow from the data, the options, the instruction set and the build: not from
/// the number of threads, nor from where the run was killed and resumed.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train(
    data: &TrainingData,
    options: &TrainOptions,
    out: &Path,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome> {
    std::fs::create_dir_all(out).map_err(Error::io("creating", out))?;
    let ngrams = train_ngrams(data, observe)?;
    let train_texts = data.train.texts();
    let config = TokenizerConfig { vocab_size: TextTokenizer::suitable_vocab_size(&train_texts), min_frequency: 2 };
    let tokenizer = TextTokenizer::train(&train_texts, &config)?;
    let rows = tokenizer.encode_all(&train_texts)?;
    let valid_rows = tokenizer.encode_all(&data.valid.texts())?;
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let class_rows = data.class_rows();
    let shape = Shape { lengths: &lengths, class_rows: &class_rows, vocab_size: tokenizer.vocab_size() };
    let mut plan = Plan::new(&shape).with_network(options.network, options.position)?;
    if let Some(epochs) = options.epochs {
        plan.epochs = epochs;
    }
    plan.precision = options.precision;
    let model = Classifier::new(plan.model.clone())?;
    let fingerprint = fingerprint(data, &plan, options.seed, &tokenizer.to_json()?);
    let checkpoints = out.join("checkpoints");
    let mut log_bytes = 0;
    let mut state = State::new(model.layout(), options.seed);
    if options.resume {
        match checkpoint::load(&checkpoints, model.layout(), &fingerprint)? {
            Some(loaded) => {
                for problem in &loaded.damaged {
                    observe(Event::Note(format!("damaged checkpoint passed over: {problem}")));
                }
                observe(Event::Note(format!("continuing after step {}", loaded.state.step)));
                (state, log_bytes) = (loaded.state, loaded.log_bytes);
            }
            None => observe(Event::Note("no checkpoint yet: starting from the first step".into())),
        }
    }
    state.set_precision(plan.precision);
    let mut run = Run {
        data,
        plan: &plan,
        seed: options.seed,
        model: &model,
        tokenizer: &tokenizer,
        rows: &rows,
        valid_rows: &valid_rows,
        log: Log::open(&out.join("log.jsonl"), log_bytes)?,
        checkpoints,
        fingerprint,
        loss: None,
        grads: Params::zeros(model.layout()),
    };
    run.announce(&state, observe)?;
    let interrupted = run.steps(&mut state, options, stop, observe)?;
    finish(data, options, out, &plan, &state, tokenizer, model, ngrams, interrupted)
}

fn train_ngrams(data: &TrainingData, observe: &mut dyn FnMut(Event<'_>)) -> Result<NgramModel> {
    let start = Instant::now();
    let (texts, valid_texts) = (data.train.texts(), data.valid.texts());
    let valid = (!valid_texts.is_empty()).then_some((&valid_texts[..], &data.valid.labels[..]));
    let ngram_data = NgramData {
        texts: &texts,
        labels: &data.train.labels,
        num_classes: data.labels.len(),
        valid,
        class_weights: None,
    };
    let ngrams = NgramModel::train(&ngram_data, &NgramConfig::default(), &AtomicBool::new(false), &|_| {})?;
    let scores = valid.map(|(texts, labels)| {
        let logits = ngrams.logits_of(texts);
        let predicted: Vec<u32> = logits.chunks_exact(data.labels.len()).map(largest).collect();
        quick_scores(labels, &predicted, data.labels.len())
    });
    let (seconds, features) = (start.elapsed().as_secs_f64(), ngrams.num_features());
    observe(Event::Baseline { seconds, features, valid: scores });
    Ok(ngrams)
}

/// The n-gram model once more, with the penalty that was chosen, on training and validation rows.
fn refit_ngrams(data: &TrainingData, chosen: &NgramModel) -> Result<NgramModel> {
    let defaults = NgramConfig::default();
    let c = chosen.report().map_or(defaults.c_without_validation, |report| report.c);
    let texts = [data.train.texts(), data.valid.texts()].concat();
    let labels = [&data.train.labels[..], &data.valid.labels[..]].concat();
    let num_classes = data.labels.len();
    let data = NgramData { texts: &texts, labels: &labels, num_classes, valid: None, class_weights: None };
    let config = NgramConfig { c_grid: vec![c], c_without_validation: c, ..defaults };
    Ok(NgramModel::train(&data, &config, &AtomicBool::new(false), &|_| {})?)
}

/// The class of the largest number, the first of equals.
fn largest(row: &[f32]) -> u32 {
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}

/// Of all that decides the weights: data, plan, seed, and the tokens that ids stand for.
fn fingerprint(data: &TrainingData, plan: &Plan, seed: u64, tokenizer: &str) -> String {
    let plan = serde_json::to_string(plan).expect("a plan is plain data");
    super::hex(Sha256::digest(format!("{} {plan} {seed} {tokenizer}", data.fingerprint())))
}

/// `log.jsonl`: a line for each evaluation and for some steps.
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    /// Opens the log, keeping the `bytes` that belong to the checkpoint that is continued.
    fn open(path: &Path, bytes: u64) -> Result<Log> {
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(path);
        let file = opened.map_err(Error::io("opening", path))?;
        let length = file.metadata().map_err(Error::io("reading", path))?.len();
        let bytes = bytes.min(length);
        file.set_len(bytes).map_err(Error::io("shortening", path))?;
        let mut log = Log { path: path.to_owned(), file, bytes };
        std::io::Seek::seek(&mut log.file, std::io::SeekFrom::End(0)).map_err(Error::io("writing", path))?;
        Ok(log)
    }

    fn write(&mut self, line: Value) -> Result<()> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes()).map_err(Error::io("writing", &self.path))?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

struct Run<'a> {
    data: &'a TrainingData,
    plan: &'a Plan,
    seed: u64,
    model: &'a Classifier,
    tokenizer: &'a TextTokenizer,
    rows: &'a [Vec<u32>],
    valid_rows: &'a [Vec<u32>],
    log: Log,
    checkpoints: PathBuf,
    fingerprint: String,
    /// Moving average of the training loss.
    loss: Option<f64>,
    grads: Params<f32>,
}

/// Streams of the run's random numbers; see also [`batches`].
const WINDOW: u64 = 1 << 60;
const TOKENS: u64 = WINDOW + (1 << 56);

impl Run<'_> {
    fn window(&self) -> usize {
        self.plan.model.max_length - 1
    }

    fn batches(&self, epoch: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = self.rows.iter().map(|row| row.len().min(self.window()) + 1).collect();
        batches(&lengths, self.plan.batch_tokens, self.seed, epoch)
    }

    /// What is read of a training row in an epoch: all of it or, of a long one, a window at a random place; with a
    /// random share of its tokens left out.
    fn sample(&self, row: usize, epoch: u64) -> Vec<u32> {
        let ids = &self.rows[row];
        let mut start = 0;
        if ids.len() > self.window() {
            let random = Philox::new(self.seed, WINDOW + epoch).uniform(row as u64);
            start = (f64::from(random) * (ids.len() - self.window() + 1) as f64) as usize;
        }
        let ids = &ids[start..ids.len().min(start + self.window())];
        let random = Philox::new(self.seed, TOKENS + epoch);
        let kept = (0..ids.len().div_ceil(4)).flat_map(|block| random.block((row as u64) << 20 | block as u64));
        let threshold = (f64::from(self.plan.token_dropout) * f64::from(u32::MAX)) as u32;
        ids.iter().zip(kept).filter(|(_, word)| *word >= threshold).map(|(&id, _)| id).collect()
    }

    /// Loss of a batch; the gradients are left in `self.grads`.
    fn gradients(&mut self, params: &Params<f32>, rows: &[usize], epoch: u64, step: u64) -> Result<(f64, usize)> {
        let samples: Vec<Vec<u32>> = rows.iter().map(|&row| self.sample(row, epoch)).collect();
        let (ids, offsets) = inference::pack(self.tokenizer.cls(), samples.iter().map(Vec::as_slice));
        let labels: Vec<u32> = rows.iter().map(|&row| self.data.train.labels[row]).collect();
        let mode = Mode::Train(Noise { seed: self.seed, step });
        let (logits, cache) = self.model.forward(params, &ids, &offsets, mode)?;
        let mut d_logits = Array2::zeros(logits.dim());
        let options = CrossEntropy {
            label_smoothing: self.plan.label_smoothing,
            class_weights: self.plan.class_weights.as_deref(),
        };
        let (x, d) = (logits.as_slice().unwrap_or_default(), d_logits.as_slice_mut().unwrap_or_default());
        let loss = f64::from(cross_entropy(x, &labels, &options, d)?);
        self.grads.clear();
        if loss.is_finite() {
            self.model.backward(params, (&ids, &offsets), &cache, d_logits.view(), mode, &mut self.grads)?;
        }
        Ok((loss, ids.len()))
    }

    /// Says what is about to happen, with the time of one step measured on the first batch.
    fn announce(&mut self, state: &State, observe: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let mut lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let first = self.batches(0);
        let steps = first.len() as u64 * self.plan.epochs;
        let middle = first.get(first.len() / 2).cloned().unwrap_or_default();
        // The second run counts: the first also fills caches and scratch memory.
        let mut one = Duration::ZERO;
        for _ in 0..2 {
            let start = Instant::now();
            if !middle.is_empty() {
                self.gradients(&state.params, &middle, 0, 0)?;
            }
            one = start.elapsed();
        }
        let body = &self.plan.model.body;
        let per_token = body.numbers_per_token() + 6 * body.d_model();
        let numbers = 6 * state.params.values().len() + self.plan.batch_tokens * per_token;
        let long_rows = lengths.iter().filter(|&&length| length > self.window()).count();
        observe(Event::Ready {
            plan: self.plan,
            parameters: state.params.values().len(),
            steps,
            done: state.step,
            tokens: [
                lengths.iter().sum(),
                lengths.get(lengths.len() / 2).copied().unwrap_or(0),
                lengths.last().copied().unwrap_or(0),
            ],
            long_rows,
            expected: one.mul_f64(1.15 * (steps.saturating_sub(state.step)) as f64),
            bytes: 4 * numbers,
        });
        Ok(())
    }

    /// Steps until the end, or until asked to stop: then `true`.
    fn steps(
        &mut self,
        state: &mut State,
        options: &TrainOptions,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool> {
        let (mut saved, began) = (Instant::now(), Instant::now());
        let mut tokens = 0;
        let mut steps = None;
        while !state.is_done(self.plan) {
            let batches = self.batches(state.epoch);
            let steps = *steps.get_or_insert(batches.len() as u64 * self.plan.epochs);
            for batch in batches.iter().skip(state.batch as usize) {
                if stop.load(Ordering::Relaxed) {
                    self.save(state)?;
                    return Ok(true);
                }
                let step = state.step + 1;
                let (loss, count) = self.gradients(&state.params, batch, state.epoch, step)?;
                if !loss.is_finite() {
                    return Err(self.not_finite(state, batch, &format!("the loss is {loss}")));
                }
                if let Err(Error::NotFinite(problem)) = state.apply(&self.grads, self.plan, steps) {
                    return Err(self.not_finite(state, batch, &problem));
                }
                state.batch += 1;
                tokens += count;
                let smooth = self.loss.map_or(loss, |before| before + 0.05 * (loss - before));
                self.loss = Some(smooth);
                let seconds = began.elapsed().as_secs_f64();
                observe(Event::Step { step, loss: smooth, tokens_per_second: tokens as f64 / seconds });
                if step.is_multiple_of(50) {
                    self.log.write(json!({ "step": step, "epoch": state.epoch, "loss": smooth }))?;
                }
                if saved.elapsed() >= options.checkpoint_every {
                    self.save(state)?;
                    saved = Instant::now();
                }
            }
            state.epoch += 1;
            state.batch = 0;
            self.evaluate(state, observe)?;
            self.save(state)?;
            saved = Instant::now();
        }
        Ok(false)
    }

    fn save(&mut self, state: &State) -> Result<()> {
        checkpoint::save(&self.checkpoints, state, &self.fingerprint, self.log.bytes)
    }

    fn evaluate(&mut self, state: &mut State, observe: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        // Without validation rows the training rows have to do.
        let (rows, labels) = match self.valid_rows.is_empty() {
            true => (self.rows, &self.data.train.labels),
            false => (self.valid_rows, &self.data.valid.labels),
        };
        let logits = inference::logits(self.model, &state.average, self.tokenizer.cls(), rows)?;
        let log_p: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| log_softmax(&row.to_vec())).collect();
        let predicted: Vec<u32> = log_p.iter().map(|row| largest(row)).collect();
        let (accuracy, macro_f1) = quick_scores(labels, &predicted, self.data.labels.len());
        let log_loss = mean_loss(&log_p, labels);
        let is_best = state.evaluated(macro_f1, log_loss);
        let (epoch, loss) = (state.epoch, self.loss.unwrap_or(f64::NAN));
        self.log.write(json!({
            "step": state.step, "epoch": epoch, "loss": loss, "valid_loss": log_loss, "valid_accuracy": accuracy,
            "valid_macro_f1": macro_f1, "best": is_best
        }))?;
        let is_held_out = !self.valid_rows.is_empty();
        observe(Event::Evaluated { epoch, loss, accuracy, macro_f1, is_best, is_held_out });
        Ok(())
    }

    /// Finds what stopped being a number first, and says what is left.
    fn not_finite(&self, state: &State, batch: &[usize], problem: &str) -> Error {
        let bad = |params: &Params<f32>| {
            let found =
                params.layout().iter().find(|(_, _, r)| params.values()[r.clone()].iter().any(|x| !x.is_finite()));
            found.map(|(name, _, _)| name.to_owned())
        };
        let cause = match bad(&state.params) {
            Some(name) => format!("the weights of {name} were no longer finite before the step"),
            None => format!(
                "the weights were finite, so the step itself overflowed (batch of {} rows, largest weight {:e}): the \
                 learning rate {} is too high for these data",
                batch.len(),
                state.params.values().iter().fold(0.0f32, |most, x| most.max(x.abs())),
                self.plan.learning_rate
            ),
        };
        let kept = match checkpoint::exists(&self.checkpoints) {
            true => format!("the last good checkpoint is kept in {}", self.checkpoints.display()),
            false => "no checkpoint had been written yet".into(),
        };
        Error::NotFinite(format!(
            "training stopped at step {} (epoch {}): {problem}; {cause}; {kept}",
            state.step + 1,
            state.epoch + 1
        ))
    }
}

/// Mean negative log-probability of the right classes.
pub(crate) fn mean_loss(log_p: &[Vec<f32>], labels: &[u32]) -> f64 {
    let sum: f64 = log_p.iter().zip(labels).map(|(row, &label)| -f64::from(row[label as usize])).sum();
    sum / labels.len().max(1) as f64
}

/// Blend, scores, and the folder's files.
#[allow(clippy::too_many_arguments)]
fn finish(
    data: &TrainingData,
    options: &TrainOptions,
    out: &Path,
    plan: &Plan,
    state: &State,
    tokenizer: TextTokenizer,
    model: Classifier,
    ngrams: NgramModel,
    interrupted: bool,
) -> Result<Outcome> {
    // Stopped before the first evaluation: the average is the best there is.
    let params = if state.best.is_some() { state.best_params.clone() } else { state.average.clone() };
    let config = ModelConfig {
        model_type: MODEL_TYPE.into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        blend: Blend::ATTENTION,
        ngrams: Some(ngrams.scheme().clone()),
        precision: plan.precision,
        model: plan.model.clone(),
    };
    let mut classifier = TextClassifier { config, model, params, tokenizer, ngrams: Some(ngrams) };
    let valid = classifier.predict(&data.valid.texts())?;
    let attention: Vec<Vec<f32>> = valid.iter().map(|p| p.attention.clone()).collect();
    let ngrams: Vec<Vec<f32>> = valid.iter().filter_map(|p| p.ngrams.clone()).collect();
    classifier.config.blend = Blend::fit(&attention, &ngrams, &data.valid.labels);
    // Everything is chosen: the n-grams now learn from the validation rows too.
    classifier.ngrams = classifier.ngrams.map(|chosen| refit_ngrams(data, &chosen)).transpose()?;

    let report = super::card::evaluate(&classifier, data, options.seed)?;
    let metrics = super::card::metrics(&classifier, data, options, plan, state, &report, interrupted);
    classifier.save(out)?;
    let pretty = serde_json::to_string_pretty(&metrics).expect("metrics are plain data") + "\n";
    crate::text_classifier::write(&out.join("metrics.json"), pretty.as_bytes())?;
    let card = super::card::model_card(&classifier, data, state, &report, options, interrupted);
    crate::text_classifier::write(&out.join("README.md"), card.as_bytes())?;
    let super::card::Report { whole, parts } = report;
    Ok(Outcome { model: classifier, metrics, test: whole, parts, best: state.best, interrupted })
}
