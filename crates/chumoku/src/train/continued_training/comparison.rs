//! Comparison of an old and a new model on the same rows: figures, and their presentation.

use crate::lang::lang;
use crate::lang::wording::percent;
use crate::scoring::format_value;
use crate::tr;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The old validation rows: held out when the old model was trained.
pub(crate) const OLD_VALID: &str = "old_valid";
/// The old test rows.
pub(crate) const OLD_TEST: &str = "old_test";
/// The new validation rows.
pub(crate) const NEW_VALID: &str = "new_valid";
/// The new test rows.
pub(crate) const NEW_TEST: &str = "new_test";

/// The change of a model on some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub(crate) struct ModelChange {
    /// The name of the rows: `old_valid`, `old_test`, `new_valid` or `new_test`.
    pub(crate) rows_of: &'static str,
    /// The number of rows.
    pub rows: usize,
    /// The figures of both models on them.
    #[serde(flatten)]
    pub(crate) compared: ModelComparison,
}

/// Figures of a model, by name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// The figures of an old and a new model on the same rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelComparison {
    /// The figures of the old model.
    pub before: Figures,
    /// The figures of the new model.
    pub after: Figures,
    /// The increase of accuracy or F1, or the decrease of the error.
    pub(crate) gain: f64,
    /// The 95 % interval of the gain, from paired resamples.
    pub(crate) interval: [f64; 2],
    /// The loss that is tolerated before the model counts as forgetting.
    #[serde(skip)]
    pub(crate) slack: f64,
    /// The number of rows of known classes or labels for which the new model predicts an added one.
    pub(crate) taken_for_new: usize,
}

/// Returns the entry `further` of `metrics.json` and the section of the model card. `figure` is the compared figure.
pub(crate) fn comparison_report(changes: &[ModelChange], figure: &str, replays: bool) -> (Value, String) {
    let forgets = changes.iter().any(ModelChange::is_forgetting);
    let metrics = json!({ "replays": replays, "figure": figure, "changes": changes, "forgets": forgets });
    (metrics, section(changes, figure, forgets))
}

impl ModelChange {
    /// Returns `true` if these are old rows, and the loss is larger than chance explains.
    fn is_forgetting(&self) -> bool {
        matches!(self.rows_of, OLD_VALID | OLD_TEST) && self.compared.interval[1] < -self.compared.slack
    }
}

/// Returns the name of compared rows in the user's language.
pub fn rows_name(rows_of: &str) -> String {
    match rows_of {
        OLD_VALID => tr!("old validation, network", "元の検証（ネットワーク）"),
        OLD_TEST => tr!("old test rows", "元のテストデータ"),
        NEW_VALID => tr!("new validation, network", "新しい検証（ネットワーク）"),
        _ => tr!("new test rows", "新しいテストデータ"),
    }
}

/// Returns the name of a compared figure in the user's language.
pub(crate) fn figure_name(figure: &str) -> &'static str {
    match figure {
        "micro_f1" => lang().pick("micro-F1", "ミクロ F1"),
        "mean_absolute_error" => lang().pick("mean absolute error", "平均絶対誤差"),
        "span_f1" => lang().pick("span F1", "スパンの F1"),
        _ => lang().pick("accuracy", "正解率"),
    }
}

/// Formats a figure: shares in percent, errors as plain numbers.
pub fn format_figure(name: &str, value: f64) -> String {
    match name {
        "mean_absolute_error" => format_value(value),
        _ => percent(value),
    }
}

/// Formats a gain with its sign: shares in points, errors as plain numbers.
pub fn format_gain(name: &str, gain: f64) -> String {
    match name {
        // Keeps tiny gains short.
        "mean_absolute_error" if gain != 0.0 && gain.abs() < 1e-3 => format!("{gain:+.0e}"),
        "mean_absolute_error" => format!("{}{}", if gain < 0.0 { '-' } else { '+' }, format_value(gain.abs())),
        _ => format!("{:+.1}", 100.0 * gain),
    }
}

/// The section of the model card.
fn section(changes: &[ModelChange], figure: &str, forgets: bool) -> String {
    let name = figure_name(figure);
    let mut card = tr!(
        "\n\n## Before and after\n\nThe model was trained further from another. The table compares the {name} of both \
         on the same rows. On validation rows it is that of the network alone, since the final n-gram model is also \
         fitted on them",
        "\n\n## 追加学習の前後\n\n別のモデルから追加学習しました。同じ行での前後の{name}です。n-gram は最後に検証データからも学習するため、\
         検証データではネットワーク単独の値を示します"
    );
    card += match figure {
        "mean_absolute_error" => {
            lang().pick(". A gain is a decrease of the error:", "。増減は、誤差が減った分を正とします。")
        }
        _ => lang().pick(":", "。"),
    };
    card += lang().pick(
        "\n\n| | rows | before | after | gain, 95 % interval |\n|---|---|---|---|---|\n",
        "\n\n| | 行数 | 前 | 後 | 増減と 95 % 区間 |\n|---|---|---|---|---|\n",
    );
    for change in changes {
        let ModelComparison { before, after, gain, interval, .. } = &change.compared;
        let [before, after] =
            [before, after].map(|worth| format_figure(figure, worth.get(figure).copied().unwrap_or(f64::NAN)));
        let [low, high] = interval.map(|x| format_gain(figure, x));
        let (name, gain) = (rows_name(change.rows_of), format_gain(figure, *gain));
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        let _ = writeln!(card, "| {name} | {} | {before} | {after} | {gain} ({interval}) |", change.rows);
    }
    if forgets {
        card += &tr!(
            "\n**The model is worse than before on old rows**, by more than chance explains.\n",
            "\n**元のデータでの成績が、偶然では説明できないほど悪くなりました。**\n"
        );
    }
    card
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_short_and_have_a_sign() {
        let gains = [0.0, 0.25, -0.25, -12.5, 0.0004].map(|gain| format_gain("mean_absolute_error", gain));
        assert_eq!(gains, ["+0.000", "+0.250", "-0.250", "-12.50", "+4e-4"]);
        assert_eq!([0.021, -0.1].map(|gain| format_gain("micro_f1", gain)), ["+2.1", "-10.0"]);
        assert_eq!([format_figure("span_f1", 0.875), format_figure("mean_absolute_error", 0.875)], ["87.5 %", "0.875"]);
    }

    /// Certain losses on old rows count as forgetting; losses on new rows do not.
    #[test]
    fn forgetting_is_reported() {
        let change = |rows_of, interval: [f64; 2]| ModelChange {
            rows_of,
            rows: 9,
            compared: ModelComparison {
                before: [("micro_f1", 0.9)].into_iter().collect(),
                after: [("micro_f1", 0.8)].into_iter().collect(),
                gain: -0.1,
                interval,
                slack: if rows_of == OLD_VALID { 0.05 } else { 0.0 },
                taken_for_new: 0,
            },
        };
        for (rows_of, interval, forgets) in [
            (OLD_TEST, [-0.2, -0.01], true),
            (OLD_TEST, [-0.2, 0.0], false),
            (OLD_VALID, [-0.2, -0.01], false),
            (NEW_TEST, [-0.2, -0.01], false),
        ] {
            let (metrics, card) = comparison_report(&[change(rows_of, interval)], "micro_f1", true);
            assert_eq!((metrics["forgets"].as_bool(), card.contains("worse than before")), (Some(forgets), forgets));
            assert_eq!(metrics["changes"][0]["before"]["micro_f1"], 0.9);
            assert!(card.contains("| 90.0 % | 80.0 % | -10.0 (-20.0 to"), "{card}");
        }
    }
}
