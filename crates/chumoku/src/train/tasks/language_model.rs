//! Training a language model: tokenized documents, plan, run and report.

use super::token_windows::{EpochWindows, TokenWindow, windows};
use crate::data::DocumentSplit;
use crate::lang::lang;
use crate::lang::wording::format_thousands;
use crate::parallel_batches::{batches_by_length, map_batches};
use crate::train::data::base_snapshot::base_replaced_error;
use crate::train::reports::text_cards::{self, RunFacts};
use crate::train::reports::text_scores::LanguageScores;
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::run_identity::{plan_json, sha256_of_numbers, sha256_of_rows};
use crate::train::run_folder::training::{RunContext, Training, held_out_part, write_folder};
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Freeze;
use crate::train::training_loop::batches::batches;
use crate::train::training_loop::memory::{MemoryEstimate, ProcessUsage, activations, bytes_of, evaluation_share};
use crate::train::training_loop::micro_batches::{StepOutput, default_micro_batches};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::train_state::BestEvaluation;
use crate::train::training_loop::trainable::{Evaluation, StepContext, Trainable};
use crate::train::training_loop::weights_observer::ObservedNetwork;

use crate::model_folder::{ModelIdentity, Snapshot, with_snapshot};
use crate::models::{LanguageModel, LanguageModelConfig};
use crate::nn::{EncoderConfig, InputEmbeddingsOptions, Mode, Offsets, PositionKind};
use crate::params::{ParamLayout, Params};
use crate::pretrained::DecoderOrigin;
use crate::text::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig};
use crate::text_models::generator::{TextBoundaries, TextGenerator, TextGeneratorConfig};
use crate::text_models::optimizer_defaults;
use crate::{Error, ModelKind, Result, tr};
use chumoku_kernels::{Precision, cancel};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Everything that decides the training of a language model, besides the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct LanguageModelPlan {
    /// The model.
    pub model: LanguageModelConfig,
    /// The training settings.
    #[serde(flatten)]
    pub settings: TrainSettings,
    /// The kind of tokens.
    pub tokens: TokenizationUnit,
    /// The number of tokens in a training window.
    pub(crate) window: usize,
    /// The frozen parameters, in continued training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) freeze: Option<Freeze>,
}

/// The result of training a language model.
#[derive(Debug)]
#[non_exhaustive]
pub struct LanguageModelOutcome {
    /// The saved model.
    pub model: TextGenerator,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test documents, or on the validation documents if there are none.
    pub test: LanguageScores,
    /// Scores of the base model on the same documents, in continued training.
    pub before: Option<LanguageScores>,
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

impl LanguageScores {
    /// Scores a model on documents, each read in consecutive windows of the model's context.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or weights are too large for a finite loss.
    pub fn measure(model: &TextGenerator, texts: &[String]) -> Result<LanguageScores> {
        let documents = documents(&model.tokenizer, model.boundaries.document_end, texts)?;
        let (total, tokens) = total_loss(&model.model, &model.params, &documents)?;
        if !total.is_finite() {
            return Err(Error::NotFinite(tr!(
                "the loss is not a finite number: the model's weights are too large",
                "損失が有限の値になりません。モデルの重みが大きすぎます"
            )));
        }
        let unknown = model.tokenizer.unknown_id();
        let unknown = documents.iter().flatten().filter(|&&id| Some(id) == unknown).count();
        Ok(LanguageScores { unknown, ..LanguageScores::from_total(total, tokens, texts) })
    }
}

/// The maximum number of characters for which the tokens are characters.
const MAX_CHARACTER_TEXT: usize = 2_000_000;

impl LanguageModelPlan {
    /// Chooses the plan for `count` tokens and a vocabulary size.
    pub(crate) fn new(tokens: TokenizationUnit, count: usize, vocab_size: usize) -> LanguageModelPlan {
        let (width, context) = if tokens == TokenizationUnit::Characters { (128, 64) } else { (256, 128) };
        let model = LanguageModelConfig {
            vocab_size,
            encoder: EncoderConfig { causal: true, ..EncoderConfig::new(4, width, 4, 4 * width) },
            position: PositionKind::Learned,
            max_length: context,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        // A few million tokens take minutes on two cores.
        let epochs = (6_000_000 / count.max(1)).clamp(1, 60) as u64;
        let batch_tokens = (count / 200).clamp(context.max(256), 2048);
        let settings = TrainSettings {
            epochs,
            patience: (epochs / 3).max(3),
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: optimizer_defaults::LANGUAGE_MODEL.learning_rate,
            embedding_learning_rate_factor: 1.0,
            head_learning_rate_factor: 1.0,
            warmup_share: 0.05,
            weight_decay: optimizer_defaults::LANGUAGE_MODEL.weight_decay,
            beta2: optimizer_defaults::LANGUAGE_MODEL.beta2,
            clip_norm: 1.0,
            label_smoothing: 0.0,
            average_decay: 0.998,
            precision: Precision::default(),
        };
        LanguageModelPlan { model, settings, tokens, window: context, freeze: None }
    }

    /// Chooses the plan for continued training on `count` tokens: a low learning rate, and one to three epochs.
    pub(crate) fn continued(model: LanguageModelConfig, tokens: TokenizationUnit, count: usize) -> LanguageModelPlan {
        /// The maximum window. Longer windows give more context and take longer.
        const WINDOW: usize = 512;
        let encoder = &model.encoder;
        let step = optimizer_defaults::fine_tuning(encoder);
        let epochs = (2_000_000 / count.max(1)).clamp(1, 3) as u64;
        let window = model.max_length.min(WINDOW);
        let mut plan = LanguageModelPlan::new(tokens, count, model.vocab_size);
        let batch_tokens = (count / 50).clamp(window, 2048.max(window));
        plan.settings = TrainSettings {
            epochs,
            patience: epochs,
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: step.learning_rate,
            weight_decay: step.weight_decay,
            beta2: step.beta2,
            average_decay: 0.99,
            ..plan.settings
        };
        LanguageModelPlan { model, window, freeze: Some(Freeze::Nothing), ..plan }
    }
}

/// The start of a run: tokens, plan, and the base model, if any.
struct LanguageModelStart {
    tokenizer: TextTokenizer,
    bounds: TextBoundaries,
    plan: LanguageModelPlan,
    train: Vec<Vec<u32>>,
    /// The configuration, origin and identity of the base model, without its parameters.
    base: Option<(TextGeneratorConfig, Option<DecoderOrigin>, ModelIdentity)>,
    /// Scores of the base model before continued training.
    before: Option<LanguageScores>,
}

impl LanguageModelStart {
    /// Trains a tokenizer on the data, for a new model.
    fn from_scratch(data: &DocumentSplit, options: &TrainOptions) -> Result<LanguageModelStart> {
        let texts: Vec<&str> = data.train.iter().map(String::as_str).collect();
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let tokens = options.tokens.unwrap_or(if characters <= MAX_CHARACTER_TEXT {
            TokenizationUnit::Characters
        } else {
            TokenizationUnit::Subwords
        });
        let config = match tokens {
            TokenizationUnit::Characters => TokenizerConfig {
                vocab_size: 16_000,
                min_frequency: 1,
                form: NormalizationForm::Unchanged,
                unit: tokens,
            },
            _ => TokenizerConfig {
                vocab_size: TextTokenizer::suitable_vocab_size(&texts),
                min_frequency: 2,
                form: NormalizationForm::Unchanged,
                unit: tokens,
            },
        };
        let tokenizer = TextTokenizer::train(&texts, &config)?;
        let bounds = TextBoundaries::from_tokenizer(&tokenizer);
        let train = documents(&tokenizer, bounds.document_end, &data.train)?;
        let count = train.iter().map(Vec::len).sum();
        let plan = LanguageModelPlan::new(tokens, count, tokenizer.vocab_size());
        Ok(LanguageModelStart { tokenizer, bounds, plan, train, base: None, before: None })
    }

    /// Reads the model and tokenizer of a folder.
    fn from_folder(folder: &Path, data: &DocumentSplit, options: &TrainOptions) -> Result<LanguageModelStart> {
        let read = |folder: &Snapshot| Ok((TextGenerator::from_snapshot(folder)?, folder.identity().clone()));
        let (mut found, identity) = with_snapshot(folder, read)?;
        found.boundaries = found.boundaries.with_end();
        found.set_precision(options.precision);
        let train = documents(&found.tokenizer, found.boundaries.document_end, &data.train)?;
        let count = train.iter().map(Vec::len).sum();
        let tokens = if found.origin.is_some() { TokenizationUnit::Subwords } else { found.tokenizer.unit() };
        let mut plan = LanguageModelPlan::continued(found.config.model.clone(), tokens, count);
        plan.freeze = options.freeze.or(plan.freeze);
        plan.freeze.unwrap_or(Freeze::Nothing).adjust_learning_rates(&mut plan.settings);
        let (texts, _) = held_out_part([&data.train, &data.valid, &data.test], Vec::is_empty);
        let before = Some(LanguageScores::measure(&found, texts)?);
        let TextGenerator { config, tokenizer, boundaries: bounds, origin, .. } = found;
        Ok(LanguageModelStart { tokenizer, bounds, plan, train, base: Some((config, origin, identity)), before })
    }
}

/// Trains a language model and writes the model folder `out`. The length of the text decides the kind of tokens, unless
/// the options do.
///
/// The bytes of `model.safetensors` depend only on the data, the options, the instruction set and the build. The number
/// of threads does not change them, nor does interrupting and resuming.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_language_model(data: &DocumentSplit, mut training: Training<'_>) -> Result<LanguageModelOutcome> {
    let (context, observe) = training.begin(ModelKind::LanguageModel)?;
    let RunContext { options, out, .. } = context;
    let base = ProcessUsage::measure().current;
    let ground = match &options.from {
        None => LanguageModelStart::from_scratch(data, options)?,
        Some(folder) => LanguageModelStart::from_folder(folder, data, options)?,
    };
    let LanguageModelStart { tokenizer, bounds, mut plan, train, base: from, before } = ground;
    let valid = documents(&tokenizer, bounds.document_end, &data.valid)?;
    options.apply_to(&mut plan.settings);
    let model = LanguageModel::new(plan.model.clone())?;
    let vocabulary_sha256 = tokenizer.vocabulary_sha256();
    let task = LanguageModelTask {
        plan: &plan,
        model: &model,
        vocabulary: &vocabulary_sha256,
        base: options.from.as_deref().zip(from.as_ref().map(|(.., identity)| identity.clone())),
        initial_memory: base,
        windows: EpochWindows::new(target_counts(&train), plan.window),
        train,
        valid,
    };
    task.describe(observe);
    if let Some(before) = &before {
        report_base_scores(before, observe);
    }
    let watch = options.observer_of(ObservedNetwork::LanguageModel { model: &model, tokenizer: &tokenizer })?;
    let ended = run_in_folder(&task, context, watch, observe)?;

    let params = ended.params().unfreeze();
    let (held_out, scored_on) = held_out_part([&data.train, &data.valid, &data.test], Vec::is_empty);
    let data_sha256 = task.data_sha256();
    let (model_type, origin) = match from {
        None => (ModelKind::LanguageModel.model_type().to_owned(), None),
        Some((config, origin, _)) => (config.model_type, origin),
    };
    let config = TextGeneratorConfig {
        model_type,
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        precision: plan.settings.precision,
        vocabulary_sha256: vocabulary_sha256.clone(),
        model: plan.model.clone(),
    };
    drop(task);
    let generator = TextGenerator { config, model, params, tokenizer, boundaries: bounds, origin };
    let test = LanguageScores::measure(&generator, held_out)?;
    let state = &ended.state;
    let metrics = json!({
        "task": "lm",
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "interrupted": ended.interrupted,
        "documents": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "data_sha256": data_sha256,
        "files": options.source.as_slice(),
        "parameters": generator.num_parameters(),
        "steps": state.step,
        "epochs": state.epoch,
        "best_epoch": state.best.map(|best| best.epoch),
        "valid": state.best.map(|best| json!({ "loss": best.loss })),
        "scored_on": scored_on,
        "scores": test,
        "before": before,
        "plan": plan_json(&plan),
    });
    let (best, interrupted) = (state.best, ended.interrupted);
    let of =
        RunFacts { state, interrupted, seed: options.seed, scored_on, data_sha256: &data_sha256, tokens: plan.tokens };
    let card = text_cards::language_model(&generator, data, (&test, before.as_ref()), &of);
    write_folder(out, generator.files()?, &metrics, card)?;
    Ok(LanguageModelOutcome { model: generator, metrics, test, before, best, interrupted })
}

/// Reports the scores of the base model.
fn report_base_scores(before: &LanguageScores, observe: &mut dyn FnMut(TrainEvent<'_>)) {
    let (loss, [(_, of_token), (unit, of_unit), _]) = (before.loss, before.perplexities());
    let text = tr!(
        "loss {loss:.3}, perplexity {of_token:.2} per token, {of_unit:.2} per {unit}, before it is trained further",
        "追加学習の前: 損失 {loss:.3}、パープレキシティはトークンあたり {of_token:.2}、{unit}あたり {of_unit:.2}"
    );
    observe(TrainEvent::Message(topic_label("baseline"), text));
}

/// Tokenizes documents, each with the tokens before a text and the end token.
fn documents(tokenizer: &TextTokenizer, end: Option<u32>, texts: &[String]) -> Result<Vec<Vec<u32>>> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let before = &tokenizer.special_tokens().prefix;
    let bounded = |ids: Vec<u32>| [before, &ids, end.as_slice()].concat();
    let (mut documents, mut read) = (Vec::with_capacity(texts.len()), 0);
    while read < texts.len() {
        // Encodes in blocks, so that cancellation takes effect quickly.
        cancel::check();
        let before = |sum: &mut usize, text: &&str| Some(std::mem::replace(sum, *sum + text.len()));
        let part = texts[read..].iter().scan(0, before).take_while(|&before| before < ENCODE_BYTES).count();
        documents.extend(tokenizer.encode_all(&texts[read..read + part])?.into_iter().map(bounded));
        read += part;
    }
    Ok(documents)
}

/// The minimum number of bytes of documents that are tokenized as a block.
const ENCODE_BYTES: usize = 1 << 18;

/// A language model with its data, as the training loop runs it.
struct LanguageModelTask<'a> {
    plan: &'a LanguageModelPlan,
    model: &'a LanguageModel,
    train: Vec<Vec<u32>>,
    valid: Vec<Vec<u32>>,
    /// The SHA-256 of the vocabulary.
    vocabulary: &'a str,
    /// The folder of the base model, in continued training.
    base: Option<(&'a Path, ModelIdentity)>,
    /// The memory use of the process before the run, in bytes.
    initial_memory: usize,
    windows: EpochWindows,
}

/// The numbers of predicted tokens of documents. The last token is only a target, and the targets are the same tokens,
/// shifted by one position.
fn target_counts(documents: &[Vec<u32>]) -> impl Iterator<Item = usize> {
    documents.iter().map(|ids| ids.len().saturating_sub(1))
}

/// Returns the tokens of windows, the target tokens, and the lengths of the windows.
fn read_windows(documents: &[Vec<u32>], windows: &[&TokenWindow]) -> ([Vec<u32>; 2], Offsets) {
    let part = |shift: usize| {
        let each = windows.iter().flat_map(move |window| {
            documents[window.document][window.tokens.start + shift..window.tokens.end + shift].iter().copied()
        });
        each.collect()
    };
    ([part(0), part(1)], Offsets::from_lengths(windows.iter().map(|window| window.tokens.len())))
}

/// Returns the sum of −ln p over all tokens of documents, in consecutive windows, and the number of tokens.
fn total_loss(model: &LanguageModel, params: &Params<f32>, documents: &[Vec<u32>]) -> Result<(f64, usize)> {
    let all = windows(target_counts(documents), model.config().max_length, |_| usize::MAX);
    let lengths: Vec<usize> = all.iter().map(|window| window.tokens.len()).collect();
    let of_batch = |rows: &[usize]| {
        let part: Vec<&TokenWindow> = rows.iter().map(|&row| &all[row]).collect();
        let ([ids, next], offsets) = read_windows(documents, &part);
        Ok(model.loss(params, [&ids, &next], &offsets, Mode::Eval, None)? * ids.len() as f64)
    };
    let totals = map_batches(&batches_by_length(&lengths, 2048), of_batch)?;
    Ok((totals.iter().sum(), lengths.iter().sum()))
}

impl LanguageModelTask<'_> {
    /// Reports tokens and model.
    fn describe(&self, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        let count = |documents: &[Vec<u32>]| format_thousands(documents.iter().map(Vec::len).sum());
        let kind = self.plan.tokens.noun_in(lang());
        let mut say = |what, text| observe(TrainEvent::Message(what, text));
        say(
            topic_label("tokens"),
            tr!(
                "{kind}: {} to train on, {} to validate; vocabulary {}",
                "{kind}: 学習 {}、検証 {}、語彙 {}",
                count(&self.train),
                count(&self.valid),
                format_thousands(model.vocab_size)
            ),
        );
        say(
            topic_label("model"),
            tr!(
                "{} layers, width {}, {} heads, context {} tokens: {} parameters",
                "{} 層、幅 {}、ヘッド {}、文脈 {} トークン、パラメータ {}",
                encoder.num_layers,
                encoder.d_model,
                encoder.num_heads,
                model.max_length,
                format_thousands(self.model.layout().len())
            ),
        );
    }

    fn data_sha256(&self) -> String {
        sha256_of_rows(self.train.iter().chain(&self.valid))
    }
}

impl Trainable for LanguageModelTask<'_> {
    fn layout(&self) -> &Arc<ParamLayout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        let Some((folder, identity)) = &self.base else {
            return Ok((Params::init(self.layout(), seed), String::new()));
        };
        // Reads the weights again instead of holding them. The state of a run needs several times as much memory.
        let params = with_snapshot(folder, |folder| match folder.identity() == identity {
            true => Ok(TextGenerator::from_snapshot(folder)?.params),
            false => Err(base_replaced_error(folder)),
        })?;
        let sha256 = sha256_of_numbers(params.values());
        let freeze = self.plan.freeze.unwrap_or(Freeze::Nothing);
        Ok((freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &TrainSettings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data_sha256(), plan, self.vocabulary.to_owned()]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = self.windows.of_epoch(seed, epoch).iter().map(|window| window.tokens.len()).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let windows = self.windows.of_epoch(at.seed, at.epoch);
        let part: Vec<&TokenWindow> = rows.iter().map(|&row| &windows[row]).collect();
        let ([ids, next], offsets) = read_windows(&self.train, &part);
        let loss = self.model.loss(params, [&ids, &next], &offsets, at.mode(), Some(grads))?;
        Ok(StepOutput::new(loss, ids.len() as f64, ids.len()))
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation documents, the training documents are evaluated.
        let is_held_out = !self.valid.is_empty();
        let (total, count) = total_loss(self.model, params, if is_held_out { &self.valid } else { &self.train })?;
        Ok(Evaluation::from_token_loss(total / count.max(1) as f64, is_held_out))
    }

    fn evaluation_share(&self) -> f64 {
        let tokens = |documents: &[Vec<u32>]| documents.iter().map(Vec::len).sum();
        evaluation_share(tokens(&self.train), tokens(&self.valid))
    }

    fn memory_estimate(&self) -> MemoryEstimate {
        MemoryEstimate {
            base: self.initial_memory,
            resident: bytes_of(&self.train) + bytes_of(&self.valid),
            temporary: 0,
        }
    }

    fn activations(&self) -> usize {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        activations(encoder, 2 * encoder.num_layers, self.plan.settings.batch_tokens, model.vocab_size)
    }
}
