//! A shape as SVG, PNG and PDF draw it.

use super::paint::Rgb;
use tiny_skia::Path;

/// A path of one color, filled or stroked with a width.
pub(super) struct PathShape {
    pub(super) path: Path,
    pub(super) color: Rgb,
    pub(super) width: Option<f32>,
}
