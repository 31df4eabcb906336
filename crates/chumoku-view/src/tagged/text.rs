//! Explained spans on a terminal.

use super::{inside, said_against, said_count, said_feature, said_halves, said_labels, said_method, said_span};
use crate::marked::{filled, most, pieces};
use crate::terminal::{Paint, TerminalOptions};
use crate::width::{cut, left, right, wrap};
use chumoku::explain::{ExplainedSpan, FeatureEffect, MarkedWord, TaggedText};
use chumoku::lang::{Lang, clean, clean_text};

/// Spans that are shown.
const SPANS: usize = 10;
/// Features of a span that are shown.
const FEATURES: usize = 8;
/// Lines of a text that are shown; of a longer one, what is around the span and the strongest words.
const LINES: usize = 4;
/// Words around these that are shown of a long text.
const AROUND: usize = 8;
/// Columns of a word.
const WORD: usize = 16;
/// Lines of labels that differ.
const LABELS: usize = 3;

/// Writes why each span is marked: the words that speak for it, with the strongest numbers behind them, and the features of the
/// random field. No line is wider than `options.width`.
#[must_use]
pub fn render_tagged(tagged: &TaggedText, options: &TerminalOptions) -> String {
    let lang = options.lang;
    let width = options.width.max(40);
    let paint = Paint::new(options.colour);
    let mut lines = vec![paint.strong(&cut(&said_count(tagged, lang), width))];
    if tagged.spans.is_empty() {
        lines
            .extend(wrap(&clean_text(&tagged.text), width - 2).into_iter().take(LINES).map(|line| format!("  {line}")));
        let hint = lang.pick(
            "--span START:END:LABEL asks why a span is not marked.",
            "--span 始点:終点:ラベル で、スパンを示さない理由を表示できます。",
        );
        lines.extend(wrap(hint, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
    } else {
        lines.extend(wrap(&said_method(tagged, lang), width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
    }
    for (i, span) in tagged.spans.iter().take(SPANS).enumerate() {
        lines.push(String::new());
        one(tagged, (span, i), width, paint, lang, &mut lines);
    }
    if let Some(more) = tagged.spans.len().checked_sub(SPANS).filter(|&more| more > 0) {
        lines.push(String::new());
        let more = match lang {
            Lang::En => format!("and {more} more spans (--json has all; --span START:END shows one)"),
            Lang::Ja => format!("ほか {more} 個のスパン（すべては --json に。--span 始点:終点 で 1 つを表示できます）"),
        };
        lines.extend(wrap(&more, width));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn one(
    tagged: &TaggedText,
    (span, i): (&ExplainedSpan, usize),
    width: usize,
    paint: Paint,
    lang: Lang,
    lines: &mut Vec<String>,
) {
    let found = &span.span;
    let behind = format!("  {:.1} %  ({}:{})", 100.0 * found.probability, found.span.start, found.span.end);
    let front = format!("{}. ", i + 1);
    let room = width.saturating_sub(front.len() + behind.len());
    let said = cut(&said_span(&found.text, &found.span.label, lang), room);
    lines.push(paint.strong(&format!("{front}{said}{behind}")));

    // The words, with numbers behind the strongest.
    let strongest = most(&span.words);
    let level = |word: &MarkedWord| if strongest > 0.0 { word.effect.unwrap_or(0.0).abs() / strongest } else { 0.0 };
    let has_number = |i: usize| level(&span.words[i]) >= 0.25;
    let pieces = pieces(&span.words, has_number, (width - 5, paint));
    let all: Vec<usize> = (0..pieces.len()).collect();
    let mut shown = filled(&pieces, &all, width - 5);
    if shown.len() > LINES {
        let own = inside(tagged, span);
        let anchors: Vec<usize> =
            all.iter().copied().filter(|&i| own[i] || level(&span.words[i]) >= 0.5).take(AROUND).collect();
        let near = |i: usize| anchors.iter().any(|&anchor| anchor.abs_diff(i) <= AROUND);
        let near: Vec<usize> = all.into_iter().filter(|&i| near(i)).collect();
        shown = filled(&pieces, &near, width - 5);
        shown.truncate(3 * LINES);
    }
    lines.extend(shown.into_iter().map(|line| format!("   {line}")));
    if let Some(halves) = said_halves(span, lang) {
        lines.extend(wrap(&halves, width - 3).iter().map(|line| format!("   {}", paint.quiet(line))));
    }
    let Some(against) = &span.against else { return };
    lines.extend(wrap(&said_against(span, against, lang), width - 3).iter().map(|line| format!("   {line}")));
    let labels = wrap(&said_labels(against, lang), width - 5);
    lines.extend(labels.iter().take(LABELS).map(|line| format!("     {}", paint.quiet(line))));
    for feature in against.features.iter().take(FEATURES) {
        lines.push(feature_line(feature, width, paint, lang));
    }
    if let Some(more) = against.features.len().checked_sub(FEATURES).filter(|&more| more > 0) {
        let rest: f64 = against.features[FEATURES..].iter().map(|feature| feature.effect).sum();
        let more = match lang {
            Lang::En => format!("{more} more features (--json has all)"),
            Lang::Ja => format!("ほか {more} 個の特徴（すべては --json に）"),
        };
        lines.push(cut(&format!("   {}  {more}", right(&format!("{rest:+.2}"), 7)), width));
    }
}

/// A feature: its effect, the word that has it, and what is seen.
fn feature_line(seen: &FeatureEffect, width: usize, paint: Paint, lang: Lang) -> String {
    let word = left(&cut(&clean(&seen.word), WORD), WORD);
    let effect = right(&format!("{:+.2}", seen.effect), 7);
    let said = cut(&said_feature(seen, lang), width.saturating_sub(3 + 7 + 2 + WORD + 1));
    format!("   {}  {word} {said}", paint.signed(seen.effect as f32, &effect))
}
