//! The network of a tagger: tokens of a text, the first token of each unit, and tag probabilities of each unit.

use super::settings::{INPUT_LENGTHS, SMALL_COUNTS, VOCABULARY_SIZES, check_size, not_finite_error};
use crate::crf::TaggerBlend;
use crate::error::layer_errors::layer_error_message;
use crate::models::{TaggedUnits, TokenTagger, TokenTaggerConfig};
use crate::nn::{Offsets, Tokens};
use crate::parallel_batches::{BATCH_TOKENS, InputTemplate, batches_by_length, map_batches};
use crate::params::Params;
use crate::text::{TextTokenizer, windows};
use crate::{Result, tr};
use chumoku_kernels::{Precision, parallel};
use chumoku_nn::probability::log_softmax;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The `config.json` entries of a tagger's network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaggerNetworkConfig {
    /// The weights of the network and the conditional random field.
    pub blend: TaggerBlend,
    /// The maximum number of tokens in one input, special tokens included.
    pub max_tokens: usize,
    /// The precision of matrix products, as in training and scoring.
    #[serde(with = "crate::model_folder::precision", default)]
    pub precision: Precision,
    /// The hash of the vocabulary in `tokenizer.json`.
    pub vocabulary_sha256: String,
    /// The type of the encoder that was fine-tuned, for continued training. Earlier versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder_type: Option<String>,
    /// The network.
    #[serde(flatten)]
    pub model: TokenTaggerConfig,
}

/// A network with its tokenizer.
#[derive(Debug)]
pub struct TaggerNetwork {
    /// The configuration.
    pub config: TaggerNetworkConfig,
    /// The network.
    pub model: TokenTagger,
    /// The weights.
    pub params: Params<f32>,
    /// The tokenizer.
    pub tokenizer: TextTokenizer,
}

/// A text as tokens and units.
#[derive(Clone, Debug, Default)]
pub struct UnitRow {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The number of units.
    pub(crate) units: usize,
    /// The first token of each unit, in ascending order. Empty if the text has no tokens.
    pub(crate) tokens: Vec<usize>,
    /// The position of each unit among the units that start at the same token.
    pub(crate) positions: Vec<u32>,
}

/// A window of tokens, and the units predicted from it. In a long text, these are the units in the middle of the
/// window.
#[derive(Clone, Debug)]
pub struct TaggerWindow {
    /// Index of the row.
    pub row: usize,
    /// Range of the row's tokens.
    pub tokens: Range<usize>,
    /// Range of the row's units.
    pub units: Range<usize>,
}

impl UnitRow {
    /// Tokenizes a text. `units` are consecutive byte ranges.
    pub(crate) fn encode(tokenizer: &TextTokenizer, text: &str, units: &[Range<usize>]) -> Result<UnitRow> {
        let encoded = tokenizer.encode(text)?;
        let mut row = UnitRow { ids: encoded.ids, units: units.len(), ..UnitRow::default() };
        if row.ids.is_empty() {
            return Ok(row);
        }
        let mut next = 0;
        for unit in units {
            while next < row.ids.len() && encoded.spans[next].1 <= unit.start {
                next += 1;
            }
            // A unit without tokens uses the token before it.
            let is_covered = encoded.spans.get(next).is_some_and(|span| span.0 < unit.end);
            let token = if is_covered { next } else { next.saturating_sub(1) };
            let place = match row.tokens.last() {
                Some(&last) if last == token => row.positions[row.positions.len() - 1] + 1,
                _ => 0,
            };
            row.tokens.push(token);
            row.positions.push(place);
        }
        Ok(row)
    }
}

/// Splits the rows into windows that cover every unit with a token exactly once. Texts longer than `limit` tokens are
/// read in windows of that length that overlap by half. Each unit belongs to the window with the most context on both
/// sides.
pub fn tagger_windows(rows: &[UnitRow], limit: usize) -> Vec<TaggerWindow> {
    let mut found = Vec::new();
    for (row, of) in rows.iter().enumerate() {
        let length = of.ids.len();
        let ranges = if length <= limit { windows(length, limit) } else { windows(length, limit.div_ceil(2)) };
        for range in ranges {
            let start = range.start.saturating_sub((limit - range.len().min(limit)) / 2);
            let end = (start + limit).min(length);
            let first = |token: usize| of.tokens.partition_point(|&at| at < token);
            let units = first(range.start)..first(range.end);
            if !units.is_empty() {
                found.push(TaggerWindow { row, tokens: end.saturating_sub(limit)..end, units });
            }
        }
    }
    found
}

/// A batch of windows, packed.
pub struct PackedWindows {
    /// Token ids.
    pub ids: Vec<u32>,
    pub(crate) offsets: Offsets,
    tokens: Vec<usize>,
    positions: Vec<u32>,
}

impl PackedWindows {
    /// Packs windows one after another.
    pub fn pack<'a>(
        template: InputTemplate<'_>,
        rows: &[UnitRow],
        pieces: impl Iterator<Item = &'a TaggerWindow> + Clone,
    ) -> PackedWindows {
        let (ids, offsets) = template.pack(pieces.clone().map(|piece| &rows[piece.row].ids[piece.tokens.clone()]));
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        for (sequence, piece) in pieces.enumerate() {
            let (row, start) = (&rows[piece.row], offsets.range(sequence).start + template.special_tokens.prefix.len());
            tokens.extend(row.tokens[piece.units.clone()].iter().map(|token| start + token - piece.tokens.start));
            places.extend_from_slice(&row.positions[piece.units.clone()]);
        }
        PackedWindows { ids, offsets, tokens, positions: places }
    }

    /// Returns the tokens of all windows.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens::new(&self.ids, &self.offsets)
    }

    /// Returns the units of all windows.
    pub fn units(&self) -> TaggedUnits<'_> {
        TaggedUnits { tokens: &self.tokens, positions: &self.positions }
    }
}

/// Computes the tag log-probabilities of each unit of each row, (units, tags). The values of a row do not depend on the
/// other rows.
///
/// # Errors
/// If a value is not a number.
pub fn log_probabilities(
    model: &TokenTagger,
    params: &Params<f32>,
    template: InputTemplate<'_>,
    rows: &[UnitRow],
) -> Result<Vec<Vec<f32>>> {
    let tags = model.config().num_tags;
    // Units without tokens get uniform probabilities.
    let even = -(tags as f32).ln();
    let mut all: Vec<Vec<f32>> = rows.iter().map(|row| vec![even; row.units * tags]).collect();
    predict_windows(model, params, template, (rows, &tagger_windows(rows, template.window_size())), &mut all)?;
    Ok(all)
}

/// Writes the predictions of some windows into `all`, which holds (units, tags) for each row.
fn predict_windows(
    model: &TokenTagger,
    params: &Params<f32>,
    template: InputTemplate<'_>,
    (rows, pieces): (&[UnitRow], &[TaggerWindow]),
    all: &mut [Vec<f32>],
) -> Result<()> {
    let tags = model.config().num_tags;
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.tokens.len() + template.special_tokens.len()).collect();
    let batches = batches_by_length(&lengths, BATCH_TOKENS);
    let found = map_batches(&batches, |batch| {
        let packed = PackedWindows::pack(template, rows, batch.iter().map(|&piece| &pieces[piece]));
        Ok(model.logits(params, packed.tokens(), packed.units())?)
    })?;
    for (logits, batch) in found.iter().zip(&batches) {
        let units = batch.iter().flat_map(|&piece| {
            let TaggerWindow { row, units, .. } = &pieces[piece];
            units.clone().map(move |unit| (*row, unit))
        });
        for ((row, unit), logits) in units.zip(logits.rows()) {
            all[row][unit * tags..(unit + 1) * tags].copy_from_slice(&log_softmax(&logits.to_vec()));
        }
    }
    if all.iter().flatten().any(|x| x.is_nan()) {
        return Err(not_finite_error());
    }
    Ok(())
}

impl TaggerNetwork {
    fn input_template(&self) -> InputTemplate<'_> {
        InputTemplate { special_tokens: self.tokenizer.special_tokens(), max_tokens: self.config.max_tokens }
    }

    /// Tokenizes a text, and returns its first window with the units in it. `None` if there are no tokens.
    pub(crate) fn first_window(
        &self,
        text: &str,
        units: &[Range<usize>],
    ) -> Result<Option<(PackedWindows, Range<usize>)>> {
        let rows = [UnitRow::encode(&self.tokenizer, text, units)?];
        let template = self.input_template();
        let windows = tagger_windows(&rows, template.window_size());
        let first = windows.first();
        Ok(first.map(|window| (PackedWindows::pack(template, &rows, std::iter::once(window)), window.units.clone())))
    }

    /// Computes the tag log-probabilities of each unit of each text, (units, tags).
    pub fn log_probabilities(&self, texts: &[(&str, Vec<Range<usize>>)]) -> Result<Vec<Vec<f32>>> {
        let rows = encode_unit_rows(&self.tokenizer, texts)?;
        let template = self.input_template();
        log_probabilities(&self.model, &self.params, template, &rows)
    }

    /// Returns the token that replaces masked tokens, and its name: the encoder's mask token, or the unknown token if
    /// there is none.
    pub(crate) fn mask_token(&self) -> (u32, String) {
        let tokenizer = &self.tokenizer;
        let mask = ["[MASK]", "<mask>"].into_iter().find_map(|name| tokenizer.id(name));
        let id = mask.or_else(|| tokenizer.unknown_id()).unwrap_or(tokenizer.cls_id());
        (id, tokenizer.token(id))
    }

    /// Computes the tag log-probabilities with each of some byte ranges masked in turn. A token is masked if it
    /// overlaps the range. `plain` holds the values of the unmasked text. Only windows with masked tokens are
    /// recomputed.
    pub(crate) fn log_probabilities_masked(
        &self,
        text: &str,
        units: &[Range<usize>],
        parts: &[Range<usize>],
        plain: &[f32],
    ) -> Result<Vec<Vec<f32>>> {
        let row = UnitRow::encode(&self.tokenizer, text, units)?;
        let spans = self.tokenizer.encode(text)?.spans;
        let (mask, _) = self.mask_token();
        let template = self.input_template();
        let (mut rows, mut changed) = (Vec::with_capacity(parts.len()), Vec::new());
        let windows = tagger_windows(std::slice::from_ref(&row), template.window_size());
        for (at, part) in parts.iter().enumerate() {
            let is_hidden = |token: usize| spans[token].0 < part.end && part.start < spans[token].1;
            let mut row = row.clone();
            row.ids.iter_mut().enumerate().filter(|(token, _)| is_hidden(*token)).for_each(|(_, id)| *id = mask);
            let anew = windows.iter().filter(|piece| piece.tokens.clone().any(is_hidden));
            changed.extend(anew.map(|piece| TaggerWindow { row: at, ..piece.clone() }));
            rows.push(row);
        }
        let mut all = vec![plain.to_vec(); parts.len()];
        predict_windows(&self.model, &self.params, template, (&rows, &changed), &mut all)?;
        Ok(all)
    }
}

/// Tokenizes many texts in parallel.
pub fn encode_unit_rows(tokenizer: &TextTokenizer, texts: &[(&str, Vec<Range<usize>>)]) -> Result<Vec<UnitRow>> {
    parallel::map(texts, |(text, units)| UnitRow::encode(tokenizer, text, units)).into_iter().collect()
}

impl TaggerNetworkConfig {
    /// Checks the values. `tags` is the expected number of tags.
    pub(crate) fn check(&self, tags: usize) -> Result<(), String> {
        let (model, encoder) = (&self.model, &self.model.encoder);
        if model.num_tags != tags {
            return Err(tr!(
                "network.num_tags: expected {tags}, as the labels require, found {}",
                "network.num_tags: labels によれば {tags} のはずですが、{} です",
                model.num_tags
            ));
        }
        check_size("network.vocab_size", encoder.vocab_size, VOCABULARY_SIZES)?;
        check_size("network.max_length", encoder.max_length, INPUT_LENGTHS)?;
        check_size("network.max_tokens", self.max_tokens, 2..=encoder.max_length.max(2))?;
        check_size("network.num_places", model.num_places, SMALL_COUNTS)?;
        encoder.encoder.check().map_err(|error| layer_error_message(&error))?;
        self.blend.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(length: usize, tokens: Vec<usize>) -> UnitRow {
        UnitRow { ids: vec![1; length], units: tokens.len(), positions: vec![0; tokens.len()], tokens }
    }

    #[test]
    fn each_unit_has_its_first_token() {
        use crate::data::SpanUnit;
        use crate::text::{PretrainedTokenizer, WordPieceOptions};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.txt");
        std::fs::write(&path, "[UNK]\n[CLS]\n[SEP]\nfilm\n##s\ngood\n.\nさん\n##は\n田\n").unwrap();
        let pretrained = PretrainedTokenizer::read_word_pieces(&path, WordPieceOptions::default()).unwrap();
        let tokenizer = TextTokenizer::from_pretrained(pretrained).unwrap();
        let of = |text: &str, unit: SpanUnit| UnitRow::encode(&tokenizer, text, &unit.split(text)).unwrap();
        // good | film ##s | . for the words good, films and the full stop.
        let row = of("good films.", SpanUnit::Words);
        assert_eq!((row.ids, row.tokens, row.positions), (vec![5, 3, 4, 6], vec![0, 1, 3], vec![0, 0, 0]));
        let row = of("田さんは", SpanUnit::Characters);
        assert_eq!((row.ids, row.tokens, row.positions), (vec![9, 7, 8], vec![0, 1, 1, 2], vec![0, 0, 1, 0]));
        // A character that the tokenizer drops uses the token before it, or the first token.
        let row = of("good \u{200b}\u{feff} .", SpanUnit::Words);
        assert_eq!((row.units, row.tokens.len()), (4, 4));
        assert!(row.tokens.is_sorted() && row.tokens[3] == row.ids.len() - 1, "{row:?}");
        let nothing = of("", SpanUnit::Words);
        assert_eq!((nothing.units, nothing.tokens.len()), (0, 0));
    }

    #[test]
    fn each_unit_is_predicted_once_from_the_middle_of_a_window() {
        for length in 1..40 {
            for limit in 1..12 {
                let rows = [row(length, (0..length).collect()), row(0, vec![])];
                let found = tagger_windows(&rows, limit);
                let units: Vec<usize> = found.iter().flat_map(|piece| piece.units.clone()).collect();
                assert_eq!(units, (0..length).collect::<Vec<_>>());
                for TaggerWindow { tokens: read, units, .. } in &found {
                    assert!(read.len() <= limit && read.start <= units.start && units.end <= read.end);
                    // Where the text continues, a quarter of the window precedes the predicted units.
                    let before = units.start - read.start;
                    assert!(read.start == 0 || read.end == length || before >= limit / 4, "{length} {limit} {read:?}");
                }
            }
        }
        // Windows without a unit are not read.
        assert_eq!(tagger_windows(&[row(30, vec![0, 29])], 4).len(), 2);
    }
}
