//! Conversion between byte offsets and character offsets of a text.

/// The byte offset of each character of a text, and of its end.
#[derive(Debug)]
pub struct CharacterOffsets(Vec<usize>);

impl CharacterOffsets {
    /// Reads the offsets of a text.
    pub fn new(text: &str) -> CharacterOffsets {
        CharacterOffsets(text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect())
    }

    /// Returns the character at a byte offset, or the next one if the offset is inside a character.
    pub fn character(&self, byte: usize) -> usize {
        self.0.partition_point(|&start| start < byte)
    }

    /// Returns the byte offset of a character, or the end of the text if it has fewer characters.
    pub fn byte(&self, character: usize) -> usize {
        self.0[character.min(self.count())]
    }

    /// Returns the number of characters.
    pub fn count(&self) -> usize {
        self.0.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_convert_in_both_directions() {
        let offsets = CharacterOffsets::new("aあb");
        assert_eq!([0, 1, 2, 4, 5].map(|byte| offsets.character(byte)), [0, 1, 2, 2, 3]);
        assert_eq!([0, 1, 2, 3, 9].map(|character| offsets.byte(character)), [0, 1, 4, 5, 5]);
        assert_eq!((CharacterOffsets::new("").byte(0), CharacterOffsets::new("").count()), (0, 0));
    }
}
