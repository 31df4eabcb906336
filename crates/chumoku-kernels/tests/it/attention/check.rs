//! Comparison of results with the expected ones.

use crate::attention::case::{Case, Data, Results, run};
use crate::attention::oracle::Truth;
use crate::common::each_isa;
use chumoku_kernels::*;
use rayon::prelude::*;
use testkit::{Random, exhaustive};

/// A dtype and a level of precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DtypeKind {
    F32(Precision),
    Bf16,
    F16,
}

impl DtypeKind {
    pub(crate) const ALL: [DtypeKind; 5] = [
        DtypeKind::F32(Precision::Highest),
        DtypeKind::F32(Precision::High),
        DtypeKind::F32(Precision::Medium),
        DtypeKind::Bf16,
        DtypeKind::F16,
    ];

    /// Returns the kinds that differ on an instruction set. The others are computed in f32 (see
    /// `accuracy::lower_precision_equals_highest_without_bf16_hardware`).
    pub(crate) fn differing_on(isa: Isa) -> impl ParallelIterator<Item = DtypeKind> {
        let differs = move |kind: &DtypeKind| match kind {
            DtypeKind::F32(Precision::High) => isa == Isa::Amx,
            DtypeKind::F32(Precision::Medium) => isa >= Isa::Avx512Bf16,
            _ => true,
        };
        DtypeKind::ALL.into_par_iter().filter(differs)
    }

    pub(crate) fn run(self, case: &Case, data: &Data) -> Results {
        match self {
            DtypeKind::F32(precision) => run::<f32>(case, data, precision),
            DtypeKind::Bf16 => run::<bf16>(case, data, Precision::Highest),
            DtypeKind::F16 => run::<f16>(case, data, Precision::Highest),
        }
    }

    /// Rounds the data to its dtype.
    pub(crate) fn round(self, data: &Data) -> Data {
        match self {
            DtypeKind::F32(_) => data.rounded::<f32>(),
            DtypeKind::Bf16 => data.rounded::<bf16>(),
            DtypeKind::F16 => data.rounded::<f16>(),
        }
    }

    /// Returns the kinds of [`Kind::on`] for case `n`: all of them in exhaustive tests, otherwise those of one dtype.
    pub(crate) fn sampled_on(isa: Isa, n: usize) -> impl ParallelIterator<Item = DtypeKind> {
        let types = dtypes_of_case(n);
        DtypeKind::differing_on(isa).filter(move |kind| types.contains(&kind.dtype_index()))
    }

    /// Returns the index of the dtype: 0 to 2.
    fn dtype_index(self) -> usize {
        match self {
            DtypeKind::F32(_) => 0,
            DtypeKind::Bf16 => 1,
            DtypeKind::F16 => 2,
        }
    }

    /// Returns the tolerance of the results.
    pub(crate) fn tolerance(self, isa: Isa) -> Tolerance {
        let of = |output, gradient| Tolerance { output, gradient, smallest: TINY, score: 2.5e-7 };
        match self {
            DtypeKind::F32(Precision::Medium) if isa >= Isa::Avx512Bf16 => of(8e-3, 1.6e-2),
            DtypeKind::F32(Precision::High) if isa == Isa::Amx => of(2e-5, 4e-5),
            DtypeKind::F32(_) => of(1e-6, 1e-6),
            DtypeKind::Bf16 => of(8e-3, 1e-2),
            // f16 has a step of 2^−24 near 0.
            DtypeKind::F16 => Tolerance { smallest: 6e-8, ..of(5e-4, 1e-3) },
        }
    }
}

/// The tolerances of results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// Relative tolerance of outputs and log-sum-exp.
    pub(crate) output: f64,
    /// Relative tolerance of gradients.
    pub(crate) gradient: f64,
    /// Absolute tolerance of any value.
    pub(crate) smallest: f64,
    /// Relative tolerance of scores: an error in a score is an error in the logarithm of its weight.
    pub(crate) score: f64,
}

/// Returns the dtypes for case `n`: all of them in exhaustive tests, otherwise one, chosen at random.
fn dtypes_of_case(n: usize) -> Vec<usize> {
    if exhaustive("chumoku-kernels") { vec![0, 1, 2] } else { vec![Random::new(n as u64).below(3)] }
}

/// A case with its data and expected results, for some dtypes.
pub(crate) struct ExpectedResults {
    pub(crate) case: Case,
    pub(crate) by_dtype: [Option<(Data, Truth)>; 3],
}

impl ExpectedResults {
    pub(crate) fn new(case: Case, types: &[usize]) -> Self {
        let data = Data::new(&case);
        let of_types = [0, 1, 2].map(|number| {
            let data = match number {
                _ if !types.contains(&number) => return None,
                0 => data.rounded::<f32>(),
                1 => data.rounded::<bf16>(),
                _ => data.rounded::<f16>(),
            };
            let truth = case.truth(&data);
            Some((data, truth))
        });
        ExpectedResults { case, by_dtype: of_types }
    }

    /// Runs the case as `kind` and compares all results. Returns the largest fraction of the tolerance, or 0 for a
    /// dtype that is not tested.
    fn check(&self, isa: Isa, kind: DtypeKind) -> f64 {
        let Some((data, truth)) = &self.by_dtype[kind.dtype_index()] else { return 0.0 };
        let found = kind.run(&self.case, data);
        let what = || format!("{isa} {kind:?} {:?}", self.case);
        compare(&what, &found, truth, kind.tolerance(isa))
    }
}

/// Runs every case on every instruction set. Exhaustive tests cover every kind, others only the kinds of one dtype.
pub(crate) fn check_all(cases: Vec<Case>) {
    let expected: Vec<ExpectedResults> =
        cases.into_par_iter().enumerate().map(|(n, case)| ExpectedResults::new(case, &dtypes_of_case(n))).collect();
    each_isa(|isa| {
        DtypeKind::differing_on(isa).for_each(|kind| {
            let worst = expected.par_iter().map(|expected| expected.check(isa, kind)).reduce(|| 0.0, f64::max);
            println!("{isa} {kind:?}: {} cases, {:.0} % of the tolerance", expected.len(), 100.0 * worst);
        });
    });
}

#[test]
fn a_few_cases_cover_every_dtype() {
    let types: std::collections::BTreeSet<usize> = (0..6).flat_map(dtypes_of_case).collect();
    assert_eq!(types.len(), 3);
}

/// If the terms of a sum are more than this factor larger than the sum, its error is measured relative to the terms.
const CANCELLATION: f64 = 8.0;
/// Weights below 2^−126 need not differ from 0.
const TINY: f64 = 1e-30;

/// Compares all parts by their relative error in the 2-norm, and every value relative to the largest.
///
/// # Panics
/// If a difference exceeds `tolerance`.
pub(crate) fn compare(what: &dyn Fn() -> String, found: &Results, truth: &Truth, tolerance: Tolerance) -> f64 {
    // f32 rounds large scores, and low precision rounds their factors (those of very large scores are exact in bf16).
    let rounding = tolerance.score * truth.largest_score;
    let sensitivity = 1.0 + truth.largest_score.min(32.0) / 16.0;
    let mut worst = 0.0f64;
    let outputs = found.output.len() as f64;
    let parts = found.parts().into_iter().zip(truth.results.parts()).zip(truth.terms.parts());
    for (name, ((found, expected), terms)) in Results::NAMES.into_iter().zip(parts) {
        let (relative, share) = match name {
            "output" => (tolerance.output, 1.0 / CANCELLATION),
            "log_sum_exp" => (tolerance.output, 1.0),
            _ => (tolerance.gradient, 1.0 / CANCELLATION),
        };
        // The gradient of a sink is a sum over all values of the output, each of them rounded.
        let roundings = if name == "d_sinks" { outputs } else { 1.0 };
        let (relative, smallest) = (relative * sensitivity + rounding, tolerance.smallest * roundings);
        assert_eq!(found.len(), expected.len(), "{name}: {}", what());
        let (mut error, mut size, mut largest) = (0.0, 0.0, 0.0f64);
        for ((found, expected), terms) in found.iter().zip(expected).zip(terms) {
            if expected.is_finite() {
                error += (found - expected).powi(2);
                let one = expected.abs().max(terms * share);
                size += one * one;
                largest = largest.max(one);
            }
        }
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let alike = found == expected || (found.is_nan() && expected.is_nan());
            let near = (found - expected).abs() <= 8.0 * relative * largest + smallest;
            assert!(alike || near, "{name}[{at}]: expected {expected:e}, got {found:e}: {}", what());
        }
        let used = if error == 0.0 {
            0.0
        } else {
            error.sqrt() / (relative * size.sqrt() + smallest * (found.len() as f64).sqrt())
        };
        assert!(used <= 1.0, "{name}: off by {:e} of {:e}: {}", error.sqrt(), size.sqrt(), what());
        worst = worst.max(used);
    }
    worst
}
