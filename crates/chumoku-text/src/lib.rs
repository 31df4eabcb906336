//! Text input and output: everything between a file and a model.
//!
//! [`data`] reads files of labeled texts, pairs and documents in many formats and encodings, infers their columns, and
//! splits them. [`tokens`] turns texts into token ids and back. [`row`] joins two texts and the values of
//! other columns into one row. [`metrics`] has BLEU and chrF with the numbers of
//! sacreBLEU. [`output`] opens every file that is written. [`lang`] is the language of messages.
//!
//! ```
//! use chumoku_text::tokens::{NormalizationForm, TextTokenizer, TokenizerConfig, TokenizationUnit};
//!
//! let texts = ["a good film", "a bad film"];
//! let config = TokenizerConfig { vocab_size: 300, min_frequency: 1, form: NormalizationForm::Unchanged, unit: TokenizationUnit::Subwords };
//! let tokenizer = TextTokenizer::train(&texts, &config)?;
//! let encoded = tokenizer.encode("a good film")?;
//! assert_eq!(tokenizer.decode(&encoded.ids)?, "a good film");
//! # Ok::<(), chumoku_text::tokens::TokenizerError>(())
//! ```
//!
//! Tokenizers use byte-pair encoding (Sennrich, Haddow and Birch 2016) with byte fallback, so no text has unknown
//! tokens. BLEU (Papineni et al. 2002) and chrF (Popović 2015) agree with sacreBLEU (Post 2018) to 1e-9.
//!
//! # Contract
//!
//! * Reading any file returns rows or an error that says where the problem is and what to do. It never panics. The same
//!   holds for tokenizers made by others.
//! * The split assigns each text by its content alone: equal texts stay together, and row order does not matter.
//! * The crate prints nothing. Messages are in English or Japanese ([`set_lang`]).
//!
//! # Files
//!
//! - `characters`: byte offsets and character offsets of a text
//! - `checksum`: checksums in hexadecimal
//! - `data`: files to rows
//! - `failpoint`: named places at which tests stop the process
//! - `lang`: the language of messages
//! - `memory`: free memory of the machine
//! - `metrics`: BLEU and chrF
//! - `output`: files that are written
//! - `panics`: panics of dependencies as errors
//! - `row`: rows with one text or two, and with feature columns
//! - `signals`: signals that stop a process
//! - `sorting`: stable sorting without generic code
//! - `tokens`: tokenizers

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

pub mod characters;
pub mod checksum;
pub mod data;
pub mod failpoint;
pub mod lang;
pub mod memory;
pub mod metrics;
pub mod output;
mod panics;
pub mod row;
pub mod signals;
#[doc(hidden)]
pub mod sorting;
pub mod tokens;

pub use lang::{Lang, set_lang};
