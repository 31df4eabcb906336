//! Scores every reading of the label: which columns hold it, and in what form.

use super::super::record::{Record, TableLayout};
use super::label_form::{
    LabelForm, ListSize, SEPARATORS, decimal_bits, is_flag_column, list_size, multi_label_fraction, parse_flag,
};
use super::label_kind::LabelKind;
use super::missing::MissingValues;
use super::names::{LABEL_NAMES, fold_name, names_attribute, names_count, names_property};
use super::numbers::{is_measure_column, is_rating_name, looks_like_scores, present_values};
use super::profile::{ColumnProfile, FEW_ROWS};
use super::rank;
use super::reasons::{as_requested, few_values, its_name};
use crate::lang::lang;
use crate::lang::wording::join_names;
use crate::tr;

/// Bits for a name of the first, second and third group. No content outweighs a name.
pub(crate) const NAME_BITS: [f64; 3] = [60.0, 40.0, 20.0];

/// Bits for the content of a column without a known name.
const LISTS: f64 = 8.0;
const WORDS: f64 = 4.0;
const WHOLE_NUMBERS: f64 = 3.5;
const FLAG: f64 = 2.0;
const MEASURE: f64 = 1.0;
const NO_CLASSES: f64 = -4.0;
const ONE_VALUE: f64 = -6.0;
/// Bits by which a column of words leads a measure. They do not decide: in a file of products and prices, either may be
/// the label.
const WORDS_OVER_MEASURE: f64 = 0.75;
/// Bits for a column named like an attribute of the text, such as its channel.
const ATTRIBUTE: f64 = -2.0;
/// Bits for a value inside an object of the row.
const PATH: f64 = -1.5;
/// A column with more classes than this is less likely the label.
const TYPICAL_CLASSES: f64 = 50.0;
/// Most bits for the number of flag columns, so that a column of words can still be the label.
const MAX_FLAG_BITS: f64 = 1.9;
/// Fewest columns of 0 and 1 that together may be the labels.
const MIN_FLAGS: usize = 3;

/// A reading of the label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabelCandidate {
    pub(crate) form: LabelForm,
    /// The reason, for descriptions.
    pub(crate) why: String,
}

impl LabelCandidate {
    /// Describes the reading with the flags that select it, for messages.
    pub(crate) fn describe(&self, layout: &TableLayout) -> String {
        let flag = |column: usize| {
            let name = layout.columns.get(column).filter(|name| layout.has_names() && !name.trim().is_empty());
            name.map_or_else(|| (column + 1).to_string(), |name| name.trim().to_owned())
        };
        match &self.form {
            LabelForm::Class(column) => {
                let (title, flag) = (layout.column_title(*column), flag(*column));
                tr!("label = {title} (--label {flag})", "ラベル = {title}（--label {flag}）")
            }
            LabelForm::Number(column) => {
                let (title, flag) = (layout.column_title(*column), flag(*column));
                tr!("a number = {title} (--task score --label {flag})", "数値 = {title}（--task score --label {flag}）")
            }
            LabelForm::Separated(column, separator) => {
                let (title, flag) = (layout.column_title(*column), flag(*column));
                tr!(
                    "several labels with \"{separator}\" in {title} (--label {flag} --separator \"{separator}\")",
                    "{title}に「{separator}」で区切った複数のラベル（--label {flag} --separator \"{separator}\"）"
                )
            }
            LabelForm::List(column) => {
                let (title, flag) = (layout.column_title(*column), flag(*column));
                tr!(
                    "lists of labels in {title} (--task labels --label {flag})",
                    "{title}のリスト（--task labels --label {flag}）"
                )
            }
            LabelForm::Columns(columns) => {
                let titles: Vec<String> = columns.iter().take(8).map(|&column| layout.column_title(column)).collect();
                let flags: Vec<String> = columns.iter().map(|&column| flag(column)).collect();
                let (titles, flags) = (join_names(&titles), flags.join(","));
                tr!("several labels = {titles} (--labels {flags})", "複数のラベル = {titles}（--labels {flags}）")
            }
            LabelForm::FastText => String::new(),
        }
    }
}

/// The table with the column statistics.
pub(crate) struct TableView<'a> {
    pub(crate) layout: &'a TableLayout,
    pub(crate) rows: &'a [&'a Record],
    pub(crate) profiles: &'a [ColumnProfile],
    pub(crate) missing: &'a MissingValues,
    /// The label column that the options name.
    pub(crate) requested: Option<usize>,
}

impl TableView<'_> {
    /// The group of label names that a column's name belongs to, from 0.
    pub(crate) fn name_group(&self, column: usize) -> Option<usize> {
        let name = fold_name(self.layout.columns.get(column).filter(|_| self.layout.has_names())?);
        LABEL_NAMES.iter().position(|group| group.contains(&name.as_str()))
    }

    /// The bits for a column as the label, by its content. Minus infinity if it cannot be the label.
    pub(crate) fn content_bits(&self, column: usize) -> f64 {
        let profile = &self.profiles[column];
        let is_of_lists = self.list_size(column).is_some();
        let is_repeated = profile.filled > 0 && profile.mean_chars <= 50.0 && profile.distinct * 2 <= profile.filled;
        let is_label_like = if is_of_lists { is_repeated } else { profile.is_label_like() };
        if !is_label_like && !is_of_lists {
            return f64::NEG_INFINITY;
        }
        let values = present_values(self.rows, column, self.missing);
        let content = match LabelKind::detect(&values, false) {
            _ if is_of_lists => LISTS,
            _ if profile.distinct < 2 => ONE_VALUE,
            _ if profile.is_dates => NO_CLASSES,
            _ if profile.is_flag => FLAG,
            Some(LabelKind::Measure) => MEASURE,
            Some(_) => NO_CLASSES,
            None if profile.is_numbers() => WHOLE_NUMBERS,
            None => WORDS,
        };
        let path = if self.layout.is_path(column) { PATH } else { 0.0 };
        let share = profile.filled as f64 / profile.rows.max(1) as f64;
        // Lists are combinations of labels, so many distinct ones are normal.
        let many = if is_of_lists { 0.0 } else { (profile.distinct as f64 / TYPICAL_CLASSES).log2().max(0.0) };
        content + self.attribute_bits(column) + path + share.log2() - many
    }

    /// Bits for a column named like an attribute of the text, or like a count.
    fn attribute_bits(&self, column: usize) -> f64 {
        let name = self.layout.columns.get(column).filter(|_| self.layout.has_names());
        let is_count = |name: &str| self.profiles[column].is_numbers() && names_count(name);
        if name.is_some_and(|name| names_attribute(name) || is_count(name)) { ATTRIBUTE } else { 0.0 }
    }

    /// Returns whether the lists of a column hold one label or several, if it is a column of lists.
    fn list_size(&self, column: usize) -> Option<ListSize> {
        // Numbers are labels if the column looks like labels. In other columns they may be scores or positions.
        let numbers = self.requested == Some(column)
            || self.name_group(column).is_some()
            || !self.profiles[column].is_nested && self.profiles[column].is_label_like();
        list_size(self.layout, self.rows, column, numbers)
    }

    /// Bits for numbers rather than several labels, by the name of a column.
    fn number_bits(&self, column: usize) -> f64 {
        const SEVERAL: [&str; 9] =
            ["labels", "classes", "categories", "tags", "topics", "emotions", "genres", "codes", "keywords"];
        let name = self.layout.columns.get(column).filter(|_| self.layout.has_names()).map_or("", String::as_str);
        match () {
            () if is_rating_name(name) => 3.0,
            () if SEVERAL.contains(&fold_name(name).as_str()) => -3.0,
            () => 0.0,
        }
    }

    /// Returns the readings of one label column, with their bits.
    fn column_readings(&self, column: usize, bits: f64, why: &str) -> Vec<(f64, LabelCandidate)> {
        let candidate = |form: LabelForm, why: String| LabelCandidate { form, why };
        let class = |bits: f64| (bits, candidate(LabelForm::Class(column), why.to_owned()));
        match self.list_size(column) {
            Some(ListSize::Multiple) => {
                let why = lang().pick("it holds lists", "リストの列").to_owned();
                return vec![(bits, candidate(LabelForm::List(column), why))];
            }
            Some(ListSize::Single) => return vec![class(bits)],
            None => {}
        }
        let values = present_values(self.rows, column, self.missing);
        let number = looks_like_scores(self.layout, self.rows, column, self.missing);
        let decimal = decimal_bits(&values);
        let several = SEPARATORS.into_iter().find_map(|separator| {
            let share = multi_label_fraction(self.rows, column, separator, self.missing)?;
            // A comma in a number does not make it a list of two.
            let decimal = decimal.filter(|_| separator == ',').map(|bits| bits + self.number_bits(column));
            let against = decimal.unwrap_or(f64::NEG_INFINITY);
            Some((separator, share, against))
        });
        match (several, number) {
            (Some((separator, share, against)), number) if against < f64::INFINITY => {
                let percent = 100.0 * share;
                let why = tr!(
                    "{percent:.0} % of the first rows have several, separated by \"{separator}\"",
                    "先頭の行の {percent:.0} % に「{separator}」で区切られた複数のラベル"
                );
                let several = candidate(LabelForm::Separated(column, separator), why);
                match number.filter(|_| against > f64::NEG_INFINITY) {
                    None => vec![(bits, several)],
                    Some(why) => vec![
                        (bits + against.max(0.0), candidate(LabelForm::Number(column), why)),
                        (bits - against.min(0.0), several),
                    ],
                }
            }
            (_, Some(why)) => vec![(bits, candidate(LabelForm::Number(column), why))],
            _ => vec![class(bits)],
        }
    }

    /// Returns all readings of the label, best first. `taken` are columns of other roles.
    pub(crate) fn readings(&self, taken: &[usize]) -> Vec<(f64, LabelCandidate)> {
        if let Some(column) = self.requested {
            return rank(self.column_readings(column, 0.0, as_requested()));
        }
        let left: Vec<usize> = (0..self.profiles.len()).filter(|column| !taken.contains(column)).collect();
        let mut found = Vec::new();
        for &column in &left {
            let named = self.name_group(column).map(|group| NAME_BITS[group]);
            // A known name counts even if values do not repeat. Errors are reported when rows are read.
            let content = match (self.content_bits(column), named) {
                (bits, Some(_)) => bits.max(-15.0),
                (bits, None) => bits,
            };
            let why = match named {
                Some(_) => its_name(),
                None => few_values(),
            };
            let bits = content + named.unwrap_or_default();
            if bits > f64::NEG_INFINITY {
                found.extend(self.column_readings(column, bits, why));
            } else if (left.len() > 1 || self.profiles[column].filled >= FEW_ROWS)
                && !self.profiles[column].is_dates
                && is_measure_column(self.layout, self.rows, column, self.missing)
            {
                let title = self.layout.column_title(column);
                let why = tr!("{title} holds a measure", "{title}は数値");
                let bits = MEASURE + self.attribute_bits(column);
                found.push((bits, LabelCandidate { form: LabelForm::Number(column), why }));
            }
        }
        if let Some((bits, flags)) = self.flag_columns(&left) {
            // A single flag is less likely the label than all of them.
            let is_of_them = |form: &LabelForm| matches!((form, &flags.form), (LabelForm::Class(one), LabelForm::Columns(all)) if all.contains(one));
            found.iter_mut().filter(|(_, candidate)| is_of_them(&candidate.form)).for_each(|(bits, _)| *bits -= FLAG);
            found.push((bits, flags));
        }
        rank(found)
    }

    /// Returns all readings if it is open whether a class or a number is predicted, best first.
    ///
    /// A column of words without a known name may be an attribute of the text, such as its product. Then a measure in
    /// the same row, such as the price, is about as likely the label.
    pub(crate) fn readings_for_any_task(&self, taken: &[usize]) -> Vec<(f64, LabelCandidate)> {
        let mut found = self.readings(taken);
        let is_of_words = |form: &LabelForm| match form {
            LabelForm::Class(column) => {
                let profile = &self.profiles[*column];
                self.name_group(*column).is_none() && !profile.is_numbers() && !profile.is_flag
            }
            _ => false,
        };
        let words = found.iter().filter(|(_, candidate)| is_of_words(&candidate.form)).map(|(bits, _)| *bits);
        let beside_words = words.fold(f64::NEG_INFINITY, f64::max) - WORDS_OVER_MEASURE;
        for (bits, candidate) in &mut found {
            if let LabelForm::Number(column) = candidate.form
                && self.name_group(column).is_none()
            {
                *bits = bits.max(beside_words + self.attribute_bits(column));
            }
        }
        rank(found)
    }

    /// Returns columns of 0 and 1 as one label each, if there are enough.
    fn flag_columns(&self, left: &[usize]) -> Option<(f64, LabelCandidate)> {
        let flags: Vec<usize> = left
            .iter()
            .copied()
            .filter(|&column| is_flag_column(self.rows, column) && self.name_group(column).is_none())
            .collect();
        // Two columns of 0 and 1 may mean anything.
        if flags.len() < MIN_FLAGS || !self.layout.has_names() {
            return None;
        }
        let properties = flags.iter().filter(|&&column| names_property(&self.layout.columns[column])).count();
        let against = if properties * 2 >= flags.len() { 2.0 } else { 0.0 };
        // If every row has exactly one flag set, the columns are a one-hot class.
        let holding =
            |row: &&Record| flags.iter().filter(|&&column| parse_flag(row.field(column)) == Some(true)).count();
        let one_of_all = if self.rows.iter().all(|row| holding(row) == 1) { 2.0 } else { 0.0 };
        let bits = FLAG + (flags.len() as f64).log2().min(MAX_FLAG_BITS) + one_of_all - against;
        let why = lang().pick("columns of 0 and 1", "0 と 1 だけの列").to_owned();
        Some((bits, LabelCandidate { form: LabelForm::Columns(flags), why }))
    }

    /// Returns the numeric columns to predict, best first.
    pub(crate) fn number_columns(&self, taken: &[usize]) -> Vec<(f64, usize)> {
        let left = (0..self.profiles.len()).filter(|column| !taken.contains(column));
        let found = left.filter(|&column| {
            let named = names_numbering(self.layout.columns.get(column).map_or("", String::as_str));
            !named && !self.profiles[column].is_dates && is_measure_column(self.layout, self.rows, column, self.missing)
        });
        rank(found.map(|column| {
            let name = self.layout.columns.get(column).map_or("", String::as_str);
            let rating = if is_rating_name(name) { 3.0 } else { 0.0 };
            let attribute = if names_attribute(name) { ATTRIBUTE } else { 0.0 };
            (MEASURE + rating + attribute, column)
        }))
    }
}

/// Returns whether a name is that of row numbers.
fn names_numbering(name: &str) -> bool {
    ["id", "no", "no.", "index", "number", "番号", "#"].contains(&name.trim().to_lowercase().as_str())
}
