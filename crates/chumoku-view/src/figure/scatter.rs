//! Predicted numbers over true ones.

use super::Canvas;
use super::curves::round_step;
use super::table::FigureTable;
use super::{Lang, four_decimals};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::width::unsigned_zero;
use serde_json::{Value, json};

/// One point for each text: the true number on the x-axis, the predicted number on the y-axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// True and predicted numbers.
    pub points: Vec<[f64; 2]>,
}

const SIDE: f64 = 360.0;
/// Maximum number of drawn points; more are thinned evenly.
const MAX_POINTS: usize = 3000;
/// Rows and columns of the picture in a terminal.
const GRID: [usize; 2] = [12, 48];

/// Formats a tick with the digits that the step `by` needs; numbers of many digits use a power of ten.
fn format_tick(value: f64, by: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&by) {
        let digits = (value.abs().log10().floor() - by.log10().floor()).max(0.0);
        return format!("{value:.*e}", digits as usize).replace('-', "−");
    }
    let digits = if by < 1.0 { -by.log10().floor() } else { 0.0 };
    unsigned_zero(format!("{value:.*}", digits as usize)).replace('-', "−")
}

impl Scatter {
    /// Returns the ends of both axes, rounded, and the step between ticks.
    fn axis_range(&self) -> [f64; 3] {
        let all = self.points.iter().flatten().filter(|x| x.is_finite());
        let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        let (low, high) = if low < high { (low, high) } else { (low.min(0.0) - 1.0, high.max(0.0) + 1.0) };
        let by = round_step(high - low);
        [(low / by).floor() * by, (high / by).ceil() * by, by]
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let [low, high, by] = self.axis_range();
        let (left, top) = (x0 + 56.0, y0 + 18.0);
        // Adds a margin, so that ratings do not lie on the border.
        let inset = 34.0;
        let place = |value: f64| inset + (SIDE - 2.0 * inset) * (value - low) / (high - low);
        let soft = |at: [f64; 2], text: String| SceneText::new(at, text, 12.0, Paint::SecondaryText);
        let [truth, predicted] = match canvas.lang {
            Lang::En => ["true number", "predicted"],
            Lang::Ja => ["真の値", "予測"],
        };
        canvas.text(soft([x0, y0 + 4.0], predicted.into()));
        let line = |ends, stroke, width| SceneItem::Line { ends, stroke, width, says: String::new() };
        for at in 0..=((high - low) / by).round() as usize {
            let value = low + by * at as f64;
            let (x, y) = (left + place(value), top + SIDE - place(value));
            canvas.items.push(line([left, y, left + SIDE, y], Paint::GuideLine, 1.0));
            canvas.items.push(line([x, top, x, top + SIDE], Paint::GuideLine, 1.0));
            canvas.text(soft([left - 8.0, y + 4.0], format_tick(value, by)).with_anchor(TextAnchor::End));
            canvas.text(soft([x, top + SIDE + 18.0], format_tick(value, by)).with_anchor(TextAnchor::Middle));
        }
        canvas.text(soft([left + SIDE / 2.0, top + SIDE + 36.0], truth.into()).with_anchor(TextAnchor::Middle));
        let [from, to] = [place(low), place(high)];
        canvas.items.push(line(
            [left + from, top + SIDE - from, left + to, top + SIDE - to],
            Paint::SecondaryText,
            1.2,
        ));
        let spread = self.jitter_width() * (SIDE - 2.0 * inset) / (high - low);
        let every = self.points.len().div_ceil(MAX_POINTS).max(1);
        for (i, &[truth, predicted]) in self.points.iter().enumerate().step_by(every) {
            if truth.is_finite() && predicted.is_finite() {
                // The golden ratio spreads any number of points evenly.
                let aside = spread * ((i as f64 * 0.618_033_988_749_895).fract() - 0.5);
                let (x, y) = (left + place(truth) + aside, top + SIDE - place(predicted));
                let area = [x - 1.4, y - 1.4, 2.8, 2.8];
                canvas.items.push(SceneItem::Rect { area, fill: Paint::Series(0), says: String::new() });
            }
        }
        [left + SIDE, top + SIDE + 40.0]
    }

    /// Returns the horizontal jitter that keeps points of equal true numbers from covering each other. It is less than
    /// the smallest distance between two true numbers.
    fn jitter_width(&self) -> f64 {
        let mut truth: Vec<f64> = self.points.iter().map(|[truth, _]| *truth).filter(|x| x.is_finite()).collect();
        truth.sort_by(f64::total_cmp);
        truth.dedup();
        let gap = truth.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::MAX, f64::min);
        if (2..=12).contains(&truth.len()) { 0.5 * gap } else { 0.0 }
    }

    /// Returns lines for a terminal; darker cells hold more points.
    pub(super) fn terminal_lines(&self, width: usize, lang: Lang) -> Vec<String> {
        const SHADES: [char; 6] = ['·', '░', '▒', '▓', '█', '█'];
        let [low, high, by] = self.axis_range();
        let [rows, columns] = [GRID[0], GRID[1].min(width.saturating_sub(14)).max(8)];
        let mut counts = vec![0usize; rows * columns];
        let cell = |value: f64, cells: usize| {
            ((value - low) / (high - low) * (cells - 1) as f64).round().clamp(0.0, (cells - 1) as f64) as usize
        };
        let drawn = self.points.iter().filter(|point| point.iter().all(|x| x.is_finite()));
        drawn.for_each(|&[truth, predicted]| {
            counts[(rows - 1 - cell(predicted, rows)) * columns + cell(truth, columns)] += 1;
        });
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let shade = |n: usize| match n {
            0 => ' ',
            // The square root keeps single points visible beside dense regions.
            n => SHADES[((n as f64 / most).sqrt() * 5.0) as usize],
        };
        let [truth, predicted] = match lang {
            Lang::En => ["true number", "predicted"],
            Lang::Ja => ["真の値", "予測"],
        };
        let middle = |row: usize| high - (high - low) * row as f64 / (rows - 1) as f64;
        let mut lines = vec![format!("  {predicted}")];
        for row in 0..rows {
            let name = if row % 3 == 0 || row == rows - 1 { format_tick(middle(row), 0.1 * by) } else { String::new() };
            let cells: String = (0..columns).map(|column| shade(counts[row * columns + column])).collect();
            lines.push(format!("{name:>8} │{}", cells.trim_end()));
        }
        lines.push(format!("{:>8} └{}", "", "─".repeat(columns)));
        let [first, last] = [format_tick(low, by), format_tick(high, by)];
        let between = columns.saturating_sub(first.chars().count() + last.chars().count());
        let name = crate::width::truncate(truth, between);
        let gap = between.saturating_sub(crate::width::display_width(&name));
        let before = " ".repeat(gap / 2);
        lines.push(format!("{:>10}{first}{before}{name}{}{last}", "", " ".repeat(gap - gap / 2)));
        lines
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let head = match lang {
            Lang::En => ["row", "true", "predicted"],
            Lang::Ja => ["行", "真の値", "予測"],
        };
        let row = |(i, point): (usize, &[f64; 2])| ((i + 1).to_string(), point.map(four_decimals).to_vec());
        let rows = self.points.iter().enumerate().map(row).collect();
        FigureTable { caption: String::new(), head: head.map(String::from).to_vec(), rows }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "points": self.points })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Content, Figure};
    use crate::terminal::TerminalOptions;

    fn figure(points: Vec<[f64; 2]>) -> Figure {
        let (title, subtitle) = (String::from("Predicted"), String::from("4 rows"));
        Figure { title, subtitle, notes: Vec::new(), content: Content::Scatter(Scatter { points }), lang: Lang::En }
    }

    #[test]
    fn points_are_drawn_at_their_numbers() {
        let scene = figure(vec![[1.0, 1.0], [5.0, 5.0], [5.0, 1.0]]).scene();
        let areas: Vec<[f64; 4]> = scene
            .items
            .iter()
            .filter_map(|item| if let SceneItem::Rect { area, .. } = item { Some(*area) } else { None })
            .collect();
        assert_eq!(areas.len(), 3);
        assert!(areas[1][0] > areas[0][0] + 200.0 && areas[1][1] < areas[0][1] - 200.0, "{areas:?}");
        assert!(areas[2][0] > areas[0][0] + 200.0 && (areas[2][1] - areas[0][1]).abs() < 1e-9, "{areas:?}");
        let many = figure((0..9001).map(|i| [f64::from(i), 0.0]).collect()).scene();
        let drawn = many.items.iter().filter(|item| matches!(item, SceneItem::Rect { .. })).count();
        assert!((2000..=MAX_POINTS).contains(&drawn), "{drawn}");
    }

    #[test]
    fn terminal_cells_with_more_points_are_darker() {
        let mut points = vec![[1.0, 1.0]; 100];
        points.push([5.0, 4.9]);
        let text = figure(points).to_text(&TerminalOptions::default());
        let lines: Vec<&str> = text.lines().collect();
        let top = lines.iter().find(|line| line.contains("5.0 │")).unwrap();
        let bottom = lines.iter().find(|line| line.contains("1.0 │")).unwrap();
        assert!(top.ends_with('·') && top.chars().count() > 50, "{text}");
        assert!(bottom.contains("│█"), "{text}");
        assert!(lines.last().unwrap().is_empty() || text.contains("true number"), "{text}");
        // An empty figure must not fail.
        for points in [vec![], vec![[f64::NAN, 1.0]], vec![[2.0, 2.0]]] {
            let figure = figure(points);
            assert!(figure.to_text(&TerminalOptions::default()).contains('└'));
            assert!(figure.scene().width > 300.0);
        }
    }
}
