//! Confident learning (Northcutt, Jiang & Chuang, "Confident learning: estimating uncertainty in dataset labels", JAIR
//! 2021): estimates from out-of-fold probabilities which labels are likely wrong, and how many.
//!
//! The threshold tⱼ of a class is the mean probability of the class over its own rows. A row counts as class j if its
//! probability of j reaches tⱼ; of several such classes, the most probable wins. The confident joint C counts the rows
//! by given label and counted class. Its rows, scaled to the number of rows of each given label, estimate the joint
//! distribution of given and true labels. The part off the diagonal is label noise.

use std::collections::BTreeMap;

/// The off-diagonal part of the confident joint.
pub(super) struct ConfidentJoint {
    /// Estimated number of rows by given label (first) and true label (second). Only pairs of different labels above 0.
    pub(super) pairs: BTreeMap<[u32; 2], f64>,
}

impl ConfidentJoint {
    /// Estimates the joint from out-of-fold probabilities (rows, classes) and the given labels.
    pub(super) fn estimate(probabilities: &[f32], labels: &[u32], classes: usize) -> ConfidentJoint {
        let (mut sums, mut rows) = (vec![0.0_f64; classes], vec![0_usize; classes]);
        for (p, &label) in probabilities.chunks_exact(classes).zip(labels) {
            sums[label as usize] += f64::from(p[label as usize]);
            rows[label as usize] += 1;
        }
        let threshold = |(sum, &rows): (&f64, &usize)| if rows == 0 { 1.0 } else { sum / rows as f64 };
        let thresholds: Vec<f64> = sums.iter().zip(&rows).map(threshold).collect();
        let counted_as = |p: &[f32]| {
            let reached = (0..classes).filter(|&class| f64::from(p[class]) >= thresholds[class]);
            let best = reached.max_by(|&a, &b| p[a].total_cmp(&p[b]).then_with(|| b.cmp(&a)));
            best.map(|class| class as u32)
        };
        let counted: Vec<Option<u32>> = probabilities.chunks_exact(classes).map(counted_as).collect();
        let (mut joint, mut of_given): (BTreeMap<[u32; 2], usize>, Vec<usize>) = (BTreeMap::new(), vec![0; classes]);
        for (&given, counted) in labels.iter().zip(&counted) {
            if let Some(counted) = *counted {
                *joint.entry([given, counted]).or_default() += 1;
                of_given[given as usize] += 1;
            }
        }
        let off_diagonal = joint.into_iter().filter(|([given, counted], _)| given != counted);
        let scaled = |([given, counted], n): ([u32; 2], usize)| {
            let share = n as f64 / of_given[given as usize] as f64;
            ([given, counted], share * rows[given as usize] as f64)
        };
        ConfidentJoint { pairs: off_diagonal.map(scaled).collect() }
    }

    /// Returns the estimated number of rows with a wrong label.
    pub(super) fn num_wrong(&self) -> f64 {
        // An empty sum is −0.0.
        self.pairs.values().sum::<f64>() + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thresholds are 0.75 and 0.625. One of the four rows of each class counts as the other.
    #[test]
    fn the_joint_matches_the_paper() {
        let probabilities = [0.9, 0.1, 0.8, 0.2, 0.95, 0.05, 0.35, 0.65, 0.1, 0.9, 0.2, 0.8, 0.9, 0.1, 0.3, 0.7];
        let found = ConfidentJoint::estimate(&probabilities, &[0, 0, 0, 0, 1, 1, 1, 1], 2);
        assert_eq!(found.pairs, BTreeMap::from([([0, 1], 1.0), ([1, 0], 1.0)]));
        assert_eq!(found.num_wrong(), 2.0);
    }

    #[test]
    fn rows_below_every_threshold_are_scaled_in() {
        // The thresholds are 0.433, 0.85 and 0.9. The third row reaches none.
        let probabilities =
            [0.9, 0.05, 0.05, 0.05, 0.9, 0.05, 0.35, 0.33, 0.32, 0.05, 0.9, 0.05, 0.05, 0.05, 0.9, 0.1, 0.8, 0.1];
        let found = ConfidentJoint::estimate(&probabilities, &[0, 0, 0, 1, 2, 1], 3);
        // One of the two counted rows of class 0, scaled to its three rows.
        assert_eq!(found.pairs, BTreeMap::from([([0, 1], 1.5)]));
    }
}
