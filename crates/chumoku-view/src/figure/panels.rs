//! Several curves below each other, over the same axis.

use super::curves::Curves;
use super::table::Table;
use super::{Canvas, SIZE};
use crate::picture::{Paint, Text};
use serde_json::{Value, json};

/// Curves below each other; all from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// What each shows, and its curves.
    pub panels: Vec<(String, Curves)>,
}

/// Height of one of them.
const HEIGHT: f64 = 200.0;

impl Panels {
    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let (mut right, mut y) = (x0, y0);
        for (caption, curves) in &self.panels {
            canvas.text(Text { is_bold: true, ..Text::new([x0, y + 10.0], caption.clone(), SIZE, Paint::Ink) });
            let end = curves.draw_over(Some([0.0, 1.0]), HEIGHT, [x0, y + 30.0], canvas);
            (right, y) = (f64::max(right, end[0]), end[1] + 22.0);
        }
        [right, y - 22.0]
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let table = |(caption, curves): &(String, Curves)| Table { caption: caption.clone(), ..curves.table() };
        self.panels.iter().map(table).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let panel = |(caption, curves): &(String, Curves)| json!({ "caption": caption, "curves": curves.to_json() });
        self.panels.iter().map(panel).collect()
    }
}
