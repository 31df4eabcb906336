//! Training a classifier of any number of labels a text.

use super::logistic_targets::{
    LogisticTarget, MemberLogOdds, NetworkWords, Scored, ScoredRows, train_ensemble, train_ngrams,
};
use crate::blend::binary_blend::BinaryBlend;
use crate::lang::{escape_markdown, lang};
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::target::PredictionTarget;
use crate::scoring::{LabelScores, Rows};
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::NgramClassifier;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::members::LogOdds;
use crate::train::ensemble::multi_label_fit::{LabelRows, cap_by_parents};
use crate::train::reports::card::score_heading;
use crate::train::reports::hierarchy_report::label_level_section;
use crate::train::run_folder::training::{TrainOutcome, Training};
use crate::{Result, tr};
use serde_json::Value;
use std::fmt::Write;

/// Trains a classifier of any number of labels a text and writes the model folder `out`. It is as reproducible as
/// [`train`](crate::train::train).
///
/// The network and one linear n-gram model per label are trained with the logistic loss of each label (binary
/// relevance). The blend of both, and a threshold for each label, are fitted on the validation rows.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_labels(
    data: &TrainingData<Vec<u32>>,
    training: Training<'_>,
) -> Result<TrainOutcome<TextClassifier, LabelScores>> {
    train_ensemble(data, training)
}

/// Trains an n-gram model for any number of labels a text and writes the model folder `out`.
///
/// Its scores are those that [`train_labels`] reports for the n-grams alone.
///
/// # Errors
/// The same as for [`train_ngram_classifier`](crate::train::train_ngram_classifier).
pub fn train_ngram_labels(
    data: &TrainingData<Vec<u32>>,
    training: Training<'_>,
) -> Result<TrainOutcome<NgramClassifier, LabelScores>> {
    train_ngrams(data, training)
}

impl LogisticTarget for Vec<u32> {
    type Scores = LabelScores;

    const TASK: &'static str = "labels";
    const BASELINE: &'static str = "most_frequent";
    const HAS_LABELS: bool = true;
    const FOLD_FIGURES: [&'static str; 2] = ["micro_f1", "macro_f1"];

    fn network_only(data: &TrainingData<Self>) -> PredictionTarget {
        PredictionTarget::Labels(BinaryBlend::network_only(data.labels.len()))
    }

    fn fit(
        data: &TrainingData<Self>,
        members: &MemberLogOdds<'_>,
        known: Option<&[f32]>,
    ) -> (PredictionTarget, Option<AbstentionCalibration>) {
        let rows = LabelRows { data, network: members.first, ngrams: members.second };
        let blend = rows.fit();
        let abstention = known.and_then(|known| rows.calibrate_abstention(&blend, known));
        (PredictionTarget::Labels(blend), abstention)
    }

    fn confidences(target: &PredictionTarget, rows: &Rows<Self>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        target.label_confidences(rows, predictions)
    }

    fn scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, predictions: Vec<Prediction>) -> Scored<Self> {
        let known = (&of.data.labels[..], of.data.hierarchy.as_ref());
        Ok((target.label_scores(of.rows, predictions, known, of.seed)?, Vec::new()))
    }

    fn member_scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, log_odds: &LogOdds) -> Result<LabelScores> {
        let (tree, labels) = (of.data.hierarchy.as_ref(), &of.data.labels);
        let blend = target.require_labels()?;
        let p: Vec<Vec<f32>> = log_odds.iter().map(|z| cap_by_parents(tree, blend.probabilities(z, None))).collect();
        let predicted: Vec<Vec<u32>> = p.iter().map(|p| blend.predicted_labels(p)).collect();
        Ok(LabelScores::of(&of.rows.labels, &predicted, Some(&p), labels, of.seed).with_levels(tree))
    }

    /// Scores a classifier that always predicts the most frequent label of the training rows.
    fn baseline_scores(of: &ScoredRows<'_, Self>) -> LabelScores {
        let counts = of.data.class_rows();
        let most = (0..counts.len()).fold(0, |best, label| if counts[label] > counts[best] { label } else { best });
        let predicted = vec![vec![most as u32]; of.rows.len()];
        let scores = LabelScores::of(&of.rows.labels, &predicted, None, &of.data.labels, of.seed);
        scores.with_levels(of.data.hierarchy.as_ref())
    }

    fn figures(scores: &LabelScores) -> Vec<(&'static str, Value)> {
        vec![("micro_f1", scores.micro_f1.into()), ("macro_f1", scores.macro_f1.into())]
    }

    fn heading(data: &TrainingData<Self>) -> String {
        tr!("# Text classifier, {} labels\n\n", "# テキスト分類モデル（{} ラベル）\n\n", data.labels.len())
    }

    fn network_summary(data: &TrainingData<Self>, network: &NetworkWords<'_>) -> String {
        let noun = network.noun;
        tr!(
            "A {noun} ({}, {} parameters) {}, combined with a linear model over n-grams for each label. A text gets any \
         number of {} labels.\n\n",
            "{noun}（{}、パラメータ {}）を {}、ラベルごとの n-gram の線形モデルと組み合わせたものです。テキストには {} 個のラベルのうち\
         いくつでも付きます。\n\n",
            network.sizes,
            network.parameters,
            network.training,
            data.labels.len()
        )
    }

    fn ngram_summary(data: &TrainingData<Self>, features: &str) -> String {
        tr!(
            "A linear model over {} n-grams for each label, trained from scratch with Chumoku {}; no network. A text gets any number of \
         {} labels.\n\n",
            "{} 個の n-gram による、ラベルごとの線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。テキストには \
         {} 個のラベルのうちいくつでも付きます。\n\n",
            features,
            env!("CARGO_PKG_VERSION"),
            data.labels.len()
        )
    }

    fn baseline_name() -> &'static str {
        lang().pick("always the most frequent label (baseline)", "最も多いラベル（比較対象）")
    }

    fn score_section(target: &PredictionTarget, scores: &[(&str, &LabelScores)], part: &str) -> String {
        score_table(scores, part) + &label_table(scores[0].1, target.labels())
    }

    fn limits() -> String {
        tr!(
            "\n## Limits\n\nThe labels are known from the training rows alone. Answers for texts in another language, style or subject mean \
         little. Weights of attention show where the model looks, not why it decides.",
            "\n## 限界\n\nラベルについて知って\
         いるのは学習データだけです。言語・文体・話題の異なるテキストへの答えには、ほとんど意味がありません。アテンションの重みが示すのは\
         モデルがどこを見ているかであって、判断の理由ではありません。"
        )
    }
}

/// The heading and the table of scores of several predictors.
fn score_table(scores: &[(&str, &LabelScores)], part: &str) -> String {
    let test = scores[0].1;
    let mut card = score_heading(test.rows, part);
    let [micro, macro_, sample] = test.averages().map(|(name, _)| name);
    let _ = writeln!(card, "| | {micro} | {macro_} | {sample} |\n|---|---|---|---|");
    for (name, scores) in scores {
        let [micro, macro_, sample] = scores.averages().map(|(_, x)| 100.0 * x);
        let _ = writeln!(card, "| {name} | {micro:.1} % | {macro_:.1} % | {sample:.1} % |");
    }
    card + &label_level_section(scores)
}

/// The table of labels with their thresholds and scores.
fn label_table(test: &LabelScores, blend: Option<&BinaryBlend>) -> String {
    let mut card = tr!(
        "\nProbabilities are calibrated on the validation rows. A label is predicted if its probability reaches its \
         threshold. The thresholds maximize micro-F1 on the validation rows.\n\n",
        "\n確率は検証データで較正されています。ラベルはしきい値以上の確率のときに予測します。しきい値はミクロ F1 が最大になるよう検証\
         データで選びました。\n\n"
    );
    card += &tr!(
        "| label | rows | threshold | precision | recall | F1 |\n|---|---|---|---|---|---|\n",
        "| ラベル | 行数 | しきい値 | 適合率 | 再現率 | F1 |\n|---|---|---|---|---|---|\n"
    );
    let thresholds = blend.map(|blend| &blend.thresholds[..]).unwrap_or_default();
    for (label, threshold) in test.of_labels.iter().zip(thresholds) {
        let [precision, recall, f1] = [label.precision, label.recall, label.f1].map(|x| 100.0 * x);
        let name = escape_markdown(&label.label);
        let _ = writeln!(
            card,
            "| {name} | {} | {threshold:.2} | {precision:.1} % | {recall:.1} % | {f1:.1} % |",
            label.rows
        );
    }
    card
}
