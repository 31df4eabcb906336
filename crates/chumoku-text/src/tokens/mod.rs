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

mod error;
mod japanese;
mod marian;
mod merges;
mod pattern;
mod pipeline;
mod pretrained;
mod script;
mod sentencepiece;
mod token_sequence;
mod tokenizer;
mod tokenizer_file;
mod training;
mod validated;
mod windows;
mod word_cache;
mod words;

pub use error::TokenizerError;
pub use merges::{Merge, MergedWord, merges};
pub use pipeline::{CLS, NormalizationForm, SEP, TokenizationUnit, UNK};
pub use pretrained::{Encoding, PretrainedTokenizer, SpecialTokens, WordPieceOptions};
pub(crate) use script::is_unspaced;
pub use script::unspaced_fraction;
pub use token_sequence::TokenSequence;
pub use tokenizer::TextTokenizer;
pub use training::TokenizerConfig;
pub use windows::windows;
pub use words::{WordSpan, word_spans};
