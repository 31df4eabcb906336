//! Heatmap grids: many small heatmaps side by side, such as all heads of a model or one head during training.

use super::heatmap::{ColorScale, FigureAxis, Heatmap};
use super::{Canvas, Lang, estimated_text_width};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::terminal::{ColorDepth, Painter as Colour};
use crate::width::{align_left, display_width, truncate, wrap};
use chumoku::lang::show_controls;

/// Several heatmaps in a meaningful order.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapGrid {
    /// The heatmaps with their captions.
    pub maps: Vec<Heatmap>,
    /// Number of heatmaps in a row; 0 chooses it from their number.
    pub columns: usize,
}

/// Side length of a small heatmap.
const SIDE: f64 = 132.0;
/// Distance between small heatmaps, from left to left and from top to top.
const STEP: [f64; 2] = [SIDE + 18.0, SIDE + 36.0];
/// Width of a label in columns.
const MAX_LABEL_WIDTH: usize = 14;
/// Maximum number of cells along a side of a small heatmap: larger ones are max-pooled.
pub(crate) const MAX_CELLS_PER_SIDE: usize = 64;

/// Maximum number of cells along a side of a heatmap in a terminal.
const MAX_TERMINAL_CELLS: usize = 24;
/// Maximum width of a caption in columns of a terminal; longer ones are wrapped.
const MAX_CAPTION_WIDTH: usize = 32;

fn any_larger(maps: &[Heatmap], most: usize) -> bool {
    maps.iter().any(|map| map.rows.labels.len().max(map.columns.labels.len()) > most)
}

fn pooling_sentence(lang: Lang) -> &'static str {
    lang.pick("A dot shows the largest of several weights.", "1 点は、まとめた重みのうち最大の値を表します。")
}

/// Returns the note for heatmaps that are pooled in a picture, if any is.
pub(crate) fn pooling_note(maps: &[Heatmap], lang: Lang) -> Option<String> {
    any_larger(maps, MAX_CELLS_PER_SIDE).then(|| pooling_sentence(lang).to_owned())
}

/// The numbers of a heatmap after pooling.
pub(crate) struct PooledHeatmap {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The numbers, row by row; `None` where all are masked.
    pub(crate) values: Vec<Option<f32>>,
}

/// Pools a heatmap to at most `most` rows and columns. It takes the maximum, because a mean would hide the peaks that
/// readers look for.
pub(crate) fn max_pooled(map: &Heatmap, most: usize) -> PooledHeatmap {
    let [n, m] = [map.rows.labels.len(), map.columns.labels.len()];
    let [rows, columns] = [n.min(most), m.min(most)];
    let mut values: Vec<Option<f32>> = vec![None; rows * columns];
    for (index, value) in map.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let [i, j] = [index / m * rows / n, index % m * columns / m];
        let place = &mut values[i * columns + j];
        if place.is_none_or(|before| value.abs() > before.abs()) {
            *place = Some(*value);
        }
    }
    PooledHeatmap { rows, columns, values }
}

impl HeatmapGrid {
    /// Returns the axes of the heatmaps, if they all have the same.
    fn shared_axes(&self) -> Option<[&FigureAxis; 2]> {
        let first = self.maps.first()?;
        let is_same = |map: &Heatmap| map.rows == first.rows && map.columns == first.columns;
        self.maps.iter().all(is_same).then_some([&first.rows, &first.columns])
    }

    /// Draws the labels of rows left of the first column of heatmaps, and those of columns above the first row. Returns
    /// the room that they take.
    fn draw_labels(&self, [x0, y0]: [f64; 2], rows: usize, canvas: &mut Canvas<'_>) -> [f64; 2] {
        let Some(axes) = self.shared_axes() else { return [0.0; 2] };
        let cell = SIDE / axes.map(|axis| axis.labels.len()).into_iter().fold(1, usize::max) as f64;
        let size = cell.clamp(6.0, 10.0);
        let every = (size * 1.1 / cell).ceil().max(1.0) as usize;
        let label = |axis: &FigureAxis, i: usize| truncate(&show_controls(&axis.label_of(i)), MAX_LABEL_WIDTH);
        let room = axes.map(|axis| {
            let widths = (0..axis.labels.len()).map(|i| estimated_text_width(&label(axis, i), size));
            widths.fold(0.0, f64::max) + 8.0
        });
        // Column labels lean.
        let [left, top] = [room[0], room[1] * 0.85];
        for row in 0..rows {
            for i in (0..axes[0].labels.len()).step_by(every) {
                let y = y0 + top + row as f64 * STEP[1] + 14.0 + (i as f64 + 0.5) * cell + size * 0.36;
                let text = SceneText::new([x0 + left - 4.0, y], label(axes[0], i), size, Paint::SecondaryText);
                canvas.text(text.with_anchor(TextAnchor::End));
            }
        }
        let across = self.across().min(self.maps.len());
        for column in 0..across {
            for i in (0..axes[1].labels.len()).step_by(every) {
                let x = x0 + left + column as f64 * STEP[0] + (i as f64 + 0.5) * cell + size * 0.3;
                let text = SceneText::new([x, y0 + top - 3.0], label(axes[1], i), size, Paint::SecondaryText);
                canvas.text(SceneText { rotation: -55.0, ..text });
            }
        }
        [left, top]
    }

    /// The number of heatmaps in a row.
    fn across(&self) -> usize {
        let count = self.maps.len().max(1);
        if self.columns > 0 { self.columns } else { (count as f64).sqrt().ceil() as usize }.min(12)
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let count = self.maps.len().max(1);
        let (across, [step_x, step_y]) = (self.across(), STEP);
        let [left, top] = self.draw_labels([x0, y0], self.maps.len().div_ceil(across), canvas);
        let [x0, y0] = [x0 + left, y0 + top];
        let mut bottom = y0;
        for (index, map) in self.maps.iter().enumerate() {
            let [x, y] = [x0 + (index % across) as f64 * step_x, y0 + (index / across) as f64 * step_y];
            canvas.text(SceneText::new([x, y + 8.0], truncate(&show_controls(&map.caption), 26), 10.0, Paint::Text));
            let PooledHeatmap { rows, columns, values } = max_pooled(map, MAX_CELLS_PER_SIDE);
            let cell = SIDE / rows.max(columns).max(1) as f64;
            let gap = if cell >= 8.0 { 0.6 } else { 0.0 };
            for (at, value) in values.iter().enumerate() {
                let [i, j] = [at / columns, at % columns];
                let area = [x + j as f64 * cell, y + 14.0 + i as f64 * cell, cell - gap, cell - gap];
                match value {
                    None => canvas.items.push(SceneItem::Rect { area, fill: Paint::GuideLine, says: String::new() }),
                    Some(value) => {
                        // A pooled cell covers several words; the note says so.
                        let is_whole = rows == map.rows.labels.len() && columns == map.columns.labels.len();
                        let says = if is_whole { map.cell_sentence(i, j, *value, canvas.lang) } else { String::new() };
                        canvas.items.push(SceneItem::Rect { area, fill: map.cell_colors(*value)[0], says });
                    }
                }
            }
            bottom = y + 14.0 + rows as f64 * cell;
        }
        let right = x0 + count.min(across) as f64 * step_x;
        if let Some(map) = self.maps.first() {
            let end = map.draw_scale([right + 4.0, y0 + 14.0], 120.0, canvas);
            bottom = bottom.max(end);
        }
        [right + 64.0, bottom]
    }

    /// Returns lines of small shaded or colored heatmaps, as many side by side as fit.
    pub(super) fn terminal_lines(&self, width: usize, depth: ColorDepth, lang: Lang) -> Vec<String> {
        let paint = Colour::new(depth);
        let most = ((width - 2) / 2).min(MAX_TERMINAL_CELLS);
        let side = self.maps.iter().map(|map| map.columns.labels.len()).max().unwrap_or(1).min(most);
        let caption = |map: &Heatmap| show_controls(&map.caption);
        let widest = self.maps.iter().map(|map| display_width(&caption(map))).max().unwrap_or(0);
        // Two columns of a terminal are about as wide as a line is high.
        let wide = (2 * side).max(widest.clamp(24, MAX_CAPTION_WIDTH)) + 2;
        let across = ((width - 2) / wide).max(1);
        let mut lines = Vec::new();
        for part in self.maps.chunks(across) {
            let captions: Vec<Vec<String>> = part.iter().map(|map| wrap(&caption(map), wide - 2)).collect();
            for k in 0..captions.iter().map(Vec::len).max().unwrap_or(0) {
                let cells = captions.iter().map(|of| align_left(of.get(k).map_or("", String::as_str), wide));
                lines.push(format!("  {}", cells.collect::<String>()));
            }
            let small: Vec<_> = part.iter().map(|map| (map, max_pooled(map, most))).collect();
            let height = small.iter().map(|(_, pooled)| pooled.rows).max().unwrap_or(0);
            for i in 0..height {
                let mut line = String::from("  ");
                for (map, pooled) in &small {
                    let cells = if i < pooled.rows { pooled.columns } else { 0 };
                    for j in 0..cells {
                        line += &match pooled.values[i * pooled.columns + j] {
                            None => paint.quiet("··"),
                            Some(x) => match map.scale {
                                ColorScale::Share(top) => paint.shade(x / top),
                                ColorScale::Signed(most) => {
                                    paint.signed(x / most.max(f32::MIN_POSITIVE), signed_cell(x))
                                }
                            },
                        };
                    }
                    line += &" ".repeat(wide - 2 * cells);
                }
                lines.push(line);
            }
            lines.push(String::new());
        }
        // Larger heatmaps have a note in every form.
        if any_larger(&self.maps, most) && !any_larger(&self.maps, MAX_CELLS_PER_SIDE) {
            lines.extend(wrap(pooling_sentence(lang), width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        }
        lines
    }
}

/// Returns the sign of a number in two columns.
fn signed_cell(x: f32) -> &'static str {
    match x {
        x if x >= 0.005 => "++",
        x if x <= -0.005 => "--",
        _ => "  ",
    }
}
