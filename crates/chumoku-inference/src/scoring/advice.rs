//! Advises which of a classifier's three predictors to use: the network, the n-grams, or both.

use super::Scores;
use super::bootstrap::{PredictedRows, macro_f1_gain};
use crate::lang::wording::quote;
use crate::tr;
use serde::Serialize;

/// A predictor of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisedPredictor {
    /// The blend of network and n-grams.
    Both,
    /// The n-gram model alone.
    Ngrams,
    /// The network alone.
    Network,
}

/// The gain in macro-F1 of the blend over one of its parts, on the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct MacroF1Gain {
    /// The difference, from −1 to 1.
    pub(crate) macro_f1: f64,
    /// Its 95 % interval, from paired resamples.
    pub(crate) interval: [f64; 2],
}

/// Advice from the figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The predictor to use; `None` if none is better than guessing or always answering the most frequent class.
    #[serde(rename = "use")]
    pub predictor: Option<AdvisedPredictor>,
    /// The blend compared with the n-grams.
    pub(crate) over_ngrams: MacroF1Gain,
    /// The blend compared with the network.
    pub(crate) over_network: MacroF1Gain,
    /// Number of rows behind the advice.
    pub rows: usize,
}

impl Advice {
    /// Compares the answers of the blend (`rows`) with those of the network and of the n-grams.
    pub(crate) fn compare(
        rows: &PredictedRows<'_>,
        [network, ngrams]: [&[u32]; 2],
        classes: usize,
        seed: u64,
    ) -> Advice {
        let gain = |other| {
            let (macro_f1, interval) = macro_f1_gain(rows, other, classes, seed);
            MacroF1Gain { macro_f1, interval }
        };
        Advice::choose(gain(ngrams), gain(network), rows.truth.len())
    }

    /// Prefers the cheaper predictor unless it is worse. A difference counts only if its interval excludes 0.
    fn choose(over_ngrams: MacroF1Gain, over_network: MacroF1Gain, rows: usize) -> Advice {
        let predictor = match (over_ngrams.interval[0] > 0.0, over_network.interval[1] < 0.0) {
            (false, false) => AdvisedPredictor::Ngrams,
            (true, false) => AdvisedPredictor::Both,
            (_, true) => AdvisedPredictor::Network,
        };
        Advice { predictor: Some(predictor), over_ngrams, over_network, rows }
    }

    /// Withdraws the advice if no predictor is better than guessing, or has a higher macro-F1 than the most frequent
    /// class.
    pub fn or_majority(self, predictors: [&Scores; 3], majority: &Scores) -> Advice {
        let is_better = |scores: &&Scores| scores.macro_f1 > majority.macro_f1 && scores.is_above_chance();
        Advice { predictor: self.predictor.filter(|_| predictors.iter().any(is_better)), ..self }
    }

    /// Returns the advice in one line.
    ///
    /// `network` is the name of the network, `seconds` the training time of the n-gram model, and `most_frequent` the
    /// most frequent class in training.
    pub fn sentence(&self, network: &str, seconds: f64, most_frequent: &str) -> String {
        let Advice { rows, over_ngrams, over_network, .. } = self;
        let seconds = seconds.ceil().max(1.0);
        let points = |gain: &MacroF1Gain| {
            let [low, high] = gain.interval.map(|x| 100.0 * x);
            let figure = 100.0 * gain.macro_f1;
            tr!(
                "{figure:+.1} points of macro-F1, 95 % interval {low:+.1} to {high:+.1}",
                "マクロ F1 で {figure:+.1} ポイント、95 % 区間 {low:+.1}〜{high:+.1}"
            )
        };
        match self.predictor {
            None => majority_advice(*rows, most_frequent),
            Some(AdvisedPredictor::Ngrams) => {
                let points = points(over_ngrams);
                tr!(
                    "Advice: on these {rows} rows n-grams alone are as good (the {network} adds {points}): \
                     --model ngrams trains in {seconds:.0} s.",
                    "助言: この {rows} 行では n-gram だけでも同等です（{network}による差は{points}）。\
                     --model ngrams なら {seconds:.0} 秒で学習できます。"
                )
            }
            Some(AdvisedPredictor::Both) => {
                let points = points(over_ngrams);
                tr!(
                    "Advice: use this model with both parts: on these {rows} rows it is better than n-grams alone \
                     ({points}).",
                    "助言: このモデルを両方の組み合わせのまま使ってください。この {rows} 行では n-gram だけより優れています（{points}）。"
                )
            }
            Some(AdvisedPredictor::Network) => {
                let points = points(over_network);
                tr!(
                    "Advice: use the {network} alone: on these {rows} rows n-grams make it worse ({points}); set \
                     blend to {{\"attention\": 1, \"ngrams\": 0}} in config.json.",
                    "助言: {network}だけを使ってください。この {rows} 行では n-gram を加えると悪くなります（{points}）。\
                     config.json の blend を {{\"attention\": 1, \"ngrams\": 0}} にします。"
                )
            }
        }
    }
}

/// Explains n-grams at chance: their accuracy is not above that of the most frequent class, and the network's is. `None`
/// if that is not so. Intervals decide, not the figures themselves.
pub fn ngrams_at_chance_note([network, ngrams, majority]: [&Scores; 3], name: &str) -> Option<String> {
    let [low, high] = ngrams.accuracy_interval;
    let is_at_chance = low <= majority.accuracy && network.accuracy_interval[0] > high;
    is_at_chance.then(|| {
        tr!(
            "N-grams are at chance: no word or phrase decides. The {name} relates words.",
            "n-gram は当て推量と同じです。語の並びだけでは決まらず、{name}は離れた語どうしを結び付けます。"
        )
    })
}

/// The advice if no predictor is better than guessing, or has a higher macro-F1 than the most frequent class.
fn majority_advice(rows: usize, most_frequent: &str) -> String {
    let most_frequent = quote(most_frequent);
    tr!(
        "Advice: on these {rows} rows no trained predictor is better than guessing or always answering \
         {most_frequent}. If the texts decide the labels, longer training or more rows of the other classes may help.",
        "助言: この {rows} 行では、学習したどの予測も、当て推量や、常に{most_frequent}と答えることより優れていません。\
         テキストからラベルが決まるデータなら、長く学習するか、ほかのクラスの行を増やすと、改善するかもしれません。"
    )
}

/// The advice of a run that trained only n-grams: whether a transformer could improve much. `most_frequent` is the most
/// frequent class in training, `majority` the scores of always answering it.
pub fn ngrams_only_advice(ngrams: &Scores, majority: &Scores, most_frequent: &str) -> String {
    /// Share of wrong rows below which little can be improved.
    const LITTLE: f64 = 0.02;
    let rows = ngrams.rows;
    if ngrams.macro_f1 <= majority.macro_f1 {
        return majority_advice(rows, most_frequent);
    }
    if !ngrams.is_above_chance() {
        return tr!(
            "Advice: these {rows} rows do not show that n-grams are better than guessing; train once without --model ngrams \
             to see whether a transformer, which relates words, is.",
            "助言: この {rows} 行からは、n-gram が当て推量より優れているとはいえません。--model ngrams なしで一度学習すると、\
             語どうしを結び付けるトランスフォーマーで改善するかどうかが分かります。"
        );
    }
    let wrong = 1.0 - ngrams.accuracy;
    let percent = 100.0 * wrong;
    if let Some(class) = ngrams.weakest().filter(|_| wrong <= LITTLE) {
        let (name, of) = (quote(&class.label), class.rows);
        let found = (class.recall * of as f64).round();
        return tr!(
            "Advice: {percent:.1} % of these {rows} rows are wrong, but only {found} of {of} of {name} are found. More rows of \
             that class would help; --optimize macro-f1 and --class-weights balanced answer it more often.",
            "助言: 誤りはこの {rows} 行の {percent:.1} % ですが、{name}は {of} 行のうち {found} 行しか見つかりません。そのクラスの行を\
             増やすと改善が見込めます。--optimize macro-f1 や --class-weights balanced を使うと、そのクラスと答えることが増えます。"
        );
    }
    match wrong <= LITTLE {
        true => tr!(
            "Advice: keep the n-grams: {percent:.1} % of these {rows} rows are wrong, which leaves a transformer little \
             to add.",
            "助言: n-gram のままで十分です。誤りはこの {rows} 行の {percent:.1} % だけで、トランスフォーマーで改善できる余地はわずかです。"
        ),
        false => tr!(
            "Advice: {percent:.1} % of these {rows} rows are wrong; train once without --model ngrams to see whether \
             a transformer gets some of them right.",
            "助言: この {rows} 行の {percent:.1} % が誤りです。--model ngrams なしで一度学習すると、\
             トランスフォーマーで改善するかどうかが分かります。"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(macro_f1: f64, low: f64, high: f64) -> MacroF1Gain {
        MacroF1Gain { macro_f1, interval: [low, high] }
    }

    #[test]
    fn advice_follows_from_the_figures() {
        let unsure = gain(0.01, -0.02, 0.04);
        let advice = Advice::choose(unsure, gain(0.08, 0.02, 0.12), 100);
        assert_eq!(advice.predictor, Some(AdvisedPredictor::Ngrams));
        let message = advice.sentence("transformer", 0.2, "ok");
        assert!(
            message.contains("100 rows n-grams alone are as good") && message.contains("trains in 1 s"),
            "{message}"
        );
        assert!(message.contains("+1.0 points") && message.contains("-2.0 to +4.0"), "{message}");
        let advice = Advice::choose(gain(0.04, 0.01, 0.07), unsure, 100);
        assert_eq!(advice.predictor, Some(AdvisedPredictor::Both));
        assert!(advice.sentence("transformer", 0.2, "ok").contains("+1.0 to +7.0"));
        let advice = Advice::choose(gain(0.04, 0.01, 0.07), gain(-0.04, -0.07, -0.01), 100);
        assert_eq!(advice.predictor, Some(AdvisedPredictor::Network));
        assert!(advice.sentence("GRU", 0.2, "ok").contains("the GRU alone"));
    }

    #[test]
    fn predictors_are_compared_on_the_same_rows() {
        let truth: Vec<u32> = (0..300).map(|i| i % 2).collect();
        let wrong = |every: u32| -> Vec<u32> {
            truth.iter().zip(0..).map(|(&t, i)| if i % every == 0 { 1 - t } else { t }).collect()
        };
        let (both, network, ngrams) = (wrong(50), wrong(50), wrong(5));
        let rows = PredictedRows { truth: &truth, predicted: &both, texts: &[] };
        assert_eq!(Advice::compare(&rows, [&network, &ngrams], 2, 1).predictor, Some(AdvisedPredictor::Both));
        assert_eq!(Advice::compare(&rows, [&ngrams, &network], 2, 1).predictor, Some(AdvisedPredictor::Ngrams));
    }

    #[test]
    fn n_grams_are_at_chance_if_only_the_network_beats_the_majority() {
        let labels = ["first".to_owned(), "second".to_owned()];
        let truth: Vec<u32> = (0..200).map(|i| i % 2).collect();
        let scores = |right: usize| {
            let predicted: Vec<u32> =
                truth.iter().enumerate().map(|(i, &t)| if i * 7 % 200 < right { t } else { 1 - t }).collect();
            Scores::of(&PredictedRows { truth: &truth, predicted: &predicted, texts: &[] }, &labels, None, 1)
        };
        let note = |network, ngrams| ngrams_at_chance_note([&scores(network), &scores(ngrams), &scores(100)], "GRU");
        assert_eq!(
            note(200, 102).as_deref(),
            Some("N-grams are at chance: no word or phrase decides. The GRU relates words.")
        );
        assert_eq!((note(200, 150), note(104, 102)), (None, None));
    }

    #[test]
    fn no_predictor_is_advised_at_chance() {
        let labels = ["heads".to_owned(), "tails".to_owned()];
        let truth: Vec<u32> = (0..200).map(|i| i % 2).collect();
        let scores = |right: usize| {
            let predicted: Vec<u32> =
                truth.iter().enumerate().map(|(i, &t)| if i * 7 % 200 < right { t } else { 1 - t }).collect();
            Scores::of(&PredictedRows { truth: &truth, predicted: &predicted, texts: &[] }, &labels, None, 1)
        };
        let majority = Scores::of(&PredictedRows { truth: &truth, predicted: &[0; 200], texts: &[] }, &labels, None, 1);
        let (flipped, learned) = (scores(104), scores(150));
        let advice = Advice::choose(gain(0.0, -0.1, 0.1), gain(0.0, -0.1, 0.1), 200);
        let none = advice.or_majority([&flipped, &flipped, &flipped], &majority);
        assert_eq!(none.predictor, None);
        assert!(none.sentence("transformer", 0.2, "heads").contains("better than guessing"));
        assert!(advice.or_majority([&flipped, &flipped, &learned], &majority).predictor.is_some());
        let message = ngrams_only_advice(&flipped, &majority, "heads");
        assert!(message.contains("do not show that n-grams are better than guessing"), "{message}");
    }

    #[test]
    fn no_predictor_is_advised_below_the_majority_class() {
        let labels = ["ok".to_owned(), "spam".to_owned()];
        let truth: Vec<u32> = (0..50).map(|i| u32::from(i == 7)).collect();
        let scores =
            |predicted: &[u32]| Scores::of(&PredictedRows { truth: &truth, predicted, texts: &[] }, &labels, None, 1);
        let (majority, right) = (scores(&[0; 50]), scores(&truth));
        let all_wrong = scores(&(0..50).map(|i| u32::from(i == 8)).collect::<Vec<_>>());
        let even = gain(0.0, 0.0, 0.0);
        let advice = Advice::choose(even, even, 50);
        assert_eq!(
            advice.or_majority([&majority, &majority, &right], &majority).predictor,
            Some(AdvisedPredictor::Ngrams)
        );
        let none = advice.or_majority([&majority, &all_wrong, &majority], &majority);
        assert_eq!(serde_json::to_value(none).unwrap()["use"], serde_json::Value::Null);
        let message = none.sentence("transformer", 0.2, "ok");
        assert!(message.contains("always answering “ok”") && !message.contains("--model"), "{message}");
        assert_eq!(ngrams_only_advice(&majority, &majority, "ok"), message);
        assert!(ngrams_only_advice(&right, &majority, "ok").contains("keep the n-grams"));
        // One wrong row of a hundred, but it is one of the two rows of its class.
        let truth: Vec<u32> = (0..100).map(|i| u32::from(i % 50 == 7)).collect();
        let scores =
            |predicted: &[u32]| Scores::of(&PredictedRows { truth: &truth, predicted, texts: &[] }, &labels, None, 1);
        let predicted: Vec<u32> = (0..100).map(|i| u32::from(i == 7)).collect();
        let message = ngrams_only_advice(&scores(&predicted), &scores(&[0; 100]), "ok");
        assert!(
            message.contains("1.0 % of these 100 rows are wrong, but only 1 of 2 of “spam” are found"),
            "{message}"
        );
        assert!(!message.contains("keep the n-grams"), "{message}");
    }
}
