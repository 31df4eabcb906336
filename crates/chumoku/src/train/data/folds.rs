//! Assigns rows to cross-validation folds. Each row is evaluated by a model that was not trained on its text.

use crate::data::{group_related, normalize};
use crate::row::{AsRow, RowRef};
use crate::sorting;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Rows with equal text, ignoring case and white space. For text pairs, rows that are connected by shared texts.
struct FoldGroup {
    label: u32,
    hash: [u8; 32],
    rows: Vec<usize>,
}

/// Groups rows by text. Groups are sorted by their most frequent label, then by a hash of seed, round and text. Ties go
/// to the first label.
fn text_groups(texts: &[RowRef<'_>], labels: &[u32], [seed, round]: [u64; 2]) -> Vec<FoldGroup> {
    let mut of_text: BTreeMap<[u8; 32], Vec<usize>> = BTreeMap::new();
    let related = group_related(texts);
    for (row, text) in texts.iter().enumerate() {
        let hash = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(round.to_le_bytes());
        let hash = match &related {
            Some(keys) => hash.chain_update(&keys[row]),
            None => normalize(text).as_row().joined().fold(hash, |hash, part| hash.chain_update(part)),
        };
        let hash = hash.finalize();
        of_text.entry(hash.into()).or_default().push(row);
    }
    let group = |(hash, rows): ([u8; 32], Vec<usize>)| {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        rows.iter().for_each(|&row| *counts.entry(labels[row]).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let label = counts.into_iter().find(|&(_, count)| count == most).map_or(0, |(label, _)| label);
        FoldGroup { label, hash, rows }
    };
    let mut groups: Vec<FoldGroup> = of_text.into_iter().map(group).collect();
    sorting::sort_by_key(&mut groups, |group| (group.label, group.hash));
    groups
}

/// Assigns a fold to each row. Rows with equal text share a fold, as do pairs with a common text. Each label is spread
/// over all folds. The order of the rows does not matter.
pub(crate) fn assign_folds(texts: &[RowRef<'_>], labels: &[u32], folds: usize, seed: [u64; 2]) -> Vec<usize> {
    let mut fold_of = vec![0; texts.len()];
    for (place, group) in text_groups(texts, labels, seed).iter().enumerate() {
        group.rows.iter().for_each(|&row| fold_of[row] = place % folds);
    }
    fold_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Row, as_rows};

    #[test]
    fn pairs_that_share_a_text_share_a_fold() {
        let texts: Vec<Row> =
            (0..60).map(|i| Row::pair(&format!("picture {}", i / 3), &format!("caption {i}"))).collect();
        let texts = as_rows(&texts);
        let folds = assign_folds(&texts, &[0; 60], 4, [1, 0]);
        assert!(folds.chunks(3).all(|of_picture| of_picture.iter().all(|fold| *fold == of_picture[0])), "{folds:?}");
        assert!((0..4).all(|fold| folds.contains(&fold)));
    }

    #[test]
    fn equal_texts_share_a_fold_and_labels_are_spread() {
        let texts: Vec<String> = (0..40).map(|i| format!("Text  number {}", i % 30)).collect();
        let texts = as_rows(&texts);
        let labels: Vec<u32> = (0..40).map(|i| u32::from(i % 30 >= 20)).collect();
        let folds = assign_folds(&texts, &labels, 5, [1, 0]);
        for row in 0..10 {
            assert_eq!(folds[row], folds[row + 30]);
        }
        for label in 0..2 {
            for fold in 0..5 {
                let texts = (0..30).filter(|&row| labels[row] == label && folds[row] == fold).count();
                assert_eq!(texts, if label == 0 { 4 } else { 2 }, "label {label}, fold {fold}");
            }
        }
        assert_ne!(folds, assign_folds(&texts, &labels, 5, [2, 0]));
        assert_ne!(folds, assign_folds(&texts, &labels, 5, [1, 1]));
        let reversed: Vec<RowRef<'_>> = texts.iter().rev().copied().collect();
        let labels: Vec<u32> = labels.iter().rev().copied().collect();
        let mut found = assign_folds(&reversed, &labels, 5, [1, 0]);
        found.reverse();
        assert_eq!(found, folds);
    }
}
