//! A text in colors of the effect of each word on an answer.

use super::table::FigureTable;
use super::{Canvas, Lang, TEXT_SIZE, estimated_text_width, four_decimals};
use crate::marked_words::{fill_lines, largest_effect, styled_words};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::terminal::Painter as TerminalPaint;
use crate::width::{signed_number, truncate};
use chumoku::explain::{HighlightedWord, json_number};
use chumoku::lang::show_controls;
use serde_json::{Value, json};

/// A text with the effect of each word on an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ColoredText {
    /// The words in text order.
    pub words: Vec<HighlightedWord>,
    /// Meanings of blue and of orange.
    pub(crate) legend: [String; 2],
}

const WIDTH: f64 = 720.0;
/// Maximum length of a text with a number below each word. In longer texts only words with at least a quarter of the
/// largest effect have one.
const MAX_NUMBERED_WORDS: usize = 60;
/// Height of a number.
const NUMBER_HEIGHT: f64 = 10.0;
/// Height of a colored word.
const WORD_HEIGHT: f64 = 22.0;
/// Maximum width of a word in columns.
const MAX_WORD_WIDTH: usize = 48;

fn format_signed(x: f32) -> String {
    signed_number(x, 2).replace('-', "−")
}

impl ColoredText {
    fn relative_effect(&self, word: &HighlightedWord) -> f32 {
        let most = largest_effect(&self.words);
        if most > 0.0 { word.effect.unwrap_or(0.0) / most } else { 0.0 }
    }

    /// Returns whether the number of a word is shown.
    fn has_number(&self, word: &HighlightedWord) -> bool {
        word.effect.is_some() && (self.words.len() <= MAX_NUMBERED_WORDS || self.relative_effect(word).abs() >= 0.25)
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let mut y = self.draw_scale([x0, y0 + 4.0], canvas) + 16.0;
        // Each word with its place on the line and the end of the line.
        let mut lines: Vec<Vec<(usize, f64, f64)>> = vec![Vec::new()];
        let (mut x, mut right) = (x0, x0 + 300.0);
        for (i, word) in self.words.iter().enumerate() {
            let Some(effect) = word.effect else {
                // The second text of a pair starts below the first.
                lines.extend([vec![(i, x0, WIDTH)], Vec::new()]);
                x = x0;
                continue;
            };
            let text = truncate(&show_controls(&word.text), MAX_WORD_WIDTH);
            let number =
                if self.has_number(word) { estimated_text_width(&format_signed(effect), NUMBER_HEIGHT) } else { 0.0 };
            let wide = (estimated_text_width(&text, TEXT_SIZE) + 6.0).max(number);
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
                    canvas.items.push(SceneItem::Line {
                        ends,
                        stroke: Paint::GuideLine,
                        width: 1.0,
                        says: String::new(),
                    });
                    y -= WORD_HEIGHT;
                    continue;
                };
                let (level, text, middle) =
                    (self.relative_effect(word), truncate(&show_controls(&word.text), MAX_WORD_WIDTH), x + wide / 2.0);
                let says = format!("{} {text}: {}", i + 1, format_signed(effect));
                canvas.items.push(SceneItem::Rect {
                    area: [x, y, wide, WORD_HEIGHT],
                    fill: Paint::Signed(level),
                    says,
                });
                canvas.text(
                    SceneText::new([middle, y + 15.5], text, TEXT_SIZE, Paint::TextOnSigned(level))
                        .with_anchor(TextAnchor::Middle),
                );
                if self.has_number(word) {
                    let at = [middle, y + WORD_HEIGHT + NUMBER_HEIGHT];
                    canvas.text(
                        SceneText::new(at, format_signed(effect), NUMBER_HEIGHT, Paint::SecondaryText)
                            .with_anchor(TextAnchor::Middle),
                    );
                }
            }
            y += WORD_HEIGHT + if has_numbers { NUMBER_HEIGHT + 8.0 } else { 6.0 };
        }
        [right, y - 6.0]
    }

    /// Draws the color scale; returns its lower edge.
    fn draw_scale(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> f64 {
        const PARTS: usize = 17;
        let (most, part) = (largest_effect(&self.words), 14.0);
        let soft = |at: [f64; 2], text: String| SceneText::new(at, text, 12.0, Paint::SecondaryText);
        let [favour, against] = &self.legend;
        let mut x = x0;
        if !against.is_empty() {
            canvas.text(soft([x, y0 + 11.0], against.clone()));
            x += estimated_text_width(against, 12.0) + 8.0;
        }
        let left = x;
        for i in 0..PARTS {
            let level = i as f32 / (PARTS / 2) as f32 - 1.0;
            let area = [x, y0, part, 14.0];
            canvas.items.push(SceneItem::Rect { area, fill: Paint::Signed(level), says: String::new() });
            x += part;
        }
        for (at, text) in [(left, format_signed(-most)), ((left + x) / 2.0, "0".into()), (x, format_signed(most))] {
            canvas.text(
                SceneText::new([at, y0 + 14.0 + 12.0], text, NUMBER_HEIGHT, Paint::SecondaryText)
                    .with_anchor(TextAnchor::Middle),
            );
        }
        canvas.text(soft([x + 8.0, y0 + 11.0], favour.clone()));
        y0 + 28.0
    }

    /// Returns lines for a terminal: the text, with numbers after strong words.
    pub(super) fn terminal_lines(&self, width: usize, paint: TerminalPaint) -> Vec<String> {
        let pieces =
            styled_words(&self.words, |i| self.relative_effect(&self.words[i]).abs() >= 0.25, (width - 2, paint));
        let all: Vec<usize> = (0..pieces.len()).collect();
        let mut lines: Vec<String> =
            fill_lines(&pieces, &all, width - 2).into_iter().map(|line| format!("  {line}")).collect();
        lines.push(String::new());
        let [favour, against] = &self.legend;
        let ends = [("+", favour), ("−", against)].into_iter().filter(|(_, text)| !text.is_empty());
        lines.extend(
            ends.map(|(sign, text)| format!("  {}", paint.quiet(&truncate(&format!("{sign} {text}"), width - 2)))),
        );
        lines
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let head = match lang {
            Lang::En => ["word", "effect"],
            Lang::Ja => ["語", "影響"],
        };
        let shown = self.words.iter().filter(|word| word.effect.is_some()).enumerate();
        let row = |(i, word): (usize, &HighlightedWord)| {
            (format!("{} {}", i + 1, word.text), vec![four_decimals(word.effect.unwrap_or(0.0).into())])
        };
        FigureTable { caption: String::new(), head: head.map(String::from).to_vec(), rows: shown.map(row).collect() }
    }

    pub(super) fn to_json(&self) -> Value {
        let word = |word: &HighlightedWord| json!({ "text": word.text, "effect": word.effect.map(json_number) });
        json!({ "words": self.words.iter().map(word).collect::<Value>(), "ends": self.legend })
    }
}
