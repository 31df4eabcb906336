//! The full training report, from the contents of a model folder.

use crate::report::{classes, labels, numbers};
use crate::{ExitCode, UsageError};
use chumoku::train::network_name;
use chumoku::{ModelKind, TextClassifier, tr};
use serde_json::Value;
use std::io::{Write, stdout};
use std::path::Path;

/// Prints the report: for classes, labels and numbers from `metrics.json`, for other models the model card.
pub(super) fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    let missing = |name: &str, problem: String| {
        let place = folder.join(name).display().to_string();
        UsageError(tr!(
            "{place}: {problem}; expected a file written by training: train again, or use chumoku eval",
            "{place}: {problem}。学習が書き出すファイルが必要です。学習をやり直すか、chumoku eval を使ってください"
        ))
    };
    let read =
        |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| missing(name, error.to_string()));
    let kind = ModelKind::from_folder(folder)?;
    let noun = match kind {
        ModelKind::Classifier => network_name(TextClassifier::load(folder)?.config().model.backbone.kind()),
        _ => "",
    };
    let report = match kind {
        ModelKind::Classifier | ModelKind::Ngrams => {
            let text = read("metrics.json")?;
            let damaged = |error: serde_json::Error| missing("metrics.json", error.to_string());
            let metrics: Value = serde_json::from_str(&text).map_err(damaged)?;
            let report = match metrics["task"].as_str() {
                Some("labels") => labels::report(&metrics, noun),
                Some("score") => numbers::report(&metrics, noun),
                _ => classes::report(&metrics, noun),
            };
            report.map_err(|error| missing("metrics.json", error.to_string()))?
        }
        _ => read("README.md")?,
    };
    write!(stdout().lock(), "{report}")?;
    Ok(ExitCode::SUCCESS)
}
