//! Training a translator or an autoencoder: tokens of both sides, plan, run and report.

use crate::data::{PairSplit, SentencePairs};
use crate::lang::lang;
use crate::lang::wording::{format_count, format_thousands};
use crate::parallel_batches::{batches_by_length, map_batches};
use crate::train::reports::text_cards::{self, RunFacts};
use crate::train::reports::text_scores::TranslationScores;
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::run_identity::{plan_json, sha256_of_rows};
use crate::train::run_folder::training::{RunContext, Training, held_out_part, write_folder};
use crate::train::training_loop::batches::batches;
use crate::train::training_loop::memory::{MemoryEstimate, ProcessUsage, activations, bytes_of, evaluation_share};
use crate::train::training_loop::micro_batches::{StepOutput, default_micro_batches};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::train_state::BestEvaluation;
use crate::train::training_loop::trainable::{Evaluation, StepContext, Trainable};
use crate::train::training_loop::weights_observer::ObservedNetwork;

use crate::models::{TranslationBatch, Translator, TranslatorConfig, TranslatorOptions};
use crate::nn::{EncoderConfig, Mode, PositionKind};
use crate::params::{ParamLayout, Params};
use crate::text::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig, unspaced_fraction};
use crate::text_models::autoencoder::TextAutoencoder;
use crate::text_models::optimizer_defaults;
use crate::text_models::translator::{TextTranslator, TextTranslatorConfig, Tokenizers, TranslateOptions};
use crate::{Error, ModelKind, Result, tr};
use chumoku_kernels::Precision;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Everything that decides the training of a translator, besides the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct TranslatorPlan {
    /// The model.
    pub model: TranslatorConfig,
    /// The training settings.
    #[serde(flatten)]
    pub settings: TrainSettings,
}

/// The result of training a translator.
#[derive(Debug)]
#[non_exhaustive]
pub struct TranslatorOutcome {
    /// The saved model.
    pub model: TextTranslator,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test rows, or on the validation rows if there are none.
    pub test: TranslationScores,
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// The result of training an autoencoder.
#[derive(Debug)]
#[non_exhaustive]
pub struct AutoencoderOutcome {
    /// The saved model.
    pub model: TextAutoencoder,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test rows, or on the validation rows if there are none.
    pub test: TranslationScores,
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// Pairs with this many tokens or more on a side are excluded from training.
const MAX_SIDE_TOKENS: usize = 256;

/// The number of tokens of both sides from which the model is larger. Characters count a quarter.
const LARGE_DATA_TOKENS: usize = 600_000;

/// The largest number of epochs. Small data needs many: an epoch of 400 short pairs has only a few steps.
const MAX_EPOCHS: usize = 100;

impl TranslatorPlan {
    /// Chooses the plan, given the number and kind of tokens on both sides, the longest side, and the vocabularies.
    pub(crate) fn new(
        tokens: usize,
        unit: TokenizationUnit,
        longest: usize,
        [source, target]: [usize; 2],
        joint_vocabulary: bool,
    ) -> TranslatorPlan {
        let is_large =
            tokens > if unit == TokenizationUnit::Characters { 4 * LARGE_DATA_TOKENS } else { LARGE_DATA_TOKENS };
        let [layers, decoder_layers, width] =
            if is_large { [3, 3, optimizer_defaults::LARGE_TRANSLATOR] } else { [2, 1, 128] };
        let step = optimizer_defaults::translator(width);
        // An upper limit, so that training goes on until the validation loss stops falling. Characters of dates and names
        // are learned from fewer tokens than sentences.
        let budget = match (is_large, unit) {
            (true, _) => 27_000_000,
            (false, TokenizationUnit::Characters) => 2_500_000,
            (false, _) => 10_000_000,
        };
        let epochs = (budget / tokens.max(1)).clamp(3, MAX_EPOCHS) as u64;
        let batch_tokens = if is_large { 4096 } else { 1024 };
        let steps = epochs as f64 * (tokens as f64 / batch_tokens as f64).max(1.0);
        // A text read only a few times is not memorized.
        let dropout = if epochs <= 4 { 0.0 } else { 0.1 };
        let model = TranslatorConfig {
            source_vocab_size: source,
            target_vocab_size: target,
            joint_vocabulary,
            encoder: EncoderConfig {
                dropout: if is_large { 2.0 * dropout } else { dropout },
                attention_dropout: dropout,
                ..EncoderConfig::new(layers, width, 4, 4 * width)
            },
            num_decoder_layers: decoder_layers,
            position: PositionKind::Rotary,
            // Twice the longest side, so that somewhat longer texts can still be translated.
            max_length: (2 * (longest + 1)).clamp(64, 2 * MAX_SIDE_TOKENS),
            embedding_dropout: if is_large { 2.0 * dropout } else { dropout },
            options: TranslatorOptions {
                // A string may repeat a character. Cross-attention tells such characters apart by their positions.
                absolute_positions: unit == TokenizationUnit::Characters,
                ..TranslatorOptions::default()
            },
        };
        let settings = TrainSettings {
            epochs,
            patience: (epochs / 4).max(3),
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: step.learning_rate,
            embedding_learning_rate_factor: 1.0,
            head_learning_rate_factor: 1.0,
            warmup_share: 0.1,
            weight_decay: step.weight_decay,
            beta2: step.beta2,
            clip_norm: 1.0,
            // Words have synonyms; the characters of a date do not.
            label_smoothing: if unit == TokenizationUnit::Characters { 0.0 } else { 0.1 },
            // The average covers the last few percent of the run.
            average_decay: (1.0 - 15.0 / steps).clamp(0.9, 0.999),
            precision: Precision::default(),
        };
        TranslatorPlan { model, settings }
    }

    /// Turns the plan into one of an autoencoder. The bottleneck regularizes, and dropout would make codes inexact.
    fn narrow_to(&mut self, bottleneck: usize) {
        let model = &mut self.model;
        // The only vector of the memory has no position.
        model.options = TranslatorOptions { bottleneck: Some(bottleneck), ..TranslatorOptions::default() };
        (model.encoder.dropout, model.encoder.attention_dropout, model.embedding_dropout) = (0.0, 0.0, 0.0);
        self.settings.label_smoothing = 0.0;
    }
}

/// Trains a translator and writes the model folder `out`. `names` are the names of source and target.
///
/// The bytes of `model.safetensors` depend only on the data, the options, the instruction set and the build. The number
/// of threads does not change them, nor does interrupting and resuming.
///
/// # Errors
/// If the requested tokens are words, the folder cannot be written, a checkpoint does not fit, or the loss is no longer
/// finite.
pub fn train_translator(data: &PairSplit, names: [String; 2], training: Training<'_>) -> Result<TranslatorOutcome> {
    train_network(data, names, None, training)
}

/// Trains an autoencoder on pairs of equal texts, and writes the model folder. All that its decoder sees of a text are
/// `bottleneck` numbers. `name` is the name of the texts.
///
/// # Errors
/// As for [`train_translator`].
pub fn train_autoencoder(
    data: &PairSplit,
    name: String,
    bottleneck: usize,
    training: Training<'_>,
) -> Result<AutoencoderOutcome> {
    let TranslatorOutcome { model, metrics, test, best, interrupted } =
        train_network(data, [name.clone(), name], Some(bottleneck), training)?;
    Ok(AutoencoderOutcome { model: TextAutoencoder(model), metrics, test, best, interrupted })
}

/// Trains a translator or, with a bottleneck, an autoencoder.
fn train_network(
    data: &PairSplit,
    names: [String; 2],
    bottleneck: Option<usize>,
    mut training: Training<'_>,
) -> Result<TranslatorOutcome> {
    let (kind, name) = match bottleneck {
        None => (ModelKind::Translator, "translate"),
        Some(_) => (ModelKind::Autoencoder, "autoencode"),
    };
    let (context, observe) = training.begin(kind)?;
    let RunContext { options, out, .. } = context;
    let base = ProcessUsage::measure().current;
    if options.tokens == Some(TokenizationUnit::Words) {
        return Err(Error::Setting(tr!(
            "tokens: expected subwords or characters, found words, which only classifiers and language models support",
            "トークン: 単語をトークンにできるのは分類器と言語モデルだけです。サブワードか文字を指定してください"
        )));
    }
    let (tokenizers, unit) = train_tokenizers(&data.train, options.tokens)?;
    let (train, valid) = (encode_pairs(&tokenizers, &data.train)?, encode_pairs(&tokenizers, &data.valid)?);
    let [left_out, valid_left_out] = [data.train.len() - train.len(), data.valid.len() - valid.len()];
    let vocabularies = [tokenizers.source(), &tokenizers.target].map(TextTokenizer::vocab_size);
    let is_joint = tokenizers.source.is_none();
    let total = train.iter().map(|pair| pair[0].len() + pair[1].len()).sum();
    let longest = train.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let mut plan = TranslatorPlan::new(total, unit, longest, vocabularies, is_joint);
    if let Some(width) = bottleneck {
        plan.narrow_to(width);
    }
    options.apply_to(&mut plan.settings);
    let model = Translator::new(plan.model.clone())?;
    let hashes = [tokenizers.source(), &tokenizers.target].map(TextTokenizer::vocabulary_sha256);
    let task = TranslatorTask {
        plan: &plan,
        unit,
        model: &model,
        boundary: tokenizers.target.cls_id(),
        train,
        valid,
        hashes,
        base,
    };
    task.describe(left_out + valid_left_out, observe);
    let (source, target) = (tokenizers.source(), &tokenizers.target);
    let watch = options.observer_of(ObservedNetwork::Translator { model: &model, source, target })?;
    let ended = run_in_folder(&task, context, watch, observe)?;

    let config = TextTranslatorConfig {
        model_type: kind.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        names,
        precision: plan.settings.precision,
        vocabulary_sha256: task.hashes.clone(),
        model: plan.model.clone(),
    };
    let data_sha256 = task.data_sha256();
    drop(task);
    let translator = TextTranslator { config, model, params: ended.params(), tokenizers, writing: None };
    let (pairs, scored_on) = held_out_part([&data.train, &data.valid, &data.test], SentencePairs::is_empty);
    let test = TranslationScores::measure(&translator, pairs, &TranslateOptions::default())?;
    let state = &ended.state;
    let metrics = json!({
        "task": name,
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "interrupted": ended.interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "left_out": left_out + valid_left_out,
        "data_sha256": data_sha256,
        "files": options.source.as_slice(),
        "parameters": translator.num_parameters(),
        "steps": state.step,
        "epochs": state.epoch,
        "best_epoch": state.best.map(|best| best.epoch),
        "valid": state.best.map(|best| json!({ "loss": best.loss })),
        "scored_on": scored_on,
        "scores": test,
        "plan": plan_json(&plan),
        "notes": data.notes,
    });
    let (best, interrupted) = (state.best, ended.interrupted);
    let of = RunFacts { state, interrupted, seed: options.seed, scored_on, data_sha256: &data_sha256, tokens: unit };
    let card = match bottleneck {
        None => text_cards::translator(&translator, data, &test, &of),
        Some(width) => text_cards::autoencoder(&translator, width, data, &test, &of),
    };
    write_folder(out, translator.files()?, &metrics, card)?;
    Ok(TranslatorOutcome { model: translator, metrics, test, best, interrupted })
}

/// The maximum length, in characters, of texts translated character by character: dates, names, numbers, spellings.
const MAX_CHARACTER_LENGTH: usize = 32;

/// Trains one tokenizer for both sides if their scripts are similar, otherwise one for each. `unit` is the requested
/// kind of tokens.
fn train_tokenizers(pairs: &SentencePairs, unit: Option<TokenizationUnit>) -> Result<(Tokenizers, TokenizationUnit)> {
    let sides = [&pairs.sources, &pairs.targets].map(|side| side.iter().map(String::as_str).collect::<Vec<_>>());
    let are_short = sides.iter().all(|side| {
        let mut lengths: Vec<usize> = side.iter().map(|text| text.chars().count()).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() * 9 / 10).is_some_and(|&length| length <= MAX_CHARACTER_LENGTH)
    });
    let unit = unit.unwrap_or(if are_short { TokenizationUnit::Characters } else { TokenizationUnit::Subwords });
    let train = |texts: &[&str], form| {
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let per_token = if unspaced_fraction(texts.iter().copied()) > 0.3 { 60 } else { 100 };
        let vocab_size = (characters / per_token).clamp(1_000, 8_000);
        TextTokenizer::train(texts, &TokenizerConfig { vocab_size, min_frequency: 2, form, unit })
    };
    let shares = sides.each_ref().map(|side| unspaced_fraction(side.iter().copied()));
    if (shares[0] - shares[1]).abs() < 0.2 {
        return Ok((
            Tokenizers { source: None, target: train(&sides.concat(), NormalizationForm::CollapsedSpaces)? },
            unit,
        ));
    }
    // Only the source may be normalized by width: it is never written.
    let [source, target] =
        [train(&sides[0], NormalizationForm::Nfkc)?, train(&sides[1], NormalizationForm::CollapsedSpaces)?];
    Ok((Tokenizers { source: Some(source), target }, unit))
}

/// Source (with its end token) and target of a pair as tokens.
type TokenPair = [Vec<u32>; 2];

/// Tokenizes pairs. Pairs with a side that is too long are left out.
fn encode_pairs(tokenizers: &Tokenizers, pairs: &SentencePairs) -> Result<Vec<TokenPair>> {
    let sources: Vec<&str> = pairs.sources.iter().map(String::as_str).collect();
    let targets: Vec<&str> = pairs.targets.iter().map(String::as_str).collect();
    let (source, target) = (tokenizers.source(), &tokenizers.target);
    let both = source.encode_all(&sources)?.into_iter().zip(target.encode_all(&targets)?);
    let fits =
        |(source, target): &(Vec<u32>, Vec<u32>)| source.len() < MAX_SIDE_TOKENS && target.len() < MAX_SIDE_TOKENS;
    let ended = |(mut ids, target): (Vec<u32>, Vec<u32>)| {
        ids.push(source.cls_id());
        [ids, target]
    };
    Ok(both.filter(fits).map(ended).collect())
}

/// A translator with its data, as the training loop runs it.
struct TranslatorTask<'a> {
    plan: &'a TranslatorPlan,
    unit: TokenizationUnit,
    model: &'a Translator,
    boundary: u32,
    train: Vec<TokenPair>,
    valid: Vec<TokenPair>,
    /// The SHA-256 of each vocabulary.
    hashes: [String; 2],
    /// The memory use of the process before the run, in bytes.
    base: usize,
}

impl TranslatorTask<'_> {
    /// Reports tokens, model and excluded pairs.
    fn describe(&self, left_out: usize, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        let sums = [0, 1].map(|side| format_thousands(self.train.iter().map(|pair| pair[side].len()).sum()));
        let vocabularies = match model.joint_vocabulary {
            true => tr!("one vocabulary of {}", "共通の語彙 {}", format_thousands(model.target_vocab_size)),
            false => {
                let [source, target] = [model.source_vocab_size, model.target_vocab_size].map(format_thousands);
                tr!(
                    "vocabularies of {source} and {target}: the sides are written in different scripts",
                    "語彙 {source} と {target}（両側の文字の種類が異なるため別々）"
                )
            }
        };
        let through = model
            .options
            .bottleneck
            .map_or_else(String::new, |width| tr!(", a bottleneck of {width}", "、ボトルネックの幅 {width}"));
        let mut say = |what, text| observe(TrainEvent::Message(what, text));
        let [source, target] = sums;
        say(
            topic_label("tokens"),
            tr!(
                "{}: {source} in the sources, {target} in the targets; {vocabularies}",
                "{}: 原文に {source}、訳文に {target}。{vocabularies}",
                self.unit.noun_in(lang())
            ),
        );
        say(
            topic_label("model"),
            tr!(
                "{} + {} layers, width {}, {} heads{through}: {} parameters",
                "{} + {} 層、幅 {}、ヘッド {}{through}、パラメータ {}",
                encoder.num_layers,
                model.num_decoder_layers,
                encoder.d_model,
                encoder.num_heads,
                format_thousands(self.model.layout().len())
            ),
        );
        if left_out > 0 {
            let pairs = format_count(left_out as u64, "pair");
            let text = tr!(
                "{pairs} with a side of {MAX_SIDE_TOKENS} tokens or more left out of training",
                "片側が {MAX_SIDE_TOKENS} トークン以上の {left_out} 組を学習から除きました"
            );
            say(topic_label("long"), text);
        }
    }

    fn batch(&self, pairs: &[TokenPair], rows: &[usize]) -> TranslationBatch {
        let mut batch = TranslationBatch::default();
        rows.iter().for_each(|&row| batch.push(&pairs[row][0], &pairs[row][1], self.boundary));
        batch
    }

    fn data_sha256(&self) -> String {
        sha256_of_rows(self.train.iter().chain(&self.valid).flatten())
    }
}

/// Returns the tokens of each pair: both sides and the end of the target.
fn lengths(pairs: &[TokenPair]) -> Vec<usize> {
    pairs.iter().map(|[source, target]| source.len() + target.len() + 1).collect()
}

impl Trainable for TranslatorTask<'_> {
    fn layout(&self) -> &Arc<ParamLayout> {
        self.model.layout()
    }

    fn settings(&self) -> &TrainSettings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data_sha256(), plan, format!("{:?}", self.hashes)]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        batches(&lengths(&self.train), self.plan.settings.batch_tokens, seed, epoch)
    }

    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let batch = self.batch(&self.train, rows);
        let smoothing = self.plan.settings.label_smoothing;
        let loss = self.model.loss(params, &batch, smoothing, at.mode(), Some(grads))?;
        let targets = batch.output.len();
        Ok(StepOutput::new(loss, targets as f64, batch.source.len() + targets))
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation pairs, the training pairs are evaluated.
        let is_held_out = !self.valid.is_empty();
        let pairs = if is_held_out { &self.valid } else { &self.train };
        let of_batch = |rows: &[usize]| {
            let batch = self.batch(pairs, rows);
            let tokens = batch.output.len() as f64;
            Ok([self.model.loss(params, &batch, 0.0, Mode::Eval, None)? * tokens, tokens])
        };
        let batches = batches_by_length(&lengths(pairs), self.plan.settings.batch_tokens);
        let sums = map_batches(&batches, of_batch)?;
        let [sum, tokens] = [0, 1].map(|i| sums.iter().map(|sums| sums[i]).sum::<f64>());
        Ok(Evaluation::from_token_loss(sum / tokens.max(1.0), is_held_out))
    }

    fn evaluation_share(&self) -> f64 {
        let tokens = |pairs: &[TokenPair]| lengths(pairs).iter().sum();
        evaluation_share(tokens(&self.train), tokens(&self.valid))
    }

    fn memory_estimate(&self) -> MemoryEstimate {
        let kept = self.train.iter().chain(&self.valid).map(|pair| bytes_of(pair)).sum();
        MemoryEstimate { base: self.base, resident: kept, temporary: 0 }
    }

    fn activations(&self) -> usize {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        let half_layers = encoder.num_layers + 2 * model.num_decoder_layers;
        activations(encoder, half_layers, self.plan.settings.batch_tokens, model.target_vocab_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_leave_time_until_validation_stops_falling_and_end_for_large_data() {
        let epochs = |tokens, unit| {
            let settings = TranslatorPlan::new(tokens, unit, 40, [8_000, 8_000], true).settings;
            assert!(settings.patience < settings.epochs || settings.epochs == 3, "{settings:?}");
            settings.epochs
        };
        let subwords = [4_000, 300_000, 900_000, 50_000_000].map(|tokens| epochs(tokens, TokenizationUnit::Subwords));
        // 29,000 pairs of sentences have about 900,000 tokens. Their validation loss falls for more than eleven epochs.
        assert_eq!(subwords, [100, 33, 30, 3]);
        assert_eq!([40_000, 1_000_000].map(|tokens| epochs(tokens, TokenizationUnit::Characters)), [62, 3]);
    }
}
