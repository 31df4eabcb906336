//! Where a translation comes from: a source, its translation, and every cross-attention weight between their words.

use super::explanation::{ExplanationError, Word};
use super::json::{json_number, read_nested};
use super::statistics::measure_rows;
use crate::lang::lang;
use crate::{sorting, tr};
use chumoku_kernels::Philox;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A source, its translation, and where each word of the translation comes from.
///
/// # Shapes
/// - `attention`: (layers, heads, target words, source words), row-major; each row sums to 1
/// - `effects`: (target words, source words)
/// - `log_probabilities`: (target words,)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// Name of the model's folder, without its path.
    pub model: String,
    /// The source as it was given.
    pub source: String,
    /// The translation.
    pub target: String,
    /// Whether the translation was given, too, and is not the model's own.
    pub is_given: bool,
    /// Whether the source is longer than the model reads: the words are those that it read.
    pub is_cut: bool,
    /// The source's words; the last is the special word that ends it.
    pub source_words: Vec<Word>,
    /// The translation's words; the last is the special word that ends it.
    pub target_words: Vec<Word>,
    /// Layers of the decoder.
    pub layers: usize,
    /// Heads of a layer.
    pub heads: usize,
    /// ln p of each word of the translation after those before it.
    pub log_probabilities: Vec<f32>,
    /// By how much ln p of a word of the translation falls when a word of the source is left out (leave-one-out); none
    /// for the special word, which cannot be.
    pub effects: Vec<Vec<Option<f32>>>,
    /// All heads, by how well they align, the best first.
    pub ranking: Vec<AlignedHead>,
    /// What the model would say without each head of its cross-attention, layer by layer; may be empty.
    pub without: Vec<TranslationHeadAblation>,
    /// How weights between tokens became weights between words.
    pub joining: String,
    /// Weights between words.
    #[serde(skip)]
    pub attention: Vec<f32>,
}

/// How well a head aligns. A word of the translation needs most the source word whose absence costs it most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignedHead {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// Share of the words for which the head looks most at the source word that they need most.
    pub agreement: f32,
    /// Mean weight on the source word that is needed most.
    pub mass: f32,
    /// Mean entropy of the rows by the most that there can be: 1 is spread evenly, 0 is one word.
    pub entropy: f32,
    /// Mean of the largest weight of each row.
    pub strongest: f32,
    /// Mean weight on the word that ends the source.
    pub end: f32,
    /// The largest agreement that the same rows reach by chance: given to other words of the translation, shuffled as often as
    /// makes it one head in a hundred models that exceeds this by chance.
    pub by_chance: f32,
    /// Whether the agreement exceeds that.
    pub aligns: bool,
}

/// The least effect, in ln p, of a word that is needed: without it the other is a tenth less likely.
const MIN_EFFECT: f32 = 0.1;

/// An effect that is always enough.
const SUFFICIENT_EFFECT: f32 = 0.5;

/// Shuffles for each head: with this many heads in all, one in a hundred models has a head that exceeds them by chance.
const SHUFFLES: usize = 100;

/// The seed of the shuffles.
const SEED: u64 = 0x616c_6967_6e00;

/// What the model would say without one head of its cross-attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranslationHeadAblation {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// ln p of each word of the translation that is explained, after those before it.
    pub log_probabilities: Vec<f32>,
    /// What the model would write instead.
    pub translation: String,
}

impl Alignment {
    /// The weights of a word of the translation over the words of the source.
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

    /// The source word that a word of the translation needs most: the one whose absence costs it most.
    ///
    /// None where that costs it next to nothing: less than a tenth of its probability, or no more than leaving some
    /// word out gains, which shows how far effects go either way by chance.
    #[must_use]
    pub fn needed_source_word(&self, target: usize) -> Option<usize> {
        let gained = self.effects.iter().flatten().flatten().map(|effect| -effect).fold(MIN_EFFECT, f32::max);
        // One effect that stands out the other way must not hide what words need.
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
            // A head that looks at the same word from everywhere agrees as often however its rows are shuffled.
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

    /// All numbers as JSON, with the source word that each word of the translation needs most; `attention` is nested
    /// `[layer][head][target][source]`, and `axes` says so.
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

    /// Reads what [`Alignment::to_json`] wrote; heads are ranked anew, so that `ranking` and `needed` may be missing.
    ///
    /// # Errors
    /// Where a field is missing or of another type, or numbers are not as many as there are words.
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
                "an alignment of {rows} and {columns} words needs layers and heads, {rows} probabilities, and as many rows of \
                 {columns} effects",
                "{rows} 語と {columns} 語の対応付けには、層とヘッド、{rows} 個の確率、{columns} 個の効果の行が {rows} 行必要です"
            )));
        }
        let shape = [alignment.layers, alignment.heads, rows, columns];
        read_nested("attention", &attention, &shape, &mut alignment.attention)?;
        if alignment.attention.iter().any(|weight| !(-1e-3..=1.001).contains(weight)) {
            let problem = lang().pick("a weight is not within 0 to 1", "0 から 1 の範囲にない重みがあります");
            return Err(ExplanationError::new(problem));
        }
        alignment.ranking = alignment.rank_heads();
        Ok(alignment)
    }

    /// All fields as JSON but the attention.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        // By way of text, so that an f32 keeps the digits it has.
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
    fn the_head_that_looks_at_what_is_needed_is_first() {
        let alignment = example();
        // The last word loses too little: others gain more by leaving a word out.
        assert_eq!([0, 1, 2].map(|target| alignment.needed_source_word(target)), [Some(1), Some(0), None]);
        let [first, second] = alignment.ranking[..] else { panic!() };
        assert_eq!((first.layer, first.head, second.head), (0, 1, 0));
        assert!(first.agreement == 1.0 && second.agreement == 0.0);
        assert!((first.mass - (0.7 + 0.9) / 2.0).abs() < 1e-6);
        assert!((second.mass - (0.1 + 0.1) / 2.0).abs() < 1e-6);
    }

    /// An alignment of `n` words with `n`, each of which needs the one in its place; one head looks at `looks`.
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
    fn a_head_aligns_if_no_shuffle_of_its_rows_does_as_well() {
        let n = 12;
        let diagonal = needing(n, |target| target).ranking[0];
        assert!(diagonal.aligns && diagonal.agreement == 1.0 && diagonal.by_chance < 0.7, "{diagonal:?}");
        let one_word = needing(n, |_| 3).ranking[0];
        assert!(!one_word.aligns && one_word.agreement == one_word.by_chance, "{one_word:?}");
        // Of heads that look anywhere hardly one aligns.
        let random = |seed: u64| needing(n, |target| (Philox::new(seed, 5).block(target as u64)[0] % 12) as usize);
        let aligning = (0..300).filter(|&seed| random(seed).ranking[0].aligns).count();
        assert!(aligning <= 9, "{aligning}");
        // The same from the same numbers.
        assert_eq!(random(1), random(1));
    }

    #[test]
    fn what_costs_nothing_is_not_needed() {
        let mut alignment = example();
        // Another word gains 1 by a word left out: a tenth of a nat is no more than chance.
        assert_eq!(alignment.needed_source_word(2), None);
        alignment.effects[1][1] = Some(0.0);
        assert_eq!(alignment.needed_source_word(2), Some(0));
        alignment.effects[2] = vec![Some(0.03), Some(-0.02), None];
        assert_eq!((alignment.needed_source_word(2), alignment.needed_source_word(1)), (None, Some(0)));
        // However much one word gains, it does not hide what others need.
        alignment.effects[1][1] = Some(-9.0);
        assert_eq!([0, 1, 2].map(|target| alignment.needed_source_word(target)), [Some(1), Some(0), None]);
    }

    #[test]
    fn rows_lie_by_layer_then_head_then_word() {
        // Two layers of three heads, two words by three: each number says where it is.
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
    fn json_holds_every_number() {
        let json = example().to_json();
        assert_eq!(json["attention"][0][1][1][0].to_string(), "0.9");
        assert_eq!(json["effects"][0][1].to_string(), "2.0");
        assert!(json["effects"][0][2].is_null());
        assert_eq!(json["log_probabilities"][2].to_string(), "-0.3");
        assert_eq!(json["ranking"][0]["head"], 1);
        assert_eq!(json["axes"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn json_is_read_back_and_what_does_not_fit_is_refused() {
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
