//! Detects the task that a file is for: classification, regression, tagging, translation or language modeling.

use super::error::{ColumnRole, DataError};
use super::files::DataFiles;
use super::format::{Format, ReadOptions};
use super::multi_label::looks_multi_label;
use super::pairs::open_pair_table;
use super::record::{Record, TableLayout};
use super::schema_inference::columns::{self, ColumnChooser, FeatureSource};
use super::schema_inference::label::LabelCandidate;
use super::schema_inference::label_form::LabelForm;
use super::schema_inference::missing::MissingValues;
use super::schema_inference::numbers::{are_all_numbers, looks_like_scores};
use super::schema_inference::pair_columns::evident_pair;
use super::schema_inference::profile::ColumnProfile;
use super::source::describe_alternatives;
use super::spans::{conll_reason, find_span_key};
use super::table::DataTable;
use crate::lang::wording::{join_names, quote};
use crate::tr;

/// The task that a model can be trained for on some data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainingTask {
    /// Assign one of several labels to a text.
    Classify,
    /// Assign any number of labels to a text.
    Labels,
    /// Predict a number for a text, such as a rating or a measure.
    Score,
    /// Assign a label to each word of a text, such as names or parts of speech.
    Tag,
    /// Translate a text into another.
    Translate,
    /// Continue a text.
    LanguageModel,
}

/// The detected task and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetectedTask {
    /// The task.
    pub task: TrainingTask,
    /// The reason, for users: `source = column “ja” (its language), target = column “en” (its language)`.
    pub why: String,
}

/// Detects the task that data is for.
///
/// Two parallel files are pairs. A table is checked in this order:
///
/// 1. Two columns named as a pair (source and target, ja and en …) are one, unless the target has few, repeated values.
/// 2. A label column is recognized by its name or by few, repeated values.
/// 3. Two text columns of similar length are a pair if there is no label and no other column.
///
/// Text with one column or none is for language modeling. So is a file that is no table by name and has neither a pair
/// nor a label.
///
/// # Errors
///
/// Errors that keep the file from being read, and a table without a clear pair, label or single text. Two text columns
/// next to other columns are not clear: they may be a title and its description as well as a pair.
pub fn detect_task(files: &DataFiles, options: &ReadOptions) -> Result<DetectedTask, DataError> {
    let path = match files {
        DataFiles::One(path) => path,
        DataFiles::Parallel { .. } => {
            return Ok(DetectedTask {
                task: TrainingTask::Translate,
                why: tr!("two parallel files", "行ごとに対応する 2 つのファイル"),
            });
        }
    };
    if let Some(why) = conll_reason(path, options)? {
        return Ok(DetectedTask {
            task: TrainingTask::Tag,
            why: tr!("words with tags: {why}", "タグの付いた単語：{why}"),
        });
    }
    let table = open_pair_table(path, &ReadOptions { several_labels: true, ..options.clone() })?;
    let (layout, rows) = (&table.layout, table.sample.iter().collect::<Vec<&Record>>());
    let found = |task, why: String| Ok(DetectedTask { task, why });
    match layout.format {
        Format::FastText => {
            if let Some(why) = looks_multi_label(path, options)? {
                return found(
                    TrainingTask::Labels,
                    tr!("labels in front of each text, {why}", "各テキストの前にラベル。{why}"),
                );
            }
            return found(TrainingTask::Classify, tr!("a label in front of each text", "各テキストの前にラベル"));
        }
        Format::PlainText => {
            return found(TrainingTask::LanguageModel, tr!("plain text without columns", "列のないプレーンテキスト"));
        }
        _ => {}
    }
    if let Some(key) = find_span_key(rows.iter().filter_map(|row| row.object.as_ref())) {
        let key = quote(key);
        return found(TrainingTask::Tag, tr!("spans in {key}", "{key}にスパン"));
    }
    if let Some(columns) = evident_pair(layout, &rows, options) {
        let others = columns.unexplained_columns(layout, &rows, options);
        if !others.is_empty() {
            let titles = |columns: &[usize]| {
                let titles: Vec<String> = columns.iter().map(|&column| layout.column_title(column)).collect();
                join_names(&titles).into()
            };
            let pair = titles(&[columns.source, columns.target]);
            return Err(DataError::NoTask { path: path.clone(), pair, others: titles(&others) });
        }
        return found(TrainingTask::Translate, columns.describe(layout));
    }
    let options = ReadOptions { require_label: true, pairs: true, ..options.clone() };
    match best_label_reading(layout, &rows, &options) {
        Ok(Some((LabelCandidate { form: LabelForm::Number(_), why }, next))) => {
            let next = describe_alternatives(&next);
            found(TrainingTask::Score, tr!("a number for each text: {why}{next}", "テキストごとの数値：{why}{next}"))
        }
        Ok(Some((LabelCandidate { form, why }, next))) if form.is_multi_label() => {
            let next = describe_alternatives(&next);
            found(
                TrainingTask::Labels,
                tr!("several labels per text: {why}{next}", "テキストごとに複数のラベル：{why}{next}"),
            )
        }
        Ok(reading) => {
            let chosen = columns::choose_columns(layout, &rows, &options);
            let columns = match chosen {
                Ok(columns) => columns,
                Err(error) => return task_without_label(&table, &rows, &options, error),
            };
            // With few rows, the only other column is the label.
            let (label, why) = match &reading {
                Some((LabelCandidate { form: LabelForm::Class(column), why }, _)) => (Some(*column), why.as_str()),
                _ => (columns.label, columns.label_why),
            };
            let missing = MissingValues::from_options(&options);
            let title = label.map_or_else(String::new, |label| layout.column_title(label));
            let is_scores = label.filter(|_| reading.is_none());
            if let Some(why) = is_scores.and_then(|label| looks_like_scores(layout, &rows, label, &missing)) {
                return found(TrainingTask::Score, tr!("a number for each text: {why}", "テキストごとの数値：{why}"));
            }
            let next = describe_alternatives(reading.as_ref().map_or(&[], |(_, next)| &next[..]));
            match label.is_some_and(|label| are_all_numbers(&rows, label, &missing)) {
                false => found(
                    TrainingTask::Classify,
                    tr!("label = {title} ({why}){next}", "ラベル = {title}（{why}）{next}"),
                ),
                // The numbers may be codes, or a rating under another name.
                true => found(
                    TrainingTask::Classify,
                    tr!(
                        "label = {title} ({why}), whose numbers are taken as names; --task score predicts them as numbers{next}",
                        "ラベル = {title}（{why}）。数値はクラス名として扱います。数値として予測するには --task score{next}"
                    ),
                ),
            }
        }
        Err(error) => task_without_label(&table, &rows, &options, error),
    }
}

/// Returns the best reading of the label and its alternatives. `None` if only the remaining column can be the label.
///
/// # Errors
///
/// If there is no text, or if several readings are about equally likely.
fn best_label_reading(
    layout: &TableLayout,
    rows: &[&Record],
    options: &ReadOptions,
) -> Result<Option<(LabelCandidate, Vec<String>)>, DataError> {
    let columns = columns::choose_columns(layout, rows, &ReadOptions { require_label: false, ..options.clone() })?;
    let chooser = ColumnChooser::new(layout, rows, options);
    let requested =
        options.label.as_deref().map(|requested| chooser.requested_column(ColumnRole::Label, requested)).transpose()?;
    let label = requested.or(columns.label);
    let beside = columns.features.iter().map(FeatureSource::column);
    let texts: Vec<usize> = [Some(columns.text), columns.second].into_iter().chain(beside).flatten().collect();
    let found = chooser.choose_label_reading(&texts, label)?;
    Ok(found.map(|(reading, next)| {
        // The name decides which column it is.
        let why = if requested.is_none() && label.is_some() && matches!(reading.form, LabelForm::Class(_)) {
            columns.label_why.to_owned()
        } else {
            reading.why
        };
        (LabelCandidate { form: reading.form, why }, next.into_iter().collect())
    }))
}

/// Returns the task of a table without a label, or the error that reports it.
fn task_without_label(
    table: &DataTable,
    rows: &[&Record],
    options: &ReadOptions,
    error: DataError,
) -> Result<DetectedTask, DataError> {
    let (layout, missing) = (&table.layout, MissingValues::from_options(options));
    let found = |task, why: String| Ok(DetectedTask { task, why });
    let is_text = |c: &usize| ColumnProfile::of_column(layout, rows, *c, &missing).is_sentence_like();
    // Prose may have a comma in every line.
    let is_guess = matches!(layout.format, Format::Csv { .. }) && !table.is_certain();
    let texts: Vec<usize> = (0..layout.columns.len()).filter(is_text).collect();
    match (texts.as_slice(), &error) {
        _ if is_guess => found(
            TrainingTask::LanguageModel,
            tr!("lines that make no table of labels or pairs", "ラベルや対訳の表にならない行"),
        ),
        ([text], DataError::NoColumn { .. }) if layout.columns.len() == 1 => {
            let text = layout.column_title(*text);
            found(TrainingTask::LanguageModel, tr!("text = {text}, and no label", "テキスト = {text}、ラベルなし"))
        }
        _ => Err(error),
    }
}
