//! Traces as LaTeX documents.

use crate::formulas::formula::{latex_number, latex_symbol};
use crate::output::grid::NumberGrid;
use crate::output::text::{TraceDetail, TraceOptions};
use crate::output::words;
use crate::traces::trace_steps::Trace;
use chumoku::lang::show_controls_in_text;
use std::fmt::Write;

/// Escapes the special characters of LaTeX.
fn escape_latex(text: &str) -> String {
    let mut out = String::new();
    for c in show_controls_in_text(text).chars() {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            // LuaTeX uses this character for unreadable input.
            '\u{fffd}' => out.push('?'),
            '✓' => out.push_str("$\\checkmark$"),
            'γ' => out.push_str("$\\gamma$"),
            'β' => out.push_str("$\\beta$"),
            'ε' => out.push_str("$\\varepsilon$"),
            '−' => out.push_str("$-$"),
            '×' => out.push_str("$\\times$"),
            '√' => out.push_str("$\\surd$"),
            '…' => out.push_str("\\dots{}"),
            // Few fonts have these characters.
            '₀'..='₉' => out.push_str(&format!("$_{}$", u32::from(c) - u32::from('₀'))),
            c => out.push(c),
        }
    }
    out
}

/// Formulas wider than the page are scaled down.
const FIT_TO_PAGE: &str = "\\usepackage{graphicx}\n\\newsavebox{\\whole}\n\\newcommand{\\fitted}[1]{\\sbox{\\whole}{$\\displaystyle #1$}%\n\
                      \\ifdim\\wd\\whole>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox{\\whole}}\\else\\usebox{\\whole}\\fi}\n";

/// Maximum number of displayed terms of a sum.
const MAX_TERMS: usize = 6;

impl Trace {
    /// Returns the trace as a LaTeX document.
    ///
    /// A document with Japanese text needs LuaLaTeX; otherwise any LaTeX will do.
    #[must_use]
    pub fn to_latex(&self, options: &TraceOptions) -> String {
        let TraceOptions { depth, lang, digits, size, .. } = *options;
        let mut body = format!("\\section*{{{}}}\n", escape_latex(&self.heading(lang)));
        if !self.source.is_empty() {
            let _ = writeln!(body, "{}\n", escape_latex(self.source.in_lang(lang)));
        }
        if let Some(cut) = self.truncation {
            let _ = writeln!(body, "{}\n", escape_latex(&cut.describe(lang)));
        }
        if let Some(loss) = &self.loss {
            let _ = writeln!(body, "{}\n", escape_latex(&loss.to_text(lang)));
        }
        for (i, step) in self.steps.iter().enumerate() {
            let formula = match &step.formula {
                Some(formula) => formula.latex.clone(),
                None => latex_symbol(&step.symbol),
            };
            let given = if step.formula.is_none() {
                format!(" ({})", escape_latex(step.given_text(lang)))
            } else {
                String::new()
            };
            let letters = step.shape_letters.clone().map(|letter| match letter.split_once("d_") {
                Some((before, index)) => {
                    format!("{}d_{{\\mathrm{{{index}}}}}", before.replace('·', "\\cdot "))
                }
                None => letter.replace('·', "\\cdot "),
            });
            let [rows, columns] = [step.value.nrows(), step.value.ncols()];
            let shape = format!("${} \\times {} = {rows} \\times {columns}$", letters[0], letters[1]);
            let title = escape_latex(&step.title(lang));
            let _ = writeln!(body, "\\subsection*{{{}. {title}}}\n${formula}${given}, {shape}", i + 1);
            if depth != TraceDetail::All {
                continue;
            }
            let grid = NumberGrid::new(self, step, [size, size], digits);
            let more = if grid.is_truncated[1] { " & \\cdots" } else { "" };
            let spec = format!("r|{}", "r".repeat(grid.columns.len() + usize::from(grid.is_truncated[1])));
            let _ = writeln!(body, "\\[\\fitted{{\\begin{{array}}{{{spec}}}");
            let names: String =
                grid.columns.iter().map(|name| format!(" & \\text{{{}}}", escape_latex(name))).collect();
            let _ = writeln!(body, "{names}{more} \\\\ \\hline");
            for (label, row) in grid.rows.iter().zip(&grid.cells) {
                let cells: String = row.iter().map(|cell| format!(" & {}", latex_number(cell))).collect();
                let _ = writeln!(body, "\\text{{{}}}{cells}{more} \\\\", escape_latex(label));
            }
            if grid.is_truncated[0] {
                let _ = writeln!(body, "\\vdots{} \\\\", " & \\vdots".repeat(grid.columns.len()));
            }
            body.push_str("\\end{array}}\\]\n");
            if grid.is_truncated != [false; 2] {
                let _ = writeln!(
                    body,
                    "{}\n",
                    escape_latex(&words::truncation_note(lang, [grid.rows.len(), grid.columns.len()], grid.size))
                );
            }
            if let Some(expanded) = step.expanded([digits, MAX_TERMS], true, lang) {
                let _ = writeln!(body, "\\begin{{flushleft}}\\small$\\displaystyle {expanded}$\\end{{flushleft}}");
            }
            for check in &step.checks {
                let _ = writeln!(body, "{}\\par", escape_latex(&check.to_text(lang)));
            }
            for sentence in words::reading_sentences(lang, self, step) {
                let _ = writeln!(body, "{}\\par", escape_latex(&sentence));
            }
        }
        if depth == TraceDetail::All {
            let _ = writeln!(body, "\n{}\\par", escape_latex(&words::rounding_note(lang, digits)));
        }
        for agreement in &self.agreements {
            let _ = writeln!(body, "{}\\par", escape_latex(&agreement.to_text(lang)));
        }
        let is_plain = body.is_ascii();
        let fonts = match is_plain {
            true => "\\usepackage[T1]{fontenc}\n".to_owned(),
            false => {
                let note = lang.pick(
                    "This document holds letters beyond ASCII: compile it with lualatex.",
                    "この文書には ASCII でない文字があります。lualatex で処理してください。",
                );
                format!("% {note}\n\\usepackage{{luatexja}}\n")
            }
        };
        format!(
            "\\documentclass{{article}}\n\\usepackage{{amsmath,amssymb}}\n\\usepackage[a4paper,landscape,margin=15mm]\
             {{geometry}}\n{fonts}{FIT_TO_PAGE}\\pagestyle{{empty}}\n\\begin{{document}}\n{body}\\end{{document}}\n"
        )
    }
}
