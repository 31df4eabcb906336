//! Tables of numbers: the alternative to a picture for screen readers and terminals.

use super::Lang;
use crate::terminal::Painter;
use crate::width::{align_left, align_right, display_width, truncate, wrap};
use chumoku::lang::show_controls;

/// A table of names and numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureTable {
    /// Title of the table.
    pub(crate) caption: String,
    /// The column headings; the first is that of the row names.
    pub head: Vec<String>,
    /// The name and the cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Maximum width of a name in columns of a terminal.
const MAX_NAME_WIDTH: usize = 18;

impl FigureTable {
    /// Returns lines for a terminal. Columns that do not fit are left out and counted.
    pub(super) fn terminal_lines(&self, width: usize, paint: Painter, lang: Lang) -> Vec<String> {
        let name = |text: &str| truncate(&show_controls(text), MAX_NAME_WIDTH);
        let names = self.rows.iter().map(|(name, _)| name.as_str()).chain(self.head.first().map(String::as_str));
        let first = names.map(|text| display_width(&name(text))).max().unwrap_or(0);
        let columns = self.head.len().saturating_sub(1);
        let wide = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let all =
                cells.map(|cell| display_width(&name(cell))).chain([display_width(&name(&self.head[column + 1]))]);
            all.max().unwrap_or(0) + 2
        };
        let mut used = 2 + first;
        let fits: Vec<usize> = (0..columns)
            .map(wide)
            .take_while(|wide| {
                used += wide;
                used <= width
            })
            .collect();
        let line = |label: &str, cells: &[String]| {
            let cells: String = fits.iter().zip(cells).map(|(wide, cell)| align_right(&name(cell), *wide)).collect();
            format!("  {}{cells}", align_left(&name(label), first))
        };
        let mut lines = Vec::new();
        if !self.caption.is_empty() {
            let caption = wrap(&show_controls(&self.caption), width - 2);
            lines.extend(caption.iter().map(|line| format!("  {}", paint.strong(line))));
        }
        if let Some((label, cells)) = self.head.split_first() {
            lines.push(paint.quiet(&line(label, cells)));
        }
        lines.extend(self.rows.iter().map(|(label, cells)| line(label, cells)));
        if fits.len() < columns {
            let more = columns - fits.len();
            let note = match lang {
                Lang::En if more == 1 => "… and 1 more column (HTML and JSON have all)".to_owned(),
                Lang::En => format!("… and {more} more columns (HTML and JSON have all)"),
                Lang::Ja => format!("… ほか {more} 列（HTML と JSON にはすべてあります）"),
            };
            lines.extend(wrap(&note, width - 2).into_iter().map(|line| format!("  {line}")));
        }
        lines.push(String::new());
        lines
    }
}
