//! Text in columns: width, truncation, alignment, and wrapping.
//!
//! Widths are those of a terminal: a Japanese character or an emoji takes two columns, a combining mark none. Text is
//! only cut between graphemes, so a letter keeps its accents and an emoji stays whole.

use chumoku::lang::show_controls;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns the width of a text in columns.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// Returns the replacement of a character in markup: HTML, SVG, and Markdown, which allows HTML.
pub fn escape_char(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}

/// Returns a text as markup that is safe to print and cannot run.
pub fn escape_markup(text: &str) -> String {
    let mut out = String::new();
    for c in show_controls(text).chars() {
        match escape_char(c) {
            Some(escaped) => out.push_str(escaped),
            None => out.push(c),
        }
    }
    out
}

/// Formats a formula as markup: text after `_` and the number of a head in brackets become subscripts. So does text in
/// braces after `_`. Letters that few fonts have, `ᵀ`, `ᵢ` and `ⱼ`, become elements too, because a browser searches all
/// fonts for them before it paints.
#[must_use]
pub fn with_subscripts(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['_', '[']) {
        let (before, after) = rest.split_at(at);
        out.push_str(&escape_markup(before));
        // The transposition sign is not part of the subscript.
        let is_index = |c: char| c.is_alphanumeric() && c != 'ᵀ';
        let index = |text: &str| text.len() - text.trim_start_matches(is_index).len();
        let (mut parts, mut left) = (Vec::new(), after);
        if let Some((name, more)) = left.strip_prefix("_{").and_then(|inside| inside.split_once('}')) {
            parts.push(name);
            left = more;
        } else if let Some(name) = left.strip_prefix('_').filter(|name| index(name) > 0) {
            let (name, more) = name.split_at(index(name));
            parts.push(name);
            left = more;
        }
        let head = left.strip_prefix('[').and_then(|inside| inside.split_once(']'));
        if let Some((head, more)) = head.filter(|(head, _)| head.parse::<usize>().is_ok()) {
            parts.push(head);
            left = more;
        }
        if parts.is_empty() {
            let (sign, more) = after.split_at(1);
            out.push_str(sign);
            left = more;
        } else {
            out.push_str(&format!("<sub>{}</sub>", escape_markup(&parts.join(","))));
        }
        rest = left;
    }
    out += &escape_markup(rest);
    RAISED_AND_LOWERED.iter().fold(out, |text, (sign, markup)| text.replace(sign, markup))
}

const RAISED_AND_LOWERED: [(&str, &str); 4] =
    [("ᵀ", "<sup>T</sup>"), ("ᵢⱼ", "<sub>ij</sub>"), ("ᵢ", "<sub>i</sub>"), ("ⱼ", "<sub>j</sub>")];

/// Truncates a text to a width and marks the cut with `…`.
pub fn truncate(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for grapheme in text.graphemes(true) {
        if display_width(&out) + display_width(grapheme) + 1 > width {
            break;
        }
        out.push_str(grapheme);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// Truncates or pads a text to exactly this width, with spaces after it.
pub fn align_left(text: &str, width: usize) -> String {
    let text = truncate(text, width);
    let space = width.saturating_sub(display_width(&text));
    format!("{text}{}", " ".repeat(space))
}

/// Truncates or pads a text to exactly this width, with spaces before it.
pub fn align_right(text: &str, width: usize) -> String {
    let text = truncate(text, width);
    let space = width.saturating_sub(display_width(&text));
    format!("{}{text}", " ".repeat(space))
}

/// Wraps text into lines of at most this width.
///
/// Lines break at spaces, and between any two Japanese or Chinese characters. They never break before closing
/// punctuation or after opening punctuation.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (space, unit) in break_units(text) {
        let space = if line.is_empty() { "" } else { space };
        if display_width(&line) + space.len() + display_width(&unit) <= width {
            line.push_str(space);
            line.push_str(&unit);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        // A unit wider than a whole line is broken anywhere.
        for grapheme in unit.graphemes(true) {
            if display_width(&line) + display_width(grapheme) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(grapheme);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Splits a text into unbreakable units, each with the space before it.
fn break_units(text: &str) -> Vec<(&'static str, String)> {
    let mut units: Vec<(&'static str, String)> = Vec::new();
    let mut space = "";
    // True if the next character belongs to the previous unit.
    let mut joined = false;
    for grapheme in text.graphemes(true) {
        if grapheme == " " || grapheme == "\n" {
            space = " ";
            joined = false;
            continue;
        }
        let free = breaks_anywhere(grapheme);
        // A percent sign stays with its number despite the space between them.
        if let (Some((_, last)), "%", " ") = (units.last_mut(), grapheme, space) {
            last.push_str(" %");
            (space, joined) = ("", true);
            continue;
        }
        // So does a Japanese counter: 2 つ目, 399 個.
        let counts = |last: &str| last.ends_with(|c: char| c.is_ascii_digit()) && free && space == " ";
        let is_counter = units.last().is_some_and(|(_, last)| counts(last));
        if let (Some((_, last)), true) = (units.last_mut(), is_counter) {
            last.push(' ');
            last.push_str(grapheme);
            (space, joined) = ("", false);
            continue;
        }
        // 第 stays with the number after it: 第 1 層.
        let is_ordinal = |last: &str| last.ends_with('第') && space == " " && starts_with_digit(grapheme);
        if let Some((_, last)) = units.last_mut().filter(|(_, last)| is_ordinal(last)) {
            last.push(' ');
            last.push_str(grapheme);
            (space, joined) = ("", true);
            continue;
        }
        match units.last_mut() {
            // An ordinal ends with 目.
            Some((_, last)) if grapheme == "目" && space.is_empty() && is_counted(last) => last.push_str(grapheme),
            Some((_, last)) if space.is_empty() && (joined && !free || closes_text(grapheme) || opens_at_end(last)) => {
                last.push_str(grapheme);
            }
            _ => units.push((space, grapheme.to_owned())),
        }
        space = "";
        joined = !free;
    }
    units
}

/// Returns whether a line may break on either side: kana, ideographs and full-width signs.
fn breaks_anywhere(grapheme: &str) -> bool {
    grapheme
        .chars()
        .next()
        .is_some_and(|c| matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}' | '\u{20000}'..='\u{3ffff}'))
}

/// Returns whether a line must not start with the grapheme.
fn closes_text(grapheme: &str) -> bool {
    matches!(
        grapheme,
        "、" | "。"
            | "，"
            | "．"
            | "」"
            | "』"
            | "）"
            | "］"
            | "】"
            | "："
            | "；"
            | "！"
            | "？"
            | "ー"
            | "・"
            | "々"
            | "ゃ"
            | "ゅ"
            | "ょ"
            | "っ"
            | "ャ"
            | "ュ"
            | "ョ"
            | "ッ"
            | "%"
            | "”"
            | ")"
            | ","
            | "."
    )
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns Japanese prose for a page, where no line breaks inside 第 1 層: its spaces become no-break spaces.
#[must_use]
pub fn join_ordinals(prose: &str) -> String {
    const ORDINAL: &str = "第 ";
    let mut out = String::with_capacity(prose.len());
    let mut rest = prose;
    while let Some((before, after)) = rest.split_once(ORDINAL) {
        out.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, more) = after.split_at(digits);
        let counter =
            more.strip_prefix(' ').filter(|more| digits > 0 && more.chars().next().is_some_and(|c| !c.is_ascii()));
        rest = match counter {
            Some(counter) => {
                out.push_str(&format!("第\u{a0}{number}\u{a0}"));
                counter
            }
            None => {
                out.push_str(ORDINAL);
                after
            }
        };
    }
    out + rest
}

/// Returns whether a unit ends with a number and a counter.
fn is_counted(unit: &str) -> bool {
    let before = unit.trim_end_matches(|c: char| !c.is_ascii()).strip_suffix(' ');
    before.is_some_and(|number| number.ends_with(|c: char| c.is_ascii_digit()))
}

/// Returns whether a line must not end with the unit.
fn opens_at_end(unit: &str) -> bool {
    unit.ends_with(['「', '『', '（', '［', '【', '(', '"', '“'])
}

/// Formats a number with its sign and this many decimals. A number that is rounded to zero has no sign.
pub(crate) fn signed_number(x: impl Into<f64>, digits: usize) -> String {
    unsigned_zero(format!("{:+.digits$}", x.into()))
}

/// Removes the sign of a formatted number whose digits are all 0: a sign would claim more than the digits.
pub(crate) fn unsigned_zero(number: String) -> String {
    match number.strip_prefix(['+', '-', '−']) {
        Some(digits) if digits.chars().all(|c| c == '0' || c == '.') => digits.to_owned(),
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_become_subscripts() {
        let cases = [
            ("S_scaled[1] = S[1] / √2", "S<sub>scaled,1</sub> = S<sub>1</sub> / √2"),
            ("[H[1] … H[8]]", "[H<sub>1</sub> … H<sub>8</sub>]"),
            ("A: n × h·d_k = 3 × 4", "A: n × h·d<sub>k</sub> = 3 × 4"),
            ("S_biased + (0 | −∞) < a_", "S<sub>biased</sub> + (0 | −∞) &lt; a_"),
            ("h_t = g(h_{t−1}, x_t)", "h<sub>t</sub> = g(h<sub>t−1</sub>, x<sub>t</sub>)"),
            ("a_{b < W_Q", "a_{b &lt; W<sub>Q</sub>"),
            ("dQ W_Qᵀ", "dQ W<sub>Q</sub><sup>T</sup>"),
            ("−Σᵢⱼ {0} / maxⱼ x", "−Σ<sub>ij</sub> {0} / max<sub>j</sub> x"),
        ];
        for (text, expected) in cases {
            assert_eq!(with_subscripts(text), expected);
        }
    }

    #[test]
    fn no_line_breaks_inside_an_ordinal() {
        let text = "アテンション：第 1 層、ヘッド 2。第 12 層の後の「猫」";
        for width in 8..30 {
            for line in wrap(text, width) {
                assert!(
                    !line.ends_with('第') && !line.starts_with('層') && !line.ends_with(['1', '2']),
                    "{width}: {line}"
                );
            }
        }
        let joined = "アテンション：第\u{a0}1\u{a0}層、ヘッド 2。第\u{a0}12\u{a0}層の後の「猫」";
        assert_eq!(join_ordinals(text), joined);
        for other in ["第 x 層", "第 ", "第 3", "第 3 a", "次第 です", ""] {
            assert_eq!(join_ordinals(other), other);
        }
    }

    #[test]
    fn markup_has_no_characters_that_xml_forbids() {
        let text: String = (0..=0xffff).filter_map(char::from_u32).collect();
        let marked = escape_markup(&text);
        assert!(!marked.contains(|c: char| c.is_control() || ['\u{fffe}', '\u{ffff}', '<', '>', '"'].contains(&c)));
    }

    #[test]
    fn display_width_of_scripts() {
        assert_eq!(display_width("word"), 4);
        assert_eq!(display_width("注目"), 4);
        assert_eq!(display_width("が"), 2, "ka and a combining voiced mark");
        assert_eq!(display_width("👩‍👩‍👧"), 2);
        assert_eq!(display_width("e\u{301}"), 1);
    }

    #[test]
    fn cut_never_splits_a_grapheme() {
        assert_eq!(truncate("注目する", 5), "注目…");
        assert_eq!(truncate("注目する", 4), "注…");
        assert_eq!(truncate("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(align_left("注", 3), "注 ");
        assert_eq!(align_right("👍", 4), "  👍");
        assert_eq!(truncate("ab", 0), "");
    }

    #[test]
    fn wrap_keeps_marks_in_place() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("これは、例です。", 8), ["これは、", "例です。"]);
        assert_eq!(wrap("これは、例です。", 6), ["これ", "は、例", "です。"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("of “注目”", 5), ["of", "“注", "目”"]);
        assert_eq!(wrap("about 48 %.", 8), ["about", "48 %."]);
        assert_eq!(wrap("テキストの 2 つ目", 14), ["テキストの", "2 つ目"]);
        assert_eq!(wrap("ヘッド 399 個の値", 11), ["ヘッド", "399 個の値"]);
        assert!(wrap("", 10).is_empty());
    }

    #[test]
    fn rounded_zeros_have_no_sign() {
        let cases = [(0.0, "0.00"), (-0.004, "0.00"), (0.004, "0.00"), (-0.006, "-0.01"), (10.0, "+10.00")];
        for (x, expected) in cases {
            assert_eq!(signed_number(x, 2), expected);
        }
        assert_eq!(signed_number(f32::NAN, 2), "NaN");
        assert_eq!(unsigned_zero("−0.00".into()), "0.00");
    }
}
