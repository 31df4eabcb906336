//! A picture before it is drawn: shapes and texts in a plane, from which SVG and PNG are made alike.

use crate::view::marked_up;
use std::fmt::Write;

/// Where a text stands beside its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A colour.
pub type Rgb = [u8; 3];

/// A shape or a text. Lengths are points; y grows downwards.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A filled rectangle.
    Rect {
        /// Left, top, width, height.
        area: [f64; 4],
        /// Its colour.
        fill: Rgb,
        /// What it shows, for whoever points at it or cannot see it.
        says: String,
    },
    /// A hatched rectangle: what is not there, as against what is 0.
    Hatched([f64; 4]),
    /// A straight line.
    Line {
        /// From x, y to x, y.
        ends: [f64; 4],
        /// Its colour.
        stroke: Rgb,
    },
    /// A text on one line.
    Text {
        /// Its place, on the base line.
        at: [f64; 2],
        /// What it says.
        text: String,
        /// Its height.
        size: f64,
        /// Its colour.
        fill: Rgb,
        /// Where it stands.
        anchor: Anchor,
        /// By how many degrees it is turned, clockwise.
        turned: f64,
        /// Whether it is bold.
        is_bold: bool,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// What it shows, in a sentence.
    pub description: String,
    /// What is behind everything.
    pub background: Rgb,
    /// What is in it, the hindmost first.
    pub items: Vec<Item>,
}

pub(super) fn colour([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

impl Scene {
    /// The picture as SVG whose texts are texts, in `family`.
    pub(super) fn to_source(&self, family: &str) -> String {
        let Scene { width, height, .. } = self;
        let (title, background) = (marked_up(&self.description), colour(self.background));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"{}\">\n<title>{title}</title>\n<defs><pattern id=\"hatch\" \
             width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" \
             height=\"6\" fill=\"#f2f2f0\"/><rect width=\"1.4\" height=\"6\" fill=\"#c9c7c0\"/></pattern></defs>\n<rect \
             width=\"{width}\" height=\"{height}\" fill=\"{background}\"/>\n",
            marked_up(family)
        );
        for item in &self.items {
            let _ = match item {
                Item::Rect { area: [x, y, w, h], fill, says } => {
                    let title =
                        if says.is_empty() { String::new() } else { format!("<title>{}</title>", marked_up(says)) };
                    let fill = colour(*fill);
                    writeln!(
                        svg,
                        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{fill}\">{title}</rect>"
                    )
                }
                Item::Hatched([x, y, w, h]) => {
                    writeln!(
                        svg,
                        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"url(#hatch)\"/>"
                    )
                }
                Item::Line { ends: [x1, y1, x2, y2], stroke } => {
                    let stroke = colour(*stroke);
                    writeln!(
                        svg,
                        "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" stroke=\"{stroke}\"/>"
                    )
                }
                Item::Text { at: [x, y], text, size, fill, anchor, turned, is_bold } => {
                    let anchor = match anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    let weight = if *is_bold { " font-weight=\"bold\"" } else { "" };
                    let turn = match *turned == 0.0 {
                        true => String::new(),
                        false => format!(" transform=\"rotate({turned} {x:.2} {y:.2})\""),
                    };
                    writeln!(
                        svg,
                        "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" fill=\"{}\" text-anchor=\"{anchor}\"{weight}{turn} \
                         xml:space=\"preserve\">{}</text>",
                        colour(*fill),
                        marked_up(text)
                    )
                }
            };
        }
        svg.push_str("</svg>\n");
        svg
    }
}
