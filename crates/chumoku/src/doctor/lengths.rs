//! Texts that are much longer or shorter than the rest, or have no letter at all.

/// What is odd about the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// No letter and no digit.
    Wordless,
    /// So many characters, where the middle of all is the second.
    Short([usize; 2]),
    /// The same.
    Long([usize; 2]),
}

/// How many spreads of the logarithm from the middle a length is odd.
const SPREADS: f64 = 4.0;
/// The least spread: where nearly all texts are of one length, a fifth more is nothing.
const LEAST_SPREAD: f64 = 0.25;
/// From so many texts on there is something to compare with.
const LEAST: usize = 10;

/// The middle of numbers that are sorted.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Odd lengths. The spread is 1.4826 times the median of the distances from the median, which is the standard deviation of
/// what is normally distributed, and which outliers do not move.
pub(super) fn odd(texts: &[&str]) -> Vec<(usize, Length)> {
    let counts: Vec<usize> = texts.iter().map(|text| text.trim().chars().count()).collect();
    let logarithms: Vec<f64> = counts.iter().map(|&count| (count.max(1) as f64).ln()).collect();
    let sorted = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let middle = median(&sorted(logarithms.clone()));
    let distances = sorted(logarithms.iter().map(|x| (x - middle).abs()).collect());
    let spread = (1.4826 * median(&distances)).max(LEAST_SPREAD);
    let typical = middle.exp().round() as usize;
    let oddity = |row: usize| {
        if !texts[row].chars().any(char::is_alphanumeric) {
            return Some(Length::Wordless);
        }
        let distance = (logarithms[row] - middle) / spread;
        match texts.len() >= LEAST {
            true if distance > SPREADS => Some(Length::Long([counts[row], typical])),
            true if distance < -SPREADS => Some(Length::Short([counts[row], typical])),
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
        assert_eq!(odd(&texts), [(40, Length::Long([300, 60])), (41, Length::Short([2, 60])), (42, Length::Wordless)]);
        assert_eq!(odd(&["a", &"b".repeat(1000)]), []);
        assert_eq!(odd(&[]), []);
    }
}
