//! Heatmaps: numbers by rows and columns.

use super::table::FigureTable;
use super::{Canvas, Lang, TEXT_SIZE, estimated_text_width, four_decimals};
use crate::phrases;
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::terminal::{ColorDepth, HeatmapPanel, Painter as TerminalPaint, legend, rounded_top};
use crate::width::{display_width, truncate, wrap};
use chumoku::lang::show_controls;
use serde_json::{Value, json};

/// The rows or the columns of a heatmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureAxis {
    /// Name of the axis.
    pub name: String,
    /// Label of each row or column.
    pub labels: Vec<String>,
    /// True if labels are numbered from 1. Words are, because a text may contain a word twice.
    pub is_numbered: bool,
}

impl FigureAxis {
    /// Returns a label, with its number if the axis is numbered.
    pub(super) fn label_of(&self, index: usize) -> String {
        match self.is_numbered {
            true => format!("{} {}", index + 1, self.labels[index]),
            false => self.labels[index].clone(),
        }
    }

    /// Returns the name without its explanation.
    fn short_name(&self) -> &str {
        self.name.split([':', '：']).next().unwrap_or_default()
    }
}

/// Meaning of the numbers of a heatmap; it determines their colors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColorScale {
    /// Shares of attention, colored from 0 to this maximum. It is 1 to make pictures comparable, unless all shares are
    /// small.
    Share(f32),
    /// Signed numbers, colored up to this absolute value.
    Signed(f32),
}

/// Numbers by rows and columns. Row 1 is at the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    /// Caption in a figure of several heatmaps.
    pub caption: String,
    /// The rows: the queries of attention.
    pub rows: FigureAxis,
    /// The columns: the keys of attention.
    pub columns: FigureAxis,
    /// The numbers, row by row; `None` for absent ones, such as masked keys.
    pub values: Vec<Option<f32>>,
    /// The color scale.
    pub scale: ColorScale,
}

/// Width of a label in columns.
const MAX_LABEL_WIDTH: usize = 16;

impl ColorScale {
    /// Returns the scale of shares among this number of words. Shares of many words are small: on a scale up to 1 they
    /// would all look alike.
    pub(crate) fn for_shares<'a>(words: usize, shares: impl Iterator<Item = &'a f32>) -> ColorScale {
        const FEW: usize = 24;
        match words <= FEW {
            true => ColorScale::Share(1.0),
            false => ColorScale::Share(rounded_top(shares.fold(0.0f32, |most, &x| most.max(x)))),
        }
    }
}

impl Heatmap {
    /// Returns a confusion map: the share of each label's rows that belong to each other label.
    ///
    /// `axes` holds the names of the rows and the columns.
    pub(crate) fn from_confusions(labels: &[&str], axes: [&str; 2], share: impl Fn(usize, usize) -> f32) -> Heatmap {
        let value = |i: usize, j: usize| (i != j).then(|| share(i, j));
        let n = labels.len();
        let values: Vec<Option<f32>> = (0..n * n).map(|at| value(at / n, at % n)).collect();
        let top = values.iter().flatten().fold(0.01_f32, |most, &x| most.max(x));
        let [rows, columns] = axes.map(|name| FigureAxis {
            name: name.into(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            is_numbered: false,
        });
        Heatmap {
            caption: String::new(),
            rows,
            columns,
            values,
            scale: ColorScale::for_shares(usize::MAX, [top].iter()),
        }
    }

    /// Returns the number at a row and a column.
    #[must_use]
    pub fn value(&self, row: usize, column: usize) -> Option<f32> {
        self.values[row * self.columns.labels.len() + column]
    }

    /// Returns the color of a number and of text on it.
    pub(super) fn cell_colors(&self, value: f32) -> [Paint; 2] {
        match self.scale {
            ColorScale::Share(top) => [Paint::Share(value / top), Paint::TextOnShare(value / top)],
            ColorScale::Signed(most) => {
                let part = if most > 0.0 { value / most } else { 0.0 };
                [Paint::Signed(part), Paint::TextOnSigned(part)]
            }
        }
    }

    /// Formats a number for a cell.
    fn cell_text(&self, value: f32) -> String {
        match self.scale {
            ColorScale::Share(_) => short_weight(value),
            ColorScale::Signed(_) if !value.is_finite() => four_decimals(f64::from(value)),
            ColorScale::Signed(_) => {
                // Only the 0 before the decimal point is dropped: 10.05 keeps its zero.
                let text = format!("{value:+.2}").replace("+0.", "+.").replace("-0.", "-.").replace('-', "−");
                match text.strip_suffix(".00") {
                    Some(_) if value.abs() < 0.005 => "0".into(),
                    // Three digits and a sign would not fit.
                    Some(whole) => whole.into(),
                    None => text,
                }
            }
        }
    }

    /// Describes a cell in a sentence.
    pub(super) fn cell_sentence(&self, row: usize, column: usize, value: f32, lang: Lang) -> String {
        let [query, key] = [(&self.rows, row), (&self.columns, column)].map(|(axis, i)| axis.label_of(i));
        let percent = f64::from(value) * 100.0;
        match (self.scale, lang) {
            (ColorScale::Share(_), Lang::En) => format!("{query} → {key}: {percent:.2} %"),
            (ColorScale::Share(_), Lang::Ja) => format!("{query} → {key}：{percent:.2} %"),
            (ColorScale::Signed(_), _) => format!("{query} / {key}: {}", four_decimals(f64::from(value))),
        }
    }

    /// Draws the heatmap from a place on; returns its lower right corner.
    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let [n, m] = [self.rows.labels.len(), self.columns.labels.len()];
        // Cells show numbers while these are legible.
        let cell = match n.max(m) {
            0..=12 => 44.0,
            13..=24 => 36.0,
            25..=60 => 20.0,
            _ => (1200.0 / n.max(m) as f64).max(4.0),
        };
        let has_numbers = cell >= 36.0;
        let label_size = TEXT_SIZE.min(cell * 0.8).max(6.0);
        // Labels of narrow rows are thinned out until they are legible.
        let every = (label_size * 1.1 / cell).ceil().max(1.0) as usize;
        let name = |axis: &FigureAxis, i: usize| truncate(&show_controls(&axis.label_of(i)), MAX_LABEL_WIDTH + 3);
        let widest = |axis: &FigureAxis| {
            let widths = (0..axis.labels.len()).map(|i| estimated_text_width(&name(axis, i), label_size));
            widths.fold(0.0, f64::max)
        };
        let [row_room, column_room] = [widest(&self.rows), widest(&self.columns)];
        let (left, top) = (x0 + 16.0 + row_room, y0 + 20.0 + column_room * 0.82);
        let [width, height] = [m as f64 * cell, n as f64 * cell];
        let soft = |at: [f64; 2], text: &str| SceneText::new(at, text, 12.0, Paint::SecondaryText);
        canvas.text(soft([left + width / 2.0, y0 + 4.0], &self.columns.name).with_anchor(TextAnchor::Middle));
        let side = soft([x0 - 4.0, top + height / 2.0], &self.rows.name).with_anchor(TextAnchor::Middle);
        canvas.text(SceneText { rotation: -90.0, ..side });
        for j in (0..m).step_by(every) {
            let at = [left + (j as f64 + 0.5) * cell + label_size * 0.3, top - 8.0];
            canvas.text(SceneText {
                rotation: -55.0,
                ..SceneText::new(at, name(&self.columns, j), label_size, Paint::Text)
            });
        }
        for i in 0..n {
            let y = top + i as f64 * cell;
            if i % every == 0 {
                let at = [left - 8.0, y + cell / 2.0 + label_size * 0.36];
                canvas.text(
                    SceneText::new(at, name(&self.rows, i), label_size, Paint::Text).with_anchor(TextAnchor::End),
                );
            }
            for j in 0..m {
                let gap = if cell >= 12.0 { 1.0 } else { 0.0 };
                let area = [left + j as f64 * cell + gap / 2.0, y + gap / 2.0, cell - gap, cell - gap];
                let Some(value) = self.value(i, j) else {
                    canvas.items.push(SceneItem::Hatched(area));
                    continue;
                };
                let [fill, ink] = self.cell_colors(value);
                canvas.items.push(SceneItem::Rect { area, fill, says: self.cell_sentence(i, j, value, canvas.lang) });
                if has_numbers {
                    let at = [left + (j as f64 + 0.5) * cell, y + cell / 2.0 + 4.2];
                    canvas.text(SceneText::new(at, self.cell_text(value), 12.0, ink).with_anchor(TextAnchor::Middle));
                }
            }
        }
        let x = left + width + 28.0;
        let bottom = self.draw_scale([x, top], height.clamp(120.0, 240.0), canvas);
        // Slanted labels of the last columns extend to the right.
        [(x + 60.0).max(left + width + column_room * 0.6), bottom.max(top + height)]
    }

    /// Draws the color scale: from 0 for shares, symmetric around 0 for signed numbers.
    pub(super) fn draw_scale(&self, [x, top]: [f64; 2], height: f64, canvas: &mut Canvas<'_>) -> f64 {
        const STEPS: usize = 48;
        let [low, high] = match self.scale {
            ColorScale::Share(top) => [0.0, top],
            ColorScale::Signed(most) => [-most, most],
        };
        for step in 0..STEPS {
            let share = 1.0 - (step as f32 + 0.5) / STEPS as f32;
            let area = [x, top + height * step as f64 / STEPS as f64, 14.0, height / STEPS as f64 + 0.6];
            canvas.items.push(SceneItem::Rect {
                area,
                fill: self.cell_colors(low + (high - low) * share)[0],
                says: String::new(),
            });
        }
        for share in [0.0f32, 0.5, 1.0] {
            let value = low + (high - low) * share;
            let text = match self.scale {
                ColorScale::Share(_) => format!("{value}"),
                ColorScale::Signed(_) if value == 0.0 => "0".into(),
                ColorScale::Signed(most) => format!("{value:+.*}", if most < 0.1 { 3 } else { 2 }).replace('-', "−"),
            };
            let at = [x + 20.0, top + height * f64::from(1.0 - share) + 4.2];
            canvas.text(SceneText::new(at, text, 12.0, Paint::SecondaryText));
        }
        top + height
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let named = |axis: &FigureAxis| (0..axis.labels.len()).map(|i| axis.label_of(i)).collect::<Vec<String>>();
        let corner = format!("{} ↓ {} →", self.rows.name, self.columns.name);
        let mut head: Vec<String> = [corner].into_iter().chain(named(&self.columns)).collect();
        let has_sum = matches!(self.scale, ColorScale::Share(_));
        if has_sum {
            head.push(lang.pick("sum", "合計").into());
        }
        let rows = named(&self.rows).into_iter().enumerate().map(|(i, name)| {
            let values: Vec<Option<f32>> = (0..self.columns.labels.len()).map(|j| self.value(i, j)).collect();
            let sum: f64 = values.iter().flatten().map(|&x| f64::from(x)).sum();
            let cells = values.iter().map(|value| value.map_or_else(|| "—".into(), |x| four_decimals(x.into())));
            (name, cells.chain(has_sum.then(|| four_decimals(sum))).collect())
        });
        FigureTable { caption: self.caption.clone(), head, rows: rows.collect() }
    }

    /// Returns lines for a terminal: percentages, or signed hundredths.
    pub(super) fn terminal_lines(&self, width: usize, depth: ColorDepth, lang: Lang) -> Vec<String> {
        let paint = TerminalPaint::new(depth);
        // Unnumbered rows and columns are numbered from 0.
        let words = [&self.rows, &self.columns].map(|axis| {
            let name = |label: &String| if axis.is_numbered { show_controls(label) } else { String::new() };
            axis.labels.iter().map(name).collect::<Vec<String>>()
        });
        let [n, m] = [words[0].len(), words[1].len()];
        let (top, is_signed) = match self.scale {
            ColorScale::Share(top) => (top, false),
            ColorScale::Signed(most) => (most.max(f32::MIN_POSITIVE), true),
        };
        let cell = if is_signed { 5 } else { 4 };
        let [row, column] = [&self.rows, &self.columns].map(|axis| truncate(axis.short_name(), 11));
        let corner = format!("{row} ↓ {column} →");
        let label = words[0].iter().map(|word| display_width(word)).max().unwrap_or(0).min(MAX_LABEL_WIDTH);
        let label = label.max(display_width(&corner).saturating_sub(4));
        let gutter = 2 + n.to_string().len() + 1 + label + 2;
        let fit = ((width.saturating_sub(gutter)) / cell).max(1);
        let rows: Vec<usize> = (0..n).collect();
        let keys: Vec<usize> = (0..m).collect();
        let panels = m.div_ceil(fit).max(1);
        // Labels that are numbers name their columns: chosen dimensions need not start at 0.
        let labels = &self.columns.labels;
        let are_numbers = !self.columns.is_numbered && labels.iter().all(|label| label.parse::<usize>().is_ok());
        let headings = are_numbers.then_some(&labels[..]);
        let mut lines = Vec::new();
        for (i, part) in keys.chunks(m.div_ceil(panels).max(1)).enumerate() {
            if panels > 1 {
                let [first, last] = [part[0], part[part.len() - 1]];
                let note = match headings {
                    _ if self.columns.is_numbered => phrases::panel_note(lang, i + 1, panels, first + 1, last + 1),
                    Some(headings) => format!("{} {}", self.columns.name, number_ranges(&headings[first..=last])),
                    None => format!("{} {first}–{last}", self.columns.name),
                };
                lines.push(format!("  {}", paint.quiet(&note)));
            }
            let panel = HeatmapPanel {
                first_number: usize::from(self.rows.is_numbered),
                headings,
                words: [&words[0], &words[1]],
                weight: &|row, column| self.value(row, column),
                rows: &rows,
                keys: part,
                rest_heading: None,
                cell_width: cell,
                label_width: label,
                scale_top: top,
                corner: &corner,
                is_signed,
            };
            lines.extend(panel.lines(paint));
            lines.push(String::new());
        }
        let most = self.values.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
        match self.scale {
            ColorScale::Share(_) => {
                let (scale, note) = legend(lang, depth, [width, cell], [top, most]);
                lines.extend(scale);
                lines.extend(note.iter().flat_map(|note| wrap(note, width - 2)).map(|line| format!("  {line}")));
            }
            ColorScale::Signed(_) => {
                let note = match lang {
                    Lang::En => format!("in hundredths; the largest here is {}", four_decimals(f64::from(most))),
                    Lang::Ja => format!("単位は 100 分の 1。ここでの最大は {}", four_decimals(f64::from(most))),
                };
                lines.extend(wrap(&note, width - 2).iter().map(|line| format!("  {line}")));
            }
        }
        lines
    }

    pub(super) fn to_json(&self) -> Value {
        let m = self.columns.labels.len().max(1);
        let row = |row: &[Option<f32>]| {
            row.iter().map(|value| value.map_or(Value::Null, chumoku::explain::json_number)).collect::<Value>()
        };
        json!({
            "caption": self.caption,
            "rows": { "name": self.rows.name, "labels": self.rows.labels },
            "columns": { "name": self.columns.name, "labels": self.columns.labels },
            "values": self.values.chunks(m).map(row).collect::<Value>(),
        })
    }
}

/// Formats a weight for a cell: two decimals without the leading 0.
fn short_weight(weight: f32) -> String {
    match weight {
        w if w.is_nan() => "NaN".into(),
        w if w >= 0.995 => "1".into(),
        w if w < 0.005 => if w > 0.0 { "<.01" } else { "0" }.into(),
        w => format!("{w:.2}").trim_start_matches('0').to_owned(),
    }
}

/// Lists numbers in their order; consecutive ones are a range.
fn number_ranges(labels: &[String]) -> String {
    let numbers: Vec<usize> = labels.iter().filter_map(|label| label.parse().ok()).collect();
    let range = |run: &[usize]| match run {
        [first, .., last] => format!("{first}–{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).map(range).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_dimensions_are_listed_in_their_order() {
        let listed = |labels: &[&str]| number_ranges(&labels.iter().map(|&label| label.into()).collect::<Vec<_>>());
        assert_eq!(listed(&["7", "0", "1", "2", "4"]), "7, 0–2, 4");
        assert_eq!(listed(&["0", "1", "2"]), "0–2");
    }

    #[test]
    fn cell_numbers_are_short_and_correct() {
        let axis = FigureAxis { name: String::new(), labels: vec!["a".into()], is_numbered: false };
        let map = |scale| Heatmap {
            caption: String::new(),
            rows: axis.clone(),
            columns: axis.clone(),
            values: vec![None],
            scale,
        };
        let signed = |x: f32| map(ColorScale::Signed(1.0)).cell_text(x);
        let cases = [(0.5, "+.50"), (-0.05, "−.05"), (10.05, "+10.05"), (-20.5, "−20.50"), (1.0, "+1"), (-3.0, "−3")];
        for (x, expected) in cases.into_iter().chain([(0.001, "0"), (-0.004, "0"), (f32::NAN, "NaN")]) {
            assert_eq!(signed(x), expected);
        }
        let shares = [(0.0, "0"), (0.004, "<.01"), (0.25, ".25"), (0.994, ".99"), (0.995, "1"), (1.0, "1")];
        for (x, expected) in shares {
            assert_eq!(map(ColorScale::Share(1.0)).cell_text(x), expected);
        }
    }
}
