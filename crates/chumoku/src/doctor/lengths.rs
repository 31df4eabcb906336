//! Finds texts that are much longer or shorter than the rest, or contain no letter.

/// A length fault of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LengthFault {
    /// No letter and no digit.
    NoLetters,
    /// The number of characters, and the median of all texts.
    Short([usize; 2]),
    /// The number of characters, and the median of all texts.
    Long([usize; 2]),
}

/// Distance from the median of the logarithms, in deviations, beyond which a length is unusual.
const MAX_DEVIATIONS: f64 = 4.0;
/// Smallest deviation: if nearly all texts have the same length, a fifth more is not unusual.
const MIN_DEVIATION: f64 = 0.25;
/// Fewest texts to compare with.
const MIN_TEXTS: usize = 10;

/// Returns the median of sorted numbers.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Finds unusual lengths. The deviation is 1.4826 times the median absolute deviation. It equals the standard deviation
/// for normally distributed values, and outliers do not affect it.
pub(super) fn odd_lengths(texts: &[&str]) -> Vec<(usize, LengthFault)> {
    let counts: Vec<usize> = texts.iter().map(|text| text.trim().chars().count()).collect();
    let logarithms: Vec<f64> = counts.iter().map(|&count| (count.max(1) as f64).ln()).collect();
    let sorted = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let middle = median(&sorted(logarithms.clone()));
    let distances = sorted(logarithms.iter().map(|x| (x - middle).abs()).collect());
    let spread = (1.4826 * median(&distances)).max(MIN_DEVIATION);
    let typical = middle.exp().round() as usize;
    let oddity = |row: usize| {
        if !texts[row].chars().any(char::is_alphanumeric) {
            return Some(LengthFault::NoLetters);
        }
        let distance = (logarithms[row] - middle) / spread;
        match texts.len() >= MIN_TEXTS {
            true if distance > MAX_DEVIATIONS => Some(LengthFault::Long([counts[row], typical])),
            true if distance < -MAX_DEVIATIONS => Some(LengthFault::Short([counts[row], typical])),
            _ => None,
        }
    };
    (0..texts.len()).filter_map(|row| Some((row, oddity(row)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_far_from_the_middle() {
        let mut texts: Vec<String> = (40..80).map(|length| "x".repeat(length)).collect();
        texts.extend(["y".repeat(300), "no".into(), "…!".into(), "w".repeat(150)]);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(
            odd_lengths(&texts),
            [(40, LengthFault::Long([300, 60])), (41, LengthFault::Short([2, 60])), (42, LengthFault::NoLetters)]
        );
        assert_eq!(odd_lengths(&["a", &"b".repeat(1000)]), []);
        assert_eq!(odd_lengths(&[]), []);
    }
}
