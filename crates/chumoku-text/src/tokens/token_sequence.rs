//! The tokens of a text.

/// The tokens of a text, without special tokens around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenSequence {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The byte range of each token in the text.
    pub spans: Vec<(usize, usize)>,
    /// For each token, the number of the word that the pre-tokenizer produced.
    pub word_ids: Vec<u32>,
    /// True if the tokenizer encodes every character as a token.
    pub is_character_level: bool,
}
