//! Examines a file of labeled texts for faults, and suggests texts to label next.
//!
//! [`examine`] checks every label against n-gram models that have not seen its text. The models come from K folds,
//! assigned several times; equal texts share a fold. Confident learning (Northcutt, Jiang & Chuang 2021) finds the
//! labels that are likely wrong. The number of false alarms among them is estimated, and if nearly all are, none is
//! listed.
//!
//! It also finds equal and nearly equal texts, texts in both test and training file, and rows without a text or a
//! label. Rare scripts, broken encodings and unusual lengths are reported too. From unlabeled texts it selects those
//! that the models are least certain of.
//!
//! The same rows, options and build give the same results, for any number of threads.
//!
//! # Files
//!
//! - `annotation`: texts to label next
//! - `confident_learning`: confident learning
//! - `duplicates`: equal and nearly equal texts
//! - `encoding`: encoding faults
//! - `false_alarms`: estimate of false alarms
//! - `findings`: one line for each finding
//! - `input`: the input files
//! - `json`: findings as JSON
//! - `label_issues`: likely wrong labels
//! - `lengths`: unusual lengths
//! - `odd_labels`: odd labels
//! - `out_of_fold`: out-of-fold probabilities
//! - `scripts`: unusual scripts
//! - `shingles`: near-duplicate search

mod annotation;
mod confident_learning;
mod duplicates;
mod encoding;
mod false_alarms;
mod findings;
mod input;
mod json;
mod label_issues;
mod lengths;
mod odd_labels;
mod out_of_fold;
mod scripts;
mod shingles;

pub(crate) use annotation::AnnotationCandidate;
pub(crate) use duplicates::{DuplicateGroup, TestLeak};
pub use findings::{Finding, FindingFile, FindingKind};
pub use input::{DoctorInput, DoctorTexts};
pub use label_issues::{LabelIssue, LabelNoise, PairNoise};
pub(crate) use odd_labels::OddLabel;

use crate::data::{Example, label_key};
use crate::row::{AsRow, RowRef};
use crate::{Result, sorting, tr};
use out_of_fold::OutOfFoldModels;
use shingles::{Shingling, near_pairs};

/// Options of an examination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorOptions {
    /// Number of folds; a model trained on all other folds checks each fold. At least 2.
    pub folds: usize,
    /// How often the rows are divided into folds. A row's log-probabilities are the mean over all rounds, since a
    /// single division depends on luck.
    pub(crate) rounds: usize,
    /// Seed of the folds.
    pub seed: u64,
    /// Maximum number of unlabeled texts to select.
    pub(crate) num_candidates: usize,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        DoctorOptions { folds: 5, rounds: 3, seed: 42, num_candidates: 100 }
    }
}

/// A fault in the text of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextFault {
    /// The row, from 0.
    pub row: usize,
    kind: TextFaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TextFaultKind {
    Script(scripts::ScriptFault),
    Encoding(encoding::EncodingFault),
    Length(lengths::LengthFault),
}

/// The results of an examination. Rows are numbered from 0, in the order of their file.
#[derive(Clone, Debug)]
pub struct DoctorReport {
    /// The classes; labels are indices into this list.
    pub labels: Vec<String>,
    /// The label of each row.
    pub(crate) row_labels: Vec<u32>,
    /// Labels that are likely wrong, the most suspicious first; empty if models are [too weak](LabelNoise::is_weak).
    pub label_issues: Vec<LabelIssue>,
    /// All rows whose label could be checked, the most suspicious first.
    pub(crate) ranking: Vec<usize>,
    /// The estimated label noise.
    pub noise: LabelNoise,
    /// Labels with a single text, and labels that nearly match another label.
    pub(crate) odd_labels: Vec<OddLabel>,
    /// Groups of equal and nearly equal texts, ordered by their first rows.
    pub(crate) duplicate_groups: Vec<DuplicateGroup>,
    /// Rows of the test file whose text is also in the training file, in the order of the test file.
    pub(crate) leaks: Vec<TestLeak>,
    /// Faults of texts, in the order of the rows.
    pub(crate) text_faults: Vec<TextFault>,
    /// Texts to label next, the most informative first.
    pub(crate) candidates: Vec<AnnotationCandidate>,
}

/// Examines labeled texts. `observe` receives a description of each step.
///
/// # Errors
/// If there are too few rows or classes, if the label column does not hold classes, or if memory does not suffice.
pub fn examine(given: &DoctorInput, options: &DoctorOptions, observe: &dyn Fn(&str)) -> Result<DoctorReport> {
    given.dataset.check_trainable()?;
    let labels = given.dataset.labels();
    let of = |example: &Example| labels.binary_search(&example.label).unwrap_or(0) as u32;
    let answers: Vec<u32> = given.dataset.examples.iter().map(of).collect();
    let rows = rows(&given.dataset.examples);
    let texts = texts(&rows);
    observe(&tr!("equal and nearly equal texts", "同じテキストと、よく似たテキスト"));
    let shingling = Shingling::for_texts(&texts);
    let test = given.test.as_ref().map(|test| self::rows(&test.rows)).unwrap_or_default();
    let all = [&rows[..], &test].concat();
    // Sentence pairs that share one text are half equal but may ask something else. Only equal pairs count.
    let are_pairs = rows.first().is_some_and(|row| row.is_pair());
    let near = if are_pairs { Vec::new() } else { near_pairs(&self::texts(&all), shingling) };
    let groups = duplicates::find_groups(&all, &answers, &near);
    let leaks = duplicates::find_leaks(&all, rows.len(), &near);
    let by_others = OutOfFoldModels::fit(&rows, &answers, labels.len(), options, observe)?;
    let odd_labels = odd_labels::find_odd_labels(&labels, &answers, &rows);
    let label_issues::LabelReview { issues: mut doubts, ranking, noise } =
        label_issues::review_labels(&by_others, &rows, &answers, &near, &odd_labels);
    // Another spelling is not another label: it is reported as an odd label.
    let keys: Vec<String> = labels.iter().map(|label| label_key(label)).collect();
    doubts.retain(|doubt| keys[doubt.label as usize] != keys[doubt.likely as usize]);
    let next = match &given.unlabeled {
        None => Vec::new(),
        Some(unlabelled) => {
            observe(&tr!("texts to label next", "次にラベルを付けるテキスト"));
            let unlabelled = self::rows(&unlabelled.rows);
            let probabilities = by_others.predict(&unlabelled);
            annotation::select(&self::texts(&unlabelled), &probabilities, &texts, shingling, options.num_candidates)
        }
    };
    let faults = find_text_faults(&texts);
    Ok(DoctorReport {
        row_labels: answers,
        label_issues: doubts,
        ranking,
        noise,
        odd_labels,
        duplicate_groups: groups,
        leaks,
        text_faults: faults,
        candidates: next,
        labels,
    })
}

fn rows(examples: &[Example]) -> Vec<RowRef<'_>> {
    examples.iter().map(|example| example.text.as_row()).collect()
}

fn texts<'a>(rows: &[RowRef<'a>]) -> Vec<&'a str> {
    rows.iter().map(|row| row.text()).collect()
}

/// Finds faults of encoding, script and length.
fn find_text_faults(texts: &[&str]) -> Vec<TextFault> {
    let broken = texts.iter().enumerate().filter_map(|(row, text)| Some((row, encoding::EncodingFault::detect(text)?)));
    let mut faults: Vec<TextFault> =
        broken.map(|(row, what)| TextFault { row, kind: TextFaultKind::Encoding(what) }).collect();
    let broken: Vec<usize> = faults.iter().map(|fault| fault.row).collect();
    // Broken encodings produce letters of arbitrary scripts.
    let odd = scripts::odd_scripts(texts).into_iter().filter(|(row, _)| broken.binary_search(row).is_err());
    faults.extend(odd.map(|(row, what)| TextFault { row, kind: TextFaultKind::Script(what) }));
    faults.extend(
        lengths::odd_lengths(texts).into_iter().map(|(row, what)| TextFault { row, kind: TextFaultKind::Length(what) }),
    );
    sorting::sort_by_key(&mut faults, |fault| fault.row);
    faults
}
