//! What checking found, in words.

use super::check::{Checked, CheckedStep, Verdict, Worst};
use super::example::WorkedExample;
use super::number::Printed;
use super::quantity::{Axis, Quantity};
use crate::data::wording::count;
use crate::view::{clean_text, wrap};
use std::fmt::Write;

impl Checked {
    /// The first claim that is wrong by itself.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&CheckedStep> {
        self.steps.iter().find(|step| step.verdict == Verdict::Wrong)
    }

    /// A report for people, a line or two for each claim, none wider than 80 columns as long as the names are short.
    #[must_use]
    pub fn to_text(&self, file: &str, example: &WorkedExample) -> String {
        let mut out = String::new();
        let title = if example.title.is_empty() { String::new() } else { format!(": {}", clean_text(&example.title)) };
        let _ = writeln!(out, "{file}{title}");
        if !example.source.is_empty() {
            let _ = writeln!(out, "  {}", clean_text(&example.source));
        }
        for step in &self.steps {
            let numbers = count(step.claimed as u64, "number");
            let numbers = if step.wrong > 0 { format!("{} of {numbers}", step.wrong) } else { numbers };
            let words = match step.verdict {
                Verdict::Holds => "holds",
                Verdict::Inherited => "inherited",
                Verdict::Wrong => "wrong here",
            };
            let _ = writeln!(out, "  {:<13} {words:<11} {numbers}", step.name);
            if let Some(worst) = &step.worst {
                for line in wrap(&clean_text(&example.says(&step.name, worst)), 64) {
                    let _ = writeln!(out, "                {line}");
                }
            }
        }
        let holding = self.steps.iter().filter(|step| step.verdict == Verdict::Holds).count();
        let verdict = match self.first_wrong() {
            None => "all hold".into(),
            Some(first) => format!("{holding} of {} hold; it first goes wrong at {}", self.steps.len(), first.name),
        };
        let _ = writeln!(out, "  {}: {verdict}", count(self.steps.len() as u64, "claim"));
        if self.steps.iter().any(|step| step.verdict == Verdict::Inherited) {
            let _ = writeln!(out, "  inherited: it follows from the steps before as claimed, which were wrong");
        }
        out
    }
}

impl WorkedExample {
    /// Where a claim is furthest from the truth, and by what.
    #[must_use]
    pub fn says(&self, name: &str, worst: &Worst) -> String {
        let Worst { index, claimed, truth, from_claims } = worst;
        let digits = |x: f64| like(x, claimed);
        let implied = from_claims.map_or(String::new(), |x| format!(", from the claims before {}", digits(x)));
        let place = if index.is_empty() { String::new() } else { self.place(name, index) + ": " };
        format!("{place}claimed {claimed}, true {}{implied}", digits(*truth))
    }

    /// The place of a number: its row and column, with their words.
    pub(super) fn place(&self, name: &str, index: &[usize]) -> String {
        let (head, [row, column]) = match *index {
            [head, row, column] => (format!("head {}, ", head + 1), [row, column]),
            [row, column] => (String::new(), [row, column]),
            _ => (String::new(), [0, 0]),
        };
        let axes = Quantity::named(name).map_or([Axis::One; 2], Quantity::axes);
        let word = |axis: Axis, i: usize| {
            let keys = if self.key_tokens.is_empty() { &self.tokens } else { &self.key_tokens };
            let words = match axis {
                Axis::Queries => &self.tokens,
                Axis::Keys => keys,
                _ => return String::new(),
            };
            words.get(i).map_or(String::new(), |word| format!(" ({word})"))
        };
        let column = match axes[1] {
            Axis::One => String::new(),
            axis => format!(", column {}{}", column + 1, word(axis, column)),
        };
        format!("{head}row {}{}{column}", row + 1, word(axes[0], row))
    }
}

/// A number with two digits more than a printed one.
pub(super) fn like(x: f64, printed: &str) -> String {
    let unit = Printed::parse(printed).map_or(1e-4, |printed| printed.unit);
    if !x.is_finite() {
        return x.to_string();
    }
    if unit >= 1.0 {
        // A whole number stays one.
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
