//! Texts and their classes.

use super::Judged;
use crate::data::Example;
use std::collections::HashMap;

/// Texts and their classes.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The texts.
    pub texts: Vec<String>,
    /// Each text's class, as an index into the labels.
    pub labels: Vec<u32>,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The texts, borrowed.
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    /// These rows as they were `predicted`; `texts` are theirs.
    pub(crate) fn judged<'a>(&'a self, predicted: &'a [u32], texts: &'a [&'a str]) -> Judged<'a> {
        Judged { truth: &self.labels, predicted, texts }
    }

    /// Rows of examples whose labels are in `labels`; others are left out.
    pub fn of<'a>(examples: impl IntoIterator<Item = &'a Example>, labels: &[String]) -> Rows {
        let numbers: HashMap<&str, u32> = labels.iter().map(String::as_str).zip(0..).collect();
        let known = examples.into_iter().filter_map(|example| {
            let label = *numbers.get(example.label.as_str())?;
            Some((example.text.clone(), label))
        });
        let (texts, labels) = known.unzip();
        Rows { texts, labels }
    }
}
