//! Score tables for users.

use chumoku::data::format_thousands;
use chumoku::lang::{lang, sanitize};
use chumoku::train::{LabelScores, Scores, TreeScores};
use chumoku::{Lang, sorting, tr};
use std::fmt::Write;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// Maximum number of classes in a table; of more, the worst are shown.
const MAX_CLASSES: usize = 20;

/// Maximum number of classes of a confusion matrix.
const MAX_CONFUSION_CLASSES: usize = 10;

pub(crate) fn percent(x: f64) -> String {
    format!("{:.1} %", 100.0 * x)
}

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

/// Formats a row for each predictor.
pub(crate) fn predictor_table(rows: &[(&str, &Scores)]) -> String {
    let [accuracy, macro_f1, interval] = match lang() {
        Lang::En => ["accuracy", "macro-F1", "95 % interval of macro-F1"],
        Lang::Ja => ["正解率", "マクロ F1", "マクロ F1 の 95 % 区間"],
    };
    let mut out = format!("{:<30} {} {}   {interval}\n", "", align_right(accuracy, 9), align_right(macro_f1, 9));
    for (name, scores) in rows {
        let [low, high] = scores.macro_f1_interval;
        let [accuracy, macro_f1, low, high] = [scores.accuracy, scores.macro_f1, low, high].map(percent);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        let _ = writeln!(out, "{} {accuracy:>9} {macro_f1:>9}   {interval}", fit(name, 30));
    }
    out
}

/// Maximum number of tree levels in a table: the first ones and the last.
const MAX_LEVELS: usize = 4;

/// Formats accuracy and macro-F1 of each predictor at each level of a class tree, and where errors begin.
pub(crate) fn level_table(rows: &[(&str, &Scores)]) -> String {
    let trees: Vec<(&str, &TreeScores)> =
        rows.iter().filter_map(|(name, scores)| Some((*name, scores.hierarchy.as_ref()?))).collect();
    let Some((_, first)) = trees.first() else { return String::new() };
    let depth = first.levels.len();
    let shown: Vec<usize> = (0..depth).filter(|&at| at + 1 < MAX_LEVELS || at + 1 == depth).collect();
    let headings =
        shown.iter().map(|at| align_right(&tr!("level {}", "{} 段目", at + 1), 9)).collect::<Vec<_>>().join(" ");
    let [accuracy, macro_f1, whole] = match lang() {
        Lang::En => ["accuracy by level", "macro-F1 by level", "hierarchical F1"],
        Lang::Ja => ["段ごとの正解率", "段ごとのマクロ F1", "階層 F1"],
    };
    let mut out = format!("{} {headings}  {whole}\n", fit(accuracy, 30));
    for (name, tree) in &trees {
        let cells: Vec<String> = shown.iter().map(|&at| align_right(&percent(tree.levels[at].accuracy), 9)).collect();
        let _ =
            writeln!(out, "{} {}  {}", fit(name, 30), cells.join(" "), align_right(&percent(tree.f1), whole.width()));
    }
    let _ = writeln!(out, "{} {headings}", fit(macro_f1, 30));
    for (name, tree) in &trees {
        let cells: Vec<String> = shown.iter().map(|&at| align_right(&percent(tree.levels[at].macro_f1), 9)).collect();
        let _ = writeln!(out, "{} {}", fit(name, 30), cells.join(" "));
    }
    let wrong: usize = first.levels.iter().map(|level| level.first_wrong).sum();
    if wrong > 0 {
        let part = |level: &chumoku::train::TreeLevel| {
            let (rows, level) = (format_thousands(level.first_wrong), level.level);
            match level {
                1 => tr!("{rows} at level 1", "1 段目ですでに誤り {rows}"),
                _ => tr!("{rows} at level {level} below the correct parent", "親は正しく {level} 段目で誤り {rows}"),
            }
        };
        let parts: Vec<String> = first.levels.iter().filter(|level| level.first_wrong > 0).map(part).collect();
        let (parts, wrong) = (parts.join(lang().pick(", ", "、")), format_thousands(wrong));
        let said = tr!("Of {wrong} wrong rows, {parts}.", "誤り {wrong} 行のうち、{parts}。");
        let _ = writeln!(out, "\n{}", wrap(&said, 80));
    }
    out.push('\n');
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Formats micro-F1 of each predictor at each level of a label tree.
pub(crate) fn label_level_table(rows: &[(&str, &LabelScores)]) -> String {
    let depth = rows.first().map_or(0, |(_, scores)| scores.levels.len());
    if depth == 0 {
        return String::new();
    }
    let shown: Vec<usize> = (0..depth).filter(|&at| at + 1 < MAX_LEVELS || at + 1 == depth).collect();
    let line = |name: &str, cells: Vec<String>| format!("{} {}\n", fit(name, 28), cells.join(" "));
    let heading = |&at: &usize| align_right(&tr!("level {}", "{} 段目", at + 1), 9);
    let title = lang().pick("micro-F1 by level", "段ごとのミクロ F1");
    let mut out = String::from("\n") + &line(title, shown.iter().map(heading).collect());
    for (name, scores) in rows {
        let cell = |&at: &usize| align_right(&percent(scores.levels[at].micro_f1), 9);
        out += &line(name, shown.iter().map(cell).collect());
    }
    out
}

/// Formats precision and recall of each class and, for few classes, the confusion matrix. `all` names the place of the
/// full table.
pub(crate) fn class_report(scores: &Scores, all: &str) -> String {
    let mut order: Vec<usize> = (0..scores.classes.len()).filter(|&class| !scores.is_absent(class)).collect();
    let mut out = String::new();
    let n = order.len();
    if n > MAX_CLASSES {
        order.retain(|&class| scores.classes[class].f1 < 1.0);
        sorting::sort_by(&mut order, |&a, &b| scores.classes[a].f1.total_cmp(&scores.classes[b].f1));
        let faulty = order.len();
        order.truncate(MAX_CLASSES);
        out += &match faulty {
            0 => tr!("All {n} classes are predicted without errors.\n", "{n} クラスすべてを誤りなく予測しました。\n"),
            1..=MAX_CLASSES => tr!(
                "Of {n} classes, those with errors, worst first (all: {all}):\n",
                "{n} クラスのうち誤りのあるもの、悪い順（すべて: {all}）:\n"
            ),
            _ => tr!(
                "The {MAX_CLASSES} worst of {n} classes (all: {all}):\n",
                "{n} クラスのうち下位 {MAX_CLASSES} クラス（すべて: {all}）:\n"
            ),
        };
    }
    if !order.is_empty() {
        out += &class_table(scores, &order, lang().pick("class", "クラス"));
    }
    if scores.classes.len() <= MAX_CONFUSION_CLASSES {
        out += &confusion_matrix(scores);
    }
    if let Some(sureness) = scores.confidence {
        let [error, roc, recall] =
            [sureness.calibration_error, sureness.roc_area, sureness.precision_recall_area].map(percent);
        out += &tr!(
            "\nCalibration error {error}; area under ROC {roc}, precision–recall {recall}.\n",
            "\n較正誤差 {error}。曲線下面積: ROC {roc}、適合率–再現率 {recall}。\n"
        );
    }
    // Removes trailing spaces.
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Formats precision and recall of at most `most` labels, with their thresholds if there are any. `all` names the place
/// of the full table.
pub(crate) fn label_table(scores: &LabelScores, thresholds: &[f32], all: &str, most: usize) -> String {
    let n = scores.of_labels.len();
    let mut order = sorting::argsort_by(n, &|a, b| scores.of_labels[b].rows.cmp(&scores.of_labels[a].rows));
    let most = most.min(MAX_CLASSES);
    order.truncate(most);
    let mut out = String::new();
    if n > most {
        out += &tr!(
            "The {most} most frequent of {n} labels (all: {all}):\n",
            "{n} 個のラベルのうち多いもの {most} 個（すべて: {all}）:\n"
        );
    }
    let widest = order.iter().map(|&label| scores.of_labels[label].label.width()).max().unwrap_or(0).clamp(8, 32);
    let heads = match lang() {
        Lang::En => ["threshold", "precision", "recall", "F1", "rows"],
        Lang::Ja => ["しきい値", "適合率", "再現率", "F1", "行数"],
    };
    let heads: Vec<String> = heads.iter().map(|head| align_right(head, 9)).collect();
    let _ = writeln!(out, "{} {}", fit(lang().pick("label", "ラベル"), widest), heads.join(" "));
    for label in order {
        let of = &scores.of_labels[label];
        let threshold = thresholds.get(label).map_or(String::new(), |threshold| format!("{threshold:.2}"));
        let [precision, recall, f1] = [of.precision, of.recall, of.f1].map(percent);
        let rows = of.rows;
        let _ = writeln!(out, "{} {threshold:>9} {precision:>9} {recall:>9} {f1:>9} {rows:>9}", fit(&of.label, widest));
    }
    let [exact, one] = [scores.exact, scores.precision_at_1.unwrap_or(0.0)].map(percent);
    let three = scores.precision_at_3.map_or(String::new(), |x| {
        let x = percent(x);
        tr!(", precision of the top three {x}", "、上位 3 個のうち {x}")
    });
    let summary = tr!(
        "The most probable label is correct in {one} of the rows{three}; all labels are correct in {exact}.",
        "最も確率の高いラベルが正しい行は {one}{three}。すべてのラベルが一致した行は {exact}。"
    );
    format!("{out}\n{}\n", wrap(&summary, 80))
}

fn class_table(scores: &Scores, order: &[usize], heading: &str) -> String {
    let widest = order.iter().map(|&class| scores.classes[class].label.width()).max().unwrap_or(0);
    let widest = widest.max(heading.width()).clamp(8, 36);
    let [precision, recall, rows] = match lang() {
        Lang::En => ["precision", "recall", "rows"],
        Lang::Ja => ["適合率", "再現率", "行数"],
    };
    let mut out = format!(
        "{} {} {} {:>9} {}\n",
        fit(heading, widest),
        align_right(precision, 9),
        align_right(recall, 9),
        "F1",
        align_right(rows, 7)
    );
    for &class in order {
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
    out
}

/// Formats rows by true and predicted class. If the names do not fit next to each other, columns are numbered.
fn confusion_matrix(scores: &Scores) -> String {
    let names: Vec<&str> = scores.classes.iter().map(|class| class.label.as_str()).collect();
    let digits = scores.confusion.iter().flatten().map(|count| count.to_string().len()).max().unwrap_or(1).max(3);
    let corner = tr!("true ↓  predicted →", "正解 ↓  予測 →");
    let widest = names.iter().map(|name| name.width()).max().unwrap_or(0).max(corner.width());
    let whole = widest + names.iter().map(|name| 1 + name.width().max(digits)).sum::<usize>();
    let (rows, columns): (Vec<String>, Vec<String>) = match whole <= WIDTH {
        true => names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).unzip(),
        false => names.iter().zip(1..).map(|(name, n)| (format!("{n:>2} {name}"), n.to_string())).unzip(),
    };
    let cells: usize = columns.iter().map(|name| 1 + name.width().max(digits)).sum();
    let widest = rows.iter().map(|name| name.width()).max().unwrap_or(0).max(corner.width());
    let first = widest.min(WIDTH.saturating_sub(cells)).max(corner.width());
    let mut out = format!("\n{}", fit(&corner, first));
    for name in &columns {
        let _ = write!(out, " {}", fit(name, digits.max(name.width())));
    }
    out.push('\n');
    for (name, row) in rows.iter().zip(&scores.confusion) {
        out += &fit(name, first);
        for (column, count) in columns.iter().zip(row) {
            let width = digits.max(column.width());
            let _ = write!(out, " {count:<width$}");
        }
        out.push('\n');
    }
    out
}

/// Characters that stay with the preceding or the following one.
const NO_LINE_BEGINS_WITH: &str = "、。，．：；？！」』）〉》】”…ー〜々ぁぃぅぇぉっゃゅょァィゥェォッャュョ";
const NO_LINE_ENDS_WITH: &str = "「『（〈《【“";

/// Wraps text into lines of at most `width` columns. Breaks at spaces and, in Japanese, between characters that may be
/// separated; words in katakana stay whole.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    // Units that stay together: a word, or one Japanese character with the punctuation after it.
    let mut pieces: Vec<String> = Vec::new();
    for c in text.chars() {
        let is_wide = |c: char| c as u32 >= 0x2e80;
        let is_katakana = |c: char| ('ァ'..='ヺ').contains(&c) || c == 'ー';
        let mut behind = pieces.last().map_or("", String::as_str).chars().rev();
        let joins = match behind.next() {
            None => false,
            // A number stays with its unit.
            Some(' ') => (is_wide(c) || c == '%') && behind.next().is_some_and(|c| c.is_ascii_digit()),
            Some(_) if c == ' ' || NO_LINE_BEGINS_WITH.contains(c) => true,
            Some(before) if NO_LINE_ENDS_WITH.contains(before) => true,
            Some(before) if is_katakana(before) && is_katakana(c) => true,
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

/// Formats a table of classes with at most `lines` lines, including heading and a blank line. If not all fit, it has
/// the worst ones.
pub(crate) fn short_class_table(scores: &Scores, lines: usize) -> String {
    const FRAME: usize = 2;
    let mut order: Vec<usize> = (0..scores.classes.len()).filter(|&class| !scores.is_absent(class)).collect();
    let (n, room) = (order.len(), lines.saturating_sub(FRAME).min(MAX_CLASSES));
    if room == 0 || n == 0 {
        return String::new();
    }
    let heading = match n > room {
        true => {
            sorting::sort_by(&mut order, |&a, &b| scores.classes[a].f1.total_cmp(&scores.classes[b].f1));
            order.truncate(room);
            tr!("worst of {n} classes", "{n} クラスの下位")
        }
        false => tr!("class", "クラス"),
    };
    format!("\n{}", class_table(scores, &order, &heading))
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
        let shown = |x: f64| if is_share { format!("{:.1} %", 100.0 * x) } else { format!("{x:.3}") };
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
        false => wrap(text, 80),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::train::PredictedRows;

    fn scored(truth: &[u32], predicted: &[u32], labels: &[&str]) -> Scores {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        Scores::of(&PredictedRows { truth, predicted, texts: &[] }, &labels, None, 1)
    }

    #[test]
    fn tables_fit_eighty_columns() {
        let scores = scored(&[0, 1, 2, 1], &[0, 1, 1, 1], &["negative", "とても良い", "x"]);
        let table = class_report(&scores, "metrics.json");
        assert!(table.lines().all(|line| line.width() <= 80), "{table}");
        assert!(table.contains("とても良い"));
        let table = predictor_table(&[("this model", &scores)]);
        assert!(table.lines().all(|line| line.width() <= 80), "{table}");
    }

    #[test]
    fn headings_of_the_confusion_matrix_are_complete() {
        let scores = scored(&[0, 1, 1], &[0, 1, 0], &["recommended without reservation", "not recommended"]);
        let table = class_report(&scores, "metrics.json");
        let heading = table.lines().find(|line| line.starts_with("true")).unwrap();
        assert!(heading.ends_with("recommended without reservation not recommended"), "{table}");
        // Names that do not fit are numbered, and the rows explain the numbers.
        let names: Vec<String> = (0..10).map(|i| format!("a class with a rather long name, number {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let table = class_report(&scored(&[0, 9], &[9, 9], &names), "metrics.json");
        assert!(table.lines().all(|line| line.width() <= 80), "{table}");
        let heading = table.lines().find(|line| line.starts_with("true")).unwrap();
        assert_eq!(
            heading.split_whitespace().skip(4).collect::<Vec<_>>(),
            ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        );
        assert!(table.lines().any(|line| line.starts_with("10 a class with") && line.ends_with('1')), "{table}");
    }

    #[test]
    fn the_worst_classes_have_errors() {
        let names: Vec<String> = (0..30).map(|i| format!("class {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let truth: Vec<u32> = (0..29).collect();
        let mut predicted = truth.clone();
        assert!(class_report(&scored(&truth, &predicted, &names), "x").starts_with("All 29 classes are predicted"));
        predicted[3] = 4;
        let table = class_report(&scored(&truth, &predicted, &names), "metrics.json");
        assert!(table.starts_with("Of 29 classes, those with errors") && table.contains("metrics.json"), "{table}");
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(!table.contains("100.0 %  100.0 %  100.0 %"), "{table}");
        // A class that neither occurs nor is predicted is not listed.
        assert!(!table.contains("class 29"), "{table}");
    }

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
        let lines = wrap(&text, 80);
        assert!(lines.lines().all(|line| line.width() <= 80 && !line.starts_with(['、', '。'])), "{lines}");
        assert_eq!(lines.replace(['\n', ' '], ""), text.replace(' ', ""));
    }
}
