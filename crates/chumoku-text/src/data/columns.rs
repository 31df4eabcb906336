//! Which column holds the text and which the label: as asked, else by name, else by what the first rows hold.

use super::error::{DataError, Role};
use super::format::{Format, ReadOptions};
use super::numbers::number_column;
use super::profile::Profile;
use super::record::{Layout, Record};
use crate::lang::lang;
use crate::lang::wording::{did_you_mean, joined, listed};
use crate::{beside, pair, sorting, tr};
use std::borrow::Cow;

/// Names of text columns, the surest first; within a group all are alike.
const TEXT_NAMES: [&[&str]; 3] = [
    &["text", "texts", "sentence", "sentences", "本文", "テキスト", "文", "文章"],
    &[
        "review",
        "reviews",
        "content",
        "contents",
        "body",
        "comment",
        "comments",
        "message",
        "question",
        "utterance",
        "document",
        "review text",
        "review body",
        "tweet",
        "sms",
        "post",
        "query",
        "input",
        "description",
        "reviewtext",
        "レビュー",
        "レビュー本文",
        "口コミ",
        "クチコミ",
        "コメント",
        "内容",
        "質問",
        "発話",
        "メッセージ",
        "ツイート",
    ],
    &["title", "headline", "subject", "summary", "タイトル", "題名", "件名", "見出し"],
];
/// Names of label columns, in the same way.
const LABEL_NAMES: [&[&str]; 3] = [
    &["label", "labels", "class", "classes", "ラベル", "分類", "クラス"],
    &[
        "category",
        "categories",
        "sentiment",
        "target",
        "tag",
        "intent",
        "emotion",
        "topic",
        "polarity",
        "output",
        "gold",
        "感情",
        "評価",
        "カテゴリ",
        "カテゴリー",
        "意図",
        "極性",
        "正解",
        "話題",
        "種別",
    ],
    &["stars", "star", "rating", "ratings", "score", "y", "星", "点数", "評点"],
];

/// Names of the two columns of a pair, [folded].
const PAIR_NAMES: [[&str; 2]; 9] = [
    ["premise", "hypothesis"],
    ["sentence1", "sentence2"],
    ["sentence 1", "sentence 2"],
    ["question1", "question2"],
    ["text1", "text2"],
    ["text 1", "text 2"],
    ["text a", "text b"],
    ["前提", "仮説"],
    ["文1", "文2"],
];

/// Whether two of these names are those of a pair of texts.
pub(crate) fn names_two_texts<S: AsRef<str>>(names: &[S]) -> bool {
    let folded: Vec<String> = names.iter().map(|name| folded(name.as_ref())).collect();
    PAIR_NAMES.iter().any(|pair| pair.iter().all(|name| folded.iter().any(|own| own == name)))
}

/// What a label column is, for messages.
pub(crate) fn label_wanted() -> &'static str {
    lang().pick("a column of few, repeated values", "少数の値が繰り返される列")
}

/// Why a column is in use that somebody named.
pub(crate) fn as_asked() -> &'static str {
    lang().pick("as asked", "指定どおり")
}

/// Why a column is in use whose name says what it is.
pub(crate) fn its_name() -> &'static str {
    lang().pick("its name", "列名から")
}

/// Why a column is in use that is left over.
pub(crate) fn the_only_other() -> &'static str {
    lang().pick("the only other", "残る唯一の列")
}

/// The columns in use, counted from 0, and why these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The column of the text.
    pub text: usize,
    /// The column of the second text, where texts are pairs.
    pub second: Option<usize>,
    /// The column of the label, if there is one.
    pub label: Option<usize>,
    /// Why the text is this one: `its name`, `the longest and most varied` …
    pub text_why: &'static str,
    /// Why the label is this one; empty if there is none.
    pub label_why: &'static str,
    /// Where the values beside the text come from, in order.
    pub beside: Vec<Beside>,
}

/// Where a value [beside](crate::beside) the text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beside {
    /// A column of the file.
    Column(usize),
    /// One value for all rows.
    Value(String),
}

impl Beside {
    /// The column, if it is one of the file.
    pub fn column(&self) -> Option<usize> {
        match self {
            Beside::Column(column) => Some(*column),
            Beside::Value(_) => None,
        }
    }
}

impl Columns {
    /// The text of a row, without what only a [pair](crate::pair) has; of a pair both texts, [joined](crate::pair::join). What
    /// stands [beside](crate::beside) it follows.
    pub fn text_of<'a>(&self, record: &'a Record) -> Cow<'a, str> {
        let first = record.field(self.text);
        let text =
            self.second.map_or_else(|| pair::single(first), |second| pair::join(first, record.field(second)).into());
        if self.beside.is_empty() {
            return text;
        }
        let value = |of: &'_ Beside| match of {
            Beside::Column(column) => record.field(*column).to_owned(),
            Beside::Value(value) => value.clone(),
        };
        beside::join(&text, &self.beside.iter().map(value).collect::<Vec<_>>()).into()
    }

    /// The columns of the file that are in use.
    pub(crate) fn in_use(&self) -> Vec<Option<usize>> {
        let beside = self.beside.iter().map(Beside::column);
        [Some(self.text), self.second, self.label].into_iter().chain(beside).collect()
    }
}

/// The role that a name promises, if any.
pub(crate) fn named_role(name: &str) -> Option<Role> {
    let name = folded(name);
    let among = |groups: &[&[&str]]| groups.iter().any(|group| group.contains(&name.as_str()));
    match (among(&TEXT_NAMES), among(&LABEL_NAMES)) {
        (true, _) => Some(Role::Text),
        (_, true) => Some(Role::Label),
        _ => None,
    }
}

/// Whether a line is the name of a text column, as it stands.
pub(crate) fn is_text_name(line: &str) -> bool {
    TEXT_NAMES.iter().any(|group| group.contains(&line))
}

pub(crate) fn folded(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

/// Chooses the columns of a file from its names and its first rows.
pub(crate) fn choose(layout: &Layout, rows: &[&Record], options: &ReadOptions) -> Result<Columns, DataError> {
    let mut chooser = Chooser::new(layout, rows);
    let beside = chooser.asked_beside(options)?;
    let taken: Vec<usize> = beside.iter().filter_map(Beside::column).collect();
    // A model's own columns are not the text or the label of any file.
    if options.beside.iter().any(|of| !of.is_of_model) {
        let text = chooser.by_name(Role::Text, &TEXT_NAMES, &[]).ok().flatten().filter(|_| options.text.is_none());
        let label = chooser.by_name(Role::Label, &LABEL_NAMES, &[]).ok().flatten().filter(|_| options.label.is_none());
        if let Some((column, _)) = [text, label].into_iter().flatten().find(|(column, _)| taken.contains(column)) {
            return Err(DataError::TakenColumn { path: layout.path.clone(), column: layout.columns[column].clone() });
        }
    }
    chooser.taken = taken;
    let asked_label = options.label.as_deref().map(|wanted| chooser.asked(Role::Label, wanted)).transpose()?;
    let pair = match options.text.as_deref() {
        _ if !options.pairs => None,
        Some(wanted) => chooser.asked_pair(wanted)?.map(|pair| (pair, as_asked())),
        None => chooser.pair_by_name().map(|pair| (pair, lang().pick("their names", "列名から"))).or_else(|| {
            // Rows to be answered, of which a model of pairs needs two columns.
            let only = options.faults_in_place && layout.columns.len() == 2 && !layout.has_names();
            only.then(|| ([0, 1], lang().pick("the only two", "2 列だけ")))
        }),
    };
    let second = pair.map(|(pair, _)| pair[1]);
    let asked_text = match (pair, options.text.as_deref()) {
        (Some((pair, _)), _) => Some(pair[0]),
        (None, wanted) => wanted.map(|wanted| chooser.asked(Role::Text, wanted)).transpose()?,
    };
    if let Some(text) = asked_label.filter(|_| asked_text == asked_label || second == asked_label) {
        let column = layout.columns[text].clone();
        let roles = [Role::Text, Role::Label];
        return Err(DataError::SameColumn { path: layout.path.clone(), roles, column });
    }
    let mut label = asked_label.map(|column| (column, as_asked()));
    if label.is_none() {
        label = chooser
            .by_name(Role::Label, &LABEL_NAMES, &[asked_text, second])
            .or_else(|error| if options.require_label { Err(error) } else { Ok(None) })?;
    }
    let taken = label.map(|(column, _)| column);
    let (text, text_why) = match asked_text {
        Some(column) => (column, pair.map_or(as_asked(), |(_, why)| why)),
        None => match chooser.by_name(Role::Text, &TEXT_NAMES, &[taken])? {
            Some(found) => found,
            None => chooser.text_by_content(taken)?,
        },
    };
    if label.is_none() && options.numbers {
        let only = lang().pick("the only numbers", "唯一の数値の列");
        let taken: Vec<Option<usize>> = chooser.taken.iter().copied().map(Some).chain([Some(text), second]).collect();
        label = number_column(layout, rows, &taken).map(|column| (column, only));
    }
    if label.is_none() && options.require_label {
        label = Some(chooser.label_by_content(&[Some(text), second])?);
    }
    let (label, label_why) = label.map_or((None, ""), |(column, why)| (Some(column), why));
    if let Some(column) = chooser.taken.iter().find(|column| [Some(text), second, label].contains(&Some(**column))) {
        return Err(DataError::TakenColumn { path: layout.path.clone(), column: layout.columns[*column].clone() });
    }
    Ok(Columns { text, second, label, text_why, label_why, beside })
}

pub(crate) struct Chooser<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) profiles: Vec<Profile>,
    /// The fields of the first row, by which a user knows columns that have no names.
    first: &'a [String],
    /// Columns that are neither the text nor the label, because they stand beside the text.
    taken: Vec<usize>,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(layout: &'a Layout, rows: &'a [&Record]) -> Self {
        let profiles: Vec<Profile> = (0..layout.columns.len()).map(|c| Profile::of(layout, rows, c)).collect();
        let first = rows.first().map_or(&[][..], |row| &row.fields);
        Chooser { layout, profiles, first, taken: Vec::new() }
    }

    /// The columns that are to stand beside the text.
    fn asked_beside(&self, options: &ReadOptions) -> Result<Vec<Beside>, DataError> {
        let wanted = &options.beside;
        let path = || self.layout.path.clone();
        let missing: Vec<&str> = wanted.iter().filter(|of| of.value.is_none()).map(|of| of.name.as_str()).collect();
        if !missing.is_empty() && !self.layout.has_names() {
            let (names, found) = (listed(&missing), self.layout.format.to_string());
            return Err(DataError::NoNamesBeside { path: path(), names, found });
        }
        let mut found = Vec::with_capacity(wanted.len());
        for of in wanted {
            let beside = match &of.value {
                Some(value) => Beside::Value(value.clone()),
                None => Beside::Column(self.asked(Role::Beside, &of.name).map_err(|error| match error {
                    DataError::NoSuchColumn { path, role, wanted, columns, .. } if of.is_of_model => {
                        let hint = match of.kind {
                            None => tr!(
                                "; the model reads it: add the column (an empty one is a missing value), or give one value \
                                 for all rows, as --set {wanted}=VALUE",
                                "。モデルがこの列を読みます。列を加えるか（空欄は欠損として扱います）、--set {wanted}=値 で全行に同じ値を\
                                 指定してください"
                            ),
                            // A model is trained further, and rows are not all alike.
                            Some(_) => tr!(
                                "; the model reads it: add the column (an empty one is a missing value)",
                                "。モデルがこの列を読みます。列を加えてください（空欄は欠損として扱います）"
                            ),
                        };
                        DataError::NoSuchColumn { path, role, wanted, columns, hint }
                    }
                    other => other,
                })?),
            };
            if let Beside::Column(column) = beside
                && found.contains(&beside)
            {
                return Err(DataError::TakenColumn { path: path(), column: self.layout.columns[column].clone() });
            }
            found.push(beside);
        }
        Ok(found)
    }

    /// The column that an option names: as it stands, letter case aside, or by its number from 1.
    pub(crate) fn asked(&self, role: Role, wanted: &str) -> Result<usize, DataError> {
        let columns = &self.layout.columns;
        let named = self.layout.has_names() || self.layout.format == Format::FastText;
        let same: [fn(&str) -> String; 2] = [|name| name.trim().to_owned(), |name| name.trim().to_lowercase()];
        for key in same.iter().filter(|_| named) {
            let found: Vec<usize> = (0..columns.len()).filter(|&c| key(&columns[c]) == key(wanted)).collect();
            match found.as_slice() {
                [] => {}
                [column] => return Ok(*column),
                several => return Err(self.ambiguous(role, several)),
            }
        }
        match wanted.trim().parse::<usize>() {
            Ok(number) if (1..=columns.len()).contains(&number) => Ok(number - 1),
            _ => Err(DataError::NoSuchColumn {
                path: self.layout.path.clone(),
                role,
                wanted: wanted.to_owned(),
                columns: self.all(),
                hint: self.which_there_are(role, wanted, named),
            }),
        }
    }

    /// The two columns that an option names, with a comma between them; none if it names one, or none that there are.
    fn asked_pair(&self, wanted: &str) -> Result<Option<[usize; 2]>, DataError> {
        let Some((first, second)) = wanted.split_once(',').filter(|_| self.asked(Role::Text, wanted).is_err()) else {
            return Ok(None);
        };
        let pair = [self.asked(Role::Text, first)?, self.asked(Role::Text, second)?];
        if pair[0] == pair[1] {
            let (path, column) = (self.layout.path.clone(), self.layout.columns[pair[0]].clone());
            return Err(DataError::SameColumn { path, roles: [Role::Text, Role::Text], column });
        }
        Ok(Some(pair))
    }

    /// The two columns whose names are those of a pair.
    fn pair_by_name(&self) -> Option<[usize; 2]> {
        let names: Vec<String> = self.layout.columns.iter().map(|name| folded(name)).collect();
        let place = |wanted: &str| names.iter().position(|name| name == wanted);
        let is_named = self.layout.has_names();
        PAIR_NAMES.iter().filter(|_| is_named).find_map(|[first, second]| Some([place(first)?, place(second)?]))
    }

    /// What to do about a column that is not there: the name that is meant or, without one, how to name a column.
    fn which_there_are(&self, role: Role, wanted: &str, is_named: bool) -> String {
        let flag = role.flag();
        if !is_named {
            return tr!("; name one by its number, as {flag} 1", "。{flag} 1 のように番号で指定してください");
        }
        let meant = did_you_mean(wanted, self.layout.columns.iter().map(String::as_str));
        match meant.is_empty() {
            true => tr!("; name one of these with {flag}", "。このいずれかを {flag} で指定してください"),
            false => meant,
        }
    }

    /// The column whose name says its role; several that say it equally well are told apart by content.
    fn by_name(
        &self,
        role: Role,
        groups: &[&[&str]],
        taken: &[Option<usize>],
    ) -> Result<Option<(usize, &'static str)>, DataError> {
        if !self.layout.has_names() && self.layout.format != Format::FastText {
            return Ok(None);
        }
        for group in groups {
            let found: Vec<usize> = (0..self.layout.columns.len())
                .filter(|c| !self.taken.contains(c))
                .filter(|&c| !taken.contains(&Some(c)) && group.contains(&folded(&self.layout.columns[c]).as_str()))
                .collect();
            match (found.as_slice(), role) {
                ([], _) => {}
                ([column], _) => return Ok(Some((*column, its_name()))),
                (several, Role::Label) => return self.most_repeated(several).map(Some),
                (several, _) => return self.longest(several).map(Some),
            }
        }
        Ok(None)
    }

    fn text_by_content(&self, label: Option<usize>) -> Result<(usize, &'static str), DataError> {
        let left: Vec<usize> = (0..self.profiles.len())
            .filter(|&c| Some(c) != label && !self.profiles[c].nested && !self.taken.contains(&c))
            .collect();
        match left.as_slice() {
            [only] => Ok((*only, lang().pick("the only one", "唯一の候補"))),
            several => self.longest(several),
        }
    }

    /// The column that looks most like text, if it does so at least twice as much as the next.
    fn longest(&self, columns: &[usize]) -> Result<(usize, &'static str), DataError> {
        let mut scored: Vec<(f64, usize)> = columns.iter().map(|&c| (self.profiles[c].text_score(), c)).collect();
        sorting::by(&mut scored, |a, b| b.0.total_cmp(&a.0));
        match scored.as_slice() {
            [] | [(0.0, _), ..] => Err(self.no_column(Role::Text, lang().pick("a column of words", "文章の列"))),
            [(first, _), (second, _), ..] if *second * 2.0 > *first => {
                let alike: Vec<usize> =
                    scored.iter().filter(|(score, _)| score * 2.0 > *first).map(|&(_, c)| c).collect();
                Err(self.ambiguous(Role::Text, &alike))
            }
            [(_, column), ..] => Ok((*column, lang().pick("the longest and most varied", "最も長く多様な列"))),
        }
    }

    fn label_by_content(&self, texts: &[Option<usize>]) -> Result<(usize, &'static str), DataError> {
        let is_left = |&c: &usize| !texts.contains(&Some(c)) && !self.taken.contains(&c) && self.profiles[c].filled > 0;
        let left: Vec<usize> = (0..self.profiles.len()).filter(is_left).collect();
        // Too few rows for repeats to show: the one other column it must be.
        match left.as_slice() {
            [only] if self.profiles[*only].filled < 20 && !self.profiles[*only].nested => Ok((*only, the_only_other())),
            several => self.most_repeated(several),
        }
    }

    /// The one column that looks like labels; a column with a single value counts only if no other does.
    fn most_repeated(&self, columns: &[usize]) -> Result<(usize, &'static str), DataError> {
        let alike: Vec<usize> = columns.iter().copied().filter(|&c| self.profiles[c].is_label_like()).collect();
        let varied: Vec<usize> = alike.iter().copied().filter(|&c| self.profiles[c].distinct > 1).collect();
        match (varied.as_slice(), alike.as_slice()) {
            ([column], _) | ([], [column]) => Ok((*column, lang().pick("few distinct values", "値の種類が少ない列"))),
            ([], []) => Err(self.no_column(Role::Label, label_wanted())),
            ([], several) | (several, _) => Err(self.ambiguous(Role::Label, several)),
        }
    }

    pub(crate) fn ambiguous(&self, role: Role, columns: &[usize]) -> DataError {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        let titles: Vec<String> = columns.iter().take(12).map(|&c| self.layout.column_title(c)).collect();
        let (n, titles) = (columns.len(), joined(&titles));
        let candidates = tr!("{n} equally likely: {titles}", "同じような列が {n} つ: {titles}");
        DataError::Ambiguous { path: self.layout.path.clone(), role, candidates }
    }

    pub(crate) fn no_column(&self, role: Role, wanted: &'static str) -> DataError {
        no_column(self.layout, role, wanted, self.all())
    }

    /// All columns, for a message.
    fn all(&self) -> String {
        match self.layout.columns.len() {
            _ if self.layout.has_names() || self.layout.format == Format::FastText => listed(&self.layout.columns),
            1 => tr!(
                "column 1 (no names; the first row holds {})",
                "名前のない 1 列（最初の行は {}）",
                listed(self.first)
            ),
            n => tr!(
                "columns 1 to {n} (no names; the first row holds {})",
                "名前のない {n} 列（最初の行は {}）",
                listed(self.first)
            ),
        }
    }
}

/// The error of finding no column for a role.
pub(crate) fn no_column(layout: &Layout, role: Role, wanted: &'static str, columns: String) -> DataError {
    let pick = |en, ja| lang().pick(en, ja);
    let plain_text = || pick("plain text", "プレーンテキスト").to_owned();
    let (columns, advice) = match (layout.format, role) {
        (Format::PlainText, Role::Label) => (
            plain_text(),
            pick(
                "write a CSV file with a text and a label in each row",
                "各行にテキストとラベルを書いた CSV ファイルにしてください",
            ),
        ),
        (Format::PlainText, Role::Source | Role::Target) => (
            plain_text(),
            pick(
                "give two files of as many lines, as train.ja,train.en",
                "train.ja,train.en のように、行数の等しい 2 つのファイルを指定してください",
            ),
        ),
        (_, Role::Label) => {
            (columns, pick("name one with --label NAME or number", "--label 列名（または番号）で指定してください"))
        }
        (_, Role::Text | Role::Beside) => {
            (columns, pick("name one with --text NAME or number", "--text 列名（または番号）で指定してください"))
        }
        (_, Role::Source | Role::Target) => (
            columns,
            pick(
                "name them with --text SOURCE and --label TARGET, or give two files as train.ja,train.en",
                "--text 原文の列 --label 訳文の列 で指定するか、train.ja,train.en のように 2 つのファイルを指定してください",
            ),
        ),
    };
    DataError::NoColumn { path: layout.path.clone(), role, wanted, columns, advice }
}
