//! Hashed features of a word or character and its neighbors. They are part of the model file and must never change.

use crate::data::SpanUnit;
use crate::ngram::hash::{finalize, fnv1a};
use std::fmt::Write;
use std::ops::Range;

/// Returns the hashed features of each unit of a text.
pub fn features(text: &str, units: &[Range<usize>], unit: SpanUnit) -> Vec<Vec<u64>> {
    collect_features(text, units, unit, |look| look.hash)
}

/// Returns the same features with descriptions, and the units that each depends on.
pub(crate) fn describe_features(text: &str, units: &[Range<usize>], unit: SpanUnit) -> Vec<Vec<FeatureDescription>> {
    collect_features(text, units, unit, |look| FeatureDescription::new(&look))
}

fn collect_features<T>(
    text: &str,
    units: &[Range<usize>],
    unit: SpanUnit,
    keep: impl Fn(RawFeature<'_>) -> T + Copy,
) -> Vec<Vec<T>> {
    match unit {
        SpanUnit::Words => word_features(text, units, keep),
        SpanUnit::Characters => character_features(text, units, keep),
    }
}

/// A feature before conversion.
struct RawFeature<'a> {
    hash: u64,
    template: &'a str,
    parts: &'a [&'a str],
    /// The units that the feature depends on.
    units: Range<usize>,
}

/// A description of a feature.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeatureDescription {
    pub(crate) hash: u64,
    /// The kind of feature.
    pub(crate) feature: String,
    /// The position of its first and last unit, relative to the described unit.
    pub(crate) at: Option<[isize; 2]>,
    /// The value of the feature.
    pub(crate) value: String,
    /// The units that the feature depends on.
    pub(crate) units: Range<usize>,
}

impl FeatureDescription {
    fn new(look: &RawFeature<'_>) -> FeatureDescription {
        let offset = |text: &str| text.parse::<isize>().ok();
        // Character windows are named by length and first offset, as in "2 -1".
        let window = |name: &str| {
            let (length, first) = name.split_once(' ')?;
            let (length, first) = (offset(length)?, offset(first)?);
            Some([first, first + length - 1])
        };
        let (feature, at, value) = match (look.template, look.parts) {
            ("lower" | "shape", [at, value]) => (look.template, offset(at).map(|at| [at; 2]), (*value).to_owned()),
            ("class", [name, value]) => ("classes", window(name), (*value).to_owned()),
            (name, [value]) if window(name).is_some() => ("characters", window(name), (*value).to_owned()),
            (name, parts) => (name, None, parts.join(" ")),
        };
        let value = value.replace(BORDER, "<border>");
        FeatureDescription { hash: look.hash, feature: feature.to_owned(), at, value, units: look.units.clone() }
    }
}

/// Collects the features of one unit.
struct FeatureCollector<T, F> {
    found: Vec<T>,
    buffer: String,
    convert: F,
}

impl<T, F: Fn(RawFeature<'_>) -> T> FeatureCollector<T, F> {
    /// Adds a feature that depends on these units.
    fn add(&mut self, template: &str, parts: &[&str], reach: Range<usize>) {
        self.buffer.clear();
        self.buffer.push_str(template);
        for part in parts {
            let _ = write!(self.buffer, "\u{1f}{part}");
        }
        let hash = finalize(fnv1a(self.buffer.as_bytes()));
        self.found.push((self.convert)(RawFeature { hash, template, parts, units: reach }));
    }
}

/// Returns the units from offset `first` to `last` around unit `i`, clipped to `n` units.
fn unit_range(i: usize, [first, last]: [isize; 2], n: usize) -> Range<usize> {
    let [start, end] = [first, last + 1].map(|offset| i.saturating_add_signed(offset).min(n));
    start..end
}

/// The number of characters of a run that count as its text. Each character of a run has a feature with this text, so
/// the cost would otherwise be quadratic.
const MAX_RUN: usize = 32;

/// A placeholder beyond the ends of a text.
const BORDER: &str = "\u{2}";

/// Returns the class of a character as a letter.
fn character_class(c: char) -> char {
    match u32::from(c) {
        0x3041..=0x309F => 'h',
        0x30A0..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F => 'k',
        0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF => 'c',
        _ if c.is_numeric() => 'd',
        _ if c.is_uppercase() => 'X',
        _ if c.is_alphabetic() => 'x',
        _ if c.is_ascii() => c,
        _ => '.',
    }
}

/// Returns the character classes of a word, with repetitions collapsed.
fn shape(word: &str) -> String {
    let mut out = String::new();
    word.chars().map(character_class).for_each(|c| {
        if !out.ends_with(c) {
            out.push(c)
        }
    });
    out
}

fn word_features<T>(text: &str, units: &[Range<usize>], keep: impl Fn(RawFeature<'_>) -> T + Copy) -> Vec<Vec<T>> {
    let words: Vec<&str> = units.iter().map(|unit| &text[unit.clone()]).collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let shapes: Vec<String> = words.iter().map(|word| shape(word)).collect();
    let at = |list: &[String], i: usize, offset: isize| {
        i.checked_add_signed(offset).and_then(|i| list.get(i)).map_or(BORDER.to_owned(), Clone::clone)
    };
    let of_unit = |i: usize| {
        let mut features = FeatureCollector { found: Vec::with_capacity(40), buffer: String::new(), convert: keep };
        let reach = |offsets: [isize; 2]| unit_range(i, offsets, units.len());
        features.add("bias", &[], 0..0);
        features.add("word", &[words[i]], reach([0, 0]));
        for offset in -2..=2 {
            let name = offset.to_string();
            features.add("lower", &[&name, &at(&lower, i, offset)], reach([offset; 2]));
            features.add("shape", &[&name, &at(&shapes, i, offset)], reach([offset; 2]));
        }
        let near: Vec<String> = (-1..=1).map(|offset| at(&lower, i, offset)).collect();
        let forms: Vec<String> = (-1..=1).map(|offset| at(&shapes, i, offset)).collect();
        features.add("before-word", &[&near[0], &near[1]], reach([-1, 0]));
        features.add("word-behind", &[&near[1], &near[2]], reach([0, 1]));
        features.add("shapes", &[&forms[0], &forms[1]], reach([-1, 0]));
        features.add("shapes-behind", &[&forms[1], &forms[2]], reach([0, 1]));
        features.add("three-shapes", &[&forms[0], &forms[1], &forms[2]], reach([-1, 1]));
        features.add("before-shape", &[&near[0], &forms[1]], reach([-1, 0]));
        features.add("behind-shape", &[&near[2], &forms[1]], reach([0, 1]));
        let letters: Vec<(usize, char)> = lower[i].char_indices().collect();
        let ends = letters.iter().map(|(at, _)| *at).chain([lower[i].len()]).collect::<Vec<usize>>();
        for n in 1..=4.min(letters.len()) {
            features.add("begins", &[&lower[i][..ends[n]]], reach([0, 0]));
            features.add("ends", &[&lower[i][ends[letters.len() - n]..]], reach([0, 0]));
        }
        for (name, offset) in [("ends-before", -1), ("ends-behind", 1)] {
            let word = at(&lower, i, offset);
            let from = word.char_indices().rev().nth(2).map_or(0, |(at, _)| at);
            features.add(name, &[&word[from..]], reach([offset; 2]));
        }
        features.add("length", &[&letters.len().min(12).to_string()], reach([0, 0]));
        if words[i].chars().all(char::is_uppercase) {
            features.add("capitals", &[&letters.len().min(4).to_string()], reach([0, 0]));
        }
        features.found
    };
    (0..units.len()).map(of_unit).collect()
}

fn character_features<T>(text: &str, units: &[Range<usize>], keep: impl Fn(RawFeature<'_>) -> T + Copy) -> Vec<Vec<T>> {
    let signs: Vec<&str> = units.iter().map(|unit| &text[unit.clone()]).collect();
    let classes: Vec<char> = signs.iter().map(|sign| character_class(sign.chars().next().unwrap_or(' '))).collect();
    let n = units.len();
    let at = |i: isize| usize::try_from(i).ok().filter(|&i| i < n).map_or(BORDER, |i| signs[i]);
    let class_at = |i: isize| usize::try_from(i).ok().filter(|&i| i < n).map_or('^', |i| classes[i]);
    // Runs of characters of one class, which are often words.
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut run_of = Vec::with_capacity(n);
    for i in 0..n {
        match runs.last_mut() {
            Some(run) if classes[run.start] == classes[i] => run.end = i + 1,
            _ => runs.push(i..i + 1),
        }
        run_of.push(runs.len() - 1);
    }
    let content = |run: Option<&Range<usize>>| {
        run.map_or(BORDER.to_owned(), |run| signs[run.start..run.end.min(run.start + MAX_RUN)].concat())
    };
    let of_unit = |i: usize| {
        let mut features = FeatureCollector { found: Vec::with_capacity(60), buffer: String::new(), convert: keep };
        features.add("bias", &[], 0..0);
        let here = i as isize;
        // Nearby n-grams of one to four characters, and of up to three character classes.
        for length in 1..=4_isize {
            for first in -3..=(4 - length) {
                if length > 1 && (first > 1 || first + length < 0) {
                    continue;
                }
                let name = format!("{length} {first}");
                let parts: Vec<&str> = (0..length).map(|k| at(here + first + k)).collect();
                let reach = unit_range(i, [first, first + length - 1], n);
                features.add(&name, &[&parts.concat()], reach.clone());
                if length <= 3 {
                    let kinds: String = (0..length).map(|k| class_at(here + first + k)).collect();
                    features.add("class", &[&name, &kinds], reach);
                }
            }
        }
        let run = &runs[run_of[i]];
        let (place, left) = ((i - run.start).min(5).to_string(), (run.end - 1 - i).min(5).to_string());
        let whole = content(Some(run));
        let kind = classes[i].to_string();
        features.add("run", &[&whole], run.clone());
        features.add("run-place", &[&whole, &place], run.clone());
        features.add("place", &[&kind, &place], run.clone());
        features.add("left", &[&kind, &left], run.clone());
        features.add("place-left", &[&kind, &place, &left], run.clone());
        let [before, behind] = [run_of[i].checked_sub(1).and_then(|r| runs.get(r)), runs.get(run_of[i] + 1)];
        let from = before.map_or(run.start, |before| before.start);
        let to = behind.map_or(run.end, |behind| behind.end);
        let [before, behind] = [before, behind].map(content);
        // The position of these runs depends on the characters in between.
        features.add("run-before", &[&before], from..i + 1);
        features.add("run-behind", &[&behind], i..to);
        features.add("run-behind-class", &[&kind, &behind], i..to);
        features.add("run-before-class", &[&kind, &before], from..i + 1);
        // The end of a run often determines its kind: 市, 大学, 株式会社.
        for n in 1..=2.min(run.len()) {
            features.add("run-ends", &[&kind, &signs[run.end - n..run.end].concat()], i.min(run.end - n)..run.end);
        }
        features.found
    };
    (0..n).map(of_unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hashes(text: &str, unit: SpanUnit) -> Vec<HashSet<u64>> {
        features(text, &unit.split(text), unit).into_iter().map(HashSet::from_iter).collect()
    }

    #[test]
    fn words_of_one_shape_share_shape_features_but_not_word_features() {
        let words = hashes("Anna met Oslo", SpanUnit::Words);
        assert_eq!(words.len(), 3);
        assert!(!words[0].is_disjoint(&words[2]) && words[0] != words[2]);
        // Features include the neighbors: the same word elsewhere has others.
        assert_ne!(words[1], hashes("met", SpanUnit::Words)[0]);
        assert_eq!(shape("McDonald's-2"), "XxXx'x-d");
        assert_eq!(shape("東京タワーへ"), "ckh");
    }

    #[test]
    fn long_runs_contribute_only_their_beginning() {
        let differing = |n: usize| {
            let [a, b] = ["キ", "ク"]
                .map(|end| hashes(&format!("{}{end}", "カ".repeat(n)), SpanUnit::Characters).swap_remove(0));
            a.difference(&b).count()
        };
        // Features of the run's end, in one and two characters. A short run also has its whole text, with and without
        // the position.
        assert_eq!((differing(40), differing(31)), (2, 4));
    }

    #[test]
    fn features_are_described_with_the_units_they_depend_on() {
        for (unit, text, other) in [
            (SpanUnit::Words, "Anna Brown met Mr Keller and OSLO", "q7"),
            (SpanUnit::Characters, "田中さんはトヨタ自動車の社長に会った。", "7"),
        ] {
            let units = unit.split(text);
            let found = describe_features(text, &units, unit);
            let ordered_hashes =
                |features: &[FeatureDescription]| features.iter().map(|feature| feature.hash).collect::<Vec<u64>>();
            let plain = features(text, &units, unit);
            assert_eq!(found.iter().map(|of_unit| ordered_hashes(of_unit)).collect::<Vec<_>>(), plain);
            for (at, hidden) in units.iter().enumerate() {
                let changed = format!("{}{other}{}", &text[..hidden.start], &text[hidden.end..]);
                let changed = hashes(&changed, unit);
                for (of_unit, changed) in found.iter().zip(&changed) {
                    for feature in of_unit.iter().filter(|feature| !feature.units.contains(&at)) {
                        assert!(changed.contains(&feature.hash), "{feature:?} does not look at unit {at} of {text}");
                    }
                    // Features that depend only on the changed unit are gone.
                    let alone = of_unit.iter().filter(|feature| feature.units == (at..at + 1));
                    let gone = alone.clone().filter(|feature| !changed.contains(&feature.hash)).count();
                    assert!(2 * gone >= alone.count(), "unit {at} of {text}");
                }
            }
        }
        let of_anna = &describe_features("Anna met", &SpanUnit::Words.split("Anna met"), SpanUnit::Words)[0];
        let find = |feature: &str, at| {
            of_anna.iter().find(|described| described.feature == feature && described.at == at).unwrap()
        };
        assert_eq!(find("lower", Some([1, 1])).value, "met");
        assert_eq!(find("lower", Some([-1, -1])).value, "<border>");
        assert_eq!((find("word", None).value.as_str(), &find("word", None).units), ("Anna", &(0..1)));
    }
}
