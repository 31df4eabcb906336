//! Scores as tables for people.

use chumoku::train::Scores;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Classes shown one by one; of more, the worst.
const MOST_CLASSES: usize = 20;

/// Classes for which the confusion matrix is shown.
const MOST_CONFUSED: usize = 10;

pub(crate) fn percent(x: f64) -> String {
    format!("{:.1} %", 100.0 * x)
}

/// `text` cut or filled to `width` columns.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let mut next = out.clone();
        next.push(if c.is_control() { ' ' } else { c });
        if next.width() > width {
            break;
        }
        out = next;
    }
    let missing = width.saturating_sub(out.width());
    out + &" ".repeat(missing)
}

/// A row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &Scores)]) -> String {
    let mut out = format!("{:<30} {:>9} {:>9}   95 % interval of macro-F1\n", "", "accuracy", "macro-F1");
    for (name, scores) in rows {
        let [low, high] = scores.macro_f1_interval;
        let _ = writeln!(
            out,
            "{} {:>9} {:>9}   {} to {}",
            fit(name, 30),
            percent(scores.accuracy),
            percent(scores.macro_f1),
            percent(low),
            percent(high)
        );
    }
    out
}

/// Precision and recall of each class and, where they are few, the confusion matrix.
pub(crate) fn classes(scores: &Scores) -> String {
    let mut order: Vec<usize> = (0..scores.classes.len()).collect();
    let mut out = String::new();
    if order.len() > MOST_CLASSES {
        order.sort_by(|&a, &b| scores.classes[a].f1.total_cmp(&scores.classes[b].f1));
        let _ = writeln!(out, "The {MOST_CLASSES} worst of {} classes (all are in metrics.json):", order.len());
        order.truncate(MOST_CLASSES);
    }
    let widest = order.iter().map(|&class| scores.classes[class].label.width()).max().unwrap_or(0).clamp(5, 30);
    let _ = writeln!(out, "{} {:>9} {:>9} {:>9} {:>7}", fit("class", widest), "precision", "recall", "F1", "rows");
    for &class in &order {
        let c = &scores.classes[class];
        let _ = writeln!(
            out,
            "{} {:>9} {:>9} {:>9} {:>7}",
            fit(&c.label, widest),
            percent(c.precision),
            percent(c.recall),
            percent(c.f1),
            c.rows
        );
    }
    let n = scores.classes.len();
    if n <= MOST_CONFUSED {
        let cell = 7;
        let _ = write!(out, "\n{}", fit("true ↓  predicted →", widest.max(19)));
        for class in &scores.classes {
            let _ = write!(out, " {}", fit(&class.label, cell.max(class.label.width().min(12))));
        }
        out.push('\n');
        for (class, row) in scores.classes.iter().zip(&scores.confusion) {
            let _ = write!(out, "{}", fit(&class.label, widest.max(19)));
            for (other, count) in scores.classes.iter().zip(row) {
                let width = cell.max(other.label.width().min(12));
                let _ = write!(out, " {count:<width$}");
            }
            out.push('\n');
        }
    }
    // Nothing trails.
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Text in lines of at most `width` columns, broken at spaces and, in Japanese, between any two letters that may part.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    // What must stay together: a word, or one Japanese letter with the punctuation after it.
    let mut pieces: Vec<String> = Vec::new();
    for c in text.chars() {
        let is_wide = |c: char| c as u32 >= 0x2e80;
        let joins = match pieces.last().and_then(|piece| piece.chars().last()) {
            None => false,
            Some(' ') => false,
            Some(_) if c == ' ' || "、。」）".contains(c) => true,
            Some(before) => !is_wide(c) && !is_wide(before),
        };
        match pieces.last_mut().filter(|_| joins) {
            Some(piece) => piece.push(c),
            None => pieces.push(c.into()),
        }
    }
    for piece in pieces {
        if column > 0 && column + piece.trim_end().width() > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            column = 0;
        }
        column += piece.width();
        out += &piece;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up_and_fit() {
        let labels = ["negative", "とても良い", "x"].map(String::from);
        let scores = Scores::of(&[0, 1, 2, 1], &[0, 1, 1, 1], &labels, None, 1);
        let table = classes(&scores);
        assert!(table.lines().all(|line| line.width() <= 80), "{table}");
        assert!(table.contains("とても良い"));
        let table = comparison(&[("this model", &scores)]);
        assert!(table.lines().all(|line| line.width() <= 80), "{table}");
    }

    #[test]
    fn lines_end_at_words_and_between_japanese_letters() {
        let text = "a claim of several words ".repeat(9);
        let lines = wrap(text.trim(), 80);
        assert!(lines.lines().count() == 3 && lines.lines().all(|line| line.width() <= 80), "{lines}");
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        let text = "長さ 1024 から、クエリとキーの積が射影より高くつきます。".repeat(4);
        let lines = wrap(&text, 80);
        assert!(lines.lines().all(|line| line.width() <= 80 && !line.starts_with(['、', '。'])), "{lines}");
        assert_eq!(lines.replace(['\n', ' '], ""), text.replace(' ', ""));
    }
}
