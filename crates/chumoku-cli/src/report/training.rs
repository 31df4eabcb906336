//! Sections that the reports of all models share.

use super::{WIDTH, align_right, cross_validation, fit, leaked_rows_name, paragraph, wrap};
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::train::{TrialRow, best_trials, format_figure, format_gain, gain_sentences, rows_name};
use chumoku::{Lang, tr};
use serde_json::Value;
use std::fmt::Write;

/// Returns the scores that `metrics.json` holds with the names of their predictors in tables: the model first, then
/// those of `others` that exist.
pub(crate) fn named_scores<S>(
    metrics: &Value,
    others: &[(String, &Value)],
    parse: fn(Value) -> serde_json::Result<S>,
) -> anyhow::Result<Vec<(String, S)>> {
    let model = (this_model().to_owned(), &metrics["scores"]);
    let found = std::iter::once(&model).chain(others).filter(|(_, scores)| !scores.is_null());
    found.map(|(name, scores)| Ok((name.clone(), parse((*scores).clone())?))).collect()
}

/// Returns the scores as [`named_scores`] does: of the model, its network and its n-grams, and of a `baseline`.
pub(crate) fn ensemble_scores<S>(
    metrics: &Value,
    noun: &str,
    baseline: (String, &Value),
    parse: fn(Value) -> serde_json::Result<S>,
) -> anyhow::Result<Vec<(String, S)>> {
    let parts = &metrics["parts"];
    let others = [
        (leaked_rows_name(metrics).unwrap_or_default(), &metrics["unseen"]),
        (tr!("  its {noun} alone", "  {noun}単独"), &parts["attention"]),
        (tr!("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), &parts["ngrams"]),
        baseline,
    ];
    named_scores(metrics, &others, parse)
}

/// Returns the name of the model in tables.
pub(crate) fn this_model() -> &'static str {
    lang().pick("this model", "このモデル")
}

/// Returns the heading of the scores: the rows they were measured on.
pub(crate) fn scored_on_heading(metrics: &serde_json::Value, rows: usize) -> String {
    let (count, noun) = (format_thousands(rows), lang().pick(if rows == 1 { "row" } else { "rows" }, "行"));
    match metrics["scored_on"].as_str() {
        Some("test") if metrics["leaked_rows"] == rows => tr!(
            "On {count} test {noun}, also in the training data (the scores are no estimate for\nnew texts):",
            "テストデータ {count} {noun}での結果（すべて学習データにもあるため、新しいテキストに\nついては何も分かりません）:"
        ),
        Some("test") if let Some(leaked) = metrics["leaked_rows"].as_u64() => tr!(
            "On {count} test {noun}, {leaked} of them also in the training data:",
            "テストデータ {count} {noun}（うち {leaked} 行は学習データにもあります）での結果:"
        ),
        Some("test") => {
            tr!("On {count} test {noun}, not used in training:", "学習に使っていない {count} {noun}での結果:")
        }
        Some("valid") => tr!(
            "On {count} validation {noun} (no test rows: the scores are optimistic):",
            "検証データ {count} {noun}での結果（テスト用の行がないため、楽観的な値です）:"
        ),
        _ => tr!(
            "On {count} training {noun} (no other rows: the scores are no estimate for new texts):",
            "学習データ {count} {noun}での結果（ほかに行がないため、新しいテキストについては\n何も分かりません）:"
        ),
    }
}

/// Returns how to train longer, if the best weights are those of the last epoch, on validation rows that the run had.
pub(crate) fn last_epoch_note(metrics: &Value) -> Option<String> {
    let [best, epochs] = ["best_epoch", "epochs"].map(|key| metrics[key].as_u64());
    let has_valid = ["rows", "documents"].iter().any(|key| metrics[key]["valid"].as_u64().is_some_and(|rows| rows > 0));
    let epochs = epochs.filter(|_| best == epochs && has_valid && metrics["interrupted"] != true)?;
    let more = 2 * epochs;
    Some(tr!(
        "the last epoch, {epochs}, was the best: the model was still improving. To train longer, start again with \
         --epochs {more}",
        "最後のエポック {epochs} が最良で、まだ良くなる途中でした。さらに学習するには --epochs {more} を付けて最初からやり直してください"
    ))
}

/// Formats the sections that the user requested: cross-validation, the search for settings, and the changes by
/// continued training.
pub(crate) fn optional_sections(metrics: &Value) -> String {
    cross_validation(&metrics["folds"]) + &format_trials(&metrics["tuning"]) + &format_changes(&metrics["further"])
}

/// Formats the scores on old and new rows before and after. Empty without continued training.
pub(crate) fn format_changes(further: &Value) -> String {
    let Some(changes) = further["changes"].as_array() else { return String::new() };
    let headings = match lang() {
        chumoku::Lang::En => ["rows", "before", "after", "gain, 95 % interval"],
        chumoku::Lang::Ja => ["行数", "前", "後", "増減と 95 % 区間"],
    };
    let [before, after] = [headings[1], headings[2]].map(|heading| align_right(heading, 8));
    let rows = align_right(headings[0], 6);
    let figure = further["figure"].as_str().unwrap_or_default();
    let title = changes_title(figure);
    let mut taken_for_new = 0;
    let mut out = format!("\n{} {rows} {before} {after}  {}\n", fit(&title, 28), headings[3]);
    for change in changes {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let [before, after] =
            ["before", "after"].map(|when| align_right(&format_figure(figure, number(&change[when][figure])), 8));
        let [low, high] = [0, 1].map(|end| format_gain(figure, number(&change["interval"][end])));
        let gain = align_right(&format_gain(figure, number(&change["gain"])), 5);
        let rows = align_right(&format_thousands(change["rows"].as_u64().unwrap_or_default() as usize), 6);
        let name = fit(&format!("  {}", rows_name(change["rows_of"].as_str().unwrap_or_default())), 28);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        if change["rows_of"].as_str().is_some_and(|name| name.starts_with("old")) {
            taken_for_new = taken_for_new.max(change["taken_for_new"].as_u64().unwrap_or_default());
        }
        let _ = writeln!(out, "{name} {rows} {before} {after}  {gain} ({interval})");
    }
    if figure == "mean_absolute_error" && !changes.is_empty() {
        out += &tr!("  (a gain is a decrease of the error)\n", "  （増減は、誤差が減った分を正とします）\n");
    }
    if further["forgets"] == true {
        let mut text = tr!(
            "warning: on old rows the model is worse than before, by more than chance explains.",
            "警告: 元のデータでの成績が、偶然では説明できないほど悪くなりました。"
        );
        if taken_for_new > 0 {
            let rows = format_thousands(taken_for_new as usize);
            text += &match figure {
                "micro_f1" => {
                    tr!(" {rows} of them wrongly get a new label.", "{rows} 行には、誤って新しいラベルが付きます。")
                }
                _ => tr!(" It predicts new classes for {rows} of them.", "{rows} 行は新しいクラスと判定されています。"),
            };
        }
        if further["replays"] != true {
            text +=
                &tr!(" Leave --old none out to replay the old rows.", "--old none を外すと、元のデータも学習します。");
        }
        out += &format!("\n{}\n", paragraph(&text));
    }
    out
}

/// Returns the title of the table.
fn changes_title(figure: &str) -> String {
    match figure {
        "micro_f1" => tr!("Micro-F1 before and after", "追加学習前後のミクロ F1"),
        "mean_absolute_error" => tr!("Mean error before and after", "追加学習前後の平均絶対誤差"),
        "span_f1" => tr!("Span F1 before and after", "追加学習前後のスパン F1"),
        _ => tr!("Accuracy before and after", "追加学習前後の正解率"),
    }
}

/// Formats the trials, best first, and their gain. Empty without trials.
pub(crate) fn format_trials(tuning: &serde_json::Value) -> String {
    const MOST: usize = 8;
    const INDENT: usize = 22;
    let Some(tried) = tuning["trials"].as_u64() else { return String::new() };
    let rows = tuning["valid_rows"].as_u64().unwrap_or_default();
    let [loss, accuracy] = match lang() {
        Lang::En => ["log-loss", "accuracy"],
        Lang::Ja => ["対数損失", "正解率"],
    };
    let [loss, accuracy] = [loss, accuracy].map(|head| align_right(head, 9));
    let mut out = tr!(
        "\nSettings tried: {tried}. The best on the {rows} validation rows:\n\n {loss} {accuracy}  settings\n",
        "\n試した設定: {tried} 通り。検証データ {rows} 行で良かったもの:\n\n {loss} {accuracy}  設定\n"
    );
    for TrialRow { log_loss, accuracy, settings, is_chosen, .. } in best_trials(tuning, MOST) {
        // Wraps long settings at commas.
        let set =
            wrap(&settings.replace(',', ", "), WIDTH - INDENT).replace('\n', &format!("\n{}", " ".repeat(INDENT)));
        let mark = if is_chosen { '*' } else { ' ' };
        out += &format!("{mark}{log_loss:>9.4} {:>8.1} %  {set}\n", 100.0 * accuracy);
    }
    let message = gain_sentences(tuning).join(lang().pick(" ", ""));
    out + "\n" + &paragraph(&message) + "\n"
}
