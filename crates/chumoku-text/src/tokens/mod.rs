//! Tokenizers: texts to tokens, and tokens back to text and words.
//!
//! # Files
//!
//! - `error`: errors
//! - `japanese`: Japanese word boundaries
//! - `marian`: tokenizers of Marian translators
//! - `merges`: byte-pair merges one by one
//! - `pattern`: cost check of regular expressions
//! - `pipeline`: normalization and pre-tokenization
//! - `pretrained`: `tokenizer.json` and `vocab.txt` of published models
//! - `script`: scripts of a text
//! - `sentencepiece`: SentencePiece unigram models
//! - `token_sequence`: the tokens of a text
//! - `tokenizer`: text to tokens and back
//! - `tokenizer_file`: validation of `tokenizer.json`
//! - `training`: training a tokenizer
//! - `validated`: validated tokenizers, run without panics
//! - `windows`: long texts in windows
//! - `word_cache`: many texts, each distinct word encoded once
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
pub use pipeline::{CLS, NormalizationForm, SEP, TokenizationUnit};
pub use pretrained::{Encoding, PretrainedTokenizer, SpecialTokens, WordPieceOptions};
pub(crate) use script::is_unspaced;
pub use script::unspaced_fraction;
pub use token_sequence::TokenSequence;
pub use tokenizer::TextTokenizer;
pub use training::TokenizerConfig;
pub use windows::windows;
pub use words::{WordSpan, word_spans};
