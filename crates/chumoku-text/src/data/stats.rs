//! Statistics of a data set.

use std::collections::HashMap;
use std::fmt;

use unicode_segmentation::UnicodeSegmentation;

use super::dataset::Example;
use crate::lang::lang;
use crate::lang::wording::{join_names, quote};
use crate::{sorting, tr};

/// The rows, classes and text lengths of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetStats {
    /// Number of texts.
    pub rows: usize,
    /// The labels with their numbers of rows, the most frequent first, then by name.
    pub classes: Vec<(String, usize)>,
    /// The lengths of the texts.
    pub lengths: TextLengths,
}

/// Text lengths in user-perceived characters (grapheme clusters). All are 0 if there are no texts.
///
/// Percentiles use the nearest rank: the smallest length that this percentage of the texts does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TextLengths {
    /// The shortest length.
    pub min: usize,
    /// The median.
    pub p50: usize,
    /// The 90th percentile.
    pub p90: usize,
    /// The 99th percentile.
    pub p99: usize,
    /// The longest length.
    pub max: usize,
    /// The mean.
    pub mean: f64,
}

impl DatasetStats {
    /// Computes the statistics of the examples.
    pub fn new(examples: &[Example]) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for example in examples {
            *counts.entry(&example.label).or_default() += 1;
        }
        let mut classes: Vec<(String, usize)> = counts.into_iter().map(|(label, n)| (label.to_owned(), n)).collect();
        sorting::sort_by(&mut classes, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        DatasetStats {
            rows: examples.len(),
            classes,
            lengths: TextLengths::new(examples.iter().map(|e| e.text.as_str())),
        }
    }
}

impl TextLengths {
    /// Computes the lengths of texts.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut lengths: Vec<usize> = texts.map(count_graphemes).collect();
        lengths.sort_unstable();
        let Some((&min, &max)) = lengths.first().zip(lengths.last()) else {
            return TextLengths::default();
        };
        let percentile = |percent: usize| lengths[(lengths.len() * percent).div_ceil(100).max(1) - 1];
        TextLengths {
            min,
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            max,
            mean: lengths.iter().sum::<usize>() as f64 / lengths.len() as f64,
        }
    }
}

/// Counts user-perceived characters (grapheme clusters).
fn count_graphemes(text: &str) -> usize {
    // In ASCII, only `\r\n` is one cluster of two bytes.
    if text.is_ascii() { text.len() - text.matches("\r\n").count() } else { text.graphemes(true).count() }
}

impl fmt::Display for DatasetStats {
    /// `6920 rows, 2 classes (“1” 3610, “0” 3310); characters per text: 4 to 267, half up to 99, 90 % up to 188`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 8;
        let TextLengths { min, p50, p90, max, .. } = self.lengths;
        let named: Vec<String> =
            self.classes.iter().take(NAMED).map(|(label, n)| format!("{} {n}", quote(label))).collect();
        let more = if self.classes.len() > NAMED { lang().pick(", …", "、…") } else { "" };
        let (rows, classes, named) = (self.rows, self.classes.len(), join_names(&named));
        f.write_str(&tr!(
            "{rows} rows, {classes} classes ({named}{more}); characters per text: {min} to {max}, half up to {p50}, 90 % \
             up to {p90}",
            "{rows} 行、{classes} クラス（{named}{more}）。テキストの文字数: {min}〜{max}、半数は {p50} 以下、90 % は {p90} 以下"
        ))
    }
}
