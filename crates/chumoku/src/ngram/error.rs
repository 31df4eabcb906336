//! What can go wrong.

/// Why a model could not be trained or read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NgramError {
    /// There is nothing to learn from.
    #[error("n-gram model: expected at least one training text, got none")]
    NoTexts,
    /// Texts and labels do not pair up.
    #[error("n-gram model: expected one label per text, got {labels} labels for {texts} texts")]
    Lengths {
        /// Number of texts.
        texts: usize,
        /// Number of labels.
        labels: usize,
    },
    /// There is nothing to tell apart.
    #[error("n-gram model: expected at least two classes, got {got}")]
    Classes {
        /// Number of classes.
        got: usize,
    },
    /// A label names no class.
    #[error("n-gram model: expected labels below the number of classes ({classes}), got {label} in row {row}")]
    Label {
        /// Row, counted from 0.
        row: usize,
        /// The label there.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// Class weights are not one finite number of at least 0 per class, some of them above 0.
    #[error("n-gram model: expected {classes} class weights that are finite and not negative, got {got:?}")]
    ClassWeights {
        /// Number of classes.
        classes: usize,
        /// What came.
        got: Vec<f32>,
    },
    /// A setting is out of its range.
    #[error("n-gram model: expected {expected} for `{setting}`, got {got}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its range.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// A stored array cannot be part of a model.
    #[error("n-gram model: tensor `{tensor}`: expected {expected}, got {got}; the file is damaged or not of this kind")]
    Tensor {
        /// Name of the tensor.
        tensor: &'static str,
        /// What a model has there.
        expected: String,
        /// What came.
        got: String,
    },
    /// The cancel flag was set.
    #[error("n-gram model: training was cancelled")]
    Cancelled,
}
