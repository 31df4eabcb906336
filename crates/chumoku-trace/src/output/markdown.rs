//! Traces as Markdown, with formulas in the syntax of GitHub and most other viewers.

use crate::output::grid::NumberGrid;
use crate::output::text::{TraceDetail, TraceOptions};
use crate::output::words;
use crate::traces::trace_steps::Trace;
use chumoku::lang::show_controls_in_text;
use chumoku_view::escape_char;
use std::fmt::Write;

/// Escapes the special characters of Markdown, including those of tables.
fn escape_markdown(text: &str) -> String {
    let mut out = String::new();
    for c in show_controls_in_text(text).chars() {
        if let Some(escaped) = escape_char(c) {
            out.push_str(escaped);
            continue;
        }
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Maximum number of displayed terms of a sum.
const MAX_TERMS: usize = 12;

impl Trace {
    /// Returns the trace as Markdown.
    #[must_use]
    pub fn to_markdown(&self, options: &TraceOptions) -> String {
        let TraceOptions { depth, lang, digits, size, .. } = *options;
        let mut out = format!("# {}\n\n", escape_markdown(&self.heading(lang)));
        if !self.source.is_empty() {
            let _ = writeln!(out, "{}\n", escape_markdown(self.source.in_lang(lang)));
        }
        if let Some(cut) = self.truncation {
            let _ = writeln!(out, "{}\n", cut.describe(lang));
        }
        if let Some(loss) = &self.loss {
            let _ = writeln!(out, "{}\n", escape_markdown(&loss.to_text(lang)));
        }
        if depth != TraceDetail::All {
            let [step, formula, shape] = match lang {
                crate::Lang::En => ["step", "formula", "shape"],
                crate::Lang::Ja => ["ステップ", "式", "形状"],
            };
            let _ = writeln!(out, "| | {step} | {formula} | {shape} |\n|---|---|---|---|");
        }
        for (i, step) in self.steps.iter().enumerate() {
            let formula = match &step.formula {
                Some(formula) => format!("${}$", formula.latex),
                None => format!("${}$ {}", crate::formulas::formula::latex_symbol(&step.symbol), step.given_text(lang)),
            };
            if depth != TraceDetail::All {
                let _ = writeln!(out, "| {} | {} | {formula} | {} |", i + 1, step.title(lang), step.shape());
                continue;
            }
            let _ = writeln!(out, "## {}. {}\n\n{formula}, {}\n", i + 1, step.title(lang), step.shape());
            let grid = NumberGrid::new(self, step, [size, size], digits);
            let more = if grid.is_truncated[1] { " … |" } else { "" };
            let header: String = grid.columns.iter().map(|name| format!(" {} |", escape_markdown(name))).collect();
            let rule = "---:|".repeat(grid.columns.len()) + if grid.is_truncated[1] { "---|" } else { "" };
            let _ = writeln!(out, "| |{header}{more}\n|---|{rule}");
            for (label, row) in grid.rows.iter().zip(&grid.cells) {
                let cells: String = row.iter().map(|cell| format!(" {cell} |")).collect();
                let _ = writeln!(out, "| {} |{cells}{more}", escape_markdown(label));
            }
            if grid.is_truncated[0] {
                let _ = writeln!(out, "| … |{}{more}", " … |".repeat(grid.columns.len()));
            }
            if grid.is_truncated != [false; 2] {
                let _ = writeln!(
                    out,
                    "\n{}",
                    words::truncation_note(lang, [grid.rows.len(), grid.columns.len()], grid.size)
                );
            }
            if let Some(expanded) = step.expanded([digits, MAX_TERMS], true, lang) {
                let _ = writeln!(out, "\n${expanded}$");
            }
            out.push('\n');
            for check in &step.checks {
                let mark = if check.holds { "✓" } else { "**!**" };
                let _ = writeln!(out, "- {mark} {}", check.to_text(lang));
            }
            for sentence in words::reading_sentences(lang, self, step) {
                let _ = writeln!(out, "- {}", escape_markdown(&sentence));
            }
            if !out.ends_with("\n\n") {
                out.push('\n');
            }
        }
        if depth == TraceDetail::All {
            let _ = writeln!(out, "{}", words::rounding_note(lang, digits));
        }
        if depth != TraceDetail::Steps {
            let _ = writeln!(out, "\n{}", words::batch_note(lang));
        }
        for agreement in &self.agreements {
            let _ = writeln!(out, "\n{}", agreement.to_text(lang));
        }
        out
    }
}
