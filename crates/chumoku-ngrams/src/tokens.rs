//! Tokenization of a text into n-grams, as 64-bit hashes.
//!
//! The text is lower-cased and split into *units*. In a spaced script, a unit is a word or one punctuation mark. A word
//! is a run of letters and digits, including an apostrophe between letters: `don't`. In an unspaced script (Japanese,
//! Chinese, Thai, Lao, Khmer, Burmese), a unit is one user-perceived character (an extended grapheme cluster, UAX #29).
//!
//! The choice is made per text, so a file may mix both. If more than 30 % of a text's letters are of an unspaced
//! script, the whole text is read by character; otherwise only its unspaced runs are.
//!
//! # Hash
//!
//! A unit of bytes c₁ … cₘ has the FNV-1a hash (Fowler, Noll, Vo): h ← (h xor cᵢ) · 0x100000001b3, starting from
//! 0xcbf29ce484222325. An n-gram of units u₁ … uₙ belongs to a family (words, characters, or characters inside a word).
//! It has h ← (rotl(h, 5) xor uᵢ) · 0x9e3779b97f4a7c15, starting from the family's number, followed by the 64-bit
//! finalizer of MurmurHash3 (Appleby).
//!
//! The lowest bit is then cleared for words and set for characters. It identifies the *block* within which a row is
//! normalized. The hash is part of the model file's format and must never change.

use super::error::NgramError;
use super::hash::{finalize, fnv1a};
use super::pairs::{self, PairSide};
use crate::feature_columns::{self, FeatureColumn};
use chumoku_text::row::RowRef;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The n-grams that are read from a text. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NgramScheme {
    /// Maximum length of word n-grams, at least 1.
    pub words: usize,
    /// Maximum length of character n-grams in unspaced scripts, at least 1.
    pub characters: usize,
    /// Minimum and maximum length of character n-grams inside a word, including its two boundaries; none if absent.
    pub inside_words: Option<(usize, usize)>,
    /// True if the start and the end of a text count as units (in n-grams of two or more).
    pub(crate) edges: bool,
    /// True if texts are [pairs](chumoku_text::row).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pairs: bool,
    /// The feature columns, in the order of a row's values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<FeatureColumn>,
    /// The factor of column features.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub column_scale: f32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(x: &f32) -> bool {
    *x == 0.0
}

impl Default for NgramScheme {
    fn default() -> Self {
        NgramScheme {
            words: 3,
            characters: 4,
            inside_words: Some((3, 5)),
            edges: true,
            pairs: false,
            columns: Vec::new(),
            column_scale: 0.0,
        }
    }
}

impl NgramScheme {
    /// Checks the lengths of n-grams and the feature columns.
    ///
    /// # Errors
    /// If a length is not from 1 to 8, a range is empty, or a column is invalid.
    pub fn check(&self) -> Result<(), NgramError> {
        let (shortest, longest) = self.inside_words.unwrap_or((1, 1));
        let is_length = |length: usize| (1..=MAX_RUN).contains(&length);
        if [self.words, self.characters, shortest, longest].into_iter().all(is_length) && shortest <= longest {
            return feature_columns::check(&self.columns, self.column_scale)
                .map_err(|problem| NgramError::Columns { problem });
        }
        let got = chumoku_text::tr!(
            "{} words, {} characters, {shortest} to {longest} inside words",
            "単語 {}、文字 {}、単語の中 {shortest} から {longest} まで",
            self.words,
            self.characters
        );
        let expected = chumoku_text::lang::lang().pick("lengths from 1 to 8", "1 から 8 までの長さ");
        Err(NgramError::Setting { setting: "scheme", expected, got })
    }
}

/// Maximum length of n-grams in a scheme.
const MAX_RUN: usize = 8;

const WORDS: u64 = 1;
const CHARACTERS: u64 = 2;
const INSIDE: u64 = 3;
/// Share of unspaced letters above which the whole text is read by character.
const UNSPACED_SHARE: f64 = 0.3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Word,
    Mark,
    Unspaced,
    Space,
}

#[derive(Debug, Clone, Copy)]
struct TextUnit {
    start: usize,
    end: usize,
    kind: CharacterKind,
    hash: u64,
}

/// Reads texts, reusing its buffers.
#[derive(Debug, Default)]
pub(crate) struct NgramReader {
    /// The lower-cased text.
    folded: String,
    /// The graphemes of the text, then (after joining) its units.
    units: Vec<TextUnit>,
    run: Vec<u64>,
    hashes: Vec<u64>,
    /// The readable n-grams, if requested.
    names: Option<NgramNames>,
    /// The slice of hashes to read.
    slice: HashSlice,
}

/// A slice of all hashes: those with the same leading bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HashSlice {
    bits: u32,
    /// The leading bits as a number.
    prefix: u64,
}

impl HashSlice {
    /// Splits all hashes into 2^`bits` slices, in order.
    pub(crate) fn all(bits: u32) -> impl Iterator<Item = HashSlice> {
        (0..1 << bits).map(move |at| HashSlice { bits, prefix: at })
    }

    /// Returns true for the first slice.
    pub(crate) fn is_first(self) -> bool {
        self.prefix == 0
    }

    fn contains(self, hash: u64) -> bool {
        hash.checked_shr(u64::BITS - self.bits).unwrap_or(0) == self.prefix
    }

    /// Returns the index of a hash's part if the slice has `count` equal parts, a power of two.
    pub(crate) fn part_index(self, hash: u64, count: usize) -> usize {
        // In two steps, because a shift by all bits overflows.
        ((hash << self.bits) >> 1 >> (u64::BITS - 1 - count.trailing_zeros())) as usize
    }
}

/// The n-grams of a text in readable form.
#[derive(Debug, Default)]
struct NgramNames {
    /// The units of the current run as ranges of the folded text; `None` for an edge or a space.
    run: Vec<Option<(usize, usize)>>,
    found: Vec<(u64, String)>,
}

impl NgramReader {
    /// Builds a reader of a single slice.
    pub(crate) fn for_slice(slice: HashSlice) -> NgramReader {
        NgramReader { slice, ..NgramReader::default() }
    }

    /// Returns the n-grams of a text with their hashes, in the order of occurrence, with repetitions.
    pub(crate) fn read_named(row: RowRef<'_>, scheme: &NgramScheme) -> Vec<(u64, String)> {
        let mut reader = NgramReader { names: Some(NgramNames::default()), ..NgramReader::default() };
        reader.read(row, scheme);
        reader.names.map(|names| names.found).unwrap_or_default()
    }

    fn clear_run(&mut self) {
        self.run.clear();
        if let Some(names) = &mut self.names {
            names.run.clear();
        }
    }

    /// Adds a unit to the run, with its range in the folded text.
    fn add(&mut self, hash: u64, place: Option<(usize, usize)>) {
        self.run.push(hash);
        if let Some(names) = &mut self.names {
            names.run.push(place);
        }
    }

    /// Adds the hashes of all n-grams of the run; an edge alone is no feature.
    fn push_runs(&mut self, family: u64, shortest: usize, longest: usize) {
        let first = self.hashes.len();
        push_run_hashes(&self.run, family, shortest, longest, &mut self.hashes);
        let Some(names) = &mut self.names else { return };
        let mut hashes = self.hashes[first..].iter();
        let last = self.run.len().saturating_sub(1);
        let name = |at: usize| match (names.run[at], family) {
            (Some((start, end)), _) => &self.folded[start..end],
            (None, _) if self.run[at] != EDGE => " ",
            (None, INSIDE) => "_",
            (None, _) if at == last => "[END]",
            (None, _) => "[START]",
        };
        let gap = if family == WORDS { " " } else { "" };
        for start in 0..self.run.len() {
            for length in shortest..=longest.min(self.run.len() - start) {
                if length > 1 || self.run[start] != EDGE {
                    let parts: Vec<&str> = (start..start + length).map(name).collect();
                    let hash = hashes.next().expect("a hash for each run");
                    names.found.push((*hash, parts.join(gap)));
                }
            }
        }
    }

    /// Returns the hashes of all n-grams of a row, ascending, with repetitions; for a pair, the hashes of its
    /// features. Feature columns are not read.
    pub(crate) fn read(&mut self, row: RowRef<'_>, scheme: &NgramScheme) -> &[u64] {
        match row.pair().filter(|_| scheme.pairs) {
            None => {
                self.read_one(row.text(), scheme);
                self.keep_slice();
                &self.hashes
            }
            Some((first, second)) => {
                let sides = [first, second].map(|text| {
                    self.read_one(text, scheme);
                    let names = self.names.as_mut().map(|names| std::mem::take(&mut names.found));
                    PairSide { hashes: std::mem::take(&mut self.hashes), names: names.unwrap_or_default() }
                });
                self.hashes.extend(pairs::pair_features(&sides));
                self.keep_slice();
                self.hashes.sort_unstable();
                self.names.iter_mut().for_each(|names| names.found = pairs::feature_names(&sides));
                &self.hashes
            }
        }
    }

    /// Like [`NgramReader::read`], for a single text.
    fn read_one(&mut self, text: &str, scheme: &NgramScheme) -> &[u64] {
        self.folded.clear();
        self.units.clear();
        self.hashes.clear();
        self.split(text);
        if self.units.iter().all(|unit| unit.kind == CharacterKind::Space) {
            return &self.hashes;
        }
        if self.is_unspaced() {
            self.character_runs(scheme);
        } else {
            self.word_runs(scheme);
        }
        // The features of a pair depend on all n-grams of its texts.
        if !scheme.pairs {
            self.keep_slice();
        }
        self.hashes.sort_unstable();
        &self.hashes
    }

    /// Drops hashes outside the slice.
    fn keep_slice(&mut self) {
        if self.slice != HashSlice::default() {
            self.hashes.retain(|&hash| self.slice.contains(hash));
        }
    }

    /// Fills `units` with the graphemes of the text, folded and classified.
    fn split(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at].is_ascii() && bytes.get(at + 1).is_none_or(u8::is_ascii) {
                self.push(text[at..].chars().next().into_iter());
                at += 1;
                continue;
            }
            // A non-ASCII stretch, with the preceding character, to which it may add a mark.
            let length = bytes[at + 1..].iter().position(u8::is_ascii);
            let end = length.map_or(bytes.len(), |n| at + 1 + n);
            for grapheme in text[at..end].graphemes(true) {
                self.push(grapheme.chars());
            }
            at = end;
        }
    }

    fn push(&mut self, mut grapheme: impl Iterator<Item = char>) {
        let Some(first) = grapheme.next().map(fold_width) else {
            return;
        };
        let start = self.folded.len();
        let kind = character_kind(first);
        if kind != CharacterKind::Space {
            if first.is_ascii() {
                self.folded.push(first.to_ascii_lowercase());
            } else {
                self.folded.extend(first.to_lowercase());
            }
            self.folded.extend(grapheme);
        }
        self.units.push(TextUnit { start, end: self.folded.len(), kind, hash: 0 });
    }

    fn is_unspaced(&self) -> bool {
        let count = |kind| self.units.iter().filter(|unit| unit.kind == kind).count();
        let unspaced = count(CharacterKind::Unspaced);
        unspaced > 0 && unspaced as f64 > UNSPACED_SHARE * (unspaced + count(CharacterKind::Word)) as f64
    }

    /// Adds all n-grams of 1 to `scheme.characters` graphemes. White space next to an unspaced character is dropped, so
    /// text segmented by a tool reads like plain text. Elsewhere it counts as one character.
    fn character_runs(&mut self, scheme: &NgramScheme) {
        self.clear_run();
        if scheme.edges {
            self.add(EDGE, None);
        }
        let mut previous = CharacterKind::Unspaced;
        let mut space = false;
        for index in 0..self.units.len() {
            let unit = self.units[index];
            if unit.kind == CharacterKind::Space {
                space = true;
                continue;
            }
            if space && previous != CharacterKind::Unspaced && unit.kind != CharacterKind::Unspaced {
                self.add(fnv1a(b" "), None);
            }
            self.add(fnv1a(&self.folded.as_bytes()[unit.start..unit.end]), Some((unit.start, unit.end)));
            space = false;
            previous = unit.kind;
        }
        if scheme.edges {
            self.add(EDGE, None);
        }
        self.push_runs(CHARACTERS, 1, scheme.characters);
    }

    /// Adds all n-grams of 1 to `scheme.words` words and marks. Unspaced runs and, if configured, words also yield
    /// character n-grams.
    fn word_runs(&mut self, scheme: &NgramScheme) {
        self.join_words();
        self.clear_run();
        if scheme.edges {
            self.add(EDGE, None);
        }
        let mut index = 0;
        while let Some(&unit) = self.units.get(index) {
            if unit.kind == CharacterKind::Unspaced {
                self.push_runs(WORDS, 1, scheme.words);
                self.clear_run();
                while let Some(&unit) = self.units.get(index).filter(|unit| unit.kind == CharacterKind::Unspaced) {
                    self.add(unit.hash, Some((unit.start, unit.end)));
                    index += 1;
                }
                self.push_runs(CHARACTERS, 1, scheme.characters);
                self.clear_run();
            } else {
                self.add(unit.hash, Some((unit.start, unit.end)));
                index += 1;
            }
        }
        if scheme.edges {
            self.add(EDGE, None);
        }
        self.push_runs(WORDS, 1, scheme.words);
        if let Some((shortest, longest)) = scheme.inside_words {
            for index in 0..self.units.len() {
                let TextUnit { start, end, kind, .. } = self.units[index];
                if kind != CharacterKind::Word {
                    continue;
                }
                self.clear_run();
                self.add(EDGE, None);
                let mut at = start;
                while at < end {
                    let length = self.folded[at..].chars().next().map_or(1, char::len_utf8);
                    self.add(fnv1a(&self.folded.as_bytes()[at..at + length]), Some((at, at + length)));
                    at += length;
                }
                self.add(EDGE, None);
                self.push_runs(INSIDE, shortest, longest);
            }
        }
    }

    /// Joins graphemes into words, marks and unspaced characters, and drops white space.
    fn join_words(&mut self) {
        let (mut kept, mut index) = (0, 0);
        while index < self.units.len() {
            let mut unit = self.units[index];
            index += 1;
            if unit.kind == CharacterKind::Space {
                continue;
            }
            if unit.kind == CharacterKind::Word {
                loop {
                    let is_word = |i: usize| self.units.get(i).is_some_and(|u| u.kind == CharacterKind::Word);
                    if is_word(index) {
                        unit.end = self.units[index].end;
                        index += 1;
                    } else if is_word(index + 1) && self.is_apostrophe(index) {
                        unit.end = self.units[index + 1].end;
                        index += 2;
                    } else {
                        break;
                    }
                }
            }
            unit.hash = fnv1a(&self.folded.as_bytes()[unit.start..unit.end]);
            self.units[kept] = unit;
            kept += 1;
        }
        self.units.truncate(kept);
    }

    fn is_apostrophe(&self, index: usize) -> bool {
        let unit = self.units[index];
        &self.folded[unit.start..unit.end] == "'"
    }
}

/// Splits a text into words, as byte ranges. Unspaced scripts are split into runs of one alphabet.
pub fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut last: Option<(CharacterKind, u8)> = None;
    for (start, grapheme) in text.grapheme_indices(true) {
        let end = start + grapheme.len();
        let first = grapheme.chars().next().map_or(' ', fold_width);
        let kind = character_kind(first);
        let is_apostrophe = first == '\'' && last.is_some_and(|(kind, _)| kind == CharacterKind::Word);
        let follows = |c: char| character_kind(fold_width(c)) == CharacterKind::Word;
        let kind =
            if is_apostrophe && text[end..].chars().next().is_some_and(follows) { CharacterKind::Word } else { kind };
        let this = (kind, if kind == CharacterKind::Unspaced { japanese_alphabet(first) } else { 0 });
        match words.last_mut() {
            Some(word) if last == Some(this) && kind != CharacterKind::Mark && kind != CharacterKind::Space => {
                word.end = end
            }
            _ if kind != CharacterKind::Space => words.push(start..end),
            _ => {}
        }
        last = Some(this);
    }
    if words.is_empty() {
        words.push(0..text.len());
    }
    words
}

/// Classifies a letter: hiragana, katakana (with the prolonged sound mark), or anything else.
fn japanese_alphabet(c: char) -> u8 {
    match c {
        '\u{3041}'..='\u{309f}' => 1,
        '\u{30a1}'..='\u{30ff}' | '\u{ff66}'..='\u{ff9f}' => 2,
        _ => 3,
    }
}

/// Stands for the start or the end of a text or word. A unit collides with it with probability 2⁻⁶⁴.
const EDGE: u64 = 0x5bd1_e995_9d2c_5681;

/// Adds the hashes of all n-grams of `shortest` to `longest` units; an edge alone is no feature.
fn push_run_hashes(units: &[u64], family: u64, shortest: usize, longest: usize, hashes: &mut Vec<u64>) {
    for start in 0..units.len() {
        let mut hash = family;
        for (taken, &unit) in units[start..].iter().take(longest).enumerate() {
            hash = (hash.rotate_left(5) ^ unit).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if taken + 1 >= shortest && (taken > 0 || unit != EDGE) {
                hashes.push((finalize(hash) & !1) | u64::from(family != WORDS));
            }
        }
    }
}

/// Converts full-width ASCII to ASCII, and typographic apostrophes to `'`.
fn fold_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2018}' | '\u{2019}' | '\u{02bc}' => '\'',
        _ => c,
    }
}

fn character_kind(c: char) -> CharacterKind {
    if c.is_ascii_alphanumeric() {
        CharacterKind::Word
    } else if c.is_whitespace() || c.is_control() {
        CharacterKind::Space
    } else if c.is_ascii() {
        CharacterKind::Mark
    } else if is_unspaced_script(c) {
        CharacterKind::Unspaced
    } else if c.is_alphanumeric() {
        CharacterKind::Word
    } else {
        CharacterKind::Mark
    }
}

/// Returns true if `c` belongs to a script written without spaces between words (Unicode blocks).
fn is_unspaced_script(c: char) -> bool {
    matches!(c,
        '\u{0e01}'..='\u{0e3a}' | '\u{0e40}'..='\u{0e4e}' // Thai
        | '\u{0e81}'..='\u{0edf}' // Lao
        | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9fe}' | '\u{aa60}'..='\u{aa7f}' // Burmese
        | '\u{1780}'..='\u{17d3}' // Khmer
        | '\u{3005}'..='\u{3007}' | '\u{3031}'..='\u{3035}' // iteration marks, zero
        | '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' // kana
        | '\u{ff66}'..='\u{ff9f}' | '\u{1b000}'..='\u{1b16f}' // half-width and old kana
        | '\u{3105}'..='\u{312f}' // Bopomofo
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' // Han
        | '\u{20000}'..='\u{3ffff}')
}
