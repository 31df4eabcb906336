//! Abstention thresholds. A text gets no answer if the confidence is too low or the text is unlike the training data.

use super::{AbstentionReason, AnswerDecision};
use crate::lang::lang;
use crate::row::RowRef;
use crate::{
    AbstentionCalibration, CoveragePoint, LevelConfidences, Prediction, Predictor, deepest_confident_level, tr,
};

/// The thresholds below which a text gets no answer.
#[derive(Clone, Debug)]
pub struct AbstentionThresholds {
    /// The minimum confidence of an answer. Not used for class trees, which have level thresholds.
    confidence: f32,
    /// For class trees: the confidence threshold of each level.
    level_thresholds: Vec<Option<CoveragePoint>>,
    /// The minimum share of known n-grams.
    min_known_share: f32,
    /// A sentence that describes the thresholds.
    description: String,
}

impl AbstentionThresholds {
    /// Chooses thresholds at which this share of the answers is right. For multi-label models, all labels of an
    /// answered text must be right. For ratings, the nearest level must be right.
    ///
    /// # Errors
    /// A message, if the model predicts a measure, whose answers are never exactly right. Also if the folder has no
    /// abstention calibration, or the calibration cannot guarantee this share.
    pub fn for_accuracy(model: Predictor<'_>, target_accuracy: f64) -> Result<AbstentionThresholds, String> {
        if model.target().number().is_some_and(|number| !number.discretizer.has_levels()) {
            return Err(tr!(
                "only for classes, labels and ratings: the prediction of a measure is never exactly right. Each prediction has an \
                 interval that contains the true number in 90 % of cases; keep the rows where low and high are close enough",
                "クラス、複数のラベル、段階のある評点だけで使えます。連続する量の答えは厳密には一致しません。真の値が 90 % の割合で入る\
                 区間が付くので、low と high の差が十分に小さい行を使ってください"
            ));
        }
        let Some(calibration) = model.abstention().filter(|calibration| !calibration.risk_coverage_curve.is_empty())
        else {
            return Err(tr!(
                "this model has no abstention calibration: train it again with validation rows",
                "このモデルには検証データでの確信度が保存されていません。検証データを付けて学習し直してください"
            ));
        };
        let (rows, percent) = (calibration.rows, 100.0 * target_accuracy);
        let least_known = calibration.least_known.unwrap_or(f32::NEG_INFINITY);
        let steps = calibration.level_thresholds(target_accuracy);
        if steps.iter().any(Option::is_some) {
            let levels = describe_levels(calibration, &steps);
            return Ok(AbstentionThresholds {
                confidence: f32::INFINITY,
                level_thresholds: steps,
                min_known_share: least_known,
                description: levels,
            });
        }
        let Some(step) = calibration.threshold_for(target_accuracy) else {
            let problem = tr!(
                "the {rows} validation rows cannot guarantee that {percent} % of the answers are right: ask for less, or \
                 train with more validation rows",
                "{rows} 行の検証データからは、正答率 {percent} % が正しいことを保証できません。値を下げるか、検証データを\
                 増やして学習してください"
            );
            return Err(problem);
        };
        let covers = 100.0 * step.answered as f64 / rows as f64;
        let wrong = 100.0 * step.wrong as f64 / step.answered as f64;
        let sure = 100.0 * step.confidence;
        let message = tr!(
            "from a probability of {sure:.1} %: {covers:.1} % of the {rows} validation rows, {wrong:.1} % of them wrong",
            "確率 {sure:.1} % 以上: 検証データ {rows} 行の {covers:.1} %、そのうち誤りは {wrong:.1} %"
        );
        Ok(AbstentionThresholds {
            confidence: step.confidence,
            level_thresholds: steps,
            min_known_share: least_known,
            description: message,
        })
    }

    /// Returns a sentence that describes the thresholds.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Decides whether, and down to which level, a text is answered.
    #[must_use]
    pub(crate) fn decide(&self, model: Predictor<'_>, text: RowRef<'_>, prediction: &Prediction) -> AnswerDecision {
        if model.known_share(text).is_some_and(|known| known < self.min_known_share) {
            return AnswerDecision::Abstain(AbstentionReason::UnlikeTraining);
        }
        let class = prediction.class();
        if let (Some(tree), false) = (model.hierarchy(), self.level_thresholds.is_empty()) {
            let level = deepest_confident_level(
                &tree.level_confidences(&prediction.probabilities, class),
                &self.level_thresholds,
            );
            return level.map_or(AnswerDecision::Abstain(AbstentionReason::LowConfidence), AnswerDecision::UpToLevel);
        }
        match model.confidence(prediction) < self.confidence {
            true => AnswerDecision::Abstain(AbstentionReason::LowConfidence),
            false => AnswerDecision::Full,
        }
    }
}

/// Describes the level thresholds in a sentence.
fn describe_levels(calibration: &AbstentionCalibration, steps: &[Option<CoveragePoint>]) -> String {
    let of_level = |(at, step): (usize, &Option<CoveragePoint>)| {
        let (level, sure) = (at + 1, 100.0 * step.as_ref()?.confidence);
        Some(match level == steps.len() {
            true => tr!("whole paths from {sure:.1} %", "パス全体は確率 {sure:.1} % 以上"),
            false => tr!("down to level {level} from {sure:.1} %", "{level} 段目までは確率 {sure:.1} % 以上"),
        })
    };
    let levels: Vec<String> = steps.iter().enumerate().rev().filter_map(of_level).collect();
    let answered = calibration
        .levels
        .iter()
        .filter(|LevelConfidences(sure, _)| deepest_confident_level(sure, steps).is_some())
        .count();
    let (levels, rows) = (levels.join(lang().pick(", ", "、")), calibration.levels.len());
    let covers = 100.0 * answered as f64 / rows.max(1) as f64;
    tr!("{levels}: {covers:.1} % of the {rows} validation rows", "{levels}: 検証データ {rows} 行の {covers:.1} %")
}
