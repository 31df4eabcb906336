//! Where a translation comes from: a source, its translation, and every cross-attention weight between their words.

use super::explanation::Word;
use super::json::number;
use super::roles::statistics;
use serde::Serialize;
use serde_json::{Map, Value};

/// A source, its translation, and where each word of the translation comes from.
///
/// # Shapes
/// - `attention`: (layers, heads, target words, source words), row-major; each row sums to 1
/// - `effects`: (target words, source words)
/// - `log_probabilities`: (target words,)
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub without: Vec<TranslationWithoutHead>,
    /// How weights between tokens became weights between words.
    pub joining: String,
    /// Weights between words.
    #[serde(skip)]
    pub attention: Vec<f32>,
}

/// How well a head aligns. A word of the translation needs most the source word whose absence costs it most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
}

/// What the model would say without one head of its cross-attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TranslationWithoutHead {
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
    /// The weights of a word of the translation over the words of the source. All indices count from 0.
    ///
    /// # Panics
    /// If an index is out of range.
    #[must_use]
    pub fn row(&self, layer: usize, head: usize, target: usize) -> &[f32] {
        assert!(layer < self.layers && head < self.heads && target < self.target_words.len());
        let (rows, columns) = (self.target_words.len(), self.source_words.len());
        &self.attention[((layer * self.heads + head) * rows + target) * columns..][..columns]
    }

    /// The source word that a word of the translation needs most.
    #[must_use]
    pub fn needed(&self, target: usize) -> Option<usize> {
        let effects = self.effects[target].iter().enumerate();
        let known = effects.filter_map(|(source, effect)| Some((source, (*effect)?)));
        known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(source, _)| source)
    }

    /// Ranks the heads by agreement, then by mass, then by their order.
    #[must_use]
    pub fn rank(&self) -> Vec<AlignedHead> {
        let needed: Vec<(usize, usize)> =
            (0..self.target_words.len()).filter_map(|target| Some((target, self.needed(target)?))).collect();
        let of_head = |layer: usize, head: usize| {
            let (mut agreeing, mut mass) = (0.0f32, 0.0f32);
            for &(target, source) in &needed {
                let row = self.row(layer, head, target);
                let most = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
                agreeing += f32::from(u8::from(most == source));
                mass += row[source];
            }
            let count = needed.len().max(1) as f32;
            let rows = self.target_words.len();
            let of_rows =
                statistics([layer, head], self.source_words.len(), (0..rows).map(|i| self.row(layer, head, i)));
            let end: f32 = (0..rows).filter_map(|i| self.row(layer, head, i).last()).sum();
            AlignedHead {
                layer,
                head,
                agreement: agreeing / count,
                mass: mass / count,
                entropy: of_rows.entropy,
                strongest: of_rows.strongest,
                end: end / rows.max(1) as f32,
            }
        };
        let all = (0..self.layers).flat_map(|layer| (0..self.heads).map(move |head| (layer, head)));
        let mut ranking: Vec<AlignedHead> = all.map(|(layer, head)| of_head(layer, head)).collect();
        ranking.sort_by(|a, b| b.agreement.total_cmp(&a.agreement).then(b.mass.total_cmp(&a.mass)));
        ranking
    }

    /// All numbers as JSON; `attention` is nested `[layer][head][target][source]`, and `axes` says so.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row = |layer, head, target| self.row(layer, head, target).iter().copied().map(number).collect::<Value>();
        let of_head = |layer, head| (0..self.target_words.len()).map(|target| row(layer, head, target)).collect();
        let of_layer = |layer| (0..self.heads).map(|head| -> Value { of_head(layer, head) }).collect::<Value>();
        let mut object = self.fields();
        object.insert("axes".into(), ["layer", "head", "target", "source"].map(Value::from).to_vec().into());
        object.insert("attention".into(), (0..self.layers).map(of_layer).collect());
        Value::Object(object)
    }

    /// All fields but the attention.
    pub(super) fn fields(&self) -> Map<String, Value> {
        // By way of text, so that an f32 keeps the digits it has.
        let text = serde_json::to_string(self).expect("an alignment is plain data");
        serde_json::from_str(&text).expect("what was just written")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn example() -> Alignment {
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
        alignment.ranking = alignment.rank();
        alignment
    }

    #[test]
    fn the_head_that_looks_at_what_is_needed_is_first() {
        let alignment = example();
        // Of equal effects the first counts.
        assert_eq!([0, 1, 2].map(|target| alignment.needed(target)), [Some(1), Some(0), Some(0)]);
        let [first, second] = alignment.ranking[..] else { panic!() };
        assert_eq!((first.layer, first.head, second.head), (0, 1, 0));
        assert!((first.agreement - 2.0 / 3.0).abs() < 1e-6 && second.agreement == 0.0);
        assert!((first.mass - (0.7 + 0.9 + 0.2) / 3.0).abs() < 1e-6);
        assert!((second.mass - (0.1 + 0.1 + 0.2) / 3.0).abs() < 1e-6);
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
}
