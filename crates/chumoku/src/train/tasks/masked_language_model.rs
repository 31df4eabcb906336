//! Pretraining an encoder on unlabeled text by masked language modeling: tokenized documents, plan, run and report.

use super::token_windows::{EpochWindows, TokenWindow, windows};
use crate::data::DocumentSplit;
use crate::lang::lang;
use crate::lang::wording::format_thousands;
use crate::models::{MaskedLanguageModel, TextEncoderConfig};
use crate::nn::{Offsets, Tokens};
use crate::parallel_batches::{batches_by_length, map_batches};
use crate::params::{ParamLayout, Params};
use crate::pretrained::{MASK, PAD, masked_model_files};
use crate::scoring::argmax;
use crate::text::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig};
use crate::train::reports::text_cards;
use crate::train::reports::text_scores::MaskedScores;
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::run_identity::{plan_json, sha256_of_rows};
use crate::train::run_folder::training::{RunContext, Training, held_out_part, write_folder};
use crate::train::training_loop::batches::batches;
use crate::train::training_loop::memory::{MemoryEstimate, ProcessUsage, activations, bytes_of, evaluation_share};
use crate::train::training_loop::micro_batches::{StepOutput, default_micro_batches};
use crate::train::training_loop::random_streams::{self, EVALUATION_EPOCH};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::train_state::BestEvaluation;
use crate::train::training_loop::trainable::{Evaluation, Metric, StepContext, Trainable};
use crate::{Error, ModelKind, Result, sorting, tr};
use chumoku_kernels::{Philox, Precision};
use chumoku_nn::pretrained::ModernBertConfig;
use chumoku_nn::probability::log_softmax;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Everything that decides the pretraining of an encoder, besides the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct MaskedPlan {
    /// The encoder.
    pub model: TextEncoderConfig,
    /// The training settings.
    #[serde(flatten)]
    pub settings: TrainSettings,
    /// The share of tokens to predict.
    pub(crate) hidden: f32,
}

/// The result of pretraining an encoder.
#[derive(Debug)]
#[non_exhaustive]
pub struct MaskedOutcome {
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test documents, or on the validation documents if there are none.
    pub test: MaskedScores,
    /// A few texts with a masked token, and the model's predictions for it.
    pub filled: Vec<FillExample>,
    /// The best evaluation.
    pub best: Option<BestEvaluation>,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// A text with a masked token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FillExample {
    /// The text before and after the token.
    pub around: [String; 2],
    /// The masked token.
    pub hidden: String,
    /// The most probable tokens, with their probabilities, in descending order.
    pub guesses: Vec<(String, f32)>,
}

/// The maximum number of tokens in a window.
const WINDOW_TOKENS: usize = 128;

/// The approximate number of tokens read in a run.
const TARGET_TOKENS: usize = 16_000_000;

impl MaskedPlan {
    /// Chooses the plan for `count` tokens of text, and the number of epochs if it is not given.
    fn new(count: usize, vocab_size: usize, epochs: Option<u64>) -> Result<MaskedPlan> {
        let epochs = epochs.unwrap_or((TARGET_TOKENS / count.max(1)).clamp(1, 100) as u64);
        // A text read only a few times is not memorized.
        let dropout = if epochs > 8 { 0.1 } else { 0.0 };
        let model = modern_bert(vocab_size, dropout).encoder()?.config;
        let batch_tokens = (count / 50).clamp(1024, 4096);
        let settings = TrainSettings {
            epochs,
            patience: epochs,
            batch_tokens,
            micro_batches: default_micro_batches(batch_tokens),
            learning_rate: 1e-3,
            embedding_learning_rate_factor: 1.0,
            head_learning_rate_factor: 1.0,
            warmup_share: 0.05,
            weight_decay: 0.01,
            beta2: 0.98,
            clip_norm: 1.0,
            label_smoothing: 0.0,
            average_decay: 0.998,
            precision: Precision::default(),
        };
        Ok(MaskedPlan { model, settings, hidden: 0.2 })
    }
}

/// The configuration of the encoder, in ModernBERT's format. With its rotary positions and norms, models learn faster
/// than with BERT's learned positions. Its classifiers pool the mean of all tokens. Windows are so short that every
/// layer attends to all tokens.
fn modern_bert(vocab_size: usize, dropout: f32) -> ModernBertConfig {
    let mut config = ModernBertConfig::default();
    (config.vocab_size, config.max_position_embeddings) = (vocab_size, WINDOW_TOKENS);
    (config.num_hidden_layers, config.num_attention_heads) = (4, 4);
    (config.hidden_size, config.intermediate_size) = (256, 512);
    (config.global_attn_every_n_layers, config.global_rope_theta) = (1, 10_000.0);
    (config.attention_dropout, config.embedding_dropout) = (dropout, dropout);
    (config.mlp_dropout, config.classifier_dropout) = (dropout, dropout);
    config.classifier_pooling = "mean".into();
    config
}

/// Pretrains an encoder on documents and writes its folder `out`, which [`train`](crate::train::train) can start from.
///
/// The bytes of `model.safetensors` depend only on the data, the options, the instruction set and the build. The number
/// of threads does not change them, nor does interrupting and resuming.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn pretrain(data: &DocumentSplit, mut training: Training<'_>) -> Result<MaskedOutcome> {
    let (context, observe) = training.begin(ModelKind::Encoder)?;
    let RunContext { options, out, .. } = context;
    let base = ProcessUsage::measure().current;
    let texts: Vec<&str> = data.train.iter().map(String::as_str).collect();
    let config = TokenizerConfig {
        vocab_size: TextTokenizer::suitable_vocab_size(&texts),
        min_frequency: 2,
        form: NormalizationForm::NfkcLowercase,
        unit: TokenizationUnit::Subwords,
    };
    let tokenizer = TextTokenizer::train(&texts, &config)?.with_special(&[MASK, PAD])?;
    let tokens = |texts: &[String]| tokenizer.encode_all(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let (train, valid) = (tokens(&data.train)?, tokens(&data.valid)?);
    let count = train.iter().map(Vec::len).sum();
    let mut plan = MaskedPlan::new(count, tokenizer.vocab_size(), options.epochs)?;
    options.apply_to(&mut plan.settings);
    let model = MaskedLanguageModel::new(plan.model.clone())?;
    let task = MaskingTask {
        plan: &plan,
        model: &model,
        tokenizer: &tokenizer,
        mask: tokenizer.id(MASK).unwrap_or(0),
        windows: training_windows(&plan, &tokenizer, &train),
        train,
        valid,
        base,
    };
    task.describe(observe);
    let ended = run_in_folder(&task, context, None, observe)?;
    let params = ended.params();
    let (documents, scored_on) = held_out_part([&data.train, &data.valid, &data.test], Vec::is_empty);
    let documents = tokens(documents)?;
    let test = task.score(&params, &documents)?;
    let filled = task.fill_examples(&params, &documents)?;
    let state = &ended.state;
    let data_sha256 = task.data_sha256();
    let metrics = json!({
        "task": "mlm",
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "interrupted": ended.interrupted,
        "documents": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "data_sha256": data_sha256,
        "parameters": params.values().len(),
        "steps": state.step,
        "epochs": state.epoch,
        "best_epoch": state.best.map(|best| best.epoch),
        "valid": state.best.map(|best| json!({ "loss": best.loss })),
        "scored_on": scored_on,
        "scores": test,
        "plan": plan_json(&plan),
    });
    let (best, interrupted) = (state.best, ended.interrupted);
    let of = text_cards::RunFacts {
        state,
        interrupted,
        seed: options.seed,
        scored_on,
        data_sha256: &data_sha256,
        tokens: TokenizationUnit::Subwords,
    };
    let card = text_cards::encoder(&plan.model, params.values().len(), data, &test, &of);
    // Fine-tuning reads few texts many times, so it needs more dropout.
    let mut settings = modern_bert(tokenizer.vocab_size(), 0.3);
    settings.attention_dropout = 0.1;
    let files = masked_model_files(&settings, &params, &tokenizer)?;
    write_folder(out, files, &metrics, card)?;
    Ok(MaskedOutcome { metrics, test, filled, best, interrupted })
}

/// A masked language model with its data, as the training loop runs it.
struct MaskingTask<'a> {
    plan: &'a MaskedPlan,
    model: &'a MaskedLanguageModel,
    tokenizer: &'a TextTokenizer,
    /// The id of the mask token.
    mask: u32,
    train: Vec<Vec<u32>>,
    valid: Vec<Vec<u32>>,
    /// The memory use of the process before the run, in bytes.
    base: usize,
    windows: EpochWindows,
}

fn max_text_tokens(plan: &MaskedPlan, tokenizer: &TextTokenizer) -> usize {
    plan.model.max_length - tokenizer.special_tokens().len()
}

/// The windows of the training documents, for tasks of this plan.
fn training_windows(plan: &MaskedPlan, tokenizer: &TextTokenizer, train: &[Vec<u32>]) -> EpochWindows {
    EpochWindows::new(train.iter().map(Vec::len), max_text_tokens(plan, tokenizer)).keep_short_documents()
}

/// Windows with masked tokens.
#[derive(Debug, Default)]
struct MaskedBatch {
    ids: Vec<u32>,
    lengths: Vec<usize>,
    /// The positions of masked tokens, and their original ids.
    positions: Vec<usize>,
    hidden: Vec<u32>,
}

impl MaskingTask<'_> {
    /// The maximum number of text tokens in a window, without special tokens.
    fn max_text_tokens(&self) -> usize {
        max_text_tokens(self.plan, self.tokenizer)
    }

    /// Adds a window to the batch and masks a share of its tokens, at least one. Of the selected tokens, 80 % become
    /// `[MASK]`, 10 % a random token, and 10 % stay unchanged (Devlin et al. 2019, section 3.1).
    fn mask_window(&self, batch: &mut MaskedBatch, ids: &[u32], random: &Philox, row: usize) {
        let frame = self.tokenizer.special_tokens();
        let draws: Vec<[u32; 4]> =
            (0..ids.len()).map(|place| random.block((row as u64) << 20 | place as u64)).collect();
        let least = draws.iter().map(|draw| draw[0]).min().unwrap_or(0);
        let threshold = (f64::from(self.plan.hidden) * f64::from(u32::MAX)) as u32;
        batch.ids.extend(&frame.prefix);
        for (&id, &[chance, kind, other, _]) in ids.iter().zip(&draws) {
            let is_hidden = chance < threshold || chance == least;
            if is_hidden {
                batch.positions.push(batch.ids.len());
                batch.hidden.push(id);
            }
            batch.ids.push(match kind {
                _ if !is_hidden => id,
                0..0x1999_999A => id,
                0x1999_999A..0x3333_3334 => other % self.plan.model.vocab_size as u32,
                _ => self.mask,
            });
        }
        batch.ids.extend(&frame.suffix);
        batch.lengths.push(ids.len() + frame.len());
    }

    /// Builds a batch from windows of documents, with masked tokens.
    fn mask_windows(
        &self,
        documents: &[Vec<u32>],
        windows: &[TokenWindow],
        rows: &[usize],
        random: &Philox,
    ) -> MaskedBatch {
        let mut batch = MaskedBatch::default();
        for &row in rows {
            let TokenWindow { document, tokens } = &windows[row];
            self.mask_window(&mut batch, &documents[*document][tokens.clone()], random, row);
        }
        batch
    }

    /// Scores the model's predictions for masked tokens of documents. The same tokens are masked in every call.
    fn score(&self, params: &Params<f32>, documents: &[Vec<u32>]) -> Result<MaskedScores> {
        let all = windows(documents.iter().map(Vec::len), self.max_text_tokens(), |_| usize::MAX);
        let lengths: Vec<usize> = all.iter().map(|window| window.tokens.len()).collect();
        let random = Philox::new(0, random_streams::MASKED_TOKENS + EVALUATION_EPOCH);
        let of_batch = |rows: &[usize]| {
            let batch = self.mask_windows(documents, &all, rows, &random);
            let offsets = Offsets::from_lengths(batch.lengths);
            let logits = self.model.logits(params, Tokens::new(&batch.ids, &offsets), &batch.positions)?;
            let (mut loss, mut right) = (0.0, 0);
            for (row, &id) in logits.rows().into_iter().zip(&batch.hidden) {
                let log_p = log_softmax(&row.to_vec());
                loss -= f64::from(log_p[id as usize]);
                right += usize::from(argmax(&log_p) == id);
            }
            Ok((loss, right, batch.hidden.len()))
        };
        let each = map_batches(&batches_by_length(&lengths, 2048), of_batch)?;
        let hidden: usize = each.iter().map(|(_, _, hidden)| hidden).sum();
        let per = |total: f64| total / hidden.max(1) as f64;
        Ok(MaskedScores {
            hidden,
            loss: per(each.iter().map(|(loss, _, _)| loss).sum()),
            accuracy: per(each.iter().map(|&(_, right, _)| right as f64).sum()),
        })
    }

    /// Masks a token in the middle of a few texts and returns the model's predictions for it.
    fn fill_examples(&self, params: &Params<f32>, documents: &[Vec<u32>]) -> Result<Vec<FillExample>> {
        const TEXTS: usize = 3;
        const LENGTH: usize = 24;
        const GUESSES: usize = 3;
        let long_enough = documents.iter().filter(|ids| ids.len() >= 8);
        let step = (long_enough.clone().count() / TEXTS).max(1);
        let frame = self.tokenizer.special_tokens();
        let of_text = |ids: &Vec<u32>| {
            let ids = &ids[..ids.len().min(LENGTH)];
            // Prefers a whole word to a part of one.
            let is_word = |place: &usize| self.tokenizer.token(ids[*place]).chars().count() > 4;
            let middle = ids.len() / 2;
            let place = (middle..ids.len() - 1).find(is_word).unwrap_or(middle);
            let mut masked = frame.wrap(ids);
            let at = frame.prefix.len() + place;
            masked[at] = self.mask;
            let offsets = Offsets::from_lengths([masked.len()]);
            let logits = self.model.logits(params, Tokens::new(&masked, &offsets), &[at])?;
            let log_p = log_softmax(&logits.row(0).to_vec());
            let order = sorting::argsort_descending(&log_p);
            let text = |ids: &[u32]| self.tokenizer.decode(ids);
            let guess = |&id: &usize| Ok::<_, Error>((text(&[id as u32])?, log_p[id].exp()));
            Ok(FillExample {
                around: [text(&ids[..place])?, text(&ids[place + 1..])?],
                hidden: text(&ids[place..=place])?,
                guesses: order.iter().take(GUESSES).map(guess).collect::<Result<_>>()?,
            })
        };
        long_enough.step_by(step).take(TEXTS).map(of_text).collect()
    }

    /// Reports tokens and model.
    fn describe(&self, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        let count = |documents: &[Vec<u32>]| format_thousands(documents.iter().map(Vec::len).sum());
        let mut say = |what, text| observe(TrainEvent::Message(what, text));
        say(
            topic_label("tokens"),
            tr!(
                "{} to train on, {} to validate; vocabulary {}",
                "学習 {}、検証 {}、語彙 {}",
                count(&self.train),
                count(&self.valid),
                format_thousands(model.vocab_size)
            ),
        );
        say(
            topic_label("model"),
            tr!(
                "modernbert, {} layers, width {}, {} heads, windows of {} tokens: {} parameters",
                "modernbert、{} 層、幅 {}、ヘッド {}、窓 {} トークン、パラメータ {}",
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

impl Trainable for MaskingTask<'_> {
    fn layout(&self) -> &Arc<ParamLayout> {
        self.model.layout()
    }

    fn settings(&self) -> &TrainSettings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data_sha256(), plan, self.tokenizer.vocabulary_sha256()]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let frame = self.tokenizer.special_tokens().len();
        let lengths: Vec<usize> =
            self.windows.of_epoch(seed, epoch).iter().map(|window| window.tokens.len() + frame).collect();
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
        let batch = self.mask_windows(
            &self.train,
            &windows,
            rows,
            &Philox::new(at.seed, random_streams::MASKED_TOKENS + at.epoch),
        );
        let offsets = Offsets::from_lengths(batch.lengths);
        let tokens = Tokens::new(&batch.ids, &offsets);
        let loss = self.model.loss(params, tokens, (&batch.positions, &batch.hidden), at.mode(), Some(grads))?;
        Ok(StepOutput::new(loss, batch.positions.len() as f64, batch.ids.len()))
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation documents, the training documents are evaluated.
        let is_held_out = !self.valid.is_empty();
        let MaskedScores { loss, accuracy, .. } =
            self.score(params, if is_held_out { &self.valid } else { &self.train })?;
        let metric = |key, japanese, value, is_share| Metric { name: lang().pick(key, japanese), key, value, is_share };
        let metrics = vec![metric("accuracy", "正解率", accuracy, true), metric("loss", "損失", loss, false)];
        Ok(Evaluation { score: -loss, loss, metrics, is_held_out })
    }

    fn evaluation_share(&self) -> f64 {
        let tokens = |documents: &[Vec<u32>]| documents.iter().map(Vec::len).sum();
        evaluation_share(tokens(&self.train), tokens(&self.valid))
    }

    fn memory_estimate(&self) -> MemoryEstimate {
        MemoryEstimate { base: self.base, resident: bytes_of(&self.train) + bytes_of(&self.valid), temporary: 0 }
    }

    fn activations(&self) -> usize {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        activations(encoder, 2 * encoder.num_layers, self.plan.settings.batch_tokens, model.vocab_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs checks on a masked-language-model task with a few texts.
    fn with_task(hidden: f32, check: impl FnOnce(&MaskingTask<'_>)) {
        let texts = ["the film was great, really great", "the food was not good", "この映画はとても良かったです。"];
        let unit = TokenizationUnit::Subwords;
        let config =
            TokenizerConfig { vocab_size: 400, min_frequency: 1, form: NormalizationForm::NfkcLowercase, unit };
        let tokenizer = TextTokenizer::train(&texts, &config).unwrap().with_special(&[MASK, PAD]).unwrap();
        let train = tokenizer.encode_all(&texts).unwrap();
        let mut plan = MaskedPlan::new(1000, tokenizer.vocab_size(), None).unwrap();
        plan.hidden = hidden;
        let model = MaskedLanguageModel::new(plan.model.clone()).unwrap();
        check(&MaskingTask {
            plan: &plan,
            model: &model,
            tokenizer: &tokenizer,
            mask: tokenizer.id(MASK).unwrap(),
            windows: training_windows(&plan, &tokenizer, &train),
            train,
            valid: Vec::new(),
            base: 0,
        });
    }

    #[test]
    fn the_share_and_kind_of_masked_tokens_are_as_specified() {
        with_task(0.2, |task| {
            let ids: Vec<u32> = (0..20_000).map(|i| 260 + i % 7).collect();
            let mut batch = MaskedBatch::default();
            task.mask_window(&mut batch, &ids, &Philox::new(3, random_streams::MASKED_TOKENS), 0);
            let count = batch.positions.len() as f64;
            assert!((count / 20_000.0 - 0.2).abs() < 0.01, "{count}");
            let became = |of: &dyn Fn(u32, u32) -> bool| {
                let found = batch.positions.iter().zip(&batch.hidden).filter(|&(&at, &id)| of(batch.ids[at], id));
                found.count() as f64 / count
            };
            assert!((became(&|now, _| now == task.mask) - 0.8).abs() < 0.02);
            assert!((became(&|now, id| now == id) - 0.1).abs() < 0.02);
            // Special tokens and unmasked tokens stay.
            assert_eq!(batch.ids[0], task.tokenizer.cls_id());
            let hidden: std::collections::HashSet<usize> = batch.positions.iter().copied().collect();
            let kept = (0..ids.len()).filter(|place| !hidden.contains(&(place + 1)));
            assert!(kept.clone().count() > 0 && kept.into_iter().all(|place| batch.ids[place + 1] == ids[place]));
            assert!(batch.positions.iter().zip(&batch.hidden).all(|(&at, &id)| ids[at - 1] == id));
        });
    }

    #[test]
    fn at_least_one_token_of_every_text_is_masked() {
        with_task(0.0, |task| {
            let mut batch = MaskedBatch::default();
            for row in 0..3 {
                task.mask_window(&mut batch, &task.train[row], &Philox::new(3, random_streams::MASKED_TOKENS), row);
            }
            assert_eq!(batch.positions.len(), 3);
        });
    }
}
