//! Scores whether the first row of a CSV or TSV file, or of a sheet, is a header.

use super::super::error::ColumnRole;
use super::super::format::ReadOptions;
use super::dates::is_date;
use super::missing::MissingValues;
use super::names::{looks_like_name, names_two_texts, role_of_name};
use super::pair_columns::pair_by_names;
use super::profile::is_number;
use std::collections::HashMap;

/// The prior for a header, in bits: most rows are data.
const PRIOR: f64 = -2.0;
/// Most bits from one column.
const MAX_COLUMN_BITS: f64 = 7.0;
/// Bits for a known column name, and for a value that occurs again in its column.
const KNOWN_NAME: [f64; 2] = [8.0, -8.0];
/// Bits for a number instead of a name.
const NUMBER: f64 = -6.0;
/// The lowest total for long or punctuated fields.
const PROSE: f64 = -5.0;
/// Fewest rows below that show whether the first one is different.
const MIN_ROWS_BELOW: usize = 10;

/// The log-odds that the first row is a header, in bits. Above 0 it is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeaderScore {
    bits: f64,
    /// Number of rows below the first.
    below: usize,
}

impl HeaderScore {
    const fn certain(is_header: bool) -> Self {
        HeaderScore { bits: if is_header { f64::INFINITY } else { f64::NEG_INFINITY }, below: 0 }
    }

    pub(crate) fn is_header(self) -> bool {
        self.bits > 0.0
    }

    /// Returns whether both readings are about equally likely, given enough rows.
    pub(crate) fn is_ambiguous(self) -> bool {
        self.below >= MIN_ROWS_BELOW && self.bits.abs() < super::MARGIN
    }

    /// Returns whether the other reading is close.
    pub(crate) fn is_close(self) -> bool {
        self.below >= MIN_ROWS_BELOW && self.bits.abs() < super::CLOSE
    }
}

/// Scores the first row against the rows below it.
///
/// Options that set the header or name one of its fields decide alone. Otherwise each column contributes bits. Known
/// names, values that do not occur below although values repeat, and words above numbers or dates count for a header.
/// Values that occur again, numbers and sentences count against it.
pub(crate) fn score_header(first: &[String], below: &[&[String]], options: &ReadOptions) -> HeaderScore {
    if let Some(header) = options.header {
        return HeaderScore::certain(header);
    }
    let named = |requested: &str| {
        !is_number(requested) && first.iter().any(|name| name.trim().to_lowercase() == requested.trim().to_lowercase())
    };
    let names_fields = |options: &ReadOptions, pairs: bool| {
        let (text, label) = (options.text.as_deref(), options.label.as_deref());
        let of_pair = text.filter(|_| pairs).and_then(|text| text.split_once(','));
        text.is_some_and(named) || label.is_some_and(named) || of_pair.is_some_and(|(a, b)| named(a) && named(b))
    };
    if names_fields(options, options.pairs)
        || options.training_options().is_some_and(|of| names_fields(of, options.pairs))
    {
        return HeaderScore::certain(true);
    }
    let roles: Vec<ColumnRole> = first.iter().filter_map(|name| role_of_name(name)).collect();
    if roles.contains(&ColumnRole::Text) && roles.contains(&ColumnRole::Label) {
        return HeaderScore::certain(true);
    }
    // A file made with `cat` may repeat its header further down.
    let below: Vec<&[String]> = below.iter().copied().filter(|row| *row != first).collect();
    if is_default_index(first) && !below.is_empty() {
        let has_words = (0..first.len()).any(|c| values(&below, c).any(|value| !value.is_empty() && !is_number(value)));
        return HeaderScore::certain(has_words);
    }
    if let Some(header) = options.training_options().and_then(|options| options.header) {
        return HeaderScore::certain(header);
    }
    let missing = MissingValues::from_options(options);
    let columns: Vec<ColumnEvidence<'_>> =
        first.iter().enumerate().map(|(c, name)| ColumnEvidence::new(name, &below, c, &missing)).collect();
    let known = columns.iter().any(|column| column.is_known);
    if first.len() < 2 && !known {
        return HeaderScore::certain(false);
    }
    let of_pair = pair_by_names(first).is_some() || names_two_texts(first);
    let mut bits = PRIOR + if of_pair { KNOWN_NAME[0] } else { 0.0 };
    bits += columns.iter().map(|column| column.bits).sum::<f64>();
    bits += columns.iter().map(|column| column.prose).sum::<f64>().max(PROSE);
    // Columns of similar texts may all have a shorter first field, so that counts once.
    bits += columns.iter().map(|column| column.shorter).fold(0.0, f64::max);
    let single_words = first.iter().all(|name| !name.trim().contains(char::is_whitespace) && !is_number(name));
    if single_words && columns.iter().any(|column| column.has_sentences) {
        bits += 1.5;
    }
    HeaderScore { bits, below: below.len() }
}

/// The evidence of one column.
#[derive(Default)]
struct ColumnEvidence<'a> {
    name: &'a str,
    bits: f64,
    /// Bits against a header because of the form of the field.
    prose: f64,
    /// Bits for a field with fewer words than all fields below.
    shorter: f64,
    is_known: bool,
    has_sentences: bool,
}

impl<'a> ColumnEvidence<'a> {
    fn new(name: &'a str, below: &[&[String]], at: usize, missing: &MissingValues) -> Self {
        let mut column = ColumnEvidence { name: name.trim(), ..ColumnEvidence::default() };
        let filled: Vec<&str> = values(below, at).map(str::trim).filter(|value| !missing.is_missing(value)).collect();
        let rows = filled.len() as f64;
        if column.name.is_empty() {
            // An index column, an empty column after the last delimiter, and a nearly empty column have no name.
            let is_index = at == 0 || filled.len() * 5 < below.len() || filled.is_empty();
            column.bits = if is_index { 0.0 } else { -2.0 };
            return column;
        }
        column.has_sentences = filled.iter().any(|value| value.split_whitespace().count() > 1);
        if filled.contains(&column.name) {
            column.bits = KNOWN_NAME[1];
            return column;
        }
        column.is_known = role_of_name(name).is_some();
        let is_numeric = is_number(name);
        let novelty = || {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            filled.iter().for_each(|value| *counts.entry(value).or_default() += 1);
            // The Good–Turing estimate: the probability of a new value follows from the values that occur once.
            let once = counts.values().filter(|&&count| count == 1).count() as f64;
            ((rows + 1.0) / (once + 0.5)).log2().max(0.0)
        };
        let contrast = |fits: fn(&str) -> bool| {
            let all = !filled.is_empty() && filled.iter().all(|value| fits(value)) && !fits(column.name);
            if all { (rows + 2.0).log2() } else { 0.0 }
        };
        let number_like = |value: &str| super::quantity::Quantity::parse(value).is_some();
        column.bits = match is_numeric {
            true => NUMBER,
            false => [novelty(), contrast(number_like), contrast(is_date)]
                .into_iter()
                .fold(0.0, f64::max)
                .min(MAX_COLUMN_BITS),
        };
        if column.is_known {
            column.bits = column.bits.max(KNOWN_NAME[0]);
        }
        column.prose = column.prose_bits();
        let words = |value: &str| value.split_whitespace().count();
        // In scripts without spaces, characters are counted instead.
        let chars = |value: &str| value.chars().count();
        let is_shorter = filled.iter().map(|value| words(value)).min() > Some(words(name))
            || !name.is_ascii() && filled.iter().map(|value| chars(value)).min() > Some(2 * chars(name));
        if !is_numeric && looks_like_name(name) && is_shorter {
            column.shorter = 0.5 * (rows + 1.0).log2();
        }
        column
    }

    /// Bits against a header if a field is a sentence. Questions are headers in forms.
    fn prose_bits(&self) -> f64 {
        let words = self.name.split_whitespace().count();
        let ends = match () {
            () if self.name.ends_with(['.', '!', '。', '！', '、', '」']) => -4.0,
            () if self.name.ends_with(['?', '？']) => -0.5,
            () => 0.0,
        };
        let is_question = self.name.ends_with(['?', '？', ':', '：']);
        let length = match words {
            _ if is_question => 0.0,
            0..=3 if self.name.chars().count() <= 40 => 0.0,
            0..=6 if self.name.chars().count() <= 60 => -1.0,
            _ => -2.0,
        };
        ends + length
    }
}

fn values<'a>(rows: &'a [&'a [String]], column: usize) -> impl Iterator<Item = &'a str> {
    rows.iter().filter_map(move |row| row.get(column).map(String::as_str))
}

/// Returns whether the names are `0,1,2`, or the same after an empty name, as pandas writes unnamed columns.
fn is_default_index(first: &[String]) -> bool {
    let numbered = match first {
        [empty, rest @ ..] if empty.is_empty() => rest,
        all => all,
    };
    !numbered.is_empty() && numbered.iter().enumerate().all(|(i, name)| *name == i.to_string()) && first.len() > 1
}
