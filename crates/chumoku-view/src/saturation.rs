//! The saturation of softmax as the width of queries and keys grows, with and without the scale 1/√d_k.

use crate::figure::{Content, Curves, Figure, FigureAxis};
use chumoku::lang::Lang;
use chumoku::tr_in;
use chumoku_kernels::Philox;

/// Widths d_k at which softmax is measured.
pub const SATURATION_WIDTHS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Keys of each query.
const KEYS: usize = 16;
/// Queries of each width.
const QUERIES: usize = 256;

/// The mean over the queries of one width.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoftmaxState {
    /// The largest weight of a query.
    pub largest: f64,
    /// The length (Frobenius norm) of softmax's Jacobian, diag(a) − aᵀ a. Gradients of queries and keys are
    /// proportional to it.
    pub jacobian: f64,
}

/// Softmax of scores of random queries and keys, whose numbers have the mean 0 and the variance 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// For each of [`SATURATION_WIDTHS`]: without a scale, and scaled by 1/√d_k.
    pub states: Vec<[SoftmaxState; 2]>,
}

impl Saturation {
    /// Measures softmax on queries and keys drawn with `seed`.
    #[must_use]
    pub fn measure(seed: u64) -> Saturation {
        let state = |(stream, width): (usize, &usize)| {
            let random = Philox::new(seed, stream as u64);
            let mut count = 0;
            let mut normal = || {
                count += 1;
                f64::from(random.normal(count))
            };
            let mut means = [SoftmaxState::default(); 2];
            for _ in 0..QUERIES {
                let query: Vec<f64> = (0..*width).map(|_| normal()).collect();
                let scores: Vec<f64> = (0..KEYS).map(|_| query.iter().map(|x| x * normal()).sum()).collect();
                for (mean, scale) in means.iter_mut().zip([1.0, 1.0 / (*width as f64).sqrt()]) {
                    let SoftmaxState { largest, jacobian } = state_of(&scores, scale);
                    mean.largest += largest / QUERIES as f64;
                    mean.jacobian += jacobian / QUERIES as f64;
                }
            }
            means
        };
        Saturation { states: SATURATION_WIDTHS.iter().enumerate().map(state).collect() }
    }

    /// The figure: the largest weight and the length of the Jacobian by d_k, with and without the scale.
    #[must_use]
    pub fn figure(&self, lang: Lang) -> Figure {
        let series = |name: (&str, &str), which: usize, number: fn(&SoftmaxState) -> f64| {
            let numbers = self.states.iter().map(|states| number(&states[which]) as f32);
            (lang.pick(name.0, name.1).to_owned(), numbers.collect::<Vec<f32>>())
        };
        let curves = Curves {
            x: FigureAxis {
                name: "d_k".into(),
                labels: SATURATION_WIDTHS.iter().map(usize::to_string).collect(),
                is_numbered: false,
            },
            y: lang.pick("mean over the queries", "クエリについての平均").into(),
            series: vec![
                // Short enough for all columns to fit in a terminal.
                series(("weight, unscaled", "重み（そのまま）"), 0, |state| state.largest),
                series(("weight, scaled", "重み（1/√d_k）"), 1, |state| state.largest),
                series(("gradient, unscaled", "勾配（そのまま）"), 0, |state| state.jacobian),
                series(("gradient, scaled", "勾配（1/√d_k）"), 1, |state| state.jacobian),
            ],
            between: Vec::new(),
            is_logarithmic: false,
            spread: Vec::new(),
        };
        let subtitle = tr_in!(
            "{QUERIES} random queries with {KEYS} keys each; numbers of mean 0 and variance 1",
            "乱数のクエリ {QUERIES} 個、キーは {KEYS} 個ずつ（各要素は平均 0、分散 1）",
            lang
        );
        let note = lang.pick(
            "d_k is the width of queries and keys. The weight is the largest of a query, and the gradient the length of \
             softmax’s Jacobian. Scaled scores are multiplied by 1/√d_k.",
            "d_k はクエリとキーの幅。重みはクエリごとの最大の重み、勾配は softmax のヤコビ行列の大きさ。「1/√d_k」はスコアを 1/√d_k 倍したもの、\
             「そのまま」はスケーリングしないもの。",
        );
        Figure {
            title: lang
                .pick(
                    "Softmax saturates as d_k grows, unless scores are scaled",
                    "d_k が大きいと、スケーリングしない softmax は飽和する",
                )
                .into(),
            subtitle,
            notes: vec![note.to_owned()],
            content: Content::Curves(curves),
            lang,
        }
    }
}

/// Computes the softmax of one query.
fn state_of(scores: &[f64], scale: f64) -> SoftmaxState {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = scores.iter().map(|x| (scale * (x - most)).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    let weights: Vec<f64> = exponentials.iter().map(|e| e / sum).collect();
    let entry = |i: usize, j: usize| f64::from(u8::from(i == j)) * weights[i] - weights[i] * weights[j];
    let squares: f64 = (0..weights.len())
        .flat_map(|i| (0..weights.len()).map(move |j| (i, j)))
        .map(|(i, j)| entry(i, j).powi(2))
        .sum();
    SoftmaxState { largest: weights.iter().copied().fold(0.0, f64::max), jacobian: squares.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalOptions;
    use crate::width::display_width;

    #[test]
    fn scores_saturate_only_without_the_scale() {
        let Saturation { states } = Saturation::measure(1);
        let [first, last] = [states[0], states[SATURATION_WIDTHS.len() - 1]];
        assert_eq!(first[0], first[1], "the scale of width 1 is 1");
        let [plain, scaled] = last;
        assert!(plain.largest > 0.95 && plain.jacobian < 0.1, "{plain:?}");
        assert!((0.2..0.5).contains(&scaled.largest) && (0.15..0.35).contains(&scaled.jacobian), "{scaled:?}");
        let of_plain: Vec<f64> = states.iter().map(|states| states[0].largest).collect();
        assert!(of_plain[2..].windows(2).all(|pair| pair[0] < pair[1]), "{of_plain:?}");
        // The variance of q · k is d_k, so that scaled scores vary as much at every width.
        for states in &states[4..] {
            assert!((states[1].largest - scaled.largest).abs() < 0.05, "{states:?}");
        }
    }

    #[test]
    fn the_table_has_all_columns_in_80_columns() {
        let found = Saturation::measure(1);
        for lang in [Lang::En, Lang::Ja] {
            let text = found.figure(lang).to_text(&TerminalOptions { lang, ..TerminalOptions::default() });
            assert!(text.lines().all(|line| display_width(line) <= 80) && !text.contains('…'), "{text}");
            let numbers = [found.states[10][0].largest, found.states[10][1].jacobian].map(|x| format!("{x:.4}"));
            assert!(numbers.iter().all(|x| text.contains(x)), "{text}");
            // A note on columns that do not fit names no flag, because `trace` has others than most commands.
            let narrow = found.figure(lang).to_text(&TerminalOptions { lang, width: 40, ..TerminalOptions::default() });
            assert!(narrow.contains("HTML") && narrow.contains("JSON") && !narrow.contains("--"), "{narrow}");
        }
    }

    #[test]
    fn the_jacobian_of_two_equal_weights_is_known() {
        // diag(1/2, 1/2) − 1/4: entries ±1/4.
        let state = state_of(&[3.0, 3.0], 1.0);
        assert!((state.jacobian - 0.5).abs() < 1e-12 && state.largest == 0.5);
    }
}
