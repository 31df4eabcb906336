//! The terms of one score: products of a query and a key, and the weight from the scores of a row.

use super::table::FigureTable;
use super::{Canvas, Lang, TEXT_SIZE, estimated_text_width, four_decimals};
use crate::picture::{Paint, SceneItem, SceneText, TextAnchor};
use crate::width::truncate;
use chumoku::lang::show_controls;
use serde_json::{Value, json};

/// A query and a key, their products, and the weights of the query's row.
///
/// `score = scale · Σ q_d k_d − slope · distance`, `weight = exp(score − max) / Σ exp(score − max)` (Vaswani et al.
/// 2017, equation 1), in f64.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreBreakdown {
    /// The query token and the key token.
    pub tokens: [String; 2],
    /// The query: one number for each dimension.
    pub query: Vec<f32>,
    /// The key.
    pub key: Vec<f32>,
    /// Factor of the sum of products.
    pub scale: f64,
    /// Distance penalty of ALiBi.
    pub alibi_penalty: f64,
    /// All keys of the query's row.
    pub row: Vec<KeyScore>,
    /// Index of the key in the row.
    pub chosen: usize,
}

/// A key of a row, with its score and weight.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyScore {
    /// The token.
    pub token: String,
    /// Its score.
    pub score: f64,
    /// `exp(score − max)`, with the maximum score of the row.
    pub exponential: f64,
    /// Its weight.
    pub weight: f64,
}

/// Maximum number of table rows in a picture; the tables hold all.
const MAX_DRAWN_ROWS: usize = 40;
/// Space between columns of a picture.
const COLUMN_GAP: f64 = 16.0;
/// Length of the longest bar.
const MAX_BAR: f64 = 60.0;

/// Shortens the name of a row for the picture.
fn short_name(name: &str) -> String {
    truncate(&show_controls(name), 18)
}

/// Positions of the columns of a table in a picture. Names are left-aligned, numbers right-aligned.
struct TableColumns {
    left: f64,
    ends: Vec<f64>,
}

impl TableColumns {
    /// Fits each column to its widest cell. The name of a row without numbers may extend into the first columns.
    fn fit(table: &FigureTable, left: f64) -> TableColumns {
        let widest = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(|text| estimated_text_width(text, TEXT_SIZE)).fold(0.0, f64::max)
        };
        let has_numbers = |cells: &[String]| cells.first().is_some_and(|cell| !cell.is_empty());
        let names: Vec<String> =
            table.rows.iter().filter(|(_, cells)| has_numbers(cells)).map(|(name, _)| short_name(name)).collect();
        let mut at = left + widest(&mut names.iter().map(String::as_str));
        let mut ends = Vec::new();
        for (i, head) in table.head.iter().skip(1).enumerate() {
            let cells = table.rows.iter().filter_map(|(_, cells)| cells.get(i)).map(String::as_str);
            at += COLUMN_GAP + widest(&mut cells.chain([head.as_str()]));
            ends.push(at);
        }
        TableColumns { left, ends }
    }

    fn end(&self) -> f64 {
        self.ends.last().copied().unwrap_or(self.left)
    }
}

/// Returns the first rows, `None` if rows are left out, and the last rows.
fn first_and_last(first: Vec<usize>, last: &[usize]) -> Vec<Option<usize>> {
    let more = first.len() > MAX_DRAWN_ROWS;
    let first = first.into_iter().take(MAX_DRAWN_ROWS).map(Some);
    first.chain(more.then_some(None)).chain(last.iter().copied().map(Some)).collect()
}

impl ScoreBreakdown {
    /// Returns the product of each dimension.
    #[must_use]
    pub fn products(&self) -> Vec<f64> {
        self.query.iter().zip(&self.key).map(|(q, k)| f64::from(*q) * f64::from(*k)).collect()
    }

    /// Returns the score of the query and the key.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.scale * self.products().iter().sum::<f64>() - self.alibi_penalty
    }

    /// Returns the sum of the products and the terms that turn it into the score.
    fn sums(&self, lang: Lang) -> Vec<(String, f64)> {
        let sum: f64 = self.products().iter().sum();
        let mut sums = vec![("q·k".to_owned(), sum), (format!("× {}", four_decimals(self.scale)), self.scale * sum)];
        if self.alibi_penalty != 0.0 {
            sums.push((lang.pick("− slope · distance", "− 傾き × 距離").into(), -self.alibi_penalty));
        }
        sums.push((lang.pick("score", "スコア").into(), self.score()));
        sums
    }

    pub(super) fn draw(&self, [x0, y0]: [f64; 2], canvas: &mut Canvas<'_>) -> [f64; 2] {
        let step = 19.0;
        let lang = canvas.lang;
        let [products, weights] = <[FigureTable; 2]>::try_from(self.tables(lang)).expect("two tables");
        let most = self.products().iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let mut row = |columns: &TableColumns, y: f64, name: &str, cells: &[String], fill: Paint| {
            canvas.text(SceneText::new([columns.left, y], short_name(name), TEXT_SIZE, fill));
            for (cell, end) in cells.iter().zip(&columns.ends).filter(|(cell, _)| !cell.is_empty()) {
                canvas.text(SceneText::new([*end, y], cell.clone(), TEXT_SIZE, fill).with_anchor(TextAnchor::End));
            }
        };
        let left = TableColumns::fit(&products, x0);
        row(&left, y0 + 10.0, &products.head[0], &products.head[1..], Paint::SecondaryText);
        // The sums and the chosen key are highlighted.
        let dimensions = self.products().len();
        let left_rows =
            first_and_last((0..dimensions).collect(), &(dimensions..products.rows.len()).collect::<Vec<_>>());
        let mut bars = Vec::new();
        for (line, i) in left_rows.iter().enumerate() {
            let y = y0 + 10.0 + step * (line + 1) as f64;
            let Some(i) = *i else {
                row(&left, y, "…", &[], Paint::SecondaryText);
                continue;
            };
            let (name, cells) = &products.rows[i];
            row(&left, y, name, cells, Paint::Text);
            if let Some(product) = self.products().get(i) {
                let part = (product / most) as f32;
                let middle = left.end() + COLUMN_GAP + MAX_BAR;
                let length = MAX_BAR * f64::from(part.abs());
                let from = if part < 0.0 { middle - length } else { middle };
                let says = format!("{}: {}", name, four_decimals(*product));
                bars.push(SceneItem::Rect { area: [from, y - 10.0, length, 12.0], fill: Paint::Signed(part), says });
            }
        }
        let right = TableColumns::fit(&weights, left.end() + 2.0 * (COLUMN_GAP + MAX_BAR) + COLUMN_GAP);
        row(&right, y0 + 10.0, "", &weights.head[1..], Paint::SecondaryText);
        let last = if self.chosen < MAX_DRAWN_ROWS { Vec::new() } else { vec![self.chosen] };
        let right_rows = first_and_last((0..weights.rows.len()).filter(|i| !last.contains(i)).collect(), &last);
        for (line, i) in right_rows.iter().enumerate() {
            let y = y0 + 10.0 + step * (line + 1) as f64;
            let Some(i) = *i else {
                row(&right, y, "…", &[], Paint::SecondaryText);
                continue;
            };
            let (name, cells) = &weights.rows[i];
            let fill = if i == self.chosen { Paint::Series(0) } else { Paint::Text };
            row(&right, y, name, cells, fill);
        }
        canvas.items.extend(bars);
        let rows = left_rows.len().max(right_rows.len());
        [right.end(), y0 + 16.0 + step * rows as f64]
    }

    pub(super) fn tables(&self, lang: Lang) -> Vec<FigureTable> {
        let [query, key] = [&self.tokens[0], &self.tokens[1]];
        let mut rows: Vec<(String, Vec<String>)> = self
            .products()
            .iter()
            .enumerate()
            .map(|(d, product)| {
                (
                    (d + 1).to_string(),
                    vec![
                        four_decimals(self.query[d].into()),
                        four_decimals(self.key[d].into()),
                        four_decimals(*product),
                    ],
                )
            })
            .collect();
        rows.extend(
            self.sums(lang).into_iter().map(|(name, x)| (name, vec![String::new(), String::new(), four_decimals(x)])),
        );
        let products = FigureTable {
            caption: format!("q = {query}, k = {key}"),
            head: ["d", "q", "k", "q × k"].map(String::from).to_vec(),
            rows,
        };
        let head = match lang {
            Lang::En => ["token", "score", "exp(score − max)", "weight"],
            Lang::Ja => ["トークン", "スコア", "exp(スコア − 最大)", "重み"],
        };
        let rows = self.row.iter().enumerate().map(|(i, seen)| {
            let cells = [seen.score, seen.exponential, seen.weight].map(four_decimals).to_vec();
            (format!("{} {}", i + 1, seen.token), cells)
        });
        let weights =
            FigureTable { caption: query.clone(), head: head.map(String::from).to_vec(), rows: rows.collect() };
        vec![products, weights]
    }

    pub(super) fn to_json(&self) -> Value {
        let row = self.row.iter().map(|seen| {
            json!({ "token": seen.token, "score": seen.score, "exponential": seen.exponential, "weight": seen.weight })
        });
        json!({
            "tokens": self.tokens,
            "query": super::json_numbers(&self.query),
            "key": super::json_numbers(&self.key),
            "products": self.products(),
            "scale": self.scale,
            "penalty": self.alibi_penalty,
            "score": self.score(),
            "row": row.collect::<Value>(),
        })
    }
}
