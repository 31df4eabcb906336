//! Reports of models that predict a number per text.

use super::training::{ensemble_scores, optional_sections, scored_on_heading};
use super::{abstain_table, align_right, fit, paragraph, percent};
use crate::terminal::terminal_options;
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku::train::{NumberScores, format_value};
use chumoku_view::{Content, Figure, Scatter};
use serde_json::Value;

/// Returns the predictors whose scores `metrics.json` holds with their names in tables, the model first.
pub(crate) fn predictor_scores(metrics: &Value, noun: &str) -> anyhow::Result<Vec<(String, NumberScores)>> {
    let baseline = (tr!("baseline: always the median", "比較対象: 常に中央値"), &metrics["parts"]["median"]);
    ensemble_scores(metrics, noun, baseline, serde_json::from_value)
}

/// Formats the full report, except the points, which the folder does not hold.
pub(crate) fn report(metrics: &Value, noun: &str) -> anyhow::Result<String> {
    let found = predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &NumberScores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let scores = rows[0].1;
    let warning = scores.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n\n");
    let (on, table) = (scored_on_heading(metrics, scores.rows), comparison(&rows));
    let (levels, intervals, sure) =
        (level_table(scores), interval_coverage(scores), abstain_table(&metrics["abstain"]));
    Ok(format!("{warning}{on}\n\n{table}\n{levels}{intervals}{sure}{}", optional_sections(metrics)))
}

/// Formats a row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &NumberScores)]) -> String {
    let names = rows[0].1.named_figures().map(|(name, _)| align_right(name, 8));
    let interval = lang().pick("95 % of error", "95 % 区間");
    let mut out = format!("{} {}   {interval}\n", fit("", 27), names.join(" "));
    for (name, scores) in rows {
        let values = scores.named_figures().map(|(_, x)| align_right(&format_value(x), 8));
        let [low, high] = scores.mean_absolute_error_interval.map(format_value);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        out += &format!("{} {}   {interval}\n", fit(name, 27), values.join(" "));
    }
    out
}

/// Formats levels, points and interval coverage.
pub(crate) fn score_details(scores: &NumberScores, points: &[[f64; 2]]) -> String {
    let text = scatter(points).to_text(&terminal_options(lang()));
    // Its title and number of rows are printed above.
    let points = text.lines().skip(3).map(|line| format!("{line}\n")).collect::<String>();
    level_table(scores) + &points + &interval_coverage(scores)
}

/// Formats a row for each level, if numbers have levels.
pub(crate) fn level_table(scores: &NumberScores) -> String {
    let mut out = String::new();
    if !scores.levels.is_empty() {
        let heads = match lang() {
            chumoku::Lang::En => ["rows", "predicted", "error", "nearest"],
            chumoku::Lang::Ja => ["行数", "予測の平均", "絶対誤差", "丸めて一致"],
        };
        let heads = heads.map(|head| align_right(head, 10));
        out += &format!("{} {}\n", align_right(lang().pick("true", "真の値"), 8), heads.join(" "));
        for of in &scores.levels {
            let [mean, error] =
                [of.mean_prediction, of.mean_absolute_error].map(|x| x.map_or_else(|| "–".to_owned(), format_value));
            let exact = of.exact.map_or_else(|| "–".to_owned(), percent);
            let cells = [format_thousands(of.rows), mean, error, exact].map(|cell| align_right(&cell, 10));
            out += &format!("{} {}\n", align_right(&of.level.to_string(), 8), cells.join(" "));
        }
        if scores.elsewhere > 0 {
            let (rows, [least, most]) = (format_thousands(scores.elsewhere), scores.level_range());
            out += &tr!(
                "{rows} rows have other numbers; the model predicts from {least} to {most}.\n",
                "ほかの数値の行が {rows} 行あります。モデルの予測は {least} から {most} までです。\n"
            );
        }
        out.push('\n');
    }
    out
}

/// Formats the coverage of the intervals.
pub(crate) fn interval_coverage(scores: &NumberScores) -> String {
    let mut out = String::new();
    if let (Some(coverage), Some(width)) = (scores.coverage, scores.mean_width) {
        let (coverage, width) = (100.0 * coverage, format_value(width));
        let text = tr!(
            "The 90 % intervals contain {coverage:.1} % of the true numbers; mean width {width}.",
            "90 % 区間に真の値が入った割合は {coverage:.1} %、区間の幅の平均は {width} です。"
        );
        out += &format!("{}\n", paragraph(&text));
    }
    out
}

/// Draws the points as a figure.
pub(crate) fn scatter(points: &[[f64; 2]]) -> Figure {
    let rows = format_thousands(points.len());
    Figure {
        title: tr!("Predicted against true numbers", "真の値と予測"),
        subtitle: tr!("{rows} rows; the line marks equality", "{rows} 行。線の上では両者が等しい"),
        notes: Vec::new(),
        content: Content::Scatter(Scatter { points: points.to_vec() }),
        lang: lang(),
    }
}
