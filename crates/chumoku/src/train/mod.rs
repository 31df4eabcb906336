//! Training: from rows of text to a model folder. `run` is what all tasks share.

mod batches;
mod blend;
mod card;
mod checkpoint;
mod classify;
mod folder;
mod language;
mod lock;
mod metrics;
mod parts;
mod plan;
mod prepare;
mod run;
mod schedule;
mod state;
mod text_cards;
mod translate;
mod watch;

pub use batches::{batches, by_length};
pub use blend::{Blend, log_softmax};
pub(crate) use card::score;
pub use checkpoint::exists as has_checkpoint;
pub(crate) use checkpoint::{FILES as CHECKPOINT_FILES, hex, is_step, remove as remove_checkpoint};
pub use classify::{Outcome, train};
pub use folder::OutputFolder;
pub use language::{LanguageModelOutcome, LanguageModelPlan, LanguageScores, train_language_model};
pub use metrics::{ClassScore, Scores, quick_scores};
pub use parts::{Learnt, Parts};
pub use plan::{Plan, Settings, Shape};
pub use prepare::{Rows, TrainingData};
pub use run::{Event, Figure, TrainOptions};
pub use schedule::learning_rate;
pub use state::{Best, State};
pub use translate::{TranslationScores, TranslatorOutcome, TranslatorPlan, train_translator};
