//! Findings, one line each: for a table to work through, and for reports.

use super::encoding::Broken;
use super::lengths::Length;
use super::scripts::Oddity;
use super::{Checkup, Doubt, Fault, Given, Group, Leak, Next, OddLabel, TextFault};
use crate::data::{Example, Format, OutputFormat, Record, RecordWriter, TableLayout, escape_formula, format_thousands};
use crate::lang::Lang;
use crate::{NgramEffect, Result, sorting};
use serde_json::Value;
use std::collections::BTreeMap;

/// The file that a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The labeled file.
    Data,
    /// The test file.
    Test,
    /// The unlabeled texts.
    Unlabelled,
}

/// The kind of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A label that is likely wrong.
    WrongLabel,
    /// Equal or nearly equal texts with different labels.
    Conflict,
    /// A label with a single text, or one that nearly matches another label.
    OddLabel,
    /// A text of the test file that is in the training file.
    Leak,
    /// A repeated text.
    Duplicate,
    /// A text similar to an earlier one.
    NearDuplicate,
    /// A row without a text.
    Empty,
    /// A row without a label.
    NoLabel,
    /// An encoding fault.
    Encoding,
    /// A rare script.
    Script,
    /// An unusual length.
    Length,
    /// An unlabeled text to label next.
    LabelNext,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 12] = [
        Kind::WrongLabel,
        Kind::Conflict,
        Kind::OddLabel,
        Kind::Leak,
        Kind::Duplicate,
        Kind::NearDuplicate,
        Kind::Empty,
        Kind::NoLabel,
        Kind::Encoding,
        Kind::Script,
        Kind::Length,
        Kind::LabelNext,
    ];

    /// Returns the name in tables and JSON.
    pub fn key(self) -> &'static str {
        match self {
            Kind::WrongLabel => "wrong_label",
            Kind::Conflict => "conflict",
            Kind::OddLabel => "odd_label",
            Kind::Leak => "leak",
            Kind::Duplicate => "duplicate",
            Kind::NearDuplicate => "near_duplicate",
            Kind::Empty => "empty",
            Kind::NoLabel => "no_label",
            Kind::Encoding => "encoding",
            Kind::Script => "script",
            Kind::Length => "length",
            Kind::LabelNext => "label_next",
        }
    }

    /// Returns the heading in reports.
    pub fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = match self {
            Kind::WrongLabel => ("labels that are likely wrong", "誤っている可能性の高いラベル"),
            Kind::Conflict => ("equal texts with different labels", "ラベルが食い違う同じテキスト"),
            Kind::OddLabel => ("odd labels", "疑わしいラベル名"),
            Kind::Leak => ("test texts also in the training file", "学習ファイルにもあるテスト用テキスト"),
            Kind::Duplicate => ("duplicate texts", "重複するテキスト"),
            Kind::NearDuplicate => ("near-duplicate texts", "よく似たテキスト"),
            Kind::Empty => ("rows without a text", "テキストのない行"),
            Kind::NoLabel => ("rows without a label", "ラベルのない行"),
            Kind::Encoding => ("signs of a wrong encoding", "文字化けの疑い"),
            Kind::Script => ("rare scripts", "まれな文字種"),
            Kind::Length => ("unusual lengths", "極端な長さ"),
            Kind::LabelNext => ("texts to label next", "次にラベルを付けるテキスト"),
        };
        lang.pick(en, ja)
    }
}

/// A line of the findings table.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: Kind,
    /// The file.
    pub part: Part,
    /// The line of the file, or the row in Parquet.
    pub line: u64,
    /// The text.
    pub text: String,
    /// The label; empty if there is none.
    pub label: String,
    /// The suggested label, the probable original text, or an action. Empty if only a person can decide.
    pub suggestion: String,
    /// For labels, how much more probable the likely one is. For duplicates, their similarity. For texts to label next,
    /// the models' uncertainty.
    pub score: Option<f32>,
    /// The reason for the finding.
    pub reason: String,
}

/// Most rows that a reason lists.
const NAMED_ROWS: usize = 4;

/// Formats findings.
struct Teller<'a> {
    given: &'a Given,
    checkup: &'a Checkup,
    lang: Lang,
}

impl Checkup {
    /// Returns all findings in the order of [`FindingKind::ALL`]; `given` is the examined input.
    pub fn findings(&self, given: &Given, lang: Lang) -> Vec<Finding> {
        let teller = Teller { given, checkup: self, lang };
        let mut found: Vec<Finding> = self.doubts.iter().map(|doubt| teller.doubt(doubt)).collect();
        found.extend(self.groups.iter().flat_map(|group| teller.group(group)));
        found.extend(self.odd_labels.iter().flat_map(|odd| teller.odd_label(odd)));
        found.extend(self.leaks.iter().filter_map(|leak| teller.leak(leak)));
        found.extend(given.gaps.iter().map(|gap| teller.gap(gap)));
        found.extend(self.faults.iter().map(|fault| teller.fault(fault)));
        found.extend(self.next.iter().filter_map(|next| teller.next(next)));
        // The sort is stable: the order within a kind stays.
        sorting::sort_by_key(&mut found, |finding| finding.kind);
        found
    }
}

impl Teller<'_> {
    fn row(&self, row: usize) -> &Example {
        &self.given.dataset.examples[row]
    }

    fn of_row(&self, row: usize, kind: Kind) -> Finding {
        self.of(Part::Data, self.row(row), kind)
    }

    fn of(&self, part: Part, example: &Example, kind: Kind) -> Finding {
        let Example { text, label, line } = example.clone();
        Finding { kind, part, line, text, label, suggestion: String::new(), score: None, reason: String::new() }
    }

    fn label(&self, label: u32) -> &str {
        &self.checkup.labels[label as usize]
    }

    fn joined(&self, parts: &[String]) -> String {
        parts.join(self.lang.pick(", ", "、"))
    }

    /// Returns `line 3`, or `row 3` for formats without lines.
    fn line(&self, line: u64) -> String {
        let layout = &self.given.dataset.layout;
        let is_row = matches!(layout.format, Format::Parquet | Format::Excel | Format::Json);
        let word = if is_row { "row" } else { "line" };
        match self.lang {
            Lang::En => format!("{word} {line}"),
            Lang::Ja => format!("{line} 行目"),
        }
    }

    /// Lists the first few rows with their labels.
    fn rows(&self, rows: &[usize]) -> String {
        let named = rows.iter().take(NAMED_ROWS).map(|&row| {
            let example = self.row(row);
            let (line, label) = (self.line(example.line), self.lang.quoted(&example.label));
            match self.lang {
                Lang::En => format!("{line} {label}"),
                Lang::Ja => format!("{line}{label}"),
            }
        });
        let mut named: Vec<String> = named.collect();
        if let Some(more) = rows.len().checked_sub(NAMED_ROWS).filter(|&more| more > 0) {
            named.push(match self.lang {
                Lang::En => format!("{more} more"),
                Lang::Ja => format!("ほか {more} 行"),
            });
        }
        self.joined(&named)
    }

    fn doubt(&self, doubt: &Doubt) -> Finding {
        let [label, likely] = [doubt.label, doubt.likely].map(|label| self.lang.quoted(self.label(label)));
        let [own, other] = [doubt.given_probability, doubt.probability].map(|p| format!("{:.1} %", 100.0 * p));
        let mut reasons = vec![match self.lang {
            Lang::En => format!("models of the other rows: {likely} {other}, {label} {own}"),
            Lang::Ja => format!("ほかの行で学習したモデルの確率は{likely}が {other}、{label}が {own}"),
        }];
        if !doubt.ngrams.is_empty() {
            let name = |ngram: &NgramEffect| self.lang.quoted(&ngram.ngram);
            let names = self.joined(&doubt.ngrams.iter().map(name).collect::<Vec<_>>());
            reasons.push(match self.lang {
                Lang::En => format!("evidence for {likely}: {names}"),
                Lang::Ja => format!("{likely}を示すのは{names}"),
            });
        }
        if !doubt.contradicted_by.is_empty() {
            let rows = self.rows(&doubt.contradicted_by);
            reasons.push(match self.lang {
                Lang::En => format!("nearly the same text: {rows}"),
                Lang::Ja => format!("ほぼ同じテキスト: {rows}"),
            });
        }
        Finding {
            suggestion: self.label(doubt.likely).to_owned(),
            score: Some(doubt.probability - doubt.given_probability),
            reason: reasons.join(self.lang.pick("; ", "。")),
            ..self.of_row(doubt.row, Kind::WrongLabel)
        }
    }

    /// Reports every row of a group with conflicting labels; otherwise all rows except the first.
    fn group(&self, group: &Group) -> Vec<Finding> {
        let same = match (group.exact, self.lang) {
            (true, Lang::En) => "the same text",
            (false, Lang::En) => "nearly the same text",
            (true, Lang::Ja) => "同じテキスト",
            (false, Lang::Ja) => "ほぼ同じテキスト",
        };
        if group.conflict {
            let majority = self.majority(group);
            let of_row = |&row: &usize| {
                let others: Vec<usize> = group.rows.iter().copied().filter(|&other| other != row).collect();
                let reason = format!("{same}: {}", self.rows(&others));
                let found = self.of_row(row, Kind::Conflict);
                let other = majority.filter(|&label| label != self.checkup.given[row]);
                let suggestion = other.map_or_else(String::new, |label| self.label(label).to_owned());
                Finding { suggestion, score: Some(group.similarity), reason, ..found }
            };
            return group.rows.iter().map(of_row).collect();
        }
        let kind = if group.exact { Kind::Duplicate } else { Kind::NearDuplicate };
        let first = self.line(self.row(group.rows[0]).line);
        let reason = match self.lang {
            Lang::En => format!("{same} as {first}"),
            Lang::Ja => format!("{first}と{same}"),
        };
        let remove = self.lang.pick("remove", "削除");
        let of_row = |&row: &usize| {
            let found = self.of_row(row, kind);
            Finding { suggestion: remove.into(), score: Some(group.similarity), reason: reason.clone(), ..found }
        };
        group.rows[1..].iter().map(of_row).collect()
    }

    /// Returns the most frequent label, if it is unique.
    fn majority(&self, group: &Group) -> Option<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        group.rows.iter().for_each(|&row| *counts.entry(self.checkup.given[row]).or_default() += 1);
        let most = counts.values().copied().max()?;
        let mut with_most = counts.into_iter().filter(|&(_, count)| count == most);
        let (label, _) = with_most.next()?;
        with_most.next().is_none().then_some(label)
    }

    fn odd_label(&self, odd: &OddLabel) -> Vec<Finding> {
        let meant = odd.meant.map(|meant| self.label(meant));
        let reason = match (odd.single, meant, self.lang) {
            (true, None, Lang::En) => "the only text with this label".to_owned(),
            (true, None, Lang::Ja) => "このラベルのテキストはこれだけ".to_owned(),
            (true, Some(meant), Lang::En) => {
                format!("the only text with this label; the name is similar to \"{meant}\"")
            }
            (true, Some(meant), Lang::Ja) => format!("このラベルのテキストはこれだけ。名前が「{meant}」に近い"),
            (false, meant, Lang::En) => {
                format!("differs from \"{}\" only in case or white space", meant.unwrap_or_default())
            }
            (false, meant, Lang::Ja) => format!("「{}」との違いは大文字・小文字か空白だけ", meant.unwrap_or_default()),
        };
        let suggestion = meant.unwrap_or_default().to_owned();
        let rows = (0..self.checkup.given.len()).filter(|&row| self.checkup.given[row] == odd.label);
        let of_row = |row: usize| {
            let found = self.of_row(row, Kind::OddLabel);
            Finding { suggestion: suggestion.clone(), reason: reason.clone(), ..found }
        };
        rows.map(of_row).collect()
    }

    fn leak(&self, leak: &Leak) -> Option<Finding> {
        let row = self.given.test.as_ref()?.rows.get(leak.row)?;
        let of = self.row(leak.of);
        let (line, path) = (self.line(of.line), self.given.dataset.path.display());
        let label = self.lang.quoted(&of.label);
        let reason = match (leak.exact, self.lang) {
            (true, Lang::En) => format!("the same text as {line} of {path}, labeled {label} there"),
            (false, Lang::En) => format!("nearly the same text as {line} of {path}, labeled {label} there"),
            (true, Lang::Ja) => format!("{path} の {line}（ラベル{label}）と同じテキスト"),
            (false, Lang::Ja) => format!("{path} の {line}（ラベル{label}）とほぼ同じテキスト"),
        };
        let suggestion = self.lang.pick("remove from one of the two files", "どちらかのファイルから削除").into();
        Some(Finding { suggestion, score: Some(leak.similarity), reason, ..self.of(Part::Test, row, Kind::Leak) })
    }

    fn gap(&self, gap: &Example) -> Finding {
        let kind = if gap.text.is_empty() { Kind::Empty } else { Kind::NoLabel };
        let (en, ja) = match (kind, gap.label.is_empty()) {
            (Kind::NoLabel, _) => ("the row has no label", "ラベルがない"),
            (_, true) => ("the row has neither a text nor a label", "テキストもラベルもない"),
            (_, false) => ("the row has no text", "テキストがない"),
        };
        let suggestion = if kind == Kind::Empty { self.lang.pick("remove", "削除") } else { "" };
        let found = self.of(Part::Data, gap, kind);
        Finding { suggestion: suggestion.into(), reason: self.lang.pick(en, ja).into(), ..found }
    }

    fn fault(&self, fault: &TextFault) -> Finding {
        let (kind, reason) = match &fault.what {
            Fault::Encoding(broken) => (Kind::Encoding, self.broken(broken)),
            Fault::Script(oddity) => (Kind::Script, self.oddity(oddity)),
            Fault::Length(length) => (Kind::Length, self.length(*length)),
        };
        let suggestion = match &fault.what {
            Fault::Encoding(broken) => broken.repaired(&self.row(fault.row).text).unwrap_or_default(),
            _ => String::new(),
        };
        Finding { suggestion, reason, ..self.of_row(fault.row, kind) }
    }

    fn broken(&self, broken: &Broken) -> String {
        let found = |found: &str| self.lang.quoted(found);
        match (broken, self.lang) {
            (Broken::Replaced, Lang::En) => "U+FFFD replaces characters that could not be decoded".into(),
            (Broken::Replaced, Lang::Ja) => "読めなかった文字の代わりに U+FFFD がある".into(),
            (Broken::Latin { found, was }, Lang::En) => format!("UTF-8 read as Latin-1: \"{found}\" was \"{was}\""),
            (Broken::Latin { found, was }, Lang::Ja) => {
                format!("UTF-8 を Latin-1 として読んだ跡:「{found}」は元は「{was}」")
            }
            (Broken::Japanese(text), Lang::En) => format!("Japanese read in a wrong encoding: {}", found(text)),
            (Broken::Japanese(text), Lang::Ja) => format!("日本語を別の文字コードで読んだ跡: {}", found(text)),
            (Broken::Windows([c, was]), Lang::En) => {
                format!("Windows-1252 read as Latin-1: U+{:04X} was \"{was}\"", u32::from(*c))
            }
            (Broken::Windows([c, was]), Lang::Ja) => {
                format!("Windows-1252 を Latin-1 として読んだ跡: U+{:04X} は元は「{was}」", u32::from(*c))
            }
            (Broken::Entity(text), Lang::En) => format!("an HTML entity: {}", found(text)),
            (Broken::Entity(text), Lang::Ja) => format!("HTML の文字参照: {}", found(text)),
            (Broken::Escape(text), Lang::En) => format!("an undecoded escape sequence: {}", found(text)),
            (Broken::Escape(text), Lang::Ja) => format!("エスケープが残っている: {}", found(text)),
            (Broken::Control(c), Lang::En) => format!("a control character: U+{:04X}", u32::from(*c)),
            (Broken::Control(c), Lang::Ja) => format!("制御文字 U+{:04X}", u32::from(*c)),
        }
    }

    fn oddity(&self, oddity: &Oddity) -> String {
        match (oddity, self.lang) {
            (Oddity::Script { found, usual }, Lang::En) => {
                format!("{} letters; most texts use {}", found.name(self.lang), usual.name(self.lang))
            }
            (Oddity::Script { found, usual }, Lang::Ja) => {
                format!("{}（大半のテキストは{}）", found.name(self.lang), usual.name(self.lang))
            }
            (Oddity::Mixed([first, second]), Lang::En) => {
                format!("mixes {} and {}, which is rare", first.name(self.lang), second.name(self.lang))
            }
            (Oddity::Mixed([first, second]), Lang::Ja) => {
                format!("{}と{}の混在（まれ）", first.name(self.lang), second.name(self.lang))
            }
            (Oddity::Disguised(word), Lang::En) => format!("Latin and Cyrillic letters in one word: \"{word}\""),
            (Oddity::Disguised(word), Lang::Ja) => format!("1 語にラテン文字とキリル文字:「{word}」"),
        }
    }

    fn length(&self, length: Length) -> String {
        let [en, ja] = match length {
            Length::Wordless => return self.lang.pick("no letter and no digit", "文字も数字もない").into(),
            Length::Short(_) => ["very short", "極端に短い"],
            Length::Long(_) => ["very long", "極端に長い"],
        };
        let (Length::Short([count, typical]) | Length::Long([count, typical])) = length else { return String::new() };
        let [count, typical] = [count, typical].map(format_thousands);
        match self.lang {
            Lang::En => format!("{en}: {count} characters; the median is {typical}"),
            Lang::Ja => format!("{ja}: {count} 文字（中央値は {typical} 文字）"),
        }
    }

    fn next(&self, next: &Next) -> Option<Finding> {
        let row = self.given.unlabelled.as_ref()?.rows.get(next.row)?;
        let (label, p) = (self.lang.quoted(self.label(next.class)), format!("{:.1} %", 100.0 * next.probability));
        let reason = match self.lang {
            Lang::En => format!("the most probable label {label} has only {p}"),
            Lang::Ja => format!("最も確率の高いラベル{label}でも {p}"),
        };
        let found = self.of(Part::Unlabelled, row, Kind::LabelNext);
        Some(Finding { suggestion: self.label(next.class).into(), score: Some(next.uncertainty), reason, ..found })
    }
}

/// Columns of the findings table.
const COLUMNS: [&str; 8] = ["file", "line", "text", "label", "finding", "suggestion", "score", "reason"];

impl Given {
    /// Returns the path of the file that a finding belongs to.
    fn name_of(&self, part: Part) -> String {
        let path = match part {
            Part::Data => Some(&self.dataset.path),
            Part::Test => self.test.as_ref().map(|test| &test.path),
            Part::Unlabelled => self.unlabelled.as_ref().map(|unlabelled| &unlabelled.path),
        };
        path.map_or_else(String::new, |path| path.display().to_string())
    }

    /// Writes findings as CSV with a header. `bom` adds a byte order mark, by which Excel recognizes UTF-8.
    ///
    /// A field that a spreadsheet would take for a formula gets a leading apostrophe, which spreadsheets hide. Such
    /// fields begin with `=`, `+`, `-`, `@`, a tab or a carriage return.
    ///
    /// # Errors
    /// None: writing to memory cannot fail.
    pub fn to_csv(&self, findings: &[Finding], bom: bool) -> Result<Vec<u8>> {
        let layout = TableLayout {
            path: "doctor.csv".into(),
            format: Format::Csv { delimiter: ',' },
            header: true,
            columns: COLUMNS.map(String::from).to_vec(),
        };
        let form = if bom { OutputFormat::LikeInputWithBom } else { OutputFormat::LikeInput };
        let mut writer = RecordWriter::new(Vec::new(), &layout, &[], form)?;
        for finding in findings {
            let score = finding.score.map_or_else(String::new, |score| format!("{score:.4}"));
            let fields = vec![
                escape_formula(&self.name_of(finding.part)),
                finding.line.to_string(),
                escape_formula(&finding.text),
                escape_formula(&finding.label),
                finding.kind.key().to_owned(),
                escape_formula(&finding.suggestion),
                score,
                escape_formula(&finding.reason),
            ];
            writer.write(&Record { line: finding.line, fields, object: None }, &[] as &[Value])?;
        }
        Ok(writer.finish()?)
    }
}
