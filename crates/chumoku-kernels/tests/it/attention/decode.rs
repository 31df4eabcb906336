//! Decoding: a single query, whose keys are shared among threads.

use crate::attention::case::{Case, CaseLayout, ScoreRange};
use crate::attention::check::check_all;
use chumoku_kernels::Causal;

#[test]
fn decoding_supports_any_number_of_keys_and_any_grouping() {
    let mut cases = Vec::new();
    let keys = [1, 3, 16, 63, 64, 65, 127, 128, 129, 200, 511, 512, 513, 1100];
    let groups = [[1, 1], [2, 1], [3, 1], [4, 2], [5, 1], [7, 1], [16, 1], [17, 1], [34, 2]];
    let dims = [[32, 16], [64, 64], [128, 128], [33, 20], [96, 5], [7, 65], [160, 48]];
    let layouts = [CaseLayout::Plain, CaseLayout::RowsFirst, CaseLayout::Mixed, CaseLayout::Packed];
    for (n, keys) in keys.into_iter().cycle().take(9 * 14).enumerate() {
        let lengths = [(1, keys), (1, keys)];
        let mut scores = [ScoreRange::Small, ScoreRange::Large, ScoreRange::Growing, ScoreRange::Negative][n / 4 % 4];
        // Scores in the tens of thousands with wide rows have larger rounding errors than weights tolerate, because the
        // backward pass adds them up in a different order.
        if dims[n % 7][0] > 64 && scores == ScoreRange::Negative {
            scores = ScoreRange::Small;
        }
        cases.push(Case {
            layout: layouts[n % 4],
            scores,
            sinks: n % 3 == 1,
            seed: n as u64,
            ..Case::of(&lengths[..1 + n % 2], groups[n / 14], dims[n % 7])
        });
    }
    check_all(cases);
}

#[test]
fn decoding_applies_windows_biases_and_lengths() {
    let base = Case { d_log_sum_exp: true, ..Case::of(&[(1, 900), (1, 900)], [8, 2], [64, 40]) };
    let window = |left, right, offset| Some((left, right, Causal::Offset(offset)));
    check_all(vec![
        Case { causal: Some(Causal::BottomRight), ..base.clone() },
        Case { causal: Some(Causal::Offset(300)), softcap: Some(3.0), ..base.clone() },
        // Windows that start and end inside of chunks and blocks.
        Case { window: window(Some(300), Some(2), 700), alibi: true, ..base.clone() },
        Case { window: window(Some(10), None, 515), scores: ScoreRange::Growing, ..base.clone() },
        Case { window: window(Some(70), Some(80), 512), sinks: true, ..base.clone() },
        // No visible keys.
        Case { causal: Some(Causal::Offset(-5)), sinks: true, ..base.clone() },
        Case { key_lengths: Some(vec![0, 517]), softcap: Some(2.0), ..base.clone() },
        Case { key_lengths: Some(vec![64, 130]), alibi: true, scores: ScoreRange::Large, ..base.clone() },
        // A case for the kernel of many queries.
        Case { dropout: 0.3, ..base },
    ]);
}
