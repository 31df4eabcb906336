//! Finds groups of equal and nearly equal texts, and texts that a test file shares with the training file.

use super::shingles::NearPair;
use crate::data::normalize;
use crate::row::{AsRow, Row};
use std::collections::{BTreeMap, HashMap};

/// A group of rows with equal or nearly equal texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DuplicateGroup {
    /// Row indices, ascending; at least two.
    pub rows: Vec<usize>,
    /// True if all texts are equal except for case and white space.
    pub(crate) is_exact: bool,
    /// The smallest Jaccard similarity among the compared pairs; 1 for equal texts.
    pub(crate) similarity: f32,
    /// True if the rows have different labels.
    pub(crate) has_conflict: bool,
}

/// A row of the test file whose text is also in the training file, exactly or nearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TestLeak {
    /// The row of the test file, from 0.
    pub row: usize,
    /// The most similar row of the training file.
    pub(crate) train_row: usize,
    /// True if the two texts are equal except for case and white space.
    pub(crate) is_exact: bool,
    /// Jaccard similarity of the two texts.
    pub(crate) similarity: f32,
}

/// A union–find structure over texts.
struct UnionFind {
    parent: Vec<usize>,
}

impl UnionFind {
    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, [a, b]: [usize; 2]) {
        let [a, b] = [self.root(a), self.root(b)];
        self.parent[a.max(b)] = a.min(b);
    }
}

/// Returns for each text the first row with the same text, ignoring case and white space.
fn first_occurrences<R: AsRow>(texts: &[R]) -> Vec<usize> {
    let mut known: HashMap<Row, usize> = HashMap::new();
    texts.iter().enumerate().map(|(row, text)| *known.entry(normalize(text)).or_insert(row)).collect()
}

/// Returns the groups among the first `labels.len()` texts, ordered by their first rows.
pub(super) fn find_groups<R: AsRow>(texts: &[R], labels: &[u32], near: &[NearPair]) -> Vec<DuplicateGroup> {
    let firsts = first_occurrences(&texts[..labels.len()]);
    let mut union = UnionFind { parent: (0..labels.len()).collect() };
    firsts.iter().enumerate().for_each(|(row, &first)| union.join([row, first]));
    let within = near.iter().filter(|near| near.texts[1] < labels.len());
    within.clone().for_each(|near| union.join(near.texts));
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    (0..labels.len()).for_each(|row| members.entry(union.root(row)).or_default().push(row));
    let mut least: BTreeMap<usize, f32> = BTreeMap::new();
    for near in within {
        let least = least.entry(union.root(near.texts[0])).or_insert(1.0);
        *least = least.min(near.similarity);
    }
    let group = |(root, rows): (usize, Vec<usize>)| {
        let exact = rows.iter().all(|&row| firsts[row] == firsts[rows[0]]);
        let conflict = rows.iter().any(|&row| labels[row] != labels[rows[0]]);
        let similarity = if exact { 1.0 } else { least.get(&root).copied().unwrap_or(1.0) };
        DuplicateGroup { rows, is_exact: exact, similarity, has_conflict: conflict }
    };
    members.into_iter().filter(|(_, rows)| rows.len() > 1).map(group).collect()
}

/// Returns the texts from `num_train` on that also occur before it.
pub(super) fn find_leaks<R: AsRow>(texts: &[R], num_train: usize, near: &[NearPair]) -> Vec<TestLeak> {
    let firsts = first_occurrences(texts);
    let mut best: BTreeMap<usize, TestLeak> = BTreeMap::new();
    for (row, &of) in firsts.iter().enumerate().skip(num_train).filter(|&(_, &of)| of < num_train) {
        best.insert(row, TestLeak { row: row - num_train, train_row: of, is_exact: true, similarity: 1.0 });
    }
    for NearPair { texts: [of, row], similarity } in near.iter().copied() {
        if of < num_train && row >= num_train && best.get(&row).is_none_or(|leak| leak.similarity < similarity) {
            best.insert(row, TestLeak { row: row - num_train, train_row: of, is_exact: false, similarity });
        }
    }
    best.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_similar_texts_form_groups_and_leaks() {
        let texts = ["One text", "another one", "one  TEXT", "one text!", "alone", "Another one", "one texts", "new"];
        let near = [([0, 2], 1.0), ([0, 3], 1.0), ([3, 6], 0.8), ([1, 5], 1.0)];
        let near = near.map(|(texts, similarity)| NearPair { texts, similarity });
        let found = find_groups(&texts, &[0, 1, 0, 1, 2], &near);
        assert_eq!(
            found,
            [DuplicateGroup { rows: vec![0, 2, 3], is_exact: false, similarity: 1.0, has_conflict: true }]
        );
        let found = find_leaks(&texts, 5, &near);
        let expected = [
            TestLeak { row: 0, train_row: 1, is_exact: true, similarity: 1.0 },
            TestLeak { row: 1, train_row: 3, is_exact: false, similarity: 0.8 },
        ];
        assert_eq!(found, expected);
    }
}
