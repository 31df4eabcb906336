//! Random texts with coin flips as labels: nothing can be learned from them.

use super::random_choices::RandomChoices;
use crate::train::{Rows, TrainingData};

/// Training rows, as in the fifth article.
const TRAIN: usize = 1_000;
/// Rows of the validation and of the test part.
const HELD_OUT: usize = 200;
const WORDS: usize = 50;
const VOCABULARY: usize = 10_000;

/// Returns 1,000 training texts of 50 random words out of 10,000, each with a coin flip as its label. Validation and
/// test rows are 200 each.
///
/// Accuracy on training rows rises while a model memorizes them. Accuracy on the other rows stays at chance.
#[must_use]
pub fn coin_flips() -> TrainingData {
    let mut draw = RandomChoices::new(42, 0);
    let mut rows = |n: usize| {
        let mut rows = Rows::default();
        for _ in 0..n {
            let words: Vec<String> = (0..WORDS).map(|_| draw.below(VOCABULARY).to_string()).collect();
            rows.texts.push(words.join(" ").into());
            rows.labels.push(u32::from(draw.chance(2)));
        }
        rows
    };
    let (train, valid, test) = (rows(TRAIN), rows(HELD_OUT), rows(HELD_OUT));
    let labels = ["heads".to_owned(), "tails".to_owned()].to_vec();
    TrainingData { labels, train, valid, test, ..TrainingData::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{AsRow, Row};
    use std::collections::HashSet;

    #[test]
    fn texts_differ_and_labels_are_balanced() {
        let data = coin_flips();
        assert_eq!([data.train.len(), data.valid.len(), data.test.len()], [1_000, 200, 200]);
        let texts: HashSet<&Row> = data.train.texts.iter().chain(&data.valid.texts).chain(&data.test.texts).collect();
        assert_eq!(texts.len(), 1_400);
        assert!(texts.iter().all(|text| text.as_row().text().split(' ').count() == 50));
        let heads = data.train.labels.iter().filter(|label| **label == 0).count();
        assert!((450..550).contains(&heads), "{heads}");
        // The same in every run.
        assert_eq!(data.train.texts[0], coin_flips().train.texts[0]);
    }
}
