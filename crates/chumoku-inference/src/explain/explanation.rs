//! The explanation of one text: the prediction, and every attention weight of the model.

use crate::row::{AsRow, Row};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::blend::number::Estimate;
use crate::hierarchy::Hierarchy;
use crate::lang::{Lang, lang};
use crate::{Result, tr};

use super::attribution::Attribution;
use super::columns::ColumnEffect;
use super::label_probability::LabelProbability;
use super::logit_lens::LogitLens;
use super::patching::Patching;
use super::random_heads::HeadShape;
use super::residual_norms::ResidualNorms;
use super::roles::{HeadStatistics, head_statistics};

/// One text with its prediction and the model's attention.
///
/// `attention` is one flat array, which [`Explanation::row`] reads. Views require a consistent explanation, which
/// [`Explanation::validate`] checks.
///
/// # Shapes
///
/// - `attention`: `(layers, heads, words, words)`, row-major, axes layer, head, query, key
/// - `derived`, `depth`: see their fields
/// - `attribution.scores`: `(words)`
/// - `pieces`: any number, each with the index of its word
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The kind of model.
    #[serde(default)]
    pub kind: ExplanationKind,
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The text, or both texts of a pair.
    pub text: Row,
    /// The truncation of a long text. Words and attention cover only the tokens that were read.
    #[serde(default)]
    pub cut: Option<Truncation>,
    /// The predicted class. For a language model, the most probable next token. For an encoder, the text for
    /// comparison, which may be the same text.
    pub label: String,
    /// For an encoder: the cosine of both text vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
    /// For number models: the predicted number with its interval. The label is then the threshold whose probability is
    /// nearest to ½.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<Estimate>,
    /// For class trees: the nodes on the path to the predicted class with their probabilities, from the top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LabelProbability>,
    /// Every class with its probability, most probable first. For a language model, the most probable tokens. Empty for
    /// an encoder.
    pub probabilities: Vec<LabelProbability>,
    /// `true` if the classes are mutually exclusive, so that their probabilities sum to 1. `false` for multi-label
    /// models.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub exclusive: bool,
    /// The predictions of the ensemble members, if there are two.
    pub parts: Option<EnsembleMembers>,
    /// The sub-word tokens in order. The first is the special token `[CLS]`.
    pub pieces: Vec<WordPiece>,
    /// The words in order. Special tokens count as words.
    pub words: Vec<Word>,
    /// The number of layers. Models without attention have 0 layers and 0 heads.
    pub layers: usize,
    /// The number of heads in each layer.
    pub heads: usize,
    /// The weights between words. Each row, one query's weights over all keys, sums to 1.
    pub attention: Vec<f32>,
    /// `true` if words cannot see later words, whose weights are then undefined instead of 0.
    #[serde(default)]
    pub causal: bool,
    /// The rule by which token weights were combined into word weights, for example "sum over keys, mean over queries".
    pub joining: String,
    /// Values derived from the weights.
    #[serde(default)]
    pub derived: DerivedAttention,
    /// Queries and keys, for inspecting scores. `None` if the scores are not only products of queries and keys.
    #[serde(default)]
    pub depth: Option<QueriesAndKeys>,
    /// The prediction with each head switched off in turn, layer by layer. May be empty.
    #[serde(default)]
    pub without: Vec<HeadAblation>,
    /// The effect of each word on the prediction.
    pub attribution: Attribution,
    /// The effect of each feature column on the prediction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnEffect>,
    /// For a language model that wrote the end of the text: the number of words before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_words: Option<usize>,
    /// The answers that the model's head reads after every layer. `None` for models without layers or answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lens: Option<LogitLens>,
    /// The lengths of the vectors that add up to each token's residual stream. `None` for models without layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_path: Option<ResidualNorms>,
    /// The change of the answer when values of another text are used, if it was requested
    /// ([`TextClassifier::patch`](crate::TextClassifier::patch)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patching: Option<Patching>,
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(x: &bool) -> bool {
    *x
}

/// The [kind of model](crate::ModelKind) that is explained, as named in JSON. Translators have an
/// [`Alignment`](super::Alignment) instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExplanationKind {
    /// A classifier.
    #[default]
    Classifier,
    /// A language model. The prediction is the next token.
    LanguageModel,
    /// An n-gram model, which has no attention.
    Ngrams,
    /// An encoder. There is no prediction, only a comparison with another text.
    Encoder,
}

/// Values derived from attention weights, which the model itself does not compute. Each array is empty or has rows that
/// sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DerivedAttention {
    /// `α_ij ‖v_j W_O‖`, normalized in each row (Kobayashi et al. 2020): (layers, heads, words, words).
    pub value_weighted: Vec<f32>,
    /// Rollout up to each layer: the product of `½ A + ½ I`, with A the mean over heads (Abnar and Zuidema 2020):
    /// (layers, words, words).
    pub rollout: Vec<f32>,
}

/// The components of the scores `scale · q·k − slope · |i − j|`. Weights are their softmax over each row of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueriesAndKeys {
    /// The factor of the products, usually 1/√d_k.
    pub scale: f64,
    /// The ALiBi slopes of all heads, by layer, if there are any.
    pub slopes: Option<Vec<Vec<f32>>>,
    /// The width of a head's queries and keys.
    pub dim: usize,
    /// (layers, heads, tokens, dim).
    pub queries: Vec<f32>,
    /// (layers, heads, tokens, dim), expanded if heads share keys.
    pub keys: Vec<f32>,
}

/// The prediction without one head. For ensembles, the prediction of the network alone. For encoders, only the cosine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadAblation {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// The predicted class without the head.
    pub label: String,
    /// The class probabilities without the head, in the order of [`Explanation::probabilities`].
    pub probabilities: Vec<f32>,
    /// The prediction of the ensemble, if there is an n-gram model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<EnsembleHeadAblation>,
    /// The value of [`Explanation::similarity`] without the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
}

/// The prediction of an ensemble without one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnsembleHeadAblation {
    /// The predicted class without the head.
    pub label: String,
    /// The class probabilities without the head, in the order of [`Explanation::probabilities`].
    pub probabilities: Vec<f32>,
}

/// Returns the nodes on the path to a class with their probabilities, for class trees.
pub(super) fn level_probabilities(
    tree: Option<&Hierarchy>,
    probabilities: &[f32],
    class: usize,
) -> Vec<LabelProbability> {
    let found = tree.map_or_else(Vec::new, |tree| tree.levels(probabilities, class));
    found.into_iter().map(|(label, probability)| LabelProbability { label: label.into(), probability }).collect()
}

/// The predictions of the ensemble members: the network and the n-gram model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnsembleMembers {
    /// Probabilities of the network.
    #[serde(rename = "attention")]
    pub network: Vec<LabelProbability>,
    /// Probabilities of the n-gram model.
    pub ngrams: Vec<LabelProbability>,
    /// The network's share of the sum of both weights, 0 to 1. It is the same for every text.
    #[serde(rename = "attention_weight")]
    pub network_weight: f32,
    /// The n-gram model's share in this decision, 0 to 1. A member's contribution is its weight times its log-odds of
    /// the predicted class against the next most probable one. The share compares the absolute contributions.
    #[serde(default)]
    pub ngram_share: f32,
    /// `true` for each member that opposes the decision: the network, then the n-gram model.
    #[serde(default)]
    pub against: [bool; 2],
}

/// A sub-word token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordPiece {
    /// The token as the tokenizer writes it.
    pub text: String,
    /// The index of its word in [`Explanation::words`].
    pub word: usize,
}

/// A word, or a special token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The word as in the text, or the name of a special token, for example `[CLS]`.
    pub text: String,
    /// `true` for special tokens, which are not part of the text.
    pub special: bool,
}

/// The reason why an [`Explanation`] is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplanationError {
    message: String,
}

/// The truncation of a text with more tokens than the model's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// The number of tokens that were read.
    pub read: usize,
    /// The number of tokens in the text.
    pub tokens: usize,
    /// `true` if the last tokens were read instead of the first.
    pub is_end: bool,
}

impl Truncation {
    /// Returns the truncation, if the text has more tokens than were read.
    pub(crate) fn of(read: usize, tokens: usize, is_end: bool) -> Option<Truncation> {
        (tokens > read).then_some(Truncation { read, tokens, is_end })
    }
}

impl Truncation {
    /// Describes the truncation in a sentence.
    #[must_use]
    pub fn describe(&self, lang: Lang) -> String {
        let Truncation { read, tokens, is_end } = *self;
        match (lang, is_end) {
            (Lang::En, false) => {
                format!("The text is longer than the model reads: the first {read} of {tokens} tokens are traced.")
            }
            (Lang::En, true) => {
                format!("The text is longer than the model reads: the last {read} of {tokens} tokens are traced.")
            }
            (Lang::Ja, false) => {
                format!("モデルが読める長さを超えているため、{tokens} トークンのうち最初の {read} 個を示す。")
            }
            (Lang::Ja, true) => {
                format!("モデルが読める長さを超えているため、{tokens} トークンのうち最後の {read} 個を示す。")
            }
        }
    }
}

impl ExplanationError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for ExplanationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExplanationError {}

/// The tolerance of a row's sum. Rows are f32 sums over up to some thousand tokens.
const ROW_SUM_TOLERANCE: f32 = 1e-3;

impl Explanation {
    /// Returns the statistics of each head, layer by layer.
    #[must_use]
    pub fn head_statistics(&self) -> Vec<HeadStatistics> {
        let n = self.words.len();
        let mut tokens = vec![0; n];
        self.pieces.iter().for_each(|piece| tokens[piece.word] += 1);
        // A word without tokens, which no model produces, counts as one.
        tokens.iter_mut().for_each(|count| *count = (*count).max(1));
        let dim = self.depth.as_ref().map_or(32, |depth| depth.dim);
        let shape = HeadShape { tokens, dim, causal: self.causal };
        let heads = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| [layer, head]));
        let visible = |query: usize| if self.causal { query + 1 } else { n };
        heads
            .map(|[layer, head]| head_statistics([layer, head], &shape, |i| &self.row(layer, head, i)[..visible(i)]))
            .collect()
    }

    /// Returns the text with its feature columns, as passed to the model.
    #[must_use]
    pub fn full_row(&self) -> Row {
        let values: Vec<&str> = self.columns.iter().map(|column| column.value.as_str()).collect();
        self.text.as_row().with_values(&values)
    }

    /// Returns the byte of the text at which the part that the model wrote starts. `None` if it wrote no word, or if its
    /// words are not in the text as they are.
    #[must_use]
    pub fn written_from(&self) -> Option<usize> {
        let written = self.words.get(self.prompt_words?..).filter(|words| !words.is_empty())?;
        let text = self.text.as_row().text();
        let mut start = text.len();
        for word in written.iter().rev().filter(|word| !word.special) {
            start = text[..start].rfind(word.text.as_str())?;
        }
        // The white space before the first word is part of its token.
        Some(text[..start].trim_end().len())
    }

    /// Returns the network's own probability of a class. For ensembles, this differs from the prediction.
    #[must_use]
    pub fn network_probability(&self, label: &str) -> Option<f32> {
        let own = self.parts.as_ref().map_or(&self.probabilities, |parts| &parts.network);
        own.iter().find(|p| p.label == label).map(|p| p.probability)
    }

    /// Returns `true` if an encoder's text is compared with itself.
    #[must_use]
    pub fn is_compared_with_itself(&self) -> bool {
        self.kind == ExplanationKind::Encoder && self.text == self.label
    }

    /// Returns the change in the network's probability of the predicted class without a head. For encoders, the change
    /// of the cosine.
    #[must_use]
    pub fn head_effect(&self, layer: usize, head: usize) -> Option<f32> {
        let without = self.without.iter().find(|w| [w.layer, w.head] == [layer, head])?;
        if let Some(similarity) = self.similarity {
            return Some(without.similarity? - similarity);
        }
        let place = self.probabilities.iter().position(|p| p.label == self.label)?;
        let before = match without.whole {
            Some(_) => self.network_probability(&self.label)?,
            None => self.probabilities[place].probability,
        };
        Some(without.probabilities[place] - before)
    }

    /// Returns the layer and head, from 0, that matter most for the answer. With patching, it is the head that moves the
    /// answer most. Otherwise it is the head whose absence changes the answer most, or the first head of the last layer.
    #[must_use]
    pub fn most_important_head(&self) -> [usize; 2] {
        let patched = self.patching.as_ref().and_then(|patching| patching.sites().strongest_head());
        let by_effect = || {
            let heads = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| [layer, head]));
            let effects = heads.filter_map(|at| Some((at, self.head_effect(at[0], at[1])?.abs())));
            let changing = effects.filter(|(_, effect)| *effect > 0.0);
            changing.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
        };
        patched.or_else(by_effect).unwrap_or([self.layers.saturating_sub(1), 0])
    }

    /// Returns a copy without the large arrays.
    pub(crate) fn without_arrays(&self) -> Explanation {
        Explanation {
            kind: self.kind,
            model: self.model.clone(),
            text: self.text.clone(),
            cut: self.cut,
            label: self.label.clone(),
            similarity: self.similarity,
            number: self.number,
            levels: self.levels.clone(),
            probabilities: self.probabilities.clone(),
            exclusive: self.exclusive,
            parts: self.parts.clone(),
            pieces: self.pieces.clone(),
            words: self.words.clone(),
            layers: self.layers,
            heads: self.heads,
            attention: Vec::new(),
            causal: self.causal,
            joining: self.joining.clone(),
            derived: DerivedAttention::default(),
            depth: self.depth.as_ref().map(|depth| QueriesAndKeys {
                scale: depth.scale,
                slopes: depth.slopes.clone(),
                dim: depth.dim,
                ..QueriesAndKeys::default()
            }),
            without: self.without.clone(),
            attribution: self.attribution.clone(),
            columns: self.columns.clone(),
            prompt_words: self.prompt_words,
            lens: self.lens.clone(),
            residual_path: self.residual_path.clone(),
            patching: self.patching.clone(),
        }
    }

    /// Returns the weights of one query over all keys, which sum to 1.
    ///
    /// All indices count from 0.
    ///
    /// # Panics
    ///
    /// If an index is out of range.
    #[must_use]
    pub fn row(&self, layer: usize, head: usize, query: usize) -> &[f32] {
        assert!(
            layer < self.layers && head < self.heads && query < self.words.len(),
            "row (layer {layer}, head {head}, query {query}) of attention ({}, {}, {n}, {n})",
            self.layers,
            self.heads,
            n = self.words.len()
        );
        let n = self.words.len();
        let start = ((layer * self.heads + head) * n + query) * n;
        &self.attention[start..start + n]
    }

    /// Returns a weight, or `None` if the query cannot see the key.
    ///
    /// All indices count from 0.
    ///
    /// # Panics
    ///
    /// If an index is out of range.
    #[must_use]
    pub fn weight(&self, layer: usize, head: usize, query: usize, key: usize) -> Option<f32> {
        (!self.causal || key <= query).then(|| self.row(layer, head, query)[key])
    }

    /// Returns the total attention that each word receives: the sum of its column.
    ///
    /// # Panics
    ///
    /// If an index is out of range.
    #[must_use]
    pub fn received(&self, layer: usize, head: usize) -> Vec<f32> {
        let mut sums = vec![0.0; self.words.len()];
        for query in 0..self.words.len() {
            for (sum, weight) in sums.iter_mut().zip(self.row(layer, head, query)) {
                *sum += weight;
            }
        }
        sums
    }

    /// Checks that sizes agree, numbers are finite, weights are in 0 to 1, and rows sum to 1.
    ///
    /// # Errors
    ///
    /// The first inconsistency, with the expected and the actual value.
    pub fn validate(&self) -> Result<(), ExplanationError> {
        let n = self.words.len();
        let has_none = self.layers == 0 && self.heads == 0;
        if n == 0 || !has_none && (self.layers == 0 || self.heads == 0) {
            return Err(ExplanationError::new(tr!(
                "an explanation needs at least one word, and layers with heads or neither; it has {} layers, {} heads, {n} words",
                "説明には一語以上が必要で、層とヘッドは両方あるか両方ないかですが、{} 層、{} ヘッド、{n} 語です",
                self.layers,
                self.heads
            )));
        }
        let expected =
            self.layers.checked_mul(self.heads).and_then(|m| m.checked_mul(n)).and_then(|m| m.checked_mul(n));
        if expected != Some(self.attention.len()) {
            return Err(ExplanationError::new(tr!(
                "attention of {} layers, {} heads and {n} words needs {} numbers; there are {}",
                "{} 層、{} ヘッド、{n} 語のアテンションには{}個の数値が必要ですが、{} 個です",
                self.layers,
                self.heads,
                expected.map_or_else(|| tr!("too many", "多すぎる"), |m| tr!("{m}", " {m} ")),
                self.attention.len()
            )));
        }
        if self.attribution.scores.len() != n {
            return Err(ExplanationError::new(tr!(
                "attribution needs one score per word, {n}; there are {}",
                "attribution には語ごとに一つ、全部で {n} 個のスコアが必要ですが、{} 個です",
                self.attribution.scores.len()
            )));
        }
        if let Some(i) = self.attribution.scores.iter().position(|s| !s.is_finite()) {
            return Err(ExplanationError::new(tr!(
                "the attribution score of word {} is {}, not a finite number",
                "{} 番目の語の attribution のスコアが有限の数ではなく {} です",
                i + 1,
                self.attribution.scores[i]
            )));
        }
        let whole = self.attribution.whole.as_ref();
        if let Some(whole) = whole.filter(|whole| whole.len() != n || whole.iter().any(|s| !s.is_finite())) {
            return Err(ExplanationError::new(tr!(
                "attribution of the ensemble needs one finite score per word, {n}; there are {}, or one is not finite",
                "アンサンブル全体の attribution には語ごとに一つ、全部で {n} 個の有限のスコアが必要ですが、{} 個か、有限でないものがあります",
                whole.len()
            )));
        }
        if let Some(word) = self.attribution.beyond.iter().find(|word| !word.score.is_finite()) {
            return Err(ExplanationError::new(tr!(
                "the attribution score of {:?} is {}, not a finite number",
                "{:?} の attribution のスコアが有限の数ではなく {} です",
                word.text,
                word.score
            )));
        }
        if let Some(piece) = self.pieces.iter().find(|piece| piece.word >= n) {
            return Err(ExplanationError::new(tr!(
                "piece {:?} names word index {}; the last is {}",
                "トークン {:?} の語の番号が {} ですが、最後は {} です",
                piece.text,
                piece.word,
                n - 1
            )));
        }
        self.validate_probabilities()?;
        self.validate_extras()?;
        self.validate_rows(["weight", "重み"], &self.attention)?;
        self.validate_rows(["value-weighted share", "バリューで重み付けした割合"], &self.derived.value_weighted)?;
        self.validate_rows(["rollout", "ロールアウト"], &self.derived.rollout)
    }

    fn validate_extras(&self) -> Result<(), ExplanationError> {
        let n = self.words.len();
        let heads = self.layers * self.heads;
        let fault = |[en, ja]: [&str; 2], expected: usize, found: usize| {
            let what = lang().pick(en, ja);
            Err(ExplanationError::new(tr!(
                "{what} needs {expected} numbers; there are {found}",
                "{what}には {expected} 個の数値が必要ですが、{found} 個です"
            )))
        };
        let consistent = [
            ("lens", self.lens.as_ref().is_none_or(|lens| lens.is_consistent(self.layers, self.probabilities.len()))),
            (
                "residual_path",
                self.residual_path.as_ref().is_none_or(|path| {
                    path.ids.len() == self.pieces.len() && path.is_consistent(self.layers, self.heads)
                }),
            ),
            ("patching", self.patching.as_ref().is_none_or(|found| found.is_consistent(self.layers, self.heads))),
        ];
        if let Some((name, _)) = consistent.into_iter().find(|(_, is_consistent)| !is_consistent) {
            return Err(ExplanationError::new(tr!(
                "{name:?} does not fit the {} layers and {} heads of the explanation",
                "{name:?} が、説明の層の数 {} とヘッドの数 {} に合いません",
                self.layers,
                self.heads
            )));
        }
        for (what, found, count) in [
            (
                ["value-weighted attention", "バリューで重み付けしたアテンション"],
                self.derived.value_weighted.len(),
                heads * n * n,
            ),
            (["rollout", "ロールアウト"], self.derived.rollout.len(), self.layers * n * n),
        ] {
            if found != 0 && found != count {
                return fault(what, count, found);
            }
        }
        if let Some(depth) = &self.depth {
            let count = heads.checked_mul(self.pieces.len()).and_then(|m| m.checked_mul(depth.dim)).unwrap_or(0);
            for (what, numbers) in [(["queries", "クエリ"], &depth.queries), (["keys", "キー"], &depth.keys)] {
                if numbers.len() != count {
                    return fault(what, count, numbers.len());
                }
            }
            if let Some(slopes) = &depth.slopes
                && (slopes.len() != self.layers || slopes.iter().any(|of_layer| of_layer.len() != self.heads))
            {
                return fault(["slopes", "ALiBi の傾き"], heads, slopes.iter().map(Vec::len).sum());
            }
        }
        for without in &self.without {
            if without.layer >= self.layers || without.head >= self.heads {
                let problem = tr!(
                    "a missing head is switched off: layer {}, head {}",
                    "存在しないヘッドが無効にされています: 層 {}、ヘッド {}",
                    without.layer + 1,
                    without.head + 1
                );
                return Err(ExplanationError::new(problem));
            }
            let whole = without.whole.iter().map(|whole| &whole.probabilities);
            for found in std::iter::once(&without.probabilities).chain(whole) {
                if found.len() != self.probabilities.len() {
                    return fault(["a head switched off", "無効にしたヘッド"], self.probabilities.len(), found.len());
                }
            }
        }
        Ok(())
    }

    fn validate_probabilities(&self) -> Result<(), ExplanationError> {
        let cosines =
            self.similarity.iter().chain(self.without.iter().filter_map(|without| without.similarity.as_ref()));
        for cosine in cosines {
            if !(-1.001..=1.001).contains(cosine) {
                return Err(ExplanationError::new(tr!(
                    "the similarity is {cosine}, not within -1 to 1",
                    "類似度 {cosine} が -1 から 1 の範囲にありません"
                )));
            }
        }
        let parts = self.parts.iter();
        let all = self.probabilities.iter().chain(parts.flat_map(|parts| parts.network.iter().chain(&parts.ngrams)));
        for LabelProbability { label, probability } in all {
            // This form also rejects NaN, which is in no range.
            if !(0.0..=1.001).contains(probability) {
                return Err(ExplanationError::new(tr!(
                    "the probability of {label:?} is {probability}, not within 0 to 1",
                    "{label:?} の確率 {probability} が 0 から 1 の範囲にありません"
                )));
            }
        }
        Ok(())
    }

    /// Checks that all rows sum to 1. `en` and `ja` name the values.
    fn validate_rows(&self, [en, ja]: [&str; 2], numbers: &[f32]) -> Result<(), ExplanationError> {
        let (n, what) = (self.words.len(), lang().pick(en, ja));
        // Rollout has one map per layer.
        let heads = (numbers.len() / (n * n) / self.layers.max(1)).max(1);
        for (i, row) in numbers.chunks_exact(n).enumerate() {
            let place = || {
                let [layer, head, query] = [i / n / heads, i / n % heads, i % n].map(|index| index + 1);
                tr!("layer {layer}, head {head}, query {query}", "層 {layer}、ヘッド {head}、クエリ {query}")
            };
            if let Some(key) = row.iter().position(|w| !(-ROW_SUM_TOLERANCE..=1.0 + ROW_SUM_TOLERANCE).contains(w)) {
                return Err(ExplanationError::new(tr!(
                    "the {what} at {}, key {} is {}, not within 0 to 1",
                    "{what}（{}、キー {}）の値 {} が 0 から 1 の範囲にありません",
                    place(),
                    key + 1,
                    row[key]
                )));
            }
            let sum: f32 = row.iter().sum();
            if (sum - 1.0).abs() > ROW_SUM_TOLERANCE {
                return Err(ExplanationError::new(tr!(
                    "the {what}s at {} sum to {sum}, not to 1",
                    "{what}（{}）の和が 1 ではなく {sum} です",
                    place()
                )));
            }
        }
        Ok(())
    }
}
