//! What a model looked at, for people: one [`Explanation`], shown in a terminal, as a page, or as JSON.
//!
//! A classifier's text is explained by an [`Explanation`], a translator's by an [`Alignment`].
//!
//! The three views take the same value and show the same numbers:
//!
//! - [`render`]: text for a terminal, with or without colour, in a given width;
//! - [`to_html`]: one file that opens from disk and asks nothing of the network;
//! - [`to_json`] and [`from_json`]: every number, for programs.
//!
//! Rows are always queries (the word that looks), columns keys (the word that is looked at), and every row
//! sums to one. Nothing here computes attention; the numbers come in ready.

mod alignment_terminal;
mod base64;
mod colour;
mod explained;
mod figure;
mod film;
mod heatmap;
mod html;
mod phrases;
mod picture;
mod positions;
mod terminal;
mod width;

pub use alignment_terminal::render_alignment;
pub use chumoku::explain::{
    AlignedHead, Alignment, Attribution, Depth, Derived, ExplainedKind, Explanation, ExplanationError, Frame,
    HeadStatistics, LabelProbability, Parts, Piece, Role, TranslationWithoutHead, WholeWithoutHead, WithoutHead, Word,
    WordEffect, from_json, to_json,
};
pub use chumoku::lang::Lang;
pub use colour::ColourDepth;
pub(crate) use colour::Paint as TerminalPaint;
pub use explained::{AlignmentFigures, ExplanationFigures, HeadOrder};
pub use figure::{Axis, Content, Curves, Figure, Lines, Map, Products, Scale, Seen, Sheet, Table, figures_to_html};
pub use film::{Film, film_to_html};
pub(crate) use html::hash;
pub use html::{alignment_to_html, to_html};
#[cfg(feature = "pictures")]
pub use picture::Fonts;
pub use picture::{Anchor, Item, Paint, Rgb, Scene, Text, Theme};
pub use positions::PositionalEncoding;
pub use terminal::{TerminalOptions, render};
pub(crate) use width::{cut, display_width, left, marked_up, markup, right, wrap};
