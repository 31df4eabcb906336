//! Results so large that they are written past the cache, which requires the aligning allocator: see
//! `gemm/epilogue.rs`.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{Random, Tolerance, compare, to_f64};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Row lengths such that all rows, or one in sixteen rows, start at a cache line. The last segment of both is short.
const COLS: [usize; 2] = [2064, 2065];

#[test]
fn streamed_results_match_the_reference() {
    let (m, k) = (1040, 17);
    for n in COLS {
        assert!(m * n >= 1 << 21);
        let mut random = Random::new(n as u64);
        let (a, b, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
        let other = random.numbers(m * n);
        let (a64, b64, bias64, other64) = (to_f64(&a), to_f64(&b), to_f64(&bias), to_f64(&other));
        let dropout = Some(Dropout { rate: 0.3, random: Philox::new(7, 8) });
        let activation = Activation::Gelu;
        let precision = Precision::Highest;
        let run64 = |then: Epilogue<'_, f64>| {
            let (a, b) = (MatRef::new(&a64, m, k).unwrap(), MatRef::new(&b64, k, n).unwrap());
            FusedGemm { a, b: b.into(), bias: Some(&bias64), epilogue: then, precision }.compute().unwrap()
        };
        let mut slope64 = vec![];
        let activated64 = run64(Epilogue::Activate { activation, dropout, slope: Some(&mut slope64) });
        let added64 = run64(Epilogue::AddResidual { dropout, residual: &other64 });
        each_isa(|isa| {
            let run = |then: Epilogue<'_, f32>| {
                let (a, b) = (MatRef::new(&a, m, k).unwrap(), MatRef::new(&b, k, n).unwrap());
                FusedGemm { a, b: b.into(), bias: Some(&bias), epilogue: then, precision }.compute().unwrap()
            };
            let same = |what: &str, found: &[f32], expected: &[f64]| {
                assert_eq!(found.as_ptr().addr() % 64, 0, "{what}: not aligned for writing past the cache");
                let tolerance = Tolerance { relative: 6e-6, absolute: 1e-6 };
                compare(&format!("{isa} {m}x{n}x{k} {what}"), found, expected, tolerance).unwrap();
            };
            let mut slope = Vec::new();
            same("activated", &run(Epilogue::Activate { activation, dropout, slope: Some(&mut slope) }), &activated64);
            same("slope", &slope, &slope64);
            same("added", &run(Epilogue::AddResidual { dropout, residual: &other }), &added64);
        });
    }
}
