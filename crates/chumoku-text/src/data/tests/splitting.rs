//! The split, the search for shared texts, and the statistics.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

fn example(text: &str, label: &str, line: u64) -> Example {
    Example { text: text.into(), label: label.to_owned(), line }
}

fn numbered(labels: &[(&str, usize)]) -> Vec<Example> {
    let rows = labels.iter().flat_map(|&(label, n)| (0..n).map(move |i| (format!("{label} text {i}"), label)));
    rows.enumerate().map(|(line, (text, label))| example(&text, label, line as u64 + 1)).collect()
}

fn texts(examples: &[Example], rows: &[usize]) -> HashSet<Row> {
    rows.iter().map(|&row| normalize(&examples[row].text)).collect()
}

fn labels<'a>(examples: &'a [Example], rows: &[usize]) -> BTreeSet<&'a str> {
    rows.iter().map(|&row| examples[row].label.as_str()).collect()
}

#[test]
fn fractions_hold_within_each_label() {
    let examples = numbered(&[("a", 100), ("b", 40), ("c", 3), ("d", 2), ("e", 1)]);
    let split = split(&examples, 1, 0.1, 0.2);
    let count = |rows: &[usize], label: &str| rows.iter().filter(|&&row| examples[row].label == label).count();
    let counts = |label| (count(&split.train, label), count(&split.valid, label), count(&split.test, label));
    assert_eq!(counts("a"), (70, 10, 20));
    assert_eq!(counts("b"), (28, 4, 8));
    assert_eq!(counts("c"), (1, 1, 1));
    assert_eq!(counts("d"), (2, 0, 0));
    assert_eq!(counts("e"), (1, 0, 0));
    assert!(split.train.is_sorted() && split.valid.is_sorted() && split.test.is_sorted());
}

#[test]
fn sets_that_are_not_requested_are_empty() {
    let examples = numbered(&[("a", 50), ("b", 50)]);
    for fraction in [0.0, -1.0, f64::NAN] {
        let split = split(&examples, 1, fraction, fraction);
        assert_eq!((split.train.len(), split.valid.len(), split.test.len()), (100, 0, 0));
    }
    let valid_only = split(&examples, 1, 0.1, 0.0);
    assert_eq!((valid_only.train.len(), valid_only.valid.len(), valid_only.test.len()), (90, 10, 0));
    let greedy = split(&examples, 1, f64::INFINITY, 1.0);
    assert_eq!(labels(&examples, &greedy.train).len(), 2);
    assert_eq!(split(&[], 1, 0.1, 0.1), Split::default());
}

#[test]
fn the_seed_decides_the_split() {
    let examples = numbered(&[("a", 100), ("b", 100)]);
    let test = |seed| texts(&examples, &split(&examples, seed, 0.1, 0.1).test);
    assert_eq!(test(1), test(1));
    assert_ne!(test(1), test(2));
}

#[test]
fn label_conflicts_are_counted_and_stay_together() {
    let mut examples = numbered(&[("a", 20), ("b", 20)]);
    examples.push(example("OK", "a", 41));
    examples.push(example("  ok\n", "b", 42));
    examples.push(example("ok", "b", 43));
    let split = split(&examples, 3, 0.2, 0.2);
    assert_eq!((split.conflicts.texts, split.conflicts.rows), (1, 3));
    assert_eq!(split.conflicts.examples, [("ok".into(), vec!["b".to_owned(), "a".to_owned()])]);
    let parts = [&split.train, &split.valid, &split.test];
    let holding = parts.iter().filter(|rows| rows.iter().any(|&row| row >= 40)).count();
    assert_eq!(holding, 1);
    // Equal texts with different feature columns are no conflict, but stay together.
    let row =
        |price: &str, label: &str| Example { text: "ok".as_row().with_values(&[price]), label: label.into(), line: 1 };
    let rows: Vec<Example> = (0..9).flat_map(|_| [row("1", "a"), row("2", "b")]).collect();
    let found = super::super::split::split(&rows, 0, 0.5, 0.0);
    assert_eq!((found.conflicts.texts, found.train.len()), (0, 18));
    assert_eq!(super::super::split(&[&rows[..], &[row("1", "b")]].concat(), 0, 0.5, 0.0).conflicts.rows, 10);
}

#[test]
fn every_label_occurs_in_training() {
    // Every text labeled “rare” counts for “a”, so no stratum keeps it in training.
    for seed in 0..50 {
        let mut examples = numbered(&[("a", 4)]);
        for (i, text) in ["a text 0", "a text 1"].iter().enumerate() {
            examples.extend([example(text, "a", 5), example(text, "rare", 6 + i as u64)]);
        }
        let split = split(&examples, seed, 0.25, 0.25);
        assert!(labels(&examples, &split.train).contains("rare"), "seed {seed}");
    }
}

#[test]
fn shared_texts_are_found_in_any_case_and_spacing() {
    let a = [example("Good  food", "p", 1), example("bad", "n", 2), example("good food", "p", 3)];
    let b = [example(" good FOOD ", "p", 1), example("fine", "p", 2), example("Bad", "n", 3), example("BAD", "n", 4)];
    let shared = shared_texts(&a, &b);
    assert_eq!(shared.count, 3);
    let first = SharedText { text: " good FOOD ".into(), rows: [0, 0] };
    assert_eq!(shared.examples[0], first);
    assert_eq!(shared.examples.len(), 3);
    assert_eq!(shared_texts(&b[1..2], &a), SharedTexts::default());
}

#[test]
fn normalization_folds_case_and_space_in_any_script() {
    assert_eq!(normalize("\u{3000}とても  Good\tÉTÉ\r\n"), "とても good été");
    assert_eq!(normalize(" \n"), "");
}

fn any_examples() -> impl Strategy<Value = Vec<Example>> {
    let row = ("[a-cA-C ]{0,3}", "[xyz]");
    proptest::collection::vec(row, 0..60).prop_map(|rows| {
        rows.iter().enumerate().map(|(line, (text, label))| example(text, label, line as u64)).collect()
    })
}

proptest! {
    #[test]
    fn every_row_is_in_one_set_and_no_text_in_two(
        examples in any_examples(), seed: u64, valid in 0.0..0.6, test in 0.0..0.6,
    ) {
        let split = split(&examples, seed, valid, test);
        let mut rows: Vec<usize> = [&split.train, &split.valid, &split.test].into_iter().flatten().copied().collect();
        rows.sort_unstable();
        prop_assert_eq!(rows, (0..examples.len()).collect::<Vec<_>>());
        let [a, b, c] = [&split.train, &split.valid, &split.test].map(|rows| texts(&examples, rows));
        prop_assert!(a.is_disjoint(&b) && a.is_disjoint(&c) && b.is_disjoint(&c));
        let all: Vec<usize> = (0..examples.len()).collect();
        prop_assert_eq!(labels(&examples, &split.train), labels(&examples, &all));
    }

    #[test]
    fn the_order_of_the_file_does_not_matter(
        (examples, shuffled) in any_examples().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        seed: u64,
    ) {
        let (one, other) = (split(&examples, seed, 0.2, 0.2), split(&shuffled, seed, 0.2, 0.2));
        prop_assert_eq!(texts(&examples, &one.train), texts(&shuffled, &other.train));
        prop_assert_eq!(texts(&examples, &one.valid), texts(&shuffled, &other.valid));
        prop_assert_eq!(texts(&examples, &one.test), texts(&shuffled, &other.test));
        prop_assert_eq!(one.conflicts, other.conflicts);
    }
}

#[test]
fn pairs_that_share_a_text_are_in_the_same_set() {
    let pairs: Vec<Row> = (0..200).map(|i| Row::pair(&format!("Picture {}", i / 4), &format!("caption {i}"))).collect();
    let split = split_texts(&pairs, 0, 0.1, 0.1);
    let pictures = |rows: &[usize]| rows.iter().map(|row| row / 4).collect::<BTreeSet<_>>();
    let parts = [&split.train, &split.valid, &split.test].map(|rows| pictures(rows));
    assert_eq!(parts.each_ref().map(BTreeSet::len), [40, 5, 5]);
    assert_eq!(parts.iter().flatten().collect::<BTreeSet<_>>().len(), 50);
}
