//! The page of a trace, which opens from disk and sends no request. It switches between English and Japanese. The reader
//! can change the given numbers and the options of attention, and ask every number where it comes from.

use crate::examples::caption::Caption;
use crate::formulas::equation::EquationPart;
use crate::output::grid::NumberGrid;
use crate::output::page_layout::{PageLayout, PageStep};
use crate::output::step_groups::StepGroup;
use crate::output::text::{TraceDetail, TraceOptions};
use crate::output::words;
use crate::program::operation::StepId;
use crate::program::quantity::MatrixAxis;
use crate::program::step_kind::StepKind;
use crate::traces::trace_steps::{Trace, TraceStep};
use chumoku::lang::show_controls_in_text;
use chumoku::tr_in;
use chumoku_view::{Lang, escape_markup, escape_script_json, hash, join_ordinals, with_subscripts};
use std::collections::HashSet;
use std::fmt::Write;

const STYLE: &str = include_str!("page/trace.css");
/// Theme and language of the page.
const APPEARANCE: &str = include_str!("page/appearance.js");
const ELEMENTS: &str = include_str!("page/elements.js");
/// Follows a token.
const TOKEN_PATH: &str = include_str!("page/token_path.js");
/// Evaluates the steps, spells out their numbers, and answers the reader.
const SCRIPT: [&str; 8] = [
    include_str!("page/operations.js"),
    include_str!("page/expansions.js"),
    ELEMENTS,
    include_str!("page/views.js"),
    include_str!("page/answers.js"),
    TOKEN_PATH,
    include_str!("page/path_steps.js"),
    include_str!("page/trace.js"),
];

/// Colors the numbers of a page with too many of them to recompute. A class for each number would double its size.
const CELL_COLORS: &str = include_str!("page/cell_colors.js");

/// Only follows a token, on a page with too many numbers to recompute.
const FIXED_SCRIPT: [&str; 3] = [ELEMENTS, TOKEN_PATH, include_str!("page/fixed_path_steps.js")];

/// Maximum number of displayed terms of a sum.
const MAX_TERMS: usize = 64;
/// Matrices with more columns are printed smaller.
const MAX_NORMAL_COLUMNS: usize = 14;
/// Numbered rows or columns have labels if there are more.
const MAX_UNNUMBERED: usize = 12;
/// A page with more steps starts with the groups after the forward pass closed, and its outline too.
const MAX_OPEN_STEPS: usize = 60;

/// Escapes a text on one line.
fn escape_line(text: &str) -> String {
    escape_markup(&show_controls_in_text(text))
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
    format!("<span class=\"t\" lang=\"{}\">{}</span>", lang.code(), join_ordinals(markup))
}

impl Trace {
    /// Returns the trace as an HTML page.
    ///
    /// Its content security policy allows only its own style sheet and its own script. The script recomputes all steps
    /// when the reader changes a given number or an option of attention, and spells out every number. A page with very
    /// many numbers recomputes nothing, but follows a token.
    ///
    /// A link may end in `#theme=dark&lang=ja&token=2&why=weights,2,1`: the theme, the language, the token that the page
    /// follows, and the number that it explains, by its step, row and column.
    #[must_use]
    pub fn to_html(&self, options: &TraceOptions) -> String {
        // Browsers turn CR LF into LF before they compute the hash, and a checkout may use CR LF.
        let style = STYLE.replace("\r\n", "\n");
        let program = self.program_json([options.digits, MAX_TERMS, options.size]);
        let chooser = self.token_chooser_html();
        let parts = match (&program, chooser.is_empty()) {
            (Some(_), _) => SCRIPT.concat(),
            (None, false) => CELL_COLORS.to_owned() + &FIXED_SCRIPT.concat(),
            (None, true) => CELL_COLORS.to_owned(),
        };
        let parts = APPEARANCE.to_owned() + &parts;
        let script = format!("(() => {{\n'use strict';\n{parts}}})();\n").replace("\r\n", "\n");
        let mut out = String::new();
        let checked = |lang: Lang| if lang == options.lang { " checked" } else { "" };
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
             http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; \
             form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
             name=\"referrer\" content=\"no-referrer\">\n<title>{} – Chumoku</title>\n<style>{style}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#steps\">{}</a>\n<header class=\"top\"><p class=\"brand\"><span class=\"seal\" lang=\"ja\" \
             aria-hidden=\"true\">注</span>Chumoku</p><div class=\"tools\"><fieldset class=\"langs\"><legend class=\"unseen\">Language / \
             言語</legend><input type=\"radio\" name=\"lang\" id=\"en\"{}><label for=\"en\" lang=\"en\">English</label>\
             <input type=\"radio\" name=\"lang\" id=\"ja\"{}><label for=\"ja\" lang=\"ja\">日本語</label></fieldset><button \
             type=\"button\" id=\"theme\" hidden></button></div></header>\n<div class=\"title\"><h1><bdi>{}</bdi></h1>\
             <p class=\"source\"><bdi>{}</bdi></p></div>\n",
            options.lang.code(),
            hash(&script),
            hash(&style),
            escape_line(&self.heading(options.lang)),
            bilingual_html(|lang| lang.pick("Skip to the steps", "計算のステップへ").into()),
            checked(Lang::En),
            checked(Lang::Ja),
            match self.place {
                Some(_) => bilingual_html(|lang| self.heading(lang)),
                None => caption_html(&self.title),
            },
            caption_html(&self.source),
        );
        if let Some(cut) = self.truncation {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", bilingual_html(|lang| cut.describe(lang)));
        }
        if let Some(loss) = &self.loss {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", bilingual_html(|lang| loss.to_text(lang)));
        }
        if let Some(head) = self.hidden_heads() {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", bilingual_html(|lang| words::heads_note(lang, head)));
        }
        for agreement in &self.agreements {
            let _ = writeln!(out, "<p class=\"note stale\">{}</p>", bilingual_html(|lang| agreement.to_text(lang)));
        }
        match &program {
            Some(_) => self.controls_to_html(&chooser, &mut out),
            None if chooser.is_empty() => {}
            None => {
                let _ = writeln!(out, "<div class=\"live\" id=\"live\" hidden>{chooser}</div>");
            }
        }
        let layout = PageLayout::new(self, program.is_some());
        let sections = layout.sections();
        let is_long = self.steps.len() > MAX_OPEN_STEPS;
        outline_to_html(&sections, is_long, &mut out);
        out.push_str("<main id=\"steps\" tabindex=\"-1\">\n");
        for (i, (group, steps)) in sections.iter().enumerate() {
            let open = if is_long && group.is_after_forward() { "" } else { " open" };
            let _ = writeln!(
                out,
                "<details{open} class=\"group\" id=\"group-{}\"><summary><h2>{}</h2> <span class=\"count\">{}</span></summary>\n<div class=\"cards\">",
                i + 1,
                group_title(*group),
                bilingual_html(|lang| words::step_count(lang, steps.iter().filter(|of| of.number.is_some()).count())),
            );
            for of in steps {
                if !(of.is_given() && layout.readers.contains_key(&of.step.id)) {
                    self.step_to_html(&layout, of, options, &mut out);
                }
            }
            out.push_str("</div></details>\n");
        }
        out.push_str("</main>\n");
        let _ = writeln!(
            out,
            "<p class=\"note\">{}</p>",
            bilingual_html(|lang| format!(
                "{} {}",
                words::rounding_note(lang, options.digits),
                words::batch_note(lang)
            ))
        );
        if program.is_some() {
            let _ = writeln!(
                out,
                "<aside id=\"why\" hidden aria-live=\"polite\" aria-labelledby=\"why-title\"><div class=\"head\"><h2 id=\"why-title\"></h2> <button \
                 type=\"button\" id=\"down\">{}</button> <button type=\"button\" id=\"close\">{}</button></div><ol id=\"chain\"></ol></aside>",
                bilingual_html(|lang| lang.pick("Down to the inputs", "入力までたどる").into()),
                bilingual_html(|lang| lang.pick("Close", "閉じる").into()),
            );
        }
        let fixed = || (!chooser.is_empty()).then(|| self.fixed_path_json(options.digits));
        if let Some(data) = program.or_else(fixed) {
            let data = escape_script_json(&data.to_string());
            let _ = writeln!(out, "<script type=\"application/json\" id=\"program\">{data}</script>");
        }
        let _ = writeln!(out, "<script>{script}</script>\n</body>\n</html>");
        out
    }

    /// Returns the shown head, from 1, if others are hidden.
    fn hidden_heads(&self) -> Option<usize> {
        let is_any = self.hidden_steps.iter().any(|step| step.head.is_some());
        self.steps.iter().find_map(|step| step.head).filter(|_| is_any).map(|head| head + 1)
    }

    /// Writes the controls, which the script shows.
    fn controls_to_html(&self, chooser: &str, out: &mut String) {
        let bilingual =
            |english: &'static str, japanese: &'static str| bilingual_html(|lang| lang.pick(english, japanese).into());
        let mut options = String::new();
        if let Some(controls) = self.controlled.as_ref().map(|controlled| &controlled.controls) {
            let mut check = |id: &str, is_on: bool, label: String| {
                let checked = if is_on { " checked" } else { "" };
                let _ =
                    write!(options, "<label><input type=\"checkbox\" id=\"control-{id}\"{checked}> {label}</label> ");
            };
            check("causal", controls.is_causal, bilingual("causal mask", "因果マスク"));
            if controls.visible.is_some() {
                check("mask", true, bilingual("mask of the example", "この例のマスク"));
            }
            if controls.has_bias {
                check("bias", true, bilingual("numbers added to the scores", "スコアに加える数値"));
            }
            if let Some((scale, is_scaled)) =
                controls.scale.as_ref().and_then(|scale| Some((scale.scale?, scale.is_scaled)))
            {
                let label = match crate::formulas::formula::inverse_sqrt_of(scale) {
                    Some(n) => bilingual_html(|lang| tr_in!("divide by √{}", "√{} で割る", lang, n)),
                    None => bilingual_html(|lang| tr_in!("scale by {}", "{} 倍する", lang, scale)),
                };
                check("scale", is_scaled, label);
            }
            if let Some(is_on) = controls.subtracts_max {
                check("max", is_on, bilingual("subtract the largest score", "最大値を引く"));
            }
            if let Some(scale) = &controls.scale {
                let most = (2.0 * scale.beta.abs()).max(4.0);
                let _ = write!(
                    options,
                    "<label>{} <input type=\"range\" id=\"control-beta\" min=\"0\" max=\"{most}\" step=\"0.05\" value=\"{}\"></label> \
                     <output id=\"beta\" for=\"control-beta\"></output>",
                    bilingual("inverse temperature β", "逆温度 β"),
                    scale.beta
                );
            }
        }
        let _ = writeln!(
            out,
            "<div class=\"live\" id=\"live\" hidden><p class=\"note\">{}</p>\n<div class=\"bar\" role=\"group\" \
             aria-label=\"options, 設定\">{options}<button type=\"button\" id=\"undo\" disabled>{}</button> <span id=\"bad\" role=\"status\" \
             hidden>{}</span></div>\n<div class=\"bar\" role=\"group\" aria-label=\"play, 再生\"><button type=\"button\" id=\"back\" \
             title=\",\">◀ {}</button> <button type=\"button\" id=\"play\" title=\"p\" aria-pressed=\"false\"><span class=\"off\">▶ \
             {}</span><span class=\"on\" hidden>⏸ {}</span></button> <button type=\"button\" id=\"next\" title=\".\">{} ▶</button> <button \
             type=\"button\" id=\"fold\">{}</button> <button type=\"button\" id=\"unfold\">{}</button></div>{}</div>",
            bilingual_html(|lang| words::editing_note(lang).into()),
            bilingual("Reset", "元に戻す"),
            bilingual_html(|lang| words::invalid_entry_note(lang).into()),
            bilingual("Back", "戻る"),
            bilingual("Play", "再生"),
            bilingual("Pause", "一時停止"),
            bilingual("Next term", "次の項"),
            bilingual("Fold all", "すべてたたむ"),
            bilingual("Unfold all", "すべて開く"),
            chooser,
        );
    }

    /// Returns the choice of a token, and the place for its path; empty if there is no choice.
    fn token_chooser_html(&self) -> String {
        let Some(count) = self.token_count().filter(|count| *count > 1) else { return String::new() };
        let tokens = (0..count).map(|i| {
            let label = crate::output::grid::label(self, MatrixAxis::Queries, i);
            format!("<option value=\"{}\">{}</option>", i + 1, escape_line(&label))
        });
        format!(
            "\n<div class=\"bar\"><label for=\"token\">{}</label> <select id=\"token\" title=\"[ ]\"><option value=\"\">–</option>{}</select></div>\
             <div id=\"token-path-box\" hidden><p class=\"note\">{}</p><ol id=\"token-path\"></ol></div>",
            bilingual_html(|lang| lang.pick("Follow a token", "トークンを追う").into()),
            tokens.collect::<String>(),
            bilingual_html(|lang| words::path_note(lang).into()),
        )
    }

    fn step_to_html(&self, layout: &PageLayout<'_>, of: &PageStep<'_>, options: &TraceOptions, out: &mut String) {
        let (step, shown) = (of.step, of.shown);
        let anchor = step.anchor();
        let open = if options.depth == TraceDetail::All { " open" } else { "" };
        let hidden = if of.number.is_some() { "" } else { " hidden" };
        let _ = writeln!(
            out,
            "<details{open}{hidden} class=\"step\" data-s=\"{}\"><summary><h3 id=\"{anchor}-title\">{}{}</h3> <span \
             class=\"formula\">{}</span> <span class=\"shape\">{}</span></summary>",
            step.id,
            of.number_html(),
            bilingual_html(|lang| step.title(lang)),
            shown.formula.as_ref().map_or_else(
                || bilingual_html(|lang| shown.given_text(lang).into()),
                |formula| with_subscripts(&formula.text)
            ),
            with_subscripts(&shown.shape()),
        );
        // Inputs that the equation shows in another form, such as transposed, precede it.
        let mut inline = HashSet::new();
        for part in &shown.equation {
            if let EquationPart::Operand { id, is_transposed: false } = part {
                inline.insert(layout.page_id(of, *id));
            }
        }
        let mut own: Vec<StepId> =
            layout.readers.iter().filter(|(_, reader)| **reader == step.id).map(|(id, _)| *id).collect();
        own.sort_unstable();
        let strip: String = own
            .iter()
            .filter(|id| !inline.contains(id))
            .filter_map(|id| layout.step(*id))
            .map(|given| self.figure_to_html(layout, given, options))
            .collect();
        if !strip.is_empty() {
            let _ = writeln!(out, "<div class=\"eq\">{strip}</div>");
        }
        out.push_str("<div class=\"eq\">");
        for part in &shown.equation {
            match part {
                EquationPart::Text(signs) => {
                    let _ = write!(out, "<span class=\"op\">{}</span> ", with_subscripts(signs));
                }
                EquationPart::Operand { id, is_transposed } => {
                    let id = layout.page_id(of, *id);
                    match layout.step(id).filter(|_| own.contains(&id) && !*is_transposed) {
                        Some(given) => out.push_str(&self.figure_to_html(layout, given, options)),
                        None => out.push_str(&self.reference_to_html(layout, id, *is_transposed)),
                    }
                }
            }
        }
        if !shown.equation.is_empty() {
            out.push_str("<div class=\"result\"><span class=\"op\">=</span> ");
        }
        out.push_str(&self.figure_to_html(layout, of, options));
        out.push_str(if shown.equation.is_empty() { "</div>\n" } else { "</div></div>\n" });
        // The script writes everything but the symbol.
        let expanded = |lang: Lang| {
            let text = shown.expanded([options.digits, MAX_TERMS], false, lang)?;
            let rest = text.strip_prefix(&shown.symbol).unwrap_or(&text);
            Some(format!("{}<span class=\"x\">{}</span>", with_subscripts(&shown.symbol), escape_line(rest)))
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
        let inputs = own.iter().filter_map(|id| layout.step(*id)).map(|given| {
            let name = with_subscripts(&given.step.symbol) + ": ";
            self.notes_html(given.shown, &name)
        });
        let items: String = inputs.chain([self.notes_html(shown, "")]).collect();
        if !items.is_empty() {
            let _ = writeln!(out, "<ul class=\"stale\">{items}</ul>");
        }
        out.push_str("</details>\n");
    }

    /// Returns the symbol of an operand. The script replaces it by the matrix.
    fn reference_to_html(&self, layout: &PageLayout<'_>, id: StepId, is_transposed: bool) -> String {
        let operand = layout.step(id).map(|of| of.step);
        let mut all = self.steps.iter().chain(&self.hidden_steps);
        let named = operand.or_else(|| all.find(|other| layout.page_ids.get(&other.id) == Some(&id)));
        let sign = if is_transposed { "ᵀ" } else { "" };
        let symbol = with_subscripts(&format!("{}{sign}", named.map_or("", |step| step.symbol.as_str())));
        let flag = if is_transposed { " data-t" } else { "" };
        match operand {
            Some(step) => {
                format!("<a class=\"ref\" href=\"#{}\" data-s=\"{id}\"{flag}>{symbol}</a> ", step.anchor())
            }
            None => format!("<span class=\"ref\" data-s=\"{id}\"{flag}>{symbol}</span> "),
        }
    }

    /// Returns the checks and sentences about a matrix as items of a list; each begins with its name.
    fn notes_html(&self, step: &TraceStep, name: &str) -> String {
        let checks = step.checks.iter().map(|check| {
            let class = if check.holds { "" } else { " class=\"bad\"" };
            format!("<li{class}>{name}{}</li>", bilingual_html(|lang| check.to_text(lang)))
        });
        let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| words::step_sentences(lang, self, step));
        let says = english.iter().zip(&japanese).map(|(english, japanese)| {
            format!("<li class=\"says\">{name}{}</li>", bilingual_html(|lang| lang.pick(english, japanese).into()))
        });
        checks.chain(says).collect()
    }

    /// Returns a matrix with its symbol; an input has its title too.
    fn figure_to_html(&self, layout: &PageLayout<'_>, of: &PageStep<'_>, options: &TraceOptions) -> String {
        let (step, anchor) = (of.shown, of.step.anchor());
        let mut out = String::new();
        let (name, id) = match of.is_given() {
            // The title of a card names the matrix, unless another card shows it.
            true => {
                let number = of.number_html();
                let title = bilingual_html(|lang| step.title(lang));
                let text = format!("<span class=\"name\" id=\"{anchor}-name\">{number}{title}</span>");
                (text, format!("{anchor}-name"))
            }
            false => (String::new(), format!("{anchor}-title")),
        };
        let grid = NumberGrid::new(self, step, [options.size; 2], options.digits);
        let largest = step.value.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
        let more = if grid.is_truncated[1] { "<td class=\"more\">…</td>" } else { "" };
        // Wide tables can be scrolled with the keyboard.
        let _ = writeln!(
            out,
            "<figure class=\"m{}\" id=\"{anchor}\"><figcaption>{} {name}</figcaption><div class=\"scroll\" tabindex=\"0\" role=\"group\" \
             aria-labelledby=\"{id}\"><table>",
            if grid.columns.len() > MAX_NORMAL_COLUMNS { " wide" } else { "" },
            with_subscripts(&step.symbol),
        );
        // Numbers of rows and columns say little while they can be counted.
        let has_labels = |labels: &[String]| {
            labels.len() > MAX_UNNUMBERED
                || labels.iter().enumerate().any(|(i, label)| !label.is_empty() && *label != (i + 1).to_string())
        };
        let is_labeled = [&grid.rows, &grid.columns].map(|labels| has_labels(labels));
        if is_labeled[1] && grid.columns.iter().any(|label| !label.is_empty()) {
            let corner = if is_labeled[0] { "<td></td>" } else { "" };
            let names: String =
                grid.columns.iter().map(|name| format!("<th scope=\"col\">{}", label_html(name))).collect();
            let _ = write!(out, "<thead><tr>{corner}{names}{more}</tr></thead>");
        }
        out.push_str("<tbody>\n");
        let marked = step.expansion.as_ref().map(|expansion| expansion.index);
        for (i, (label, row)) in grid.rows.iter().zip(&grid.cells).enumerate() {
            let colors: Vec<CellColor> = (0..row.len()).map(|j| CellColor::new(step.value[[i, j]], largest)).collect();
            match layout.recomputes {
                true => out.push_str("<tr>"),
                false => {
                    let letters: String = colors.iter().map(|color| color.letter()).collect();
                    let _ = write!(out, "<tr data-c=\"{letters}\">");
                }
            }
            if is_labeled[0] {
                let _ = write!(out, "<th scope=\"row\">{}", label_html(label));
            }
            for (j, (cell, color)) in row.iter().zip(&colors).enumerate() {
                let color = if layout.recomputes { color.class() } else { String::new() };
                let frame = if marked == Some([i, j]) { " at" } else { "" };
                let classes = color + frame;
                let class = match classes.trim_start() {
                    "" => String::new(),
                    classes => format!(" class=\"{classes}\""),
                };
                // The end of a cell is implied.
                let _ = write!(out, "<td{class}>{}", escape_line(cell));
            }
            let _ = writeln!(out, "{more}</tr>");
        }
        if grid.is_truncated[0] {
            let dots = "<td class=\"more\">⋮</td>".repeat(grid.columns.len());
            let label = if is_labeled[0] { "<th>⋮</th>" } else { "" };
            let _ = writeln!(out, "<tr>{label}{dots}</tr>");
        }
        out.push_str("</tbody></table></div>");
        if grid.is_truncated != [false; 2] {
            let part = [grid.rows.len(), grid.columns.len()];
            let _ = write!(
                out,
                "<p class=\"note\">{}</p>",
                bilingual_html(|lang| words::truncation_note(lang, part, grid.size))
            );
        }
        out.push_str("</figure> ");
        out
    }
}

/// The color of a number: its share of the largest one of its matrix in eighths, and its sign.
#[derive(Clone, Copy)]
enum CellColor {
    NotFinite,
    Level(i8),
}

impl CellColor {
    fn new(x: f64, largest: f64) -> CellColor {
        let level = (x.abs() / largest * 8.0).round();
        match x.is_finite() {
            false => CellColor::NotFinite,
            true if level >= 1.0 => CellColor::Level(if x > 0.0 { level as i8 } else { -(level as i8) }),
            true => CellColor::Level(0),
        }
    }

    /// Returns the class of the style sheet.
    fn class(self) -> String {
        match self {
            CellColor::NotFinite => "none".to_owned(),
            CellColor::Level(0) => String::new(),
            CellColor::Level(level) => format!("{}{}", if level > 0 { 'p' } else { 'm' }, level.abs()),
        }
    }

    /// Returns the letter that `cell_colors.js` reads.
    fn letter(self) -> char {
        match self {
            CellColor::NotFinite => '-',
            CellColor::Level(0) => '.',
            CellColor::Level(level) => {
                let first = if level > 0 { b'A' } else { b'a' };
                char::from(first + level.unsigned_abs() - 1)
            }
        }
    }
}

/// Returns the label of a row or column. A word must not change the direction of the text around it.
fn label_html(label: &str) -> String {
    match label.bytes().all(|byte| byte.is_ascii_digit()) {
        true => label.to_owned(),
        false => format!("<bdi>{}</bdi>", escape_line(label)),
    }
}

/// Returns the title of a group in both languages, with subscripts.
fn group_title(group: StepGroup) -> String {
    [Lang::En, Lang::Ja].map(|lang| in_language(lang, &with_subscripts(&group.title(lang)))).concat()
}

/// Writes links to all steps, by group.
fn outline_to_html(sections: &[(StepGroup, Vec<&PageStep<'_>>)], is_long: bool, out: &mut String) {
    let title = bilingual_html(|lang| lang.pick("Steps", "計算のステップ").into());
    let _ = writeln!(out, "<nav aria-labelledby=\"contents\"><span id=\"contents\">{title}</span>");
    for (i, (group, steps)) in sections.iter().enumerate() {
        let links: String = steps
            .iter()
            .map(|of| {
                let number = of.number_html();
                let hidden = if of.number.is_some() { "" } else { " hidden" };
                let symbol = with_subscripts(&of.step.symbol);
                format!(
                    "<li{hidden} data-s=\"{}\"><a href=\"#{}\">{number}{symbol}</a></li>",
                    of.step.id,
                    of.step.anchor()
                )
            })
            .collect();
        let open = if is_long { "" } else { " open" };
        let _ = writeln!(
            out,
            "<details{open}><summary><a href=\"#group-{}\">{}</a></summary><ol>{links}</ol></details>",
            i + 1,
            group_title(*group)
        );
    }
    out.push_str("</nav>\n");
}

impl TraceStep {
    /// Returns the step's ID on the page, with the head and the kind, because steps of all heads and kinds share names.
    pub(crate) fn anchor(&self) -> String {
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
