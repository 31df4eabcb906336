//! Worked examples: attention, and the feed-forward network behind it, in numbers, step by step.
//!
//! A [`WorkedExample`] is what is given and what is claimed; its program (`program.rs`, `operation.rs`) is every step
//! from the input to the output, computed in f64. [`WorkedExample::check`] holds claims against it, and
//! [`WorkedExample::trace`] shows it: as text, Markdown, LaTeX or JSON.

mod backward;
mod belief;
mod build;
mod builder;
mod builtin;
mod caption;
#[cfg(feature = "spreadsheets")]
mod cells;
mod check;
mod classes;
mod example;
mod expansion;
mod feed_forward;
mod figures;
mod formula;
mod grid;
mod html;
mod json;
mod kind;
mod latex;
mod live;
mod markdown;
mod matrices;
mod missing;
mod model;
mod model_loss;
mod number;
mod object;
mod operands;
mod operation;
mod optimizer;
mod options;
mod program;
mod quantity;
mod recurrence;
mod recurrent;
mod report;
mod shown;
mod sublayer;
mod text;
mod traced_loss;
mod vector;
mod words;
#[cfg(feature = "spreadsheets")]
mod xlsx;

pub use belief::Verdict;
pub use builtin::{builtin, builtin_names};
pub use caption::Caption;
pub use check::{Checked, CheckedStep, RowSum, Worst};
pub use chumoku::explain::{AttentionPlace, LossTarget, ModelAttention, ModelPlace, TextCut};
pub use example::WorkedExample;
pub use expansion::{Expansion, Form};
pub use formula::Formula;
pub use kind::StepKind;
pub use number::Printed;
pub use shown::{Agreement, CheckKind, Trace, TraceCheck, TraceStep};
pub use text::{Depth, TraceOptions};
pub use traced_loss::TracedLoss;
