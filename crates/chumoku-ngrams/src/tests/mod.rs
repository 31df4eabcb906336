//! Tests of the whole crate. Tests of the solver are in `fitting`, tests of the reader in `reading`.

mod fitting;
mod reading;
mod slices;

pub(crate) use reading::plain_frequencies;

use super::*;
use chumoku_text::row::{AsRow, RowRef, as_rows};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

/// A reproducible sequence of pseudo-random integers.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 33
    })
}

/// Returns sentences of made-up words, some of which reveal the class; some sentences are Japanese.
fn sentences(rows: usize, classes: u32) -> (Vec<String>, Vec<u32>) {
    let mut random = noise(7);
    let mut next = |below: u64| random.next().unwrap() % below;
    let mut texts = Vec::new();
    let mut labels = Vec::new();
    for _ in 0..rows {
        let label = next(u64::from(classes)) as u32;
        let words = (0..3 + next(9)).map(|_| match next(4) {
            0 => format!("telling{label}"),
            1 => "良い宿だった".chars().skip(next(4) as usize).collect(),
            _ => format!("w{}", next(60)),
        });
        texts.push(words.collect::<Vec<_>>().join(" "));
        labels.push(label);
    }
    (texts, labels)
}

fn train(data: &NgramData<'_>, config: &NgramConfig) -> Result<NgramModel, NgramError> {
    NgramModel::train(data, config, &AtomicBool::new(false), &|_| ())
}

fn data<'a>(texts: &'a [RowRef<'a>], labels: &'a [u32], num_classes: usize) -> NgramData<'a> {
    NgramData { texts, labels, num_classes, valid: None, weights: None, valid_weights: None }
}

fn bits(model: &NgramModel) -> (Vec<i64>, Vec<Vec<u32>>) {
    let t = model.tensors();
    let bits = |array: &[f32]| array.iter().map(|x| x.to_bits()).collect();
    (t.hashes.to_vec(), [&t.idf, &t.weights, &t.bias, &t.prior].map(|array| bits(array)).to_vec())
}

fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best }) as u32
}

#[test]
fn models_have_the_same_bits_for_any_number_of_threads() {
    for classes in [2, 3, 21] {
        let (texts, labels) = sentences(1500, classes);
        let texts = as_rows(&texts);
        let (valid, rest) = texts.split_at(300);
        let (valid_labels, rest_labels) = labels.split_at(300);
        let valid = Some((valid, valid_labels));
        let data = NgramData { valid, ..data(rest, rest_labels, classes as usize) };
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let model = train(&data, &NgramConfig::default()).unwrap();
                let logits: Vec<u32> = model.logits_batch(&texts).iter().map(|x| x.to_bits()).collect();
                (bits(&model), logits, *model.report().unwrap())
            })
        };
        let one = with(1);
        assert!(one.2.valid_accuracy.unwrap() > 0.6, "{classes} classes: {:?}", one.2);
        assert!(one == with(2), "{classes} classes: 2 threads give other bits than 1");
        assert!(one == with(3), "{classes} classes: 3 threads give other bits than 1");
    }
}

/// Compares a model of training and validation texts from a warm start with the same model from scratch.
#[test]
fn a_warm_start_leads_to_the_same_model() {
    for classes in [2, 5] {
        let (texts, labels) = sentences(1200, classes);
        let texts = as_rows(&texts);
        let (rest, valid) = texts.split_at(1000);
        let (rest_labels, valid_labels) = labels.split_at(1000);
        let chosen = NgramData { valid: Some((valid, valid_labels)), ..data(rest, rest_labels, classes as usize) };
        let all = data(&texts, &labels, classes as usize);
        let config = NgramConfig { tolerance: 1e-5, ..NgramConfig::default() };
        let config_of = |c| NgramConfig { c_grid: vec![c], c_without_validation: c, ..config.clone() };
        let from = |data: &NgramData<'_>, config: &NgramConfig, found| {
            NgramModel::train_warm(data, config, found, &AtomicBool::new(false), &|_| ()).unwrap()
        };
        let (model, found) = from(&chosen, &config, WarmStart::default());
        let config = config_of(model.report().unwrap().c);
        let mut without_texts = from(&chosen, &config, WarmStart::default()).1;
        without_texts.drop_ngrams();
        let fresh = from(&all, &config, WarmStart::default()).0;
        for found in [found, without_texts] {
            let warm = from(&all, &config, found).0;
            assert_eq!(bits(&warm).0, bits(&fresh).0);
            assert!(warm.report().unwrap().products < fresh.report().unwrap().products);
            for (warm, fresh) in warm.logits_batch(&texts).iter().zip(fresh.logits_batch(&texts)) {
                assert!((warm - fresh).abs() < 0.01, "{warm} {fresh}");
            }
        }
    }
}

#[test]
fn the_search_finds_the_c_of_the_lowest_validation_loss() {
    let (texts, labels) = sentences(450, 3);
    let texts = as_rows(&texts);
    let grid = NgramConfig::default().c_grid;
    let mut found = Vec::new();
    // The more labels are wrong, the smaller the best C.
    for wrong in [0, 20, 60, 100] {
        let mut random = noise(11);
        let labels = labels.iter().map(|&label| match random.next().unwrap() % 100 < wrong {
            true => (random.next().unwrap() % 3) as u32,
            false => label,
        });
        let labels: Vec<u32> = labels.collect();
        let valid = Some((&texts[300..], &labels[300..]));
        let data = NgramData { valid, ..data(&texts[..300], &labels[..300], 3) };
        let model = |c_grid: Vec<f32>| train(&data, &NgramConfig { c_grid, tolerance: 1e-5, ..NgramConfig::default() });
        let loss = |model: &NgramModel| model.report().unwrap().valid_loss.unwrap();
        let losses: Vec<f64> = grid.iter().map(|&c| loss(&model(vec![c]).unwrap())).collect();
        let least = (0..grid.len()).min_by(|&a, &b| losses[a].total_cmp(&losses[b])).unwrap();
        let searched = model(grid.clone()).unwrap();
        assert_eq!(searched.report().unwrap().c, grid[least], "{wrong} % wrong: {losses:?}");
        assert!((loss(&searched) - losses[least]).abs() < 1e-4, "{wrong} % wrong");
        found.push(grid[least]);
    }
    // Below, at and above the start of the search.
    assert!(found.contains(&grid[0]) && found.iter().any(|c| *c > grid[1]), "{found:?}");
}

#[test]
fn one_text_and_many_give_the_same_logits() {
    let (texts, labels) = sentences(200, 3);
    let texts = as_rows(&texts);
    let model = train(&data(&texts, &labels, 3), &NgramConfig::default()).unwrap();
    let single: Vec<f32> = texts.iter().flat_map(|text| model.logits(text)).collect();
    assert_eq!(single, model.logits_batch(&texts));
}

#[test]
fn a_model_can_be_restored_from_tensors_and_scheme() {
    for classes in [2, 4] {
        let (texts, labels) = sentences(120, classes);
        let texts = as_rows(&texts);
        let model = train(&data(&texts, &labels, classes as usize), &NgramConfig::default()).unwrap();
        let scheme = serde_json::from_str(&serde_json::to_string(model.scheme()).unwrap()).unwrap();
        let again = NgramModel::from_tensors(scheme, model.tensors(), false).unwrap();
        assert_eq!(bits(&model), bits(&again));
        assert_eq!(model.logits_batch(&texts), again.logits_batch(&texts));
        let tensors = model.tensors();
        let lengths = [&tensors.idf, &tensors.weights, &tensors.bias, &tensors.prior].map(|array| array.len());
        let shapes = tensors.shapes();
        assert_eq!(lengths.to_vec(), shapes[1..].iter().map(|s| s.1.iter().product()).collect::<Vec<usize>>());
        assert_eq!(shapes[2].1, [model.num_features(), if classes == 2 { 1 } else { 4 }]);
    }
}

#[test]
fn damaged_tensors_are_rejected() {
    let good = || NgramTensors {
        hashes: vec![3, 9, -5].into(),
        idf: vec![1.0, 2.0, 3.0].into(),
        weights: vec![0.5; 9].into(),
        columns: Cow::default(),
        bias: vec![0.0; 3].into(),
        prior: vec![-1.1; 3].into(),
    };
    let refused = |change: fn(&mut NgramTensors<'static>)| {
        let mut tensors = good();
        change(&mut tensors);
        match NgramModel::from_tensors(NgramScheme::default(), tensors, false) {
            Err(NgramError::Tensor { tensor, .. }) => tensor,
            other => panic!("expected a tensor error, got {other:?}"),
        }
    };
    // −5 as an unsigned number is the largest of the three.
    assert!(NgramModel::from_tensors(NgramScheme::default(), good(), false).is_ok());
    assert_eq!(refused(|t| t.hashes = vec![3, 3, 9].into()), "hashes");
    assert_eq!(refused(|t| t.hashes = vec![-5, 3, 9].into()), "hashes");
    assert_eq!(refused(|t| t.idf = vec![1.0; 2].into()), "idf");
    assert_eq!(refused(|t| t.idf = vec![1.0, 0.0, 1.0].into()), "idf");
    assert_eq!(refused(|t| t.idf = vec![1.0, f32::NAN, 1.0].into()), "idf");
    assert_eq!(refused(|t| t.idf = vec![1.0, f32::MAX, 1.0].into()), "idf");
    assert_eq!(refused(|t| t.weights = vec![0.5; 8].into()), "weights");
    assert_eq!(refused(|t| t.weights.to_mut()[4] = f32::INFINITY), "weights");
    assert_eq!(refused(|t| t.columns = vec![0.5; 3].into()), "columns");
    assert_eq!(refused(|t| t.bias = Cow::Owned(vec![])), "bias");
    assert_eq!(refused(|t| t.bias.to_mut()[0] = f32::NAN), "bias");
    assert_eq!(refused(|t| t.prior = vec![-0.7; 2].into()), "weights");
    assert_eq!(refused(|t| t.prior = vec![0.0].into()), "prior");
    assert_eq!(refused(|t| t.prior.to_mut()[2] = f32::NEG_INFINITY), "prior");
    let scheme = NgramScheme { words: usize::MAX, ..NgramScheme::default() };
    assert!(matches!(NgramModel::from_tensors(scheme, good(), false), Err(NgramError::Setting { .. })));
}

#[test]
fn a_text_without_features_gets_the_class_shares() {
    let texts = ["good film", "fine film", "great film", "bad film"].map(str::as_row);
    for classes in [2, 3] {
        let model = train(&data(&texts, &[1, 1, 1, 0], classes), &NgramConfig::default()).unwrap();
        for text in ["", " \t\n", "日"] {
            let logits = model.logits(text);
            let sum: f32 = logits.iter().map(|x| x.exp()).sum();
            let counts: [f32; 3] = [1.5, 3.5, 0.5];
            for (class, logit) in logits.iter().enumerate() {
                let share = counts[class] / counts[..classes].iter().sum::<f32>();
                assert!((logit.exp() / sum - share).abs() < 1e-6, "{text:?}: {logits:?}");
            }
        }
    }
}

#[test]
fn two_rows_suffice_for_training() {
    let model = train(&data(&["yes", "no"].map(str::as_row), &[0, 1], 2), &NgramConfig::default()).unwrap();
    assert_eq!([argmax(&model.logits("Yes")), argmax(&model.logits("NO!"))], [0, 1]);
    // Only one class of three, and texts without features.
    let model = train(&data(&["", ""].map(str::as_row), &[2, 2], 3), &NgramConfig::default()).unwrap();
    assert_eq!((model.num_features(), argmax(&model.logits("x"))), (0, 2));
    let model = train(&data(&["same", "same"].map(str::as_row), &[2, 2], 3), &NgramConfig::default()).unwrap();
    assert!(model.logits("same").iter().all(|x| x.is_finite()));
}

#[test]
fn a_higher_class_weight_raises_the_probability() {
    let texts = ["a b", "a c", "a d", "b d"].map(str::as_row);
    let labels = [0, 1, 0, 1];
    let plain = train(&data(&texts, &labels, 2), &NgramConfig::default()).unwrap().logits("a");
    let weights = Some(&[1.0, 5.0, 1.0, 5.0][..]);
    let heavy = NgramData { weights, ..data(&texts, &labels, 2) };
    let heavy = train(&heavy, &NgramConfig::default()).unwrap().logits("a");
    assert!(heavy[1] - heavy[0] > plain[1] - plain[0] + 0.1, "{plain:?} {heavy:?}");
}

/// The features are the same, so models differ only by row weights: `idf` and relevance depend on all texts.
#[test]
fn texts_of_weight_0_do_not_affect_the_loss() {
    let (texts, labels) = sentences(120, 3);
    let texts = as_rows(&texts);
    let (valid, train_texts) = texts.split_at(40);
    let (valid_labels, train_labels) = labels.split_at(40);
    let mut weights: Vec<f32> = (0..80).map(|row| if row % 3 == 0 { 0.0 } else { 1.5 }).collect();
    let (mut valid_weights, ones) = (vec![1.0; 40], vec![1.0; 80]);
    valid_weights[..10].fill(0.0);
    let config = NgramConfig { tolerance: 1e-6, ..NgramConfig::default() };
    let with = |labels: &[u32], valid_labels: &[u32], weights: Option<&[f32]>, valid_weights: Option<&[f32]>| {
        let valid = Some((valid, valid_labels));
        let data = NgramData { valid, weights, valid_weights, ..data(train_texts, labels, 3) };
        train(&data, &NgramConfig { relevance: 0.0, ..config.clone() }).unwrap()
    };
    // Weights of 1 change no bit.
    let plain = with(train_labels, valid_labels, None, None);
    let same = with(train_labels, valid_labels, Some(&ones), Some(&ones[..40]));
    assert_eq!(bits(&plain), bits(&same));
    assert_eq!(plain.report(), same.report());
    // Labels of texts with weight 0 do not matter.
    let weighted = with(train_labels, valid_labels, Some(&weights), Some(&valid_weights));
    let wrong: Vec<u32> = (0..80).map(|row| (train_labels[row] + u32::from(row % 3 == 0)) % 3).collect();
    let wrong_valid: Vec<u32> = (0..40).map(|row| (valid_labels[row] + u32::from(row < 10)) % 3).collect();
    let other = with(&wrong, &wrong_valid, Some(&weights), Some(&valid_weights));
    let loss = |model: &NgramModel| model.report().unwrap().valid_loss.unwrap();
    assert_eq!((bits(&weighted), loss(&weighted)), (bits(&other), loss(&other)));
    assert!(bits(&weighted) != bits(&plain) && loss(&weighted) != loss(&plain));
    // With a positive weight they do.
    weights.fill(1.5);
    assert!(bits(&with(&wrong, valid_labels, Some(&weights), None)) != bits(&weighted));
}

#[test]
fn the_feature_limit_keeps_the_most_frequent_ngrams() {
    let texts = ["a b", "a c", "a d", "b e"].map(str::as_row);
    let scheme = NgramScheme { words: 1, inside_words: None, edges: false, ..NgramScheme::default() };
    let config = NgramConfig { scheme, max_weights: 2, ..NgramConfig::default() };
    let model = train(&data(&texts, &[0, 1, 0, 1], 2), &config).unwrap();
    assert_eq!(model.num_features(), 2);
    let known = |text: &str| model.logits(text) != model.logits("");
    assert_eq!(["a", "b", "c", "d", "e"].map(known), [true, true, false, false, false]);
}

#[test]
fn invalid_training_data_is_rejected() {
    let config = NgramConfig::default();
    let texts = ["a", "b"].map(str::as_row);
    assert_eq!(train(&data(&[], &[], 2), &config).unwrap_err(), NgramError::NoTexts);
    let lengths = NgramError::Lengths { texts: 2, labels: 1 };
    assert_eq!(train(&data(&texts, &[0], 2), &config).unwrap_err(), lengths);
    let label = NgramError::Label { row: 1, label: 2, classes: 2 };
    assert_eq!(train(&data(&texts, &[0, 2], 2), &config).unwrap_err(), label);
    assert_eq!(train(&data(&texts, &[0, 0], 1), &config).unwrap_err(), NgramError::Classes { got: 1 });
    for (weights, bad) in [(&[1.0][..], None), (&[1.0, -1.0], Some(1)), (&[f32::NAN, 1.0], Some(0))] {
        let data = data(&texts, &[0, 1], 2);
        let of_valid = NgramData { valid: Some((&texts, &[0, 1])), valid_weights: Some(weights), ..data };
        for data in [NgramData { weights: Some(weights), ..data }, of_valid] {
            let found = train(&data, &config).unwrap_err();
            let NgramError::Weights { texts: 2, weights: got, bad: found } = found else { panic!("{found}") };
            assert_eq!((got, found.map(|(row, _)| row)), (weights.len(), bad));
        }
    }
    let nothing = NgramData { weights: Some(&[0.0, 0.0]), ..data(&texts, &[0, 1], 2) };
    assert_eq!(train(&nothing, &config).unwrap_err(), NgramError::NoWeight);
    let many = train(&data(&texts, &[0, 1], 1 << 40), &config).unwrap_err();
    assert!(matches!(&many, NgramError::Memory { texts: 2, classes, .. } if *classes == 1 << 40), "{many}");
    for c_grid in [vec![], vec![4.0, 1.0], vec![0.0], vec![f32::NAN]] {
        let config = NgramConfig { c_grid, ..NgramConfig::default() };
        assert!(matches!(train(&data(&texts, &[0, 1], 2), &config), Err(NgramError::Setting { .. })));
    }
    let cancelled = NgramModel::train(&data(&texts, &[0, 1], 2), &config, &AtomicBool::new(true), &|_| ());
    assert_eq!(cancelled.unwrap_err(), NgramError::Cancelled);
}

proptest! {
    #[test]
    fn training_and_logits_are_finite_for_any_text(
        texts in prop::collection::vec("\\PC{0,12}|[a-c' ]{0,9}|[\u{0}-\u{10ffff}]{0,6}", 2..12),
        text in "(\\PC|[あいう日本 a'’\r\n\u{301}\u{200d}]){0,30}",
    ) {
        let texts = as_rows(&texts);
        let labels: Vec<u32> = (0..texts.len() as u32).map(|row| row % 3).collect();
        let model = train(&data(&texts, &labels, 3), &NgramConfig::default()).unwrap();
        for text in texts.into_iter().chain([text.as_row()]) {
            prop_assert!(model.logits(text).iter().all(|x| x.is_finite()));
        }
    }
}
