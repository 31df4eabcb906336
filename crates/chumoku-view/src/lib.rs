//! Attention for people to look at: pictures, pages and terminals of what a model looked at, and [`trace`]s of every step
//! in numbers.
//!
//! An [`Explanation`] or an [`Alignment`] of [`chumoku`] comes in with all its numbers; nothing here computes a model.
//! [`render`] and [`render_alignment`] write for a terminal, [`to_html`] a page that opens from disk, and the methods of
//! [`ExplanationFigures`] and [`AlignmentFigures`] make [`Figure`]s, which become SVG, PNG, PDF or a page.

mod base64;
mod explained;
mod figure;
mod film;
mod html;
mod phrases;
mod picture;
mod positions;
mod terminal;
pub mod trace;
mod width;

pub use chumoku::explain::{
    AlignedHead, Alignment, Attribution, Depth, Derived, ExplainedKind, Explanation, ExplanationError, Frame,
    HeadStatistics, LabelProbability, Parts, Piece, Role, TranslationWithoutHead, WholeWithoutHead, WithoutHead, Word,
    WordEffect, from_json, to_json,
};
pub use chumoku::lang::Lang;
pub use explained::{AlignmentFigures, ExplanationFigures, HeadOrder};
pub use figure::{Axis, Content, Curves, Figure, Lines, Map, Products, Scale, Seen, Sheet, Table, figures_to_html};
pub use film::{Film, film_to_html};
pub(crate) use html::hash;
pub use html::{alignment_to_html, to_html};
#[cfg(feature = "pictures")]
pub use picture::Fonts;
pub use picture::{Anchor, Item, Paint, Rgb, Scene, Text, Theme};
pub use positions::PositionalEncoding;
pub use terminal::{ColourDepth, TerminalOptions, render, render_alignment};
pub(crate) use width::{cut, display_width, left, marked_up, markup, right, wrap};
