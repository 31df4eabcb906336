//! Traces of attention: worked examples and models, computed step by step in numbers, checked and explained.
//!
//! A [`WorkedExample`] holds inputs and claims. Its program (`program/steps.rs`, `program/operation.rs`) is every step
//! from the input to the output, computed in f64. [`WorkedExample::check`] checks claims against it, and
//! [`WorkedExample::trace`] shows it as text, Markdown, LaTeX or JSON.
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
//! - `checks`: checks of printed numbers against the true ones, and likely mistakes behind wrong ones
//! - `examples`: worked examples: their files, options and inputs
//! - `formulas`: formulas of steps, and one number of a step term by term
//! - `layers`: layers as steps of a program
//! - `output`: traces as text, pages, documents and spreadsheets
//! - `program`: programs: the steps of a computation, their numbers and their gradients
//! - `traces`: traces of examples and models, independent of their form

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

mod checks;
mod examples;
mod formulas;
mod layers;
mod output;
mod program;
mod traces;

pub use checks::check::{CheckReport, ClaimResult, RowSum, WorstNumber};
pub use checks::implications::ClaimVerdict;
pub use checks::mistakes::{LikelyMistake, MistakeKind};
pub use chumoku::explain::{AttentionKind, HeadLocation, HeadSelection, LossTarget, Truncation};
pub(crate) use chumoku_view::Lang;
pub use examples::builtin::{builtin, builtin_names, open_example};
pub use examples::caption::Caption;
pub use examples::example::WorkedExample;
pub use formulas::batch_shape::BatchAxis;
pub use formulas::expansion::{Expansion, ExpansionForm};
pub use formulas::formula::Formula;
pub use output::text::{TraceDetail, TraceOptions};
pub use program::step_kind::StepKind;
pub use traces::trace_steps::{Agreement, Trace, TraceCheck, TraceStep};
