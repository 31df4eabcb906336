//! The tokenizers of BLEU.

use super::is_space;

/// The unit of tokens that BLEU counts. Scores with different tokenizers do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BleuTokenizer {
    /// The tokenizer of WMT's `mteval-v13a`, for languages with spaces between words.
    #[default]
    V13a,
    /// One token per character, for Japanese and Chinese, where word boundaries depend on a dictionary.
    Char,
}

/// Returns whether 13a always separates this character: ASCII punctuation except the apostrophe, comma, hyphen and
/// period.
fn is_punctuation(c: char) -> bool {
    matches!(c, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

fn is_period_or_comma(c: char) -> bool {
    matches!(c, '.' | ',')
}

impl BleuTokenizer {
    /// The name of the tokenizer in a signature.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BleuTokenizer::V13a => "13a",
            BleuTokenizer::Char => "char",
        }
    }

    /// Returns the tokens of a line, separated by spaces.
    pub(crate) fn tokenize(self, line: &str) -> String {
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

/// Applies the rules of `mteval-v13a` in the order of sacreBLEU.
fn v13a(line: &str) -> String {
    let line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let line = line.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let mut text = vec![' '];
    for c in line.chars() {
        if is_punctuation(c) { text.extend([' ', c, ' ']) } else { text.push(c) }
    }
    // The punctuation rule also widens the spaces at both ends. Their number does not matter.
    text.push(' ');
    let text = separate_pairs(&text, |c| !c.is_ascii_digit(), is_period_or_comma, [false, true, true]);
    let text = separate_pairs(&text, is_period_or_comma, |c| !c.is_ascii_digit(), [true, true, false]);
    let text = separate_pairs(&text, |c| c.is_ascii_digit(), |c| c == '-', [false, true, true]);
    join_tokens(super::words(&String::from_iter(text)))
}

/// Separates neighboring characters. Scans from left to right without overlap and puts spaces before, between or after
/// each pair that satisfies both predicates.
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
                let space = |is_needed: bool| is_needed.then_some(' ');
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
