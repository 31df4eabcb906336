//! A text in colours of what each word does to an answer.

use super::table::Table;
use super::{Canvas, Lang, SIZE, drawn_width, four};
use crate::marked::{filled, most, pieces};
use crate::picture::{Anchor, Item, Paint, Text};
use crate::terminal::Paint as TerminalPaint;
use crate::width::cut;
use chumoku::explain::{MarkedWord, number};
use chumoku::lang::clean;
use serde_json::{Value, json};

/// A text, word by word, with what each does to an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// The words, in the order of the text.
    pub words: Vec<MarkedWord>,
    /// What blue stands for, and orange.
    pub ends: [String; 2],
}

const WIDTH: f64 = 720.0;
/// Words of a text that has a number below each; of a longer one, those whose effect is at least a quarter of the largest.
const NUMBERED: usize = 60;
/// Height of a number.
const SMALL: f64 = 10.0;
/// Height of a word's colour.
const HEIGHT: f64 = 22.0;
/// Columns of a word.
const WORD: usize = 48;

fn signed(x: f32) -> String {
    let text = format!("{x:+.2}").replace('-', "−");
    if text.trim_start_matches(['+', '−']).chars().all(|c| c == '0' || c == '.') { "0.00".into() } else { text }
}

impl Effects {
    fn level(&self, word: &MarkedWord) -> f32 {
        let most = most(&self.words);
        if most > 0.0 { word.effect.unwrap_or(0.0) / most } else { 0.0 }
    }

    /// Whether a word's number stands beside it.
    fn has_number(&self, word: &MarkedWord) -> bool {
        word.effect.is_some() && (self.words.len() <= NUMBERED || self.level(word).abs() >= 0.25)
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let mut y = self.draw_scale([x0, y0 + 4.0], canvas) + 16.0;
        // Each word with its place in its line, and that line's end.
        let mut lines: Vec<Vec<(usize, f64, f64)>> = vec![Vec::new()];
        let (mut x, mut right) = (x0, x0 + 300.0);
        for (i, word) in self.words.iter().enumerate() {
            let Some(effect) = word.effect else {
                // The second text of a pair begins below the first.
                lines.extend([vec![(i, x0, WIDTH)], Vec::new()]);
                x = x0;
                continue;
            };
            let text = cut(&clean(&word.text), WORD);
            let number = if self.has_number(word) { drawn_width(&signed(effect), SMALL) } else { 0.0 };
            let wide = (drawn_width(&text, SIZE) + 6.0).max(number);
            let before = if word.is_spaced { 5.0 } else { 1.0 };
            if x > x0 && x + before + wide > x0 + WIDTH {
                lines.push(Vec::new());
                x = x0;
            } else if x > x0 {
                x += before;
            }
            lines.last_mut().expect("there is one").push((i, x, wide));
            x += wide;
            right = f64::max(right, x);
        }
        for line in &lines {
            let has_numbers = line.iter().any(|&(i, ..)| self.has_number(&self.words[i]));
            for &(i, x, wide) in line {
                let word = &self.words[i];
                let Some(effect) = word.effect else {
                    let ends = [x, y - 1.0, x + wide, y - 1.0];
                    canvas.items.push(Item::Line { ends, stroke: Paint::Faint, width: 1.0, says: String::new() });
                    y -= HEIGHT;
                    continue;
                };
                let (level, text, middle) = (self.level(word), cut(&clean(&word.text), WORD), x + wide / 2.0);
                let says = format!("{} {text}: {}", i + 1, signed(effect));
                canvas.items.push(Item::Rect { area: [x, y, wide, HEIGHT], fill: Paint::Signed(level), says });
                canvas.text(Text::new([middle, y + 15.5], text, SIZE, Paint::OnSigned(level)).anchored(Anchor::Middle));
                if self.has_number(word) {
                    let at = [middle, y + HEIGHT + SMALL];
                    canvas.text(Text::new(at, signed(effect), SMALL, Paint::Soft).anchored(Anchor::Middle));
                }
            }
            y += HEIGHT + if has_numbers { SMALL + 8.0 } else { 6.0 };
        }
        [right, y - 6.0]
    }

    /// The scale; its lower end.
    fn draw_scale(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> f64 {
        const PARTS: usize = 17;
        let (most, part) = (most(&self.words), 14.0);
        let soft = |at: [f64; 2], text: String| Text::new(at, text, 12.0, Paint::Soft);
        let [favour, against] = &self.ends;
        let mut x = x0;
        if !against.is_empty() {
            canvas.text(soft([x, y0 + 11.0], against.clone()));
            x += drawn_width(against, 12.0) + 8.0;
        }
        let left = x;
        for i in 0..PARTS {
            let level = i as f32 / (PARTS / 2) as f32 - 1.0;
            let area = [x, y0, part, 14.0];
            canvas.items.push(Item::Rect { area, fill: Paint::Signed(level), says: String::new() });
            x += part;
        }
        for (at, text) in [(left, signed(-most)), ((left + x) / 2.0, "0".into()), (x, signed(most))] {
            canvas.text(Text::new([at, y0 + 14.0 + 12.0], text, SMALL, Paint::Soft).anchored(Anchor::Middle));
        }
        canvas.text(soft([x + 8.0, y0 + 11.0], favour.clone()));
        y0 + 28.0
    }

    /// Lines of a terminal: the text, and behind strong words their number.
    pub(super) fn lines(&self, width: usize, paint: TerminalPaint) -> Vec<String> {
        let pieces = pieces(&self.words, |i| self.level(&self.words[i]).abs() >= 0.25, (width - 2, paint));
        let all: Vec<usize> = (0..pieces.len()).collect();
        let mut lines: Vec<String> =
            filled(&pieces, &all, width - 2).into_iter().map(|line| format!("  {line}")).collect();
        lines.push(String::new());
        let [favour, against] = &self.ends;
        let ends = [("+", favour), ("−", against)].into_iter().filter(|(_, said)| !said.is_empty());
        lines.extend(ends.map(|(sign, said)| format!("  {}", paint.quiet(&cut(&format!("{sign} {said}"), width - 2)))));
        lines
    }

    pub(super) fn table(&self, lang: Lang) -> Table {
        let head = match lang {
            Lang::En => ["word", "effect"],
            Lang::Ja => ["語", "影響"],
        };
        let shown = self.words.iter().filter(|word| word.effect.is_some()).enumerate();
        let row = |(i, word): (usize, &MarkedWord)| {
            (format!("{} {}", i + 1, word.text), vec![four(word.effect.unwrap_or(0.0).into())])
        };
        Table { caption: String::new(), head: head.map(String::from).to_vec(), rows: shown.map(row).collect() }
    }

    pub(super) fn to_json(&self) -> Value {
        let word = |word: &MarkedWord| json!({ "text": word.text, "effect": word.effect.map(number) });
        json!({ "words": self.words.iter().map(word).collect::<Value>(), "ends": self.ends })
    }
}
