//! Every operation on every instruction set of this machine, compared with the reference implementation in double
//! precision.
//!
//! Sizes straddle every vector, tile and block edge. Outputs start as NaN between guard bytes. The tests of attention
//! are in `attention/`.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{GuardedBuffer, Random, Tolerance, compare, to_f64};

fn check<T: Copy + Into<f64>>(what: &str, found: &[T], expected: &[f64], tolerance: f64) {
    compare(what, found, expected, Tolerance { relative: tolerance, absolute: 1e-9 }).unwrap();
}

/// The levels of precision, with the maximum relative error of a product.
const PRECISIONS: [(Precision, f64); 3] =
    [(Precision::Highest, 2e-6), (Precision::High, 3e-5), (Precision::Medium, 1.2e-2)];

const ACTIVATIONS: [Activation; 4] = [Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];

#[test]
fn gemm_matches_the_reference_for_every_shape_and_layout() {
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
    let cases = sizes.map(|(m, n, k)| {
        let mut random = Random::new((m * 7919 + n * 31 + k) as u64);
        let (a, b, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
        let old = random.numbers(m * n);
        let (a64, b64, bias64) = (to_f64(&a), to_f64(&b), to_f64(&bias));
        let expected = [OutputInit::Zero, OutputInit::Keep, OutputInit::Bias(&bias64[..])].map(|start| {
            let mut expected = to_f64(&old);
            let (a, b) = (MatRef::new(&a64, m, k).unwrap(), MatRef::new(&b64, k, n).unwrap());
            gemm(a, b, start, MatMut::new(&mut expected, m, n).unwrap(), Precision::Highest).unwrap();
            expected
        });
        ((m, n, k), [a, b, bias, old], expected)
    });
    each_isa(|isa| {
        for ((m, n, k), [a, b, bias, old], expected) in &cases {
            let (m, n, k) = (*m, *n, *k);
            for layout in 0..4 {
                let (at, bt) = (layout & 1 == 1, layout & 2 == 2);
                let lay = |t: bool, x: &[f32], rows: usize, cols: usize| -> Vec<f32> {
                    if !t {
                        return x.to_vec();
                    }
                    (0..cols * rows).map(|i| x[i % rows * cols + i / rows]).collect()
                };
                let (stored_a, stored_b) = (lay(at, a, m, k), lay(bt, b, k, n));
                let a_ref =
                    if at { MatRef::new(&stored_a, k, m).unwrap().t() } else { MatRef::new(&stored_a, m, k).unwrap() };
                let b_ref =
                    if bt { MatRef::new(&stored_b, n, k).unwrap().t() } else { MatRef::new(&stored_b, k, n).unwrap() };
                for (start, expected) in expected.iter().enumerate() {
                    for (precision, tolerance) in PRECISIONS {
                        let mut out = GuardedBuffer::new(m * n);
                        if start == 1 {
                            out.as_mut_slice().copy_from_slice(old);
                        }
                        let start32 = [OutputInit::Zero, OutputInit::Keep, OutputInit::Bias(&bias[..])][start];
                        let c = MatMut::new(out.as_mut_slice(), m, n).unwrap();
                        gemm(a_ref, b_ref, start32, c, precision).unwrap();
                        let what = format!("{isa} {precision:?} {m}x{n}x{k} layout {layout} start {start}");
                        check(&what, &out.into_checked(), expected, tolerance);
                    }
                }
            }
        }
    });
}

#[test]
fn rotary_positions_match_the_reference() {
    each_isa(|isa| {
        for (dim, heads) in [(2, 3), (8, 1), (14, 2), (16, 2), (30, 1), (32, 3), (34, 2), (64, 2), (66, 1)] {
            // Rows of all heads with gaps, in sequences with different start positions.
            let (offsets, starts) = ([0, 5, 5, 6, 140], [0, 9, 300, 7]);
            let (stride, tokens) = (heads * dim + 3, offsets[4]);
            let mut random = Random::new((dim * 31 + heads) as u64);
            let x = random.numbers(tokens * stride);
            let table = RotaryTable::new(301, dim, 10000.0).unwrap();
            for starts in [None, Some(&starts[..])] {
                let mut expected = to_f64(&x);
                let view = HeadsMut::packed(&mut expected, &offsets, heads, dim, stride).unwrap();
                table.rotate(view, starts, RotationDirection::Forward).unwrap();
                let what = format!("{isa} rotary {heads}x{dim}");
                let mut found = GuardedBuffer::new(x.len());
                found.as_mut_slice().copy_from_slice(&x);
                let view = HeadsMut::packed(found.as_mut_slice(), &offsets, heads, dim, stride).unwrap();
                table.rotate(view, starts, RotationDirection::Forward).unwrap();
                check(&what, found.as_mut_slice(), &expected, 3e-7);
                let view = HeadsMut::packed(found.as_mut_slice(), &offsets, heads, dim, stride).unwrap();
                table.rotate(view, starts, RotationDirection::Inverse).unwrap();
                check(&format!("{what} and back"), &found.into_checked(), &to_f64(&x), 6e-7);
                // By the definition, at a different position.
                let (token, head, pair) = (100, heads - 1, dim / 2 - 1);
                let position = (token - 6 + starts.map_or(0, |starts| starts[3])) as f64;
                let angle = position * 10000f64.powf(-(pair as f64) / (dim / 2) as f64);
                let at = token * stride + head * dim + pair;
                let (a, b) = (f64::from(x[at]), f64::from(x[at + dim / 2]));
                let pair = [expected[at], expected[at + dim / 2]];
                let by_hand = [a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()];
                check("by hand", &pair, &by_hand, 1e-12);
                // Values outside of the heads are unchanged.
                assert!(
                    (0..tokens).all(
                        |t| (heads * dim..stride).all(|c| expected[t * stride + c] == f64::from(x[t * stride + c]))
                    )
                );
            }
        }
    });
    let mut x = [0.0f32; 12];
    let mut rotate = |table: &RotaryTable, dim: usize, starts: Option<&[usize]>| {
        let x = HeadsMut::packed(&mut x, &[0, 2, 2], 1, dim, 6).unwrap();
        table.rotate(x, starts, RotationDirection::Forward).map_err(|error| error.to_string())
    };
    let table = RotaryTable::new(2, 4, 10000.0).unwrap();
    assert_eq!(table.positions(), 2);
    rotate(&table, 4, Some(&[0, 9])).unwrap();
    assert_eq!(rotate(&table, 6, None).unwrap_err(), "rotary: x: expected rows of 4, got 6");
    let error = rotate(&table, 4, Some(&[1, 0])).unwrap_err();
    assert_eq!(error, "rotary: positions: expected below 2, got 2 from 1 on");
    assert!(rotate(&table, 4, Some(&[0])).unwrap_err().starts_with("rotary: starts"));
    assert!(rotate(&table, 4, Some(&[usize::MAX, 0])).is_err());
    for (positions, dim, base) in [(1, 3, 1e4), (1, 0, 1e4), (1, 2, 0.0), (1, 2, f64::NAN), (usize::MAX, 2, 1e4)] {
        assert!(RotaryTable::new(positions, dim, base).is_err());
    }
}

#[test]
fn gemm_supports_matrices_with_gaps() {
    each_isa(|isa| {
        let (m, n, k) = (35, 37, 70);
        let mut random = Random::new(9);
        let (a, b) = (random.numbers(4 * m * k), random.numbers(6 * k * n));
        let (a64, b64) = (to_f64(&a), to_f64(&b));
        let mut expected = vec![0.0; m * n];
        let strided = |rows, cols, step| (rows, cols, step * cols, step);
        let ((ar, ac, arow, acol), (br, bc, brow, bcol)) = (strided(m, k, 3), strided(k, n, 5));
        let c64 = MatMut::new(&mut expected, m, n).unwrap();
        let a64 = MatRef::strided(&a64, ar, ac, arow, acol).unwrap();
        gemm(a64, MatRef::strided(&b64, br, bc, brow, bcol).unwrap(), OutputInit::Zero, c64, Precision::Highest)
            .unwrap();
        for (precision, tolerance) in PRECISIONS {
            // The result has gaps too, which must not change.
            let mut out = vec![7.0f32; m * (n + 3)];
            let c = MatMut::strided(&mut out, m, n, n + 3).unwrap();
            let a = MatRef::strided(&a, ar, ac, arow, acol).unwrap();
            gemm(a, MatRef::strided(&b, br, bc, brow, bcol).unwrap(), OutputInit::Zero, c, precision).unwrap();
            for (row, expected) in out.chunks_exact(n + 3).zip(expected.chunks_exact(n)) {
                check(&format!("{isa} {precision:?}"), &row[..n], expected, 3.0 * tolerance);
                assert_eq!(row[n..], [7.0; 3]);
            }
        }
    });
}

#[test]
fn each_precision_keeps_its_documented_bits() {
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
            gemm(a, b, OutputInit::Zero, MatMut::new(&mut c, m, n).unwrap(), precision).unwrap();
            for (at, &c) in c.iter().enumerate() {
                let truth = f64::from(left[at / n]) * f64::from(right[at % n]);
                let error = ((f64::from(c) - truth) / truth).abs();
                assert!(error <= 0.5f64.powi(bits), "{isa} {precision:?}: {c} for {truth}, off by {error:e}");
            }
        }
    });
}

#[test]
fn non_finite_values_affect_only_their_row_and_column() {
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
                gemm(a, b, OutputInit::Zero, MatMut::new(&mut c, m, n).unwrap(), precision).unwrap();
                for (at, c) in c.iter().enumerate() {
                    let touched = at / n == 3 || at % n == 11;
                    let what = format!("{isa} {precision:?} {bad} at {at}: {c}");
                    assert!(c.abs() < 1e6 || touched, "{what}");
                    // −MAX · 0.5 is finite in f32, but −MAX rounds to infinity in bf16.
                    assert!(!touched || !c.is_finite() || c.abs() > 1e30, "{what}");
                }
            }
        }
    });
}

#[test]
fn gemm_rows_do_not_depend_on_other_rows() {
    each_isa(|isa| {
        let (m, n, k) = (61, 70, 300);
        let mut random = Random::new(1);
        let (a, b) = (random.numbers(m * k), random.numbers(k * n));
        let mut all = vec![f32::NAN; m * n];
        let bm = MatRef::new(&b, k, n).unwrap();
        for (precision, _) in PRECISIONS {
            let a_all = MatRef::new(&a, m, k).unwrap();
            gemm(a_all, bm, OutputInit::Zero, MatMut::new(&mut all, m, n).unwrap(), precision).unwrap();
            for i in [0, 5, 60] {
                let mut one = vec![f32::NAN; n];
                let row = MatRef::new(&a[i * k..(i + 1) * k], 1, k).unwrap();
                gemm(row, bm, OutputInit::Zero, MatMut::new(&mut one, 1, n).unwrap(), precision).unwrap();
                assert_eq!(one, all[i * n..(i + 1) * n], "{isa} {precision:?}, row {i}");
            }
        }
    });
}

/// Values that bf16 or f16 represent exactly are packed in half the bytes, and products of one row compute no other
/// row. Neither changes a bit.
#[test]
fn packed_products_are_bit_identical() {
    let f16s: fn(f32) -> f32 = |x| chumoku_kernels::f16::from_f32(x / 1000.0).to_f32();
    let forms: [fn(f32) -> f32; 3] = [|x| x, |x| chumoku_kernels::bf16::from_f32(x).to_f32(), f16s];
    each_isa(|isa| {
        for (m, n, k) in [(1, 1, 1), (1, 33, 5), (1, 300, 600), (2, 40, 257), (30, 70, 40), (1, 4, 0)] {
            for (which, form) in forms.iter().enumerate() {
                let mut random = Random::new((m + n + k + which) as u64);
                let (a, b) = (random.numbers(m * k), random.numbers(k * n));
                let b: Vec<f32> = b.into_iter().map(form).collect();
                let turned: Vec<f32> = (0..n * k).map(|i| b[i % k.max(1) * n + i / k.max(1)]).collect();
                let b = MatRef::new(&b, k, n).unwrap();
                let turned = MatRef::new(&turned, n, k).unwrap();
                for precision in [Precision::Highest, Precision::Medium] {
                    let with = |a: &[f32], rows: usize, b: Rhs<f32>| {
                        let a = MatRef::new(a, rows, k).unwrap();
                        FusedGemm { a, b, bias: None, epilogue: Epilogue::Identity, precision }.compute().unwrap()
                    };
                    let whole = with(&a, m, b.into());
                    for b in [b, turned.t()] {
                        let packed = PackedMatrix::new(b, precision);
                        let packed = Rhs::new(b, packed.as_ref()).unwrap();
                        assert_eq!(with(&a, m, packed), whole, "{isa} {m}x{n}x{k} {which}");
                        for i in 0..m {
                            let row = with(&a[i * k..(i + 1) * k], 1, packed);
                            assert_eq!(row, whole[i * n..(i + 1) * n], "{isa} {m}x{n}x{k} {which}: row {i}");
                        }
                    }
                }
            }
        }
    });
}

/// The epilogue of a product.
#[derive(Clone, Copy, Debug)]
enum EpilogueKind {
    Identity,
    AddResidual,
    Activate(Activation),
    Multiply,
}

impl EpilogueKind {
    fn epilogue<'a, T: Real>(
        self,
        dropout: Option<Dropout>,
        other: &'a [T],
        slope: Option<&'a mut Vec<T>>,
    ) -> Epilogue<'a, T> {
        match self {
            EpilogueKind::Identity => Epilogue::Identity,
            EpilogueKind::AddResidual => Epilogue::AddResidual { dropout, residual: other },
            EpilogueKind::Activate(activation) => Epilogue::Activate { activation, dropout, slope },
            EpilogueKind::Multiply => Epilogue::Multiply { factors: other },
        }
    }
}

#[test]
fn fused_epilogues_match_the_reference() {
    let drop = Dropout { rate: 0.3, random: Philox::new(7, 8) };
    let mut all = Vec::new();
    for biased in [true, false] {
        all.extend([(biased, None, EpilogueKind::Identity), (biased, None, EpilogueKind::Multiply)]);
        for dropout in [None, Some(drop)] {
            all.push((biased, dropout, EpilogueKind::AddResidual));
            all.extend(ACTIVATIONS.map(|activation| (biased, dropout, EpilogueKind::Activate(activation))));
        }
    }
    let sizes = [(1, 1, 1), (0, 5, 20), (7, 20, 0), (33, 40, 70), (130, 300, 40), (200, 129, 17)];
    let cases = sizes.map(|(m, n, k)| {
        let mut random = Random::new((m + n + k) as u64);
        let (a, b, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
        let other: Vec<f32> = random.numbers(m * n).iter().map(|x| 3.0 * x).collect();
        let [a64, b64, bias64, other64] = [&a, &b, &bias, &other].map(|x| to_f64(x));
        let (a64, b64) = (MatRef::new(&a64, m, k).unwrap(), MatRef::new(&b64, k, n).unwrap());
        let plain = |&(biased, dropout, after): &(bool, Option<Dropout>, EpilogueKind)| {
            let mut slope = vec![];
            let (bias, then) = (biased.then_some(&bias64[..]), after.epilogue(dropout, &other64, Some(&mut slope)));
            let y = FusedGemm { a: a64, b: b64.into(), bias, epilogue: then, precision: Precision::Highest }
                .compute()
                .unwrap();
            [y, slope]
        };
        let expected: Vec<[Vec<f64>; 2]> = all.iter().map(plain).collect();
        ((m, n, k), [a, b, bias, other], expected)
    });
    each_isa(|isa| {
        for ((m, n, k), [a, b, bias, other], expected) in &cases {
            let (a, b) = (MatRef::new(a, *m, *k).unwrap(), MatRef::new(b, *k, *n).unwrap());
            for (precision, tolerance) in PRECISIONS {
                let packed = PackedMatrix::new(b, precision);
                let tolerance = Tolerance { relative: 3.0 * tolerance, absolute: 1e-6 };
                let same = |what: &str, found: &[f32], expected: &[f64]| {
                    compare(&format!("{isa} {precision:?} {m}x{n}x{k} {what}"), found, expected, tolerance).unwrap();
                };
                for b in [b.into(), Rhs::new(b, packed.as_ref()).unwrap()] {
                    for (&(biased, dropout, after), [y64, slope64]) in all.iter().zip(expected) {
                        let with = |then: Epilogue<'_, f32>| {
                            let bias = biased.then_some(&bias[..]);
                            FusedGemm { a, b, bias, epilogue: then, precision }.compute().unwrap()
                        };
                        let mut slope = vec![f32::NAN; 3];
                        let y = with(after.epilogue(dropout, other, Some(&mut slope)));
                        same(&format!("{after:?}"), &y, y64);
                        let EpilogueKind::Activate(activation) = after else { continue };
                        if activation != Activation::Relu {
                            same("slope", &slope, slope64);
                        } else {
                            // Rounding decides the side of the step for a value near 0; the sign of y shows it.
                            let factor = if dropout.is_some() { 65536.0 / (65536.0 - 19661.0) } else { 1.0 };
                            let steps: Vec<f32> = y.iter().map(|&y| if y > 0.0 { factor } else { 0.0 }).collect();
                            assert_eq!(slope, steps);
                        }
                        assert_eq!(with(after.epilogue(dropout, other, None)), y);
                    }
                }
            }
        }
    });
}

#[test]
fn split_k_products_match_the_reference() {
    each_isa(|isa| {
        // Deep enough that the depth is split, with a remainder.
        for (m, n, k) in [(40, 33, 2500), (16, 600, 1100), (530, 20, 3000)] {
            let mut random = Random::new(k as u64);
            let (dy, x, old) = (random.numbers(k * m), random.numbers(k * n), random.numbers(m * n));
            let (dy64, x64) = (to_f64(&dy), to_f64(&x));
            let mut expected = to_f64(&old);
            let (a, b) = (MatRef::new(&dy64, k, m).unwrap().t(), MatRef::new(&x64, k, n).unwrap());
            gemm(a, b, OutputInit::Keep, MatMut::new(&mut expected, m, n).unwrap(), Precision::Highest).unwrap();
            for (precision, tolerance) in PRECISIONS {
                let run = |threads: usize| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let mut c = GuardedBuffer::new(m * n);
                    c.as_mut_slice().copy_from_slice(&old);
                    let (a, b) = (MatRef::new(&dy, k, m).unwrap().t(), MatRef::new(&x, k, n).unwrap());
                    let out = MatMut::new(c.as_mut_slice(), m, n).unwrap();
                    pool.install(|| gemm(a, b, OutputInit::Keep, out, precision)).unwrap();
                    c.into_checked()
                };
                let c = run(1);
                check(&format!("{isa} {precision:?} {m}x{n}x{k}"), &c, &expected, 3.0 * tolerance);
                assert_eq!(c, run(2), "{isa} {precision:?} {m}x{n}x{k}");
            }
        }
    });
}

#[test]
fn norms_activations_softmax_sums_and_adamw_match_the_reference() {
    each_isa(|isa| {
        for (rows, width) in [(1, 1), (3, 5), (2, 16), (65, 33), (200, 130), (130, 256)] {
            let mut random = Random::new((rows * width) as u64);
            let n = rows * width;
            let (x, dy) = (random.numbers(n), random.numbers(n));
            let (gamma, beta) = (random.numbers(width), random.numbers(width));
            let (x64, dy64) = (to_f64(&x), to_f64(&dy));
            let (gamma64, beta64) = (to_f64(&gamma), to_f64(&beta));
            let at = format!("{isa} {rows}x{width}");

            // Layer norm. Width 1 has no variance: its gradient consists of rounding errors, so epsilon is large.
            let n32 = layer_norm_forward(&x, [&gamma, &beta], 1e-3).unwrap();
            let n64 = layer_norm_forward(&x64, [&gamma64, &beta64], 1e-3).unwrap();
            check(&format!("{at} norm"), &n32.y, &n64.y, 5e-6);
            for residual in [None, Some(&x)] {
                let wide_residual = residual.map(|residual| to_f64(residual));
                let (mut dg, mut db) = (vec![0.5f32; width], vec![0.5f32; width]);
                let (mut dg64, mut db64) = (vec![0.5f64; width], vec![0.5f64; width]);
                let backward = LayerNormBackward {
                    x: &x,
                    gamma: &gamma,
                    mean: &n32.mean,
                    inverse_deviation: &n32.inverse_deviation,
                    dy: &dy,
                    residual: residual.map(Vec::as_slice),
                };
                let dx = backward.compute([&mut dg, &mut db]).unwrap();
                let backward64 = LayerNormBackward {
                    x: &x64,
                    gamma: &gamma64,
                    mean: &n64.mean,
                    inverse_deviation: &n64.inverse_deviation,
                    dy: &dy64,
                    residual: wide_residual.as_deref(),
                };
                let dx64 = backward64.compute([&mut dg64, &mut db64]).unwrap();
                let tolerance = Tolerance { relative: 1e-5, absolute: 1e-5 };
                compare(&format!("{at} norm dx"), &dx, &dx64, tolerance).unwrap();
                check(&format!("{at} norm dgamma"), &dg, &dg64, 5e-6);
                check(&format!("{at} norm dbeta"), &db, &db64, 5e-6);
            }

            for kind in ACTIVATIONS {
                let x: Vec<f32> = x.iter().map(|x| x * 7.0).collect();
                let x64 = to_f64(&x);
                let (mut y, mut dx) = (GuardedBuffer::new(n), GuardedBuffer::new(n));
                activation_forward(kind, &x, y.as_mut_slice()).unwrap();
                activation_backward(kind, &x, &dy, dx.as_mut_slice()).unwrap();
                let (mut y64, mut dx64) = (vec![f64::NAN; n], vec![f64::NAN; n]);
                activation_forward(kind, &x64, &mut y64).unwrap();
                activation_backward(kind, &x64, &dy64, &mut dx64).unwrap();
                compare(
                    &format!("{at} {kind:?}"),
                    &y.into_checked(),
                    &y64,
                    Tolerance { relative: 1e-6, absolute: 1e-6 },
                )
                .unwrap();
                compare(
                    &format!("{at} d{kind:?}"),
                    &dx.into_checked(),
                    &dx64,
                    Tolerance { relative: 1e-6, absolute: 1e-6 },
                )
                .unwrap();
            }

            let mut x = x;
            if n > 3 {
                x[0] = f32::NEG_INFINITY;
            }
            let mut y = GuardedBuffer::new(n);
            softmax_forward(&x, width, y.as_mut_slice()).unwrap();
            let y = y.into_checked();
            let mut y64 = vec![f64::NAN; n];
            softmax_forward(&to_f64(&x), width, &mut y64).unwrap();
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
            let (mut p64, mut m64, mut v64) = (to_f64(&p), to_f64(&m), to_f64(&v));
            adamw_step(&options, &mut p, &dy, [&mut m, &mut v]).unwrap();
            adamw_step(&options, &mut p64, &dy64, [&mut m64, &mut v64]).unwrap();
            check(&format!("{at} adamw"), &p, &p64, 1e-6);
            check(&format!("{at} adamw m"), &m, &m64, 1e-6);
            check(&format!("{at} adamw v"), &v, &v64, 1e-6);

            let vocabulary = 11;
            let ids: Vec<u32> = (0..rows).map(|_| random.below(vocabulary) as u32).collect();
            let table = random.numbers(vocabulary * width);
            let y = embedding_forward(&ids, &table, width, 1.5).unwrap();
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
fn cross_entropy_matches_the_reference_for_every_size() {
    each_isa(|isa| {
        for (rows, classes) in [(1, 1), (3, 2), (5, 17), (40, 33), (9, 3000), (700, 20)] {
            let mut random = Random::new((rows + classes) as u64);
            let logits: Vec<f32> = random.numbers(rows * classes).iter().map(|x| 8.0 * x).collect();
            let labels: Vec<u32> = (0..rows).map(|_| random.below(classes) as u32).collect();
            let weights: Vec<f32> = random.numbers(classes).iter().map(|x| x.abs() + 0.1).collect();
            // Every third row is excluded from the loss.
            let of_row = |(row, x): (usize, f32)| if row % 3 == 2 { 0.0 } else { x.abs() + 0.1 };
            let row_weights: Vec<f32> = random.numbers(rows).into_iter().enumerate().map(of_row).collect();
            let (logits64, weights64, row_weights64) = (to_f64(&logits), to_f64(&weights), to_f64(&row_weights));
            for (smoothing, weighted) in [(0.0, false), (0.1, false), (0.1, true), (1.0, true)] {
                let is_row_weighted = smoothing > 0.0;
                let options = CrossEntropy {
                    label_smoothing: smoothing as f32,
                    class_weights: weighted.then_some(&weights[..]),
                    row_weights: is_row_weighted.then_some(&row_weights[..]),
                };
                let options64 = CrossEntropy {
                    label_smoothing: smoothing,
                    class_weights: weighted.then_some(&weights64[..]),
                    row_weights: is_row_weighted.then_some(&row_weights64[..]),
                };
                let mut d = GuardedBuffer::new(logits.len());
                let mut d64 = vec![f64::NAN; logits.len()];
                let loss = cross_entropy(&logits, &labels, &options, d.as_mut_slice()).unwrap();
                let loss64 = cross_entropy(&logits64, &labels, &options64, &mut d64).unwrap();
                let at = format!("{isa} {rows}x{classes} {smoothing} {weighted}");
                // Weights of 1 change no bit.
                let ones = vec![1.0; rows];
                let [plain, of_ones] = [None, Some(&ones[..])].map(|row_weights| {
                    let mut d = vec![f32::NAN; logits.len()];
                    let loss = cross_entropy(&logits, &labels, &CrossEntropy { row_weights, ..options }, &mut d);
                    (loss.unwrap().to_bits(), d.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                });
                assert!(plain == of_ones, "{at}");
                compare(&at, &[loss], &[loss64], Tolerance { relative: 1e-5, absolute: 1e-6 }).unwrap();
                compare(&at, &d.into_checked(), &d64, Tolerance { relative: 1e-5, absolute: 1e-7 }).unwrap();
            }
        }
        // A NaN logit propagates.
        let options = CrossEntropy { label_smoothing: 0.1f32, class_weights: None, row_weights: None };
        let mut d = [0.0f32; 4];
        assert!(cross_entropy(&[0.0, f32::NAN, 1.0, 2.0], &[0, 1], &options, &mut d).unwrap().is_nan(), "{isa}");
    });
}

/// The loss is the weighted mean of the row losses, and the gradient equals central differences.
#[test]
fn cross_entropy_weights_rows() {
    let logits = [0.3, -1.2, 0.8, 2.0, 0.1, -0.4, 0.0, 0.5, 1.5];
    let (labels, class_weights, row_weights) = ([2, 0, 1], [0.5, 1.0, 2.0], [3.0, 0.0, 0.25]);
    let loss = |logits: &[f64], row_weights: &[f64]| {
        let class_weights = Some(&class_weights[..]);
        let options = CrossEntropy { label_smoothing: 0.1, class_weights, row_weights: Some(row_weights) };
        let mut d = vec![f64::NAN; logits.len()];
        (cross_entropy(logits, &labels, &options, &mut d).unwrap(), d)
    };
    let (found, gradient) = loss(&logits, &row_weights);
    // The loss of a single row is its loss divided by the weight of its class.
    let [first, second, third] =
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|alone| loss(&logits, &alone).0);
    let expected = (3.0 * 2.0 * first + 0.25 * 1.0 * third) / (3.0 * 2.0 + 0.25 * 1.0);
    assert!((found - expected).abs() < 1e-12 && second > 0.0, "{found} {expected}");
    assert_eq!(gradient[3..6], [0.0; 3]);
    for (at, &d) in gradient.iter().enumerate() {
        let moved = |by: f64| {
            let mut logits = logits;
            logits[at] += by;
            loss(&logits, &row_weights).0
        };
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((d - difference).abs() < 1e-9, "{at}: {d} {difference}");
    }
    // A row of weight 2 equals the row twice.
    let twice = [&logits[..3], &logits[..]].concat();
    let options = CrossEntropy { label_smoothing: 0.1, class_weights: Some(&class_weights[..]), row_weights: None };
    let mut d = vec![f64::NAN; twice.len()];
    let repeated = cross_entropy(&twice, &[2, 2, 0, 1], &options, &mut d).unwrap();
    assert!((loss(&logits, &[2.0, 1.0, 1.0]).0 - repeated).abs() < 1e-12);
    for wrong in [&[1.0, 1.0][..], &[1.0, -1.0, 1.0], &[0.0, 0.0, 0.0], &[1.0, f64::INFINITY, 1.0]] {
        let options = CrossEntropy { row_weights: Some(wrong), ..options };
        let problem = cross_entropy(&logits, &labels, &options, &mut d[..9]).unwrap_err().to_string();
        assert!(problem.contains("row_weights"), "{problem}");
    }
}

/// Weights that leave no row, or whose sum overflows, would divide by 0 or infinity.
#[test]
fn losses_without_weight_are_errors() {
    fn message<T: Real>(class_weights: [f64; 2], row_weights: [f64; 2]) -> Option<String> {
        let [class_weights, row_weights] = [class_weights, row_weights].map(|weights| weights.map(T::round_from));
        let (options, mut d) = (
            CrossEntropy {
                label_smoothing: T::ZERO,
                class_weights: Some(&class_weights[..]),
                row_weights: Some(&row_weights[..]),
            },
            [T::ZERO; 4],
        );
        let found = cross_entropy(&[1.0, 2.0, 3.0, -1.0].map(T::round_from), &[0, 1], &options, &mut d);
        if let Ok(loss) = found {
            assert!(loss.is_finite() && d.iter().all(|d| d.is_finite()), "{loss}");
        }
        found.err().map(|error| error.to_string())
    }
    let cases = [
        // Each row has weight 0, its own or its class's.
        ([0.0, 1.0], [1.0, 0.0], Some("row_weights and class_weights: expected weights whose sum")),
        ([0.0, 0.0], [1.0, 1.0], Some("got 0;")),
        ([-1.0, 1.0], [1.0, 1.0], Some("class_weights: expected finite numbers of at least 0, got -1 in class 0")),
        ([1.0, f64::NAN], [1.0, 1.0], Some("class_weights: expected finite numbers of at least 0, got NaN in class 1")),
        ([0.0, 1.0], [1.0, 1.0], None),
        ([1.0, 1.0], [0.0, 1.0], None),
    ];
    for (class_weights, row_weights, expected) in cases {
        for found in [message::<f32>(class_weights, row_weights), message::<f64>(class_weights, row_weights)] {
            match expected {
                Some(expected) => assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{found:?}"),
                None => assert_eq!(found, None),
            }
        }
    }
    // The sum of the first overflows in f32, and the products of the second are 0.
    for (class_weights, row_weights) in [([1e30, 1e30], [1e30, 1e30]), ([1e-30, 1e-30], [1e-30, 1e-30])] {
        assert!(message::<f32>(class_weights, row_weights).is_some_and(|found| found.contains("finite and above 0")));
        assert_eq!(message::<f64>(class_weights, row_weights), None);
    }
    let labels = [vec![0], vec![]];
    for wrong in [[0.0, 0.0], [f32::MAX, f32::MAX], [1.0, -1.0], [1.0, f32::NAN]] {
        let found = binary_cross_entropy(&[1.0, 2.0, 3.0, 4.0], &labels, Some(&wrong), &mut [0.0; 4]);
        assert!(found.unwrap_err().to_string().contains("binary cross entropy: row_weights"), "{wrong:?}");
    }
}

/// Compares with the reference, and pins the bits of a serial evaluation in f64 that rounds each gradient once.
#[test]
fn binary_cross_entropy_matches_the_reference_for_every_size() {
    each_isa(|isa| {
        for (rows, classes) in [(1, 1), (3, 2), (5, 17), (9, 3000), (1500, 20)] {
            let mut random = Random::new((rows + classes) as u64);
            let logits: Vec<f32> = random.numbers(rows * classes).iter().map(|x| 8.0 * x).collect();
            let labels: Vec<Vec<u32>> =
                (0..rows).map(|row| (0..classes as u32).filter(|_| random.below(3 + row % 4) == 0).collect()).collect();
            // Every third row is excluded from the loss.
            let of_row = |(row, x): (usize, f32)| if row % 3 == 2 { 0.0 } else { x.abs() + 0.1 };
            let weights: Vec<f32> = random.numbers(rows).into_iter().enumerate().map(of_row).collect();
            let (logits64, weights64) = (to_f64(&logits), to_f64(&weights));
            let run = |row_weights: Option<&[f32]>| {
                let mut d = GuardedBuffer::new(logits.len());
                let loss = binary_cross_entropy(&logits, &labels, row_weights, d.as_mut_slice()).unwrap();
                (loss, d.into_checked())
            };
            let at = format!("{isa} {rows}x{classes}");
            assert_eq!(run(None), run(Some(&vec![1.0; rows])), "{at}: weights of 1 change no bit");
            let (loss, d) = run(Some(&weights));
            let mut d64 = vec![f64::NAN; logits.len()];
            let loss64 = binary_cross_entropy(&logits64, &labels, Some(&weights64), &mut d64).unwrap();
            compare(&at, &[loss], &[loss64], Tolerance { relative: 1e-6, absolute: 1e-9 }).unwrap();
            compare(&at, &d, &d64, Tolerance { relative: 1e-6, absolute: 1e-7 / rows as f64 }).unwrap();
            let (total, mut serial) = (weights64.iter().sum::<f64>(), 0.0);
            for (row, labels) in labels.iter().enumerate() {
                let (z, divisor) = (&logits64[row * classes..][..classes], total / weights64[row]);
                serial += weights64[row] * z.iter().map(|z| z.max(0.0) + (-z.abs()).exp().ln_1p()).sum::<f64>();
                for (class, z) in z.iter().enumerate() {
                    let mut expected = (1.0 / ((1.0 + (-z).exp()) * divisor)) as f32;
                    if labels.contains(&(class as u32)) {
                        serial -= weights64[row] * z;
                        expected -= (1.0 / divisor) as f32;
                    }
                    assert_eq!(d[row * classes + class].to_bits(), expected.to_bits(), "{at}, row {row}, {class}");
                }
            }
            assert_eq!(loss.to_bits(), ((serial / total) as f32).to_bits(), "{at}");
        }
        let mut d = [0.0f32; 2];
        let loss = binary_cross_entropy(&[f32::NAN, 1.0], &[vec![1]], None, &mut d).unwrap();
        assert!(loss.is_nan() && d[0].is_nan() && d[1].is_finite(), "{isa}: a NaN logit propagates");
    });
    let mut d = [0.0f64; 4];
    let mut problem = |labels: &[Vec<u32>], weights: Option<&[f64]>| {
        binary_cross_entropy(&[0.0; 4], labels, weights, &mut d).unwrap_err().to_string()
    };
    assert!(problem(&[], None).contains("logits") && problem(&[vec![2], vec![]], None).contains("below 2, got 2"));
    for wrong in [&[1.0][..], &[1.0, -1.0], &[0.0, 0.0], &[1.0, f64::NAN]] {
        assert!(problem(&[vec![0], vec![]], Some(wrong)).contains("row_weights"), "{wrong:?}");
    }
}

/// The gradient equals central differences, and saturated logits give finite results.
#[test]
fn binary_cross_entropy_has_the_gradient_of_its_formula() {
    let (labels, weights) = ([vec![0, 2], vec![]], [0.7, 1.9]);
    let loss = |logits: &[f64]| {
        let mut d = vec![f64::NAN; logits.len()];
        (binary_cross_entropy(logits, &labels, Some(&weights), &mut d).unwrap(), d)
    };
    let logits = [0.3, -1.2, 0.8, 2.0, 0.1, -0.4];
    let ln_p = |z: f64| -(-z).exp().ln_1p();
    let by_hand = 0.7 * (ln_p(0.3) + ln_p(1.2) + ln_p(0.8)) + 1.9 * (ln_p(-2.0) + ln_p(-0.1) + ln_p(0.4));
    let (found, gradient) = loss(&logits);
    assert!((found + by_hand / 2.6).abs() < 1e-12, "{found} {by_hand}");
    for (at, &d) in gradient.iter().enumerate() {
        let moved = |by: f64| {
            let mut logits = logits;
            logits[at] += by;
            loss(&logits).0
        };
        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((d - difference).abs() < 1e-9, "{at}: {d} {difference}");
    }
    let (found, gradient) = loss(&[1e4, -1e4, 1e4, -1e4, -1e4, -1e4]);
    assert!(found == 0.0 && gradient.iter().all(|&d| d == 0.0), "{found} {gradient:?}");
}

/// Returns every 9973rd f32, or every 1999th in exhaustive tests.
fn sample() -> Vec<f32> {
    let step = testkit::cases("chumoku-kernels", 9973, 1999);
    (0..u32::MAX / step).map(|i| f32::from_bits(i * step)).filter(|x| !x.is_nan()).collect()
}

/// An elementwise function, its inputs, and the expected results in double precision.
struct FunctionCase<'a> {
    name: &'a str,
    function: fn(&[f32], &mut [f32]) -> Result<()>,
    x: &'a [f32],
    truth: Vec<f64>,
    /// Maximum error in units in the last place of f32.
    limit: f64,
}

impl<'a> FunctionCase<'a> {
    fn new(
        name: &'a str,
        function: fn(&[f32], &mut [f32]) -> Result<()>,
        x: &'a [f32],
        truth: fn(f64) -> f64,
        limit: f64,
    ) -> Self {
        FunctionCase { name, function, x, truth: x.iter().map(|&x| truth(f64::from(x))).collect(), limit }
    }

    fn check(&self, isa: Isa) {
        let found = run(self.function, self.x);
        let mut worst = (0.0, 0.0);
        for ((&x, y), truth) in self.x.iter().zip(found).zip(&self.truth) {
            let ulp = 2f64.powi((truth.abs().log2().floor() as i32).max(-126) - 23);
            let error = (f64::from(y) - truth).abs() / ulp;
            if error > worst.0 || error.is_nan() {
                worst = (error, x);
            }
        }
        println!("{isa} {}: {:.2} ulp at {}", self.name, worst.0, worst.1);
        assert!(worst.0 <= self.limit, "{isa} {}: {} ulp at {}", self.name, worst.0, worst.1);
    }
}

fn run(function: fn(&[f32], &mut [f32]) -> Result<()>, x: &[f32]) -> Vec<f32> {
    let mut y = GuardedBuffer::new(x.len());
    function(x, y.as_mut_slice()).unwrap();
    y.into_checked()
}

#[test]
fn elementary_functions_are_within_two_ulp() {
    let x = sample();
    let inside: Vec<f32> = x.iter().copied().filter(|x| (-87.33..=88.3).contains(x)).collect();
    let above: Vec<f32> = x.iter().copied().filter(|x| *x >= -87.3).collect();
    let all = [
        FunctionCase::new("exp", exp_each, &inside, f64::exp, 2.0),
        FunctionCase::new("erf", erf_each, &x, reference::erf_f64, 2.0),
        FunctionCase::new("tanh", tanh_each, &x, f64::tanh, 2.0),
        FunctionCase::new("sigmoid", sigmoid_each, &above, |x| 1.0 / (1.0 + (-x).exp()), 3.0),
    ];
    each_isa(|isa| {
        all.iter().for_each(|tried| tried.check(isa));
        let odd = [f32::NEG_INFINITY, -1e30, -88.0, 0.0, f32::INFINITY, f32::NAN];
        let y = run(exp_each, &odd);
        assert_eq!(y[..4], [0.0, 0.0, 0.0, 1.0]);
        assert!(y[4] > 2e38 && y[5].is_nan());
        let y = run(sigmoid_each, &odd);
        assert!(y[..3].iter().all(|y| (0.0..=2e-38).contains(y)) && y[3..5] == [0.5, 1.0] && y[5].is_nan(), "{y:?}");
        for f in [erf_each, tanh_each] {
            let y = run(f, &odd);
            assert_eq!(y[..5], [-1.0, -1.0, -1.0, 0.0, 1.0]);
            assert!(y[5].is_nan());
        }
    });
}

#[test]
fn gelu_is_accurate_in_its_tail() {
    let x: Vec<f32> = sample().into_iter().filter(|x| (-13.1..=1e6).contains(x)).collect();
    let phi: Vec<f64> =
        x.iter().map(|&x| 0.5 * reference::erfc_f64(-f64::from(x) / std::f64::consts::SQRT_2)).collect();
    each_isa(|isa| {
        let mut y = vec![f32::NAN; x.len()];
        activation_forward(Activation::Gelu, &x, &mut y).unwrap();
        let mut slope = vec![f32::NAN; x.len()];
        activation_backward(Activation::Gelu, &x, &vec![1.0; x.len()], &mut slope).unwrap();
        let (mut worst, mut worst_slope) = ((0.0, 0.0), (0.0, 0.0));
        for (((&x, &y), &slope), &phi) in x.iter().zip(&y).zip(&slope).zip(&phi) {
            let wide = f64::from(x);
            let truth = wide * phi;
            // Subnormal results have lost their last digits in any case.
            if truth.abs() > 1e-37 {
                worst = if (f64::from(y) / truth - 1.0).abs() > worst.0 {
                    ((f64::from(y) / truth - 1.0).abs(), x)
                } else {
                    worst
                };
            }
            let (a, b) = (phi, wide * (-0.5 * wide * wide).exp() / std::f64::consts::TAU.sqrt());
            let error = (f64::from(slope) - (a + b)).abs() / (a.abs() + b.abs()).max(1e-37);
            worst_slope = if error > worst_slope.0 { (error, x) } else { worst_slope };
        }
        println!("{isa} gelu: {worst:?}, slope {worst_slope:?}");
        assert!(worst.0 < 6e-7, "{isa} {worst:?}");
        assert!(worst_slope.0 < 1e-6, "{isa} {worst_slope:?}");
    });
}

#[test]
fn results_do_not_depend_on_threads() {
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
                    OutputInit::Zero,
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
