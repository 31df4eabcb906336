//! A picture as a one-page PDF: shapes and letter outlines as vectors.

use super::scene::Scene;
use super::shape::PathShape;
use flate2::{Compression, write::ZlibEncoder};
use pdf_writer::{Content, Filter, Finish, Pdf, Rect, Ref, TextStr};
use std::io::Write;
use tiny_skia::{Path, PathSegment};

fn draw_shapes(shapes: &[PathShape], content: &mut Content) {
    for PathShape { path, color, width } in shapes {
        let [r, g, b] = color.map(|x| f32::from(x) / 255.0);
        draw_path(path, content);
        match width {
            None => content.set_fill_rgb(r, g, b).fill_nonzero(),
            Some(width) => content.set_line_width(*width).set_stroke_rgb(r, g, b).stroke(),
        };
    }
}

fn draw_path(path: &Path, content: &mut Content) {
    let mut last = [0.0f32; 2];
    for segment in path.segments() {
        match segment {
            PathSegment::MoveTo(p) => {
                content.move_to(p.x, p.y);
                last = [p.x, p.y];
            }
            PathSegment::LineTo(p) => {
                content.line_to(p.x, p.y);
                last = [p.x, p.y];
            }
            PathSegment::QuadTo(c, p) => {
                // The same curve with two control points, each two thirds of the way to the single one.
                let toward = |from: f32, to: f32| from + (to - from) * 2.0 / 3.0;
                content.cubic_to(
                    toward(last[0], c.x),
                    toward(last[1], c.y),
                    toward(p.x, c.x),
                    toward(p.y, c.y),
                    p.x,
                    p.y,
                );
                last = [p.x, p.y];
            }
            PathSegment::CubicTo(c1, c2, p) => {
                content.cubic_to(c1.x, c1.y, c2.x, c2.y, p.x, p.y);
                last = [p.x, p.y];
            }
            PathSegment::Close => {
                content.close_path();
            }
        }
    }
}

/// Returns the PDF; a point of the scene is a point of the page. The same scene gives the same bytes.
pub(super) fn pdf_page(scene: &Scene, shapes: &[PathShape]) -> Vec<u8> {
    let [width, height] = [scene.width, scene.height].map(|x| x as f32);
    let mut content = Content::new();
    // In a PDF, y points up.
    content.transform([1.0, 0.0, 0.0, -1.0, 0.0, height]);
    draw_shapes(shapes, &mut content);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    let packed = packed.write_all(&content.finish()).and_then(|()| packed.finish()).expect("memory takes all bytes");

    let [catalog, pages, page, contents, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut leaf = pdf.page(page);
    leaf.parent(pages).media_box(Rect::new(0.0, 0.0, width, height)).contents(contents);
    leaf.resources();
    leaf.finish();
    pdf.stream(contents, &packed).filter(Filter::FlateDecode);
    pdf.document_info(info).title(TextStr(&scene.description)).producer(TextStr("Chumoku"));
    pdf.finish()
}
