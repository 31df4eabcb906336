//! Findings as JSON.

use super::{Checkup, Given, Kind, Part};
use crate::lang::lang;
use serde_json::{Value, json};

/// Rounds to six decimals.
fn number(x: impl Into<f64>) -> f64 {
    (x.into() * 1e6).round() / 1e6
}

impl Checkup {
    /// Returns the report as one JSON object. Rows are given as line numbers (row numbers of a Parquet file), as in
    /// messages.
    pub fn to_json(&self, given: &Given) -> Value {
        let rows = &given.dataset.examples;
        let line = |row: usize| rows[row].line;
        let lines = |of: &[usize]| of.iter().map(|&row| line(row)).collect::<Vec<_>>();
        let label = |label: u32| &self.labels[label as usize];
        let pair = |pair: &super::PairNoise| {
            json!({
                "given": label(pair.given),
                "likely": label(pair.likely),
                "rows": number(pair.rows),
                "share": number(pair.share),
            })
        };
        let doubt = |doubt: &super::Doubt| {
            json!({
                "line": line(doubt.row),
                "text": rows[doubt.row].text,
                "label": label(doubt.label),
                "likely": label(doubt.likely),
                "probability": number(doubt.probability),
                "given_probability": number(doubt.given_probability),
                "ngrams": doubt.ngrams.iter().map(|ngram| json!({ "ngram": ngram.ngram, "effect": number(ngram.effect) })).collect::<Vec<_>>(),
                "contradicted_by": lines(&doubt.contradicted_by),
            })
        };
        let group = |group: &super::Group| {
            let mut labels: Vec<&String> = group.rows.iter().map(|&row| label(self.given[row])).collect();
            labels.sort();
            labels.dedup();
            json!({
                "lines": lines(&group.rows),
                "labels": labels,
                "exact": group.exact,
                "similarity": number(group.similarity),
                "conflict": group.conflict,
            })
        };
        let test = |row: usize| given.test.as_ref().and_then(|test| test.rows.get(row));
        let leak = |leak: &super::Leak| {
            json!({
                "line": test(leak.row).map(|row| row.line),
                "text": test(leak.row).map(|row| &row.text),
                "of": line(leak.of),
                "exact": leak.exact,
                "similarity": number(leak.similarity),
            })
        };
        let unlabelled = |row: usize| given.unlabelled.as_ref().and_then(|unlabelled| unlabelled.rows.get(row));
        let next = |next: &super::Next| {
            json!({
                "line": unlabelled(next.row).map(|row| row.line),
                "text": unlabelled(next.row).map(|row| &row.text),
                "label": label(next.class),
                "probability": number(next.probability),
                "uncertainty": number(next.uncertainty),
            })
        };
        let of_texts = [Kind::OddLabel, Kind::Empty, Kind::NoLabel, Kind::Encoding, Kind::Script, Kind::Length];
        let findings = self.findings(given, lang());
        let others = findings.iter().filter(|found| found.part == Part::Data && of_texts.contains(&found.kind));
        let other = |found: &super::Finding| {
            json!({
                "line": found.line,
                "text": found.text,
                "label": found.label,
                "finding": found.kind.key(),
                "suggestion": found.suggestion,
                "reason": found.reason,
            })
        };
        json!({
            "rows": rows.len() + given.gaps.len(),
            "labels": self.labels,
            "noise": {
                "rows": number(self.noise.rows),
                "share": number(self.noise.share()),
                "judged": self.noise.judged,
                "informed": self.noise.informed,
                "doubted": self.noise.doubted,
                "false_alarms": number(self.noise.false_alarms),
                "weak": self.noise.is_weak,
                "listed_false_alarms": number(self.noise.listed_false_alarms),
                "pairs": self.noise.pairs.iter().map(pair).collect::<Vec<_>>(),
            },
            "wrong_labels": self.doubts.iter().map(doubt).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "leaks": self.leaks.iter().map(leak).collect::<Vec<_>>(),
            "texts": others.map(other).collect::<Vec<_>>(),
            "next": self.next.iter().map(next).collect::<Vec<_>>(),
            "ranking": lines(&self.ranking),
        })
    }
}
