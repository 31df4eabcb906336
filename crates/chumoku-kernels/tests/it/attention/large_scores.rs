//! Scores of any size, up to and beyond the largest f32, compared with the definition in double precision.
//!
//! Scores are multiples of f32's last digit, so that every summation order gives the same number. Weights must be exact
//! as well: equal scores get equal weights, and adjacent f32 scores differ as in double precision.

use crate::attention::case::{Case, CaseLayout, Data, MaskForm, Results};
use crate::attention::check::{self, DtypeKind, compare};
use crate::attention::oracle::Truth;
use crate::common::each_isa;
use chumoku_kernels::*;
use rayon::prelude::*;
use testkit::{Random, Tolerance, compare as compare_numbers, to_f64};

/// The approximate magnitudes of scores, as powers of two. Beyond 127 they exceed any f32.
const POWERS: [i32; 19] = [0, 6, 12, 15, 18, 20, 23, 24, 26, 28, 30, 31, 33, 40, 62, 100, 122, 130, 200];

/// The distribution of a query's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScoreSpread {
    /// Within a few last digits of one large number, so that many keys share the weight.
    Near,
    /// All magnitudes and both signs.
    Far,
    /// All far below 0, within a few last digits.
    Below,
}

/// Returns 2^n.
fn power(n: i32) -> f64 {
    f64::from(n).exp2()
}

/// Returns the data of a case with scores of about `2^of`: the sum of one large product and two small ones, its last
/// digits.
fn data(case: &Case, of: i32, spread: ScoreSpread) -> Data {
    let mut data = Data::new(case);
    let mut random = Random::new(case.seed + 1000);
    let scale = case.scale.expect("a power of two");
    // Half of the exponent in the queries, half in the keys.
    let (of_query, of_key) = (of / 2, of - of / 2);
    // The last digit of 2^of, or ¼ for small scores.
    let digit = (of - 23).max(-2);
    let (digit_of_query, digit_of_key) = (digit / 2, digit - digit / 2);
    let sign = if spread == ScoreSpread::Below { -1.0 } else { 1.0 };
    let is_far = spread == ScoreSpread::Far;
    let rows = data.query.chunks_exact_mut(case.dim).map(|row| (row, true));
    for (row, is_query) in rows.chain(data.key.chunks_exact_mut(case.dim).map(|row| (row, false))) {
        let digit = if is_query { power(digit_of_query) / scale.abs() } else { power(digit_of_key) };
        let large = if is_query { sign * power(of_query) / scale } else { power(of_key) * 1.5 };
        let sizes = if is_query { [1.0, -1.0, 0.25, 0.0] } else { [1.0, 0.5, -1.0, 0.0] };
        row.fill(0.0);
        row[0] = large * if is_far { sizes[random.below(4)] } else { 1.0 };
        row[1..3].fill_with(|| (random.below(9) as f64 - 4.0) * digit);
    }
    // Exact in every dtype.
    [&mut data.value, &mut data.d_output].into_iter().flatten().for_each(|x| *x = bf16::round_from(*x).to_f64());
    for (row, (s, _, j)) in case.key().places().enumerate() {
        if j >= case.keys(s) {
            data.key[row * case.dim..][..case.dim].fill(f64::NAN);
        }
    }
    // A sink in the range of the scores: f32 represents it exactly.
    let large = sign * power(of.min(120)) * 1.5;
    data.sinks.iter_mut().enumerate().for_each(|(h, sink)| *sink = if h % 2 == 0 { large as f32 } else { 1.0 });
    data
}

/// Returns cases for every path: many queries, one query, masks, few queries that see all keys.
fn cases() -> Vec<Case> {
    let scale = Some(0.25);
    let base = Case { scale, d_log_sum_exp: true, ..Case::of(&[(33, 300)], [2, 1], [8, 5]) };
    let decoded = Case { scale, ..Case::of(&[(1, 1100)], [4, 2], [32, 12]) };
    let mask = |is_additive| Some(MaskForm { has_gaps: is_additive, ..MaskForm::full(is_additive) });
    let mut cases = vec![
        base.clone(),
        Case { causal: Some(Causal::BottomRight), scale: Some(-0.5), sinks: true, ..base.clone() },
        Case { mask: mask(false), ..base.clone() },
        Case { mask: mask(true), scale: Some(-1.0), sinks: true, ..base.clone() },
        Case { dropout: 0.3, window: Some((Some(150), None, Causal::BottomRight)), ..base.clone() },
        Case { layout: CaseLayout::Packed, scale, ..Case::of(&[(40, 50), (3, 260)], [2, 2], [4, 16]) },
        // One block of queries that see all keys.
        Case { scale, ..Case::of(&[(20, 70)], [1, 1], [32, 32]) },
        decoded.clone(),
        Case { scale: Some(-2.0), sinks: true, key_lengths: Some(vec![700]), ..decoded },
    ];
    (0..).zip(&mut cases).for_each(|(seed, case)| case.seed = seed);
    cases
}

/// Rounds a log-sum-exp to f32.
fn narrow(x: f64) -> f64 {
    if x.is_finite() { f64::from((x as f32).max(f32::MIN)) } else { x }
}

/// Compares the forward pass strictly, and the backward pass with the tolerance that a rounded log-sum-exp requires.
fn check(what: &dyn Fn() -> String, found: &Results, truth: &Truth, tolerance: check::Tolerance) {
    let Truth { results, terms, .. } = truth;
    let with = |results: Results, largest_score: f64| Truth { results, terms: terms.clone(), largest_score };
    let forward = Results { output: found.output.clone(), log_sum_exp: found.log_sum_exp.clone(), ..results.clone() };
    compare(what, &forward, &with(results.clone(), 0.0), tolerance);
    // From 65,536 on, the backward pass does not use the rounded log-sum-exp.
    let log_sum_exp = results.log_sum_exp.iter().map(|x| x.abs()).filter(|x| *x <= 65536.0);
    let largest_score = log_sum_exp.fold(0.0, f64::max);
    let backward =
        Results { output: results.output.clone(), log_sum_exp: results.log_sum_exp.clone(), ..found.clone() };
    compare(what, &backward, &with(results.clone(), largest_score), tolerance);
}

#[test]
fn weights_are_exact_for_scores_of_any_size() {
    let mut all = Vec::new();
    for case in cases() {
        for (n, of) in POWERS.into_iter().enumerate() {
            for spread in [ScoreSpread::Near, ScoreSpread::Far, ScoreSpread::Below] {
                let case = Case { seed: case.seed + 10 * n as u64, ..case.clone() };
                let mut data = data(&case, of, spread);
                // Nonzero biases would be rounded.
                data.bias.iter_mut().filter(|bias| bias.is_finite()).for_each(|bias| *bias = 0.0);
                let mut truth = case.truth(&data);
                truth.results.log_sum_exp.iter_mut().for_each(|x| *x = narrow(*x));
                truth.terms.log_sum_exp.iter_mut().for_each(|x| *x = narrow(*x));
                all.push((case, data, truth, format!("2^{of} {spread:?}")));
            }
        }
    }
    each_isa(|isa| {
        let tried: Vec<usize> = all
            .par_iter()
            .enumerate()
            .map(|(n, (case, data, truth, what))| {
                let fits = DtypeKind::sampled_on(isa, n).filter(|kind| fits(*kind, data, &truth.results));
                let name = |kind: DtypeKind| move || format!("{isa} {kind:?} {what} {case:?}");
                let run = |kind: DtypeKind| check(&name(kind), &kind.run(case, data), truth, kind.tolerance(isa));
                fits.map(run).count()
            })
            .collect();
        // f16 represents only a few of them.
        assert!(tried.iter().sum::<usize>() > all.len() / 2, "{isa}");
    });
}

/// Returns whether a dtype represents queries and keys exactly, and has the range for their gradients.
fn fits(kind: DtypeKind, data: &Data, truth: &Results) -> bool {
    let rounded = kind.round(data);
    let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
    let largest = if kind == DtypeKind::F16 { 6e4 } else { 1e38 };
    let gradients = [&truth.d_query, &truth.d_key, &truth.d_value];
    same(&rounded.query, &data.query)
        && same(&rounded.key, &data.key)
        && gradients.into_iter().flatten().all(|x| x.abs() < largest)
}

/// Computes attention of one head over a few keys of width 1. Returns output, log-sum-exp and weights.
fn single_head(query: f32, key: &[f32], value: &[f32], scale: f64) -> [Vec<f32>; 3] {
    let (query, n) = ([query; 3], key.len());
    let heads = |x, rows| Heads::bhld(x, [1, 1, rows, 1]).unwrap();
    let args = |rows: usize| Attention::new(heads(&query[..rows], rows), heads(key, n), heads(value, n)).scale(scale);
    let run = |rows: usize| {
        let (mut output, mut log_sum_exp) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
        let view = HeadsMut::bhld(&mut output, [1, 1, rows, 1]).unwrap();
        args(rows).forward_with_log_sum_exp(view, &mut log_sum_exp).unwrap();
        [output, log_sum_exp, args(rows).weights(0, 0).unwrap()]
    };
    let (one, several) = (run(1), run(3));
    for part in 0..3 {
        for (of_one, of_several) in one[part].iter().zip(&several[part]) {
            assert!(near(*of_one, *of_several), "one query gives {one:?}, several give {several:?}");
        }
    }
    one
}

/// Returns whether two values agree to six digits.
fn near(a: f32, b: f32) -> bool {
    a == b || (a - b).abs() <= 1e-6 * a.abs()
}

#[test]
fn larger_of_two_large_scores_has_all_the_weight() {
    each_isa(|_| {
        for (query, key) in [
            (1e5, [1e5, 5e4]),
            (1e5, [1e5, f32::from_bits(1e5f32.to_bits() - 1)]),
            (-1e12, [-1e12, 1e12]),
            (3e15, [2e15, 1e15]),
            (1e18, [1e18, 9e17]),
            (1e20, [1e20, 5e19]),
            (3e38, [3e38, -3e38]),
            (f32::MAX, [f32::MAX, f32::from_bits(f32::MAX.to_bits() - 1)]),
        ] {
            let [output, log_sum_exp, weights] = single_head(query, &key, &[1.0, 0.0], 1.0);
            let expected = (f64::from(query) * f64::from(key[0])) as f32;
            assert!(near(output[0], 1.0) && weights == [1.0, 0.0], "{query} {key:?}: {output:?} {weights:?}");
            assert!(near(log_sum_exp[0], expected), "{query} {key:?}: {log_sum_exp:?}");
            let [output, log_sum_exp, weights] = single_head(-query, &key, &[1.0, 0.0], 1.0);
            assert!(output[0].abs() < 1e-6 && weights == [0.0, 1.0], "{query} {key:?}: {output:?} {weights:?}");
            // A finite log-sum-exp never becomes −∞, which stands for nothing to attend to.
            let expected = ((-f64::from(query) * f64::from(key[1])) as f32).max(f32::MIN);
            assert!(near(log_sum_exp[0], expected), "{query} {key:?}: {log_sum_exp:?}");
        }
    });
}

#[test]
fn large_equal_scores_share_the_weight() {
    each_isa(|_| {
        for query in [1e5, 1e8, 1e12, 1e15, 1e18, 1e19, 1e25, 1e38] {
            for sign in [1.0, -1.0] {
                let [output, _, weights] = single_head(query, &[sign * query; 4], &[1.0, 2.0, 3.0, 6.0], 1.0);
                assert!(near(output[0], 3.0) && weights == [0.25; 4], "{query} {sign}: {output:?} {weights:?}");
            }
        }
    });
}

#[test]
fn underflowing_norms_do_not_bound_scores() {
    // |q|² is 0 in f32, but the score is 1e22.
    each_isa(|_| {
        let [output, log_sum_exp, weights] = single_head(1e-25, &[1e17, 5e16], &[1.0, 0.0], 1e30);
        assert!(near(output[0], 1.0) && near(log_sum_exp[0], 1e22), "{output:?} {log_sum_exp:?}");
        assert_eq!(weights, [1.0, 0.0]);
    });
}

/// Weights, statistics and the output of a case use the same scores.
#[test]
fn statistics_agree_with_the_output() {
    each_isa(|isa| {
        for of in POWERS {
            for spread in [ScoreSpread::Near, ScoreSpread::Far, ScoreSpread::Below] {
                for scale in [0.25, -1.0] {
                    let case = Case { scale: Some(scale), seed: 7, ..Case::of(&[(9, 70)], [1, 1], [8, 70]) };
                    statistics(&case, &data(&case, of, spread), &format!("{isa} 2^{of} {spread:?} {scale}"));
                }
            }
        }
    });
}

fn statistics(case: &Case, data: &Data, what: &str) {
    let (queries, keys) = case.lengths[0];
    let as_f32 = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let (query, key) = (as_f32(&data.query), as_f32(&data.key));
    // With unit vectors as values, the rows of the output are the weights.
    let value: Vec<f32> = (0..keys * keys).map(|at| f32::from(u8::from(at / keys == at % keys))).collect();
    let args = Attention::new(
        Heads::bhld(&query, [1, 1, queries, case.dim]).unwrap(),
        Heads::bhld(&key, [1, 1, keys, case.dim]).unwrap(),
        Heads::bhld(&value, [1, 1, keys, keys]).unwrap(),
    )
    .scale(case.scale.unwrap());
    let mut output = vec![f32::NAN; queries * keys];
    args.forward(HeadsMut::bhld(&mut output, [1, 1, queries, keys]).unwrap()).unwrap();
    let weights = args.weights(0, 0).unwrap();
    compare_numbers(what, &weights, &to_f64(&output), Tolerance { relative: 1e-6, absolute: 1e-6 }).unwrap();
    let (mut mass, mut entropy) = (vec![f32::NAN; keys], vec![f32::NAN; queries]);
    let (mut top_keys, mut top_weights) = (vec![None; queries], vec![f32::NAN; queries]);
    let top = Some(TopKeys { count: 1, keys: &mut top_keys, weights: &mut top_weights });
    args.statistics(AttentionStatistics { mass: Some(&mut mass), entropy: Some(&mut entropy), top }).unwrap();
    for (i, row) in to_f64(&output).chunks_exact(keys).enumerate() {
        let expected = -row.iter().filter(|&&w| w > 0.0).map(|w| w * w.ln()).sum::<f64>();
        assert!((f64::from(entropy[i]) - expected).abs() < 1e-5, "{what}: {} for {expected}", entropy[i]);
        let largest = row.iter().copied().fold(0.0, f64::max);
        assert!((f64::from(top_weights[i]) - largest).abs() < 1e-6 && row[top_keys[i].unwrap()] > largest - 1e-6);
    }
    for (j, &mass) in mass.iter().enumerate() {
        let expected: f64 = output.chunks_exact(keys).map(|row| f64::from(row[j])).sum();
        assert!((f64::from(mass) - expected).abs() < 1e-5, "{what}: {mass} for {expected}");
    }
}

#[test]
fn scores_beyond_f32_are_infinite_and_never_masked() {
    each_isa(|_| {
        let large = 70f32.exp2();
        let (query, key) = ([large], [large, -large, 1024.0]);
        let args = Attention::new(
            Heads::bhld(&query, [1, 1, 1, 1]).unwrap(),
            Heads::bhld(&key, [1, 1, 3, 1]).unwrap(),
            Heads::bhld(&key, [1, 1, 3, 1]).unwrap(),
        )
        .scale(1.0);
        let scores = |stage| {
            let mut scores = [f32::NAN; 3];
            args.scores(stage, 0, 0, &mut scores).unwrap();
            scores
        };
        assert_eq!(scores(ScoreStage::Scaled), [f32::INFINITY, f32::NEG_INFINITY, 1024.0 * large]);
        assert_eq!(scores(ScoreStage::Masked), [f32::INFINITY, f32::MIN, 1024.0 * large]);
        assert_eq!(scores(ScoreStage::Weights), [1.0, 0.0, 0.0]);
        // Intermediate sums that overflow do not affect a finite result.
        let (query, key) = ([1e20f32, 1e20, 1.0, 0.0], [1e20f32, -1e20, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let args = Attention::new(
            Heads::bhld(&query, [1, 1, 1, 4]).unwrap(),
            Heads::bhld(&key, [1, 1, 2, 4]).unwrap(),
            Heads::bhld(&key, [1, 1, 2, 4]).unwrap(),
        )
        .scale(1.0);
        for softcap in [None, Some(8.0)] {
            let args = softcap.map_or(args, |cap| args.softcap(cap));
            let mut scores = [f32::NAN; 2];
            args.scores(ScoreStage::Capped, 0, 0, &mut scores).unwrap();
            let weights = args.weights(0, 0).unwrap();
            // 1e40 − 1e40 + 2, and 1.
            let expected = [2.0f64, 1.0].map(|score| softcap.map_or(score, |cap| cap * (score / cap).tanh()));
            compare_numbers("scores", &scores, &expected, Tolerance::relative(1e-6)).unwrap();
            let weight = 1.0 / (1.0 + (expected[1] - expected[0]).exp());
            compare_numbers("weights", &weights, &[weight, 1.0 - weight], Tolerance::relative(1e-6)).unwrap();
        }
    });
}

#[test]
fn parts_with_large_scores_merge() {
    each_isa(|_| {
        for query in [1e5f32, 1e9, 1e15, 1e18] {
            let (key, value) = ([query, query / 2.0, query, -query, query, 0.0], [1.0f32, 8.0, 3.0, 8.0, 8.0, 5.0]);
            // Each part has one key with the largest score.
            for (keys, expected) in [(4, 2.0), (6, 4.0)] {
                let parts: Vec<[Vec<f32>; 3]> =
                    (0..keys).step_by(2).map(|j| single_head(query, &key[j..j + 2], &value[j..j + 2], 1.0)).collect();
                let [output, log_sum_exp] = merged(&parts);
                assert!(near(output, expected), "{query} {keys}: {output}");
                assert!(near(log_sum_exp, query * query), "{query} {keys}: {log_sum_exp}");
            }
        }
    });
}

/// Returns output and log-sum-exp of the merged parts.
fn merged<'a>(parts: &'a [[Vec<f32>; 3]]) -> [f32; 2] {
    let part = |part: &'a [Vec<f32>; 3]| PartialAttention {
        output: Heads::bhld(&part[0], [1; 4]).unwrap(),
        log_sum_exp: &part[1],
    };
    let parts: Vec<PartialAttention<'a, f32>> = parts.iter().map(part).collect();
    let (mut output, mut log_sum_exp) = ([f32::NAN], [f32::NAN]);
    merge_attention(&parts, HeadsMut::bhld(&mut output, [1; 4]).unwrap(), Some(&mut log_sum_exp)).unwrap();
    [output[0], log_sum_exp[0]]
}

#[test]
fn one_part_beyond_f32_outweighs_the_others_and_two_cannot_be_compared() {
    each_isa(|_| {
        let (beyond, usual, below) = (
            single_head(1e20, &[1e20, 1e19], &[3.0, 4.0], 1.0),
            single_head(1e10, &[1e10], &[5.0], 1.0),
            single_head(-1e20, &[1e20, 2e20], &[7.0, 8.0], 1.0),
        );
        assert_eq!(beyond[1], [f32::INFINITY]);
        assert_eq!(merged(&[usual.clone(), beyond.clone()]), [3.0, f32::INFINITY]);
        assert_eq!(merged(&[below.clone(), usual]), [5.0, 1e20]);
        assert_eq!(merged(std::slice::from_ref(&below)), [7.0, f32::MIN]);
        assert!(merged(&[beyond.clone(), beyond]).iter().all(|x| x.is_nan()));
    });
}

#[test]
fn large_softcap_does_not_change_small_scores() {
    // cap · tanh(score / cap) is the score to 1e-8.
    let case = |softcap| Case { softcap, ..Case::of(&[(40, 60)], [2, 1], [16, 8]) };
    each_isa(|isa| {
        for cap in [1e5, 1e8] {
            let data = Data::new(&case(None)).rounded::<f32>();
            for case in [case(Some(cap)), Case { lengths: vec![(1, 300)], ..case(Some(cap)) }] {
                let data = if case.lengths[0].0 == 1 { Data::new(&case).rounded::<f32>() } else { data.clone() };
                let kind = DtypeKind::F32(Precision::Highest);
                compare(&|| format!("{isa} {cap}"), &kind.run(&case, &data), &case.truth(&data), kind.tolerance(isa));
            }
        }
    });
}

#[test]
fn nan_in_a_mask_or_key_propagates_next_to_large_scores() {
    each_isa(|isa| {
        let case = Case { mask: Some(MaskForm::full(true)), ..Case::of(&[(20, 40)], [1, 1], [16, 16]) };
        let mut masked = Data::new(&case);
        let place = masked.bias.iter().position(|bias| bias.is_finite()).unwrap();
        masked.bias[place] = f32::NAN;
        // One of forty keys is NaN, and one score is so large that it needs a running maximum.
        let plain = Case { mask: None, ..case.clone() };
        let mut poisoned = Data::new(&plain);
        poisoned.query.iter_mut().for_each(|x| *x *= 32.0);
        poisoned.key[3 * 16] = f64::NAN;
        DtypeKind::differing_on(isa).for_each(|kind| {
            let output = kind.run(&case, &masked).output;
            assert!(output[place / 40 * 16].is_nan(), "{isa} {kind:?}");
            let output = kind.run(&plain, &poisoned).output;
            assert!(output.iter().all(|x| x.is_nan()), "{isa} {kind:?}");
        });
    });
}
