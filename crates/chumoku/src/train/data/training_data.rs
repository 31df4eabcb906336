//! Training, validation and test rows, with labels as class indices.

use super::base_snapshot::BaseSnapshot;
use super::data_source::DataSource;
use super::row_weights;
use crate::blend::number::{NumberDiscretizer, NumberLabel};
use crate::data::{
    self, Dataset, Example, LabelConflicts, MultiLabelDataset, MultiLabelExample, ScoreDataset, ScoreExample,
    SourceLocation,
};
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::Hierarchy;
use crate::lang::lang;
use crate::lang::wording::{format_count, list_names};
use crate::ngram::NgramTarget;
use crate::prediction::decision_rule::Optimize;
use crate::row::{AsRow, Row};
use crate::scoring::{Rows, select_weights};
use crate::tr;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// The data to train, select and test a model.
#[derive(Clone, Debug)]
pub struct TrainingData<A = u32> {
    /// The classes or labels, sorted; answers are indices into them. For numbers, the thresholds in ascending order,
    /// such as "> 1.5".
    pub labels: Vec<String>,
    /// The bins of numbers; empty for other targets.
    pub discretizer: NumberDiscretizer,
    /// The feature columns, in the order of their values in rows.
    pub columns: Vec<FeatureColumn>,
    /// Rows for training.
    pub train: Rows<A>,
    /// Rows for choices, such as the best epoch.
    pub valid: Rows<A>,
    /// Rows for the reported scores.
    pub test: Rows<A>,
    /// Notes for the report, such as the origin of the parts and peculiarities of the data.
    pub notes: Vec<String>,
    /// The hierarchy of the classes, if any.
    pub hierarchy: Option<Hierarchy>,
    /// The files of the rows, in order. Empty if they cannot be read again.
    pub sources: Vec<DataSource>,
    /// The rows to compare the model with its base model on, in continued training.
    pub continued: Option<ContinuedData<A>>,
}

/// Additional data for continued training.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContinuedData<A = u32> {
    /// True if the old rows are replayed.
    pub(crate) replays: bool,
    /// Rows to compare the old and the new model on, by [name](crate::train::continued_training::comparison).
    pub(crate) compared: Vec<(&'static str, Rows<A>)>,
    /// The base model.
    pub(crate) base: BaseSnapshot,
}

impl<A> Default for TrainingData<A> {
    fn default() -> Self {
        let [train, valid, test] = std::array::from_fn(|_| Rows::default());
        TrainingData {
            labels: Vec::new(),
            discretizer: NumberDiscretizer::default(),
            columns: Vec::new(),
            train,
            valid,
            test,
            notes: Vec::new(),
            hierarchy: None,
            sources: Vec::new(),
            continued: None,
        }
    }
}

impl<A> TrainingData<A> {
    /// Returns `true` if the texts are [pairs](crate::row).
    pub fn reads_pairs(&self) -> bool {
        !self.train.texts.is_empty() && self.train.texts.iter().all(|row| row.as_row().is_pair())
    }

    /// Checks that all rows are pairs or all are single texts.
    ///
    /// # Errors
    /// If they are mixed.
    pub(crate) fn check_pairs(self) -> crate::Result<Self> {
        let reads_pairs = self.reads_pairs();
        let kind = |is_pair: bool| match is_pair {
            true => lang().pick("two texts a row", "各行に 2 つのテキスト"),
            false => lang().pick("one text a row", "各行に 1 つのテキスト"),
        };
        let names = [tr!("validation", "検証"), tr!("test", "テスト")];
        for (name, rows) in names.into_iter().zip([&self.valid, &self.test]) {
            if rows.texts.iter().any(|row| row.as_row().is_pair() != reads_pairs) {
                let [expected, found] = [kind(reads_pairs), kind(!reads_pairs)];
                return Err(crate::Error::Setting(tr!(
                    "{name} rows: expected {expected}, as the training rows have, found {found}; name the columns with --text",
                    "{name}データ: 学習データと同じく{expected}が必要ですが、{found}です。列を --text で指定してください"
                )));
            }
        }
        Ok(self)
    }
}

/// The share of rows held out for validation, and the share held out for testing.
const HELD_OUT: f64 = 0.1;

/// The note on classes without test rows, if others have some.
fn untested_classes_note(test: &Rows, labels: &[String]) -> Option<String> {
    let tested: HashSet<u32> = test.labels.iter().copied().collect();
    let missing: Vec<&String> =
        labels.iter().zip(0..).filter(|(_, class)| !tested.contains(class)).map(|(label, _)| label).collect();
    if missing.is_empty() || tested.is_empty() {
        return None;
    }
    let (n, all, names) = (missing.len(), labels.len(), list_names(&missing));
    Some(tr!(
        "{n} of {all} classes without test rows (rare classes are only used for training): {names}",
        "{all} クラスのうち {n} クラスにはテスト用の行がありません（まれなクラスは学習だけに使います）: {names}"
    ))
}

/// The notes on texts with several labels or numbers. `one` names what each should have.
fn conflict_notes(found: &LabelConflicts, one: &str) -> Vec<String> {
    if found.texts == 0 {
        return Vec::new();
    }
    let example = found.examples.first().map(|(text, labels)| {
        let text: String = text.as_row().display().chars().take(40).collect();
        let labels = labels.join(lang().pick(" and ", "、"));
        tr!(", e.g. “{text}” as {labels}", "（例: “{text}” に {labels}）")
    });
    let (texts, rows, example) = (found.texts, found.rows, example.unwrap_or_default());
    let counted = format_count(texts as u64, "text");
    vec![tr!(
        "{counted} ({rows} rows) with more than one {one}{example}",
        "{texts} 個のテキスト（{rows} 行）に複数の{one}があります{example}"
    )]
}

/// Returns the position of a row in its file.
type RowPlace<'a> = Box<dyn Fn(usize) -> SourceLocation + 'a>;

fn boxed<'a>(place: impl Fn(usize) -> SourceLocation + 'a) -> RowPlace<'a> {
    Box::new(place)
}

/// The warnings about validation and test rows whose text is also in the training file.
fn shared_text_notes(
    train: &[Example],
    place: impl Fn(usize) -> SourceLocation,
    others: [Option<(Vec<Example>, RowPlace<'_>)>; 2],
) -> Vec<String> {
    let names = [tr!("validation", "検証"), tr!("test", "テスト")];
    let of_file = |(name, other): (String, Option<(Vec<Example>, RowPlace<'_>)>)| {
        let (other, place_of_other) = other?;
        let shared = data::shared_texts(train, &other);
        let example = shared.examples.first().map(|shared| {
            let text: String = shared.text.as_row().display().chars().take(40).collect();
            let (a, b) = (place(shared.rows[0]), place_of_other(shared.rows[1]));
            tr!(", e.g. “{text}” ({a} and {b})", "（例: “{text}”、{a} と {b}）")
        });
        let (n, of, example) = (shared.count, other.len(), example.unwrap_or_default());
        (n > 0).then(|| {
            tr!(
                "warning: {n} of {of} {name} rows have a text that is also in the training file{example}: their score \
                 says nothing about new texts",
                "警告: {name}データの {of} 行のうち {n} 行は、テキストが学習ファイルにもあります{example}。その評価値からは、\
                 新しいテキストについて何も分かりません"
            )
        })
    };
    names.into_iter().zip(others).filter_map(of_file).collect()
}

impl TrainingData {
    /// Builds the data from files. Validation and test rows without a file of their own are split off the training
    /// file.
    ///
    /// The split depends on the texts alone, not on the seed, so runs with different seeds are comparable.
    ///
    /// # Errors
    /// If there are too few rows or classes, or a label occurs only in a validation or test file.
    pub fn new(train: &Dataset, valid: Option<&Dataset>, test: Option<&Dataset>) -> crate::Result<TrainingData> {
        train.check_trainable()?;
        let mut labels = train.labels();
        labels.sort();
        let mut data = TrainingData::split_files(train, [valid, test], labels)?;
        data.notes.extend(untested_classes_note(&data.test, &data.labels));
        let place_of = |column: usize, cell: &str| {
            let has = |example: &Example| example.text.as_row().values().nth(column) == Some(cell);
            train.examples.iter().position(has).map(|row| train.location(row))
        };
        data.with_columns(&train.features, &place_of)
    }

    /// Builds the data for a complete list of classes.
    pub(crate) fn split_files(
        train: &Dataset,
        [valid, test]: [Option<&Dataset>; 2],
        labels: Vec<String>,
    ) -> crate::Result<TrainingData> {
        row_weights::check_training_weights(train.weights.as_deref(), train.examples.len())?;
        for other in [valid, test].into_iter().flatten() {
            other.check_known_labels(&labels)?;
        }
        let share = |given: Option<&Dataset>| if given.is_some() { 0.0 } else { HELD_OUT };
        let split = data::split(&train.examples, 0, share(valid), share(test));
        let part = |rows: &[usize]| Rows {
            weights: select_weights(train.weights.as_deref(), rows),
            ..Rows::from_examples(rows.iter().map(|&row| &train.examples[row]), &labels)
        };
        let own = |given: Option<&Dataset>, rows: &[usize]| match given {
            Some(dataset) => Rows::from_examples(&dataset.examples, &labels),
            None => part(rows),
        };
        let one = lang().pick("label", "ラベル");
        let mut notes = conflict_notes(&split.conflicts, one);
        let others =
            [valid, test].map(|given| given.map(|data| (data.examples.clone(), boxed(move |row| data.location(row)))));
        notes.extend(row_weights::weights_note(train.weights.as_deref()));
        notes.extend(shared_text_notes(&train.examples, |row| train.location(row), others));
        let data = TrainingData {
            train: part(&split.train),
            valid: own(valid, &split.valid),
            test: own(test, &split.test),
            labels,
            notes,
            ..TrainingData::default()
        };
        data.check_pairs()
    }
}

impl TrainingData {
    /// Checks that answers can be optimized for this figure, if one is requested.
    ///
    /// # Errors
    /// If the classes have a hierarchy, or there are no validation rows.
    pub fn check_optimize(&self, optimize: Option<Optimize>) -> crate::Result<()> {
        let problem = match optimize {
            None => return Ok(()),
            Some(_) if self.hierarchy.is_some() => tr!(
                "--optimize: with a hierarchy, answers are chosen level by level; leave it out, or give --hierarchy \
                 none",
                "--optimize: 階層をなすクラスの答えは段ごとに決まります。指定を外すか、--hierarchy none を指定してください"
            ),
            Some(_) if self.valid.is_empty() => tr!(
                "--optimize: expected validation rows to choose by, found none; leave it out, or give more rows or --valid",
                "--optimize: 選ぶための検証データがありません。指定を外すか、行を増やすか、--valid を指定してください"
            ),
            Some(_) => return Ok(()),
        };
        Err(crate::Error::Setting(problem))
    }
}

impl TrainingData<Vec<u32>> {
    /// Builds the data from files, as [`TrainingData::new`] does. Rows are stratified by their rarest label, so that
    /// frequent enough labels occur in all parts.
    ///
    /// # Errors
    /// If there are too few rows or labels, or a label occurs only in a validation or test file.
    pub fn from_label_sets(
        train: &MultiLabelDataset,
        valid: Option<&MultiLabelDataset>,
        test: Option<&MultiLabelDataset>,
    ) -> crate::Result<TrainingData<Vec<u32>>> {
        train.check_trainable()?;
        let data = TrainingData::split_label_sets(train, [valid, test], train.labels())?;
        let place_of = |column: usize, cell: &str| {
            let has = |example: &MultiLabelExample| example.text.as_row().values().nth(column) == Some(cell);
            train.examples.iter().position(has).map(|row| train.location(row))
        };
        data.with_columns(&train.features, &place_of)
    }

    /// Builds the data for a complete list of labels, without feature columns.
    pub(crate) fn split_label_sets(
        train: &MultiLabelDataset,
        [valid, test]: [Option<&MultiLabelDataset>; 2],
        labels: Vec<String>,
    ) -> crate::Result<TrainingData<Vec<u32>>> {
        row_weights::check_training_weights(train.weights.as_deref(), train.examples.len())?;
        for other in [valid, test].into_iter().flatten() {
            other.check_known_labels(&labels)?;
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let all = train.examples.iter().flat_map(|example| &example.labels);
        all.for_each(|label| *counts.entry(label.as_str()).or_default() += 1);
        let rarest = |example: &MultiLabelExample| {
            let by_count = example.labels.iter().min_by_key(|label| (counts[label.as_str()], label.as_str()));
            by_count.cloned().unwrap_or_default()
        };
        let as_one = |example: &MultiLabelExample| Example {
            text: example.text.clone(),
            label: rarest(example),
            line: example.line,
        };
        let rows: Vec<Example> = train.examples.iter().map(as_one).collect();
        let share = |given: Option<&MultiLabelDataset>| if given.is_some() { 0.0 } else { HELD_OUT };
        let split = data::split(&rows, 0, share(valid), share(test));
        let part = |rows: &[usize]| Rows {
            weights: select_weights(train.weights.as_deref(), rows),
            ..Rows::from_label_sets(rows.iter().map(|&row| &train.examples[row]), &labels)
        };
        let own = |given: Option<&MultiLabelDataset>, rows: &[usize]| match given {
            Some(sets) => Rows::from_label_sets(&sets.examples, &labels),
            None => part(rows),
        };
        let plain = |example: &MultiLabelExample| Example {
            text: example.text.clone(),
            label: example.labels.join("|"),
            line: example.line,
        };
        let of_file = |sets: &MultiLabelDataset| sets.examples.iter().map(plain).collect();
        let others = [valid, test].map(|given| given.map(|sets| (of_file(sets), boxed(move |row| sets.location(row)))));
        let mut notes = shared_text_notes(&rows, |row| train.location(row), others);
        notes.extend(row_weights::weights_note(train.weights.as_deref()));
        let (train, valid, test) = (part(&split.train), own(valid, &split.valid), own(test, &split.test));
        TrainingData { labels, train, valid, test, notes, ..TrainingData::default() }.check_pairs()
    }
}

impl TrainingData<NumberLabel> {
    /// Builds the data from files, as [`TrainingData::new`] does, stratified by the size of the numbers. The
    /// discretizer is fitted to the training rows.
    ///
    /// # Errors
    /// If there are too few rows or distinct numbers.
    pub fn from_scores(
        train: &ScoreDataset,
        valid: Option<&ScoreDataset>,
        test: Option<&ScoreDataset>,
    ) -> crate::Result<TrainingData<NumberLabel>> {
        train.check_trainable()?;
        let data = TrainingData::split_scores(train, [valid, test])?;
        let place_of = |column: usize, cell: &str| {
            let has = |example: &ScoreExample| example.text.as_row().values().nth(column) == Some(cell);
            train.examples.iter().position(has).map(|row| train.location(row))
        };
        data.with_columns(&train.features, &place_of)
    }

    /// Builds the data without feature columns.
    pub(crate) fn split_scores(
        train: &ScoreDataset,
        [valid, test]: [Option<&ScoreDataset>; 2],
    ) -> crate::Result<TrainingData<NumberLabel>> {
        row_weights::check_training_weights(train.weights.as_deref(), train.examples.len())?;
        for other in [valid, test].into_iter().flatten() {
            other.check_number_format(train)?;
        }
        let numbers = |rows: &mut dyn Iterator<Item = &ScoreExample>| rows.map(|row| row.score).collect::<Vec<f64>>();
        let rough = NumberDiscretizer::fit(&numbers(&mut train.examples.iter()));
        let with =
            |example: &ScoreExample, label: String| Example { text: example.text.clone(), label, line: example.line };
        let by_bin = |example: &ScoreExample| with(example, rough.bin(example.score).to_string());
        let rows: Vec<Example> = train.examples.iter().map(by_bin).collect();
        let plain = |data: &ScoreDataset| -> Vec<Example> {
            data.examples.iter().map(|example| with(example, example.score.to_string())).collect()
        };
        let numbered = plain(train);
        let one = lang().pick("number", "数値");
        let mut notes = conflict_notes(&data::split(&numbered, 0, 0.0, 0.0).conflicts, one);
        let others = [valid, test].map(|given| given.map(|data| (plain(data), boxed(move |row| data.location(row)))));
        notes.extend(row_weights::weights_note(train.weights.as_deref()));
        notes.extend(shared_text_notes(&numbered, |row| train.location(row), others));
        let share = |given: Option<&ScoreDataset>| if given.is_some() { 0.0 } else { HELD_OUT };
        let split = data::split(&rows, 0, share(valid), share(test));
        let discretizer = NumberDiscretizer::fit(&numbers(&mut split.train.iter().map(|&row| &train.examples[row])));
        let part = |rows: &[usize]| Rows {
            weights: select_weights(train.weights.as_deref(), rows),
            ..Rows::from_scores(rows.iter().map(|&row| &train.examples[row]), &discretizer)
        };
        let own = |given: Option<&ScoreDataset>, rows: &[usize]| match given {
            Some(scores) => Rows::from_scores(&scores.examples, &discretizer),
            None => part(rows),
        };
        let (train, valid, test) = (part(&split.train), own(valid, &split.valid), own(test, &split.test));
        let labels = discretizer.threshold_labels();
        TrainingData { labels, train, valid, test, notes, discretizer, ..TrainingData::default() }.check_pairs()
    }
}

impl<A: NgramTarget> TrainingData<A> {
    /// Adds to the metrics how many test rows have texts that are also in the training or validation rows, and the
    /// scores of the others. Adds nothing if there are no such rows.
    ///
    /// # Errors
    /// If `score` fails.
    pub(crate) fn add_unseen(
        &self,
        metrics: &mut Value,
        score: impl FnOnce(&Rows<A>) -> crate::Result<Value>,
    ) -> crate::Result<()> {
        let seen: HashSet<Row> = self.train.texts.iter().chain(&self.valid.texts).map(data::normalize).collect();
        let is_unseen = |row: &usize| !seen.contains(&data::normalize(&self.test.texts[*row]));
        let unseen = self.test.select(&(0..self.test.len()).filter(is_unseen).collect::<Vec<_>>());
        if unseen.len() == self.test.len() {
            return Ok(());
        }
        metrics["leaked_rows"] = (self.test.len() - unseen.len()).into();
        if !unseen.is_empty() {
            metrics["unseen"] = score(&unseen)?;
        }
        Ok(())
    }

    /// Checks the weights of all rows, which a caller may set.
    ///
    /// # Errors
    /// If a part has not one weight for each row, or one is out of range.
    pub(crate) fn check_weights(&self) -> crate::Result<()> {
        let names = [tr!("training", "学習"), tr!("validation", "検証"), tr!("test", "テスト")];
        for (name, rows) in names.iter().zip([&self.train, &self.valid, &self.test]) {
            row_weights::check_weights(name, rows.weights.as_deref(), rows.len())?;
        }
        Ok(())
    }

    /// Returns the weights of the training rows, then of the validation rows. `None` if all are equal.
    pub(crate) fn combined_weights(&self, class_weights: Option<&[f32]>) -> Option<Vec<f32>> {
        let [train, valid] = [&self.train, &self.valid].map(|rows| rows.row_weights(class_weights));
        if train.is_none() && valid.is_none() {
            return None;
        }
        let of = |weights: Option<Vec<f32>>, rows: &Rows<A>| weights.unwrap_or_else(|| vec![1.0; rows.len()]);
        Some([of(train, &self.train), of(valid, &self.valid)].concat())
    }

    /// Returns the number of training rows of each class or label.
    pub fn class_rows(&self) -> Vec<usize> {
        let mut counts = vec![0; self.labels.len()];
        self.train.labels.iter().flat_map(A::label_ids).for_each(|&label| counts[label as usize] += 1);
        counts
    }

    /// The SHA-256 of the rows and their weights. A run that resumes another must have the same.
    pub(crate) fn run_fingerprint(&self) -> String {
        let parts = [&self.train, &self.valid, &self.test];
        if parts.iter().all(|rows| rows.weights.is_none()) {
            return self.fingerprint();
        }
        let mut hash = Sha256::new();
        hash.update(self.fingerprint());
        for rows in parts {
            let weights = rows.weights.as_deref().unwrap_or_default();
            hash.update((weights.len() as u64).to_le_bytes());
            weights.iter().for_each(|weight| hash.update(weight.to_le_bytes()));
        }
        crate::checksum::hex(hash.finalize())
    }

    /// The SHA-256 of all texts and answers, in order. It identifies the rows of a model, whatever their weights.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for label in &self.labels {
            hash.update((label.len() as u64).to_le_bytes());
            hash.update(label);
        }
        for rows in [&self.train, &self.valid, &self.test] {
            hash.update((rows.len() as u64).to_le_bytes());
            for (text, answer) in rows.texts.iter().zip(&rows.labels) {
                hash.update((text.as_row().joined_len() as u64).to_le_bytes());
                text.as_row().joined().for_each(|part| hash.update(part));
                if A::IS_SET {
                    hash.update((answer.label_ids().len() as u64).to_le_bytes());
                }
                answer.label_ids().iter().for_each(|label| hash.update(label.to_le_bytes()));
                answer.regression_value().into_iter().for_each(|number| hash.update(number.to_le_bytes()));
            }
        }
        if !self.columns.is_empty() {
            hash.update(serde_json::to_vec(&self.columns).expect("columns are plain data"));
        }
        crate::checksum::hex(hash.finalize())
    }
}
