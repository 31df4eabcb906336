//! Stable sorting with closures, for short lists. The sort moves indices and calls the closure through a pointer, so it
//! is compiled once for all types. The standard library's sorts are compiled again for every closure.

use std::cmp::Ordering;

/// Returns the indices from 0 to `count` in the order of `compare`, which takes two indices.
pub fn argsort_by(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Returns the indices of the numbers in descending order of their values.
pub fn argsort_descending(numbers: &[f32]) -> Vec<usize> {
    argsort_by(numbers.len(), &|a, b| numbers[b].total_cmp(&numbers[a]))
}

/// Sorts items by `compare`.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = argsort_by(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Follows each cycle of the permutation: every swap puts one item into its place.
    for start in 0..items.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// Sorts items by a key.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_matches_the_standard_library(keys in proptest::collection::vec(0_u8..20, 0..200)) {
            let mut ours: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut theirs = ours.clone();
            sort_by_key(&mut ours, |item| item.0);
            theirs.sort_by_key(|item| item.0);
            prop_assert_eq!(&ours, &theirs);
            sort_by(&mut ours, |a, b| b.0.cmp(&a.0));
            theirs.sort_by_key(|item| std::cmp::Reverse(item.0));
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn equal_numbers_keep_their_order() {
        assert_eq!(argsort_descending(&[0.5, 2.0, 0.5, 3.0, 2.0]), [3, 1, 4, 0, 2]);
        assert_eq!(argsort_descending(&[]), [0; 0]);
    }
}
