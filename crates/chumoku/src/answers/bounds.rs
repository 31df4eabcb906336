//! When a text is not answered: where too few answers would be right, or the text is unlike those of training.

use super::{Objection, Predictor, Verdict};
use crate::lang::lang;
use crate::{Caution, Prediction, Step, SureLevels, level_of, tr};

/// When a text is not answered.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The least confidence of an answer; of a tree of classes, what counts are its levels.
    confidence: f32,
    /// Where classes stand in a tree, from which confidence on answers are given down to each level.
    steps: Vec<Option<Step>>,
    /// The least share of known n-grams.
    least_known: f32,
    /// From where on answers are given, in a sentence.
    said: String,
}

impl Bounds {
    /// Those at which this share of the answers is right: of labels all of a text's, of ratings the level nearest to the number.
    ///
    /// # Errors
    /// A sentence, if the model tells a measure, of which no answer is right to the digit, or its folder does not say how sure it was
    /// of validation rows, or not that this
    /// share can be promised.
    pub fn of(model: Predictor<'_>, level: f64) -> Result<Bounds, String> {
        if model.problem().number().is_some_and(|number| !number.scale.has_levels()) {
            return Err(tr!(
                "only for classes, labels and ratings: no answer of a measure is right to the digit. Each has an interval that holds the \
                 true number in 90 % of the cases; take those whose columns low and high are close enough",
                "クラス、複数のラベル、段階のある評点だけで使えます。連続する量の答えは厳密には一致しません。真の値が 90 % の割合で入る\
                 区間が付くので、low と high の差が十分に小さい行を使ってください"
            ));
        }
        let Some(caution) = model.caution().filter(|caution| !caution.steps.is_empty()) else {
            return Err(tr!(
                "this folder does not say how sure the model was of validation rows: train it again, with validation rows",
                "検証データでの確信度がこのフォルダにありません。検証データのある学習をやり直してください"
            ));
        };
        let (rows, percent) = (caution.rows, 100.0 * level);
        let least_known = caution.least_known.unwrap_or(f32::NEG_INFINITY);
        let steps = caution.level_steps(level);
        if steps.iter().any(Option::is_some) {
            let said = of_levels(caution, &steps);
            return Ok(Bounds { confidence: f32::INFINITY, steps, least_known, said });
        }
        let Some(step) = caution.step(level) else {
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
        Ok(Bounds { confidence: step.confidence, steps, least_known, said })
    }

    /// From where on answers are given, in a sentence.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.said
    }

    /// How far a text is answered.
    #[must_use]
    pub fn verdict(&self, model: Predictor<'_>, text: &str, prediction: &Prediction) -> Verdict {
        if model.known_share(text).is_some_and(|known| known < self.least_known) {
            return Verdict::Not(Objection::Unlike);
        }
        let class = prediction.class();
        if let (Some(tree), false) = (model.hierarchy(), self.steps.is_empty()) {
            let level = level_of(&tree.sureness(&prediction.probabilities, class), &self.steps);
            return level.map_or(Verdict::Not(Objection::Unsure), Verdict::Down);
        }
        match model.sureness(prediction) < self.confidence {
            true => Verdict::Not(Objection::Unsure),
            false => Verdict::Whole,
        }
    }
}

/// From where on answers are given, in a sentence.
fn of_levels(caution: &Caution, steps: &[Option<Step>]) -> String {
    let of_level = |(at, step): (usize, &Option<Step>)| {
        let (level, sure) = (at + 1, 100.0 * step.as_ref()?.confidence);
        Some(match level == steps.len() {
            true => tr!("whole paths from {sure:.1} % on", "パス全体は確率 {sure:.1} % 以上"),
            false => tr!("down to level {level} from {sure:.1} % on", "{level} 段目までは確率 {sure:.1} % 以上"),
        })
    };
    let said: Vec<String> = steps.iter().enumerate().rev().filter_map(of_level).collect();
    let answered = caution.levels.iter().filter(|SureLevels(sure, _)| level_of(sure, steps).is_some()).count();
    let (said, rows) = (said.join(lang().pick(", ", "、")), caution.levels.len());
    let covers = 100.0 * answered as f64 / rows.max(1) as f64;
    tr!("{said}: {covers:.1} % of the {rows} validation rows", "{said}: 検証データ {rows} 行の {covers:.1} %")
}
