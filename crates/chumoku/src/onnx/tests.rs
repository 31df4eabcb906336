//! Compares the operator with plain loops that follow its specification, and tests masking and errors.

use super::*;
use crate::tensors::TensorFile;
use chumoku_kernels::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use testkit::{Random, Tolerance, compare};

fn tensor<T>(shape: &[usize], numbers: Vec<T>) -> Tensor
where
    Tensor: From<ArrayD<T>>,
{
    Tensor::new(shape, numbers).unwrap()
}

fn wide(tensor: &Tensor) -> Vec<f64> {
    tensor.iter().collect()
}

fn random(seed: &mut Random, shape: &[usize]) -> Tensor {
    tensor(shape, seed.numbers(shape.iter().product()))
}

/// A random case of the operator, with four axes.
#[derive(Debug)]
struct Case {
    /// batch, heads, key heads, queries, new keys, past keys, dim, value dim
    sizes: [usize; 8],
    tensors: [Tensor; 3],
    past: Option<[Tensor; 2]>,
    mask: Option<Tensor>,
    lengths: Option<Tensor>,
    attributes: Attributes,
}

impl Case {
    fn new(seed: u64, mode: i64) -> Case {
        let random_ = &mut Random::new(seed);
        let (batch, key_heads, group) = (random_.below(3), 1 + random_.below(2), 1 + random_.below(3));
        let heads = key_heads * group;
        let (queries, new) = (random_.below(7), random_.below(9));
        let (dim, value_dim) = (1 + random_.below(9), 1 + random_.below(9));
        let uses = random_.below(3);
        let past_len = if uses == 1 { random_.below(6) } else { 0 };
        let total = new + past_len;
        let past = (uses == 1).then(|| [dim, value_dim].map(|dim| random(random_, &[batch, key_heads, past_len, dim])));
        let lengths: Option<Vec<i64>> =
            (uses == 2).then(|| (0..batch).map(|_| random_.below(total + 1) as i64).collect());
        let longest = lengths.iter().flatten().copied().max().unwrap_or(0) as usize;
        let reach = longest + random_.below(total + 1 - longest);
        let shape = [[batch, 1][random_.below(2)], [heads, 1][random_.below(2)], [queries, 1][random_.below(2)], reach];
        let shape = &shape[random_.below(4)..];
        let size = shape.iter().product();
        let mask = match random_.below(4) {
            0 => None,
            1 => Some(tensor(shape, (0..size).map(|_| random_.below(3) > 0).collect::<Vec<_>>())),
            _ => {
                let number = |_| if random_.below(3) > 0 { random_.number() as f32 } else { f32::NEG_INFINITY };
                Some(tensor(shape, (0..size).map(number).collect::<Vec<_>>()))
            }
        };
        let size = |random_: &mut Random| [None, Some(-1), Some(random_.below(4) as i64)][random_.below(3)];
        let attributes = Attributes {
            is_causal: [None, Some(false), Some(true)][random_.below(3)],
            scale: [None, Some(0.7), Some(0.0)][random_.below(3)],
            softcap: [None, Some(0.0), Some(0.8)][random_.below(3)],
            left_window_size: size(random_),
            right_window_size: size(random_),
            qk_matmul_output_mode: Some(mode),
            ..Attributes::default()
        };
        Case {
            sizes: [batch, heads, key_heads, queries, new, past_len, dim, value_dim],
            tensors: [
                random(random_, &[batch, heads, queries, dim]),
                random(random_, &[batch, key_heads, new, dim]),
                random(random_, &[batch, key_heads, new, value_dim]),
            ],
            past,
            mask,
            lengths: lengths.map(|lengths| tensor(&[batch], lengths)),
            attributes,
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            mask: self.mask.as_ref(),
            past_key: self.past.as_ref().map(|past| &past[0]),
            past_value: self.past.as_ref().map(|past| &past[1]),
            key_lengths: self.lengths.as_ref(),
            ..Inputs::new(&self.tensors[0], &self.tensors[1], &self.tensors[2])
        }
    }

    fn run(&self) -> Outputs {
        attention(
            &self.inputs(),
            &self.attributes,
            RequestedOutputs { present: self.past.is_some(), qk_matmul_output: true },
        )
        .unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns what masks add to the score of query `i` and key `j` in head `h`; `None` if the key is hidden.
    fn bias(&self, b: usize, h: usize, i: usize, j: usize) -> Option<f64> {
        let [_, _, _, queries, _, past, ..] = self.sizes;
        let length = self.lengths.as_ref().map(|lengths| wide(lengths)[b] as i64);
        let offset = length.map_or(past as i64, |length| length - queries as i64);
        let (at, key) = (i as i64 + offset, j as i64);
        let attributes = &self.attributes;
        let beyond = |size: Option<i64>, distance: i64| size.is_some_and(|size| size >= 0 && distance > size);
        if length.is_some_and(|length| key >= length)
            || (attributes.is_causal == Some(true) && key > at)
            || beyond(attributes.left_window_size, at - key)
            || beyond(attributes.right_window_size, key - at)
        {
            return None;
        }
        let Some(mask) = &self.mask else { return Some(0.0) };
        let shape = mask.shape();
        let place = [b, h, i, j];
        if j >= shape[shape.len() - 1] {
            return None;
        }
        let index: Vec<usize> = shape
            .iter()
            .zip(&place[4 - shape.len()..])
            .enumerate()
            .map(|(axis, (&size, &at))| if size == 1 && axis + 1 < shape.len() { 0 } else { at })
            .collect();
        let bias = match mask {
            Tensor::Bool(mask) => {
                if mask[&index[..]] {
                    0.0
                } else {
                    f64::NEG_INFINITY
                }
            }
            Tensor::F32(mask) => f64::from(mask[&index[..]]),
            other => panic!("{other:?}"),
        };
        (bias > f64::NEG_INFINITY).then_some(bias)
    }

    /// Returns Y and the scores of all four modes.
    fn expected(&self) -> (Vec<f64>, [Vec<f64>; 4]) {
        let [batch, heads, key_heads, queries, new, past, dim, value_dim] = self.sizes;
        let [query, key, value] = self.tensors.each_ref().map(wide);
        let past_of = |n: usize| self.past.as_ref().map(|past| wide(&past[n])).unwrap_or_default();
        let (past_key, past_value) = (past_of(0), past_of(1));
        let row = |past_rows: &[f64], rows: &[f64], pair: usize, j: usize, dim: usize| -> Vec<f64> {
            let (rows, at) = match j.checked_sub(past) {
                Some(j) => (rows, pair * new + j),
                None => (past_rows, pair * past + j),
            };
            rows[at * dim..][..dim].to_vec()
        };
        let (mut output, mut stages) = (Vec::new(), [const { Vec::new() }; 4]);
        for (b, h, i) in places(batch, heads, queries) {
            let pair = b * key_heads + h / (heads / key_heads);
            let q = &query[((b * heads + h) * queries + i) * dim..][..dim];
            let scale = self.attributes.scale.unwrap_or(1.0 / (dim as f64).sqrt());
            let product = |j| scale * q.iter().zip(row(&past_key, &key, pair, j, dim)).map(|(q, k)| q * k).sum::<f64>();
            let scaled: Vec<f64> = (0..past + new).map(product).collect();
            let cap = self.attributes.softcap.unwrap_or(0.0);
            let capped: Vec<f64> = scaled.iter().map(|&x| if cap > 0.0 { cap * (x / cap).tanh() } else { x }).collect();
            let masked: Vec<f64> = capped
                .iter()
                .enumerate()
                .map(|(j, x)| self.bias(b, h, i, j).map_or(f64::NEG_INFINITY, |bias| x + bias))
                .collect();
            let total: f64 = masked.iter().map(|x| x.exp()).sum();
            let weights: Vec<f64> = masked.iter().map(|x| if total == 0.0 { 0.0 } else { x.exp() / total }).collect();
            let mut y = vec![0.0; value_dim];
            for (j, w) in weights.iter().enumerate() {
                y.iter_mut().zip(row(&past_value, &value, pair, j, value_dim)).for_each(|(y, v)| *y += w * v);
            }
            output.extend(y);
            stages.iter_mut().zip([scaled, capped, masked, weights]).for_each(|(all, row)| all.extend(row));
        }
        (output, stages)
    }

    /// Converts the tensors to another type.
    fn converted(&self, to: fn(&Tensor) -> Tensor) -> Case {
        let mask = self.mask.as_ref().map(|mask| if let Tensor::Bool(_) = mask { mask.clone() } else { to(mask) });
        Case {
            sizes: self.sizes,
            tensors: self.tensors.each_ref().map(to),
            past: self.past.as_ref().map(|past| past.each_ref().map(to)),
            mask,
            lengths: self.lengths.clone(),
            attributes: self.attributes.clone(),
        }
    }
}

fn places(batch: usize, heads: usize, queries: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..batch).flat_map(move |b| (0..heads).flat_map(move |h| (0..queries).map(move |i| (b, h, i))))
}

fn to_f16(x: &Tensor) -> Tensor {
    tensor(x.shape(), float::values::<f16>(x).into_owned())
}

fn to_bf16(x: &Tensor) -> Tensor {
    tensor(x.shape(), float::values::<bf16>(x).into_owned())
}

fn to_f64(x: &Tensor) -> Tensor {
    tensor(x.shape(), wide(x))
}

#[test]
fn every_option_follows_the_specification() {
    for seed in 0..400 {
        let mode = seed as usize % 4;
        let case = Case::new(seed, mode as i64);
        let [batch, heads, key_heads, queries, new, past, dim, value_dim] = case.sizes;
        let (expected, stages) = case.expected();
        let check = |case: &Case, outputs: &Outputs, tolerance| {
            let name = format!("{seed} {:?} {:?}", case.sizes, case.attributes);
            compare(&name, &wide(&outputs.output), &expected, tolerance).unwrap();
            assert_eq!(outputs.output.shape(), [batch, heads, queries, value_dim], "{name}");
            let scores = outputs.qk_matmul_output.as_ref().unwrap();
            compare(&name, &wide(scores), &stages[mode], tolerance).unwrap();
            assert_eq!(scores.shape(), [batch, heads, queries, past + new], "{name}");
            assert_eq!(outputs.output.type_name(), case.tensors[0].type_name());
            assert_eq!(scores.type_name(), case.tensors[0].type_name());
            let present = [&outputs.present_key, &outputs.present_value];
            for (n, present) in present.into_iter().enumerate().filter(|_| case.past.is_some()) {
                let present = present.as_ref().unwrap();
                let dim = [dim, value_dim][n];
                assert_eq!(present.shape(), [batch, key_heads, past + new, dim], "{name}");
                for (b, h, j) in places(batch, key_heads, past + new) {
                    let pair = b * key_heads + h;
                    let (from, at) = match j.checked_sub(past) {
                        Some(j) => (&case.tensors[1 + n], pair * new + j),
                        None => (&case.past.as_ref().unwrap()[n], pair * past + j),
                    };
                    let at_all = (pair * (past + new) + j) * dim;
                    assert_eq!(wide(present)[at_all..][..dim], wide(from)[at * dim..][..dim], "{name}");
                }
            }
        };
        check(&case, &case.run(), Tolerance { relative: 2e-6, absolute: 1e-6 });
        let double = case.converted(to_f64);
        check(&double, &double.run(), Tolerance { relative: 1e-14, absolute: 1e-14 });
        let half = case.converted(to_f16);
        check(&half, &half.run(), Tolerance { relative: 0.006, absolute: 0.002 });
        let brain = case.converted(to_bf16);
        check(&brain, &brain.run(), Tolerance { relative: 0.05, absolute: 0.02 });
    }
}

/// Inputs with three axes hold the same heads in another order.
#[test]
fn three_axes_give_the_same_result_as_four() {
    for seed in 0..60 {
        let case = Case::new(seed, 3);
        for case in [case.converted(Tensor::clone), case.converted(to_f64), case.converted(to_bf16)] {
            let [_, heads, key_heads, ..] = case.sizes;
            let flat = |x: &Tensor| {
                let &[batch, heads, length, dim] = x.shape() else { panic!() };
                fn rows<T: Clone>(x: &ArrayD<T>, shape: [usize; 3]) -> ArrayD<T> {
                    let turned = x.clone().permuted_axes(vec![0, 2, 1, 3]);
                    ArrayD::from_shape_vec(IxDyn(&shape), turned.iter().cloned().collect()).unwrap()
                }
                let shape = [batch, length, heads * dim];
                match x {
                    Tensor::F32(x) => rows(x, shape).into(),
                    Tensor::F64(x) => rows(x, shape).into(),
                    Tensor::Bf16(x) => rows(x, shape).into(),
                    other => panic!("{other:?}"),
                }
            };
            let [query, key, value] = case.tensors.each_ref().map(flat);
            let attributes = Attributes {
                q_num_heads: Some(heads as i64),
                kv_num_heads: Some(key_heads as i64),
                ..case.attributes.clone()
            };
            let inputs = Inputs { query: &query, key: &key, value: &value, ..case.inputs() };
            let outputs =
                attention(&inputs, &attributes, RequestedOutputs { present: false, qk_matmul_output: true }).unwrap();
            let expected = case.run();
            assert_eq!(wide(&outputs.output), wide(&flat(&expected.output)), "{seed} {:?}", case.sizes);
            assert_eq!(outputs.output.shape(), flat(&expected.output).shape());
            assert_eq!(outputs.qk_matmul_output, expected.qk_matmul_output);
            assert_eq!(outputs.present_key, expected.present_key);
            assert_eq!(outputs.present_value, expected.present_value);
        }
    }
}

/// NaN and infinite values in hidden keys and values affect no result, for any type and any stage after masking.
#[test]
fn hidden_keys_and_values_have_no_effect() {
    let queries = 3;
    let random_ = &mut Random::new(3);
    let query = random(random_, &[1, 2, queries, 4]);
    let (key, value) = (random(random_, &[1, 1, 6, 4]), random(random_, &[1, 1, 6, 5]));
    let poisoned = |x: &Tensor, poison: f32| {
        let mut numbers = float::values::<f32>(x).into_owned();
        let half = numbers.len() / 2;
        numbers[half..].fill(poison);
        tensor(x.shape(), numbers)
    };
    let seen = |j: usize| j < 3;
    let boolean = tensor(&[6], (0..6).map(seen).collect::<Vec<_>>());
    let additive = tensor(&[1, 6], (0..6).map(|j| if seen(j) { 0.5 } else { f32::NEG_INFINITY }).collect::<Vec<_>>());
    let short = tensor(&[3], vec![0.25f32; 3]);
    let lengths = tensor(&[1], vec![3i64]);
    let causal = Attributes { is_causal: Some(true), ..Attributes::default() };
    let window = Attributes { right_window_size: Some(0), ..Attributes::default() };
    let cases = [
        (Some(&boolean), None, Attributes::default()),
        (Some(&additive), None, Attributes { softcap: Some(0.5), ..Attributes::default() }),
        (Some(&short), None, Attributes::default()),
        (None, Some(&lengths), Attributes::default()),
        (None, Some(&lengths), causal.clone()),
        (None, None, causal),
        (None, None, window),
    ];
    for to in [Tensor::clone, to_f64, to_f16, to_bf16] {
        for (n, (mask, key_lengths, attributes)) in cases.iter().enumerate() {
            for mode in [2, 3] {
                let attributes = Attributes { qk_matmul_output_mode: Some(mode), ..attributes.clone() };
                let run = |key: &Tensor, value: &Tensor| {
                    let (query, key, value) = (to(&query), to(key), to(value));
                    let mask = mask.map(|mask| if let Tensor::Bool(_) = mask { mask.clone() } else { to(mask) });
                    let inputs =
                        Inputs { mask: mask.as_ref(), key_lengths: *key_lengths, ..Inputs::new(&query, &key, &value) };
                    attention(&inputs, &attributes, RequestedOutputs { present: false, qk_matmul_output: true })
                        .unwrap()
                };
                let clean = run(&key, &value);
                assert!(wide(&clean.output).iter().all(|x| x.is_finite()));
                for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    assert_eq!(run(&poisoned(&key, poison), &poisoned(&value, poison)), clean, "case {n} {poison}");
                }
            }
        }
        // Without a mask they do.
        let (key, value) = (to(&poisoned(&key, f32::NAN)), to(&value));
        let outputs =
            attention(&Inputs::new(&to(&query), &key, &value), &Attributes::default(), RequestedOutputs::default());
        assert!(wide(&outputs.unwrap().output).iter().all(|x| x.is_nan()));
    }
}

#[test]
fn types_may_differ_where_the_specification_allows() {
    let case = Case::new(11, 0);
    let [query, key, value] = &case.tensors;
    let requested = RequestedOutputs { present: true, qk_matmul_output: true };
    let expected = attention(&Inputs::new(query, key, value), &Attributes::default(), requested).unwrap();
    for (to, tolerance) in [(to_f16 as fn(&Tensor) -> Tensor, 2e-3), (to_bf16, 2e-2), (to_f64, 1e-6)] {
        let other = to(value);
        let outputs = attention(&Inputs::new(query, key, &other), &Attributes::default(), requested).unwrap();
        assert_eq!(outputs.output.type_name(), "f32");
        assert_eq!(outputs.present_value.unwrap(), other);
        assert_eq!(outputs.present_key.unwrap(), *key);
        let close = Tolerance { relative: tolerance, absolute: tolerance };
        compare("f32 with another", &wide(&outputs.output), &wide(&expected.output), close).unwrap();
        let (query, key) = (to(query), to(key));
        let outputs = attention(&Inputs::new(&query, &key, value), &Attributes::default(), requested).unwrap();
        assert_eq!(outputs.output.type_name(), query.type_name());
        assert_eq!(outputs.qk_matmul_output.unwrap().type_name(), query.type_name());
        let close = Tolerance { relative: 2.0 * tolerance, absolute: 2.0 * tolerance };
        compare("another with f32", &wide(&outputs.output), &wide(&expected.output), close).unwrap();
    }
    for precision in [1, 10, 11, 16] {
        let attributes = Attributes { softmax_precision: Some(precision), ..Attributes::default() };
        let outputs = attention(&Inputs::new(query, key, value), &attributes, requested).unwrap();
        let close = Tolerance { relative: 1e-6, absolute: 1e-6 };
        compare("softmax_precision", &wide(&outputs.output), &wide(&expected.output), close).unwrap();
    }
}

/// A long row in bf16 is summed in f32, so the sum keeps growing.
#[test]
fn long_bf16_rows_are_summed_exactly() {
    let keys = 5000;
    let one = |length| to_bf16(&tensor(&[1, 1, length, 1], vec![1.0f32; length]));
    let value = to_bf16(&tensor(&[1, 1, keys, 1], (0..keys).map(|j| (j % 2) as f32).collect()));
    let outputs =
        attention(&Inputs::new(&one(1), &one(keys), &value), &Attributes::default(), RequestedOutputs::default());
    let y = wide(&outputs.unwrap().output)[0];
    assert!((y - 0.5).abs() < 4e-3, "{y}");
}

/// Each error names the input at fault.
#[test]
fn unfitting_inputs_are_rejected() {
    let zeros = |shape: &[usize]| tensor(shape, vec![0.0f32; shape.iter().product()]);
    let q = zeros(&[2, 4, 3, 8]);
    let kv = zeros(&[2, 2, 5, 8]);
    let good = Inputs::new(&q, &kv, &kv);
    let default = Attributes::default;
    attention(&good, &default(), RequestedOutputs::default()).unwrap();
    let refuse = |inputs: Inputs<'_>, attributes: Attributes, words: &[&str]| {
        let error = attention(&inputs, &attributes, RequestedOutputs::default()).unwrap_err();
        assert!(error.is_usage());
        let message = error.to_string();
        assert!(message.starts_with(&format!("{}: ", words[0])), "{message}");
        words.iter().for_each(|word| assert!(message.contains(word), "{word} is missing: {message}"));
    };
    let with = |words: &[&str], change: &dyn Fn(&mut Attributes)| {
        let mut attributes = default();
        change(&mut attributes);
        refuse(good, attributes, words);
    };
    with(&["scale", "NaN"], &|a| a.scale = Some(f64::NAN));
    with(&["scale", "-1"], &|a| a.scale = Some(-1.0));
    with(&["softcap", "-2"], &|a| a.softcap = Some(-2.0));
    with(&["softcap", "inf"], &|a| a.softcap = Some(f64::INFINITY));
    with(&["left_window_size", "-2"], &|a| a.left_window_size = Some(-2));
    with(&["right_window_size", "-9223372036854775808"], &|a| a.right_window_size = Some(i64::MIN));
    with(&["qk_matmul_output_mode", "4"], &|a| a.qk_matmul_output_mode = Some(4));
    with(&["softmax_precision", "2"], &|a| a.softmax_precision = Some(2));
    with(&["q_num_heads", "4 heads", "3"], &|a| a.q_num_heads = Some(3));
    with(&["kv_num_heads", "2 heads", "-1"], &|a| a.kv_num_heads = Some(-1));
    let widest = Attributes { left_window_size: Some(i64::MAX), right_window_size: Some(i64::MAX), ..default() };
    attention(&good, &widest, RequestedOutputs::default()).unwrap();

    let (ints, bools) = (tensor(&[2], vec![1i64; 2]), tensor(&[5], vec![true; 5]));
    let half = to_f16(&kv);
    refuse(Inputs { query: &ints, ..good }, default(), &["Q", "whole numbers"]);
    refuse(Inputs { value: &bools, ..good }, default(), &["V", "bool"]);
    refuse(Inputs { key: &half, ..good }, default(), &["K", "f32 as Q", "f16"]);
    refuse(Inputs { key: &zeros(&[2, 3, 5, 8]), value: &zeros(&[2, 3, 5, 8]), ..good }, default(), &["K", "3 heads"]);
    refuse(Inputs { key: &zeros(&[3, 2, 5, 8]), ..good }, default(), &["K", "2 sequences", "3"]);
    refuse(Inputs { key: &zeros(&[2, 2, 5, 7]), ..good }, default(), &["K", "8 numbers", "7"]);
    refuse(Inputs { value: &zeros(&[2, 2, 4, 8]), ..good }, default(), &["V", "5 rows", "4"]);
    refuse(Inputs { value: &zeros(&[2, 1, 5, 8]), ..good }, default(), &["V", "2 heads", "1"]);
    refuse(Inputs { query: &zeros(&[2, 0, 3, 8]), ..good }, default(), &["Q", "at least one head"]);
    refuse(Inputs { query: &zeros(&[8]), ..good }, default(), &["Q", "[8]"]);
    let flat = zeros(&[2, 3, 8]);
    refuse(Inputs::new(&flat, &flat, &flat), default(), &["q_num_heads", "three axes"]);
    let heads = |q, kv| Attributes { q_num_heads: Some(q), kv_num_heads: Some(kv), ..default() };
    refuse(Inputs::new(&flat, &flat, &flat), heads(3, 1), &["q_num_heads", "width 8", "3"]);
    refuse(Inputs::new(&flat, &flat, &flat), heads(4, 0), &["kv_num_heads", "0"]);
    refuse(Inputs::new(&flat, &kv, &kv), Attributes { q_num_heads: Some(1), ..default() }, &["K", "as many axes"]);

    let masked = |mask: &Tensor, words: &[&str]| refuse(Inputs { mask: Some(mask), ..good }, default(), words);
    masked(&ints, &["attn_mask", "whole numbers"]);
    masked(&zeros(&[6]), &["attn_mask", "[6]"]);
    masked(&zeros(&[2, 5]), &["attn_mask", "[2, 5]", "(2, 4, 3, 5)"]);
    masked(&zeros(&[]), &["attn_mask", "[]"]);
    masked(&zeros(&[1, 1, 1, 1, 5]), &["attn_mask", "[1, 1, 1, 1, 5]"]);

    let lengths = |lengths: &Tensor, words: &[&str]| {
        refuse(Inputs { key_lengths: Some(lengths), ..good }, default(), words);
    };
    lengths(&bools, &["nonpad_kv_seqlen", "bool"]);
    lengths(&tensor(&[3], vec![0i64; 3]), &["nonpad_kv_seqlen", "[3]"]);
    lengths(&tensor(&[2], vec![5i64, 6]), &["nonpad_kv_seqlen", "6", "sequence 1"]);
    lengths(&tensor(&[2], vec![-1i64, 0]), &["nonpad_kv_seqlen", "-1", "sequence 0"]);
    let (full, short) = (tensor(&[2], vec![5i64, 2]), zeros(&[4]));
    refuse(Inputs { key_lengths: Some(&full), mask: Some(&short), ..good }, default(), &["attn_mask", "5", "4"]);

    let past = zeros(&[2, 2, 1, 8]);
    refuse(Inputs { past_key: Some(&past), ..good }, default(), &["past_value", "past_key"]);
    refuse(Inputs { past_value: Some(&past), ..good }, default(), &["past_key", "past_value"]);
    let both = Inputs { past_key: Some(&past), past_value: Some(&past), ..good };
    attention(&both, &default(), RequestedOutputs::default()).unwrap();
    refuse(Inputs { key_lengths: Some(&ints), ..both }, default(), &["nonpad_kv_seqlen", "past_key"]);
    refuse(Inputs { past_value: Some(&zeros(&[2, 2, 2, 8])), ..both }, default(), &["past_value", "[2, 2, 1, 8]"]);
    refuse(Inputs { past_key: Some(&zeros(&[2, 2, 8])), ..both }, default(), &["past_key", "[2, 2, 8]"]);
    refuse(Inputs { past_key: Some(&to_f64(&past)), ..both }, default(), &["past_key", "f32 as K", "f64"]);

    // Results larger than any memory, from empty inputs.
    let wide_value = zeros(&[2, 2, 0, 1 << 50]);
    let none = zeros(&[2, 2, 0, 8]);
    refuse(Inputs { key: &none, value: &wide_value, ..good }, default(), &["Y", "memory"]);
}

#[test]
fn files_are_attended() {
    let random_ = &mut Random::new(9);
    let x = random(random_, &[1, 2, 6]);
    let named = |names: &[&str]| TensorFile {
        tensors: names.iter().map(|name| ((*name).to_owned(), x.clone())).collect(),
        ..TensorFile::default()
    };
    let heads = Attributes { q_num_heads: Some(2), kv_num_heads: Some(2), ..Attributes::default() };
    let names = |outputs: TensorFile| outputs.tensors.into_keys().collect::<Vec<_>>();
    let message = |file: &TensorFile, flags: &Attributes| attend(file, flags).unwrap_err().to_string();
    let plain = named(&["Q", "K", "V"]);
    assert_eq!(names(attend(&plain, &heads).unwrap()), ["Y"]);
    let mode = Attributes { qk_matmul_output_mode: Some(3), ..heads.clone() };
    assert_eq!(names(attend(&plain, &mode).unwrap()), ["Y", "qk_matmul_output"]);

    // Metadata is used with in.* names, and flags take precedence.
    let mut file = named(&["in.Q", "in.K", "in.V"]);
    file.metadata.insert("attributes".into(), r#"{"q_num_heads": 3, "kv_num_heads": 1, "is_causal": 1}"#.into());
    let three = attend(&file, &Attributes::default());
    assert!(three.unwrap_err().to_string().starts_with("K: expected 2 numbers in a head"));
    let causal = attend(&file, &heads).unwrap();
    assert_ne!(causal, attend(&plain, &heads).unwrap());
    assert_eq!(causal, attend(&plain, &Attributes { is_causal: Some(true), ..heads.clone() }).unwrap());
    let overridden = Attributes { is_causal: Some(false), ..heads.clone() };
    assert_eq!(attend(&file, &overridden).unwrap(), attend(&plain, &heads).unwrap());
    file.metadata.insert("node_outputs".into(), r#"["Y", "", "present_value", "qk_matmul_output"]"#.into());
    assert_eq!(attend(&file, &heads).unwrap().tensors.len(), 4);
    let requested = named(&["in.Q", "in.K", "in.V", "out.Y", "out.qk_matmul_output"]);
    assert_eq!(names(attend(&requested, &heads).unwrap()), ["Y", "qk_matmul_output"]);
    // Outputs of an earlier run are ignored.
    assert_eq!(names(attend(&named(&["Q", "K", "V", "Y"]), &heads).unwrap()), ["Y"]);

    assert_eq!(message(&named(&["Q", "V"]), &heads), "K: expected a tensor of this name, got a file with Q, V");
    assert_eq!(message(&named(&[]), &heads), "Q: expected a tensor of this name, got a file with nothing");
    assert_eq!(message(&named(&["Q", "K", "V", "in.Q"]), &heads), "Q: found twice, as Q and in.Q; keep one");
    let wrong = message(&named(&["Q", "K", "V", "mask"]), &heads);
    assert!(wrong.starts_with("mask: ") && wrong.contains("attn_mask"), "{wrong}");
    for bad in ["", "[]", "{\"is_causal\": 2}", "{\"scale\": \"x\"}", "{\"window\": 3}", "{\"softcap\": 1e999}"] {
        file.metadata.insert("attributes".into(), bad.into());
        let message = message(&file, &heads);
        assert!(message.starts_with("attributes: the metadata cannot be used: "), "{bad}: {message}");
    }
}
