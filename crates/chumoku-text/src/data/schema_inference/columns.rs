//! Chooses the text and label columns: by the options, else by name, else by the first rows.

use super::super::error::{ColumnRole, DataError};
use super::super::format::{Format, ReadOptions};
use super::super::record::{Record, TableLayout};
use super::label::{LabelCandidate, NAME_BITS, TableView};
use super::missing::MissingValues;
use super::names::{PAIR_NAMES, TEXT_NAMES, fold_name};
use super::profile::{ColumnProfile, FEW_ROWS};
use super::reasons::{few_values, its_name, label_description, the_only_other, why_requested};
use super::{close_runner_up, rank, tied_readings};
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, join_names, list_names};
use crate::row::{AsRow, Row};
use crate::tr;

/// The chosen columns, counted from 0, with the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChoice {
    /// The text column.
    pub text: usize,
    /// The column of the second text, if texts are pairs.
    pub second: Option<usize>,
    /// The label column, if any.
    pub label: Option<usize>,
    /// The reason for the text column: `its name`, `the longest and most varied` …
    pub text_why: &'static str,
    /// The reason for the label column. Empty if there is none.
    pub label_why: &'static str,
    /// The sources of the feature values, in order.
    pub features: Vec<FeatureSource>,
    /// Readings that are nearly as likely, each with the flags that select it.
    pub alternatives: Vec<String>,
}

/// The source of a [feature](crate::row) value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeatureSource {
    /// A column of the file.
    Column(usize),
    /// One value for all rows.
    Value(String),
}

impl FeatureSource {
    /// Returns the column, if the value comes from the file.
    pub(crate) fn column(&self) -> Option<usize> {
        match self {
            FeatureSource::Column(column) => Some(*column),
            FeatureSource::Value(_) => None,
        }
    }
}

impl ColumnChoice {
    /// Returns the [row](crate::row) of a record: its text, the second text of a pair, and its feature values.
    pub fn row(&self, record: &Record) -> Row {
        let first = record.field(self.text);
        let row = self.second.map_or_else(|| first.into(), |second| Row::pair(first, record.field(second)));
        if self.features.is_empty() {
            return row;
        }
        let value = |of| match of {
            &FeatureSource::Column(column) => record.field(column),
            FeatureSource::Value(value) => value,
        };
        row.as_row().with_values(&self.features.iter().map(value).collect::<Vec<_>>())
    }

    /// The columns of the file that are in use.
    pub(crate) fn in_use(&self) -> Vec<Option<usize>> {
        let beside = self.features.iter().map(FeatureSource::column);
        [Some(self.text), self.second, self.label].into_iter().chain(beside).collect()
    }
}

/// Chooses the columns of a file from their names and the first rows.
pub(crate) fn choose_columns(
    layout: &TableLayout,
    rows: &[&Record],
    options: &ReadOptions,
) -> Result<ColumnChoice, DataError> {
    let mut chooser = ColumnChooser::new(layout, rows, options);
    let filled = chooser.with_training_options(options);
    let [why_text, why_label] = [&options.text, &options.label].map(why_requested);
    let options = filled.as_ref().unwrap_or(options);
    let beside = chooser.requested_features(options)?;
    let taken: Vec<usize> = beside.iter().filter_map(FeatureSource::column).collect();
    // Feature columns that a model requires are never the text or the label of a file.
    if options.features.iter().any(|of| !of.is_required) {
        let text = chooser.named_text(&[]).filter(|_| options.text.is_none());
        let label = chooser.named_label(&[]).ok().flatten().filter(|_| options.label.is_none());
        if let Some(column) = [text, label].into_iter().flatten().find(|column| taken.contains(column)) {
            return Err(DataError::ColumnInUse { path: layout.path.clone(), column: layout.columns[column].clone() });
        }
    }
    chooser.features = taken;
    let requested_label =
        options.label.as_deref().map(|requested| chooser.requested_column(ColumnRole::Label, requested)).transpose()?;
    let pair = match options.text.as_deref() {
        _ if !options.pairs => None,
        Some(requested) => chooser.requested_pair(requested)?.map(|pair| (pair, why_text)),
        None => chooser.pair_by_name().map(|pair| (pair, lang().pick("their names", "列名から"))).or_else(|| {
            // A model of pairs needs two columns to predict rows.
            let only = options.faults_in_place && layout.columns.len() == 2 && !layout.has_names();
            only.then(|| ([0, 1], lang().pick("the only two", "2 列だけ")))
        }),
    };
    let second = pair.map(|(pair, _)| pair[1]);
    let requested_text = match (pair, options.text.as_deref()) {
        (Some((pair, _)), _) => Some(pair[0]),
        (None, name) => name.map(|requested| chooser.requested_column(ColumnRole::Text, requested)).transpose()?,
    };
    if let Some(text) = requested_label.filter(|_| requested_text == requested_label || second == requested_label) {
        let column = layout.columns[text].clone();
        let roles = [ColumnRole::Text, ColumnRole::Label];
        return Err(DataError::SameColumn { path: layout.path.clone(), roles, column });
    }
    let mut label = requested_label.map(|column| (column, why_label));
    if label.is_none() {
        let texts: Vec<usize> = [requested_text, second].into_iter().flatten().collect();
        let named =
            chooser.named_label(&texts).or_else(|error| if options.require_label { Err(error) } else { Ok(None) })?;
        label = named.map(|column| (column, its_name()));
    }
    let taken = label.map(|(column, _)| column);
    let mut next_text = None;
    let (text, text_why) = match requested_text {
        Some(column) => (column, pair.map_or(why_text, |(_, why)| why)),
        None => {
            let found = chooser.choose_text(taken)?;
            next_text = found.runner_up;
            (found.column, found.why)
        }
    };
    let texts: Vec<usize> = [Some(text), second].into_iter().flatten().collect();
    let mut next_label = None;
    if label.is_none() && options.numbers {
        label = chooser.choose_number(&texts)?;
    }
    if label.is_none() && options.require_label {
        let found = chooser.choose_label_by_content(&texts)?;
        label = Some((found.column, found.why));
        next_label = found.runner_up;
    }
    let (label, label_why) = label.map_or((None, ""), |(column, why)| (Some(column), why));
    if let Some(column) = chooser.features.iter().find(|column| [Some(text), second, label].contains(&Some(**column))) {
        return Err(DataError::ColumnInUse { path: layout.path.clone(), column: layout.columns[*column].clone() });
    }
    let is_left =
        |column: &usize| ![Some(text), second, label].contains(&Some(*column)) && !chooser.features.contains(column);
    // A second text column may belong to the first, such as the body of an email and its subject.
    let other_text = (0..chooser.profiles.len())
        .filter(|column| {
            options.pairs && options.require_label && second.is_none() && requested_text.is_none() && is_left(column)
        })
        .find(|&column| chooser.profiles[column].is_sentence_like());
    let next_text = next_text.filter(|column| is_left(column)).map(|column| {
        let (title, flag) = (layout.column_title(column), chooser.flag_value(column));
        tr!("text = {title} (--text {flag})", "テキスト = {title}（--text {flag}）")
    });
    let both = other_text.map(|column| {
        let flags = format!("{},{}", chooser.flag_value(column.min(text)), chooser.flag_value(column.max(text)));
        tr!("both texts with --text {flags}", "両方のテキストを読むには --text {flags}")
    });
    let next = [next_text, both, next_label].into_iter().flatten().collect();
    Ok(ColumnChoice { text, second, label, text_why, label_why, features: beside, alternatives: next })
}

/// The chosen label column.
struct LabelChoice {
    column: usize,
    why: &'static str,
    /// The next reading, if it is close.
    runner_up: Option<String>,
}

/// The chosen text column.
struct TextChoice {
    column: usize,
    why: &'static str,
    /// The next likely column, if it is close.
    runner_up: Option<usize>,
}

/// Finds columns by name, by number and by content.
pub(crate) struct ColumnChooser<'a> {
    pub(crate) layout: &'a TableLayout,
    rows: &'a [&'a Record],
    pub(crate) profiles: Vec<ColumnProfile>,
    missing: MissingValues,
    /// The fields of the first row. They identify columns without names in messages.
    first_row: &'a [String],
    /// Feature columns, which are neither the text nor the label.
    features: Vec<usize>,
    /// True if a text may be a pair.
    reads_pairs: bool,
}

impl<'a> ColumnChooser<'a> {
    pub(crate) fn new(layout: &'a TableLayout, rows: &'a [&'a Record], options: &ReadOptions) -> Self {
        let missing = MissingValues::from_options(options);
        let profiles = (0..layout.columns.len()).map(|c| ColumnProfile::of_column(layout, rows, c, &missing)).collect();
        let first = rows.first().map_or(&[][..], |row| &row.fields);
        let reads_pairs = options.pairs;
        ColumnChooser { layout, rows, profiles, missing, first_row: first, features: Vec::new(), reads_pairs }
    }

    /// Returns a view of the table with the label column that the options name.
    pub(crate) fn table_view(&self, request: Option<usize>) -> TableView<'_> {
        TableView {
            layout: self.layout,
            rows: self.rows,
            profiles: &self.profiles,
            missing: &self.missing,
            requested: request,
        }
    }

    /// Returns the options, completed by the columns of the training file if this file has them.
    pub(crate) fn with_training_options(&self, options: &ReadOptions) -> Option<ReadOptions> {
        let of = options.training_options()?;
        let is_there = |name: &String| self.requested_column(ColumnRole::Text, name).is_ok();
        let text = of.text.as_ref().filter(|name| {
            is_there(name) || options.pairs && self.requested_pair(name).is_ok_and(|pair| pair.is_some())
        });
        let label = of.label.as_ref().filter(|name| is_there(name));
        let mut filled = options.clone();
        filled.text =
            options.text.clone().or_else(|| text.filter(|name| options.label.as_ref() != Some(*name)).cloned());
        filled.label =
            options.label.clone().or_else(|| label.filter(|name| filled.text.as_ref() != Some(*name)).cloned());
        Some(filled)
    }

    /// Returns the flag value that selects a column.
    fn flag_value(&self, column: usize) -> String {
        let can_be_named = |name: &&String| self.layout.has_names() && !name.trim().is_empty() && !name.contains(',');
        let name = self.layout.columns.get(column).filter(can_be_named);
        name.map_or_else(|| (column + 1).to_string(), |name| name.trim().to_owned())
    }

    /// Returns the sources of the requested features.
    fn requested_features(&self, options: &ReadOptions) -> Result<Vec<FeatureSource>, DataError> {
        let requested = &options.features;
        let path = || self.layout.path.clone();
        let missing: Vec<&str> = requested.iter().filter(|of| of.value.is_none()).map(|of| of.name.as_str()).collect();
        if !missing.is_empty() && !self.layout.has_names() {
            let (names, found) = (list_names(&missing), self.layout.format.to_string());
            return Err(DataError::UnnamedFeatures { path: path(), names, found });
        }
        let mut found = Vec::with_capacity(requested.len());
        for of in requested {
            let beside = match &of.value {
                Some(value) => FeatureSource::Value(value.clone()),
                None => FeatureSource::Column(self.requested_column(ColumnRole::Feature, &of.name).map_err(|error| match error {
                    DataError::NoSuchColumn { path, role, requested, columns, .. } if of.is_required => {
                        let hint = match of.kind {
                            None => tr!(
                                "; the model reads it: add the column (an empty one is a missing value), or give one value \
                                 for all rows, as --set {requested}=VALUE",
                                "。モデルがこの列を読みます。列を加えるか（空欄は欠損として扱います）、--set {requested}=値 で全行に同じ値を\
                                 指定してください"
                            ),
                            // Continued training reads many rows, so one value for all does not help.
                            Some(_) => tr!(
                                "; the model reads it: add the column (an empty one is a missing value)",
                                "。モデルがこの列を読みます。列を加えてください（空欄は欠損として扱います）"
                            ),
                        };
                        DataError::NoSuchColumn { path, role, requested, columns, hint }
                    }
                    other => other,
                })?),
            };
            if let FeatureSource::Column(column) = beside
                && found.contains(&beside)
            {
                return Err(DataError::ColumnInUse { path: path(), column: self.layout.columns[column].clone() });
            }
            found.push(beside);
        }
        Ok(found)
    }

    /// Returns the column that an option names: exactly, ignoring case, or by its number from 1.
    pub(crate) fn requested_column(&self, role: ColumnRole, requested: &str) -> Result<usize, DataError> {
        let columns = &self.layout.columns;
        let named = self.layout.has_names() || self.layout.format == Format::FastText;
        let same: [fn(&str) -> String; 2] = [|name| name.trim().to_owned(), |name| name.trim().to_lowercase()];
        for key in same.iter().filter(|_| named) {
            let found: Vec<usize> = (0..columns.len()).filter(|&c| key(&columns[c]) == key(requested)).collect();
            match found.as_slice() {
                [] => {}
                [column] => return Ok(*column),
                several => return Err(self.ambiguous_error(role, several)),
            }
        }
        match requested.trim().parse::<usize>() {
            Ok(number) if (1..=columns.len()).contains(&number) => Ok(number - 1),
            _ => Err(DataError::NoSuchColumn {
                path: self.layout.path.clone(),
                role,
                requested: requested.to_owned(),
                columns: self.describe_all(),
                hint: self.missing_column_hint(role, requested, named),
            }),
        }
    }

    /// Returns the two columns that an option names, separated by a comma. `None` if it does not name two.
    fn requested_pair(&self, requested: &str) -> Result<Option<[usize; 2]>, DataError> {
        let Some((first, second)) =
            requested.split_once(',').filter(|_| self.requested_column(ColumnRole::Text, requested).is_err())
        else {
            return Ok(None);
        };
        let pair = [self.requested_column(ColumnRole::Text, first)?, self.requested_column(ColumnRole::Text, second)?];
        if pair[0] == pair[1] {
            let (path, column) = (self.layout.path.clone(), self.layout.columns[pair[0]].clone());
            return Err(DataError::SameColumn { path, roles: [ColumnRole::Text, ColumnRole::Text], column });
        }
        Ok(Some(pair))
    }

    /// Returns the two columns whose names form a pair.
    fn pair_by_name(&self) -> Option<[usize; 2]> {
        let names: Vec<String> = self.layout.columns.iter().map(|name| fold_name(name)).collect();
        let place = |requested: &str| names.iter().position(|name| name == requested);
        let is_named = self.layout.has_names();
        PAIR_NAMES.iter().filter(|_| is_named).find_map(|[first, second]| Some([place(first)?, place(second)?]))
    }

    /// Suggests a fix for a missing column: a similar name or, without one, how to name a column.
    fn missing_column_hint(&self, role: ColumnRole, requested: &str, is_named: bool) -> String {
        let flag = role.flag();
        if !is_named {
            return tr!("; name one by its number, as {flag} 1", "。{flag} 1 のように番号で指定してください");
        }
        let meant = did_you_mean(requested, self.layout.columns.iter().map(String::as_str));
        match meant.is_empty() {
            true => tr!("; name one of these with {flag}", "。このいずれかを {flag} で指定してください"),
            false => meant,
        }
    }

    /// The group of text names that a column's name belongs to, from 0.
    fn text_name_group(&self, column: usize) -> Option<usize> {
        let is_named = self.layout.has_names() || self.layout.format == Format::FastText;
        let name = fold_name(self.layout.columns.get(column).filter(|_| is_named)?);
        TEXT_NAMES.iter().position(|group| group.contains(&name.as_str()))
    }

    /// Returns the candidates for the text with their bits, best first.
    fn rank_texts(&self, taken: &[usize]) -> Vec<(f64, usize)> {
        let left = (0..self.profiles.len()).filter(|column| !taken.contains(column) && !self.features.contains(column));
        // In rows with an identifier, short repeated values are not the text.
        let has_identifier = self.profiles.iter().any(|profile| profile.is_identifier && !profile.is_numbers());
        rank(left.map(|column| {
            // Values inside an object usually describe the text.
            let content = self.profiles[column].text_bits() - if self.layout.is_path(column) { 1.0 } else { 0.0 };
            let bits = match self.text_name_group(column) {
                None if has_identifier && self.profiles[column].has_repeated_short_values() => f64::NEG_INFINITY,
                None => content,
                // A known name counts even if the content speaks against it, but a column of texts may outweigh it.
                Some(group) => NAME_BITS[group] + content.max(-30.0),
            };
            (bits, column)
        }))
    }

    /// Returns the column whose name means text.
    fn named_text(&self, taken: &[usize]) -> Option<usize> {
        self.rank_texts(taken)
            .into_iter()
            .map(|(_, column)| column)
            .find(|&column| self.text_name_group(column).is_some())
    }

    /// Chooses the text: by name, as the only candidate, or as the column at least twice as likely as the next.
    fn choose_text(&self, label: Option<usize>) -> Result<TextChoice, DataError> {
        let taken: Vec<usize> = label.into_iter().collect();
        let found = self.rank_texts(&taken);
        let named = found.iter().filter(|(_, column)| self.text_name_group(*column).is_some());
        let groups: Vec<Option<usize>> = named.map(|(_, column)| self.text_name_group(*column)).collect();
        let left: Vec<usize> = (0..self.profiles.len())
            .filter(|&c| Some(c) != label && !self.profiles[c].is_nested && !self.features.contains(&c))
            .collect();
        if let (true, [only]) = (groups.is_empty(), left.as_slice())
            && (!self.profiles[*only].is_identifier || self.layout.columns.len() == 1)
        {
            return Ok(TextChoice {
                column: *only, why: lang().pick("the only one", "唯一の候補"), runner_up: None
            });
        }
        match tied_readings(&found) {
            [] => Err(self.no_text_error(label)),
            &[(_, column)] => {
                let group = self.text_name_group(column);
                let is_named = group.is_some() && groups.iter().filter(|other| **other == group).count() == 1;
                let why = if is_named {
                    its_name()
                } else {
                    lang().pick("the longest and most varied", "最も長く多様な列")
                };
                Ok(TextChoice { column, why, runner_up: close_runner_up(&found).copied() })
            }
            several => {
                let columns: Vec<usize> = several.iter().map(|&(_, column)| column).collect();
                Err(self.ambiguous_error(ColumnRole::Text, &columns))
            }
        }
    }

    /// The error for a file without text, with the content of its columns.
    fn no_text_error(&self, label: Option<usize>) -> DataError {
        let held = (0..self.profiles.len()).take(8).map(|column| {
            let (title, what) = (self.layout.column_title(column), self.profiles[column].describe());
            match Some(column) == label {
                true => tr!("{title} (the label)", "{title}（ラベル）"),
                false => tr!("{title} ({what})", "{title}（{what}）"),
            }
        });
        let columns = join_names(&held.collect::<Vec<_>>());
        no_column_error(self.layout, ColumnRole::Text, lang().pick("a column of words", "文章の列"), columns)
    }

    /// Returns the label column by its name. Among equally good names, the content decides.
    fn named_label(&self, taken: &[usize]) -> Result<Option<usize>, DataError> {
        if self.layout.format == Format::FastText {
            return Ok((0..self.layout.columns.len()).find(|&column| self.layout.columns[column] == "label"));
        }
        let view = self.table_view(None);
        let is_free = |column: &usize| !taken.contains(column) && !self.features.contains(column);
        let named =
            (0..self.profiles.len()).filter(is_free).filter_map(|column| Some((view.name_group(column)?, column)));
        let Some(best) = named.clone().map(|(group, _)| group).min() else { return Ok(None) };
        let columns: Vec<usize> = named.filter(|(group, _)| *group == best).map(|(_, column)| column).collect();
        if let [only] = columns.as_slice() {
            return Ok(Some(*only));
        }
        let found = rank(columns.iter().map(|&column| (view.content_bits(column), column)));
        match tied_readings(&found) {
            [] => Err(self.no_column_error(ColumnRole::Label, label_description())),
            &[(_, column)] => Ok(Some(column)),
            several => {
                Err(self
                    .ambiguous_error(ColumnRole::Label, &several.iter().map(|&(_, column)| column).collect::<Vec<_>>()))
            }
        }
    }

    /// Chooses the label by content.
    fn choose_label_by_content(&self, texts: &[usize]) -> Result<LabelChoice, DataError> {
        let is_left = |c: &usize| !texts.contains(c) && !self.features.contains(c) && self.profiles[*c].filled > 0;
        let left: Vec<usize> = (0..self.profiles.len()).filter(is_left).collect();
        // With few rows, repetition does not show, so the only other column is the label.
        if let [only] = left.as_slice()
            && self.profiles[*only].filled < FEW_ROWS
            && !self.profiles[*only].is_nested
        {
            return Ok(LabelChoice { column: *only, why: the_only_other(), runner_up: None });
        }
        let view = self.table_view(None);
        let taken: Vec<usize> = texts.iter().chain(&self.features).copied().collect();
        let mut found: Vec<(f64, LabelCandidate)> = view.readings(&taken);
        // One reading per column is enough here. How its labels are written is decided elsewhere.
        let mut seen = Vec::new();
        found.retain(|(_, candidate)| match candidate.form.column() {
            Some(column) if !seen.contains(&column) => {
                seen.push(column);
                view.name_group(column).is_some() || view.content_bits(column) > f64::NEG_INFINITY
            }
            _ => false,
        });
        match tied_readings(&found) {
            [] => Err(self.no_column_error(ColumnRole::Label, label_description())),
            [(_, only)] => {
                let runner_up = close_runner_up(&found).map(|next| next.describe(self.layout));
                Ok(LabelChoice { column: only.form.column().unwrap_or_default(), why: few_values(), runner_up })
            }
            several => {
                let columns: Vec<usize> = several.iter().filter_map(|(_, candidate)| candidate.form.column()).collect();
                Err(self.ambiguous_error(ColumnRole::Label, &columns))
            }
        }
    }

    /// Returns the best reading of the label and the next one, if it is close. `None` if there is no reading.
    ///
    /// # Errors
    ///
    /// If several readings are about equally likely.
    pub(crate) fn choose_label_reading(
        &self,
        texts: &[usize],
        requested: Option<usize>,
    ) -> Result<Option<(LabelCandidate, Option<String>)>, DataError> {
        let taken: Vec<usize> = texts.iter().chain(&self.features).copied().collect();
        let found = self.table_view(requested).readings_for_any_task(&taken);
        match tied_readings(&found) {
            [] => Ok(None),
            [(_, best)] => Ok(Some((best.clone(), close_runner_up(&found).map(|next| next.describe(self.layout))))),
            several => {
                let columns: Vec<usize> = several.iter().filter_map(|(_, candidate)| candidate.form.column()).collect();
                let are_columns = columns.len() == several.len() && columns.windows(2).all(|two| two[0] != two[1]);
                match are_columns && several.iter().all(|(_, candidate)| !candidate.form.is_multi_label()) {
                    true => Err(self.ambiguous_error(ColumnRole::Label, &columns)),
                    false => {
                        let readings: Vec<String> =
                            several.iter().map(|(_, candidate)| candidate.describe(self.layout)).collect();
                        let (path, readings) = (self.layout.path.clone(), join_names(&readings).into());
                        Err(DataError::AmbiguousLabel { path, readings })
                    }
                }
            }
        }
    }

    /// Returns the numeric column to predict and the reason, or `None`.
    fn choose_number(&self, texts: &[usize]) -> Result<Option<(usize, &'static str)>, DataError> {
        let taken: Vec<usize> = texts.iter().chain(&self.features).copied().collect();
        let found = self.table_view(None).number_columns(&taken);
        match (tied_readings(&found), found.len()) {
            ([], _) => Ok(None),
            (&[(_, column)], 1) => Ok(Some((column, lang().pick("the only numbers", "唯一の数値の列")))),
            (&[(_, column)], _) => Ok(Some((column, its_name()))),
            (several, _) => {
                Err(self
                    .ambiguous_error(ColumnRole::Label, &several.iter().map(|&(_, column)| column).collect::<Vec<_>>()))
            }
        }
    }

    pub(crate) fn ambiguous_error(&self, role: ColumnRole, columns: &[usize]) -> DataError {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        let titles: Vec<String> = columns.iter().take(12).map(|&c| self.layout.column_title(c)).collect();
        let (n, titles) = (columns.len(), join_names(&titles));
        let candidates = tr!("{n} equally likely: {titles}", "同じような列が {n} つ: {titles}");
        let advice = match (role, columns.as_slice()) {
            (_, [first, second, ..]) if self.flag_value(*first) == self.flag_value(*second) => {
                let (flag, number) = (role.flag(), first + 1);
                tr!("name one by its number, as {flag} {number}", "{flag} {number} のように番号で指定してください")
            }
            (ColumnRole::Text, [first, second, ..]) if self.reads_pairs => {
                let both = format!("{},{}", self.flag_value(*first), self.flag_value(*second));
                tr!(
                    "name one with --text NAME, or two that belong together, as --text {both}",
                    "--text 列名 で指定してください。2 つで 1 組なら --text {both} のように指定できます"
                )
            }
            _ => tr!("name one with {} NAME", "{} 列名 で指定してください", role.flag()),
        };
        DataError::AmbiguousColumn { path: self.layout.path.clone(), role, candidates, advice: advice.into() }
    }

    pub(crate) fn no_column_error(&self, role: ColumnRole, requested: &'static str) -> DataError {
        no_column_error(self.layout, role, requested, self.describe_all())
    }

    /// Describes all columns, for a message.
    fn describe_all(&self) -> String {
        match self.layout.columns.len() {
            _ if self.layout.has_names() || self.layout.format == Format::FastText => list_names(&self.layout.columns),
            1 => tr!(
                "column 1 (no names; the first row holds {})",
                "名前のない 1 列（最初の行は {}）",
                list_names(self.first_row)
            ),
            n => tr!(
                "columns 1 to {n} (no names; the first row holds {})",
                "名前のない {n} 列（最初の行は {}）",
                list_names(self.first_row)
            ),
        }
    }
}

/// The error for a role without a column.
pub(crate) fn no_column_error(
    layout: &TableLayout,
    role: ColumnRole,
    requested: &'static str,
    columns: String,
) -> DataError {
    let pick = |en, ja| lang().pick(en, ja);
    let plain_text = || pick("plain text", "プレーンテキスト").to_owned();
    let (columns, advice) = match (layout.format, role) {
        (Format::PlainText, ColumnRole::Label) => (
            plain_text(),
            pick(
                "write a CSV file with a text and a label in each row",
                "各行にテキストとラベルを書いた CSV ファイルにしてください",
            ),
        ),
        (Format::PlainText, ColumnRole::Source | ColumnRole::Target) => (
            plain_text(),
            pick(
                "give two files of as many lines, as train.ja,train.en",
                "train.ja,train.en のように、行数の等しい 2 つのファイルを指定してください",
            ),
        ),
        (_, ColumnRole::Label) => {
            (columns, pick("name one with --label NAME or number", "--label 列名（または番号）で指定してください"))
        }
        (_, ColumnRole::Text | ColumnRole::Feature) => {
            (columns, pick("name one with --text NAME or number", "--text 列名（または番号）で指定してください"))
        }
        (_, ColumnRole::Source | ColumnRole::Target) => (
            columns,
            pick(
                "name them with --text SOURCE and --label TARGET, or give two files as train.ja,train.en",
                "--text 原文の列 --label 訳文の列 で指定するか、train.ja,train.en のように 2 つのファイルを指定してください",
            ),
        ),
    };
    DataError::NoColumn { path: layout.path.clone(), role, expected: requested, columns, advice }
}
