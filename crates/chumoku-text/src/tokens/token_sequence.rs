//! A text as tokens.

/// A text as tokens, without the leading `[CLS]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenSequence {
    /// The token ids.
    pub ids: Vec<u32>,
    /// Each token's bytes in the text.
    pub spans: Vec<(usize, usize)>,
    /// For each token the number of the unit that the text was cut into before merging.
    pub word_ids: Vec<u32>,
    /// Whether each character is a token, by the tokenizer's design.
    pub is_character_level: bool,
}
