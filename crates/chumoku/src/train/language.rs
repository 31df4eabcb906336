//! Training a language model: documents as tokens, the plan, the run, and at the end the report.

use super::known::replaced;
use super::memory::{Footing, Held, activations, bytes_of, evaluation_share};
use super::names::label;
use super::parts::{Learnt, parts_for};
use super::run::{plan_json, run, sha256_of, sha256_of_numbers};
use super::state::Best;
use super::text_cards::{self, Facts};
use super::trainable::{Evaluation, Place, Trainable};
use super::training::{Training, held_out, write_folder};
use super::watch;
use super::{Event, Freeze, LanguageScores, Settings, TrainOptions, batches};
use crate::data::DocumentParts;
use crate::inference::{by_length, side_by_side};
use crate::lang::lang;
use crate::lang::wording::thousands;

use crate::model_folder::{Identity, Snapshot, read_snapshot};
use crate::models::{LanguageModel, LanguageModelConfig};
use crate::nn::{AttentionOptions, EncoderConfig, InputOptions, LayerOptions, Mode, NormOrder, Offsets, PositionKind};
use crate::params::{Layout, Params};
use crate::pretrained::DecoderOrigin;
use crate::text::{TextForm, TextTokenizer, TokenizerConfig, Unit};
use crate::text_generator::{Bounds, TextGenerator, TextGeneratorConfig};
use crate::{Error, ModelKind, Result, tr, usual_step};
use chumoku_kernels::{Philox, Precision, halt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Everything that decides the training of a language model beside the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LanguageModelPlan {
    /// The model.
    pub model: LanguageModelConfig,
    /// How it is trained.
    #[serde(flatten)]
    pub settings: Settings,
    /// What its tokens are.
    pub tokens: Unit,
    /// Tokens that are learnt from at a time.
    pub window: usize,
    /// What stays as it was, where a trained model is trained further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Freeze>,
}

/// How the training of a language model ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct LanguageModelOutcome {
    /// The model, as it was saved.
    pub model: TextGenerator,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test documents (on the validation documents, where there are none).
    pub test: LanguageScores,
    /// The same of the model that training started from, if it did from one.
    pub before: Option<LanguageScores>,
    /// The best evaluation.
    pub best: Option<Best>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl LanguageScores {
    /// Reads documents, each in windows of the model's context that lie side by side.
    ///
    /// # Errors
    /// If a text cannot be read as tokens, or weights are so large that the loss is not a number.
    pub fn measure(model: &TextGenerator, texts: &[String]) -> Result<LanguageScores> {
        let documents = documents(&model.tokenizer, model.bounds.end, texts)?;
        let (total, tokens) = total_loss(&model.model, &model.params, &documents)?;
        if !total.is_finite() {
            return Err(Error::NotFinite(tr!(
                "the loss is not a number: the model's weights are too large to use",
                "損失が数値になりません。モデルの重みが大きすぎて使えません"
            )));
        }
        let unknown = model.tokenizer.unknown();
        let unknown = documents.iter().flatten().filter(|&&id| Some(id) == unknown).count();
        Ok(LanguageScores { unknown, ..LanguageScores::of(total, tokens, texts) })
    }
}

/// Characters up to which a text is read character by character.
const SMALL: usize = 2_000_000;

impl LanguageModelPlan {
    /// The plan for so many tokens, of so many different ones.
    pub fn new(tokens: Unit, count: usize, vocab_size: usize) -> LanguageModelPlan {
        let (width, context) = if tokens == Unit::Characters { (128, 64) } else { (256, 128) };
        let model = LanguageModelConfig {
            vocab_size,
            encoder: EncoderConfig {
                num_layers: 4,
                d_model: width,
                num_heads: 4,
                d_ff: 4 * width,
                activation: "gelu".into(),
                norm_order: NormOrder::Pre,
                dropout: 0.0,
                attention_dropout: 0.0,
                causal: true,
                attention: AttentionOptions::default(),
                options: LayerOptions::default(),
            },
            position: PositionKind::Learned,
            max_length: context,
            embedding_dropout: 0.0,
            input: InputOptions::default(),
            untied_output: false,
        };
        // Some millions of tokens: minutes on two cores.
        let epochs = (6_000_000 / count.max(1)).clamp(1, 60) as u64;
        let batch_tokens = (count / 200).clamp(context.max(256), 2048);
        let settings = Settings {
            epochs,
            patience: (epochs / 3).max(3),
            batch_tokens,
            parts: parts_for(batch_tokens),
            learning_rate: usual_step::LANGUAGE_MODEL.learning_rate,
            embedding_rate: 1.0,
            head_rate: 1.0,
            warmup_share: 0.05,
            weight_decay: usual_step::LANGUAGE_MODEL.weight_decay,
            beta2: usual_step::LANGUAGE_MODEL.beta2,
            clip_norm: 1.0,
            label_smoothing: 0.0,
            average_decay: 0.998,
            precision: Precision::default(),
        };
        LanguageModelPlan { model, settings, tokens, window: context, freeze: None }
    }

    /// The plan for training a model further on so many tokens: gently, and once to three times.
    pub fn further(model: LanguageModelConfig, tokens: Unit, count: usize) -> LanguageModelPlan {
        /// As many tokens of context as batches of a text's length have; more see further and take longer.
        const WINDOW: usize = 512;
        let encoder = &model.encoder;
        let step = usual_step::fine_tuning(encoder);
        let epochs = (2_000_000 / count.max(1)).clamp(1, 3) as u64;
        let window = model.max_length.min(WINDOW);
        let mut plan = LanguageModelPlan::new(tokens, count, model.vocab_size);
        let batch_tokens = (count / 50).clamp(window, 2048.max(window));
        plan.settings = Settings {
            epochs,
            patience: epochs,
            batch_tokens,
            parts: parts_for(batch_tokens),
            learning_rate: step.learning_rate,
            weight_decay: step.weight_decay,
            beta2: step.beta2,
            average_decay: 0.99,
            ..plan.settings
        };
        LanguageModelPlan { model, window, freeze: Some(Freeze::Nothing), ..plan }
    }
}

/// What a run trains: its tokens, its plan, and the model that it starts from, if any.
struct Ground {
    tokenizer: TextTokenizer,
    bounds: Bounds,
    plan: LanguageModelPlan,
    train: Vec<Vec<u32>>,
    /// What its folder is called and holds, its parameters aside.
    from: Option<(TextGeneratorConfig, Option<DecoderOrigin>, Identity)>,
    /// What it scores before it is trained further.
    before: Option<LanguageScores>,
}

impl Ground {
    /// A model and tokens of the data's own.
    fn from_scratch(data: &DocumentParts, options: &TrainOptions) -> Result<Ground> {
        let texts: Vec<&str> = data.train.iter().map(String::as_str).collect();
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let tokens = options.tokens.unwrap_or(if characters <= SMALL { Unit::Characters } else { Unit::Subwords });
        let config = match tokens {
            Unit::Characters => {
                TokenizerConfig { vocab_size: 16_000, min_frequency: 1, form: TextForm::Exact, unit: tokens }
            }
            _ => TokenizerConfig {
                vocab_size: TextTokenizer::suitable_vocab_size(&texts),
                min_frequency: 2,
                form: TextForm::Exact,
                unit: tokens,
            },
        };
        let tokenizer = TextTokenizer::train(&texts, &config)?;
        let bounds = Bounds::of(&tokenizer);
        let train = documents(&tokenizer, bounds.end, &data.train)?;
        let count = train.iter().map(Vec::len).sum();
        let plan = LanguageModelPlan::new(tokens, count, tokenizer.vocab_size());
        Ok(Ground { tokenizer, bounds, plan, train, from: None, before: None })
    }

    /// The model of a folder, and its tokens.
    fn of_folder(folder: &Path, data: &DocumentParts, options: &TrainOptions) -> Result<Ground> {
        let read = |folder: &Snapshot| Ok((TextGenerator::of_snapshot(folder)?, folder.identity().clone()));
        let (mut found, identity) = read_snapshot(folder, read)?;
        found.bounds = found.bounds.with_end();
        found.set_precision(options.precision);
        let train = documents(&found.tokenizer, found.bounds.end, &data.train)?;
        let count = train.iter().map(Vec::len).sum();
        let tokens = if found.origin.is_some() { Unit::Subwords } else { found.tokenizer.unit() };
        let mut plan = LanguageModelPlan::further(found.config.model.clone(), tokens, count);
        plan.freeze = options.freeze.or(plan.freeze);
        plan.freeze.unwrap_or(Freeze::Nothing).adjust(&mut plan.settings);
        let (texts, _) = held_out([&data.train, &data.valid, &data.test], Vec::is_empty);
        let before = Some(LanguageScores::measure(&found, texts)?);
        let TextGenerator { config, tokenizer, bounds, origin, .. } = found;
        Ok(Ground { tokenizer, bounds, plan, train, from: Some((config, origin, identity)), before })
    }
}

/// Trains a language model and writes the model folder `out`; what its tokens are is chosen by the size of the text
/// unless it is said.
///
/// The bytes of `model.safetensors` follow from the data, the options, the instruction set and the build: not from
/// the number of threads, nor from where the run was killed and resumed.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_language_model(data: &DocumentParts, training: Training<'_>) -> Result<LanguageModelOutcome> {
    training.begin(ModelKind::LanguageModel)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let base = Held::measure().now;
    let ground = match &options.from {
        None => Ground::from_scratch(data, options)?,
        Some(folder) => Ground::of_folder(folder, data, options)?,
    };
    let Ground { tokenizer, bounds, mut plan, train, from, before } = ground;
    let valid = documents(&tokenizer, bounds.end, &data.valid)?;
    plan.settings.epochs = options.epochs.unwrap_or(plan.settings.epochs);
    plan.settings.precision = options.precision;
    plan.settings.parts = options.parts.unwrap_or(plan.settings.parts);
    let model = LanguageModel::new(plan.model.clone())?;
    let vocabulary_sha256 = tokenizer.vocabulary_sha256();
    let task = Language {
        plan: &plan,
        model: &model,
        train,
        valid,
        vocabulary: &vocabulary_sha256,
        from: options.from.as_deref().zip(from.as_ref().map(|(.., identity)| identity.clone())),
        base,
        windows: Mutex::default(),
    };
    task.describe(observe);
    if let Some(before) = &before {
        describe_before(before, observe);
    }
    let watch = options.watch.as_deref().map(|text| watch::language_model(&model, &tokenizer, text)).transpose()?;
    let ended = run(&task, options, watch, out, stop, observe)?;

    let params = ended.params().thaw();
    let (held_out, scored_on) = held_out([&data.train, &data.valid, &data.test], Vec::is_empty);
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
    let generator = TextGenerator { config, model, params, tokenizer, bounds, origin };
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
        Facts { state, interrupted, seed: options.seed, scored_on, data_sha256: &data_sha256, tokens: plan.tokens };
    let card = text_cards::language_model(&generator, data, (&test, before.as_ref()), &of);
    write_folder(out, generator.files()?, &metrics, card)?;
    Ok(LanguageModelOutcome { model: generator, metrics, test, before, best, interrupted })
}

/// Says how well the model does that training starts from.
fn describe_before(before: &LanguageScores, observe: &mut dyn FnMut(Event<'_>)) {
    let (loss, [(_, of_token), (unit, of_unit), _]) = (before.loss, before.perplexities());
    let text = tr!(
        "loss {loss:.3}, perplexity {of_token:.2} a token, {of_unit:.2} per {unit}, before it is trained further",
        "追加学習の前: 損失 {loss:.3}、パープレキシティはトークンあたり {of_token:.2}、{unit}あたり {of_unit:.2}"
    );
    observe(Event::Said(label("baseline"), text));
}

/// Documents as tokens, each with what stands before a text, and the token at its end.
fn documents(tokenizer: &TextTokenizer, end: Option<u32>, texts: &[String]) -> Result<Vec<Vec<u32>>> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let before = &tokenizer.frame().before;
    let bounded = |ids: Vec<u32>| [before, &ids, end.as_slice()].concat();
    let (mut documents, mut read) = (Vec::with_capacity(texts.len()), 0);
    while read < texts.len() {
        // In parts, so that who ends this need not wait for all of it.
        halt::check();
        let before = |sum: &mut usize, text: &&str| Some(std::mem::replace(sum, *sum + text.len()));
        let part = texts[read..].iter().scan(0, before).take_while(|&before| before < PART).count();
        documents.extend(tokenizer.encode_all(&texts[read..read + part])?.into_iter().map(bounded));
        read += part;
    }
    Ok(documents)
}

/// Bytes of documents that become tokens at a time, or more where one has more.
const PART: usize = 1 << 18;

/// A language model's task.
struct Language<'a> {
    plan: &'a LanguageModelPlan,
    model: &'a LanguageModel,
    train: Vec<Vec<u32>>,
    valid: Vec<Vec<u32>>,
    /// SHA-256 of the vocabulary.
    vocabulary: &'a str,
    /// The folder of the model that is trained further.
    from: Option<(&'a Path, Identity)>,
    /// Bytes that the process held before.
    base: usize,
    /// The windows of the epoch that was asked for last.
    windows: Mutex<(u64, Arc<Vec<Window>>)>,
}

/// A part of a document that is read at a time: the tokens foretold are those one place further.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    document: usize,
    tokens: Range<usize>,
}

/// Every token of every document in windows of at most `context` tokens, the first of each document `first` long.
fn windows(documents: &[Vec<u32>], context: usize, first: impl Fn(usize) -> usize) -> Vec<Window> {
    let mut found = Vec::new();
    for (document, ids) in documents.iter().enumerate() {
        // The last token is only foretold.
        let end = ids.len().saturating_sub(1);
        let mut start = 0;
        let mut stop = first(document).clamp(1, context).min(end);
        while start < end {
            found.push(Window { document, tokens: start..stop });
            (start, stop) = (stop, end.min(stop + context));
        }
    }
    found
}

/// The tokens of windows, those after them, and the windows' lengths.
fn read(documents: &[Vec<u32>], windows: &[&Window]) -> ([Vec<u32>; 2], Offsets) {
    let part = |shift: usize| {
        let each = windows.iter().flat_map(move |window| {
            documents[window.document][window.tokens.start + shift..window.tokens.end + shift].iter().copied()
        });
        each.collect()
    };
    ([part(0), part(1)], Offsets::of_lengths(windows.iter().map(|window| window.tokens.len())))
}

/// −ln p of all tokens of documents, in windows side by side, and how many there are.
fn total_loss(model: &LanguageModel, params: &Params<f32>, documents: &[Vec<u32>]) -> Result<(f64, usize)> {
    let all = windows(documents, model.config().max_length, |_| usize::MAX);
    let lengths: Vec<usize> = all.iter().map(|window| window.tokens.len()).collect();
    let of_batch = |rows: &[usize]| {
        let part: Vec<&Window> = rows.iter().map(|&row| &all[row]).collect();
        let ([ids, next], offsets) = read(documents, &part);
        Ok(model.loss(params, [&ids, &next], &offsets, Mode::Eval, None)? * ids.len() as f64)
    };
    let totals = side_by_side(&by_length(&lengths, 2048), of_batch)?;
    Ok((totals.iter().sum(), lengths.iter().sum()))
}

/// Stream of the run's random numbers; see also [`batches`].
const FIRST: u64 = 1 << 60;

impl Language<'_> {
    /// The windows of an epoch: cut at other places in each.
    fn windows(&self, seed: u64, epoch: u64) -> Arc<Vec<Window>> {
        let mut last = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1.is_empty() || last.0 != epoch {
            let (window, random) = (self.plan.window, Philox::new(seed, FIRST + epoch));
            let first = |document| 1 + (f64::from(random.uniform(document as u64)) * window as f64) as usize;
            *last = (epoch, Arc::new(windows(&self.train, window, first)));
        }
        Arc::clone(&last.1)
    }

    /// Says what the tokens and the model are like.
    fn describe(&self, observe: &mut dyn FnMut(Event<'_>)) {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        let count = |documents: &[Vec<u32>]| thousands(documents.iter().map(Vec::len).sum());
        let kind = self.plan.tokens.noun_in(lang());
        let mut say = |what, text| observe(Event::Said(what, text));
        say(
            label("tokens"),
            tr!(
                "{kind}: {} to train on, {} to validate; vocabulary {}",
                "{kind}: 学習 {}、検証 {}、語彙 {}",
                count(&self.train),
                count(&self.valid),
                thousands(model.vocab_size)
            ),
        );
        say(
            label("model"),
            tr!(
                "{} layers, width {}, {} heads, context {} tokens: {} parameters",
                "{} 層、幅 {}、ヘッド {}、文脈 {} トークン、パラメータ {}",
                encoder.num_layers,
                encoder.d_model,
                encoder.num_heads,
                model.max_length,
                thousands(self.model.layout().len())
            ),
        );
    }

    fn data_sha256(&self) -> String {
        sha256_of(self.train.iter().chain(&self.valid))
    }
}

impl Trainable for Language<'_> {
    fn layout(&self) -> &Arc<Layout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        let Some((folder, identity)) = &self.from else {
            return Ok((Params::init(self.layout(), seed), String::new()));
        };
        // Read once more rather than held all along: the state of a run takes several times as much.
        let params = read_snapshot(folder, |folder| match folder.identity() == identity {
            true => Ok(TextGenerator::of_snapshot(folder)?.params),
            false => Err(replaced(folder)),
        })?;
        let sha256 = sha256_of_numbers(params.values());
        let freeze = self.plan.freeze.unwrap_or(Freeze::Nothing);
        Ok((freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &Settings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        [self.data_sha256(), plan, self.vocabulary.to_owned()]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = self.windows(seed, epoch).iter().map(|window| window.tokens.len()).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn learn(&self, params: &Params<f32>, rows: &[usize], at: Place, grads: &mut Params<f32>) -> Result<Learnt> {
        let windows = self.windows(at.seed, at.epoch);
        let part: Vec<&Window> = rows.iter().map(|&row| &windows[row]).collect();
        let ([ids, next], offsets) = read(&self.train, &part);
        let loss = self.model.loss(params, [&ids, &next], &offsets, at.mode(), Some(grads))?;
        Ok(Learnt { loss, weight: ids.len() as f64, tokens: ids.len() })
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation documents the training documents have to do.
        let is_held_out = !self.valid.is_empty();
        let (total, count) = total_loss(self.model, params, if is_held_out { &self.valid } else { &self.train })?;
        Ok(Evaluation::of_loss(total / count.max(1) as f64, is_held_out))
    }

    fn evaluation_share(&self) -> f64 {
        let tokens = |documents: &[Vec<u32>]| documents.iter().map(Vec::len).sum();
        evaluation_share(tokens(&self.train), tokens(&self.valid))
    }

    fn footing(&self) -> Footing {
        Footing { base: self.base, kept: bytes_of(&self.train) + bytes_of(&self.valid), later: 0 }
    }

    fn activations(&self) -> usize {
        let (model, encoder) = (&self.plan.model, &self.plan.model.encoder);
        activations(encoder, 2 * encoder.num_layers, self.plan.settings.batch_tokens, model.vocab_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_foretold_once() {
        let documents = vec![vec![1; 10], vec![2; 2], vec![3; 1], vec![4; 23]];
        for first in 1..9 {
            let found = windows(&documents, 5, |_| first);
            let mut foretold = vec![[0usize; 32]; 4];
            for window in &found {
                assert!(!window.tokens.is_empty() && window.tokens.len() <= 5, "{window:?}");
                window.tokens.clone().for_each(|token| foretold[window.document][token + 1] += 1);
            }
            for (ids, counts) in documents.iter().zip(foretold) {
                let expected: Vec<usize> = (0..32).map(|token| usize::from((1..ids.len()).contains(&token))).collect();
                assert_eq!(counts.to_vec(), expected);
            }
        }
    }
}
