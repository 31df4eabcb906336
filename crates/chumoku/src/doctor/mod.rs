//! What is wrong with a file of labelled texts, and what to label next.
//!
//! [`examine`] judges every label by n-gram models that have not seen its text (K folds, dealt several times; equal texts share a fold), and finds
//! those that are likely wrong by confident learning (Northcutt, Jiang & Chuang 2021). It estimates how many of these are false
//! alarms, and lists none where nearly all are. Beside that it looks for
//! equal and nearly equal texts, texts that a test file shares with the training file, rows without a text or a label,
//! scripts that few texts have, broken encodings, and lengths far from the rest. Of unlabelled texts it chooses those of
//! which the models are least sure.
//!
//! The same rows, options and build give the same results, for any number of threads.
//!
//! # Files
//!
//! - `alarms`: estimate of false alarms
//! - `confident`: confident learning
//! - `duplicates`: equal and nearly equal texts
//! - `encoding`: traces of wrong encodings
//! - `findings`: one line for each finding
//! - `given`: the data to examine
//! - `json`: findings as JSON
//! - `lengths`: unusual lengths
//! - `names`: unusual labels
//! - `next`: rows to label next
//! - `out_of_fold`: out-of-fold probabilities
//! - `scripts`: unusual scripts
//! - `shingles`: near-duplicate search
//! - `wrong`: likely wrong labels

mod alarms;
mod confident;
mod duplicates;
mod encoding;
mod findings;
mod given;
mod json;
mod lengths;
mod names;
mod next;
mod out_of_fold;
mod scripts;
mod shingles;
mod wrong;

pub use duplicates::{Group, Leak};
pub use findings::{Finding, Kind, Part};
pub use given::{Given, Texts};
pub use names::OddLabel;
pub use next::Next;
pub use wrong::{Doubt, Noise, PairNoise};

use crate::data::{Example, label_key};
use crate::{Result, pair, sorting, tr};
use out_of_fold::OutOfFold;
use shingles::{Shingling, near_pairs};

/// How to examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Parts of the rows, each judged by a model of all others; at least 2.
    pub folds: usize,
    /// How often the rows are dealt into folds; a row's log-probabilities are the mean. One deal alone is luck in part.
    pub rounds: usize,
    /// Decides which rows share a fold.
    pub seed: u64,
    /// Most unlabelled texts to be chosen.
    pub next: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { folds: 5, rounds: 3, seed: 42, next: 100 }
    }
}

/// What is wrong with the text of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// The row, from 0.
    pub row: usize,
    what: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Script(scripts::Oddity),
    Encoding(encoding::Broken),
    Length(lengths::Length),
}

/// What was found. Rows are numbered from 0, in the order of their file.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// The classes; labels are indices into this.
    pub labels: Vec<String>,
    /// The label of each row.
    pub given: Vec<u32>,
    /// Labels that are likely wrong, the most suspicious first; none where the judge is [too weak](Noise::is_weak).
    pub doubts: Vec<Doubt>,
    /// All rows whose label could be judged, the most suspicious first.
    pub ranking: Vec<usize>,
    /// How many labels are likely wrong.
    pub noise: Noise,
    /// Labels of one text alone, and those whose names are nearly those of others.
    pub odd_labels: Vec<OddLabel>,
    /// Equal and nearly equal texts, in the order of their first rows.
    pub groups: Vec<Group>,
    /// Rows of the test file whose text is in this one, in the order of the test file.
    pub leaks: Vec<Leak>,
    /// What is wrong with texts, in the order of the rows.
    pub faults: Vec<TextFault>,
    /// What to label next, the most telling first.
    pub next: Vec<Next>,
}

/// Examines labelled texts. `observe` is told what is being done.
///
/// # Errors
/// If there are too few rows or classes, or the label column holds no classes; if memory does not suffice.
pub fn examine(given: &Given, options: &Options, observe: &dyn Fn(&str)) -> Result<Checkup> {
    given.dataset.check_trainable()?;
    let labels = given.dataset.labels();
    let of = |example: &Example| labels.binary_search(&example.label).unwrap_or(0) as u32;
    let answers: Vec<u32> = given.dataset.examples.iter().map(of).collect();
    let texts = texts_of(&given.dataset.examples);
    observe(&tr!("equal and nearly equal texts", "同じテキストと、よく似たテキスト"));
    let shingling = Shingling::of(&texts);
    let test = given.test.as_ref().map(|test| texts_of(&test.rows)).unwrap_or_default();
    let all = [&texts[..], &test].concat();
    // Pairs that share a text are alike in half of what they say, and may differ in what is asked: only equal ones count.
    let are_pairs = texts.first().is_some_and(|text| pair::split(text).is_some());
    let near = if are_pairs { Vec::new() } else { near_pairs(&all, shingling) };
    let groups = duplicates::groups(&all, &answers, &near);
    let leaks = duplicates::leaks(&all, texts.len(), &near);
    let by_others = OutOfFold::fit(&texts, &answers, labels.len(), options, observe)?;
    let odd_labels = names::odd(&labels, &answers, &texts);
    let wrong::Judged { mut doubts, ranking, noise } = wrong::judge(&by_others, &texts, &answers, &near, &odd_labels);
    // Another spelling is no other label: it is among the odd ones.
    let keys: Vec<String> = labels.iter().map(|label| label_key(label)).collect();
    doubts.retain(|doubt| keys[doubt.label as usize] != keys[doubt.likely as usize]);
    let next = match &given.unlabelled {
        None => Vec::new(),
        Some(unlabelled) => {
            observe(&tr!("what to label next", "次にラベルを付けるテキスト"));
            let unlabelled = texts_of(&unlabelled.rows);
            let probabilities = by_others.of_new(&unlabelled);
            next::choose(&unlabelled, &probabilities, &texts, shingling, options.next)
        }
    };
    let faults = faults(&texts);
    Ok(Checkup { given: answers, doubts, ranking, noise, odd_labels, groups, leaks, faults, next, labels })
}

fn texts_of(examples: &[Example]) -> Vec<&str> {
    examples.iter().map(|example| example.text.as_str()).collect()
}

/// What is wrong with texts as such.
fn faults(texts: &[&str]) -> Vec<TextFault> {
    let broken = texts.iter().enumerate().filter_map(|(row, text)| Some((row, encoding::Broken::find(text)?)));
    let mut faults: Vec<TextFault> = broken.map(|(row, what)| TextFault { row, what: Fault::Encoding(what) }).collect();
    let broken: Vec<usize> = faults.iter().map(|fault| fault.row).collect();
    // What is broken has letters of scripts that nobody wrote.
    let odd = scripts::odd(texts).into_iter().filter(|(row, _)| broken.binary_search(row).is_err());
    faults.extend(odd.map(|(row, what)| TextFault { row, what: Fault::Script(what) }));
    faults.extend(lengths::odd(texts).into_iter().map(|(row, what)| TextFault { row, what: Fault::Length(what) }));
    sorting::sort_by_key(&mut faults, |fault| fault.row);
    faults
}
