//! A class with its probability.

use serde::{Deserialize, Serialize};

/// A class and its probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelProbability {
    /// The class.
    pub label: String,
    /// The probability, 0 to 1.
    pub probability: f32,
}
