//! What a file is for: classes to tell apart, numbers to tell, words to label, pairs to translate, or text to continue.

use super::columns;
use super::error::DataError;
use super::files::DataFiles;
use super::format::{Format, ReadOptions};
use super::label_sets::looks_like_label_sets;
use super::numbers::{are_all_numbers, looks_like_scores};
use super::pair_columns::promised_pair;
use super::pairs::pair_table;
use super::profile::Profile;
use super::record::Record;
use super::spans::{key_of_spans, why_conll};
use crate::lang::wording::{joined, quoted};
use crate::tr;

/// What data is for: what a model can be trained to do with it. A classifier may be one of two kinds of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Give a text one of several labels.
    Classify,
    /// Give a text any number of labels.
    Labels,
    /// Give a text a number: a rating, a measure.
    Score,
    /// Give each word of a text a label: names, parts of speech.
    Tag,
    /// Turn a text into another.
    Translate,
    /// Continue a text.
    LanguageModel,
}

/// The task that data is for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recognised {
    /// The task.
    pub task: Task,
    /// Why, for people: `source = column “ja” (its language), target = column “en” (its language)`.
    pub why: String,
}

/// Says what data is for.
///
/// Two parallel files are pairs. In a table, two columns named as a pair (source and target, ja and en …) are one unless
/// the target has few, repeated values; then comes a label, by name or by few, repeated values; two columns of text of
/// like length without a label, and with no other column, are a pair too. Text without columns, or with one, is to be continued, and so is a file
/// that is no table by name and holds neither.
///
/// # Errors
///
/// Whatever keeps the file from being read, and a table in which neither a pair nor a label nor one text can be found. Two
/// columns of text that only other columns stand beside may be a title and its description as well as a pair.
pub fn recognise(files: &DataFiles, options: &ReadOptions) -> Result<Recognised, DataError> {
    let path = match files {
        DataFiles::One(path) => path,
        DataFiles::Parallel { .. } => {
            return Ok(Recognised {
                task: Task::Translate,
                why: tr!("two parallel files", "行ごとに対応する 2 つのファイル"),
            });
        }
    };
    if let Some(why) = why_conll(path, options)? {
        return Ok(Recognised {
            task: Task::Tag, why: tr!("words with tags: {why}", "タグの付いた単語：{why}")
        });
    }
    let table = pair_table(path, &ReadOptions { several_labels: true, ..options.clone() })?;
    let (layout, rows) = (&table.layout, table.sample.iter().collect::<Vec<&Record>>());
    let found = |task, why: String| Ok(Recognised { task, why });
    match layout.format {
        Format::FastText => {
            if let Some(why) = looks_like_label_sets(path, options)? {
                return found(
                    Task::Labels,
                    tr!("labels in front of each text, {why}", "各テキストの前にラベル。{why}"),
                );
            }
            return found(Task::Classify, tr!("a label in front of each text", "各テキストの前にラベル"));
        }
        Format::PlainText => {
            return found(Task::LanguageModel, tr!("plain text without columns", "列のないプレーンテキスト"));
        }
        _ => {}
    }
    if let Some(key) = key_of_spans(rows.iter().filter_map(|row| row.object.as_ref())) {
        let key = quoted(key);
        return found(Task::Tag, tr!("spans in {key}", "{key}にスパン"));
    }
    if let Some(columns) = promised_pair(layout, &rows, options) {
        let others = columns.unexplained(layout, &rows, options);
        if !others.is_empty() {
            let titles = |columns: &[usize]| {
                let titles: Vec<String> = columns.iter().map(|&column| layout.column_title(column)).collect();
                joined(&titles).into()
            };
            let pair = titles(&[columns.source, columns.target]);
            return Err(DataError::NoTask { path: path.clone(), pair, others: titles(&others) });
        }
        return found(Task::Translate, columns.describe(layout));
    }
    if let Some(why) = looks_like_label_sets(path, options)? {
        return found(Task::Labels, tr!("several labels a text: {why}", "テキストごとに複数のラベル：{why}"));
    }
    let options = ReadOptions { require_label: true, pairs: true, ..options.clone() };
    match columns::choose(layout, &rows, &options) {
        Ok(columns) => {
            if let Some(why) = columns.label.and_then(|label| looks_like_scores(layout, &rows, label)) {
                return found(Task::Score, tr!("a number for each text: {why}", "テキストごとの数値：{why}"));
            }
            let label = columns.label.map_or_else(String::new, |label| layout.column_title(label));
            let why = &columns.label_why;
            match columns.label.is_some_and(|label| are_all_numbers(&rows, label)) {
                false => found(Task::Classify, tr!("label = {label} ({why})", "ラベル = {label}（{why}）")),
                // They may be codes, or a rating by another name.
                true => found(
                    Task::Classify,
                    tr!(
                        "label = {label} ({why}), whose numbers are taken as names; --task score predicts them as numbers",
                        "ラベル = {label}（{why}）。数値はクラス名として扱います。数値として予測するには --task score"
                    ),
                ),
            }
        }
        Err(DataError::NoColumn { .. })
            if columns::choose(layout, &rows, &ReadOptions { numbers: true, ..options.clone() }).is_ok() =>
        {
            let options = ReadOptions { numbers: true, ..options.clone() };
            let column = columns::choose(layout, &rows, &options)?.label.unwrap_or_default();
            let column = layout.column_title(column);
            found(
                Task::Score,
                tr!("a number for each text: {column} holds a measure", "テキストごとの数値：{column}は数値"),
            )
        }
        Err(error) => {
            let is_text = |c: &usize| Profile::of(layout, &rows, *c).is_sentence_like();
            // Prose may have a comma in each line.
            let is_guess = matches!(layout.format, Format::Csv { .. }) && !table.is_sure();
            let texts: Vec<usize> = (0..layout.columns.len()).filter(is_text).collect();
            match (texts.as_slice(), &error) {
                _ if is_guess => found(
                    Task::LanguageModel,
                    tr!("lines that make no table of labels or pairs", "ラベルや対訳の表にならない行"),
                ),
                ([text], DataError::NoColumn { .. }) if layout.columns.len() == 1 => {
                    let text = layout.column_title(*text);
                    found(Task::LanguageModel, tr!("text = {text}, and no label", "テキスト = {text}、ラベルなし"))
                }
                _ => Err(error),
            }
        }
    }
}
