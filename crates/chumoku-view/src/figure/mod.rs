//! Figures: a [`Figure`] holds words and numbers, and every form is made from it. The forms are text for a terminal,
//! tables, JSON, a page, and a [`Scene`](super::Scene) that is drawn as SVG, PNG and PDF.
//!
//! # Files
//!
//! - `curves`: numbers along an axis
//! - `effects`: a text colored by effects
//! - `heatmap`: heatmaps
//! - `heatmap_grid`: many small heatmaps
//! - `lines`: lines between words
//! - `network_map`: the steps of a network as blocks
//! - `page`: pages of figures
//! - `panels`: curves in panels
//! - `scatter`: predicted and true numbers
//! - `score_breakdown`: the terms of one score
//! - `search_tree`: search trees
//! - `table`: tables of numbers

mod curves;
mod effects;
mod heatmap;
mod heatmap_grid;
mod lines;
mod network_map;
mod page;
mod panels;
mod scatter;
mod score_breakdown;
mod search_tree;
mod table;

pub use curves::Curves;
pub use effects::ColoredText;
pub use heatmap::{ColorScale, FigureAxis, Heatmap};
pub use heatmap_grid::HeatmapGrid;
pub(crate) use heatmap_grid::{MAX_CELLS_PER_SIDE, PooledHeatmap, max_pooled, pooling_note};
pub use lines::{AttentionLine, AttentionLines};
pub(crate) use network_map::BlockRole;
pub use network_map::{MapBlock, NetworkMap};
pub use page::figures_to_html;
pub(crate) use page::{PageWidget, figures_page, page_sources};
pub use panels::CurvePanels;
pub use scatter::Scatter;
pub use score_breakdown::{KeyScore, ScoreBreakdown};
pub use search_tree::SearchTree;
pub(crate) use search_tree::{NodeOutcome, TreeNode};
pub use table::FigureTable;

use crate::picture::{Paint, Scene, SceneItem, SceneText};
use crate::terminal::{Painter as TerminalPaint, TerminalOptions};
use crate::width::{display_width, truncate, unsigned_zero, wrap};
use chumoku::explain::json_number;
use chumoku::lang::{Lang, show_controls_in_text};
use serde_json::{Map as Object, Value};

/// A picture, independent of its form.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// Subtitle: the text or model that the figure is about.
    pub subtitle: String,
    /// Notes: how to read the figure, and whether its numbers are derived.
    pub notes: Vec<String>,
    /// Numbers and words.
    pub content: Content,
    /// Language of all texts.
    pub lang: Lang,
}

/// The content of a figure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// A heatmap.
    Heatmap(Heatmap),
    /// Many heatmaps side by side.
    HeatmapGrid(HeatmapGrid),
    /// Lines between words.
    Lines(AttentionLines),
    /// Curves along an axis.
    Curves(Curves),
    /// The terms of one score.
    ScoreBreakdown(ScoreBreakdown),
    /// Predicted numbers over true ones.
    Scatter(Scatter),
    /// A text in colors of the effects of its words.
    ColoredText(ColoredText),
    /// Curves in panels, one below the other.
    Panels(CurvePanels),
    /// The tree of a search.
    SearchTree(SearchTree),
    /// The steps of a network.
    NetworkMap(NetworkMap),
}

/// The items of a picture while it is drawn.
struct Canvas<'a> {
    items: &'a mut Vec<SceneItem>,
    lang: Lang,
}

impl Canvas<'_> {
    fn text(&mut self, text: SceneText) {
        self.items.push(text.into());
    }
}

/// Height of ordinary text.
const TEXT_SIZE: f64 = 13.0;
/// Margin around a picture.
const MARGIN: f64 = 24.0;
/// Baselines of title and subtitle, and the upper edge of the content.
const TITLE_Y: f64 = 34.0;
const SUBTITLE_Y: f64 = 56.0;
const CONTENT_Y: f64 = 76.0;

/// Estimates the drawn width of a text. Fonts differ; the estimate is generous.
fn estimated_text_width(text: &str, size: f64) -> f64 {
    display_width(text) as f64 * size * 0.58
}

impl Figure {
    /// Draws the figure.
    #[must_use]
    pub fn scene(&self) -> Scene {
        self.scene_with(true)
    }

    /// Draws the figure with or without its title. A page may have the title as a heading.
    fn scene_with(&self, has_title: bool) -> Scene {
        let up = if has_title { 0.0 } else { SUBTITLE_Y - TITLE_Y };
        let content_y = CONTENT_Y - up;
        let [title, subtitle] = [&self.title, &self.subtitle].map(show_controls_in_text);
        let mut items = Vec::new();
        if has_title {
            let text = SceneText::new([MARGIN, TITLE_Y], truncate(&title, 120), 18.0, Paint::Text);
            items.push(SceneText { is_bold: true, ..text }.into());
        }
        let at = [MARGIN, SUBTITLE_Y - up];
        items.push(SceneText::new(at, truncate(&subtitle, 160), TEXT_SIZE, Paint::SecondaryText).into());
        let mut content = Vec::new();
        let mut canvas = Canvas { items: &mut content, lang: self.lang };
        let [right, bottom] = match &self.content {
            Content::Heatmap(map) => map.draw([MARGIN, content_y], &mut canvas),
            Content::HeatmapGrid(sheet) => sheet.draw([MARGIN, content_y], &mut canvas),
            Content::Lines(lines) => lines.draw([MARGIN, content_y], &mut canvas),
            Content::Curves(curves) => curves.draw([MARGIN, content_y], &mut canvas),
            Content::ScoreBreakdown(products) => products.draw([MARGIN, content_y], &mut canvas),
            Content::Scatter(scatter) => scatter.draw([MARGIN, content_y], &mut canvas),
            Content::ColoredText(effects) => effects.draw([MARGIN, content_y], &mut canvas),
            Content::Panels(panels) => panels.draw([MARGIN, content_y], &mut canvas),
            Content::SearchTree(tree) => tree.draw([MARGIN, content_y], &mut canvas),
            Content::NetworkMap(map) => map.draw([MARGIN, content_y], &mut canvas),
        };
        items.extend(content);
        let titles = [(&title, 18.0, 120), (&subtitle, TEXT_SIZE, 160)];
        let longest = titles.map(|(text, size, most)| MARGIN + estimated_text_width(&truncate(text, most), size));
        let width = right.max(longest[0]).max(longest[1]).max(360.0);
        let mut y = bottom + 22.0;
        for note in &self.notes {
            for line in wrap(note, ((width - MARGIN) / (12.0 * 0.58)) as usize) {
                items.push(SceneText::new([MARGIN, y], line, 12.0, Paint::SecondaryText).into());
                y += 17.0;
            }
        }
        Scene {
            width: (width + MARGIN).ceil(),
            height: (y + 6.0).ceil(),
            description: format!("{title} – {subtitle}"),
            items,
        }
    }

    /// Returns tables of all numbers, with four decimals.
    #[must_use]
    pub fn tables(&self) -> Vec<FigureTable> {
        match &self.content {
            Content::Heatmap(map) => vec![map.table(self.lang)],
            Content::HeatmapGrid(sheet) => sheet.maps.iter().map(|map| map.table(self.lang)).collect(),
            Content::Lines(lines) => vec![lines.table(self.lang)],
            Content::Curves(curves) => vec![curves.table()],
            Content::ScoreBreakdown(products) => products.tables(self.lang),
            Content::Scatter(scatter) => vec![scatter.table(self.lang)],
            Content::ColoredText(effects) => vec![effects.table(self.lang)],
            Content::Panels(panels) => panels.tables(),
            Content::SearchTree(tree) => vec![tree.table(self.lang)],
            Content::NetworkMap(map) => vec![map.table(self.lang)],
        }
    }

    /// Returns text for a terminal; no line is wider than `options.width`.
    #[must_use]
    pub fn to_text(&self, options: &TerminalOptions) -> String {
        let width = options.width.max(40);
        let paint = TerminalPaint::new(options.color);
        let title = wrap(&show_controls_in_text(&self.title), width);
        let mut lines: Vec<String> = title.iter().map(|line| paint.strong(line)).collect();
        lines.extend(
            wrap(&show_controls_in_text(&self.subtitle), width - 2).into_iter().take(3).map(|line| format!("  {line}")),
        );
        lines.push(String::new());
        lines.extend(match &self.content {
            Content::Heatmap(map) => map.terminal_lines(width, options.color, self.lang),
            Content::HeatmapGrid(sheet) => sheet.terminal_lines(width, options.color, self.lang),
            Content::Scatter(scatter) => scatter.terminal_lines(width, self.lang),
            Content::ColoredText(effects) => effects.terminal_lines(width, paint),
            Content::SearchTree(tree) => tree.terminal_lines(width, paint, self.lang),
            Content::Lines(_)
            | Content::Curves(_)
            | Content::ScoreBreakdown(_)
            | Content::Panels(_)
            | Content::NetworkMap(_) => {
                let tables = self.tables();
                tables.iter().flat_map(|table| table.terminal_lines(width, paint, self.lang)).collect()
            }
        });
        lines.push(String::new());
        for note in &self.notes {
            lines.extend(wrap(note, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        }
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Returns all texts and every exact number.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::new();
        object.insert("title".into(), self.title.clone().into());
        object.insert("subtitle".into(), self.subtitle.clone().into());
        object.insert("notes".into(), self.notes.clone().into());
        let (kind, content) = match &self.content {
            Content::Heatmap(map) => ("map", map.to_json()),
            Content::HeatmapGrid(sheet) => ("sheet", sheet.maps.iter().map(Heatmap::to_json).collect()),
            Content::Lines(lines) => ("lines", lines.to_json()),
            Content::Curves(curves) => ("curves", curves.to_json()),
            Content::ScoreBreakdown(products) => ("products", products.to_json()),
            Content::Scatter(scatter) => ("scatter", scatter.to_json()),
            Content::ColoredText(effects) => ("effects", effects.to_json()),
            Content::Panels(panels) => ("panels", panels.to_json()),
            Content::SearchTree(tree) => ("tree", tree.to_json()),
            Content::NetworkMap(map) => ("network", map.to_json()),
        };
        object.insert(kind.into(), content);
        Value::Object(object)
    }
}

/// Formats a number with four decimals; NaN and infinities keep their names.
fn four_decimals(x: f64) -> String {
    match x {
        x if x.is_nan() => "NaN".into(),
        x if x.is_infinite() => if x > 0.0 { "∞" } else { "−∞" }.into(),
        x => unsigned_zero(format!("{x:.4}")),
    }
}

fn json_numbers(numbers: &[f32]) -> Value {
    numbers.iter().map(|&x| json_number(x)).collect()
}
