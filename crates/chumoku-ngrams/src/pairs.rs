//! Features of two texts: shared and exclusive n-grams, and the overlap of both texts.
//!
//! An n-gram yields one of three features: in both texts, in the first only, or in the second only. The overlap is the
//! share of one text's distinct n-grams that the other has, or the share of all that both have (Jaccard). Each tenth
//! that it reaches is a feature, so that a linear model can follow it. These features are few, so each counts
//! [`WEIGHT`] times.

use super::hash::finalize;
use chumoku_text::lang::lang;
use std::cmp::Ordering;

/// The n-grams of one text of a pair.
pub(super) struct PairSide {
    /// The hashes, ascending, with repetitions.
    pub(super) hashes: Vec<u64>,
    /// The hashes with readable names, in the order of occurrence; empty if names are not needed.
    pub(super) names: Vec<(u64, String)>,
}

/// The texts that contain an n-gram. The numbers are part of the model file's format.
#[derive(Clone, Copy)]
enum PairMembership {
    Both = 1,
    FirstOnly = 2,
    SecondOnly = 3,
}

/// Number of steps of an overlap.
const STEPS: u64 = 10;
/// Repetitions of a step's feature; `bench/record` lists the experiments.
const WEIGHT: usize = 8;
/// The overlaps: relative to the first text, to the second, and to both.
const OVERLAPS: [[&str; 2]; 3] =
    [["of text 1", "テキスト 1 の"], ["of text 2", "テキスト 2 の"], ["of both texts", "両テキストの"]];

/// Returns the hash of an n-gram with its membership, in the block of the n-gram.
fn membership_hash(hash: u64, place: PairMembership) -> u64 {
    finalize(hash ^ (place as u64) << 57) & !1 | hash & 1
}

/// Returns the hash of an overlap step in a block.
fn overlap_hash(overlap: usize, step: u64, block: u64) -> u64 {
    finalize(0x0076_6572_6c61_7000 | (overlap as u64) << 4 | step) & !1 | block
}

/// Returns the hashes of a pair's features.
pub(super) fn pair_features(sides: &[PairSide; 2]) -> Vec<u64> {
    let [first, second] = [&sides[0].hashes, &sides[1].hashes];
    let places = memberships(first, second);
    let mut found: Vec<u64> = places.iter().map(|&(hash, place)| membership_hash(hash, place)).collect();
    let steps = membership_counts(&places).into_iter().zip(0..).flat_map(|(of, block)| overlap_steps(of, block));
    found.extend(steps.flat_map(|step| [step.hash; WEIGHT]));
    found
}

/// Counts n-grams per block: in the first text, in the second, and in both.
fn membership_counts(places: &[(u64, PairMembership)]) -> [[u64; 3]; 2] {
    let mut counts = [[0; 3]; 2];
    for &(hash, place) in places {
        let counts = &mut counts[(hash & 1) as usize];
        counts[0] += u64::from(!matches!(place, PairMembership::SecondOnly));
        counts[1] += u64::from(!matches!(place, PairMembership::FirstOnly));
        counts[2] += u64::from(matches!(place, PairMembership::Both));
    }
    counts
}

/// A step that an overlap of two texts reaches.
struct OverlapStep {
    /// The feature's hash.
    hash: u64,
    /// Index into [`OVERLAPS`].
    overlap: usize,
    step: u64,
}

/// Returns the overlap steps that a block reaches.
fn overlap_steps([first, second, both]: [u64; 3], block: u64) -> impl Iterator<Item = OverlapStep> {
    let wholes = [first, second, first + second - both];
    wholes.into_iter().enumerate().flat_map(move |(overlap, whole)| {
        let reached = (STEPS * both).checked_div(whole).unwrap_or(0);
        (1..=reached).map(move |step| OverlapStep { hash: overlap_hash(overlap, step, block), overlap, step })
    })
}

/// Returns the distinct n-grams of two texts with their membership.
fn memberships(first: &[u64], second: &[u64]) -> Vec<(u64, PairMembership)> {
    let different = |hashes: &[u64]| {
        let mut hashes = hashes.to_vec();
        hashes.dedup();
        hashes
    };
    let (first, second) = (different(first), different(second));
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::with_capacity(first.len() + second.len());
    while i < first.len() || j < second.len() {
        let order = match (first.get(i), second.get(j)) {
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        found.push(match order {
            Ordering::Less => (first[i], PairMembership::FirstOnly),
            Ordering::Equal => (first[i], PairMembership::Both),
            Ordering::Greater => (second[j], PairMembership::SecondOnly),
        });
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
    found
}

/// Returns the features of a pair with readable names.
pub(super) fn feature_names(sides: &[PairSide; 2]) -> Vec<(u64, String)> {
    let pick = |en: &'static str, ja: &'static str| lang().pick(en, ja);
    let of_place = |place: PairMembership| match place {
        PairMembership::Both => pick("both", "両方"),
        PairMembership::FirstOnly => pick("text 1 alone", "テキスト 1 だけ"),
        PairMembership::SecondOnly => pick("text 2 alone", "テキスト 2 だけ"),
    };
    let named = |hash: u64, name: &str, place: PairMembership| {
        (membership_hash(hash, place), format!("{}: {name}", of_place(place)))
    };
    let all = || sides.iter().flat_map(|side| &side.names);
    let name_of: std::collections::HashMap<u64, &str> = all().map(|(hash, name)| (*hash, name.as_str())).collect();
    let places = memberships(&sides[0].hashes, &sides[1].hashes);
    let named = |&(hash, place): &(u64, PairMembership)| Some(named(hash, name_of.get(&hash)?, place));
    let mut found: Vec<(u64, String)> = places.iter().filter_map(named).collect();
    let units = [["words", "単語"], ["characters", "文字"]].map(|[en, ja]| pick(en, ja));
    for ((of, block), unit) in membership_counts(&places).into_iter().zip(0..).zip(units) {
        found.extend(overlap_steps(of, block).map(|OverlapStep { hash, overlap, step }| {
            let [en, ja] = OVERLAPS[overlap];
            let (whole, percent) = (pick(en, ja), 100 / STEPS * step);
            let name =
                chumoku_text::tr!("overlap: {percent} % {whole}, {unit}", "重なり: {whole} {percent} %（{unit}）");
            (hash, name)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn features_encode_membership_and_overlap() {
        // Even hashes are words, odd ones are characters; 4 occurs twice in the first text.
        let side = |hashes: &[u64]| PairSide { hashes: hashes.to_vec(), names: Vec::new() };
        let sides = [side(&[2, 4, 4, 6, 9]), side(&[4, 6, 8, 10, 12])];
        let mut found: BTreeMap<u64, usize> = BTreeMap::new();
        pair_features(&sides).into_iter().for_each(|hash| *found.entry(hash).or_default() += 1);
        let mut expected: BTreeMap<u64, usize> = BTreeMap::new();
        let mut expect = |hash: u64, count: usize| assert_eq!(expected.insert(hash, count), None, "{hash}");
        for (hash, place) in [
            (2, PairMembership::FirstOnly),
            (4, PairMembership::Both),
            (6, PairMembership::Both),
            (9, PairMembership::FirstOnly),
        ] {
            expect(membership_hash(hash, place), 1);
        }
        for hash in [8, 10, 12] {
            expect(membership_hash(hash, PairMembership::SecondOnly), 1);
        }
        // Two of three words, two of five, two of six; no characters.
        for (overlap, reached) in [(0, 6), (1, 4), (2, 3)] {
            (1..=reached).for_each(|step| expect(overlap_hash(overlap, step, 0), WEIGHT));
        }
        assert_eq!(found, expected);
        assert!(pair_features(&[side(&[]), side(&[])]).is_empty());
    }
}
