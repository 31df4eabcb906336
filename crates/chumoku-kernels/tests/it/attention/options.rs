//! All options of attention, alone and combined.

use crate::attention::case::{Case, CaseLayout, Data, MaskForm, ScoreRange};
use crate::attention::check::{DtypeKind, check_all, compare};
use crate::attention::oracle::Truth;
use crate::common::each_isa;
use chumoku_kernels::Causal;
use rayon::prelude::*;
use testkit::exhaustive;

/// Returns cases in four shapes whose blocks end at different positions. Exhaustive tests run every case in every
/// shape. Otherwise each case runs in two of the four, and the pairs of shapes alternate.
fn in_every_shape(cases: impl Fn(Case) -> Vec<Case>) -> Vec<Case> {
    let shapes = [
        Case::of(&[(40, 40)], [1, 1], [16, 16]),
        Case { layout: CaseLayout::Mixed, ..Case::of(&[(33, 150), (33, 150)], [4, 2], [20, 9]) },
        Case { layout: CaseLayout::RowsFirst, ..Case::of(&[(140, 65)], [3, 1], [32, 33]) },
        Case { layout: CaseLayout::Packed, ..Case::of(&[(49, 270), (0, 3), (100, 97), (2, 0)], [2, 1], [24, 40]) },
    ];
    let pairs = [[0, 3], [1, 2], [0, 1], [2, 3], [1, 3], [0, 2]];
    let in_shape = |(shape, base): (usize, Case)| {
        let all = cases(Case { seed: shape as u64 + 1, ..base }).into_iter().enumerate();
        let is_in = move |n: usize| exhaustive("chumoku-kernels") || pairs[(n + n / 6) % 6].contains(&shape);
        all.filter(move |&(n, _)| is_in(n)).map(|(_, case)| case)
    };
    shapes.into_iter().enumerate().flat_map(in_shape).collect()
}

#[test]
fn causal_masks_support_any_diagonal() {
    use Causal::*;
    let offsets = [-1000, -50, -17, -1, 0, 1, 16, 31, 100, 1000, i64::MIN, i64::MAX].map(Offset);
    check_all(in_every_shape(|base| {
        let diagonals = [TopLeft, BottomRight].into_iter().chain(offsets);
        diagonals.map(|diagonal| Case { causal: Some(diagonal), ..base.clone() }).collect()
    }));
}

#[test]
fn windows_limit_either_or_both_sides() {
    use Causal::*;
    check_all(in_every_shape(|base| {
        let mut cases = Vec::new();
        let huge = Some(usize::MAX);
        for (left, right) in [
            (None, Some(0)),
            (Some(0), None),
            (Some(0), Some(0)),
            (Some(5), Some(3)),
            (Some(40), None),
            (None, Some(33)),
            (huge, Some(2)),
            (Some(2), huge),
        ] {
            for diagonal in [TopLeft, BottomRight, Offset(-20), Offset(37), Offset(i64::MIN), Offset(i64::MAX)] {
                cases.push(Case { window: Some((left, right, diagonal)), ..base.clone() });
            }
            cases.push(Case {
                causal: Some(BottomRight),
                window: Some((left, right, BottomRight)),
                d_log_sum_exp: true,
                ..base.clone()
            });
        }
        cases
    }));
}

#[test]
fn key_lengths_differ_per_sequence() {
    check_all(in_every_shape(|base| {
        let mut cases = Vec::new();
        for some in 0..4 {
            let lengths = base.lengths.iter().enumerate().map(|(s, &(_, keys))| {
                // None, all, half, all but one.
                [0, keys, keys / 2, keys.saturating_sub(1)][(some + s) % 4]
            });
            let key_lengths = Some(lengths.collect());
            for causal in [None, Some(Causal::BottomRight), Some(Causal::TopLeft)] {
                cases.push(Case { key_lengths: key_lengths.clone(), causal, ..base.clone() });
            }
        }
        cases
    }));
}

#[test]
fn masks_broadcast_from_any_rank() {
    check_all(in_every_shape(|base| {
        let mut cases = Vec::new();
        for bits in 0..16u32 {
            // All combinations of axes of size 1.
            let ones: [bool; 4] = std::array::from_fn(|axis| bits >> axis & 1 == 1);
            for rank in 0..=4 {
                // Leading axes are missing in a lower rank, so each combination is tested once.
                if (0..4 - rank).any(|axis| ones[axis]) {
                    continue;
                }
                for is_additive in [false, true] {
                    let has_gaps = (bits + rank as u32) % 2 == 1;
                    let still = std::array::from_fn(|axis| (bits as usize + rank) % 5 == axis);
                    let mask = Some(MaskForm { is_additive, rank, ones, still, has_gaps });
                    let dropout = if bits % 4 == 1 { 0.3 } else { 0.0 };
                    cases.push(Case { mask, dropout, d_log_sum_exp: bits % 2 == 0, ..base.clone() });
                }
            }
        }
        cases
    }));
}

/// Returns cases with single and combined options.
pub(crate) fn combinations() -> Vec<Case> {
    in_every_shape(|base| {
        let mask = |is_additive| Some(MaskForm::full(is_additive));
        let window = Some((Some(20), Some(11), Causal::BottomRight));
        let causal = Some(Causal::BottomRight);
        vec![
            Case { alibi: true, ..base.clone() },
            Case { alibi: true, causal: Some(Causal::Offset(-3)), ..base.clone() },
            Case { softcap: Some(0.7), ..base.clone() },
            Case { softcap: Some(5.0), causal, ..base.clone() },
            Case { sinks: true, ..base.clone() },
            Case { sinks: true, causal: Some(Causal::Offset(-30)), d_log_sum_exp: true, ..base.clone() },
            Case { dropout: 0.3, ..base.clone() },
            Case { dropout: 0.9, causal, d_log_sum_exp: true, ..base.clone() },
            Case { scale: Some(-0.4), ..base.clone() },
            Case { scale: Some(0.0), causal, ..base.clone() },
            Case { scale: Some(-0.4), softcap: Some(1.0), ..base.clone() },
            Case { mask: mask(false), causal, dropout: 0.2, ..base.clone() },
            Case { mask: mask(true), window, sinks: true, d_log_sum_exp: true, ..base.clone() },
            Case { mask: mask(true), softcap: Some(2.0), alibi: true, dropout: 0.1, causal, ..base.clone() },
            Case { mask: mask(false), softcap: Some(2.0), alibi: true, sinks: true, window, ..base.clone() },
        ]
    })
}

#[test]
fn scores_of_any_size() {
    check_all(in_every_shape(|base| {
        let mut cases = Vec::new();
        for scores in [ScoreRange::Large, ScoreRange::Growing, ScoreRange::Negative] {
            let base = Case { scores, ..base.clone() };
            cases.extend([
                base.clone(),
                Case { causal: Some(Causal::BottomRight), ..base.clone() },
                Case { scale: Some(-1.0), ..base.clone() },
                Case { sinks: true, ..base.clone() },
                Case { dropout: 0.4, window: Some((Some(50), None, Causal::BottomRight)), ..base.clone() },
                Case { mask: Some(MaskForm::full(true)), d_log_sum_exp: true, ..base.clone() },
                Case { mask: Some(MaskForm::full(false)), softcap: Some(30.0), ..base.clone() },
            ]);
        }
        cases
    }));
}

#[test]
fn options_work_alone_and_together() {
    check_all(combinations());
}

#[test]
fn lowest_finite_bias_does_not_mask() {
    // Queries whose scores are all very low still attend. Queries with other scores ignore the low ones.
    let infinity = f32::NEG_INFINITY;
    each_isa(|isa| {
        for low in [f32::MIN, -1e30, -2e29, -1e9] {
            for ([queries, keys], sinks) in [([3, 5], false), ([50, 40], false), ([33, 300], false), ([5, 70], true)] {
                let case = Case {
                    mask: Some(MaskForm { rank: 2, ..MaskForm::full(true) }),
                    d_log_sum_exp: true,
                    // All scores are 0, so that adding a low bias loses nothing.
                    scale: Some(0.0),
                    sinks,
                    ..Case::of(&[(queries, keys)], [2, 2], [8, 9])
                };
                let mut data = Data::new(&case);
                for (at, bias) in data.bias.iter_mut().enumerate() {
                    *bias = match at / keys % 4 {
                        0 => low,
                        1 => [low, infinity][at % 2],
                        2 => [low, 0.0, infinity][at % 3],
                        _ => infinity,
                    };
                }
                DtypeKind::differing_on(isa).for_each(|kind| {
                    let found = kind.run(&case, &data);
                    let truth = case.truth(&kind.round(&data));
                    let what = || format!("{isa} {kind:?} {low} {case:?}");
                    // The log-sum-exp itself is rounded to f32; the weights are simple fractions.
                    let truth = Truth { largest_score: 0.0, ..truth };
                    compare(&what, &found, &truth, kind.tolerance(isa));
                });
            }
        }
    });
}
