//! Reports of what networks cost: a table of all steps, and networks side by side.

use crate::width::{align_left, display_width, wrap};
use chumoku::count::{CountConfig, NetworkCost, NetworkKind, StepCost};
use chumoku::data::{format_thousands, format_thousands_wide as whole};
use chumoku::lang::{Lang, lang};
use chumoku::{ModelSize, NnError, RecurrentCell, Result, tr};
use serde_json::to_string;
use std::fmt::Write;

/// Width of a line in columns.
const WIDTH: usize = 80;

/// The cost of a network step by step, and of other networks of the same size.
#[derive(Clone, Debug)]
pub struct CountReport {
    /// Sizes of the network.
    pub config: CountConfig,
    /// Counts for these sizes.
    pub(crate) count: NetworkCost,
    /// Networks of the same width and number of layers for comparison; may be empty. A recurrent network is compared
    /// with attention alone or a transformer, and the reverse.
    pub(crate) side_by_side: Vec<NetworkCost>,
    /// Name and counts of the model folder that the sizes come from, if any.
    pub model: Option<(String, ModelSize)>,
}

impl CountReport {
    /// Counts a network.
    ///
    /// # Errors
    /// If there is no network of these sizes.
    pub fn new(config: CountConfig, model: Option<(String, ModelSize)>) -> Result<CountReport> {
        let (count, side_by_side) = (config.count()?, counts_side_by_side(&config)?);
        Ok(CountReport { config, count, side_by_side, model })
    }

    /// Returns tables and sentences in lines of at most 80 columns, in the language of the process.
    #[must_use]
    pub fn to_text(&self) -> String {
        let folder = self.model.iter().map(|(name, model)| folder_summary(name, model));
        let folder: String = folder.collect();
        let (config, beside) = (&self.config, side_by_side_table(&self.side_by_side));
        steps_table(config, &self.count) + &folder + &beside + &symbol_legend(config)
    }

    /// Returns every number as JSON. The text is assembled by hand because `serde_json` values hold no numbers above
    /// 2^64.
    ///
    /// # Panics
    /// Never: counts are plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        let model = self.model.as_ref().map(|(_, model)| to_string(model).expect("plain data"));
        let model = model.map(|model| format!(r#","model":{model}"#)).unwrap_or_default();
        let [count, beside] =
            [to_string(&self.count), to_string(&self.side_by_side)].map(|text| text.expect("plain data"));
        format!(r#"{{"count":{count},"side_by_side":{beside}{model}}}"#)
    }
}

/// Counts the networks for the comparison: recurrent networks, and attention alone or a transformer of the same size.
/// Additive attention is compared with attention.
fn counts_side_by_side(config: &CountConfig) -> Result<Vec<NetworkCost>> {
    let recurrent = [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru].map(NetworkKind::Recurrent);
    let (first, others, num_layers) = match config.network {
        NetworkKind::Attention => (NetworkKind::Attention, &recurrent[..], 1),
        NetworkKind::AdditiveAttention => (NetworkKind::AdditiveAttention, &[NetworkKind::Attention][..], 1),
        NetworkKind::Transformer | NetworkKind::Recurrent(_) => {
            (NetworkKind::Transformer, &recurrent[..], config.num_layers)
        }
        _ => return Ok(Vec::new()),
    };
    let mut counts = Vec::new();
    for network in [first].into_iter().chain(others.iter().copied()) {
        let keys = config.keys.filter(|_| matches!(network, NetworkKind::Attention | NetworkKind::AdditiveAttention));
        match (CountConfig { network, num_layers, keys, ..*config }).count() {
            // No transformer of this width can have this number of heads; a recurrent network has no heads.
            Err(NnError::HeadCount { .. }) if network != config.network => {}
            count => counts.push(count?),
        }
    }
    Ok(counts)
}

/// Formats a number of bytes with a binary unit.
fn format_bytes(bytes: u128) -> String {
    const UNITS: [&str; 8] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];
    let power = (bytes.checked_ilog2().unwrap_or(0) as usize / 10).min(UNITS.len());
    match power.checked_sub(1).and_then(|unit| UNITS.get(unit)) {
        Some(unit) => format!("{:.1} {unit}", bytes as f64 / 1024f64.powi(power as i32)),
        None => format!("{bytes} B"),
    }
}

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq)]
enum ColumnAlign {
    Left,
    Right,
}

use ColumnAlign::{Left, Right};

/// A row of cells, or a title line above several rows.
enum TableRow {
    Cells(Vec<String>),
    Title(String),
}

/// Lays rows out in columns of the width they need, two spaces apart. Leaves the column `spare` out if lines would be
/// too long.
fn layout_columns(rows: &mut [TableRow], sides: &mut Vec<ColumnAlign>, spare: Option<usize>) -> String {
    let width = |rows: &[TableRow], column: usize| {
        let cells = rows.iter().filter_map(|row| match row {
            TableRow::Cells(cells) => Some(display_width(&cells[column])),
            TableRow::Title(_) => None,
        });
        cells.max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..sides.len()).map(|column| width(rows, column)).collect();
    if let Some(column) = spare.filter(|_| widths.iter().sum::<usize>() + 2 * (widths.len() - 1) > WIDTH) {
        widths.remove(column);
        sides.remove(column);
        for row in rows.iter_mut() {
            if let TableRow::Cells(cells) = row {
                cells.remove(column);
            }
        }
    }
    let mut out = String::new();
    for row in rows {
        let line = match row {
            TableRow::Title(title) => title.clone(),
            TableRow::Cells(cells) => {
                let set = cells.iter().zip(&widths).zip(&*sides).map(|((cell, &width), side)| match side {
                    Left => align_left(cell, width),
                    Right => " ".repeat(width - display_width(cell)) + cell,
                });
                set.collect::<Vec<_>>().join("  ")
            }
        };
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Returns the name of a step.
pub(crate) fn step_label(name: &'static str, lang: Lang) -> &'static str {
    let japanese = match name {
        "embedding" => "埋め込み",
        "positions" => "位置",
        "beta" => "β",
        "head norms" => "ヘッドの正規化",
        "scores" => "スコア",
        "scaling" => "スケーリング",
        "sums, tanh" => "和、tanh",
        "weighted sum" => "加重和",
        "residual" => "残差接続",
        "norm 1" => "正規化 1",
        "norm 2" => "正規化 2",
        "norm 3" => "正規化 3",
        "final norm" => "最後の正規化",
        "feed-forward in" => "FFN（入力側）",
        "activation" => "活性化関数",
        "feed-forward out" => "FFN（出力側）",
        "mean" => "平均",
        "bottleneck in" => "ボトルネック（入力側）",
        "bottleneck out" => "ボトルネック（出力側）",
        "input projection" => "入力の射影",
        "state, step by step" => "状態 (逐次)",
        "head" => "分類層",
        "output" => "出力層",
        same => same,
    };
    lang.pick(name, japanese)
}

/// Returns the name of a step with the number of its occurrences, in the language of the process.
fn step_name(step: &StepCost) -> String {
    let times = if step.times > 1 { format!(" ×{}", step.times) } else { String::new() };
    format!("{}{times}", step_label(step.name, lang()))
}

/// Returns the name of a network in the language of the process. The English name is the value of `--network`.
fn network_name(name: &'static str) -> &'static str {
    let japanese = match name {
        "attention" => "アテンション",
        "additive-attention" => "加法アテンション",
        "transformer" => "トランスフォーマー",
        "decoder" => "デコーダー",
        "encoder-decoder" => "エンコーダー・デコーダー",
        same => same,
    };
    lang().pick(name, japanese)
}

/// Returns the title of a part of an encoder–decoder.
fn part_title(part: &str) -> String {
    match part {
        "encoder" => tr!("Encoder", "エンコーダー"),
        "cross" => tr!("Decoder: attention to the source", "デコーダー: 原文へのアテンション"),
        _ => tr!("Decoder", "デコーダー"),
    }
}

/// Describes the counted network in one line.
fn headline(config: &CountConfig, count: &NetworkCost) -> String {
    let CountConfig { num_heads: heads, num_layers: layers, .. } = config;
    let name = network_name(count.network);
    let sizes = [config.batch, config.length, config.target_length(), config.d_model];
    let [batch, length, target, width] = sizes.map(format_thousands);
    let mut line = match config.network {
        NetworkKind::EncoderDecoder => tr!(
            "{name}: batch {batch}, lengths {length} and {target}, width {width}",
            "{name}: バッチ {batch}、長さ {length} と {target}、幅 {width}"
        ),
        _ => tr!(
            "{name}: batch {batch}, length {length}, width {width}",
            "{name}: バッチ {batch}、長さ {length}、幅 {width}"
        ),
    };
    if !matches!(config.network, NetworkKind::Recurrent(_) | NetworkKind::AdditiveAttention) {
        line += &if *heads == 1 {
            tr!(", 1 head", "、1 ヘッド")
        } else {
            tr!(", {heads} heads", "、{heads} ヘッド")
        };
    }
    line + &match config.network {
        NetworkKind::Attention | NetworkKind::AdditiveAttention => String::new(),
        NetworkKind::EncoderDecoder => {
            let decoder = config.num_decoder_layers();
            tr!(", {layers} + {decoder} layers", "、{layers} + {decoder} 層")
        }
        _ if *layers == 1 => tr!(", 1 layer", "、1 層"),
        _ => tr!(", {layers} layers", "、{layers} 層"),
    }
}

/// The table of all steps.
fn steps_table(config: &CountConfig, count: &NetworkCost) -> String {
    let heads = [
        tr!("step", "計算"),
        tr!("parameters", "パラメータ"),
        tr!("multiply-adds", "積和演算"),
        String::new(),
        tr!("bytes", "バイト"),
        tr!("growth", "増え方"),
    ];
    let mut rows = vec![TableRow::Cells(heads.to_vec())];
    let mut part = "";
    for step in &count.steps {
        if step.part != part {
            part = step.part;
            rows.push(TableRow::Title(part_title(part)));
        }
        let none = |n: u128| if n == 0 { String::new() } else { whole(n) };
        rows.push(TableRow::Cells(vec![
            step_name(step),
            none(step.parameters),
            none(step.multiply_adds),
            step.multiply_adds_formula.clone(),
            format_bytes(step.bytes),
            step.growth.clone(),
        ]));
    }
    let all = [tr!("total", "合計"), whole(count.parameters), whole(count.multiply_adds), String::new()];
    rows.push(TableRow::Cells([&all[..], &[format_bytes(count.bytes), String::new()]].concat()));
    let mut sides = vec![Left, Right, Right, Left, Right, Left];
    let mut out = headline(config, count) + "\n\n" + &layout_columns(&mut rows, &mut sides, Some(3)) + "\n";

    let mut say = |text: String| out += &(wrap_lines(&text) + "\n");
    if let (Some(all), Some(attention)) = (count.quadratic_from, count.attention_quadratic_from) {
        let [all, attention] = [all, attention].map(first_length);
        say(match config.network {
            NetworkKind::Attention | NetworkKind::AdditiveAttention => tr!(
                "From length {attention} on, the products of queries and keys (n²) cost at least as much as the \
                 projections.",
                "長さ {attention} から、クエリとキーの積 (n²) の計算量が射影以上になります。"
            ),
            _ => tr!(
                "From length {attention} on, the products of queries and keys (n²) cost at least as much as the \
                 projections, and from length {all} on at least as much as everything that grows with n.",
                "クエリとキーの積 (n²) の計算量は、長さ {attention} から射影以上に、長さ {all} から n に比例するものすべての合計以上になります。"
            ),
        });
    }
    let (peak, held, fused) = (format_bytes(count.peak), format_bytes(count.held), format_bytes(count.held_fused));
    say(match config.network {
        NetworkKind::Recurrent(_) | NetworkKind::AdditiveAttention => tr!(
            "Memory: {peak} at the peak of a plain forward pass. Training holds {held}.",
            "メモリ: 素朴な順伝播の最大で {peak}。学習では {held} を保持します。"
        ),
        _ => tr!(
            "Memory: {peak} at the peak of a plain forward pass. Training holds {held}, or {fused} with fused attention, \
             which holds no array of queries × keys.",
            "メモリ: 素朴な順伝播の最大で {peak}。学習では {held} を保持し、クエリ × キーの配列を持たない融合カーネルのアテンションなら \
             {fused} です。"
        ),
    });
    if count.key_value_cache > 0 {
        let cache = format_bytes(count.key_value_cache);
        say(tr!(
            "Generating texts of this length token by token keeps {cache} of keys and values.",
            "この長さの文を 1 トークンずつ生成すると、キーとバリューに {cache} を保持します。"
        ));
    }
    out + "\n"
}

/// Returns the first whole length from a crossover on. Counts that meet at a whole length may differ from it by the
/// rounding of f64.
fn first_length(crossover: f64) -> String {
    whole((crossover * (1.0 - 1e-12)).ceil() as u128)
}

/// Describes the file of a model.
fn folder_summary(name: &str, model: &ModelSize) -> String {
    let [tensors, longest] = [model.tensors, model.max_length].map(format_thousands);
    let (parameters, bytes) = (whole(model.parameters), format_bytes(model.bytes));
    let kind = lang().pick(
        model.kind,
        match model.kind {
            "classifier" => "分類モデル",
            "encoder" => "エンコーダー",
            "translator" => "翻訳モデル",
            _ => "言語モデル",
        },
    );
    let mut text = tr!(
        "{name} is a {kind} that reads up to {longest} tokens at a time. The {tensors} tensors of its network hold \
         {parameters} numbers, which matches the count here.",
        "{name} は {kind} で、一度に {longest} トークンまで読みます。ネットワークの {tensors} 個のテンソルにある数は \
         {parameters} 個で、ここで数えたものと一致します。"
    );
    if model.ngram_tensors > 0 {
        let (tensors, numbers) = (model.ngram_tensors, whole(model.ngram_numbers));
        text += &tr!(
            " The n-gram model has {tensors} more tensors with {numbers} numbers.",
            " ほかに n グラムモデルのテンソルが {tensors} 個あり、数は {numbers} 個です。"
        );
    }
    text += &tr!(" The file size is {bytes}.", " ファイルサイズは {bytes} です。");
    wrap_lines(&text) + "\n\n"
}

/// The table of networks side by side.
fn side_by_side_table(counts: &[NetworkCost]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let heads = [
        tr!("network", "ネットワーク"),
        tr!("parameters", "パラメータ"),
        tr!("multiply-adds", "積和演算"),
        tr!("serial steps", "逐次ステップ"),
        tr!("training memory", "学習メモリ"),
    ];
    let mut rows = vec![TableRow::Cells(heads.to_vec())];
    rows.extend(counts.iter().map(|count| {
        TableRow::Cells(vec![
            network_name(count.network).into(),
            whole(count.parameters),
            whole(count.multiply_adds),
            whole(count.sequential_steps),
            format_bytes(count.held_fused),
        ])
    }));
    let mut sides = vec![Left, Right, Right, Right, Right];
    let title = tr!("Side by side: the same width and layers", "並べた比較: 同じ幅と層数");
    format!("{title}\n{}\n", layout_columns(&mut rows, &mut sides, None))
}

/// The legend of the letters in formulas.
fn symbol_legend(config: &CountConfig) -> String {
    let is_recurrent = matches!(config.network, NetworkKind::Recurrent(_));
    let sizes = [config.batch, config.length, config.target_length(), config.keys.unwrap_or(config.length)];
    let [batch, length, target, keys] = sizes.map(format_thousands);
    let widths = [config.d_model, config.head_dim(), config.d_ff, config.hidden_size.unwrap_or(config.d_model)];
    let [d_model, k, d_ff, state] = widths.map(format_thousands);
    let num_heads = format_thousands(config.num_heads);
    let mut items = vec![tr!("B sequences ({batch})", "B 系列 ({batch})")];
    match config.network {
        NetworkKind::EncoderDecoder => items.extend([
            tr!("n tokens of the source ({length})", "n 原文のトークン ({length})"),
            tr!("t tokens of the target ({target})", "t 訳文のトークン ({target})"),
        ]),
        NetworkKind::Recurrent(_) => items.push(tr!("n tokens ({length})", "n トークン ({length})")),
        _ => items
            .extend([tr!("n tokens ({length})", "n トークン ({length})"), tr!("m keys ({keys})", "m キー ({keys})")]),
    }
    items.push(tr!("d width ({d_model})", "d 幅 ({d_model})"));
    items.extend(
        config.bottleneck.map(|width| tr!("z width of the bottleneck ({width})", "z ボトルネックの幅 ({width})")),
    );
    if is_recurrent {
        items.extend([tr!("g gates", "g ゲート"), tr!("s state ({state})", "s 状態 ({state})")]);
    } else if config.network == NetworkKind::AdditiveAttention {
        items.push(tr!("s width inside tanh ({state})", "s tanh の中の幅 ({state})"));
    } else {
        items.push(tr!("h heads ({num_heads}) of width k ({k})", "h ヘッド ({num_heads})、その幅 k ({k})"));
        if config.network != NetworkKind::Attention {
            items.push(tr!("f inner width ({d_ff})", "f 内側の幅 ({d_ff})"));
        }
    }
    if config.vocab_size > 0 {
        let target = config.target_vocab_size.filter(|_| config.network == NetworkKind::EncoderDecoder);
        let sizes = std::iter::once(config.vocab_size).chain(target).map(format_thousands);
        let tokens = sizes.collect::<Vec<_>>().join(lang().pick("; ", "、"));
        items.push(tr!("V different tokens ({tokens})", "V 語彙 ({tokens})"));
    }
    let list = items.join(lang().pick(", ", "、"));
    wrap_lines(&tr!("Letters: {list}.", "記号: {list}。")) + "\n"
}

/// Wraps text into lines of at most 80 columns.
fn wrap_lines(text: &str) -> String {
    wrap(text, WIDTH).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossovers_become_the_first_whole_length() {
        let found = [85.0 + 1.0 / 3.0, 86.0, 86.000_000_000_001, 1024.5, 2e9].map(first_length);
        assert_eq!(found, ["86", "86", "86", "1,025", "2,000,000,000"]);
    }

    #[test]
    fn byte_counts_use_powers_of_1024() {
        let formatted = [0, 1, 1023, 1024, 1_000_000, 1 << 20, 5 << 29, 1 << 64, 1 << 80].map(format_bytes);
        let expected = ["0 B", "1 B", "1023 B", "1.0 KiB", "976.6 KiB", "1.0 MiB", "2.5 GiB", "16.0 EiB", "1.0 YiB"];
        assert_eq!(formatted, expected);
        assert_eq!(format_bytes(u128::MAX), "281474976710656.0 YiB");
    }
}
