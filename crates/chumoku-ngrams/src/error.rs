//! Errors of training and loading n-gram models.

use chumoku_text::tr;

/// An n-gram model could not be trained or loaded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NgramError {
    /// There are no training texts.
    #[error("{}", tr!("n-gram model: expected at least one training text, got none", "n-gram モデル: 学習用のテキストが 1 つもありません"))]
    NoTexts,
    /// The numbers of texts and labels differ.
    #[error("{}", tr!("n-gram model: expected one label per text, got {labels} labels for {texts} texts", "n-gram モデル: テキストごとに 1 つのラベルが必要ですが、テキスト {texts} 件にラベル {labels} 件です"))]
    Lengths {
        /// Number of texts.
        texts: usize,
        /// Number of labels.
        labels: usize,
    },
    /// There are fewer than two classes.
    #[error("{}", tr!("n-gram model: expected at least two classes, got {got}", "n-gram モデル: 2 つ以上のクラスが必要ですが、{got} です"))]
    Classes {
        /// Number of classes.
        got: usize,
    },
    /// A label is not a class.
    #[error("{}", tr!("n-gram model: expected labels below the number of classes ({classes}), got {label} in row {row}", "n-gram モデル: ラベルはクラスの数（{classes}）より小さいはずですが、行 {row} は {label} です"))]
    Label {
        /// Row, counted from 0.
        row: usize,
        /// The label there.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// The weights are not one finite number of at least 0 per text.
    #[error("{}", tr!("n-gram model: expected {texts} finite, non-negative weights, one per text, got {weights}{}", "n-gram モデル: 有限で負でないテキストの重みが {texts} 個必要ですが、{weights} 個です{}", bad_weight(*bad)))]
    Weights {
        /// Number of texts.
        texts: usize,
        /// Number of weights.
        weights: usize,
        /// The first invalid weight with its row, counted from 0.
        bad: Option<(usize, f32)>,
    },
    /// All weights are 0.
    #[error("{}", tr!("n-gram model: expected a weight above 0, got 0 for every text", "n-gram モデル: テキストの重みがすべて 0 です。0 より大きい重みが必要です"))]
    NoWeight,
    /// A setting is out of range.
    #[error("{}", tr!("n-gram model: expected {expected} for `{setting}`, got {got}", "n-gram モデル: `{setting}` には{expected}が必要ですが、{got} です"))]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// The valid range.
        expected: &'static str,
        /// The value found.
        got: String,
    },
    /// A stored tensor is invalid.
    #[error("{}", tr!("n-gram model: tensor `{tensor}`: expected {expected}, got {got}; the file is damaged or not of this kind", "n-gram モデル: テンソル `{tensor}`: {expected}が必要ですが、{got} です。ファイルが壊れているか、別の種類です"))]
    Tensor {
        /// The name of the tensor.
        tensor: &'static str,
        /// The expected contents.
        expected: String,
        /// The contents found.
        got: String,
    },
    /// Training needs more memory than is free.
    #[error("{}", tr!("n-gram model: training on {texts} texts with {classes} classes needs about {needed} of memory, but {free} is free; use fewer texts or classes", "n-gram モデル: {classes} クラスのテキスト {texts} 件にはおよそ {needed} のメモリが必要ですが、空きは {free} です。テキストかクラスを減らしてください"))]
    Memory {
        /// Number of texts.
        texts: usize,
        /// Number of classes.
        classes: usize,
        /// Memory needed, formatted.
        needed: String,
        /// Free memory, formatted.
        free: String,
    },
    /// The feature columns of a scheme are invalid.
    #[error("{}", tr!("n-gram model: {problem}", "n-gram モデル: {problem}"))]
    Columns {
        /// The problem.
        problem: String,
    },
    /// The cancel flag was set.
    #[error("{}", tr!("n-gram model: training was canceled", "n-gram モデル: 学習は中止されました"))]
    Cancelled,
}

/// Formats the end of the message on weights, with the first invalid one.
fn bad_weight(bad: Option<(usize, f32)>) -> String {
    bad.map_or(String::new(), |(row, weight)| tr!(", {weight} in row {row}", "（行 {row} は {weight}）"))
}
