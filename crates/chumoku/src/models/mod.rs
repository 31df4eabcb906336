//! Models, one in a file, each reading top to bottom.

mod classifier;

pub use classifier::{Classifier, ClassifierCache, ClassifierConfig};
