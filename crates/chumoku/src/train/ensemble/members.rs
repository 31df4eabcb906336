//! Training of the two ensemble members of every classifier: first a linear n-gram model, then a network.

use super::classifier_network::ClassifierNetwork;
use super::classifier_task::{ClassifierTask, ngram_memory_estimate};
use super::feature_columns::ColumnBenefit;
use super::ngrams::FittedNgrams;
use super::target::ClassifierTarget;
use crate::Error;
use crate::ModelKind;
use crate::Result;
use crate::blend::Blend;
use crate::models::Classifier;
use crate::ngram::{NgramConfig, NgramModel, WarmStart};
use crate::parallel_batches;
use crate::prediction::target::PredictionTarget;
use crate::scoring::Rows;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::classifier::TextClassifierConfig;
use crate::tr;
use crate::train::data::training_data::TrainingData;
use crate::train::run_folder::folder_run::{RunResult, run_in_folder};
use crate::train::run_folder::progress::{estimated_peak_memory, report_memory};
use crate::train::run_folder::training::RunContext;
use crate::train::settings::plan::Plan;
use crate::train::training_loop::memory::ProcessUsage;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::train_state::TrainState;
use crate::train::training_loop::trainable::Trainable;
use crate::train::training_loop::weights_observer::ObservedNetwork;
use crate::train::training_loop::worker_group::WorkerGroup;
use ndarray::Array2;
use std::sync::atomic::AtomicBool;

/// An ensemble whose members are trained, but not blended.
pub(crate) struct TrainedEnsemble {
    pub(crate) classifier: TextClassifier,
    pub(crate) plan: Plan,
    pub(crate) ended: RunResult,
    /// The class weights, if the caller set them.
    pub(crate) weights: Option<Vec<f32>>,
    /// The starting point for refitting the n-gram model.
    pub(crate) warm_start: WarmStart,
    /// The time taken by the n-gram model, in seconds.
    pub(crate) seconds: f64,
    /// The benefit of feature columns, if there are any.
    pub(crate) column_benefit: Option<ColumnBenefit>,
    /// The base model, in continued training.
    pub(crate) base: Option<TextClassifier>,
}

/// Choices made before the members are trained. Absent ones follow from the options and the data.
pub(crate) struct EnsembleOptions<'a, A> {
    /// The weight of the data against the n-gram model's penalty.
    pub(crate) c: Option<f32>,
    /// The network.
    pub(crate) network: Option<ClassifierNetwork>,
    /// Training rows to evaluate after each epoch, if there are no validation rows.
    pub(crate) evaluation_rows: Option<&'a Rows<A>>,
}

impl<A> Default for EnsembleOptions<'_, A> {
    fn default() -> Self {
        EnsembleOptions { c: None, network: None, evaluation_rows: None }
    }
}

/// Trains both members: first the n-gram model, then the network.
pub(crate) fn train_members<A: ClassifierTarget>(
    data: &TrainingData<A>,
    problem: PredictionTarget,
    context: RunContext<'_>,
    given: EnsembleOptions<'_, A>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedEnsemble> {
    let RunContext { options, stop, .. } = context;
    if options.worker_group.as_ref().is_some_and(WorkerGroup::is_worker) {
        // Only the coordinator trains the n-gram model.
        return work_on_network(data, given.network, context, observe);
    }
    let base = ProcessUsage::measure().current;
    let weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
    let network = given.network.map_or_else(|| ClassifierNetwork::new(data, options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let mut task = ClassifierTask::new(data, &network, &model)?;
    given.evaluation_rows.map_or(Ok(()), |rows| task.evaluate_on(rows))?;
    let mut settings = options.overrides.ngram_config(data);
    if let Some(c) = given.c {
        (settings.c_grid, settings.c_without_validation) = (vec![c], c);
    }
    let settings = &settings;
    task.memory_estimate = ngram_memory_estimate(data, super::ngrams::training_memory(data, settings), base);
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
    // Frees memory for the network.
    ngrams.warm_start.drop_ngrams();
    task.seconds_after_steps = ngrams.seconds;
    task.describe(weights.is_none(), observe);
    if let Some(weights) = &options.class_weights {
        observe(TrainEvent::Message(topic_label("weights"), weights.sentence()));
    }
    let watch = options.observer_of(ObservedNetwork::Classifier {
        model: &model,
        tokenizer: &network.tokenizer,
        max_tokens: network.plan.max_tokens(),
        reads_pairs: data.reads_pairs(),
    })?;
    let ended = run_in_folder(&task, context, watch, observe)?;
    drop(task);
    let FittedNgrams { model: ngrams, warm_start: found, seconds, column_benefit: worth } = ngrams;
    let config = TextClassifierConfig {
        model_type: network
            .encoder
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
    let ClassifierNetwork { tokenizer, plan, encoder: start, base: before, .. } = network;
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
    /// Replaces the network by one that needs no gradient steps. The n-gram model stays.
    pub(crate) fn with_network(
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
        let ClassifierNetwork { tokenizer, plan, encoder: start, .. } = network;
        self.classifier.config.max_tokens = plan.fine_tuning.as_ref().map(|fine_tuning| fine_tuning.max_tokens);
        self.classifier.config.model = plan.model.clone();
        (self.classifier.model, self.classifier.tokenizer) = (model, tokenizer);
        self.classifier.params = self.ended.params().unfreeze();
        self.classifier.origin = start.map(|start| start.origin);
        self.plan = plan;
        Ok(self)
    }
}

/// Computes gradients for a coordinator.
fn work_on_network<A: ClassifierTarget>(
    data: &TrainingData<A>,
    network: Option<ClassifierNetwork>,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<TrainedEnsemble> {
    let network = network.map_or_else(|| ClassifierNetwork::new(data, context.options), Ok)?;
    let model = Classifier::new(network.plan.model.clone())?;
    let task = ClassifierTask::new(data, &network, &model)?;
    run_in_folder(&task, context, None, observe).and(Err(Error::WorkerFinished))
}

/// Refits the n-gram model with the validation rows. Skipped if training was interrupted.
pub(crate) fn refit_ngrams<A: ClassifierTarget>(
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

/// The log-odds of each row's labels.
pub(crate) type LogOdds = Vec<Vec<f32>>;

/// Returns the log-odds of both members.
pub(crate) fn log_odds<A: ClassifierTarget>(model: &TextClassifier, rows: &Rows<A>) -> Result<[LogOdds; 2]> {
    let texts = rows.texts();
    let tokens = model.tokenizer.encode_all(&texts)?;
    let logits: Array2<f32> = parallel_batches::logits(&model.model, &model.params, model.input_template(), &tokens)?;
    let network: LogOdds = logits.rows().into_iter().map(|row| row.to_vec()).collect();
    if network.iter().flatten().any(|z| z.is_nan()) {
        let problem = tr!(
            "the log-odds of the model are not finite: its weights are too large",
            "モデルの対数オッズが有限の値になりません。重みが大きすぎます"
        );
        return Err(Error::NotFinite(problem));
    }
    let labels = model.labels().len();
    let of_ngrams = model.ngrams.as_ref().map(|ngrams| ngrams.logits_batch(&texts)).unwrap_or_default();
    let ngrams = of_ngrams.chunks_exact(labels).map(<[f32]>::to_vec).collect();
    Ok([network, ngrams])
}
