//! Training a classifier of one's own further: from its weights and tokens, on its own rows again and on new ones.
//!
//! A network that learns from new rows alone forgets the old ones (McCloskey and Cohen, "Catastrophic interference in connectionist
//! networks", 1989), so the old rows are learnt with the new ones (rehearsal: Robins, "Catastrophic forgetting, rehearsal and
//! pseudorehearsal", 1995).

use super::{Further, Plan, Shape, Source, TrainingData};
use crate::data::{Dataset, normalise};
use crate::lang::wording::{count, listed};
use crate::params::{Layout, Params};
use crate::scoring::Rows;
use crate::text_classifier::TextClassifier;
use crate::{Error, Result, tr};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Names of the rows that are compared: held out when the old model was trained, or now.
pub const OLD_VALID: &str = "old_valid";
/// As [`OLD_VALID`].
pub const OLD_TEST: &str = "old_test";
/// As [`OLD_VALID`].
pub const NEW_VALID: &str = "new_valid";
/// As [`OLD_VALID`].
pub const NEW_TEST: &str = "new_test";

/// A source and its files, as they are read.
#[derive(Debug)]
#[non_exhaustive]
pub struct SourceData {
    /// What is remembered of them; nothing of data that came through a pipe.
    pub source: Option<Source>,
    /// The training file.
    pub train: Dataset,
    /// The validation file, if there is one.
    pub valid: Option<Dataset>,
    /// The test file, if there is one.
    pub test: Option<Dataset>,
}

impl SourceData {
    /// Files as they were read.
    pub fn new(source: Option<Source>, train: Dataset, [valid, test]: [Option<Dataset>; 2]) -> SourceData {
        SourceData { source, train, valid, test }
    }
}

impl TrainingData {
    /// What a classifier of the classes `known` is trained further on: its `old` rows, in the parts that they were in, and those of
    /// `new` files, split as [`TrainingData::new`] does. New classes are added. New rows that are among the old ones stay
    /// out.
    ///
    /// Unless it `replays` them, old rows are compared on and nothing else.
    ///
    /// # Errors
    /// If no new row is left to train on, or a label occurs only in a validation or test file.
    pub fn further(
        known: &[String],
        old: Option<&TrainingData>,
        new: &SourceData,
        replays: bool,
    ) -> Result<TrainingData> {
        let mut labels = [known, &new.train.labels()].concat();
        labels.extend(old.iter().flat_map(|old| old.labels.iter().cloned()));
        labels.sort();
        labels.dedup();
        let parts = TrainingData::in_parts(&new.train, [new.valid.as_ref(), new.test.as_ref()], labels)?;
        let labels = &parts.labels;
        let of_old =
            old.map(|old| [&old.train, &old.valid, &old.test].map(|rows| renumbered(rows, &old.labels, labels)));
        let [old_train, old_valid, old_test] = of_old.unwrap_or_default();
        let found = [parts.train, parts.valid, parts.test];
        let rows: usize = found.iter().map(Rows::len).sum();
        let [train, valid, test] = without([&old_train, &old_valid, &old_test], found);
        let (mut notes, left_out) = (parts.notes, rows - train.len() - valid.len() - test.len());
        if left_out > 0 {
            let rows = count(left_out as u64, "row");
            notes.push(tr!(
                "{rows} left out of the new data, for texts that are among the old rows",
                "新しいデータのうち {left_out} 行は、テキストが元のデータにあるため除きました"
            ));
        }
        if train.is_empty() {
            let path = new.train.path.display();
            return Err(Error::Setting(tr!(
                "{path}: expected new rows to train on, found only such as the model was trained or tested on; give others",
                "{path}: 新しい学習用の行が必要ですが、元のデータにある行しかありません。ほかのデータを指定してください"
            )));
        }
        let mut compared = vec![
            (OLD_VALID, old_valid.clone()),
            (OLD_TEST, old_test.clone()),
            (NEW_VALID, valid.clone()),
            (NEW_TEST, test.clone()),
        ];
        compared.retain(|(_, rows)| !rows.is_empty());
        let mut sources: Option<Vec<Source>> = new.source.clone().map(|source| vec![source]);
        let [train, valid, test] = match replays {
            false => [train, valid, test],
            true => {
                if let Some(old) = old {
                    // Where some rows cannot be found again, no list of the others would do.
                    sources = sources.filter(|_| !old.sources.is_empty()).map(|new| [&old.sources[..], &new].concat());
                }
                [(old_train, train), (old_valid, valid), (old_test, test)].map(joined)
            }
        };
        let mut learnt = vec![false; labels.len()];
        train.labels.iter().for_each(|&label| learnt[label as usize] = true);
        let bare: Vec<&String> =
            labels.iter().zip(learnt).filter(|(_, learnt)| !learnt).map(|(label, _)| label).collect();
        if !bare.is_empty() {
            let (bare, n) = (listed(&bare), bare.len());
            notes.push(tr!(
                "warning: no row to train on of {bare} ({n} in all): the model may forget what it knows of them",
                "警告: {n} クラスに学習用の行がなく、モデルはそれらを忘れるかもしれません: {bare}"
            ));
        }
        let (sources, further) = (sources.unwrap_or_default(), Some(Further { replays, compared }));
        let labels = parts.labels;
        TrainingData { labels, train, valid, test, notes, sources, further, ..TrainingData::default() }.checked()
    }
}

/// Rows with their classes numbered as in `labels`, which has all of `old`.
fn renumbered(rows: &Rows, old: &[String], labels: &[String]) -> Rows {
    let numbers: HashMap<&str, u32> = labels.iter().map(String::as_str).zip(0..).collect();
    let of_row = |&label: &u32| numbers[old[label as usize].as_str()];
    Rows { texts: rows.texts.clone(), labels: rows.labels.iter().map(of_row).collect() }
}

fn joined((mut first, second): (Rows, Rows)) -> Rows {
    first.texts.extend(second.texts);
    first.labels.extend(second.labels);
    first
}

/// New rows, in their parts, that are not among the old ones: a text that was held out is not trained on, one that was trained on is
/// not held out, and a row that is there already is not counted twice. An old text of training may come with another class.
fn without(old: [&Rows; 3], new: [Rows; 3]) -> [Rows; 3] {
    let texts = |rows: &Rows| -> HashSet<String> { rows.texts.iter().map(|text| normalise(text)).collect() };
    let [trained, valid, test] = old.map(texts);
    let (held, all) = (&valid | &test, &(&trained | &valid) | &test);
    let rows: HashSet<(String, u32)> =
        old[0].texts.iter().map(|text| normalise(text)).zip(old[0].labels.iter().copied()).collect();
    let kept = |new: Rows, is_new: &dyn Fn(String, u32) -> bool| {
        let kept = new.texts.into_iter().zip(new.labels).filter(|(text, label)| is_new(normalise(text), *label));
        let (texts, labels) = kept.unzip();
        Rows { texts, labels }
    };
    let [train, valid, test] = new;
    let is_unseen = |text: String, _| !all.contains(&text);
    [
        kept(train, &|text, label| !held.contains(&text) && !rows.contains(&(text, label))),
        kept(valid, &is_unseen),
        kept(test, &is_unseen),
    ]
}

/// The plan for training a network further: its sizes as they are, smaller steps and fewer passes than from scratch, for it begins
/// where an earlier run ended.
pub(super) fn plan(before: &TextClassifier, shape: &Shape<'_>) -> Plan {
    const RATE: f64 = 0.3;
    let mut plan = Plan::new(shape);
    plan.model = before.config.model.clone();
    plan.model.num_classes = shape.class_rows.len();
    let settings = &mut plan.settings;
    settings.learning_rate *= RATE;
    settings.epochs = (settings.epochs / 2).max(4);
    settings.patience = (settings.epochs / 3).max(6);
    settings.batch_tokens = settings.batch_tokens.max(plan.model.max_length);
    plan
}

/// The weights that training begins with: those of the model, in the last layer too for the classes that it knows.
pub(super) fn params(before: &TextClassifier, layout: &Arc<Layout>, labels: &[String], seed: u64) -> Params<f32> {
    let mut params = Params::init(layout, seed);
    let known: HashMap<&str, Range<usize>> =
        before.params.layout().iter().map(|(name, _, range)| (name, range)).collect();
    let old = before.params.values();
    for (name, _, range) in layout.iter() {
        let Some(old_range) = known.get(name) else { continue };
        if !matches!(name, "head.weight" | "head.bias") {
            params.values_mut()[range].copy_from_slice(&old[old_range.clone()]);
            continue;
        }
        // A row of numbers for each class.
        let width = range.len() / labels.len();
        for (class, label) in labels.iter().enumerate() {
            let Some(was) = before.labels().iter().position(|old| old == label) else { continue };
            let [to, from] = [range.start + class * width, old_range.start + was * width];
            params.values_mut()[to..to + width].copy_from_slice(&old[from..from + width]);
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[&str], labels: &[u32]) -> Rows {
        Rows { texts: texts.iter().map(|text| (*text).to_owned()).collect(), labels: labels.to_vec() }
    }

    #[test]
    fn classes_keep_their_rows_under_other_numbers() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let found = renumbered(&rows(&["x", "y"], &[1, 0]), &names(&["b", "d"]), &names(&["a", "b", "c", "d"]));
        assert_eq!((found.texts, found.labels), (names(&["x", "y"]), vec![3, 1]));
    }

    #[test]
    fn no_text_is_learnt_from_and_held_out() {
        let old = [&rows(&["a", "b"], &[0, 1]), &rows(&["v"], &[0]), &rows(&["t"], &[1])];
        let new = [
            rows(&["A", "b", "v", "T", "n"], &[0, 0, 0, 1, 1]),
            rows(&["a", "v", "m"], &[0, 0, 1]),
            rows(&["b", "t", "o"], &[1, 1, 0]),
        ];
        let [train, valid, test] = without(old, new);
        // Of training, b has another class now.
        assert_eq!((train.texts, train.labels), (vec!["b".to_owned(), "n".to_owned()], vec![0, 1]));
        assert_eq!((valid.texts, test.texts), (vec!["m".to_owned()], vec!["o".to_owned()]));
    }
}
