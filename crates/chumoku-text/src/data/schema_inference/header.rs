//! The score of a header: does the first row of a CSV or TSV file, or of a sheet, name the columns?

use super::super::error::ColumnRole;
use super::super::format::ReadOptions;
use super::dates::is_date;
use super::missing::MissingValues;
use super::names::{looks_like_name, names_two_texts, role_of_name};
use super::pair_columns::pair_by_names;
use super::profile::is_number;
use std::collections::HashMap;

/// The bits that names must outweigh: a row of data is what most rows are.
const PRIOR: f64 = -2.0;
/// The most bits that one column contributes.
const MAX_COLUMN_BITS: f64 = 7.0;
/// Bits for a name that occurs in lists of names, and against a value that occurs again in its column.
const KNOWN_NAME: [f64; 2] = [8.0, -8.0];
/// Bits against a number where names stand.
const NUMBER: f64 = -6.0;
/// The most bits by which long or punctuated fields count against a header.
const PROSE: f64 = -5.0;
/// Fewer rows below do not show whether the first one is odd.
const MIN_ROWS_BELOW: usize = 10;

/// The score of the first row as a header, in bits; above 0 it is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeaderScore {
    bits: f64,
    /// Rows below it.
    below: usize,
}

impl HeaderScore {
    const fn certain(is_header: bool) -> Self {
        HeaderScore { bits: if is_header { f64::INFINITY } else { f64::NEG_INFINITY }, below: 0 }
    }

    pub(crate) fn is_header(self) -> bool {
        self.bits > 0.0
    }

    /// Checks whether both readings are about as likely, on rows enough to tell.
    pub(crate) fn is_ambiguous(self) -> bool {
        self.below >= MIN_ROWS_BELOW && self.bits.abs() < super::MARGIN
    }

    /// Checks whether the other reading comes close.
    pub(crate) fn is_close(self) -> bool {
        self.below >= MIN_ROWS_BELOW && self.bits.abs() < super::CLOSE
    }
}

/// Scores the first row by those below it.
///
/// Options that say so, or that name one of its fields, decide. Else each column contributes bits: a known name; a value
/// that occurs nowhere below where values repeat; words above numbers or dates. Values that occur again in their column,
/// numbers and sentences count against a header.
pub(crate) fn score_header(first: &[String], below: &[&[String]], options: &ReadOptions) -> HeaderScore {
    if let Some(header) = options.header {
        return HeaderScore::certain(header);
    }
    let named = |wanted: &str| {
        !is_number(wanted) && first.iter().any(|name| name.trim().to_lowercase() == wanted.trim().to_lowercase())
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
    // A file made with `cat` may hold its header again further down.
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
    // Texts of like length have short beginnings together: they count once.
    bits += columns.iter().map(|column| column.shorter).fold(0.0, f64::max);
    let single_words = first.iter().all(|name| !name.trim().contains(char::is_whitespace) && !is_number(name));
    if single_words && columns.iter().any(|column| column.has_sentences) {
        bits += 1.5;
    }
    HeaderScore { bits, below: below.len() }
}

/// The evidence of one column for or against a header.
#[derive(Default)]
struct ColumnEvidence<'a> {
    name: &'a str,
    bits: f64,
    /// Bits against a header by the look of the field.
    prose: f64,
    /// Bits for a field with fewer words than every one below.
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
            // An index has no name, nor has what stands behind the last delimiter, or is almost empty.
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
            // Good and Turing: how likely a value is new by those that occur once.
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
        // Scripts without spaces show it by characters.
        let chars = |value: &str| value.chars().count();
        let is_shorter = filled.iter().map(|value| words(value)).min() > Some(words(name))
            || !name.is_ascii() && filled.iter().map(|value| chars(value)).min() > Some(2 * chars(name));
        if !is_numeric && looks_like_name(name) && is_shorter {
            column.shorter = 0.5 * (rows + 1.0).log2();
        }
        column
    }

    /// Bits against a header where a field is a sentence. Questions are headers in forms.
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

/// `0,1,2`, or the same behind an empty name: what pandas writes over columns that have no names.
fn is_default_index(first: &[String]) -> bool {
    let numbered = match first {
        [empty, rest @ ..] if empty.is_empty() => rest,
        all => all,
    };
    !numbered.is_empty() && numbered.iter().enumerate().all(|(i, name)| *name == i.to_string()) && first.len() > 1
}
