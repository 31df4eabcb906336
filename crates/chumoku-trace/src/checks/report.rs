//! Reports of checked claims, in words.

use crate::checks::check::{CheckReport, ClaimResult, RowSum, WorstNumber};
use crate::checks::implications::ClaimVerdict;
use crate::examples::example::WorkedExample;
use crate::program::printed_number::PrintedNumber;
use crate::program::quantity::{MatrixAxis, Quantity};
use crate::program::step_kind::StepKind;
use chumoku::lang::{Lang, lang, show_controls_in_text};
use chumoku::tr;
use chumoku_view::{align_left, wrap};
use std::fmt::Write;

/// Width of a report in columns.
const WIDTH: usize = 80;

impl CheckReport {
    /// Returns the first claim that is wrong by itself.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&ClaimResult> {
        self.steps.iter().find(|step| step.verdict == ClaimVerdict::Wrong)
    }

    /// Returns a report in the language of the process: one or two lines for each claim, at most 80 columns wide.
    #[must_use]
    pub fn to_text(&self, file: &str, example: &WorkedExample) -> String {
        let lang = lang();
        let mut out = String::new();
        // Lines below a heading are indented, so that the heading of the next file stands out.
        let heading =
            if example.title.is_empty() { file.to_owned() } else { format!("{file}: {}", example.title.in_lang(lang)) };
        for (i, line) in wrap(&show_controls_in_text(&heading), WIDTH - 2).iter().enumerate() {
            let _ = writeln!(out, "{}{line}", if i == 0 { "" } else { "  " });
        }
        wrap_lines(&mut out, 2, example.source.in_lang(lang));
        for step in &self.steps {
            let all = step.claimed;
            let odd = [step.wrong, step.inherited, step.rounded].into_iter().find(|count| *count > 0).unwrap_or(0);
            let mut numbers = match (odd, all) {
                (0, 1) => tr!("1 number", "数値 1 個"),
                (0, _) => tr!("{all} numbers", "数値 {all} 個"),
                (_, 1) => tr!("1 of 1 number", "数値 1 個のうち 1 個"),
                _ => tr!("{odd} of {all} numbers", "数値 {all} 個のうち {odd} 個"),
            };
            if step.wrong > 0 && step.inherited > 0 {
                let more = step.inherited;
                numbers += &tr!(", {more} more inherited", "（ほかに引き継ぎ {more} 個）");
            }
            let verdict = align_left(step.verdict.word(lang), 11);
            let _ = writeln!(out, "  {:<13} {verdict} {numbers}", step.name);
            if let Some(worst) = &step.worst {
                wrap_lines(&mut out, 16, &example.describe_worst(&step.name, worst));
            }
            if let Some(mistake) = &step.mistake {
                wrap_lines(&mut out, 16, &mistake.text());
            }
            for row in &step.row_sums {
                wrap_lines(&mut out, 16, &example.describe_row_sum(&step.name, row));
            }
        }
        for line in self.summary() {
            wrap_lines(&mut out, 2, &line);
        }
        out
    }

    /// Returns the number of claims by verdict, and the meanings of the verdicts.
    fn summary(&self) -> Vec<String> {
        let count = |verdict| self.steps.iter().filter(|step| step.verdict == verdict).count();
        let (all, holding, rounded) = (self.steps.len(), count(ClaimVerdict::Holds), count(ClaimVerdict::Rounded));
        let claims = if all == 1 { tr!("1 claim", "記載 1 件") } else { tr!("{all} claims", "記載 {all} 件") };
        let mut summary = match (holding == all, rounded) {
            (true, _) => tr!("{claims}: all hold", "{claims}: すべて正しい"),
            (_, 0) => tr!("{claims}: {holding} of {all} hold", "{claims}: {all} 件のうち {holding} 件が正しい"),
            (_, 1) => tr!(
                "{claims}: {holding} of {all} hold, 1 follows from rounded ones",
                "{claims}: {all} 件のうち {holding} 件が正しい、1 件は丸めによる"
            ),
            _ => tr!(
                "{claims}: {holding} of {all} hold, {rounded} follow from rounded ones",
                "{claims}: {all} 件のうち {holding} 件が正しい、{rounded} 件は丸めによる"
            ),
        };
        if let Some(first) = self.first_wrong() {
            let name = &first.name;
            summary += &tr!("; it first goes wrong at {name}", "。最初の誤りは {name}");
        }
        let mut lines = vec![summary];
        if !self.constants.is_empty() {
            let constants = self.constants.join(lang().pick(", ", "、"));
            lines.push(tr!("calculated with {constants}", "{constants} として計算されている"));
        }
        if rounded > 0 {
            lines.push(tr!(
                "rounded: follows from earlier steps as printed (rounded); not an error",
                "丸め: 前の段の丸められた値からは正しく計算されている（誤りではない）"
            ));
        }
        if count(ClaimVerdict::Inherited) > 0 {
            lines.push(tr!(
                "inherited: follows from earlier steps as claimed, which were wrong",
                "引き継ぎ: 前の段の誤った値からは正しく計算されている"
            ));
        }
        lines
    }
}

/// Appends wrapped and indented lines.
fn wrap_lines(out: &mut String, indent: usize, text: &str) {
    for line in wrap(&show_controls_in_text(text), WIDTH - indent) {
        let _ = writeln!(out, "{}{line}", " ".repeat(indent));
    }
}

impl ClaimVerdict {
    /// Returns the verdict in a word or two.
    fn word(self, lang: Lang) -> &'static str {
        match self {
            ClaimVerdict::Holds => lang.pick("holds", "正しい"),
            ClaimVerdict::Rounded => lang.pick("rounded", "丸め"),
            ClaimVerdict::Inherited => lang.pick("inherited", "引き継ぎ"),
            ClaimVerdict::Wrong => lang.pick("wrong here", "ここで誤り"),
        }
    }
}

impl WorkedExample {
    /// Describes the claimed number that is furthest from the truth, in the language of the process.
    #[must_use]
    pub fn describe_worst(&self, name: &str, worst: &WorstNumber) -> String {
        let WorstNumber { index, claimed, truth, from_claims } = worst;
        let digits = |x: f64| format_like(x, claimed);
        let implied = from_claims.map_or(String::new(), |x| {
            let x = digits(x);
            tr!(", from the earlier claims {x}", "、前の記載からは {x}")
        });
        let place = if index.is_empty() { String::new() } else { self.element_position(name, index) + ": " };
        let truth = digits(*truth);
        tr!("{place}claimed {claimed}, true {truth}{implied}", "{place}記載 {claimed}、正しくは {truth}{implied}")
    }

    /// States the sum of a row of weights, in the language of the process.
    fn describe_row_sum(&self, name: &str, RowSum { index, sum }: &RowSum) -> String {
        let (head, row) = match index[..] {
            [head, row] => (tr!("head {}, ", "ヘッド {}、", head + 1), row),
            _ => (String::new(), index.first().copied().unwrap_or(0)),
        };
        let (row, sum) = (self.element_position(name, &[row]), format_like(*sum, "0.00"));
        tr!("{head}{row} sums to {sum}, not to 1", "{head}{row}の和は {sum}（1 ではない）")
    }

    /// Names the place of a number: its row and column, with their words. Three indices start with the head; a single
    /// index is a row.
    pub(crate) fn element_position(&self, name: &str, index: &[usize]) -> String {
        let claimed = StepKind::all().find_map(|kind| Quantity::from_name(name.strip_prefix(kind.claim_prefix()?)?));
        let axes = claimed.map_or([MatrixAxis::One; 2], Quantity::axes);
        let word = |axis: MatrixAxis, i: usize| {
            let keys = if self.key_tokens.is_empty() { &self.tokens } else { &self.key_tokens };
            let words = match axis {
                MatrixAxis::Queries => &self.tokens,
                MatrixAxis::Keys => keys,
                MatrixAxis::Classes => &self.classes,
                _ => return String::new(),
            };
            words.get(i).map_or(String::new(), |word| tr!(" ({word})", "（{word}）"))
        };
        let of_head = |head: usize| tr!("head {}, ", "ヘッド {}、", head + 1);
        let of_row = |row: usize| tr!("row {}{}", "{} 行目{}", row + 1, word(axes[0], row));
        let of_column = |column: usize| match axes[1] {
            MatrixAxis::One => String::new(),
            axis => tr!(", column {}{}", "、{} 列目{}", column + 1, word(axis, column)),
        };
        match *index {
            [head, row, column] => of_head(head) + &of_row(row) + &of_column(column),
            [row, column] => of_row(row) + &of_column(column),
            [row] => of_row(row),
            _ => of_row(0) + &of_column(0),
        }
    }
}

/// Formats a number with two digits more than a printed one.
pub(crate) fn format_like(x: f64, printed: &str) -> String {
    let unit = PrintedNumber::parse(printed).map_or(1e-4, |printed| printed.unit);
    if !x.is_finite() {
        return x.to_string();
    }
    if unit >= 1.0 {
        // A whole number stays whole.
        let short = format!("{x:.4}");
        return short.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if unit == 0.0 {
        return format!("{x}");
    }
    if unit < 1e-12 {
        return format!("{x:e}");
    }
    format!("{x:.*}", (-unit.log10()).round() as usize + 2)
}
