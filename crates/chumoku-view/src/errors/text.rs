//! Errors on a terminal.

use super::{CONFUSIONS, joined, pairs, said_alone, said_group, said_method, said_rows, said_sure, share, sides};
use crate::marked::{filled, pieces};
use crate::terminal::{Paint, TerminalOptions};
use crate::width::{cut, display_width, right, wrap};
use chumoku::explain::{Errors, Told};
use chumoku::lang::{Lang, clean};

/// Lines of a text that are shown; of a longer one, what is around its strongest words.
const LINES: usize = 5;
/// Words around a strong one that are shown of a long text.
const AROUND: usize = 10;
/// Confusions of a group that are named.
const PAIRS: usize = 3;

/// Writes how many rows are wrong, the most frequent confusions, and the surest errors by the words that caused them. No line is
/// wider than `options.width`.
///
/// A word that caused an error has its effect behind it; on terminals with colours all strong words have one.
#[must_use]
pub fn render_errors(errors: &Errors, options: &TerminalOptions) -> String {
    let lang = options.lang;
    let width = options.width.max(40);
    let paint = Paint::new(options.colour);
    let mut lines = vec![paint.strong(&cut(&said_rows(errors, lang), width))];
    labels(errors, [width, CONFUSIONS], paint, lang, &mut lines);
    if !errors.confusions.is_empty() {
        lines.push(String::new());
        let heading = lang.pick("Most frequent confusions (true class → answer)", "多い取り違え（正解 → 予測）");
        lines.push(paint.strong(&cut(heading, width)));
        for confusion in errors.confusions.iter().take(CONFUSIONS) {
            let of = match lang {
                Lang::En => format!("  ({:.0} % of {})", 100.0 * share(confusion), confusion.of),
                Lang::Ja => format!("（{} 行の {:.0} %）", confusion.of, 100.0 * share(confusion)),
            };
            let room = width.saturating_sub(9 + display_width(&of));
            let pair = cut(&format!("{} → {}", clean(&confusion.truth), clean(&confusion.answer)), room);
            lines.push(format!("{}  {pair}{of}", right(&confusion.rows.to_string(), 7)));
        }
        if let Some(more) = errors.confusions.len().checked_sub(CONFUSIONS).filter(|&more| more > 0) {
            lines.push(match lang {
                Lang::En => format!("         and {more} more (--json has all)"),
                Lang::Ja => format!("         ほか {more} 組（すべては --json に）"),
            });
        }
    }
    if !errors.errors.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&said_method(errors, lang), width).iter().map(|line| paint.quiet(line)));
    }
    for group in &errors.groups {
        lines.push(String::new());
        lines.push(paint.strong(&cut(&said_group(group, lang), width)));
        let found = pairs(errors, &group.errors, lang);
        let named = found.iter().take(PAIRS).map(|(sides, count)| format!("{} {count}", joined(sides, errors.kind)));
        let mut named = named.collect::<Vec<String>>().join(lang.pick(", ", "、"));
        if found.len() > PAIRS {
            named += " …";
        }
        lines.extend(wrap(&named, width - 2).iter().map(|line| format!("  {}", paint.quiet(line))));
        group.errors.iter().for_each(|&i| one(errors, [width, i], paint, lang, &mut lines));
    }
    if !errors.alone.is_empty() {
        lines.push(String::new());
        if !errors.groups.is_empty() {
            lines.push(paint.strong(&cut(&said_alone(errors, lang), width)));
        }
        errors.alone.iter().for_each(|&i| one(errors, [width, i], paint, lang, &mut lines));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// How often each label was missed or wrongly given, for so many of them.
fn labels(errors: &Errors, [width, most]: [usize; 2], paint: Paint, lang: Lang, lines: &mut Vec<String>) {
    if errors.labels.is_empty() {
        return;
    }
    lines.push(String::new());
    let heading = lang.pick("  missed  not there  label", "付け忘れ   余分  ラベル");
    lines.push(paint.strong(&cut(heading, width)));
    for of in errors.labels.iter().take(most) {
        let counts = if lang == Lang::En { [8, 9] } else { [8, 5] };
        let [missed, extra] = [of.missed, of.extra].map(|n| n.to_string());
        let of_rows = match lang {
            Lang::En if of.of == 1 => "  (1 row has it)".into(),
            Lang::En => format!("  ({} rows have it)", of.of),
            Lang::Ja => format!("（{} 行に付く）", of.of),
        };
        let front = format!("{}  {}  ", right(&missed, counts[0]), right(&extra, counts[1]));
        let room = width.saturating_sub(display_width(&front) + display_width(&of_rows));
        lines.push(format!("{front}{}{of_rows}", cut(&clean(&of.label), room)));
    }
    if let Some(more) = errors.labels.len().checked_sub(most).filter(|&more| more > 0) {
        lines.push(match lang {
            Lang::En => format!("         and {more} more (--json has all)"),
            Lang::Ja => format!("         ほか {more} 個（すべては --json に）"),
        });
    }
}

/// One error: its place, what is true and what was told, and how surely, then its text.
fn one(errors: &Errors, [width, place]: [usize; 2], paint: Paint, lang: Lang, lines: &mut Vec<String>) {
    let error = &errors.errors[place];
    let front = match lang {
        Lang::En => format!("  {}. line {}: ", place + 1, error.line),
        Lang::Ja => format!("  {}. {} 行目：", place + 1, error.line),
    };
    let (pair, sure) = (joined(&sides(&error.told, false, lang), errors.kind), said_sure(&error.told, lang));
    let room = width.saturating_sub(display_width(&front) + 2 + display_width(&sure));
    if matches!(error.told, Told::Number { .. }) && display_width(&pair) > room {
        // Both sides are short, and the interval is not.
        lines.push(format!("{front}{}", cut(&pair, width.saturating_sub(display_width(&front)))));
        lines.push(format!("     {}", cut(&sure, width - 5)));
    } else {
        lines.push(format!("{front}{}  {sure}", cut(&pair, room)));
    }
    let causes = error.causes();
    let pieces = pieces(&error.words, |i| causes.contains(&i), (width - 5, paint));
    let all: Vec<usize> = (0..pieces.len()).collect();
    let mut shown = filled(&pieces, &all, width - 5);
    if shown.len() > LINES {
        let near = |i: usize| causes.iter().take(3).any(|&cause| cause.abs_diff(i) <= AROUND);
        let near: Vec<usize> = all.into_iter().filter(|&i| near(i)).collect();
        shown = filled(&pieces, &near, width - 5);
        // Words that are nearly as wide as the terminal.
        shown.truncate(3 * LINES);
    }
    lines.extend(shown.into_iter().map(|line| format!("     {line}")));
}
