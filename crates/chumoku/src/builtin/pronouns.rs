//! The built-in data set that needs attention: does "it" mean the first or the second noun of a sentence?
//!
//! ```text
//! The cat stayed near the mat because it was tired.    first
//! The cat stayed near the mat because it was wet.      second
//! The mat stayed near the cat because it was tired.    second
//! 子どもは橋のそばに残っていた。疲れていたからだ。            先
//! 子どもは橋のそばに残っていた。壊れていたからだ。            後
//! ```
//!
//! Each sentence names an animal and a thing, in either order. Its last word fits only one of the two.
//! Neither the order alone nor the last word alone says anything: each order and each kind of last word occurs equally
//! often with both answers. A model has to find the noun that the last word fits, and to see where it stands. Japanese
//! leaves the subject of the second sentence out, so that there the word "it" is not even written.
//!
//! Verbs fit both orders; otherwise the verb would give the order away. Japanese verbs fit animals and things alike,
//! which いる and ある do not.
//!
//! All pairs of an animal and a thing are divided among the splits. A model that only remembers pairs fails on the test
//! rows.

use super::random_choices::RandomChoices;
use crate::lang::Lang;
use crate::tr;
use crate::train::{Rows, TrainingData};

/// The number of animals, and of things.
const NOUNS: usize = 10;

/// The words of a language.
struct Words {
    animals: [&'static str; NOUNS],
    things: [&'static str; NOUNS],
    /// Verbs with their preposition.
    verbs: [&'static str; 8],
    /// Words that fit animals only, then words that fit things only.
    qualities: [[&'static str; 10]; 2],
    /// The answers: first noun, second noun.
    answers: [&'static str; 2],
}

const ENGLISH: Words = Words {
    animals: ["cat", "dog", "horse", "rabbit", "fox", "bear", "duck", "goat", "mouse", "cow"],
    things: ["mat", "box", "chair", "table", "basket", "lamp", "bike", "drum", "bench", "cart"],
    verbs: [
        "stayed near",
        "lay beside",
        "stood behind",
        "sat beside",
        "rested against",
        "remained by",
        "waited behind",
        "leaned against",
    ],
    qualities: [
        ["tired", "hungry", "thirsty", "sleepy", "curious", "afraid", "lonely", "bored", "angry", "proud"],
        ["wet", "broken", "wooden", "rusty", "cracked", "hollow", "crooked", "plastic", "painted", "torn"],
    ],
    answers: ["first", "second"],
};

const JAPANESE: Words = Words {
    animals: ["子ども", "猫", "犬", "馬", "うさぎ", "羊", "猿", "熊", "象", "老人"],
    things: ["橋", "塔", "門", "車", "船", "机", "椅子", "箱", "看板", "自転車"],
    verbs: [
        "のそばに残っていた",
        "の隣に並んでいた",
        "の前に立っていた",
        "の後ろに隠れていた",
        "の横に倒れていた",
        "の手前で止まっていた",
        "の向こうに見えた",
        "の近くに写っていた",
    ],
    qualities: [
        [
            "疲れていた",
            "眠かった",
            "腹が減っていた",
            "喉が渇いていた",
            "怖がっていた",
            "退屈していた",
            "寂しがっていた",
            "怒っていた",
            "迷っていた",
            "緊張していた",
        ],
        [
            "壊れていた",
            "濡れていた",
            "錆びていた",
            "割れていた",
            "修理中だった",
            "塗りたてだった",
            "木製だった",
            "空だった",
            "売り物だった",
            "曲がっていた",
        ],
    ],
    answers: ["先", "後"],
};

impl Words {
    fn of(lang: Lang) -> &'static Words {
        match lang {
            Lang::En => &ENGLISH,
            Lang::Ja => &JAPANESE,
        }
    }

    fn sentence(&self, lang: Lang, [first, second]: [&str; 2], verb: &str, quality: &str) -> String {
        match lang {
            Lang::En => format!("The {first} {verb} the {second} because it was {quality}."),
            Lang::Ja => format!("{first}は{second}{verb}。{quality}からだ。"),
        }
    }
}

/// A sentence of the test rows: its text, the noun that is meant, and the word that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PronounExample {
    /// The sentence.
    pub text: String,
    /// The noun that is meant.
    pub noun: &'static str,
    /// The word that decides which noun is meant.
    pub quality: &'static str,
}

/// Returns a sentence of a language twice: once with a word that fits its animal, once with one that fits its thing.
/// The pair of nouns occurs in no training row.
///
/// ```
/// use chumoku::{builtin, lang::Lang};
///
/// let [tired, wet] = builtin::pronoun_examples(Lang::En);
/// assert_eq!(tired.text, "The cat stayed near the mat because it was tired.");
/// assert_eq!(wet.text, "The cat stayed near the mat because it was wet.");
/// assert_eq!([tired.noun, wet.noun], ["cat", "mat"]);
/// ```
pub fn pronoun_examples(lang: Lang) -> [PronounExample; 2] {
    let words = Words::of(lang);
    let nouns = [words.animals[0], words.things[0]];
    [0, 1].map(|meant| {
        let quality = words.qualities[meant][0];
        let text = words.sentence(lang, nouns, words.verbs[0], quality);
        PronounExample { text, noun: nouns[meant], quality }
    })
}

/// The stream of the choice of qualities.
const QUALITY_STREAM: u64 = 1;
/// The streams of the order of rows; split p uses `ORDER_STREAM + p`.
const ORDER_STREAM: u64 = 2;

/// Returns the sentences of a language: 2,560 for training, 320 for validation and 320 for testing. The seed decides the
/// last words and the order.
///
/// Each pair of an animal and a thing occurs with every verb in both orders. Each time the last word fits the animal once
/// and the thing once. A pair belongs to one split. Each validation and test row has a twin
/// with exchanged nouns, so that no set of words decides.
///
/// ```
/// use chumoku::{builtin, lang::Lang, row::AsRow};
///
/// let data = builtin::pronouns(Lang::En, 1);
/// assert_eq!([data.train.len(), data.valid.len(), data.test.len()], [2_560, 320, 320]);
/// assert_eq!(data.labels, ["first", "second"]);
/// assert!(data.train.texts[0].as_row().text().contains(" because it was "));
/// ```
pub fn pronouns(lang: Lang, seed: u64) -> TrainingData {
    let words = Words::of(lang);
    let mut draw = RandomChoices::new(seed, QUALITY_STREAM);
    let mut splits: [Vec<(String, u32)>; 3] = Default::default();
    for (i, animal) in words.animals.iter().enumerate() {
        for (j, thing) in words.things.iter().enumerate() {
            // A Latin square: each noun has one partner in the validation rows, one in the test rows, eight in training.
            let split = match (i + j) % NOUNS {
                0 => 2,
                1 => 1,
                _ => 0,
            };
            for verb in words.verbs {
                for (is_thing_meant, qualities) in words.qualities.iter().enumerate() {
                    let both = [draw.choose(qualities), draw.choose(qualities)];
                    for (is_thing_first, nouns) in [[animal, thing], [thing, animal]].into_iter().enumerate() {
                        // Held-out sentences come in twins with exchanged nouns, the same words and opposite answers.
                        let quality = both[if split == 0 { is_thing_first } else { 0 }];
                        let text = words.sentence(lang, nouns.map(|noun| &**noun), verb, quality);
                        splits[split].push((text, u32::from(is_thing_meant != is_thing_first)));
                    }
                }
            }
        }
    }
    let mut data = TrainingData { labels: words.answers.map(str::to_owned).to_vec(), ..TrainingData::default() };
    let parts: [&mut Rows; 3] = [&mut data.train, &mut data.valid, &mut data.test];
    for (part, (rows, mut sentences)) in parts.into_iter().zip(splits).enumerate() {
        RandomChoices::new(seed, ORDER_STREAM + part as u64).shuffle(&mut sentences);
        (rows.texts, rows.labels) = sentences.into_iter().map(|(text, label)| (text.into(), label)).unzip();
    }
    data.notes.push(tr!(
        "no validation or test row has a pair of nouns that occurs in training",
        "検証とテストの文に出る 2 つの名詞の組み合わせは、学習の文には一つも出てきません"
    ));
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{AsRow, Row};
    use std::collections::{HashMap, HashSet};

    fn splits(data: &TrainingData) -> [&Rows; 3] {
        [&data.train, &data.valid, &data.test]
    }

    /// Returns the index of the animal and of the thing, and whether the thing comes first.
    fn nouns(words: &Words, lang: Lang, text: &str) -> (usize, usize, bool) {
        let found = |nouns: &[&str], text: &str| {
            let of_text = |noun: &&str| match lang {
                Lang::En => text.find(&format!("he {noun} ")),
                Lang::Ja => text.find(noun),
            };
            // 車 is also a part of 自転車.
            let all = nouns.iter().enumerate().filter_map(|(i, noun)| Some((of_text(noun)?, noun.len(), i)));
            all.max_by_key(|&(at, length, _)| (length, std::cmp::Reverse(at))).map(|(at, _, i)| (i, at)).unwrap()
        };
        let ((animal, a), (thing, b)) = (found(&words.animals, text), found(&words.things, text));
        (animal, thing, b < a)
    }

    #[test]
    fn sentences_are_deterministic_different_and_read_as_intended() {
        for lang in [Lang::En, Lang::Ja] {
            let (data, other) = (pronouns(lang, 1), pronouns(lang, 2));
            let again = pronouns(lang, 1);
            assert_eq!((&data.train.texts, &data.train.labels), (&again.train.texts, &again.train.labels));
            assert_ne!(data.train.texts, other.train.texts);
            let mut seen = HashSet::new();
            let texts = splits(&data).into_iter().flat_map(|rows| rows.texts.iter());
            let unique = texts.clone().filter(|text| seen.insert((*text).clone())).count();
            assert_eq!((unique, texts.count()), (3_200, 3_200));
        }
        let [tired, broken] = pronoun_examples(Lang::Ja);
        assert_eq!(tired.text, "子どもは橋のそばに残っていた。疲れていたからだ。");
        assert_eq!((broken.noun, broken.quality), ("橋", "壊れていた"));
        let words = |lang, quality| Words::of(lang).sentence(lang, ["cat", "mat"], "stayed near", quality);
        assert_eq!(words(Lang::En, "tired"), "The cat stayed near the mat because it was tired.");
        let japanese = JAPANESE.sentence(Lang::Ja, ["子ども", "橋"], "のそばに残っていた", "壊れていた");
        assert_eq!(japanese, "子どもは橋のそばに残っていた。壊れていたからだ。");
    }

    #[test]
    fn held_out_pairs_of_nouns_never_occur_in_training() {
        for lang in [Lang::En, Lang::Ja] {
            let data = pronouns(lang, 7);
            let pairs = splits(&data).map(|rows| {
                let pair = |row: &Row| {
                    let (animal, thing, _) = nouns(Words::of(lang), lang, row.as_row().text());
                    (animal, thing)
                };
                rows.texts.iter().map(pair).collect::<HashSet<_>>()
            });
            assert_eq!(pairs.each_ref().map(HashSet::len), [80, 10, 10]);
            assert!(
                pairs[0].is_disjoint(&pairs[1]) && pairs[0].is_disjoint(&pairs[2]) && pairs[1].is_disjoint(&pairs[2])
            );
            let example = &pronoun_examples(lang)[0].text;
            let (animal, thing, _) = nouns(Words::of(lang), lang, example);
            assert!(pairs[2].contains(&(animal, thing)), "{example}");
            // Yet every noun of the held-out pairs is known.
            for held_out in &pairs[1..] {
                assert!(held_out.iter().all(|pair| {
                    pairs[0].iter().any(|other| other.0 == pair.0) && pairs[0].iter().any(|other| other.1 == pair.1)
                }));
            }
        }
    }

    /// The answer is "first" exactly as often as "second": overall, for each noun at each place, for each verb, and for
    /// each order. Held-out rows are balanced for each set of words too. The last words of training rows are random.
    #[test]
    fn nouns_order_and_verbs_say_nothing_about_the_answer() {
        for lang in [Lang::En, Lang::Ja] {
            let (words, data) = (Words::of(lang), pronouns(lang, 3));
            for (split, rows) in splits(&data).into_iter().enumerate() {
                let mut balance: HashMap<String, i64> = HashMap::new();
                let mut last_words: HashMap<&str, i64> = HashMap::new();
                for (row, &label) in rows.texts.iter().zip(&rows.labels) {
                    let text = row.as_row().text();
                    let (animal, thing, is_thing_first) = nouns(words, lang, text);
                    let verb = words.verbs.iter().position(|verb| text.contains(verb)).unwrap();
                    let quality = words.qualities.iter().flatten().find(|word| text.contains(**word)).unwrap();
                    let is_animal_meant = words.qualities[0].contains(quality);
                    assert_eq!(label == 0, is_animal_meant != is_thing_first, "{text}");
                    let sign = 1 - 2 * i64::from(label);
                    for key in [
                        "all".to_owned(),
                        format!("animal {animal} {is_thing_first}"),
                        format!("thing {thing} {is_thing_first}"),
                        format!("verb {verb} {is_thing_first}"),
                        format!("animal {animal}, verb {verb}"),
                        format!("fits animals {is_animal_meant}"),
                    ] {
                        *balance.entry(key).or_default() += sign;
                    }
                    if split > 0 {
                        *balance.entry(format!("words {animal} {thing} {verb} {quality}")).or_default() += sign;
                    }
                    *last_words.entry(quality).or_default() += 1;
                }
                assert!(balance.values().all(|&sum| sum == 0), "{balance:?}");
                assert_eq!(last_words.len(), 20);
            }
        }
    }
}
