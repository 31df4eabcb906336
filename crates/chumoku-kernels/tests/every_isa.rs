//! Every operation on every instruction set this machine has, against the plain version in double precision.
//!
//! Sizes straddle every vector, tile and block edge; outputs start as NaN between guard bands. Attention has tests of its
//! own, in `attention/`.

mod common;

use chumoku_kernels::*;
use common::each_isa;
use testkit::{Guarded, Random, Tolerance, compare, wide};

fn check<T: Copy + Into<f64>>(what: &str, found: &[T], expected: &[f64], tolerance: f64) {
    compare(what, found, expected, Tolerance { relative: tolerance, absolute: 1e-9 }).unwrap();
}

/// The levels with the largest relative error of a product that each may have.
const PRECISIONS: [(Precision, f64); 3] =
    [(Precision::Highest, 2e-6), (Precision::High, 3e-5), (Precision::Medium, 1.2e-2)];

#[test]
fn gemm_of_every_shape_and_layout() {
    let sizes = [
        (0, 3, 2),
        (3, 0, 2),
        (3, 2, 0),
        (1, 1, 1),
        (2, 3, 5),
        (12, 32, 7),
        (13, 33, 256),
        (7, 31, 257),
        (97, 65, 40),
        (25, 1100, 300),
        (200, 17, 530),
    ];
    each_isa(|isa| {
        for (m, n, k) in sizes {
            let mut random = Random::new((m * 7919 + n * 31 + k) as u64);
            let (a, b, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
            let old = random.numbers(m * n);
            for layout in 0..4 {
                let (at, bt) = (layout & 1 == 1, layout & 2 == 2);
                let lay = |t: bool, x: &[f32], rows: usize, cols: usize| -> Vec<f32> {
                    if !t {
                        return x.to_vec();
                    }
                    (0..cols * rows).map(|i| x[i % rows * cols + i / rows]).collect()
                };
                let (stored_a, stored_b) = (lay(at, &a, m, k), lay(bt, &b, k, n));
                let a_ref =
                    if at { MatRef::new(&stored_a, k, m).unwrap().t() } else { MatRef::new(&stored_a, m, k).unwrap() };
                let b_ref =
                    if bt { MatRef::new(&stored_b, n, k).unwrap().t() } else { MatRef::new(&stored_b, k, n).unwrap() };
                for start in 0..3 {
                    let (a64, b64, bias64) = (wide(&a), wide(&b), wide(&bias));
                    let mut expected = wide(&old);
                    let start64 = [Start::Zero, Start::Keep, Start::Bias(&bias64[..])][start];
                    let (am, bm) = (MatRef::new(&a64, m, k).unwrap(), MatRef::new(&b64, k, n).unwrap());
                    let c64 = MatMut::new(&mut expected, m, n).unwrap();
                    gemm(am, bm, start64, c64, Precision::Highest).unwrap();
                    for (precision, tolerance) in PRECISIONS {
                        let mut out = Guarded::new(m * n);
                        if start == 1 {
                            out.inner().copy_from_slice(&old);
                        }
                        let start32 = [Start::Zero, Start::Keep, Start::Bias(&bias[..])][start];
                        let c = MatMut::new(out.inner(), m, n).unwrap();
                        gemm(a_ref, b_ref, start32, c, precision).unwrap();
                        let what = format!("{isa} {precision:?} {m}x{n}x{k} layout {layout} start {start}");
                        check(&what, &out.take(), &expected, tolerance);
                    }
                }
            }
        }
    });
}

#[test]
fn gemm_of_matrices_with_gaps() {
    each_isa(|isa| {
        let (m, n, k) = (35, 37, 70);
        let mut random = Random::new(9);
        let (a, b) = (random.numbers(4 * m * k), random.numbers(6 * k * n));
        let (a64, b64) = (wide(&a), wide(&b));
        let mut expected = vec![0.0; m * n];
        let strided = |rows, cols, step| (rows, cols, step * cols, step);
        let ((ar, ac, arow, acol), (br, bc, brow, bcol)) = (strided(m, k, 3), strided(k, n, 5));
        let c64 = MatMut::new(&mut expected, m, n).unwrap();
        let a64 = MatRef::strided(&a64, ar, ac, arow, acol).unwrap();
        gemm(a64, MatRef::strided(&b64, br, bc, brow, bcol).unwrap(), Start::Zero, c64, Precision::Highest).unwrap();
        for (precision, tolerance) in PRECISIONS {
            // The result has gaps too, and they are left alone.
            let mut out = vec![7.0f32; m * (n + 3)];
            let c = MatMut::strided(&mut out, m, n, n + 3).unwrap();
            let a = MatRef::strided(&a, ar, ac, arow, acol).unwrap();
            gemm(a, MatRef::strided(&b, br, bc, brow, bcol).unwrap(), Start::Zero, c, precision).unwrap();
            for (row, expected) in out.chunks_exact(n + 3).zip(expected.chunks_exact(n)) {
                check(&format!("{isa} {precision:?}"), &row[..n], expected, 3.0 * tolerance);
                assert_eq!(row[n..], [7.0; 3]);
            }
        }
    });
}

#[test]
fn each_level_keeps_the_digits_it_promises() {
    each_isa(|isa| {
        // One product in each sum, so that no term can hide behind others.
        let (m, n, k) = (64, 64, 48);
        let mut random = Random::new(17);
        let (left, right) = (random.numbers(m), random.numbers(n));
        let a: Vec<f32> = (0..m * k).map(|at| if at % k == 20 { left[at / k] } else { 0.0 }).collect();
        let b: Vec<f32> = (0..k * n).map(|at| if at / n == 20 { right[at % n] } else { 0.0 }).collect();
        for (precision, bits) in [(Precision::Highest, 22), (Precision::High, 15), (Precision::Medium, 7)] {
            let mut c = vec![f32::NAN; m * n];
            let (a, b) = (MatRef::new(&a, m, k).unwrap(), MatRef::new(&b, k, n).unwrap());
            gemm(a, b, Start::Zero, MatMut::new(&mut c, m, n).unwrap(), precision).unwrap();
            for (at, &c) in c.iter().enumerate() {
                let truth = f64::from(left[at / n]) * f64::from(right[at % n]);
                let error = ((f64::from(c) - truth) / truth).abs();
                assert!(error <= 0.5f64.powi(bits), "{isa} {precision:?}: {c} for {truth}, off by {error:e}");
            }
        }
    });
}

#[test]
fn what_is_not_finite_shows_where_it_belongs() {
    each_isa(|isa| {
        let (m, n, k) = (40, 48, 64);
        let mut random = Random::new(3);
        let (clean_a, clean_b) = (random.numbers(m * k), random.numbers(k * n));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7fff_ffff), -f32::MAX] {
            let (mut a, mut b) = (clean_a.clone(), clean_b.clone());
            a[3 * k + 5] = bad;
            b[7 * n + 11] = bad;
            for (precision, _) in PRECISIONS {
                let mut c = vec![0.0f32; m * n];
                let (a, b) = (MatRef::new(&a, m, k).unwrap(), MatRef::new(&b, k, n).unwrap());
                gemm(a, b, Start::Zero, MatMut::new(&mut c, m, n).unwrap(), precision).unwrap();
                for (at, c) in c.iter().enumerate() {
                    let touched = at / n == 3 || at % n == 11;
                    let what = format!("{isa} {precision:?} {bad} at {at}: {c}");
                    assert!(c.abs() < 1e6 || touched, "{what}");
                    // −MAX · 0.5 is finite where f32 is computed, not where it rounds to infinity as bf16.
                    assert!(!touched || !c.is_finite() || c.abs() > 1e30, "{what}");
                }
            }
        }
    });
}

#[test]
fn gemm_rows_do_not_depend_on_their_neighbours() {
    each_isa(|isa| {
        let (m, n, k) = (61, 70, 300);
        let mut random = Random::new(1);
        let (a, b) = (random.numbers(m * k), random.numbers(k * n));
        let mut all = vec![f32::NAN; m * n];
        let bm = MatRef::new(&b, k, n).unwrap();
        for (precision, _) in PRECISIONS {
            let a_all = MatRef::new(&a, m, k).unwrap();
            gemm(a_all, bm, Start::Zero, MatMut::new(&mut all, m, n).unwrap(), precision).unwrap();
            for i in [0, 5, 60] {
                let mut one = vec![f32::NAN; n];
                let row = MatRef::new(&a[i * k..(i + 1) * k], 1, k).unwrap();
                gemm(row, bm, Start::Zero, MatMut::new(&mut one, 1, n).unwrap(), precision).unwrap();
                assert_eq!(one, all[i * n..(i + 1) * n], "{isa} {precision:?}, row {i}");
            }
        }
    });
}

#[test]
fn normalisation_activation_softmax_sums_and_optimiser() {
    each_isa(|isa| {
        for (rows, width) in [(1, 1), (3, 5), (2, 16), (65, 33), (200, 130), (130, 256)] {
            let mut random = Random::new((rows * width) as u64);
            let n = rows * width;
            let (x, dy) = (random.numbers(n), random.numbers(n));
            let (gamma, beta) = (random.numbers(width), random.numbers(width));
            let (x64, dy64) = (wide(&x), wide(&dy));
            let (gamma64, beta64) = (wide(&gamma), wide(&beta));
            let at = format!("{isa} {rows}x{width}");

            // Layer norm. Width 1 has no variance: its gradient is all rounding, so epsilon is kept large.
            let (mut y, mut mean, mut inverse) = (Guarded::new(n), Guarded::new(rows), Guarded::new(rows));
            layer_norm_forward(&x, [&gamma, &beta], 1e-3, y.inner(), [mean.inner(), inverse.inner()]).unwrap();
            let (mean, inverse) = (mean.take(), inverse.take());
            let mut y64 = vec![f64::NAN; n];
            let (mut mean64, mut inverse64) = (vec![f64::NAN; rows], vec![f64::NAN; rows]);
            layer_norm_forward(&x64, [&gamma64, &beta64], 1e-3, &mut y64, [&mut mean64, &mut inverse64]).unwrap();
            check(&format!("{at} norm"), &y.take(), &y64, 5e-6);
            let mut dx = Guarded::new(n);
            let (mut dg, mut db) = (vec![0.5f32; width], vec![0.5f32; width]);
            layer_norm_backward(&x, &gamma, [&mean, &inverse], &dy, dx.inner(), [&mut dg, &mut db]).unwrap();
            let mut dx64 = vec![f64::NAN; n];
            let (mut dg64, mut db64) = (vec![0.5f64; width], vec![0.5f64; width]);
            layer_norm_backward(&x64, &gamma64, [&mean64, &inverse64], &dy64, &mut dx64, [&mut dg64, &mut db64])
                .unwrap();
            compare(&format!("{at} norm dx"), &dx.take(), &dx64, Tolerance { relative: 1e-5, absolute: 1e-5 }).unwrap();
            check(&format!("{at} norm dgamma"), &dg, &dg64, 5e-6);
            check(&format!("{at} norm dbeta"), &db, &db64, 5e-6);

            for kind in [Activation::Relu, Activation::Gelu] {
                let x: Vec<f32> = x.iter().map(|x| x * 7.0).collect();
                let x64 = wide(&x);
                let (mut y, mut dx) = (Guarded::new(n), Guarded::new(n));
                activation_forward(kind, &x, y.inner()).unwrap();
                activation_backward(kind, &x, &dy, dx.inner()).unwrap();
                let (mut y64, mut dx64) = (vec![f64::NAN; n], vec![f64::NAN; n]);
                activation_forward(kind, &x64, &mut y64).unwrap();
                activation_backward(kind, &x64, &dy64, &mut dx64).unwrap();
                compare(&format!("{at} {kind:?}"), &y.take(), &y64, Tolerance { relative: 1e-6, absolute: 1e-6 })
                    .unwrap();
                compare(&format!("{at} d{kind:?}"), &dx.take(), &dx64, Tolerance { relative: 1e-6, absolute: 1e-6 })
                    .unwrap();
            }

            let mut x = x;
            if n > 3 {
                x[0] = f32::NEG_INFINITY;
            }
            let mut y = Guarded::new(n);
            softmax_forward(&x, width, y.inner()).unwrap();
            let y = y.take();
            let mut y64 = vec![f64::NAN; n];
            softmax_forward(&wide(&x), width, &mut y64).unwrap();
            check(&format!("{at} softmax"), &y, &y64, 1e-6);

            let mut sums = vec![1.0f32; width];
            add_column_sums(&dy, &mut sums).unwrap();
            let mut sums64 = vec![1.0f64; width];
            add_column_sums(&dy64, &mut sums64).unwrap();
            check(&format!("{at} column sums"), &sums, &sums64, 2e-6);
            let squares: f64 = dy64.iter().map(|x| x * x).sum();
            assert!((sum_of_squares(&dy) - squares).abs() <= 1e-12 * squares);

            let options = AdamW {
                learning_rate: 0.01,
                beta1: 0.9,
                beta2: 0.98,
                epsilon: 1e-8,
                weight_decay: 0.1,
                step: 3,
                grad_scale: 0.7,
            };
            let (mut p, mut m) = (random.numbers(n), random.numbers(n));
            let mut v: Vec<f32> = random.numbers(n).iter().map(|x| x.abs() + 0.01).collect();
            let (mut p64, mut m64, mut v64) = (wide(&p), wide(&m), wide(&v));
            adamw_step(&options, &mut p, &dy, [&mut m, &mut v]).unwrap();
            adamw_step(&options, &mut p64, &dy64, [&mut m64, &mut v64]).unwrap();
            check(&format!("{at} adamw"), &p, &p64, 1e-6);
            check(&format!("{at} adamw m"), &m, &m64, 1e-6);
            check(&format!("{at} adamw v"), &v, &v64, 1e-6);

            let vocabulary = 11;
            let ids: Vec<u32> = (0..rows).map(|_| random.below(vocabulary) as u32).collect();
            let table = random.numbers(vocabulary * width);
            let mut y = Guarded::new(n);
            embedding_forward(&ids, &table, width, 1.5, y.inner()).unwrap();
            let y = y.take();
            assert!((0..n).all(|i| y[i] == table[ids[i / width] as usize * width + i % width] * 1.5));
            let mut d = vec![0.25f32; vocabulary * width];
            let mut d64 = vec![0.25f64; vocabulary * width];
            embedding_backward(&ids, &dy, width, 1.5, &mut d).unwrap();
            embedding_backward(&ids, &dy64, width, 1.5, &mut d64).unwrap();
            check(&format!("{at} embedding"), &d, &d64, 3e-6);
        }
    });
}

#[test]
fn threads_do_not_change_a_bit() {
    each_isa(|isa| {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut random = Random::new(8);
                let (m, n, k) = (300, 200, 700);
                let (a, b) = (random.numbers(m * k), random.numbers(k * n));
                let mut c = vec![0.0f32; m * n];
                gemm(
                    MatRef::new(&a, m, k).unwrap(),
                    MatRef::new(&b, k, n).unwrap(),
                    Start::Zero,
                    MatMut::new(&mut c, m, n).unwrap(),
                    Precision::Highest,
                )
                .unwrap();
                let mut all = vec![c];
                let mut sums = vec![0.0f32; 200];
                add_column_sums(&all[0], &mut sums).unwrap();
                all.push(sums);
                all.into_iter().flatten().map(f32::to_bits).collect::<Vec<_>>()
            })
        };
        let one = run(1);
        assert_eq!(one, run(2), "{isa}");
        assert_eq!(one, run(3), "{isa}");
    });
}
