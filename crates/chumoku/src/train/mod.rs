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

mod adjust;
mod batches;
mod beside;
mod card;
mod changes;
mod checkpoint;
mod class_weights;
mod classifier_task;
mod classify;
mod comparison;
mod crew;
mod few_rows;
mod folder;
mod folds;
mod further;
mod halves;
mod identity;
mod joined_labels;
mod known;
mod labels;
mod language;
mod leak;
mod levels;
mod lock;
mod masked;
mod memory;
mod names;
mod network;
mod ngram_answers;
mod ngram_folds;
mod ngrams;
mod number;
mod offer;
mod options;
mod pace;
mod parts;
mod plan;
mod prepare;
mod recorded;
mod rehearsal;
mod rehearsed;
mod row_weights;
mod run;
mod schedule;
mod seen;
mod source;
mod state;
mod strongest;
mod tag;
mod target;
mod text_cards;
mod text_scores;
mod trainable;
mod training;
mod translate;
mod tune;
mod tuned;
mod watch;

pub use crate::blend::Blend;
pub use crate::model_folder::has_checkpoint;
pub use crate::scoring::{
    Advice, ClassScore, Gain, Judged, LabelLevel, LabelScore, LabelScores, LevelScore, NumberScores, Predictor, Rows,
    Scores, SpanScore, SpanScores, Sureness, TreeLevel, TreeScores, figure, quick_scores,
};
pub use adjust::{Adjusted, Setting};
pub use batches::batches;
pub(crate) use card::network_is_right;
pub use class_weights::ClassWeights;
pub use classify::{Outcome, train};
pub use comparison::{
    Change, Comparison, Figures, NEW_TEST, NEW_VALID, OLD_TEST, OLD_VALID, name_of_rows, shown_figure, shown_gain,
};
pub use crew::{BatchAt, Crew, Helper, Leader, LearnPart, Terms, joined};
pub use few_rows::choice_sentence;
pub use folder::OutputFolder;
pub use further::SourceData;
pub use known::{Known, Tells};
pub use labels::{LabelsOutcome, train_labels};
pub use language::{LanguageModelOutcome, LanguageModelPlan, train_language_model};
pub use masked::{Filled, MaskedOutcome, MaskedPlan, pretrain};
pub use names::{network_name, network_sizes};
pub use ngram_answers::{NgramLabelsOutcome, NgramNumberOutcome, train_ngram_labels, train_ngram_number};
pub use ngrams::{NgramOutcome, train_ngram_classifier};
pub use number::{NumberOutcome, train_number};
pub use options::TrainOptions;
pub use parts::{Learnt, MOST_PARTS, PartGradients, parts_for};
pub use plan::{FineTuning, Freeze, Plan, Settings, Shape};
pub use prepare::{Further, TrainingData};
pub use rehearsal::Rehearsal;
pub use rehearsed::Rehearsed;
pub use row_weights::row_weights;
pub use run::Event;
pub use schedule::learning_rate;
pub use seen::SeenTexts;
pub use source::Source;
pub use state::{Best, State};
pub use tag::{TaggerData, TaggerFurther, TaggerOutcome, TaggerPlan, train_tagger};
pub use text_scores::{LanguageScores, MaskedScores, TranslationScores};
pub use trainable::Metric;
pub use training::Training;
pub use translate::{TranslatorOutcome, TranslatorPlan, train_translator};
pub use tune::{TuneBudget, check_tune, tune, tune_ngrams};
pub use tuned::{best_trials, gained};
