//! Curves: numbers along an axis.

use super::heatmap::FigureAxis;
use super::table::FigureTable;
use super::{Canvas, four_decimals, json_numbers};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::width::unsigned_zero;
use serde_json::{Value, json};

/// Curves over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The axis and its labels.
    pub x: FigureAxis,
    /// Name of the numbers.
    pub y: String,
    /// The name of each curve and its number at each place. NaN is a missing number; the curve connects its neighbors.
    pub series: Vec<(String, Vec<f32>)>,
    /// True for a logarithmic scale; all numbers must then be above 0.
    pub is_logarithmic: bool,
    /// Minimum and maximum at each place of each curve, drawn as bars; empty for curves without a spread.
    pub spread: Vec<Vec<[f32; 2]>>,
    /// Numbers of each curve between its places, as many after each place but the last. Curves of a formula are drawn
    /// through them; empty for curves that are only known at their places.
    pub between: Vec<Vec<f32>>,
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 300.0;
/// Side length of a point that has a spread, or is the only one of its curve.
const POINT_SIZE: f64 = 7.0;
/// Maximum span, in powers of ten, of a logarithmic axis with ticks between the powers.
const MAX_MINOR_TICK_DECADES: i32 = 4;

/// Returns a round step that divides `span` into about five parts.
pub(super) fn round_step(span: f64) -> f64 {
    let raw = (span / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|x| x * power).into_iter().find(|&x| x >= raw).unwrap_or(raw)
}

impl Curves {
    fn axis_value(&self, y: f32) -> f64 {
        if self.is_logarithmic { f64::from(y).max(f64::MIN_POSITIVE).log10() } else { f64::from(y) }
    }

    /// Formats a number with four decimals, and its spread if it has one.
    fn value_text(&self, series: usize, place: usize) -> String {
        let number = self.series[series].1[place];
        if number.is_nan() {
            return "–".into();
        }
        let number = four_decimals(number.into());
        match self.spread.get(series).and_then(|bars| bars.get(place)).map(|bar| bar.map(|y| four_decimals(y.into()))) {
            Some([least, most]) => format!("{number} ({least}–{most})"),
            None => number,
        }
    }

    /// Returns the ends of an axis for these numbers, and its ticks with labels.
    fn ticks(&self, low: f64, high: f64) -> ([f64; 2], Vec<(f64, String)>) {
        if !self.is_logarithmic {
            let by = round_step(high - low);
            let (low, high) = ((low / by).floor() * by, (high / by).ceil() * by);
            let digits = if by < 1.0 { 1 - by.log10().floor() as i32 } else { 0 } as usize;
            let tick = |value: f64| (value, unsigned_zero(format!("{value:.digits$}")).replace('-', "−"));
            let count = ((high - low) / by).round() as usize;
            return ([low, high], (0..=count).map(|i| tick(low + by * i as f64)).collect());
        }
        let powers = low.floor() as i32..=high.ceil() as i32;
        let digits: &[u32] = if powers.end() - powers.start() <= MAX_MINOR_TICK_DECADES { &[1, 2, 5] } else { &[1] };
        // Parsed from text, because powers with negative exponents are not exact.
        let numbers = powers.flat_map(|power| digits.iter().map(move |digit| format!("{digit}e{power}")));
        let numbers = numbers.filter_map(|text| text.parse::<f64>().ok());
        let ticks: Vec<(f64, String)> = numbers.map(|x| (x.log10(), x.to_string())).collect();
        let first = ticks.iter().rposition(|tick| tick.0 <= low).unwrap_or(0);
        let last = ticks.iter().position(|tick| tick.0 >= high).unwrap_or(ticks.len() - 1);
        ([ticks[first].0, ticks[last].0], ticks[first..=last].to_vec())
    }

    pub(super) fn draw(&self, place: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        self.draw_in_range(None, HEIGHT, place, canvas)
    }

    /// Draws the curves at this height, over `range` or, without one, the range of the numbers.
    pub(super) fn draw_in_range(
        &self,
        range: Option<[f64; 2]>,
        height: f64,
        [x0, y0]: [f64; 2],
        canvas: &mut Canvas<'_>,
    ) -> [f64; 2] {
        let (left, top) = (x0 + 56.0, y0 + 18.0);
        let numbers = self.series.iter().flat_map(|(_, numbers)| numbers);
        let all = numbers.chain(self.spread.iter().flatten().flatten()).map(|&y| self.axis_value(y));
        let (low, high) = all.filter(|y| y.is_finite()).fold((f64::MAX, f64::MIN), |(a, b), y| (a.min(y), b.max(y)));
        let (low, high) = match low {
            _ if low < high => (low, high),
            // Numbers that are never below 0 have an axis that starts at 0.
            0.0 => (0.0, 1.0),
            _ => (low.min(0.0) - 1.0, high.max(0.0) + 1.0),
        };
        let (low, high) = range.map_or((low, high), |[low, high]| (low, high));
        let ([low, high], ticks) = self.ticks(low, high);
        let count = self.x.labels.len().max(2);
        let x = |i: usize| left + WIDTH * i as f64 / (count - 1) as f64;
        let y = |value: f64| top + height * (high - value) / (high - low);
        let soft = |at: [f64; 2], text: String| SceneText::new(at, text, 12.0, Paint::SecondaryText);
        canvas.text(soft([x0, y0 + 4.0], self.y.clone()));
        for (value, text) in ticks {
            let ends = [left, y(value), left + WIDTH, y(value)];
            canvas.items.push(SceneItem::Line { ends, stroke: Paint::GuideLine, width: 1.0, says: String::new() });
            canvas.text(soft([left - 8.0, y(value) + 4.0], text).with_anchor(TextAnchor::End));
        }
        let every = self.x.labels.len().div_ceil(12).max(1);
        for (i, label) in self.x.labels.iter().enumerate().step_by(every) {
            canvas.text(soft([x(i), top + height + 18.0], label.clone()).with_anchor(TextAnchor::Middle));
        }
        let below = [left + WIDTH / 2.0, top + height + 36.0];
        canvas.text(soft(below, self.x.name.clone()).with_anchor(TextAnchor::Middle));
        for (index, (name, numbers)) in self.series.iter().enumerate() {
            let stroke = Paint::Series(index);
            let says = |i: usize| format!("{name}, {}: {}", self.x.labels[i], self.value_text(index, i));
            let between = self.between.get(index).map_or(&[][..], Vec::as_slice);
            let inner = between.len() / numbers.len().saturating_sub(1).max(1);
            let known = numbers.iter().enumerate().map(|(i, &number)| (i, self.axis_value(number)));
            let known: Vec<(usize, f64)> = known.filter(|(_, number)| number.is_finite()).collect();
            for pair in known.windows(2) {
                let [(i, from), (j, to)] = [pair[0], pair[1]];
                let inside = if j == i + 1 { &between[i * inner..j * inner] } else { &[] };
                let inside = inside.iter().map(|&y| self.axis_value(y));
                let points: Vec<f64> = std::iter::once(from).chain(inside).chain([to]).collect();
                let part = (x(j) - x(i)) / (points.len() - 1) as f64;
                for (k, ends) in points.windows(2).enumerate().filter(|(_, ends)| ends.iter().all(|y| y.is_finite())) {
                    let left = x(i) + part * k as f64;
                    let ends = [left, y(ends[0]), left + part, y(ends[1])];
                    let says = if k == 0 { says(i) } else { String::new() };
                    canvas.items.push(SceneItem::Line { ends, stroke, width: 1.8, says });
                }
            }
            if let [(i, number)] = known[..] {
                let area = [x(i) - POINT_SIZE / 2.0, y(number) - POINT_SIZE / 2.0, POINT_SIZE, POINT_SIZE];
                canvas.items.push(SceneItem::Rect { area, fill: stroke, says: says(i) });
            }
            for (i, (bar, number)) in self.spread.get(index).into_iter().flatten().zip(numbers).enumerate() {
                let says = format!("{name}, {}: {}", self.x.labels[i], self.value_text(index, i));
                let [least, most, middle] = [bar[0], bar[1], *number].map(|number| y(self.axis_value(number)));
                let ends = [x(i), least, x(i), most];
                canvas.items.push(SceneItem::Line { ends, stroke, width: 1.5, says: says.clone() });
                let area = [x(i) - POINT_SIZE / 2.0, middle - POINT_SIZE / 2.0, POINT_SIZE, POINT_SIZE];
                canvas.items.push(SceneItem::Rect { area, fill: stroke, says });
            }
            let at = [left + WIDTH + 22.0, top + 14.0 + 20.0 * index as f64];
            canvas.items.push(SceneItem::Line {
                ends: [at[0], at[1] - 4.0, at[0] + 18.0, at[1] - 4.0],
                stroke,
                width: 2.4,
                says: String::new(),
            });
            canvas.text(SceneText::new([at[0] + 24.0, at[1]], name.clone(), 12.0, Paint::Text));
        }
        let names = self.series.iter().map(|(name, _)| super::estimated_text_width(name, 12.0)).fold(0.0, f64::max);
        [left + WIDTH + 50.0 + names, top + height + 40.0]
    }

    pub(super) fn table(&self) -> FigureTable {
        let head = [self.x.name.clone()].into_iter().chain(self.series.iter().map(|(name, _)| name.clone()));
        let rows = self.x.labels.iter().enumerate().map(|(i, label)| {
            (label.clone(), (0..self.series.len()).map(|series| self.value_text(series, i)).collect())
        });
        FigureTable { caption: self.y.clone(), head: head.collect(), rows: rows.collect() }
    }

    pub(super) fn to_json(&self) -> Value {
        let series = self.series.iter().enumerate().map(|(index, (name, y))| {
            let mut series = json!({ "name": name, "values": json_numbers(y) });
            if let Some(bars) = self.spread.get(index) {
                series["spread"] = bars.iter().map(|bar| json_numbers(bar)).collect();
            }
            series
        });
        json!({ "x": { "name": self.x.name, "labels": self.x.labels }, "y": self.y, "series": series.collect::<Value>() })
    }
}
