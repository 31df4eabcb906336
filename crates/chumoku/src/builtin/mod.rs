//! Built-in data sets: generated [`pronouns()`], which need attention, 1,000 short [`reviews()`], and, for translation,
//! generated [`dates()`].
//!
//! The reviews are half English and half Japanese, written for this project. Half of them are positive. They cover many
//! subjects and have a fixed split. Negation, mixed feelings and contrast keep them realistic. N-grams do well on them.
//! All sets are small enough to train on within a minute or a few.
//!
//! # Files
//!
//! - `coin_flips`: random texts with random labels
//! - `dates`: generated dates with their translation
//! - `pronoun_attention`: the head that attends to the noun that is meant
//! - `pronouns`: generated sentences in which "it" means one of two nouns
//! - `random_choices`: random choices of the generators

mod coin_flips;
mod dates;
mod pronoun_attention;
mod pronouns;
mod random_choices;

pub use coin_flips::coin_flips;
pub use dates::dates;
pub use pronoun_attention::PronounAttention;
pub use pronouns::{PronounExample, pronoun_examples, pronouns};

use crate::train::{Rows, TrainingData};

const REVIEWS: &str = include_str!("../../builtin/reviews.tsv");

/// Returns the reviews, split into training, validation and test rows.
pub fn reviews() -> TrainingData {
    let labels = ["negative".to_owned(), "positive".to_owned()];
    let mut data = TrainingData { labels: labels.to_vec(), ..TrainingData::default() };
    for line in REVIEWS.lines().skip(1) {
        let mut fields = line.splitn(3, '\t');
        let (part, label, text) = (fields.next(), fields.next(), fields.next().unwrap_or_default());
        let rows: &mut Rows = match part {
            Some("train") => &mut data.train,
            Some("valid") => &mut data.valid,
            _ => &mut data.test,
        };
        rows.texts.push(text.into());
        rows.labels.push(u32::from(label == Some("positive")));
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::unspaced_fraction;
    use std::collections::HashSet;

    #[test]
    fn a_thousand_different_reviews_are_balanced() {
        let data = reviews();
        assert_eq!([data.train.len(), data.valid.len(), data.test.len()], [700, 100, 200]);
        let mut seen = HashSet::new();
        for rows in [&data.train, &data.valid, &data.test] {
            let positive = rows.labels.iter().filter(|&&label| label == 1).count();
            assert_eq!(2 * positive, rows.len());
            let japanese = rows.texts().iter().filter(|row| unspaced_fraction([row.text()]) > 0.3).count();
            assert_eq!(2 * japanese, rows.len());
            let texts = rows.texts().into_iter().map(|row| row.text().to_lowercase());
            texts.for_each(|text| assert!(!text.is_empty() && seen.insert(text)));
        }
    }
}
