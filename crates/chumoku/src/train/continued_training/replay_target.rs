//! The task-specific parts of continued training. They read answers from files, convert old and new answers to the same
//! terms, keep outputs of the last layer, and compare two models on the same rows.

use super::base_model::BaseModel;
use super::comparison::{Figures, ModelComparison};
use crate::blend::binary_blend::{BinaryBlend, fit_thresholds};
use crate::blend::number::{NumberBlend, NumberDiscretizer, NumberLabel};
use crate::data::{Dataset, Example, MultiLabelDataset, MultiLabelExample, ScoreDataset, ScoreExample, SourceLocation};
use crate::hierarchy::HierarchySource;
use crate::lang::lang;
use crate::ngram::NgramTarget;
use crate::prediction::Prediction;
use crate::prediction::target::PredictionTarget;
use crate::row::{AsRow, RowRef};
use crate::scoring::{
    LabelScores, NumberScores, RatioTerms, Rows, accuracy_and_macro_f1, accuracy_gain, argmax, ratio_gain,
};
use crate::text_models::predictor::Predictor;
use crate::train::data::training_data::TrainingData;
use crate::{Error, Result, tr};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// An answer whose old rows can be replayed with new ones.
pub trait ReplayTarget: NgramTarget + PartialEq {
    /// A file of rows with such answers.
    type File;

    /// The prediction for a row.
    type OldPrediction: Clone;

    /// The compared figure, by its name in `metrics.json`.
    const FIGURE: &'static str;

    /// The path of a file, as the user gave it.
    fn path(file: &Self::File) -> &Path;

    /// The texts of the rows of a file.
    fn texts(file: &Self::File) -> Vec<RowRef<'_>>;

    /// The distinct labels of a file. Empty for numbers.
    fn labels(file: &Self::File) -> Vec<String>;

    /// Returns the position of a value of a feature column, counted from 0.
    fn place_of(file: &Self::File, column: usize, cell: &str) -> Option<SourceLocation>;

    /// Normalizes the labels of a file to those of the hierarchy.
    ///
    /// # Errors
    /// The first row whose label is not in the hierarchy.
    fn normalize_labels(file: &mut Self::File, paths: &HierarchySource) -> Result<()>;

    /// Checks that the answers of two files have the same form.
    ///
    /// # Errors
    /// If they differ.
    fn check_compatible(_old: &Self::File, _new: &Self::File) -> Result<()> {
        Ok(())
    }

    /// Splits the rows of files into three parts, for a complete list of labels.
    ///
    /// # Errors
    /// If a label occurs only in a validation or test file.
    fn split_files(
        train: &Self::File,
        others: [Option<&Self::File>; 2],
        labels: Vec<String>,
    ) -> Result<TrainingData<Self>>;

    /// Converts answers to other labels, which include all of `from`, or to other bins.
    fn convert(rows: &Rows<Self>, from: &[String], terms: (&[String], &NumberDiscretizer)) -> Rows<Self>;

    /// Updates the bins of the data once old and new rows are combined.
    fn update_discretizer(_data: &mut TrainingData<Self>, _known: &BaseModel) {}

    /// For each output, returns the outputs of the old model that it starts from, with their shares. Empty for new
    /// outputs.
    fn inherited_outputs(
        (labels, _): (&[String], &PredictionTarget),
        data: &TrainingData<Self>,
    ) -> Vec<Vec<(usize, f32)>> {
        let numbers: HashMap<&str, usize> = labels.iter().map(String::as_str).zip(0..).collect();
        data.labels
            .iter()
            .map(|label| numbers.get(label.as_str()).map(|&was| (was, 1.0)).into_iter().collect())
            .collect()
    }

    /// Converts the predictions of a model, or of its network alone, to the terms of the data.
    fn predictions(
        model: Predictor<'_>,
        predictions: &[Prediction],
        rows: &Rows<Self>,
        data: &TrainingData<Self>,
        is_network: bool,
    ) -> Result<Vec<Self::OldPrediction>>;

    /// Compares the predictions of the old and the new model, resampled with `seed`. `is_added` returns true for labels
    /// that the old model did not know.
    fn compare(
        data: &TrainingData<Self>,
        rows: &Rows<Self>,
        predicted: [&[Self::OldPrediction]; 2],
        is_added: &dyn Fn(u32) -> bool,
        seed: u64,
    ) -> ModelComparison;
}

/// The increase of an error that does not count as forgetting, as a share of the error of always predicting the median.
const FORGETTING_SLACK: f64 = 0.02;

/// Maps the label indices of a model to those of the data.
fn label_mapping(labels: &[String], data: &[String]) -> Vec<u32> {
    let numbers: HashMap<&str, u32> = data.iter().map(String::as_str).zip(0..).collect();
    labels.iter().map(|label| numbers.get(label.as_str()).copied().unwrap_or_default()).collect()
}

fn figures<const N: usize>(figures: [(&'static str, f64); N]) -> Figures {
    figures.into_iter().collect()
}

impl ReplayTarget for u32 {
    type File = Dataset;
    type OldPrediction = u32;
    const FIGURE: &'static str = "accuracy";

    fn path(file: &Dataset) -> &Path {
        &file.path
    }

    fn texts(file: &Dataset) -> Vec<RowRef<'_>> {
        file.examples.iter().map(|example| example.text.as_row()).collect()
    }

    fn labels(file: &Dataset) -> Vec<String> {
        file.labels()
    }

    fn place_of(file: &Dataset, column: usize, cell: &str) -> Option<SourceLocation> {
        let has = |example: &Example| example.text.as_row().values().nth(column) == Some(cell);
        file.examples.iter().position(has).map(|row| file.location(row))
    }

    fn normalize_labels(file: &mut Dataset, paths: &HierarchySource) -> Result<()> {
        paths.normalize_labels(file)
    }

    fn split_files(train: &Dataset, others: [Option<&Dataset>; 2], labels: Vec<String>) -> Result<TrainingData> {
        TrainingData::split_files(train, others, labels)
    }

    fn convert(rows: &Rows, from: &[String], (labels, _): (&[String], &NumberDiscretizer)) -> Rows {
        let numbers = label_mapping(from, labels);
        let labels = rows.labels.iter().map(|&label| numbers[label as usize]).collect();
        Rows { texts: rows.texts.clone(), labels, weights: rows.weights.clone() }
    }

    fn predictions(
        model: Predictor<'_>,
        predictions: &[Prediction],
        _rows: &Rows,
        data: &TrainingData,
        is_network: bool,
    ) -> Result<Vec<u32>> {
        let numbers = label_mapping(model.labels(), &data.labels);
        let class = |p: &Prediction| if is_network { argmax(&p.network) as usize } else { p.class() };
        Ok(predictions.iter().map(|p| numbers[class(p)]).collect())
    }

    fn compare(
        data: &TrainingData,
        rows: &Rows,
        [was, is]: [&[u32]; 2],
        is_added: &dyn Fn(u32) -> bool,
        seed: u64,
    ) -> ModelComparison {
        let (texts, classes) = (rows.texts(), data.labels.len());
        let worth = |predicted: &[u32]| {
            let (accuracy, macro_f1) = accuracy_and_macro_f1(&rows.labels, predicted, classes);
            figures([("accuracy", accuracy), ("macro_f1", macro_f1)])
        };
        let (gain, interval) = accuracy_gain(&rows.predicted_rows(is, &texts), was, classes, seed);
        let is_taken = |(is, truth): &(&u32, &u32)| is_added(**is) && !is_added(**truth);
        let taken_for_new = is.iter().zip(&rows.labels).filter(is_taken).count();
        ModelComparison { before: worth(was), after: worth(is), gain, interval, slack: 0.0, taken_for_new }
    }
}

impl ReplayTarget for Vec<u32> {
    type File = MultiLabelDataset;
    type OldPrediction = Vec<u32>;
    const FIGURE: &'static str = "micro_f1";

    fn path(file: &MultiLabelDataset) -> &Path {
        &file.path
    }

    fn texts(file: &MultiLabelDataset) -> Vec<RowRef<'_>> {
        file.examples.iter().map(|example| example.text.as_row()).collect()
    }

    fn labels(file: &MultiLabelDataset) -> Vec<String> {
        file.labels()
    }

    fn place_of(file: &MultiLabelDataset, column: usize, cell: &str) -> Option<SourceLocation> {
        let has = |example: &MultiLabelExample| example.text.as_row().values().nth(column) == Some(cell);
        file.examples.iter().position(has).map(|row| file.location(row))
    }

    fn normalize_labels(file: &mut MultiLabelDataset, paths: &HierarchySource) -> Result<()> {
        paths.normalize_sets(file)
    }

    fn split_files(
        train: &MultiLabelDataset,
        others: [Option<&MultiLabelDataset>; 2],
        labels: Vec<String>,
    ) -> Result<TrainingData<Vec<u32>>> {
        TrainingData::split_label_sets(train, others, labels)
    }

    fn convert(rows: &Rows<Self>, from: &[String], (labels, _): (&[String], &NumberDiscretizer)) -> Rows<Self> {
        let numbers = label_mapping(from, labels);
        let of_row = |set: &Vec<u32>| {
            let mut set: Vec<u32> = set.iter().map(|&label| numbers[label as usize]).collect();
            set.sort_unstable();
            set
        };
        let labels = rows.labels.iter().map(of_row).collect();
        Rows { texts: rows.texts.clone(), labels, weights: rows.weights.clone() }
    }

    fn predictions(
        model: Predictor<'_>,
        predictions: &[Prediction],
        rows: &Rows<Self>,
        data: &TrainingData<Self>,
        is_network: bool,
    ) -> Result<Vec<Vec<u32>>> {
        let numbers = label_mapping(model.labels(), &data.labels);
        let own: Vec<Vec<u32>> = match (is_network, model.target().labels()) {
            // Uses the thresholds that are best on these rows, as in the choice of the best epoch.
            (true, _) => {
                let known: HashMap<u32, u32> = numbers.iter().copied().zip(0..).collect();
                let of_row = |set: &Vec<u32>| set.iter().filter_map(|label| known.get(label).copied()).collect();
                let truth: Vec<Vec<u32>> = rows.labels.iter().map(of_row).collect();
                let probabilities: Vec<Vec<f32>> =
                    predictions.iter().map(|p| p.network.iter().map(|x| x.exp()).collect()).collect();
                let thresholds = fit_thresholds(&probabilities, &truth, None, numbers.len());
                let blend = BinaryBlend { thresholds, ..BinaryBlend::network_only(numbers.len()) };
                probabilities.iter().map(|p| blend.predicted_labels(p)).collect()
            }
            (false, Some(blend)) => predictions.iter().map(|p| blend.predicted_labels(&p.probabilities)).collect(),
            (false, None) => return Err(wrong_kind_error(lang().pick("labels", "ラベル"))),
        };
        let of_row = |set: Vec<u32>| {
            let set: BTreeSet<u32> = set.into_iter().map(|label| numbers[label as usize]).collect();
            set.into_iter().collect()
        };
        Ok(own.into_iter().map(of_row).collect())
    }

    fn compare(
        data: &TrainingData<Self>,
        rows: &Rows<Self>,
        [was, is]: [&[Vec<u32>]; 2],
        is_added: &dyn Fn(u32) -> bool,
        seed: u64,
    ) -> ModelComparison {
        let worth = |predicted: &[Vec<u32>]| {
            let scores = LabelScores::of(&rows.labels, predicted, None, &data.labels, seed);
            figures([("micro_f1", scores.micro_f1), ("macro_f1", scores.macro_f1)])
        };
        let part = |predicted: &Vec<u32>, truth: &Vec<u32>| {
            let right = predicted.iter().filter(|label| truth.contains(label)).count();
            [2.0 * right as f64, (predicted.len() + truth.len()) as f64]
        };
        let all = is.iter().zip(was).zip(&rows.labels);
        let parts: Vec<RatioTerms> = all.map(|((is, was), truth)| [part(is, truth), part(was, truth)]).collect();
        let (gain, interval) = ratio_gain(&parts, &rows.texts(), seed);
        let is_taken = |(is, truth): &(&Vec<u32>, &Vec<u32>)| {
            is.iter().any(|&label| is_added(label)) && !truth.iter().any(|&label| is_added(label))
        };
        let taken_for_new = is.iter().zip(&rows.labels).filter(is_taken).count();
        ModelComparison { before: worth(was), after: worth(is), gain, interval, slack: 0.0, taken_for_new }
    }
}

impl ReplayTarget for NumberLabel {
    type File = ScoreDataset;
    type OldPrediction = f64;
    const FIGURE: &'static str = "mean_absolute_error";

    fn path(file: &ScoreDataset) -> &Path {
        &file.path
    }

    fn texts(file: &ScoreDataset) -> Vec<RowRef<'_>> {
        file.examples.iter().map(|example| example.text.as_row()).collect()
    }

    fn labels(_file: &ScoreDataset) -> Vec<String> {
        Vec::new()
    }

    fn place_of(file: &ScoreDataset, column: usize, cell: &str) -> Option<SourceLocation> {
        let has = |example: &ScoreExample| example.text.as_row().values().nth(column) == Some(cell);
        file.examples.iter().position(has).map(|row| file.location(row))
    }

    fn normalize_labels(_file: &mut ScoreDataset, _paths: &HierarchySource) -> Result<()> {
        Ok(())
    }

    fn check_compatible(old: &ScoreDataset, new: &ScoreDataset) -> Result<()> {
        Ok(new.check_number_format(old)?)
    }

    fn split_files(
        train: &ScoreDataset,
        others: [Option<&ScoreDataset>; 2],
        _labels: Vec<String>,
    ) -> Result<TrainingData<NumberLabel>> {
        TrainingData::split_scores(train, others)
    }

    fn convert(rows: &Rows<Self>, _from: &[String], (_, discretizer): (&[String], &NumberDiscretizer)) -> Rows<Self> {
        let measured = |of: &NumberLabel| discretizer.label(of.number);
        let labels = rows.labels.iter().map(measured).collect();
        Rows { texts: rows.texts.clone(), labels, weights: rows.weights.clone() }
    }

    /// Uses the bins of all training rows. Parts of the base model's range that they lack are added: levels, and the
    /// bins that the model knows if old rows are not replayed.
    fn update_discretizer(data: &mut TrainingData<Self>, known: &BaseModel) {
        let replays = data.continued.as_ref().is_some_and(|further| further.replays);
        let mut numbers: Vec<f64> = data.train.labels.iter().map(|measured| measured.number).collect();
        if !replays || known.discretizer.has_levels() {
            numbers.extend(known.discretizer.values.iter().chain(&known.discretizer.range));
        }
        let discretizer = NumberDiscretizer::fit(&numbers);
        let compared = data.continued.iter_mut().flat_map(|further| &mut further.compared).map(|(_, rows)| rows);
        for rows in [&mut data.train, &mut data.valid, &mut data.test].into_iter().chain(compared) {
            rows.labels.iter_mut().for_each(|measured| *measured = discretizer.label(measured.number));
        }
        data.labels = discretizer.threshold_labels();
        data.discretizer = discretizer;
    }

    /// A threshold between two old ones starts from their mean, weighted by distance. A threshold beyond them starts
    /// from the nearest.
    fn inherited_outputs(
        (_, problem): (&[String], &PredictionTarget),
        data: &TrainingData<Self>,
    ) -> Vec<Vec<(usize, f32)>> {
        let was = problem.number().map(|number| &number.discretizer.thresholds[..]).unwrap_or_default();
        let of_threshold = |&threshold: &f64| {
            let next = was.partition_point(|&x| x < threshold);
            match (next.checked_sub(1), was.get(next)) {
                (_, Some(&high)) if high == threshold => vec![(next, 1.0)],
                (Some(low), Some(&high)) => {
                    let share = ((threshold - was[low]) / (high - was[low])) as f32;
                    vec![(low, 1.0 - share), (next, share)]
                }
                (Some(low), None) => vec![(low, 1.0)],
                (None, Some(_)) => vec![(0, 1.0)],
                (None, None) => Vec::new(),
            }
        };
        data.discretizer.thresholds.iter().map(of_threshold).collect()
    }

    fn predictions(
        model: Predictor<'_>,
        predictions: &[Prediction],
        _rows: &Rows<Self>,
        _data: &TrainingData<Self>,
        is_network: bool,
    ) -> Result<Vec<f64>> {
        let Some(whole) = model.target().number() else {
            return Err(wrong_kind_error(lang().pick("numbers", "数値")));
        };
        let alone = NumberBlend::network_only(whole.discretizer.clone());
        let score = |p: &Prediction| match is_network {
            true => alone.estimate(&p.network.iter().map(|x| x.exp()).collect::<Vec<f32>>()).score,
            false => whole.estimate(&p.probabilities).score,
        };
        Ok(predictions.iter().map(score).collect())
    }

    fn compare(
        data: &TrainingData<Self>,
        rows: &Rows<Self>,
        [was, is]: [&[f64]; 2],
        _is_added: &dyn Fn(u32) -> bool,
        seed: u64,
    ) -> ModelComparison {
        let truth: Vec<f64> = rows.labels.iter().map(|measured| measured.number).collect();
        let worth = |predicted: &[f64]| {
            let scores = NumberScores::of(&truth, predicted, None, &data.discretizer, seed);
            figures([("mean_absolute_error", scores.mean_absolute_error), ("spearman", scores.spearman)])
        };
        // The gain is the decrease of the error.
        let part = |predicted: f64, truth: f64| [-(predicted - truth).abs(), 1.0];
        let all = is.iter().zip(was).zip(&truth);
        let parts: Vec<RatioTerms> = all.map(|((&is, &was), &truth)| [part(is, truth), part(was, truth)]).collect();
        let (gain, interval) = ratio_gain(&parts, &rows.texts(), seed);
        // Errors always differ a little: small increases, relative to the error of a constant, do not count.
        let mut sorted = truth.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let slack =
            FORGETTING_SLACK * truth.iter().map(|x| (x - median).abs()).sum::<f64>() / truth.len().max(1) as f64;
        ModelComparison { before: worth(was), after: worth(is), gain, interval, slack, taken_for_new: 0 }
    }
}

/// The error of a base model with another kind of prediction.
fn wrong_kind_error(expected: &str) -> Error {
    Error::Setting(tr!(
        "the base model does not predict {expected}; train it further on rows of its own task",
        "元のモデルの出力は{expected}ではありません。元のモデルと同じタスクのデータで追加学習してください"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<A>(texts: &[&str], labels: Vec<A>) -> Rows<A> {
        Rows { texts: texts.iter().map(|text| (*text).into()).collect(), labels, weights: None }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn converting_classes_and_labels_keeps_their_rows() {
        let (old, all, discretizer) = (names(&["b", "d"]), names(&["a", "b", "c", "d"]), NumberDiscretizer::default());
        let found = u32::convert(&rows(&["x", "y"], vec![1, 0]), &old, (&all, &discretizer));
        assert_eq!(found.texts, ["x", "y"]);
        assert_eq!(found.labels, [3, 1]);
        let found = Vec::<u32>::convert(&rows(&["x", "y"], vec![vec![0, 1], vec![]]), &old, (&all, &discretizer));
        assert_eq!(found.labels, [vec![1, 3], vec![]]);
        let data = TrainingData::<u32> { labels: all, ..TrainingData::default() };
        let kept = u32::inherited_outputs((&old, &PredictionTarget::OneClass), &data);
        assert_eq!(kept, [vec![], vec![(0, 1.0)], vec![], vec![(1, 1.0)]]);
    }

    #[test]
    fn new_thresholds_start_from_their_neighbors() {
        let discretizer = |numbers: &[f64]| NumberDiscretizer::fit(numbers);
        let problem = PredictionTarget::Number(NumberBlend::network_only(discretizer(&[1.0, 2.0, 3.0])));
        let new = discretizer(&[0.0, 1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!(new.thresholds, [0.5, 1.3, 1.8, 2.5, 3.5]);
        let data = TrainingData { discretizer: new, ..TrainingData::<NumberLabel>::default() };
        let kept = NumberLabel::inherited_outputs((&[], &problem), &data);
        assert_eq!(kept[0], [(0, 1.0)]);
        assert_eq!(kept[1], [(0, 1.0)]);
        assert!(
            kept[2].len() == 2 && (kept[2][0].1 - 0.7).abs() < 1e-6 && (kept[2][1].1 - 0.3).abs() < 1e-6,
            "{kept:?}"
        );
        assert_eq!(kept[3..], [vec![(1, 1.0)], vec![(1, 1.0)]]);
    }
}
