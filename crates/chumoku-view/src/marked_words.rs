//! Words marked by their effect, as running text in a terminal.

use crate::terminal::Painter;
use crate::width::{display_width, signed_number, truncate};
use chumoku::explain::HighlightedWord;
use chumoku::lang::show_controls;

/// Maximum width of a word in columns.
const MAX_WORD_WIDTH: usize = 40;

/// A styled word and its width.
pub(crate) struct StyledWord {
    text: String,
    width: usize,
    is_spaced: bool,
}

/// Effects that are smaller are printed as 0.00, and have no color.
const SMALLEST_EFFECT: f32 = 0.005;

/// Returns the largest absolute effect, or 0 if all effects are printed as 0.00.
pub(crate) fn largest_effect(words: &[HighlightedWord]) -> f32 {
    let most = words.iter().filter_map(|word| word.effect).fold(0.0f32, |most, x| most.max(x.abs()));
    if most < SMALLEST_EFFECT { 0.0 } else { most }
}

/// Styles words for lines of this width: strong words are colored, and `has_number` selects those followed by their
/// effect.
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
            text += &format!("({})", signed_number(effect, 2));
        }
        let width = display_width(&text);
        let level = if most > 0.0 { effect / most } else { 0.0 };
        let text = if level.abs() >= 0.25 { paint.signed(level, &text) } else { text };
        StyledWord { text, width, is_spaced: word.is_spaced }
    };
    words.iter().enumerate().map(piece).collect()
}

/// Fills lines with some of the words and marks gaps with `…`. The width must be 12 or more.
pub(crate) fn fill_lines(pieces: &[StyledWord], shown: &[usize], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    let mut put = |text: &str, wide: usize, is_spaced: bool| {
        let space = usize::from(is_spaced && used > 0);
        // Closing punctuation never starts a line.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colored_words::colored_words;

    #[test]
    fn effects_that_are_all_printed_as_zero_have_no_color() {
        let word = |effect: f32| HighlightedWord { text: "good".into(), effect: Some(effect), is_spaced: true };
        let colors = |effects: [f32; 2]| {
            let page = colored_words(&effects.map(word), 0..2, &|_| (false, String::new()));
            page.matches("<span class").count()
        };
        assert_eq!(largest_effect(&[word(0.004), word(-0.0049)]), 0.0);
        assert_eq!((colors([0.004, -0.0049]), colors([0.004, -0.006])), (0, 2));
    }
}
