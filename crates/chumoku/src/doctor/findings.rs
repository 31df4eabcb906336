//! What was found, a line for each: for a table to work through, and for people.

use super::encoding::Broken;
use super::lengths::Length;
use super::scripts::Oddity;
use super::{Checkup, Doubt, Fault, Given, Group, Leak, Next, OddLabel, TextFault};
use crate::data::{Example, Format, OutputFormat, Record, RecordWriter, TableLayout, escape_formula, format_thousands};
use crate::lang::Lang;
use crate::{NgramEffect, Result, sorting};
use serde_json::Value;
use std::collections::BTreeMap;

/// The file that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The labelled file.
    Data,
    /// The test file.
    Test,
    /// The unlabelled texts.
    Unlabelled,
}

/// What kind of finding it is, in the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A label that is likely wrong.
    WrongLabel,
    /// Equal or nearly equal texts with several labels.
    Conflict,
    /// A label that is nearly another's name, or of one text alone.
    OddLabel,
    /// A text of the test file that is in the training file.
    Leak,
    /// A text that is there before.
    Duplicate,
    /// A text that is nearly there before.
    NearDuplicate,
    /// A row without a text.
    Empty,
    /// A row without a label.
    NoLabel,
    /// Signs of a wrong encoding.
    Encoding,
    /// A script that few texts have.
    Script,
    /// A length far from the rest.
    Length,
    /// An unlabelled text to label next.
    LabelNext,
}

impl Kind {
    /// All of them.
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

    /// Its name in tables and JSON.
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

    /// Its name for people.
    pub fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = match self {
            Kind::WrongLabel => ("labels that are likely wrong", "誤っている可能性の高いラベル"),
            Kind::Conflict => ("the same text with several labels", "ラベルが食い違う同じテキスト"),
            Kind::OddLabel => ("odd labels", "疑わしいラベル名"),
            Kind::Leak => ("test texts that are in the training file", "学習ファイルにもあるテスト用テキスト"),
            Kind::Duplicate => ("texts that are there before", "重複するテキスト"),
            Kind::NearDuplicate => ("texts that are nearly there before", "よく似たテキスト"),
            Kind::Empty => ("rows without a text", "テキストのない行"),
            Kind::NoLabel => ("rows without a label", "ラベルのない行"),
            Kind::Encoding => ("signs of a wrong encoding", "文字化けの疑い"),
            Kind::Script => ("scripts that few texts have", "まれな文字種"),
            Kind::Length => ("lengths far from the rest", "極端な長さ"),
            Kind::LabelNext => ("texts to label next", "次にラベルを付けるテキスト"),
        };
        lang.pick(en, ja)
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The file.
    pub part: Part,
    /// The line of the file, or its row in Parquet.
    pub line: u64,
    /// The text.
    pub text: String,
    /// Its label; empty if there is none.
    pub label: String,
    /// A label, the text as it probably was, or what to do; empty where only a person can tell.
    pub suggestion: String,
    /// Of labels how much more probable the likely one is; of texts their similarity; of texts to label next how unsure the
    /// models are.
    pub score: Option<f32>,
    /// Why.
    pub reason: String,
}

/// Other rows that a reason names.
const NAMED_ROWS: usize = 4;

/// What findings are told with.
struct Teller<'a> {
    given: &'a Given,
    checkup: &'a Checkup,
    lang: Lang,
}

impl Checkup {
    /// Everything that was found, in the order of [`Kind::ALL`]; `given` is what was examined.
    pub fn findings(&self, given: &Given, lang: Lang) -> Vec<Finding> {
        let teller = Teller { given, checkup: self, lang };
        let mut found: Vec<Finding> = self.doubts.iter().map(|doubt| teller.doubt(doubt)).collect();
        found.extend(self.groups.iter().flat_map(|group| teller.group(group)));
        found.extend(self.odd_labels.iter().flat_map(|odd| teller.odd_label(odd)));
        found.extend(self.leaks.iter().filter_map(|leak| teller.leak(leak)));
        found.extend(given.gaps.iter().map(|gap| teller.gap(gap)));
        found.extend(self.faults.iter().map(|fault| teller.fault(fault)));
        found.extend(self.next.iter().filter_map(|next| teller.next(next)));
        // Within a kind the order stays.
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

    /// `line 3`, or `row 3` of a file that has no lines.
    fn line(&self, line: u64) -> String {
        let layout = &self.given.dataset.layout;
        let is_row = matches!(layout.format, Format::Parquet | Format::Excel | Format::Json);
        let word = if is_row { "row" } else { "line" };
        match self.lang {
            Lang::En => format!("{word} {line}"),
            Lang::Ja => format!("{line} 行目"),
        }
    }

    /// Rows with their labels, a few of them.
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
            Lang::En => format!("the other rows give {likely} {other}, {label} {own}"),
            Lang::Ja => format!("ほかの行から見た確率は{likely}が {other}、{label}が {own}"),
        }];
        if !doubt.ngrams.is_empty() {
            let name = |ngram: &NgramEffect| self.lang.quoted(&ngram.ngram);
            let names = self.joined(&doubt.ngrams.iter().map(name).collect::<Vec<_>>());
            reasons.push(match self.lang {
                Lang::En => format!("what speaks for {likely}: {names}"),
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

    /// Of several labels each row, of one label all but the first.
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

    /// The label of most rows, if no other has as many.
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
            (true, Some(meant), Lang::En) => format!("the only text with this label; the name is nearly \"{meant}\""),
            (true, Some(meant), Lang::Ja) => format!("このラベルのテキストはこれだけ。名前が「{meant}」に近い"),
            (false, meant, Lang::En) => {
                format!("differs from \"{}\" in case or white space only", meant.unwrap_or_default())
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
            (true, Lang::En) => format!("the same text as {line} of {path}, labelled {label} there"),
            (false, Lang::En) => format!("nearly the same text as {line} of {path}, labelled {label} there"),
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
            (Broken::Replaced, Lang::En) => "U+FFFD stands for what could not be read".into(),
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
            (Broken::Entity(text), Lang::En) => format!("an entity of HTML: {}", found(text)),
            (Broken::Entity(text), Lang::Ja) => format!("HTML の文字参照: {}", found(text)),
            (Broken::Escape(text), Lang::En) => format!("an escape that was not undone: {}", found(text)),
            (Broken::Escape(text), Lang::Ja) => format!("エスケープが残っている: {}", found(text)),
            (Broken::Control(c), Lang::En) => format!("a control character: U+{:04X}", u32::from(*c)),
            (Broken::Control(c), Lang::Ja) => format!("制御文字 U+{:04X}", u32::from(*c)),
        }
    }

    fn oddity(&self, oddity: &Oddity) -> String {
        match (oddity, self.lang) {
            (Oddity::Script { found, usual }, Lang::En) => {
                format!("{} letters, where most texts have {}", found.name(self.lang), usual.name(self.lang))
            }
            (Oddity::Script { found, usual }, Lang::Ja) => {
                format!("{}（大半のテキストは{}）", found.name(self.lang), usual.name(self.lang))
            }
            (Oddity::Mixed([first, second]), Lang::En) => {
                format!("mixes {} and {}, as few texts do", first.name(self.lang), second.name(self.lang))
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
            Lang::En => format!("{en}: {count} characters, where half the texts have up to {typical}"),
            Lang::Ja => format!("{ja}: {count} 文字（半数は {typical} 文字以下）"),
        }
    }

    fn next(&self, next: &Next) -> Option<Finding> {
        let row = self.given.unlabelled.as_ref()?.rows.get(next.row)?;
        let (label, p) = (self.lang.quoted(self.label(next.class)), format!("{:.1} %", 100.0 * next.probability));
        let reason = match self.lang {
            Lang::En => format!("the likeliest label {label} has {p} only"),
            Lang::Ja => format!("最も確率の高いラベル{label}でも {p}"),
        };
        let found = self.of(Part::Unlabelled, row, Kind::LabelNext);
        Some(Finding { suggestion: self.label(next.class).into(), score: Some(next.uncertainty), reason, ..found })
    }
}

/// The columns of the table.
const COLUMNS: [&str; 8] = ["file", "line", "text", "label", "finding", "suggestion", "score", "reason"];

impl Given {
    /// The name of the file that a finding is about.
    fn name_of(&self, part: Part) -> String {
        let path = match part {
            Part::Data => Some(&self.dataset.path),
            Part::Test => self.test.as_ref().map(|test| &test.path),
            Part::Unlabelled => self.unlabelled.as_ref().map(|unlabelled| &unlabelled.path),
        };
        path.map_or_else(String::new, |path| path.display().to_string())
    }

    /// Findings as CSV with a header; `bom`: with a byte order mark, by which Excel sees that it is UTF-8.
    ///
    /// A field that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`, a tab or a carriage return)
    /// gets an apostrophe before it, which spreadsheets do not show.
    ///
    /// # Errors
    /// None on memory.
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
