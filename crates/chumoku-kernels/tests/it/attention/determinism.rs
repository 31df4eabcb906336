//! Determinism: the same values give the same bytes, for any number of threads and independent of the rest of the
//! batch.

use crate::attention::case::{Case, CaseLayout, Data, MaskForm, Results, ScoreRange};
use crate::attention::check::DtypeKind;
use crate::common::each_isa;
use chumoku_kernels::Causal;
use rayon::prelude::*;
use testkit::exhaustive;

#[test]
fn results_do_not_depend_on_threads() {
    let causal = Some(Causal::BottomRight);
    let form = |ones| Some(MaskForm { ones, ..MaskForm::full(true) });
    let base = Case { sinks: true, d_log_sum_exp: true, ..Case::of(&[(130, 150); 2], [8, 4], [16, 24]) };
    let cases = [
        // One head, whose keys are shared among threads; a few heads; many heads.
        Case { causal, ..Case::of(&[(100, 2300)], [1, 1], [24, 16]) },
        // One query, whose keys are shared among threads.
        Case { causal, sinks: true, ..Case::of(&[(1, 2100)], [4, 1], [32, 16]) },
        Case { layout: CaseLayout::Packed, ..Case::of(&[(200, 1300), (0, 5), (90, 2100)], [2, 1], [16, 8]) },
        Case { mask: form([true, true, true, false]), dropout: 0.2, causal, ..base.clone() },
        Case { mask: form([true, false, false, false]), scores: ScoreRange::Growing, ..base.clone() },
        Case { layout: CaseLayout::Mixed, softcap: Some(3.0), mask: form([false, false, false, true]), ..base },
    ];
    each_isa(|isa| {
        let runs = cases.par_iter().flat_map(|case| DtypeKind::differing_on(isa).map(move |kind| (case, kind)));
        runs.for_each(|(case, kind)| {
            let data = Data::new(case);
            let with = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| kind.run(case, &data))
            };
            let one = with(1);
            let several: &[usize] = if exhaustive("chumoku-kernels") { &[2, 3] } else { &[3] };
            for &threads in several {
                assert_same(&format!("{isa} {kind:?} {threads} threads {case:?}"), &with(threads), &one);
            }
        });
    });
}

fn assert_same(what: &str, found: &Results, expected: &Results) {
    for (name, (found, expected)) in Results::NAMES.iter().zip(found.parts().into_iter().zip(expected.parts())) {
        assert_eq!(found.len(), expected.len(), "{name}: {what}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.to_bits(), expected.to_bits(), "{name}[{at}] is {found}, not {expected}: {what}");
        }
    }
}

/// Extracts sequence `s` of a case.
fn alone(case: &Case, data: &Data, s: usize) -> (Case, Data) {
    let mut case_alone = Case { lengths: vec![case.lengths[s]], ..case.clone() };
    case_alone.key_lengths = case.key_lengths.as_ref().map(|lengths| vec![lengths[s]]);
    let mut one = data.clone();
    let (first, rows) = (case.query().row(s, 0, 0), case_alone.query().rows());
    let (first_key, keys) = (case.key().row(s, 0, 0), case_alone.key().rows());
    let part = |numbers: &[f64], first: usize, rows: usize, dim: usize| numbers[first * dim..][..rows * dim].to_vec();
    one.query = part(&data.query, first, rows, case.dim);
    one.d_output = part(&data.d_output, first, rows, case.value_dim);
    one.d_log_sum_exp = part(&data.d_log_sum_exp, first, rows, 1);
    one.key = part(&data.key, first_key, keys, case.dim);
    one.value = part(&data.value, first_key, keys, case.value_dim);
    (case_alone, one)
}

#[test]
fn sequences_do_not_depend_on_each_other() {
    let causal = Some(Causal::BottomRight);
    let form = Some(MaskForm { ones: [true, false, false, false], ..MaskForm::full(false) });
    let base = Case { d_log_sum_exp: true, ..Case::of(&[(61, 290); 5], [4, 2], [20, 33]) };
    let lengths = [(61, 290), (0, 3), (1, 1), (100, 300), (33, 47), (500, 20)];
    let packed = Case { layout: CaseLayout::Packed, d_log_sum_exp: true, ..Case::of(&lengths, [2, 1], [16, 40]) };
    let cases = [
        Case { causal, ..base.clone() },
        Case { mask: form, ..base.clone() },
        Case { scores: ScoreRange::Growing, ..base.clone() },
        Case { key_lengths: Some(vec![290, 0, 31, 256, 257]), softcap: Some(2.0), ..base },
        Case { causal, ..packed.clone() },
        Case { scores: ScoreRange::Large, window: Some((Some(30), None, Causal::BottomRight)), ..packed },
    ];
    each_isa(|isa| {
        let cases = cases.par_iter().enumerate();
        let runs = cases.flat_map(|(n, case)| DtypeKind::sampled_on(isa, n).map(move |kind| (case, kind)));
        runs.for_each(|(case, kind)| {
            let data = Data::new(case);
            let all = kind.run(case, &data);
            for s in 0..case.lengths.len() {
                let (one_case, one_data) = alone(case, &data, s);
                let found = kind.run(&one_case, &one_data);
                let (row, key_row) = (case.query().row(s, 0, 0), case.key().row(s, 0, 0));
                let part = |numbers: &[f64], row: usize, dim: usize, len: usize| numbers[row * dim..][..len].to_vec();
                let expected = Results {
                    output: part(&all.output, row, case.value_dim, found.output.len()),
                    log_sum_exp: part(&all.log_sum_exp, row, 1, found.log_sum_exp.len()),
                    d_query: part(&all.d_query, row, case.dim, found.d_query.len()),
                    d_key: part(&all.d_key, key_row, case.dim, found.d_key.len()),
                    d_value: part(&all.d_value, key_row, case.value_dim, found.d_value.len()),
                    ..found.clone()
                };
                assert_same(&format!("{isa} {kind:?} sequence {s} of {case:?}"), &found, &expected);
            }
        });
    });
}

#[test]
fn queries_do_not_depend_on_each_other() {
    let base = Case::of(&[(150, 290)], [2, 1], [20, 33]);
    // The same case for all queries and, with a shifted diagonal, for two adjacent ones. (A single query is decoded,
    // which adds in a different order.)
    type Make = fn(Case, i64) -> Case;
    let makes: [(&str, Make); 5] = [
        ("all keys", |case, _| case),
        ("causal", |case, offset| Case { causal: Some(Causal::Offset(offset + 40)), ..case }),
        ("window", |case, offset| Case { window: Some((Some(70), Some(3), Causal::Offset(offset))), ..case }),
        ("growing", |case, _| Case { scores: ScoreRange::Growing, ..case }),
        ("softcap", |case, offset| Case { softcap: Some(4.0), causal: Some(Causal::Offset(offset)), ..case }),
    ];
    each_isa(|isa| {
        let makes = makes.par_iter().enumerate();
        let runs = makes.flat_map(|(n, make)| DtypeKind::sampled_on(isa, n).map(move |kind| (make, kind)));
        runs.for_each(|((name, make), kind)| {
            let case = make(base.clone(), 0);
            let data = Data::new(&case);
            let all = kind.run(&case, &data);
            for i in [0, 1, 31, 47, 48, 95, 96, 148] {
                let case = make(Case { lengths: vec![(2, 290)], ..base.clone() }, i as i64);
                let mut one = data.clone();
                let rows: Vec<usize> = (0..2).flat_map(|h| [h * 150 + i, h * 150 + i + 1]).collect();
                let pick = |numbers: &[f64], dim: usize| -> Vec<f64> {
                    rows.iter().flat_map(|row| numbers[row * dim..][..dim].to_vec()).collect()
                };
                one.query = pick(&data.query, case.dim);
                one.d_output = pick(&data.d_output, case.value_dim);
                one.d_log_sum_exp = pick(&data.d_log_sum_exp, 1);
                let found = kind.run(&case, &one);
                let expected = Results {
                    output: pick(&all.output, case.value_dim),
                    log_sum_exp: pick(&all.log_sum_exp, 1),
                    d_query: pick(&all.d_query, case.dim),
                    ..found.clone()
                };
                assert_same(&format!("{isa} {kind:?} query {i}, {name}"), &found, &expected);
            }
        });
    });
}
