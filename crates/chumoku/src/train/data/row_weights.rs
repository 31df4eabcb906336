//! Row weights chosen by the caller.

use crate::lang::lang;
use crate::scoring::format_value;
use crate::{Error, Result, tr};

/// Scales row weights to a mean of 1, since only their ratios matter. Returns `None` if all are equal.
///
/// # Errors
/// If there are not as many weights as `rows`, or one is not finite or not positive. Rows that should not count must be
/// left out.
pub fn row_weights(given: &[f64], rows: usize) -> Result<Option<Vec<f32>>> {
    if given.len() != rows {
        let found = given.len();
        return Err(Error::Setting(tr!(
            "weights of rows: expected one weight for each of {rows} rows, found {found}",
            "行の重み: {rows} 行それぞれに 1 つ必要ですが、{found} 個です。行と同じ数だけ指定してください"
        )));
    }
    if let Some((row, weight)) = given.iter().enumerate().find(|(_, weight)| !weight.is_finite() || **weight <= 0.0) {
        return Err(Error::Setting(tr!(
            "weights of rows: expected finite numbers above 0, found {weight} in row {row}; leave out rows that \
             should not count",
            "行の重み: 0 より大きい有限の数が必要ですが、行 {row} は {weight} です。数えない行は除いてください"
        )));
    }
    // Divides by the largest first: a sum of huge numbers would overflow.
    let most = given.iter().copied().fold(0.0, f64::max);
    if given.iter().all(|&weight| weight == most) {
        return Ok(None);
    }
    let mean = given.iter().map(|weight| weight / most).sum::<f64>() / rows as f64;
    Ok(Some(given.iter().map(|weight| ((weight / most / mean) as f32).max(MIN_WEIGHT)).collect()))
}

/// Checks the weights of these rows, if there are any.
///
/// # Errors
/// If there is not one for each row, or one is out of range.
pub(super) fn check_weights(name: &str, weights: Option<&[f32]>, rows: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    let problem = if weights.len() != rows {
        let found = weights.len();
        tr!("one weight for each of {rows} rows, found {found}", "{rows} 行それぞれに 1 つ必要ですが、{found} 個です")
    } else if let Some(row) = weights.iter().position(|weight| !(MIN_WEIGHT..=MAX_WEIGHT).contains(weight)) {
        let weight = weights[row];
        tr!(
            "numbers from {MIN_WEIGHT:e} to {MAX_WEIGHT:e}, found {weight:e} in row {row}",
            "{MIN_WEIGHT:e} から {MAX_WEIGHT:e} までの数が必要ですが、行 {row} は {weight:e} です"
        )
    } else {
        return Ok(());
    };
    Err(Error::Setting(tr!(
        "weights of the {name} rows: expected {problem}; chumoku::train::row_weights checks and scales them",
        "{name}データの行の重み: {problem}。chumoku::train::row_weights で確認とスケーリングができます"
    )))
}

/// Checks the weights of the training rows of a file, as [`check_weights`] does.
pub(super) fn check_training_weights(weights: Option<&[f32]>, rows: usize) -> Result<()> {
    check_weights(lang().pick("training", "学習"), weights, rows)
}

/// The note on row weights, if there are any.
pub(super) fn weights_note(weights: Option<&[f32]>) -> Option<String> {
    let weights = weights?;
    let [least, most] = [f32::min, f32::max].map(|of| format_value(f64::from(weights.iter().copied().fold(1.0, of))));
    Some(tr!(
        "rows have weights, from {least} to {most} times the mean, in training and in choices; scores count all rows \
         equally",
        "行に重みがあります。学習と選択では平均の {least}〜{most} 倍の重みで扱い、評価値ではすべての行を等しく数えます"
    ))
}

/// The smallest weight. In single precision, a batch of smaller weights could not be divided by their sum.
const MIN_WEIGHT: f32 = 1e-30;

/// The largest weight. The sum of many, times class weights, is finite in single precision.
const MAX_WEIGHT: f32 = 1e20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ReadOptions, load_labeled};
    use crate::row::Row;
    use crate::scoring::Rows;
    use crate::train::data::training_data::TrainingData;
    use crate::train::ensemble::ngrams::train_ngram_classifier;
    use crate::train::run_folder::training::Training;

    #[test]
    fn only_ratios_of_weights_matter() {
        let of = |given: &[f64]| row_weights(given, given.len()).unwrap();
        assert_eq!(of(&[1.0, 2.0, 3.0]), Some(vec![0.5, 1.0, 1.5]));
        assert_eq!(of(&[2e307, 4e307, 6e307]), of(&[1.0, 2.0, 3.0]));
        for alike in [1.0, 0.1, 5e-324, f64::MAX] {
            assert_eq!(of(&[alike; 3]), None);
        }
        assert_eq!(of(&[]), None);
        // Tiny weights stay above 0.
        assert_eq!(of(&[1e-300, 1.0]), Some(vec![MIN_WEIGHT, 2.0]));
    }

    #[test]
    fn the_note_gives_the_range_of_weights() {
        assert_eq!(weights_note(None), None);
        let note = weights_note(Some(&[0.5, 1.0, 1.5])).unwrap();
        assert!(note.contains("0.5") && note.contains("1.5"), "{note}");
    }

    #[test]
    fn only_the_fingerprint_of_a_run_includes_weights() {
        let of = |weights: Option<Vec<f32>>| {
            let texts = vec!["a".into(), "b".into()];
            let train = Rows { texts, labels: vec![0, 1], weights };
            TrainingData::<u32> { train, ..TrainingData::default() }
        };
        let data = [None, Some(vec![1.5, 0.5]), Some(vec![0.5, 1.5])].map(of);
        let rows = data.each_ref().map(TrainingData::fingerprint);
        assert!(rows[0] == rows[1] && rows[1] == rows[2], "{rows:?}");
        let found = data.each_ref().map(TrainingData::run_fingerprint);
        assert_eq!(found[0], rows[0]);
        assert!(found[0] != found[1] && found[1] != found[2] && found[0] != found[2], "{found:?}");
    }

    #[test]
    fn invalid_row_weights_are_rejected() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let problem = row_weights(&[1.0, bad], 2).unwrap_err().to_string();
            assert!(problem.contains("above 0") && problem.contains("in row 1"), "{problem}");
        }
        let problem = row_weights(&[1.0], 2).unwrap_err().to_string();
        assert!(problem.contains("each of 2 rows, found 1"), "{problem}");
    }

    #[test]
    fn training_checks_the_weights_of_all_rows() {
        let rows = |weights: &[f32]| Rows {
            texts: ["a good text", "a bad text", "good again", "bad again"].map(Row::from).to_vec(),
            labels: vec![0, 1, 0, 1],
            weights: Some(weights.to_vec()),
        };
        let folder = tempfile::tempdir().unwrap();
        let (out, file) = (folder.path().join("model"), folder.path().join("a.csv"));
        let fine = [1.0, 0.5, 2.0, MIN_WEIGHT];
        let cases: [(&[f32], &str); 6] = [
            (&[1.0, 2.0], "expected one weight for each of 4 rows, found 2"),
            (&[1.0; 5], "expected one weight for each of 4 rows, found 5"),
            (&[1.0, -2.0, 1.0, 1.0], "found -2e0 in row 1"),
            (&[1.0, 1.0, f32::NAN, 1.0], "found NaN in row 2"),
            (&[1.0, 1.0, 1.0, 0.0], "found 0e0 in row 3"),
            (&[f32::INFINITY, 1.0, 1.0, 1.0], "expected numbers from 1e-30 to 1e20, found inf in row 0"),
        ];
        for (weights, expected) in cases {
            for (part, name) in ["training", "validation", "test"].into_iter().enumerate() {
                let parts: [Rows; 3] = std::array::from_fn(|at| rows(if at == part { weights } else { &fine }));
                let [train, valid, test] = parts;
                let labels = ["good", "bad"].map(str::to_owned).to_vec();
                let data = TrainingData { labels, train, valid, test, ..TrainingData::default() };
                let training = || Training::new(&out);
                let found =
                    [train_ngram_classifier(&data, training()).err(), crate::train::train(&data, training()).err()];
                for error in found {
                    let error = error.expect("an error").to_string();
                    assert!(error.contains(&format!("weights of the {name} rows")), "{error}");
                    assert!(error.contains(expected), "{error}");
                }
                assert!(!out.exists());
            }
        }
        // The same holds for the weights of a file.
        std::fs::write(&file, "text,label\nsome good text,x\nother bad text,y\nmore of it,x\nless of it,y\n").unwrap();
        let mut file = load_labeled(&file, &ReadOptions::default()).unwrap();
        file.weights = Some(vec![1.0; 3]);
        let error = TrainingData::new(&file, None, None).unwrap_err().to_string();
        assert!(error.contains("weights of the training rows: expected one weight for each of 4 rows"), "{error}");
    }
}
