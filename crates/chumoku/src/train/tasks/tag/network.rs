//! The network of a tagger: a pretrained encoder fine-tuned to predict a tag per unit (Devlin et al. 2019, section
//! 5.3).

use super::crf_settings::{TrueSpans, span_f1};
use super::{TaggerData, TrainedTaggerNetwork};
use crate::crf::{TagScheme, TaggerBlend, viterbi};
use crate::data::{SpanExample, SpanUnit};
use crate::lang::lang;
use crate::lang::wording::{format_count, format_thousands};
use crate::model_folder::{Snapshot, with_snapshot};
use crate::models::{TokenTagger, TokenTaggerConfig};
use crate::nn::{BackboneConfig, DenseHeadConfig, HeadActivation};
use crate::parallel_batches::InputTemplate;
use crate::params::{ParamLayout, Params};
use crate::pretrained::FineTuningBase;
use crate::scoring::log_loss;
use crate::text::TextTokenizer;
use crate::text_models::tagger::{TextTagger, TextUnits, units_of_row};
use crate::text_models::tagger_network::{
    PackedWindows, TaggerNetwork, TaggerNetworkConfig, TaggerWindow, UnitRow, encode_unit_rows, log_probabilities,
    tagger_windows,
};
use crate::train::continued_training::combined_rows::params_from_outputs;
use crate::train::data::data_source::read_metrics;
use crate::train::reports::display_names::network_sizes;
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::run_identity::sha256_of_numbers;
use crate::train::run_folder::training::RunContext;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::{DataShape, FineTuning};
use crate::train::training_loop::batches::batches;
use crate::train::training_loop::memory::{FORWARD_SHARE, MemoryEstimate, ProcessUsage, evaluation_share};
use crate::train::training_loop::micro_batches::{AnswerCount, StepOutput};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::train::training_loop::trainable::{Evaluation, Metric, StepContext, Trainable};
use crate::{Error, Result, stage_timer, tr};
use chumoku_kernels::{CrossEntropy, parallel};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Everything that decides the training of a tagger's network, besides the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct TaggerPlan {
    /// The model.
    pub model: TokenTaggerConfig,
    /// The training settings.
    #[serde(flatten)]
    pub settings: TrainSettings,
    /// How the pretrained encoder is fine-tuned.
    pub(crate) fine_tuning: FineTuning,
}

/// The maximum number of characters of one token that get different vectors.
const MAX_UNITS_PER_TOKEN: usize = 8;

/// The base tagger of continued training.
pub(super) struct BaseTagger {
    pub(super) tagger: TextTagger,
    /// The type of encoder that its network was fine-tuned from. Empty without a network.
    model_type: String,
}

impl BaseTagger {
    /// Reads the folder of a tagger.
    ///
    /// # Errors
    /// The same as for [`TextTagger::load`], or if the folder does not say what its network was fine-tuned from.
    pub(super) fn read(folder: &Snapshot) -> Result<BaseTagger> {
        let tagger = TextTagger::from_snapshot(folder)?;
        let model_type = tagger.network.as_ref().map_or(Ok(String::new()), |network| {
            let recorded = network.config.encoder_type.clone();
            // Earlier versions recorded it in the report alone.
            let report = || read_metrics(folder)["network"]["plan"]["fine_tuning"]["model_type"].as_str().map(str::to_owned);
            recorded.or_else(report).ok_or_else(|| Error::Model {
                path: folder.to_path_buf(),
                problem: tr!(
                    "expected the type of the tagger's encoder in config.json or metrics.json, found neither; put \
                     metrics.json back, or train a new tagger",
                    "config.json にも metrics.json にも、エンコーダーの種類が書かれていません。metrics.json を元に戻すか、新しいモデルを学習して\
                     ください"
                ),
            })
        })?;
        Ok(BaseTagger { tagger, model_type })
    }
}

/// The start of a network.
struct NetworkStart<'a> {
    tokenizer: TextTokenizer,
    /// The model, for the tags of the data.
    model: TokenTaggerConfig,
    /// The type of encoder, as its folder records it.
    model_type: String,
    /// The maximum number of tokens of a text, including special tokens.
    limit: usize,
    weights: InitialWeights<'a>,
}

/// The origin of the initial weights.
enum InitialWeights<'a> {
    /// A pretrained encoder; the head is new.
    Encoder(Box<FineTuningBase>),
    /// The network of a base tagger, and the old tags that each tag of the data starts from, with their shares.
    Tagger(&'a TaggerNetwork, Vec<Vec<(usize, f32)>>),
}

impl<'a> NetworkStart<'a> {
    /// Reads the encoder of a folder.
    fn from_encoder(folder: &Path, data: &TaggerData) -> Result<NetworkStart<'a>> {
        let start = with_snapshot(folder, FineTuningBase::read)?;
        let num_tags = data.tags().count();
        // Tokens with several characters need more than a linear layer to label each one.
        let is_by_character = data.unit == SpanUnit::Characters;
        let model = TokenTaggerConfig {
            num_tags,
            num_places: if is_by_character { MAX_UNITS_PER_TOKEN } else { 1 },
            head_dropout: start.origin.classifier(num_tags).head_dropout,
            head_dense: is_by_character.then(|| DenseHeadConfig::new(HeadActivation::Gelu)),
            encoder: start.origin.text_encoder(),
        };
        let model_type = start.origin.model_type().to_owned();
        let (tokenizer, limit) = (start.tokenizer.clone(), start.max_tokens);
        Ok(NetworkStart { tokenizer, model, model_type, limit, weights: InitialWeights::Encoder(Box::new(start)) })
    }

    /// Starts from the network of a base tagger, whose kinds of spans are among those of the data.
    fn from_tagger(before: &BaseTagger, network: &'a TaggerNetwork, data: &TaggerData) -> NetworkStart<'a> {
        let (tags, model_type) = (data.tags(), before.model_type.clone());
        let kept = inherited_tags((tags, &data.labels), (before.tagger.tags(), before.tagger.labels()));
        let model = TokenTaggerConfig { num_tags: tags.count(), ..network.config.model.clone() };
        let (tokenizer, limit) = (network.tokenizer.clone(), model.encoder.max_length);
        NetworkStart { tokenizer, model, model_type, limit, weights: InitialWeights::Tagger(network, kept) }
    }

    fn params(&self, layout: &Arc<ParamLayout>, seed: u64) -> Result<Params<f32>> {
        match &self.weights {
            InitialWeights::Encoder(start) => start.encoder_params(layout, seed),
            InitialWeights::Tagger(network, kept) => Ok(params_from_outputs(&network.params, layout, kept, None, seed)),
        }
    }
}

/// Returns the old tag that each tag starts from. New kinds of spans have none.
fn inherited_tags((tags, labels): (TagScheme, &[String]), before: (TagScheme, &[String])) -> Vec<Vec<(usize, f32)>> {
    let mut kept = vec![Vec::new(); tags.count()];
    if !tags.each_word {
        // The tag for units outside spans.
        kept[0] = vec![(0, 1.0)];
    }
    for (was, label) in before.1.iter().enumerate() {
        let Ok(is) = labels.binary_search(label) else { continue };
        // The first unit of a span, and those after it.
        let both = tags.span_tags(is, 2).into_iter().zip(before.0.span_tags(was, 2));
        both.for_each(|(is, was)| kept[is] = vec![(was, 1.0)]);
    }
    kept
}

impl TaggerPlan {
    /// Chooses the plan for rows of these lengths, including special tokens.
    fn new(start: &NetworkStart<'_>, data: &TaggerData, lengths: &[usize], options: &TrainOptions) -> TaggerPlan {
        let model = start.model.clone();
        let (body, vocab_size) = (&model.encoder.encoder, model.encoder.vocab_size);
        let shape = DataShape { lengths, class_rows: &vec![1; model.num_tags], vocab_size };
        let (mut settings, mut fine_tuning) =
            FineTuning::for_encoder(&shape, Some(body), &start.model_type, start.limit);
        settings.epochs = (15_000 / data.train.len().max(1)).clamp(4, 20) as u64;
        if let InitialWeights::Tagger(before, _) = &start.weights {
            fine_tuning.soften(before.config.max_tokens, &mut settings);
        }
        options.apply_to(&mut settings);
        settings.patience = settings.epochs;
        settings.label_smoothing = 0.0;
        fine_tuning.freeze = options.freeze.unwrap_or(fine_tuning.freeze);
        fine_tuning.freeze.adjust_learning_rates(&mut settings);
        TaggerPlan { model, settings, fine_tuning }
    }
}

/// Tokenized rows with their tags.
struct TaggerRows {
    rows: Vec<UnitRow>,
    /// The tag of each unit of each row.
    tags: Vec<Vec<u32>>,
}

impl TaggerRows {
    fn new(data: &TaggerData, rows: &[SpanExample], tokenizer: &TextTokenizer) -> Result<TaggerRows> {
        let cut: Vec<TextUnits<'_>> = parallel::map(rows, |row| (row.text.as_str(), units_of_row(row, data.unit)));
        let tags = parallel::map_indices(rows.len(), |row| {
            data.unit_labels(&rows[row], &cut[row].1).into_iter().map(|tag| tag as u32).collect()
        });
        Ok(TaggerRows { rows: encode_unit_rows(tokenizer, &cut)?, tags })
    }

    fn tokens(&self) -> usize {
        self.rows.iter().map(|row| row.ids.len()).sum()
    }
}

/// Fine-tunes the encoder of a folder, or the network of the base tagger `before`. The blend is fitted later.
///
/// # Errors
/// If the encoder cannot be read, the folder cannot be written, a checkpoint does not fit, or the loss is no longer
/// finite.
pub(super) fn train_network(
    data: &TaggerData,
    (folder, before): (&Path, Option<&BaseTagger>),
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedTaggerNetwork> {
    let cutting = stage_timer::begin(stage_timer::TOKENS);
    let held = ProcessUsage::measure();
    let network = before.and_then(|before| Some((before, before.tagger.network.as_ref()?)));
    let start = match network {
        Some((before, network)) => NetworkStart::from_tagger(before, network, data),
        None => NetworkStart::from_encoder(folder, data)?,
    };
    let tokenizer = &start.tokenizer;
    let [train_rows, valid_rows] = [&data.train, &data.valid].map(|rows| TaggerRows::new(data, rows, tokenizer));
    let (train_rows, valid_rows) = (train_rows?, valid_rows?);
    let lengths: Vec<usize> =
        train_rows.rows.iter().map(|row| row.ids.len() + tokenizer.special_tokens().len()).collect();
    let plan = TaggerPlan::new(&start, data, &lengths, context.options);
    let model = TokenTagger::new(plan.model.clone())?;
    // Without validation rows, the training rows are evaluated.
    let is_held_out = !data.valid.is_empty();
    let truth = if is_held_out { &data.valid } else { &data.train };
    let mut task = TaggerTask {
        fingerprint: [data.fingerprint(), tokenizer.vocabulary_sha256()],
        tags: data.tags(),
        truth: parallel::map(truth, |row| TrueSpans::new(data, row, &units_of_row(row, data.unit))),
        plan: &plan,
        model: &model,
        start: &start,
        train_rows,
        valid_rows,
        is_held_out,
        pieces: Vec::new(),
        process_usage: held,
    };
    task.pieces = tagger_windows(&task.train_rows.rows, task.input_template().window_size());
    drop(cutting);
    task.describe(observe);
    let ended = run_in_folder(&task, context, None, observe)?;
    drop(task);
    let config = TaggerNetworkConfig {
        blend: TaggerBlend::NETWORK,
        max_tokens: plan.fine_tuning.max_tokens,
        precision: plan.settings.precision,
        vocabulary_sha256: start.tokenizer.vocabulary_sha256(),
        encoder_type: Some(plan.fine_tuning.model_type.clone()),
        model: plan.model.clone(),
    };
    let network = TaggerNetwork { config, model, params: ended.params().unfreeze(), tokenizer: start.tokenizer };
    Ok(TrainedTaggerNetwork { network, plan, ended })
}

/// The network of a tagger with its data, as the training loop runs it.
struct TaggerTask<'a> {
    plan: &'a TaggerPlan,
    model: &'a TokenTagger,
    start: &'a NetworkStart<'a>,
    tags: TagScheme,
    train_rows: TaggerRows,
    valid_rows: TaggerRows,
    /// The true spans of the evaluated rows.
    truth: Vec<TrueSpans>,
    is_held_out: bool,
    /// The windows of the training rows.
    pieces: Vec<TaggerWindow>,
    /// The checksums of the data and of the vocabulary.
    fingerprint: [String; 2],
    /// The memory use of the process before the run.
    process_usage: ProcessUsage,
}

impl TaggerTask<'_> {
    fn input_template(&self) -> InputTemplate<'_> {
        InputTemplate {
            special_tokens: self.start.tokenizer.special_tokens(),
            max_tokens: self.plan.fine_tuning.max_tokens,
        }
    }

    fn length(&self, piece: &TaggerWindow) -> usize {
        piece.tokens.len() + self.input_template().special_tokens.len()
    }

    fn body(&self) -> BackboneConfig {
        self.plan.model.encoder.encoder.clone().into()
    }

    /// Reports tokens, model and long rows.
    fn describe(&self, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let mut lengths: Vec<usize> = self.train_rows.rows.iter().map(|row| row.ids.len()).collect();
        lengths.sort_unstable();
        let (median, longest) = (lengths.get(lengths.len() / 2).unwrap_or(&0), lengths.last().unwrap_or(&0));
        let mut say = |what, text| observe(TrainEvent::Message(what, text));
        say(
            topic_label("tokens"),
            tr!(
                "{} in the training rows (median {median}, longest {longest}), vocabulary {}",
                "学習データに {}（中央値 {median}、最長 {longest}）、語彙 {}",
                format_thousands(self.train_rows.tokens()),
                format_thousands(self.plan.model.encoder.vocab_size)
            ),
        );
        say(
            topic_label("model"),
            tr!(
                "{}, transformer, {}: {} parameters",
                "{}、トランスフォーマー、{}、パラメータ {}",
                self.plan.fine_tuning.model_type,
                network_sizes(&self.body(), lang()),
                format_thousands(self.model.layout().len())
            ),
        );
        let window = self.input_template().window_size();
        let long = lengths.iter().filter(|&&length| length > window).count();
        if long > 0 {
            let rows = format_count(long as u64, "row");
            say(
                topic_label("long"),
                tr!(
                    "{rows} of more than {window} tokens: no text is truncated; long rows are read in windows that \
                     overlap by half",
                    "{window} トークンを超える行が {long} 行。切り捨てはせず、半分ずつ重なる窓で読みます"
                ),
            );
        }
    }
}

impl Trainable for TaggerTask<'_> {
    fn layout(&self) -> &Arc<ParamLayout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        let params = self.start.params(self.layout(), seed)?;
        let sha256 = sha256_of_numbers(params.values());
        Ok((self.plan.fine_tuning.freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &TrainSettings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> [String; 3] {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        let [data, tokens] = self.fingerprint.clone();
        [data, plan, tokens]
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = self.pieces.iter().map(|piece| self.length(piece)).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn train_step(
        &self,
        params: &Params<f32>,
        rows: &[usize],
        at: StepContext,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let read = rows.iter().map(|&row| &self.pieces[row]);
        let packed = PackedWindows::pack(self.input_template(), &self.train_rows.rows, read.clone());
        let tags: Vec<u32> =
            read.flat_map(|piece| &self.train_rows.tags[piece.row][piece.units.clone()]).copied().collect();
        let options = CrossEntropy {
            label_smoothing: self.plan.settings.label_smoothing,
            class_weights: None,
            row_weights: None,
        };
        let units = (packed.units(), &tags[..]);
        let (loss, logits) = self.model.loss_and_logits(params, packed.tokens(), units, &options, at.mode(), grads)?;
        let answers = AnswerCount::of_logits(&logits, &tags);
        Ok(StepOutput::new(loss.into(), tags.len() as f64, packed.ids.len()).with_answers(answers))
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        let part = if self.is_held_out { &self.valid_rows } else { &self.train_rows };
        let log_p = log_probabilities(self.model, params, self.input_template(), &part.rows)?;
        let labels = self.tags.count();
        let transitions = self.tags.transitions(&vec![0.0; (labels + 1) * labels]);
        let found: Vec<Vec<usize>> = parallel::map(&log_p, |log_p| viterbi(log_p, &transitions));
        let f1 = span_f1(self.truth.iter().zip(found), self.tags);
        let units: Vec<Vec<f32>> = log_p.iter().flat_map(|row| row.chunks_exact(labels)).map(<[f32]>::to_vec).collect();
        let loss = log_loss(&units, &part.tags.concat(), None);
        let metric = |name, key, value, is_share| Metric { name, key, value, is_share };
        let metrics = vec![
            metric(lang().pick("loss", "損失"), "log_loss", loss, false),
            metric(lang().pick("span F1", "スパンの F1"), "span_f1", f1, true),
        ];
        Ok(Evaluation { score: f1, loss, metrics, is_held_out: self.is_held_out })
    }

    fn multiply_adds(&self, batch: &[usize]) -> Option<u64> {
        let of_piece = |&piece: &usize| multiply_adds(&self.plan.model, self.length(&self.pieces[piece]) as f64);
        Some((batch.iter().map(of_piece).sum::<f64>() / FORWARD_SHARE) as u64)
    }

    fn evaluation_share(&self) -> f64 {
        evaluation_share(self.train_rows.tokens(), self.valid_rows.tokens())
    }

    fn memory_estimate(&self) -> MemoryEstimate {
        MemoryEstimate { base: self.process_usage.current, ..MemoryEstimate::default() }
    }

    fn activations(&self) -> usize {
        let per_token = self.body().activations_per_token() + 6 * self.plan.model.encoder.encoder.d_model;
        self.plan.settings.batch_tokens * per_token
    }
}

/// Estimates the multiply–adds of a forward pass over `tokens` tokens.
fn multiply_adds(model: &TokenTaggerConfig, tokens: f64) -> f64 {
    let c = &model.encoder.encoder;
    let [layers, width, inner] = [c.num_layers, c.d_model, c.d_ff].map(|n| n as f64);
    tokens * layers * (4.0 * width * width + 2.0 * width * inner + 2.0 * width * tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tags_are_kept_when_new_ones_are_inserted() {
        let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (is, was) = (labels(&["drug", "person", "place"]), labels(&["drug", "place"]));
        let of = |each_word| {
            let tags = |labels: &[String]| TagScheme { kinds: labels.len(), each_word };
            let kept = inherited_tags((tags(&is), &is), (tags(&was), &was));
            kept.into_iter().map(|tags| tags.first().map(|tag| tag.0)).collect::<Vec<_>>()
        };
        // O, B and I of each.
        assert_eq!(of(false), [Some(0), Some(1), Some(2), None, None, Some(3), Some(4)]);
        assert_eq!(of(true), [Some(0), None, Some(1)]);
    }
}
