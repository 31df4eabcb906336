//! Explanations and alignments as text for a terminal, and the colours of one.
//!
//! # Files
//!
//! - `alignment`: alignments
//! - `cells`: percentages, bars and vertical words
//! - `colour`: terminal colors
//! - `explanation`: explanations
//! - `heatmap`: heatmaps

mod alignment;
mod cells;
mod color;
mod explanation;
mod heatmap;

pub use alignment::render_alignment;
pub(crate) use cells::rounded_top;
pub use color::ColorDepth;
pub(crate) use color::Painter;
pub use explanation::render;
pub(crate) use heatmap::{HeatmapPanel, legend};

use chumoku::lang::Lang;

/// How to write an explanation for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalOptions {
    /// Columns of the terminal. Taken as 40 where it is less.
    pub width: usize,
    /// How many colours it shows.
    pub colour: ColorDepth,
    /// The language of all that is said.
    pub lang: Lang,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self { width: 80, colour: ColorDepth::None, lang: Lang::En }
    }
}
