//! Views of attention for people: pictures, pages and terminal output of what a model attended to.
//!
//! The input is an [`Explanation`] or an [`Alignment`] of [`chumoku`] with all its numbers; nothing here runs a model.
//! [`render`] and [`render_alignment`] write text for a terminal, and [`to_html`] writes a page that opens from disk.
//! The methods of [`ExplanationFigures`] and [`AlignmentFigures`] make [`Figure`]s, which become SVG, PNG, PDF or a
//! page.
//!
//! ```
//! use chumoku_view::{Lang, PositionalEncoding, TerminalOptions};
//!
//! // A figure: the sinusoidal positional encoding (Vaswani et al. 2017, section 3.5) of 8 positions at width 6.
//! let figure = PositionalEncoding::sinusoidal(8, 6).heatmap(Lang::En);
//! println!("{}", figure.to_text(&TerminalOptions::default()));
//! ```
//!
//! # Contract
//!
//! * **Numbers:** pictures and pages show their input numbers; tests parse every number back and compare it.
//! * **NaN and infinity** are shown unchanged. A masked key is shown as absent, not as 0.
//! * **Determinism:** the same input gives the same bytes. SVG with outlines, PNG and PDF also depend on the fonts of
//!   the machine.
//! * Pages are self-contained: they open from disk and never use the network.
//!
//! The feature `pictures` (SVG with outlines of letters, PNG, PDF) is on by default.
//!
//! # Files
//!
//! - `beam`: figure of a beam search
//! - `colored_words`: colored words on a page
//! - `comparison`: figure of step times
//! - `content_hash`: hashes for the content security policy
//! - `count_report`: tables of costs
//! - `doctor`: page of a checkup
//! - `effects`: figures of word effects
//! - `errors`: page of wrong answers
//! - `explanation_figures`: figures of explanations and alignments
//! - `figure`: `Figure`, the source of every form
//! - `film`: attention during training
//! - `html`: pages of explanations and alignments
//! - `learning_curves`: loss and scores of a training run
//! - `marked_words`: words with effects in a terminal
//! - `network_map`: map of a network, from its counted steps
//! - `phrases`: sentences of the terminal view
//! - `picture`: SVG, PNG and PDF
//! - `positions`: figures of positional encoding
//! - `reconstruction`: the figure of autoencoders by the width of their bottleneck
//! - `saturation`: the figure of softmax's saturation
//! - `spans`: page of texts with spans
//! - `tagger_spans`: page of explained spans
//! - `terminal`: explanations in a terminal
//! - `width`: text in columns

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files of their own"))]

mod beam;
mod colored_words;
mod comparison;
mod content_hash;
mod count_report;
mod doctor;
mod effects;
mod errors;
mod explanation_figures;
mod figure;
mod film;
mod html;
mod learning_curves;
mod marked_words;
mod network_map;
mod phrases;
mod picture;
mod positions;
mod reconstruction;
mod saturation;
mod spans;
mod tagger_spans;
mod terminal;
mod width;

pub use beam::beam_figure;
pub use chumoku::explain::{
    AlignedHead, Alignment, AttentionFrame, Attribution, DerivedAttention, EnsembleHeadAblation, EnsembleMembers,
    Explanation, ExplanationError, ExplanationKind, HeadAblation, HeadRole, HeadStatistics, LabelProbability,
    QueriesAndKeys, TranslationHeadAblation, Word, WordEffect, WordPiece, from_json, to_json,
};
pub use chumoku::lang::Lang;
pub use comparison::comparison_figure;
pub use content_hash::content_hash;
#[doc(hidden)]
pub use content_hash::hash;
pub use count_report::CountReport;
pub use doctor::doctor_to_html;
pub use errors::{errors_to_html, render_errors};
pub use explanation_figures::{AlignmentFigures, ExplanationFigures, HeadOrder};
pub use figure::{
    AttentionLine, AttentionLines, ColorScale, ColoredText, Content, CurvePanels, Curves, Figure, FigureAxis,
    FigureTable, Heatmap, HeatmapGrid, KeyScore, MapBlock, NetworkMap, Scatter, ScoreBreakdown, SearchTree,
    figures_to_html,
};
pub use film::{Film, film_to_html};
#[doc(hidden)]
pub use html::escape_script_json;
pub use html::{alignment_to_html, framed_hashes, shared_style, to_html};
pub use learning_curves::{LearningCurves, sparkline};
#[cfg(feature = "pictures")]
pub use picture::Fonts;
pub use picture::{Paint, Scene, SceneItem, SceneText, TextAnchor, Theme};
pub use positions::PositionalEncoding;
pub use reconstruction::ReconstructionCurves;
pub use saturation::{SATURATION_WIDTHS, Saturation, SoftmaxState};
pub use spans::{MAX_SPANNED_TEXTS, spans_to_html};
pub use tagger_spans::{render_tagged, tagged_figure, tagged_to_html};
#[doc(hidden)]
pub use terminal::Painter;
pub use terminal::{
    ColorDepth, TerminalOptions, render, render_alignment, render_explanation_lens, render_lens, render_patching,
};
pub(crate) use width::signed_number;
// For `chumoku-trace`.
#[doc(hidden)]
pub use width::{
    align_left, align_right, display_width, escape_char, escape_markup, join_ordinals, truncate, with_subscripts, wrap,
};
