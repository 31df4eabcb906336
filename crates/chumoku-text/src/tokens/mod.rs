//! From text to tokens, and from tokens back to the words of the text.
//!
//! # Files
//!
//! - `by_word`: many texts, each distinct word encoded once
//! - `encoded`: a text as tokens
//! - `error`: errors
//! - `guarded`: published tokenizers, run without panics
//! - `japanese`: Japanese word boundaries
//! - `learn`: training a tokenizer
//! - `marian`: tokenizers of Marian translators
//! - `merges`: byte-pair merges one by one
//! - `pattern`: cost check of regular expressions
//! - `pipeline`: normalization and pre-tokenization
//! - `pretrained`: `tokenizer.json` and `vocab.txt` of published models
//! - `script`: scripts of a text
//! - `sentence_pieces`: SentencePiece unigram models
//! - `tokenizer`: text to tokens and back
//! - `tokenizer_file`: validation of `tokenizer.json`
//! - `windows`: long texts in windows
//! - `words`: tokens to words for display

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
