//! What SentencePiece does to a text before it is cut: characters are replaced by a table, spaces become `▁`.

use super::sorted::Sorted;
use crate::tr;

/// What stands for a space.
pub(super) const SPACE: &str = "▁";
/// Bytes of the longest text that one match becomes.
const LONGEST: usize = 256;
/// Bytes of the longest match.
const DEEPEST: usize = 128;

/// A table of texts and what they become, and what happens to spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Normalizer {
    /// The units of a double array of bytes (Aoe 1989), as Darts-clone writes it.
    trie: Vec<u32>,
    /// What the matches become, each ended by a byte 0.
    replaced: String,
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
        let plain = Normalizer { adds_prefix, removes_extra, escapes, ..Normalizer::default() };
        if map.is_empty() {
            return Ok(plain);
        }
        let wrong = || {
            tr!(
                "precompiled_charsmap: expected a table of characters, found what cannot be one",
                "precompiled_charsmap: 文字の対応表として正しくありません"
            )
        };
        let (size, rest) = map.split_first_chunk::<4>().ok_or_else(wrong)?;
        let size = usize::try_from(u32::from_le_bytes(*size)).map_err(|_| wrong())?;
        let (trie, replaced) = rest.split_at_checked(size).ok_or_else(wrong)?;
        let (units, left) = trie.as_chunks::<4>();
        if !left.is_empty() || units.is_empty() {
            return Err(wrong());
        }
        let replaced = std::str::from_utf8(replaced).map_err(|_| wrong())?;
        if let Some(text) = replaced.split('\0').find(|text| text.len() > LONGEST) {
            let bytes = text.len();
            return Err(tr!(
                "precompiled_charsmap: a character becomes {bytes} bytes, expected at most {LONGEST}",
                "precompiled_charsmap: 1 文字が {bytes} バイトになります。{LONGEST} バイトまでです"
            ));
        }
        let trie = units.iter().map(|&unit| u32::from_le_bytes(unit)).collect();
        Ok(Normalizer { trie, replaced: replaced.to_owned(), ..plain })
    }

    pub(super) fn has_map(&self) -> bool {
        !self.trie.is_empty()
    }

    /// The longest match at the beginning of a text: its bytes, and what it becomes.
    fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let offset = |unit: u32| ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize;
        let mut at = offset(*self.trie.first()?);
        let mut found = None;
        for (i, &byte) in text.as_bytes().iter().enumerate().take(DEEPEST) {
            at ^= usize::from(byte);
            let Some(&unit) = self.trie.get(at) else { break };
            if unit & ((1 << 31) | 0xff) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if (unit >> 8) & 1 == 1 && text.is_char_boundary(i + 1) {
                let value = self.trie.get(at).map(|unit| (unit & 0x7fff_ffff) as usize);
                let rest = value.and_then(|value| self.replaced.get(value..));
                found = rest.map(|rest| (i + 1, rest.split('\0').next().unwrap_or_default())).or(found);
            }
        }
        found
    }

    /// What the beginning of a text becomes, and how many bytes it has; at least one character.
    fn first<'a>(&'a self, text: &'a str, kept: &Sorted) -> (usize, &'a str) {
        let whole = |bytes: usize| (bytes, &text[..bytes]);
        match kept.prefixes(text).last() {
            Some((bytes, _)) => whole(bytes),
            None => self.longest(text).unwrap_or_else(|| whole(text.chars().next().map_or(0, char::len_utf8))),
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
