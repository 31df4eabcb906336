//! Pictures as files: with the feature `pictures`, `Fonts` draws a [`Scene`] as SVG, PNG or PDF, without any display.
//!
//! # Files
//!
//! - `draw`: scenes as SVG, PNG and PDF
//! - `letters`: fonts and shaping
//! - `paint`: colors by meaning
//! - `pdf`: PDF
//! - `scene`: shapes and texts in a plane
//! - `shape`: shapes as SVG, PNG and PDF

#[cfg(feature = "pictures")]
mod draw;
#[cfg(feature = "pictures")]
mod letters;
mod paint;
#[cfg(feature = "pictures")]
mod pdf;
mod scene;
#[cfg(feature = "pictures")]
mod shape;

#[cfg(feature = "pictures")]
pub use draw::Fonts;
pub(crate) use paint::hex;
pub use paint::{Paint, Theme};
pub(crate) use scene::ColorMode;
pub use scene::{Scene, SceneItem, SceneText, TextAnchor};
