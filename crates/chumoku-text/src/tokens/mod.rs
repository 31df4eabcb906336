//! From text to tokens, and from tokens back to the words of the text.

mod by_word;
mod encoded;
mod error;
mod guarded;
mod japanese;
mod learn;
mod marian;
mod merges;
mod pattern;
mod pipeline;
mod pretrained;
mod script;
mod sentence_pieces;
mod tokenizer;
mod tokenizer_file;
mod windows;
mod words;

pub use encoded::Encoded;
pub use error::TokenizerError;
pub use learn::TokenizerConfig;
pub use merges::{Merge, MergedWord, merges};
pub use pipeline::{CLS, SEP, TextForm, UNK, Unit};
pub use pretrained::{Encoding, Frame, PretrainedTokenizer, WordPieceOptions};
pub(crate) use script::is_unspaced;
pub use script::unspaced_share;
pub use tokenizer::TextTokenizer;
pub use windows::windows;
pub use words::{WordSpan, words_of};
