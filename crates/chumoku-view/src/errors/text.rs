//! Errors in a terminal.

use super::{
    MAX_CONFUSIONS, accuracy_sentence, confidence_text, confusion_counts, error_rate, group_heading, joined_pair,
    method_sentence, truth_and_answer, ungrouped_heading,
};
use crate::marked_words::{fill_lines, styled_words};
use crate::terminal::{Painter, TerminalOptions};
use crate::width::{align_right, display_width, truncate, wrap};
use chumoku::explain::{ErrorAnalysis, WrongAnswer};
use chumoku::lang::{Lang, show_controls};
use chumoku::tr_in;

/// Maximum number of lines of a text; longer texts show only what is around the strongest words.
const MAX_LINES: usize = 5;
/// Number of words shown on each side of a strong word of a long text.
const CONTEXT_WORDS: usize = 10;
/// Maximum number of confusions named for a group.
const MAX_PAIRS: usize = 3;

/// Writes the accuracy, the most frequent confusions, and the most confident errors by the words that caused them. No
/// line is wider than `options.width`.
///
/// A word that caused an error is followed by its effect. In a terminal with colors this holds for all strong words.
#[must_use]
pub fn render_errors(errors: &ErrorAnalysis, options: &TerminalOptions) -> String {
    let lang = options.lang;
    let width = options.width.max(40);
    let paint = Painter::new(options.color);
    let mut lines = vec![paint.strong(&truncate(&accuracy_sentence(errors, lang), width))];
    label_error_lines(errors, [width, MAX_CONFUSIONS], paint, lang, &mut lines);
    if !errors.confusions.is_empty() {
        lines.push(String::new());
        let heading = lang.pick("Most frequent confusions (true class → answer)", "多い取り違え（正解 → 予測）");
        lines.push(paint.strong(&truncate(heading, width)));
        for confusion in errors.confusions.iter().take(MAX_CONFUSIONS) {
            let of = match lang {
                Lang::En => format!("  ({:.0} % of {})", 100.0 * error_rate(confusion), confusion.of),
                Lang::Ja => format!("（{} 行の {:.0} %）", confusion.of, 100.0 * error_rate(confusion)),
            };
            let room = width.saturating_sub(9 + display_width(&of));
            let pair =
                truncate(&format!("{} → {}", show_controls(&confusion.truth), show_controls(&confusion.answer)), room);
            lines.push(format!("{}  {pair}{of}", align_right(&confusion.rows.to_string(), 7)));
        }
        if let Some(more) = errors.confusions.len().checked_sub(MAX_CONFUSIONS).filter(|&more| more > 0) {
            lines.push(match lang {
                Lang::En => format!("         and {more} more (--json has all)"),
                Lang::Ja => format!("         ほか {more} 組（すべては --json に）"),
            });
        }
    }
    if !errors.errors.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&method_sentence(errors, lang), width).iter().map(|line| paint.quiet(line)));
    }
    for group in &errors.groups {
        lines.push(String::new());
        lines.push(paint.strong(&truncate(&group_heading(group, lang), width)));
        let found = confusion_counts(errors, &group.errors, lang);
        let named =
            found.iter().take(MAX_PAIRS).map(|(sides, count)| format!("{} {count}", joined_pair(sides, errors.kind)));
        let mut named = named.collect::<Vec<String>>().join(lang.pick(", ", "、"));
        if found.len() > MAX_PAIRS {
            named += " …";
        }
        lines.extend(wrap(&named, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        group.errors.iter().for_each(|&i| error_lines(errors, [width, i], paint, lang, &mut lines));
    }
    if !errors.alone.is_empty() {
        lines.push(String::new());
        if !errors.groups.is_empty() {
            lines.push(paint.strong(&truncate(&ungrouped_heading(errors, lang), width)));
        }
        errors.alone.iter().for_each(|&i| error_lines(errors, [width, i], paint, lang, &mut lines));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Writes how often each label was missed or wrongly assigned, for at most `most` labels.
fn label_error_lines(
    errors: &ErrorAnalysis,
    [width, most]: [usize; 2],
    paint: Painter,
    lang: Lang,
    lines: &mut Vec<String>,
) {
    if errors.labels.is_empty() {
        return;
    }
    lines.push(String::new());
    let heading = lang.pick("  missed      extra  label", "付け忘れ   余分  ラベル");
    lines.push(paint.strong(&truncate(heading, width)));
    for of in errors.labels.iter().take(most) {
        let counts = if lang == Lang::En { [8, 9] } else { [8, 5] };
        let [missed, extra] = [of.missed, of.extra].map(|n| n.to_string());
        let of_rows = match lang {
            Lang::En if of.of == 1 => "  (1 row has it)".into(),
            Lang::En => format!("  ({} rows have it)", of.of),
            Lang::Ja => format!("（{} 行に付く）", of.of),
        };
        let front = format!("{}  {}  ", align_right(&missed, counts[0]), align_right(&extra, counts[1]));
        let room = width.saturating_sub(display_width(&front) + display_width(&of_rows));
        lines.push(format!("{front}{}{of_rows}", truncate(&show_controls(&of.label), room)));
    }
    if let Some(more) = errors.labels.len().checked_sub(most).filter(|&more| more > 0) {
        lines.push(match lang {
            Lang::En => format!("         and {more} more (--json has all)"),
            Lang::Ja => format!("         ほか {more} 個（すべては --json に）"),
        });
    }
}

/// Writes one error: its number, true value, answer and confidence, then its text.
fn error_lines(
    errors: &ErrorAnalysis,
    [width, place]: [usize; 2],
    paint: Painter,
    lang: Lang,
    lines: &mut Vec<String>,
) {
    let error = &errors.errors[place];
    let front = tr_in!("  {}. line {}: ", "  {}. {} 行目：", lang, place + 1, error.line);
    let (pair, sure) =
        (joined_pair(&truth_and_answer(&error.answer, false, lang), errors.kind), confidence_text(&error.answer, lang));
    let room = width.saturating_sub(display_width(&front) + 2 + display_width(&sure));
    if matches!(error.answer, WrongAnswer::Number { .. }) && display_width(&pair) > room {
        // Both values are short; the interval is long.
        lines.push(format!("{front}{}", truncate(&pair, width.saturating_sub(display_width(&front)))));
        lines.push(format!("     {}", truncate(&sure, width - 5)));
    } else {
        lines.push(format!("{front}{}  {sure}", truncate(&pair, room)));
    }
    let causes = error.causes();
    let pieces = styled_words(&error.words, |i| causes.contains(&i), (width - 5, paint));
    let all: Vec<usize> = (0..pieces.len()).collect();
    let mut shown = fill_lines(&pieces, &all, width - 5);
    if shown.len() > MAX_LINES {
        let near = |i: usize| causes.iter().take(3).any(|&cause| cause.abs_diff(i) <= CONTEXT_WORDS);
        let near: Vec<usize> = all.into_iter().filter(|&i| near(i)).collect();
        shown = fill_lines(&pieces, &near, width - 5);
        // Words may be almost as wide as the terminal.
        shown.truncate(3 * MAX_LINES);
    }
    lines.extend(shown.into_iter().map(|line| format!("     {line}")));
}
