//! Randomly generated cases.

use crate::attention::case::{Case, CaseLayout, MaskForm, ScoreRange};
use crate::attention::check::check_all;
use chumoku_kernels::Causal;
use proptest::option::of;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

fn lengths() -> impl Strategy<Value = (Vec<(usize, usize)>, CaseLayout)> {
    let dense = (0..4usize, 0..70usize, 0..290usize).prop_map(|(batch, queries, keys)| vec![(queries, keys); batch]);
    let layout = prop_oneof![
        Just(CaseLayout::Plain),
        Just(CaseLayout::RowsFirst),
        Just(CaseLayout::Mixed),
        Just(CaseLayout::Packed)
    ];
    let packed = prop::collection::vec((0..70usize, 0..140usize), 0..4);
    prop_oneof![(dense, layout), packed.prop_map(|lengths| (lengths, CaseLayout::Packed))]
}

fn diagonal() -> impl Strategy<Value = Causal> {
    prop_oneof![Just(Causal::TopLeft), Just(Causal::BottomRight), (-70..200i64).prop_map(Causal::Offset)]
}

fn mask() -> impl Strategy<Value = MaskForm> {
    let axes = prop::array::uniform4(any::<bool>());
    (any::<bool>(), 0..=4usize, axes, axes, any::<bool>())
        .prop_map(|(is_additive, rank, ones, still, has_gaps)| MaskForm { is_additive, rank, ones, still, has_gaps })
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (lengths(), 1..4usize, 1..4usize, 1..70usize, 1..70usize);
    let positions = (of(diagonal()), of((of(0..60usize), of(0..60usize), diagonal())), of(0..1000usize), of(mask()));
    let scale = prop_oneof![-0.5..0.5f64, Just(0.0)];
    let scores = prop_oneof![3 => Just(ScoreRange::Small), 1 => Just(ScoreRange::Large), 1 => Just(ScoreRange::Growing), 1 => Just(ScoreRange::Negative)];
    let numbers = (of(scale), of(0.5..20.0f64), any::<bool>(), any::<bool>(), of(0.01..0.95f32), scores);
    (sizes, positions, numbers, any::<bool>(), 0..1000u64).prop_map(
        |(
            ((lengths, layout), key_heads, group, dim, value_dim),
            (causal, window, part, mask),
            (scale, softcap, alibi, sinks, dropout, scores),
            d_log_sum_exp,
            seed,
        )| {
            let key_lengths = part.map(|part| {
                lengths.iter().enumerate().map(|(s, &(_, keys))| (part * (s + 1) * 379) % (keys + 1)).collect()
            });
            Case {
                layout,
                scale,
                softcap,
                causal,
                window,
                key_lengths,
                mask,
                alibi,
                sinks,
                dropout: dropout.unwrap_or(0.0),
                d_log_sum_exp,
                scores,
                seed,
                ..Case::of(&lengths, [key_heads * group, key_heads], [dim, value_dim])
            }
        },
    )
}

#[test]
fn random_cases_match_the_definition() {
    let seed = 20251121;
    println!("seed {seed}");
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let count = testkit::cases("chumoku-kernels", 60, 150);
    check_all((0..count).map(|_| cases().new_tree(&mut runner).unwrap().current()).collect());
}
