//! Training a text classifier: from labelled rows to a model folder.

mod batches;
mod blend;
mod card;
mod checkpoint;
mod folder;
mod metrics;
mod plan;
mod prepare;
mod schedule;
mod state;
mod trainer;

pub use batches::{batches, by_length};
pub use blend::{Blend, log_softmax};
pub(crate) use card::score;
pub use checkpoint::exists as has_checkpoint;
pub(crate) use checkpoint::hex;
pub use folder::OutputFolder;
pub use metrics::{ClassScore, Scores, quick_scores};
pub use plan::{Plan, Shape};
pub use prepare::{Rows, TrainingData};
pub use schedule::learning_rate;
pub use state::{Best, State};
pub use trainer::{Event, Outcome, TrainOptions, train};
