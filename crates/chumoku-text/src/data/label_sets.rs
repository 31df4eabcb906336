//! Texts with any number of labels each: how files write them, and how that is recognised.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::columns::{self, Beside, Chooser};
use super::dataset::{MAX_CLASSES, MIN_TRAINING_ROWS};
use super::error::{DataError, Place, Role};
use super::format::{Format, ReadOptions};
use super::record::{Layout, Record, Skipped};
use super::source::Source;
use crate::beside::Asked;
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, joined, listed, quoted};
use crate::tr;

/// A text and its labels: none, one or several, each once, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledText {
    /// The text, as the file has it.
    pub text: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The line on which it begins, or its row in Parquet.
    pub line: u64,
}

/// The texts of one file with their labels.
#[derive(Debug, Clone)]
pub struct LabelSets {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// In the order of the file.
    pub examples: Vec<LabelledText>,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// What the file was taken for and why, in one line.
    pub description: String,
    /// The columns beside the text, as they were asked for.
    pub beside: Vec<Asked>,
    /// Whether places are rows, as in Parquet.
    rows: bool,
}

/// What somebody has said of how labels are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelOptions {
    /// Columns that are a label each, 1 where it holds.
    pub columns: Vec<String>,
    /// What stands between the labels of the label column.
    pub separator: Option<char>,
}

/// How a file writes the labels of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// `__label__a __label__b text`.
    FastText,
    /// In one column, with this between them.
    Separated(usize, char),
    /// In one column as a list, JSON's or Python's.
    List(usize),
    /// A column for each, 1 where it holds.
    Columns(Vec<usize>),
}

/// Separators that are looked for.
const SEPARATORS: [char; 3] = ['|', ';', ','];

/// Reads a file of texts with any number of labels each.
///
/// # Errors
///
/// Whatever is wrong with the file; if nothing in it looks like several labels and nobody says how they are written.
pub fn load_label_sets(path: &Path, options: &ReadOptions, how: &LabelOptions) -> Result<LabelSets, DataError> {
    let source = open(path, options)?;
    let Some((form, why)) = find(&source, options, how)? else {
        let columns =
            joined(&(0..source.layout().columns.len()).map(|c| source.layout().column_title(c)).collect::<Vec<_>>());
        return Err(DataError::NoLabelSets { path: path.to_owned(), columns });
    };
    let layout = source.layout().clone();
    let description = describe(&source, &form, &why);
    let (rows, beside) = (source.place(0).is_row, source.asked_beside());
    let mut records = source.records();
    let (mut examples, mut known) = (Vec::new(), HashSet::new());
    while let Some(record) = records.next() {
        let record = record?;
        let place = records.source().place(record.line);
        let labels = match labels_of(&form, &layout, &record, place) {
            Ok(labels) => labels,
            Err(error) => {
                records.leave_out(error)?;
                continue;
            }
        };
        for label in &labels {
            if known.insert(label.clone()) && known.len() > MAX_CLASSES {
                let place = records.source().place(record.line);
                return Err(DataError::TooManyClasses { place, limit: MAX_CLASSES, column: title(&layout, &form) });
            }
        }
        let text = records.source().text_of(&record).into_owned();
        examples.push(LabelledText { text, labels, line: record.line });
    }
    let skipped = records.skipped().clone();
    let path = path.to_owned();
    if examples.is_empty() {
        return Err(DataError::NoUsableRows { path, skipped: skipped.to_string() });
    }
    Ok(LabelSets { path, examples, skipped, description, beside, rows })
}

/// Why a file looks as if its texts had several labels each; nothing if it does not.
///
/// # Errors
///
/// Whatever keeps the file from being read.
pub fn looks_like_label_sets(path: &Path, options: &ReadOptions) -> Result<Option<String>, DataError> {
    // What is wrong with columns is told by whoever reads it as something else.
    let Ok(source) = open(path, options) else { return Ok(None) };
    if source.layout().format == Format::PlainText {
        return Ok(None);
    }
    Ok(find(&source, options, &LabelOptions::default())?.map(|(_, why)| why))
}

fn open(path: &Path, options: &ReadOptions) -> Result<Source, DataError> {
    let options =
        ReadOptions { require_label: false, require_text: true, several_labels: true, pairs: true, ..options.clone() };
    Source::open(path, &options)
}

fn title(layout: &Layout, form: &Form) -> String {
    match form {
        Form::FastText => lang().pick("the labels in front of the texts", "テキストの前のラベル").into(),
        Form::Separated(column, _) | Form::List(column) => layout.column_title(*column),
        Form::Columns(columns) => {
            joined(&columns.iter().map(|&column| layout.column_title(column)).collect::<Vec<_>>())
        }
    }
}

fn describe(source: &Source, form: &Form, why: &str) -> String {
    let layout = source.layout();
    let labels = title(layout, form);
    let title = |column: usize| layout.column_title(column);
    let columns = source.columns();
    let text = [Some(columns.text), columns.second].into_iter().flatten().map(title).collect::<Vec<_>>();
    let text = joined(&text);
    let about = source.describe_table();
    match form {
        Form::FastText => {
            tr!("{about}; labels in front of each text ({why})", "{about}。各テキストの前にラベル（{why}）")
        }
        _ => tr!(
            "{about}; text = {text}, labels = {labels} ({why})",
            "{about}。テキスト = {text}、ラベル = {labels}（{why}）"
        ),
    }
}

/// How the labels are written, and why it looks so.
fn find(source: &Source, options: &ReadOptions, how: &LabelOptions) -> Result<Option<(Form, String)>, DataError> {
    let layout = source.layout();
    let rows: Vec<&Record> = source.sample().iter().collect();
    let beside: Vec<Option<usize>> = source.columns().beside.iter().map(Beside::column).collect();
    let texts = [&[Some(source.columns().text), source.columns().second], &beside[..]].concat();
    let is_text = |column: usize| texts.contains(&Some(column));
    let asked = || lang().pick("as asked", "指定どおり").to_owned();
    if layout.format == Format::FastText {
        let several = rows.iter().filter(|row| row.field(0).contains(' ')).count();
        return Ok((several > 0 || how.separator.is_some()).then(|| {
            let (n, of) = (several, rows.len());
            (Form::FastText, tr!("{n} of the first {of} lines have several", "先頭 {of} 行のうち {n} 行に複数"))
        }));
    }
    let chooser = Chooser::new(layout, &rows);
    if !how.columns.is_empty() {
        let columns = how.columns.iter().map(|name| chooser.asked(Role::Label, name)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Some((Form::Columns(columns), asked())));
    }
    // The column that is named, or whose name says so, or that looks like one of labels.
    let named = source.columns().label;
    let by_content = || {
        columns::choose(layout, &rows, &ReadOptions { require_label: true, pairs: true, ..options.clone() }).ok()?.label
    };
    let column = named.or_else(by_content).filter(|&column| !is_text(column));
    if let (Some(separator), Some(column)) = (how.separator, column) {
        return Ok(Some((Form::Separated(column, separator), asked())));
    }
    let others: Vec<usize> = match named {
        Some(column) => vec![column],
        None => (0..layout.columns.len()).filter(|&column| !is_text(column)).collect(),
    };
    // Numbers are labels where the column is one of labels; elsewhere they may be scores or places.
    let holds_lists = |found: usize| is_list_column(layout, &rows, found, column == Some(found));
    if let Some(&column) = others.iter().find(|&&column| holds_lists(column)) {
        return Ok(Some((Form::List(column), lang().pick("it holds lists", "リストの列").into())));
    }
    if let Some(column) = column {
        for separator in SEPARATORS {
            if let Some(share) = share_of_several(&rows, column, separator) {
                let percent = 100.0 * share;
                let why = tr!(
                    "{percent:.0} % of the first rows have several, with \"{separator}\" between them",
                    "先頭の行の {percent:.0} % に「{separator}」で区切られた複数のラベル"
                );
                return Ok(Some((Form::Separated(column, separator), why)));
            }
        }
        // A column of labels beside columns of 0 and 1 is the label.
        if named.is_some() || options.label.is_some() {
            return Ok(None);
        }
    }
    let flags: Vec<usize> =
        (0..layout.columns.len()).filter(|&column| !is_text(column) && is_flag_column(&rows, column)).collect();
    // Two columns of 0 and 1 may be anything.
    Ok((flags.len() >= 3 && layout.has_names())
        .then(|| (Form::Columns(flags), lang().pick("columns of 0 and 1", "0 と 1 だけの列").to_owned())))
}

/// Whether nearly all values are lists of texts, or of whole numbers if these may be labels; what is wrong with the others is told when
/// they are read.
fn is_list_column(layout: &Layout, rows: &[&Record], column: usize, numbers: bool) -> bool {
    let filled: Vec<&&Record> = rows.iter().filter(|row| !row.field(column).trim().is_empty()).collect();
    let is_list = |row: &Record| {
        list(layout, row, column).is_some_and(|items| numbers || !items.iter().any(|item| is_whole(item)))
    };
    let lists = filled.iter().filter(|row| is_list(row)).count();
    !filled.is_empty() && lists * 10 >= filled.len() * 9
}

fn is_whole(item: &str) -> bool {
    item.parse::<i64>().is_ok()
}

/// The texts of a list, or its whole numbers, where a field holds one.
fn list(layout: &Layout, row: &Record, column: usize) -> Option<Vec<String>> {
    if let Some(value) = row.object.as_ref().and_then(|object| object.get(layout.columns.get(column)?)) {
        let of_item = |item: &Value| match item {
            Value::Number(number) => Some(number.to_string()).filter(|number| is_whole(number)),
            _ => item.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned),
        };
        if let Value::Array(items) = value {
            let numbers = items.iter().filter(|item| item.is_number()).count();
            if numbers != 0 && numbers != items.len() {
                return None;
            }
            return items.iter().map(of_item).collect();
        }
    }
    parse_list(row.field(column))
}

/// A list as JSON, Python or NumPy prints it: `["a", "b"]`, `['a', 'b']`, `[a, b]`, `[1, 2]`, `[1 2]`.
fn parse_list(field: &str) -> Option<Vec<String>> {
    let inside = field.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut items, mut rest) = (Vec::new(), inside.trim());
    if !rest.is_empty() && rest.split_whitespace().all(is_whole) {
        return Some(rest.split_whitespace().map(str::to_owned).collect());
    }
    let mut numbers = 0;
    while !rest.is_empty() {
        let is_quoted = rest.starts_with(['"', '\'']);
        let (item, behind) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (mut item, mut chars) = (String::new(), rest[1..].char_indices());
                loop {
                    match chars.next()? {
                        (_, '\\') => item.push(chars.next()?.1),
                        (at, c) if c == quote => break (item, rest[1 + at + 1..].trim_start()),
                        (_, c) => item.push(c),
                    }
                }
            }
            _ => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        // Other numbers are no labels, and a list within a list is something else.
        numbers += usize::from(!is_quoted && is_whole(&item));
        let is_other_number = super::profile::is_number(&item) && !is_whole(&item) && !is_quoted;
        if item.is_empty() || item.contains(['[', ']', '{']) || is_other_number {
            return None;
        }
        items.push(item);
        rest = match behind.strip_prefix(',') {
            Some(behind) => behind.trim_start(),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    // Half text, half number.
    (numbers == 0 || numbers == items.len()).then_some(items)
}

/// The share of rows with several labels, if a column looks as if its fields held labels with this between them: short names, few
/// of them beside what they make together, most of which stand in more than one row.
fn share_of_several(rows: &[&Record], column: usize, separator: char) -> Option<f64> {
    let (mut several, mut filled) = (0, 0);
    let (mut whole, mut atoms): (HashSet<&str>, HashMap<&str, usize>) = Default::default();
    for field in rows.iter().map(|row| row.field(column).trim()).filter(|field| !field.is_empty()) {
        if field.starts_with('[') && field.ends_with(']') {
            // A list, of something that is no label.
            return None;
        }
        filled += 1;
        whole.insert(field);
        let parts = separated(field, separator);
        several += usize::from(parts.len() > 1);
        for part in parts {
            if part.is_empty() || part.chars().count() > 40 || part.split_whitespace().count() > 4 {
                return None;
            }
            *atoms.entry(part).or_default() += 1;
        }
    }
    let share = several as f64 / f64::from(filled.max(1));
    let repeated = atoms.values().filter(|&&count| count > 1).count();
    let is_few = atoms.len() < whole.len() && atoms.len() * 4 <= filled as usize;
    (share >= 0.02 && several >= 2 && is_few && repeated * 10 >= atoms.len() * 9).then_some(share)
}

/// What stands between separators; one may stand behind the last.
fn separated(field: &str, separator: char) -> Vec<&str> {
    let field = field.trim();
    field.strip_suffix(separator).unwrap_or(field).split(separator).map(str::trim).collect()
}

/// Whether every value is 0 or 1, and both occur.
fn is_flag_column(rows: &[&Record], column: usize) -> bool {
    let mut seen = [false; 2];
    for row in rows {
        match flag(row.field(column)) {
            Some(holds) => seen[usize::from(holds)] = true,
            None => return false,
        }
    }
    seen == [true; 2]
}

/// Whether a label holds, as files write it.
fn flag(field: &str) -> Option<bool> {
    match field.trim() {
        "1" | "1.0" | "true" | "True" | "TRUE" => Some(true),
        "0" | "0.0" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The labels of a row.
fn labels_of(form: &Form, layout: &Layout, record: &Record, place: Place) -> Result<Vec<String>, DataError> {
    let wrong =
        |expected: &'static str, found: String| Err(DataError::BadLabels { place: place.clone(), expected, found });
    let found: Vec<String> = match form {
        Form::FastText => record.field(0).split(' ').map(str::to_owned).filter(|label| !label.is_empty()).collect(),
        Form::Separated(column, separator) => {
            let field = record.field(*column);
            if field.trim().is_empty() {
                return Ok(Vec::new());
            }
            let parts: Vec<String> = separated(field, *separator).into_iter().map(str::to_owned).collect();
            if parts.iter().any(String::is_empty) {
                let expected = lang().pick("names with the separator between them", "区切り文字で区切られたラベル");
                return wrong(expected, quoted(field));
            }
            parts
        }
        Form::List(column) => {
            let field = record.field(*column);
            match list(layout, record, *column) {
                Some(labels) => labels,
                None if field.trim().is_empty() => Vec::new(),
                None => {
                    return wrong(
                        lang().pick("a list of texts or of whole numbers", "文字列だけか整数だけのリスト"),
                        quoted(field),
                    );
                }
            }
        }
        Form::Columns(columns) => {
            let mut labels = Vec::new();
            for &column in columns {
                let field = record.field(column);
                match flag(field) {
                    Some(true) => labels.push(layout.columns[column].trim().to_owned()),
                    Some(false) => {}
                    None => {
                        let name = layout.column_title(column);
                        let found = tr!("{} in {name}", "{name}の {}", quoted(field));
                        return wrong(
                            lang().pick("0 or 1 in each column of a label", "ラベルの列にはどれも 0 か 1"),
                            found,
                        );
                    }
                }
            }
            labels
        }
    };
    if matches!(form, Form::FastText) && found.is_empty() {
        let found = lang().pick("no __label__ on the line", "__label__ のない行").to_owned();
        return Err(DataError::EmptyLabel { place, found: found.into() });
    }
    let mut seen = HashSet::new();
    Ok(found.into_iter().filter(|label| seen.insert(label.clone())).collect())
}

impl LabelSets {
    /// Where an example is.
    pub fn place(&self, example: &LabelledText) -> Place {
        if self.rows { Place::row(&self.path, example.line) } else { Place::line(&self.path, example.line) }
    }

    /// The distinct labels, sorted.
    pub fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&str> =
            self.examples.iter().flat_map(|example| &example.labels).map(String::as_str).collect();
        labels.into_iter().map(str::to_owned).collect()
    }

    /// Checks that there is something to train on.
    ///
    /// # Errors
    ///
    /// Too few rows, or fewer than two labels.
    pub fn check_trainable(&self) -> Result<(), DataError> {
        let (path, rows) = (self.path.clone(), self.examples.len() as u64);
        if rows < MIN_TRAINING_ROWS {
            return Err(DataError::TooFewRows { path, rows, least: MIN_TRAINING_ROWS });
        }
        match self.labels().as_slice() {
            [] | [_] => {
                let label = self.labels().pop().unwrap_or_default();
                Err(DataError::OneClass { path, label, rows, column: tr!("this", "これ") })
            }
            _ => Ok(()),
        }
    }

    /// Checks that every label is among `known`, those of the training data.
    ///
    /// # Errors
    ///
    /// The first label that is not, with its line.
    pub fn check_known_labels<S: AsRef<str>>(&self, known: &[S]) -> Result<(), DataError> {
        let names: HashSet<&str> = known.iter().map(AsRef::as_ref).collect();
        for example in &self.examples {
            if let Some(label) = example.labels.iter().find(|label| !names.contains(label.as_str())) {
                return Err(DataError::UnknownLabel {
                    place: self.place(example),
                    label: label.clone(),
                    known: listed(known).into(),
                    hint: did_you_mean(label, known.iter().map(AsRef::as_ref)).into(),
                });
            }
        }
        Ok(())
    }
}
