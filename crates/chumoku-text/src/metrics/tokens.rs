//! The tokenizers of BLEU, which cut a line into the tokens that are counted.

use super::is_space;

/// What BLEU counts as a token. Scores with different tokenizers do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BleuTokenizer {
    /// The tokenizer of WMT's `mteval-v13a`, for languages that put spaces between words.
    #[default]
    V13a,
    /// Every character is a token: for Japanese and Chinese, where no dictionary decides what a word is.
    Char,
}

/// The marks that 13a always sets apart: those of ASCII except the apostrophe, comma, hyphen and full stop.
fn is_punctuation(c: char) -> bool {
    matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

fn is_period_or_comma(c: char) -> bool {
    matches!(c, '.' | ',')
}

impl BleuTokenizer {
    /// Its name in a signature.
    pub fn name(self) -> &'static str {
        match self {
            BleuTokenizer::V13a => "13a",
            BleuTokenizer::Char => "char",
        }
    }

    /// The tokens of a line, with a space between each two.
    pub fn tokenize(self, line: &str) -> String {
        let line = line.trim_end_matches(is_space);
        match self {
            BleuTokenizer::V13a => v13a(line),
            BleuTokenizer::Char => join_tokens(line.chars().filter(|&c| !is_space(c)).map(String::from)),
        }
    }
}

fn join_tokens<S: AsRef<str>>(tokens: impl Iterator<Item = S>) -> String {
    let mut out = String::new();
    for token in tokens {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(token.as_ref());
    }
    out
}

/// As `mteval-v13a` does it, and sacreBLEU after it, in the same order.
fn v13a(line: &str) -> String {
    let line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let line = line.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let mut text = vec![' '];
    for c in line.chars() {
        if is_punctuation(c) { text.extend([' ', c, ' ']) } else { text.push(c) }
    }
    // The mark rule also widens the spaces around the line; how many there are does not matter.
    text.push(' ');
    let text = separate_pairs(&text, |c| !c.is_ascii_digit(), is_period_or_comma, [false, true, true]);
    let text = separate_pairs(&text, is_period_or_comma, |c| !c.is_ascii_digit(), [true, true, false]);
    let text = separate_pairs(&text, |c| c.is_ascii_digit(), |c| c == '-', [false, true, true]);
    join_tokens(super::words(&String::from_iter(text)))
}

/// Sets neighbours apart: each pair that fits the two tests, from left to right without overlap, gets a space before,
/// between or behind, as `spaces` says.
fn separate_pairs(
    text: &[char],
    first: impl Fn(char) -> bool,
    second: impl Fn(char) -> bool,
    [before, between, behind]: [bool; 3],
) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 4);
    let mut rest = text;
    while let [a, tail @ ..] = rest {
        match tail {
            [b, behind_them @ ..] if first(*a) && second(*b) => {
                let space = |wanted: bool| wanted.then_some(' ');
                let parts = [space(before), Some(*a), space(between), Some(*b), space(behind)];
                out.extend(parts.into_iter().flatten());
                rest = behind_them;
            }
            _ => {
                out.push(*a);
                rest = tail;
            }
        }
    }
    out
}
