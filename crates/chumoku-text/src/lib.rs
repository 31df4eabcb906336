//! Texts, and what lies between a file and a model.
//!
//! [`data`] reads files of labelled text, of pairs and of documents, whatever their format, encoding and columns are
//! called, and splits them. [`tokens`] turns texts into the numbers that a model reads, and back into words for people.
//! [`pair`] makes one text of two that belong together, [`beside`] of a text and the values of other columns. [`metrics`] has BLEU and chrF with sacreBLEU's numbers. [`output`] opens every
//! file that is written. [`lang`] is the language in which people are spoken to.
//!
//! ```
//! use chumoku_text::tokens::{TextForm, TextTokenizer, TokenizerConfig, Unit};
//!
//! let texts = ["a good film", "a bad film"];
//! let config = TokenizerConfig { vocab_size: 300, min_frequency: 1, form: TextForm::Exact, unit: Unit::Subwords };
//! let tokenizer = TextTokenizer::train(&texts, &config)?;
//! let encoded = tokenizer.encode("a good film")?;
//! assert_eq!(tokenizer.decode(&encoded.ids)?, "a good film");
//! # Ok::<(), chumoku_text::tokens::TokenizerError>(())
//! ```
//!
//! Tokens are made by byte-pair encoding (Sennrich, Haddow and Birch 2016) with byte fallback, so no text holds anything
//! unknown. BLEU (Papineni et al. 2002) and chrF (Popović 2015) agree with sacreBLEU (Post 2018) to 1e-9.
//!
//! # Contract
//!
//! * Whatever a file holds, reading it gives rows or an error that says where and what to do, never a panic. So do
//!   tokenizers of others.
//! * Which part of a split a text goes to follows from the text alone: equal texts stay together, and the order of the
//!   rows does not matter.
//! * Nothing is printed. Messages are English or Japanese ([`set_lang`]).
//!
//! # Files
//!
//! - `beside`: feature columns in a row
//! - `checksum`: checksums in hexadecimal
//! - `data`: files to rows
//! - `failpoint`: named places at which tests stop the process
//! - `lang`: the language of messages
//! - `memory`: free memory of the machine
//! - `metrics`: BLEU and chrF
//! - `output`: files that are written
//! - `pair`: two texts in one row
//! - `quiet`: panics of dependencies as errors
//! - `signals`: signals that end a process
//! - `sorting`: stable sorting without generic code
//! - `tokens`: tokenizers

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

pub mod checksum;
pub mod data;
pub mod failpoint;
pub mod feature_columns;
pub mod lang;
pub mod memory;
pub mod metrics;
pub mod output;
pub mod pair;
mod panics;
pub mod signals;
#[doc(hidden)]
pub mod sorting;
pub mod tokens;

pub use lang::{Lang, set_lang};
