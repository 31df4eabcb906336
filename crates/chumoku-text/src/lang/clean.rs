//! Makes text from users and files safe to print.

use crate::row::AsRow;
use unicode_width::UnicodeWidthStr;

/// Makes a text safe to print on one line.
///
/// Escape sequences, line feeds and marks that reverse the text order would change the screen around the text. They are
/// replaced by visible symbols.
pub fn show_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{0}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => out.push('\u{2421}'),
            // XML does not allow the last two.
            '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            '\u{2028}' | '\u{2029}' => out.push('\u{2424}'),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push('\u{fffd}');
            }
            _ => out.push(c),
        }
    }
    if !out.is_empty() && out.width() == 0 {
        // A combining mark alone would attach to the character before it.
        out.insert(0, '\u{25cc}');
    }
    out
}

/// Returns whether a character would break a line, control a terminal, or reverse the order of the text after it. These
/// are control characters, line and paragraph separators, and marks that embed or isolate a direction.
#[must_use]
pub fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces harmful characters ([`is_harmful`]) by spaces. Use it for labels, paths and lines of files in terminal
/// output, tables and headings.
#[must_use]
pub fn sanitize(text: &str) -> String {
    text.replace(is_harmful, " ")
}

/// Makes a text safe with [`sanitize`] and escapes Markdown syntax (links, images, HTML, code, cell borders) for
/// headings and table cells.
#[must_use]
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_harmful(c) => out.push(' '),
            '\\' | '`' | '[' | ']' | '<' | '>' | '|' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// Like [`show_controls`], for running text: line feeds and tabs become spaces, and a bar separates the two texts of a
/// [pair](crate::row).
pub fn show_controls_in_text(row: impl AsRow) -> String {
    show_controls_in_line(&row.as_row().display())
}

fn show_controls_in_line(text: &str) -> String {
    let spaced: Vec<&str> = text.split_whitespace().collect();
    show_controls(&spaced.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line_and_in_order() {
        let foreign = "a\u{1b}[31m\nb\u{9b}\u{202e}c\u{2028}d\u{2067}e";
        assert_eq!(sanitize(foreign), "a [31m b  c d e");
        assert_eq!(escape_markdown(foreign), "a \\[31m b  c d e");
        assert_eq!(escape_markdown("![x](http://a) | `b` <c>"), "!\\[x\\](http://a) \\| \\`b\\` \\<c\\>");
        // Arabic and Hebrew need these marks.
        assert_eq!(sanitize("\u{200f}\u{5d0}!"), "\u{200f}\u{5d0}!");
    }

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(show_controls("\u{1b}[31mred"), "␛[31mred");
        assert_eq!(show_controls("a\nb\tc\u{9b}"), "a␊b␉c\u{fffd}");
        assert_eq!(show_controls("\u{202e}abc"), "\u{fffd}abc");
        assert_eq!(show_controls("\u{301}"), "\u{25cc}\u{301}");
        assert_eq!(show_controls_in_text(" a\n\n b\t"), "a b");
    }
}
