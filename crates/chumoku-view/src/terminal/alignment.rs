//! An alignment in a terminal.

use super::TerminalOptions;
use super::cells::{filled_bar, largest_in_order, max_width, percent, rounded_top};
use super::color::Painter;
use super::heatmap::{HeatmapPanel, legend};
use crate::phrases;
use crate::width::{align_left, align_right, display_width, truncate, wrap};
use chumoku::explain::{AlignedHead, Alignment, Word};
use chumoku::lang::{show_controls, show_controls_in_text};

const MIN_WIDTH: usize = 40;
/// Maximum width of a row label.
const MAX_LABEL: usize = 14;
/// Maximum number of heads in the list.
const MAX_HEADS: usize = 8;

/// Writes source and translation, the heads by their agreement, and the attention of each translated word in one head.
/// The head is `place` (layer and head from 0), or the best one.
///
/// No line is wider than `options.width`, and without color the text has no escape sequence.
///
/// # Panics
/// If there is no such layer or head.
#[must_use]
pub fn render_alignment(alignment: &Alignment, place: Option<[usize; 2]>, options: &TerminalOptions) -> String {
    let (a, lang, width) = (alignment, options.lang, options.width.max(MIN_WIDTH));
    let paint = Painter::new(options.color);
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    let note = |line: &mut dyn FnMut(&str), text: &str| {
        wrap(text, width - 2).iter().for_each(|part| line(&format!("  {}", paint.quiet(part))));
    };

    let title = phrases::translation_heading(lang, a.is_given);
    let room = width - display_width(title) - 2;
    line(&paint.strong(&format!("{title}: {}", truncate(&show_controls_in_text(&a.target), room))));
    for part in wrap(&lang.quoted(&show_controls_in_text(&a.source)), width - 2).iter().take(3) {
        line(&format!("  {part}"));
    }
    note(&mut line, &show_controls_in_text(&a.model));

    let chance = 1.0 / a.source_words.iter().filter(|word| !word.special).count().max(1) as f32;
    line("");
    line(&paint.strong(phrases::ranking_heading(lang)));
    note(&mut line, &phrases::ranking_note(lang, chance * 100.0));
    let names: Vec<String> = a.ranking.iter().map(|h| phrases::head_name(lang, h.layer, h.head)).collect();
    let name_width = max_width(&names);
    let [agreement, mass] = phrases::ranking_columns(lang);
    let columns = [agreement, mass].map(|heading| display_width(heading).max(7) + 2);
    let bar = (width - 2 - name_width - 1 - columns.iter().sum::<usize>()).min(40);
    let indent = " ".repeat(2 + name_width + 1 + bar);
    line(&paint.quiet(&format!("{indent}{}{}", align_right(agreement, columns[0]), align_right(mass, columns[1]))));
    for (head, name) in a.ranking.iter().zip(&names).take(MAX_HEADS) {
        let filled = filled_bar(head.agreement, bar);
        let filled = format!("{}{}", paint.positive(&filled), " ".repeat(bar - display_width(&filled)));
        // Values that shuffled rows reach too are marked.
        let mark = if head.aligns { "" } else { "~" };
        let numbers = [format!("{mark}{} %", percent(head.agreement)), format!("{} %", percent(head.mass))];
        let [first, second] = [0, 1].map(|i| align_right(&numbers[i], columns[i]));
        line(&format!("  {} {filled}{first}{second}", align_left(name, name_width)));
    }
    if a.ranking.len() > MAX_HEADS {
        note(&mut line, &phrases::more_heads(lang, a.ranking.len() - MAX_HEADS));
    }

    let best = a.ranking.first().map_or([0, 0], |AlignedHead { layer, head, .. }| [*layer, *head]);
    let [layer, head] = place.unwrap_or(best);
    line("");
    line(&paint.strong(&truncate(&phrases::alignment_heading(lang, [layer, head], [a.layers, a.heads]), width)));
    note(&mut line, phrases::alignment_note(lang));
    let texts = |words: &[Word]| words.iter().map(|word| show_controls(&word.text)).collect::<Vec<String>>();
    let words = [texts(&a.target_words), texts(&a.source_words)];
    let cell = if words[1].len() > 99 { 4 } else { 3 };
    let corner = phrases::alignment_corner(lang);
    let label = max_width(&words[0]).min(MAX_LABEL).max(display_width(corner).saturating_sub(3));
    let gutter = 2 + words[0].len().to_string().len() + 1 + label + 2;
    let (rows, keys): (Vec<usize>, Vec<usize>) = ((0..words[0].len()).collect(), (0..words[1].len()).collect());
    let most = rows.iter().flat_map(|&row| a.row(layer, head, row)).fold(0.0f32, |most, &x| most.max(x));
    let top = rounded_top(most);
    let panels = keys.len().div_ceil((width - gutter) / cell);
    for (i, part) in keys.chunks(keys.len().div_ceil(panels)).enumerate() {
        line("");
        if panels > 1 {
            note(&mut line, &phrases::panel_note(lang, i + 1, panels, part[0] + 1, part[part.len() - 1] + 1));
        }
        let weight = |row: usize, key: usize| Some(a.row(layer, head, row)[key]);
        let words = [&words[0][..], &words[1]];
        let panel = HeatmapPanel {
            words,
            weight: &weight,
            rows: &rows,
            keys: part,
            rest_heading: None,
            cell_width: cell,
            label_width: label,
            scale_top: top,
            corner,
            first_number: 1,
            headings: None,
            is_signed: false,
        };
        panel.lines(paint).iter().for_each(|text| line(text));
    }
    line("");
    let (scale, more) = legend(lang, options.color, [width, cell], [top, most]);
    scale.iter().for_each(|text| line(text));
    more.iter().for_each(|text| note(&mut line, text));
    note(&mut line, &phrases::joining_note(lang, &a.joining));

    // The words that depend most on a source word.
    line("");
    line(&paint.strong(phrases::needed_words_heading(lang)));
    let effect = |row: usize| a.needed_source_word(row).and_then(|key| a.effects[row][key]).unwrap_or(0.0);
    for row in largest_in_order(&rows, 4, effect) {
        let Some(key) = a.needed_source_word(row) else { continue };
        let p = [0.0, effect(row)].map(|less| (a.log_probabilities[row] - less).exp().min(1.0) * 100.0);
        let sentence =
            phrases::needed_word_sentence(lang, &truncate(&words[0][row], 20), &truncate(&words[1][key], 20), p);
        wrap(&sentence, width - 2).iter().for_each(|part| line(&format!("  {part}")));
    }
    note(&mut line, phrases::alignment_caveat(lang));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::explain::Word;
    use chumoku::lang::Lang;

    fn example() -> Alignment {
        let words = |texts: &[&str]| {
            let plain = texts.iter().map(|text| Word { text: (*text).into(), special: false });
            plain.chain([Word { text: "[END]".into(), special: true }]).collect::<Vec<_>>()
        };
        let mut alignment = Alignment {
            model: "model".into(),
            source: "a b".into(),
            target: "B A".into(),
            is_given: false,
            is_cut: false,
            lens: None,
            source_words: words(&["a", "b"]),
            target_words: words(&["B", "A"]),
            layers: 1,
            heads: 2,
            log_probabilities: vec![-0.1, -0.2, -0.3],
            effects: vec![
                vec![Some(0.5), Some(2.0), None],
                vec![Some(3.0), Some(-1.0), None],
                vec![Some(0.1), Some(0.1), None],
            ],
            ranking: Vec::new(),
            without: Vec::new(),
            joining: "sum over keys, mean over queries".into(),
            attention: vec![
                0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.2, 0.2, 0.6, // the wrong way round
                0.1, 0.7, 0.2, 0.9, 0.05, 0.05, 0.2, 0.2, 0.6,
            ],
        };
        alignment.ranking = alignment.rank_heads();
        alignment
    }

    #[test]
    fn best_head_is_shown_and_lines_fit() {
        for (lang, layer) in [(Lang::En, "layer 1, head 2"), (Lang::Ja, "第 1 層、ヘッド 2")] {
            for width in [40, 80] {
                let options = TerminalOptions { width, lang, ..TerminalOptions::default() };
                let text = render_alignment(&example(), None, &options);
                assert!(text.lines().all(|line| display_width(line) <= width), "{text}");
                // With two words a shuffle agrees equally often, so the best head is marked as chance.
                let first = text.lines().find(|line| line.contains(" ~100 %")).unwrap();
                assert!(first.contains(layer), "{text}");
                assert!(first.find(" ~100 %") < first.find(" 80 %"), "agreement, then weight: {text}");
                // Rows are the words of the translation: "A" attends to "a".
                let row = text.lines().find(|line| line.trim_start().starts_with("2 A")).unwrap();
                assert!(row.contains("90"), "{text}");
            }
        }
        let options = TerminalOptions::default();
        let other = render_alignment(&example(), Some([0, 0]), &options);
        let row = other.lines().find(|line| line.trim_start().starts_with("2 A")).unwrap();
        assert!(row.contains("80") && !row.contains("90"), "{other}");
    }

    #[test]
    fn long_sources_are_split_into_panels() {
        let mut alignment = example();
        let word = alignment.source_words[0].clone();
        alignment.source_words = vec![word; 60];
        alignment.attention = vec![1.0 / 60.0; 2 * 3 * 60];
        alignment.effects = vec![vec![Some(0.0); 60]; 3];
        let text = render_alignment(&alignment, None, &TerminalOptions::default());
        assert!(text.contains("Part 4 of 4") && text.lines().all(|line| display_width(line) <= 80), "{text}");
    }
}
