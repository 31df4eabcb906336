//! Steps inside the network, in a terminal: patching, and the answer after every layer.

use super::TerminalOptions;
use super::color::Painter;
use crate::width::{align_left, align_right, display_width, truncate, wrap};
use chumoku::explain::{Explanation, LogitLens, PatchedSite, Patching};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};

/// Width of a column of numbers.
const NUMBER_WIDTH: usize = 6;

/// Maximum width of a row label.
const MAX_LABEL: usize = 16;

/// Number of sites that are listed.
const LISTED_SITES: usize = 3;

/// A table of numbers with a heading for each row and column.
struct NumberTable {
    rows: Vec<String>,
    columns: Vec<String>,
    values: Vec<f32>,
}

impl NumberTable {
    /// Returns the lines of the table; columns that do not fit follow in further tables. Large numbers are bold.
    fn lines(&self, options: &TerminalOptions) -> Vec<String> {
        let paint = Painter::new(options.color);
        let label = self.rows.iter().map(|row| display_width(row)).max().unwrap_or(0).min(MAX_LABEL);
        let column = self.columns.iter().map(|name| display_width(name) + 2).max().unwrap_or(0).max(NUMBER_WIDTH);
        let fit = (options.width.max(40).saturating_sub(2 + label) / column).max(1);
        let mut lines = Vec::new();
        for start in (0..self.columns.len()).step_by(fit) {
            let part = start..(start + fit).min(self.columns.len());
            let heads: String = self.columns[part.clone()].iter().map(|name| align_right(name, column)).collect();
            lines.push(paint.quiet(&format!("  {}{heads}", " ".repeat(label))));
            for (i, row) in self.rows.iter().enumerate() {
                let cells: String = part
                    .clone()
                    .map(|j| {
                        let x = self.values[i * self.columns.len() + j];
                        let text = align_right(&format_effect(x), column);
                        if x >= 0.5 { paint.strong(&text) } else { text }
                    })
                    .collect();
                lines.push(format!("  {}{cells}", align_left(&truncate(row, label), label)));
            }
        }
        lines
    }
}

/// Formats an effect with two decimals and no negative zero.
fn format_effect(x: f32) -> String {
    if x.abs() < 0.005 { "0.00".into() } else { format!("{x:.2}").replace('-', "−") }
}

fn layer_name(lang: Lang, depth: usize) -> String {
    match (lang, depth) {
        (Lang::En, 0) => "emb.".into(),
        (Lang::Ja, 0) => "埋込".into(),
        _ => depth.to_string(),
    }
}

/// Names a patched site.
fn site_name(patching: &Patching, site: PatchedSite, lang: Lang) -> String {
    let token = |position: usize| {
        let [text, other] = patching.aligned[position];
        let (text, other) = (&patching.tokens[text], &patching.other_tokens[other]);
        let name = if text == other { show_controls(text) } else { show_controls(&format!("{text} → {other}")) };
        lang.quoted(&name)
    };
    match (site, lang) {
        (PatchedSite::Head { layer, head }, Lang::En) => format!("head {} of layer {}", head + 1, layer + 1),
        (PatchedSite::Head { layer, head }, Lang::Ja) => format!("第 {} 層のヘッド {}", layer + 1, head + 1),
        (PatchedSite::FeedForward { layer, position }, Lang::En) => {
            format!("the feed-forward network of layer {} at {}", layer + 1, token(position))
        }
        (PatchedSite::FeedForward { layer, position }, Lang::Ja) => {
            format!("{}における第 {} 層のフィードフォワード層", token(position), layer + 1)
        }
        (PatchedSite::Residual { depth, position }, Lang::En) => {
            format!("the residual stream of {} after layer {depth}", token(position))
        }
        (PatchedSite::Residual { depth, position }, Lang::Ja) => {
            format!("第 {depth} 層の後の{}の残差ストリーム", token(position))
        }
    }
}

/// Writes how far the answer moves when values of another text are used, site by site. Without patching, writes
/// nothing.
#[must_use]
pub fn render_patching(explanation: &Explanation, options: &TerminalOptions) -> String {
    let Some(patching) = &explanation.patching else { return String::new() };
    let (lang, paint) = (options.lang, Painter::new(options.color));
    let width = options.width.max(40);
    let mut lines = Vec::new();
    let prose = |lines: &mut Vec<String>, text: &str| {
        lines.extend(wrap(text, width - 2).into_iter().map(|line| format!("  {line}")));
    };
    let [text, other] = patching.answers.each_ref().map(|answer| show_controls_in_text(&answer.label));
    let title =
        tr_in!("Patching: from {} to {}", "パッチング：{}から{}へ", lang, lang.quoted(&text), lang.quoted(&other));
    lines.extend([String::new(), paint.strong(&truncate(&title, width))]);
    let of_text = [&explanation.text, &patching.other];
    for (answer, text) in patching.answers.iter().zip(of_text) {
        let percent = 100.0 * answer.probability;
        let label = lang.quoted(&show_controls_in_text(&answer.label));
        prose(&mut lines, &format!("{} → {label} {percent:.1} %", lang.quoted(&show_controls_in_text(text))));
    }
    let sites: Vec<String> = patching
        .strongest(LISTED_SITES)
        .into_iter()
        .map(|site| format!("{} ({})", site_name(patching, site, lang), format_effect(patching.effect(site))))
        .collect();
    prose(
        &mut lines,
        &match lang {
            Lang::En => format!(
                "0: the answer is unchanged; 1: it is that of the other text. Of heads and feed-forward networks, these move it \
             most: {}.",
                sites.join(", ")
            ),
            Lang::Ja => format!(
                "0 なら答えは変わらず、1 ならもう一方のテキストと同じ答えです。ヘッドとフィードフォワード層のうち、答えを最も動かすのは{}です。",
                sites.join("、")
            ),
        },
    );
    let tokens: Vec<String> = patching
        .aligned
        .iter()
        .map(|&[text, other]| {
            let (name, other) = (&patching.tokens[text], &patching.other_tokens[other]);
            let name = if name == other { name.clone() } else { format!("{name}→{other}") };
            format!("{} {}", text + 1, show_controls(&name))
        })
        .collect();
    let layers = patching.layers();
    let by_token = |values: &[f32], columns: Vec<String>| NumberTable {
        rows: tokens.clone(),
        values: (0..tokens.len())
            .flat_map(|token| (0..columns.len()).map(move |column| [token, column]))
            .map(|[token, column]| values[column * tokens.len() + token])
            .collect(),
        columns,
    };
    let names = |range: std::ops::Range<usize>| range.map(|depth| layer_name(lang, depth)).collect::<Vec<_>>();
    let tables = [
        (
            lang.pick("Residual stream, by token and layer", "残差ストリーム（トークンと層）"),
            by_token(&patching.residual, names(0..layers + 1)),
        ),
        (
            lang.pick("Output of each head, by layer and head", "各ヘッドの出力（層とヘッド）"),
            NumberTable {
                rows: (1..=layers).map(|layer| tr_in!("layer {layer}", "第 {layer} 層", lang)).collect(),
                columns: (1..=patching.heads_per_layer()).map(|head| head.to_string()).collect(),
                values: patching.heads.clone(),
            },
        ),
        (
            lang.pick("Feed-forward network, by token and layer", "フィードフォワード層（トークンと層）"),
            by_token(&patching.feed_forward, names(1..layers + 1)),
        ),
    ];
    for (title, table) in tables {
        lines.push(String::new());
        prose(&mut lines, title);
        lines.extend(table.lines(options));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Writes the answer that the model's head reads after every layer. Without a lens, writes nothing.
#[must_use]
pub fn render_lens(lens: Option<&LogitLens>, options: &TerminalOptions) -> String {
    let Some(lens) = lens else { return String::new() };
    let (lang, paint) = (options.lang, Painter::new(options.color));
    let width = options.width.max(40);
    let title = lang.pick("The answer after every layer (logit lens)", "各層の後での答え（ロジットレンズ）");
    let mut lines = vec![String::new(), paint.strong(title)];
    let note = lang.pick(
        "The model's own head, applied after each layer. It was trained to read the last layer only: earlier answers are \
         hints, not what the model “thinks” there (nostalgebraist 2020).",
        "モデル自身の出力ヘッドを各層の後に当てたものです。ヘッドは最後の層を読むように学習されているため、途中の答えは手がかりにすぎません\
         （nostalgebraist 2020）。",
    );
    lines.extend(wrap(note, width - 2).into_iter().map(|line| format!("  {}", paint.quiet(&line))));
    let label = MAX_LABEL.min(width / 4);
    // One line for each token, or for the text; one column for each depth.
    let depths: Vec<String> = (0..lens.depths.len()).map(|depth| layer_name(lang, depth)).collect();
    let cell = |depth: usize, position: usize| {
        let answer = &lens.depths[depth][position];
        format!("{} {:.0} %", truncate(&show_controls(&answer.label), 14), 100.0 * answer.probability)
    };
    let positions = lens.tokens.len().max(1);
    let widest = |depth: usize| (0..positions).map(|i| display_width(&cell(depth, i))).max().unwrap_or(0);
    let column = (0..depths.len()).map(widest).max().unwrap_or(0).max(6) + 2;
    let fit = (width.saturating_sub(2 + label) / column).max(1);
    for start in (0..depths.len()).step_by(fit) {
        let part = start..(start + fit).min(depths.len());
        let heads: String = depths[part.clone()].iter().map(|name| align_right(name, column)).collect();
        lines.push(paint.quiet(&format!("  {}{heads}", " ".repeat(label))));
        for position in 0..positions {
            let name = lens
                .tokens
                .get(position)
                .map_or_else(String::new, |token| format!("{} {}", position + 1, show_controls(token)));
            let cells: String = part.clone().map(|depth| align_right(&cell(depth, position), column)).collect();
            lines.push(format!("  {}{cells}", align_left(&truncate(&name, label), label)));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_wrap_at_the_width_and_have_no_negative_zero() {
        let table = NumberTable {
            rows: vec!["1 a".into(), "2 a longer token".into()],
            columns: (0..9).map(|depth| layer_name(Lang::En, depth)).collect(),
            values: (0..18).map(|i| -0.001 + 0.1 * i as f32).collect(),
        };
        let options = TerminalOptions { width: 40, ..TerminalOptions::default() };
        let lines = table.lines(&options);
        assert!(lines.iter().all(|line| display_width(line) <= 40), "{lines:?}");
        assert_eq!(lines.len(), 9);
        assert!(lines[1].contains("0.00") && !lines.concat().contains("−0.00"), "{lines:?}");
    }
}
