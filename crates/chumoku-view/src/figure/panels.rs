//! Curve panels: several sets of curves, one below the other, over the same axis.

use super::curves::Curves;
use super::table::FigureTable;
use super::{Canvas, TEXT_SIZE};
use crate::picture::{Paint, SceneText};
use serde_json::{Value, json};

/// Curves in panels, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePanels {
    /// The title and the curves of each panel.
    pub panels: Vec<(String, Curves)>,
    /// The range of all panels; without one, each panel has the range of its numbers.
    pub(crate) range: Option<[f64; 2]>,
}

/// Height of a panel.
const PANEL_HEIGHT: f64 = 200.0;

impl CurvePanels {
    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let (mut right, mut y) = (x0, y0);
        for (caption, curves) in &self.panels {
            canvas.text(SceneText {
                is_bold: true,
                ..SceneText::new([x0, y + 10.0], caption.clone(), TEXT_SIZE, Paint::Text)
            });
            let end = curves.draw_in_range(self.range, PANEL_HEIGHT, [x0, y + 30.0], canvas);
            (right, y) = (f64::max(right, end[0]), end[1] + 22.0);
        }
        [right, y - 22.0]
    }

    pub(super) fn tables(&self) -> Vec<FigureTable> {
        let table = |(caption, curves): &(String, Curves)| FigureTable { caption: caption.clone(), ..curves.table() };
        self.panels.iter().map(table).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let panel = |(caption, curves): &(String, Curves)| json!({ "caption": caption, "curves": curves.to_json() });
        self.panels.iter().map(panel).collect()
    }
}
