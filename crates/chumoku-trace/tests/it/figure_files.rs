//! Figures as SVG with outlines, PNG and PDF: every item at its place in the scene, and every letter from a font that
//! covers it.

use crate::common::figures::{assert_near, figures};
use chumoku_view::{ExplanationFigures as _, Fonts, Lang, Paint, Scene, SceneItem, SceneText, Theme, figures_to_html};

#[test]
fn every_figure_becomes_svg_png_and_pdf() {
    let Ok(fonts) = Fonts::installed() else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    for figure in figures(Lang::En).into_iter().chain(figures(Lang::Ja)) {
        let scene = figure.scene();
        let svg = match fonts.svg(&scene) {
            Ok(svg) => svg,
            Err(error) if error.to_string().contains("no installed font has") => {
                eprintln!("SKIPPED: {}: {error}", figure.title);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        // Letters are outlines, so no font is needed where the file is shown.
        assert!(!svg.contains("<text") && svg.contains("<path"), "{}", figure.title);
        let png = fonts.png(&scene, 1.0).unwrap();
        let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert!(png.starts_with(b"\x89PNG"));
        assert_eq!([size(16), size(20)], [scene.width as u32, scene.height as u32]);
        let pdf = fonts.pdf(&scene).unwrap();
        assert!(pdf.starts_with(b"%PDF-") && pdf.trim_ascii_end().ends_with(b"%%EOF"));
        let media = format!("/MediaBox [0 0 {} {}]", scene.width, scene.height);
        assert!(String::from_utf8_lossy(&pdf).contains(&media), "{media}");
        assert_eq!(pdf, fonts.pdf(&scene).unwrap(), "the same bytes every time");
    }
}

#[test]
fn letters_without_a_font_are_named() {
    let Ok(fonts) = Fonts::installed() else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    // No font covers a private-use character.
    let figure = crate::common::example(&["x\u{10fffd}"], 1, 1).heatmap(0, 0, Lang::En);
    for problem in [
        fonts.svg(&figure.scene()).unwrap_err(),
        fonts.png(&figure.scene(), 1.0).unwrap_err(),
        fonts.pdf(&figure.scene()).unwrap_err(),
    ] {
        assert!(problem.to_string().contains("U+10FFFD"), "{problem}");
    }
    // The same holds at the start of a grapheme whose other characters are invisible, as in flags of regions.
    let figure = crate::common::example(&["x\u{10fffd}\u{fe0f}"], 1, 1).heatmap(0, 0, Lang::En);
    assert!(fonts.svg(&figure.scene()).unwrap_err().to_string().contains("U+10FFFD U+FE0F"));
    assert!(Fonts::from_bytes(b"no font".to_vec()).is_err());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no font").unwrap();
    assert!(Fonts::from_file(file.path()).unwrap_err().to_string().contains("no font"));
}

/// Emoji fonts with bitmap glyphs draw nothing, so they count as not covering a letter.
#[test]
fn bitmap_fonts_are_ignored() {
    let mut installed = fontdb::Database::new();
    installed.load_system_fonts();
    let one = |face: &fontdb::FaceInfo| installed.with_face_data(face.id, |data, _| data.to_vec());
    let Some(font) = installed.faces().filter_map(one).find(|data| Fonts::from_bytes(data.clone()).is_ok()) else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    let mut bitmaps = font;
    for outlines in [b"glyf", b"CFF ", b"CFF2"] {
        // The names of font tables are within the first kilobytes.
        let directory: Vec<usize> =
            (0..bitmaps.len().min(4096) - 4).filter(|&at| &bitmaps[at..at + 4] == outlines).collect();
        directory.iter().for_each(|&at| bitmaps[at..at + 4].copy_from_slice(b"CBDT"));
    }
    assert!(Fonts::from_bytes(bitmaps.clone()).is_err());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bitmaps).unwrap();
    let problem = Fonts::from_file(file.path()).unwrap_err().to_string();
    assert!(problem.contains("no font with outlines"), "{problem}");
}

/// A scene of one rectangle and a vertical text from (50, 150) upwards.
fn scene() -> Scene {
    let upright = SceneText { rotation: -90.0, ..SceneText::new([50.0, 150.0], "HHHH", 20.0, Paint::Text) };
    let area = [10.0, 20.0, 30.0, 40.0];
    Scene {
        width: 100.0,
        height: 200.0,
        description: "a rectangle and a word".into(),
        items: vec![SceneItem::Rect { area, fill: Paint::Signed(1.0), says: String::new() }, SceneItem::Text(upright)],
    }
}

/// Returns the filled outlines of a PDF at their positions on the page, [left, bottom, right, top], with their colors.
fn filled(pdf: &[u8]) -> Vec<([f32; 4], String)> {
    let start = b"stream\n";
    let at = pdf.windows(start.len()).position(|bytes| bytes == start).expect("a stream") + start.len();
    let mut content = String::new();
    std::io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(&pdf[at..]), &mut content)
        .expect("deflated text");
    let (mut transform, mut saved) = ([1.0f32, 0.0, 0.0, 1.0, 0.0, 0.0], Vec::new());
    let (mut points, mut color, mut found) = (Vec::<[f32; 2]>::new(), String::new(), Vec::new());
    let mut operands: Vec<f32> = Vec::new();
    for token in content.split_whitespace() {
        if let Ok(number) = token.parse() {
            operands.push(number);
            continue;
        }
        match token {
            "q" => saved.push(transform),
            "Q" => transform = saved.pop().expect("a state"),
            "cm" => {
                // The new matrix applies first: [a b c d e f] of ISO 32000, 8.3.4.
                let ([a, b, c, d, e, f], t) = (<[f32; 6]>::try_from(&*operands).expect("six numbers"), transform);
                let turn = |x: f32, y: f32| [x * t[0] + y * t[2], x * t[1] + y * t[3]];
                let ([x, y], [z, w], [e, f]) = (turn(a, b), turn(c, d), turn(e, f));
                transform = [x, y, z, w, e + t[4], f + t[5]];
            }
            "m" | "l" | "c" => points.extend(operands.chunks_exact(2).map(|p| {
                let t = transform;
                [p[0] * t[0] + p[1] * t[2] + t[4], p[0] * t[1] + p[1] * t[3] + t[5]]
            })),
            "rg" => color = operands.iter().map(|x| format!("{:02x}", (x * 255.0).round() as u8)).collect(),
            "f" => {
                let of = |axis: usize, choose: fn(f32, f32) -> f32, start: f32| {
                    points.iter().map(|p| p[axis]).fold(start, choose)
                };
                let (least, most) = (f32::INFINITY, f32::NEG_INFINITY);
                let area =
                    [of(0, f32::min, least), of(1, f32::min, least), of(0, f32::max, most), of(1, f32::max, most)];
                found.push((area, color.clone()));
                points.clear();
            }
            _ => {}
        }
        operands.clear();
    }
    found
}

#[test]
fn pdf_items_are_at_their_scene_positions() {
    let Ok(fonts) = Fonts::installed() else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    let shapes = filled(&fonts.pdf(&scene()).unwrap());
    let hex = |paint: Paint| paint.rgb(Theme::Light).map(|x| format!("{x:02x}")).concat();
    let of = |paint: Paint| {
        let mut areas = shapes.iter().filter(|(_, color)| *color == hex(paint)).map(|(area, _)| *area);
        let first = areas.next().expect("a shape of this color");
        areas.fold(first, |a, b| [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])])
    };
    // In a PDF y points up: 200 − 20 − 40 to 200 − 20.
    for (found, expected) in of(Paint::Signed(1.0)).into_iter().zip([10.0, 140.0, 40.0, 180.0]) {
        assert_near(found.into(), expected, 0.01);
    }
    assert_eq!(of(Paint::Background), [0.0, 0.0, 100.0, 200.0]);
    // Four vertical letters: from 50 points above the bottom of the page upwards, and left of their start.
    let [left, bottom, right, top] = of(Paint::Text);
    assert!((34.0..50.0).contains(&left) && (49.0..51.0).contains(&right), "{left} to {right}");
    assert!((50.0..54.0).contains(&bottom) && (80.0..130.0).contains(&top), "{bottom} to {top}");
}

#[test]
fn png_size_follows_the_scale() {
    let Ok(fonts) = Fonts::installed() else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    for scale in [1.0, 2.0, 0.5] {
        let png = fonts.png(&scene(), scale).unwrap();
        let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
        assert_eq!([pixels.width(), pixels.height()], [100.0, 200.0].map(|x| (x * scale) as u32));
        let at = |x: f64, y: f64| {
            let pixel = pixels.pixel((x * scale) as u32, (y * scale) as u32).expect("within the picture");
            [pixel.red(), pixel.green(), pixel.blue()]
        };
        let [fill, paper] = [Paint::Signed(1.0), Paint::Background].map(|paint| paint.rgb(Theme::Light));
        for ([x, y], expected) in [
            ([14.0, 24.0], fill),
            ([36.0, 56.0], fill),
            ([6.0, 40.0], paper),
            ([44.0, 40.0], paper),
            ([25.0, 14.0], paper),
            ([25.0, 66.0], paper),
            ([90.0, 190.0], paper),
        ] {
            assert_eq!(at(x, y), expected, "({x}, {y}) × {scale}");
        }
    }
    let large = Scene { width: 10_001.0, ..scene() };
    let problem = fonts.png(&large, 2.0).unwrap_err().to_string();
    assert!(problem.contains("20002 × 400") && problem.contains("--svg"), "{problem}");
    assert!(fonts.png(&Scene { width: 10_000.0, height: 1.0, ..scene() }, 2.0).is_ok());
}

/// A flag is a pair of regional letters, which few fonts have: a picture shows the letters.
#[test]
fn flags_are_drawn_as_letters() {
    let Ok(fonts) = Fonts::installed() else {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    };
    let drawn = |text: &str| {
        let scene = Scene { items: vec![SceneText::new([10.0, 20.0], text, 13.0, Paint::Text).into()], ..scene() };
        (fonts.png(&scene, 1.0).unwrap(), fonts.pdf(&scene).unwrap())
    };
    assert_eq!(drawn("🇯🇵 🇦🇿"), drawn("JP AZ"));
    assert_ne!(drawn("🇯🇵"), drawn("JQ"));
    // A page uses its reader's fonts.
    let figure = crate::common::example(&["🇯🇵"], 1, 1).heatmap(0, 0, Lang::En);
    assert!(figures_to_html("", &[[figure.clone(), figure]], Lang::En).contains("🇯🇵"));
}
