//! Explained spans in a terminal.

use super::{
    changed_labels, comparison_sentence, feature_name, heading, member_sentence, method_sentence, span_name,
    words_in_span,
};
use crate::marked_words::{fill_lines, largest_effect, styled_words};
use crate::terminal::{Painter, TerminalOptions};
use crate::width::{align_left, align_right, signed_number, truncate, wrap};
use chumoku::explain::{ExplainedSpan, FeatureEffect, HighlightedWord, TaggedText};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::tr_in;

/// Maximum number of spans.
const MAX_SPANS: usize = 10;
/// Maximum number of features of a span.
const MAX_FEATURES: usize = 8;
/// Maximum number of lines of a text; longer texts show only what is around the span and the strongest words.
const MAX_LINES: usize = 4;
/// Number of words shown on each side of these in a long text.
const CONTEXT_WORDS: usize = 8;
/// Maximum width of a word in columns.
const MAX_WORD_WIDTH: usize = 16;
/// Maximum number of lines of changed labels.
const MAX_LABEL_LINES: usize = 3;

/// Writes why each span is marked: the text with the strongest effects in numbers, and the features of the random
/// field. No line is wider than `options.width`.
#[must_use]
pub fn render_tagged(tagged: &TaggedText, options: &TerminalOptions) -> String {
    let lang = options.lang;
    let width = options.width.max(40);
    let paint = Painter::new(options.color);
    let mut lines = vec![paint.strong(&truncate(&heading(tagged, lang), width))];
    if tagged.spans.is_empty() {
        lines.extend(
            wrap(&show_controls_in_text(&tagged.text), width - 2)
                .into_iter()
                .take(MAX_LINES)
                .map(|line| format!("  {line}")),
        );
        let hint = lang.pick(
            "--span START:END:LABEL asks why a span is not marked.",
            "--span 始点:終点:ラベル で、スパンを検出しない理由を表示できます。",
        );
        lines.extend(wrap(hint, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
    } else {
        lines.extend(
            wrap(&method_sentence(tagged, lang), width - 2).iter().map(|line| format!("  {}", paint.quiet(line))),
        );
    }
    for (i, span) in tagged.spans.iter().take(MAX_SPANS).enumerate() {
        lines.push(String::new());
        span_lines(tagged, (span, i), width, paint, lang, &mut lines);
    }
    if let Some(more) = tagged.spans.len().checked_sub(MAX_SPANS).filter(|&more| more > 0) {
        lines.push(String::new());
        let more = match lang {
            Lang::En => format!("and {more} more spans (--json has all; --span START:END shows one)"),
            Lang::Ja => format!("ほか {more} 個のスパン（すべては --json に。--span 始点:終点 で 1 つを表示できます）"),
        };
        lines.extend(wrap(&more, width));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn span_lines(
    tagged: &TaggedText,
    (span, i): (&ExplainedSpan, usize),
    width: usize,
    paint: Painter,
    lang: Lang,
    lines: &mut Vec<String>,
) {
    let found = &span.span;
    let behind = format!("  {:.1} %  ({}:{})", 100.0 * found.probability, found.span.start, found.span.end);
    let front = format!("{}. ", i + 1);
    let room = width.saturating_sub(front.len() + behind.len());
    let name = truncate(&span_name(&found.text, &found.span.label, lang), room);
    lines.push(paint.strong(&format!("{front}{name}{behind}")));

    // The words, with numbers after the strongest.
    let strongest = largest_effect(&span.words);
    let level =
        |word: &HighlightedWord| if strongest > 0.0 { word.effect.unwrap_or(0.0).abs() / strongest } else { 0.0 };
    let has_number = |i: usize| level(&span.words[i]) >= 0.25;
    let pieces = styled_words(&span.words, has_number, (width - 5, paint));
    let all: Vec<usize> = (0..pieces.len()).collect();
    let mut shown = fill_lines(&pieces, &all, width - 5);
    if shown.len() > MAX_LINES {
        let own = words_in_span(tagged, span);
        let anchors: Vec<usize> =
            all.iter().copied().filter(|&i| own[i] || level(&span.words[i]) >= 0.5).take(CONTEXT_WORDS).collect();
        let near = |i: usize| anchors.iter().any(|&anchor| anchor.abs_diff(i) <= CONTEXT_WORDS);
        let near: Vec<usize> = all.into_iter().filter(|&i| near(i)).collect();
        shown = fill_lines(&pieces, &near, width - 5);
        shown.truncate(3 * MAX_LINES);
    }
    lines.extend(shown.into_iter().map(|line| format!("   {line}")));
    if let Some(halves) = member_sentence(span, lang) {
        lines.extend(wrap(&halves, width - 3).iter().map(|line| format!("   {}", paint.quiet(line))));
    }
    let Some(against) = &span.against else { return };
    lines.extend(wrap(&comparison_sentence(span, against, lang), width - 3).iter().map(|line| format!("   {line}")));
    let labels = wrap(&changed_labels(against, lang), width - 5);
    lines.extend(labels.iter().take(MAX_LABEL_LINES).map(|line| format!("     {}", paint.quiet(line))));
    for feature in against.features.iter().take(MAX_FEATURES) {
        lines.push(feature_line(feature, width, paint, lang));
    }
    if let Some(more) = against.features.len().checked_sub(MAX_FEATURES).filter(|&more| more > 0) {
        let rest: f64 = against.features[MAX_FEATURES..].iter().map(|feature| feature.effect).sum();
        let more = tr_in!("{more} more features (--json has all)", "ほか {more} 個の特徴（すべては --json に）", lang);
        lines.push(truncate(&format!("   {}  {more}", align_right(&signed_number(rest, 2), 7)), width));
    }
}

/// Formats a feature: its effect, its word, and its name.
fn feature_line(feature: &FeatureEffect, width: usize, paint: Painter, lang: Lang) -> String {
    let word = align_left(&truncate(&show_controls(&feature.word), MAX_WORD_WIDTH), MAX_WORD_WIDTH);
    let effect = align_right(&signed_number(feature.effect, 2), 7);
    let name = truncate(&feature_name(feature, lang), width.saturating_sub(3 + 7 + 2 + MAX_WORD_WIDTH + 1));
    format!("   {}  {word} {name}", paint.signed(feature.effect as f32, &effect))
}
