//! Masked values never affect a result, whatever they are; visible NaN and infinity always propagate.

use crate::attention::case::{Case, CaseLayout, Data, MaskForm, Results, ScoreRange, run};
use crate::attention::check::DtypeKind;
use crate::common::each_isa;
use chumoku_kernels::*;
use rayon::prelude::*;
use std::collections::HashSet;
use testkit::Random;

type Place = (usize, usize, usize);

/// Row indices of the inputs.
#[derive(Clone, Debug, Default)]
struct PoisonedRows {
    queries: Vec<usize>,
    keys: Vec<usize>,
    values: Vec<usize>,
    d_outputs: Vec<usize>,
}

impl Data {
    /// Replaces these rows by `bad`.
    fn poisoned(&self, case: &Case, rows: &PoisonedRows, bad: f64) -> Data {
        let mut data = self.clone();
        for (numbers, dim, rows) in [
            (&mut data.query, case.dim, &rows.queries),
            (&mut data.key, case.dim, &rows.keys),
            (&mut data.value, case.value_dim, &rows.values),
            (&mut data.d_output, case.value_dim, &rows.d_outputs),
        ] {
            rows.iter().for_each(|row| numbers[row * dim..][..dim].fill(bad));
        }
        data
    }
}

/// The result rows that a poisoned row may affect: those of queries that see it, and of the keys that these queries
/// see.
struct AffectedRows {
    outputs: HashSet<usize>,
    d_queries: HashSet<usize>,
    d_keys: HashSet<usize>,
    d_mask: HashSet<usize>,
    d_sinks: HashSet<usize>,
}

impl AffectedRows {
    fn new(case: &Case, data: &Data, rows: &PoisonedRows) -> Self {
        let mut reached = AffectedRows {
            outputs: HashSet::new(),
            d_queries: HashSet::new(),
            d_keys: HashSet::new(),
            d_mask: HashSet::new(),
            d_sinks: HashSet::new(),
        };
        let key_shape = case.key();
        for (row, place) in case.query().places().enumerate() {
            let (s, h, i) = place;
            let visible: Vec<usize> = (0..case.keys(s)).filter(|&j| case.sees(data, place, j)).collect();
            let key_row = |j: usize| key_shape.row(s, h * case.key_heads / case.heads, j);
            let is_bad = |j: &usize| rows.keys.contains(&key_row(*j)) || rows.values.contains(&key_row(*j));
            if visible.is_empty() {
                continue;
            }
            let forward = rows.queries.contains(&row) || visible.iter().any(is_bad);
            if forward {
                reached.outputs.insert(row);
            }
            if forward || rows.d_outputs.contains(&row) {
                reached.d_queries.insert(row);
                reached.d_keys.extend(visible.iter().map(|&j| key_row(j)));
                reached.d_sinks.insert(h);
                if case.mask.is_some() {
                    reached.d_mask.extend(visible.iter().map(|&j| case.mask_entry(s, h, i, j).1));
                }
            }
        }
        reached
    }

    /// Returns the affected rows of each part of [`Results`], and their width.
    fn parts(&self, case: &Case) -> [(&HashSet<usize>, usize); 7] {
        [
            (&self.outputs, case.value_dim),
            (&self.outputs, 1),
            (&self.d_queries, case.dim),
            (&self.d_keys, case.dim),
            (&self.d_keys, case.value_dim),
            (&self.d_mask, 1),
            (&self.d_sinks, 1),
        ]
    }

    /// Compares results on poisoned data with clean ones. Unaffected values must be bit-identical. Affected values must
    /// be non-finite exactly where those of the reference implementation are.
    fn check(&self, what: &str, case: &Case, [found, clean, plain]: [&Results; 3]) {
        let parts = found.parts().into_iter().zip(clean.parts()).zip(plain.parts());
        for (name, (((found, clean), plain), (rows, width))) in
            Results::NAMES.into_iter().zip(parts.zip(self.parts(case)))
        {
            for (at, ((found, clean), plain)) in found.iter().zip(clean).zip(plain).enumerate() {
                if rows.contains(&(at / width)) {
                    let same_kind = found.is_nan() == plain.is_nan() && found.is_finite() == plain.is_finite();
                    assert!(same_kind, "{name}[{at}]: expected {plain} for poison, got {found}: {what}");
                } else {
                    let same = found.to_bits() == clean.to_bits();
                    assert!(same, "{name}[{at}]: {clean} became {found} by masked values: {what}");
                }
            }
        }
    }
}

/// Returns cases whose masks hide some queries, keys and values.
pub(crate) fn cases() -> Vec<Case> {
    let mask = |is_additive| Some(MaskForm::full(is_additive));
    let wide = |is_additive| Some(MaskForm { ones: [false, false, true, false], ..MaskForm::full(is_additive) });
    let base = Case { d_log_sum_exp: true, ..Case::of(&[(70, 150), (70, 150)], [4, 2], [20, 12]) };
    let packed = Case { layout: CaseLayout::Packed, ..Case::of(&[(49, 270), (5, 0), (33, 40)], [2, 1], [33, 8]) };
    let lengths = Some(vec![101, 33]);
    let causal = Some(Causal::Offset(-5));
    let window = Some((Some(9), Some(6), Causal::TopLeft));
    let mut cases = vec![
        Case { causal, ..base.clone() },
        Case { window, sinks: true, ..base.clone() },
        Case { key_lengths: lengths.clone(), causal: Some(Causal::BottomRight), ..base.clone() },
        Case { mask: mask(false), ..base.clone() },
        Case { mask: mask(true), layout: CaseLayout::Mixed, softcap: Some(3.0), ..base.clone() },
        Case { mask: wide(false), causal, dropout: 0.5, ..base.clone() },
        Case { mask: wide(true), window, alibi: true, sinks: true, ..base.clone() },
        Case { mask: wide(true), key_lengths: lengths, dropout: 0.3, ..base.clone() },
        Case { scores: ScoreRange::Large, window, ..base.clone() },
        Case { scores: ScoreRange::Growing, mask: mask(true), ..base },
        // Every query sees every key within the key length: rows are not checked before they are multiplied.
        Case { key_lengths: Some(vec![149, 33]), ..Case::of(&[(70, 150), (70, 150)], [4, 2], [20, 16]) },
        Case {
            layout: CaseLayout::Packed,
            key_lengths: Some(vec![9, 129]),
            ..Case::of(&[(5, 10), (9, 130)], [2, 1], [64, 33])
        },
        // One query, which is decoded.
        Case { key_lengths: Some(vec![600, 70]), sinks: true, ..Case::of(&[(1, 700), (1, 700)], [4, 1], [32, 12]) },
        Case { causal, ..packed.clone() },
        Case { window, dropout: 0.2, ..packed.clone() },
        Case { mask: mask(true), causal, ..packed },
    ];
    (0..).zip(&mut cases).for_each(|(seed, case)| case.seed = seed);
    cases
}

#[test]
fn masked_values_change_no_bit() {
    each_isa(|isa| {
        cases().into_par_iter().enumerate().for_each(|(n, case)| {
            let data = Data::new(&case);
            let (queries, keys) = (case.query(), case.key());
            let group = case.heads / case.key_heads;
            let sees = |place: Place, j: usize| case.sees(&data, place, j);
            let blind = |&(s, h, i): &Place| !(0..case.keys(s)).any(|j| sees((s, h, i), j));
            let unseen = |&(s, kv, j): &Place| {
                let heads = kv * group..(kv + 1) * group;
                !heads.into_iter().any(|h| (0..case.lengths[s].0).any(|i| sees((s, h, i), j)))
            };
            let keys: Vec<usize> = keys.places().filter(unseen).map(|(s, h, j)| keys.row(s, h, j)).collect();
            let queries: Vec<usize> = queries.places().filter(blind).map(|(s, h, i)| queries.row(s, h, i)).collect();
            assert!(!keys.is_empty() || !queries.is_empty() || case.mask.is_some(), "nothing is masked: {case:?}");
            // Every query sees the sink: an upstream gradient that is not finite propagates to it.
            let d_outputs = if case.sinks { vec![] } else { queries.clone() };
            let rows = PoisonedRows { queries, values: keys.clone(), keys, d_outputs };
            DtypeKind::sampled_on(isa, n).for_each(|kind| {
                let clean = kind.run(&case, &data);
                for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MAX), -3e4] {
                    let found = kind.run(&case, &data.poisoned(&case, &rows, bad));
                    let reached = AffectedRows::new(&case, &data, &PoisonedRows::default());
                    reached.check(&format!("{isa} {kind:?} {bad} {case:?}"), &case, [&found, &clean, &clean]);
                }
            });
        });
    });
}

#[test]
fn visible_nan_propagates_only_to_its_queries() {
    // One poisoned row at a time, with the results of the reference implementation.
    let mut poisons = Vec::new();
    for case in cases() {
        let data = Data::new(&case);
        let mut random = Random::new(case.seed + 50);
        let mut one = |rows: usize| vec![random.below(rows.max(1)); rows.min(1)];
        for rows in [
            PoisonedRows { queries: one(case.query().rows()), ..PoisonedRows::default() },
            PoisonedRows { keys: one(case.key().rows()), ..PoisonedRows::default() },
            PoisonedRows { values: one(case.key().rows()), ..PoisonedRows::default() },
            PoisonedRows { d_outputs: one(case.query().rows()), ..PoisonedRows::default() },
        ] {
            let reached = AffectedRows::new(&case, &data, &rows);
            let poisoned = [f64::NAN, f64::INFINITY].map(|bad| {
                let poisoned = data.poisoned(&case, &rows, bad);
                let plain = run::<f64>(&case, &poisoned, Precision::Highest);
                (poisoned, plain)
            });
            poisons.push((case.clone(), data.clone(), rows, reached, poisoned));
        }
    }
    each_isa(|isa| {
        let poisons = poisons.par_iter().enumerate();
        let runs = poisons.flat_map(|(n, poison)| DtypeKind::sampled_on(isa, n).map(move |kind| (poison, kind)));
        runs.for_each(|((case, data, rows, reached, poisoned), kind)| {
            let clean = kind.run(case, data);
            for (data, plain) in poisoned {
                let found = kind.run(case, data);
                reached.check(&format!("{isa} {kind:?} {rows:?} {case:?}"), case, [&found, &clean, plain]);
            }
        });
    });
}
