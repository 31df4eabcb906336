//! Explanation of a translation: its words, the words of the source, and all cross-attention weights between them.

use super::explanation::{ExplanationError, Word};
use super::json::{json_number, read_nested};
use super::logit_lens::LogitLens;
use super::patching::Patching;
use super::statistics::measure_rows;
use crate::lang::lang;
use crate::{sorting, tr};
use chumoku_kernels::Philox;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A source, its translation, and the attention between their words.
///
/// # Shapes
/// - `attention`: (layers, heads, target words, source words), row-major; each row sums to 1
/// - `effects`: (target words, source words)
/// - `log_probabilities`: (target words,)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The source text.
    pub source: String,
    /// The translation.
    pub target: String,
    /// `true` if the caller provided the translation.
    pub is_given: bool,
    /// `true` if the source was truncated to the model's limit. The words are those that were read.
    pub is_cut: bool,
    /// The target tokens that the output layer reads after each layer of the decoder, given the words before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lens: Option<LogitLens>,
    /// How far the translation moves when values of the encoder or the decoder are those for another source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patching: Option<Patching>,
    /// The words of the source. The last is the special end token.
    pub source_words: Vec<Word>,
    /// The words of the translation. The last is the special end token.
    pub target_words: Vec<Word>,
    /// The number of decoder layers.
    pub layers: usize,
    /// The number of heads in a layer.
    pub heads: usize,
    /// The log-probability of each target word, given the target words before it.
    pub log_probabilities: Vec<f32>,
    /// The decrease of a target word's log-probability if a source word is left out (leave-one-out). `None` for the end
    /// token, which cannot be left out.
    pub effects: Vec<Vec<Option<f32>>>,
    /// All heads, best aligned first.
    pub ranking: Vec<AlignedHead>,
    /// The translation with each cross-attention head switched off, layer by layer. May be empty.
    pub without: Vec<TranslationHeadAblation>,
    /// The rule by which token weights were combined into word weights.
    pub joining: String,
    /// Weights between words.
    #[serde(skip)]
    pub attention: Vec<f32>,
}

/// The alignment quality of a head. The source word that a target word needs is the one with the largest effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignedHead {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// The share of target words for which the head's largest weight is on the source word they need.
    pub agreement: f32,
    /// The mean weight on the needed source word.
    pub mass: f32,
    /// The mean entropy of the rows, as a share of the maximum: 1 is uniform, 0 is a single word.
    pub entropy: f32,
    /// The mean of the largest weight in each row.
    pub strongest: f32,
    /// The mean weight on the end of the source.
    pub end: f32,
    /// The largest agreement that the same rows reach by chance, when assigned to shuffled target words. The number of
    /// shuffles makes one head in a hundred models exceed it by chance.
    pub(crate) by_chance: f32,
    /// `true` if the agreement exceeds chance.
    pub aligns: bool,
}

/// The smallest effect, in log-probability, of a needed word. Without the source word, the target word is a tenth less
/// likely.
const MIN_EFFECT: f32 = 0.1;

/// An effect that always counts as needed.
const SUFFICIENT_EFFECT: f32 = 0.5;

/// Shuffles per head, multiplied by the number of heads. One in a hundred models then has a head that exceeds its
/// shuffles by chance.
const SHUFFLES: usize = 100;

/// The seed of the shuffles.
const SEED: u64 = 0x616c_6967_6e00;

/// The output without one cross-attention head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslationHeadAblation {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// The log-probability of each word of the explained translation, given the words before it.
    pub log_probabilities: Vec<f32>,
    /// The model's own translation without the head.
    pub translation: String,
}

impl Alignment {
    /// Returns the layer and head of cross-attention, from 0, that matter most. With patching, it is the head that moves
    /// the answer most, and otherwise the one that aligns best.
    #[must_use]
    pub fn most_important_head(&self) -> [usize; 2] {
        let decoder = self.patching.as_ref().and_then(|patching| patching.decoder.as_ref());
        let patched = decoder.and_then(|decoder| decoder.sites().strongest_head());
        patched.unwrap_or_else(|| self.ranking.first().map_or([0, 0], |best| [best.layer, best.head]))
    }

    /// Returns the weights of a target word over the source words.
    ///
    /// All indices count from 0.
    ///
    /// # Panics
    /// If an index is out of range.
    #[must_use]
    pub fn row(&self, layer: usize, head: usize, target: usize) -> &[f32] {
        assert!(layer < self.layers && head < self.heads && target < self.target_words.len());
        let (rows, columns) = (self.target_words.len(), self.source_words.len());
        &self.attention[((layer * self.heads + head) * rows + target) * columns..][..columns]
    }

    /// Returns the source word that a target word needs most: the one with the largest effect.
    ///
    /// `None` if the effect is negligible. It must reduce the probability by at least a tenth. It must also exceed the
    /// largest gain from leaving out any word, which shows how much effects vary by chance.
    #[must_use]
    pub fn needed_source_word(&self, target: usize) -> Option<usize> {
        let gained = self.effects.iter().flatten().flatten().map(|effect| -effect).fold(MIN_EFFECT, f32::max);
        // A single large gain must not hide the needed words.
        let least = gained.min(SUFFICIENT_EFFECT);
        let effects = self.effects[target].iter().enumerate();
        let known = effects.filter_map(|(source, effect)| Some((source, (*effect)?)));
        let most = known.reduce(|best, next| if next.1 > best.1 { next } else { best });
        most.filter(|(_, effect)| *effect >= least).map(|(source, _)| source)
    }

    /// Ranks the heads by agreement, then by mass, then by their order.
    #[must_use]
    pub fn rank_heads(&self) -> Vec<AlignedHead> {
        let needed: Vec<(usize, usize)> = (0..self.target_words.len())
            .filter_map(|target| Some((target, self.needed_source_word(target)?)))
            .collect();
        let shuffles = (SHUFFLES * self.layers * self.heads).saturating_sub(1);
        let of_head = |layer: usize, head: usize| {
            let mut mass = 0.0f32;
            let mut looked = Vec::with_capacity(needed.len());
            for &(target, source) in &needed {
                let row = self.row(layer, head, target);
                looked.push((0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }));
                mass += row[source];
            }
            let agreeing = |order: &mut dyn Iterator<Item = usize>| {
                order.zip(&needed).filter(|(row, (_, source))| looked[*row] == *source).count()
            };
            let found = agreeing(&mut (0..looked.len()));
            // A head whose rows all attend to the same word keeps its agreement under any shuffle.
            let random = |index: usize| Philox::new(SEED, ((layer * self.heads + head) * shuffles + index) as u64);
            let by_chance = (0..shuffles)
                .map(|index| agreeing(&mut random(index).permutation(looked.len()).into_iter()))
                .max()
                .unwrap_or(0);
            let count = needed.len().max(1) as f32;
            let rows = self.target_words.len();
            let of_rows = measure_rows(self.source_words.len(), (0..rows).map(|i| (i, self.row(layer, head, i))));
            let end: f32 = (0..rows).filter_map(|i| self.row(layer, head, i).last()).sum();
            AlignedHead {
                layer,
                head,
                agreement: found as f32 / count,
                mass: mass / count,
                entropy: of_rows.entropy,
                strongest: of_rows.strongest,
                end: end / rows.max(1) as f32,
                by_chance: by_chance as f32 / count,
                aligns: found > by_chance,
            }
        };
        let all = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| (layer, head)));
        let mut ranking: Vec<AlignedHead> = all.map(|(layer, head)| of_head(layer, head)).collect();
        sorting::sort_by(&mut ranking, |a, b| b.agreement.total_cmp(&a.agreement).then(b.mass.total_cmp(&a.mass)));
        ranking
    }

    /// Returns all values as JSON, including the needed source word of each target word. `attention` is nested as
    /// `[layer][head][target][source]`, which `axes` records.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row =
            |layer, head, target| self.row(layer, head, target).iter().copied().map(json_number).collect::<Value>();
        let of_head = |layer, head| (0..self.target_words.len()).map(|target| row(layer, head, target)).collect();
        let of_layer = |layer| (0..self.heads).map(|head| -> Value { of_head(layer, head) }).collect::<Value>();
        let mut object = self.fields();
        object.insert("axes".into(), ["layer", "head", "target", "source"].map(Value::from).to_vec().into());
        object.insert("attention".into(), (0..self.layers).map(of_layer).collect());
        Value::Object(object)
    }

    /// Reads the output of [`Alignment::to_json`]. Heads are ranked again, so `ranking` and `needed` may be missing.
    ///
    /// # Errors
    /// If a field is missing or has another type, or the number of values does not match the number of words.
    pub fn from_json(value: &Value) -> Result<Alignment, ExplanationError> {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        let attention = fields.remove("attention").unwrap_or_default();
        for (name, empty) in [("ranking", Value::Array(Vec::new())), ("without", Value::Array(Vec::new()))] {
            fields.entry(name).or_insert(empty);
        }
        let mut alignment: Alignment = serde_json::from_value(Value::Object(fields)).map_err(|error| {
            ExplanationError::new(tr!("not an alignment: {error}", "対応付けとして正しくありません: {error}"))
        })?;
        let (rows, columns) = (alignment.target_words.len(), alignment.source_words.len());
        let has_numbers = alignment.log_probabilities.len() == rows
            && alignment.effects.len() == rows
            && alignment.effects.iter().all(|row| row.len() == columns);
        if !has_numbers || rows == 0 || columns == 0 || alignment.layers == 0 || alignment.heads == 0 {
            return Err(ExplanationError::new(tr!(
                "an alignment of {rows} target and {columns} source words needs layers and heads, {rows} probabilities, and \
                 {rows} rows of {columns} effects",
                "{rows} 語と {columns} 語の対応付けには、層とヘッド、{rows} 個の確率、{columns} 個の効果の行が {rows} 行必要です"
            )));
        }
        let shape = [alignment.layers, alignment.heads, rows, columns];
        read_nested("attention", &attention, &shape, &mut alignment.attention)?;
        if alignment.attention.iter().any(|weight| !(-1e-3..=1.001).contains(weight)) {
            let problem = lang().pick("a weight is not within 0 to 1", "0 から 1 の範囲にない重みがあります");
            return Err(ExplanationError::new(problem));
        }
        if alignment.patching.as_ref().is_some_and(|patching| !patching.has_consistent_lists()) {
            let problem = lang().pick("the lists of the patching do not match", "パッチングの配列の長さが一致しません");
            return Err(ExplanationError::new(problem));
        }
        alignment.ranking = alignment.rank_heads();
        Ok(alignment)
    }

    /// Returns all fields except the attention as JSON.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        // Goes through text, so that each f32 keeps its shortest digits.
        let text = serde_json::to_vec(self).expect("an alignment is plain data");
        let mut fields: Map<String, Value> = serde_json::from_slice(&text).expect("what was just written");
        let needed =
            (0..self.target_words.len()).map(|target| self.needed_source_word(target).map_or(Value::Null, Value::from));
        fields.insert("needed".into(), needed.collect());
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Alignment {
        let words = |texts: &[&str]| {
            let plain = texts.iter().map(|text| Word { text: (*text).into(), special: false });
            plain.chain([Word { text: "[END]".into(), special: true }]).collect::<Vec<_>>()
        };
        let mut alignment = Alignment {
            model: "model".into(),
            source: "a b".into(),
            target: "B A".into(),
            is_given: false,
            is_cut: false,
            lens: None,
            patching: None,
            source_words: words(&["a", "b"]),
            target_words: words(&["B", "A"]),
            layers: 1,
            heads: 2,
            log_probabilities: vec![-0.1, -0.2, -0.3],
            effects: vec![
                vec![Some(0.5), Some(2.0), None],
                vec![Some(3.0), Some(-1.0), None],
                vec![Some(0.1), Some(0.1), None],
            ],
            ranking: Vec::new(),
            without: Vec::new(),
            joining: "sum over keys, mean over queries".into(),
            attention: vec![
                0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.2, 0.2, 0.6, // the wrong way round
                0.1, 0.7, 0.2, 0.9, 0.05, 0.05, 0.2, 0.2, 0.6,
            ],
        };
        alignment.ranking = alignment.rank_heads();
        alignment
    }

    #[test]
    fn the_head_on_needed_words_is_first() {
        let alignment = example();
        // The last word loses too little: others gain more when a word is left out.
        assert_eq!([0, 1, 2].map(|target| alignment.needed_source_word(target)), [Some(1), Some(0), None]);
        let [first, second] = alignment.ranking[..] else { panic!() };
        assert_eq!((first.layer, first.head, second.head), (0, 1, 0));
        assert!(first.agreement == 1.0 && second.agreement == 0.0);
        assert!((first.mass - (0.7 + 0.9) / 2.0).abs() < 1e-6);
        assert!((second.mass - (0.1 + 0.1) / 2.0).abs() < 1e-6);
    }

    /// An alignment of `n` words with `n` others, in which each target word needs the source word at the same index.
    /// One head attends to `looks`.
    fn needing(n: usize, looks: impl Fn(usize) -> usize) -> Alignment {
        let share = |target: usize, source: usize| if source == looks(target) { 0.9 } else { 0.1 / n as f32 };
        let words = vec![Word { text: "w".into(), special: false }; n];
        let effect = |target: usize, source: usize| Some(if source == target { 1.0 } else { 0.0 });
        let mut alignment = Alignment {
            heads: 1,
            source_words: words.clone(),
            target_words: words,
            log_probabilities: vec![-0.1; n],
            effects: (0..n).map(|target| (0..n).map(|source| effect(target, source)).collect()).collect(),
            attention: (0..n * n).map(|i| share(i / n, i % n)).collect(),
            ..example()
        };
        alignment.ranking = alignment.rank_heads();
        alignment
    }

    #[test]
    fn a_head_aligns_if_no_shuffle_of_its_rows_agrees_as_well() {
        let n = 12;
        let diagonal = needing(n, |target| target).ranking[0];
        assert!(diagonal.aligns && diagonal.agreement == 1.0 && diagonal.by_chance < 0.7, "{diagonal:?}");
        let one_word = needing(n, |_| 3).ranking[0];
        assert!(!one_word.aligns && one_word.agreement == one_word.by_chance, "{one_word:?}");
        // Hardly any head with random attention aligns.
        let random = |seed: u64| needing(n, |target| (Philox::new(seed, 5).block(target as u64)[0] % 12) as usize);
        let aligning = (0..300).filter(|&seed| random(seed).ranking[0].aligns).count();
        assert!(aligning <= 9, "{aligning}");
        // Equal values give equal results.
        assert_eq!(random(1), random(1));
    }

    #[test]
    fn a_word_without_effect_is_not_needed() {
        let mut alignment = example();
        // Another word gains 1 when a word is left out. A tenth of a nat is then within chance.
        assert_eq!(alignment.needed_source_word(2), None);
        alignment.effects[1][1] = Some(0.0);
        assert_eq!(alignment.needed_source_word(2), Some(0));
        alignment.effects[2] = vec![Some(0.03), Some(-0.02), None];
        assert_eq!((alignment.needed_source_word(2), alignment.needed_source_word(1)), (None, Some(0)));
        // A large gain of one word does not hide the needs of others.
        alignment.effects[1][1] = Some(-9.0);
        assert_eq!([0, 1, 2].map(|target| alignment.needed_source_word(target)), [Some(1), Some(0), None]);
    }

    #[test]
    fn rows_are_ordered_by_layer_then_head_then_word() {
        // Two layers of three heads, two words by three. Each value encodes its position.
        let number = |i: usize| (i / 18 * 1000 + i / 6 % 3 * 100 + i / 3 % 2 * 10 + i % 3) as f32;
        let words = |n: usize| vec![Word { text: "w".into(), special: false }; n];
        let alignment = Alignment {
            layers: 2,
            heads: 3,
            source_words: words(3),
            target_words: words(2),
            attention: (0..36).map(number).collect(),
            ..example()
        };
        for (layer, head, target) in [(0, 0, 0), (0, 2, 1), (1, 0, 1), (1, 2, 0)] {
            let first = (layer * 1000 + head * 100 + target * 10) as f32;
            assert_eq!(alignment.row(layer, head, target), [first, first + 1.0, first + 2.0]);
        }
    }

    #[test]
    fn json_contains_every_number() {
        let json = example().to_json();
        assert_eq!(json["attention"][0][1][1][0].to_string(), "0.9");
        assert_eq!(json["effects"][0][1].to_string(), "2.0");
        assert!(json["effects"][0][2].is_null());
        assert_eq!(json["log_probabilities"][2].to_string(), "-0.3");
        assert_eq!(json["ranking"][0]["head"], 1);
        assert_eq!(json["axes"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn json_is_read_back_and_inconsistent_json_is_rejected() {
        let mut alignment = example();
        alignment.ranking = alignment.rank_heads();
        let mut json = alignment.to_json();
        assert_eq!(Alignment::from_json(&json).unwrap(), alignment);
        json.as_object_mut().unwrap().remove("ranking");
        assert_eq!(Alignment::from_json(&json).unwrap(), alignment);
        for (name, wrong) in
            [("effects", "[[1]]"), ("attention", "[[1]]"), ("layers", "0"), ("layers", "9"), ("heads", "-1")]
        {
            let mut json = json.clone();
            json[name] = serde_json::from_str(wrong).unwrap();
            assert!(Alignment::from_json(&json).is_err(), "{name}");
        }
        json["attention"][0][0][0][0] = 7.into();
        assert!(Alignment::from_json(&json).unwrap_err().to_string().contains("within 0 to 1"));
        assert!(Alignment::from_json(&Value::Null).is_err());
    }
}
