//! The report of a run: scores beside the baselines, `metrics.json`, and the model card.

use super::classify::mean_loss;
use super::run::plan_json;
use super::{Plan, Scores, State, TrainOptions, TrainingData};
use crate::Result;
use crate::nn::Network;
use crate::text_classifier::TextClassifier;
use serde_json::{Value, json};

/// Scores on the test rows: of the whole predictor, then of the network, the n-grams and the most frequent class.
pub(crate) struct Report {
    pub(crate) whole: Scores,
    pub(crate) parts: [Scores; 3],
}

/// Names of [`Report::parts`], in `metrics.json`.
const PARTS: [&str; 3] = ["attention", "ngrams", "majority"];

/// The rows that scores are reported on: the test rows or, where there are none, the validation rows.
pub(crate) fn report_rows(data: &TrainingData) -> (&super::Rows, &'static str) {
    match (data.test.is_empty(), data.valid.is_empty()) {
        (false, _) => (&data.test, "test"),
        (true, false) => (&data.valid, "valid"),
        (true, true) => (&data.train, "train"),
    }
}

pub(crate) fn evaluate(model: &TextClassifier, data: &TrainingData, seed: u64) -> Result<Report> {
    let (rows, _) = report_rows(data);
    let (whole, [attention, ngrams]) = score(model, rows, seed)?;
    let counts = data.class_rows();
    let most = (0..counts.len()).fold(0, |best, class| if counts[class] > counts[best] { class } else { best });
    let majority = Scores::of(&rows.labels, &vec![most as u32; rows.len()], &data.labels, None, seed);
    Ok(Report { whole, parts: [attention, ngrams, majority] })
}

/// Scores of the whole predictor, and of the network and the n-grams alone.
pub(crate) fn score(model: &TextClassifier, rows: &super::Rows, seed: u64) -> Result<(Scores, [Scores; 2])> {
    let predictions = model.predict(&rows.texts())?;
    let score = |log_p: Vec<Vec<f32>>| {
        let predicted: Vec<u32> = log_p.iter().map(|row| largest(row)).collect();
        let loss = mean_loss(&log_p, &rows.labels);
        Scores::of(&rows.labels, &predicted, model.labels(), Some(loss), seed)
    };
    let logs = |p: &[f32]| p.iter().map(|p| p.max(1e-30).ln()).collect::<Vec<_>>();
    let whole = score(predictions.iter().map(|p| logs(&p.probabilities)).collect());
    let attention = score(predictions.iter().map(|p| p.attention.clone()).collect());
    let ngrams = score(predictions.iter().map(|p| p.ngrams.clone().unwrap_or_else(|| p.attention.clone())).collect());
    Ok((whole, [attention, ngrams]))
}

/// Of each row that scores are reported on, whether the network alone gets it right.
pub(crate) fn network_is_right(model: &TextClassifier, data: &TrainingData) -> Result<Vec<bool>> {
    let (rows, _) = report_rows(data);
    let predictions = model.predict(&rows.texts())?;
    Ok(predictions.iter().zip(&rows.labels).map(|(p, &label)| largest(&p.attention) == label).collect())
}

fn largest(row: &[f32]) -> u32 {
    (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32
}

pub(crate) fn metrics(
    model: &TextClassifier,
    data: &TrainingData,
    options: &TrainOptions,
    plan: &Plan,
    state: &State,
    report: &Report,
    interrupted: bool,
) -> Value {
    let (_, part) = report_rows(data);
    let value = |scores: &Scores| serde_json::to_value(scores).expect("scores are plain data");
    let mut baselines = serde_json::Map::new();
    for (name, scores) in PARTS.iter().zip(&report.parts) {
        baselines.insert((*name).into(), value(scores));
    }
    json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "interrupted": interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "data_sha256": data.fingerprint(),
        "parameters": model.num_parameters(),
        "steps": state.step,
        "epochs": state.epoch,
        "best_epoch": state.best.map(|best| best.epoch),
        "valid": state.best.map(|best| json!({ "macro_f1": best.score, "log_loss": best.loss })),
        "blend": model.config().blend,
        "scored_on": part,
        "accuracy": report.whole.accuracy,
        "macro_f1": report.whole.macro_f1,
        "scores": value(&report.whole),
        "parts": baselines,
        "plan": plan_json(plan),
        "notes": data.notes,
    })
}

/// The model card: what a stranger needs to know before using the model.
pub(crate) fn model_card(
    model: &TextClassifier,
    data: &TrainingData,
    state: &State,
    report: &Report,
    options: &TrainOptions,
    interrupted: bool,
) -> String {
    use std::fmt::Write;
    let mut card = String::new();
    let (body, noun) = (&model.config().model.body, model.config().model.body.network().noun());
    let (rows, part) = report_rows(data);
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let part = match part {
        "test" => "test rows, which training never saw",
        "valid" => "validation rows, which training was chosen by: an optimistic figure",
        _ => "training rows, for want of others: this says nothing about new texts",
    };
    let _ = writeln!(card, "# Text classifier: {}\n", data.labels.join(", ").chars().take(200).collect::<String>());
    if interrupted {
        let _ = writeln!(card, "**Training was interrupted after {} epochs.** `--resume` continues it.\n", state.epoch);
    }
    let _ = writeln!(
        card,
        "{} ({}, {} parameters) trained from scratch with Chumoku {}, joined with a linear model over n-grams. It sorts \
         texts into {} classes.\n",
        match body.network() {
            Network::Transformer => "A transformer encoder".into(),
            Network::Recurrent(_) => format!("A recurrent network, {noun}"),
        },
        body.sizes(),
        model.num_parameters(),
        env!("CARGO_PKG_VERSION"),
        data.labels.len()
    );
    let _ = writeln!(card, "## Scores\n\nOn {} {part}:\n", rows.len());
    let _ = writeln!(card, "| | accuracy | macro-F1 | 95 % interval of macro-F1 |\n|---|---|---|---|");
    let alone = format!("{noun} alone");
    let names = [&alone, "n-grams alone (baseline)", "always the most frequent class (baseline)"];
    let all = std::iter::once(("**this model**", &report.whole)).chain(names.into_iter().zip(&report.parts));
    for (name, scores) in all {
        let [low, high] = scores.macro_f1_interval;
        let _ = writeln!(
            card,
            "| {name} | {} | {} | {} to {} |",
            percent(scores.accuracy),
            percent(scores.macro_f1),
            percent(low),
            percent(high)
        );
    }
    let blend = model.config().blend;
    let _ = writeln!(
        card,
        "\nThe predictor multiplies the {noun}'s probabilities, to the power {:.2}, with the n-gram model's, to the \
         power {:.2}; both powers were fitted on the validation rows, so the probabilities are calibrated on them.\n",
        blend.attention, blend.ngrams
    );
    let _ = writeln!(card, "| class | precision | recall | F1 | rows |\n|---|---|---|---|---|");
    for class in report.whole.classes.iter().take(100) {
        let _ = writeln!(
            card,
            "| {} | {} | {} | {} | {} |",
            class.label.replace('|', "\\|"),
            percent(class.precision),
            percent(class.recall),
            percent(class.f1),
            class.rows
        );
    }
    if report.whole.classes.len() > 100 {
        let _ = writeln!(card, "\n(the first 100 of {} classes; all are in `metrics.json`)", data.labels.len());
    }
    let _ = writeln!(
        card,
        "\n## Data\n\n{} rows to train on, {} to validate, {} to test. SHA-256 of texts and labels: `{}`. Seed {}.\n",
        data.train.len(),
        data.valid.len(),
        data.test.len(),
        data.fingerprint(),
        options.seed
    );
    for note in &data.notes {
        let _ = writeln!(card, "- {note}");
    }
    let _ = writeln!(
        card,
        "\n## Limits\n\nThe model knows nothing but its training rows. Texts unlike them, in another language, style or \
         subject, get answers that mean little. Texts of more than {} tokens are read whole, in windows whose answers \
         are averaged.{}\n\n## Use\n\n```\nchumoku \
         predict THIS_FOLDER \"some text\"\nchumoku explain THIS_FOLDER \"some text\"\n```",
        model.config().model.max_length - 1,
        match body.network() {
            Network::Transformer => " Weights of attention show where the model looks, not why it decides.",
            Network::Recurrent(_) => "",
        }
    );
    card
}
