//! Steps inside the network, in a terminal: patching, and the answer after every layer.

use super::TerminalOptions;
use super::color::Painter;
use crate::width::{align_left, align_right, display_width, truncate, wrap};
use chumoku::explain::{AnswerPosition, DecoderPatching, Explanation, LogitLens, PatchedSite, Patching, SiteEffects};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::row::AsRow;
use chumoku::tr_in;

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

pub(crate) fn layer_name(lang: Lang, depth: usize) -> String {
    match (lang, depth) {
        (Lang::En, 0) => "emb.".into(),
        (Lang::Ja, 0) => "埋込".into(),
        _ => depth.to_string(),
    }
}

/// The sites of one stack of layers, with the names of their tokens.
struct NamedSites<'a> {
    effects: SiteEffects<'a>,
    /// The names of the rows in tables.
    rows: Vec<String>,
    /// The names in sentences.
    tokens: Vec<String>,
}

impl NamedSites<'_> {
    /// The sites of the encoder, or of the only layers.
    fn of_encoder(patching: &Patching, lang: Lang) -> NamedSites<'_> {
        let token = |&[text, other]: &[usize; 2]| {
            let (text, other) = (&patching.tokens[text], &patching.other_tokens[other]);
            let name = if text == other { show_controls(text) } else { show_controls(&format!("{text} → {other}")) };
            lang.quoted(&name)
        };
        NamedSites {
            effects: patching.sites(),
            rows: aligned_names(patching),
            tokens: patching.aligned.iter().map(token).collect(),
        }
    }

    fn of_decoder(decoder: &DecoderPatching, lang: Lang) -> NamedSites<'_> {
        let names: Vec<String> = decoder.tokens.iter().map(|token| show_controls(token)).collect();
        NamedSites {
            effects: decoder.sites(),
            rows: names.iter().enumerate().map(|(i, name)| format!("{} {name}", i + 1)).collect(),
            tokens: names.iter().map(|name| lang.quoted(name)).collect(),
        }
    }

    /// Names a site. The heads of a decoder belong to one of two attentions.
    fn site_name(&self, site: PatchedSite, lang: Lang) -> String {
        let of_attention = |attention: [&str; 2], layer: usize, head: usize| {
            let ([en, ja], layer, head) = (attention, layer + 1, head + 1);
            tr_in!("head {head} of the {en} in layer {layer}", "第 {layer} 層の{ja}のヘッド {head}", lang)
        };
        match site {
            PatchedSite::Head { layer, head } if self.effects.cross_heads.is_empty() => {
                let (layer, head) = (layer + 1, head + 1);
                tr_in!("head {head} of layer {layer}", "第 {layer} 層のヘッド {head}", lang)
            }
            PatchedSite::Head { layer, head } => of_attention(["self-attention", "セルフアテンション"], layer, head),
            PatchedSite::CrossHead { layer, head } => {
                of_attention(["cross-attention", "クロスアテンション"], layer, head)
            }
            PatchedSite::FeedForward { layer, position } => {
                let (layer, token) = (layer + 1, &self.tokens[position]);
                tr_in!(
                    "the feed-forward network of layer {layer} at {token}",
                    "{token}における第 {layer} 層のフィードフォワード層",
                    lang
                )
            }
            PatchedSite::Residual { depth, position } => {
                let token = &self.tokens[position];
                tr_in!(
                    "the residual stream of {token} after layer {depth}",
                    "第 {depth} 層の後の{token}の残差ストリーム",
                    lang
                )
            }
        }
    }

    /// Names the heads and feed-forward networks that move the answer most.
    fn strongest_sentence(&self, lang: Lang) -> String {
        let sites: Vec<String> = self
            .effects
            .strongest(LISTED_SITES)
            .into_iter()
            .map(|site| format!("{} ({})", self.site_name(site, lang), format_effect(self.effects.effect(site))))
            .collect();
        match lang {
            Lang::En => format!("Of heads and feed-forward networks, these move it most: {}.", sites.join(", ")),
            Lang::Ja => format!("ヘッドとフィードフォワード層のうち、最も大きく動かすのは{}です。", sites.join("、")),
        }
    }

    /// Returns the tables of all sites, with their titles.
    fn tables(&self, lang: Lang) -> Vec<(&'static str, NumberTable)> {
        let (effects, tokens) = (self.effects, self.rows.len());
        let layers = effects.layers();
        let by_token = |values: &[f32], columns: Vec<String>| NumberTable {
            rows: self.rows.clone(),
            values: (0..tokens)
                .flat_map(|token| (0..columns.len()).map(move |column| [token, column]))
                .map(|[token, column]| values[column * tokens + token])
                .collect(),
            columns,
        };
        let by_head = |values: &[f32]| NumberTable {
            rows: (1..=layers).map(|layer| tr_in!("layer {layer}", "第 {layer} 層", lang)).collect(),
            columns: (1..=effects.heads_per_layer()).map(|head| head.to_string()).collect(),
            values: values.to_vec(),
        };
        let names = |range: std::ops::Range<usize>| range.map(|depth| layer_name(lang, depth)).collect::<Vec<_>>();
        let of_heads = match effects.cross_heads.is_empty() {
            true => lang.pick("Output of each head, by layer and head", "各ヘッドの出力（層とヘッド）"),
            false => lang.pick(
                "Output of each head of self-attention, by layer and head",
                "セルフアテンションの各ヘッドの出力（層とヘッド）",
            ),
        };
        let mut tables = vec![
            (
                lang.pick("Residual stream, by token and layer", "残差ストリーム（トークンと層）"),
                by_token(effects.residual, names(0..layers + 1)),
            ),
            (of_heads, by_head(effects.heads)),
        ];
        if !effects.cross_heads.is_empty() {
            let title = lang.pick(
                "Output of each head of cross-attention, by layer and head",
                "クロスアテンションの各ヘッドの出力（層とヘッド）",
            );
            tables.push((title, by_head(effects.cross_heads)));
        }
        tables.push((
            lang.pick("Feed-forward network, by token and layer", "フィードフォワード層（トークンと層）"),
            by_token(effects.feed_forward, names(1..layers + 1)),
        ));
        tables
    }
}

fn quoted_label(label: &str, lang: Lang) -> String {
    lang.quoted(&show_controls_in_text(label))
}

/// Returns the title of patching: what moves between the two texts.
pub(crate) fn patching_title(patching: &Patching, lang: Lang) -> String {
    let [text, other] = patching.answers.each_ref().map(|answer| quoted_label(&answer.label, lang));
    match (patching.away.is_some(), patching.has_same_answer()) {
        (false, _) => {
            let label = quoted_label(&patching.toward, lang);
            tr_in!("Patching: the probability of {label}", "パッチング：{label}の確率", lang)
        }
        (true, true) => tr_in!("Patching: both texts get {text}", "パッチング：答えはどちらも{text}", lang),
        (true, false) => tr_in!("Patching: from {text} to {other}", "パッチング：{text}から{other}へ", lang),
    }
}

/// Says what the numbers 0 and 1 mean.
pub(crate) fn patching_scale(patching: &Patching, lang: Lang) -> String {
    let toward = quoted_label(&patching.toward, lang);
    let [from, to] = patching.differences.map(format_effect);
    match patching.away.as_deref().map(|away| quoted_label(away, lang)) {
        None => tr_in!(
            "The numbers follow the logit of {toward}. 0: it stays at {from}; 1: it is that of the other text, {to}.",
            "数値は{toward}のロジットの動きを表し、0 ならこのテキストの {from}、1 ならもう一方のテキストの {to} です。",
            lang
        ),
        Some(away) if patching.has_same_answer() => tr_in!(
            "The answers are the same, so the numbers follow the logit of {toward} minus that of {away}. 0: it stays at {from}; \
             1: it is that of the other text, {to}.",
            "答えが同じなので、数値は{toward}のロジットから{away}のロジットを引いた差の動きを表し、0 ならこのテキストの {from}、1 なら\
             もう一方のテキストの {to} です。",
            lang
        ),
        Some(_) => {
            let scale = lang.pick(
                "0: the answer is unchanged; 1: it is that of the other text.",
                "0 なら答えは変わらず、1 ならもう一方のテキストと同じ答えです。",
            );
            scale.to_owned()
        }
    }
}

/// Names the patched tokens with their positions, from 1.
pub(crate) fn aligned_names(patching: &Patching) -> Vec<String> {
    patching
        .aligned
        .iter()
        .map(|&[text, other]| {
            let (name, other) = (&patching.tokens[text], &patching.other_tokens[other]);
            let name = if name == other { name.clone() } else { format!("{name}→{other}") };
            format!("{} {}", text + 1, show_controls(&name))
        })
        .collect()
}

/// Says where the answers are read, for models that answer more than once.
pub(crate) fn position_sentence(patching: &Patching, lang: Lang) -> Option<String> {
    let patched = match patching.decoder {
        None => lang.pick("The encoder is patched.", "置き換えるのはエンコーダーの値です。"),
        Some(_) => lang.pick("Encoder and decoder are patched.", "置き換えるのはエンコーダーとデコーダーの値です。"),
    };
    Some(match patching.position.as_ref()? {
        AnswerPosition::Word { index, text } => {
            let (number, word) = (index + 1, quoted_label(text, lang));
            tr_in!(
                "The tags of word {number}, {word}, are compared.",
                "{number} 番目の語{word}のタグを比べます。",
                lang
            )
        }
        AnswerPosition::Token { index: 0, .. } => tr_in!(
            "The first tokens of the translations are compared. {patched}",
            "訳文の最初のトークンを比べます。{patched}",
            lang
        ),
        AnswerPosition::Token { after, .. } => {
            let after = quoted_label(after, lang);
            tr_in!(
                "The tokens after {after} are compared, where the translations part. {patched}",
                "訳文が分かれる{after}の次のトークンを比べます。{patched}",
                lang
            )
        }
    })
}

/// The warning that a share of a small difference means little.
pub(crate) fn small_difference_warning(patching: &Patching, lang: Lang) -> String {
    let [text, other] = patching.differences;
    let difference = (other - text).abs();
    tr_in!(
        "Warning: the logits of the two texts differ by only {difference:.3}, so a share of this difference means little. Choose \
             texts whose answers differ more.",
        "注意：2 つのテキストのロジットは {difference:.3} しか違わないため、その割合にはあまり意味がありません。答えがもっと異なるテキストを\
             選んでください。",
        lang
    )
}

/// Writes how far the answer moves when values of another text are used, site by site. Without patching, writes
/// nothing.
#[must_use]
pub fn render_patching(patching: Option<&Patching>, text: impl AsRow, options: &TerminalOptions) -> String {
    let Some(patching) = patching else { return String::new() };
    let (lang, paint) = (options.lang, Painter::new(options.color));
    let width = options.width.max(40);
    let mut lines = Vec::new();
    let prose = |lines: &mut Vec<String>, text: &str| {
        lines.extend(wrap(text, width - 2).into_iter().map(|line| format!("  {line}")));
    };
    lines.extend([String::new(), paint.strong(&truncate(&patching_title(patching, lang), width))]);
    let of_text = [text.as_row(), patching.other.as_row()];
    for (answer, text) in patching.answers.iter().zip(of_text) {
        let percent = 100.0 * answer.probability;
        let (text, label) = (lang.quoted(&show_controls_in_text(text)), quoted_label(&answer.label, lang));
        let line = match patching.away {
            Some(_) => format!("{text} → {label} {percent:.1} %"),
            None => tr_in!("{text}: {label} {percent:.1} %", "{text}：{label} {percent:.1} %", lang),
        };
        prose(&mut lines, &line);
    }
    if let Some(sentence) = position_sentence(patching, lang) {
        prose(&mut lines, &sentence);
    }
    if patching.has_small_difference() {
        prose(&mut lines, &small_difference_warning(patching, lang));
    }
    let scale = patching_scale(patching, lang);
    let (encoder, decoder) = (NamedSites::of_encoder(patching, lang), patching.decoder.as_ref());
    let stacks = match decoder {
        None => vec![(None, encoder)],
        Some(decoder) => vec![
            (Some(lang.pick("Encoder", "エンコーダー")), encoder),
            (Some(lang.pick("Decoder", "デコーダー")), NamedSites::of_decoder(decoder, lang)),
        ],
    };
    if decoder.is_some() {
        prose(&mut lines, &scale);
    }
    for (heading, sites) in stacks {
        let strongest = sites.strongest_sentence(lang);
        match heading {
            None => prose(&mut lines, &format!("{scale}{}{strongest}", lang.pick(" ", ""))),
            Some(heading) => {
                lines.extend([String::new(), format!("  {}", paint.strong(heading))]);
                prose(&mut lines, &strongest);
            }
        }
        for (title, table) in sites.tables(lang) {
            lines.push(String::new());
            prose(&mut lines, title);
            lines.extend(table.lines(options));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Writes the answer that the model's head reads after every layer. Without a lens, writes nothing.
#[must_use]
pub fn render_lens(lens: Option<&LogitLens>, options: &TerminalOptions) -> String {
    lens.map_or_else(String::new, |lens| lens_text(lens, None, options))
}

/// Writes the logit lens of an explanation. For labels and numbers, writes the probability of the explained label or
/// threshold. Without a lens, writes nothing.
#[must_use]
pub fn render_explanation_lens(explanation: &Explanation, options: &TerminalOptions) -> String {
    let label = (!explanation.exclusive).then_some(explanation.attribution.class.as_str());
    explanation.lens.as_ref().map_or_else(String::new, |lens| lens_text(lens, label, options))
}

/// Returns the title of a lens.
pub(crate) fn lens_title(label: Option<&str>, lang: Lang) -> String {
    match label.map(|label| quoted_label(label, lang)) {
        None => lang.pick("The answer after every layer (logit lens)", "各層の後での答え（ロジットレンズ）").to_owned(),
        Some(label) => tr_in!(
            "The probability of {label} after every layer (logit lens)",
            "各層の後での{label}の確率（ロジットレンズ）",
            lang
        ),
    }
}

/// Says how far to trust a lens.
pub(crate) fn lens_note(lang: Lang) -> &'static str {
    lang.pick(
        "The model's own head, applied after each layer. It was trained to read the last layer only: earlier answers are \
         hints, not what the model “thinks” there (nostalgebraist 2020).",
        "モデル自身の出力ヘッドを各層の後に当てたものです。ヘッドは最後の層を読むように学習されているため、途中の答えは手がかりにすぎません\
         （nostalgebraist 2020）。",
    )
}

/// Writes a lens. `label` is the only label that it reads, if the answers are not exclusive.
fn lens_text(lens: &LogitLens, label: Option<&str>, options: &TerminalOptions) -> String {
    let (lang, paint) = (options.lang, Painter::new(options.color));
    let width = options.width.max(40);
    let title = lens_title(label, lang);
    let mut lines = vec![String::new(), paint.strong(&truncate(&title, width))];
    lines.extend(wrap(lens_note(lang), width - 2).into_iter().map(|line| format!("  {}", paint.quiet(&line))));
    let names = MAX_LABEL.min(width / 4);
    // One line for each token, or for the text; one column for each depth.
    let depths: Vec<String> = (0..lens.depths.len()).map(|depth| layer_name(lang, depth)).collect();
    let cell = |depth: usize, position: usize| {
        let answer = &lens.depths[depth][position];
        let percent = format!("{:.0} %", 100.0 * answer.probability);
        match label {
            None => format!("{} {percent}", truncate(&show_controls(&answer.label), 14)),
            Some(_) => percent,
        }
    };
    let positions = lens.tokens.len().max(1);
    let widest = |depth: usize| (0..positions).map(|i| display_width(&cell(depth, i))).max().unwrap_or(0);
    let column = (0..depths.len()).map(widest).max().unwrap_or(0).max(6) + 2;
    let fit = (width.saturating_sub(2 + names) / column).max(1);
    for start in (0..depths.len()).step_by(fit) {
        let part = start..(start + fit).min(depths.len());
        let heads: String = depths[part.clone()].iter().map(|name| align_right(name, column)).collect();
        lines.push(paint.quiet(&format!("  {}{heads}", " ".repeat(names))));
        for position in 0..positions {
            let name = lens
                .tokens
                .get(position)
                .map_or_else(String::new, |token| format!("{} {}", position + 1, show_controls(token)));
            let cells: String = part.clone().map(|depth| align_right(&cell(depth, position), column)).collect();
            lines.push(format!("  {}{cells}", align_left(&truncate(&name, names), names)));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::explain::{LabelProbability, LensAnswer};

    /// Patching of one token toward "pos".
    fn patching(away: Option<&str>, answers: [&str; 2], differences: [f32; 2]) -> Patching {
        Patching {
            other: "b".into(),
            tokens: vec!["a".into()],
            other_tokens: vec!["b".into()],
            aligned: vec![[0, 0]],
            answers: answers.map(|label| LabelProbability { label: label.into(), probability: 0.6 }),
            toward: "pos".into(),
            away: away.map(str::to_owned),
            position: None,
            differences,
            residual: vec![1.0, 0.5],
            heads: vec![0.3],
            feed_forward: vec![0.2],
            decoder: None,
        }
    }

    #[test]
    fn a_decoder_has_tables_of_its_own() {
        let decoder = DecoderPatching {
            tokens: vec!["[START]".into(), "x\u{1b}".into()],
            residual: vec![0.0, 0.01, 0.02, 1.0],
            heads: vec![0.11, 0.12],
            cross_heads: vec![0.93, 0.21],
            feed_forward: vec![0.31, 0.32],
        };
        let mut patching = patching(Some("neg"), ["neg", "pos"], [-1.0, 2.0]);
        patching.position = Some(AnswerPosition::Token { index: 1, after: "x".into() });
        let options = |lang| TerminalOptions { width: 400, lang, ..TerminalOptions::default() };
        let alone = render_patching(Some(&patching), "a", &options(Lang::En));
        assert!(alone.contains("The encoder is patched.") && !alone.contains("Decoder"), "{alone}");
        patching.decoder = Some(decoder);
        let text = render_patching(Some(&patching), "a", &options(Lang::En));
        for part in [
            "Encoder and decoder are patched.",
            "head 1 of layer 1 (0.30)",
            "head 1 of the cross-attention in layer 1 (0.93)",
            "Output of each head of cross-attention",
            "layer 1  0.11  0.12",
            "layer 1  0.93  0.21",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && text.contains("1 [START]"), "{text}");
        let japanese = render_patching(Some(&patching), "a", &options(Lang::Ja));
        assert!(japanese.contains("第 1 層のクロスアテンションのヘッド 1 (0.93)"), "{japanese}");
        assert!(japanese.contains("置き換えるのはエンコーダーとデコーダーの値です。"), "{japanese}");
    }

    #[test]
    fn patching_names_what_moves() {
        let text =
            |patching: &Patching| patching_title(patching, Lang::En) + "\n" + &patching_scale(patching, Lang::En);
        let other = text(&patching(Some("neg"), ["neg", "pos"], [-1.0, 2.0]));
        assert_eq!(
            other,
            "Patching: from “neg” to “pos”\n0: the answer is unchanged; 1: it is that of the other text."
        );
        let same = text(&patching(Some("neg"), ["neg", "neg"], [-0.68, -1.2]));
        assert!(same.starts_with("Patching: both texts get “neg”\nThe answers are the same"), "{same}");
        assert!(same.contains("the logit of “pos” minus that of “neg”") && same.contains("at −0.68;"), "{same}");
        let label = text(&patching(None, ["pos", "pos"], [0.5, 1.5]));
        assert!(label.starts_with("Patching: the probability of “pos”\nThe numbers follow the logit"), "{label}");
        assert!(!label.contains("answer"), "{label}");
    }

    #[test]
    fn a_lens_of_one_label_shows_its_probability() {
        let answer = |probability: f32| {
            let label = "room".to_owned();
            vec![LensAnswer {
                label,
                probability,
                last_layer_probability: probability,
                probabilities: vec![probability],
            }]
        };
        let lens = LogitLens { tokens: Vec::new(), depths: vec![answer(0.39), answer(0.42)] };
        let options = TerminalOptions { width: 80, ..TerminalOptions::default() };
        let text = lens_text(&lens, Some("room"), &options);
        assert!(text.contains("The probability of “room” after every layer") && text.contains("39 %"), "{text}");
        assert_eq!(text.matches("room").count(), 1, "{text}");
        let of_classes = lens_text(&lens, None, &options);
        assert!(
            of_classes.contains("The answer after every layer") && of_classes.contains("room 39 %"),
            "{of_classes}"
        );
    }

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
