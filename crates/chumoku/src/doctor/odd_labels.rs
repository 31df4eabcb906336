//! Finds odd labels: those with a single text, and those that nearly match another label.

use crate::data::{label_key, normalize};
use crate::lang::wording::nearest_name;
use crate::row::RowRef;
use crate::sorting;
use std::collections::HashSet;

/// A label that is probably a typo, or has only one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddLabel {
    /// Index of the label.
    pub(crate) label: u32,
    /// True if only one text has it, so that no model of other texts can predict it.
    pub(crate) has_one_text: bool,
    /// The label that was probably intended.
    pub(crate) intended: Option<u32>,
}

/// Finds labels with a single text, and labels that differ from an at least equally frequent one only in case and white
/// space.
pub(super) fn find_odd_labels(labels: &[String], answers: &[u32], texts: &[RowRef<'_>]) -> Vec<OddLabel> {
    let mut of_label = vec![HashSet::new(); labels.len()];
    let mut rows = vec![0_usize; labels.len()];
    for (&answer, text) in answers.iter().zip(texts) {
        rows[answer as usize] += 1;
        // Two distinct texts suffice.
        if of_label[answer as usize].len() < 2 {
            of_label[answer as usize].insert(normalize(text));
        }
    }
    let keys: Vec<String> = labels.iter().map(|label| label_key(label)).collect();
    let oddity = |label: usize| {
        let single = of_label[label].len() < 2;
        let mut others: Vec<usize> = (0..labels.len()).filter(|&other| rows[other] > rows[label]).collect();
        sorting::sort_by_key(&mut others, |&other| std::cmp::Reverse(rows[other]));
        let others = || others.iter().copied();
        // Among equally frequent labels, the first counts as the intended one.
        let is_before =
            |other: usize| (rows[other], std::cmp::Reverse(other)) > (rows[label], std::cmp::Reverse(label));
        let same = (0..labels.len()).filter(|&other| is_before(other) && keys[other] == keys[label]);
        let same = same.max_by_key(|&other| (rows[other], std::cmp::Reverse(other)));
        let close = || {
            let name = nearest_name(&labels[label], others().map(|other| labels[other].as_str()))?;
            labels.iter().position(|other| other == name)
        };
        let meant = same.or_else(|| if single { close() } else { None }).map(|other| other as u32);
        (single || meant.is_some()).then_some(OddLabel { label: label as u32, has_one_text: single, intended: meant })
    };
    (0..labels.len()).filter_map(oddity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::AsRow;

    #[test]
    fn typos_in_labels_are_found() {
        let labels = ["Good", "bad", "good", "goood", "other"].map(String::from);
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"].map(str::as_row);
        let found = find_odd_labels(&labels, &[0, 0, 1, 1, 2, 2, 2, 3, 4], &texts[..9]);
        let expected = [(0, false, Some(2)), (3, true, Some(2)), (4, true, None)];
        let expected = expected.map(|(label, single, meant)| OddLabel { label, has_one_text: single, intended: meant });
        assert_eq!(found, expected);
        // Equally frequent labels; missing white space.
        let labels = ["Pos", "neg", "pos", "very good", "verygood"].map(String::from);
        let found = find_odd_labels(&labels, &[0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4], &texts);
        let expected = [(2, false, Some(0)), (4, false, Some(3))];
        assert_eq!(
            found,
            expected.map(|(label, single, meant)| OddLabel { label, has_one_text: single, intended: meant })
        );
    }
}
