//! Score tables for users, and the layout of text.
//!
//! # Files
//!
//! - `classes`: one class per text
//! - `labels`: several labels per text
//! - `numbers`: a number per text
//! - `spans`: taggers
//! - `table`: terminal tables
//! - `texts`: translators and language models
//! - `training`: sections of all models

pub(crate) mod classes;
pub(crate) mod labels;
pub(crate) mod numbers;
pub(crate) mod spans;
pub(crate) mod table;
pub(crate) mod texts;
pub(crate) mod training;

use chumoku::data::format_thousands;
pub(crate) use chumoku::lang::wording::percent;
use chumoku::lang::{lang, sanitize};
use chumoku::{Lang, tr};
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// Maximum number of classes in a table. If there are more, the worst are shown.
const MAX_CLASSES: usize = 20;

/// Pads `text` to `width` columns, or truncates it with an ellipsis.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let text = sanitize(text);
    let mut out = text.clone();
    if text.width() > width {
        out.clear();
        for c in text.chars() {
            let mut next = out.clone();
            next.push(c);
            if next.width() + 1 > width {
                break;
            }
            out = next;
        }
        out.push('…');
    }
    let missing = width.saturating_sub(out.width());
    out + &" ".repeat(missing)
}

/// Aligns `text` to the right in `width` columns.
pub(crate) fn align_right(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width())) + text
}

/// Maximum number of tree levels in a table: the first ones and the last.
const MAX_LEVELS: usize = 4;

/// Characters that stay with the preceding or the following one.
const NO_LINE_BEGINS_WITH: &str = "、。，．：；？！」』）〉》】”…ー〜々ぁぃぅぇぉっゃゅょァィゥェォッャュョ";
const NO_LINE_ENDS_WITH: &str = "「『（〈《【“";
const PHRASE_ENDS: &str = "、。，．：；？！」』）〉》】”…";

/// Wraps text into lines of at most `width` columns. Breaks at spaces and, in Japanese, between characters that may be
/// separated; words in katakana stay whole.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    fill_lines(&break_units(text, false), width)
}

/// Like [`wrap`], but breaks Japanese only where a phrase ends: after punctuation, and after hiragana that other
/// characters follow. A phrase that is wider than a line is broken as by [`wrap`].
pub(crate) fn wrap_phrases(text: &str, width: usize) -> String {
    let phrases = break_units(text, true).into_iter();
    let units =
        phrases.flat_map(|phrase| if phrase.width() > width { break_units(&phrase, false) } else { vec![phrase] });
    fill_lines(&units.collect::<Vec<_>>(), width)
}

/// Splits text into units that stay together: a phrase, or a word, or one Japanese character with the punctuation
/// after it.
fn break_units(text: &str, phrases: bool) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for c in text.chars() {
        let is_wide = |c: char| c as u32 >= 0x2e80;
        let is_hiragana = |c: char| ('ぁ'..='ん').contains(&c);
        let is_katakana = |c: char| ('ァ'..='ヺ').contains(&c) || c == 'ー';
        let mut behind = units.last().map_or("", String::as_str).chars().rev();
        let joins = match behind.next() {
            None => false,
            // A number stays with its unit.
            Some(' ') => (is_wide(c) || c == '%') && behind.next().is_some_and(|c| c.is_ascii_digit()),
            Some(_) if c == ' ' || NO_LINE_BEGINS_WITH.contains(c) => true,
            Some(before) if NO_LINE_ENDS_WITH.contains(before) => true,
            Some(before) if is_katakana(before) && is_katakana(c) => true,
            // A count stays whole: 二つ目, 2 つ目.
            Some(before) if c == 'つ' && "一二三四五六七八九".contains(before) || c == '目' && before == 'つ' => {
                true
            }
            Some(before) if phrases => {
                let ends_phrase = PHRASE_ENDS.contains(before) || is_hiragana(before) && !is_hiragana(c);
                !ends_phrase && !NO_LINE_ENDS_WITH.contains(c)
            }
            Some(before) => !is_wide(c) && !is_wide(before),
        };
        match units.last_mut().filter(|_| joins) {
            Some(unit) => unit.push(c),
            None => units.push(c.into()),
        }
    }
    units
}

/// Fills lines with units.
fn fill_lines(units: &[String], width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for unit in units {
        if column > 0 && column + unit.trim_end().width() > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            column = 0;
        }
        column += unit.width();
        out += unit;
    }
    out
}

/// Maximum lines of a report: those of a terminal.
const SCREEN_LINES: usize = 24;
/// Columns of a line.
const WIDTH: usize = 80;
/// Lines before a report that name the model folder.
const HEADER_LINES: usize = 2;

/// Returns the number of lines left on a screen after these parts of a report.
pub(crate) fn free_lines(parts: &[&str]) -> usize {
    let taken = |part: &&str| part.lines().map(|line| line.width().div_ceil(WIDTH).max(1)).sum::<usize>();
    (SCREEN_LINES - HEADER_LINES).saturating_sub(parts.iter().map(taken).sum())
}

/// Returns the name of the table row without leaked test rows; `None` if there were none.
pub(crate) fn leaked_rows_name(metrics: &serde_json::Value) -> Option<String> {
    let rows = |scores: &serde_json::Value| scores["rows"].as_u64();
    let leaked = rows(&metrics["scores"])? - rows(&metrics["unseen"])?;
    Some(tr!("  without {leaked} leaked rows", "  重複する {leaked} 行を除く"))
}

/// Returns the promised, answered and correct shares of an entry of `abstain` in the metrics.
fn abstain_shares(promise: &serde_json::Value) -> Option<[f64; 3]> {
    let number = |key: &str| promise[key].as_f64();
    Some([number("level")?, number("covers")?, number("right")?])
}

/// Returns why an abstention promise is broken on the scored rows, if it is.
fn broken_promise_reason(promise: &serde_json::Value) -> Option<&'static str> {
    match promise["broken"].as_str()? {
        "chance" => Some(
            lang().pick("less than promised, but within chance", "保証した値を下回りますが、偶然で説明できる範囲です"),
        ),
        _ => Some(lang().pick(
            "less than promised: these rows differ from the validation rows",
            "保証した値を下回ります。この行は検証データと性質が違います",
        )),
    }
}

/// Formats a line about abstention at the default level, or the nearest one that can be promised. A second line follows
/// if the scored rows break the promise. Empty if nothing can be promised.
pub(crate) fn abstain_summary(promises: &serde_json::Value) -> String {
    const USUAL: f64 = 0.95;
    let all: Vec<&serde_json::Value> = promises.as_array().into_iter().flatten().collect();
    let distance = |promise: &&&serde_json::Value| (promise["level"].as_f64().unwrap_or_default() - USUAL).abs();
    let usual = all.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    // Broken promises that chance does not explain come first.
    let found = all.iter().find(|promise| promise["broken"] == "unlike").or(usual);
    let Some((promise, [level, covers, right])) = found.and_then(|promise| Some((promise, abstain_shares(promise)?)))
    else {
        return String::new();
    };
    let [covers, right] = [covers, right].map(percent);
    let line = tr!(
        "Abstaining when unsure (--abstain {level}): {covers} answered, {right} of them right",
        "確信のないときは保留する場合（--abstain {level}）: 回答 {covers}、正解 {right}"
    );
    let why = broken_promise_reason(promise).map_or(String::new(), |why| format!("\n  {why}"));
    format!("{line}{why}\n")
}

/// Formats the abstention table from `abstain` of the metrics. Empty if nothing can be promised.
pub(crate) fn abstain_table(promises: &serde_json::Value) -> String {
    let mut out = String::new();
    for promise in promises.as_array().into_iter().flatten() {
        let Some([level, covers, right]) = abstain_shares(promise) else { continue };
        let [covers, right] = [covers, right].map(percent);
        if out.is_empty() {
            out += &tr!(
                "\nAbstaining when unsure (predict --abstain):\n",
                "\n確信のないときは保留する場合（predict --abstain）:\n"
            );
        }
        // In a tree, the share of answers that are whole paths.
        let whole = promise["ends"].as_array().and_then(|ends| ends.last()?.as_f64()).map(percent);
        let whole = whole.map_or(String::new(), |whole| tr!("; whole paths {whole:>7}", "、パス全体 {whole:>7}"));
        out += &tr!(
            "  --abstain {level:<5} answers {covers:>7}, {right:>7} of them right{whole}\n",
            "  --abstain {level:<5} 回答 {covers:>7}、正解 {right:>7}{whole}\n"
        );
        out.extend(broken_promise_reason(promise).map(|why| format!("    {why}\n")));
    }
    out
}

/// Formats the results of cross-validation. Empty if it was not requested.
pub(crate) fn cross_validation(found: &serde_json::Value) -> String {
    let (Some(count), Some(rows)) = (found["folds"].as_u64(), found["rows"].as_u64()) else { return String::new() };
    let rows = format_thousands(rows as usize);
    let mut out = tr!(
        "\n{count}-fold cross-validation of the {rows} training and validation rows:\n",
        "\n学習用と検証用の {rows} 行の {count} 分割交差検証:\n"
    );
    for (key, figures) in found["figures"].as_object().into_iter().flatten() {
        let (name, is_share) = match key.as_str() {
            "accuracy" => (lang().pick("accuracy", "正解率"), true),
            "macro_f1" => (lang().pick("macro-F1", "マクロ F1"), true),
            "micro_f1" => (lang().pick("micro-F1", "ミクロ F1"), true),
            "mean_absolute_error" => (lang().pick("mean absolute error", "平均絶対誤差"), false),
            _ => (lang().pick("Spearman", "スピアマン"), false),
        };
        let shown = |x: f64| if is_share { percent(x) } else { format!("{x:.3}") };
        let number = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
        let each = figures["each"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64);
        let (low, high) = each.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let [mean, deviation, low, high] =
            [number("mean"), number("standard_deviation"), low, high].map(|x| align_right(&shown(x), 7));
        out += &tr!(
            "  {} {mean} ± {deviation} (standard deviation), {low} to {high}\n",
            "  {} {mean} ± {deviation}（標準偏差）、{low}〜{high}\n",
            fit(name, 19)
        );
    }
    out
}

/// Wraps a paragraph of the report to 80 columns. English in a file stays on one line, so that programs can search it.
pub(crate) fn paragraph(text: &str) -> String {
    match lang() == Lang::En && !std::io::stdout().is_terminal() {
        true => text.to_owned(),
        false => wrap(text, WIDTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_and_between_japanese_characters() {
        let text = "a claim of several words ".repeat(9);
        let lines = wrap(text.trim(), 80);
        assert!(lines.lines().count() == 3 && lines.lines().all(|line| line.width() <= 80), "{lines}");
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        let text = "長さ 1024 から、クエリとキーの積が「射影」より 12 倍高くつきます。".repeat(4);
        for width in 40..80 {
            let lines = wrap(&text, width);
            assert!(lines.lines().all(|line| line.width() <= width && !line.starts_with('」')), "{lines}");
            assert!(!lines.contains("「\n") && !lines.contains("12\n") && !lines.contains("エ\nリ"), "{lines}");
        }
        let lines = wrap(&text, WIDTH);
        assert!(lines.lines().all(|line| line.width() <= 80 && !line.starts_with(['、', '。'])), "{lines}");
        assert_eq!(lines.replace(['\n', ' '], ""), text.replace(' ', ""));
    }

    #[test]
    fn phrases_break_after_particles_and_punctuation() {
        let text = "数を指定すると、その数の層と（埋め込みも）すべて固定します。既定は 12 層です。";
        assert_eq!(
            wrap_phrases(text, 30),
            "数を指定すると、その数の層と\n（埋め込みも）すべて\n固定します。既定は 12 層です。"
        );
        for width in 12..60 {
            let lines = wrap_phrases(text, width);
            assert!(lines.lines().all(|line| line.width() <= width), "{lines}");
            assert_eq!(lines.replace(['\n', ' '], ""), text.replace(' ', ""));
        }
        // A count stays whole.
        for text in ["テキスト対の二つ目", "テキストの組の 2 つ目"] {
            for width in 6..text.width() {
                let lines = [wrap(text, width), wrap_phrases(text, width)].concat();
                assert!(!lines.contains("二\n") && !lines.contains("つ\n") && !lines.contains("2\n"), "{lines}");
            }
        }
        // A phrase that is wider than a line is broken anywhere.
        assert_eq!(wrap_phrases("事前学習済みの", 8), "事前学習\n済みの");
    }
}
