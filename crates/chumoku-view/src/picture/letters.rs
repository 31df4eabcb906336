//! Letters as outlines: font selection for each letter, shaping, and the position of each glyph on its line.

use super::scene::{SceneText, TextAnchor};
use chumoku::{Error, Result, tr};
use fontdb::{Database, Family, ID, Query, Weight};
use rustybuzz::ttf_parser::{OutlineBuilder, Tag};
use rustybuzz::{Direction, Face, UnicodeBuffer, Variation};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tiny_skia::{Path, PathBuilder, Transform};
use unicode_bidi::{BidiInfo, Level};
use unicode_segmentation::UnicodeSegmentation;

/// A grapheme cluster and whether it is bold: the key of font selection.
type StyledGrapheme<'a> = (&'a str, bool);

/// Returns the outline of each text in the coordinates of its scene; `None` if nothing is visible.
///
/// A letter is drawn in the first of `families` that covers it, or else in the first font of the database that does.
///
/// # Errors
/// If no font covers a letter; the error names the letters.
pub(super) fn text_outlines(fonts: &Database, families: &[String], texts: &[&SceneText]) -> Result<Vec<Option<Path>>> {
    let letters: BTreeSet<StyledGrapheme<'_>> =
        texts.iter().flat_map(|text| text.text.graphemes(true).map(|letter| (letter, text.is_bold))).collect();
    let chosen = choose_fonts(fonts, families, letters)?;
    // The font files, which the faces borrow.
    let ids: BTreeSet<ID> = chosen.values().copied().collect();
    let files: Vec<(ID, Vec<u8>, u32)> =
        ids.into_iter().filter_map(|id| fonts.with_face_data(id, |data, index| (id, data.to_vec(), index))).collect();
    let mut faces: BTreeMap<(ID, bool), Face<'_>> = BTreeMap::new();
    for (id, data, index) in &files {
        for is_bold in [false, true] {
            if let Some(mut face) = Face::from_slice(data, *index) {
                if is_bold {
                    face.set_variations(&[Variation { tag: Tag::from_bytes(b"wght"), value: 700.0 }]);
                }
                faces.insert((*id, is_bold), face);
            }
        }
    }
    Ok(texts.iter().map(|text| text_outline(text, &chosen, &faces)).collect())
}

/// Chooses a font for each letter.
fn choose_fonts<'a>(
    fonts: &Database,
    families: &[String],
    letters: BTreeSet<StyledGrapheme<'a>>,
) -> Result<BTreeMap<StyledGrapheme<'a>, ID>> {
    let mut chosen = BTreeMap::new();
    let mut missing = letters;
    for is_bold in [false, true] {
        let weight = if is_bold { Weight::BOLD } else { Weight::NORMAL };
        let named = families
            .iter()
            .filter_map(|family| fonts.query(&Query { families: &[Family::Name(family)], weight, ..Query::default() }));
        for id in named.chain(fonts.faces().map(|face| face.id)) {
            if !missing.iter().any(|letter| letter.1 == is_bold) {
                break;
            }
            fonts.with_face_data(id, |data, index| {
                let Some(face) = Face::from_slice(data, index) else { return };
                missing.retain(|&letter| {
                    let fits = letter.1 == is_bold && covers_grapheme(&face, letter.0);
                    if fits {
                        chosen.insert(letter, id);
                    }
                    !fits
                });
            });
        }
    }
    if missing.is_empty() {
        return Ok(chosen);
    }
    let named = |text: &str| {
        let codes: Vec<String> = text.chars().map(|c| format!("U+{:04X}", u32::from(c))).collect();
        format!("“{text}” ({})", codes.join(" "))
    };
    let missing: BTreeSet<&str> = missing.into_iter().map(|(letter, _)| letter).collect();
    let letters: Vec<String> = missing.into_iter().take(8).map(named).collect();
    let letters = letters.join(", ");
    Err(Error::Setting(tr!(
        "no installed font has outlines for {letters}: install one that does (Noto Sans CJK JP has Japanese, Noto \
         Emoji has emoji), or name a font's file with --font, or write the page with --html, which uses the \
         reader's fonts",
        "{letters} を輪郭としてもつフォントがありません。もつフォントを入れるか（日本語なら Noto Sans CJK JP、絵文字なら \
         Noto Emoji）、--font でフォントのファイルを指定するか、見る人のフォントを使う --html でページを書き出してください"
    )))
}

/// Returns whether a font covers every visible character of a grapheme.
fn covers_grapheme(face: &Face<'_>, letter: &str) -> bool {
    letter.chars().filter(|&c| !is_ignorable(c)).all(|c| face.glyph_index(c).is_some_and(|glyph| glyph.0 != 0))
}

/// Returns whether a character is invisible: it selects, joins or directs others (Unicode,
/// Default_Ignorable_Code_Point), or is a control character.
fn is_ignorable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the outline of a text at its position in the scene.
fn text_outline(
    text: &SceneText,
    chosen: &BTreeMap<StyledGrapheme<'_>, ID>,
    faces: &BTreeMap<(ID, bool), Face<'_>>,
) -> Option<Path> {
    let mut line = GlyphLine { path: PathBuilder::new(), width: 0.0 };
    let bidi = BidiInfo::new(&text.text, Some(Level::ltr()));
    for paragraph in &bidi.paragraphs {
        let (levels, runs) = bidi.visual_runs(paragraph, paragraph.range.clone());
        for run in runs {
            let direction = match levels[run.start].is_rtl() {
                true => Direction::RightToLeft,
                false => Direction::LeftToRight,
            };
            let mut parts = font_runs(text, run, chosen);
            if direction == Direction::RightToLeft {
                parts.reverse();
            }
            for (font, range) in parts {
                if let Some(face) = faces.get(&(font, text.is_bold)) {
                    line.add(face, &text.text[range], direction, text.size as f32);
                }
            }
        }
    }
    let shift = match text.anchor {
        TextAnchor::Start => 0.0,
        TextAnchor::Middle => -line.width / 2.0,
        TextAnchor::End => -line.width,
    };
    let [x, y] = text.position.map(|x| x as f32);
    let place = Transform::from_translate(x, y).pre_rotate(text.rotation as f32).pre_translate(shift, 0.0);
    line.path.finish()?.transform(place)
}

/// Splits a range of a text into the longest runs of one font.
fn font_runs(
    text: &SceneText,
    range: Range<usize>,
    chosen: &BTreeMap<StyledGrapheme<'_>, ID>,
) -> Vec<(ID, Range<usize>)> {
    let mut parts: Vec<(ID, Range<usize>)> = Vec::new();
    for (at, letter) in text.text[range.clone()].grapheme_indices(true) {
        let Some(&font) = chosen.get(&(letter, text.is_bold)) else { continue };
        let place = range.start + at..range.start + at + letter.len();
        match parts.last_mut() {
            Some((last, part)) if *last == font && part.end == place.start => part.end = place.end,
            _ => parts.push((font, place)),
        }
    }
    parts
}

/// Glyphs on a baseline that starts at the origin; y points down.
struct GlyphLine {
    path: PathBuilder,
    width: f32,
}

impl GlyphLine {
    /// Shapes a run of one font and direction, and appends its glyphs.
    fn add(&mut self, face: &Face<'_>, text: &str, direction: Direction, size: f32) {
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(text);
        buffer.set_direction(direction);
        buffer.guess_segment_properties();
        let glyphs = rustybuzz::shape(face, &[], buffer);
        let scale = size / face.units_per_em() as f32;
        for (glyph, place) in glyphs.glyph_infos().iter().zip(glyphs.glyph_positions()) {
            let origin = [self.width + place.x_offset as f32 * scale, -place.y_offset as f32 * scale];
            let mut pen = GlyphPen { path: &mut self.path, origin, scale };
            let id = u16::try_from(glyph.glyph_id).unwrap_or(0);
            face.outline_glyph(rustybuzz::ttf_parser::GlyphId(id), &mut pen);
            self.width += place.x_advance as f32 * scale;
        }
    }
}

/// Draws a glyph, whose y points up, at its position.
struct GlyphPen<'a> {
    path: &'a mut PathBuilder,
    origin: [f32; 2],
    scale: f32,
}

impl GlyphPen<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.origin[0] + x * self.scale, self.origin[1] - y * self.scale)
    }
}

impl OutlineBuilder for GlyphPen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
