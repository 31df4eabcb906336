//! Cross-validation: one training run per fold, each scored on the rows that it has not seen.

use crate::ngram::NgramTarget;
use crate::output::WorkFolder;
use crate::row::RowRef;
use crate::scoring::{Rows, select_weights};
use crate::train::data::folds::assign_folds;
use crate::train::data::training_data::TrainingData;
use crate::train::run_folder::training::{RunContext, Training};
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{Error, Result, tr};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering;

/// One in this many of the rows outside a fold becomes a validation row.
const VALID_DIVISOR: usize = 10;

/// The figures of a model, by name.
type FoldFigures = Vec<(&'static str, f64)>;

/// Row indices of a fold: training, validation and test rows.
pub(super) type FoldRows = [Vec<usize>; 3];

/// Divides training and validation rows into folds.
struct Folds<'a> {
    texts: Vec<RowRef<'a>>,
    /// The class of each row, or a substitute for stratification.
    levels: Vec<u32>,
    count: usize,
    seed: u64,
}

impl<'a> Folds<'a> {
    fn new<A: NgramTarget>(data: &'a TrainingData<A>, count: usize, seed: u64) -> Folds<'a> {
        let level = |answer: &A| match answer.regression_value() {
            Some(_) => answer.label_ids().len() as u32,
            None => answer.label_ids().first().copied().unwrap_or_default(),
        };
        let levels = data.train.labels.iter().chain(&data.valid.labels).map(level).collect();
        Folds { texts: [data.train.texts(), data.valid.texts()].concat(), levels, count, seed }
    }

    /// Returns the rows of one of `of` groups, and all other rows.
    fn part(&self, rows: &[usize], of: usize, part: usize, round: u64) -> [Vec<usize>; 2] {
        let (names, levels): (Vec<RowRef<'_>>, Vec<u32>) =
            rows.iter().map(|&row| (self.texts[row], self.levels[row])).unzip();
        let parts = assign_folds(&names, &levels, of, [self.seed, round]);
        let (inside, outside): (Vec<_>, Vec<_>) = rows.iter().zip(parts).partition(|(_, found)| *found == part);
        [inside, outside].map(|rows| rows.into_iter().map(|(row, _)| *row).collect())
    }

    /// Returns a fold. Its rows are the test rows, and the rest is divided into training and validation rows. Equal
    /// texts share a fold, and every class is spread over all folds.
    fn division(&self, fold: usize) -> FoldRows {
        let all: Vec<usize> = (0..self.texts.len()).collect();
        let [test, rest] = self.part(&all, self.count, fold, 0);
        let [valid, train] = self.part(&rest, VALID_DIVISOR, 0, 1);
        [train, valid, test]
    }
}

/// Returns the rows to train on and the rows to score, for each fold of the training and validation rows. Equal texts
/// share a fold.
pub(super) fn splits<A: NgramTarget>(data: &TrainingData<A>, count: usize, seed: u64) -> Vec<[Vec<usize>; 2]> {
    let folds = Folds::new(data, count, seed);
    let all: Vec<usize> = (0..folds.texts.len()).collect();
    let of_fold = |fold| {
        let [held_out, learned] = folds.part(&all, count, fold, 0);
        [learned, held_out]
    };
    (0..count).map(of_fold).collect()
}

/// Builds the data of a fold.
pub(super) fn fold_data<A: NgramTarget>(data: &TrainingData<A>, division: &FoldRows) -> TrainingData<A> {
    let (trained, weights) = (data.train.len(), data.combined_weights(None));
    let part = |rows: &Vec<usize>| {
        let row = |&row: &usize| match row.checked_sub(trained) {
            None => (data.train.texts[row].clone(), data.train.labels[row].clone()),
            Some(row) => (data.valid.texts[row].clone(), data.valid.labels[row].clone()),
        };
        let (texts, labels) = rows.iter().map(row).unzip();
        Rows { texts, labels, weights: select_weights(weights.as_deref(), rows) }
    };
    let [train, valid, test] = division.each_ref().map(part);
    let (labels, discretizer, columns) = (data.labels.clone(), data.discretizer.clone(), data.columns.clone());
    let hierarchy = data.hierarchy.clone();
    TrainingData { labels, discretizer, columns, train, valid, test, hierarchy, ..TrainingData::default() }
}

/// Cross-validates a training function, if the caller requested it: `train` trains and returns its figures.
///
/// Returns `None` if not requested. Each fold trains in a temporary folder inside the output folder.
///
/// # Errors
/// If there are fewer texts than folds, or training fails or is interrupted.
pub(crate) fn cross_validate<A: NgramTarget>(
    data: &TrainingData<A>,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
    train: &dyn Fn(&TrainingData<A>, Training<'_>) -> Result<FoldFigures>,
) -> Result<Option<Value>> {
    let Some(count) = context.options.folds else { return Ok(None) };
    let train = |division: &FoldRows, training: Training<'_>| train(&fold_data(data, division), training);
    score_folds(&Folds::new(data, count, context.options.seed), context, observe, &train).map(Some)
}

fn score_folds(
    folds: &Folds<'_>,
    context: RunContext<'_>,
    observe: &mut dyn FnMut(TrainEvent<'_>),
    train: &dyn Fn(&FoldRows, Training<'_>) -> Result<FoldFigures>,
) -> Result<Value> {
    let RunContext { options, out, stop } = context;
    let (count, rows) = (folds.count, folds.texts.len());
    let mut figures: Vec<(&str, Vec<f64>)> = Vec::new();
    for fold in 0..count {
        let division = folds.division(fold);
        if division[2].is_empty() || division[0].len() < 2 {
            return Err(Error::Setting(tr!(
                "--folds {count}: too few different texts among {rows} rows; give a smaller number",
                "--folds {count}: {rows} 行では異なるテキストが足りません。もっと小さな数を指定してください"
            )));
        }
        let folder = WorkFolder::create(out).map_err(Error::write("creating a folder in", out))?;
        let mut training = Training::new(folder.path());
        training.options =
            TrainOptions { folds: None, resume: false, watch: None, worker_group: None, ..options.clone() };
        training.stop = stop;
        let number = fold + 1;
        training.observe = Box::new(|event: TrainEvent<'_>| {
            let message = match event {
                TrainEvent::Progress(_, text) => tr!("{number} of {count}: {text}", "{number}/{count}: {text}"),
                TrainEvent::Evaluated { epoch, .. } => {
                    tr!("{number} of {count}: epoch {epoch}", "{number}/{count}: エポック {epoch}")
                }
                _ => return,
            };
            observe(TrainEvent::Progress(topic_label("fold"), message));
        });
        let found = train(&division, training)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        for (i, (name, value)) in found.into_iter().enumerate() {
            match figures.get_mut(i) {
                Some((_, values)) => values.push(value),
                None => figures.push((name, vec![value])),
            }
        }
    }
    let summary = |(name, values): (&str, Vec<f64>)| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        (name.to_owned(), json!({ "mean": mean, "standard_deviation": deviation, "each": values }))
    };
    let figures: Map<String, Value> = figures.into_iter().map(summary).collect();
    Ok(json!({ "folds": count, "rows": rows, "figures": figures }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{AsRow, Row};
    use std::collections::HashSet;

    #[test]
    fn every_row_is_scored_once_by_a_model_that_has_not_seen_its_text() {
        let texts: Vec<Row> = (0..60).map(|i| format!("text {}", i % 50).into()).collect();
        let labels: Vec<u32> = (0..60).map(|i| (i % 50 % 3) as u32).collect();
        let (train, valid) = texts.split_at(45);
        let rows =
            |texts: &[Row], labels: &[u32]| Rows { texts: texts.to_vec(), labels: labels.to_vec(), weights: None };
        let data = TrainingData {
            labels: ["a", "b", "c"].map(String::from).to_vec(),
            train: rows(train, &labels[..45]),
            valid: rows(valid, &labels[45..]),
            ..TrainingData::default()
        };
        let mut held_out = Vec::new();
        let folds = Folds::new(&data, 5, 1);
        for fold in (0..5).map(|fold| fold_data(&data, &folds.division(fold))) {
            let texts = |rows: &Rows| rows.texts.iter().cloned().collect::<HashSet<_>>();
            let [train, valid, test] = [&fold.train, &fold.valid, &fold.test].map(texts);
            assert!(train.is_disjoint(&test) && valid.is_disjoint(&test) && train.is_disjoint(&valid));
            assert_eq!(fold.train.len() + fold.valid.len() + fold.test.len(), 60);
            assert!(!valid.is_empty() && fold.train.len() >= 40, "{} {}", valid.len(), fold.train.len());
            for class in 0..3 {
                assert!(fold.test.labels.contains(&class));
            }
            let label = |row: &Row| row.as_row().text().strip_prefix("text ").unwrap().parse::<u32>().unwrap() % 3;
            assert!(fold.test.texts.iter().zip(&fold.test.labels).all(|(text, of)| label(text) == *of));
            held_out.extend(fold.test.texts);
        }
        let text = |row: &Row| row.as_row().text().to_owned();
        held_out.sort_by_key(text);
        let mut all = texts;
        all.sort_by_key(text);
        assert_eq!(held_out, all);
    }
}
