//! From a scene to files: SVG and PDF whose letters are outlines, so that they look the same everywhere, and PNG.

use super::pdf;
use super::scene::{Colours, Scene};
use chumoku::{Error, Result, tr};
use resvg::usvg::fontdb::{Database, ID};
use resvg::usvg::{Group, Node, Options, Tree, WriteOptions};
use resvg::{render, tiny_skia};
use std::path::Path;
use std::sync::Arc;

/// Families with Japanese forms of the letters that Chinese and Japanese share, the best first.
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

/// Families for everything else.
const LATIN: [&str; 6] = ["Inter", "Noto Sans", "DejaVu Sans", "Liberation Sans", "Helvetica", "Arial"];

/// The tables that hold outlines: TrueType's, and the two versions of CFF.
const OUTLINES: [&[u8]; 3] = [b"glyf", b"CFF ", b"CFF2"];

/// The fonts of this machine. Finding them takes longer than a picture, so find them once.
#[derive(Clone, Debug)]
pub struct Fonts {
    families: Arc<Database>,
    /// Families in the order in which they are asked.
    order: String,
}

impl Fonts {
    /// The fonts that are installed.
    ///
    /// # Errors
    /// If there are none.
    pub fn installed() -> Result<Fonts> {
        let mut families = Database::new();
        families.load_system_fonts();
        Fonts::of(families)
    }

    /// The fonts of one file alone.
    ///
    /// # Errors
    /// If it holds none.
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Fonts> {
        let mut families = Database::new();
        families.load_font_data(bytes);
        Fonts::of(families)
    }

    /// The font of a file before all others; those that are installed have what it lacks.
    ///
    /// # Errors
    /// If the file cannot be read or holds no font with outlines.
    pub fn of_file(path: &Path) -> Result<Fonts> {
        let bytes = std::fs::read(path).map_err(Error::io("reading", path))?;
        let mut families = Database::new();
        families.load_font_data(bytes);
        leave_out_bitmaps(&mut families);
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
        let rest = Fonts::of(families)?;
        Ok(Fonts { order: format!("'{}', {}", name.replace('\'', ""), rest.order), ..rest })
    }

    fn of(mut families: Database) -> Result<Fonts> {
        leave_out_bitmaps(&mut families);
        let has = |name: &str| families.faces().any(|face| face.families.iter().any(|(family, _)| family == name));
        let first = |names: &[&str]| names.iter().find(|name| has(name)).map(|name| (*name).to_owned());
        let known = [first(&JAPANESE), first(&LATIN)].into_iter().flatten();
        let other = families.faces().find_map(|face| face.families.first().map(|(family, _)| family.clone()));
        let order: Vec<String> = known.chain(other).map(|family| format!("'{}'", family.replace('\'', ""))).collect();
        if order.is_empty() {
            return Err(Error::Setting(tr!(
                "no font is installed, so no picture can be drawn: install one (with Japanese in it, Noto Sans CJK JP, \
                 say), or name a font's file with --font, or write the page with --html, which needs none",
                "フォントがないので図を描けません。フォント（Noto Sans CJK JP など、日本語のあるもの）を入れるか、--font \
                 でフォントのファイルを指定するか、フォントの要らない --html でページを書き出してください"
            )));
        }
        Ok(Fonts { families: Arc::new(families), order: order.join(", ") })
    }

    /// The scene laid out in these fonts.
    fn tree(&self, scene: &Scene) -> Result<Tree> {
        let options = Options {
            fontdb: Arc::clone(&self.families),
            languages: vec!["ja".into(), "en".into()],
            ..Options::default()
        };
        let tree = Tree::from_str(&scene.to_source(&self.order, Colours::Fixed), &options)
            .map_err(|error| Error::Setting(tr!("drawing the picture: {error}", "図の描画: {error}")))?;
        match missing(tree.root()) {
            Some(letters) => Err(Error::Setting(tr!(
                "no installed font has outlines for {letters}: install one that does (Noto Sans CJK JP has Japanese, Noto \
                 Emoji has emoji), or name a font's file with --font, or write the page with --html, which uses the \
                 reader's fonts",
                "{letters} を輪郭としてもつフォントがありません。もつフォントを入れるか（日本語なら Noto Sans CJK JP、絵文字なら \
                 Noto Emoji）、--font でフォントのファイルを指定するか、見る人のフォントを使う --html でページを書き出してください"
            ))),
            None => Ok(tree),
        }
    }

    /// The scene as SVG whose letters are outlines: it needs no font where it is shown.
    ///
    /// # Errors
    /// If no font has a letter of it: which.
    pub fn svg(&self, scene: &Scene) -> Result<String> {
        let tree = self.tree(scene)?;
        let options = WriteOptions { preserve_text: false, ..WriteOptions::default() };
        let svg = tree.to_string(&options);
        // What the picture says goes with it.
        let title = scene.to_source("", Colours::Fixed).lines().nth(1).unwrap_or_default().to_owned();
        Ok(match svg.split_once('>') {
            Some((head, rest)) => format!("{head} role=\"img\">{title}{rest}"),
            None => svg,
        })
    }

    /// The scene as PDF of one page, whose letters are outlines.
    ///
    /// # Errors
    /// If no font has a letter of it: which.
    pub fn pdf(&self, scene: &Scene) -> Result<Vec<u8>> {
        Ok(pdf::page(scene, &self.tree(scene)?))
    }

    /// The scene as PNG, so many times as large as it says.
    ///
    /// # Errors
    /// If no font has a letter of it, or it is too large to draw.
    pub fn png(&self, scene: &Scene, scale: f64) -> Result<Vec<u8>> {
        let tree = self.tree(scene)?;
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
        let mut pixels = tiny_skia::Pixmap::new(width as u32, height as u32).ok_or_else(fault)?;
        render(&tree, tiny_skia::Transform::from_scale(scale as f32, scale as f32), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| Error::Setting(tr!("writing the PNG: {error}", "PNG の書き出し: {error}")))
    }
}

/// Takes the fonts away whose letters are bitmaps alone, as those of some emoji fonts are: nothing would be drawn for them.
fn leave_out_bitmaps(families: &mut Database) {
    let bitmaps: Vec<ID> = families
        .faces()
        .map(|face| face.id)
        .filter(|&id| families.with_face_data(id, has_outlines) != Some(true))
        .collect();
    for id in bitmaps {
        families.remove_face(id);
    }
}

/// Whether a font file says that its font of this index has outlines (OpenType, chapter "Table Directory").
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

/// Letters that no font has.
fn missing(group: &Group) -> Option<String> {
    let mut letters: Vec<String> = Vec::new();
    find_missing(group, &mut letters);
    letters.sort();
    letters.dedup();
    let named = |text: &String| {
        let codes: Vec<String> = text.chars().map(|c| format!("U+{:04X}", u32::from(c))).collect();
        format!("“{text}” ({})", codes.join(" "))
    };
    (!letters.is_empty()).then(|| letters.iter().take(8).map(named).collect::<Vec<_>>().join(", "))
}

fn find_missing(group: &Group, letters: &mut Vec<String>) {
    for node in group.children() {
        match node {
            Node::Group(group) => find_missing(group, letters),
            Node::Text(text) => {
                // Of the glyphs of one letter (a flag, say, or a heart with the sign that colours it) the last has the text.
                let mut lacks = false;
                for glyph in text.layouted().iter().flat_map(|span| &span.positioned_glyphs) {
                    lacks |= glyph.id.0 == 0;
                    if lacks && !glyph.text.is_empty() {
                        letters.push(glyph.text.clone());
                    }
                    lacks &= glyph.text.is_empty();
                }
            }
            _ => {}
        }
    }
}
