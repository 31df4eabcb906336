//! An explanation in a terminal.

use super::TerminalOptions;
use super::cells::{filled_bar, full_bar_effect, largest_in_order, max_width, rounded_top};
use super::color::{ColorDepth, Painter};
use super::heatmap::{HeatmapPanel, legend};
use crate::phrases;
use crate::width::{align_left, align_right, display_width, signed_number, truncate, wrap};
use chumoku::explain::{ColumnEffect, Explanation, LabelProbability, WordEffect};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::row::AsRow;

const MIN_WIDTH: usize = 40;

/// Maximum number of words in the heatmap; more would fill several screens.
const MAX_WORDS: usize = 60;

/// Maximum number of classes with probabilities.
const MAX_CLASSES: usize = 6;

/// Maximum width of a row label.
const MAX_LABEL: usize = 14;

/// Maximum number of heads whose roles are listed.
const MAX_ROLES: usize = 16;

/// Maximum number of words whose attention is described in a sentence.
const MAX_SENTENCES: usize = 4;

/// Writes the prediction, the effect of each word, and the heatmap of one layer and head, or a note that the model has
/// no attention.
///
/// `layer` and `head` count from 0; the text counts them, and the words, from 1. No line is wider than `options.width`,
/// and without color the text has no escape sequence. The heatmap's cells are `round(100 · weight)`; without color,
/// `**` stands for 100.
///
/// # Panics
///
/// If the explanation has no such layer or head, or is inconsistent ([`Explanation::validate`]).
#[must_use]
pub fn render(explanation: &Explanation, layer: usize, head: usize, options: &TerminalOptions) -> String {
    assert!(
        explanation.layers == 0 || layer < explanation.layers && head < explanation.heads,
        "layer {layer} and head {head} (counted from 0) of {} layers and {} heads",
        explanation.layers,
        explanation.heads
    );
    let mut page = ExplanationWriter {
        explanation,
        words: explanation.words.iter().map(|word| show_controls(&word.text)).collect(),
        width: options.width.max(MIN_WIDTH),
        lang: options.lang,
        color: options.color,
        paint: Painter::new(options.color),
        out: String::new(),
    };
    page.write_prediction();
    page.write_effects();
    page.write_feature_columns();
    if explanation.layers > 0 {
        page.write_attention(layer, head);
    } else {
        page.write_line("");
        page.write_note(phrases::no_attention_note(options.lang, explanation.kind));
    }
    page.out
}

struct ExplanationWriter<'a> {
    explanation: &'a Explanation,
    /// The words, safe to print.
    words: Vec<String>,
    width: usize,
    lang: Lang,
    color: ColorDepth,
    paint: Painter,
    out: String,
}

impl ExplanationWriter<'_> {
    fn write_line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn write_heading(&mut self, text: &str) {
        let text = self.paint.strong(&truncate(text, self.width));
        self.write_line("");
        self.write_line(&text);
    }

    /// Writes wrapped text, indented by two columns.
    fn write_prose(&mut self, text: &str, paint: impl Fn(&str) -> String) {
        for line in wrap(text, self.width - 2) {
            self.write_line(&format!("  {}", paint(&line)));
        }
    }

    fn write_note(&mut self, text: &str) {
        let paint = self.paint;
        self.write_prose(text, |line| paint.quiet(line));
    }

    fn write_prediction(&mut self) {
        let (e, lang) = (self.explanation, self.lang);
        // A long label is truncated, so that the number after it stays visible.
        let percent = e.probabilities.iter().find(|p| p.label == e.label);
        let percent = percent.map_or(String::new(), |p| format!("  {:.1} %", p.probability * 100.0));
        let number = e.number.map(|number| phrases::number_with_interval(lang, number));
        let title = phrases::prediction_heading(lang, e);
        let title = match e.similarity {
            Some(_) if e.is_compared_with_itself() => title.to_owned(),
            Some(cosine) => format!("{title}: {cosine:.4}"),
            None if number.is_some() => format!("{title}: {}", number.unwrap_or_default()),
            None => {
                let room = self.width - display_width(title) - 2 - percent.len();
                format!("{title}: {}{percent}", truncate(&show_controls_in_text(&e.label), room))
            }
        };
        self.out.push_str(&self.paint.strong(&title));
        self.out.push('\n');
        // For classes in a tree: the path to the answer.
        if e.levels.len() > 1 {
            let node = |node: &LabelProbability| {
                format!("{} {:.1} %", show_controls_in_text(&node.label), node.probability * 100.0)
            };
            self.write_note(&e.levels.iter().map(node).collect::<Vec<_>>().join("  ›  "));
        }

        match e.written_from().map(|start| e.text.as_row().text().split_at(start)) {
            None => self.write_quoted("", &e.text),
            Some((prompt, written)) => {
                self.write_quoted(lang.pick("Prompt: ", "プロンプト："), prompt);
                self.write_quoted(lang.pick("Written by the model: ", "モデルが書いた部分："), written);
            }
        }
        if let Some(first) = e.prompt_words.filter(|&first| first < e.words.len()) {
            self.write_note(&phrases::written_words_note(lang, first + 1, e.words.len()));
        }
        if e.similarity.is_some() && !e.is_compared_with_itself() {
            self.write_quoted("↔ ", &e.label);
        }
        if let Some(cut) = &e.cut {
            self.write_prose(&phrases::truncation_note(lang, cut, e.kind), str::to_owned);
        }
        self.write_note(&show_controls_in_text(&e.model));
        if !e.probabilities.is_empty() {
            self.write_line("");
            self.write_probabilities();
        }
    }

    /// Writes the beginning of a text in quotation marks.
    fn write_quoted(&mut self, sign: &str, text: impl AsRow) {
        let lines = wrap(&format!("{sign}{}", self.lang.quoted(&show_controls_in_text(text))), self.width - 2);
        for line in lines.iter().take(3) {
            self.write_line(&format!("  {line}"));
        }
        if lines.len() > 3 {
            self.write_line("  …");
        }
    }

    /// Writes the classes with bars and, for an ensemble, the probabilities from each member.
    fn write_probabilities(&mut self) {
        let (e, paint) = (self.explanation, self.paint);
        let first = match e.number {
            None => 0,
            // Many thresholds are reduced to those around the threshold in question.
            Some(_) => {
                let class = e.probabilities.iter().position(|p| p.label == e.label).unwrap_or_default();
                class.saturating_sub(MAX_CLASSES / 2).min(e.probabilities.len().saturating_sub(MAX_CLASSES))
            }
        };
        let shown = &e.probabilities[first..e.probabilities.len().min(first + MAX_CLASSES)];
        let labels: Vec<String> = shown.iter().map(|p| show_controls_in_text(&p.label)).collect();
        let label_width = max_width(&labels).min(self.width / 4);
        let headings = phrases::member_headings(self.lang, e.layers > 0);
        let column = headings.map(|h| display_width(h).max(7) + 2);
        let room = self.width - 2 - label_width - 1;
        // On a narrow terminal the members' columns replace the bar.
        let parts = e.parts.as_ref().filter(|_| room >= column.iter().sum::<usize>() + 6);
        let columns = if parts.is_some() { 3 } else { 1 };
        let bar = room - column[..columns].iter().sum::<usize>();

        if parts.is_some() {
            let indent = " ".repeat(2 + label_width + 1 + bar);
            let row = |texts: [&str; 3]| -> String { (0..3).map(|i| align_right(texts[i], column[i])).collect() };
            self.write_line(&format!("{indent}{}", paint.quiet(&row(headings))));
        }
        for (p, label) in shown.iter().zip(&labels) {
            let of = |list: &[LabelProbability]| {
                let found = list.iter().find(|other| other.label == p.label);
                found.map_or("-".to_owned(), |p| format!("{:.1} %", p.probability * 100.0))
            };
            let mut cells = align_right(&format!("{:.1} %", p.probability * 100.0), column[0]);
            if let Some(parts) = parts {
                cells += &paint.quiet(&align_right(&of(&parts.network), column[1]));
                cells += &paint.quiet(&align_right(&of(&parts.ngrams), column[2]));
            }
            let filled = filled_bar(p.probability, bar);
            let filled = format!("{}{}", paint.positive(&filled), " ".repeat(bar - display_width(&filled)));
            self.write_line(&format!("  {} {filled}{cells}", align_left(label, label_width)));
        }
        if shown.len() < e.probabilities.len() {
            let more = phrases::more_classes(
                self.lang,
                e.kind,
                [e.number.is_some(), e.exclusive],
                e.probabilities.len() - shown.len(),
            );
            self.write_note(&more);
        }
        // A threshold with a probability of one half has no decision to share.
        if let (Some(parts), [first, second, ..], None) = (&e.parts, &e.probabilities[..], e.number) {
            let classes = [if e.exclusive { &first.label } else { &e.label }, &second.label];
            let classes = classes.map(|label| truncate(&show_controls_in_text(label), 24));
            let network = phrases::network_name(self.lang, e.layers > 0);
            self.write_note(&phrases::member_shares_note(
                self.lang,
                parts,
                &classes[0],
                e.exclusive.then_some(&classes[1]),
                network,
            ));
        }
    }

    /// Writes each word with its effect and a bar: to the right for the class, to the left against it.
    fn write_effects(&mut self) {
        let (e, lang) = (self.explanation, self.lang);
        let class = show_controls_in_text(&e.attribution.class);
        // A text that is compared with another was shown above.
        let class = if e.similarity.is_some() { truncate(&class, 40) } else { class };
        self.write_heading(&phrases::effect_heading(lang, e, &class));
        self.write_note(&phrases::effect_note(lang, e, &class));

        let attribution = &e.attribution;
        if attribution.whole.is_some() {
            self.write_note(&phrases::two_effects_note(lang, e.layers > 0));
        }
        if let Some(integral) = &attribution.integral {
            self.write_note(&phrases::integral_note(lang, integral));
        }
        if let Some(curves) = &attribution.curves {
            self.write_note(&phrases::curves_note(lang, curves, &class));
        }
        // First the words of the first window, then the rest.
        let n = e.words.len();
        let word = |i: usize| match i.checked_sub(n).map(|i| &attribution.beyond[i]) {
            Some(word) => WordEffect { text: show_controls(&word.text), ..word.clone() },
            None => WordEffect {
                text: self.words[i].clone(),
                score: attribution.scores[i],
                whole: attribution.whole.as_ref().map(|whole| whole[i]),
            },
        };
        let words: Vec<WordEffect> = (0..n + attribution.beyond.len()).map(word).collect();
        let mut shown: Vec<usize> = (0..words.len()).filter(|&i| i >= n || !e.words[i].special).collect();
        if shown.len() > MAX_WORDS {
            let all = shown.len();
            shown = largest_in_order(&shown, MAX_WORDS / 2, |i| words[i].score.abs());
            self.write_note(&phrases::strongest_words_note(lang, shown.len(), all));
        }
        self.write_line("");

        // Short texts get one wide column, longer ones as many as fit, filled downwards.
        let most = (self.width / if attribution.whole.is_some() { 44 } else { 36 }).max(1);
        let columns = if shown.len() <= 14 { 1 } else { most };
        let rows = shown.len().div_ceil(columns);
        let wide = if columns == 1 { self.width.min(72) } else { self.width / columns };
        let top = full_bar_effect(shown.iter().map(|&i| words[i].score), self.effect_digits());
        let label =
            shown.iter().map(|&i| display_width(&words[i].text)).max().unwrap_or(0).min(MAX_LABEL).min(wide / 3);
        let index = words.len().to_string().len();
        for row in 0..rows {
            let cells = (0..columns).filter_map(|column| shown.get(column * rows + row));
            let line: String = cells.map(|&i| self.effect_cell(i, &words[i], [wide, index, label], top)).collect();
            self.write_line(&line);
        }
    }

    /// Returns the decimals of a word's effect. Cosines differ by less than log-odds do.
    fn effect_digits(&self) -> usize {
        if self.explanation.similarity.is_some() { 3 } else { 2 }
    }

    /// Formats the effect of a word in `width` columns, with the widths of its index and its text. The effect on the
    /// whole ensemble follows, if there is one.
    fn effect_cell(
        &self,
        i: usize,
        WordEffect { text, score, whole }: &WordEffect,
        [width, index, label]: [usize; 3],
        top: f32,
    ) -> String {
        let (score, digits) = (*score, self.effect_digits());
        let number = |score: f32| align_right(&signed_number(score, digits), 7);
        let whole = whole.map_or(String::new(), number);
        let number = number(score);
        let digits = number.len() + whole.len();
        let half = width.saturating_sub(2 + index + 1 + label + 1 + digits + 1) / 2;
        let length = if top > 0.0 { score.abs() / top } else { 0.0 };
        let (before, after) = if score < 0.0 {
            // Block characters fill from the left only, so a bar to the left has whole blocks.
            let n = filled_bar(length, half).chars().filter(|&c| c == '█').count();
            let bar = self.paint.negative(&"█".repeat(n));
            (format!("{}{bar}", " ".repeat(half - n)), " ".repeat(half))
        } else {
            let bar = filled_bar(length, half);
            let space = " ".repeat(half.saturating_sub(display_width(&bar)));
            (" ".repeat(half), format!("{}{space}", self.paint.positive(&bar)))
        };
        let line = format!(
            "  {} {}{number}{} {before}{}{after}",
            self.paint.quiet(&align_right(&(i + 1).to_string(), index)),
            align_left(text, label),
            self.paint.quiet(&whole),
            self.paint.quiet("│"),
        );
        let used = 2 + index + 1 + label + digits + 1 + 2 * half + 1;
        line + &" ".repeat(width.saturating_sub(used))
    }

    /// Writes each feature column with its value, its effect and a bar.
    fn write_feature_columns(&mut self) {
        let (e, lang) = (self.explanation, self.lang);
        let columns = &e.columns;
        if columns.is_empty() {
            return;
        }
        let class = show_controls_in_text(&e.attribution.class);
        self.write_heading(&phrases::column_heading(lang, &class));
        self.write_note(&phrases::column_note(lang, &class));
        self.write_line("");
        let most = self.width / 4;
        let names: Vec<String> =
            columns.iter().map(|column| truncate(&show_controls_in_text(&column.name), most)).collect();
        // The interpretation of a value must stay visible after a long value.
        let shown = |column: &ColumnEffect| {
            let value = truncate(&show_controls_in_text(&column.value), most.saturating_sub(10));
            truncate(&phrases::column_value(lang, &ColumnEffect { value, ..column.clone() }), most)
        };
        let values: Vec<String> = columns.iter().map(shown).collect();
        let [name, value] = [max_width(&names), max_width(&values)];
        let top = full_bar_effect(columns.iter().map(|column| column.effect), 2);
        let half = (self.width.min(72).saturating_sub(2 + name + 2 + value + 8 + 1) / 2).clamp(2, 24);
        for ((column, name_of), value_of) in columns.iter().zip(&names).zip(&values) {
            let effect = column.effect;
            let number = align_right(&signed_number(effect, 2), 8);
            let bar = filled_bar(if top > 0.0 { effect.abs() / top } else { 0.0 }, half);
            let (before, after) = match effect < 0.0 {
                true => {
                    let n = bar.chars().filter(|&c| c == '█').count();
                    (format!("{}{}", " ".repeat(half - n), self.paint.negative(&"█".repeat(n))), String::new())
                }
                false => (" ".repeat(half), self.paint.positive(&bar)),
            };
            let bars = format!("{before}{}{after}", self.paint.quiet("│"));
            let line = format!("  {}  {}{number} {bars}", align_left(name_of, name), align_left(value_of, value));
            self.write_line(&line);
        }
    }

    fn index_width(&self) -> usize {
        self.words.len().to_string().len()
    }

    fn write_attention(&mut self, layer: usize, head: usize) {
        let (e, lang) = (self.explanation, self.lang);
        let n = e.words.len();
        self.write_heading(&phrases::attention_heading(lang, e, layer, head));
        self.write_note(phrases::cell_note(lang));
        if e.causal {
            self.write_note(phrases::causal_note(lang));
        }

        // "100" takes three columns; column numbers above 99 need one more to stay apart.
        let cell = if n > 99 { 4 } else { 3 };
        let label = max_width(&self.words).min(MAX_LABEL).max(display_width(phrases::heatmap_corner(lang)) - 3);
        let gutter = 2 + self.index_width() + 1 + label + 2;
        let fit = (self.width - gutter) / cell;
        let received = e.received(layer, head);
        let (shown, rest) = if n > MAX_WORDS {
            let all: Vec<usize> = (0..n).collect();
            // The column of all other keys is set apart by one space.
            let fit = (self.width - gutter - 1) / cell;
            (largest_in_order(&all, fit - 1, |i| received[i]), true)
        } else {
            ((0..n).collect(), false)
        };
        if rest {
            self.write_note(&phrases::top_note(lang, shown.len(), n));
        }

        let weights = shown.iter().flat_map(|&q| shown.iter().map(move |&k| e.row(layer, head, q)[k]));
        let most = weights.fold(0.0, f32::max);
        let top = rounded_top(most);
        let panels = if rest { 1 } else { n.div_ceil(fit) };
        for (i, keys) in shown.chunks(shown.len().div_ceil(panels)).enumerate() {
            self.write_line("");
            if panels > 1 {
                let (first, last) = (keys[0] + 1, keys[keys.len() - 1] + 1);
                self.write_note(&phrases::panel_note(lang, i + 1, panels, first, last));
            }
            let words = [&self.words[..]; 2];
            let rest = rest.then(|| phrases::rest_heading(lang));
            let weight = |query: usize, key: usize| e.weight(layer, head, query, key);
            let corner = phrases::heatmap_corner(lang);
            let panel = HeatmapPanel {
                words,
                weight: &weight,
                rows: &shown,
                keys,
                rest_heading: rest,
                cell_width: cell,
                label_width: label,
                scale_top: top,
                corner,
                first_number: 1,
                headings: None,
                is_signed: false,
            };
            panel.lines(self.paint).iter().for_each(|line| self.write_line(line));
        }

        self.write_line("");
        let legend = legend(self.lang, self.color, [self.width, cell], [top, most]);
        legend.0.iter().for_each(|line| self.write_line(line));
        legend.1.iter().for_each(|note| self.write_note(note));
        self.write_note(&phrases::joining_note(lang, &e.joining));
        self.write_note(phrases::attention_caveat(lang, e.kind));
        self.write_sentences(layer, head);
        self.write_roles();
    }

    /// Writes the role of each head.
    fn write_roles(&mut self) {
        if self.explanation.words.len() < 3 {
            return;
        }
        self.write_heading(phrases::roles_heading(self.lang));
        let all = self.explanation.head_statistics();
        for found in all.iter().take(MAX_ROLES) {
            let name = phrases::head_name(self.lang, found.layer, found.head);
            let text = found.describe(self.lang, &truncate(&self.words[found.sink], 20));
            self.write_prose(&format!("{name}: {text}"), str::to_owned);
        }
        self.write_note(&chumoku::explain::role_rule(self.lang));
        if all.len() > MAX_ROLES {
            self.write_note(&phrases::more_heads(self.lang, all.len() - MAX_ROLES));
        }
    }

    /// Writes the most attended words of the special token and of the words with the largest effects.
    fn write_sentences(&mut self, layer: usize, head: usize) {
        let e = self.explanation;
        if e.words.len() < 2 {
            return;
        }
        self.write_line("");
        let heading = self.paint.strong(phrases::top_attention_heading(self.lang));
        self.write_line(&heading);
        let words: Vec<usize> = (0..e.words.len()).filter(|&i| !e.words[i].special).collect();
        let mut speakers = largest_in_order(&words, MAX_SENTENCES, |i| e.attribution.scores[i].abs());
        if e.words[0].special {
            speakers.insert(0, 0);
        }
        for query in speakers {
            let row = e.row(layer, head, query);
            let all: Vec<usize> = (0..row.len()).collect();
            let mut two = largest_in_order(&all, 2, |i| row[i]);
            two.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            let attended = [two[0], two[1]].map(|i| phrases::AttendedWord {
                text: truncate(&self.words[i], 20),
                is_itself: i == query,
                percent: row[i] * 100.0,
            });
            let sentence = phrases::top_attention_sentence(self.lang, &truncate(&self.words[query], 20), attended);
            self.write_prose(&sentence, str::to_owned);
        }
    }
}
