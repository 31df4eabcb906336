//! Continued training: starts from the weights and tokens of a base model, and trains on old and new rows.
//!
//! A network that is trained on new rows alone forgets the old ones (McCloskey and Cohen, "Catastrophic interference in
//! connectionist networks", 1989). The old rows are therefore replayed with the new ones (Robins, "Catastrophic
//! forgetting, rehearsal and pseudorehearsal", 1995).

use super::base_model::BaseModel;
use super::comparison::{NEW_TEST, NEW_VALID, OLD_TEST, OLD_VALID};
use super::replay_target::ReplayTarget;
use crate::data::{Dataset, normalize};
use crate::lang::wording::{format_count, list_names};
use crate::params::ParamLayout;
use crate::params::ParamView;
use crate::params::Params;
use crate::row::{AsRow, Row, RowRef};
use crate::scoring::Rows;
use crate::text_models::classifier::TextClassifier;
use crate::train::data::data_source::DataSource;
use crate::train::data::training_data::{ContinuedData, TrainingData};
use crate::train::settings::plan::{DataShape, FineTuning, Plan};
use crate::train::training_loop::train_settings::TrainSettings;
use crate::{Error, Result, tr};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A data source with its files, as read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceData<F = Dataset> {
    /// The source to record. `None` for data from a pipe.
    pub(crate) source: Option<DataSource>,
    /// The training file.
    pub train: F,
    /// The validation file, if any.
    pub valid: Option<F>,
    /// The test file, if any.
    pub test: Option<F>,
}

impl<F> SourceData<F> {
    /// Combines files after reading.
    pub fn new(source: Option<DataSource>, train: F, [valid, test]: [Option<F>; 2]) -> SourceData<F> {
        SourceData { source, train, valid, test }
    }
}

impl<A: ReplayTarget> TrainingData<A> {
    /// Combines old and new rows. `is_known` is true if the base model was trained on exactly these rows; its
    /// discretizer then stays.
    pub(super) fn combine_old_and_new(
        known: &BaseModel,
        old: Option<&TrainingData<A>>,
        new: SourceData<A::File>,
        replays: bool,
        is_known: bool,
    ) -> Result<TrainingData<A>> {
        let SourceData { source, mut train, mut valid, mut test } = new;
        if let Some(paths) = known.paths() {
            let files = [Some(&mut train), valid.as_mut(), test.as_mut()];
            files.into_iter().flatten().try_for_each(|file| A::normalize_labels(file, paths))?;
        }
        let mut labels = [known.labels.clone(), A::labels(&train)].concat();
        labels.extend(old.iter().flat_map(|old| old.labels.iter().cloned()));
        labels.sort();
        labels.dedup();
        // Thresholds of numbers stay in the order of the numbers.
        if !known.discretizer.thresholds.is_empty() {
            labels.clone_from(&known.labels);
        }
        let parts = A::split_files(&train, [valid.as_ref(), test.as_ref()], labels.clone())?;
        let terms = (&labels[..], &known.discretizer);
        let convert = |rows: &Rows<A>, from: &[String]| A::convert(rows, from, terms);
        let of_old = old.map(|old| [&old.train, &old.valid, &old.test].map(|rows| convert(rows, &old.labels)));
        let found = [&parts.train, &parts.valid, &parts.test].map(|rows| convert(rows, &parts.labels));
        let CombinedRows { parts: [train_rows, valid_rows, test_rows], compared, note } =
            combine_rows(of_old.unwrap_or_default(), found, replays, A::path(&train))?;
        let mut notes = parts.notes;
        notes.extend(note);
        let sources = trained_sources(source, old.map(|old| &old.sources[..]).filter(|_| replays));
        if known.discretizer.thresholds.is_empty() {
            let mut is_trained = vec![false; labels.len()];
            train_rows.labels.iter().flat_map(A::label_ids).for_each(|&label| is_trained[label as usize] = true);
            notes.extend(untrained_labels_note(&labels, &is_trained));
        }
        let hierarchy = known.paths().map(|paths| paths.build(&labels)).transpose()?;
        let mut data = TrainingData {
            labels,
            discretizer: known.discretizer.clone(),
            train: train_rows,
            valid: valid_rows,
            test: test_rows,
            notes,
            hierarchy,
            sources,
            continued: Some(ContinuedData { replays, compared, base: known.snapshot() }),
            ..TrainingData::default()
        };
        if !is_known {
            A::update_discretizer(&mut data, known);
        }
        let place_of = |column: usize, cell: &str| A::place_of(&train, column, cell);
        data.check_pairs()?.with_base_columns((&known.columns, &known.column_requests()), &place_of)
    }
}

/// The rows of a part of the data, each a text with its answer.
pub(crate) trait AnsweredRows: Clone {
    /// An answer.
    type Answer: PartialEq;

    /// The texts with their answers.
    fn answers(&self) -> Vec<(RowRef<'_>, &Self::Answer)>;

    /// The rows with these indices.
    fn selected(&self, rows: &[usize]) -> Self;

    /// These rows, then the others.
    fn followed_by(self, others: Self) -> Self;
}

impl<A: ReplayTarget> AnsweredRows for Rows<A> {
    type Answer = A;

    fn answers(&self) -> Vec<(RowRef<'_>, &A)> {
        self.texts.iter().map(AsRow::as_row).zip(&self.labels).collect()
    }

    fn selected(&self, rows: &[usize]) -> Self {
        self.select(rows)
    }

    fn followed_by(self, others: Self) -> Self {
        self.concat(others)
    }
}

/// Old and new rows of continued training.
pub(crate) struct CombinedRows<R> {
    /// Training, validation and test rows.
    pub(crate) parts: [R; 3],
    /// The rows to compare the old and the new model on, by name.
    pub(crate) compared: Vec<(&'static str, R)>,
    /// The note on new rows that were left out, if any.
    pub(crate) note: Option<String>,
}

/// Combines old and new rows, in their parts. New rows that are among the old ones are left out. Old rows are part of
/// the training data if `replays` is true. `path` is the file of the new training rows.
///
/// # Errors
/// If no new training row is left.
pub(crate) fn combine_rows<R: AnsweredRows>(
    old: [R; 3],
    new: [R; 3],
    replays: bool,
    path: &Path,
) -> Result<CombinedRows<R>> {
    let count = |rows: &[R; 3]| rows.iter().map(|part| part.answers().len()).sum::<usize>();
    let rows = count(&new);
    let new = without_old_rows(&old, new);
    let note = duplicate_rows_note(rows - count(&new));
    if new[0].answers().is_empty() {
        return Err(no_new_rows_error(path));
    }
    let named = [(OLD_VALID, &old[1]), (OLD_TEST, &old[2]), (NEW_VALID, &new[1]), (NEW_TEST, &new[2])];
    let named = named.into_iter().filter(|(_, rows)| !rows.answers().is_empty());
    let compared = named.map(|(name, rows)| (name, rows.clone())).collect();
    let mut old = old.into_iter();
    let parts = new.map(|new| match old.next().filter(|_| replays) {
        Some(old) => old.followed_by(new),
        None => new,
    });
    Ok(CombinedRows { parts, compared, note })
}

/// The note on new rows that were left out, if any.
fn duplicate_rows_note(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| {
        let rows = format_count(left_out as u64, "row");
        tr!(
            "{rows} left out of the new data: their texts are among the old rows",
            "新しいデータのうち {left_out} 行は、テキストが元のデータにあるため除きました"
        )
    })
}

/// The error of a file without new rows.
fn no_new_rows_error(path: &Path) -> Error {
    let path = path.display();
    Error::Setting(tr!(
        "{path}: expected new rows to train on, found only rows that the model was trained or tested on; give other \
         rows",
        "{path}: 新しい学習用の行が必要ですが、元のデータにある行しかありません。ほかのデータを指定してください"
    ))
}

/// Returns the sources of the training rows: those of replayed rows, then the new one.
pub(crate) fn trained_sources(new: Option<DataSource>, old: Option<&[DataSource]>) -> Vec<DataSource> {
    match (new, old) {
        // If some rows cannot be read again, a list of the others would be incomplete.
        (None, _) | (Some(_), Some([])) => Vec::new(),
        (Some(new), old) => [old.unwrap_or_default(), &[new]].concat(),
    }
}

/// The warning about labels without training rows, if any.
pub(crate) fn untrained_labels_note(labels: &[String], is_trained: &[bool]) -> Option<String> {
    let bare: Vec<&String> =
        labels.iter().zip(is_trained).filter(|(_, trained)| !**trained).map(|(label, _)| label).collect();
    (!bare.is_empty()).then(|| {
        let (names, n) = (list_names(&bare), bare.len());
        tr!(
            "warning: no training rows for {names} ({n} in all): the model may forget them",
            "警告: {names}（計 {n}）には学習用の行がありません。モデルがこれらを忘れるおそれがあります"
        )
    })
}

/// Removes old rows from the training, validation and test parts of new rows.
fn without_old_rows<R: AnsweredRows>(old: &[R; 3], new: [R; 3]) -> [R; 3] {
    let mut kept = is_new_row(old.each_ref().map(R::answers), new.each_ref().map(R::answers)).into_iter();
    new.map(|rows| {
        let is_kept = kept.next().unwrap_or_default();
        rows.selected(&(0..is_kept.len()).filter(|&row| is_kept[row]).collect::<Vec<_>>())
    })
}

/// Texts with their answers.
type TextsWithAnswers<'a, A> = Vec<(RowRef<'a>, &'a A)>;

/// Marks the new rows, in their parts, that are not among the old ones.
///
/// Held-out texts must not become training texts, nor training texts held-out ones. Duplicate rows are dropped. An old
/// training text may come with another answer or, for rows with feature columns, with other values.
fn is_new_row<A: PartialEq>(old: [TextsWithAnswers<'_, A>; 3], new: [TextsWithAnswers<'_, A>; 3]) -> [Vec<bool>; 3] {
    let texts =
        |rows: &TextsWithAnswers<'_, A>| -> HashSet<Row> { rows.iter().map(|(row, _)| normalize(row)).collect() };
    let [trained, valid, test] = old.each_ref().map(texts);
    let (held, all) = (&valid | &test, &(&trained | &valid) | &test);
    // Texts are compared without their feature columns.
    let whole = |row: RowRef<'_>| normalize(row).as_row().with_values(&row.values().collect::<Vec<_>>());
    let mut rows: HashMap<Row, Vec<&A>> = HashMap::new();
    old[0].iter().for_each(|(row, answer)| rows.entry(whole(*row)).or_default().push(answer));
    let is_there = |row: RowRef<'_>, answer: &A| rows.get(&whole(row)).is_some_and(|answers| answers.contains(&answer));
    let [train, valid, test] = new;
    let held_out = |rows: TextsWithAnswers<'_, A>| rows.iter().map(|(row, _)| !all.contains(&normalize(row))).collect();
    let is_new = |(row, answer): &(RowRef<'_>, &A)| !held.contains(&normalize(row)) && !is_there(*row, answer);
    [train.iter().map(is_new).collect(), held_out(valid), held_out(test)]
}

/// Chooses the plan for continued training: the architecture stays, with smaller steps and fewer epochs than at first,
/// since training starts from the end of an earlier run.
///
/// `limit` is the maximum number of tokens that a fine-tuned encoder reads.
pub(crate) fn continued_plan(before: &TextClassifier, shape: &DataShape<'_>, limit: usize) -> Plan {
    const RATE: f64 = 0.3;
    let mut model = before.config.model.clone();
    model.num_classes = shape.class_rows.len();
    if let Some(origin) = &before.origin {
        let mut plan = Plan::fine_tuning(shape, model, origin.model_type(), limit);
        if let Some(fine_tuning) = &mut plan.fine_tuning {
            fine_tuning.soften(before.config.max_tokens(), &mut plan.settings);
        }
        return plan;
    }
    let mut plan = Plan::new(shape);
    plan.model = model;
    let settings = &mut plan.settings;
    settings.learning_rate *= RATE;
    settings.epochs = (settings.epochs / 2).max(4);
    settings.patience = (settings.epochs / 3).max(6);
    settings.batch_tokens = settings.batch_tokens.max(plan.model.max_length);
    plan
}

impl FineTuning {
    /// Adapts the settings to a network that was already fine-tuned: half the epochs and half the learning rate.
    pub(crate) fn soften(&mut self, max_tokens: usize, settings: &mut TrainSettings) {
        const RATE: f64 = 0.5;
        self.max_tokens = self.max_tokens.max(max_tokens);
        settings.batch_tokens = settings.batch_tokens.max(self.max_tokens);
        settings.learning_rate *= RATE;
        settings.epochs = (settings.epochs / 2).max(3);
        settings.patience = settings.epochs;
    }
}

/// Copies the weights of a network into a new layout. Each output of the last layer is a weighted sum of old outputs,
/// given by `kept`. New outputs start with their `bias`.
pub(crate) fn params_from_outputs(
    before: &Params<f32>,
    layout: &Arc<ParamLayout>,
    kept: &[Vec<(usize, f32)>],
    bias: Option<&[f32]>,
    seed: u64,
) -> Params<f32> {
    let mut params = Params::init(layout, seed);
    let known: HashMap<&str, Range<usize>> = before.layout().iter().map(|param| (param.name, param.range)).collect();
    let old = before.values();
    for ParamView { name, range, .. } in layout.iter() {
        let Some(old_range) = known.get(name) else { continue };
        if !matches!(name, "head.weight" | "head.bias") {
            params.values_mut()[range].copy_from_slice(&old[old_range.clone()]);
            continue;
        }
        // The number of values for each output.
        let width = range.len() / kept.len();
        for (output, shares) in kept.iter().enumerate() {
            let to = range.start + output * width;
            if let (true, "head.bias", Some(bias)) = (shares.is_empty(), name, bias) {
                params.values_mut()[to] = bias[output];
            }
            if shares.is_empty() {
                continue;
            }
            for i in 0..width {
                let of_share = |&(was, share): &(usize, f32)| share * old[old_range.start + was * width + i];
                params.values_mut()[to + i] = shares.iter().map(of_share).sum();
            }
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<R: AsRow>(texts: &[R], labels: &[u32]) -> Rows {
        Rows {
            texts: texts.iter().map(|text| text.as_row().to_row()).collect(),
            labels: labels.to_vec(),
            weights: None,
        }
    }

    #[test]
    fn no_text_is_both_trained_on_and_held_out() {
        let old = [rows(&["a", "b"], &[0, 1]), rows(&["v"], &[0]), rows(&["t"], &[1])];
        let new = [
            rows(&["A", "b", "v", "T", "n"], &[0, 0, 0, 1, 1]),
            rows(&["a", "v", "m"], &[0, 0, 1]),
            rows(&["b", "t", "o"], &[1, 1, 0]),
        ];
        let [train, valid, test] = without_old_rows(&old, new);
        // In the training rows, b has another class now.
        assert_eq!((train.texts, train.labels), (vec!["b".into(), "n".into()], vec![0, 1]));
        assert_eq!((valid.texts, test.texts), (vec!["m".into()], vec!["o".into()]));
    }

    /// Other column values make another row, but not an unseen text.
    #[test]
    fn other_column_values_make_new_rows_but_not_new_texts() {
        let row = |text: &str, value: &str| text.as_row().with_values(&[value]);
        let [a1, a2, a3] = ["1", "2", "3"].map(|value| row("a", value));
        let [v1, v2] = ["1", "2"].map(|value| row("v", value));
        let old = [rows(&[&a1], &[0]), rows(&[&v1], &[0]), rows::<Row>(&[], &[])];
        let new = [rows(&[&a1, &a2, &v2], &[0, 0, 0]), rows(&[&a3], &[0]), rows::<Row>(&[], &[])];
        let [train, valid, _] = without_old_rows(&old, new);
        assert_eq!((train.texts, valid.texts), (vec![a2], vec![]));
    }
}
