//! What all classifiers share: a network and a linear model of n-grams beside it, trained one after the other.

use super::beside::Worth;
use super::classifier_task::{Classify, ngram_footing};
use super::crew::Crew;
use super::memory::Held;
use super::names::label;
use super::network::Network;
use super::ngrams::Chosen;
use super::run::{Ended, memory_of, run, tell_memory};
use super::target::Target;
use super::trainable::Trainable;
use super::{Blend, Event, Plan, State, TrainOptions, TrainingData, watch};
use crate::models::Classifier;
use crate::ngram::{NgramConfig, NgramModel, WarmStart};
use crate::problem::Problem;
use crate::scoring::Rows;
use crate::text_classifier::{ModelConfig, TextClassifier};
use crate::{Error, ModelKind, Result, inference, pair, tr};
use ndarray::Array2;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A predictor whose halves are trained, but not joined.
pub(super) struct Whole {
    pub(super) classifier: TextClassifier,
    pub(super) plan: Plan,
    pub(super) ended: Ended,
    /// Of the classes, where the caller decides them.
    pub(super) weights: Option<Vec<f32>>,
    /// What the n-gram model is trained again from.
    pub(super) found: WarmStart,
    /// How long the n-grams took.
    pub(super) seconds: f64,
    /// What columns beside the text are worth, if there are any.
    pub(super) worth: Option<Worth>,
    /// The model that was trained further, if one was.
    pub(super) before: Option<TextClassifier>,
}

/// What is decided before the halves are trained; the options and the data decide what is absent.
pub(super) struct Given<'a, A> {
    /// The weight of the data against the n-gram model's penalty.
    pub(super) c: Option<f32>,
    /// The network.
    pub(super) network: Option<Network>,
    /// Training rows that are evaluated after each epoch, where there are no validation rows.
    pub(super) watched: Option<&'a Rows<A>>,
}

impl<A> Default for Given<'_, A> {
    fn default() -> Self {
        Given { c: None, network: None, watched: None }
    }
}

/// Trains both halves: the n-grams first, then the network's run of steps.
pub(super) fn train<A: Target>(
    data: &TrainingData<A>,
    problem: Problem,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    given: Given<'_, A>,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Whole> {
    if options.crew.as_ref().is_some_and(Crew::is_helper) {
        // The n-grams are the leader's.
        return help(data, given.network, (options, out, stop), observe);
    }
    let base = Held::measure().now;
    let weights = options.class_weights.as_ref().map(|weights| weights.of(data)).transpose()?;
    let network = given.network.map_or_else(|| Network::new(data, options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let mut task = Classify::new(data, &network, &model)?;
    given.watched.map_or(Ok(()), |rows| task.watch(rows))?;
    let mut settings = options.set.ngrams(data);
    if let Some(c) = given.c {
        (settings.c_grid, settings.c_without_validation) = (vec![c], c);
    }
    let settings = &settings;
    task.footing = ngram_footing(data, super::ngrams::memory_of(data, settings), base);
    tell_memory(memory_of(&task), observe);
    let mut ngrams = super::ngrams::fit(data, "baseline", (settings, weights.as_deref()), stop, observe)?;
    if options.from.is_none() && !options.resume {
        super::offer::offer_to_stop(data, &ngrams.model, (settings, weights.as_deref()), stop, observe)?;
    }
    // The network needs the memory more.
    ngrams.found.forget_texts();
    task.seconds_afterwards = ngrams.seconds;
    task.describe(weights.is_none(), observe);
    if let Some(weights) = &options.class_weights {
        observe(Event::Said(label("weights"), weights.said()));
    }
    let watched = |text: &str| {
        let text = pair::of_line(text, data.reads_pairs()).ok_or_else(|| {
            Error::Setting(tr!(
                "--watch: the rows are pairs of texts: give two, with a tab between them",
                "--watch: 各行は 2 つのテキストの組です。2 つのテキストをタブで区切って指定してください"
            ))
        })?;
        watch::classifier(&model, &network.tokenizer, network.plan.max_tokens(), &text)
    };
    let watch = options.watch.as_deref().map(watched).transpose()?;
    let ended = run(&task, options, watch, out, stop, observe)?;
    drop(task);
    let Chosen { model: ngrams, found, seconds, worth } = ngrams;
    let config = ModelConfig {
        model_type: network
            .start
            .as_ref()
            .map_or(ModelKind::Classifier.model_type(), |start| start.origin.model_type())
            .into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        problem,
        hierarchy: data.hierarchy.clone(),
        blend: Blend::ATTENTION,
        ngrams: Some(ngrams.scheme().clone()),
        precision: network.plan.settings.precision,
        caution: None,
        decision: None,
        max_tokens: network.plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens),
        model: network.plan.model.clone(),
    };
    let Network { tokenizer, plan, start, before, .. } = network;
    let classifier = TextClassifier {
        config,
        model,
        params: ended.params().thaw(),
        tokenizer,
        ngrams: Some(ngrams),
        origin: start.map(|start| start.origin),
        thresholds: None,
    };
    Ok(Whole { classifier, plan, ended, weights, found, seconds, worth, before })
}

impl Whole {
    /// The same n-grams beside another network, which takes no steps to train.
    pub(super) fn with_network(mut self, data: &TrainingData, network: Network, seed: u64) -> Result<Whole> {
        let model = Classifier::new(network.plan.model.clone())?;
        let task = Classify::new(data, &network, &model)?;
        let mut state = State::new(task.start(seed)?.0);
        state.set_precision(network.plan.settings.precision);
        drop(task);
        self.ended = Ended { state, interrupted: self.ended.interrupted };
        let Network { tokenizer, plan, start, .. } = network;
        self.classifier.config.max_tokens = plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens);
        self.classifier.config.model = plan.model.clone();
        (self.classifier.model, self.classifier.tokenizer) = (model, tokenizer);
        self.classifier.params = self.ended.params().thaw();
        self.classifier.origin = start.map(|start| start.origin);
        self.plan = plan;
        Ok(self)
    }
}

/// Helps another process with the network's steps.
fn help<A: Target>(
    data: &TrainingData<A>,
    network: Option<Network>,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Whole> {
    let network = network.map_or_else(|| Network::new(data, options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = Classify::new(data, &network, &model)?;
    run(&task, options, None, out, stop, observe).and(Err(Error::Helped))
}

/// Once all is chosen: the n-grams learn from the validation rows too. Whoever interrupted the run does not wait for that.
pub(super) fn refit<A: Target>(
    classifier: &mut TextClassifier,
    data: &TrainingData<A>,
    found: WarmStart,
    settings: (&NgramConfig, Option<&[f32]>),
    (ended, stop): (&Ended, &AtomicBool),
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    if let (Some(chosen), false) = (&classifier.ngrams, ended.interrupted) {
        let again: NgramModel = super::ngrams::refit(data, (chosen, None), found, settings, stop, observe)?;
        classifier.ngrams = Some(again);
    }
    Ok(())
}

/// Log-odds of each row's labels.
pub(super) type LogOdds = Vec<Vec<f32>>;

/// The log-odds of both halves.
pub(super) fn log_odds<A: Target>(model: &TextClassifier, rows: &Rows<A>) -> Result<[LogOdds; 2]> {
    let texts = rows.texts();
    let tokens = model.tokenizer.encode_all(&texts)?;
    let logits: Array2<f32> = inference::logits(&model.model, &model.params, model.framed(), &tokens)?;
    let attention: LogOdds = logits.rows().into_iter().map(|row| row.to_vec()).collect();
    if attention.iter().flatten().any(|z| z.is_nan()) {
        let problem = tr!(
            "the model gives log-odds that are not numbers: its weights are too large to use",
            "モデルの対数オッズが数値になりません。重みが大きすぎて使えません"
        );
        return Err(Error::NotFinite(problem));
    }
    let labels = model.labels().len();
    let of_ngrams = model.ngrams.as_ref().map(|ngrams| ngrams.logits_of(&texts)).unwrap_or_default();
    let ngrams = of_ngrams.chunks_exact(labels).map(<[f32]>::to_vec).collect();
    Ok([attention, ngrams])
}
