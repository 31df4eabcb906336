//! Training: from rows of text to a model folder. Start with `training_loop/run`, the training loop of every task.
//!
//! # Files
//!
//! The folders are listed from the bottom up. Except in tests, a folder imports nothing from those after it.
//!
//! - `data`: rows of texts with their answers, in three parts, and the files that they come from
//! - `training_loop`: the training loop that all tasks share, and what it asks of a task
//! - `settings`: the plan, chosen from the data, and the options of the caller
//! - `run_folder`: runs in a folder: start, resume, log, checkpoints, the finished model
//! - `continued_training`: a base model, old and new rows, and the comparison of two models
//! - `reports`: scores, figures and model cards of finished runs
//! - `ensemble`: a classifier's network and n-gram model, and the choices between them
//! - `tasks`: the training functions of each task
//! - `tune`: search for settings

mod continued_training;
mod data;
mod ensemble;
mod reports;
mod run_folder;
mod settings;
mod tasks;
mod training_loop;
mod tune;

pub use crate::blend::Blend;
pub use crate::scoring::{
    ClassScore, ConfidenceScores, LabelLevel, LabelScore, LabelScores, LevelScore, NumberScores, PredictedRows, Rows,
    Scores, SpanScore, SpanScores, TreeLevel, TreeScores, format_value, ngrams_at_chance_note,
};
pub use continued_training::base_model::{BaseModel, PredictionKind};
pub use continued_training::combined_rows::SourceData;
pub use continued_training::comparison::{ModelComparison, format_figure, format_gain, rows_name};
pub use continued_training::replay::ReplayData;
pub use continued_training::replay_target::ReplayTarget;
pub use data::data_source::DataSource;
pub(crate) use data::folds::assign_folds;
pub use data::row_weights::row_weights;
pub use data::training_data::{ContinuedData, TrainingData};
pub use data::training_texts::TrainingTexts;
pub use ensemble::ngrams::train_ngram_classifier;
pub use ensemble::small_data::choice_sentence;
pub(crate) use reports::card::network_correctness;
pub use reports::display_names::{network_name, network_sizes};
pub use reports::text_scores::{LanguageScores, MaskedScores, TranslationScores};
pub use reports::tuning_report::{TrialRow, best_trials, gain_sentences};
pub use run_folder::learning_log::{LogRecord, LoggedEvaluation, load_learning_log};
pub use run_folder::output_folder::OutputFolder;
pub use run_folder::training::{TrainOutcome, Training};
pub use settings::class_weights::ClassWeights;
pub use settings::options::TrainOptions;
pub use settings::plan::{DataShape, Freeze, Plan};
pub use settings::setting_overrides::{Setting, SettingOverrides};
pub use tasks::classify::train;
pub use tasks::labels::{train_labels, train_ngram_labels};
pub use tasks::language_model::{LanguageModelOutcome, train_language_model};
pub use tasks::masked_language_model::{FillExample, MaskedOutcome, pretrain};
pub use tasks::number::{train_ngram_number, train_number};
pub use tasks::tag::{ContinuedTaggerData, TaggerData, TaggerOutcome, train_tagger};
pub use tasks::translator::{AutoencoderOutcome, TranslatorOutcome, train_autoencoder, train_translator};
pub use training_loop::micro_batches::{MAX_MICRO_BATCHES, MicroBatchGradients, StepOutput, default_micro_batches};
pub use training_loop::train_event::TrainEvent;
pub use training_loop::train_settings::TrainSettings;
pub use training_loop::train_state::{BestEvaluation, TrainState};
pub use training_loop::trainable::Metric;
pub(crate) use training_loop::weights_observer::LogWeights;
pub use training_loop::weights_observer::{ObservedNetwork, WeightsObserver};
pub use training_loop::worker_group::{
    BatchPosition, Coordinator, GradientTerms, TrainMicroBatch, Worker, WorkerGroup, combine_gradients,
};
pub use tune::{TuneBudget, check_tune, tune, tune_ngrams};
