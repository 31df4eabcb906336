//! Words with what they do, as running text in lines of a terminal.

use crate::terminal::Painter;
use crate::width::{display_width, truncate};
use chumoku::explain::HighlightedWord;
use chumoku::lang::show_controls;

/// Columns of a word.
const MAX_WORD_WIDTH: usize = 40;

/// A word as it is written, and how wide that is.
pub(crate) struct StyledWord {
    text: String,
    width: usize,
    is_spaced: bool,
}

/// The largest effect of some words, whichever its sign.
pub(crate) fn largest_effect(words: &[HighlightedWord]) -> f32 {
    words.iter().filter_map(|word| word.effect).fold(0.0f32, |most, x| most.max(x.abs()))
}

/// Words as they are written in lines so wide: strong ones in colour, some with their effect behind them.
pub(crate) fn styled_words(
    words: &[HighlightedWord],
    has_number: impl Fn(usize) -> bool,
    (width, paint): (usize, Painter),
) -> Vec<StyledWord> {
    let most = largest_effect(words);
    let piece = |(i, word): (usize, &HighlightedWord)| {
        let effect = word.effect.unwrap_or(0.0);
        let mut text = truncate(&show_controls(&word.text), MAX_WORD_WIDTH.min(width.saturating_sub(12)));
        if has_number(i) {
            text += &format!("({effect:+.2})");
        }
        let width = display_width(&text);
        let level = if most > 0.0 { effect / most } else { 0.0 };
        let text = if level.abs() >= 0.25 { paint.signed(level, &text) } else { text };
        StyledWord { text, width, is_spaced: word.is_spaced }
    };
    words.iter().enumerate().map(piece).collect()
}

/// Some of the pieces in lines, with `…` where others are missing; of a width of 12 or more.
pub(crate) fn fill_lines(pieces: &[StyledWord], shown: &[usize], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    let mut put = |text: &str, wide: usize, is_spaced: bool| {
        let space = usize::from(is_spaced && used > 0);
        // What closes something does not begin a line.
        let closes = !is_spaced && wide <= 2 && text.chars().all(|c| "。、．，,.!?！？…」』）)]".contains(c));
        let room = if closes { width } else { width - 2 };
        if used > 0 && used + space + wide > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if space > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(text);
        used += wide;
    };
    let mut next = 0;
    for &i in shown {
        if i > next {
            put("…", 1, true);
        }
        put(&pieces[i].text, pieces[i].width, pieces[i].is_spaced || i > next);
        next = i + 1;
    }
    if next < pieces.len() {
        put("…", 1, true);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}
