//! From text to tokens, and from tokens back to the words of the text.

mod error;
mod japanese;
mod pattern;
mod script;
mod tokenizer;
mod tokenizer_file;
mod windows;
mod words;

pub use error::TokenizerError;
pub use script::unspaced_share;
pub use tokenizer::{CLS, Encoded, TextForm, TextTokenizer, TokenizerConfig, UNK, Unit};
pub use windows::windows;
pub use words::{WordSpan, words_of};
