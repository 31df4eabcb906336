//! The network of a tagger: the tokens of a text, the token of each unit, and what the network says of each.

use crate::crf::TaggerBlend;
use crate::inference::{BATCH_TOKENS, InputFraming, batches_by_length, map_batches};
use crate::layer_errors::layer_error_message;
use crate::models::{TaggedUnits, TokenTagger, TokenTaggerConfig};
use crate::nn::{Offsets, Tokens};
use crate::params::Params;
use crate::text::{TextTokenizer, windows};
use crate::{Error, Result, tr};
use chumoku_kernels::{Precision, parallel};
use chumoku_nn::probability::log_softmax;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The network of a tagger, as `config.json` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaggerNetworkConfig {
    /// How much it and the conditional random field count.
    pub blend: TaggerBlend,
    /// Tokens that a text is read by at a time, those around it included.
    pub max_tokens: usize,
    /// How exact matrix products are: what the model was trained and scored with.
    #[serde(with = "crate::precision", default)]
    pub precision: Precision,
    /// Of the `tokenizer.json` beside it.
    pub vocabulary_sha256: String,
    /// The model.
    #[serde(flatten)]
    pub model: TokenTaggerConfig,
}

/// A network with what reads texts for it.
#[derive(Debug)]
pub(crate) struct TaggerNetwork {
    pub(crate) config: TaggerNetworkConfig,
    pub(crate) model: TokenTagger,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizer: TextTokenizer,
}

/// A text as tokens, and the units of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitRow {
    pub(crate) ids: Vec<u32>,
    /// How many units there are.
    pub(crate) units: usize,
    /// The first token of each unit, ascending; empty where the text has no tokens.
    pub(crate) tokens: Vec<usize>,
    /// How many units of its token stand before each.
    pub(crate) positions: Vec<u32>,
}

/// Tokens that are read together, and the units that are told about: those in the middle of a long text's window.
#[derive(Clone, Debug)]
pub(crate) struct TaggerWindow {
    pub(crate) row: usize,
    pub(crate) tokens: Range<usize>,
    pub(crate) units: Range<usize>,
}

impl UnitRow {
    /// Reads a text whose units, in bytes, lie one behind the other.
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
            // What no token stands for is told by the one before.
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

/// Every unit of the rows that has a token, once. A text longer than `limit` tokens is read in windows of that length that
/// overlap by half: each unit where most stands on either side of it.
pub(crate) fn tagger_windows(rows: &[UnitRow], limit: usize) -> Vec<TaggerWindow> {
    let mut found = Vec::new();
    for (row, of) in rows.iter().enumerate() {
        let length = of.ids.len();
        let told = if length <= limit { windows(length, limit) } else { windows(length, limit.div_ceil(2)) };
        for told in told {
            let start = told.start.saturating_sub((limit - told.len().min(limit)) / 2);
            let end = (start + limit).min(length);
            let first = |token: usize| of.tokens.partition_point(|&at| at < token);
            let units = first(told.start)..first(told.end);
            if !units.is_empty() {
                found.push(TaggerWindow { row, tokens: end.saturating_sub(limit)..end, units });
            }
        }
    }
    found
}

/// Some pieces, packed.
pub(crate) struct PackedWindows {
    pub(crate) ids: Vec<u32>,
    pub(crate) offsets: Offsets,
    tokens: Vec<usize>,
    positions: Vec<u32>,
}

impl PackedWindows {
    pub(crate) fn pack<'a>(
        framed: InputFraming<'_>,
        rows: &[UnitRow],
        pieces: impl Iterator<Item = &'a TaggerWindow> + Clone,
    ) -> PackedWindows {
        let (ids, offsets) = framed.pack(pieces.clone().map(|piece| &rows[piece.row].ids[piece.tokens.clone()]));
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        for (sequence, piece) in pieces.enumerate() {
            let (row, start) = (&rows[piece.row], offsets.range(sequence).start + framed.frame.prefix.len());
            tokens.extend(row.tokens[piece.units.clone()].iter().map(|token| start + token - piece.tokens.start));
            places.extend_from_slice(&row.positions[piece.units.clone()]);
        }
        PackedWindows { ids, offsets, tokens, positions: places }
    }

    pub(crate) fn tokens(&self) -> Tokens<'_> {
        Tokens::new(&self.ids, &self.offsets)
    }

    pub(crate) fn units(&self) -> TaggedUnits<'_> {
        TaggedUnits { tokens: &self.tokens, positions: &self.positions }
    }
}

/// The log-probability of each tag at each unit of each row: (units, tags). A row's do not depend on the other rows.
///
/// # Errors
/// If one is not a number.
pub(crate) fn log_probabilities(
    model: &TokenTagger,
    params: &Params<f32>,
    framed: InputFraming<'_>,
    rows: &[UnitRow],
) -> Result<Vec<Vec<f32>>> {
    let tags = model.config().num_tags;
    // What has no token could be anything.
    let even = -(tags as f32).ln();
    let mut all: Vec<Vec<f32>> = rows.iter().map(|row| vec![even; row.units * tags]).collect();
    predict_windows(model, params, framed, (rows, &tagger_windows(rows, framed.window_size())), &mut all)?;
    Ok(all)
}

/// Writes what the pieces of some rows tell to its place in `all`: for each row (units, tags).
fn predict_windows(
    model: &TokenTagger,
    params: &Params<f32>,
    framed: InputFraming<'_>,
    (rows, pieces): (&[UnitRow], &[TaggerWindow]),
    all: &mut [Vec<f32>],
) -> Result<()> {
    let tags = model.config().num_tags;
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.tokens.len() + framed.frame.len()).collect();
    let batches = batches_by_length(&lengths, BATCH_TOKENS);
    let found = map_batches(&batches, |batch| {
        let packed = PackedWindows::pack(framed, rows, batch.iter().map(|&piece| &pieces[piece]));
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

/// That a probability is none.
pub(crate) fn not_finite_error() -> Error {
    Error::NotFinite(tr!(
        "the model gives a probability that is not a number: its weights are too large to use",
        "モデルの確率が数値になりません。重みが大きすぎて使えません"
    ))
}

impl TaggerNetwork {
    /// The log-probability of each tag at each unit of each text: (units, tags).
    pub(crate) fn log_probabilities(&self, texts: &[(&str, Vec<Range<usize>>)]) -> Result<Vec<Vec<f32>>> {
        let rows = encode_unit_rows(&self.tokenizer, texts)?;
        let framed = InputFraming { frame: self.tokenizer.special_tokens(), max_tokens: self.config.max_tokens };
        log_probabilities(&self.model, &self.params, framed, &rows)
    }

    /// The token that stands for what is hidden, and its name: the one that the encoder learnt to fill in, else that of unknown
    /// words.
    pub(crate) fn mask_token(&self) -> (u32, String) {
        let tokenizer = &self.tokenizer;
        let mask = ["[MASK]", "<mask>"].into_iter().find_map(|name| tokenizer.id(name));
        let id = mask.or_else(|| tokenizer.unknown_id()).unwrap_or(tokenizer.cls_id());
        (id, tokenizer.token(id))
    }

    /// The log-probabilities of a text's tags with each of some parts, in bytes, hidden in turn: every token that has something of
    /// it. `plain` are those of the whole text; of a long one only the windows with hidden tokens are read anew.
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
        let framed = InputFraming { frame: self.tokenizer.special_tokens(), max_tokens: self.config.max_tokens };
        let (mut rows, mut changed) = (Vec::with_capacity(parts.len()), Vec::new());
        let windows = tagger_windows(std::slice::from_ref(&row), framed.window_size());
        for (at, part) in parts.iter().enumerate() {
            let is_hidden = |token: usize| spans[token].0 < part.end && part.start < spans[token].1;
            let mut row = row.clone();
            row.ids.iter_mut().enumerate().filter(|(token, _)| is_hidden(*token)).for_each(|(_, id)| *id = mask);
            let anew = windows.iter().filter(|piece| piece.tokens.clone().any(is_hidden));
            changed.extend(anew.map(|piece| TaggerWindow { row: at, ..piece.clone() }));
            rows.push(row);
        }
        let mut all = vec![plain.to_vec(); parts.len()];
        predict_windows(&self.model, &self.params, framed, (&rows, &changed), &mut all)?;
        Ok(all)
    }
}

/// The rows of many texts, on all threads.
pub(crate) fn encode_unit_rows(tokenizer: &TextTokenizer, texts: &[(&str, Vec<Range<usize>>)]) -> Result<Vec<UnitRow>> {
    parallel::map(texts, |(text, units)| UnitRow::encode(tokenizer, text, units)).into_iter().collect()
}

impl TaggerNetworkConfig {
    /// What is wrong with it, if anything; `tags` is how many it must have.
    pub(crate) fn check(&self, tags: usize) -> Result<(), String> {
        let (model, encoder) = (&self.model, &self.model.encoder);
        if model.num_tags != tags {
            return Err(tr!(
                "network.num_tags: expected {tags}, by the labels, found {}",
                "network.num_tags: labels によれば {tags} のはずですが、{} です",
                model.num_tags
            ));
        }
        let sizes = [
            ("vocab_size", encoder.vocab_size, 1, 1 << 24),
            ("max_length", encoder.max_length, 2, 1 << 20),
            ("max_tokens", self.max_tokens, 2, encoder.max_length.max(2)),
            ("num_places", model.num_places, 1, 1 << 10),
        ];
        for (name, size, least, most) in sizes {
            if size < least || size > most {
                return Err(tr!(
                    "network.{name}: expected {least} to {most}, found {size}",
                    "network.{name}: {least} から {most} までが必要ですが、{size} です"
                ));
            }
        }
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
        // good | film ##s | . of the words good, films and the full stop.
        let row = of("good films.", SpanUnit::Words);
        assert_eq!((row.ids, row.tokens, row.positions), (vec![5, 3, 4, 6], vec![0, 1, 3], vec![0, 0, 0]));
        let row = of("田さんは", SpanUnit::Characters);
        assert_eq!((row.ids, row.tokens, row.positions), (vec![9, 7, 8], vec![0, 1, 1, 2], vec![0, 0, 1, 0]));
        // A sign that the tokenizer drops is told by the token before it, or by the first.
        let row = of("good \u{200b}\u{feff} .", SpanUnit::Words);
        assert_eq!((row.units, row.tokens.len()), (4, 4));
        assert!(row.tokens.is_sorted() && row.tokens[3] == row.ids.len() - 1, "{row:?}");
        let nothing = of("", SpanUnit::Words);
        assert_eq!((nothing.units, nothing.tokens.len()), (0, 0));
    }

    #[test]
    fn each_unit_is_told_about_once_and_in_the_middle() {
        for length in 1..40 {
            for limit in 1..12 {
                let rows = [row(length, (0..length).collect()), row(0, vec![])];
                let found = tagger_windows(&rows, limit);
                let units: Vec<usize> = found.iter().flat_map(|piece| piece.units.clone()).collect();
                assert_eq!(units, (0..length).collect::<Vec<_>>());
                for TaggerWindow { tokens: read, units, .. } in &found {
                    assert!(read.len() <= limit && read.start <= units.start && units.end <= read.end);
                    // Where the text goes on, a quarter of the window stands before what is told about.
                    let before = units.start - read.start;
                    assert!(read.start == 0 || read.end == length || before >= limit / 4, "{length} {limit} {read:?}");
                }
            }
        }
        // Windows without a unit are not read.
        assert_eq!(tagger_windows(&[row(30, vec![0, 29])], 4).len(), 2);
    }
}
