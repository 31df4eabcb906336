//! A picture before it is drawn: shapes and texts in a plane, from which SVG, PNG, PDF and pages are made alike.

use super::paint::{Paint, Theme, hex};
use crate::escape_markup;
use std::fmt::Write;

/// Where a text stands beside its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAnchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A shape or a text. Lengths are points; y grows downwards.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SceneItem {
    /// A filled rectangle.
    Rect {
        /// Left, top, width, height.
        area: [f64; 4],
        /// Its colour.
        fill: Paint,
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
        stroke: Paint,
        /// Its width.
        width: f64,
        /// What it shows, for whoever points at it or cannot see it.
        says: String,
    },
    /// A text on one line.
    Text(SceneText),
}

/// A text on one line.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneText {
    /// Its place, on the base line.
    pub at: [f64; 2],
    /// What it says.
    pub text: String,
    /// Its height.
    pub size: f64,
    /// Its colour.
    pub fill: Paint,
    /// Where it stands.
    pub anchor: TextAnchor,
    /// By how many degrees it is turned, clockwise.
    pub turned: f64,
    /// Whether it is bold.
    pub is_bold: bool,
}

impl SceneText {
    /// Plain text that begins at a place.
    #[must_use]
    pub fn new(at: [f64; 2], text: impl Into<String>, size: f64, fill: Paint) -> SceneText {
        SceneText { at, text: text.into(), size, fill, anchor: TextAnchor::Start, turned: 0.0, is_bold: false }
    }

    /// The same, standing elsewhere.
    #[must_use]
    pub fn with_anchor(self, anchor: TextAnchor) -> SceneText {
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
    /// What it shows, in a sentence.
    pub description: String,
    /// What is in it, the hindmost first.
    pub items: Vec<SceneItem>,
}

/// How colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorMode {
    /// As they are.
    Fixed,
    /// As classes of a page's style sheet, which has them light and dark.
    Classes,
}

impl ColorMode {
    fn attribute(self, property: &str, paint: Paint) -> String {
        match self {
            ColorMode::Fixed => format!("{property}=\"{}\"", hex(paint.rgb(Theme::Light))),
            // A line's class has its own name, for a stroke is no fill.
            ColorMode::Classes if property == "stroke" => format!("class=\"l{}\"", paint.class()),
            ColorMode::Classes => format!("class=\"{}\"", paint.class()),
        }
    }

    /// The style sheet of all classes.
    pub(crate) fn style() -> String {
        let mut style = String::new();
        for (theme, prefix) in [(Theme::Light, ""), (Theme::Dark, ":root[data-theme=\"dark\"] ")] {
            for paint in Paint::classes() {
                let (class, colour) = (paint.class(), hex(paint.rgb(theme)));
                let _ = writeln!(style, "{prefix}.{class}{{fill:{colour}}}");
                // Text is never a line.
                if !matches!(paint, Paint::TextOnShare(_) | Paint::TextOnSigned(_)) {
                    let _ = writeln!(style, "{prefix}.l{class}{{stroke:{colour}}}");
                }
            }
        }
        style
    }
}

/// How far apart the lines of hatching are.
const HATCH_SPACING: f64 = 5.0;

/// The lines that hatch a rectangle, from lower left to upper right, cut at its borders.
pub(super) fn hatching([x, y, w, h]: [f64; 4]) -> impl Iterator<Item = [f64; 4]> {
    let count = ((w + h) / HATCH_SPACING).ceil() as usize;
    (1..count).map(move |i| {
        // x + y of the line, from the upper left corner on.
        let sum = i as f64 * HATCH_SPACING;
        let [from, to] = [[(sum - h).max(0.0), sum.min(h)], [sum.min(w), (sum - w).max(0.0)]];
        [x + from[0], y + from[1], x + to[0], y + to[1]]
    })
}

fn title_element(says: &str) -> String {
    if says.is_empty() { String::new() } else { format!("<title>{}</title>", escape_markup(says)) }
}

impl Scene {
    /// Returns the picture as SVG with text elements, in the viewer's sans-serif font. Pointing at a shape shows its number.
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

    /// The picture as SVG whose texts are texts, in `family` if one is given.
    pub(crate) fn to_svg_with(&self, family: &str, colours: ColorMode) -> String {
        let paper = colours.attribute("fill", Paint::Background);
        let mut svg = self.svg_start(family);
        let _ = writeln!(svg, "<rect width=\"{}\" height=\"{}\" {paper}/>", self.width, self.height);
        for item in &self.items {
            item.write_svg(&mut svg, colours);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl SceneItem {
    fn write_svg(&self, svg: &mut String, colours: ColorMode) {
        let _ = match self {
            SceneItem::Rect { area: [x, y, w, h], fill, says } => {
                let (title, fill) = (title_element(says), colours.attribute("fill", *fill));
                writeln!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" {fill}>{title}</rect>"
                )
            }
            SceneItem::Hatched([x, y, w, h]) => {
                let (paper, line) =
                    (colours.attribute("fill", Paint::Background), colours.attribute("stroke", Paint::GuideLine));
                let _ = write!(svg, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" {paper}/>");
                let path: String = hatching([*x, *y, *w, *h])
                    .map(|[x1, y1, x2, y2]| format!("M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}"))
                    .collect();
                writeln!(svg, "<path d=\"{path}\" {line} stroke-width=\"1.2\" fill=\"none\"/>")
            }
            SceneItem::Line { ends: [x1, y1, x2, y2], stroke, width, says } => {
                let (title, stroke) = (title_element(says), colours.attribute("stroke", *stroke));
                writeln!(
                    svg,
                    "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" {stroke} \
                     stroke-width=\"{width:.2}\">{title}</line>"
                )
            }
            SceneItem::Text(SceneText { at: [x, y], text, size, fill, anchor, turned, is_bold }) => {
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
                    colours.attribute("fill", *fill),
                    escape_markup(&drawable_text(text, colours))
                )
            }
        };
    }
}

/// A text as it is drawn: few fonts have the pictures of control characters, which stand for what has no shape. Nor have
/// they flags, which are pairs of letters of their own (🇯🇵 is J and P): a picture shows the letters, as systems without
/// flags do. A page is drawn with its reader's fonts.
pub(super) fn drawable_text(text: &str, colours: ColorMode) -> String {
    const FIRST: char = '\u{1f1e6}';
    text.chars()
        .map(|c| match c {
            '\u{2400}'..='\u{2426}' => '·',
            FIRST..='\u{1f1ff}' if colours == ColorMode::Fixed => {
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
