//! A shape as SVG, PNG and PDF draw it.

use super::paint::Rgb;
use tiny_skia::Path;

/// A path of one colour, filled, or drawn as a line of a width.
pub(super) struct PathShape {
    pub(super) path: Path,
    pub(super) colour: Rgb,
    pub(super) width: Option<f32>,
}
