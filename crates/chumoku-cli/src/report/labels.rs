//! Reports of models that predict several labels per text.

use super::training::{ensemble_scores, optional_sections, scored_on_heading};
use super::{MAX_CLASSES, MAX_LEVELS, WIDTH, abstain_table, align_right, fit, paragraph, percent, wrap};
use chumoku::lang::lang;
use chumoku::train::LabelScores;
use chumoku::{Lang, sorting, tr};
use serde_json::Value;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first.
pub(crate) fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, LabelScores)>> {
    let baseline = (tr!("baseline: commonest label", "比較対象: 最も多いラベル"), &metrics["parts"]["most_frequent"]);
    ensemble_scores(metrics, noun, baseline, serde_json::from_value)
}

/// Returns the probability threshold of each label.
pub(crate) fn thresholds(metrics: &Value) -> Vec<f32> {
    let thresholds = metrics["blend"]["thresholds"].as_array().into_iter().flatten();
    thresholds.map(|threshold| threshold.as_f64().unwrap_or_default() as f32).collect()
}

/// Formats the full report.
pub(crate) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &LabelScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n\n");
    let labels = label_table(scores, &thresholds(metrics), "metrics.json", usize::MAX);
    let on = scored_on_heading(metrics, scores.rows);
    let sure = abstain_table(&metrics["abstain"]);
    let table = comparison(&rows) + &label_level_table(&rows);
    Ok(format!("{warning}{on}\n\n{table}\n{labels}{sure}{}", optional_sections(metrics)))
}

/// Formats a row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &LabelScores)]) -> String {
    let names = rows[0].1.averages().map(|(name, _)| align_right(name, 9));
    let interval = lang().pick("95 % of micro-F1", "ミクロの 95 % 区間");
    let mut out = format!("{} {}   {interval}\n", fit("", 28), names.join(" "));
    for (name, scores) in rows {
        let values = scores.averages().map(|(_, x)| align_right(&percent(x), 9));
        let [low, high] = scores.micro_f1_interval.map(percent);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        out += &format!("{} {}   {interval}\n", fit(name, 28), values.join(" "));
    }
    out
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
    format!("{out}\n{}\n", wrap(&summary, WIDTH))
}
