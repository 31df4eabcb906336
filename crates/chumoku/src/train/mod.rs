//! Training: from rows of text to a model folder. `run` is what all tasks share.

mod batches;
mod beside;
mod card;
mod checkpoint;
mod class_weights;
mod classifier_task;
mod classify;
mod folder;
mod folds;
mod halves;
mod labels;
mod language;
mod leak;
mod lock;
mod masked;
mod memory;
mod names;
mod network;
mod ngrams;
mod number;
mod options;
mod parts;
mod plan;
mod prepare;
mod run;
mod schedule;
mod seen;
mod state;
mod strongest;
mod tag;
mod target;
mod text_cards;
mod text_scores;
mod training;
mod translate;
mod watch;

pub use crate::blend::Blend;
pub use crate::model_folder::has_checkpoint;
pub use crate::scoring::{
    Advice, ClassScore, Gain, Judged, LabelScore, LabelScores, LevelScore, NumberScores, Predictor, Rows, Scores,
    SpanScore, SpanScores, Sureness, figure, quick_scores,
};
pub use batches::batches;
pub(crate) use card::network_is_right;
pub use class_weights::ClassWeights;
pub use classify::{Outcome, train};
pub use folder::OutputFolder;
pub use labels::{LabelsOutcome, train_labels};
pub use language::{LanguageModelOutcome, LanguageModelPlan, train_language_model};
pub use masked::{Filled, MaskedOutcome, MaskedPlan, pretrain};
pub use names::{network_name, network_sizes};
pub use ngrams::{NgramOutcome, train_ngram_classifier};
pub use number::{NumberOutcome, train_number};
pub use options::TrainOptions;
pub use parts::{Learnt, MOST_PARTS, PartGradients, parts_for};
pub use plan::{FineTuning, Freeze, Plan, Settings, Shape};
pub use prepare::TrainingData;
pub use run::{Event, Metric};
pub use schedule::learning_rate;
pub use seen::SeenTexts;
pub use state::{Best, State};
pub use tag::{TaggerData, TaggerOutcome, train_tagger};
pub use text_scores::{LanguageScores, MaskedScores, TranslationScores};
pub use training::Training;
pub use translate::{TranslatorOutcome, TranslatorPlan, train_translator};
