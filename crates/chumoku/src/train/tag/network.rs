//! The network of a tagger: a pretrained encoder that learns a tag for each unit of a text (Devlin et al. 2019, section 5.3).

use super::choose::{Truth, span_f1};
use super::{Network, TaggerData};
use crate::crf::{TaggerBlend, Tags, best};
use crate::data::{SpanUnit, SpannedText};
use crate::inference::Framed;
use crate::lang::lang;
use crate::lang::wording::{count, thousands};
use crate::model_folder::{Snapshot, read_snapshot};
use crate::models::{TokenTagger, TokenTaggerConfig};
use crate::nn::{BodyConfig, DenseHead, HeadActivation};
use crate::params::{Layout, Params};
use crate::pretrained::Start;
use crate::scoring::mean_loss;
use crate::tagger_network::{
    Packed, Piece, TaggerNetwork, TaggerNetworkConfig, UnitRow, log_probabilities, pieces, unit_rows,
};
use crate::text::TextTokenizer;
use crate::text_tagger::{Cut, TextTagger, units};
use crate::train::further::begun;
use crate::train::memory::{FORWARD, Footing, Held, evaluation_share};
use crate::train::names::{label, network_sizes};
use crate::train::parts::Learnt;
use crate::train::run::{run, sha256_of_numbers};
use crate::train::source::metrics;
use crate::train::trainable::{Evaluation, Metric, Place, Trainable};
use crate::train::{Event, FineTuning, Settings, Shape, TrainOptions, batches};
use crate::{Result, stages, tr};
use chumoku_kernels::{CrossEntropy, parallel};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything that decides the training of a tagger's network beside the data and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaggerPlan {
    /// The model.
    pub model: TokenTaggerConfig,
    /// How it is trained.
    #[serde(flatten)]
    pub settings: Settings,
    /// How the pretrained encoder is fine-tuned.
    pub fine_tuning: FineTuning,
}

/// Characters of one token that are told apart.
const PLACES: usize = 8;

/// A tagger that is trained further.
pub(super) struct Before {
    pub(super) tagger: TextTagger,
    /// The kind of encoder that its network began as.
    model_type: String,
}

impl Before {
    /// Reads its folder.
    ///
    /// # Errors
    /// As for [`TextTagger::load`].
    pub(super) fn read(folder: &Snapshot) -> Result<Before> {
        let plan = &metrics(folder)["network"]["plan"]["fine_tuning"];
        let model_type = plan["model_type"].as_str().unwrap_or("encoder").to_owned();
        Ok(Before { tagger: TextTagger::of_snapshot(folder)?, model_type })
    }
}

/// What a network begins as.
struct Begun<'a> {
    tokenizer: TextTokenizer,
    /// The model, for the tags of the data.
    model: TokenTaggerConfig,
    /// What kind of encoder it was, as its folder has it.
    model_type: String,
    /// The most tokens of a text, those around it included.
    limit: usize,
    weights: Weights<'a>,
}

/// Where the first weights come from.
enum Weights<'a> {
    /// From a pretrained encoder; the head is new.
    Encoder(Box<Start>),
    /// From the network of a tagger that is trained further, of whose tags each of the data's begins as some.
    Tagger(&'a TaggerNetwork, Vec<Vec<(usize, f32)>>),
}

impl<'a> Begun<'a> {
    /// The encoder of a folder.
    fn of_encoder(folder: &Path, data: &TaggerData) -> Result<Begun<'a>> {
        let start = read_snapshot(folder, Start::read)?;
        let num_tags = data.tags().count();
        // What one token holds several characters of is told apart by more than a sum.
        let is_by_character = data.unit == SpanUnit::Characters;
        let model = TokenTaggerConfig {
            num_tags,
            num_places: if is_by_character { PLACES } else { 1 },
            head_dropout: start.origin.classifier(num_tags).head_dropout,
            head_dense: is_by_character.then(|| DenseHead::new(HeadActivation::Gelu)),
            encoder: start.origin.text_encoder(),
        };
        let model_type = start.origin.model_type().to_owned();
        let (tokenizer, limit) = (start.tokenizer.clone(), start.limit);
        Ok(Begun { tokenizer, model, model_type, limit, weights: Weights::Encoder(Box::new(start)) })
    }

    /// The network of a tagger in a folder, whose kinds of spans are among those of the data.
    fn of_tagger(before: &Before, network: &'a TaggerNetwork, data: &TaggerData) -> Begun<'a> {
        let (tags, model_type) = (data.tags(), before.model_type.clone());
        let kept = kept((tags, &data.labels), (before.tagger.tags(), before.tagger.labels()));
        let model = TokenTaggerConfig { num_tags: tags.count(), ..network.config.model.clone() };
        let (tokenizer, limit) = (network.tokenizer.clone(), model.encoder.max_length);
        Begun { tokenizer, model, model_type, limit, weights: Weights::Tagger(network, kept) }
    }

    fn params(&self, layout: &Arc<Layout>, seed: u64) -> Result<Params<f32>> {
        match &self.weights {
            Weights::Encoder(start) => start.params_of_encoder(layout, seed),
            Weights::Tagger(network, kept) => Ok(begun(&network.params, layout, kept, None, seed)),
        }
    }
}

/// The tag that each tag begins as, where it is not new: those of the kinds of spans that were known `before`.
fn kept((tags, labels): (Tags, &[String]), before: (Tags, &[String])) -> Vec<Vec<(usize, f32)>> {
    let mut kept = vec![Vec::new(); tags.count()];
    if !tags.each_word {
        // What is in no span.
        kept[0] = vec![(0, 1.0)];
    }
    for (was, label) in before.1.iter().enumerate() {
        let Ok(is) = labels.binary_search(label) else { continue };
        // The first unit of a span, and those after it.
        let both = tags.path(is, 2).into_iter().zip(before.0.path(was, 2));
        both.for_each(|(is, was)| kept[is] = vec![(was, 1.0)]);
    }
    kept
}

impl TaggerPlan {
    /// The plan for rows of these lengths, those around texts included.
    fn new(start: &Begun<'_>, data: &TaggerData, lengths: &[usize], options: &TrainOptions) -> TaggerPlan {
        let model = start.model.clone();
        let (body, vocab_size) = (&model.encoder.encoder, model.encoder.vocab_size);
        let shape = Shape { lengths, class_rows: &vec![1; model.num_tags], vocab_size };
        let (mut settings, mut fine_tuning) = FineTuning::of(&shape, Some(body), &start.model_type, start.limit);
        settings.epochs = (15_000 / data.train.len().max(1)).clamp(4, 20) as u64;
        if let Weights::Tagger(before, _) = &start.weights {
            fine_tuning.further(before.config.max_tokens, &mut settings);
        }
        settings.epochs = options.epochs.unwrap_or(settings.epochs);
        settings.patience = settings.epochs;
        settings.label_smoothing = 0.0;
        settings.precision = options.precision;
        settings.parts = options.parts.unwrap_or(settings.parts);
        fine_tuning.freeze = options.freeze.unwrap_or(fine_tuning.freeze);
        fine_tuning.freeze.adjust(&mut settings);
        TaggerPlan { model, settings, fine_tuning }
    }
}

/// Rows ready for the network.
struct Part {
    rows: Vec<UnitRow>,
    /// The tag of each unit of each row.
    tags: Vec<Vec<u32>>,
}

impl Part {
    fn of(data: &TaggerData, rows: &[SpannedText], tokenizer: &TextTokenizer) -> Result<Part> {
        let cut: Vec<Cut<'_>> = parallel::map(rows, |row| (row.text.as_str(), units(row, data.unit)));
        let tags = parallel::map_indices(rows.len(), |row| {
            data.unit_labels(&rows[row], &cut[row].1).into_iter().map(|tag| tag as u32).collect()
        });
        Ok(Part { rows: unit_rows(tokenizer, &cut)?, tags })
    }

    fn tokens(&self) -> usize {
        self.rows.iter().map(|row| row.ids.len()).sum()
    }
}

/// Fine-tunes the encoder of a folder or, where that holds the tagger `before`, its network. How much it counts is not yet fitted.
///
/// # Errors
/// If the encoder cannot be read, the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub(super) fn train(
    data: &TaggerData,
    (folder, before): (&Path, Option<&Before>),
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Network> {
    let cutting = stages::begin(stages::TOKENS);
    let held = Held::measure();
    let network = before.and_then(|before| Some((before, before.tagger.network.as_ref()?)));
    let start = match network {
        Some((before, network)) => Begun::of_tagger(before, network, data),
        None => Begun::of_encoder(folder, data)?,
    };
    let tokenizer = &start.tokenizer;
    let [learnt, judged] = [&data.train, &data.valid].map(|rows| Part::of(data, rows, tokenizer));
    let (learnt, judged) = (learnt?, judged?);
    let lengths: Vec<usize> = learnt.rows.iter().map(|row| row.ids.len() + tokenizer.frame().len()).collect();
    let plan = TaggerPlan::new(&start, data, &lengths, options);
    let model = TokenTagger::new(plan.model.clone())?;
    // Without validation rows the training rows have to do.
    let is_held_out = !data.valid.is_empty();
    let truth = if is_held_out { &data.valid } else { &data.train };
    let mut task = Tagging {
        fingerprint: [data.fingerprint(), tokenizer.vocabulary_sha256()],
        tags: data.tags(),
        truth: parallel::map(truth, |row| Truth::of(data, row, &units(row, data.unit))),
        plan: &plan,
        model: &model,
        start: &start,
        learnt,
        judged,
        is_held_out,
        pieces: Vec::new(),
        held,
    };
    task.pieces = pieces(&task.learnt.rows, task.framed().window());
    drop(cutting);
    task.describe(observe);
    let ended = run(&task, options, None, out, stop, observe)?;
    drop(task);
    let config = TaggerNetworkConfig {
        blend: TaggerBlend::NETWORK,
        max_tokens: plan.fine_tuning.max_tokens,
        precision: plan.settings.precision,
        vocabulary_sha256: start.tokenizer.vocabulary_sha256(),
        model: plan.model.clone(),
    };
    let network = TaggerNetwork { config, model, params: ended.params().thaw(), tokenizer: start.tokenizer };
    Ok(Network { network, plan, ended })
}

/// The task of a tagger's network.
struct Tagging<'a> {
    plan: &'a TaggerPlan,
    model: &'a TokenTagger,
    start: &'a Begun<'a>,
    tags: Tags,
    learnt: Part,
    judged: Part,
    /// The true spans of what is judged by.
    truth: Vec<Truth>,
    is_held_out: bool,
    /// What is read of the training rows.
    pieces: Vec<Piece>,
    /// Of data and tokens.
    /// The checksums of the data and of the vocabulary.
    fingerprint: [String; 2],
    /// What the process held before.
    held: Held,
}

impl Tagging<'_> {
    fn framed(&self) -> Framed<'_> {
        Framed { frame: self.start.tokenizer.frame(), most: self.plan.fine_tuning.max_tokens }
    }

    fn length(&self, piece: &Piece) -> usize {
        piece.read.len() + self.framed().frame.len()
    }

    fn body(&self) -> BodyConfig {
        self.plan.model.encoder.encoder.clone().into()
    }

    /// Says what the tokens and the model are like.
    fn describe(&self, observe: &mut dyn FnMut(Event<'_>)) {
        let mut lengths: Vec<usize> = self.learnt.rows.iter().map(|row| row.ids.len()).collect();
        lengths.sort_unstable();
        let (median, longest) = (lengths.get(lengths.len() / 2).unwrap_or(&0), lengths.last().unwrap_or(&0));
        let mut say = |what, text| observe(Event::Said(what, text));
        say(
            label("tokens"),
            tr!(
                "{} in the training rows (median {median}, longest {longest}), vocabulary {}",
                "学習データに {}（中央値 {median}、最長 {longest}）、語彙 {}",
                thousands(self.learnt.tokens()),
                thousands(self.plan.model.encoder.vocab_size)
            ),
        );
        say(
            label("model"),
            tr!(
                "{}, transformer, {}: {} parameters",
                "{}、トランスフォーマー、{}、パラメータ {}",
                self.plan.fine_tuning.model_type,
                network_sizes(&self.body(), lang()),
                thousands(self.model.layout().len())
            ),
        );
        let window = self.framed().window();
        let long = lengths.iter().filter(|&&length| length > window).count();
        if long > 0 {
            let rows = count(long as u64, "row");
            say(
                label("long"),
                tr!(
                    "{rows} of more than {window} tokens: nothing is cut; they are read in windows that overlap by half",
                    "{window} トークンを超える行が {long} 行。切り捨てはせず、半分ずつ重なる窓で読みます"
                ),
            );
        }
    }
}

impl Trainable for Tagging<'_> {
    fn layout(&self) -> &Arc<Layout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        let params = self.start.params(self.layout(), seed)?;
        let sha256 = sha256_of_numbers(params.values());
        Ok((self.plan.fine_tuning.freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &Settings {
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

    fn learn(&self, params: &Params<f32>, rows: &[usize], at: Place, grads: &mut Params<f32>) -> Result<Learnt> {
        let read = rows.iter().map(|&row| &self.pieces[row]);
        let packed = Packed::of(self.framed(), &self.learnt.rows, read.clone());
        let tags: Vec<u32> =
            read.flat_map(|piece| &self.learnt.tags[piece.row][piece.units.clone()]).copied().collect();
        let options = CrossEntropy {
            label_smoothing: self.plan.settings.label_smoothing,
            class_weights: None,
            row_weights: None,
        };
        let loss = self.model.loss(params, packed.tokens(), (packed.units(), &tags), &options, at.mode(), grads)?;
        Ok(Learnt { loss: loss.into(), weight: tags.len() as f64, tokens: packed.ids.len() })
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        let part = if self.is_held_out { &self.judged } else { &self.learnt };
        let log_p = log_probabilities(self.model, params, self.framed(), &part.rows)?;
        let labels = self.tags.count();
        let transitions = self.tags.transitions(&vec![0.0; (labels + 1) * labels]);
        let found: Vec<Vec<usize>> = parallel::map(&log_p, |log_p| best(log_p, &transitions));
        let f1 = span_f1(self.truth.iter().zip(found), self.tags);
        let units: Vec<Vec<f32>> = log_p.iter().flat_map(|row| row.chunks_exact(labels)).map(<[f32]>::to_vec).collect();
        let loss = mean_loss(&units, &part.tags.concat(), None);
        let metric = |name, key, value, is_share| Metric { name, key, value, is_share };
        let metrics = vec![
            metric(lang().pick("loss", "損失"), "log_loss", loss, false),
            metric(lang().pick("span F1", "スパンの F1"), "span_f1", f1, true),
        ];
        Ok(Evaluation { score: f1, loss, metrics, is_held_out: self.is_held_out })
    }

    fn work(&self, batch: &[usize]) -> Option<u64> {
        let of_piece = |&piece: &usize| multiply_adds(&self.plan.model, self.length(&self.pieces[piece]) as f64);
        Some((batch.iter().map(of_piece).sum::<f64>() / FORWARD) as u64)
    }

    fn evaluation_share(&self) -> f64 {
        evaluation_share(self.learnt.tokens(), self.judged.tokens())
    }

    fn footing(&self) -> Footing {
        Footing { base: self.held.now, ..Footing::default() }
    }

    fn activations(&self) -> usize {
        let per_token = self.body().numbers_per_token() + 6 * self.plan.model.encoder.encoder.d_model;
        self.plan.settings.batch_tokens * per_token
    }
}

/// Multiply–adds of reading so many tokens once, about.
fn multiply_adds(model: &TokenTaggerConfig, tokens: f64) -> f64 {
    let c = &model.encoder.encoder;
    let [layers, width, inner] = [c.num_layers, c.d_model, c.d_ff].map(|n| n as f64);
    tokens * layers * (4.0 * width * width + 2.0 * width * inner + 2.0 * width * tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tags_stay_where_new_ones_come_between() {
        let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (is, was) = (labels(&["drug", "person", "place"]), labels(&["drug", "place"]));
        let of = |each_word| {
            let tags = |labels: &[String]| Tags { kinds: labels.len(), each_word };
            let kept = kept((tags(&is), &is), (tags(&was), &was));
            kept.into_iter().map(|tags| tags.first().map(|tag| tag.0)).collect::<Vec<_>>()
        };
        // O, B and I of each.
        assert_eq!(of(false), [Some(0), Some(1), Some(2), None, None, Some(3), Some(4)]);
        assert_eq!(of(true), [Some(0), None, Some(1)]);
    }
}
