//! What can go wrong.

use chumoku_text::tr;

/// Why a model could not be trained or read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NgramError {
    /// There is nothing to learn from.
    #[error("{}", tr!("n-gram model: expected at least one training text, got none", "n-gram モデル: 学習用のテキストが 1 つもありません"))]
    NoTexts,
    /// Texts and labels do not pair up.
    #[error("{}", tr!("n-gram model: expected one label per text, got {labels} labels for {texts} texts", "n-gram モデル: テキストごとに 1 つのラベルが必要ですが、テキスト {texts} 件にラベル {labels} 件です"))]
    Lengths {
        /// Number of texts.
        texts: usize,
        /// Number of labels.
        labels: usize,
    },
    /// There is nothing to tell apart.
    #[error("{}", tr!("n-gram model: expected at least two classes, got {got}", "n-gram モデル: 2 つ以上のクラスが必要ですが、{got} です"))]
    Classes {
        /// Number of classes.
        got: usize,
    },
    /// A label names no class.
    #[error("{}", tr!("n-gram model: expected labels below the number of classes ({classes}), got {label} in row {row}", "n-gram モデル: ラベルはクラスの数（{classes}）より小さいはずですが、行 {row} は {label} です"))]
    Label {
        /// Row, counted from 0.
        row: usize,
        /// The label there.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// Weights are not one finite number of at least 0 per text.
    #[error("{}", tr!("n-gram model: expected {texts} weights of texts that are finite and not negative, got {weights}{}", "n-gram モデル: 有限で負でないテキストの重みが {texts} 個必要ですが、{weights} 個です{}", bad_weight(*bad)))]
    Weights {
        /// Number of texts.
        texts: usize,
        /// Number of weights.
        weights: usize,
        /// The first weight that cannot be one, with its row, counted from 0.
        bad: Option<(usize, f32)>,
    },
    /// All weights are 0.
    #[error("{}", tr!("n-gram model: expected a weight above 0, got 0 for every text", "n-gram モデル: テキストの重みがすべて 0 です。0 より大きい重みが必要です"))]
    NoWeight,
    /// A setting is out of its range.
    #[error("{}", tr!("n-gram model: expected {expected} for `{setting}`, got {got}", "n-gram モデル: `{setting}` には{expected}が必要ですが、{got} です"))]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its range.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// A stored array cannot be part of a model.
    #[error("{}", tr!("n-gram model: tensor `{tensor}`: expected {expected}, got {got}; the file is damaged or not of this kind", "n-gram モデル: テンソル `{tensor}`: {expected}が必要ですが、{got} です。ファイルが壊れているか、別の種類です"))]
    Tensor {
        /// Name of the tensor.
        tensor: &'static str,
        /// What a model has there.
        expected: String,
        /// What came.
        got: String,
    },
    /// What training takes for each text and class cannot fit.
    #[error("{}", tr!("n-gram model: {texts} texts of {classes} classes need about {needed} of memory, and {free} are free; take fewer texts or classes", "n-gram モデル: {classes} クラスのテキスト {texts} 件にはおよそ {needed} のメモリが必要ですが、空きは {free} です。テキストかクラスを減らしてください"))]
    Memory {
        /// Number of texts.
        texts: usize,
        /// Number of classes.
        classes: usize,
        /// What is needed, as people read it.
        needed: String,
        /// What is free.
        free: String,
    },
    /// What a scheme says of the columns beside the text cannot be.
    #[error("{}", tr!("n-gram model: {problem}", "n-gram モデル: {problem}"))]
    Columns {
        /// What is wrong.
        problem: String,
    },
    /// The cancel flag was set.
    #[error("{}", tr!("n-gram model: training was cancelled", "n-gram モデル: 学習は中止されました"))]
    Cancelled,
}

/// The end of the message on weights, with the first that cannot be one.
fn bad_weight(bad: Option<(usize, f32)>) -> String {
    bad.map_or(String::new(), |(row, weight)| tr!(", {weight} in row {row}", "（行 {row} は {weight}）"))
}
