//! The figure of a comparison of networks: the time of a training step by sequence length.

use crate::figure::{Content, Curves, Figure, FigureAxis};
use chumoku::compare::{ComparedNetwork, NetworkComparison};
use chumoku::lang::Lang;
use chumoku::nn::PositionKind;
use chumoku::tr_in;

/// The median time of a training step of each network by length. Both axes are logarithmic; bars span the shortest to
/// the longest run.
///
/// Learned positions are left out: their times equal those of sinusoidal ones.
#[must_use]
pub fn comparison_figure(comparison: &NetworkComparison, lang: Lang) -> Figure {
    let models = comparison.models.iter().filter(|model| model.position != PositionKind::Learned);
    let models: Vec<&ComparedNetwork> = models.filter(|model| !model.steps.is_empty()).collect();
    let steps = models.first().map_or(&[][..], |model| &model.steps);
    let runs = steps.first().map_or(0, |step| step.runs);
    let NetworkComparison { batch, isa, threads, .. } = comparison;
    let median = |model: &ComparedNetwork| model.steps.iter().map(|step| step.median_ms as f32).collect();
    let spread = |model: &&ComparedNetwork| {
        model.steps.iter().map(|step| [step.min_ms, step.max_ms].map(|ms| ms as f32)).collect()
    };
    let curves = Curves {
        // Each length is twice the previous one, so evenly spaced places form a logarithmic axis.
        x: FigureAxis {
            name: lang.pick("tokens in a sequence", "系列のトークン数").into(),
            labels: steps.iter().map(|step| step.length.to_string()).collect(),
            is_numbered: false,
        },
        y: lang.pick("milliseconds (logarithmic)", "ミリ秒（対数目盛）").into(),
        series: models.iter().map(|model| (model.name(), median(model))).collect(),
        is_logarithmic: true,
        spread: models.iter().map(spread).collect(),
        between: Vec::new(),
    };
    let subtitle = tr_in!(
        "median of {runs} runs, bars from the shortest to the longest; {batch} sequences, {isa}, {threads} threads",
        "{runs} 回の中央値。縦棒は最短から最長まで。{batch} 系列、{isa}、{threads} スレッド",
        lang
    );
    Figure {
        title: lang.pick("Time of a training step by length", "長さごとの、学習の 1 ステップの時間").into(),
        subtitle,
        notes: Vec::new(),
        content: Content::Curves(curves),
        lang,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::TerminalOptions;
    use chumoku::RecurrentCell;
    use chumoku::compare::{ArticleResults, LocalizedText, MedianInterval, RecurrentLimits, StepTime};
    use chumoku::nn::BackboneKind;

    fn comparison() -> NetworkComparison {
        let step = |(length, ms): (usize, f64)| StepTime {
            length,
            median_ms: ms,
            min_ms: 0.9 * ms,
            max_ms: 1.2 * ms,
            runs: 3,
            all_ms: vec![0.9 * ms, ms, 1.2 * ms],
        };
        let model = |network, position, times: [f64; 3]| ComparedNetwork {
            network,
            position,
            sizes: LocalizedText::default(),
            width: 128,
            parameters: 1,
            accuracy: 1.0,
            macro_f1: 1.0,
            macro_f1_interval: [1.0; 2],
            epochs: 1,
            training_seconds: 1.0,
            steps: [32, 64, 128].into_iter().zip(times).map(step).collect(),
            growth: None,
            is_right: vec![],
        };
        NetworkComparison {
            models: vec![
                model(BackboneKind::Transformer, PositionKind::Sinusoidal, [3.0, 6.0, 12.0]),
                model(BackboneKind::Transformer, PositionKind::Learned, [77.0; 3]),
                model(BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None, [2.5, 5.25, 13.125]),
            ],
            batch: 32,
            rows: 1,
            scored_on: "test".into(),
            seed: 1,
            precision: "medium",
            isa: "scalar",
            threads: 2,
            limits: RecurrentLimits::default(),
            article: ArticleResults {
                lstm_parameters: 1,
                attention_parameters: 1,
                lstm_ms: 1.0,
                attention_ms: 1.0,
                speedup: MedianInterval { low: 1.0, median: 1.0, high: 1.0 },
            },
            claims: vec![],
        }
    }

    fn attribute(element: &str, name: &str) -> f64 {
        let start = element.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        element[start..].split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn points_and_bars_match_the_numbers_in_their_tooltips() {
        let comparison = comparison();
        let scene = comparison_figure(&comparison, Lang::En).scene();
        let svg = scene.to_svg();
        // The height of a number, by two ticks of the axis.
        let tick = |text: &str| {
            let line = svg.lines().find(|line| line.ends_with(&format!(">{text}</text>"))).unwrap();
            attribute(line, "y") - 4.0
        };
        let height = |ms: f64| tick("2") + (tick("20") - tick("2")) * (ms / 2.0).log10();
        let (mut points, mut bars) = (0, 0);
        for line in svg.lines().filter(|line| line.starts_with("<rect") || line.starts_with("<line")) {
            let Some(title) = line.split("<title>").nth(1) else { continue };
            let (name, rest) = title.split_once(", ").unwrap();
            let (length, rest) = rest.split_once(": ").unwrap();
            let numbers = rest.split(['(', ')', '–', ' ', '<']).filter(|part| !part.is_empty()).take(3);
            let [median, least, most]: [f64; 3] =
                numbers.map(|x| x.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
            let model = comparison.models.iter().find(|model| model.name() == name).unwrap();
            let step = model.steps.iter().find(|step| step.length.to_string() == length).unwrap();
            for (found, given) in [(median, step.median_ms), (least, step.min_ms), (most, step.max_ms)] {
                assert!((found - given).abs() < 6e-5, "{title}");
            }
            if line.starts_with("<rect") {
                points += 1;
                let middle = attribute(line, "y") + attribute(line, "height") / 2.0;
                assert!((middle - height(median)).abs() < 0.05, "{line}");
            } else if attribute(line, "x1") == attribute(line, "x2") {
                bars += 1;
                for (name, ms) in [("y1", least), ("y2", most)] {
                    assert!((attribute(line, name) - height(ms)).abs() < 0.05, "{line}");
                }
            }
        }
        assert_eq!((points, bars), (6, 6), "{svg}");
        for text in ["median of 3 runs", "32 sequences, scalar, 2 threads", ">128<", ">LSTM<", ">transformer<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("learned"), "{svg}");
        // The ticks around them, 2.25 to 15.75, leave room for every point.
        assert!(
            tick("2") > height(2.25) && tick("20") < height(15.75) && !svg.contains(">50<") && !svg.contains(">1<")
        );
    }

    #[test]
    fn every_form_shows_the_numbers_in_both_languages() {
        let comparison = comparison();
        let languages = [
            (Lang::En, ["by length", "tokens in a sequence", "milliseconds"]),
            (Lang::Ja, ["長さごと", "系列のトークン数", "ミリ秒"]),
        ];
        for (lang, words) in languages {
            let figure = comparison_figure(&comparison, lang);
            let (svg, text) = (figure.scene().to_svg(), figure.to_text(&TerminalOptions::default()));
            assert!(words.iter().all(|word| svg.contains(word)), "{svg}");
            assert!(text.contains(words[0]) && text.contains("13.1250"), "{text}");
            assert_eq!(figure.tables()[0].rows[2].1[1], "13.1250 (11.8125–15.7500)");
            let json = figure.to_json();
            assert_eq!(json["curves"]["series"][1]["values"][2], 13.125);
            assert_eq!(json["curves"]["series"][1]["spread"][2][1], 15.75);
        }
        // Nothing was timed.
        let empty = NetworkComparison { models: Vec::new(), ..comparison };
        assert!(comparison_figure(&empty, Lang::En).scene().to_svg().contains("median of 0 runs"));
    }
}
