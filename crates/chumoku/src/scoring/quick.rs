//! Accuracy and macro-F1 alone, without intervals.

/// Right, true and predicted rows of each class → (accuracy, macro-F1).
fn figures(right: &[usize], truth: &[usize], predicted: &[usize]) -> (f64, f64) {
    let rows: usize = truth.iter().sum();
    let (mut f1, mut occurring) = (0.0, 0);
    for ((&right, &truth), &predicted) in right.iter().zip(truth).zip(predicted) {
        if truth + predicted > 0 {
            f1 += 2.0 * right as f64 / (truth + predicted) as f64;
            occurring += 1;
        }
    }
    (right.iter().sum::<usize>() as f64 / rows.max(1) as f64, f1 / f64::from(occurring.max(1)))
}

fn tally(rows: impl Iterator<Item = (u32, u32)>, classes: usize) -> (f64, f64) {
    let mut counts = [vec![0; classes], vec![0; classes], vec![0; classes]];
    for (t, p) in rows {
        counts[0][t as usize] += usize::from(t == p);
        counts[1][t as usize] += 1;
        counts[2][p as usize] += 1;
    }
    figures(&counts[0], &counts[1], &counts[2])
}

/// Accuracy and macro-F1 alone, as training needs them after every epoch.
pub fn quick_scores(truth: &[u32], predicted: &[u32], classes: usize) -> (f64, f64) {
    tally(truth.iter().copied().zip(predicted.iter().copied()), classes)
}
