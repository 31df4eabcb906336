//! Pictures as files: [`Fonts`] draws a [`Scene`] as SVG, PNG or PDF, without any display.

mod draw;
mod paint;
mod pdf;
mod scene;

pub use draw::Fonts;
pub use paint::{Paint, Rgb, Theme};
pub(super) use scene::Colours;
pub use scene::{Anchor, Item, Scene, Text};
