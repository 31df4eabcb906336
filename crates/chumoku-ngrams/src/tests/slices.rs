//! Compares texts read slice by slice with texts read at once, and packed columns with plain ones.

use super::super::column_matrix::{ColumnMatrix, padded_width};
use super::super::features::{FeatureSelection, count_and_select, count_ngrams, select_features};
use super::super::memory_estimate::slice_bits_for;
use super::super::tokens::{HashSlice, NgramScheme};
use super::super::vocabulary::CountedTexts;
use super::super::{NgramConfig, NgramData, NgramModel, label_ids_of};
use super::plain_frequencies;
use super::reading::WORDS;
use chumoku_text::row::{Row, as_rows};
use std::sync::atomic::AtomicBool;

/// Texts read once per slice of hashes have the same columns as texts read at once.
#[test]
fn slices_together_hold_all_ngrams() {
    let mut random = super::noise(4);
    let mut word = || format!("w{} ", random.next().unwrap() % 900);
    let texts: Vec<String> = (0..90).map(|_| (0..30).map(|_| word()).collect()).collect();
    let texts = as_rows(&texts);
    let pairs: Vec<Row> = texts.iter().map(|text| Row::pair(text.text(), "w1 w2 w3")).collect();
    let pairs = as_rows(&pairs);
    let scheme = NgramScheme { words: 3, inside_words: Some((2, 4)), ..WORDS };
    for (texts, scheme) in [(&texts, scheme.clone()), (&pairs, NgramScheme { pairs: true, ..scheme })] {
        let whole = CountedTexts::read(texts, &scheme, &|| false, &|_| ());
        let all: Vec<Vec<(u64, u32)>> =
            whole.texts().map(|(h, c)| h.iter().copied().zip(c.iter().copied()).collect()).collect();
        for bits in [1, 3] {
            let labels: Vec<u32> = (0..texts.len() as u32).map(|row| row % 3).collect();
            let choice = FeatureSelection {
                min_document_frequency: 2,
                max_features: 700,
                relevance: 0.5,
                labels: &label_ids_of(&labels),
                classes: 3,
                column_features: 0,
            };
            let mut joined = vec![Vec::new(); texts.len()];
            let mut parts = Vec::new();
            for slice in HashSlice::all(bits) {
                let counted = CountedTexts::read_slice(texts, &scheme, slice, &|| false, &|_| ());
                for (row, (hashes, counts)) in counted.texts().enumerate() {
                    joined[row].extend(hashes.iter().copied().zip(counts.iter().copied()));
                }
                parts.extend(count_ngrams(&counted, &choice));
            }
            assert_eq!(joined, all, "{bits} bits");
            let (vocabulary, columns) = select_features(parts, &whole, &choice);
            let (expected, of_whole) = count_and_select(&whole, &choice);
            assert_eq!(vocabulary.hashes(), expected.hashes());
            let a: Vec<f32> = (0..texts.len()).map(|row| row as f32 / 50.0).collect();
            let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5 * (1.0 + b.abs());
            assert!(columns.weights(&a, 1, 1).iter().zip(&of_whole.weights(&a, 1, 1)).all(close));
        }
    }
}

/// Packed columns multiply like plain ones.
#[test]
fn packed_columns_multiply_like_plain_ones() {
    let mut random = super::noise(5);
    let mut word = || format!("w{} ", random.next().unwrap() % 300);
    let texts: Vec<String> = (0..200).map(|_| (0..20).map(|_| word()).collect()).collect();
    let texts = as_rows(&texts);
    let scheme = NgramScheme { words: 3, ..WORDS };
    let counted = CountedTexts::read(&texts, &scheme, &|| false, &|_| ());
    let labels: Vec<u32> = (0..200).map(|row| row % 5).collect();
    let numbers = label_ids_of(&labels);
    let choice = FeatureSelection {
        min_document_frequency: 1,
        max_features: usize::MAX,
        relevance: 0.5,
        labels: &numbers,
        classes: 5,
        column_features: 0,
    };
    let (vocabulary, columns) = count_and_select(&counted, &choice);
    assert!(columns.is_packed(), "{} columns", columns.len());
    // The rows used for prediction, transposed, without a limit.
    let rows = counted.rows(&vocabulary);
    let (mut starts, mut of_column) = (vec![0], vec![Vec::new(); vocabulary.len()]);
    for row in 0..texts.len() {
        let (indices, values) = rows.row(row);
        indices.iter().zip(values).for_each(|(&j, &value)| of_column[j as usize].push((row as u32, value)));
    }
    of_column.iter().for_each(|column| starts.push(starts.last().unwrap() + column.len()));
    let (indices, values) = of_column.into_iter().flatten().unzip();
    let plain = ColumnMatrix::new(starts, indices, values, texts.len());
    assert!(!plain.is_packed());
    for outputs in [1, 5] {
        let width = padded_width(outputs);
        let mut a: Vec<f32> = (0..200 * width).map(|i| (i * 7 % 23) as f32 / 10.0 - 1.0).collect();
        a.chunks_exact_mut(width).for_each(|row| row[outputs..].fill(0.0));
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4 * (1.0 + b.abs());
        assert!(columns.weights(&a, width, outputs).iter().zip(&plain.weights(&a, width, outputs)).all(close));
        let multiply = |x: &ColumnMatrix| {
            let mut out = vec![f32::NAN; a.len()];
            x.gram_times(&a, width, &mut out, &mut Vec::new());
            out
        };
        assert!(multiply(&columns).iter().zip(&multiply(&plain)).all(close), "{outputs} outputs");
    }
}

/// Training that reads texts slice by slice finds the same model as training that reads them at once.
#[test]
fn training_by_slices_finds_the_same_model() {
    let mut random = super::noise(6);
    let mut word = |of: u64| format!("w{} ", random.next().unwrap() % 400 + 300 * of);
    // About 120,000 n-grams, above the limit in tests; smaller sets are held at once.
    let texts: Vec<String> = (0..1_200).map(|row| (0..25).map(|_| word(row % 2)).collect()).collect();
    let texts = as_rows(&texts);
    let labels: Vec<u32> = (0..1_200).map(|row| row % 2).collect();
    let valid = (&texts[1_000..], &labels[1_000..]);
    let (texts, labels) = (&texts[..1_000], &labels[..1_000]);
    let config = NgramConfig::default();
    assert!(slice_bits_for(texts, &config.scheme) > 0);
    let data = NgramData { texts, labels, num_classes: 2, valid: Some(valid), weights: None, valid_weights: None };
    let model = NgramModel::train(&data, &config, &AtomicBool::new(false), &|_| {}).unwrap();
    let features = plain_frequencies(texts, model.scheme()).values().filter(|&&texts| texts > 1).count();
    assert_eq!(model.num_features(), features);
    assert!(model.report().unwrap().valid_accuracy.unwrap() > 0.95, "{:?}", model.report());
}
