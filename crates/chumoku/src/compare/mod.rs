//! Compares a transformer with recurrent networks of its size on the same data: accuracy, and the time of a training
//! step by sequence length.
//!
//! [`crate::train::train`] trains all of them with one plan, seed and split; only the network differs. Scores are those
//! of the network alone, without the n-gram model. A transformer with learned positions is compared as well as one with
//! sinusoidal positions.
//!
//! # Files
//!
//! - `article`: two small classifiers of an article
//! - `claims`: claims that the measurements decide
//! - `limits`: three limits of recurrent networks
//! - `median_interval`: confidence intervals of medians
//! - `step_time`: step times by length

/// A sentence in both languages from format strings.
macro_rules! localized {
    ($en:literal, $ja:literal $(,)?) => {
        crate::compare::LocalizedText { en: format!($en), ja: format!($ja) }
    };
}

mod article;
mod claims;
mod limits;
mod median_interval;
mod step_time;

pub use article::ArticleResults;
pub use claims::{Claim, LocalizedText, Verdict};
pub use limits::{GradientByDistance, RecurrentLimits};
pub use median_interval::MedianInterval;
pub use step_time::{StepTime, TimeGrowth};

use crate::count::CountConfig;
use crate::lang::Lang;
use crate::models::ClassifierConfig;
use crate::nn::{BackboneKind, PositionKind};
use crate::output::WorkFolder;
use crate::train::{
    Scores, TrainEvent, TrainOptions, Training, TrainingData, network_correctness, network_sizes, train,
};
use crate::{Result, tr};
use chumoku_kernels::RecurrentCell;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sequence lengths, in tokens, at which training steps are timed.
pub const LENGTHS: [usize; 6] = [32, 64, 128, 256, 512, 1024];

/// Sequences per timed step.
pub(crate) const BATCH: usize = 32;

/// Shortest length, in tokens, for fitting the growth of a recurrent network's time. The fixed cost of a step distorts
/// shorter ones.
const MIN_RECURRENT_LENGTH: usize = 128;

/// The compared networks, in the order of the report.
const COMPARED_NETWORKS: [(BackboneKind, PositionKind); 5] = [
    (BackboneKind::Transformer, PositionKind::Sinusoidal),
    (BackboneKind::Transformer, PositionKind::Learned),
    (BackboneKind::Recurrent(RecurrentCell::Rnn), PositionKind::None),
    (BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None),
    (BackboneKind::Recurrent(RecurrentCell::Gru), PositionKind::None),
];

/// A compared network and its figures.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedNetwork {
    /// The network.
    pub network: BackboneKind,
    /// Its positional encoding.
    pub position: PositionKind,
    /// A short description of its sizes.
    pub sizes: LocalizedText,
    /// Width of the embeddings.
    pub width: usize,
    /// Number of trainable parameters.
    pub parameters: usize,
    /// Accuracy of the network alone on the scored rows.
    pub accuracy: f64,
    /// Its macro-F1.
    pub macro_f1: f64,
    /// The middle 95 % of resampled macro-F1.
    pub macro_f1_interval: [f64; 2],
    /// Epochs trained until early stopping.
    pub epochs: u64,
    /// Training time in seconds.
    pub training_seconds: f64,
    /// Times of a training step, by length.
    pub steps: Vec<StepTime>,
    /// Fitted growth of the step time: from its width on for a transformer, from 128 tokens on for a recurrent network.
    /// `None` for fewer than three such lengths.
    pub growth: Option<TimeGrowth>,
    /// For each scored row, whether the network alone predicts it correctly.
    #[serde(skip)]
    pub is_right: Vec<bool>,
}

impl ComparedNetwork {
    /// Returns the name for tables, in the language of the process.
    pub fn name(&self) -> String {
        match self.position {
            PositionKind::Learned => tr!("{}, learned positions", "{}、学習された位置", self.network.display_name()),
            _ => self.network.display_name().to_owned(),
        }
    }

    /// Returns the median milliseconds of a step at `length`, if it was timed.
    pub fn milliseconds(&self, length: usize) -> Option<f64> {
        self.steps.iter().find(|step| step.length == length).map(|step| step.median_ms)
    }
}

/// The results of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkComparison {
    /// The models.
    pub models: Vec<ComparedNetwork>,
    /// Sequences in a timed step.
    pub batch: usize,
    /// Number of scored rows.
    pub rows: usize,
    /// The scored part: `test`, `valid` or `train`.
    pub scored_on: String,
    /// The seed of all runs.
    pub seed: u64,
    /// Precision of matrix products.
    pub precision: &'static str,
    /// The instruction set in use.
    pub isa: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// Results for the article's own two models.
    pub article: ArticleResults,
    /// Limits of recurrent networks.
    pub limits: RecurrentLimits,
    /// Claims about self-attention and recurrent networks, checked against these figures.
    pub claims: Vec<Claim>,
}

/// Progress events of a comparison.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompareEvent<'a> {
    /// A model's training begins.
    Training(String),
    /// An event of that training run.
    Event(TrainEvent<'a>),
    /// A sweep of timed steps begins: its number and the total.
    Timing([usize; 2]),
    /// Expected time of the sweeps that are left, from that of the first.
    TimingEstimated(Duration),
}

/// Trains and times all models.
///
/// `options` gives seed, epochs and precision. Checkpoints go to a temporary folder inside `parent`, which is removed
/// at the end. A folder left behind by a killed process is removed first.
///
/// # Errors
/// If `parent` cannot be written to, or a model cannot be trained; see [`train`].
pub fn compare(
    data: &TrainingData,
    options: &TrainOptions,
    parent: &Path,
    observe: &mut dyn FnMut(CompareEvent<'_>),
) -> Result<NetworkComparison> {
    let (mut models, mut configs) = (Vec::new(), Vec::new());
    let (mut rows, mut scored_on) = (0, String::new());
    for (network, position) in COMPARED_NETWORKS {
        let options = TrainOptions { network, position, resume: false, ..options.clone() };
        let folder = WorkFolder::create(parent).map_err(crate::Error::write("creating a folder in", parent))?;
        let subject = ComparedNetwork {
            network,
            position,
            sizes: LocalizedText::default(),
            width: 0,
            parameters: 0,
            accuracy: 0.0,
            macro_f1: 0.0,
            macro_f1_interval: [0.0; 2],
            epochs: 0,
            training_seconds: 0.0,
            steps: Vec::new(),
            growth: None,
            is_right: Vec::new(),
        };
        observe(CompareEvent::Training(subject.name()));
        let start = Instant::now();
        let outcome = train(
            data,
            Training {
                options,
                observe: Box::new(|event| observe(CompareEvent::Event(event))),
                ..Training::new(folder.path())
            },
        )?;
        let config: ClassifierConfig = outcome.model.config().model.clone();
        let Scores { accuracy, macro_f1, macro_f1_interval, rows: scored, .. } = outcome.parts[0].1.clone();
        (rows, scored_on) = (scored, outcome.metrics["scored_on"].as_str().unwrap_or_default().to_owned());
        models.push(ComparedNetwork {
            sizes: LocalizedText {
                en: network_sizes(&config.backbone, Lang::En),
                ja: network_sizes(&config.backbone, Lang::Ja),
            },
            width: config.backbone.d_model(),
            is_right: network_correctness(&outcome.model, data)?,
            parameters: outcome.model.num_parameters(),
            accuracy,
            macro_f1,
            macro_f1_interval,
            epochs: outcome.metrics["epochs"].as_u64().unwrap_or(0),
            training_seconds: start.elapsed().as_secs_f64(),
            ..subject
        });
        configs.push(config);
    }
    let steps = step_time::time_steps(&configs, options, &LENGTHS, observe)?;
    for ((model, config), steps) in models.iter_mut().zip(&configs).zip(steps) {
        let shortest = if model.network == BackboneKind::Transformer { model.width } else { MIN_RECURRENT_LENGTH };
        model.growth = TimeGrowth::fit(&steps, &CountConfig::for_classifier(config), shortest)?;
        model.steps = steps;
    }
    let article = article::measure_article(options.precision)?;
    let limits = limits::measure_limits()?;
    let mut claims = claims::check_claims(&models, &article, &scored_on);
    claims.extend(limits.check_claims());
    Ok(NetworkComparison {
        claims,
        models,
        article,
        limits,
        batch: BATCH,
        rows,
        scored_on,
        seed: options.seed,
        precision: options.precision.name(),
        isa: chumoku_kernels::active_isa().name(),
        threads: chumoku_kernels::num_threads(),
    })
}
