//! The heatmap of attention: words on both axes, a number in each cell, the scale beside them.

use super::scene::{Anchor, Item, Rgb, Scene};
use crate::view::{Lang, cut, display_width};

/// What a heatmap shows. Rows are queries, columns keys, row 1 on top.
pub struct Heatmap<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below the title.
    pub subtitle: &'a str,
    /// The words of the queries.
    pub rows: Vec<String>,
    /// The words of the keys.
    pub columns: Vec<String>,
    /// The weight of a row and a column, 0 to 1; none where the column cannot be seen.
    pub weight: &'a dyn Fn(usize, usize) -> Option<f32>,
    /// The language of what is said.
    pub lang: Lang,
}

const INK: Rgb = [0x17, 0x21, 0x2b];
const SOFT: Rgb = [0x5b, 0x68, 0x75];
const PAPER: Rgb = [0xff, 0xff, 0xff];
/// From nothing to all.
const SCALE: [Rgb; 6] = [
    [0xf1, 0xf5, 0xf3],
    [0xc3, 0xde, 0xd5],
    [0x86, 0xc0, 0xb8],
    [0x3d, 0x9a, 0x9c],
    [0x21, 0x64, 0x7d],
    [0x17, 0x36, 0x5c],
];

/// The colour of a share of the scale.
fn shade(share: f32) -> Rgb {
    let place = share.clamp(0.0, 1.0) * (SCALE.len() - 1) as f32;
    let low = (place as usize).min(SCALE.len() - 2);
    let part = place - low as f32;
    std::array::from_fn(|i| {
        let [from, to] = [SCALE[low][i], SCALE[low + 1][i]].map(f32::from);
        (from + (to - from) * part).round() as u8
    })
}

/// How light a colour looks, 0 to 1 (WCAG 2).
fn luminance(colour: Rgb) -> f32 {
    let [r, g, b] = colour.map(|x| {
        let x = f32::from(x) / 255.0;
        if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Ink or paper, whichever stands out more.
fn readable_on(colour: Rgb) -> Rgb {
    let against = |other: Rgb| {
        let [a, b] = [luminance(colour), luminance(other)];
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    };
    if against(INK) >= against(PAPER) { INK } else { PAPER }
}

/// A weight in a cell: two decimals without the 0 before them.
pub(super) fn short(weight: f32) -> String {
    match weight {
        w if w >= 0.995 => "1".into(),
        w if w < 0.005 => if w > 0.0 { "<.01" } else { "0" }.into(),
        w => format!("{w:.2}").trim_start_matches('0').to_owned(),
    }
}

const LABEL: usize = 16;
const SIZE: f64 = 13.0;

impl Heatmap<'_> {
    /// The picture.
    pub fn scene(&self) -> Scene {
        let [n, m] = [self.rows.len(), self.columns.len()];
        // Numbers stand in cells as long as they can be read.
        let cell = match n.max(m) {
            0..=12 => 44.0,
            13..=24 => 36.0,
            25..=60 => 20.0,
            _ => (1200.0 / n.max(m) as f64).max(4.0),
        };
        let has_numbers = cell >= 36.0;
        let label_size = SIZE.min(cell * 0.8).max(6.0);
        let name = |i: usize, word: &str| format!("{} {}", i + 1, cut(&crate::view::clean(word), LABEL));
        let widest = |words: &[String]| {
            let widths = words.iter().enumerate().map(|(i, word)| display_width(&name(i, word)));
            widths.max().unwrap_or(0) as f64 * label_size * 0.58
        };
        let [row_room, column_room] = [widest(&self.rows), widest(&self.columns)];
        let (left, top) = (40.0 + row_room, 96.0 + column_room * 0.82);
        let [width, height] = [m as f64 * cell, n as f64 * cell];
        let [queries, keys] = match self.lang {
            Lang::En => ["queries: the words that look", "keys: the words that are looked at"],
            Lang::Ja => ["クエリ：見る語", "キー：見られる語"],
        };
        let text = |at: [f64; 2], text: String, size: f64, fill: Rgb, anchor: Anchor| Item::Text {
            at,
            text,
            size,
            fill,
            anchor,
            turned: 0.0,
            is_bold: false,
        };
        let turned = |item: Item, degrees: f64| match item {
            Item::Text { at, text, size, fill, anchor, is_bold, .. } => {
                Item::Text { at, text, size, fill, anchor, turned: degrees, is_bold }
            }
            other => other,
        };
        let mut items = vec![
            Item::Text {
                at: [24.0, 34.0],
                text: self.title.into(),
                size: 18.0,
                fill: INK,
                anchor: Anchor::Start,
                turned: 0.0,
                is_bold: true,
            },
            text([24.0, 56.0], self.subtitle.into(), SIZE, SOFT, Anchor::Start),
            text([left + width / 2.0, 80.0], keys.into(), 12.0, SOFT, Anchor::Middle),
            turned(text([20.0, top + height / 2.0], queries.into(), 12.0, SOFT, Anchor::Middle), -90.0),
        ];
        for (j, word) in self.columns.iter().enumerate() {
            let at = [left + (j as f64 + 0.5) * cell + label_size * 0.3, top - 8.0];
            items.push(turned(text(at, name(j, word), label_size, INK, Anchor::Start), -55.0));
        }
        for (i, word) in self.rows.iter().enumerate() {
            let y = top + i as f64 * cell;
            items.push(text(
                [left - 8.0, y + cell / 2.0 + label_size * 0.36],
                name(i, word),
                label_size,
                INK,
                Anchor::End,
            ));
            for (j, key) in self.columns.iter().enumerate() {
                let area = [left + j as f64 * cell + 0.5, y + 0.5, cell - 1.0, cell - 1.0];
                let Some(weight) = (self.weight)(i, j) else {
                    items.push(Item::Hatched(area));
                    continue;
                };
                let fill = shade(weight);
                items.push(Item::Rect { area, fill, says: self.sentence(word, key, weight) });
                if has_numbers {
                    let at = [left + (j as f64 + 0.5) * cell, y + cell / 2.0 + 4.2];
                    items.push(text(at, short(weight), 12.0, readable_on(fill), Anchor::Middle));
                }
            }
        }
        // The scale, always from 0 to 1, so that pictures compare.
        let x = left + width + 28.0;
        let scale = height.clamp(120.0, 240.0);
        const STEPS: usize = 48;
        for step in 0..STEPS {
            let share = 1.0 - (step as f32 + 0.5) / STEPS as f32;
            let area = [x, top + scale * step as f64 / STEPS as f64, 14.0, scale / STEPS as f64 + 0.6];
            items.push(Item::Rect { area, fill: shade(share), says: String::new() });
        }
        for share in [0.0, 0.5, 1.0] {
            let y = top + scale * (1.0 - share) + 4.2;
            items.push(text([x + 20.0, y], format!("{share}"), 12.0, SOFT, Anchor::Start));
        }
        // Labels of the last columns lean out to the right, and titles may be longer than the map is wide.
        let leaning = left + width + column_room * 0.6;
        let titles = [(self.title, 18.0), (self.subtitle, SIZE)];
        let longest = titles.map(|(text, size)| 24.0 + display_width(text) as f64 * size * 0.56);
        Scene {
            width: (x + 56.0).max(leaning).max(longest[0]).max(longest[1]).ceil() + 12.0,
            height: (top + height.max(scale) + 28.0).ceil(),
            description: format!("{} – {}", self.title, self.subtitle),
            background: PAPER,
            items,
        }
    }

    fn sentence(&self, query: &str, key: &str, weight: f32) -> String {
        let percent = f64::from(weight) * 100.0;
        match self.lang {
            Lang::En => format!("{query} gives {percent:.1} % of its attention to {key}"),
            Lang::Ja => format!("{query}はアテンションの {percent:.1} % を{key}に向ける"),
        }
    }
}
