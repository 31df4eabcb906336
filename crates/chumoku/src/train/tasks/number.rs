//! Training a predictor of numbers.

use super::logistic_targets::{
    LogisticTarget, MemberLogOdds, NetworkWords, Scored, ScoredRows, train_ensemble, train_ngrams,
};
use crate::blend::number::{NumberBlend, NumberLabel};
use crate::lang::lang;
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::target::PredictionTarget;
use crate::scoring::{NumberScores, Rows, format_value};
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::NgramClassifier;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::members::LogOdds;
use crate::train::reports::card::score_heading;
use crate::train::run_folder::training::{TrainOutcome, Training};
use crate::{Result, tr};
use serde_json::Value;
use std::fmt::Write;

/// Trains a predictor of a number for each text and writes the model folder `out`. It is as reproducible as
/// [`train`](crate::train::train).
///
/// The network and one linear n-gram model per threshold predict whether the number is above each threshold. The blend
/// of both, and the width of the intervals, are fitted on the validation rows (see [`NumberBlend`]).
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or the loss is no longer finite.
pub fn train_number(
    data: &TrainingData<NumberLabel>,
    training: Training<'_>,
) -> Result<TrainOutcome<TextClassifier, NumberScores>> {
    train_ensemble(data, training)
}

/// Trains an n-gram model for a number per text and writes the model folder `out`.
///
/// Its scores are those that [`train_number`] reports for the n-grams alone.
///
/// # Errors
/// The same as for [`train_ngram_classifier`](crate::train::train_ngram_classifier).
pub fn train_ngram_number(
    data: &TrainingData<NumberLabel>,
    training: Training<'_>,
) -> Result<TrainOutcome<NgramClassifier, NumberScores>> {
    train_ngrams(data, training)
}

impl LogisticTarget for NumberLabel {
    type Scores = NumberScores;

    const TASK: &'static str = "score";
    const BASELINE: &'static str = "median";
    const HAS_LABELS: bool = false;
    const FOLD_FIGURES: [&'static str; 2] = ["mean_absolute_error", "spearman"];
    const SIGN: f64 = -1.0;

    fn network_only(data: &TrainingData<Self>) -> PredictionTarget {
        PredictionTarget::Number(NumberBlend::network_only(data.discretizer.clone()))
    }

    fn fit(
        data: &TrainingData<Self>,
        members: &MemberLogOdds<'_>,
        known: Option<&[f32]>,
    ) -> (PredictionTarget, Option<AbstentionCalibration>) {
        let rows = (&data.valid.labels[..], data.valid.weights.as_deref());
        let second = members.second.map_or(&[][..], Vec::as_slice);
        let (blend, confidences) = NumberBlend::fit(&data.discretizer, members.first, second, rows);
        // Only levels: an answer on a continuous scale is never exactly right.
        let known = known.filter(|_| data.discretizer.has_levels() && !confidences.is_empty());
        (PredictionTarget::Number(blend), known.map(|known| AbstentionCalibration::fit(&confidences, known)))
    }

    fn confidences(target: &PredictionTarget, rows: &Rows<Self>, predictions: &[Prediction]) -> Vec<(f32, bool)> {
        target.number_confidences(rows, predictions)
    }

    fn scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, predictions: Vec<Prediction>) -> Scored<Self> {
        target.number_scores(of.rows, &predictions, of.seed)
    }

    fn member_scores(of: &ScoredRows<'_, Self>, target: &PredictionTarget, log_odds: &LogOdds) -> Result<NumberScores> {
        let blend = target.require_number()?;
        let score = |z: &Vec<f32>| blend.estimate(&blend.blend.probabilities(z, None)).score;
        let predicted: Vec<f64> = log_odds.iter().map(score).collect();
        Ok(NumberScores::of(&numbers(of.rows), &predicted, None, &of.data.discretizer, of.seed))
    }

    /// Scores a model that always predicts the median of the training rows.
    fn baseline_scores(of: &ScoredRows<'_, Self>) -> NumberScores {
        let predicted = vec![median(&of.data.train); of.rows.len()];
        NumberScores::of(&numbers(of.rows), &predicted, None, &of.data.discretizer, of.seed)
    }

    fn figures(scores: &NumberScores) -> Vec<(&'static str, Value)> {
        vec![
            ("mean_absolute_error", scores.mean_absolute_error.into()),
            ("r2", scores.r2.into()),
            ("spearman", scores.spearman.into()),
            ("coverage", scores.coverage.into()),
        ]
    }

    fn heading(_data: &TrainingData<Self>) -> String {
        tr!("# Predictor of a number for each text\n\n", "# テキストごとの数値の予測モデル\n\n")
    }

    fn network_summary(data: &TrainingData<Self>, network: &NetworkWords<'_>) -> String {
        let (noun, [least, most]) = (network.noun, data.discretizer.range);
        tr!(
            "A {noun} ({}, {} parameters) {}, combined with a linear model over n-grams for each of {} thresholds. \
             The numbers of the training rows lie between {least} and {most}.\n\n",
            "{noun}（{}、パラメータ {}）を {}、{} 個のしきい値ごとの n-gram の線形モデルと組み合わせたものです。学習データの数値は \
             {least} から {most} までです。\n\n",
            network.sizes,
            network.parameters,
            network.training,
            data.discretizer.thresholds.len()
        )
    }

    fn ngram_summary(data: &TrainingData<Self>, features: &str) -> String {
        let [least, most] = data.discretizer.range;
        tr!(
            "A linear model over {} n-grams for each of {} thresholds, trained from scratch with Chumoku {}; no network. The numbers of the \
         training rows lie between {least} and {most}.\n\n",
            "{} 個の n-gram による、{} 個のしきい値ごとの線形モデルです。Chumoku {} でゼロから学習しました。ネットワークは使っていません。\
         学習データの数値は {least} から {most} までです。\n\n",
            features,
            data.discretizer.thresholds.len(),
            env!("CARGO_PKG_VERSION")
        )
    }

    fn baseline_name() -> &'static str {
        lang().pick("always the median (baseline)", "常に中央値（比較対象）")
    }

    fn score_section(_target: &PredictionTarget, scores: &[(&str, &NumberScores)], part: &str) -> String {
        score_table(scores, part)
    }

    fn limits() -> String {
        tr!(
            "\n## Limits\n\nThe model knows numbers from its training rows alone, and never goes beyond their range. The promise of \
             the intervals holds for texts like those of the validation rows. Answers for texts in another language, style or \
             subject mean little.",
            "\n## 限界\n\n数値について知っているの\
             は学習データだけで、その範囲を超える値は答えません。区間の保証は、検証データと似たテキストについてのものです。言語・文体・話題の\
             異なるテキストへの答えには、ほとんど意味がありません。"
        )
    }
}

/// The true numbers of rows.
fn numbers(rows: &Rows<NumberLabel>) -> Vec<f64> {
    rows.labels.iter().map(|measured| measured.number).collect()
}

/// The median, which is the best constant prediction.
fn median(rows: &Rows<NumberLabel>) -> f64 {
    let mut numbers = numbers(rows);
    numbers.sort_by(f64::total_cmp);
    let at = |i: usize| numbers.get(i).copied().unwrap_or_default();
    0.5 * (at(numbers.len().saturating_sub(1) / 2) + at(numbers.len() / 2))
}

/// The table of scores of several predictors, with the interval coverage and levels of the first.
fn score_table(scores: &[(&str, &NumberScores)], part: &str) -> String {
    let test = scores[0].1;
    let mut card = score_heading(test.rows, part);
    let _ = writeln!(card, "| | {} |\n|---|---|---|---|---|", test.named_figures().map(|(name, _)| name).join(" | "));
    for (name, scores) in scores {
        let figures = scores.named_figures().map(|(_, x)| format_value(x));
        let _ = writeln!(card, "| {name} | {} |", figures.join(" | "));
    }
    if let (Some(coverage), Some(width)) = (test.coverage, test.mean_width) {
        let (coverage, width) = (100.0 * coverage, format_value(width));
        card += &tr!(
            "\nEach prediction has an interval meant to contain the true number in 90 % of the cases. Its width was \
             fitted on the validation rows. Here {coverage:.1} % of the intervals contain it; their mean width is \
             {width}.\n\n",
            "\n予測には、真の値が 90 % の割合で入るはずの区間が付きます。区間の幅は検証データで決めました。ここでは {coverage:.1} % の区間に\
             真の値が入り、幅の平均は {width} です。\n\n"
        );
    }
    if !test.levels.is_empty() {
        card += &tr!(
            "| true | rows | mean prediction | error | nearest is right |\n|---|---|---|---|---|\n",
            "| 真の値 | 行数 | 予測の平均 | 絶対誤差 | 丸めて一致 |\n|---|---|---|---|---|\n"
        );
        for of in &test.levels {
            let (level, rows) = (of.level, of.rows);
            let [mean, error] =
                [of.mean_prediction, of.mean_absolute_error].map(|x| x.map_or("–".into(), format_value));
            let exact = of.exact.map_or("–".into(), |x| format!("{:.1} %", 100.0 * x));
            let _ = writeln!(card, "| {level} | {rows} | {mean} | {error} | {exact} |");
        }
    }
    card
}
