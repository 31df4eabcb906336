//! When a text is not answered: where too few answers would be right, or the text is unlike those of training.

use super::{AbstentionReason, AnswerDecision, Predictor};
use crate::lang::lang;
use crate::{AbstentionCalibration, CoveragePoint, LevelConfidences, Prediction, deepest_confident_level, tr};

/// When a text is not answered.
#[derive(Clone, Debug)]
pub struct AbstentionThresholds {
    /// The least confidence of an answer; of a tree of classes, what counts are its levels.
    confidence: f32,
    /// Where classes stand in a tree, from which confidence on answers are given down to each level.
    level_thresholds: Vec<Option<CoveragePoint>>,
    /// The least share of known n-grams.
    min_known_share: f32,
    /// From where on answers are given, in a sentence.
    description: String,
}

impl AbstentionThresholds {
    /// Those at which this share of the answers is right: of labels all of a text's, of ratings the level nearest to the number.
    ///
    /// # Errors
    /// A sentence, if the model tells a measure, of which no answer is right to the digit, or its folder does not say how sure it was
    /// of validation rows, or not that this
    /// share can be promised.
    pub fn for_accuracy(model: Predictor<'_>, level: f64) -> Result<AbstentionThresholds, String> {
        if model.target().number().is_some_and(|number| !number.scale.has_levels()) {
            return Err(tr!(
                "only for classes, labels and ratings: no answer of a measure is right to the digit. Each has an interval that holds the \
                 true number in 90 % of the cases; take those whose columns low and high are close enough",
                "クラス、複数のラベル、段階のある評点だけで使えます。連続する量の答えは厳密には一致しません。真の値が 90 % の割合で入る\
                 区間が付くので、low と high の差が十分に小さい行を使ってください"
            ));
        }
        let Some(caution) = model.abstention().filter(|caution| !caution.steps.is_empty()) else {
            return Err(tr!(
                "this folder does not say how sure the model was of validation rows: train it again, with validation rows",
                "検証データでの確信度がこのフォルダにありません。検証データのある学習をやり直してください"
            ));
        };
        let (rows, percent) = (caution.rows, 100.0 * level);
        let least_known = caution.least_known.unwrap_or(f32::NEG_INFINITY);
        let steps = caution.level_thresholds(level);
        if steps.iter().any(Option::is_some) {
            let said = describe_levels(caution, &steps);
            return Ok(AbstentionThresholds {
                confidence: f32::INFINITY,
                level_thresholds: steps,
                min_known_share: least_known,
                description: said,
            });
        }
        let Some(step) = caution.threshold_for(level) else {
            let problem = tr!(
                "none of the {rows} validation rows allow to promise that {percent} % of the answers are right: ask \
                 for less, or train with more validation rows",
                "{rows} 行の検証データからは、答えの {percent} % が正しいとは約束できません。値を下げるか、検証データを\
                 増やして学習してください"
            );
            return Err(problem);
        };
        let covers = 100.0 * step.answered as f64 / rows as f64;
        let wrong = 100.0 * step.wrong as f64 / step.answered as f64;
        let sure = 100.0 * step.confidence;
        let said = tr!(
            "from a probability of {sure:.1} % on: {covers:.1} % of the {rows} validation rows, {wrong:.1} % of them wrong",
            "確率 {sure:.1} % 以上: 検証データ {rows} 行の {covers:.1} %、そのうち誤りは {wrong:.1} %"
        );
        Ok(AbstentionThresholds {
            confidence: step.confidence,
            level_thresholds: steps,
            min_known_share: least_known,
            description: said,
        })
    }

    /// From where on answers are given, in a sentence.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// How far a text is answered.
    #[must_use]
    pub fn decide(&self, model: Predictor<'_>, text: &str, prediction: &Prediction) -> AnswerDecision {
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

/// From where on answers are given, in a sentence.
fn describe_levels(caution: &AbstentionCalibration, steps: &[Option<CoveragePoint>]) -> String {
    let of_level = |(at, step): (usize, &Option<CoveragePoint>)| {
        let (level, sure) = (at + 1, 100.0 * step.as_ref()?.confidence);
        Some(match level == steps.len() {
            true => tr!("whole paths from {sure:.1} % on", "パス全体は確率 {sure:.1} % 以上"),
            false => tr!("down to level {level} from {sure:.1} % on", "{level} 段目までは確率 {sure:.1} % 以上"),
        })
    };
    let said: Vec<String> = steps.iter().enumerate().rev().filter_map(of_level).collect();
    let answered = caution
        .levels
        .iter()
        .filter(|LevelConfidences(sure, _)| deepest_confident_level(sure, steps).is_some())
        .count();
    let (said, rows) = (said.join(lang().pick(", ", "、")), caution.levels.len());
    let covers = 100.0 * answered as f64 / rows.max(1) as f64;
    tr!("{said}: {covers:.1} % of the {rows} validation rows", "{said}: 検証データ {rows} 行の {covers:.1} %")
}
