//! The risk–coverage curve of a file: the error rate if only the most confident answers are given.

use crate::progress::pluralize;
use crate::report::training::this_model;
use chumoku::data::{Dataset, format_thousands};
use chumoku::lang::lang;
use chumoku::{Prediction, risks_by_coverage, tr};
use chumoku_view::{Content, Curves, Figure, FigureAxis};

/// Draws the curves of the model and, if it has two, of its ensemble members.
pub(super) fn figure(dataset: &Dataset, labels: &[String], predictions: &[Prediction]) -> Figure {
    let mut rows: [Vec<(f32, bool)>; 3] = Default::default();
    for (example, prediction) in dataset.examples.iter().zip(predictions) {
        let Some(label) = labels.iter().position(|label| *label == example.label) else { continue };
        for (rows, row) in rows.iter_mut().zip(prediction.member_confidences(label)) {
            rows.extend(row);
        }
    }
    let names =
        [this_model(), lang().pick("network alone", "ネットワーク単独"), lang().pick("n-grams alone", "n-gram 単独")];
    let num_series = if rows.iter().all(|rows| !rows.is_empty()) { 3 } else { 1 };
    let series = names.iter().zip(&rows).take(num_series);
    let series: Vec<(String, Vec<f32>)> = series
        .map(|(name, rows)| {
            ((*name).to_owned(), risks_by_coverage(rows).into_iter().map(|risk| 100.0 * risk).collect())
        })
        .collect();
    let points = series[0].1.len();
    let (n, rows) = (format_thousands(rows[0].len()), pluralize(rows[0].len(), "row"));
    Figure {
        title: tr!("Wrong answers if only the most confident are given", "確信の高い答えだけを返すときの誤り"),
        subtitle: tr!(
            "{rows}, by decreasing probability of the answer: the risk–coverage curve",
            "{n} 行を、答えの確率が高い順に。リスク・カバレッジ曲線"
        ),
        notes: Vec::new(),
        content: Content::Curves(Curves {
            x: FigureAxis {
                name: tr!("answered, % of the rows", "答える行の割合（%）"),
                labels: (1..=points).map(|part| part.to_string()).collect(),
                is_numbered: false,
            },
            y: tr!("wrong, % of the answers", "答えのうちの誤り（%）"),
            series,
            is_logarithmic: false,
            spread: Vec::new(),
            between: Vec::new(),
        }),
        lang: lang(),
    }
}
