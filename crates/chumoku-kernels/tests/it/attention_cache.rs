//! Growing caches and merged parts, compared with attention over all keys.

use crate::common::each_isa;
use chumoku_kernels::{Attention, Causal, Heads, HeadsMut, KeyValueCache, PartialAttention, bf16, merge_attention};
use testkit::{Random, Tolerance, compare, to_f64};

const CLOSE: Tolerance = Tolerance { relative: 2e-6, absolute: 1e-6 };

fn attend(args: &Attention<f32>, [batch, heads, length, dim]: [usize; 4]) -> (Vec<f32>, Vec<f32>) {
    let (mut output, mut lse) = (vec![f32::NAN; batch * heads * length * dim], vec![f32::NAN; args.rows()]);
    let view = HeadsMut::bhld(&mut output, [batch, heads, length, dim]).unwrap();
    args.forward_with_log_sum_exp(view, &mut lse).unwrap();
    (output, lse)
}

/// Decoding token by token through a cache equals attention over all tokens, for any initial capacity.
#[test]
fn decoding_token_by_token_matches_full_attention() {
    each_isa(|_| check_decoding());
}

fn check_decoding() {
    let (batch, heads, key_heads, length, dim, value_dim) = (2, 4, 2, 21, 6, 3);
    let mut random = Random::new(7);
    let query = random.numbers(batch * length * heads * dim);
    let key = random.numbers(batch * length * key_heads * dim);
    let value = random.numbers(batch * length * key_heads * value_dim);
    // (batch, length, heads, dim), in which one token is a strided view.
    let token = |data: &'static [f32], heads: usize, dim: usize, at: usize, n: usize| {
        let row = heads * dim;
        Heads::strided(&data[at * row..], [batch, heads, n, dim], [length * row, dim, row]).unwrap()
    };
    let (query, key, value): (&'static [f32], &'static [f32], &'static [f32]) =
        (query.leak(), key.leak(), value.leak());
    let all = Attention::new(
        token(query, heads, dim, 0, length),
        token(key, key_heads, dim, 0, length),
        token(value, key_heads, value_dim, 0, length),
    )
    .causal(Causal::TopLeft);
    let (expected, _) = attend(&all, [batch, heads, length, value_dim]);
    for capacity in [0, 1, 5, 64] {
        let mut cache = KeyValueCache::new(batch, key_heads, [dim, value_dim], capacity).unwrap();
        let mut at = 0;
        for n in [4, 1, 0, 1, 7, 1, 1, 6] {
            cache.append(token(key, key_heads, dim, at, n), token(value, key_heads, value_dim, at, n)).unwrap();
            let args = Attention::new(token(query, heads, dim, at, n), cache.key(), cache.value())
                .key_lengths(cache.lengths())
                .causal(Causal::BottomRight);
            let (output, _) = attend(&args, [batch, heads, n, value_dim]);
            for (pair, rows) in output.chunks((n * value_dim).max(1)).enumerate() {
                let expected = &expected[(pair * length + at) * value_dim..][..n * value_dim];
                compare("decode", rows, &to_f64(expected), CLOSE).unwrap();
            }
            at += n;
        }
        assert_eq!(cache.lengths(), [length; 2]);
        assert!(cache.capacity() >= length && (capacity == 64) == (cache.capacity() == 64));
    }
}

#[test]
fn sequences_have_different_lengths() {
    let mut cache = KeyValueCache::<bf16>::new(3, 1, [1, 2], 2).unwrap();
    let numbers = |from: usize, n: usize| (from..from + n).map(|x| bf16::from_f32(x as f32)).collect::<Vec<_>>();
    for (offsets, from) in [([0, 2, 2, 3], 1), ([0, 1, 4, 4], 4)] {
        let (key, value) = (numbers(from, offsets[3]), numbers(from * 2, offsets[3] * 2));
        let key = Heads::packed(&key, &offsets, 1, 1, 1).unwrap();
        cache.append(key, Heads::packed(&value, &offsets, 1, 2, 2).unwrap()).unwrap();
    }
    assert_eq!((cache.lengths(), cache.capacity()), (&[3, 3, 1][..], 4));
    let held = |s: usize, i: usize| (cache.key().row(s, 0, i)[0].to_f32(), cache.value().row(s, 0, i)[1].to_f32());
    assert_eq!([held(0, 0), held(0, 1), held(0, 2)], [(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]);
    assert_eq!([held(1, 0), held(1, 2), held(2, 0)], [(5.0, 11.0), (7.0, 15.0), (3.0, 7.0)]);
    cache.truncate(0, 1);
    cache.truncate(2, 9);
    assert_eq!(cache.lengths(), [1, 3, 1]);
}

#[test]
fn cache_rejects_invalid_appends() {
    let mut cache = KeyValueCache::<f32>::new(1, 1, [2, 1], 3).unwrap().limit(4);
    let (key, value) = ([1.0; 10], [2.0; 5]);
    let mut append = |n: usize, m: usize| {
        cache
            .append(Heads::bhld(&key, [1, 1, n, 2]).unwrap(), Heads::bhld(&value, [1, 1, m, 1]).unwrap())
            .map_err(|error| error.to_string())
    };
    append(3, 3).unwrap();
    let error = append(2, 2).unwrap_err();
    assert_eq!(error, "cache: limit: expected at most 4 tokens in sequence 0, got 2 after the 3 held");
    assert!(append(1, 2).unwrap_err().starts_with("cache: value: expected 1 rows in sequence 0"));
    append(1, 1).unwrap();
    assert_eq!((cache.lengths(), cache.capacity()), (&[4][..], 4));
    let other = Heads::bhld(&key, [1, 2, 1, 2]).unwrap();
    let error = cache.append(other, other).unwrap_err().to_string();
    assert_eq!(error, "cache: key: expected 1 sequences, 1 heads of width 2, got 1, 2 of 2");
    for (batch, heads, dims, capacity) in [
        (1, 0, [1, 1], 1),
        (1, 1, [0, 1], 1),
        (1, 1, [1, 1], usize::MAX),
        (usize::MAX, 1, [1, 1], 1),
        (1 << 20, 1 << 20, [1 << 20, 1 << 20], 1 << 20),
    ] {
        assert!(KeyValueCache::<f32>::new(batch, heads, dims, capacity).is_err());
    }
}

#[test]
fn merged_parts_equal_full_attention() {
    each_isa(|_| check_merging());
}

fn check_merging() {
    let (batch, heads, queries, keys, dim) = (2, 3, 5, 23, 4);
    let mut random = Random::new(3);
    let (query, key) = (random.numbers(batch * heads * queries * dim), random.numbers(batch * heads * keys * dim));
    let query = Heads::bhld(&query, [batch, heads, queries, dim]).unwrap();
    let shape = [batch, heads, queries, dim];
    let part = |from: usize, to: usize| {
        let strides = [heads * keys * dim, keys * dim, dim];
        let rows = Heads::strided(&key[from * dim..], [batch, heads, to - from, dim], strides).unwrap();
        attend(&Attention::new(query, rows, rows).scale(3.0), shape)
    };
    let (expected, expected_lse) = part(0, keys);
    for cuts in [vec![0, keys], vec![0, 1, 9, 22, keys], vec![0, 0, 12, 12, keys]] {
        let parts: Vec<_> = cuts.windows(2).map(|cut| part(cut[0], cut[1])).collect();
        let merged = merged(&parts, shape);
        compare("output", &merged.0, &to_f64(&expected), CLOSE).unwrap();
        compare("log-sum-exp", &merged.1, &to_f64(&expected_lse), CLOSE).unwrap();
    }
}

fn merged(parts: &[(Vec<f32>, Vec<f32>)], shape: [usize; 4]) -> (Vec<f32>, Vec<f32>) {
    let size: usize = shape.iter().product();
    let (mut output, mut lse) = (vec![f32::NAN; size], vec![f32::NAN; size / shape[3]]);
    let parts: Vec<PartialAttention<f32>> = parts
        .iter()
        .map(|(output, lse)| PartialAttention { output: Heads::bhld(output, shape).unwrap(), log_sum_exp: lse })
        .collect();
    merge_attention(&parts, HeadsMut::bhld(&mut output, shape).unwrap(), Some(&mut lse)).unwrap();
    (output, lse)
}

/// Parts with nothing to attend to are ignored; NaN in any other part propagates.
#[test]
fn empty_parts_are_ignored_when_merging() {
    let (none, nan) = (f32::NEG_INFINITY, f32::NAN);
    let shape = [1, 1, 1, 1];
    let part = |y: f32, lse: f32| (vec![y], vec![lse]);
    assert_eq!(merged(&[], shape), (vec![0.0], vec![none]));
    assert_eq!(merged(&[part(nan, none), part(nan, none)], shape), (vec![0.0], vec![none]));
    assert_eq!(merged(&[part(nan, none), part(3.0, -200.0)], shape), (vec![3.0], vec![-200.0]));
    // Far beyond the range of exp.
    let (y, lse) = merged(&[part(2.0, 1e30), part(4.0, 1e30), part(9.0, -1e30)], shape);
    assert_eq!((y, lse), (vec![3.0], vec![1e30]));
    assert!(merged(&[part(nan, 0.0), part(3.0, 0.0)], shape).0[0].is_nan());
    assert!(merged(&[part(1.0, nan), part(3.0, 0.0)], shape).1[0].is_nan());
    let (y, lse) = (vec![1.0f32; 2], [0.0]);
    let wrong = PartialAttention { output: Heads::bhld(&y, [1, 1, 2, 1]).unwrap(), log_sum_exp: &lse };
    let mut output = [0.0];
    let error = merge_attention(&[wrong], HeadsMut::bhld(&mut output, shape).unwrap(), None).unwrap_err();
    assert_eq!(error.to_string(), "merge: output of a part: expected 1 rows in sequence 0, got 2");
}

/// Random selections compared with a list of sequences, with tokens appended in between.
#[test]
fn select_reorders_sequences() {
    let mut random = Random::new(11);
    let (heads, dims) = (2, [3, 2]);
    let mut cache = KeyValueCache::<f64>::new(4, heads, dims, 1).unwrap();
    // The tokens of each sequence, one number each.
    let mut plain: Vec<Vec<f64>> = vec![Vec::new(); 4];
    let mut next = 0.0;
    for round in 0..60 {
        let mut offsets = vec![0];
        let mut numbers = Vec::new();
        for sequence in &mut plain {
            for _ in 0..random.below(3) {
                next += 1.0;
                sequence.push(next);
                numbers.push(next);
            }
            offsets.push(numbers.len());
        }
        let rows = |dim: usize, sign: f64| -> Vec<f64> {
            let row = |&x: &f64| (0..heads * dim).map(move |i| sign * (x + i as f64 / 16.0));
            numbers.iter().flat_map(row).collect()
        };
        let (key, value) = (rows(dims[0], 1.0), rows(dims[1], -1.0));
        let view = |x, dim| Heads::packed(x, &offsets, heads, dim, heads * dim).unwrap();
        cache.append(view(&key, dims[0]), view(&value, dims[1])).unwrap();
        let count = plain.len();
        let order: Vec<usize> = match round % 4 {
            // A shuffle with repetitions, one with more sequences, a subset, and the reverse order.
            0 => (0..count).map(|_| random.below(count)).collect(),
            1 => (0..count.min(4) + 2).map(|_| random.below(count)).collect(),
            2 => (0..count).filter(|s| s % 3 != 1).collect(),
            _ => (0..count).rev().collect(),
        };
        cache.select(&order).unwrap();
        plain = order.iter().map(|&s| plain[s].clone()).collect();
        assert!(cache.lengths().iter().eq(plain.iter().map(Vec::len).collect::<Vec<_>>().iter()));
        for (s, sequence) in plain.iter().enumerate() {
            for (i, x) in sequence.iter().enumerate() {
                for h in 0..heads {
                    let row = |dim: usize, sign: f64| -> Vec<f64> {
                        (0..dim).map(|c| sign * (x + (h * dim + c) as f64 / 16.0)).collect()
                    };
                    assert_eq!(cache.key().row(s, h, i), row(dims[0], 1.0), "round {round}, key {i} of {s}");
                    assert_eq!(cache.value().row(s, h, i), row(dims[1], -1.0), "round {round}, value {i} of {s}");
                }
            }
        }
    }
    let before = cache.lengths().to_vec();
    let error = cache.select(&[0, before.len()]).unwrap_err().to_string();
    assert_eq!(error, format!("cache: sequences: expected below {0}, got {0}", before.len()));
    assert_eq!(cache.lengths(), before);
    cache.select(&[]).unwrap();
    assert!(cache.lengths().is_empty() && cache.key().sequences() == 0);
}

/// A cache that evicts tokens equals attention with a window over all tokens, and stays small.
#[test]
fn tokens_outside_the_window_are_evicted() {
    let (window, dim, length) = (6, 3, 200);
    let mut random = Random::new(5);
    let rows = [(); 3].map(|()| random.numbers(2 * length * dim));
    let view = |x: usize, from: usize, n: usize| {
        Heads::strided(&rows[x][from * dim..], [2, 1, n, dim], [length * dim, 1, dim]).unwrap()
    };
    let all = Attention::new(view(0, 0, length), view(1, 0, length), view(2, 0, length))
        .causal(Causal::TopLeft)
        .window(Some(window), Some(0), Causal::TopLeft);
    let (expected, _) = attend(&all, [2, 1, length, dim]);
    for capacity in [0, 3, 12, 40] {
        let mut cache = KeyValueCache::new(2, 1, [dim; 2], capacity).unwrap().window(window).limit(length);
        let mut at = 0;
        for n in [1, 1, 5, 2, 9].into_iter().cycle() {
            let n = n.min(length - at);
            if n == 0 {
                break;
            }
            cache.append(view(1, at, n), view(2, at, n)).unwrap();
            let args = Attention::new(view(0, at, n), cache.key(), cache.value())
                .key_lengths(cache.lengths())
                .causal(Causal::BottomRight)
                .window(Some(window), Some(0), Causal::BottomRight);
            let (output, _) = attend(&args, [2, 1, n, dim]);
            for (s, rows) in output.chunks(n * dim).enumerate() {
                let expected = &expected[(s * length + at) * dim..][..n * dim];
                compare("window", rows, &to_f64(expected), CLOSE).unwrap();
            }
            at += n;
            assert_eq!(cache.positions(), [at; 2]);
            assert!(cache.capacity() <= capacity.max(2 * window + 9), "{} at {at}", cache.capacity());
        }
        assert!(cache.lengths()[0] < 60);
        let error = cache.append(view(1, 0, 1), view(2, 0, 1)).unwrap_err().to_string();
        assert_eq!(error, "cache: limit: expected at most 200 tokens in sequence 0, got 1 after the 200 held");
    }
}
