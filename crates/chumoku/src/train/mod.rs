//! Training: from rows of text to a model folder. Start with `run`, the training loop that all tasks share.
//!
//! # Files
//!
//! - `base_model`: the base model of continued training
//! - `batches`: batches of similar lengths
//! - `card`: report, `metrics.json` and model card
//! - `checkpoint`: checkpoints on disk
//! - `class_weights`: weights of classes
//! - `classifier_network`: tokenizer, plan and start of a network
//! - `classifier_task`: the `Trainable` of a classifier
//! - `classify`: training a classifier of one class
//! - `comparison`: an old and a new model on the same rows
//! - `continued_training`: old and new rows, weights to start from
//! - `cross_validation`: the same training once per fold
//! - `data_source`: training files, as a folder remembers them
//! - `display_names`: names of things in both languages
//! - `ensemble`: ensemble members: network and n-gram model
//! - `feature_columns`: feature columns in training, and their benefit
//! - `finished_report`: the end of every report
//! - `folder_run`: a run in a folder: start, resume, checkpoints
//! - `folds`: folds for cross-validation
//! - `hierarchy_report`: report by level of a tree
//! - `label_leaks`: columns that contain the label
//! - `labels`: training for several labels
//! - `language_model`: training a language model
//! - `learning_log`: losses and evaluations, read from the log
//! - `lock`: one run in a folder
//! - `logistic`: multinomial logistic regression on dense vectors
//! - `logistic_targets`: the pipeline for labels and numbers
//! - `masked_language_model`: pretraining an encoder
//! - `memory`: estimate of peak memory
//! - `micro_batches`: micro-batches and their gradients
//! - `model_changes`: metrics before and after continued training
//! - `multi_label_fit`: blend of several labels
//! - `ngram_folds`: penalty of the n-gram model by cross-validation
//! - `ngrams`: training the n-gram model
//! - `ngrams_suggestion`: the suggestion to stop at the n-grams
//! - `number`: training for numbers
//! - `options`: options of the caller
//! - `output_folder`: the output folder of a run
//! - `plan`: all settings, chosen from the data
//! - `progress`: progress, log and estimates of a run
//! - `random_streams`: the random streams of a run
//! - `recorded_accuracies`: accuracies on record
//! - `replay`: old rows in continued training
//! - `replay_target`: task-specific parts of continued training
//! - `row_weights`: weights of rows
//! - `run`: the training loop
//! - `run_identity`: run identity, and differences between runs
//! - `run_log`: the log of a run
//! - `run_time`: estimate of the remaining time
//! - `schedule`: the learning rate
//! - `training_texts`: hashes of training texts
//! - `setting_overrides`: settings by name
//! - `small_data`: choices by cross-validation when rows are few
//! - `strongest_ngrams`: strongest n-grams of each class
//! - `tag`: training a tagger; its parts are in `tag/`
//! - `target`: prediction targets
//! - `text_cards`: model cards of translators, autoencoders and language models
//! - `text_scores`: scores of translators and language models
//! - `token_windows`: windows of documents
//! - `train_event`: progress events
//! - `train_state`: AdamW, averaged and best weights
//! - `trainable`: the trait of a trainable task
//! - `training`: inputs and end of a run
//! - `training_data`: training, validation and test rows
//! - `translator`: training a translator or an autoencoder
//! - `tune`: search for settings
//! - `tuning_report`: results of a search
//! - `weights_observer`: observers of the weights of a run
//! - `worker_group`: coordinator and workers of a shared run

mod base_model;
mod batches;
mod card;
mod checkpoint;
mod class_weights;
mod classifier_network;
mod classifier_task;
mod classify;
mod comparison;
mod continued_training;
mod cross_validation;
mod data_source;
mod display_names;
mod ensemble;
mod feature_columns;
mod finished_report;
mod folder_run;
pub(crate) mod folds;
mod hierarchy_report;
mod label_leaks;
mod labels;
mod language_model;
mod learning_log;
mod lock;
mod logistic;
mod logistic_targets;
mod masked_language_model;
mod memory;
mod micro_batches;
mod model_changes;
mod multi_label_fit;
mod ngram_folds;
mod ngrams;
mod ngrams_suggestion;
mod number;
mod options;
mod output_folder;
mod plan;
mod progress;
mod random_streams;
mod recorded_accuracies;
mod replay;
mod replay_target;
mod row_weights;
mod run;
mod run_identity;
mod run_log;
mod run_time;
mod schedule;
mod setting_overrides;
mod small_data;
mod strongest_ngrams;
mod tag;
mod target;
mod text_cards;
mod text_scores;
mod token_windows;
mod train_event;
mod train_state;
mod trainable;
mod training;
mod training_data;
mod training_texts;
mod translator;
mod tune;
mod tuning_report;
mod weights_observer;
mod worker_group;

pub use crate::blend::Blend;
pub(crate) use crate::scoring::accuracy_and_macro_f1;
pub use crate::scoring::{
    ClassScore, ConfidenceScores, LabelLevel, LabelScore, LabelScores, LevelScore, NumberScores, PredictedRows, Rows,
    Scores, SpanScore, SpanScores, TreeLevel, TreeScores, format_value, ngrams_at_chance_note,
};
pub use base_model::{BaseModel, PredictionKind};
pub(crate) use batches::batches;
pub(crate) use card::network_correctness;
pub use class_weights::ClassWeights;
pub use classify::train;
pub use comparison::ModelComparison;
pub(crate) use comparison::{NEW_TEST, NEW_VALID, OLD_TEST, OLD_VALID};
pub use comparison::{format_figure, format_gain, rows_name};
pub use continued_training::SourceData;
pub use data_source::DataSource;
pub use display_names::{network_name, network_sizes};
pub use labels::{train_labels, train_ngram_labels};
pub use language_model::{LanguageModelOutcome, train_language_model};
pub use learning_log::{LogRecord, LoggedEvaluation, load_learning_log};
pub use masked_language_model::{FillExample, MaskedOutcome, pretrain};
pub use micro_batches::{MAX_MICRO_BATCHES, MicroBatchGradients, StepOutput, default_micro_batches};
pub use ngrams::train_ngram_classifier;
pub use number::{train_ngram_number, train_number};
pub use options::TrainOptions;
pub use output_folder::OutputFolder;
pub(crate) use plan::FineTuning;
pub use plan::{DataShape, Freeze, Plan, TrainSettings};
pub use replay::ReplayData;
pub use replay_target::ReplayTarget;
pub use row_weights::row_weights;
pub use setting_overrides::{Setting, SettingOverrides};
pub use small_data::choice_sentence;
pub use tag::{ContinuedTaggerData, TaggerData, TaggerOutcome, train_tagger};
pub use text_scores::{LanguageScores, MaskedScores, TranslationScores};
pub use train_event::TrainEvent;
pub use train_state::{BestEvaluation, TrainState};
pub use trainable::Metric;
pub use training::{TrainOutcome, Training};
pub use training_data::{ContinuedData, TrainingData};
pub use training_texts::TrainingTexts;
pub use translator::{AutoencoderOutcome, TranslatorOutcome, train_autoencoder, train_translator};
pub use tune::{TuneBudget, check_tune, tune, tune_ngrams};
pub use tuning_report::{TrialRow, best_trials, gain_sentences};
pub(crate) use weights_observer::LogWeights;
pub use weights_observer::{ObservedNetwork, WeightsObserver};
pub use worker_group::{
    BatchPosition, Coordinator, GradientTerms, TrainMicroBatch, Worker, WorkerGroup, combine_gradients,
};
