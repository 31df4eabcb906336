//! SentencePiece's unigram models (Kudo 2018; Kudo and Richardson 2018): a text is cut into the pieces whose scores have
//! the largest sum. Numbers are rounded as there, so that pieces are the same.
//!
//! # Files
//!
//! - `character_map`: `precompiled_charsmap`
//! - `file`: model files, read with bounds
//! - `normalizer`: normalization before segmentation
//! - `sorted`: prefix search in sorted texts

pub(super) mod character_map;
mod file;
mod normalizer;
mod sorted;

use super::error::TokenizerError as Error;
use crate::tr;
use file::{File, Kind, LARGEST_FILE};
use normalizer::{Normalizer, SPACE};
use sorted::Sorted;
use std::path::Path;

/// A unigram model out of a `.spm` file.
#[derive(Clone, Debug)]
pub(super) struct SentencePieces {
    normalizer: Normalizer,
    /// The pieces that texts are cut into, with their places in `scores`.
    pieces: Sorted,
    /// Those that are always kept whole.
    kept: Sorted,
    scores: Vec<Score>,
    /// The largest score of a piece, and that of an unknown character.
    largest: f32,
    unknown: f32,
}

#[derive(Clone, Copy, Debug)]
struct Score {
    score: f32,
    is_kept: bool,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    /// The piece, as the vocabulary spells it.
    pub(super) piece: String,
    /// Its bytes in the text.
    pub(super) span: (usize, usize),
}

/// The best way to a place of the text.
#[derive(Clone, Copy, Debug)]
struct Way {
    score: f32,
    /// Where its last piece begins, once there is a way.
    start: Option<usize>,
    is_unknown: bool,
}

/// Subtracted from the smallest score for a character that no piece has.
const UNKNOWN_PENALTY: f32 = 10.0;

impl SentencePieces {
    /// Reads a file, trusting nothing in it.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or of a kind that this version does not read.
    pub(super) fn read(path: &Path) -> Result<SentencePieces, Error> {
        let unread = |source| Error::Io { path: path.to_owned(), source };
        let wrong = |problem| Error::File { path: path.to_owned(), problem };
        let bytes = std::fs::metadata(path).map_err(unread)?.len();
        if bytes > LARGEST_FILE {
            return Err(wrong(tr!(
                "expected at most {LARGEST_FILE} bytes, found {bytes}",
                "{LARGEST_FILE} バイトまでですが、{bytes} バイトあります"
            )));
        }
        SentencePieces::parse(&std::fs::read(path).map_err(unread)?).map_err(wrong)
    }

    fn parse(bytes: &[u8]) -> Result<SentencePieces, String> {
        let File { pieces, normalizer } = File::parse(bytes)?;
        let twice = |piece: String| {
            tr!("piece “{}” is there twice", "ピース「{}」が二つあります", piece.chars().take(30).collect::<String>())
        };
        let of = |kinds: &'static [Kind]| {
            let all = pieces.iter().enumerate().filter(|(_, piece)| kinds.contains(&piece.kind));
            Sorted::new(all.map(|(place, piece)| (piece.text.as_str(), place))).map_err(twice)
        };
        let normal = || pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score);
        let smallest = normal().fold(f32::INFINITY, f32::min);
        Ok(SentencePieces {
            pieces: of(&[Kind::Normal, Kind::UserDefined])?,
            kept: of(&[Kind::UserDefined])?,
            scores: pieces
                .iter()
                .map(|piece| Score { score: piece.score, is_kept: piece.kind == Kind::UserDefined })
                .collect(),
            largest: normal().fold(f32::NEG_INFINITY, f32::max),
            unknown: if smallest.is_finite() { smallest } else { 0.0 } - UNKNOWN_PENALTY,
            normalizer,
        })
    }

    /// The pieces of a text; what is unknown stays as it is, one piece for a run of it.
    pub(super) fn cut(&self, text: &str) -> Vec<Cut> {
        let normalized = self.normalizer.normalize(text, &self.kept);
        let mut cuts: Vec<(std::ops::Range<usize>, bool)> = Vec::new();
        for (range, is_unknown) in self.best(&normalized.text) {
            match cuts.last_mut() {
                Some((before, true)) if is_unknown => before.end = range.end,
                _ => cuts.push((range, is_unknown)),
            }
        }
        let of = |range: std::ops::Range<usize>| Cut {
            span: (normalized.from[range.start], normalized.from[range.end]),
            piece: normalized.text[range].to_owned(),
        };
        cuts.into_iter().map(|(range, _)| of(range)).collect()
    }

    /// The best pieces of a normalised text, and whether each is unknown (Viterbi 1967).
    fn best(&self, text: &str) -> Vec<(std::ops::Range<usize>, bool)> {
        let mut ways = vec![Way { score: 0.0, start: None, is_unknown: false }; text.len() + 1];
        for (start, character) in text.char_indices() {
            let before = ways[start].score;
            let mut reach = |end: usize, score: f64, is_unknown: bool| {
                if ways[end].start.is_none() || score > f64::from(ways[end].score) {
                    ways[end] = Way { score: score as f32, start: Some(start), is_unknown };
                }
            };
            let mut has_single = false;
            for (length, place) in self.pieces.prefixes(&text[start..]) {
                let Score { score, is_kept } = self.scores[place];
                // What is to be kept whole is worth more than any pieces of it. Sums of two f32 are rounded to f32, as
                // there.
                let score = match is_kept {
                    true => f64::from(length as f32 * self.largest) - 0.1 + f64::from(before),
                    false => f64::from(score + before),
                };
                reach(start + length, score, false);
                has_single |= length == character.len_utf8();
            }
            if !has_single {
                reach(start + character.len_utf8(), f64::from(self.unknown + before), true);
            }
        }
        let mut best = Vec::new();
        let mut end = text.len();
        while let Some(start) = ways[end].start {
            best.push((start..end, ways[end].is_unknown));
            end = start;
        }
        best.reverse();
        best
    }
}

/// The text of pieces.
pub(super) fn joined<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    pieces.collect::<String>().replace(SPACE, " ").trim().to_owned()
}

/// Whether a piece begins a word.
pub(super) fn begins_word(piece: &str) -> bool {
    piece.starts_with(SPACE)
}

#[cfg(test)]
mod tests;
