//! Features of two texts: which n-grams both have or one alone, and how much the two overlap.
//!
//! An n-gram of both texts, of the first alone and of the second alone are three features. Overlap is the share of one text's
//! different n-grams that the other has, and that of all that both have (Jaccard); each tenth that it reaches is a feature, so
//! that a linear model can follow it, and counts as often as [`WEIGHT`] says, because there are few of these.

use super::hash::finalize;
use chumoku_text::lang::lang;
use std::cmp::Ordering;

/// The n-grams of one of two texts.
pub(super) struct PairSide {
    /// Ascending, a repeated one as often as it occurs.
    pub(super) hashes: Vec<u64>,
    /// The same, readable, in the order in which they are found; empty where names are not wanted.
    pub(super) names: Vec<(u64, String)>,
}

/// Where an n-gram is. The numbers are part of the model file's format.
#[derive(Clone, Copy)]
enum PairMembership {
    Both = 1,
    FirstOnly = 2,
    SecondOnly = 3,
}

/// Steps of an overlap.
const STEPS: u64 = 10;
/// How often a step counts: `bench/record` has what was tried.
const WEIGHT: usize = 8;
/// Overlaps: of the first text, of the second, of both.
const OVERLAPS: [[&str; 2]; 3] =
    [["of text 1", "テキスト 1 の"], ["of text 2", "テキスト 2 の"], ["of both texts", "両テキストの"]];

/// The hash of an n-gram in its place, in the block of the n-gram.
fn membership_hash(hash: u64, place: PairMembership) -> u64 {
    finalize(hash ^ (place as u64) << 57) & !1 | hash & 1
}

/// The hash of a step of an overlap of a block's n-grams.
fn overlap_hash(overlap: usize, step: u64, block: u64) -> u64 {
    finalize(0x0076_6572_6c61_7000 | (overlap as u64) << 4 | step) & !1 | block
}

/// The hashes of a pair's features.
pub(super) fn pair_features(sides: &[PairSide; 2]) -> Vec<u64> {
    let [first, second] = [&sides[0].hashes, &sides[1].hashes];
    let places = memberships(first, second);
    let mut found: Vec<u64> = places.iter().map(|&(hash, place)| membership_hash(hash, place)).collect();
    let steps = membership_counts(&places).into_iter().zip(0..).flat_map(|(of, block)| overlap_steps(of, block));
    found.extend(steps.flat_map(|(hash, ..)| [hash; WEIGHT]));
    found
}

/// By block: n-grams of the first text, of the second, of both.
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

/// The steps that the overlaps of a block's n-grams reach: hash, overlap, step.
fn overlap_steps([first, second, both]: [u64; 3], block: u64) -> impl Iterator<Item = (u64, usize, u64)> {
    let wholes = [first, second, first + second - both];
    wholes.into_iter().enumerate().flat_map(move |(overlap, whole)| {
        let reached = (STEPS * both).checked_div(whole).unwrap_or(0);
        (1..=reached).map(move |step| (overlap_hash(overlap, step, block), overlap, step))
    })
}

/// The different n-grams of two texts, and where each is.
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

/// The features of a pair, readable.
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
        found.extend(overlap_steps(of, block).map(|(hash, overlap, step)| {
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
    fn features_say_where_ngrams_are_and_how_much_texts_overlap() {
        // Even hashes are words, odd ones characters; 4 is twice in the first text.
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
