//! Chooses the source and target columns of pairs: by the options, else by name, else by the content of the rows.

use super::super::error::{ColumnRole, DataError};
use super::super::format::ReadOptions;
use super::super::record::{Record, TableLayout};
use super::columns::ColumnChooser;
use super::names::{fold_name, role_of_name};
use super::reasons::{its_name, the_only_other, why_requested};
use crate::lang::lang;
use crate::tr;

/// Names of source columns, with the names of the matching target columns.
const PAIR_NAMES: [(&[&str], &[&str]); 8] = [
    (
        &["source", "src", "source text", "source sentence", "src text"],
        &["target", "tgt", "trg", "target text", "target sentence", "tgt text"],
    ),
    (&["input", "input text"], &["output", "output text"]),
    (&["original"], &["translation", "translated"]),
    (&["原文"], &["訳文", "翻訳", "対訳", "訳"]),
    (&["question"], &["answer"]),
    (&["質問"], &["回答", "答え"]),
    (&["prompt"], &["response", "completion"]),
    (&["article", "document"], &["summary"]),
];

/// Languages by codes and names. Codes that are common words in column names (`id`, `no`, `is` …) are left out.
const LANGUAGES: [&[&str]; 40] = [
    &["en", "eng", "english", "英語", "英文"],
    &["ja", "jp", "jpn", "japanese", "日本語", "和文"],
    &["zh", "zho", "cmn", "chinese", "中国語", "中文"],
    &["ko", "kor", "korean", "韓国語"],
    &["de", "deu", "ger", "german", "ドイツ語"],
    &["fr", "fra", "fre", "french", "フランス語"],
    &["es", "spa", "spanish", "スペイン語"],
    &["pt", "por", "portuguese", "ポルトガル語"],
    &["it", "ita", "italian", "イタリア語"],
    &["nl", "nld", "dut", "dutch"],
    &["sv", "swe", "swedish"],
    &["da", "dan", "danish"],
    &["nb", "nob", "norwegian"],
    &["fi", "fin", "finnish"],
    &["et", "est", "estonian"],
    &["lv", "lav", "latvian"],
    &["lt", "lit", "lithuanian"],
    &["pl", "pol", "polish"],
    &["cs", "ces", "cze", "czech"],
    &["sk", "slk", "slovak"],
    &["sl", "slv", "slovenian"],
    &["hr", "hrv", "croatian"],
    &["sr", "srp", "serbian"],
    &["bg", "bul", "bulgarian"],
    &["ro", "ron", "romanian"],
    &["hu", "hun", "hungarian"],
    &["el", "ell", "greek"],
    &["ru", "rus", "russian", "ロシア語"],
    &["uk", "ukr", "ukrainian"],
    &["tr", "tur", "turkish"],
    &["ar", "ara", "arabic"],
    &["heb", "hebrew"],
    &["fa", "fas", "persian"],
    &["hi", "hin", "hindi"],
    &["bn", "ben", "bengali"],
    &["ta", "tam", "tamil"],
    &["th", "tha", "thai", "タイ語"],
    &["vi", "vie", "vietnamese", "ベトナム語"],
    &["ind", "indonesian"],
    &["sw", "swa", "swahili"],
];

/// The source and target columns, counted from 0, with the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairColumns {
    pub(crate) source: usize,
    pub(crate) target: usize,
    pub(crate) source_why: &'static str,
    pub(crate) target_why: &'static str,
}

impl PairColumns {
    fn new((source, target): (usize, usize), why: &'static str) -> Self {
        PairColumns { source, target, source_why: why, target_why: why }
    }

    /// Returns the other non-empty columns (at most eight) if neither names nor options explain the pair, so that it is
    /// recognized only because both columns are text. Otherwise returns none.
    pub(crate) fn unexplained_columns(
        &self,
        layout: &TableLayout,
        rows: &[&Record],
        options: &ReadOptions,
    ) -> Vec<usize> {
        let is_named = layout.has_names() && pair_by_names(&layout.columns).is_some();
        if is_named || options.text.is_some() && options.label.is_some() {
            return Vec::new();
        }
        let others = (0..layout.columns.len()).filter(|&column| column != self.source && column != self.target);
        let has_values = |column: &usize| rows.iter().any(|row| !row.field(*column).trim().is_empty());
        others.filter(has_values).take(8).collect()
    }

    /// Describes the columns: `source = column “ja” (its language), target = column “en” (its language)`.
    pub(crate) fn describe(&self, layout: &TableLayout) -> String {
        let [source, target] = [self.source, self.target].map(|column| layout.column_title(column));
        let PairColumns { source_why, target_why, .. } = self;
        tr!(
            "source = {source} ({source_why}), target = {target} ({target_why})",
            "原文 = {source}（{source_why}）、訳文 = {target}（{target_why}）"
        )
    }
}

/// Returns the columns whose names form a translation pair, with the reason.
pub(crate) fn pair_by_names<S: AsRef<str>>(names: &[S]) -> Option<PairColumns> {
    let folded: Vec<String> = names.iter().map(|name| fold_name(name.as_ref())).collect();
    for (sources, targets) in PAIR_NAMES {
        let among = |group: &[&str]| {
            let mut found = (0..folded.len()).filter(|&c| group.contains(&folded[c].as_str()));
            found.next().filter(|_| found.next().is_none())
        };
        if let (Some(source), Some(target)) = (among(sources), among(targets)) {
            return Some(PairColumns::new((source, target), its_name()));
        }
    }
    // Two columns whose names differ only in the language. With a third language, the pair is not clear.
    let tagged: Vec<(usize, String, usize)> = folded
        .iter()
        .enumerate()
        .filter_map(|(c, name)| language_in_name(name).map(|(rest, tongue)| (c, rest, tongue)))
        .collect();
    match tagged.as_slice() {
        [(a, rest_a, tongue_a), (b, rest_b, tongue_b)] if rest_a == rest_b && tongue_a != tongue_b => {
            Some(PairColumns::new((*a, *b), lang().pick("its language", "言語名から")))
        }
        _ => None,
    }
}

/// Returns the language in a name such as `ja`, `ja jp`, `text ja` or `japanese text`, and the rest of the name.
fn language_in_name(name: &str) -> Option<(String, usize)> {
    let tongue = |word: &str| LANGUAGES.iter().position(|names| names.contains(&word));
    let words: Vec<&str> = name.split_whitespace().collect();
    match words.as_slice() {
        // More words are a sentence.
        [] | [_, _, _, _, ..] => None,
        // A region or script after a language code is part of it.
        [code, region] if region.len() == 2 || ["hans", "hant", "latn", "cyrl", "jpan"].contains(region) => {
            tongue(code)
                .map(|tongue| (String::new(), tongue))
                .or_else(|| tongue(region).map(|t| ((*code).to_owned(), t)))
        }
        [rest @ .., last] if tongue(last).is_some() => tongue(last).map(|tongue| (rest.join(" "), tongue)),
        [first, rest @ ..] => tongue(first).map(|tongue| (rest.join(" "), tongue)),
    }
}

/// Chooses the columns of pairs. `--text` names the source, `--label` the target.
pub(crate) fn choose_pair(
    layout: &TableLayout,
    rows: &[&Record],
    options: &ReadOptions,
) -> Result<PairColumns, DataError> {
    let chooser = ColumnChooser::new(layout, rows, options);
    let filled = chooser.with_training_options(options);
    let [source_why, target_why] = [&options.text, &options.label].map(why_requested);
    let options = filled.as_ref().unwrap_or(options);
    let source =
        options.text.as_deref().map(|requested| chooser.requested_column(ColumnRole::Source, requested)).transpose()?;
    let target = options
        .label
        .as_deref()
        .map(|requested| chooser.requested_column(ColumnRole::Target, requested))
        .transpose()?;
    let Some(given) = source.or(target) else {
        return choose_by_name_or_content(&chooser);
    };
    let other = match (source, target) {
        (Some(source), Some(target)) if source == target => {
            let (roles, column) = ([ColumnRole::Source, ColumnRole::Target], layout.columns[source].clone());
            return Err(DataError::SameColumn { path: layout.path.clone(), roles, column });
        }
        (Some(source), Some(target)) => return Ok(PairColumns { source, target, source_why, target_why }),
        _ => choose_partner(&chooser, given, if source.is_some() { ColumnRole::Target } else { ColumnRole::Source })?,
    };
    Ok(match source {
        Some(source) => PairColumns { source, target: other.0, source_why, target_why: other.1 },
        None => PairColumns { source: other.0, target: given, source_why: other.1, target_why },
    })
}

/// Chooses the other column of a pair if the options name one.
fn choose_partner(
    chooser: &ColumnChooser,
    requested: usize,
    role: ColumnRole,
) -> Result<(usize, &'static str), DataError> {
    let names = if chooser.layout.has_names() { pair_by_names(&chooser.layout.columns) } else { None };
    match names {
        Some(pair) if pair.source == requested => return Ok((pair.target, pair.target_why)),
        Some(pair) if pair.target == requested => return Ok((pair.source, pair.source_why)),
        _ => {}
    }
    let left: Vec<usize> =
        (0..chooser.profiles.len()).filter(|&c| c != requested && !chooser.profiles[c].is_nested).collect();
    if let [only] = left.as_slice() {
        return Ok((*only, the_only_other()));
    }
    let alike: Vec<usize> = left.into_iter().filter(|&c| chooser.profiles[c].is_sentence_like()).collect();
    match alike.as_slice() {
        [only] => Ok((*only, lang().pick("the only other column of text", "残る唯一のテキスト列"))),
        [] => Err(chooser.no_column_error(role, lang().pick("another column of text", "もう 1 つのテキストの列"))),
        several => Err(chooser.ambiguous_error(role, several)),
    }
}

fn choose_by_name_or_content(chooser: &ColumnChooser) -> Result<PairColumns, DataError> {
    let layout = chooser.layout;
    if layout.has_names()
        && let Some(pair) = pair_by_names(&layout.columns)
    {
        return Ok(pair);
    }
    if let [a, b] = chooser.profiles.as_slice()
        && !a.is_nested
        && !b.is_nested
    {
        return Ok(PairColumns::new((0, 1), lang().pick("one of only two columns", "列が 2 つだけのため")));
    }
    let alike: Vec<usize> = (0..chooser.profiles.len()).filter(|&c| chooser.profiles[c].is_sentence_like()).collect();
    match alike.as_slice() {
        [source, target] => Ok(PairColumns::new(
            (*source, *target),
            lang().pick("one of only two text columns", "テキストの列が 2 つだけのため"),
        )),
        [] | [_] => {
            Err(chooser.no_column_error(ColumnRole::Target, lang().pick("two columns of text", "2 つのテキストの列")))
        }
        several => Err(chooser.ambiguous_error(ColumnRole::Source, several)),
    }
}

/// Returns the columns of pairs if the file is clearly one of pairs and not of labels.
///
/// A column with few, repeated values holds labels, whatever its name. Without known names, the two columns must be
/// texts of similar length, and no other column may be named or look like a label.
pub(crate) fn evident_pair(layout: &TableLayout, rows: &[&Record], options: &ReadOptions) -> Option<PairColumns> {
    let chooser = ColumnChooser::new(layout, rows, options);
    let profiles = &chooser.profiles;
    let columns = choose_pair(layout, rows, options).ok()?;
    let (source, target) = (&profiles[columns.source], &profiles[columns.target]);
    if source.is_label_like() || target.is_label_like() || target.is_numbers() {
        return None;
    }
    let is_named = layout.has_names() && pair_by_names(&layout.columns).is_some();
    let is_requested = options.text.is_some() && options.label.is_some();
    let is_label = |c: usize| {
        let by_name = layout.has_names() && role_of_name(&layout.columns[c]) == Some(ColumnRole::Label);
        let by_content = profiles[c].is_label_like() && profiles[c].distinct > 1;
        // If questions and answers have a label column, that is the target, whatever the other names suggest.
        if is_named { by_name && by_content } else { by_name || by_content }
    };
    let mut others = (0..profiles.len()).filter(|&c| c != columns.source && c != columns.target);
    if !is_requested && others.any(is_label) {
        return None;
    }
    let (short, long) = (source.mean_chars.min(target.mean_chars), source.mean_chars.max(target.mean_chars));
    let is_alike = source.is_sentence_like() && target.is_sentence_like() && short * 4.0 >= long;
    (is_named || is_alike).then_some(columns)
}
