//! From text to TF-IDF rows.

use super::super::sparse::Sparse;
use super::super::tokens::{NgramScheme, Reader};
use super::super::vocabulary::{CountedTexts, Vocabulary};
use proptest::prelude::*;

const WORDS: NgramScheme = NgramScheme { words: 1, characters: 1, inside_words: None, edges: false };

fn read(text: &str, scheme: &NgramScheme) -> Vec<u64> {
    Reader::default().read(text, scheme).to_vec()
}

fn count(text: &str, scheme: &NgramScheme) -> usize {
    read(text, scheme).len()
}

#[test]
fn spelling_variants_are_one() {
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
    // A letter with a combining accent is a letter; a letter with a virama does not end a word.
    assert_eq!(count("cafe\u{301} हिन्दी", &WORDS), 2);
    // 良 い 宿 5 分 。
    assert_eq!(count("良い宿 5分。", &WORDS), 6);
    // the | word | is | read | in | 猫 (one of six letters' runs is unspaced: words)
    assert_eq!(count("the word is read in 猫", &WORDS), 6);
}

#[test]
fn runs_have_every_length() {
    let words = NgramScheme { words: 3, ..WORDS };
    assert_eq!(count("a b c d", &words), 4 + 3 + 2);
    // The two edges add a pair and a triple each; an empty text has none.
    let edges = NgramScheme { edges: true, ..words.clone() };
    assert_eq!(count("a b c d", &edges), 4 + 5 + 4);
    assert_eq!(count(" ", &edges), 0);
    let characters = NgramScheme { characters: 4, ..WORDS };
    assert_eq!(count("良い宿だ", &characters), 4 + 3 + 2 + 1);
    // ^ab$ has two runs of 3 and one of 4; ^a$ one of 3.
    let inside = NgramScheme { inside_words: Some((3, 5)), ..WORDS };
    assert_eq!(count("ab a !", &inside), 3 + 3 + 1);
}

/// The hash is in model files: if this fails, old models are lost. The numbers are from a Python script that follows
/// the description in `tokens`.
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
fn rows_are_those_worked_out_by_hand() {
    // Two texts; a is in one of them: idf 1 + ln(3/2) = 1.405465; b in both: 1 + ln(3/3) = 1.
    let counted = CountedTexts::read(&["a b a", "b"], &WORDS, &|| false, &|_| ());
    let frequencies = counted.document_frequencies(1);
    assert_eq!(frequencies.len(), 2);
    let vocabulary = Vocabulary::with_idf(&frequencies, 2);
    let rows = counted.rows(&vocabulary);
    let [a, b] = ["a", "b"].map(|word| vocabulary.find(read(word, &WORDS)[0]).unwrap() as u32);
    // a twice: (1 + ln 2) · 1.405465 = 2.379662; length √(2.379662² + 1) = 2.581219.
    let value = |row: usize, column| {
        let (columns, values) = rows.row(row);
        columns.iter().position(|&c| c == column).map(|at| values[at])
    };
    assert!((value(0, a).unwrap() - 0.921_914).abs() < 1e-5, "{:?}", value(0, a));
    assert!((value(0, b).unwrap() - 0.387_414).abs() < 1e-5, "{:?}", value(0, b));
    assert_eq!((value(1, a), value(1, b)), (None, Some(1.0)));
    // At least two texts: only b.
    assert_eq!(counted.document_frequencies(2).len(), 1);
}

#[test]
fn words_and_characters_weigh_the_same() {
    let scheme = NgramScheme { words: 2, inside_words: Some((2, 4)), ..WORDS };
    let counted = CountedTexts::read(&["the whole film", "a film"], &scheme, &|| false, &|_| ());
    let vocabulary = Vocabulary::with_idf(&counted.document_frequencies(1), 2);
    let rows = counted.rows(&vocabulary);
    let (columns, values) = rows.row(0);
    let mut squares = [0.0, 0.0];
    for (&column, value) in columns.iter().zip(values) {
        squares[(vocabulary.hashes()[column as usize] & 1) as usize] += value * value;
    }
    assert!(squares.iter().all(|square| (square - 0.5).abs() < 1e-6), "{squares:?}");
}

#[test]
fn every_hash_is_found_and_no_other() {
    let hashes = [0, 1, 5, 6, 7, 1 << 40, u64::MAX - 1, u64::MAX];
    for length in 0..=hashes.len() {
        let vocabulary = Vocabulary::new(hashes[..length].to_vec(), vec![1.0; length]);
        for (at, &hash) in hashes.iter().enumerate() {
            assert_eq!(vocabulary.find(hash), (at < length).then_some(at));
        }
        assert_eq!(vocabulary.find(3), None);
    }
}

proptest! {
    #[test]
    fn document_frequencies_are_those_of_a_plain_count(
        texts in prop::collection::vec("[a-e ]{0,12}", 0..200),
    ) {
        let scheme = NgramScheme { words: 2, inside_words: Some((2, 3)), ..WORDS };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut plain = std::collections::BTreeMap::new();
        for text in &texts {
            let mut hashes = read(text, &scheme);
            hashes.dedup();
            hashes.into_iter().for_each(|hash| *plain.entry(hash).or_insert(0) += 1);
        }
        plain.retain(|_, texts| *texts >= 2);
        let counted = CountedTexts::read(&texts, &scheme, &|| false, &|_| ());
        prop_assert_eq!(counted.document_frequencies(2), plain.into_iter().collect::<Vec<(u64, u32)>>());
    }
}

/// A row that is all of a sparse matrix, to test pushing onto what is there.
#[test]
fn rows_are_appended() {
    let vocabulary = Vocabulary::new(vec![2, 4], vec![1.0, 1.0]);
    let mut rows = Sparse { starts: vec![0], columns: 2, ..Sparse::default() };
    vocabulary.push_row([(2, 1), (3, 1)].into_iter(), &mut rows);
    vocabulary.push_row([(3, 9)].into_iter(), &mut rows);
    vocabulary.push_row([(2, 1), (4, 1)].into_iter(), &mut rows);
    assert_eq!((rows.rows(), &rows.starts[..]), (3, &[0, 1, 1, 3][..]));
    assert_eq!(rows.row(0), (&[0][..], &[1.0][..]));
}
