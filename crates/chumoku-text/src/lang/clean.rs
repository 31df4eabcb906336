//! Text of others, made safe to say.

use unicode_width::UnicodeWidthStr;

/// Makes a text safe to print on one line.
///
/// A text may hold escape sequences, line feeds or marks that reverse the order of what follows, and would
/// then change the screen around it. Those become visible signs instead.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{0}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => out.push('\u{2421}'),
            // XML has no place for the last two.
            '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            '\u{2028}' | '\u{2029}' => out.push('\u{2424}'),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push('\u{fffd}');
            }
            _ => out.push(c),
        }
    }
    if !out.is_empty() && out.width() == 0 {
        // A mark alone would sit on whatever stands before it.
        out.insert(0, '\u{25cc}');
    }
    out
}

/// Like [`clean`], for running text: line feeds and tabs are spaces, and the two texts of a [pair](crate::pair) have a bar
/// between them.
pub fn clean_text(text: &str) -> String {
    let text = crate::pair::shown(text);
    let spaced: Vec<&str> = text.split_whitespace().collect();
    clean(&spaced.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_cannot_leave_the_word() {
        assert_eq!(clean("\u{1b}[31mred"), "␛[31mred");
        assert_eq!(clean("a\nb\tc\u{9b}"), "a␊b␉c\u{fffd}");
        assert_eq!(clean("\u{202e}abc"), "\u{fffd}abc");
        assert_eq!(clean("\u{301}"), "\u{25cc}\u{301}");
        assert_eq!(clean_text(" a\n\n b\t"), "a b");
    }
}
