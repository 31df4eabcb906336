//! Texts, and what lies between a file and a model.
//!
//! [`data`] reads files of labelled text, of pairs and of documents, whatever their format, encoding and columns are
//! called, and splits them. [`tokens`] turns texts into the numbers that a model reads, and back into words for people.
//! [`metrics`] has BLEU and chrF with sacreBLEU's numbers. [`lang`] is the language in which people are spoken to.
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

pub mod checksum;
pub mod data;
pub mod lang;
pub mod metrics;
mod quiet;
pub mod tokens;

pub use lang::{Lang, set_lang};
