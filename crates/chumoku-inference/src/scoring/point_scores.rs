//! Accuracy and macro-F1 without intervals.

/// Computes accuracy and macro-F1 from the correct, true and predicted rows of each class.
fn scores_from_counts(right: &[f64], truth: &[f64], predicted: &[f64]) -> (f64, f64) {
    let rows: f64 = truth.iter().sum();
    let (mut f1, mut occurring) = (0.0, 0);
    for ((&right, &truth), &predicted) in right.iter().zip(truth).zip(predicted) {
        if truth + predicted > 0.0 {
            f1 += 2.0 * right / (truth + predicted);
            occurring += 1;
        }
    }
    let accuracy = if rows > 0.0 { right.iter().sum::<f64>() / rows } else { 0.0 };
    (accuracy, f1 / f64::from(occurring.max(1)))
}

/// Returns accuracy and macro-F1, as training needs them after every epoch.
pub fn accuracy_and_macro_f1(truth: &[u32], predicted: &[u32], classes: usize) -> (f64, f64) {
    weighted_accuracy_and_macro_f1(truth, predicted, None, classes)
}

/// Returns weighted accuracy and macro-F1.
pub fn weighted_accuracy_and_macro_f1(
    truth: &[u32],
    predicted: &[u32],
    weights: Option<&[f32]>,
    classes: usize,
) -> (f64, f64) {
    let mut counts = [vec![0.0; classes], vec![0.0; classes], vec![0.0; classes]];
    for (row, (&t, &p)) in truth.iter().zip(predicted).enumerate() {
        let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
        counts[0][t as usize] += if t == p { weight } else { 0.0 };
        counts[1][t as usize] += weight;
        counts[2][p as usize] += weight;
    }
    scores_from_counts(&counts[0], &counts[1], &counts[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_counts_as_repetitions_of_a_row() {
        let (truth, predicted) = ([0, 1, 1, 2], [0, 1, 2, 2]);
        let found = weighted_accuracy_and_macro_f1(&truth, &predicted, Some(&[1.0, 2.0, 3.0, 0.0]), 4);
        let twice = accuracy_and_macro_f1(&[0, 1, 1, 1, 1, 1], &[0, 1, 1, 2, 2, 2], 4);
        assert_eq!(found, twice);
        assert_eq!(
            weighted_accuracy_and_macro_f1(&truth, &predicted, Some(&[1.0; 4]), 4),
            accuracy_and_macro_f1(&truth, &predicted, 4)
        );
        assert_eq!(accuracy_and_macro_f1(&[], &[], 2), (0.0, 0.0));
    }
}
