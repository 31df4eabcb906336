//! Accuracy of the levels of precision, and its independence of the sequence length.

use crate::attention::case::{Case, Data, Results};
use crate::attention::check::DtypeKind;
use crate::attention::oracle::Truth;
use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{GoldenFile, Random};

/// ‖found − expected‖ / ‖expected‖
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    let error: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
    (error / expected.iter().map(|x| x * x).sum::<f64>()).sqrt()
}

/// Returns the output and the gradients of query, key and value.
fn main_parts(results: &Results) -> [&[f64]; 4] {
    [&results.output, &results.d_query, &results.d_key, &results.d_value]
}

#[test]
fn each_precision_meets_its_documented_error() {
    let case = Case { seed: 3, ..Case::of(&[(512, 512)], [1, 1], [64, 64]) };
    let data = Data::new(&case);
    let Truth { results: truth, .. } = case.truth(&data);
    each_isa(|isa| {
        for (precision, of_output, of_gradient) in
            [(Precision::Highest, 6e-7, 8e-7), (Precision::High, 1e-5, 2e-5), (Precision::Medium, 5e-3, 1e-2)]
        {
            let found = DtypeKind::F32(precision).run(&case, &data);
            let errors: Vec<f64> =
                main_parts(&found).iter().zip(main_parts(&truth)).map(|(a, b)| relative_error(a, b)).collect();
            println!("{isa} {precision:?}: {errors:?}");
            assert!(errors[0] <= of_output, "{isa} {precision:?}: {errors:?}");
            assert!(errors[1..].iter().all(|&error| error <= of_gradient), "{isa} {precision:?}: {errors:?}");
        }
    });
}

#[test]
fn lower_precision_equals_highest_without_bf16_hardware() {
    let case = Case { sinks: true, dropout: 0.2, ..Case::of(&[(100, 300)], [2, 1], [33, 40]) };
    let data = Data::new(&case);
    each_isa(|isa| {
        let of = |precision| DtypeKind::F32(precision).run(&case, &data);
        let highest = of(Precision::Highest);
        for (precision, least) in [(Precision::High, Isa::Amx), (Precision::Medium, Isa::Avx512Bf16)] {
            assert_eq!(of(precision) == highest, isa < least, "{isa} {precision:?}");
        }
    });
}

#[test]
fn key_and_value_gradient_errors_do_not_grow_with_length() {
    let cases = [64, 512, 4096].map(|queries| {
        let case = Case { seed: 5, ..Case::of(&[(queries, 128)], [1, 1], [64, 64]) };
        let data = Data::new(&case).rounded::<bf16>();
        let truth = case.truth(&data).results;
        (case, data, truth)
    });
    each_isa(|isa| {
        let errors = cases.each_ref().map(|(case, data, truth)| {
            let found = DtypeKind::Bf16.run(case, data);
            [relative_error(&found.d_key, &truth.d_key), relative_error(&found.d_value, &truth.d_value)]
        });
        println!("{isa}: errors of dK and dV at 64, 512 and 4096 queries: {errors:?}");
        for which in 0..2 {
            let [first, others @ ..] = errors.map(|errors| errors[which]);
            assert!(others.iter().all(|&error| error <= 1.3 * first), "{isa}: {errors:?}");
        }
    });
}

#[test]
fn output_errors_do_not_grow_with_the_number_of_keys() {
    let cases = [256, 4096, 16384].map(|keys| {
        let case = Case { seed: 6, ..Case::of(&[(32, keys)], [1, 1], [64, 64]) };
        let data = Data::new(&case);
        let truth = case.truth(&data).results;
        (case, data, truth)
    });
    each_isa(|isa| {
        let errors = cases.each_ref().map(|(case, data, truth)| {
            relative_error(&DtypeKind::F32(Precision::Highest).run(case, data).output, &truth.output)
        });
        println!("{isa}: errors of the output at 256, 4096 and 16384 keys: {errors:?}");
        // Tiles add up each block of keys separately before adding it to the sum.
        let most = if isa == Isa::Amx { 4e-7 } else { 8e-7 };
        assert!(errors.iter().all(|&error| error <= most), "{isa}: {errors:?}");
    });
}

/// Returns a case of the golden file, with the values of its seed.
fn golden_case(sizes: &[usize]) -> (Case, Data) {
    let [seed, batch, heads, key_heads, queries, keys, dim, value_dim, causal] = sizes[..] else {
        panic!("nine sizes, not {sizes:?}")
    };
    let case = Case {
        causal: (causal == 1).then_some(Causal::TopLeft),
        ..Case::of(&vec![(queries, keys); batch], [heads, key_heads], [dim, value_dim])
    };
    let mut random = Random::new(seed as u64);
    let mut numbers = |len: usize| random.numbers(len).iter().map(|&x| f64::from(2.0 * x)).collect::<Vec<_>>();
    let query = numbers(case.query().rows() * dim);
    let key = numbers(case.key().rows() * dim);
    let value = numbers(case.value().rows() * value_dim);
    let d_output = numbers(case.output().rows() * value_dim);
    let data = Data { query, key, value, d_output, ..Data::new(&case) };
    (case, data)
}

#[test]
fn errors_are_at_most_twice_those_of_pytorch() {
    let golden = GoldenFile::read("attention/errors");
    let kinds = [("f32", DtypeKind::F32(Precision::Highest)), ("bf16", DtypeKind::Bf16), ("f16", DtypeKind::F16)];
    let mut cases = Vec::new();
    for name in golden.attribute("cases").split(' ') {
        let (case, data) = golden_case(&golden.integers(&format!("{name}.sizes")));
        for (dtype, kind) in kinds {
            let data = kind.round(&data);
            let truth = case.truth(&data).results;
            let norms = golden.tensor(&format!("{name}.{dtype}.norms"));
            for (part, norm) in main_parts(&truth).iter().zip(norms) {
                let found = part.iter().map(|x| x * x).sum::<f64>().sqrt();
                assert!((found / norm - 1.0).abs() < 1e-10, "{name}: not what PyTorch computes: {found} for {norm}");
            }
            let limits = golden.tensor(&format!("{name}.{dtype}.errors"));
            cases.push((name, dtype, kind, case.clone(), data, truth, limits));
        }
    }
    each_isa(|isa| {
        for (name, dtype, kind, case, data, truth, limits) in &cases {
            let found = kind.run(case, data);
            for (which, (part, expected)) in main_parts(&found).iter().zip(main_parts(truth)).enumerate() {
                let (error, limit) = (relative_error(part, expected), limits[which]);
                assert!(
                    error <= 2.0 * limit,
                    "{isa} {name} {dtype} part {which}: {error:.1e}, PyTorch has {limit:.1e}"
                );
            }
        }
    });
}
