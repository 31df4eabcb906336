//! What SentencePiece does to a text before it is cut: characters are replaced by a table, spaces become `▁`.

use super::character_map::CharacterMap;
use super::sorted::Sorted;

/// What stands for a space.
pub(super) const SPACE: &str = "▁";
/// A table of texts and what they become, and what happens to spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalizer {
    map: CharacterMap,
    /// Whether a space is put before the text.
    adds_prefix: bool,
    /// Whether runs of spaces become one, and those at both ends none.
    removes_extra: bool,
    escapes: bool,
}

/// A normalised text, and for each of its bytes, and its end, where that comes from.
#[derive(Debug, Default)]
pub(super) struct Normalized {
    pub(super) text: String,
    pub(super) from: Vec<usize>,
}

impl Normalizer {
    /// Of `precompiled_charsmap`, `add_dummy_prefix`, `remove_extra_whitespaces` and `escape_whitespaces`.
    pub(super) fn new(map: &[u8], [adds_prefix, removes_extra, escapes]: [bool; 3]) -> Result<Normalizer, String> {
        let map = if map.is_empty() { CharacterMap::default() } else { CharacterMap::new(map)? };
        Ok(Normalizer { map, adds_prefix, removes_extra, escapes })
    }

    pub(super) fn has_map(&self) -> bool {
        !self.map.is_empty()
    }

    /// What the beginning of a text becomes, and how many bytes it has; at least one character.
    fn first<'a>(&'a self, text: &'a str, kept: &Sorted) -> (usize, &'a str) {
        let whole = |bytes: usize| (bytes, &text[..bytes]);
        match kept.prefixes(text).last() {
            Some((bytes, _)) => whole(bytes),
            None => self.map.longest(text).unwrap_or_else(|| whole(text.chars().next().map_or(0, char::len_utf8))),
        }
    }

    /// Normalises a text; of `kept` every text stays as it is.
    pub(super) fn normalize(&self, text: &str, kept: &Sorted) -> Normalized {
        let space = if self.escapes { SPACE } else { " " };
        let mut to = Normalized::default();
        let mut push = |part: &str, from: usize| {
            to.text.push_str(part);
            to.from.extend(std::iter::repeat_n(from, part.len()));
        };
        let mut at = 0;
        while self.removes_extra && at < text.len() {
            let (bytes, becomes) = self.first(&text[at..], kept);
            if becomes != " " {
                break;
            }
            at += bytes;
        }
        if at == text.len() {
            to.from.push(at);
            return to;
        }
        if self.adds_prefix {
            push(space, at);
        }
        let mut is_after_space = self.removes_extra;
        while at < text.len() {
            let (bytes, becomes) = self.first(&text[at..], kept);
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
            is_after_space &= self.removes_extra;
        }
        let mut end = at;
        while self.removes_extra && to.text.ends_with(space) {
            let length = to.text.len() - space.len();
            end = to.from[length];
            to.text.truncate(length);
            to.from.truncate(length);
        }
        to.from.push(end);
        to
    }
}
