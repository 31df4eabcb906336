//! What SentencePiece does to a text before it is cut: characters are replaced by a table, spaces become `▁`.

use super::character_map::CharacterMap;
use super::prefix_index::PrefixIndex;

/// What stands for a space.
pub(super) const SPACE: &str = "▁";
/// A table of texts and what they become, and what happens to spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalizer {
    map: CharacterMap,
    /// Whether a space is put before the text.
    adds_prefix: bool,
    /// Whether runs of spaces become one, and those at both ends none.
    removes_extra_spaces: bool,
    escapes_spaces: bool,
}

/// A normalised text, and for each of its bytes, and its end, where that comes from.
#[derive(Debug, Default)]
pub(super) struct NormalizedText {
    pub(super) text: String,
    pub(super) offsets: Vec<usize>,
}

impl Normalizer {
    /// Of `precompiled_charsmap`, `add_dummy_prefix`, `remove_extra_whitespaces` and `escape_whitespaces`.
    pub(super) fn new(map: &[u8], [adds_prefix, removes_extra, escapes]: [bool; 3]) -> Result<Normalizer, String> {
        let map = if map.is_empty() { CharacterMap::default() } else { CharacterMap::new(map)? };
        Ok(Normalizer { map, adds_prefix, removes_extra_spaces: removes_extra, escapes_spaces: escapes })
    }

    pub(super) fn has_map(&self) -> bool {
        !self.map.is_empty()
    }

    /// What the beginning of a text becomes, and how many bytes it has; at least one character.
    fn normalize_prefix<'a>(&'a self, text: &'a str, kept: &PrefixIndex) -> (usize, &'a str) {
        let whole = |bytes: usize| (bytes, &text[..bytes]);
        match kept.prefixes(text).last() {
            Some((bytes, _)) => whole(bytes),
            None => {
                self.map.longest_match(text).unwrap_or_else(|| whole(text.chars().next().map_or(0, char::len_utf8)))
            }
        }
    }

    /// Normalises a text; of `kept` every text stays as it is.
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
