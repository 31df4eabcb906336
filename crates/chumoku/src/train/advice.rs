//! Which of a classifier's three predictors to use: the network, the n-grams, or both together.

use super::resample::{Judged, macro_f1_gain};
use crate::tr;
use serde::Serialize;

/// A predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Predictor {
    /// The network and the n-grams, joined.
    Both,
    /// The n-gram model alone.
    Ngrams,
    /// The network alone.
    Network,
}

/// By how much the macro-F1 of both together is above that of one of them, on the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The difference, from −1 to 1.
    pub macro_f1: f64,
    /// Its 95 % interval, from paired resamples.
    pub interval: [f64; 2],
}

/// What a run's own figures advise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What to use.
    #[serde(rename = "use")]
    pub predictor: Predictor,
    /// Both together against the n-grams.
    pub over_ngrams: Gain,
    /// Both together against the network.
    pub over_network: Gain,
    /// Rows that this was found on.
    pub rows: usize,
}

impl Advice {
    /// Compares the answers of both together (`rows`) with those of the network and of the n-grams.
    pub(super) fn of(rows: &Judged<'_>, [network, ngrams]: [&[u32]; 2], classes: usize, seed: u64) -> Advice {
        let gain = |other| {
            let (macro_f1, interval) = macro_f1_gain(rows, other, classes, seed);
            Gain { macro_f1, interval }
        };
        Advice::choose(gain(ngrams), gain(network), rows.truth.len())
    }

    /// What is no worse and cheaper is to be used; a difference counts only where its interval leaves out 0.
    fn choose(over_ngrams: Gain, over_network: Gain, rows: usize) -> Advice {
        let predictor = match (over_ngrams.interval[0] > 0.0, over_network.interval[1] < 0.0) {
            (false, false) => Predictor::Ngrams,
            (true, false) => Predictor::Both,
            (_, true) => Predictor::Network,
        };
        Advice { predictor, over_ngrams, over_network, rows }
    }

    /// The advice in one line. `network` is what the network is called, `seconds` the time in which the n-gram model was
    /// trained.
    pub fn sentence(&self, network: &str, seconds: f64) -> String {
        let Advice { rows, over_ngrams, over_network, .. } = self;
        let seconds = seconds.ceil().max(1.0);
        let points = |gain: &Gain| {
            let [low, high] = gain.interval.map(|x| 100.0 * x);
            let figure = 100.0 * gain.macro_f1;
            tr!(
                "{figure:+.1} points of macro-F1, 95 % interval {low:+.1} to {high:+.1}",
                "マクロ F1 で {figure:+.1} ポイント、95 % 区間 {low:+.1}〜{high:+.1}"
            )
        };
        match self.predictor {
            Predictor::Ngrams => {
                let points = points(over_ngrams);
                tr!(
                    "Advice: on these {rows} rows n-grams alone are as good (the {network} adds {points}): \
                     --model ngrams trains in {seconds:.0} s.",
                    "助言: この {rows} 行では n-gram だけでも同等です（{network}による差は{points}）。\
                     --model ngrams なら {seconds:.0} 秒で学習できます。"
                )
            }
            Predictor::Both => {
                let points = points(over_ngrams);
                tr!(
                    "Advice: use this model, both together: on these {rows} rows it is better than n-grams alone \
                     ({points}).",
                    "助言: このモデル（両方の組み合わせ）を使ってください。この {rows} 行では n-gram だけより優れています（{points}）。"
                )
            }
            Predictor::Network => {
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

/// The advice of a run that trained n-grams alone: whether there is much that a transformer could add.
pub(super) fn of_ngrams_alone(accuracy: f64, rows: usize) -> String {
    /// Share of wrong rows below which nothing much is left to win.
    const LITTLE: f64 = 0.02;
    let wrong = 1.0 - accuracy;
    let percent = 100.0 * wrong;
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

    fn gain(macro_f1: f64, low: f64, high: f64) -> Gain {
        Gain { macro_f1, interval: [low, high] }
    }

    #[test]
    fn advice_follows_from_the_figures() {
        let unsure = gain(0.01, -0.02, 0.04);
        let advice = Advice::choose(unsure, gain(0.08, 0.02, 0.12), 100);
        assert_eq!(advice.predictor, Predictor::Ngrams);
        let said = advice.sentence("transformer", 0.2);
        assert!(said.contains("100 rows n-grams alone are as good") && said.contains("trains in 1 s"), "{said}");
        assert!(said.contains("+1.0 points") && said.contains("-2.0 to +4.0"), "{said}");
        let advice = Advice::choose(gain(0.04, 0.01, 0.07), unsure, 100);
        assert_eq!(advice.predictor, Predictor::Both);
        assert!(advice.sentence("transformer", 0.2).contains("+1.0 to +7.0"));
        let advice = Advice::choose(gain(0.04, 0.01, 0.07), gain(-0.04, -0.07, -0.01), 100);
        assert_eq!(advice.predictor, Predictor::Network);
        assert!(advice.sentence("GRU", 0.2).contains("the GRU alone"));
    }

    #[test]
    fn each_is_judged_on_the_same_rows() {
        let truth: Vec<u32> = (0..300).map(|i| i % 2).collect();
        let wrong = |every: u32| -> Vec<u32> {
            truth.iter().zip(0..).map(|(&t, i)| if i % every == 0 { 1 - t } else { t }).collect()
        };
        let (both, network, ngrams) = (wrong(50), wrong(50), wrong(5));
        let rows = Judged { truth: &truth, predicted: &both, texts: &[] };
        assert_eq!(Advice::of(&rows, [&network, &ngrams], 2, 1).predictor, Predictor::Both);
        assert_eq!(Advice::of(&rows, [&ngrams, &network], 2, 1).predictor, Predictor::Ngrams);
    }
}
