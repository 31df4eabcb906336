//! Findings as JSON.

use super::{DoctorInput, DoctorReport, FindingFile, FindingKind};
use crate::lang::lang;
use serde_json::{Value, json};

/// Rounds to six decimals.
fn round(x: impl Into<f64>) -> f64 {
    (x.into() * 1e6).round() / 1e6
}

impl DoctorReport {
    /// Returns the report as one JSON object. Rows are given as line numbers (row numbers of a Parquet file), as in
    /// messages.
    pub fn to_json(&self, given: &DoctorInput) -> Value {
        let rows = &given.dataset.examples;
        let line = |row: usize| rows[row].line;
        let lines = |of: &[usize]| of.iter().map(|&row| line(row)).collect::<Vec<_>>();
        let label = |label: u32| &self.labels[label as usize];
        let pair = |pair: &super::PairNoise| {
            json!({
                "given": label(pair.given),
                "likely": label(pair.likely),
                "rows": round(pair.rows),
                "share": round(pair.share),
            })
        };
        let doubt = |doubt: &super::LabelIssue| {
            json!({
                "line": line(doubt.row),
                "text": rows[doubt.row].text,
                "label": label(doubt.label),
                "likely": label(doubt.likely),
                "probability": round(doubt.probability),
                "given_probability": round(doubt.given_probability),
                "ngrams": doubt.ngrams.iter().map(|ngram| json!({ "ngram": ngram.ngram, "effect": round(ngram.effect) })).collect::<Vec<_>>(),
                "contradicted_by": lines(&doubt.contradicted_by),
            })
        };
        let group = |group: &super::DuplicateGroup| {
            let mut labels: Vec<&String> = group.rows.iter().map(|&row| label(self.row_labels[row])).collect();
            labels.sort();
            labels.dedup();
            json!({
                "lines": lines(&group.rows),
                "labels": labels,
                "exact": group.is_exact,
                "similarity": round(group.similarity),
                "conflict": group.has_conflict,
            })
        };
        let test = |row: usize| given.test.as_ref().and_then(|test| test.rows.get(row));
        let leak = |leak: &super::TestLeak| {
            json!({
                "line": test(leak.row).map(|row| row.line),
                "text": test(leak.row).map(|row| &row.text),
                "of": line(leak.train_row),
                "exact": leak.is_exact,
                "similarity": round(leak.similarity),
            })
        };
        let unlabelled = |row: usize| given.unlabeled.as_ref().and_then(|unlabelled| unlabelled.rows.get(row));
        let next = |next: &super::AnnotationCandidate| {
            json!({
                "line": unlabelled(next.row).map(|row| row.line),
                "text": unlabelled(next.row).map(|row| &row.text),
                "label": label(next.class),
                "probability": round(next.probability),
                "uncertainty": round(next.uncertainty),
            })
        };
        let of_texts = [
            FindingKind::OddLabel,
            FindingKind::Empty,
            FindingKind::NoLabel,
            FindingKind::Encoding,
            FindingKind::Script,
            FindingKind::Length,
        ];
        let findings = self.findings(given, lang());
        let others = findings.iter().filter(|found| found.file == FindingFile::Data && of_texts.contains(&found.kind));
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
            "rows": rows.len() + given.incomplete.len(),
            "labels": self.labels,
            "noise": {
                "rows": round(self.noise.wrong_rows),
                "share": round(self.noise.share()),
                "judged": self.noise.num_judged,
                "informed": self.noise.is_informed,
                "doubted": self.noise.num_flagged,
                "false_alarms": round(self.noise.false_alarms),
                "weak": self.noise.is_weak,
                "listed_false_alarms": round(self.noise.listed_false_alarms),
                "pairs": self.noise.pairs.iter().map(pair).collect::<Vec<_>>(),
            },
            "wrong_labels": self.label_issues.iter().map(doubt).collect::<Vec<_>>(),
            "groups": self.duplicate_groups.iter().map(group).collect::<Vec<_>>(),
            "leaks": self.leaks.iter().map(leak).collect::<Vec<_>>(),
            "texts": others.map(other).collect::<Vec<_>>(),
            "next": self.candidates.iter().map(next).collect::<Vec<_>>(),
            "ranking": lines(&self.ranking),
        })
    }
}
