//! What all classifiers share: a network and a linear model of n-grams beside it, trained one after the other.

use super::classifier_network::ClassifierNetwork;
use super::classifier_task::{ClassifierTask, ngram_memory_estimate};
use super::display_names::topic_label;
use super::feature_columns::ColumnBenefit;
use super::memory::ProcessUsage;
use super::ngrams::FittedNgrams;
use super::run::{RunResult, estimated_peak_memory, report_memory, run};
use super::target::ClassifierTarget;
use super::trainable::Trainable;
use super::worker_group::WorkerGroup;
use super::{Blend, Plan, TrainEvent, TrainOptions, TrainState, TrainingData, attention_frames};
use crate::models::Classifier;
use crate::ngram::{NgramConfig, NgramModel, WarmStart};
use crate::prediction_target::PredictionTarget;
use crate::scoring::Rows;
use crate::text_classifier::{ModelConfig, TextClassifier};
use crate::{Error, ModelKind, Result, inference, pair, tr};
use ndarray::Array2;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A predictor whose halves are trained, but not joined.
pub(super) struct TrainedEnsemble {
    pub(super) classifier: TextClassifier,
    pub(super) plan: Plan,
    pub(super) ended: RunResult,
    /// Of the classes, where the caller decides them.
    pub(super) weights: Option<Vec<f32>>,
    /// What the n-gram model is trained again from.
    pub(super) warm_start: WarmStart,
    /// How long the n-grams took.
    pub(super) seconds: f64,
    /// What columns beside the text are worth, if there are any.
    pub(super) column_benefit: Option<ColumnBenefit>,
    /// The model that was trained further, if one was.
    pub(super) base: Option<TextClassifier>,
}

/// What is decided before the halves are trained; the options and the data decide what is absent.
pub(super) struct EnsembleOptions<'a, A> {
    /// The weight of the data against the n-gram model's penalty.
    pub(super) c: Option<f32>,
    /// The network.
    pub(super) network: Option<ClassifierNetwork>,
    /// Training rows that are evaluated after each epoch, where there are no validation rows.
    pub(super) watched: Option<&'a Rows<A>>,
}

impl<A> Default for EnsembleOptions<'_, A> {
    fn default() -> Self {
        EnsembleOptions { c: None, network: None, watched: None }
    }
}

/// Trains both halves: the n-grams first, then the network's run of steps.
pub(super) fn train_members<A: ClassifierTarget>(
    data: &TrainingData<A>,
    problem: PredictionTarget,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    given: EnsembleOptions<'_, A>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedEnsemble> {
    if options.crew.as_ref().is_some_and(WorkerGroup::is_worker) {
        // The n-grams are the leader's.
        return work_on_network(data, given.network, (options, out, stop), observe);
    }
    let base = ProcessUsage::measure().now;
    let weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
    let network = given.network.map_or_else(|| ClassifierNetwork::new(data, options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let mut task = ClassifierTask::new(data, &network, &model)?;
    given.watched.map_or(Ok(()), |rows| task.evaluate_on(rows))?;
    let mut settings = options.set.ngram_config(data);
    if let Some(c) = given.c {
        (settings.c_grid, settings.c_without_validation) = (vec![c], c);
    }
    let settings = &settings;
    task.footing = ngram_memory_estimate(data, super::ngrams::training_memory(data, settings), base);
    report_memory(estimated_peak_memory(&task), observe);
    let mut ngrams = super::ngrams::fit_and_report(data, "baseline", (settings, weights.as_deref()), stop, observe)?;
    if options.from.is_none() && !options.resume {
        super::ngrams_suggestion::suggest_ngrams_only(
            data,
            &ngrams.model,
            (settings, weights.as_deref()),
            stop,
            observe,
        )?;
    }
    // The network needs the memory more.
    ngrams.warm_start.drop_ngrams();
    task.seconds_afterwards = ngrams.seconds;
    task.describe(weights.is_none(), observe);
    if let Some(weights) = &options.class_weights {
        observe(TrainEvent::Message(topic_label("weights"), weights.sentence()));
    }
    let watched = |text: &str| {
        let text = pair::from_line(text, data.reads_pairs()).ok_or_else(|| {
            Error::Setting(tr!(
                "--watch: the rows are pairs of texts: give two, with a tab between them",
                "--watch: 各行は 2 つのテキストの組です。2 つのテキストをタブで区切って指定してください"
            ))
        })?;
        attention_frames::classifier(&model, &network.tokenizer, network.plan.max_tokens(), &text)
    };
    let watch = options.watch.as_deref().map(watched).transpose()?;
    let ended = run(&task, options, watch, out, stop, observe)?;
    drop(task);
    let FittedNgrams { model: ngrams, warm_start: found, seconds, column_benefit: worth } = ngrams;
    let config = ModelConfig {
        model_type: network
            .start
            .as_ref()
            .map_or(ModelKind::Classifier.model_type(), |start| start.origin.model_type())
            .into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        target: problem,
        hierarchy: data.hierarchy.clone(),
        blend: Blend::NETWORK_ONLY,
        ngrams: Some(ngrams.scheme().clone()),
        precision: network.plan.settings.precision,
        abstention: None,
        decision_rule: None,
        max_tokens: network.plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens),
        model: network.plan.model.clone(),
    };
    let ClassifierNetwork { tokenizer, plan, start, before, .. } = network;
    let classifier = TextClassifier {
        config,
        model,
        params: ended.params().unfreeze(),
        tokenizer,
        ngrams: Some(ngrams),
        origin: start.map(|start| start.origin),
        thresholds: None,
    };
    Ok(TrainedEnsemble {
        classifier,
        plan,
        ended,
        weights,
        warm_start: found,
        seconds,
        column_benefit: worth,
        base: before,
    })
}

impl TrainedEnsemble {
    /// The same n-grams beside another network, which takes no steps to train.
    pub(super) fn with_network(
        mut self,
        data: &TrainingData,
        network: ClassifierNetwork,
        seed: u64,
    ) -> Result<TrainedEnsemble> {
        let model = Classifier::new(network.plan.model.clone())?;
        let task = ClassifierTask::new(data, &network, &model)?;
        let mut state = TrainState::new(task.start(seed)?.0);
        state.set_precision(network.plan.settings.precision);
        drop(task);
        self.ended = RunResult { state, interrupted: self.ended.interrupted };
        let ClassifierNetwork { tokenizer, plan, start, .. } = network;
        self.classifier.config.max_tokens = plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens);
        self.classifier.config.model = plan.model.clone();
        (self.classifier.model, self.classifier.tokenizer) = (model, tokenizer);
        self.classifier.params = self.ended.params().unfreeze();
        self.classifier.origin = start.map(|start| start.origin);
        self.plan = plan;
        Ok(self)
    }
}

/// Helps another process with the network's steps.
fn work_on_network<A: ClassifierTarget>(
    data: &TrainingData<A>,
    network: Option<ClassifierNetwork>,
    (options, out, stop): (&TrainOptions, &Path, &AtomicBool),
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedEnsemble> {
    let network = network.map_or_else(|| ClassifierNetwork::new(data, options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = ClassifierTask::new(data, &network, &model)?;
    run(&task, options, None, out, stop, observe).and(Err(Error::WorkerFinished))
}

/// Once all is chosen: the n-grams learn from the validation rows too. Whoever interrupted the run does not wait for that.
pub(super) fn refit_ngrams<A: ClassifierTarget>(
    classifier: &mut TextClassifier,
    data: &TrainingData<A>,
    found: WarmStart,
    settings: (&NgramConfig, Option<&[f32]>),
    (ended, stop): (&RunResult, &AtomicBool),
    observe: &mut dyn FnMut(TrainEvent<'_>),
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
pub(super) fn log_odds<A: ClassifierTarget>(model: &TextClassifier, rows: &Rows<A>) -> Result<[LogOdds; 2]> {
    let texts = rows.texts();
    let tokens = model.tokenizer.encode_all(&texts)?;
    let logits: Array2<f32> = inference::logits(&model.model, &model.params, model.framing(), &tokens)?;
    let attention: LogOdds = logits.rows().into_iter().map(|row| row.to_vec()).collect();
    if attention.iter().flatten().any(|z| z.is_nan()) {
        let problem = tr!(
            "the model gives log-odds that are not numbers: its weights are too large to use",
            "モデルの対数オッズが数値になりません。重みが大きすぎて使えません"
        );
        return Err(Error::NotFinite(problem));
    }
    let labels = model.labels().len();
    let of_ngrams = model.ngrams.as_ref().map(|ngrams| ngrams.logits_batch(&texts)).unwrap_or_default();
    let ngrams = of_ngrams.chunks_exact(labels).map(<[f32]>::to_vec).collect();
    Ok([attention, ngrams])
}
