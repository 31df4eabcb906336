//! Lines between words: attention weights at or above a threshold.

use super::table::FigureTable;
use super::{Canvas, Lang, TEXT_SIZE, estimated_text_width, four_decimals, json_numbers};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::width::truncate;
use chumoku::lang::show_controls;
use serde_json::{Value, json};

/// Lines between words.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionLines {
    /// The query words and the key words.
    pub words: [Vec<String>; 2],
    /// The weights, row by row; `None` where a key is masked.
    pub weights: Vec<Option<f32>>,
    /// The smallest weight that is drawn.
    pub(crate) threshold: f32,
}

/// A line from a query word to a key word, with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionLine {
    /// Index of the query word.
    pub from: usize,
    /// Index of the key word.
    pub to: usize,
    /// The attention weight.
    pub weight: f32,
}

impl AttentionLines {
    /// Returns the lines at or above the threshold, strongest first.
    #[must_use]
    pub fn visible_lines(&self) -> Vec<AttentionLine> {
        let columns = self.words[1].len().max(1);
        let all = self.weights.iter().enumerate();
        let mut found: Vec<AttentionLine> = all
            .filter_map(|(at, weight)| Some(AttentionLine { from: at / columns, to: at % columns, weight: (*weight)? }))
            .filter(|line| line.weight >= self.threshold)
            .collect();
        found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        found
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let step = 24.0;
        let name = |side: usize, i: usize| truncate(&show_controls(&self.words[side][i]), 20);
        let room = |side: usize| {
            (0..self.words[side].len()).map(|i| estimated_text_width(&name(side, i), TEXT_SIZE)).fold(60.0, f64::max)
        };
        let [left, right] = [x0 + room(0) + 10.0, x0 + room(0) + 270.0];
        let y = |i: usize| y0 + 36.0 + i as f64 * step;
        let headings = match canvas.lang {
            Lang::En => ["looks", "is looked at"],
            Lang::Ja => ["見る語", "見られる語"],
        };
        let soft = |at: [f64; 2], text: &str| SceneText::new(at, text, 12.0, Paint::SecondaryText);
        canvas.text(soft([left - 10.0, y0 + 8.0], headings[0]).with_anchor(TextAnchor::End));
        canvas.text(soft([right + 10.0, y0 + 8.0], headings[1]));
        // Strong lines are drawn last, on top of the others.
        for AttentionLine { from, to, weight } in self.visible_lines().into_iter().rev() {
            let says = format!("{} {} → {} {}: {:.2} %", from + 1, name(0, from), to + 1, name(1, to), 100.0 * weight);
            let ends = [left, y(from) - 4.5, right, y(to) - 4.5];
            let width = 0.6 + 4.4 * f64::from(weight.clamp(0.0, 1.0));
            // Light colors are left out: they would be invisible on paper.
            canvas.items.push(SceneItem::Line { ends, stroke: Paint::Share(0.2 + 0.8 * weight), width, says });
        }
        for (side, x, anchor) in [(0, left - 10.0, TextAnchor::End), (1, right + 10.0, TextAnchor::Start)] {
            for i in 0..self.words[side].len() {
                canvas.text(SceneText::new([x, y(i)], name(side, i), TEXT_SIZE, Paint::Text).with_anchor(anchor));
            }
        }
        // The largest weight of each word in numbers.
        let shown = self.visible_lines();
        let numbers_at = right + 10.0 + room(1) + 24.0;
        let heading = canvas.lang.pick("strongest line of each word", "各語の最も強い線");
        canvas.text(soft([numbers_at, y0 + 8.0], heading));
        let mut widest = estimated_text_width(heading, 12.0);
        for from in 0..self.words[0].len() {
            if let Some(line) = shown.iter().find(|line| line.from == from) {
                let text = format!("{} → {} {:.1} %", name(0, from), name(1, line.to), 100.0 * line.weight);
                widest = widest.max(estimated_text_width(&text, 12.0));
                canvas.text(SceneText::new([numbers_at, y(from)], text, 12.0, Paint::SecondaryText));
            }
        }
        [numbers_at + widest, y(self.words[0].len().max(self.words[1].len())) - step + 8.0]
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let head = match lang {
            Lang::En => ["looks", "is looked at", "weight"],
            Lang::Ja => ["見る語", "見られる語", "重み"],
        };
        let rows = self.visible_lines().into_iter().map(|AttentionLine { from, to, weight }| {
            let named = |side: usize, i: usize| format!("{} {}", i + 1, self.words[side][i]);
            (named(0, from), vec![named(1, to), four_decimals(weight.into())])
        });
        FigureTable { caption: String::new(), head: head.map(String::from).to_vec(), rows: rows.collect() }
    }

    pub(super) fn to_json(&self) -> Value {
        let shown = self.visible_lines();
        let weights: Vec<f32> = shown.iter().map(|line| line.weight).collect();
        json!({
            "words": self.words,
            "threshold": chumoku::explain::json_number(self.threshold),
            "from": shown.iter().map(|line| line.from).collect::<Vec<usize>>(),
            "to": shown.iter().map(|line| line.to).collect::<Vec<usize>>(),
            "weights": json_numbers(&weights),
        })
    }
}
