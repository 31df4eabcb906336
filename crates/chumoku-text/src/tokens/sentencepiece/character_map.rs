//! A map from texts to replacements: SentencePiece's `precompiled_charsmap`, which `tokenizer.json` contains too.

use crate::tr;

/// Longest replacement of one match, in bytes.
const MAX_REPLACEMENT_BYTES: usize = 256;
/// Longest match, in bytes.
const MAX_MATCH_BYTES: usize = 128;

/// Texts and their replacements.
#[derive(Clone, Debug, Default)]
pub(in crate::tokens) struct CharacterMap {
    /// The units of a byte-wise double-array trie (Aoe 1989), in the format of Darts-clone.
    trie: Vec<u32>,
    /// The replacements, each followed by a zero byte.
    replacements: String,
}

/// The offset to a unit's children, applied with XOR.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

/// Returns whether a match ends at a unit.
fn has_leaf(unit: u32) -> bool {
    (unit >> 8) & 1 == 1
}

/// The byte that leads to a unit. An additional bit is set if no byte does.
fn label(unit: u32) -> u32 {
    unit & ((1 << 31) | 0xff)
}

fn invalid_map() -> String {
    tr!(
        "precompiled_charsmap: expected a character map, found invalid data",
        "precompiled_charsmap: 文字の対応表として正しくありません"
    )
}

impl CharacterMap {
    /// Parses the size of the trie in bytes, the trie, and the replacements.
    ///
    /// # Errors
    /// If the bytes have another format.
    pub(in crate::tokens) fn new(map: &[u8]) -> Result<CharacterMap, String> {
        let (size, rest) = map.split_first_chunk::<4>().ok_or_else(invalid_map)?;
        let size = usize::try_from(u32::from_le_bytes(*size)).map_err(|_| invalid_map())?;
        let (trie, replaced) = rest.split_at_checked(size).ok_or_else(invalid_map)?;
        let (units, left) = trie.as_chunks::<4>();
        if !left.is_empty() || units.is_empty() {
            return Err(invalid_map());
        }
        let replaced = std::str::from_utf8(replaced).map_err(|_| invalid_map())?;
        if let Some(text) = replaced.split('\0').find(|text| text.len() > MAX_REPLACEMENT_BYTES) {
            let bytes = text.len();
            return Err(tr!(
                "precompiled_charsmap: a character becomes {bytes} bytes, expected at most {MAX_REPLACEMENT_BYTES}",
                "precompiled_charsmap: 1 文字が {bytes} バイトになります。{MAX_REPLACEMENT_BYTES} バイトまでです"
            ));
        }
        let trie = units.iter().map(|&unit| u32::from_le_bytes(unit)).collect();
        Ok(CharacterMap { trie, replacements: replaced.to_owned() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trie.is_empty()
    }

    /// Returns the replacement of the match whose value is at `at`.
    fn replacement_at(&self, at: usize) -> Option<&str> {
        let value = (self.trie.get(at)? & 0x7fff_ffff) as usize;
        self.replacements.get(value..)?.split('\0').next()
    }

    /// Returns the longest match at the start of a text: its length in bytes and its replacement.
    pub(super) fn longest_match(&self, text: &str) -> Option<(usize, &str)> {
        let mut at = offset(*self.trie.first()?);
        let mut found = None;
        for (i, &byte) in text.as_bytes().iter().enumerate().take(MAX_MATCH_BYTES) {
            at ^= usize::from(byte);
            let Some(&unit) = self.trie.get(at) else { break };
            if label(unit) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if has_leaf(unit) && text.is_char_boundary(i + 1) {
                found = self.replacement_at(at).map(|becomes| (i + 1, becomes)).or(found);
            }
        }
        found
    }

    /// Returns the largest factor by which the number of bytes may grow in the `tokenizers` library. That library
    /// follows the map without bounds checks, and takes the shortest match for a whole character.
    ///
    /// # Errors
    /// If a path through the trie leads outside of it, or to no replacement.
    pub(in crate::tokens) fn max_growth(&self) -> Result<f64, String> {
        for (at, &unit) in self.trie.iter().enumerate() {
            // Values are not reached by a byte. (The root is the start of all paths.)
            if at > 0 && unit >> 31 == 1 {
                continue;
            }
            let next = at ^ offset(unit);
            let is_inside = next | 0xff < self.trie.len();
            if !is_inside || (has_leaf(unit) && self.replacement_at(next).is_none()) {
                return Err(invalid_map());
            }
        }
        let longest = self.replacements.split('\0').map(str::len).max().unwrap_or(0);
        let of_byte = |byte: u8| {
            let at = offset(self.trie[0]) ^ usize::from(byte);
            let unit = self.trie[at];
            let is_match = label(unit) == u32::from(byte) && has_leaf(unit);
            is_match.then(|| self.replacement_at(at ^ offset(unit)).map_or(0, str::len))
        };
        // Everything except a single ASCII byte has at least two bytes.
        let of_ascii = (0..0x80).filter_map(of_byte).max().unwrap_or(0);
        Ok((longest as f64 / 2.0).max(of_ascii as f64).max(1.0))
    }
}

#[cfg(test)]
pub(in crate::tokens) mod tests {
    use super::*;

    /// A map that replaces "A" by "a", and "é" by two letters.
    pub(in crate::tokens) fn table() -> Vec<u8> {
        let mut units = vec![0u32; 512];
        let mut put = |at: usize, unit: u32| units[at] = unit;
        // The root's children are at their bytes. A leaf is next to its parent.
        put(0x41, 0x41 | 1 << 8 | 1 << 10);
        put(0x40, 1 << 31);
        put(0xc3, 0xc3 | 256 << 10);
        put(0xc3 ^ 256 ^ 0xa9, 0xa9 | 1 << 8 | 1 << 10);
        put(0xc3 ^ 256 ^ 0xa9 ^ 1, 1 << 31 | 2);
        let trie: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        [&(trie.len() as u32).to_le_bytes()[..], &trie, b"a\0ee\0"].concat()
    }

    fn growth(change: impl Fn(&mut CharacterMap)) -> Result<f64, String> {
        let mut map = CharacterMap::new(&table()).unwrap();
        change(&mut map);
        map.max_growth()
    }

    #[test]
    fn growth_is_computed_from_the_shortest_matches() {
        assert_eq!(growth(|_| {}), Ok(1.0));
        // "A", one byte, is replaced by the text at 0.
        assert_eq!(growth(|map| map.replacements.insert_str(0, "wxyz")), Ok(5.0));
        // "é" has two bytes.
        assert_eq!(growth(|map| map.replacements.insert_str(2, "vwxyz")), Ok(3.5));
    }

    #[test]
    fn paths_out_of_the_trie_are_refused() {
        // Children beyond the end, of the root and of another unit, and a truncated block.
        assert!(growth(|map| map.trie[0] |= 512 << 10).is_err());
        assert!(growth(|map| map.trie[0xc3] = 0xc3 | 512 << 10).is_err());
        assert!(growth(|map| map.trie.truncate(511)).is_err());
        // The root's children follow from its offset, whatever its other bits are.
        assert!(growth(|map| map.trie[0] = 1 << 31 | 512 << 10).is_err());
        // A value beyond the replacements, and one inside a character.
        assert!(growth(|map| map.trie[0x40] = 1 << 31 | 6).is_err());
        assert!(growth(|map| map.replacements = "é\0eee\0".into()).is_ok());
        assert!(
            growth(|map| {
                map.replacements = "é\0eee\0".into();
                map.trie[0x40] = 1 << 31 | 1;
            })
            .is_err()
        );
    }
}
