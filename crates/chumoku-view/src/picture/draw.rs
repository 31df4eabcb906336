//! Scenes as files: SVG and PDF with letters as outlines, which look the same everywhere, and PNG.

use super::letters::text_outlines;
use super::paint::{Paint, Theme, hex};
use super::pdf;
use super::scene::{ColorMode, Scene, SceneItem, SceneText, drawable_text, hatching};
use super::shape::PathShape;
use chumoku::{Error, Result, tr};
use fontdb::{Database, ID};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tiny_skia::{FillRule, Path as Outline, PathBuilder, PathSegment, Pixmap, Point, Stroke, Transform};

/// Font families with Japanese glyph variants of shared Han characters, preferred first.
const JAPANESE: [&str; 12] = [
    "Noto Sans JP",
    "Noto Sans CJK JP",
    "Source Han Sans JP",
    "Hiragino Sans",
    "Hiragino Kaku Gothic ProN",
    "Yu Gothic",
    "Meiryo",
    "BIZ UDPGothic",
    "IPAexGothic",
    "IPAPGothic",
    "IPAGothic",
    "Noto Serif CJK JP",
];

/// Font families for all other scripts.
const LATIN: [&str; 6] = ["Inter", "Noto Sans", "DejaVu Sans", "Liberation Sans", "Helvetica", "Arial"];

/// Font tables that hold outlines: TrueType, CFF and CFF2.
const OUTLINES: [&[u8]; 3] = [b"glyf", b"CFF ", b"CFF2"];

/// The fonts of this machine. Loading them takes longer than drawing a picture, so load them once.
#[derive(Clone, Debug)]
pub struct Fonts {
    families: Arc<Database>,
    /// Family names, preferred first.
    order: Vec<String>,
}

impl Fonts {
    /// Loads the installed fonts.
    ///
    /// # Errors
    /// If no font is installed.
    pub fn installed() -> Result<Fonts> {
        let mut families = Database::new();
        families.load_system_fonts();
        Fonts::from_database(families)
    }

    /// Loads the fonts of one file only.
    ///
    /// # Errors
    /// If the file holds no font.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Fonts> {
        let mut families = Database::new();
        families.load_font_data(bytes);
        Fonts::from_database(families)
    }

    /// Loads a font file and prefers it over the installed fonts, which supply missing glyphs.
    ///
    /// # Errors
    /// If the file cannot be read or holds no font with outlines.
    pub fn from_file(path: &Path) -> Result<Fonts> {
        let bytes = std::fs::read(path).map_err(Error::io("reading", path))?;
        let mut families = Database::new();
        families.load_font_data(bytes);
        remove_bitmap_fonts(&mut families);
        let Some(name) = families.faces().find_map(|face| face.families.first().map(|(family, _)| family.clone()))
        else {
            let problem = tr!(
                "{}: no font with outlines (expected TrueType or OpenType)",
                "{}: 輪郭をもつフォントではありません（TrueType か OpenType が必要です）",
                path.display()
            );
            return Err(Error::Setting(problem));
        };
        families.load_system_fonts();
        let mut fonts = Fonts::from_database(families)?;
        fonts.order.insert(0, name);
        Ok(fonts)
    }

    fn from_database(mut families: Database) -> Result<Fonts> {
        remove_bitmap_fonts(&mut families);
        let has = |name: &str| families.faces().any(|face| face.families.iter().any(|(family, _)| family == name));
        let first = |names: &[&str]| names.iter().find(|name| has(name)).map(|name| (*name).to_owned());
        let known = [first(&JAPANESE), first(&LATIN)].into_iter().flatten();
        let other = families.faces().find_map(|face| face.families.first().map(|(family, _)| family.clone()));
        let order: Vec<String> = known.chain(other).collect();
        if order.is_empty() {
            return Err(Error::Setting(tr!(
                "no font is installed, so no picture can be drawn: install one (Noto Sans CJK JP, \
                 for example, includes Japanese), pass a font file with --font, or write a page with --html, which needs no font",
                "フォントがないので図を描けません。フォント（Noto Sans CJK JP など、日本語のあるもの）を入れるか、--font \
                 でフォントのファイルを指定するか、フォントの要らない --html でページを書き出してください"
            )));
        }
        Ok(Fonts { families: Arc::new(families), order })
    }

    /// Returns the shapes of a scene from back to front.
    fn shapes(&self, scene: &Scene) -> Result<Vec<PathShape>> {
        let texts = scene.items.iter().filter_map(|item| match item {
            SceneItem::Text(text) => Some(visible_text(text)),
            _ => None,
        });
        let texts: Vec<SceneText> = texts.collect();
        let outlines = text_outlines(&self.families, &self.order, &texts.iter().collect::<Vec<_>>())?;
        let mut outlines = outlines.into_iter();
        let paper = [0.0, 0.0, scene.width, scene.height];
        let mut shapes: Vec<PathShape> = rectangle(paper, Paint::Background).into_iter().collect();
        for item in &scene.items {
            match item {
                SceneItem::Rect { area, fill, .. } => shapes.extend(rectangle(*area, *fill)),
                SceneItem::Hatched(area) => {
                    shapes.extend(rectangle(*area, Paint::Background));
                    shapes.extend(lines(hatching(*area), Paint::GuideLine, 1.2));
                }
                SceneItem::Line { ends, stroke, width, .. } => shapes.extend(lines([*ends], *stroke, *width)),
                SceneItem::Text(text) => {
                    let path = outlines.next().flatten();
                    shapes.extend(path.map(|path| PathShape { path, color: text.fill.rgb(Theme::Light), width: None }));
                }
            }
        }
        Ok(shapes)
    }

    /// Returns the scene as SVG with letters as outlines, which needs no font where it is shown.
    ///
    /// # Errors
    /// If no font has a glyph for a letter; the error names the letters.
    pub fn svg(&self, scene: &Scene) -> Result<String> {
        let mut svg = scene.svg_start("");
        for PathShape { path, color, width } in self.shapes(scene)? {
            let (color, data) = (hex(color), path_data(&path));
            let _ = match width {
                None => writeln!(svg, "<path fill=\"{color}\" d=\"{data}\"/>"),
                Some(width) => {
                    writeln!(svg, "<path fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" d=\"{data}\"/>")
                }
            };
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }

    /// Returns the scene as a one-page PDF with letters as outlines.
    ///
    /// # Errors
    /// If no font has a glyph for a letter; the error names the letters.
    pub fn pdf(&self, scene: &Scene) -> Result<Vec<u8>> {
        Ok(pdf::pdf_page(scene, &self.shapes(scene)?))
    }

    /// Returns the scene as PNG, enlarged by `scale`.
    ///
    /// # Errors
    /// If no font has a glyph for a letter, or the picture is too large.
    pub fn png(&self, scene: &Scene, scale: f64) -> Result<Vec<u8>> {
        let shapes = self.shapes(scene)?;
        let [width, height] = [scene.width, scene.height].map(|x| (x * scale).ceil());
        let fault = || {
            Error::Setting(tr!(
                "a picture of {width} × {height} pixels is too large to draw; use --svg",
                "{width} × {height} ピクセルの図は大きすぎて描けません。--svg を使ってください"
            ))
        };
        if width > 20_000.0 || height > 20_000.0 {
            return Err(fault());
        }
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(fault)?;
        let transform = Transform::from_scale(scale as f32, scale as f32);
        for PathShape { path, color: [red, green, blue], width } in &shapes {
            let mut paint = tiny_skia::Paint { anti_alias: true, ..tiny_skia::Paint::default() };
            paint.set_color_rgba8(*red, *green, *blue, 255);
            match width {
                None => pixels.fill_path(path, &paint, FillRule::Winding, transform, None),
                Some(width) => {
                    let stroke = Stroke { width: *width, ..Stroke::default() };
                    pixels.stroke_path(path, &paint, &stroke, transform, None);
                }
            }
        }
        pixels.encode_png().map_err(|error| Error::Setting(tr!("writing the PNG: {error}", "PNG の書き出し: {error}")))
    }
}

/// Returns a text with the characters that pictures can show.
fn visible_text(text: &SceneText) -> SceneText {
    SceneText { text: drawable_text(&text.text, ColorMode::Fixed).replace(char::is_control, " "), ..text.clone() }
}

/// Returns a filled rectangle from left, top, width and height; `None` if it has no area.
fn rectangle([x, y, w, h]: [f64; 4], fill: Paint) -> Option<PathShape> {
    let area = tiny_skia::Rect::from_xywh(x as f32, y as f32, w as f32, h as f32)?;
    Some(PathShape { path: PathBuilder::from_rect(area), color: fill.rgb(Theme::Light), width: None })
}

/// Returns straight lines of one width; each element of `ends` is x, y of the start and of the end.
fn lines(ends: impl IntoIterator<Item = [f64; 4]>, stroke: Paint, width: f64) -> Option<PathShape> {
    let mut path = PathBuilder::new();
    for [x1, y1, x2, y2] in ends.into_iter().map(|ends| ends.map(|x| x as f32)) {
        path.move_to(x1, y1);
        path.line_to(x2, y2);
    }
    Some(PathShape { path: path.finish()?, color: stroke.rgb(Theme::Light), width: Some(width as f32) })
}

/// Returns the attribute `d` of an SVG `path`, rounded to hundredths.
fn path_data(path: &Outline) -> String {
    let mut data = String::new();
    let mut add = |command: char, points: &[Point]| {
        data.push(command);
        for (i, number) in points.iter().flat_map(|point| [point.x, point.y]).enumerate() {
            let rounded = (f64::from(number) * 100.0).round() / 100.0;
            let gap = if i == 0 { "" } else { " " };
            let _ = write!(data, "{gap}{}", rounded + 0.0);
        }
    };
    for segment in path.segments() {
        match segment {
            PathSegment::MoveTo(p) => add('M', &[p]),
            PathSegment::LineTo(p) => add('L', &[p]),
            PathSegment::QuadTo(c, p) => add('Q', &[c, p]),
            PathSegment::CubicTo(c1, c2, p) => add('C', &[c1, c2, p]),
            PathSegment::Close => add('Z', &[]),
        }
    }
    data
}

/// Removes fonts that have only bitmaps, as some emoji fonts do: their letters could not be drawn.
fn remove_bitmap_fonts(families: &mut Database) {
    let bitmaps: Vec<ID> = families
        .faces()
        .map(|face| face.id)
        .filter(|&id| families.with_face_data(id, has_outlines) != Some(true))
        .collect();
    for id in bitmaps {
        families.remove_face(id);
    }
}

/// Returns whether the font with this index has outlines (OpenType, chapter "Table Directory").
fn has_outlines(file: &[u8], index: u32) -> bool {
    let number = |at: usize| Some(u32::from_be_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let font = match file.starts_with(b"ttcf") {
        true => number(12 + 4 * index as usize),
        false => Some(0),
    };
    let directory = || {
        let font = font?;
        let tables = number(font.checked_add(4)?)? >> 16;
        file.get(font + 12..)?.chunks_exact(16).take(tables).map(|entry| &entry[..4]).find(|tag| OUTLINES.contains(tag))
    };
    directory().is_some()
}
