//! Sizes that straddle every edge of vectors, tiles and blocks.

use crate::attention::case::{Case, CaseLayout};
use crate::attention::check::check_all;
use chumoku_kernels::Causal;
use testkit::exhaustive;

const LENGTHS: [usize; 22] =
    [0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 95, 96, 97, 127, 128, 129, 255, 256, 257, 300];
const DIMS: [usize; 11] = [1, 2, 3, 16, 31, 32, 33, 64, 65, 96, 128];
const LAYOUTS: [CaseLayout; 4] = [CaseLayout::Plain, CaseLayout::RowsFirst, CaseLayout::Mixed, CaseLayout::Packed];

#[test]
fn any_number_of_queries_and_keys() {
    let mut cases = Vec::new();
    for (at, queries) in LENGTHS.into_iter().enumerate() {
        for (to, keys) in LENGTHS.into_iter().enumerate() {
            // Every pair of lengths in exhaustive tests, otherwise two sevenths of them. Widths and layouts alternate.
            if !exhaustive("chumoku-kernels") && (5 * at + 3 * to) % 7 > 1 {
                continue;
            }
            let n = at * LENGTHS.len() + to;
            let dims = [DIMS[n % 11], DIMS[(n / 11 + n) % 11]];
            let causal = [None, Some(Causal::TopLeft), None, Some(Causal::BottomRight)][(n / 4) % 4];
            cases.push(Case {
                layout: LAYOUTS[n % 4],
                causal,
                d_log_sum_exp: n % 2 == 1,
                seed: n as u64,
                ..Case::of(&[(queries, keys)], [1, 1], dims)
            });
        }
    }
    check_all(cases);
}

#[test]
fn any_width_of_queries_and_values() {
    let mut cases = Vec::new();
    for (at, dim) in DIMS.into_iter().enumerate() {
        for (to, value_dim) in DIMS.into_iter().enumerate() {
            if !exhaustive("chumoku-kernels") && (at + to) % 2 == 1 {
                continue;
            }
            let n = at * DIMS.len() + to;
            let heads = [[1, 1], [2, 2], [2, 1], [4, 2], [3, 1]][n % 5];
            let lengths = [[(17, 33), (17, 33)], [(50, 31), (50, 31)], [(3, 129), (3, 129)]][n % 3];
            cases.push(Case { layout: LAYOUTS[n % 4], seed: n as u64, ..Case::of(&lengths, heads, [dim, value_dim]) });
        }
    }
    check_all(cases);
}

#[test]
fn packed_sequences_of_any_length() {
    let mut cases = Vec::new();
    for (n, lengths) in [
        vec![],
        vec![(0, 0)],
        vec![(1, 1), (0, 0), (5, 5), (17, 17)],
        vec![(3, 0), (2, 7), (0, 4), (33, 12)],
        vec![(95, 96), (97, 100), (13, 13)],
        vec![(31, 300), (0, 9), (129, 1), (49, 257)],
        vec![(1, 255), (1, 1), (1, 40), (1, 128), (1, 0)],
    ]
    .into_iter()
    .enumerate()
    {
        for (heads, dims) in [([2, 2], [8, 8]), ([6, 2], [33, 20]), ([5, 1], [64, 65])] {
            for causal in [None, Some(Causal::BottomRight)] {
                let base = Case::of(&lengths, heads, dims);
                cases.push(Case { layout: CaseLayout::Packed, causal, seed: n as u64, ..base });
            }
        }
    }
    check_all(cases);
}

#[test]
fn long_sequences_cross_many_blocks() {
    let base = |lengths, heads, dims| Case { d_log_sum_exp: true, ..Case::of(lengths, heads, dims) };
    check_all(vec![
        Case { causal: Some(Causal::BottomRight), ..base(&[(1153, 1153)], [1, 1], [16, 16]) },
        base(&[(1153, 130)], [2, 1], [33, 8]),
        // Enough keys for the chunks that threads share in the backward pass, and for longer chunks.
        base(&[(70, 2600)], [2, 2], [8, 12]),
        Case { causal: Some(Causal::BottomRight), ..base(&[(20, 9300)], [2, 1], [8, 8]) },
        // Query heads of one key head that do not fit a query span of the backward pass together.
        base(&[(401, 90)], [8, 1], [8, 8]),
        Case { layout: CaseLayout::Packed, ..base(&[(1153, 40), (7, 1153)], [3, 1], [5, 3]) },
    ]);
}
