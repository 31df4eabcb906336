//! Worked examples: attention, and the feed-forward network behind it, in numbers, step by step.
//!
//! A [`WorkedExample`] is what is given and what is claimed; its program (`program.rs`, `operation.rs`) is every step
//! from the input to the output, computed in f64. [`WorkedExample::check`] holds claims against it, and
//! [`WorkedExample::trace`] shows it: as text, Markdown, LaTeX or JSON.
//!
//! # Files
//!
//! - `backward`: gradient rules of each operation
//! - `belief`: consequences of printed numbers
//! - `build`: the steps of attention
//! - `builder`: a program under construction
//! - `builtin`: examples in the program
//! - `caption`: titles of examples
//! - `cells`: spreadsheet formulas
//! - `check`: claims against true numbers
//! - `classes`: logits, probabilities and loss
//! - `example`: the file of an example
//! - `expansion`: one number, term by term
//! - `feed_forward`: the feed-forward network
//! - `figures`: examples about sizes
//! - `formula`: formulas of steps
//! - `grid`: matrices as tables
//! - `html`: pages
//! - `json`: JSON
//! - `kind`: quantity, gradient or moment
//! - `latex`: LaTeX
//! - `live`: pages that recompute
//! - `markdown`: Markdown
//! - `matrices`: matrices in files
//! - `missing`: inputs that were not given
//! - `model`: traces of models
//! - `model_loss`: gradients of a model's loss
//! - `number`: printed numbers and their intervals
//! - `object`: JSON objects with known keys
//! - `operands`: operands of an operation
//! - `operation`: each operation, for numbers and intervals
//! - `optimizer`: a step of AdamW
//! - `options`: options of an example
//! - `program`: the steps in order
//! - `quantity`: names and shapes of matrices
//! - `recurrence`: the recurrence of RNN, LSTM and GRU
//! - `recurrent`: the steps of recurrent networks
//! - `report`: results of a check in words
//! - `shown`: a trace, independent of its form
//! - `sublayer`: residual connection and norm
//! - `text`: terminal
//! - `traced_loss`: descriptions of gradients
//! - `vector`: final norm, pooling, dense layer
//! - `words`: words in both languages
//! - `xlsx`: spreadsheets

mod attention_steps;
mod backward;
mod builtin;
mod caption;
mod check;
mod classes;
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
mod model;
mod model_loss;
mod object;
mod operands;
mod operation;
mod optimizer;
mod options;
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
mod step_kind;
mod sublayer;
mod text;
mod text_vector;
mod trace_steps;
mod traced_loss;
mod words;
#[cfg(feature = "spreadsheets")]
mod xlsx;

pub use builtin::{builtin, builtin_names};
pub use caption::Caption;
pub use check::{CheckReport, ClaimResult, RowSum, WorstNumber};
pub use chumoku::explain::{AttentionKind, HeadLocation, HeadSelection, LossTarget, Truncation};
pub use example::WorkedExample;
pub use expansion::{Expansion, ExpansionForm};
pub use formula::Formula;
pub use implications::Verdict;
pub use printed_number::PrintedNumber;
pub use step_kind::StepKind;
pub use text::{TraceDepth, TraceOptions};
pub use trace_steps::{Agreement, CheckKind, Trace, TraceCheck, TraceStep};
pub use traced_loss::TracedLoss;
