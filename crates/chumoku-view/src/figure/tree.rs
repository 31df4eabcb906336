//! A tree that grows from left to right: what was considered at each step, and what became of it.

use super::table::Table;
use super::{Canvas, Lang, SIZE, drawn_width, four};
use crate::picture::{Item, Paint, Text};
use crate::terminal::Paint as TerminalPaint;
use crate::width::{cut, left, right};
use chumoku::lang::clean;
use serde_json::{Value, json};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was left.
    No,
    /// It was gone on from.
    Yes,
    /// Something ended there.
    End,
    /// The best of what was found ended there.
    Best,
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node before it, one of those before it in the list.
    pub parent: Option<usize>,
    /// Its column, from 0.
    pub step: usize,
    /// What it is.
    pub name: String,
    /// Its own probability.
    pub probability: f64,
    /// ln p up to it.
    pub sum: f64,
    /// What an end is ranked by.
    pub score: Option<f64>,
    /// What became of it.
    pub kept: Kept,
}

/// A tree, its nodes step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The nodes, those of a step beside each other, the best first.
    pub nodes: Vec<Node>,
}

/// Columns of a token.
const NAME: usize = 16;
const WIDTH: f64 = 132.0;
const BOX: [f64; 2] = [104.0, 36.0];
const ROW: f64 = 44.0;

fn percent(p: f64) -> String {
    format!("{:.1} %", 100.0 * p)
}

fn sum(x: f64) -> String {
    format!("{x:.2}").replace('-', "−")
}

impl Tree {
    /// Each node's row within its step.
    fn rows(&self) -> Vec<usize> {
        let mut rows = Vec::with_capacity(self.nodes.len());
        let mut counts: Vec<usize> = Vec::new();
        for node in &self.nodes {
            counts.resize(counts.len().max(node.step + 1), 0);
            rows.push(counts[node.step]);
            counts[node.step] += 1;
        }
        rows
    }

    /// The nodes on the way to the best of what was found.
    fn best(&self) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        let mut next = self.nodes.iter().position(|node| node.kept == Kept::Best);
        while let Some(at) = next {
            found[at] = true;
            next = self.nodes[at].parent;
        }
        found
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let (rows, best) = (self.rows(), self.best());
        let place = |i: usize| [x0 + WIDTH * self.nodes[i].step as f64, y0 + 26.0 + ROW * rows[i] as f64];
        let steps = self.nodes.iter().map(|node| node.step + 1).max().unwrap_or(0);
        for step in 0..steps {
            let at = [x0 + WIDTH * step as f64, y0 + 12.0];
            let text = match canvas.lang {
                Lang::En => format!("step {}", step + 1),
                Lang::Ja => format!("ステップ {}", step + 1),
            };
            canvas.text(Text::new(at, text, 11.0, Paint::Soft));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(parent) = node.parent else { continue };
            let ([from, above], [to, y]) = (place(parent), place(i));
            let (stroke, width) = match (best[i], node.kept) {
                (true, _) => (Paint::Series(1), 2.4),
                (_, Kept::No) => (Paint::Faint, 1.0),
                _ => (Paint::Series(0), 1.4),
            };
            let ends = [from + BOX[0], above + BOX[1] / 2.0, to, y + BOX[1] / 2.0];
            canvas.items.push(Item::Line { ends, stroke, width, says: String::new() });
        }
        let mut bottom = y0 + 26.0;
        for (i, node) in self.nodes.iter().enumerate() {
            let [x, y] = place(i);
            let name = cut(&clean(&node.name), 12);
            let says = format!("{}: {}, ln p {}", clean(&node.name), percent(node.probability), sum(node.sum));
            let share = match node.kept {
                Kept::No => 0.0,
                Kept::Yes => 0.22,
                Kept::End | Kept::Best => 0.5,
            };
            canvas.items.push(Item::Rect { area: [x, y, BOX[0], BOX[1]], fill: Paint::Share(share), says });
            let ink = if node.kept == Kept::No { Paint::Soft } else { Paint::OnShare(share) };
            let is_bold = node.kept != Kept::No;
            canvas.text(Text { is_bold, ..Text::new([x + 5.0, y + 15.0], name, SIZE, ink) });
            let below = format!("{}  {}", percent(node.probability), sum(node.sum));
            canvas.text(Text::new([x + 5.0, y + 30.0], below, 10.0, ink));
            bottom = f64::max(bottom, y + BOX[1]);
        }
        let right = x0 + WIDTH * steps.max(1) as f64 - (WIDTH - BOX[0]);
        [right.max(x0 + drawn_width("step 1", 11.0)), bottom]
    }

    /// Lines of a terminal: the tree from its root, each node behind the one that it follows.
    pub(super) fn lines(&self, width: usize, paint: TerminalPaint, lang: Lang) -> Vec<String> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        // Two columns a step, as far as they leave room for the rest.
        let wide = if width < 60 { NAME / 2 } else { NAME };
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
            let mark = match node.kept {
                Kept::No => "  ",
                Kept::Yes => "✓ ",
                Kept::End => "■ ",
                Kept::Best => "★ ",
            };
            let name = left(&clean(&node.name), wide);
            let score = node.score.map_or(String::new(), |score| format!(" {}", right(&sum(score), 7)));
            let numbers = format!("{} {}{score}", right(&percent(node.probability), 8), right(&sum(node.sum), 7));
            let text = format!("{mark}{name}");
            let text = match node.kept {
                Kept::No => paint.quiet(&text),
                Kept::Best => paint.favour(&text),
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
                "✓ gone on from; ■ ended; ★ the best; numbers: the token's probability, ln p of all so far, an end's score"
            }
            Lang::Ja => {
                "✓ 続けた候補、■ 終わった候補、★ 最良。数値はトークンの確率、そこまでの ln p、終わった候補のスコア"
            }
        };
        lines.extend(crate::width::wrap(legend, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        lines
    }

    pub(super) fn table(&self, lang: Lang) -> Table {
        let head = match lang {
            Lang::En => ["step", "follows", "token", "probability", "ln p", "score", "kept"],
            Lang::Ja => ["ステップ", "前の候補", "トークン", "確率", "ln p", "スコア", "続けたか"],
        };
        let row = |(i, node): (usize, &Node)| {
            let kept = match (node.kept, lang) {
                (Kept::No, _) => "",
                (Kept::Yes, Lang::En) => "yes",
                (Kept::Yes, Lang::Ja) => "はい",
                (Kept::End, Lang::En) => "end",
                (Kept::End, Lang::Ja) => "終わり",
                (Kept::Best, Lang::En) => "best",
                (Kept::Best, Lang::Ja) => "最良",
            };
            let parent = node.parent.map_or(String::new(), |parent| (parent + 1).to_string());
            let numbers = [four(node.probability), four(node.sum), node.score.map_or(String::new(), four)];
            let cells = [parent, node.name.clone()].into_iter().chain(numbers).chain([kept.to_owned()]);
            (format!("{} ({})", node.step + 1, i + 1), cells.collect())
        };
        let rows = self.nodes.iter().enumerate().map(row).collect();
        Table { caption: String::new(), head: head.map(String::from).to_vec(), rows }
    }

    pub(super) fn to_json(&self) -> Value {
        let node = |node: &Node| {
            json!({
                "parent": node.parent,
                "step": node.step + 1,
                "name": node.name,
                "probability": node.probability,
                "log_probability": node.sum,
                "score": node.score,
                "kept": match node.kept {
                    Kept::No => "no",
                    Kept::Yes => "yes",
                    Kept::End => "end",
                    Kept::Best => "best",
                },
            })
        };
        self.nodes.iter().map(node).collect()
    }
}
