//! Finds groups of equal and nearly equal texts, and texts that a test file shares with the training file.

use super::shingles::Near;
use crate::data::normalize;
use std::collections::{BTreeMap, HashMap};

/// A group of rows with equal or nearly equal texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Row indices, ascending; at least two.
    pub rows: Vec<usize>,
    /// True if all texts are equal except for case and white space.
    pub exact: bool,
    /// The smallest Jaccard similarity among the compared pairs; 1 for equal texts.
    pub similarity: f32,
    /// True if the rows have different labels.
    pub conflict: bool,
}

/// A row of the test file whose text is also in the training file, exactly or nearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leak {
    /// The row of the test file, from 0.
    pub row: usize,
    /// The most similar row of the training file.
    pub of: usize,
    /// True if the two texts are equal except for case and white space.
    pub exact: bool,
    /// Jaccard similarity of the two texts.
    pub similarity: f32,
}

/// A union–find structure over texts.
struct Union {
    parent: Vec<usize>,
}

impl Union {
    fn root(&mut self, mut of: usize) -> usize {
        while self.parent[of] != of {
            self.parent[of] = self.parent[self.parent[of]];
            of = self.parent[of];
        }
        of
    }

    fn join(&mut self, [a, b]: [usize; 2]) {
        let [a, b] = [self.root(a), self.root(b)];
        self.parent[a.max(b)] = a.min(b);
    }
}

/// Returns for each text the first row with the same text, ignoring case and white space.
fn firsts(texts: &[&str]) -> Vec<usize> {
    let mut known: HashMap<String, usize> = HashMap::new();
    texts.iter().enumerate().map(|(row, text)| *known.entry(normalize(text)).or_insert(row)).collect()
}

/// Returns the groups among the first `labels.len()` texts, ordered by their first rows.
pub(super) fn groups(texts: &[&str], labels: &[u32], near: &[Near]) -> Vec<Group> {
    let firsts = firsts(&texts[..labels.len()]);
    let mut union = Union { parent: (0..labels.len()).collect() };
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
        Group { rows, exact, similarity, conflict }
    };
    members.into_iter().filter(|(_, rows)| rows.len() > 1).map(group).collect()
}

/// Returns the texts from `num_train` on that also occur before it.
pub(super) fn leaks(texts: &[&str], trained: usize, near: &[Near]) -> Vec<Leak> {
    let firsts = firsts(texts);
    let mut best: BTreeMap<usize, Leak> = BTreeMap::new();
    for (row, &of) in firsts.iter().enumerate().skip(trained).filter(|&(_, &of)| of < trained) {
        best.insert(row, Leak { row: row - trained, of, exact: true, similarity: 1.0 });
    }
    for Near { texts: [of, row], similarity } in near.iter().copied() {
        if of < trained && row >= trained && best.get(&row).is_none_or(|leak| leak.similarity < similarity) {
            best.insert(row, Leak { row: row - trained, of, exact: false, similarity });
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
        let near = near.map(|(texts, similarity)| Near { texts, similarity });
        let found = groups(&texts, &[0, 1, 0, 1, 2], &near);
        assert_eq!(found, [Group { rows: vec![0, 2, 3], exact: false, similarity: 1.0, conflict: true }]);
        let found = leaks(&texts, 5, &near);
        let expected = [
            Leak { row: 0, of: 1, exact: true, similarity: 1.0 },
            Leak { row: 1, of: 3, exact: false, similarity: 0.8 },
        ];
        assert_eq!(found, expected);
    }
}
