//! Search trees that grow from left to right: the candidates of each step, and the outcome of each.

use super::table::FigureTable;
use super::{Canvas, Lang, TEXT_SIZE, estimated_text_width, four_decimals};
use crate::picture::{Paint, SceneItem, SceneText};
use crate::terminal::Painter as TerminalPaint;
use crate::width::{align_left, align_right, truncate, unsigned_zero};
use chumoku::lang::show_controls;
use chumoku::lang::wording::percent;
use chumoku::tr_in;
use serde_json::{Value, json};

/// Outcome of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOutcome {
    /// Dropped.
    Dropped,
    /// Expanded in the next step.
    Expanded,
    /// Finished here.
    Finished,
    /// Finished here as the best result.
    Best,
}

/// A candidate of the search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeNode {
    /// Index of the previous candidate, which is earlier in the list.
    pub(crate) parent: Option<usize>,
    /// Step, from 0.
    pub step: usize,
    /// Text of the token.
    pub(crate) name: String,
    /// Probability of the token.
    pub probability: f64,
    /// Sum of ln p up to this token.
    pub(crate) log_probability: f64,
    /// Ranking score of a finished candidate.
    pub score: Option<f64>,
    /// Outcome of the candidate.
    pub outcome: NodeOutcome,
}

/// A search tree, its nodes in the order of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTree {
    /// The nodes; those of a step are adjacent, the best first.
    pub(crate) nodes: Vec<TreeNode>,
}

/// Maximum width of a token in columns.
const MAX_TOKEN_WIDTH: usize = 16;
const STEP_WIDTH: f64 = 132.0;
const NODE_SIZE: [f64; 2] = [104.0, 36.0];
const ROW_HEIGHT: f64 = 44.0;

fn format_log_probability(x: f64) -> String {
    unsigned_zero(format!("{x:.2}")).replace('-', "−")
}

impl SearchTree {
    /// Returns the row of each node within its step.
    fn row_of_nodes(&self) -> Vec<usize> {
        let mut rows = Vec::with_capacity(self.nodes.len());
        let mut counts: Vec<usize> = Vec::new();
        for node in &self.nodes {
            counts.resize(counts.len().max(node.step + 1), 0);
            rows.push(counts[node.step]);
            counts[node.step] += 1;
        }
        rows
    }

    /// Marks the nodes on the path to the best result.
    fn is_on_best_path(&self) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        let mut next = self.nodes.iter().position(|node| node.outcome == NodeOutcome::Best);
        while let Some(at) = next {
            found[at] = true;
            next = self.nodes[at].parent;
        }
        found
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let (rows, best) = (self.row_of_nodes(), self.is_on_best_path());
        let place = |i: usize| [x0 + STEP_WIDTH * self.nodes[i].step as f64, y0 + 26.0 + ROW_HEIGHT * rows[i] as f64];
        let steps = self.nodes.iter().map(|node| node.step + 1).max().unwrap_or(0);
        for step in 0..steps {
            let at = [x0 + STEP_WIDTH * step as f64, y0 + 12.0];
            let text = tr_in!("step {}", "ステップ {}", canvas.lang, step + 1);
            canvas.text(SceneText::new(at, text, 11.0, Paint::SecondaryText));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(parent) = node.parent else { continue };
            let ([from, above], [to, y]) = (place(parent), place(i));
            let (stroke, width) = match (best[i], node.outcome) {
                (true, _) => (Paint::Series(1), 2.4),
                (_, NodeOutcome::Dropped) => (Paint::GuideLine, 1.0),
                _ => (Paint::Series(0), 1.4),
            };
            let ends = [from + NODE_SIZE[0], above + NODE_SIZE[1] / 2.0, to, y + NODE_SIZE[1] / 2.0];
            canvas.items.push(SceneItem::Line { ends, stroke, width, says: String::new() });
        }
        let mut bottom = y0 + 26.0;
        for (i, node) in self.nodes.iter().enumerate() {
            let [x, y] = place(i);
            let name = truncate(&show_controls(&node.name), 12);
            let says = format!(
                "{}: {}, ln p {}",
                show_controls(&node.name),
                percent(node.probability),
                format_log_probability(node.log_probability)
            );
            let share = match node.outcome {
                NodeOutcome::Dropped => 0.0,
                NodeOutcome::Expanded => 0.22,
                NodeOutcome::Finished | NodeOutcome::Best => 0.5,
            };
            canvas.items.push(SceneItem::Rect {
                area: [x, y, NODE_SIZE[0], NODE_SIZE[1]],
                fill: Paint::Share(share),
                says,
            });
            let ink =
                if node.outcome == NodeOutcome::Dropped { Paint::SecondaryText } else { Paint::TextOnShare(share) };
            let is_bold = node.outcome != NodeOutcome::Dropped;
            canvas.text(SceneText { is_bold, ..SceneText::new([x + 5.0, y + 15.0], name, TEXT_SIZE, ink) });
            let below = format!("{}  {}", percent(node.probability), format_log_probability(node.log_probability));
            canvas.text(SceneText::new([x + 5.0, y + 30.0], below, 10.0, ink));
            bottom = f64::max(bottom, y + NODE_SIZE[1]);
        }
        let right = x0 + STEP_WIDTH * steps.max(1) as f64 - (STEP_WIDTH - NODE_SIZE[0]);
        [right.max(x0 + estimated_text_width("step 1", 11.0)), bottom]
    }

    /// Returns lines for a terminal: the tree from its root, each node below its predecessor.
    pub(super) fn terminal_lines(&self, width: usize, paint: TerminalPaint, lang: Lang) -> Vec<String> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        // Two columns of indentation for each step, as far as the width allows.
        let wide = if width < 60 { MAX_TOKEN_WIDTH / 2 } else { MAX_TOKEN_WIDTH };
        let deepest = width.saturating_sub(31 + wide) / 2;
        let mut lines = Vec::new();
        let mut open: Vec<(usize, bool, Vec<bool>)> = Vec::new();
        let push = |open: &mut Vec<_>, ids: &[usize], bars: &[bool]| {
            for (place, &i) in ids.iter().enumerate().rev() {
                open.push((i, place + 1 == ids.len(), bars.to_vec()));
            }
        };
        push(&mut open, &roots, &[]);
        while let Some((i, is_last, bars)) = open.pop() {
            let node = &self.nodes[i];
            let hidden = bars.len().saturating_sub(deepest);
            let bar = |&more: &bool| if more { "│ " } else { "  " };
            let indent: String = bars[hidden..].iter().map(bar).collect();
            let front = format!("{}{indent}{}", if hidden > 0 { "…" } else { "" }, if is_last { "└ " } else { "├ " });
            let mark = match node.outcome {
                NodeOutcome::Dropped => "  ",
                NodeOutcome::Expanded => "✓ ",
                NodeOutcome::Finished => "■ ",
                NodeOutcome::Best => "★ ",
            };
            let name = align_left(&show_controls(&node.name), wide);
            let score = node
                .score
                .map_or(String::new(), |score| format!(" {}", align_right(&format_log_probability(score), 7)));
            let numbers = format!(
                "{} {}{score}",
                align_right(&percent(node.probability), 8),
                align_right(&format_log_probability(node.log_probability), 7)
            );
            let text = format!("{mark}{name}");
            let text = match node.outcome {
                NodeOutcome::Dropped => paint.quiet(&text),
                NodeOutcome::Best => paint.positive(&text),
                _ => paint.strong(&text),
            };
            lines.push(format!("  {front}{text}{numbers}"));
            let mut bars = bars;
            bars.push(!is_last);
            push(&mut open, &children[i], &bars);
        }
        lines.push(String::new());
        let legend = match lang {
            Lang::En => {
                "✓ continued; ■ finished; ★ best; numbers: probability of the token, ln p so far, score of a finished candidate"
            }
            Lang::Ja => {
                "✓ 続けた候補、■ 終わった候補、★ 最良。数値はトークンの確率、そこまでの ln p、終わった候補のスコア"
            }
        };
        lines.extend(crate::width::wrap(legend, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        lines
    }

    pub(super) fn table(&self, lang: Lang) -> FigureTable {
        let head = match lang {
            Lang::En => ["step", "follows", "token", "probability", "ln p", "score", "kept"],
            Lang::Ja => ["ステップ", "前の候補", "トークン", "確率", "ln p", "スコア", "続けたか"],
        };
        let row = |(i, node): (usize, &TreeNode)| {
            let kept = match (node.outcome, lang) {
                (NodeOutcome::Dropped, _) => "",
                (NodeOutcome::Expanded, Lang::En) => "yes",
                (NodeOutcome::Expanded, Lang::Ja) => "はい",
                (NodeOutcome::Finished, Lang::En) => "end",
                (NodeOutcome::Finished, Lang::Ja) => "終わり",
                (NodeOutcome::Best, Lang::En) => "best",
                (NodeOutcome::Best, Lang::Ja) => "最良",
            };
            let parent = node.parent.map_or(String::new(), |parent| (parent + 1).to_string());
            let numbers = [
                four_decimals(node.probability),
                four_decimals(node.log_probability),
                node.score.map_or(String::new(), four_decimals),
            ];
            let cells = [parent, node.name.clone()].into_iter().chain(numbers).chain([kept.to_owned()]);
            (format!("{} ({})", node.step + 1, i + 1), cells.collect())
        };
        let rows = self.nodes.iter().enumerate().map(row).collect();
        FigureTable { caption: String::new(), head: head.map(String::from).to_vec(), rows }
    }

    pub(super) fn to_json(&self) -> Value {
        let node = |node: &TreeNode| {
            json!({
                "parent": node.parent,
                "step": node.step + 1,
                "name": node.name,
                "probability": node.probability,
                "log_probability": node.log_probability,
                "score": node.score,
                "kept": match node.outcome {
                    NodeOutcome::Dropped => "no",
                    NodeOutcome::Expanded => "yes",
                    NodeOutcome::Finished => "end",
                    NodeOutcome::Best => "best",
                },
            })
        };
        self.nodes.iter().map(node).collect()
    }
}
