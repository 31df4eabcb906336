//! The picture of time against length.

use super::{Compared, Comparison, StepTime};
use crate::lang::lang;
use crate::nn::PositionKind;
use crate::tr;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
// The plot's edges.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 384.0;
/// Least distance of the names beside the lines' ends.
const LINE_HEIGHT: f64 = 18.0;
/// Colours that are told apart by those who see fewer (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#a2478b"];

/// From a number to its place, both axes in powers.
struct Axis {
    from: [f64; 2],
    to: [f64; 2],
}

impl Axis {
    fn place(&self, x: f64) -> f64 {
        let [low, high] = self.from.map(f64::ln);
        self.to[0] + (x.ln() - low) / (high - low) * (self.to[1] - self.to[0])
    }
}

/// A line chart as SVG: milliseconds of a training step against the length of its sequences, both in powers, so that a
/// time that grows linearly is a straight line of one slope.
///
/// Each point says its numbers (`<title>`).
///
/// Learned positions, whose times are those of sinusoidal ones, are left out.
pub fn to_svg(comparison: &Comparison) -> String {
    let models: Vec<&Compared> =
        comparison.models.iter().filter(|m| m.position != PositionKind::Learned && !m.steps.is_empty()).collect();
    let steps = || models.iter().flat_map(|model| &model.steps);
    let extent = |of: &dyn Fn(&StepTime) -> f64| {
        steps().map(of).fold([f64::INFINITY, 0.0f64], |[low, high], x| [low.min(x), high.max(x)])
    };
    let [short, long] = extent(&|s| s.length as f64);
    let (fast, slow) = (extent(&|s| s.min_ms)[0], extent(&|s| s.max_ms)[1]);
    let ticks = ticks(fast, slow);
    let low = ticks.first().map_or(1.0, |tick| tick.min(fast));
    let high = ticks.last().map_or(10.0, |tick| tick.max(slow));
    let x = Axis { from: [short, long.max(short * 1.001)], to: [LEFT, RIGHT] };
    let y = Axis { from: [low, high.max(low * 1.001)], to: [BOTTOM, TOP] };

    let title = tr!(
        "Time of a training step against the length of its sequences",
        "系列の長さに対する、学習の 1 ステップの時間"
    );
    let heading = tr!("Time of a training step by length", "長さごとの、学習の 1 ステップの時間");
    let explained = tr!(
        "milliseconds (median, bars from the shortest to the longest run), {} sequences, {}, {} threads",
        "ミリ秒（中央値。縦棒は最短から最長まで）、{} 系列、{}、{} スレッド",
        comparison.batch,
        comparison.isa,
        comparison.threads
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\" font-weight=\"600\" fill=\"#1a1a1a\">{heading}</text>\n\
         <text x=\"{LEFT}\" y=\"48\" fill=\"#555555\">{explained}</text>\n"
    );
    draw_axes(&mut svg, [&x, &y], &ticks, models.first().map_or(&[][..], |model| &model.steps));
    let ends = models.iter().map(|model| model.steps.last().map_or(BOTTOM, |step| y.place(step.median_ms)));
    let labels = spread(ends.collect());
    for ((model, label), colour) in models.iter().zip(labels).zip(COLOURS.iter().cycle()) {
        draw_model(&mut svg, [&x, &y], model, colour, label);
    }
    svg + "</svg>\n"
}

/// The lines and numbers of both axes, with a mark for the length of each step.
fn draw_axes(svg: &mut String, [x, y]: [&Axis; 2], ticks: &[f64], steps: &[StepTime]) {
    for tick in ticks {
        let at = y.place(*tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555555\">{tick}</text>",
            LEFT - 8.0,
            at + 4.5
        );
    }
    for step in steps {
        let at = x.place(step.length as f64);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\" stroke=\"#999999\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>",
            BOTTOM + 5.0,
            BOTTOM + 21.0,
            step.length
        );
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\" stroke=\"#999999\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 44.0,
        lang().pick("tokens in a sequence", "系列のトークン数")
    );
}

/// The curve of a model, the spread and the median of each length, and its name at height `label`.
fn draw_model(svg: &mut String, [x, y]: [&Axis; 2], model: &Compared, colour: &str, label: f64) {
    let places = model.steps.iter().map(|s| format!("{:.1},{:.1}", x.place(s.length as f64), y.place(s.median_ms)));
    let places: Vec<String> = places.collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-linejoin=\"round\"/>",
        places.join(" ")
    );
    for step in &model.steps {
        let at = x.place(step.length as f64);
        let _ = writeln!(
            svg,
            "<line class=\"spread\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-opacity=\"0.5\" stroke-width=\"1.5\"><title>{}</title></line>",
            y.place(step.min_ms),
            y.place(step.max_ms),
            tr!(
                "{}, length {}: {:.3} to {:.3} ms in {} runs",
                "{}、長さ {}: {:.3} から {:.3} ms（{} 回）",
                model.name(),
                step.length,
                step.min_ms,
                step.max_ms,
                step.runs
            )
        );
    }
    for step in &model.steps {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"><title>{}</title></circle>",
            x.place(step.length as f64),
            y.place(step.median_ms),
            tr!("{}, length {}: {:.3} ms", "{}、長さ {}: {:.3} ms", model.name(), step.length, step.median_ms)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\" font-weight=\"600\">{}</text>",
        RIGHT + 12.0,
        label + 4.5,
        model.name()
    );
}

/// 1, 2 and 5 times the powers of ten from the last below `low` to the first above `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    if !(0.0 < low && low <= high && high.is_finite()) {
        return Vec::new();
    }
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    // By way of the text: ten to a negative power is not exact.
    let all = powers.flat_map(|p| [1, 2, 5].map(|n| format!("{n}e{p}").parse().unwrap_or(1.0)));
    let all: Vec<f64> = all.collect();
    let first = all.iter().rposition(|&tick| tick <= low).unwrap_or(0);
    let last = all.iter().position(|&tick| tick >= high).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// Places of names, moved apart where they would overlap, in the order given.
fn spread(places: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
    let mut moved = places;
    // A few rounds of pushing neighbours apart, half of what is missing each.
    for _ in 0..50 {
        for pair in order.windows(2) {
            let missing = LINE_HEIGHT - (moved[pair[1]] - moved[pair[0]]);
            if missing > 0.0 {
                moved[pair[0]] -= missing / 2.0;
                moved[pair[1]] += missing / 2.0;
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::Network;
    use chumoku_kernels::Cell;

    #[test]
    fn ticks_enclose_what_is_shown() {
        assert_eq!(ticks(3.0, 180.0), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(ticks(0.02, 0.1), [0.02, 0.05, 0.1]);
        assert!(ticks(f64::INFINITY, 0.0).is_empty());
    }

    #[test]
    fn every_point_says_its_numbers_and_lies_where_they_say() {
        let step = |length, ms| crate::compare::StepTime::of(length, vec![0.9 * ms, ms, 1.2 * ms]);
        let model = |network, position, times: [f64; 3]| Compared {
            network,
            position,
            sizes: crate::compare::Said::default(),
            width: 128,
            parameters: 1,
            accuracy: 1.0,
            macro_f1: 1.0,
            macro_f1_interval: [1.0; 2],
            epochs: 1,
            training_seconds: 1.0,
            steps: [32, 64, 128].into_iter().zip(times).map(|(length, ms)| step(length, ms)).collect(),
            growth: None,
            right: vec![],
        };
        let comparison = Comparison {
            models: vec![
                model(Network::Transformer, PositionKind::Sinusoidal, [3.0, 6.0, 12.0]),
                model(Network::Transformer, PositionKind::Learned, [77.0; 3]),
                model(Network::Recurrent(Cell::Lstm), PositionKind::None, [2.5, 5.25, 13.125]),
            ],
            batch: 32,
            rows: 1,
            scored_on: "test".into(),
            seed: 1,
            precision: "medium",
            isa: "scalar",
            threads: 2,
            article: crate::compare::Article {
                lstm_parameters: 1,
                attention_parameters: 1,
                lstm_ms: 1.0,
                attention_ms: 1.0,
                speedup: crate::compare::Spread { low: 1.0, median: 1.0, high: 1.0 },
            },
            claims: vec![],
        };
        let svg = to_svg(&comparison);
        let number = |text: &str, name: &str| -> f64 {
            let start = text.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            text[start..].split('"').next().unwrap().parse().unwrap()
        };
        let mut found: Vec<(String, f64, f64)> = Vec::new();
        for line in svg.lines().filter(|line| line.starts_with("<circle")) {
            let said = line.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            let (name, rest) = said.split_once(", length ").unwrap();
            let (length, ms) = rest.trim_end_matches(" ms").split_once(": ").unwrap();
            let (length, ms): (usize, f64) = (length.parse().unwrap(), ms.parse().unwrap());
            let model = comparison.models.iter().find(|model| model.name() == name).unwrap();
            assert_eq!(model.milliseconds(length), Some(ms), "{said}");
            found.push((said.to_owned(), ms, number(line, "cy")));
            assert!((LEFT..=RIGHT).contains(&number(line, "cx")) && (TOP..=BOTTOM).contains(&number(line, "cy")));
        }
        assert_eq!(found.len(), 6, "{svg}");
        // The bars go from the shortest to the longest run, and are within the plot.
        let bars: Vec<&str> = svg.lines().filter(|line| line.starts_with("<line class=\"spread\"")).collect();
        assert_eq!(bars.len(), 6);
        for bar in bars {
            let said = bar.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            let (name, rest) = said.split_once(", length ").unwrap();
            let (length, rest) = rest.split_once(": ").unwrap();
            let model = comparison.models.iter().find(|model| model.name() == name).unwrap();
            let step = model.steps.iter().find(|step| step.length.to_string() == length).unwrap();
            assert_eq!(rest, format!("{:.3} to {:.3} ms in 3 runs", step.min_ms, step.max_ms));
            let [low, high] = ["y1", "y2"].map(|name| number(bar, name));
            assert!(TOP <= high && high < low && low <= BOTTOM, "{bar}");
            // Equal ratios are equal distances.
            let [unit, ms] = [found[0].2 - found[1].2, (found[1].1 / found[0].1).ln()];
            assert!(((low - high) / unit - (1.2f64 / 0.9).ln() / ms).abs() < 0.02, "{bar}");
        }
        // Equal ratios are equal distances, and longer times lie higher.
        assert!((found[0].2 - found[1].2 - (found[1].2 - found[2].2)).abs() < 0.2);
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        assert!(found.windows(2).all(|pair| pair[1].2 < pair[0].2), "{found:?}");
        assert!(!svg.contains("77"), "learned positions are left out");
    }

    #[test]
    fn names_do_not_overlap() {
        let moved = spread(vec![100.0, 101.0, 300.0, 99.0]);
        assert!((moved[0] - moved[3]).abs() > LINE_HEIGHT - 0.1 && (moved[1] - moved[0]).abs() > LINE_HEIGHT - 0.1);
        assert!(moved[3] < moved[0] && moved[0] < moved[1] && moved[2] == 300.0);
    }
}
