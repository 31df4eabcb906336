//! SentencePiece's normalization: a map replaces characters, and spaces become `▁`.

use super::character_map::CharacterMap;
use super::prefix_index::PrefixIndex;

/// The symbol for a space.
pub(super) const SPACE: &str = "▁";
/// A character map and the rules for spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalizer {
    map: CharacterMap,
    /// Put a space before the text.
    adds_prefix: bool,
    /// Collapse runs of spaces into one, and strip them at both ends.
    removes_extra_spaces: bool,
    escapes_spaces: bool,
}

/// A normalized text with offsets: for each of its bytes, and its end, the position in the original text.
#[derive(Debug, Default)]
pub(super) struct NormalizedText {
    pub(super) text: String,
    pub(super) offsets: Vec<usize>,
}

impl Normalizer {
    /// Creates the normalizer from `precompiled_charsmap`, `add_dummy_prefix`, `remove_extra_whitespaces` and
    /// `escape_whitespaces`.
    pub(super) fn new(map: &[u8], [adds_prefix, removes_extra, escapes]: [bool; 3]) -> Result<Normalizer, String> {
        let map = if map.is_empty() { CharacterMap::default() } else { CharacterMap::new(map)? };
        Ok(Normalizer { map, adds_prefix, removes_extra_spaces: removes_extra, escapes_spaces: escapes })
    }

    pub(super) fn has_map(&self) -> bool {
        !self.map.is_empty()
    }

    /// Normalizes the start of a text: at least one character. Returns its length in bytes and its replacement.
    fn normalize_prefix<'a>(&'a self, text: &'a str, kept: &PrefixIndex) -> (usize, &'a str) {
        let whole = |bytes: usize| (bytes, &text[..bytes]);
        match kept.prefixes(text).last() {
            Some((bytes, _)) => whole(bytes),
            None => {
                self.map.longest_match(text).unwrap_or_else(|| whole(text.chars().next().map_or(0, char::len_utf8)))
            }
        }
    }

    /// Normalizes a text. The texts in `kept` stay unchanged.
    pub(super) fn normalize(&self, text: &str, kept: &PrefixIndex) -> NormalizedText {
        let space = if self.escapes_spaces { SPACE } else { " " };
        let mut to = NormalizedText::default();
        let mut push = |part: &str, from: usize| {
            to.text.push_str(part);
            to.offsets.extend(std::iter::repeat_n(from, part.len()));
        };
        let mut at = 0;
        while self.removes_extra_spaces && at < text.len() {
            let (bytes, becomes) = self.normalize_prefix(&text[at..], kept);
            if becomes != " " {
                break;
            }
            at += bytes;
        }
        if at == text.len() {
            to.offsets.push(at);
            return to;
        }
        if self.adds_prefix {
            push(space, at);
        }
        let mut is_after_space = self.removes_extra_spaces;
        while at < text.len() {
            let (bytes, becomes) = self.normalize_prefix(&text[at..], kept);
            let new = if is_after_space { becomes.trim_start_matches(' ') } else { becomes };
            for part in new.split_inclusive(' ') {
                let word = part.strip_suffix(' ');
                push(word.unwrap_or(part), at);
                if word.is_some() {
                    push(space, at);
                }
            }
            if !new.is_empty() {
                is_after_space = new.ends_with(' ');
            }
            at += bytes;
            is_after_space &= self.removes_extra_spaces;
        }
        let mut end = at;
        while self.removes_extra_spaces && to.text.ends_with(space) {
            let length = to.text.len() - space.len();
            end = to.offsets[length];
            to.text.truncate(length);
            to.offsets.truncate(length);
        }
        to.offsets.push(end);
        to
    }
}
