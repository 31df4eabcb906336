//! Splits examples into training, validation and test sets, and finds texts that two sets share.
//!
//! A hash of the text decides its set. So equal texts stay together, the order of the file does not matter, and adding
//! rows moves few of the others.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::dataset::Example;
use super::normalize::normalize;
use super::related_rows::group_related;
use crate::row::{AsRow, Row, RowRef};

/// The indices of the examples in each set, in file order, and label conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// Training rows.
    pub train: Vec<usize>,
    /// Validation rows, for early stopping and settings.
    pub valid: Vec<usize>,
    /// Test rows.
    pub test: Vec<usize>,
    /// Texts with more than one label.
    pub conflicts: LabelConflicts,
}

/// Texts with more than one label. No classifier can get all of their rows right.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelConflicts {
    /// Number of distinct texts.
    pub texts: usize,
    /// Number of rows.
    pub rows: usize,
    /// Up to three of these texts, with their labels.
    pub examples: Vec<(Row, Vec<String>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitPart {
    Train,
    Valid,
    Test,
}

/// All rows of one normalized text.
struct SplitGroup<'a> {
    hash: [u8; 32],
    rows: Vec<usize>,
    /// The labels of the text, the most frequent first, then by name.
    labels: Vec<&'a str>,
    part: SplitPart,
}

/// Splits examples, stratified by label and grouped by text.
///
/// Rows whose texts are equal after [`normalize`] form a group and stay together. Within each label, the groups are
/// sorted by SHA-256 of the seed and the text. The first `test_fraction` of them are for testing, the next
/// `valid_fraction` for validation.
///
/// A label with three or more groups has at least one in each requested set. A label with fewer is only for training,
/// and every label has some training row. A text with several labels counts for its most frequent one. A fraction that
/// is not positive requests no set.
///
/// [Pairs](crate::row) that share a text also form a group, directly or through other pairs. Otherwise, the model
/// would know half of a validation row from training. If such a group would exceed a tenth of the rows, pairs are
/// treated like single texts.
pub fn split(examples: &[Example], seed: u64, valid_fraction: f64, test_fraction: f64) -> Split {
    let rows: Vec<_> = examples.iter().map(|example| (example.text.as_row(), &*example.label)).collect();
    split_rows(&rows, seed, valid_fraction, test_fraction)
}

/// Splits texts without labels, such as documents or the sources of pairs. Equal texts stay together.
pub(crate) fn split_texts<R: AsRow>(texts: &[R], seed: u64, valid_fraction: f64, test_fraction: f64) -> Split {
    let rows: Vec<_> = texts.iter().map(|text| (text.as_row(), "")).collect();
    split_rows(&rows, seed, valid_fraction, test_fraction)
}

/// Splits texts with their labels.
fn split_rows(rows: &[(RowRef<'_>, &str)], seed: u64, valid_fraction: f64, test_fraction: f64) -> Split {
    let related = group_related(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
    let mut groups = match &related {
        None => group_rows(rows, seed),
        Some(keys) => {
            group_rows(&rows.iter().zip(keys).map(|(row, key)| (key.as_row(), row.1)).collect::<Vec<_>>(), seed)
        }
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

    // Feature columns may explain different labels of equal texts.
    let conflicts = match related {
        None if !rows.iter().any(|row| row.0.has_values()) => find_conflicts(rows, &groups),
        _ => {
            let whole: Vec<Row> = rows.iter().map(|row| row.0.with_visible_values()).collect();
            let rows: Vec<_> = whole.iter().zip(rows).map(|(whole, row)| (whole.as_row(), row.1)).collect();
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

/// Groups the rows by text, sorted by hash.
fn group_rows<'a>(rows: &[(RowRef<'_>, &'a str)], seed: u64) -> Vec<SplitGroup<'a>> {
    let mut of_text: HashMap<[u8; 32], Vec<usize>> = HashMap::new();
    for (row, (text, _)) in rows.iter().enumerate() {
        of_text.entry(text_hash(seed, *text)).or_default().push(row);
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

/// Returns the numbers of validation and test groups out of `n`.
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

/// Moves groups to training so that every label occurs there, including labels whose texts count for another label.
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

fn find_conflicts(rows: &[(RowRef<'_>, &str)], groups: &[SplitGroup]) -> LabelConflicts {
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

/// Hashes a row without its feature columns. The hash decides the part of the split, so it must never change.
fn text_hash(seed: u64, row: RowRef<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    normalize(row).as_row().joined().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// The texts that two sets have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedTexts {
    /// Rows of the second set whose text is also in the first.
    pub count: usize,
    /// Up to three of them.
    pub examples: Vec<SharedText>,
}

/// A text that occurs in two sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedText {
    /// The text, as in the second set.
    pub text: Row,
    /// The first row in the first set, and the row in the second set, from 0.
    pub rows: [usize; 2],
}

/// Finds the rows of `b` whose texts, after [`normalize`], also occur in `a`. A test set should share none with the
/// training set.
pub fn shared_texts(a: &[Example], b: &[Example]) -> SharedTexts {
    let [a, b] = [a, b].map(|rows| rows.iter().map(|row| &row.text).collect::<Vec<_>>());
    shared_rows(&a, &b)
}

/// [`shared_texts`] for rows without labels.
pub(crate) fn shared_rows<R: AsRow>(a: &[R], b: &[R]) -> SharedTexts {
    let mut rows: HashMap<[u8; 32], usize> = HashMap::new();
    for (row, text) in a.iter().enumerate() {
        rows.entry(text_hash(0, text.as_row())).or_insert(row);
    }
    let mut shared = SharedTexts::default();
    for (row, text) in b.iter().enumerate() {
        if let Some(&first) = rows.get(&text_hash(0, text.as_row())) {
            shared.count += 1;
            if shared.examples.len() < 3 {
                shared.examples.push(SharedText { text: text.as_row().to_row(), rows: [first, row] });
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_rows_are_fixed() {
        let pair = Row::pair("One  TEXT", "two ");
        let hash = "d896b37efec67683ff9a5d8a767e655f2a11904ce0ac8128e7c85755bcb5891f";
        assert_eq!(crate::checksum::hex(text_hash(7, pair.as_row())), hash);
        assert_eq!(crate::checksum::hex(text_hash(7, pair.as_row().with_values(&["3"]).as_row())), hash);
        assert_ne!(crate::checksum::hex(text_hash(8, pair.as_row())), hash);
    }
}
