//! Reports of taggers.

use super::{align_right, fit, percent};
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku::train::{SpanScore, SpanScores};

fn score_row(name: &str, score: &SpanScore) -> String {
    let [p, r, f] = [score.precision, score.recall, score.f1].map(|x| align_right(&percent(x), 9));
    let spans = align_right(&format_thousands(score.spans), 7);
    format!("{} {p} {r} {f} {spans}", fit(name, 30))
}

fn header_row() -> String {
    let names = match lang() {
        chumoku::Lang::En => ["precision", "recall", "F1"],
        chumoku::Lang::Ja => ["適合率", "再現率", "F1"],
    };
    let spans = align_right(lang().pick("spans", "スパン"), 7);
    format!("{:30} {} {spans}", "", names.map(|name| align_right(name, 9)).join(" "))
}

/// Formats a row for each predictor.
pub(crate) fn comparison(rows: &[(&str, &SpanScores)]) -> String {
    let mut out = header_row() + "\n";
    rows.iter().for_each(|(name, scores)| out += &(score_row(name, &scores.all) + "\n"));
    let [low, high] = rows[0].1.f1_interval.map(percent);
    out + &tr!("95 % interval of F1: {low} to {high}\n", "F1 の 95 % 区間: {low}〜{high}\n")
}

/// Formats a row for each kind of span.
pub(crate) fn kind_table(scores: &SpanScores) -> String {
    let mut out = header_row() + "\n";
    scores.kinds.iter().for_each(|kind| out += &(score_row(&kind.label, kind) + "\n"));
    out
}
