//! Training a classifier: the n-gram baseline, tokens, the plan, the run, and at the end the report.

use super::card::{most_frequent_class, report_rows};
use super::memory::{FORWARD, Footing, Held, bytes_of};
use super::names::{label, network_name, network_sizes};
use super::network::Network;
use super::ngrams::Chosen;
use super::parts::Learnt;
use super::run::{Ended, Evaluation, Place, Trainable, run, sha256_of_numbers};
use super::state::Best;
use super::target::Target;
use super::training::{Training, write_folder};
use super::watch;
use super::{Blend, Event, Plan, Rows, Scores, Settings, Shape, TrainOptions, TrainingData, batches};
use crate::caution::Caution;
use crate::lang::lang;
use crate::lang::wording::{count, thousands};

use crate::inference::Framed;
use crate::models::Classifier;
use crate::ngram::{Answer, NgramModel};
use crate::params::{Layout, Params};
use crate::pretrained::{Origin, Start};
use crate::scoring::largest;
use crate::text::TextTokenizer;
use crate::text_classifier::{ModelConfig, Problem, TextClassifier};
use crate::{Error, ModelKind, Result, inference, stages, tr};
use chumoku_kernels::Philox;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The model, as it was saved.
    pub model: TextClassifier,
    /// What `metrics.json` holds.
    pub metrics: Value,
    /// Scores on the test rows: the whole predictor.
    pub test: Scores,
    /// Scores on the test rows of the transformer alone, the n-grams alone, and the most frequent class.
    pub parts: [Scores; 3],
    /// Scores on the test rows of the transformer that would have been trained from scratch, where the network came
    /// pretrained and the run was not stopped.
    pub from_scratch: Option<Scores>,
    /// Which of the three predictors the figures advise to use, in one line.
    pub advice: String,
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
pub fn train(data: &TrainingData, training: Training<'_>) -> Result<Outcome> {
    training.begin(ModelKind::Classifier)?;
    let Training { options, out, stop, mut observe } = training;
    let (options, observe) = (&options, &mut *observe);
    let before = Held::measure();
    let mut ngrams = super::ngrams::fit(data, "baseline", stop, observe)?;
    // The network needs the memory more.
    ngrams.found.forget_texts();
    let footing = ngram_footing(data, &ngrams.model, [before, Held::measure()]);
    let network = Network::new(data, options)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = Classify { footing, seconds_afterwards: ngrams.seconds, ..Classify::new(data, &network, &model)? };
    task.describe(observe);
    let watched = |text: &str| watch::classifier(&model, &network.tokenizer, network.plan.max_tokens(), text);
    let watch = options.watch.as_deref().map(watched).transpose()?;
    let ended = run(&task, options, watch, out, stop, observe)?;
    drop(task);
    let from_scratch = match network.start.is_some() && !ended.interrupted {
        true => from_scratch(data, options, stop, observe)?,
        false => None,
    };
    let finished = Finished { data, options, out, plan: &network.plan, ended: &ended, from_scratch, stop };
    let origin = network.start.map(|start| start.origin);
    finished.write(network.tokenizer, model, origin, ngrams, observe)
}

/// Scores of the transformer that would have been trained from scratch, which shows what the pretrained encoder brought.
/// None if it was stopped.
fn from_scratch(
    data: &TrainingData,
    options: &TrainOptions,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Option<Scores>> {
    let options =
        TrainOptions { from: None, freeze: None, epochs: None, resume: false, watch: None, ..options.clone() };
    let network = Network::new(data, &options)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = Classify::new(data, &network, &model)?;
    // Its checkpoints are for nobody: it is quick, and killed it comes out the same when it is trained again.
    let folder = tempfile::tempdir().map_err(Error::writing("creating a folder in", std::env::temp_dir()))?;
    let mut shown = |event: Event<'_>| {
        if let Event::Evaluated { epoch, .. } = event {
            let of = network.plan.settings.epochs;
            let text = tr!(
                "a transformer, for comparison: {epoch} of {of} epochs",
                "比較のためのトランスフォーマー: {epoch}/{of} エポック"
            );
            observe(Event::Working(label("baseline"), text));
        }
    };
    let ended = run(&task, &options, None, folder.path(), stop, &mut shown)?;
    drop(task);
    if ended.interrupted {
        return Ok(None);
    }
    let config = ModelConfig {
        model_type: ModelKind::Classifier.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        problem: Problem::OneClass,
        blend: Blend::ATTENTION,
        ngrams: None,
        precision: network.plan.settings.precision,
        max_tokens: None,
        caution: None,
        model: network.plan.model,
    };
    let params = ended.params();
    let scratch = TextClassifier { config, model, params, tokenizer: network.tokenizer, ngrams: None, origin: None };
    Ok(Some(scratch.scores(report_rows(data).0, options.seed)?.whole))
}

/// What the data and the n-gram model hold, from what the process held `before` the model was trained and `after`.
pub(super) fn ngram_footing<A: Answer>(
    data: &TrainingData<A>,
    ngrams: &NgramModel,
    [before, after]: [Held; 2],
) -> Footing {
    let bytes = |rows: &Rows<A>| rows.texts.iter().map(|text| text.len()).sum::<usize>();
    let (train, valid) = (bytes(&data.train), bytes(&data.valid));
    let model = ngrams.bytes();
    // Where the system does not say: each character begins a few n-grams, each of which is held three times.
    let by_formula = 80 * train + 10 * model;
    let training = if after.most > 0 { after.most - before.now.min(after.most) } else { by_formula };
    // Once more, on the validation rows too, with the scores of the rows that are reported on.
    let again = training as f64 * (train + valid) as f64 / train.max(1) as f64;
    let scored = report_rows(data).0.len() * (40 * data.labels.len() + 400);
    let base = if before.now > 0 { before.now } else { 3 * (train + valid) };
    Footing { base, kept: model, later: again as usize + scored }
}

/// A classifier's task.
pub(super) struct Classify<'a, A = u32> {
    data: &'a TrainingData<A>,
    plan: &'a Plan,
    model: &'a Classifier,
    tokenizer: &'a TextTokenizer,
    /// The pretrained encoder, if there is one.
    start: Option<&'a Start>,
    rows: &'a [Vec<u32>],
    valid_rows: Vec<Vec<u32>>,
    /// The tokenizer's file.
    vocabulary: String,
    /// Memory without that of the tokens.
    pub(super) footing: Footing,
    /// Time that is needed after the steps: the n-gram model is trained once more, with one penalty in place of some.
    pub(super) seconds_afterwards: f64,
}

/// Streams of the run's random numbers; see also [`batches`].
const WINDOW: u64 = 1 << 60;
const TOKENS: u64 = WINDOW + (1 << 56);

impl<'a, A: Target> Classify<'a, A> {
    pub(super) fn new(data: &'a TrainingData<A>, network: &'a Network, model: &'a Classifier) -> Result<Self> {
        Ok(Classify {
            data,
            plan: &network.plan,
            model,
            tokenizer: &network.tokenizer,
            start: network.start.as_ref(),
            rows: &network.rows,
            valid_rows: network.tokenizer.encode_all(&data.valid.texts())?,
            vocabulary: network.tokenizer.to_json()?,
            footing: Footing::default(),
            seconds_afterwards: 0.0,
        })
    }

    fn framed(&self) -> Framed<'_> {
        Framed { frame: self.tokenizer.frame(), most: self.plan.max_tokens() }
    }

    fn window(&self) -> usize {
        self.framed().window()
    }

    /// Tokens of a row as it is learnt from, with those around it.
    fn length(&self, row: usize) -> usize {
        self.rows[row].len().min(self.window()) + self.tokenizer.frame().len()
    }

    /// The work of reading rows once, whole, as a share of that of an epoch's learning.
    fn reading_share(&self, rows: &[Vec<u32>]) -> f64 {
        let limit = self.window();
        // Long rows are read in windows of nearly equal size.
        let of_row = |row: &Vec<u32>| {
            let windows = row.len().div_ceil(limit).max(1) as f64;
            windows * self.plan.model.multiply_adds(self.tokenizer.frame().len() as f64 + row.len() as f64 / windows)
        };
        let learning: f64 = (0..self.rows.len()).filter_map(|row| self.work(&[row])).map(|work| work as f64).sum();
        rows.iter().map(of_row).sum::<f64>() / learning.max(1.0)
    }

    /// The work of training the transformer from scratch that is reported beside a fine-tuned one, as a share of that of an
    /// epoch's learning: about, since its tokens are others.
    fn share_of_scratch(&self) -> f64 {
        let lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        let (class_rows, vocab_size) = (self.data.class_rows(), self.plan.model.vocab_size);
        let plan = Plan::new(&Shape { lengths: &lengths, class_rows: &class_rows, vocab_size });
        let of_row = |&length: &usize| plan.model.multiply_adds(1.0 + length.min(plan.model.max_length) as f64);
        let all = plan.settings.epochs as f64 * lengths.iter().map(of_row).sum::<f64>() / FORWARD;
        let learning: f64 = (0..self.rows.len()).filter_map(|row| self.work(&[row])).map(|work| work as f64).sum();
        // Narrow layers take longer for the same work.
        2.0 * all / learning.max(1.0)
    }

    /// Says what the tokens, the model and the rows are like.
    pub(super) fn describe(&self, observe: &mut dyn FnMut(Event<'_>)) {
        let mut lengths: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let (median, longest) = (lengths.get(lengths.len() / 2).unwrap_or(&0), lengths.last().unwrap_or(&0));
        let model = &self.plan.model;
        let kind = match self.start {
            None => format!("{}: ", self.tokenizer.unit().noun_in(lang())),
            Some(_) => String::new(),
        };
        let mut say = |what, text| observe(Event::Said(what, text));
        say(
            label("tokens"),
            tr!(
                "{kind}{} in the training rows (median {median}, longest {longest}), vocabulary {}",
                "{kind}学習データに {}（中央値 {median}、最長 {longest}）、語彙 {}",
                thousands(lengths.iter().sum()),
                thousands(model.vocab_size)
            ),
        );
        say(
            label("model"),
            tr!(
                "{}{}, {}: {} parameters",
                "{}{}、{}、パラメータ {}",
                self.plan.fine_tuning.as_ref().map(|from| format!("{}, ", from.model_type)).unwrap_or_default(),
                network_name(model.body.network()),
                network_sizes(&model.body, lang()),
                thousands(self.model.layout().len())
            ),
        );
        let window = self.window();
        let long_rows = lengths.iter().filter(|&&length| length > window).count();
        if long_rows > 0 {
            let rows = count(long_rows as u64, "row");
            say(
                label("long"),
                tr!(
                    "{rows} of more than {window} tokens: nothing is cut; training reads a window of them at a random \
                     place each epoch, evaluation reads all windows and averages",
                    "{window} トークンを超える行が {long_rows} 行。切り捨てはせず、学習ではエポックごとに無作為な位置の窓を、\
                     評価ではすべての窓を読んで平均します"
                ),
            );
        }
        if self.plan.class_weights.is_some() {
            let text = tr!(
                "classes are unbalanced: rare ones count more (by the root of their rarity)",
                "クラスの行数に偏りがあるため、少ないクラスを重く扱います（少なさの平方根に比例）"
            );
            say(label("weights"), text);
        }
    }

    /// What is read of a training row in an epoch: all of it or, of a long one, a window at a random place; with a
    /// random share of its tokens left out.
    fn sample(&self, row: usize, Place { seed, epoch, .. }: Place) -> Vec<u32> {
        let ids = &self.rows[row];
        let mut start = 0;
        if ids.len() > self.window() {
            let random = Philox::new(seed, WINDOW + epoch).uniform(row as u64);
            start = (f64::from(random) * (ids.len() - self.window() + 1) as f64) as usize;
        }
        let ids = &ids[start..ids.len().min(start + self.window())];
        let random = Philox::new(seed, TOKENS + epoch);
        let kept = (0..ids.len().div_ceil(4)).flat_map(|block| random.block((row as u64) << 20 | block as u64));
        let threshold = (f64::from(self.plan.token_dropout) * f64::from(u32::MAX)) as u32;
        ids.iter().zip(kept).filter(|(_, word)| *word >= threshold).map(|(&id, _)| id).collect()
    }
}

impl<A: Target> Trainable for Classify<'_, A> {
    fn layout(&self) -> &Arc<Layout> {
        self.model.layout()
    }

    fn start(&self, seed: u64) -> Result<(Params<f32>, String)> {
        let begin = |mut params: Params<f32>| {
            let place = self.layout().iter().find(|(name, ..)| *name == "head.bias").map(|(_, _, range)| range);
            if let Some((range, bias)) = place.zip(A::bias(&self.data.class_rows(), self.data.train.len())) {
                params.values_mut()[range].copy_from_slice(&bias);
            }
            params
        };
        let (Some(start), Some(fine_tuning)) = (self.start, &self.plan.fine_tuning) else {
            return Ok((begin(Params::init(self.layout(), seed)), String::new()));
        };
        let params = begin(start.params(self.layout(), seed)?);
        let sha256 = sha256_of_numbers(params.values());
        Ok((fine_tuning.freeze.apply(&params, seed), sha256))
    }

    fn settings(&self) -> &Settings {
        &self.plan.settings
    }

    fn fingerprint(&self) -> String {
        let plan = serde_json::to_string(self.plan).expect("a plan is plain data");
        format!("{} {plan} {}", self.data.fingerprint(), self.vocabulary)
    }

    fn batches(&self, epoch: u64, seed: u64) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = (0..self.rows.len()).map(|row| self.length(row)).collect();
        batches(&lengths, self.plan.settings.batch_tokens, seed, epoch)
    }

    fn learn(&self, params: &Params<f32>, rows: &[usize], at: Place, grads: &mut Params<f32>) -> Result<Learnt> {
        let samples: Vec<Vec<u32>> = rows.iter().map(|&row| self.sample(row, at)).collect();
        let (ids, offsets) = self.framed().pack(samples.iter().map(Vec::as_slice));
        let answers: Vec<A> = rows.iter().map(|&row| self.data.train.labels[row].clone()).collect();
        A::learn(self.model, params, (&ids, &offsets), &answers, self.plan, at.mode(), grads)
    }

    fn evaluate(&self, params: &Params<f32>) -> Result<Evaluation> {
        // Without validation rows the training rows have to do.
        let (rows, labels) = match self.valid_rows.is_empty() {
            true => (self.rows, &self.data.train.labels),
            false => (&self.valid_rows[..], &self.data.valid.labels),
        };
        let logits = inference::logits(self.model, params, self.framed(), rows)?;
        Ok(A::evaluate(&logits, labels, self.data, !self.valid_rows.is_empty()))
    }

    fn work(&self, batch: &[usize]) -> Option<u64> {
        // Twice as much backward as forward; some tokens are left out.
        let kept = 1.0 - f64::from(self.plan.token_dropout);
        let frame = self.tokenizer.frame().len() as f64;
        let of_row =
            |&row: &usize| self.plan.model.multiply_adds(frame + kept * self.rows[row].len().min(self.window()) as f64);
        Some((batch.iter().map(of_row).sum::<f64>() / FORWARD) as u64)
    }

    fn evaluation_share(&self) -> f64 {
        self.reading_share(if self.valid_rows.is_empty() { self.rows } else { &self.valid_rows })
    }

    fn scoring_share(&self) -> f64 {
        // Validation rows once more, for the blend; then the rows that are reported on, which are not tokens as yet.
        let bytes = |rows: &Rows<A>| rows.texts.iter().map(|text| text.len()).sum::<usize>() as f64;
        let (known, blended) = match self.valid_rows.is_empty() {
            true => (&self.data.train, 0.0),
            false => (&self.data.valid, 1.0),
        };
        let of_scratch = if self.start.is_some() { self.share_of_scratch() } else { 0.0 };
        self.evaluation_share() * (blended + bytes(report_rows(self.data).0) / bytes(known).max(1.0)) + of_scratch
    }

    fn footing(&self) -> Footing {
        Footing { kept: self.footing.kept + bytes_of(self.rows) + bytes_of(&self.valid_rows), ..self.footing }
    }

    fn afterwards(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_afterwards)
    }

    fn activations(&self) -> usize {
        let body = &self.plan.model.body;
        let per_token = body.numbers_per_token() + 6 * body.d_model();
        self.plan.settings.batch_tokens * per_token
    }
}

/// A run whose steps have ended.
struct Finished<'a> {
    data: &'a TrainingData,
    options: &'a TrainOptions,
    out: &'a Path,
    plan: &'a Plan,
    ended: &'a Ended,
    from_scratch: Option<Scores>,
    stop: &'a AtomicBool,
}

impl Finished<'_> {
    /// Blend, scores, and the folder's files.
    fn write(
        self,
        tokenizer: TextTokenizer,
        model: Classifier,
        origin: Option<Origin>,
        ngrams: Chosen,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome> {
        let Finished { data, options, out, plan, ended, from_scratch, stop } = self;
        let Chosen { model: ngrams, found, seconds: ngram_seconds } = ngrams;
        let (state, interrupted, params) = (&ended.state, ended.interrupted, ended.params().thaw());
        let config = ModelConfig {
            model_type: origin.as_ref().map_or(ModelKind::Classifier.model_type(), Origin::model_type).into(),
            chumoku_version: env!("CARGO_PKG_VERSION").into(),
            labels: data.labels.clone(),
            problem: Problem::OneClass,
            blend: Blend::ATTENTION,
            ngrams: Some(ngrams.scheme().clone()),
            precision: plan.settings.precision,
            caution: None,
            max_tokens: plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens),
            model: plan.model.clone(),
        };
        let mut classifier = TextClassifier { config, model, params, tokenizer, ngrams: Some(ngrams), origin };
        let valid = classifier.predict(&data.valid.texts())?;
        let attention: Vec<Vec<f32>> = valid.iter().map(|p| p.attention.clone()).collect();
        let ngrams: Vec<Vec<f32>> = valid.iter().filter_map(|p| p.ngrams.clone()).collect();
        classifier.config.blend = Blend::fit(&attention, &ngrams, &data.valid.labels);
        if !data.valid.is_empty() {
            let blend = classifier.config.blend;
            let sure = attention.iter().zip(&ngrams).zip(&data.valid.labels).map(|((attention, ngrams), &label)| {
                let p = blend.probabilities(attention, Some(ngrams));
                let class = largest(&p);
                (p[class as usize], class == label)
            });
            let known: Vec<f32> = data.valid.texts().iter().filter_map(|text| classifier.known_share(text)).collect();
            classifier.config.caution = Some(Caution::fit(&sure.collect::<Vec<_>>(), &known));
        }
        // Everything is chosen: the n-grams now learn from the validation rows too. Whoever interrupted the run does not
        // wait for that.
        if !interrupted {
            let refit = |chosen: NgramModel| super::ngrams::refit(data, &chosen, found, stop, observe);
            classifier.ngrams = classifier.ngrams.map(refit).transpose()?;
        }

        let _stage = stages::begin(stages::REPORT);
        let report = super::card::evaluate(&classifier, data, from_scratch, options.seed)?;
        let metrics = super::card::metrics(&classifier, data, options, plan, state, &report, interrupted);
        let card = super::card::model_card(&classifier, data, plan, state, &report, options, interrupted);
        let mut files = classifier.files()?;
        files.push(super::ngrams::seen(data));
        let writing = stages::begin(stages::WRITING);
        write_folder(out, files, &metrics, card)?;
        drop(writing);
        let super::card::Report { whole, parts, from_scratch, advice, .. } = report;
        let majority = &data.labels[most_frequent_class(data)];
        let advice = advice.sentence(network_name(classifier.config.model.body.network()), ngram_seconds, majority);
        Ok(Outcome {
            model: classifier,
            metrics,
            test: whole,
            parts,
            from_scratch,
            advice,
            best: state.best,
            interrupted,
        })
    }
}
