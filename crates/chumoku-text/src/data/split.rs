//! Dividing examples into training, validation and test, and finding texts that two sets share.
//!
//! The part of a text follows from the text itself, by a hash: equal texts stay together, the order of the file does
//! not matter, and adding rows moves few of the others.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::dataset::Example;
use super::normalize::normalize;
use super::related_rows::group_related;
use crate::feature_columns;

/// Indices of examples, in file order, and what was odd among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// To learn from.
    pub train: Vec<usize>,
    /// To choose by: when to stop, which settings.
    pub valid: Vec<usize>,
    /// To report.
    pub test: Vec<usize>,
    /// Texts that come with more than one label.
    pub conflicts: LabelConflicts,
}

/// Texts that come with more than one label; no classifier can get them all right.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelConflicts {
    /// Distinct texts concerned.
    pub texts: usize,
    /// Rows concerned.
    pub rows: usize,
    /// Up to three of them: the text and its labels.
    pub examples: Vec<(String, Vec<String>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitPart {
    Train,
    Valid,
    Test,
}

/// All rows of one normalised text.
struct SplitGroup<'a> {
    hash: [u8; 32],
    rows: Vec<usize>,
    /// Its labels, the most frequent first, then by name.
    labels: Vec<&'a str>,
    part: SplitPart,
}

/// Divides examples by label and by text.
///
/// Rows whose texts are equal after [`normalize`] form a group and go to the same part. Within each label the groups
/// are sorted by SHA-256 of the seed and the text; the first `test_fraction` of them are for testing, the next
/// `valid_fraction` for validation. A label with three groups or more has at least one in each part that is asked for;
/// a label with fewer is all for training, and every label has some row to train on. A text with several labels counts
/// for its most frequent one. A fraction that is not a positive number asks for nothing.
///
/// Of [pairs](crate::pair) those that share a text form a group too, and so on from pair to pair: a validation row would else
/// be half known. Where that would tie more than a tenth of the rows together, pairs are like single texts.
pub fn split(examples: &[Example], seed: u64, valid_fraction: f64, test_fraction: f64) -> Split {
    let rows: Vec<(&str, &str)> = examples.iter().map(|example| (&*example.text, &*example.label)).collect();
    split_rows(&rows, seed, valid_fraction, test_fraction)
}

/// Divides texts without labels, such as documents and the sources of pairs, in the same way: equal texts go to the same
/// part.
pub fn split_texts<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    seed: u64,
    valid_fraction: f64,
    test_fraction: f64,
) -> Split {
    let rows: Vec<(&str, &str)> = texts.into_iter().map(|text| (text, "")).collect();
    split_rows(&rows, seed, valid_fraction, test_fraction)
}

/// The split of texts with their labels.
fn split_rows(rows: &[(&str, &str)], seed: u64, valid_fraction: f64, test_fraction: f64) -> Split {
    let related = group_related(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
    let mut groups = match &related {
        None => group_rows(rows, seed),
        Some(keys) => group_rows(&rows.iter().zip(keys).map(|(row, key)| (&**key, row.1)).collect::<Vec<_>>(), seed),
    };
    let mut strata: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (g, group) in groups.iter().enumerate() {
        strata.entry(group.labels[0]).or_default().push(g);
    }
    for members in strata.values() {
        let (valid, test) = part_sizes(members.len(), valid_fraction, test_fraction);
        for (rank, &g) in members.iter().enumerate() {
            groups[g].part = match rank {
                _ if rank < test => SplitPart::Test,
                _ if rank < test + valid => SplitPart::Valid,
                _ => SplitPart::Train,
            };
        }
    }
    ensure_train_has_all_labels(&mut groups);

    // What stands beside a text may well decide its label.
    let whole: Vec<String> = rows.iter().map(|row| row.0.replace(feature_columns::SEPARATOR, " | ")).collect();
    let has_columns = rows.iter().any(|row| row.0.contains(feature_columns::SEPARATOR));
    let conflicts = match related {
        None if !has_columns => find_conflicts(rows, &groups),
        _ => {
            let rows: Vec<(&str, &str)> = whole.iter().zip(rows).map(|(whole, row)| (&**whole, row.1)).collect();
            find_conflicts(&rows, &self::group_rows(&rows, seed))
        }
    };
    let mut split = Split { conflicts, ..Split::default() };
    for group in &groups {
        match group.part {
            SplitPart::Train => split.train.extend(&group.rows),
            SplitPart::Valid => split.valid.extend(&group.rows),
            SplitPart::Test => split.test.extend(&group.rows),
        }
    }
    for part in [&mut split.train, &mut split.valid, &mut split.test] {
        part.sort_unstable();
    }
    split
}

/// The groups of equal texts, sorted by hash.
fn group_rows<'a>(rows: &[(&str, &'a str)], seed: u64) -> Vec<SplitGroup<'a>> {
    let mut of_text: HashMap<[u8; 32], Vec<usize>> = HashMap::new();
    for (row, (text, _)) in rows.iter().enumerate() {
        of_text.entry(text_hash(seed, text)).or_default().push(row);
    }
    let mut groups: Vec<SplitGroup> = of_text
        .into_iter()
        .map(|(hash, members)| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for &row in &members {
                *counts.entry(rows[row].1).or_default() += 1;
            }
            let mut labels: Vec<(&str, usize)> = counts.into_iter().collect();
            labels.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            SplitGroup {
                hash,
                rows: members,
                labels: labels.into_iter().map(|(label, _)| label).collect(),
                part: SplitPart::Train,
            }
        })
        .collect();
    groups.sort_unstable_by_key(|group| group.hash);
    groups
}

/// How many of `n` groups are for validation and for testing.
fn part_sizes(n: usize, valid_fraction: f64, test_fraction: f64) -> (usize, usize) {
    let share = |fraction: f64| match fraction > 0.0 {
        true => ((n as f64 * fraction.min(1.0)).round() as usize).max(1),
        false => 0,
    };
    let (mut valid, mut test) = (share(valid_fraction), share(test_fraction));
    if n < 3 {
        return (0, 0);
    }
    while valid + test > n - 1 {
        if valid > test { valid -= 1 } else { test -= 1 }
    }
    (valid, test)
}

/// Moves a group to training for each label that only comes with texts counted for another one.
fn ensure_train_has_all_labels(groups: &mut [SplitGroup]) {
    let mut trained: HashSet<&str> = HashSet::new();
    for group in groups.iter().filter(|group| group.part == SplitPart::Train) {
        trained.extend(&group.labels);
    }
    let mut missing: Vec<&str> = groups.iter().flat_map(|group| group.labels.iter().copied()).collect();
    missing.retain(|label| !trained.contains(label));
    missing.sort_unstable();
    for label in missing {
        if let Some(group) = groups.iter_mut().find(|group| group.labels.contains(&label)) {
            group.part = SplitPart::Train;
        }
    }
}

fn find_conflicts(rows: &[(&str, &str)], groups: &[SplitGroup]) -> LabelConflicts {
    let mut conflicts = LabelConflicts::default();
    for group in groups.iter().filter(|group| group.labels.len() > 1) {
        conflicts.texts += 1;
        conflicts.rows += group.rows.len();
        if conflicts.examples.len() < 3 {
            let labels = group.labels.iter().map(|&label| label.to_owned()).collect();
            conflicts.examples.push((normalize(rows[group.rows[0]].0), labels));
        }
    }
    conflicts
}

fn text_hash(seed: u64, text: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    hasher.update(normalize(text).as_bytes());
    hasher.finalize().into()
}

/// What two sets have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedTexts {
    /// Rows of the second set whose text is also in the first.
    pub count: usize,
    /// Up to three of them.
    pub examples: Vec<SharedText>,
}

/// A text that is in two sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedText {
    /// The text, as the second set has it.
    pub text: String,
    /// The first row of the first set that has it, and the row of the second set, from 0.
    pub rows: [usize; 2],
}

/// Finds the rows of `b` whose texts, after [`normalize`], are also in `a`: what a test set must not share with
/// training.
pub fn shared_texts(a: &[Example], b: &[Example]) -> SharedTexts {
    let [a, b] = [a, b].map(|rows| rows.iter().map(|row| &*row.text).collect::<Vec<_>>());
    shared_rows(&a, &b)
}

/// The same for texts.
pub(crate) fn shared_rows(a: &[&str], b: &[&str]) -> SharedTexts {
    let mut rows: HashMap<[u8; 32], usize> = HashMap::new();
    for (row, text) in a.iter().enumerate() {
        rows.entry(text_hash(0, text)).or_insert(row);
    }
    let mut shared = SharedTexts::default();
    for (row, text) in b.iter().enumerate() {
        if let Some(&first) = rows.get(&text_hash(0, text)) {
            shared.count += 1;
            if shared.examples.len() < 3 {
                shared.examples.push(SharedText { text: (*text).to_owned(), rows: [first, row] });
            }
        }
    }
    shared
}
