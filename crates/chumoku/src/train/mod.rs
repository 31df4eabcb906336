//! Training: from rows of text to a model folder. `run` is what all tasks share.
//!
//! # Files
//!
//! - `adjust`: settings by name
//! - `batches`: batches of similar lengths
//! - `beside`: feature columns in training, and their benefit
//! - `card`: report, `metrics.json` and model card
//! - `changes`: rows before and after continued training
//! - `checkpoint`: checkpoints on disk
//! - `class_weights`: weights of classes
//! - `classifier_task`: the `Trainable` of a classifier
//! - `classify`: training a classifier of one class
//! - `comparison`: an old and a new model on the same rows
//! - `crew`: coordinator and workers of a shared run
//! - `few_rows`: choices by cross-validation when rows are few
//! - `folder`: the output folder of a run
//! - `folds`: cross-validation
//! - `further`: continued training
//! - `halves`: ensemble members: network and n-gram model
//! - `identity`: run identity, and differences between runs
//! - `joined_labels`: blend of several labels
//! - `known`: the base model of continued training
//! - `labels`: training for several labels
//! - `language`: training a language model
//! - `leak`: columns that contain the label
//! - `levels`: report by level of a tree
//! - `lock`: one run in a folder
//! - `masked`: pretraining an encoder
//! - `memory`: estimate of peak memory
//! - `names`: names of things in both languages
//! - `network`: tokenizer, plan and start of a network
//! - `ngram_answers`: n-gram models for labels and numbers
//! - `ngram_folds`: penalty of the n-gram model by cross-validation
//! - `ngrams`: training the n-gram model
//! - `number`: training for numbers
//! - `offer`: the suggestion to stop at the n-grams
//! - `options`: options of the caller
//! - `pace`: estimate of the remaining time
//! - `parts`: micro-batches and their gradients
//! - `plan`: all settings, chosen from the data
//! - `prepare`: training, validation and test rows
//! - `recorded`: accuracies on record
//! - `rehearsal`: old rows in continued training
//! - `rehearsed`: task-specific parts of continued training
//! - `row_weights`: weights of rows
//! - `run`: the training loop: start here
//! - `schedule`: the learning rate
//! - `seen`: hashes of training texts
//! - `source`: training files, as a folder remembers them
//! - `state`: AdamW, averaged and best weights
//! - `strongest`: strongest n-grams of each class
//! - `tag`: training a tagger; its parts are in `tag/`
//! - `target`: prediction targets
//! - `text_cards`: model cards of translators and language models
//! - `text_scores`: scores of translators and language models
//! - `trainable`: the trait of a trainable task
//! - `training`: inputs and end of a run
//! - `translate`: training a translator
//! - `tune`: search for settings
//! - `tuned`: results of a search
//! - `watch`: recorded attention for a film

mod attention_frames;
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
mod hierarchy_report;
mod label_blend_fit;
mod label_leaks;
mod labels;
mod language_model;
mod lock;
mod masked_language_model;
mod memory;
mod micro_batches;
mod model_changes;
mod ngram_folds;
mod ngram_targets;
mod ngrams;
mod ngrams_suggestion;
mod number;
mod options;
mod output_folder;
mod plan;
mod recorded_accuracies;
mod replay;
mod replay_target;
mod row_weights;
mod run;
mod run_identity;
mod run_time;
mod schedule;
mod seen_texts;
mod setting_overrides;
mod small_data;
mod strongest_ngrams;
mod tag;
mod target;
mod text_cards;
mod text_scores;
mod train_state;
mod trainable;
mod training;
mod training_data;
mod translator;
mod tune;
mod tuning_report;
mod worker_group;

pub use crate::blend::Blend;
pub use crate::model_folder::has_checkpoint;
pub use crate::scoring::{
    Advice, ClassScore, Gain, Judged, LabelLevel, LabelScore, LabelScores, LevelScore, NumberScores, Predictor, Rows,
    Scores, SpanScore, SpanScores, Sureness, TreeLevel, TreeScores, figure, quick_scores,
};
pub use base_model::{BaseModel, PredictionKind};
pub use batches::batches;
pub(crate) use card::network_correctness;
pub use class_weights::ClassWeights;
pub use classify::{ClassifierOutcome, train};
pub use comparison::{
    Figures, ModelChange, ModelComparison, NEW_TEST, NEW_VALID, OLD_TEST, OLD_VALID, format_figure, format_gain,
    rows_name,
};
pub use continued_training::SourceData;
pub use data_source::DataSource;
pub use display_names::{network_name, network_sizes};
pub use labels::{LabelsOutcome, train_labels};
pub use language_model::{LanguageModelOutcome, LanguageModelPlan, train_language_model};
pub use masked_language_model::{FillExample, MaskedOutcome, MaskedPlan, pretrain};
pub use micro_batches::{MAX_MICRO_BATCHES, MicroBatchGradients, StepOutput, default_micro_batches};
pub use ngram_targets::{NgramLabelsOutcome, NgramNumberOutcome, train_ngram_labels, train_ngram_number};
pub use ngrams::{NgramOutcome, train_ngram_classifier};
pub use number::{NumberOutcome, train_number};
pub use options::TrainOptions;
pub use output_folder::OutputFolder;
pub use plan::{DataShape, FineTuning, Freeze, Plan, Settings};
pub use replay::ReplayData;
pub use replay_target::ReplayTarget;
pub use row_weights::row_weights;
pub use run::TrainEvent;
pub use schedule::learning_rate;
pub use seen_texts::SeenTexts;
pub use setting_overrides::{Setting, SettingOverrides};
pub use small_data::choice_sentence;
pub use tag::{ContinuedTaggerData, TaggerData, TaggerOutcome, TaggerPlan, train_tagger};
pub use text_scores::{LanguageScores, MaskedScores, TranslationScores};
pub use train_state::{BestEvaluation, TrainState};
pub use trainable::Metric;
pub use training::Training;
pub use training_data::{ContinuedData, TrainingData};
pub use translator::{TranslatorOutcome, TranslatorPlan, train_translator};
pub use tune::{TuneBudget, check_tune, tune, tune_ngrams};
pub use tuning_report::{best_trials, gain_sentences};
pub use worker_group::{
    BatchPosition, Coordinator, GradientTerms, TrainMicroBatch, Worker, WorkerGroup, combine_gradients,
};
