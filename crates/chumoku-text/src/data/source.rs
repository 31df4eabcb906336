//! An open file of labeled texts: its columns, and its rows as a stream.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{ColumnRole, DataError, SourceLocation};
use super::format::{Format, ReadOptions};
use super::open::{DecodedFile, open_live, open_path, open_reader};
use super::record::{Record, SkippedRows, TableLayout};
use super::schema_inference::columns::{self, ColumnChoice, FeatureSource};
use super::schema_inference::label_form::single_label;
use super::schema_inference::label_kind::LabelKind;
use super::schema_inference::missing::MissingValues;
use super::schema_inference::profile::ColumnProfile;
use super::table::DataTable;
use crate::lang::lang;
use crate::lang::wording::{join_names, list_names, quote};
use crate::row::{FeatureRequest, Row};
use crate::tr;

/// An open data file whose format and columns have been detected.
pub struct RowSource {
    table: DataTable,
    columns: ColumnChoice,
    missing: MissingValues,
}

impl RowSource {
    /// Opens a file, detects its format and chooses its columns from about the first thousand rows.
    ///
    /// # Errors
    ///
    /// Any problem with the file or the options that shows in the sample.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, DataError> {
        Self::from_opened(path, open_path(path, options)?, options)
    }

    /// Opens a stream such as standard input. Messages call it `name`, and an extension in `name` counts as for a file.
    ///
    /// # Errors
    ///
    /// As for [`RowSource::open`].
    pub fn from_reader(
        name: &Path,
        input: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        Self::from_opened(name, open_reader(name, Box::new(input), None::<File>, None, options)?, options)
    }

    /// Opens a stream whose rows are needed as they arrive, such as lines that a user types. It waits for no more than
    /// one row.
    ///
    /// The format and the columns are detected from the data received when the stream pauses for a tenth of a second.
    ///
    /// # Errors
    ///
    /// As for [`RowSource::open`].
    pub fn from_live_stream(
        name: &Path,
        input: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        Self::from_opened(name, open_live(name, input, options)?, options)
    }

    pub(crate) fn from_opened(path: &Path, opened: DecodedFile, options: &ReadOptions) -> Result<Self, DataError> {
        let mut table = DataTable::from_file(path, opened, options)?;
        table.flatten();
        let columns = columns::choose_columns(&table.layout, &table.sample.iter().collect::<Vec<_>>(), options)?;
        if !table.layout.has_names() {
            table.layout.columns[columns.text] = "text".to_owned();
            if let Some(second) = columns.second {
                table.layout.columns[second] = "text_2".to_owned();
            }
            if let Some(label) = columns.label {
                table.layout.columns[label] = "label".to_owned();
            }
        }
        let missing = MissingValues::from_options(&table.options);
        let source = RowSource { table, columns, missing };
        if options.require_text && !options.skips_bad_rows() && !options.faults_in_place {
            // Errors should show now rather than after half of the work.
            let label = source.columns.label.filter(|_| options.require_label);
            source.table.sample.iter().try_for_each(|row| {
                source.check_row(row)?;
                label.map_or(Ok(()), |label| source.row_label(row, label).map(drop))
            })?;
        }
        Ok(source)
    }

    /// Returns the format and the column names.
    pub fn layout(&self) -> &TableLayout {
        &self.table.layout
    }

    /// Returns the chosen columns.
    pub fn columns(&self) -> &ColumnChoice {
        &self.columns
    }

    /// Makes empty texts an error from now on.
    pub(crate) fn require_text(&mut self) {
        self.table.options.require_text = true;
    }

    /// Returns whether the options name the label column.
    pub(crate) fn is_label_requested(&self) -> bool {
        self.table.options.label.is_some()
    }

    /// Returns the first rows.
    pub(crate) fn sample(&self) -> &std::collections::VecDeque<Record> {
        &self.table.sample
    }

    /// Describes the format of the file.
    pub(crate) fn describe_table(&self) -> String {
        self.table.describe()
    }

    /// Returns the requested features, each with its column name in the file.
    pub(crate) fn requested_features(&self) -> Vec<FeatureRequest> {
        let name = |of: &FeatureSource| of.column().map(|column| self.layout().columns[column].clone());
        let names = self.columns.features.iter().map(name);
        let requested = self.table.options.features.iter().zip(names);
        requested
            .map(|(of, name)| FeatureRequest { name: name.unwrap_or_else(|| of.name.clone()), ..of.clone() })
            .collect()
    }

    /// Describes the detected format and columns, with reasons, in one line.
    ///
    /// For example: `train.csv: CSV with a header, 2 columns (the file's name); text = column “review” (its name), …`
    pub fn describe(&self) -> String {
        let mut out = self.table.describe();
        let layout = self.layout();
        match layout.format {
            Format::PlainText => out.push_str(&tr!("; each line is a text", "。各行が 1 つのテキスト")),
            Format::FastText => out.push_str(&tr!("; the label is in front of each text", "。各テキストの前にラベル")),
            _ => {
                let ColumnChoice { text, second, label, text_why, label_why, features: beside, alternatives: next } =
                    &self.columns;
                let title = layout.column_title(*text);
                match second.map(|second| layout.column_title(second)) {
                    None => out.push_str(&tr!("; text = {title} ({text_why})", "。テキスト = {title}（{text_why}）")),
                    Some(second) => out.push_str(&tr!(
                        "; two texts = {title} and {second} ({text_why})",
                        "。2 つのテキスト = {title} と {second}（{text_why}）"
                    )),
                }
                match label {
                    Some(label) => {
                        let title = layout.column_title(*label);
                        out.push_str(&tr!(", label = {title} ({label_why})", "、ラベル = {title}（{label_why}）"));
                    }
                    None => out.push_str(&tr!(", no label", "、ラベルなし")),
                }
                let titles: Vec<String> =
                    beside.iter().filter_map(FeatureSource::column).map(|column| layout.column_title(column)).collect();
                if !titles.is_empty() {
                    let titles = join_names(&titles);
                    out.push_str(&tr!(", feature columns = {titles}", "、テキスト以外の列 = {titles}"));
                }
                out.push_str(&layout.describe_unused(&self.columns.in_use()));
                out.push_str(&describe_alternatives(next));
            }
        }
        out
    }

    /// Streams the rows, including the sample, in constant memory.
    pub fn records(self) -> Records {
        Records { source: self, done: false }
    }

    /// Returns the location of a row, for messages.
    pub fn location(&self, line: u64) -> SourceLocation {
        self.table.location(line)
    }

    /// Returns the [row](crate::row) of a record: its text, the second text of a pair, and its feature values.
    pub fn row(&self, record: &Record) -> Row {
        self.columns.row(record)
    }

    /// Checks that each text of a row is a plain value within the size limit.
    fn check_row(&self, record: &Record) -> Result<(), DataError> {
        self.check_text(record, self.columns.text)?;
        self.columns.second.map_or(Ok(()), |second| self.check_text(record, second))?;
        let mut beside = self.columns.features.iter().filter_map(FeatureSource::column);
        beside.try_for_each(|column| self.table.check_text(record, ColumnRole::Feature, column))
    }

    fn check_text(&self, record: &Record, column: usize) -> Result<(), DataError> {
        self.table.check_scalar(record, ColumnRole::Text, column)?;
        if self.table.options.require_text && record.field(column).trim().is_empty() {
            let title = self.layout().column_title(column);
            let empty = match self.columns.second {
                None => lang().pick("an empty text", "空").to_owned(),
                Some(_) => tr!("an empty text in {title}", "{title}が空"),
            };
            let found = self.table.describe_missing(record, column, empty);
            return Err(DataError::EmptyText { place: self.location(record.line), found });
        }
        self.table.check_text(record, ColumnRole::Text, column)
    }

    /// Returns the label of a row: a plain value, or the single item of a list. Missing labels are an error.
    pub(crate) fn row_label<'a>(&self, record: &'a Record, column: usize) -> Result<Cow<'a, str>, DataError> {
        let label = match single_label(self.layout(), record, column) {
            Ok(label) => label,
            Err(several) => {
                let (place, found, labels) = (self.location(record.line), several.len(), list_names(&several));
                return Err(DataError::SeveralLabels { place, found, labels });
            }
        };
        let is_list = record.value(&self.layout().columns[column]).is_some_and(serde_json::Value::is_array);
        if !is_list {
            self.table.check_scalar(record, ColumnRole::Label, column)?;
        }
        if !self.missing.is_missing(&label) {
            return Ok(label);
        }
        let empty = match self.layout().format {
            _ if !label.trim().is_empty() => {
                let word = quote(label.trim());
                tr!(
                    "{word}, which stands for a missing value (--missing none reads it as a class)",
                    "欠損値を表す{word}（--missing none でクラス名として扱えます）"
                )
            }
            _ if is_list => {
                let title = self.layout().column_title(column);
                tr!("an empty list in {title}", "{title}に空のリスト")
            }
            Format::FastText => lang().pick("no __label__ on the line", "__label__ のない行").to_owned(),
            _ => lang().pick("an empty field", "空欄").to_owned(),
        };
        let found = self.table.describe_missing(record, column, empty);
        Err(DataError::EmptyLabel { place: self.location(record.line), found })
    }

    /// Returns whether the label of a row is missing.
    pub(crate) fn is_label_missing(&self, record: &Record, column: usize) -> bool {
        single_label(self.layout(), record, column).is_ok_and(|label| self.missing.label(&label).is_none())
    }

    /// Returns the labels whose spellings are used, if spellings are merged.
    pub(crate) fn merged_labels(&self) -> Option<&[String]> {
        self.table.options.merged_labels()
    }

    /// Returns the values that count as missing.
    pub(crate) fn missing_values(&self) -> &MissingValues {
        &self.missing
    }

    /// Returns the unused columns that could be the label, judging by their first rows.
    pub(crate) fn label_candidates(&self) -> Vec<String> {
        let (layout, rows) = (self.layout(), self.table.sample.iter().collect::<Vec<&Record>>());
        let could_be = |&column: &usize| {
            let profile = ColumnProfile::of_column(layout, &rows, column, &self.missing);
            let labels: Vec<&str> =
                rows.iter().map(|row| row.field(column).trim()).filter(|label| !label.is_empty()).collect();
            profile.is_label_like() && profile.distinct > 1 && LabelKind::detect(&labels, false).is_none()
        };
        let in_use = self.columns.in_use();
        let left = (0..layout.columns.len()).filter(|column| !in_use.contains(&Some(*column)));
        left.filter(could_be).map(|column| layout.column_title(column)).collect()
    }
}

/// Lists the alternatives, to end a description. Empty if there are none.
pub(crate) fn describe_alternatives(next: &[String]) -> String {
    match next {
        [] => String::new(),
        next => tr!("; almost as likely: {}", "。次に確からしい読み方: {}", join_names(next)),
    }
}

/// Streams the rows of a file. Ends after the first error.
pub struct Records {
    source: RowSource,
    done: bool,
}

impl Records {
    /// Returns the file that the rows come from.
    pub fn source(&self) -> &RowSource {
        &self.source
    }

    /// Returns the rows skipped so far.
    pub fn skipped(&self) -> &SkippedRows {
        &self.source.table.skipped
    }

    /// Skips a row with an error of the caller if bad rows are skipped. Otherwise ends the stream and returns the
    /// error.
    pub(crate) fn skip_row(&mut self, error: DataError) -> Result<(), DataError> {
        let result = self.source.table.skip_row(error);
        self.done = result.is_err();
        result
    }

    fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let Some(row) = self.source.table.next_row()? else {
            return Ok(None);
        };
        self.source.check_row(&row)?;
        Ok(Some(row))
    }

    /// Returns the next row together with its error, if it has one, so that output rows match input rows.
    ///
    /// If the row cannot be split into fields, the fields are empty.
    ///
    /// # Errors
    ///
    /// An error that ends reading. No rows follow.
    pub fn next_with_fault(&mut self) -> Result<Option<(Record, Option<DataError>)>, DataError> {
        while !self.done {
            let (record, fault) = match self.source.table.next_row() {
                Ok(None) => {
                    self.done = true;
                    break;
                }
                Ok(Some(row)) => {
                    let fault = self.source.check_row(&row).err();
                    (Some(row), fault)
                }
                Err(error) => (None, Some(error)),
            };
            let Some(error) = fault else { return Ok(record.map(|record| (record, None))) };
            let Some(line) = error.skippable_row() else {
                self.done = true;
                return Err(error);
            };
            if self.source.table.options.skips_bad_rows() {
                self.skip_row(error)?;
                continue;
            }
            let record = record.unwrap_or_else(|| self.source.layout().empty_record(line));
            return Ok(Some((record, Some(error))));
        }
        Ok(None)
    }
}

impl Iterator for Records {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.next_row() {
                Ok(Some(row)) => return Some(Ok(row)),
                Ok(None) => self.done = true,
                Err(error) => {
                    if let Err(error) = self.skip_row(error) {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}
