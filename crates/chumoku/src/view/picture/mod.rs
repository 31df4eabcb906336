//! Pictures as files: a [`Heatmap`] makes a [`Scene`], and [`Fonts`] draws it as SVG or PNG, without any display.

mod draw;
mod heatmap;
mod scene;

pub use draw::Fonts;
pub use heatmap::Heatmap;
pub use scene::{Anchor, Item, Rgb, Scene};

use super::alignment::Alignment;
use super::explanation::Explanation;
use super::phrases::{self, Lang};

impl Explanation {
    /// The heatmap of a head. All indices count from 0.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    pub fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Scene {
        let words: Vec<String> = self.words.iter().map(|word| word.text.clone()).collect();
        let title = format!("{}: {}", self.model, phrases::head_name(lang, layer, head));
        Heatmap {
            title: &title,
            subtitle: &self.text,
            rows: words.clone(),
            columns: words,
            weight: &|i, j| self.weight(layer, head, i, j),
            lang,
        }
        .scene()
    }
}

impl Alignment {
    /// The heatmap of a head: words of the translation by words of the source. All indices count from 0.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    pub fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Scene {
        let [rows, columns] = [&self.target_words, &self.source_words]
            .map(|words| words.iter().map(|word| word.text.clone()).collect::<Vec<String>>());
        let title = format!("{}: {}", self.model, phrases::head_name(lang, layer, head));
        let subtitle = format!("{} → {}", self.source, self.target);
        let weight = |i: usize, j: usize| Some(self.row(layer, head, i)[j]);
        Heatmap { title: &title, subtitle: &subtitle, rows, columns, weight: &weight, lang }.scene()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::alignment::tests::example;

    /// 2 rows by 3 columns, of which one cannot be seen.
    fn scene() -> Scene {
        let weights = [[Some(0.25f32), Some(0.75), None], [Some(0.001), Some(0.0), Some(0.999)]];
        Heatmap {
            title: "a <title>",
            subtitle: "\u{202e}</svg>",
            rows: vec!["one".into(), "二".into()],
            columns: vec!["a".into(), "b & c".into(), "d".into()],
            weight: &|i, j| weights[i][j],
            lang: Lang::En,
        }
        .scene()
    }

    #[test]
    fn every_number_stands_in_its_cell() {
        let scene = scene();
        let texts = |wanted: &str| -> Vec<[f64; 2]> {
            let found = scene.items.iter().filter_map(|item| match item {
                Item::Text { at, text, .. } if text == wanted => Some(*at),
                _ => None,
            });
            found.collect()
        };
        let cells: Vec<[f64; 4]> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Rect { area, says, .. } if !says.is_empty() => Some(*area),
                Item::Hatched(area) => Some(*area),
                _ => None,
            })
            .collect();
        assert_eq!(cells.len(), 6);
        // Row by row, and "0" is also on the scale.
        for (index, number) in [".25", ".75", "", "<.01", "0", "1"].into_iter().enumerate() {
            if number.is_empty() {
                assert!(matches!(scene.items.iter().filter(|item| matches!(item, Item::Hatched(_))).count(), 1));
                continue;
            }
            let [x, y, w, h] = cells[index];
            let inside = |at: &[f64; 2]| at[0] > x && at[0] < x + w && at[1] > y && at[1] < y + h;
            assert!(texts(number).iter().any(inside), "{number} in cell {index}");
        }
        // Darker is more.
        let fill = |index: usize| match &scene
            .items
            .iter()
            .filter(|i| matches!(i, Item::Rect { says, .. } if !says.is_empty()))
            .nth(index)
        {
            Some(Item::Rect { fill, .. }) => fill.iter().map(|&x| u32::from(x)).sum::<u32>(),
            _ => panic!("no cell"),
        };
        assert!(fill(1) < fill(0) && fill(0) < fill(3), "{} {} {}", fill(0), fill(1), fill(3));
        for item in &scene.items {
            if let Item::Text { at, .. } = item {
                assert!(at[0] >= 0.0 && at[0] <= scene.width && at[1] >= 0.0 && at[1] <= scene.height, "{item:?}");
            }
        }
    }

    #[test]
    fn an_alignment_has_its_target_in_the_rows() {
        let scene = example().heatmap(0, 1, Lang::Ja);
        let says: Vec<&String> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Rect { says, .. } if !says.is_empty() => Some(says),
                _ => None,
            })
            .collect();
        assert_eq!(says.len(), 9);
        assert!(says[3].contains("90.0 %") && says[3].starts_with('A'), "{}", says[3]);
    }

    #[test]
    fn pictures_are_drawn_where_there_are_fonts_and_what_no_font_has_is_named() {
        let Ok(fonts) = Fonts::installed() else {
            eprintln!("SKIPPED: no fonts are installed");
            return;
        };
        let scene = Scene {
            items: scene()
                .items
                .into_iter()
                .filter(|i| !matches!(i, Item::Text { text, .. } if text.contains('二')))
                .collect(),
            ..scene()
        };
        let svg = fonts.svg(&scene).unwrap();
        assert!(!svg.contains("<text") && svg.contains("<path"), "{svg}");
        assert!(!svg.contains("</svg>\u{202e}") && svg.matches("</svg>").count() == 1);
        assert!(svg.contains("a &lt;title&gt;"));
        let png = fonts.png(&scene, 2.0).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!([size(16), size(20)], [(2.0 * scene.width) as u32, (2.0 * scene.height) as u32]);
        // A private letter is in no font.
        let odd = Scene {
            items: vec![Item::Text {
                at: [1.0, 20.0],
                text: "x\u{10fffd}".into(),
                size: 12.0,
                fill: [0; 3],
                anchor: Anchor::Start,
                turned: 0.0,
                is_bold: false,
            }],
            ..scene
        };
        let problem = fonts.png(&odd, 1.0).unwrap_err().to_string();
        assert!(problem.contains("U+10FFFD"), "{problem}");
        assert!(Fonts::of_bytes(b"no font".to_vec()).is_err());
    }
}
