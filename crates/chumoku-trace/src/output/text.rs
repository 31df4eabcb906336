//! Traces in a terminal.

use crate::formulas::batch_shape::BatchAxis;
use crate::formulas::expansion::ExpansionFormat;
use crate::formulas::formula::latex_number;
use crate::output::grid::{NumberGrid, format_plain, number_format};
use crate::output::words;
use crate::traces::trace_steps::{CheckKind, Trace, TraceStep};
use chumoku::lang::show_controls_in_text;
use chumoku::tr_in;
use chumoku_view::{ColorDepth, Lang, Painter, align_left, align_right, display_width, truncate, wrap};

/// Amount of detail of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceDetail {
    /// Formulas and shapes.
    Shapes,
    /// A line for each step.
    Steps,
    /// Every number.
    All,
}

/// Options of the display of a trace.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TraceOptions {
    /// Amount of detail.
    pub depth: TraceDetail,
    /// Language of the texts.
    pub lang: Lang,
    /// Number of decimals.
    pub digits: usize,
    /// Maximum numbers of rows and columns of a matrix; a terminal shows as many columns as fit.
    pub size: usize,
    /// Width of the terminal in columns.
    pub width: usize,
    /// Color depth of the terminal.
    pub color: ColorDepth,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions {
            depth: TraceDetail::All,
            lang: Lang::En,
            digits: 4,
            size: 12,
            width: 80,
            color: ColorDepth::None,
        }
    }
}

/// Maximum number of displayed terms of a sum.
const MAX_TERMS: usize = 8;
/// Maximum number of lines of a long source.
const MAX_SOURCE_LINES: usize = 3;
/// Indentation of lines.
const INDENT: usize = 3;
/// Maximum width of a row label.
const MAX_LABEL_WIDTH: usize = 16;
/// Maximum width of a column label, unless its numbers are wider.
const MAX_HEADING_WIDTH: usize = 10;
/// Minimum width of a formula in the overview; narrower lines are broken in two.
const MIN_FORMULA_WIDTH: usize = 12;

impl TraceStep {
    /// Returns the shape in letters and in numbers, and the axes in a batch.
    pub(crate) fn shape(&self) -> String {
        let ([rows, columns], (height, width)) = (&self.shape_letters, self.value.dim());
        format!("{rows} × {columns} = {height} × {width}, {}", self.batch_shape()[0])
    }

    /// Returns the shape in a batch, in letters and in numbers for a single text.
    pub(crate) fn batch_shape(&self) -> [String; 2] {
        let tuple = |of: &dyn Fn(&BatchAxis) -> String| {
            format!("({})", self.batch_axes.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        [tuple(&|axis| axis.letter.clone()), tuple(&|axis| axis.length.to_string())]
    }

    /// Returns the expansion of a number with the given digits, and at most the given number of terms.
    pub(crate) fn expanded(&self, [digits, terms]: [usize; 2], is_latex: bool, lang: Lang) -> Option<String> {
        let expansion = self.expansion.as_ref()?;
        let number = |x: f64| {
            let text = format_plain(x, digits);
            if is_latex { latex_number(&text) } else { text }
        };
        let spelling = ExpansionFormat { number: &number, is_latex, lang, terms };
        // The result has the decimals of its matrix.
        let result = number_format(&self.value, digits)(expansion.result);
        let result = if is_latex { latex_number(&result) } else { result };
        Some(format!("{} = {} = {result}", expansion.element_symbol(is_latex), expansion.expression_text(&spelling)))
    }

    /// Returns the smallest and the largest finite number, and the number of those that are unexpectedly not finite.
    fn range(&self, lang: Lang, digits: usize) -> String {
        let finite = self.value.iter().copied().filter(|x| x.is_finite());
        let ends: Option<[f64; 2]> =
            finite.fold(None, |range, x| Some(range.map_or([x, x], |[low, high]: [f64; 2]| [low.min(x), high.max(x)])));
        let ends = ends.map(|ends| range(lang, ends.map(number_format(&self.value, digits))));
        let odd = self.checks.iter().find(|check| check.kind == CheckKind::NotFinite);
        let odd = odd.map(|check| tr_in!("{} not finite", "有限でない数 {} 個", lang, check.value));
        ends.into_iter().chain(odd).collect::<Vec<_>>().join(lang.pick(", ", "、"))
    }
}

impl Trace {
    /// Returns the trace as text. No line is wider than `options.width`, which is at least 40.
    ///
    /// Without color the text has no escape sequence, and color changes nothing else.
    #[must_use]
    pub fn to_text(&self, options: &TraceOptions) -> String {
        let TraceOptions { lang, color, .. } = *options;
        let mut out = LineWriter { text: String::new(), width: options.width.max(40), paint: Painter::new(color) };
        out.wrapped(0, &show_controls_in_text(self.heading(lang)), Painter::strong);
        if !self.source.is_empty() {
            let lines = wrap(&show_controls_in_text(self.source.in_lang(lang)), out.width - INDENT);
            lines.iter().take(MAX_SOURCE_LINES).for_each(|line| out.wrapped(INDENT, line, Painter::quiet));
            if lines.len() > MAX_SOURCE_LINES {
                out.wrapped(INDENT, "…", Painter::quiet);
            }
        }
        if let Some(cut) = self.truncation {
            out.wrapped(INDENT, &cut.describe(lang), Painter::negative);
        }
        if let Some(loss) = &self.loss {
            out.wrapped(INDENT, &loss.to_text(lang), uncolored);
        }
        match options.depth {
            TraceDetail::All => {
                for (i, step) in self.steps.iter().enumerate() {
                    self.write_step(i, step, options, &mut out);
                }
                out.line("");
                out.wrapped(0, &words::rounding_note(lang, options.digits), Painter::quiet);
            }
            depth => self.write_overview(depth, options, &mut out),
        }
        if options.depth != TraceDetail::Steps {
            out.wrapped(0, words::batch_note(lang), Painter::quiet);
        }
        for agreement in &self.agreements {
            out.wrapped(0, &agreement.to_text(lang), Painter::quiet);
        }
        out.text
    }

    /// Writes a step with its matrix.
    fn write_step(&self, index: usize, step: &TraceStep, options: &TraceOptions, out: &mut LineWriter) {
        let TraceOptions { lang, digits, .. } = *options;
        let heading = format!("{}. {}", index + 1, step.title(lang));
        let shape = format!("{}: {}", step.symbol, step.shape());
        let used = display_width(&heading) + display_width(&shape);
        out.line("");
        if used + 2 <= out.width {
            let space = " ".repeat(out.width - used);
            out.line(&format!("{}{space}{}", out.paint.strong(&heading), out.paint.quiet(&shape)));
        } else {
            out.wrapped(0, &heading, Painter::strong);
            out.wrapped(INDENT, &shape, Painter::quiet);
        }
        out.wrapped(INDENT, step.formula.as_ref().map_or(step.given_text(lang), |formula| &formula.text), uncolored);
        self.write_matrix(step, options, out);
        if let Some(expanded) = step.expanded([digits, MAX_TERMS], false, lang) {
            out.wrapped(INDENT, &expanded, uncolored);
        }
        for check in &step.checks {
            match check.holds {
                true => out.marked("✓", &check.to_text(lang), Painter::positive, uncolored),
                false => out.marked("!", &check.to_text(lang), Painter::negative, Painter::negative),
            }
        }
        // As many words as displayed rows.
        let mut looks = words::reading_sentences(lang, self, step);
        let more = looks.len().saturating_sub(options.size);
        looks.truncate(options.size);
        if more > 0 {
            looks.push(words::more_words_note(lang, more));
        }
        if !looks.is_empty() {
            out.wrapped(INDENT, &looks.join(lang.pick("; ", "。")), uncolored);
        }
    }

    fn write_matrix(&self, step: &TraceStep, options: &TraceOptions, out: &mut LineWriter) {
        let TraceOptions { lang, digits, size, .. } = *options;
        let paint = out.paint;
        let grid = NumberGrid::new(self, step, [size, size], digits);
        // As many columns as fit.
        let widths: Vec<usize> = (0..grid.columns.len())
            .map(|j| {
                let widest = grid.cells.iter().map(|row| display_width(&row[j])).max().unwrap_or(0);
                widest.max(display_width(&grid.columns[j]).min(MAX_HEADING_WIDTH)) + 2
            })
            .collect();
        let (dots, all) = (3, out.width - INDENT);
        // A long number must stay complete, so the row label is truncated.
        let label_width = grid.rows.iter().map(|label| display_width(label)).max().unwrap_or(0);
        let label_width = label_width.min(MAX_LABEL_WIDTH).min(all.saturating_sub(widths[0] + dots));
        let room = all - label_width - dots;
        let mut used = 0;
        let fitting = widths.iter().take_while(|&&width| {
            used += width;
            used <= room
        });
        let count = fitting.count().max(1).min(widths.len());
        let is_cut = [grid.is_truncated[0], grid.is_truncated[1] || count < widths.len()];
        let mut print = |label: &str, cells: String, more: &str| {
            let mut line = " ".repeat(INDENT) + &paint.quiet(label) + &" ".repeat(label_width - display_width(label));
            line.push_str(&cells);
            if is_cut[1] {
                line.push_str(&format!("  {}", paint.quiet(more)));
            }
            out.line(&line);
        };
        let one = step.value.ncols() == 1 && grid.columns[0].is_empty();
        if !one {
            let name = |j: usize| align_right(&truncate(&grid.columns[j], widths[j] - 2), widths[j]);
            print("", paint.quiet(&(0..count).map(name).collect::<String>()), "…");
        }
        let heat = CellColors::new(step, paint);
        for (i, (label, row)) in grid.rows.iter().zip(&grid.cells).enumerate() {
            let cells = (0..count).map(|j| heat.cell(step.value[[i, j]], &align_right(&row[j], widths[j]))).collect();
            print(&truncate(label, label_width), cells, "…");
        }
        if is_cut[0] {
            let dots: String = (0..count).map(|j| align_right("⋮", widths[j])).collect();
            print("⋮", paint.quiet(&dots), "");
        }
        if is_cut != [false; 2] {
            out.wrapped(INDENT, &words::truncation_note(lang, [grid.cells.len(), count], grid.size), Painter::quiet);
        }
    }

    /// Writes all steps, one line each.
    fn write_overview(&self, depth: TraceDetail, options: &TraceOptions, out: &mut LineWriter) {
        let (lang, paint) = (options.lang, out.paint);
        out.line("");
        let tails = match depth {
            TraceDetail::Shapes => {
                let mut shapes: Vec<[String; 2]> = self.steps.iter().map(TraceStep::batch_shape).collect();
                let widest = shapes.iter().map(|[_, sizes]| sizes.len()).max().unwrap_or(0);
                shapes.iter_mut().for_each(|[_, sizes]| *sizes = align_left(sizes, widest));
                align_columns(shapes, " = ")
            }
            _ => {
                let parts = |step: &TraceStep| {
                    let size = format!("{} × {}", step.value.nrows(), step.value.ncols());
                    [size, step.range(lang, options.digits)]
                };
                align_columns(self.steps.iter().map(parts).collect(), "  ")
            }
        };
        let digits = (self.steps.len().to_string().len() + 1).max(3);
        for (i, (step, tail)) in self.steps.iter().zip(&tails).enumerate() {
            let formula = step.formula.as_ref().map_or_else(|| step.given_symbol(lang), |formula| formula.text.clone());
            let number = paint.quiet(&align_right(&format!("{}.", i + 1), digits));
            let room = out.width.saturating_sub(digits + 1 + display_width(tail) + 2);
            // Steps stay on one line if possible: the formula is truncated, and the tail is kept.
            if room >= MIN_FORMULA_WIDTH.min(display_width(&formula)) {
                out.line(&format!("{number} {}  {}", align_left(&formula, room), paint.quiet(tail.trim_end())));
            } else {
                out.line(&format!("{number} {}", truncate(&formula, out.width - digits - 1)));
                out.wrapped(digits + 1, tail.trim(), Painter::quiet);
            }
        }
        if !self.agreements.is_empty() || depth == TraceDetail::Shapes {
            out.line("");
        }
    }
}

/// Aligns two columns of texts and puts `between` between them.
fn align_columns(parts: Vec<[String; 2]>, between: &str) -> Vec<String> {
    let widest = [0, 1].map(|k| parts.iter().map(|part| display_width(&part[k])).max().unwrap_or(0));
    parts.iter().map(|[a, b]| format!("{}{between}{}", align_right(a, widest[0]), align_right(b, widest[1]))).collect()
}

/// Colors of the numbers of a matrix.
struct CellColors {
    paint: Painter,
    /// The largest share; `None` if the numbers are no shares.
    most: Option<f64>,
    /// True if −∞ is an expected value.
    is_masking: bool,
}

impl CellColors {
    fn new(step: &TraceStep, paint: Painter) -> CellColors {
        let most = step.value.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(*x));
        let is_share = step.is_weights() && most > 0.0;
        CellColors {
            paint,
            most: is_share.then_some(most),
            is_masking: crate::traces::trace_steps::is_masking(&step.operation),
        }
    }

    /// Colors a number: shares by size, unexpected NaN and infinities highlighted.
    fn cell(&self, x: f64, text: &str) -> String {
        match self.most {
            _ if self.paint.is_plain() => text.to_owned(),
            _ if x == f64::NEG_INFINITY && self.is_masking => self.paint.quiet(text),
            _ if !x.is_finite() => self.paint.negative(text),
            Some(most) => self.paint.cell((x / most) as f32, text),
            None => text.to_owned(),
        }
    }
}

fn range(lang: Lang, [low, high]: [String; 2]) -> String {
    match (lang, low == high) {
        (Lang::En, true) => format!("all {low}"),
        (Lang::En, false) => format!("{low} to {high}"),
        (Lang::Ja, true) => format!("すべて {low}"),
        (Lang::Ja, false) => format!("{low} 〜 {high}"),
    }
}

/// Returns a text without color.
fn uncolored(_: Painter, text: &str) -> String {
    text.to_owned()
}

/// A writer of wrapped lines.
struct LineWriter {
    text: String,
    width: usize,
    paint: Painter,
}

impl LineWriter {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn wrapped(&mut self, indent: usize, text: &str, style: impl Fn(Painter, &str) -> String) {
        for line in wrap(text, self.width - indent) {
            self.line(&(" ".repeat(indent) + &style(self.paint, &line)));
        }
    }

    /// Writes a wrapped text after a sign.
    fn marked(
        &mut self,
        mark: &str,
        text: &str,
        mark_style: impl Fn(Painter, &str) -> String,
        style: impl Fn(Painter, &str) -> String,
    ) {
        let indent = INDENT + display_width(mark) + 1;
        for (i, line) in wrap(text, self.width - indent).iter().enumerate() {
            let before = match i {
                0 => format!("{}{} ", " ".repeat(INDENT), mark_style(self.paint, mark)),
                _ => " ".repeat(indent),
            };
            self.line(&(before + &style(self.paint, line)));
        }
    }
}
