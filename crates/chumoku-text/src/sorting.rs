//! Stable sorting by closures, for lists that are not long. The sort moves indices and calls the closure through a pointer,
//! so it is compiled once for all types; the sorts of the standard library are compiled anew for each closure.

use std::cmp::Ordering;

/// Returns the indices from 0 to `count` in the order of `compare`, which gets two of them.
pub fn argsort_by(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Returns the indices of the numbers, the largest first.
pub fn argsort_descending(numbers: &[f32]) -> Vec<usize> {
    argsort_by(numbers.len(), &|a, b| numbers[b].total_cmp(&numbers[a]))
}

/// Sorts by `compare`.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = argsort_by(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Along each cycle of the permutation every item comes to its place by one swap.
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

/// Sorts by a key.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library_equals_included(keys in proptest::collection::vec(0_u8..20, 0..200)) {
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
    fn of_equal_numbers_the_first_stays_first() {
        assert_eq!(argsort_descending(&[0.5, 2.0, 0.5, 3.0, 2.0]), [3, 1, 4, 0, 2]);
        assert_eq!(argsort_descending(&[]), [0; 0]);
    }
}
