//! The gain of one predictor over another in a ratio of sums over rows, such as micro-F1, span F1 or a mean.

use super::bootstrap::{RESAMPLES, drawn_rows, percentile_interval};
use crate::data::normalize;
use crate::row::{Row, RowRef};
use chumoku_kernels::{Philox, parallel};
use std::collections::HashMap;

/// The contributions of a row to numerator and denominator, for each predictor.
pub type RatioTerms = [[f64; 2]; 2];

fn add(sum: &mut RatioTerms, parts: &RatioTerms) {
    sum.iter_mut().flatten().zip(parts.iter().flatten()).for_each(|(sum, x)| *sum += x);
}

fn gain(sum: &RatioTerms) -> f64 {
    let [ours, theirs] = sum.map(|[over, under]| if under > 0.0 { over / under } else { 0.0 });
    ours - theirs
}

/// Returns the first predictor's ratio minus the second's, with its 95 % bootstrap interval over texts. Rows of equal
/// text are resampled together. One imaginary text, on which both predictors have their common average, prevents false
/// certainty from very few rows.
pub fn ratio_gain(rows: &[RatioTerms], texts: &[RowRef<'_>], seed: u64) -> (f64, [f64; 2]) {
    let (mut numbers, mut groups): (HashMap<Row, usize>, Vec<RatioTerms>) = (HashMap::new(), Vec::new());
    let mut whole = RatioTerms::default();
    for (row, parts) in rows.iter().enumerate() {
        add(&mut whole, parts);
        let key = texts.get(row).map(normalize).unwrap_or_else(|| row.to_string().into());
        let number = *numbers.entry(key).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => add(group, parts),
            None => groups.push(*parts),
        }
    }
    if groups.is_empty() {
        return (0.0, [0.0; 2]);
    }
    let n = groups.len() as f64;
    let average = [0, 1].map(|i| (whole[0][i] + whole[1][i]) / (2.0 * n));
    groups.push([average; 2]);
    let draw = |resample: u64| {
        let random = Philox::new(seed, (1 << 61) + resample);
        let mut sum = RatioTerms::default();
        drawn_rows(&random, groups.len()).for_each(|row| add(&mut sum, &groups[row]));
        gain(&sum)
    };
    (gain(&whole), percentile_interval(parallel::map_indices(RESAMPLES as usize, |resample| draw(resample as u64))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{AsRow, as_rows};

    /// Simulates rows of a mean of 0 and 1, with these probabilities that each predictor is right.
    fn rows(n: usize, chances: [f32; 2], stream: u64) -> Vec<RatioTerms> {
        let random = Philox::new(3, stream);
        let right =
            |i: usize, which: usize| f64::from(u8::from(random.uniform((2 * i + which) as u64) < chances[which]));
        (0..n).map(|i| [0, 1].map(|which| [right(i, which), 1.0])).collect()
    }

    #[test]
    fn the_interval_has_its_nominal_coverage() {
        let sets = 400;
        let covers = |set: &u64| {
            let (_, [low, high]) = ratio_gain(&rows(150, [0.8, 0.7], *set), &[], *set);
            (low..=high).contains(&0.1)
        };
        let share = (0..sets).filter(covers).count() as f64 / sets as f64;
        assert!((0.92..0.98).contains(&share), "{share}");
    }

    #[test]
    fn copies_of_a_text_are_no_further_evidence() {
        let worse = [[0.0, 1.0], [1.0, 1.0]];
        let texts: Vec<String> = (0..40).map(|i| i.to_string()).collect();
        let texts = as_rows(&texts);
        assert!(ratio_gain(&[worse; 2], &texts[..2], 1).1[1] >= 0.0);
        let (gain, [_, high]) = ratio_gain(&[worse; 40], &texts, 1);
        assert!(gain == -1.0 && high < 0.0, "{gain} {high}");
        // Copies of one text count as one.
        assert!(ratio_gain(&[worse; 40], &["a".as_row(); 40], 1).1[1] >= 0.0);
        // Identical answers have no gain.
        assert_eq!(ratio_gain(&[[[1.0, 2.0]; 2]; 9], &[], 1), (0.0, [0.0; 2]));
        assert_eq!(ratio_gain(&[], &[], 1), (0.0, [0.0; 2]));
    }
}
