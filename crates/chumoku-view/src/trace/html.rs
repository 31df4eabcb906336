//! The page of a trace, which opens from disk and sends no request. It switches between English and Japanese, and the
//! reader can change the given numbers.

use super::caption::Caption;
use super::grid::NumberGrid;
use super::step_kind::StepKind;
use super::text::{TraceDetail, TraceOptions};
use super::trace_steps::{Trace, TraceStep};
use super::words;
use crate::{Lang, escape_markup, hash};
use chumoku::lang::show_controls_in_text;
use std::fmt::Write;

const STYLE: &str = include_str!("trace.css");
/// Recomputes the steps when a number changes.
const SCRIPT: [&str; 2] = [include_str!("operations.js"), include_str!("trace.js")];

/// Maximum number of displayed terms of a sum.
const MAX_TERMS: usize = 64;
/// Matrices with more columns are printed smaller.
const MAX_NORMAL_COLUMNS: usize = 14;

/// Escapes a text on one line.
fn escape_line(text: &str) -> String {
    escape_markup(&show_controls_in_text(text))
}

/// Formats a formula as markup: text after `_` and the number of a head in brackets become subscripts.
fn with_subscripts(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['_', '[']) {
        let (before, after) = rest.split_at(at);
        out.push_str(&escape_markup(before));
        // The transposition sign is not part of the subscript.
        let is_index = |c: char| c.is_alphanumeric() && c != 'ᵀ';
        let index = |text: &str| text.len() - text.trim_start_matches(is_index).len();
        let (mut parts, mut left) = (Vec::new(), after);
        if let Some(name) = left.strip_prefix('_').filter(|name| index(name) > 0) {
            let (name, more) = name.split_at(index(name));
            parts.push(name);
            left = more;
        }
        let head = left.strip_prefix('[').and_then(|inside| inside.split_once(']'));
        if let Some((head, more)) = head.filter(|(head, _)| head.parse::<usize>().is_ok()) {
            parts.push(head);
            left = more;
        }
        if parts.is_empty() {
            let (sign, more) = after.split_at(1);
            out.push_str(sign);
            left = more;
        } else {
            out.push_str(&format!("<sub>{}</sub>", escape_markup(&parts.join(","))));
        }
        rest = left;
    }
    out + &escape_markup(rest)
}

/// Returns a sentence in both languages; the page shows one.
fn bilingual_html(say: impl Fn(Lang) -> String) -> String {
    [Lang::En, Lang::Ja].map(|lang| in_language(lang, &escape_line(&say(lang)))).concat()
}

/// Returns a caption in each of its languages.
fn caption_html(caption: &Caption) -> String {
    match caption.japanese {
        Some(_) => bilingual_html(|lang| caption.in_lang(lang).to_owned()),
        None => escape_line(&caption.text),
    }
}

/// Returns markup that is shown in one language only.
fn in_language(lang: Lang, markup: &str) -> String {
    format!("<span class=\"t\" lang=\"{}\">{markup}</span>", lang.code())
}

impl Trace {
    /// Returns the trace as an HTML page.
    ///
    /// Its content security policy allows only its own style sheet and its own script, which recomputes all steps when
    /// the reader changes a given number. A page with very many numbers has no script.
    #[must_use]
    pub fn to_html(&self, options: &TraceOptions) -> String {
        // Browsers turn CR LF into LF before they compute the hash, and a checkout may use CR LF.
        let style = STYLE.replace("\r\n", "\n");
        let program = self.program_json(options.digits, MAX_TERMS);
        let script = format!("(() => {{\n{}}})();\n", SCRIPT.concat()).replace("\r\n", "\n");
        let allowed = program.as_ref().map_or(String::new(), |_| format!("script-src '{}'; ", hash(&script)));
        let mut out = String::new();
        let checked = |lang: Lang| if lang == options.lang { " checked" } else { "" };
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
             http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {allowed}style-src '{}'; base-uri 'none'; \
             form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
             name=\"referrer\" content=\"no-referrer\">\n<title>{} – Chumoku</title>\n<style>{style}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#steps\">{}</a>\n<header><div><h1><bdi>{}</bdi></h1><p class=\"source\">\
             <bdi>{}</bdi></p></div>\n<fieldset class=\"langs\"><legend class=\"unseen\">Language / 言語</legend><input type=\"radio\" name=\"lang\" id=\"en\"{}><label for=\"en\" lang=\"en\">English</label>\
             <input type=\"radio\" name=\"lang\" id=\"ja\"{}><label for=\"ja\" lang=\"ja\">日本語</label></fieldset></header>\n",
            options.lang.code(),
            hash(&style),
            escape_line(&self.heading(options.lang)),
            bilingual_html(|lang| lang.pick("Skip to the steps", "計算の手順へ").into()),
            match self.place {
                Some(_) => bilingual_html(|lang| self.heading(lang)),
                None => caption_html(&self.title),
            },
            caption_html(&self.source),
            checked(Lang::En),
            checked(Lang::Ja),
        );
        if let Some(cut) = self.truncation {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", bilingual_html(|lang| cut.describe(lang)));
        }
        if let Some(loss) = &self.loss {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", bilingual_html(|lang| loss.to_text(lang)));
        }
        for agreement in &self.agreements {
            let _ = writeln!(out, "<p class=\"note stale\">{}</p>", bilingual_html(|lang| agreement.to_text(lang)));
        }
        if program.is_some() {
            let _ = writeln!(
                out,
                "<div class=\"live\" id=\"live\" hidden><p class=\"note\">{}</p> <button type=\"button\" id=\"undo\" \
                 disabled>{}</button> <span id=\"bad\" role=\"status\" hidden>{}</span></div>",
                bilingual_html(|lang| words::editing_note(lang).into()),
                bilingual_html(|lang| lang.pick("Reset", "元に戻す").into()),
                bilingual_html(|lang| words::invalid_entry_note(lang).into()),
            );
        }
        let names = self.steps.iter().enumerate();
        let links: String = names
            .map(|(i, step)| {
                format!("<li><a href=\"#{}\">{}. {}</a></li>", step.anchor(), i + 1, with_subscripts(&step.symbol))
            })
            .collect();
        let _ = writeln!(
            out,
            "<nav aria-labelledby=\"contents\"><span id=\"contents\">{}</span><ol>{links}</ol></nav>\n<main id=\"steps\" \
             tabindex=\"-1\">",
            bilingual_html(|lang| lang.pick("Steps", "計算の手順").into())
        );
        for (i, step) in self.steps.iter().enumerate() {
            self.step_to_html(i, step, options, &mut out);
        }
        out.push_str("</main>\n");
        let _ = writeln!(
            out,
            "<p class=\"note\">{}</p>",
            bilingual_html(|lang| words::rounding_note(lang, options.digits))
        );
        if let Some(program) = program {
            let program = crate::html::escape_script_json(&program.to_string());
            let _ = writeln!(
                out,
                "<script type=\"application/json\" id=\"program\">{program}</script>\n<script>{script}</script>"
            );
        }
        out.push_str("</body>\n</html>\n");
        out
    }

    fn step_to_html(&self, index: usize, step: &TraceStep, options: &TraceOptions, out: &mut String) {
        let open = if options.depth == TraceDetail::All { " open" } else { "" };
        let _ = write!(
            out,
            "<details{open} id=\"{}\"><summary><span class=\"shape\">{}</span><h2 id=\"{}-title\">{}. {}</h2></summary>\n<p \
             class=\"formula\">{}</p>\n",
            step.anchor(),
            with_subscripts(&format!("{}: {}", step.symbol, step.shape())),
            step.anchor(),
            index + 1,
            bilingual_html(|lang| step.title(lang)),
            step.formula.as_ref().map_or_else(
                || bilingual_html(|lang| step.given_text(lang).into()),
                |formula| with_subscripts(&formula.text)
            )
        );
        let grid = NumberGrid::new(self, step, [options.size; 2], options.digits);
        let largest = step.value.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
        let more = if grid.is_truncated[1] { "<td class=\"more\">…</td>" } else { "" };
        // Wide tables can be scrolled with the keyboard; they are labeled by the title of their step.
        let _ = writeln!(
            out,
            "<div class=\"scroll{}\" tabindex=\"0\" role=\"group\" aria-labelledby=\"{}-title\"><table>",
            if grid.columns.len() > MAX_NORMAL_COLUMNS { " wide" } else { "" },
            step.anchor()
        );
        let names: String = grid
            .columns
            .iter()
            .map(|name| format!("<th scope=\"col\"><bdi>{}</bdi></th>", escape_line(name)))
            .collect();
        let _ = writeln!(out, "<thead><tr><td></td>{names}{more}</tr></thead>\n<tbody>");
        let marked = step.expansion.as_ref().map(|expansion| expansion.index);
        for (i, (label, row)) in grid.rows.iter().zip(&grid.cells).enumerate() {
            let _ = write!(out, "<tr><th scope=\"row\"><bdi>{}</bdi></th>", escape_line(label));
            for (j, cell) in row.iter().enumerate() {
                let x = step.value[[i, j]];
                let level = ((x.abs() / largest) * 8.0).round();
                let mut classes = match (x.is_finite(), level >= 1.0) {
                    (false, _) => "none".to_owned(),
                    (true, true) => format!("{}{level}", if x > 0.0 { 'p' } else { 'm' }),
                    (true, false) => String::new(),
                };
                if marked == Some([i, j]) {
                    classes = format!("{classes} at").trim_start().to_owned();
                }
                let class = if classes.is_empty() { String::new() } else { format!(" class=\"{classes}\"") };
                let _ = write!(out, "<td{class}>{}</td>", escape_line(cell));
            }
            let _ = writeln!(out, "{more}</tr>");
        }
        if grid.is_truncated[0] {
            let dots = "<td class=\"more\">⋮</td>".repeat(grid.columns.len());
            let _ = writeln!(out, "<tr><th>⋮</th>{dots}</tr>");
        }
        out.push_str("</tbody></table></div>\n");
        if grid.is_truncated != [false; 2] {
            let shown = [grid.rows.len(), grid.columns.len()];
            let _ = writeln!(
                out,
                "<p class=\"note\">{}</p>",
                bilingual_html(|lang| words::truncation_note(lang, shown, grid.size))
            );
        }
        // The script writes everything but the symbol.
        let expanded = |lang: Lang| {
            let text = step.expanded([options.digits, MAX_TERMS], false, lang)?;
            let rest = text.strip_prefix(&step.symbol).unwrap_or(&text);
            Some(format!("{}<span class=\"x\">{}</span>", with_subscripts(&step.symbol), escape_line(rest)))
        };
        if let [Some(english), Some(japanese)] = [Lang::En, Lang::Ja].map(expanded) {
            let text = match english == japanese {
                true => english,
                false => {
                    [(Lang::En, english), (Lang::Ja, japanese)].map(|(lang, text)| in_language(lang, &text)).concat()
                }
            };
            let _ = writeln!(out, "<p class=\"expanded\">{text}</p>");
        }
        let checks = step.checks.iter().map(|check| {
            let class = if check.holds { "" } else { " class=\"bad\"" };
            format!("<li{class}>{}</li>", bilingual_html(|lang| check.to_text(lang)))
        });
        let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| words::top_attention_sentences(lang, self, step));
        let says = english.iter().zip(&japanese).map(|(english, japanese)| {
            format!("<li class=\"says\">{}</li>", bilingual_html(|lang| lang.pick(english, japanese).into()))
        });
        let items: String = checks.chain(says).collect();
        if !items.is_empty() {
            let _ = writeln!(out, "<ul class=\"stale\">{items}</ul>");
        }
        out.push_str("</details>\n");
    }
}

impl TraceStep {
    /// Returns the step's ID on the page, with the head and the kind, because steps of all heads and kinds share names.
    pub(super) fn anchor(&self) -> String {
        let own = match self.head {
            Some(head) => format!("{}-{}", self.name(), head + 1),
            None => self.name().to_owned(),
        };
        match self.kind {
            StepKind::Value => own,
            StepKind::Gradient => format!("d-{own}"),
            // There may be several of these.
            StepKind::GradientPart => format!("part-{}", self.id),
            kind => format!("{}-{own}", kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_subscripts;

    #[test]
    fn indices_become_subscripts() {
        let cases = [
            ("S_scaled[1] = S[1] / √2", "S<sub>scaled,1</sub> = S<sub>1</sub> / √2"),
            ("[H[1] … H[8]]", "[H<sub>1</sub> … H<sub>8</sub>]"),
            ("A: n × h·d_k = 3 × 4", "A: n × h·d<sub>k</sub> = 3 × 4"),
            ("S_biased + (0 | −∞) < a_", "S<sub>biased</sub> + (0 | −∞) &lt; a_"),
        ];
        for (text, expected) in cases {
            assert_eq!(with_subscripts(text), expected);
        }
    }
}
