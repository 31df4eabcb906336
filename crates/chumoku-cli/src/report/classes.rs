//! Reports of models that predict one class per text.

use super::training::{last_epoch_note, named_scores, optional_sections, scored_on_heading};
use super::{
    MAX_CLASSES, MAX_LEVELS, WIDTH, abstain_table, align_right, fit, leaked_rows_name, paragraph, percent, wrap,
};
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::train::{Scores, TreeScores, choice_sentence, ngrams_at_chance_note};
use chumoku::{Lang, sorting, tr};
use serde_json::Value;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first. `noun` names
/// the model's network.
pub(crate) fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, Scores)>> {
    let parts = &metrics["parts"];
    let optimize = &metrics["optimize"];
    let optimized = match optimize["applied"] == true {
        true => tr!("  without --optimize macro-f1", "  --optimize macro-f1 なし"),
        false => tr!("  with --optimize macro-f1", "  --optimize macro-f1 あり"),
    };
    named_scores(
        metrics,
        &[
            (optimized, &optimize["scores"]),
            (leaked_rows_name(metrics).unwrap_or_default(), &metrics["unseen"]),
            (tr!("  its {noun} alone", "  {noun}単独"), &parts["attention"]),
            (tr!("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), &parts["ngrams"]),
            (tr!("baseline: transformer, from scratch", "比較対象: ゼロから学習したもの"), &parts["from_scratch"]),
            (tr!("baseline: most frequent class", "比較対象: 最も多いクラス"), &parts["majority"]),
        ],
        serde_json::from_value,
    )
}

/// Formats the full report: warnings, predictors side by side, and each class of the first.
pub(crate) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &Scores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let whole = rows[0].1;
    let warning = whole.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n\n");
    let on = scored_on_heading(metrics, whole.rows);
    let [levels, classes] = [level_table(&rows), class_report(whole, "metrics.json")];
    let sure = abstain_table(&metrics["abstain"]);
    let requested = optional_sections(metrics);
    let mut out = format!("{warning}{on}\n\n{}{levels}\n{classes}{sure}{requested}", predictor_table(&rows));
    if let Some(choice) = choice_sentence(metrics) {
        out += &format!("\n{}\n", paragraph(&tr!("Chosen: {choice}.", "選択: {choice}。")));
    }
    out += &weights_sentence(metrics, noun);
    Ok(out)
}

/// Returns the line about n-grams at chance, if they are.
pub(crate) fn chance_line(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let parts = ["attention", "ngrams", "majority"].map(|part| metrics["parts"][part].clone());
    if parts.iter().any(Value::is_null) {
        return Ok(String::new());
    }
    let [network, ngrams, majority] = parts.map(serde_json::from_value::<Scores>);
    let note = ngrams_at_chance_note([&network?, &ngrams?, &majority?], noun);
    Ok(note.map_or(String::new(), |note| paragraph(&note) + "\n"))
}

/// Describes which epoch the network's weights are from, and why. Empty for a model without epochs.
fn weights_sentence(metrics: &Value, noun: &str) -> String {
    let [best, epochs, chosen] =
        [&metrics["best_epoch"], &metrics["epochs"], &metrics["choice"]["epochs"]].map(Value::as_u64);
    let Some(epochs) = epochs.filter(|epochs| *epochs > 0) else { return String::new() };
    let text = match (best, chosen) {
        (Some(best), _) => {
            let text = tr!(
                "The {noun}'s weights are those after epoch {best} of {epochs}, the best.",
                "{noun}の重みは、全 {epochs} エポック中で最良のエポック {best} のものです。"
            );
            match last_epoch_note(metrics) {
                Some(note) => tr!("{text} Note: {note}.", "{text}注記: {note}。"),
                None => text,
            }
        }
        (None, Some(chosen)) => tr!(
            "The {noun}'s weights are those after epoch {epochs}, the last: cross-validation chose {chosen} epochs.",
            "{noun}の重みは、最後のエポック {epochs} のものです。エポック数 {chosen} は交差検証で選びました。"
        ),
        (None, None) => tr!(
            "The {noun}'s weights are those after epoch {epochs}, the last: there were no held-out rows to choose one.",
            "{noun}の重みは、最後のエポック {epochs} のものです。エポックを選ぶための行はありません。"
        ),
    };
    format!("\n{}\n", paragraph(&text))
}

/// Maximum number of classes of a confusion matrix.
const MAX_CONFUSION_CLASSES: usize = 10;

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
    let mut out = format!("\n{} {headings}  {whole}\n", fit(accuracy, 30));
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
        let message = tr!("Of {wrong} wrong rows, {parts}.", "誤り {wrong} 行のうち、{parts}。");
        let _ = writeln!(out, "\n{}", wrap(&message, WIDTH));
    }
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
    if let Some(confidence) = scores.confidence {
        let [error, roc, recall] =
            [confidence.calibration_error, confidence.roc_area, confidence.precision_recall_area].map(percent);
        out += &tr!(
            "\nCalibration error {error}; area under ROC {roc}, precision–recall {recall}.\n",
            "\n較正誤差 {error}。曲線下面積: ROC {roc}、適合率–再現率 {recall}。\n"
        );
    }
    // Removes trailing spaces.
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
}
