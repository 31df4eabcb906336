//! Tests from text to TF-IDF rows.

use super::super::features::{FeatureSelection, count_and_select};
use super::super::label_ids_of;
use super::super::sparse::SparseRows;
use super::super::tokens::{NgramReader, NgramScheme};
use super::super::vocabulary::{CountedTexts, Vocabulary};
use chumoku_text::row::{AsRow, RowRef, as_rows};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const WORDS: NgramScheme = NgramScheme {
    words: 1,
    characters: 1,
    inside_words: None,
    edges: false,
    pairs: false,
    columns: Vec::new(),
    column_scale: 0.0,
};

fn read(row: impl AsRow, scheme: &NgramScheme) -> Vec<u64> {
    NgramReader::default().read(row.as_row(), scheme).to_vec()
}

fn count(text: &str, scheme: &NgramScheme) -> usize {
    read(text, scheme).len()
}

#[test]
fn spelling_variants_have_the_same_ngrams() {
    let scheme = NgramScheme::default();
    for (a, b) in [
        ("Don't STOP", "don’t stop"),
        ("ＡＢＣ １２", "abc 12"),
        ("a,b", " a , b\r\n"),
        ("Ünïted", "ünïted"),
        ("私 は 学生", "私は学生"),
    ] {
        assert_eq!(read(a, &scheme), read(b, &scheme), "{a} / {b}");
    }
}

#[test]
fn units_are_words_marks_and_characters() {
    // don't | stop | ! | !
    assert_eq!(count("don't stop!!", &WORDS), 4);
    // n't | ' | ve | rock | '
    assert_eq!(count("n't 've rock'", &WORDS), 5);
    // A letter with a combining accent is a letter, and a virama does not end a word.
    assert_eq!(count("cafe\u{301} हिन्दी", &WORDS), 2);
    // 良 い 宿 5 分 。
    assert_eq!(count("良い宿 5分。", &WORDS), 6);
    // the | word | is | read | in | 猫 (the unspaced share is small, so the text is read by word)
    assert_eq!(count("the word is read in 猫", &WORDS), 6);
}

#[test]
fn ngrams_have_every_length() {
    let words = NgramScheme { words: 3, ..WORDS };
    assert_eq!(count("a b c d", &words), 4 + 3 + 2);
    // The two edges add a pair and a triple each; an empty text has no n-grams.
    let edges = NgramScheme { edges: true, ..words.clone() };
    assert_eq!(count("a b c d", &edges), 4 + 5 + 4);
    assert_eq!(count(" ", &edges), 0);
    let characters = NgramScheme { characters: 4, ..WORDS };
    assert_eq!(count("良い宿だ", &characters), 4 + 3 + 2 + 1);
    // ^ab$ has two runs of 3 and one of 4; ^a$ one of 3.
    let inside = NgramScheme { inside_words: Some((3, 5)), ..WORDS };
    assert_eq!(count("ab a !", &inside), 3 + 3 + 1);
}

/// The hash is part of model files: if this test fails, old models become unreadable. The numbers come from a Python
/// script that follows the description in `tokens`.
#[test]
fn the_hash_never_changes() {
    let scheme = NgramScheme { words: 2, ..WORDS };
    assert_eq!(read("attention", &scheme), GOLDEN_WORD);
    assert_eq!(read("Soft attention", &scheme), GOLDEN_PAIR);
    assert_eq!(read("注", &scheme), GOLDEN_CHARACTER);
}

const GOLDEN_WORD: [u64; 1] = [0x07b2_28f4_94be_e196];
const GOLDEN_PAIR: [u64; 3] = [0x07b2_28f4_94be_e196, 0xa50f_4fdc_a291_620a, 0xf231_c5f1_284e_699c];
const GOLDEN_CHARACTER: [u64; 1] = [0xe52d_3b5c_2dd8_13d7];

#[test]
fn rows_match_a_calculation_by_hand() {
    // Two texts: a is in one of them, idf 1 + ln(3/2) = 1.405465; b is in both, 1 + ln(3/3) = 1.
    let texts = ["a b a", "b"].map(str::as_row);
    let counted = CountedTexts::read(&texts, &WORDS, &|| false, &|_| ());
    let vocabulary = with_idf(&plain_frequencies(&texts, &WORDS), 2);
    assert_eq!(vocabulary.len(), 2);
    let rows = counted.rows(&vocabulary);
    let [a, b] = ["a", "b"].map(|word| found(&vocabulary, &read(word, &WORDS)[..1])[0]);
    // a occurs twice: (1 + ln 2) · 1.405465 = 2.379662; length √(2.379662² + 1) = 2.581219.
    let value = |row: usize, column| {
        let (columns, values) = rows.row(row);
        columns.iter().position(|&c| c == column).map(|at| values[at])
    };
    assert!((value(0, a).unwrap() - 0.921_914).abs() < 1e-5, "{:?}", value(0, a));
    assert!((value(0, b).unwrap() - 0.387_414).abs() < 1e-5, "{:?}", value(0, b));
    assert_eq!((value(1, a), value(1, b)), (None, Some(1.0)));
    // Only b occurs in at least two texts.
    let choice = FeatureSelection {
        min_document_frequency: 2,
        max_features: 9,
        relevance: 0.5,
        labels: &[&[0], &[1]],
        classes: 2,
        column_features: 0,
    };
    assert_eq!(count_and_select(&counted, &choice).0.hashes(), [read("b", &WORDS)[0]]);
}

#[test]
fn words_and_characters_have_the_same_norm() {
    let scheme = NgramScheme { words: 2, inside_words: Some((2, 4)), ..WORDS };
    let texts = ["the whole film", "a film"].map(str::as_row);
    let counted = CountedTexts::read(&texts, &scheme, &|| false, &|_| ());
    let vocabulary = with_idf(&plain_frequencies(&texts, &scheme), 2);
    let rows = counted.rows(&vocabulary);
    let (columns, values) = rows.row(0);
    let mut squares = [0.0, 0.0];
    for (&column, value) in columns.iter().zip(values) {
        squares[(vocabulary.hashes()[column as usize] & 1) as usize] += value * value;
    }
    assert!(squares.iter().all(|square| (square - 0.5).abs() < 1e-6), "{squares:?}");
}

/// Returns the features of a text with these n-grams.
fn found(vocabulary: &Vocabulary, hashes: &[u64]) -> Vec<u32> {
    let mut row = SparseRows { starts: vec![0], ..SparseRows::default() };
    vocabulary.push_row(hashes.iter().map(|&hash| (hash, 1)), &mut row);
    row.indices
}

#[test]
fn the_vocabulary_finds_exactly_its_hashes() {
    let hashes = [0, 1, 5, 6, 7, 1 << 40, u64::MAX - 1, u64::MAX];
    for length in 0..=hashes.len() {
        let vocabulary = Vocabulary::new(hashes[..length].to_vec(), vec![1.0; length]);
        for (at, &hash) in hashes.iter().enumerate() {
            let expected: &[u32] = if at < length { &[at as u32] } else { &[] };
            assert_eq!(found(&vocabulary, &[hash]), expected);
        }
        assert!(found(&vocabulary, &[3]).is_empty());
        assert_eq!(found(&vocabulary, &hashes), (0..length as u32).collect::<Vec<u32>>());
    }
}

#[test]
fn texts_of_any_length_are_looked_up() {
    let hashes: Vec<u64> = (0..300).map(|i| i << 55 | i).collect();
    let known: Vec<u64> = hashes.iter().copied().step_by(3).collect();
    let vocabulary = Vocabulary::new(known.clone(), vec![1.0; known.len()]);
    for length in [0_usize, 1, 31, 32, 33, 64, 65, 300] {
        let expected: Vec<u32> = (0..length.div_ceil(3) as u32).collect();
        assert_eq!(found(&vocabulary, &hashes[..length]), expected, "{length}");
    }
}

/// Returns every n-gram with the number of texts that contain it.
pub(crate) fn plain_frequencies(texts: &[RowRef<'_>], scheme: &NgramScheme) -> BTreeMap<u64, u32> {
    let mut plain = BTreeMap::new();
    for text in texts {
        let mut hashes = read(text, scheme);
        hashes.dedup();
        hashes.into_iter().for_each(|hash| *plain.entry(hash).or_insert(0) += 1);
    }
    plain
}

fn with_idf(frequencies: &BTreeMap<u64, u32>, texts: usize) -> Vocabulary {
    let idf = |df: &u32| (1.0 + ((1.0 + texts as f64) / (1.0 + f64::from(*df))).ln()) as f32;
    Vocabulary::new(frequencies.keys().copied().collect(), frequencies.values().map(idf).collect())
}

/// Checks the features and columns against those of a plain implementation.
fn check_features(texts: &[RowRef<'_>], choice: &FeatureSelection, scheme: &NgramScheme) {
    let counted = CountedTexts::read(texts, scheme, &|| false, &|_| ());
    let (vocabulary, columns) = count_and_select(&counted, choice);
    let mut kept: Vec<(u64, u32)> = plain_frequencies(texts, scheme).into_iter().collect();
    kept.retain(|&(_, texts)| texts >= choice.min_document_frequency);
    kept.sort_by_key(|&(hash, texts)| (std::cmp::Reverse(texts), hash));
    kept.truncate(choice.max_features);
    kept.sort_unstable();
    let hashes: Vec<u64> = kept.iter().map(|pair| pair.0).collect();
    assert_eq!(vocabulary.hashes(), hashes);

    // √s · idf, from the texts of each class that contain the n-gram.
    let sets: Vec<BTreeSet<u64>> = texts.iter().map(|text| read(text, scheme).into_iter().collect()).collect();
    let with = |hash: u64, class: u32| {
        let labelled = sets.iter().zip(choice.labels);
        labelled.filter(|(set, labels)| labels.contains(&class) && set.contains(&hash)).count() as f64 + 1.0
    };
    let totals: Vec<f64> = (0..choice.classes as u32).map(|k| hashes.iter().map(|&hash| with(hash, k)).sum()).collect();
    let all: f64 = totals.iter().sum();
    for (&(hash, df), &weight) in kept.iter().zip(vocabulary.idf()) {
        let counts: Vec<f64> = (0..choice.classes as u32).map(|k| with(hash, k)).collect();
        let sum: f64 = counts.iter().sum();
        let ratios = counts.iter().zip(&totals).map(|(n, total)| (n / total / ((sum - n) / (all - total))).ln().abs());
        let relevance = ratios.fold(0.0, f64::max).powf(choice.relevance).max(1e-3);
        let plain = relevance * (1.0 + ((1.0 + texts.len() as f64) / (1.0 + f64::from(df))).ln());
        assert!((f64::from(weight) - plain).abs() < 1e-5 * plain, "{weight} for {plain}");
    }

    // The columns are the transpose of the rows used for prediction.
    let rows = counted.rows(&vocabulary);
    assert_eq!((columns.len(), columns.num_rows()), (hashes.len(), texts.len()));
    let mut unit = vec![0.0; texts.len()];
    for row in 0..texts.len() {
        unit[row] = 1.0;
        let (indices, values) = rows.row(row);
        let mut plain = vec![0.0; hashes.len()];
        indices.iter().zip(values).for_each(|(&index, &value)| plain[index as usize] = value);
        let column = columns.weights(&unit, 1, 1);
        assert!(column.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-6), "{column:?} {plain:?}");
        unit[row] = 0.0;
    }
}

#[test]
fn features_of_many_shards_match_a_plain_count() {
    // About 250,000 n-grams. A shard counts about 1,000, so each group has sixteen shards.
    let mut random = super::noise(3);
    let mut word = || format!("w{} ", random.next().unwrap() % 3000);
    let texts: Vec<String> = (0..400).map(|_| (0..60).map(|_| word()).collect()).collect();
    let texts = as_rows(&texts);
    let labels: Vec<u32> = (0..400).map(|row| row % 3).collect();
    let scheme = NgramScheme { words: 3, inside_words: Some((2, 4)), ..WORDS };
    let all = FeatureSelection {
        min_document_frequency: 2,
        max_features: usize::MAX,
        relevance: 0.5,
        labels: &label_ids_of(&labels),
        classes: 3,
        column_features: 0,
    };
    check_features(&texts, &all, &scheme);
    check_features(&texts, &FeatureSelection { min_document_frequency: 1, max_features: 5000, ..all }, &scheme);
    let two: Vec<Vec<u32>> = (0..400).map(|row| if row % 4 == 0 { vec![0, 2] } else { vec![row % 3] }).collect();
    let two: Vec<&[u32]> = two.iter().map(Vec::as_slice).collect();
    check_features(&texts, &FeatureSelection { labels: &two, relevance: 1.0, max_features: 5000, ..all }, &scheme);
}

#[test]
fn appended_texts_equal_texts_read_together() {
    let texts = ["a b a", "b c", "c c d", "a d"].map(str::as_row);
    let read = |texts: &[RowRef<'_>]| CountedTexts::read(texts, &WORDS, &|| false, &|_| ());
    let mut joined = read(&texts[..3]);
    joined.append(read(&texts[3..]));
    assert!(joined.texts().eq(read(&texts).texts()));
}

proptest! {
    #[test]
    fn features_match_a_plain_count(
        texts in prop::collection::vec("[a-e ]{0,12}", 1..120),
        at_least in 1..4u32,
        most in prop_oneof![Just(usize::MAX), 0..40usize],
    ) {
        let scheme = NgramScheme { words: 2, inside_words: Some((2, 3)), ..WORDS };
        let texts = as_rows(&texts);
        let labels: Vec<u32> = (0..texts.len() as u32).map(|row| row % 3).collect();
        let choice = FeatureSelection { min_document_frequency: at_least, max_features: most, relevance: 0.5, labels: &label_ids_of(&labels), classes: 3, column_features: 0 };
        check_features(&texts, &choice, &scheme);
    }
}

/// Tests that rows are appended to existing ones.
#[test]
fn rows_are_appended() {
    let vocabulary = Vocabulary::new(vec![2, 4], vec![1.0, 1.0]);
    let mut rows = SparseRows { starts: vec![0], ..SparseRows::default() };
    vocabulary.push_row([(2, 1), (3, 1)].into_iter(), &mut rows);
    vocabulary.push_row([(3, 9)].into_iter(), &mut rows);
    vocabulary.push_row([(2, 1), (4, 1)].into_iter(), &mut rows);
    assert_eq!((rows.num_rows(), &rows.starts[..]), (3, &[0, 1, 1, 3][..]));
    assert_eq!(rows.row(0), (&[0][..], &[1.0][..]));
}
