//! Groups pairs that share a text.

use super::normalize::normalize_text;
use crate::row::AsRow;
use std::collections::HashMap;

/// The largest fraction of the rows that a group may have.
const MAX_GROUP_FRACTION: f64 = 0.1;

/// Groups pairs that share a text, directly or through other pairs. Returns a key for each pair: the smallest text of
/// its group.
///
/// Returns `None` if the texts are not pairs, or if a group would be too large.
#[must_use]
pub fn group_related<R: AsRow>(rows: &[R]) -> Option<Vec<String>> {
    let pairs: Vec<_> =
        rows.iter().map(|row| row.as_row().pair()).collect::<Option<_>>().filter(|all: &Vec<_>| !all.is_empty())?;
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut number = |text: &str| {
        let next = numbers.len();
        *numbers.entry(normalize_text(text)).or_insert(next)
    };
    let pairs: Vec<[usize; 2]> = pairs.into_iter().map(|(first, second)| [number(first), number(second)]).collect();
    let mut names = vec![String::new(); numbers.len()];
    numbers.into_iter().for_each(|(text, number)| names[number] = text);

    // A union-find structure. The root of a set is its smallest text.
    let mut parents: Vec<usize> = (0..names.len()).collect();
    for [first, second] in &pairs {
        let [a, b] = [find_root(&mut parents, *first), find_root(&mut parents, *second)];
        let [low, high] = if names[a] <= names[b] { [a, b] } else { [b, a] };
        parents[high] = low;
    }
    let roots: Vec<usize> = pairs.iter().map(|pair| find_root(&mut parents, pair[0])).collect();
    let mut sizes = vec![0; names.len()];
    roots.iter().for_each(|&root| sizes[root] += 1);
    let largest = sizes.into_iter().max().unwrap_or(0);
    // Small groups are always accepted.
    if largest as f64 > (MAX_GROUP_FRACTION * rows.len() as f64).max(1.0) {
        return None;
    }
    Some(roots.into_iter().map(|root| names[root].clone()).collect())
}

fn find_root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    #[test]
    fn pairs_that_share_a_text_stay_together() {
        let mut pairs: Vec<Row> =
            (0..200).map(|i| Row::pair(&format!("picture {}", i / 4), &format!("caption {i}"))).collect();
        pairs.extend((0..10).map(|i| Row::pair(&format!("caption {}", 9 * i), &format!("other {i}"))));
        let keys = group_related(&pairs).unwrap();
        assert!(keys[0] == keys[1] && keys[3] == keys[0] && keys[4] != keys[0]);
        assert_eq!(keys[200], keys[0], "through a shared caption");
        // The order of the rows does not matter.
        let backwards: Vec<&Row> = pairs.iter().rev().collect();
        let again = group_related(&backwards).unwrap();
        assert!(again.iter().rev().eq(&keys));
    }

    #[test]
    fn one_text_shared_by_all_rows_forms_no_group() {
        let same: Vec<Row> = (0..50).map(|i| Row::pair("the question", &format!("answer {i}"))).collect();
        assert_eq!(group_related(&same), None);
        assert_eq!(group_related(&["alone", "texts"]), None);
        assert_eq!(group_related::<Row>(&[]), None);
    }
}
