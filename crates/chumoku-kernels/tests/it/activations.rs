//! Activations and gated products on every instruction set of this machine, compared with the reference implementation
//! in double precision, value by value. The reference implementation is compared with central differences and PyTorch.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{GoldenFile, GuardedBuffer, Random, Tolerance, central_difference, compare, to_f64};

const ALL: [Activation; 4] = [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];

/// Sizes around the vectors of every instruction set, and around the pieces of work.
const SIZES: [usize; 13] = [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 8191, 8193, 70_000];

/// Returns the maximum errors of f, relative to f, and of f′, relative to its terms.
fn limits(kind: Activation) -> (f64, f64) {
    match kind {
        Activation::Relu => (0.0, 0.0),
        Activation::Gelu => (6e-7, 1e-6),
        _ => (3e-7, 4e-7),
    }
}

/// Returns f and f′ of each value.
fn run<T: Real>(kind: Activation, x: &[T]) -> [Vec<T>; 2] {
    let (mut y, mut slope) = (vec![T::round_from(f64::NAN); x.len()], vec![T::round_from(f64::NAN); x.len()]);
    activation_forward(kind, x, &mut y).unwrap();
    activation_backward(kind, x, &vec![T::ONE; x.len()], &mut slope).unwrap();
    [y, slope]
}

/// Computes [`run`] in f64, and the magnitudes of the terms of f′, which are f(x)/x and x·(f(x)/x)′.
fn truth(kind: Activation, x: &[f32]) -> [Vec<f64>; 3] {
    let x = to_f64(x);
    let [y, slope] = run(kind, &x);
    let first = x.iter().zip(&y).zip(&slope).map(|((&x, &y), &slope)| if x == 0.0 { slope } else { y / x });
    let terms = first.zip(&slope).map(|(first, slope)| first.abs() + (slope - first).abs()).collect();
    [y, slope, terms]
}

/// Returns the maximum error of `found`, relative to `size`, and its position. Subnormal results may be off by their
/// last two bits.
fn worst(x: &[f32], found: &[f32], expected: &[f64], size: &[f64]) -> (f64, f32) {
    assert!(x.len() == found.len() && x.len() == expected.len() && x.len() == size.len());
    let mut worst = (0.0, 0.0);
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        let relative = (error - 2f64.powi(-148)).max(0.0) / size[i].abs().max(1e-300);
        if error.is_nan() || relative > worst.0 {
            worst = (if error.is_nan() { f64::INFINITY } else { relative }, x[i]);
        }
    }
    worst
}

#[test]
fn activations_match_the_reference_for_every_size() {
    each_isa(|isa| {
        for kind in ALL {
            for n in SIZES {
                let mut random = Random::new(n as u64);
                let x: Vec<f32> = random.numbers(n).iter().map(|x| 12.0 * x).collect();
                let (dy, what) = (random.numbers(n), format!("{isa} {kind:?} {n}"));
                let [y64, slope64, terms] = truth(kind, &x);
                let (mut y, mut dx) = (GuardedBuffer::new(n), GuardedBuffer::new(n));
                activation_forward(kind, &x, y.as_mut_slice()).unwrap();
                activation_backward(kind, &x, &dy, dx.as_mut_slice()).unwrap();
                let dx64: Vec<f64> = slope64.iter().zip(&dy).map(|(slope, &dy)| slope * f64::from(dy)).collect();
                let sizes: Vec<f64> = terms.iter().zip(&dy).map(|(size, &dy)| size * f64::from(dy)).collect();
                // GELU is 0 below −13.2.
                let is_in = |x: &f32| kind != Activation::Gelu || *x > -13.1;
                assert!(x.iter().all(is_in));
                let (of_y, of_dx) =
                    (worst(&x, &y.into_checked(), &y64, &y64), worst(&x, &dx.into_checked(), &dx64, &sizes));
                assert!(of_y.0 <= limits(kind).0, "{what}: {of_y:?}");
                assert!(of_dx.0 <= limits(kind).1 + 6e-8, "{what}: {of_dx:?}");
            }
        }
    });
}

#[test]
fn tails_keep_their_accuracy() {
    // Every 1999th f32, and a dense sample of the tails, down to where results underflow.
    let sample = (0..u32::MAX / 1999).map(|i| f32::from_bits(i * 1999)).filter(|x| x.is_finite());
    let tails = (0..400_000).map(|i| -115.0 + i as f32 * 2.9e-4);
    let x: Vec<f32> = sample.chain(tails).collect();
    for kind in [Activation::Silu, Activation::GeluTanh] {
        let [y64, slope64, terms] = truth(kind, &x);
        each_isa(|isa| {
            let [y, slope] = run(kind, &x);
            let (of_y, of_slope) = (worst(&x, &y, &y64, &y64), worst(&x, &slope, &slope64, &terms));
            println!("{isa} {kind:?}: {of_y:?}, slope {of_slope:?}");
            assert!(of_y.0 <= limits(kind).0, "{isa} {kind:?} {of_y:?}");
            assert!(of_slope.0 <= limits(kind).1, "{isa} {kind:?} slope {of_slope:?}");
        });
    }
}

#[test]
fn non_finite_inputs_give_the_limits() {
    fn check<T: Real>(what: &str) {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e38, -1e38, 0.0];
        for kind in ALL {
            // Each in every position of a vector, and beyond its end.
            for place in 0..19 {
                let mut x = vec![T::ONE; 19];
                for odd in odd {
                    x[place] = T::round_from(odd);
                    let [y, slope] = run(kind, &x).map(|all| all[place].to_f64());
                    let what = format!("{what} {kind:?} of {odd} at {place}: {y}, slope {slope}");
                    match odd {
                        0.0 => assert!(y == 0.0 && slope == if kind == Activation::Relu { 0.0 } else { 0.5 }, "{what}"),
                        x if x > 0.0 => assert!(y == T::round_from(x).to_f64() && slope == 1.0, "{what}"),
                        x if x < 0.0 => assert!(y == 0.0 && slope == 0.0, "{what}"),
                        _ => assert!(y.is_nan() && slope.is_nan(), "{what}"),
                    }
                }
            }
        }
    }
    each_isa(|isa| check::<f32>(&isa.to_string()));
    check::<f64>("plain");
}

#[test]
fn reference_activations_match_their_papers() {
    let x: Vec<f64> = (-60..=60).map(|i| f64::from(i) * 0.1 + 0.01).collect();
    let same = |what: &str, found: &[f64], expected: &[f64], tolerance: f64| {
        compare(what, found, expected, Tolerance { relative: 0.0, absolute: tolerance }).unwrap();
    };
    let by = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
    let tanh = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    same("silu", &run(Activation::Silu, &x)[0], &by(|x| x / (1.0 + (-x).exp())), 1e-14);
    same("gelu with tanh", &run(Activation::GeluTanh, &x)[0], &by(tanh), 1e-14);
    same("gelu with tanh is near gelu", &run(Activation::GeluTanh, &x)[0], &run(Activation::Gelu, &x)[0], 5e-4);
    for kind in ALL {
        let sum = |x: &[f64]| run(kind, x)[0].iter().sum::<f64>();
        same(&format!("{kind:?}"), &run(kind, &x)[1], &central_difference(&x, 1e-5, sum), 1e-8);
    }
    let golden = GoldenFile::read("layers/gelu_tanh");
    let [y, slope] = run(Activation::GeluTanh, golden.tensor("in.x"));
    let dx: Vec<f64> = slope.iter().zip(golden.tensor("in.dout")).map(|(slope, dy)| slope * dy).collect();
    same("gelu with tanh", &y, golden.tensor("out.output"), 1e-14);
    same("gelu with tanh, gradient", &dx, golden.tensor("grad.in.x"), 1e-14);
}

/// Returns y, and the gradients of both halves.
fn gated<T: Real>(kind: Activation, x: &[T], width: usize, dy: &[T]) -> [Vec<T>; 2] {
    let (mut y, mut dx) = (vec![T::round_from(f64::NAN); x.len() / 2], vec![T::round_from(f64::NAN); x.len()]);
    gated_forward(kind, x, width, &mut y).unwrap();
    gated_backward(kind, x, width, dy, &mut dx).unwrap();
    [y, dx]
}

#[test]
fn gated_products_match_the_reference_for_every_size() {
    let sizes =
        [(0, 3), (1, 1), (3, 2), (2, 7), (5, 8), (4, 9), (3, 16), (1, 17), (9, 33), (70, 130), (2, 8193), (300, 64)];
    each_isa(|isa| {
        for kind in ALL {
            for (tokens, width) in sizes {
                let mut random = Random::new((tokens * width) as u64);
                let x: Vec<f32> = random.numbers(tokens * 2 * width).iter().map(|x| 8.0 * x).collect();
                let dy = random.numbers(tokens * width);
                let (mut y, mut dx) = (GuardedBuffer::new(dy.len()), GuardedBuffer::new(x.len()));
                gated_forward(kind, &x, width, y.as_mut_slice()).unwrap();
                gated_backward(kind, &x, width, &dy, dx.as_mut_slice()).unwrap();
                let (y, dx) = (y.into_checked(), dx.into_checked());
                let [y64, dx64] = gated(kind, &to_f64(&x), width, &to_f64(&dy));
                // Each value relative to its own magnitude; dg relative to the terms of the slope.
                let g: Vec<f32> = x.chunks_exact(2 * width).flat_map(|row| row[..width].to_vec()).collect();
                let terms = &truth(kind, &g)[2];
                let sizes: Vec<f64> = (0..x.len())
                    .map(|i| {
                        let (row, column) = (i / (2 * width), i % (2 * width));
                        let at = row * width + column % width;
                        let is_du = column >= width;
                        if is_du { dx64[i] } else { f64::from(dy[at]) * f64::from(x[i + width]) * terms[at] }
                    })
                    .collect();
                let what = format!("{isa} {kind:?} {tokens}x{width}");
                let (of_y, of_dx) = (worst(&y, &y, &y64, &y64), worst(&x, &dx, &dx64, &sizes));
                assert!(of_y.0 <= limits(kind).0 + 6e-8, "{what}: {of_y:?}");
                assert!(of_dx.0 <= limits(kind).1 + 1.2e-7, "{what}: {of_dx:?}");
            }
        }
        // Non-finite values affect only their own results.
        let (mut x, dy) = (vec![1.0f32; 2 * 2 * 19], vec![1.0f32; 2 * 19]);
        (x[19 * 2 + 3], x[19 * 3 + 18]) = (f32::NAN, f32::INFINITY);
        let [y, dx] = gated(Activation::Silu, &x, 19, &dy);
        for (i, y) in y.iter().enumerate() {
            assert_eq!((y.is_nan(), y.is_infinite()), (i == 19 + 3, i == 19 + 18), "{isa} y[{i}]");
        }
        for (i, d) in dx.iter().enumerate() {
            assert_eq!((d.is_nan(), d.is_infinite()), (i == 38 + 3 || i == 57 + 3, i == 38 + 18), "{isa} dx[{i}]");
        }
    });
}

#[test]
fn gated_products_match_hand_computed_values() {
    // max(0, g)·u, for two rows.
    let x = [3.0, -2.0, 5.0, 7.0, -1.0, 4.0, 6.0, 0.5];
    let [y, dx] = gated(Activation::Relu, &x, 2, &[1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(y, [15.0, 0.0, 0.0, 2.0]);
    assert_eq!(dx, [5.0, 0.0, 3.0, 0.0, 0.0, 500.0, 0.0, 4000.0]);
    let mut random = Random::new(4);
    let mut numbers = |n: usize| -> Vec<f64> { (0..n).map(|_| 3.0 * random.number()).collect() };
    let (x, dy) = (numbers(24), numbers(12));
    for kind in ALL {
        let loss = |x: &[f64]| gated(kind, x, 4, &dy)[0].iter().zip(&dy).map(|(y, dy)| y * dy).sum();
        let [_, dx] = gated(kind, &x, 4, &dy);
        let tolerance = Tolerance { relative: 0.0, absolute: 1e-8 };
        compare(&format!("{kind:?}"), &dx, &central_difference(&x, 1e-5, loss), tolerance).unwrap();
    }
    // Mismatched sizes.
    let kind = Activation::Silu;
    let forward = |x: &[f64], width: usize, len: usize| {
        gated_forward(kind, x, width, &mut vec![0.0; len]).map_err(|error| error.to_string())
    };
    assert_eq!(forward(&x, 4, 11).unwrap_err(), "gated product: y: expected 12 values, got 11");
    let most = usize::MAX / 2;
    assert_eq!(forward(&x, 0, 12).unwrap_err(), format!("gated product: width: expected from 1 to {most}, got 0"));
    assert!(
        forward(&x, usize::MAX, 12).is_err() && forward(&[], most + 1, 0).is_err() && forward(&[], most, 0).is_ok()
    );
    let error = forward(&x[..12], 4, 6).unwrap_err();
    assert_eq!(error, "gated product: x: expected rows of 8 values, 2 · 4, got 12 values");
    let backward = |dy: &[f64], len: usize| {
        gated_backward(kind, &x, 4, dy, &mut vec![0.0; len]).map_err(|error| error.to_string())
    };
    assert_eq!(backward(&dy[1..], 24).unwrap_err(), "gated product: dy: expected 12 values, got 11");
    assert_eq!(backward(&dy, 12).unwrap_err(), "gated product: dx: expected 24 values, got 12");
}

#[test]
fn results_do_not_depend_on_threads() {
    each_isa(|isa| {
        let mut random = Random::new(8);
        let (tokens, width) = (400, 200);
        let (x, dy) = (random.numbers(tokens * 2 * width), random.numbers(tokens * width));
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let results = pool.install(|| ALL.map(|kind| [run(kind, &x), gated(kind, &x, width, &dy)]));
            results.into_iter().flatten().flatten().flatten().map(f32::to_bits).collect::<Vec<_>>()
        };
        let one = run(1);
        assert_eq!(one, run(2), "{isa}");
        assert_eq!(one, run(3), "{isa}");
    });
}
