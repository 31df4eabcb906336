//! Class weights chosen by the caller.

use crate::lang::lang;
use crate::ngram::NgramTarget;
use crate::train::data::training_data::TrainingData;
use crate::{Error, Result, tr};
use serde::{Deserialize, Serialize};

/// The weight of each class in the losses of the network and of the n-gram model, and in their blend. Predicted
/// probabilities are those of data with class frequencies in proportion to the weighted rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClassWeights {
    /// All rows have the same weight.
    Equal,
    /// All classes have the same total weight, whatever their number of rows.
    Balanced,
    /// The rows of these classes are weighted by these factors, all others by 1.
    Times(Vec<(String, f32)>),
}

/// The largest ratio of class weights: more would make the model ignore the other classes.
const MAX_RATIO: f32 = 1e4;

impl ClassWeights {
    /// Returns a weight for each class, scaled to a mean of 1 over the training rows.
    ///
    /// # Errors
    /// If a class is unknown or given twice, a weight is not positive, or a text may have several labels.
    pub fn for_data<A: NgramTarget>(&self, data: &TrainingData<A>) -> Result<Vec<f32>> {
        self.for_rows(&data.labels, &data.class_rows(), A::IS_SET)
    }

    /// Returns the class weights for these training rows of each class, as [`ClassWeights::for_data`] does.
    pub(crate) fn for_rows(&self, labels: &[String], rows: &[usize], is_set: bool) -> Result<Vec<f32>> {
        let problem = |text: String| Error::Setting(tr!("class weights: {text}", "クラスの重み: {text}"));
        if is_set {
            let text = lang().pick(
                "expected one class a text, found labels or numbers; leave the weights out",
                "1 テキスト 1 クラスのときだけ使えます。指定を外してください",
            );
            return Err(problem(text.into()));
        }
        let mut weights = vec![1.0_f32; rows.len()];
        match self {
            ClassWeights::Equal => {}
            ClassWeights::Balanced => weights.iter_mut().zip(rows).for_each(|(w, &n)| *w = 1.0 / n.max(1) as f32),
            ClassWeights::Times(given) => {
                for (i, (name, times)) in given.iter().enumerate() {
                    let Some(class) = labels.iter().position(|label| label == name) else {
                        let known = labels.join(lang().pick(", ", "、"));
                        return Err(problem(tr!(
                            "the data has no class “{name}”; expected one of {known}",
                            "データに「{name}」というクラスはありません（{known} のいずれか）"
                        )));
                    };
                    if given[..i].iter().any(|(earlier, _)| earlier == name) {
                        return Err(problem(tr!("“{name}” is given twice", "「{name}」が 2 回指定されています")));
                    }
                    if !(1.0 / MAX_RATIO..=MAX_RATIO).contains(times) {
                        return Err(problem(tr!(
                            "“{name}”: expected a number from {} to {MAX_RATIO}, found {times}",
                            "「{name}」: {} から {MAX_RATIO} までの数が必要ですが、{times} です",
                            1.0 / MAX_RATIO
                        )));
                    }
                    weights[class] = *times;
                }
            }
        }
        let sum: f64 = weights.iter().zip(rows).map(|(&w, &n)| f64::from(w) * n as f64).sum();
        let mean = (sum / rows.iter().sum::<usize>().max(1) as f64) as f32;
        weights.iter_mut().for_each(|w| *w /= mean);
        Ok(weights)
    }

    /// Describes the weights for the user.
    pub(crate) fn sentence(&self) -> String {
        match self {
            ClassWeights::Equal => tr!("all rows have the same weight", "すべての行を同じ重みで扱います"),
            ClassWeights::Balanced => tr!(
                "all classes have the same total weight; probabilities apply to data with equally many rows of each \
                 class",
                "行数によらず、すべてのクラスを同じ重みで扱います。確率は、各クラスの行数が等しいデータを前提とした値です"
            ),
            ClassWeights::Times(given) => {
                let each = given.iter().map(|(name, times)| tr!("“{name}” {times} times", "「{name}」{times} 倍"));
                let each = each.collect::<Vec<_>>().join(lang().pick(", ", "、"));
                tr!(
                    "{each}: probabilities apply to data in which these classes have that many times the rows",
                    "{each}。確率は、各クラスの行数もこの倍率であるデータを前提とした値です"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::Rows;

    fn data() -> TrainingData {
        let texts = (0..10).map(|i| format!("text {i}").into()).collect();
        let labels = ["ham", "spam"].map(String::from).to_vec();
        let train = Rows { texts, labels: vec![0, 0, 0, 0, 0, 0, 0, 0, 1, 1], weights: None };
        TrainingData { labels, train, ..TrainingData::default() }
    }

    #[test]
    fn class_weights_have_a_mean_of_one_over_the_rows() {
        let near = |weights: ClassWeights, expected: [f32; 2]| {
            let found = weights.for_data(&data()).unwrap();
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
        };
        near(ClassWeights::Equal, [1.0, 1.0]);
        near(ClassWeights::Balanced, [0.625, 2.5]);
        near(ClassWeights::Times(vec![("spam".into(), 6.0)]), [0.5, 3.0]);
    }

    #[test]
    fn invalid_class_weights_are_rejected() {
        let times = |given: &[(&str, f32)]| {
            let given = given.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect();
            ClassWeights::Times(given).for_data(&data()).unwrap_err().to_string()
        };
        assert!(times(&[("eggs", 2.0)]).contains("no class “eggs”; expected one of ham, spam"));
        assert!(times(&[("ham", 2.0), ("ham", 3.0)]).contains("given twice"));
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e6] {
            assert!(times(&[("ham", bad)]).contains("expected a number from"), "{bad}");
        }
        let sets = TrainingData::<Vec<u32>>::default();
        assert!(ClassWeights::Equal.for_data(&sets).is_err());
    }
}
