//! A trace in a terminal.

use super::expansion::Spelling;
use super::grid::{Grid, number_of, plain};
use super::shown::{Trace, TraceStep};
use super::words;
use crate::view::{Lang, clean_text, cut, display_width, left, right, wrap};

/// How much of a trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Formulas and shapes.
    Shapes,
    /// A line for each step.
    Steps,
    /// Every number.
    All,
}

/// How a trace is shown.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// How much is shown.
    pub depth: Depth,
    /// The language of what is said.
    pub lang: Lang,
    /// Decimals.
    pub digits: usize,
    /// Most rows and columns of a matrix; a terminal shows as many columns as fit.
    pub size: usize,
    /// Columns of the terminal.
    pub width: usize,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions { depth: Depth::All, lang: Lang::En, digits: 4, size: 12, width: 80 }
    }
}

/// Terms of a sum that a terminal shows.
const TERMS: usize = 8;
/// Lines of a long source that are shown.
const SOURCE_LINES: usize = 3;
/// Lines are indented by so much.
const INDENT: usize = 3;

impl TraceStep {
    /// Its shape in letters and in numbers.
    pub(super) fn shape(&self) -> String {
        let [rows, columns] = &self.letters;
        format!("{rows} × {columns} = {} × {}", self.value.nrows(), self.value.ncols())
    }

    /// How one of its numbers came about.
    pub(super) fn expanded(&self, digits: usize, is_latex: bool, terms: usize) -> Option<String> {
        let expansion = self.expansion.as_ref()?;
        let number = |x: f64| {
            let text = plain(x, digits);
            if is_latex { super::latex::number(&text) } else { text }
        };
        let spelling = Spelling { number: &number, is_latex, terms };
        // The result has the decimals of its matrix.
        let result = number_of(&self.value, digits)(expansion.result);
        let result = if is_latex { super::latex::number(&result) } else { result };
        Some(format!("{} = {} = {result}", expansion.place(is_latex), expansion.spelt(&spelling)))
    }

    /// The smallest and the largest of its finite numbers.
    fn range(&self) -> Option<[f64; 2]> {
        let finite = self.value.iter().copied().filter(|x| x.is_finite());
        finite.fold(None, |range, x| Some(range.map_or([x, x], |[low, high]: [f64; 2]| [low.min(x), high.max(x)])))
    }
}

impl Trace {
    /// The trace as text; no line is wider than `options.width`, which is at least 40.
    #[must_use]
    pub fn to_text(&self, options: &TraceOptions) -> String {
        let width = options.width.max(40);
        let mut out = Lines { text: String::new(), width };
        out.wrapped(0, &clean_text(&self.title));
        if !self.source.is_empty() {
            let lines = wrap(&clean_text(&self.source), width - INDENT);
            lines.iter().take(SOURCE_LINES).for_each(|line| out.line(&format!("{}{line}", " ".repeat(INDENT))));
            if lines.len() > SOURCE_LINES {
                out.wrapped(INDENT, "…");
            }
        }
        if let Some(cut) = self.cut {
            out.wrapped(INDENT, &cut.to_text(options.lang));
        }
        match options.depth {
            Depth::All => {
                for (i, step) in self.steps.iter().enumerate() {
                    self.whole(i, step, options, &mut out);
                }
                out.line("");
                out.wrapped(0, &words::rounding(options.lang, options.digits));
            }
            depth => self.table(depth, options, &mut out),
        }
        for agreement in &self.agreements {
            out.wrapped(0, &agreement.to_text(options.lang));
        }
        out.text
    }

    /// A step with its matrix.
    fn whole(&self, index: usize, step: &TraceStep, options: &TraceOptions, out: &mut Lines) {
        let TraceOptions { lang, digits, .. } = *options;
        let heading = format!("{}. {}", index + 1, step.title(lang));
        let shape = format!("{}: {}", step.symbol, step.shape());
        let room = out.width.saturating_sub(display_width(&heading) + 2);
        out.line("");
        match display_width(&shape) <= room {
            true => out.line(&format!("{heading}{}", right(&shape, out.width - display_width(&heading)))),
            false => {
                out.line(&heading);
                out.wrapped(INDENT, &shape);
            }
        }
        out.wrapped(INDENT, step.formula.as_ref().map_or(words::given(lang), |formula| &formula.text));
        self.matrix(step, options, out);
        if let Some(expanded) = step.expanded(digits, false, TERMS) {
            out.wrapped(INDENT, &expanded);
        }
        for check in &step.checks {
            let mark = if check.holds { "✓" } else { "!" };
            out.wrapped(INDENT, &format!("{mark} {}", check.to_text(lang)));
        }
        let looks = words::looks_at(lang, self, step);
        if !looks.is_empty() {
            out.wrapped(INDENT, &looks.join(lang.pick("; ", "。")));
        }
    }

    fn matrix(&self, step: &TraceStep, options: &TraceOptions, out: &mut Lines) {
        let TraceOptions { lang, digits, size, .. } = *options;
        let grid = Grid::of(self, step, [size, size], digits);
        let label_width = grid.rows.iter().map(|label| display_width(label)).max().unwrap_or(0).min(16);
        // As many columns as fit.
        let widths: Vec<usize> = (0..grid.columns.len())
            .map(|j| {
                let widest = grid.cells.iter().map(|row| display_width(&row[j])).max().unwrap_or(0);
                widest.max(display_width(&grid.columns[j]).min(10)) + 2
            })
            .collect();
        let room = out.width.saturating_sub(INDENT + label_width + 3);
        let mut used = 0;
        let fitting = widths.iter().take_while(|&&width| {
            used += width;
            used <= room
        });
        let count = fitting.count().max(1).min(widths.len());
        let is_cut = [grid.is_cut[0], grid.is_cut[1] || count < widths.len()];
        let mut print = |label: &str, cells: Vec<String>, more: &str| {
            let mut line = format!("{}{}", " ".repeat(INDENT), left(label, label_width));
            cells.iter().for_each(|cell| line.push_str(cell));
            if is_cut[1] {
                line.push_str(&format!("  {more}"));
            }
            out.line(line.trim_end());
        };
        let one = step.value.ncols() == 1 && grid.columns[0].is_empty();
        if !one {
            let names = (0..count).map(|j| right(&cut(&grid.columns[j], widths[j] - 2), widths[j]));
            print("", names.collect(), "…");
        }
        for (label, row) in grid.rows.iter().zip(&grid.cells) {
            let cells = (0..count).map(|j| right(&row[j], widths[j])).collect();
            print(&cut(label, label_width), cells, "…");
        }
        if is_cut[0] {
            let dots = (0..count).map(|j| right("⋮", widths[j])).collect();
            print("⋮", dots, "");
        }
        if is_cut != [false; 2] {
            out.wrapped(INDENT, &words::cut(lang, [grid.cells.len(), count], grid.size));
        }
    }

    /// All steps, a line each.
    fn table(&self, depth: Depth, options: &TraceOptions, out: &mut Lines) {
        let lang = options.lang;
        out.line("");
        for (i, step) in self.steps.iter().enumerate() {
            let formula = step
                .formula
                .as_ref()
                .map_or_else(|| format!("{} {}", step.symbol, words::given(lang)), |formula| formula.text.clone());
            let number = right(&format!("{}.", i + 1), 3);
            let shape = match depth {
                Depth::Shapes => step.shape(),
                _ => format!("{} × {}", step.value.nrows(), step.value.ncols()),
            };
            let mut tail = shape;
            if let (Depth::Steps, Some([low, high])) = (depth, step.range()) {
                let write = number_of(&step.value, options.digits);
                tail = format!("{tail}  {}", range(lang, [write(low), write(high)]));
            }
            let room = out.width.saturating_sub(4 + display_width(&tail) + 2);
            match display_width(&formula) <= room {
                true => out.line(&format!("{number} {}  {tail}", left(&formula, room))),
                // A line stays a line where it can: the tail is what cannot be left out.
                false => out.line(&format!("{number} {}  {tail}", left(&cut(&formula, room), room))),
            }
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

/// Text that grows line by line.
struct Lines {
    text: String,
    width: usize,
}

impl Lines {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn wrapped(&mut self, indent: usize, text: &str) {
        for line in wrap(text, self.width - indent) {
            self.line(&format!("{}{line}", " ".repeat(indent)));
        }
    }
}
