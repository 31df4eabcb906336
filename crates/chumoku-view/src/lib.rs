//! Attention for people to look at: pictures, pages and terminals of what a model looked at, and [`trace`]s of every step
//! in numbers.
//!
//! An [`Explanation`] or an [`Alignment`] of [`chumoku`] comes in with all its numbers; nothing here computes a model.
//! [`render`] and [`render_alignment`] write for a terminal, [`to_html`] a page that opens from disk, and the methods of
//! [`ExplanationFigures`] and [`AlignmentFigures`] make [`Figure`]s, which become SVG, PNG, PDF or a page.

pub mod trace;
mod view;

pub use view::*;
