//! Estimates false alarms: labels that differ from the models' answers because the models are wrong.
//!
//! Wrong labels are about as frequent among confident answers as among others. The models' own errors become rarer as
//! confidence grows. So the share of differing labels among the most confident rows estimates the share of wrong labels
//! everywhere. Where more labels differ, the rest are errors of the models. For a row, the probability of a false alarm
//! is 1 − (share of wrong labels) / (share of rows of that confidence that differ).

use crate::sorting;

/// The most confident rows: one in this many, and at least this many.
const MOST_CONFIDENT: [usize; 2] = [10, 50];

/// Rows of about the same confidence.
struct ConfidenceBlock {
    rows: f64,
    differing: f64,
}

impl ConfidenceBlock {
    fn differing_share(&self) -> f64 {
        self.differing / self.rows
    }
}

/// Returns the probability of a false alarm for each row, given the models' confidence and whether the label differs
/// from their answer.
///
/// The share that differs is a monotone function of the confidence, fitted by pooling adjacent violators (Ayer et al.
/// 1955).
pub(super) fn false_alarm_probabilities(rows: &[(f32, bool)]) -> Vec<f64> {
    let order = sorting::argsort_by(rows.len(), &|a, b| rows[b].0.total_cmp(&rows[a].0));
    // Rows of equal confidence are one block, so that their order does not matter.
    let mut ties: Vec<ConfidenceBlock> = Vec::new();
    let mut tie_of = vec![0; rows.len()];
    for (place, &row) in order.iter().enumerate() {
        if place == 0 || rows[order[place - 1]].0 != rows[row].0 {
            ties.push(ConfidenceBlock { rows: 0.0, differing: 0.0 });
        }
        tie_of[row] = ties.len() - 1;
        let tie = &mut ties[tie_of[row]];
        tie.rows += 1.0;
        tie.differing += f64::from(u8::from(rows[row].1));
    }
    let wrong = wrong_label_share(&ties, rows.len());
    let mut pooled: Vec<(ConfidenceBlock, usize)> = Vec::new();
    for tie in ties {
        let mut block = (tie, 1);
        while let Some((last, count)) = pooled.pop_if(|(last, _)| last.differing_share() >= block.0.differing_share()) {
            block = (
                ConfidenceBlock { rows: last.rows + block.0.rows, differing: last.differing + block.0.differing },
                block.1 + count,
            );
        }
        pooled.push(block);
    }
    let chance = |share: f64| if share > 0.0 { (1.0 - wrong / share).max(0.0) } else { 0.0 };
    let of_ties: Vec<f64> =
        pooled.iter().flat_map(|(block, count)| std::iter::repeat_n(chance(block.differing_share()), *count)).collect();
    tie_of.into_iter().map(|tie| of_ties[tie]).collect()
}

/// Estimates the share of wrong labels: the share that differs among the most confident rows, minus one standard error.
///
/// The number of most confident rows is doubled while labels differ about as often among the added rows. Where the
/// models hardly err, the share that differs does not depend on confidence.
fn wrong_label_share(ties: &[ConfidenceBlock], rows: usize) -> f64 {
    let mut surest = (rows / MOST_CONFIDENT[0]).max(MOST_CONFIDENT[1]).min(rows);
    let error = |differ: f64, rows: f64| (differ * (1.0 - differ) / rows.max(1.0)).sqrt();
    // One imaginary differing row: none of fifty does not prove that there are none.
    let share = |differ: f64, rows: f64| (differ + 1.0) / (rows + 1.0);
    while surest > 0 && 2 * surest <= rows {
        let n = surest as f64;
        let [first, both] = [surest, 2 * surest].map(|rows| count_differing(ties, rows));
        let [before, behind] = [share(first, n), share(both - first, n)];
        if behind - before > error(before, n).hypot(error(behind, n)) {
            break;
        }
        surest *= 2;
    }
    let n = surest as f64;
    let found = share(count_differing(ties, surest), n);
    (found - error(found, n)).max(1.0 / (n + 1.0))
}

/// Counts the differing labels among the `rows` most confident rows. A tie contributes in proportion.
fn count_differing(ties: &[ConfidenceBlock], rows: usize) -> f64 {
    let (mut left, mut differ) = (rows as f64, 0.0);
    for tie in ties {
        let taken = tie.rows.min(left);
        differ += tie.differing_share() * taken;
        left -= taken;
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    /// Simulates rows, a share `noise` of them with wrong labels. The models' confidence is calibrated and at least
    /// `least`. Each row is (confidence, label differs, label is wrong).
    fn rows(n: u64, least: f32, noise: f32) -> Vec<(f32, bool, bool)> {
        let random = Philox::new(3, 1);
        let row = |i: u64| {
            let confidence = least + (1.0 - least) * random.uniform(3 * i);
            let (is_right, is_wrong) = (random.uniform(3 * i + 1) < confidence, random.uniform(3 * i + 2) < noise);
            (confidence, is_right == is_wrong, is_wrong)
        };
        (0..n).map(row).collect()
    }

    /// Returns the expected and the true number of false alarms, and the number of differing labels.
    fn alarms(rows: &[(f32, bool, bool)]) -> [f64; 3] {
        let scored: Vec<(f32, bool)> = rows.iter().map(|row| (row.0, row.1)).collect();
        let expected = false_alarm_probabilities(&scored)
            .iter()
            .zip(rows)
            .filter(|(_, row)| row.1)
            .map(|(chance, _)| chance)
            .sum();
        let of = |counts: &dyn Fn(&&(f32, bool, bool)) -> bool| rows.iter().filter(counts).count() as f64;
        [expected, of(&|row| row.1 && !row.2), of(&|row| row.1)]
    }

    #[test]
    fn false_alarms_are_about_as_many_as_expected() {
        // Weak models and no wrong labels: every difference is a false alarm.
        let [expected, truth, differ] = alarms(&rows(2000, 0.5, 0.0));
        assert!(truth == differ && expected > 0.88 * differ, "{expected} of {differ}");
        // Strong models, and one wrong label in twenty: hardly any false alarms.
        let [expected, truth, differ] = alarms(&rows(2000, 0.99, 0.05));
        assert!(truth < 0.2 * differ && expected < 0.35 * differ, "{expected} of {differ}, {truth}");
        // Weak models, and one wrong label in twenty.
        let [expected, truth, _] = alarms(&rows(5000, 0.5, 0.05));
        assert!((expected - truth).abs() < 0.2 * truth, "{expected} for {truth}");
    }

    #[test]
    fn the_order_of_rows_does_not_matter() {
        let mut scored: Vec<(f32, bool)> =
            rows(300, 0.5, 0.1).iter().map(|row| ((10.0 * row.0).round() / 10.0, row.1)).collect();
        let of = |scored: &[(f32, bool)]| {
            let mut found: Vec<(u32, u64)> = false_alarm_probabilities(scored)
                .iter()
                .zip(scored)
                .map(|(chance, row)| (row.0.to_bits(), chance.to_bits()))
                .collect();
            found.sort_unstable();
            found
        };
        let found = of(&scored);
        scored.reverse();
        assert_eq!(of(&scored), found);
        assert!(false_alarm_probabilities(&[]).is_empty());
        assert_eq!(false_alarm_probabilities(&[(0.9, false)]), [0.0]);
    }
}
