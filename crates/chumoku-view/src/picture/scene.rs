//! A picture before it is drawn: shapes and texts in a plane. SVG, PNG, PDF and pages are made from it.

use super::paint::{Paint, Theme, hex};
use crate::escape_markup;
use std::fmt::Write;

/// Alignment of a text relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAnchor {
    /// The text starts there.
    Start,
    /// The text is centered there.
    Middle,
    /// The text ends there.
    End,
}

/// A shape or a text. Lengths are in points; y points down.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SceneItem {
    /// A filled rectangle.
    Rect {
        /// Left, top, width, height.
        area: [f64; 4],
        /// Its color.
        fill: Paint,
        /// Text for tooltips and screen readers.
        says: String,
    },
    /// A hatched rectangle, for absent numbers as opposed to 0.
    Hatched([f64; 4]),
    /// A straight line.
    Line {
        /// From x, y to x, y.
        ends: [f64; 4],
        /// Its color.
        stroke: Paint,
        /// Its width.
        width: f64,
        /// Text for tooltips and screen readers.
        says: String,
    },
    /// A text on one line.
    Text(SceneText),
}

/// A text on one line.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneText {
    /// Position on the baseline.
    pub position: [f64; 2],
    /// The characters.
    pub text: String,
    /// Font size.
    pub size: f64,
    /// Color.
    pub fill: Paint,
    /// Horizontal alignment.
    pub anchor: TextAnchor,
    /// Rotation in degrees, clockwise.
    pub rotation: f64,
    /// True for bold text.
    pub is_bold: bool,
}

impl SceneText {
    /// Creates ordinary text that starts at a position.
    #[must_use]
    pub fn new(at: [f64; 2], text: impl Into<String>, size: f64, fill: Paint) -> SceneText {
        SceneText {
            position: at,
            text: text.into(),
            size,
            fill,
            anchor: TextAnchor::Start,
            rotation: 0.0,
            is_bold: false,
        }
    }

    /// Returns the text with another alignment.
    #[must_use]
    pub(crate) fn with_anchor(self, anchor: TextAnchor) -> SceneText {
        SceneText { anchor, ..self }
    }
}

impl From<SceneText> for SceneItem {
    fn from(text: SceneText) -> SceneItem {
        SceneItem::Text(text)
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// A sentence that describes the picture.
    pub description: String,
    /// Its items from back to front.
    pub items: Vec<SceneItem>,
}

/// Representation of colors in SVG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorMode {
    /// Fixed color values.
    Fixed,
    /// Classes of the page's style sheet, which defines them for light and dark.
    Classes,
}

impl ColorMode {
    fn attribute(self, property: &str, paint: Paint) -> String {
        match self {
            ColorMode::Fixed => format!("{property}=\"{}\"", hex(paint.rgb(Theme::Light))),
            // Lines have classes of their own, because a stroke is no fill.
            ColorMode::Classes if property == "stroke" => format!("class=\"l{}\"", paint.class()),
            ColorMode::Classes => format!("class=\"{}\"", paint.class()),
        }
    }

    /// Returns the style rules of all classes.
    pub(crate) fn style() -> String {
        let mut style = String::new();
        for (theme, prefix) in [(Theme::Light, ""), (Theme::Dark, ":root[data-theme=\"dark\"] ")] {
            for paint in Paint::classes() {
                let (class, color) = (paint.class(), hex(paint.rgb(theme)));
                let _ = writeln!(style, "{prefix}.{class}{{fill:{color}}}");
                // Text colors need no rule for strokes.
                if !matches!(paint, Paint::TextOnShare(_) | Paint::TextOnSigned(_)) {
                    let _ = writeln!(style, "{prefix}.l{class}{{stroke:{color}}}");
                }
            }
        }
        style
    }
}

/// Distance between the lines of hatching.
const HATCH_SPACING: f64 = 5.0;

/// Returns the lines that hatch a rectangle, from lower left to upper right, clipped at its borders.
pub(super) fn hatching([x, y, w, h]: [f64; 4]) -> impl Iterator<Item = [f64; 4]> {
    let count = ((w + h) / HATCH_SPACING).ceil() as usize;
    (1..count).map(move |i| {
        // x + y along the line, relative to the upper left corner.
        let sum = i as f64 * HATCH_SPACING;
        let [from, to] = [[(sum - h).max(0.0), sum.min(h)], [sum.min(w), (sum - w).max(0.0)]];
        [x + from[0], y + from[1], x + to[0], y + to[1]]
    })
}

fn title_element(says: &str) -> String {
    if says.is_empty() { String::new() } else { format!("<title>{}</title>", escape_markup(says)) }
}

impl Scene {
    /// Returns the picture as SVG with text elements in the viewer's sans-serif font. Shapes have tooltips with their
    /// numbers.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.to_svg_with("system-ui, sans-serif", ColorMode::Fixed)
    }

    /// Returns the start of an SVG: its size, its font family if one is given, and its title.
    pub(super) fn svg_start(&self, family: &str) -> String {
        let Scene { width, height, .. } = self;
        let title = escape_markup(&self.description);
        let family = match family {
            "" => String::new(),
            family => format!(" font-family=\"{}\"", escape_markup(family)),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\"{family}>\n<title>{title}</title>\n"
        )
    }

    /// Returns the picture as SVG with text elements, in `family` if one is given.
    pub(crate) fn to_svg_with(&self, family: &str, colors: ColorMode) -> String {
        let paper = colors.attribute("fill", Paint::Background);
        let mut svg = self.svg_start(family);
        let _ = writeln!(svg, "<rect width=\"{}\" height=\"{}\" {paper}/>", self.width, self.height);
        for item in &self.items {
            item.write_svg(&mut svg, colors);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl SceneItem {
    fn write_svg(&self, svg: &mut String, colors: ColorMode) {
        let _ = match self {
            SceneItem::Rect { area: [x, y, w, h], fill, says } => {
                let (title, fill) = (title_element(says), colors.attribute("fill", *fill));
                writeln!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" {fill}>{title}</rect>"
                )
            }
            SceneItem::Hatched([x, y, w, h]) => {
                let (paper, line) =
                    (colors.attribute("fill", Paint::Background), colors.attribute("stroke", Paint::GuideLine));
                let _ = write!(svg, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" {paper}/>");
                let path: String = hatching([*x, *y, *w, *h])
                    .map(|[x1, y1, x2, y2]| format!("M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}"))
                    .collect();
                writeln!(svg, "<path d=\"{path}\" {line} stroke-width=\"1.2\" fill=\"none\"/>")
            }
            SceneItem::Line { ends: [x1, y1, x2, y2], stroke, width, says } => {
                let (title, stroke) = (title_element(says), colors.attribute("stroke", *stroke));
                writeln!(
                    svg,
                    "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" {stroke} \
                     stroke-width=\"{width:.2}\">{title}</line>"
                )
            }
            SceneItem::Text(SceneText { position: [x, y], text, size, fill, anchor, rotation: turned, is_bold }) => {
                let anchor = match anchor {
                    TextAnchor::Start => "start",
                    TextAnchor::Middle => "middle",
                    TextAnchor::End => "end",
                };
                let weight = if *is_bold { " font-weight=\"bold\"" } else { "" };
                let turn = match *turned == 0.0 {
                    true => String::new(),
                    false => format!(" transform=\"rotate({turned} {x:.2} {y:.2})\""),
                };
                writeln!(
                    svg,
                    "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" {} text-anchor=\"{anchor}\"{weight}{turn} \
                     xml:space=\"preserve\">{}</text>",
                    colors.attribute("fill", *fill),
                    escape_markup(&drawable_text(text, colors))
                )
            }
        };
    }
}

/// Replaces characters that few fonts can draw: pictures of control characters become dots. Flags, which are pairs of
/// regional letters (🇯🇵 is J and P), become plain letters in pictures, as on systems without flags. Pages keep flags,
/// because they use their reader's fonts.
pub(super) fn drawable_text(text: &str, colors: ColorMode) -> String {
    const FIRST: char = '\u{1f1e6}';
    text.chars()
        .map(|c| match c {
            '\u{2400}'..='\u{2426}' => '·',
            FIRST..='\u{1f1ff}' if colors == ColorMode::Fixed => {
                char::from(b'A' + u8::try_from(u32::from(c) - u32::from(FIRST)).expect("one of 26"))
            }
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hatching_stays_within_its_rectangle() {
        for [w, h] in [[20.0, 8.0], [8.0, 20.0], [6.0, 6.0], [4.0, 1.0]] {
            let mut lines = 0;
            for [x1, y1, x2, y2] in hatching([100.0, 200.0, w, h]) {
                lines += 1;
                for [x, y] in [[x1, y1], [x2, y2]] {
                    assert!((100.0..=100.0 + w).contains(&x) && (200.0..=200.0 + h).contains(&y), "{x} {y}");
                }
                assert!(((x1 + y1) - (x2 + y2)).abs() < 1e-9, "all slope alike");
            }
            assert!(lines + 1 == ((w + h) / HATCH_SPACING).ceil() as usize);
        }
    }
}
