//! Results so large that they are written past the cache, which takes an allocator that aligns them: see
//! `gemm/finish.rs`.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{Random, Tolerance, compare, wide};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Rows of which all, and rows of which one in sixteen starts at a cache line; the last segment of both is a short one.
const COLS: [usize; 2] = [2064, 2065];

#[test]
fn results_past_the_cache_are_those_of_the_plain_version() {
    let (m, k) = (1040, 17);
    for n in COLS {
        assert!(m * n >= 1 << 21);
        let mut random = Random::new(n as u64);
        let (a, b, bias) = (random.numbers(m * k), random.numbers(k * n), random.numbers(n));
        let other = random.numbers(m * n);
        let (a64, b64, bias64, other64) = (wide(&a), wide(&b), wide(&bias), wide(&other));
        let dropout = Some(Dropout { rate: 0.3, random: Philox::new(7, 8) });
        let activation = Activation::Gelu;
        let precision = Precision::Highest;
        let run64 = |then: Then<'_, f64>| {
            let (a, b) = (MatRef::new(&a64, m, k).unwrap(), MatRef::new(&b64, k, n).unwrap());
            Product { a, b: b.into(), bias: Some(&bias64), then, precision }.compute().unwrap()
        };
        let mut slope64 = vec![];
        let activated64 = run64(Then::Activate { activation, dropout, slope: Some(&mut slope64) });
        let added64 = run64(Then::Add { dropout, residual: &other64 });
        each_isa(|isa| {
            let run = |then: Then<'_, f32>| {
                let (a, b) = (MatRef::new(&a, m, k).unwrap(), MatRef::new(&b, k, n).unwrap());
                Product { a, b: b.into(), bias: Some(&bias), then, precision }.compute().unwrap()
            };
            let same = |what: &str, found: &[f32], expected: &[f64]| {
                assert_eq!(found.as_ptr().addr() % 64, 0, "{what}: not where it could be written past the cache");
                let tolerance = Tolerance { relative: 6e-6, absolute: 1e-6 };
                compare(&format!("{isa} {m}x{n}x{k} {what}"), found, expected, tolerance).unwrap();
            };
            let mut slope = Vec::new();
            same("activated", &run(Then::Activate { activation, dropout, slope: Some(&mut slope) }), &activated64);
            same("slope", &slope, &slope64);
            same("added", &run(Then::Add { dropout, residual: &other }), &added64);
        });
    }
}
