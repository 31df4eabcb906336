//! Traces of attention: worked examples and models, computed step by step in numbers, checked and explained.
//!
//! A [`WorkedExample`] holds inputs and claims. Its program (`program.rs`, `operation.rs`) is every step from the input
//! to the output, computed in f64. [`WorkedExample::check`] checks claims against it, and [`WorkedExample::trace`]
//! shows it as text, Markdown, LaTeX or JSON.
//!
//! ```
//! use chumoku_trace::{TraceOptions, WorkedExample};
//!
//! // Attention over two tokens, with weights as an article printed them.
//! let example = WorkedExample::parse(
//!     r#"{"title": "Two tokens",
//!         "inputs": {"Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]], "V": [[2, 0], [0, 2]]},
//!         "claims": {"weights": [["0.6682", "0.3318"], ["0.3318", "0.6682"]]}}"#,
//! )?;
//! // They are wrong: e^(1/√2) / (e^(1/√2) + 1) is 0.6698.
//! assert!(!example.check()?.ok);
//!
//! // Every step in numbers, for a terminal; a trace can also be HTML, Markdown, LaTeX, JSON or a spreadsheet.
//! let trace = example.trace(0)?;
//! let text = trace.to_text(&TraceOptions::default());
//! assert!(text.contains("0.6698"));
//! # Ok::<(), String>(())
//! ```
//!
//! # Contract
//!
//! * **Numbers:** traces of worked examples are computed in `f64`. Traces of models are computed in `f64` from the
//!   model's parameters, and state the difference from the model's own results.
//! * **Claims:** a printed number holds if it is the true value rounded to its digits. An error is distinguished from
//!   its consequences ([`ClaimVerdict`]).
//! * Pages are self-contained: they open from disk and never use the network.
//!
//! The feature `spreadsheets` is on by default.
//!
//! # Files
//!
//! - `additive_score`: the score vᵀ tanh(q + k)
//! - `attention_controls`: options that a page changes
//! - `attention_steps`: the steps of attention
//! - `backward`: gradient rules of each operation
//! - `batch_shape`: shapes in a batch of texts
//! - `builtin`: built-in examples
//! - `caption`: titles and sources of examples
//! - `check`: claims against true numbers
//! - `classes`: logits, probabilities and loss
//! - `embeddings`: the sum of embeddings
//! - `equation`: operands and signs of formulas
//! - `example`: files of examples
//! - `expansion`: one number, term by term
//! - `feed_forward`: the feed-forward network
//! - `formula`: formulas of steps
//! - `grid`: matrices as tables of texts
//! - `html`: pages
//! - `implications`: implications of printed numbers
//! - `json`: JSON
//! - `latex`: LaTeX
//! - `markdown`: Markdown
//! - `matrices`: matrices in files
//! - `missing`: missing inputs
//! - `mistakes`: likely mistakes behind wrong claims
//! - `model`: traces of models
//! - `model_loss`: gradients of a model's loss
//! - `object`: JSON objects with known keys
//! - `operands`: operands of an operation
//! - `operation`: each operation, for numbers and intervals
//! - `optimizer`: a step of AdamW
//! - `options`: options of an example
//! - `page_layout`: sections and cards of pages
//! - `printed_number`: printed numbers and their intervals
//! - `program`: the steps in order
//! - `program_builder`: a program under construction
//! - `quantity`: names and shapes of matrices
//! - `recompute`: programs for pages that recompute
//! - `recurrence`: the recurrence of RNN, LSTM and GRU
//! - `recurrent`: the steps of recurrent networks
//! - `report`: results of a check in words
//! - `size_claims`: claims about sizes
//! - `spreadsheet_formulas`: spreadsheet formulas
//! - `step_groups`: sections of a page
//! - `step_kind`: quantity, gradient or moment
//! - `sublayer`: residual connections and norms
//! - `text`: traces in a terminal
//! - `text_vector`: last norm, pooling, dense layer
//! - `token_path`: the path of a token
//! - `trace_steps`: traces, independent of their form
//! - `traced_loss`: descriptions of gradients
//! - `words`: sentences in both languages
//! - `xlsx`: spreadsheets

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

mod additive_score;
mod attention_controls;
mod attention_steps;
mod backward;
mod batch_shape;
mod builtin;
mod caption;
mod check;
mod classes;
mod embeddings;
mod equation;
mod example;
mod expansion;
mod feed_forward;
mod formula;
mod grid;
mod html;
mod implications;
mod json;
mod latex;
mod markdown;
mod matrices;
mod missing;
mod mistakes;
mod model;
mod model_loss;
mod object;
mod operands;
mod operation;
mod optimizer;
mod options;
mod page_layout;
mod printed_number;
mod program;
mod program_builder;
mod quantity;
mod recompute;
mod recurrence;
mod recurrent;
mod report;
mod size_claims;
#[cfg(feature = "spreadsheets")]
mod spreadsheet_formulas;
mod step_groups;
mod step_kind;
mod sublayer;
mod text;
mod text_vector;
mod token_path;
mod trace_steps;
mod traced_loss;
mod words;
#[cfg(feature = "spreadsheets")]
mod xlsx;

pub use batch_shape::BatchAxis;
pub use builtin::{builtin, builtin_names, open_example};
pub use caption::Caption;
pub use check::{CheckReport, ClaimResult, RowSum, WorstNumber};
pub use chumoku::explain::{AttentionKind, HeadLocation, HeadSelection, LossTarget, Truncation};
pub(crate) use chumoku_view::Lang;
pub use example::WorkedExample;
pub use expansion::{Expansion, ExpansionForm};
pub use formula::Formula;
pub use implications::ClaimVerdict;
pub use mistakes::{LikelyMistake, MistakeKind};
pub use step_kind::StepKind;
pub use text::{TraceDetail, TraceOptions};
pub use trace_steps::{Agreement, Trace, TraceCheck, TraceStep};
