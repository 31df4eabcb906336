//! SentencePiece unigram models (Kudo 2018; Kudo and Richardson 2018): a text is segmented into the pieces with the
//! largest sum of scores. Rounding follows SentencePiece, so the pieces are identical.
//!
//! # Files
//!
//! - `character_map`: `precompiled_charsmap`
//! - `model_file`: model files, read with bounds
//! - `normalizer`: normalization before segmentation
//! - `prefix_index`: prefix search in sorted texts

pub(super) mod character_map;
mod model_file;
mod normalizer;
mod prefix_index;

use super::error::TokenizerError as Error;
use crate::tr;
use model_file::{MAX_FILE_BYTES, ModelFile, PieceKind};
use normalizer::{Normalizer, SPACE};
use prefix_index::PrefixIndex;
use std::path::Path;

/// A unigram model from a `.spm` file.
#[derive(Clone, Debug)]
pub(super) struct SentencePieceModel {
    normalizer: Normalizer,
    /// The pieces, with their indices in `scores`.
    pieces: PrefixIndex,
    /// User-defined pieces, which are never split.
    user_defined: PrefixIndex,
    scores: Vec<PieceScore>,
    /// The largest score of a piece, and the score of an unknown character.
    max_score: f32,
    unknown_score: f32,
}

#[derive(Clone, Copy, Debug)]
struct PieceScore {
    score: f32,
    is_user_defined: bool,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PieceSpan {
    /// The piece, spelled as in the vocabulary.
    pub(super) piece: String,
    /// Its byte range in the text.
    pub(super) span: (usize, usize),
}

/// The best path to a position in the text.
#[derive(Clone, Copy, Debug)]
struct BestPath {
    score: f32,
    /// The start of its last piece. `None` if there is no path yet.
    start: Option<usize>,
    is_unknown: bool,
}

/// Subtracted from the smallest score for a character that is in no piece.
const UNKNOWN_PENALTY: f32 = 10.0;

impl SentencePieceModel {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or has a model type that this version does not support.
    pub(super) fn read(path: &Path) -> Result<SentencePieceModel, Error> {
        let unread = |source| Error::Io { path: path.to_owned(), source };
        let wrong = |problem| Error::File { path: path.to_owned(), problem };
        let bytes = std::fs::metadata(path).map_err(unread)?.len();
        if bytes > MAX_FILE_BYTES {
            return Err(wrong(tr!(
                "expected at most {MAX_FILE_BYTES} bytes, found {bytes}",
                "{MAX_FILE_BYTES} バイトまでですが、{bytes} バイトあります"
            )));
        }
        SentencePieceModel::parse(&std::fs::read(path).map_err(unread)?).map_err(wrong)
    }

    fn parse(bytes: &[u8]) -> Result<SentencePieceModel, String> {
        let ModelFile { pieces, normalizer } = ModelFile::parse(bytes)?;
        let twice = |piece: String| {
            tr!("piece “{}” occurs twice", "ピース「{}」が二つあります", piece.chars().take(30).collect::<String>())
        };
        let of = |kinds: &'static [PieceKind]| {
            let all = pieces.iter().enumerate().filter(|(_, piece)| kinds.contains(&piece.kind));
            PrefixIndex::new(all.map(|(place, piece)| (piece.text.as_str(), place))).map_err(twice)
        };
        let normal = || pieces.iter().filter(|piece| piece.kind == PieceKind::Normal).map(|piece| piece.score);
        let smallest = normal().fold(f32::INFINITY, f32::min);
        Ok(SentencePieceModel {
            pieces: of(&[PieceKind::Normal, PieceKind::UserDefined])?,
            user_defined: of(&[PieceKind::UserDefined])?,
            scores: pieces
                .iter()
                .map(|piece| PieceScore { score: piece.score, is_user_defined: piece.kind == PieceKind::UserDefined })
                .collect(),
            max_score: normal().fold(f32::NEG_INFINITY, f32::max),
            unknown_score: if smallest.is_finite() { smallest } else { 0.0 } - UNKNOWN_PENALTY,
            normalizer,
        })
    }

    /// Segments a text into pieces. A run of unknown characters becomes one piece.
    pub(super) fn encode(&self, text: &str) -> Vec<PieceSpan> {
        let normalized = self.normalizer.normalize(text, &self.user_defined);
        let mut cuts: Vec<(std::ops::Range<usize>, bool)> = Vec::new();
        for (range, is_unknown) in self.viterbi(&normalized.text) {
            match cuts.last_mut() {
                Some((before, true)) if is_unknown => before.end = range.end,
                _ => cuts.push((range, is_unknown)),
            }
        }
        let of = |range: std::ops::Range<usize>| PieceSpan {
            span: (normalized.offsets[range.start], normalized.offsets[range.end]),
            piece: normalized.text[range].to_owned(),
        };
        cuts.into_iter().map(|(range, _)| of(range)).collect()
    }

    /// Returns the best pieces of a normalized text, and whether each is unknown (Viterbi 1967).
    fn viterbi(&self, text: &str) -> Vec<(std::ops::Range<usize>, bool)> {
        let mut ways = vec![BestPath { score: 0.0, start: None, is_unknown: false }; text.len() + 1];
        for (start, character) in text.char_indices() {
            let before = ways[start].score;
            let mut reach = |end: usize, score: f64, is_unknown: bool| {
                if ways[end].start.is_none() || score > f64::from(ways[end].score) {
                    ways[end] = BestPath { score: score as f32, start: Some(start), is_unknown };
                }
            };
            let mut has_single = false;
            for (length, place) in self.pieces.prefixes(&text[start..]) {
                let PieceScore { score, is_user_defined: is_kept } = self.scores[place];
                // The score of a user-defined piece exceeds that of any segmentation of it. Sums of two f32 are rounded
                // to f32, as in SentencePiece.
                let score = match is_kept {
                    true => f64::from(length as f32 * self.max_score) - 0.1 + f64::from(before),
                    false => f64::from(score + before),
                };
                reach(start + length, score, false);
                has_single |= length == character.len_utf8();
            }
            if !has_single {
                reach(start + character.len_utf8(), f64::from(self.unknown_score + before), true);
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

/// Joins pieces into text.
pub(super) fn join_pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    pieces.collect::<String>().replace(SPACE, " ").trim().to_owned()
}

/// Returns whether a piece starts a word.
pub(super) fn starts_word(piece: &str) -> bool {
    piece.starts_with(SPACE)
}

#[cfg(test)]
mod tests;
