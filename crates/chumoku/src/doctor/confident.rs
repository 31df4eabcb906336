//! Confident learning (Northcutt, Jiang & Chuang, "Confident learning: estimating uncertainty in dataset labels", JAIR
//! 2021): which labels are likely wrong, and how many, from probabilities that have not seen them.
//!
//! The threshold tⱼ of a class is the mean probability that its own rows have of it. A row is counted as class j if its
//! probability of j reaches tⱼ (of several such classes the most probable). The confident joint C counts the rows by given
//! label and by the class they are counted as. Its rows, scaled to the numbers of given labels, are the estimate of how
//! labels and truth go together; what is off its diagonal is noise.

use std::collections::BTreeMap;

/// What confident learning finds.
pub(super) struct Confident {
    /// Estimated rows with a given label (first) whose true one is another (second); only those above 0.
    pub(super) pairs: BTreeMap<[u32; 2], f64>,
}

impl Confident {
    /// From probabilities (rows, classes) and the given labels.
    pub(super) fn of(probabilities: &[f32], labels: &[u32], classes: usize) -> Confident {
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
        Confident { pairs: off_diagonal.map(scaled).collect() }
    }

    /// Estimated rows with a wrong label.
    pub(super) fn wrong(&self) -> f64 {
        // The sum of nothing is a negative zero.
        self.pairs.values().sum::<f64>() + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thresholds 0.75 and 0.625: of four rows a class one is counted as the other.
    #[test]
    fn the_joint_is_that_of_the_paper() {
        let probabilities = [0.9, 0.1, 0.8, 0.2, 0.95, 0.05, 0.35, 0.65, 0.1, 0.9, 0.2, 0.8, 0.9, 0.1, 0.3, 0.7];
        let found = Confident::of(&probabilities, &[0, 0, 0, 0, 1, 1, 1, 1], 2);
        assert_eq!(found.pairs, BTreeMap::from([([0, 1], 1.0), ([1, 0], 1.0)]));
        assert_eq!(found.wrong(), 2.0);
    }

    #[test]
    fn rows_below_every_threshold_are_not_counted_but_share_the_noise() {
        // Thresholds 0.433, 0.85, 0.9: the third row reaches none.
        let probabilities =
            [0.9, 0.05, 0.05, 0.05, 0.9, 0.05, 0.35, 0.33, 0.32, 0.05, 0.9, 0.05, 0.05, 0.05, 0.9, 0.1, 0.8, 0.1];
        let found = Confident::of(&probabilities, &[0, 0, 0, 1, 2, 1], 3);
        // One of the two that count among three rows of class 0.
        assert_eq!(found.pairs, BTreeMap::from([([0, 1], 1.5)]));
    }
}
