//! What there is to show: one text, what the model said of it, and every attention weight on the way.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hierarchy::Hierarchy;
use crate::lang::{Lang, lang};
use crate::number::Estimate;
use crate::tr;

use super::attribution::Attribution;
use super::columns::ColumnEffect;
use super::random_heads::HeadShape;
use super::roles::{HeadStatistics, head_statistics};

/// One text, the prediction for it, and what the model looked at.
///
/// `attention` is one flat array; [`Explanation::row`] reads it. [`Explanation::validate`] says whether the
/// parts fit together, and every view expects that they do.
///
/// # Shapes
///
/// - `attention`: `(layers, heads, words, words)`, row-major, axes layer, head, query, key
/// - `derived`, `depth`: as they say
/// - `attribution.scores`: `(words)`
/// - `pieces`: any number, each naming the word it belongs to
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// What kind of model it is of.
    #[serde(default)]
    pub kind: ExplanationKind,
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The text as it was given.
    pub text: String,
    /// If the text is longer than what the model reads at a time: what the words and their attention are of.
    #[serde(default)]
    pub cut: Option<Truncation>,
    /// The predicted class; of a language model, the token that it says comes next; of an encoder, the text that this one
    /// is held against, which may be itself.
    pub label: String,
    /// Of an encoder: the cosine of the vectors of both texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
    /// The predicted number with its interval, where that is what the model tells; the label is then the threshold that it is least
    /// certain to lie above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<Estimate>,
    /// Where classes stand in a tree: the nodes down to the predicted class with their probabilities, from the top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LabelProbability>,
    /// Every class with its probability, most probable first; of a language model, the likeliest tokens; of an encoder none.
    pub probabilities: Vec<LabelProbability>,
    /// Whether the classes exclude each other, so that their probabilities sum to 1; labels may not.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub exclusive: bool,
    /// What the two halves of the predictor say by themselves, where there are two.
    pub parts: Option<EnsembleMembers>,
    /// The sub-word tokens in order; the first is the special token `[CLS]`.
    pub pieces: Vec<WordPiece>,
    /// The words in order. A special token stands among them as a word of its own.
    pub words: Vec<Word>,
    /// Number of layers; 0, and no heads, for a model without attention.
    pub layers: usize,
    /// Number of heads in each layer.
    pub heads: usize,
    /// Weights between words; each row (one query's weights over all keys) sums to 1.
    pub attention: Vec<f32>,
    /// Whether a word sees none of those after it: their weights are not 0 but none.
    #[serde(default)]
    pub causal: bool,
    /// How weights between sub-word tokens became weights between words,
    /// for example "sum over keys, mean over queries".
    pub joining: String,
    /// What is derived from the weights.
    #[serde(default)]
    pub derived: DerivedAttention,
    /// Queries and keys, for looking into scores; none where they are more than products of these.
    #[serde(default)]
    pub depth: Option<QueriesAndKeys>,
    /// The prediction with each head switched off in turn, layer by layer; may be empty.
    #[serde(default)]
    pub without: Vec<HeadAblation>,
    /// What each word does to the prediction.
    pub attribution: Attribution,
    /// What each column beside the text does to it, where the model reads any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnEffect>,
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(x: &bool) -> bool {
    *x
}

/// Which of the [kinds of model](crate::ModelKind) is explained, as JSON names them. (A translator has an
/// [`Alignment`](super::Alignment) instead.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExplanationKind {
    /// A classifier.
    #[default]
    Classifier,
    /// A language model: the prediction is of the next token.
    LanguageModel,
    /// A classifier of n-grams alone, which has no attention.
    Ngrams,
    /// An encoder: nothing is predicted, and a text is held against another.
    Encoder,
}

/// What is derived from attention weights: no head computed these numbers. Empty, or with rows that sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DerivedAttention {
    /// `α_ij ‖v_j W_O‖`, shared out again in each row (Kobayashi et al. 2020): (layers, heads, words, words).
    pub value_weighted: Vec<f32>,
    /// Up to each layer, the product of `½ A + ½ I`, A the mean over heads (Abnar and Zuidema 2020): (layers, words,
    /// words).
    pub rollout: Vec<f32>,
}

/// What the scores are made of: `scale · q·k − slope · |i − j|`, softmax over each row of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueriesAndKeys {
    /// The factor of the products, 1/√d_k as a rule.
    pub scale: f64,
    /// ALiBi's slope of each head, by layer, if it has them.
    pub slopes: Option<Vec<Vec<f32>>>,
    /// Width of a head's queries and keys.
    pub dim: usize,
    /// (layers, heads, tokens, dim).
    pub queries: Vec<f32>,
    /// (layers, heads, tokens, dim), also where heads share keys.
    pub keys: Vec<f32>,
}

/// What the model would say without one head: of a predictor of two halves, what the network by itself would; of an
/// encoder a cosine alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadAblation {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// What is then predicted.
    pub label: String,
    /// In the order of [`Explanation::probabilities`].
    pub probabilities: Vec<f32>,
    /// What the whole predictor would say, with the half that has no heads, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<EnsembleHeadAblation>,
    /// What [`Explanation::similarity`] would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
}

/// What a predictor of two halves would say without one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnsembleHeadAblation {
    /// What is then predicted.
    pub label: String,
    /// In the order of [`Explanation::probabilities`].
    pub probabilities: Vec<f32>,
}

/// A class and its probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelProbability {
    /// The class.
    pub label: String,
    /// Its probability, 0 to 1.
    pub probability: f32,
}

/// The nodes down to a class with their probabilities, where classes stand in a tree.
pub(super) fn level_probabilities(
    tree: Option<&Hierarchy>,
    probabilities: &[f32],
    class: usize,
) -> Vec<LabelProbability> {
    let found = tree.map_or_else(Vec::new, |tree| tree.levels(probabilities, class));
    found.into_iter().map(|(label, probability)| LabelProbability { label: label.into(), probability }).collect()
}

/// What the two halves of a predictor, attention and n-grams, say by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnsembleMembers {
    /// Probabilities of the half that uses attention.
    pub attention: Vec<LabelProbability>,
    /// Probabilities of the half that counts n-grams.
    pub ngrams: Vec<LabelProbability>,
    /// The attention half's weight by the sum of both, 0 to 1, the same for every text.
    pub attention_weight: f32,
    /// Share of the n-gram half in this decision, 0 to 1: by how much it moves the log-odds of the predicted class against
    /// the next likeliest, its weight times its own log-odds, by the sum of both halves' amounts.
    #[serde(default)]
    pub ngram_share: f32,
    /// Whether the half that uses attention, and that of n-grams, speaks against the decision.
    #[serde(default)]
    pub against: [bool; 2],
}

/// A sub-word token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordPiece {
    /// The token as the tokenizer writes it.
    pub text: String,
    /// Index into [`Explanation::words`] of the word it is a piece of.
    pub word: usize,
}

/// A word, or a special token standing as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The word as it stands in the text, or the special token's name, for example `[CLS]`.
    pub text: String,
    /// Whether it is a special token, which is in no text.
    pub special: bool,
}

/// Why an [`Explanation`] cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplanationError {
    message: String,
}

/// A text of more tokens than a model reads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// Tokens that were read.
    pub read: usize,
    /// Tokens of the text.
    pub tokens: usize,
    /// Whether they are the last ones, and not the first.
    pub is_end: bool,
}

impl Truncation {
    /// If a text has more tokens than are read.
    pub(crate) fn of(read: usize, tokens: usize, is_end: bool) -> Option<Truncation> {
        (tokens > read).then_some(Truncation { read, tokens, is_end })
    }
}

impl Truncation {
    /// A sentence.
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

/// How far a row's sum may be from 1. Rows come from f32 sums over up to some thousands of pieces.
const ROW_SUM_TOLERANCE: f32 = 1e-3;

impl Explanation {
    /// What each head does, layer by layer.
    #[must_use]
    pub fn head_statistics(&self) -> Vec<HeadStatistics> {
        let n = self.words.len();
        let mut tokens = vec![0; n];
        self.pieces.iter().for_each(|piece| tokens[piece.word] += 1);
        // A word of no token, which no model reads, counts as one.
        tokens.iter_mut().for_each(|count| *count = (*count).max(1));
        let dim = self.depth.as_ref().map_or(32, |depth| depth.dim);
        let shape = HeadShape { tokens, dim, causal: self.causal };
        let heads = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| [layer, head]));
        let seen = |query: usize| if self.causal { query + 1 } else { n };
        heads
            .map(|[layer, head]| head_statistics([layer, head], &shape, |i| &self.row(layer, head, i)[..seen(i)]))
            .collect()
    }

    /// The text with what stands beside it, as the model was given it.
    #[must_use]
    pub fn full_row(&self) -> String {
        match self.columns.is_empty() {
            true => self.text.clone(),
            false => {
                let values: Vec<&str> = self.columns.iter().map(|column| column.value.as_str()).collect();
                chumoku_text::feature_columns::join(&self.text, &values)
            }
        }
    }

    /// What the network by itself gives the class that is predicted: of a predictor of two halves not the prediction.
    #[must_use]
    pub fn network_probability(&self, label: &str) -> Option<f32> {
        let own = self.parts.as_ref().map_or(&self.probabilities, |parts| &parts.attention);
        own.iter().find(|p| p.label == label).map(|p| p.probability)
    }

    /// Of an encoder, whether the text is held against itself.
    #[must_use]
    pub fn is_compared_with_itself(&self) -> bool {
        self.kind == ExplanationKind::Encoder && self.label == self.text
    }

    /// How the probability of the predicted class changes without a head, the network's own; of an encoder, the cosine.
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

    /// The same with the large arrays empty.
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
        }
    }

    /// The weights of one query over all keys, which sum to 1.
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

    /// A weight, or none where the key cannot be seen.
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

    /// How much attention each word gets from all words together: the sum of its column.
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

    /// Whether the parts fit together: sizes agree, numbers are finite, weights lie in 0 to 1 and rows sum to 1.
    ///
    /// # Errors
    ///
    /// The first thing that does not fit, with what was expected and what came.
    pub fn validate(&self) -> Result<(), ExplanationError> {
        let n = self.words.len();
        let has_none = self.layers == 0 && self.heads == 0;
        if n == 0 || !has_none && (self.layers == 0 || self.heads == 0) {
            return Err(ExplanationError::new(tr!(
                "an explanation needs a word, and layers and heads or neither; it has {} layers, {} heads, {n} words",
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
                "attribution needs one score a word, {n}; there are {}",
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
                "attribution of the whole predictor needs a finite score a word, {n}; there are {}, or one is none",
                "予測器全体の attribution には語ごとに一つ、全部で {n} 個の有限のスコアが必要ですが、{} 個か、有限でないものがあります",
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
                    "a head is switched off that is not there: layer {}, head {}",
                    "無効にしたヘッドがありません: 層 {}、ヘッド {}",
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
        let all = self.probabilities.iter().chain(parts.flat_map(|parts| parts.attention.iter().chain(&parts.ngrams)));
        for LabelProbability { label, probability } in all {
            // Written so that NaN, which is in no range, is refused too.
            if !(0.0..=1.001).contains(probability) {
                return Err(ExplanationError::new(tr!(
                    "the probability of {label:?} is {probability}, not within 0 to 1",
                    "{label:?} の確率 {probability} が 0 から 1 の範囲にありません"
                )));
            }
        }
        Ok(())
    }

    /// That the rows of `en`, `ja` in the other language, are shares.
    fn validate_rows(&self, [en, ja]: [&str; 2], numbers: &[f32]) -> Result<(), ExplanationError> {
        let (n, what) = (self.words.len(), lang().pick(en, ja));
        // Rollout has one map a layer.
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
