//! Findings, one line each: for a table to work through, and for reports.

use super::encoding::EncodingFault;
use super::lengths::LengthFault;
use super::scripts::ScriptFault;
use super::{
    AnnotationCandidate, DoctorInput, DoctorReport, DuplicateGroup, LabelIssue, OddLabel, TestLeak, TextFault,
    TextFaultKind,
};
use crate::data::{Example, Format, OutputFormat, Record, RecordWriter, TableLayout, escape_formula, format_thousands};
use crate::lang::Lang;
use crate::row::{AsRow, Row, RowRef};
use crate::{NgramEffect, Result, sorting};
use serde_json::Value;
use std::collections::BTreeMap;

/// The file that a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingFile {
    /// The labeled file.
    Data,
    /// The test file.
    Test,
    /// The unlabeled texts.
    Unlabeled,
}

/// The kind of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
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

impl FindingKind {
    /// All kinds.
    pub const ALL: [FindingKind; 12] = [
        FindingKind::WrongLabel,
        FindingKind::Conflict,
        FindingKind::OddLabel,
        FindingKind::Leak,
        FindingKind::Duplicate,
        FindingKind::NearDuplicate,
        FindingKind::Empty,
        FindingKind::NoLabel,
        FindingKind::Encoding,
        FindingKind::Script,
        FindingKind::Length,
        FindingKind::LabelNext,
    ];

    /// Returns the name in tables and JSON.
    pub fn key(self) -> &'static str {
        match self {
            FindingKind::WrongLabel => "wrong_label",
            FindingKind::Conflict => "conflict",
            FindingKind::OddLabel => "odd_label",
            FindingKind::Leak => "leak",
            FindingKind::Duplicate => "duplicate",
            FindingKind::NearDuplicate => "near_duplicate",
            FindingKind::Empty => "empty",
            FindingKind::NoLabel => "no_label",
            FindingKind::Encoding => "encoding",
            FindingKind::Script => "script",
            FindingKind::Length => "length",
            FindingKind::LabelNext => "label_next",
        }
    }

    /// Returns the heading in reports.
    pub fn title(self, lang: Lang) -> &'static str {
        let (en, ja) = match self {
            FindingKind::WrongLabel => ("labels that are likely wrong", "誤っている可能性の高いラベル"),
            FindingKind::Conflict => ("equal texts with different labels", "ラベルが食い違う同じテキスト"),
            FindingKind::OddLabel => ("odd labels", "疑わしいラベル名"),
            FindingKind::Leak => ("test texts also in the training file", "学習ファイルにもあるテスト用テキスト"),
            FindingKind::Duplicate => ("duplicate texts", "重複するテキスト"),
            FindingKind::NearDuplicate => ("near-duplicate texts", "よく似たテキスト"),
            FindingKind::Empty => ("rows without a text", "テキストのない行"),
            FindingKind::NoLabel => ("rows without a label", "ラベルのない行"),
            FindingKind::Encoding => ("signs of a wrong encoding", "文字化けの疑い"),
            FindingKind::Script => ("rare scripts", "まれな文字種"),
            FindingKind::Length => ("unusual lengths", "極端な長さ"),
            FindingKind::LabelNext => ("texts to label next", "次にラベルを付けるテキスト"),
        };
        lang.pick(en, ja)
    }
}

/// A line of the findings table.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The file.
    pub file: FindingFile,
    /// The line of the file, or the row in Parquet.
    pub line: u64,
    /// The text.
    pub text: Row,
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
const MAX_NAMED_ROWS: usize = 4;

/// Formats findings.
struct FindingFormatter<'a> {
    input: &'a DoctorInput,
    report: &'a DoctorReport,
    lang: Lang,
}

impl DoctorReport {
    /// Returns all findings in the order of [`FindingKind::ALL`]; `given` is the examined input.
    pub fn findings(&self, given: &DoctorInput, lang: Lang) -> Vec<Finding> {
        let teller = FindingFormatter { input: given, report: self, lang };
        let mut found: Vec<Finding> = self.label_issues.iter().map(|doubt| teller.wrong_label(doubt)).collect();
        found.extend(self.duplicate_groups.iter().flat_map(|group| teller.group(group)));
        found.extend(self.odd_labels.iter().flat_map(|odd| teller.odd_label(odd)));
        found.extend(self.leaks.iter().filter_map(|leak| teller.leak(leak)));
        found.extend(given.incomplete.iter().map(|gap| teller.incomplete_row(gap)));
        found.extend(self.text_faults.iter().map(|fault| teller.text_fault(fault)));
        found.extend(self.candidates.iter().filter_map(|next| teller.candidate(next)));
        // The sort is stable: the order within a kind stays.
        sorting::sort_by_key(&mut found, |finding| finding.kind);
        found
    }
}

impl FindingFormatter<'_> {
    fn example(&self, row: usize) -> &Example {
        &self.input.dataset.examples[row]
    }

    fn row_finding(&self, row: usize, kind: FindingKind) -> Finding {
        self.finding(FindingFile::Data, self.example(row), kind)
    }

    fn finding(&self, part: FindingFile, example: &Example, kind: FindingKind) -> Finding {
        let Example { text, label, line } = example.clone();
        Finding { kind, file: part, line, text, label, suggestion: String::new(), score: None, reason: String::new() }
    }

    fn label_name(&self, label: u32) -> &str {
        &self.report.labels[label as usize]
    }

    fn join(&self, parts: &[String]) -> String {
        parts.join(self.lang.pick(", ", "、"))
    }

    /// Returns `line 3`, or `row 3` for formats without lines.
    fn line_name(&self, line: u64) -> String {
        let layout = &self.input.dataset.layout;
        let is_row = matches!(layout.format, Format::Parquet | Format::Excel | Format::Json);
        let word = if is_row { "row" } else { "line" };
        match self.lang {
            Lang::En => format!("{word} {line}"),
            Lang::Ja => format!("{line} 行目"),
        }
    }

    /// Lists the first few rows with their labels.
    fn row_list(&self, rows: &[usize]) -> String {
        let named = rows.iter().take(MAX_NAMED_ROWS).map(|&row| {
            let example = self.example(row);
            let (line, label) = (self.line_name(example.line), self.lang.quoted(&example.label));
            match self.lang {
                Lang::En => format!("{line} {label}"),
                Lang::Ja => format!("{line}{label}"),
            }
        });
        let mut named: Vec<String> = named.collect();
        if let Some(more) = rows.len().checked_sub(MAX_NAMED_ROWS).filter(|&more| more > 0) {
            named.push(match self.lang {
                Lang::En => format!("{more} more"),
                Lang::Ja => format!("ほか {more} 行"),
            });
        }
        self.join(&named)
    }

    fn wrong_label(&self, doubt: &LabelIssue) -> Finding {
        let [label, likely] = [doubt.label, doubt.likely].map(|label| self.lang.quoted(self.label_name(label)));
        let [own, other] = [doubt.given_probability, doubt.probability].map(|p| format!("{:.1} %", 100.0 * p));
        let mut reasons = vec![match self.lang {
            Lang::En => format!("models of the other rows: {likely} {other}, {label} {own}"),
            Lang::Ja => format!("ほかの行で学習したモデルの確率は{likely}が {other}、{label}が {own}"),
        }];
        if !doubt.ngrams.is_empty() {
            let name = |ngram: &NgramEffect| self.lang.quoted(&ngram.ngram);
            let names = self.join(&doubt.ngrams.iter().map(name).collect::<Vec<_>>());
            reasons.push(match self.lang {
                Lang::En => format!("evidence for {likely}: {names}"),
                Lang::Ja => format!("{likely}を示すのは{names}"),
            });
        }
        if !doubt.contradicted_by.is_empty() {
            let rows = self.row_list(&doubt.contradicted_by);
            reasons.push(match self.lang {
                Lang::En => format!("nearly the same text: {rows}"),
                Lang::Ja => format!("ほぼ同じテキスト: {rows}"),
            });
        }
        Finding {
            suggestion: self.label_name(doubt.likely).to_owned(),
            score: Some(doubt.probability - doubt.given_probability),
            reason: reasons.join(self.lang.pick("; ", "。")),
            ..self.row_finding(doubt.row, FindingKind::WrongLabel)
        }
    }

    /// Reports every row of a group with conflicting labels; otherwise all rows except the first.
    fn group(&self, group: &DuplicateGroup) -> Vec<Finding> {
        let same = match (group.is_exact, self.lang) {
            (true, Lang::En) => "the same text",
            (false, Lang::En) => "nearly the same text",
            (true, Lang::Ja) => "同じテキスト",
            (false, Lang::Ja) => "ほぼ同じテキスト",
        };
        if group.has_conflict {
            let majority = self.majority_label(group);
            let of_row = |&row: &usize| {
                let others: Vec<usize> = group.rows.iter().copied().filter(|&other| other != row).collect();
                let reason = format!("{same}: {}", self.row_list(&others));
                let found = self.row_finding(row, FindingKind::Conflict);
                let other = majority.filter(|&label| label != self.report.row_labels[row]);
                let suggestion = other.map_or_else(String::new, |label| self.label_name(label).to_owned());
                Finding { suggestion, score: Some(group.similarity), reason, ..found }
            };
            return group.rows.iter().map(of_row).collect();
        }
        let kind = if group.is_exact { FindingKind::Duplicate } else { FindingKind::NearDuplicate };
        let first = self.line_name(self.example(group.rows[0]).line);
        let reason = match self.lang {
            Lang::En => format!("{same} as {first}"),
            Lang::Ja => format!("{first}と{same}"),
        };
        let remove = self.lang.pick("remove", "削除");
        let of_row = |&row: &usize| {
            let found = self.row_finding(row, kind);
            Finding { suggestion: remove.into(), score: Some(group.similarity), reason: reason.clone(), ..found }
        };
        group.rows[1..].iter().map(of_row).collect()
    }

    /// Returns the most frequent label, if it is unique.
    fn majority_label(&self, group: &DuplicateGroup) -> Option<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        group.rows.iter().for_each(|&row| *counts.entry(self.report.row_labels[row]).or_default() += 1);
        let most = counts.values().copied().max()?;
        let mut with_most = counts.into_iter().filter(|&(_, count)| count == most);
        let (label, _) = with_most.next()?;
        with_most.next().is_none().then_some(label)
    }

    fn odd_label(&self, odd: &OddLabel) -> Vec<Finding> {
        let meant = odd.intended.map(|meant| self.label_name(meant));
        let reason = match (odd.has_one_text, meant, self.lang) {
            (true, None, Lang::En) => "the only text with this label".to_owned(),
            (true, None, Lang::Ja) => "このラベルのテキストはこれだけ".to_owned(),
            (true, Some(meant), Lang::En) => {
                format!("the only text with this label; the name is similar to “{meant}”")
            }
            (true, Some(meant), Lang::Ja) => format!("このラベルのテキストはこれだけ。名前が「{meant}」に近い"),
            (false, meant, Lang::En) => {
                format!("differs from “{}” only in case or white space", meant.unwrap_or_default())
            }
            (false, meant, Lang::Ja) => format!("「{}」との違いは大文字・小文字か空白だけ", meant.unwrap_or_default()),
        };
        let suggestion = meant.unwrap_or_default().to_owned();
        let rows = (0..self.report.row_labels.len()).filter(|&row| self.report.row_labels[row] == odd.label);
        let of_row = |row: usize| {
            let found = self.row_finding(row, FindingKind::OddLabel);
            Finding { suggestion: suggestion.clone(), reason: reason.clone(), ..found }
        };
        rows.map(of_row).collect()
    }

    fn leak(&self, leak: &TestLeak) -> Option<Finding> {
        let row = self.input.test.as_ref()?.rows.get(leak.row)?;
        let of = self.example(leak.train_row);
        let (line, path) = (self.line_name(of.line), self.input.dataset.path.display());
        let label = self.lang.quoted(&of.label);
        let reason = match (leak.is_exact, self.lang) {
            (true, Lang::En) => format!("the same text as {line} of {path}, labeled {label} there"),
            (false, Lang::En) => format!("nearly the same text as {line} of {path}, labeled {label} there"),
            (true, Lang::Ja) => format!("{path} の {line}（ラベル{label}）と同じテキスト"),
            (false, Lang::Ja) => format!("{path} の {line}（ラベル{label}）とほぼ同じテキスト"),
        };
        let suggestion = self.lang.pick("remove from one of the two files", "どちらかのファイルから削除").into();
        Some(Finding {
            suggestion,
            score: Some(leak.similarity),
            reason,
            ..self.finding(FindingFile::Test, row, FindingKind::Leak)
        })
    }

    fn incomplete_row(&self, gap: &Example) -> Finding {
        let kind = if gap.text == "" { FindingKind::Empty } else { FindingKind::NoLabel };
        let (en, ja) = match (kind, gap.label.is_empty()) {
            (FindingKind::NoLabel, _) => ("the row has no label", "ラベルがない"),
            (_, true) => ("the row has neither a text nor a label", "テキストもラベルもない"),
            (_, false) => ("the row has no text", "テキストがない"),
        };
        let suggestion = if kind == FindingKind::Empty { self.lang.pick("remove", "削除") } else { "" };
        let found = self.finding(FindingFile::Data, gap, kind);
        Finding { suggestion: suggestion.into(), reason: self.lang.pick(en, ja).into(), ..found }
    }

    fn text_fault(&self, fault: &TextFault) -> Finding {
        let (kind, reason) = match &fault.kind {
            TextFaultKind::Encoding(broken) => (FindingKind::Encoding, self.describe_encoding(broken)),
            TextFaultKind::Script(oddity) => (FindingKind::Script, self.describe_script(oddity)),
            TextFaultKind::Length(length) => (FindingKind::Length, self.describe_length(*length)),
        };
        let suggestion = match &fault.kind {
            TextFaultKind::Encoding(broken) => repaired_row(broken, self.example(fault.row).text.as_row()),
            _ => String::new(),
        };
        Finding { suggestion, reason, ..self.row_finding(fault.row, kind) }
    }

    fn describe_encoding(&self, broken: &EncodingFault) -> String {
        let found = |found: &str| self.lang.quoted(found);
        match (broken, self.lang) {
            (EncodingFault::ReplacementCharacter, Lang::En) => {
                "U+FFFD replaces characters that could not be decoded".into()
            }
            (EncodingFault::ReplacementCharacter, Lang::Ja) => "読めなかった文字の代わりに U+FFFD がある".into(),
            (EncodingFault::Utf8AsLatin { found, was }, Lang::En) => {
                format!("UTF-8 read as Latin-1: “{found}” was “{was}”")
            }
            (EncodingFault::Utf8AsLatin { found, was }, Lang::Ja) => {
                format!("UTF-8 を Latin-1 として読んだ跡:「{found}」は元は「{was}」")
            }
            (EncodingFault::JapaneseMojibake(text), Lang::En) => {
                format!("Japanese read in a wrong encoding: {}", found(text))
            }
            (EncodingFault::JapaneseMojibake(text), Lang::Ja) => {
                format!("日本語を別の文字コードで読んだ跡: {}", found(text))
            }
            (EncodingFault::Windows1252AsLatin1([c, was]), Lang::En) => {
                format!("Windows-1252 read as Latin-1: U+{:04X} was “{was}”", u32::from(*c))
            }
            (EncodingFault::Windows1252AsLatin1([c, was]), Lang::Ja) => {
                format!("Windows-1252 を Latin-1 として読んだ跡: U+{:04X} は元は「{was}」", u32::from(*c))
            }
            (EncodingFault::HtmlEntity(text), Lang::En) => format!("an HTML entity: {}", found(text)),
            (EncodingFault::HtmlEntity(text), Lang::Ja) => format!("HTML の文字参照: {}", found(text)),
            (EncodingFault::UnicodeEscape(text), Lang::En) => format!("an undecoded escape sequence: {}", found(text)),
            (EncodingFault::UnicodeEscape(text), Lang::Ja) => format!("エスケープが残っている: {}", found(text)),
            (EncodingFault::ControlCharacter(c), Lang::En) => format!("a control character: U+{:04X}", u32::from(*c)),
            (EncodingFault::ControlCharacter(c), Lang::Ja) => format!("制御文字 U+{:04X}", u32::from(*c)),
        }
    }

    fn describe_script(&self, oddity: &ScriptFault) -> String {
        match (oddity, self.lang) {
            (ScriptFault::RareScript { found, usual }, Lang::En) => {
                format!("{} letters; most texts use {}", found.name(self.lang), usual.name(self.lang))
            }
            (ScriptFault::RareScript { found, usual }, Lang::Ja) => {
                format!("{}（大半のテキストは{}）", found.name(self.lang), usual.name(self.lang))
            }
            (ScriptFault::RareMixture([first, second]), Lang::En) => {
                format!("mixes {} and {}, which is rare", first.name(self.lang), second.name(self.lang))
            }
            (ScriptFault::RareMixture([first, second]), Lang::Ja) => {
                format!("{}と{}の混在（まれ）", first.name(self.lang), second.name(self.lang))
            }
            (ScriptFault::Lookalikes(word), Lang::En) => format!("Latin and Cyrillic letters in one word: “{word}”"),
            (ScriptFault::Lookalikes(word), Lang::Ja) => format!("1 語にラテン文字とキリル文字:「{word}」"),
        }
    }

    fn describe_length(&self, length: LengthFault) -> String {
        let [en, ja] = match length {
            LengthFault::NoLetters => return self.lang.pick("no letter and no digit", "文字も数字もない").into(),
            LengthFault::Short(_) => ["very short", "極端に短い"],
            LengthFault::Long(_) => ["very long", "極端に長い"],
        };
        let (LengthFault::Short([count, typical]) | LengthFault::Long([count, typical])) = length else {
            return String::new();
        };
        let [count, typical] = [count, typical].map(format_thousands);
        match self.lang {
            Lang::En => format!("{en}: {count} characters; the median is {typical}"),
            Lang::Ja => format!("{ja}: {count} 文字（中央値は {typical} 文字）"),
        }
    }

    fn candidate(&self, next: &AnnotationCandidate) -> Option<Finding> {
        let row = self.input.unlabeled.as_ref()?.rows.get(next.row)?;
        let (label, p) = (self.lang.quoted(self.label_name(next.class)), format!("{:.1} %", 100.0 * next.probability));
        let reason = match self.lang {
            Lang::En => format!("the most probable label {label} has only {p}"),
            Lang::Ja => format!("最も確率の高いラベル{label}でも {p}"),
        };
        let found = self.finding(FindingFile::Unlabeled, row, FindingKind::LabelNext);
        Some(Finding { suggestion: self.label_name(next.class).into(), score: Some(next.uncertainty), reason, ..found })
    }
}

/// Returns the probable original texts of a row. Empty if the fault cannot be undone.
fn repaired_row(broken: &EncodingFault, row: RowRef<'_>) -> String {
    let texts: Vec<_> = row.texts().map(|text| broken.repair(text).ok_or(text)).collect();
    match texts.iter().any(Result::is_ok) {
        true => texts.iter().map(|text| text.as_deref().unwrap_or_else(|same| *same)).collect::<Vec<_>>().join(" | "),
        false => String::new(),
    }
}

/// Columns of the findings table.
const COLUMNS: [&str; 8] = ["file", "line", "text", "label", "finding", "suggestion", "score", "reason"];

impl DoctorInput {
    /// Returns the path of the file that a finding belongs to.
    fn file_name(&self, part: FindingFile) -> String {
        let path = match part {
            FindingFile::Data => Some(&self.dataset.path),
            FindingFile::Test => self.test.as_ref().map(|test| &test.path),
            FindingFile::Unlabeled => self.unlabeled.as_ref().map(|unlabelled| &unlabelled.path),
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
                escape_formula(&self.file_name(finding.file)),
                finding.line.to_string(),
                escape_formula(&finding.text.as_row().joined().collect::<String>()),
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
