//! The map of a network: every step as a block, from the tokens to the answer, with residual connections.

use super::table::FigureTable;
use super::{Canvas, Lang, estimated_text_width};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use chumoku::data::format_thousands_wide as whole;
use chumoku::tr_in;
use serde_json::{Value, json};

/// The place of a block in the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockRole {
    /// A table of vectors, or the layer that reads the answer.
    Ends,
    /// One of the projections of queries, keys and values, which are drawn side by side.
    Projection,
    /// A step of attention between queries and keys, beside which the values pass.
    Scores,
    /// Any other step of attention.
    Attention,
    /// A step of a feed-forward or recurrent network.
    FeedForward,
    /// A normalization.
    Norm,
    /// A residual connection, which adds the input of a sublayer to its output.
    Residual,
}

/// A step of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct MapBlock {
    /// The part of an encoder–decoder: `encoder`, `decoder` or `cross`; empty in other networks.
    pub part: &'static str,
    /// The name.
    pub(crate) name: String,
    /// The shape of the result, for each sequence.
    pub(crate) shape: Vec<usize>,
    /// The number of occurrences, usually one per layer.
    pub(crate) times: usize,
    /// Parameters of one occurrence.
    pub(crate) parameters: u128,
    /// The formula of the parameters.
    pub(crate) parameters_formula: String,
    /// Multiply–adds of one occurrence, for a whole batch.
    pub(crate) multiply_adds: u128,
    /// The formula of the result.
    pub(crate) formula: &'static str,
    /// The paper that introduced it.
    pub(crate) source: &'static str,
    /// Its place in the drawing.
    pub(crate) role: BlockRole,
}

/// The steps of a network in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMap {
    /// The blocks.
    pub blocks: Vec<MapBlock>,
    /// True if normalizations come before their sublayer.
    pub(crate) is_pre_norm: bool,
    /// The values of the letters in formulas, above the table.
    pub(crate) letters: String,
}

/// Width of a column of blocks.
const WIDTH: f64 = 264.0;
/// Distance between the columns of encoder and decoder.
const COLUMN: f64 = 372.0;
const HEIGHT: f64 = 38.0;
const GAP: f64 = 18.0;
/// Width of a projection. Three lie side by side.
const THIRD: f64 = 82.0;
/// Width of a step beside which the values pass.
const BESIDE: f64 = 172.0;
/// Margin left of a column, for residual connections.
const MARGIN: f64 = 44.0;

/// Distance between a frame and the block below its upper edge: room for the lines that branch above the block.
const FRAME_GAP: f64 = 17.0;
/// Further distance above cross-attention, for the line from the encoder.
const MEMORY_GAP: f64 = 14.0;
/// Distance of the line from the encoder to the blocks below it.
const MEMORY_ABOVE: f64 = 22.0;
/// Distance between a column and the residual connection on its left.
const OUTSIDE: f64 = 20.0;
/// Half of the gap where a line passes another.
const PASSING_GAP: f64 = 4.0;

/// Distance between the lowest block and the legend.
const LEGEND_GAP: f64 = 14.0;
/// Distance between the lines of the legend.
const LEGEND_STEP: f64 = 20.0;
/// Font size of the legend.
const LEGEND_SIZE: f64 = 11.5;
/// Side length of a color in the legend.
const SWATCH: f64 = 13.0;

/// A stack of layers: a frame around repeated blocks.
struct Frame {
    top: f64,
    times: usize,
}

/// The position of the pen in a column.
struct Pen {
    left: f64,
    y: f64,
    /// The middle of the block above, if there is one.
    from: Option<f64>,
    /// The lower edge of the block above.
    bottom: f64,
    /// The point at which the current residual connection starts.
    residual_from: [f64; 2],
    frame: Option<Frame>,
}

impl BlockRole {
    /// Returns the color of a block, and that of its text.
    fn colors(self) -> [Paint; 2] {
        match self {
            BlockRole::Ends => [Paint::Signed(-0.3), Paint::TextOnSigned(-0.3)],
            BlockRole::Projection | BlockRole::Scores | BlockRole::Attention => {
                [Paint::Share(0.2), Paint::TextOnShare(0.2)]
            }
            BlockRole::FeedForward => [Paint::Signed(0.3), Paint::TextOnSigned(0.3)],
            BlockRole::Norm => [Paint::Background, Paint::Text],
            BlockRole::Residual => [Paint::Signed(0.25), Paint::TextOnSigned(0.25)],
        }
    }
}

impl MapBlock {
    fn shape_text(&self) -> String {
        self.shape.iter().map(|&n| whole(n as u128)).collect::<Vec<_>>().join(" × ")
    }

    fn parameters_text(&self, lang: Lang) -> String {
        let count = whole(self.parameters);
        match self.parameters {
            0 => String::new(),
            _ => tr_in!("{count} parameters", "パラメータ {count} 個", lang),
        }
    }

    /// Describes the block in sentences, after its number in the table.
    fn sentence(&self, number: usize, lang: Lang) -> String {
        let mut sentence = format!("{number} · {}: {}", self.name, self.formula);
        if !self.shape.is_empty() {
            sentence += &tr_in!(". Result: {}", "。結果：{}", lang, self.shape_text());
        }
        if self.parameters > 0 {
            sentence += &format!(". {} ({})", self.parameters_text(lang), self.parameters_formula);
        }
        if !self.source.is_empty() {
            sentence += &format!(". {}", self.source);
        }
        sentence
    }

    fn is_in_decoder(&self) -> bool {
        matches!(self.part, "decoder" | "cross")
    }
}

impl NetworkMap {
    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let pen = |column: f64| Pen {
            left: x0 + MARGIN + column * COLUMN,
            y: y0 + 8.0,
            from: None,
            bottom: y0,
            residual_from: [x0, y0],
            frame: None,
        };
        let mut pens = [pen(0.0), pen(1.0)];
        let (mut bottom, mut memory_from) = (y0, None);
        let mut index = 0;
        while index < self.blocks.len() {
            let column = usize::from(self.blocks[index].is_in_decoder());
            if column == 1 && memory_from.is_none() {
                close_frame(&mut pens[0], canvas);
                memory_from = Some(pens[0].bottom);
            }
            let pen = &mut pens[column];
            let block = &self.blocks[index];
            let is_new_frame = pen.frame.as_ref().is_none_or(|frame| frame.times != block.times);
            if is_new_frame {
                close_frame(pen, canvas);
                if block.times > 1 {
                    pen.y += 14.0;
                    pen.frame = Some(Frame { top: pen.y - FRAME_GAP, times: block.times });
                }
            }
            let reads_memory = block.part == "cross" && block.role == BlockRole::Projection;
            if reads_memory {
                pen.y += MEMORY_GAP;
            }
            if self.starts_sublayer(index) {
                let x = if reads_memory { THIRD / 2.0 } else { WIDTH / 2.0 };
                pen.residual_from = [pen.left + x, pen.y - GAP / 2.0];
            }
            let count = match block.role {
                BlockRole::Projection => {
                    self.blocks[index..].iter().take_while(|block| block.role == BlockRole::Projection).count()
                }
                _ => 1,
            };
            self.draw_row(index..index + count, pen, memory_from.filter(|_| block.part == "cross"), x0, canvas);
            index += count;
            bottom = bottom.max(pen.y);
        }
        pens.iter_mut().for_each(|pen| close_frame(pen, canvas));
        let columns = if self.blocks.iter().any(MapBlock::is_in_decoder) { 2.0 } else { 1.0 };
        let right = x0 + MARGIN + (columns - 1.0) * COLUMN + WIDTH + 60.0;
        let bottom = self.draw_legend([x0, bottom + LEGEND_GAP], right, canvas);
        [right, bottom]
    }

    /// Returns the colors of the blocks that occur, with their meanings.
    fn legend(&self, lang: Lang) -> Vec<(BlockRole, &'static str)> {
        let has = |role: BlockRole| self.blocks.iter().any(|block| block.role == role);
        let network = match has(BlockRole::Scores) {
            true => lang.pick("feed-forward network", "フィードフォワード層"),
            false => lang.pick("recurrent network", "再帰型ネットワーク"),
        };
        let ends = lang.pick("embedding, pooling, output", "埋め込み、プーリング、出力");
        let all = [
            (BlockRole::Ends, ends),
            (BlockRole::Scores, lang.pick("attention", "アテンション")),
            (BlockRole::FeedForward, network),
            (BlockRole::Norm, lang.pick("normalization", "正規化")),
            (BlockRole::Residual, lang.pick("residual connection", "残差接続")),
        ];
        all.into_iter().filter(|(role, _)| has(*role)).collect()
    }

    /// Draws the meanings of the colors in lines up to the right edge, and returns their lower edge.
    fn draw_legend(&self, [x0, y0]: [f64; 2], right: f64, canvas: &mut Canvas<'_>) -> f64 {
        let [mut x, mut y] = [x0, y0];
        for (role, meaning) in self.legend(canvas.lang) {
            let width = SWATCH + 6.0 + estimated_text_width(meaning, LEGEND_SIZE) + 16.0;
            if x > x0 && x + width > right {
                [x, y] = [x0, y + LEGEND_STEP];
            }
            let [fill, ink] = role.colors();
            rect([x + 1.0, y, SWATCH, SWATCH], fill, "", canvas);
            if role == BlockRole::Residual {
                let sign = SceneText::new([x + 1.0 + SWATCH / 2.0, y + SWATCH - 2.5], "+", 12.0, ink);
                canvas.text(sign.with_anchor(TextAnchor::Middle));
            }
            let at = [x + SWATCH + 6.0, y + SWATCH - 2.5];
            canvas.text(SceneText::new(at, meaning, LEGEND_SIZE, Paint::SecondaryText));
            x += width;
        }
        y + SWATCH
    }

    /// Returns true if a residual connection starts before this block.
    fn starts_sublayer(&self, index: usize) -> bool {
        let role = |index: usize| self.blocks.get(index).map(|block| block.role);
        let before = index.checked_sub(1).and_then(role);
        match (self.is_pre_norm, role(index)) {
            (true, Some(BlockRole::Norm)) => true,
            (false, Some(BlockRole::Projection)) => before != Some(BlockRole::Projection),
            (false, Some(BlockRole::FeedForward)) => before != Some(BlockRole::FeedForward),
            _ => false,
        }
    }

    /// Draws a block, or the projections side by side, and moves the pen below.
    fn draw_row(
        &self,
        row: std::ops::Range<usize>,
        pen: &mut Pen,
        memory_from: Option<f64>,
        x0: f64,
        canvas: &mut Canvas<'_>,
    ) {
        let lang = canvas.lang;
        let first = &self.blocks[row.start];
        let (left, top) = (pen.left, pen.y);
        let middle = left + WIDTH / 2.0;
        let above = pen.from.replace(middle);
        let start = pen.bottom;
        match first.role {
            BlockRole::Residual => {
                // The sum, and the connection that leads around the sublayer.
                let y = top + 9.0;
                if let Some(above) = above {
                    arrow([above, start], [middle, top - 1.0], canvas);
                }
                let (outside, [_, from]) = (left - OUTSIDE, pen.residual_from);
                line(pen.residual_from, [outside, from], canvas);
                line([outside, from], [outside, y], canvas);
                arrow([outside, y], [middle - 11.0, y], canvas);
                let says = first.sentence(row.start + 1, lang);
                let [fill, ink] = first.role.colors();
                rect([middle - 10.0, top - 1.0, 20.0, 20.0], fill, &says, canvas);
                let text = SceneText::new([middle, y + 5.0], "+", 15.0, ink);
                canvas.text(text.with_anchor(TextAnchor::Middle));
                pen.bottom = top + 19.0;
                pen.y += 19.0 + GAP;
                return;
            }
            BlockRole::Projection => {
                let center = |place: usize| left + place as f64 * (THIRD + 9.0) + THIRD / 2.0;
                for (place, index) in row.clone().enumerate() {
                    self.draw_block(index, [center(place) - THIRD / 2.0, top, THIRD, HEIGHT], canvas);
                }
                // Additive attention does not project its values: the keys themselves pass.
                let passes = row.len() == 2;
                let bottom = top + HEIGHT;
                match (memory_from, above) {
                    (None, Some(above)) => {
                        // The input branches above the projections, where a residual connection may leave it too.
                        let branch = top - GAP / 2.0;
                        line([above, start], [above, branch], canvas);
                        line([center(0), branch], [center(2), branch], canvas);
                        for place in 0..row.len() {
                            arrow([center(place), branch], [center(place), top], canvas);
                        }
                        if passes {
                            line([center(2), branch], [center(2), bottom], canvas);
                        }
                    }
                    (None, None) if passes => line([center(2), top], [center(2), bottom], canvas),
                    (None, None) => {}
                    (Some(from), above) => {
                        if above.is_some() {
                            arrow([center(0), start], [center(0), top], canvas);
                        }
                        // Keys and values come from the encoder's output.
                        let (between, y) = (left - 34.0, top - MEMORY_ABOVE);
                        let of_encoder = x0 + MARGIN + WIDTH / 2.0;
                        let below = from + 22.0;
                        line([of_encoder, from], [of_encoder, below], canvas);
                        line([of_encoder, below], [between, below], canvas);
                        line([between, below], [between, y], canvas);
                        // The line has gaps where it passes the residual connection and the input of the queries.
                        let mut x = between;
                        for passed in [left - OUTSIDE, center(0)].into_iter().skip(usize::from(!self.is_pre_norm)) {
                            line([x, y], [passed - PASSING_GAP, y], canvas);
                            x = passed + PASSING_GAP;
                        }
                        line([x, y], [center(2), y], canvas);
                        for place in 1..row.len() {
                            arrow([center(place), y], [center(place), top], canvas);
                        }
                    }
                }
                pen.from = Some(left + BESIDE / 2.0);
            }
            BlockRole::Scores => {
                if let Some(above) = above {
                    arrow([above, start], [left + BESIDE / 2.0, top], canvas);
                }
                // The values pass on the right.
                let passing = left + 2.0 * (THIRD + 9.0) + THIRD / 2.0;
                line([passing, start], [passing, top + HEIGHT], canvas);
                let next = self.blocks.get(row.end).map(|block| block.role);
                if next != Some(BlockRole::Scores) {
                    arrow([passing, top + HEIGHT], [passing, top + HEIGHT + GAP], canvas);
                }
                self.draw_block(row.start, [left, top, BESIDE, HEIGHT], canvas);
                pen.from = Some(left + BESIDE / 2.0);
            }
            _ => {
                if let Some(above) = above {
                    arrow([above, start], [above, top], canvas);
                }
                self.draw_block(row.start, [left, top, WIDTH, HEIGHT], canvas);
            }
        }
        pen.bottom = top + HEIGHT;
        pen.y += HEIGHT + GAP;
    }

    fn draw_block(&self, index: usize, area: [f64; 4], canvas: &mut Canvas<'_>) {
        let block = &self.blocks[index];
        let [fill, ink] = block.role.colors();
        let says = block.sentence(index + 1, canvas.lang);
        rect(area, fill, &says, canvas);
        let [x, y, width, _] = area;
        draw_name(&block.name, [x + width / 2.0, y + 16.0], ink, canvas);
        // Narrow blocks have room for the number of parameters only.
        let parameters = match width < WIDTH && block.parameters > 0 {
            true => whole(block.parameters),
            false => block.parameters_text(canvas.lang),
        };
        let below = match (width < BESIDE, parameters.is_empty()) {
            (true, _) => parameters,
            (false, true) => block.shape_text(),
            (false, false) => format!("{} · {parameters}", block.shape_text()),
        };
        let below = SceneText::new([x + width / 2.0, y + 30.0], below, 10.0, ink);
        canvas.text(below.with_anchor(TextAnchor::Middle));
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let head = match lang {
            Lang::En => ["block", "computes", "times", "result", "parameters", "formula", "multiply–adds", "source"],
            Lang::Ja => ["ブロック", "計算", "回数", "結果", "パラメータ", "式", "積和演算", "出典"],
        };
        let rows = self.blocks.iter().enumerate().map(|(i, block)| {
            let cells = vec![
                block.formula.to_owned(),
                block.times.to_string(),
                block.shape_text(),
                whole(block.parameters),
                block.parameters_formula.clone(),
                whole(block.multiply_adds),
                block.source.to_owned(),
            ];
            (format!("{} {}", i + 1, block.name), cells)
        });
        FigureTable { caption: self.letters.clone(), head: head.map(String::from).to_vec(), rows: rows.collect() }
    }

    pub(super) fn to_json(&self) -> Value {
        let block = |block: &MapBlock| {
            json!({
                "part": block.part,
                "name": block.name,
                "shape": block.shape,
                "times": block.times,
                "parameters": block.parameters.to_string(),
                "formula": block.formula,
                "source": block.source,
            })
        };
        self.blocks.iter().map(block).collect()
    }
}

/// Draws the bold name of a block around a middle; text after `_` is a subscript.
fn draw_name(name: &str, [x, y]: [f64; 2], ink: Paint, canvas: &mut Canvas<'_>) {
    let bold = |at, text: &str, size| SceneText { is_bold: true, ..SceneText::new(at, text, size, ink) };
    let Some((letter, index)) = name.split_once('_') else {
        canvas.text(bold([x, y], name, 12.0).with_anchor(TextAnchor::Middle));
        return;
    };
    // Both parts meet at one point, whatever the font is.
    let x = x + 2.5;
    canvas.text(bold([x, y], letter, 12.0).with_anchor(TextAnchor::End));
    canvas.text(bold([x, y + 3.0], index, 9.0));
}

/// Closes the frame around repeated layers, and writes how often they occur.
fn close_frame(pen: &mut Pen, canvas: &mut Canvas<'_>) {
    let Some(Frame { top, times }) = pen.frame.take() else { return };
    let [left, right, bottom] = [pen.left - 30.0, pen.left + WIDTH + 10.0, pen.y - GAP + 8.0];
    for (from, to) in [
        ([left, top], [right, top]),
        ([right, top], [right, bottom]),
        ([right, bottom], [left, bottom]),
        ([left, bottom], [left, top]),
    ] {
        let ends = [from[0], from[1], to[0], to[1]];
        canvas.items.push(SceneItem::Line { ends, stroke: Paint::GuideLine, width: 1.6, says: String::new() });
    }
    canvas.text(SceneText {
        is_bold: true,
        ..SceneText::new([right + 8.0, (top + bottom) / 2.0], format!("× {times}"), 14.0, Paint::Text)
    });
    pen.y += 14.0;
}

fn rect(area: [f64; 4], fill: Paint, says: &str, canvas: &mut Canvas<'_>) {
    let [x, y, width, height] = area;
    let border = [x - 1.0, y - 1.0, width + 2.0, height + 2.0];
    canvas.items.push(SceneItem::Rect { area: border, fill: Paint::GuideLine, says: String::new() });
    canvas.items.push(SceneItem::Rect { area, fill, says: says.to_owned() });
}

fn line(from: [f64; 2], to: [f64; 2], canvas: &mut Canvas<'_>) {
    let ends = [from[0], from[1], to[0], to[1]];
    canvas.items.push(SceneItem::Line { ends, stroke: Paint::SecondaryText, width: 1.2, says: String::new() });
}

/// Draws a line with a head at its end.
fn arrow(from: [f64; 2], to: [f64; 2], canvas: &mut Canvas<'_>) {
    line(from, to, canvas);
    let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    let length = dx.hypot(dy).max(1e-9);
    let [ux, uy] = [dx / length * 5.0, dy / length * 5.0];
    for side in [-0.6, 0.6] {
        line([to[0] - ux + side * uy, to[1] - uy - side * ux], to, canvas);
    }
}
