//! RMS norm and layer norm without a bias, on every instruction set of this machine, compared with the reference
//! implementation in double precision. The reference implementation is compared with central differences.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{GuardedBuffer, Random, Tolerance, central_difference, compare, to_f64};

/// Sizes around the vectors of every instruction set, and around the pieces of work.
const SIZES: [(usize, usize); 12] =
    [(0, 3), (1, 1), (3, 5), (2, 8), (65, 1), (3, 15), (2, 16), (64, 17), (65, 33), (200, 130), (130, 256), (3, 4096)];

/// Returns the results of both passes of RMS norm: y, 1/rms, dx, dγ.
fn rms<T: Real>(
    x: &[T],
    gamma: &[T],
    epsilon: f64,
    dy: &[T],
    residual: Option<&[T]>,
    d_gamma: &mut [T],
) -> [Vec<T>; 3] {
    let RmsNormOutput { y, inverse_rms } = rms_norm_forward(x, gamma, T::round_from(epsilon)).unwrap();
    let dx = RmsNormBackward { x, gamma, inverse_rms: &inverse_rms, dy, residual }.compute(d_gamma).unwrap();
    [y, inverse_rms, dx]
}

/// Returns the maximum error, relative to the expected value or, if given, to a size.
fn worst(found: &[f32], expected: &[f64], sizes: Option<&[f64]>) -> f64 {
    assert_eq!(found.len(), expected.len());
    let error = |i: usize| (f64::from(found[i]) - expected[i]).abs() / sizes.unwrap_or(expected)[i].abs().max(1e-300);
    let worst = (0..found.len()).map(|i| if f64::from(found[i]) == expected[i] { 0.0 } else { error(i) });
    worst.fold(0.0, |worst, e| if e > worst || e.is_nan() { e } else { worst })
}

#[test]
fn rms_norm_matches_the_reference_for_every_size() {
    let mut largest = [0.0f64; 4];
    each_isa(|isa| {
        for (rows, width) in SIZES {
            // Typical values; values whose squares underflow or overflow f32; and a row of zeros among them.
            for (scale, epsilon) in [(1.0f32, 1e-6), (1e-3, 1e-5), (1e-24, 1e-37), (1e19, 1e-6), (3e38, 1e-6)] {
                let mut random = Random::new((rows * width) as u64);
                let mut x: Vec<f32> = random.numbers(rows * width).iter().map(|x| scale * x).collect();
                let (dy, gamma) = (random.numbers(rows * width), random.numbers(width));
                if rows > 2 {
                    x[width..2 * width].fill(0.0);
                }
                let residual: Vec<f32> = random.numbers(rows * width).iter().map(|r| r / scale).collect();
                for residual in [None, Some(&residual[..])] {
                    let (x64, dy64, gamma64) = (to_f64(&x), to_f64(&dy), to_f64(&gamma));
                    let residual64 = residual.map(to_f64);
                    let mut d_gamma = GuardedBuffer::new(width);
                    d_gamma.as_mut_slice().fill(0.5);
                    let mut d_gamma64 = vec![0.5; width];
                    let found = rms(&x, &gamma, epsilon, &dy, residual, d_gamma.as_mut_slice());
                    let epsilon = f64::from(epsilon as f32);
                    let expected = rms(&x64, &gamma64, epsilon, &dy64, residual64.as_deref(), &mut d_gamma64);
                    // dx is a difference: its terms are as large as the residual and the largest dy·γ/rms.
                    let g: Vec<f64> = (0..x.len()).map(|i| (dy64[i] * gamma64[i % width]).abs()).collect();
                    let largest_g: Vec<f64> =
                        g.chunks_exact(width).map(|g| g.iter().copied().fold(0.0, f64::max)).collect();
                    let residual_size = |i: usize| residual64.as_ref().map_or(0.0, |residual| residual[i].abs());
                    let size = |i: usize| largest_g[i / width] * expected[1][i / width] + residual_size(i);
                    let sizes: Vec<f64> = (0..x.len()).map(size).collect();
                    let errors = [
                        worst(&found[0], &expected[0], None),
                        worst(&found[1], &expected[1], None),
                        worst(&found[2], &expected[2], Some(&sizes)),
                        worst(&d_gamma.into_checked(), &d_gamma64, Some(&vec![(rows as f64).sqrt().max(0.5); width])),
                    ];
                    let what = format!("{isa} {rows}x{width} {scale:e}: {errors:?}");
                    for (largest, error) in largest.iter_mut().zip(errors) {
                        *largest = largest.max(error);
                    }
                    assert!(
                        errors.iter().zip([5e-7, 5e-7, 1e-6, 1e-6]).all(|(error, limit)| *error <= limit),
                        "{what}"
                    );
                }
            }
        }
        println!("{isa}, largest: {largest:?}");
    });
}

#[test]
fn rms_norm_matches_hand_computed_values() {
    // The mean square is 12.5 in the first row, and 8 in the second, with an epsilon of 1.
    let ones = [1.0, 1.0];
    let mut d_gamma = [0.0; 2];
    let [y, inverse_rms, dx] =
        rms(&[3.0, 4.0, 0.0, 4.0], &[1.0, 2.0], 1.0, &[1.0, 0.0, 0.0, 1.0], Some(&[0.0, 7.0, 0.0, 0.0]), &mut d_gamma);
    let (a, b) = (1.0 / 13.5f64.sqrt(), 1.0 / 3.0);
    let near = |what: &str, found: &[f64], expected: &[f64]| {
        compare(what, found, expected, Tolerance { relative: 0.0, absolute: 1e-15 }).unwrap();
    };
    near("y", &y, &[3.0 * a, 8.0 * a, 0.0, 8.0 * b]);
    near("1/rms", &inverse_rms, &[a, b]);
    let mean = [3.0 * a / 2.0, 8.0 * b / 2.0];
    near("dx", &dx, &[a - a * 3.0 * a * mean[0], 7.0 - a * 4.0 * a * mean[0], 0.0, 2.0 * b - b * 4.0 * b * mean[1]]);
    near("dγ", &d_gamma, &[3.0 * a, 4.0 * b]);

    let mut random = Random::new(5);
    let mut numbers = |n: usize| -> Vec<f64> { (0..n).map(|_| random.number()).collect() };
    let (x, gamma, dy, residual) = (numbers(21), numbers(7), numbers(21), numbers(21));
    let loss = |x: &[f64], gamma: &[f64]| -> f64 {
        let passed: f64 = x.iter().zip(&residual).map(|(x, r)| x * r).sum();
        passed + rms_norm_forward(x, gamma, 1e-2).unwrap().y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
    };
    let mut d_gamma = vec![0.0; 7];
    let [_, _, dx] = rms(&x, &gamma, 1e-2, &dy, Some(&residual), &mut d_gamma);
    let tolerance = Tolerance { relative: 0.0, absolute: 1e-8 };
    compare("dx", &dx, &central_difference(&x, 1e-5, |x| loss(x, &gamma)), tolerance).unwrap();
    compare("dγ", &d_gamma, &central_difference(&gamma, 1e-5, |gamma| loss(&x, gamma)), tolerance).unwrap();

    // Mismatched sizes.
    let error = |x: &[f64], gamma: &[f64], epsilon: f64| rms_norm_forward(x, gamma, epsilon).unwrap_err().to_string();
    assert_eq!(error(&x, &[], 1.0), "RMS norm: gamma: expected at least 1 value, got 0");
    assert_eq!(error(&x, &ones, 1.0), "RMS norm: x: expected 20 values, got 21");
    assert_eq!(error(&x, &gamma, 0.0), "RMS norm: epsilon: expected more than 0, got 0");
    assert_eq!(error(&x, &gamma, f64::NAN), "RMS norm: epsilon: expected more than 0, got NaN");
    let right = RmsNormBackward { x: &x, gamma: &gamma, inverse_rms: &[1.0; 3], dy: &dy, residual: None };
    let error = |b: RmsNormBackward<'_, f64>, len: usize| b.compute(&mut vec![0.0; len]).unwrap_err().to_string();
    assert_eq!(error(right, 6), "RMS norm: d_gamma: expected 7 values, got 6");
    assert_eq!(error(RmsNormBackward { dy: &ones, ..right }, 7), "RMS norm: dy: expected 21 values, got 2");
    assert_eq!(error(RmsNormBackward { inverse_rms: &ones, ..right }, 7), "RMS norm: x: expected 14 values, got 21");
    let beside = RmsNormBackward { residual: Some(&ones), ..right };
    assert_eq!(error(beside, 7), "RMS norm: residual: expected 21 values, got 2");
}

#[test]
fn non_finite_values_stay_in_their_row() {
    each_isa(|isa| {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (mut x, gamma, mut d_gamma) = (vec![1.0f32; 3 * 19], vec![1.0f32; 19], vec![0.0f32; 19]);
            x[19 + 18] = odd;
            let [y, inverse_rms, dx] = rms(&x, &gamma, 1e-6, &vec![1.0; 3 * 19], None, &mut d_gamma);
            // Infinity outweighs all other values of its row.
            assert!(if odd.is_nan() { inverse_rms[1].is_nan() } else { inverse_rms[1] == 0.0 }, "{isa} {odd}");
            assert!(y[19 + 18].is_nan() && dx[19 + 18].is_nan() && d_gamma[18].is_nan(), "{isa} {odd}");
            let others = |all: &[f32]| all[..19].iter().chain(&all[2 * 19..]).all(|x| x.is_finite());
            assert!(others(&y) && others(&dx) && y[0] > 0.9, "{isa} {odd}");
        }
    });
}

#[test]
fn layer_norm_without_bias_equals_zero_bias() {
    fn check<T: Real>(what: &str) {
        for (rows, width) in SIZES {
            let mut random = Random::new((rows * width) as u64);
            let mut numbers = |n: usize| -> Vec<T> { (0..n).map(|_| T::round_from(random.number())).collect() };
            let (x, dy, residual) = (numbers(rows * width), numbers(rows * width), numbers(rows * width));
            let (gamma, zeros) = (numbers(width), vec![T::ZERO; width]);
            let with = layer_norm_forward(&x, [&gamma, &zeros], T::round_from(1e-3)).unwrap();
            let without = layer_norm_forward_without_bias(&x, &gamma, T::round_from(1e-3)).unwrap();
            let all = |n: &LayerNormOutput<T>| [n.y.clone(), n.mean.clone(), n.inverse_deviation.clone()];
            assert_eq!(all(&with), all(&without), "{what} {rows}x{width}");
            let LayerNormOutput { mean, inverse_deviation, .. } = &with;
            for residual in [None, Some(&residual[..])] {
                let backward = LayerNormBackward { x: &x, gamma: &gamma, mean, inverse_deviation, dy: &dy, residual };
                let (mut d_gamma, mut d_beta, mut other) = (zeros.clone(), zeros.clone(), zeros.clone());
                let dx = backward.compute([&mut d_gamma, &mut d_beta]).unwrap();
                assert_eq!(dx, backward.compute_without_bias(&mut other).unwrap(), "{what} {rows}x{width}");
                assert_eq!(d_gamma, other, "{what} {rows}x{width}");
            }
        }
    }
    each_isa(|isa| check::<f32>(&isa.to_string()));
    check::<f64>("plain");
    let error = layer_norm_forward_without_bias(&[1.0; 5], &[1.0; 2], 1.0).unwrap_err().to_string();
    assert_eq!(error, "layer norm: x: expected 4 values, got 5");
    let error = layer_norm_forward_without_bias(&[1.0; 4], &[1.0; 2], 0.0).unwrap_err().to_string();
    assert_eq!(error, "layer norm: epsilon: expected more than 0, got 0");
    let (x, two) = ([1.0; 4], [1.0; 2]);
    let backward =
        LayerNormBackward { x: &x, gamma: &two, mean: &two, inverse_deviation: &two, dy: &x, residual: None };
    let error = backward.compute_without_bias(&mut [0.0; 3]).unwrap_err().to_string();
    assert_eq!(error, "layer norm: d_gamma: expected 2 values, got 3");
}

#[test]
fn results_do_not_depend_on_threads() {
    each_isa(|isa| {
        let mut random = Random::new(8);
        let (rows, width) = (400, 200);
        let (x, dy, gamma) = (random.numbers(rows * width), random.numbers(rows * width), random.numbers(width));
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut d_gamma = vec![0.0f32; width];
            let results = pool.install(|| rms(&x, &gamma, 1e-6, &dy, Some(&x), &mut d_gamma));
            results.into_iter().flatten().chain(d_gamma).map(f32::to_bits).collect::<Vec<_>>()
        };
        let one = run(1);
        assert_eq!(one, run(2), "{isa}");
        assert_eq!(one, run(3), "{isa}");
    });
}
