//! Traces as text, pages, documents and spreadsheets.
//!
//! # Files
//!
//! - `grid`: matrices as tables of texts
//! - `html`: pages
//! - `json`: JSON
//! - `latex`: LaTeX
//! - `markdown`: Markdown
//! - `page_layout`: sections and cards of pages
//! - `recompute`: programs for pages that recompute
//! - `spreadsheet_formulas`: spreadsheet formulas
//! - `step_groups`: sections of a page
//! - `text`: traces in a terminal
//! - `token_path`: the path of a token
//! - `words`: sentences in both languages
//! - `xlsx`: spreadsheets

pub(crate) mod grid;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod latex;
pub(crate) mod markdown;
pub(crate) mod page_layout;
pub(crate) mod recompute;
#[cfg(feature = "spreadsheets")]
pub(crate) mod spreadsheet_formulas;
pub(crate) mod step_groups;
pub(crate) mod text;
pub(crate) mod token_path;
pub(crate) mod words;
#[cfg(feature = "spreadsheets")]
pub(crate) mod xlsx;
