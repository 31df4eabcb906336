//! Explanations and alignments in a terminal, and terminal colors.
//!
//! # Files
//!
//! - `alignment`: alignments
//! - `cells`: percentages, bars and vertical words
//! - `color`: terminal colors
//! - `explanation`: explanations
//! - `heatmap`: heatmaps
//! - `inner_steps`: patching and the logit lens

mod alignment;
mod cells;
mod color;
mod explanation;
mod heatmap;
mod inner_steps;

pub use alignment::render_alignment;
pub(crate) use cells::rounded_top;
pub use color::ColorDepth;
pub use color::Painter;
pub use explanation::render;
pub(crate) use heatmap::{HeatmapPanel, legend};
pub(crate) use inner_steps::{
    aligned_names, layer_name, lens_note, lens_title, patching_scale, patching_title, position_sentence,
    small_difference_warning,
};
pub use inner_steps::{render_explanation_lens, render_lens, render_patching};

use chumoku::lang::Lang;

/// Options of terminal output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalOptions {
    /// Width of the terminal in columns; the minimum is 40.
    pub width: usize,
    /// Color depth of the terminal.
    pub color: ColorDepth,
    /// Language of the output.
    pub lang: Lang,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self { width: 80, color: ColorDepth::None, lang: Lang::En }
    }
}
