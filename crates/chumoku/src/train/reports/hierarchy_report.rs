//! The report on classes in a hierarchy: scores at each level, and abstention per level.

use crate::lang::escape_markdown;
use crate::prediction::abstention::{AbstentionCalibration, LevelConfidences, guarantee_violation};
use crate::scoring::{LabelLevel, LabelScores, Scores, TreeScores};
use crate::tr;
use serde_json::{Value, json};
use std::fmt::Write;

/// Describes `--abstain` for this share of correct answers. `None` if no level of the hierarchy can reach it.
pub(super) fn abstain_level(
    calibration: &AbstentionCalibration,
    rows: &[LevelConfidences],
    share: f64,
) -> Option<Value> {
    let steps = calibration.level_thresholds(share);
    steps.iter().any(Option::is_some).then_some(())?;
    let figures = |rows: &[LevelConfidences]| {
        let ends: Vec<(usize, bool)> = rows.iter().filter_map(|row| row.answered_level(&steps)).collect();
        let part = |count: usize, whole: usize| count as f64 / whole.max(1) as f64;
        let at = |level: usize| part(ends.iter().filter(|end| end.0 == level).count(), rows.len());
        let count = ends.iter().filter(|end| end.1).count();
        let right = (!ends.is_empty()).then(|| part(count, ends.len()));
        let levels: Vec<f64> = (1..=steps.len()).map(at).collect();
        (part(ends.len(), rows.len()), right, guarantee_violation(count, ends.len(), share), levels)
    };
    let ((of_valid, valid_right, ..), (covers, right, broken, ends)) = (figures(&calibration.levels), figures(rows));
    let confidences: Vec<Option<f32>> = steps.iter().map(|step| step.map(|step| step.confidence)).collect();
    Some(json!({
        "level": share,
        "confidence": confidences.last(),
        "confidences": confidences,
        "valid": { "covers": of_valid, "right": valid_right },
        "covers": covers,
        "right": right,
        "broken": broken,
        "ends": ends,
    }))
}

/// The table of accuracy and macro-F1 of each predictor at each level, for the model card.
pub(crate) fn class_level_section(all: &[(&str, &Scores)]) -> String {
    let Some(first) = all.first().and_then(|(_, scores)| scores.hierarchy.as_ref()) else { return String::new() };
    let mut card = tr!(
        "\nClasses form a hierarchy of {} levels. Accuracy and macro-F1 at each level, and hierarchical F1 (nodes \
         that true and predicted paths have in common):\n\n|",
        "\nクラスは {} 段の階層をなします。各段の正解率とマクロ F1、および階層 F1（正解と予測のパスに共通する節による）です。\n\n|",
        first.levels.len()
    );
    for level in &first.levels {
        let (level, nodes) = (level.level, level.nodes);
        card += &tr!(" | level {level} ({nodes})", " | {level} 段目（{nodes}）");
    }
    card += &tr!(" | hierarchical F1 |\n|---|", " | 階層 F1 |\n|---|");
    card += &"---|".repeat(first.levels.len() + 1);
    card.push('\n');
    for (name, scores) in all {
        let Some(tree) = &scores.hierarchy else { continue };
        let _ = write!(card, "| {}", if name.starts_with("**") { (*name).to_owned() } else { escape_markdown(name) });
        for level in &tree.levels {
            let _ = write!(card, " | {:.1} %, {:.1} %", 100.0 * level.accuracy, 100.0 * level.macro_f1);
        }
        let _ = writeln!(card, " | {:.1} % |", 100.0 * tree.f1);
    }
    card += &first_error_list(first);
    card.push('\n');
    card
}

/// The table of micro-F1 and macro-F1 of each predictor at each level, for labels that do not exclude each other.
pub(crate) fn label_level_section(scores: &[(&str, &LabelScores)]) -> String {
    let test = scores[0].1;
    if test.levels.is_empty() {
        return String::new();
    }
    let mut card = tr!(
        "\nLabels form a hierarchy of {} levels: a text with a label also has all labels above it. Micro-F1 and \
         macro-F1 at each level:\n\n|",
        "\nラベルは {} 段の階層をなし、ラベルの付いたテキストには上位のラベルも付きます。各段のミクロ F1 とマクロ F1 です。\n\n|",
        test.levels.len()
    );
    for LabelLevel { level, labels, .. } in &test.levels {
        card += &tr!(" | level {level} ({labels})", " | {level} 段目（{labels}）");
    }
    card += &format!(" |\n|---|{}\n", "---|".repeat(test.levels.len()));
    for (name, scores) in scores {
        let _ = write!(card, "| {name}");
        for level in &scores.levels {
            let _ = write!(card, " | {:.1} %, {:.1} %", 100.0 * level.micro_f1, 100.0 * level.macro_f1);
        }
        card += " |\n";
    }
    card
}

/// The list of levels at which answers first go wrong.
fn first_error_list(scores: &TreeScores) -> String {
    let mut out = String::from("\n");
    for level in scores.levels.iter().filter(|level| level.first_wrong > 0) {
        let (level, rows) = (level.level, level.first_wrong);
        out += &match level {
            1 => tr!("- wrong at the first level: {rows} rows\n", "- 1 段目で誤り: {rows} 行\n"),
            _ => tr!(
                "- right parent, wrong at level {level}: {rows} rows\n",
                "- 親は正しく {level} 段目で誤り: {rows} 行\n"
            ),
        };
    }
    out
}
