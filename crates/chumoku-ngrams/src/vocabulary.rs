//! Counted n-grams of texts, the vocabulary of features, and the TF-IDF row of a text.

use super::sparse::SparseRows;
use super::tokens::{HashSlice, NgramReader, NgramScheme};
use crate::feature_columns;
use chumoku_kernels::parallel;
use chumoku_text::row::RowRef;

/// Texts per task.
const TEXTS_PER_TASK: usize = 64;
/// N-grams that are looked up together, so that their reads from memory overlap.
const LOOKUPS: usize = 32;
/// Texts between two progress reports, a multiple of [`TEXTS_PER_TASK`].
const TEXTS_PER_REPORT: usize = 1 << 13;

/// The counted n-grams of some texts, in chunks of [`TEXTS_PER_TASK`] texts.
pub(crate) struct CountedTexts {
    chunks: Vec<TextChunk>,
    /// The slice of hashes that is counted.
    slice: HashSlice,
}

#[derive(Default)]
struct TextChunk {
    /// The start of each text in the arrays below, and their length at the end.
    starts: Vec<usize>,
    /// Distinct, ascending within each text.
    hashes: Vec<u64>,
    counts: Vec<u32>,
    /// The column features of each text; no rows without feature columns.
    columns: SparseRows,
}

impl TextChunk {
    fn texts(&self) -> impl Iterator<Item = (&[u64], &[u32])> {
        self.starts.windows(2).map(|w| (&self.hashes[w[0]..w[1]], &self.counts[w[0]..w[1]]))
    }
}

impl CountedTexts {
    /// Reads all texts on all threads and reports the number read to `progress`. Texts not begun when `is_cancelled`
    /// turns true are skipped.
    pub(crate) fn read(
        texts: &[RowRef<'_>],
        scheme: &NgramScheme,
        is_cancelled: &(dyn Fn() -> bool + Sync),
        progress: &dyn Fn(usize),
    ) -> Self {
        CountedTexts::read_slice(texts, scheme, HashSlice::default(), is_cancelled, progress)
    }

    /// Like [`CountedTexts::read`] for a single slice of hashes. The first slice includes the feature columns.
    pub(crate) fn read_slice(
        texts: &[RowRef<'_>],
        scheme: &NgramScheme,
        slice: HashSlice,
        is_cancelled: &(dyn Fn() -> bool + Sync),
        progress: &dyn Fn(usize),
    ) -> Self {
        let read = |texts: &[RowRef<'_>]| {
            let beside = SparseRows { starts: vec![0], ..SparseRows::default() };
            let mut piece = TextChunk { starts: vec![0], columns: beside, ..TextChunk::default() };
            if is_cancelled() {
                return piece;
            }
            let mut reader = NgramReader::for_slice(slice);
            for &text in texts {
                for run in reader.read(text, scheme).chunk_by(|a, b| a == b) {
                    piece.hashes.push(run[0]);
                    piece.counts.push(run.len() as u32);
                }
                piece.starts.push(piece.hashes.len());
                let SparseRows { starts, indices, values } = &mut piece.columns;
                if slice.is_first() {
                    feature_columns::push_features(&scheme.columns, scheme.column_scale, text, indices, values);
                }
                starts.push(values.len());
            }
            piece.hashes.shrink_to_fit();
            piece.counts.shrink_to_fit();
            piece
        };
        let mut pieces = Vec::with_capacity(texts.len().div_ceil(TEXTS_PER_TASK));
        for (stretch, texts) in texts.chunks(TEXTS_PER_REPORT).enumerate() {
            progress(stretch * TEXTS_PER_REPORT);
            let parts: Vec<&[RowRef<'_>]> = texts.chunks(TEXTS_PER_TASK).collect();
            pieces.extend(parallel::map(&parts, |texts| read(texts)));
        }
        CountedTexts { chunks: pieces, slice }
    }

    /// Returns the distinct n-grams of each text, ascending, and their counts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&[u64], &[u32])> {
        self.chunks.iter().flat_map(TextChunk::texts)
    }

    /// The slice of hashes that is counted.
    pub(crate) fn slice(&self) -> HashSlice {
        self.slice
    }

    /// Returns the column features of each text.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&[u32], &[f32])> {
        self.chunks.iter().flat_map(|piece| (0..piece.columns.num_rows()).map(|row| piece.columns.row(row)))
    }

    /// Drops the n-grams and keeps the feature columns.
    pub(crate) fn drop_ngrams(&mut self) {
        for piece in &mut self.chunks {
            *piece = TextChunk { starts: vec![0], columns: std::mem::take(&mut piece.columns), ..TextChunk::default() };
        }
    }

    /// Appends other texts.
    pub(crate) fn append(&mut self, mut other: CountedTexts) {
        self.chunks.append(&mut other.chunks);
    }

    /// Returns the TF-IDF rows of the texts.
    pub(crate) fn rows(&self, vocabulary: &Vocabulary) -> SparseRows {
        let weigh = |piece: &TextChunk| {
            let mut part = SparseRows { starts: vec![0], ..SparseRows::default() };
            for (text, (hashes, counts)) in piece.texts().enumerate() {
                vocabulary.push_row(hashes.iter().copied().zip(counts.iter().copied()), &mut part);
                vocabulary.push_columns(piece.columns.row(text), &mut part);
            }
            part
        };
        let parts: Vec<SparseRows> = parallel::map(&self.chunks, weigh);
        let stored = parts.iter().map(|part| part.values.len()).sum();
        let mut rows =
            SparseRows { starts: vec![0], indices: Vec::with_capacity(stored), values: Vec::with_capacity(stored) };
        for part in parts {
            let before = rows.values.len();
            rows.indices.extend_from_slice(&part.indices);
            rows.values.extend_from_slice(&part.values);
            rows.starts.extend(part.starts[1..].iter().map(|start| before + start));
        }
        rows
    }
}

/// The vocabulary: ascending hashes, a weight for each, and a table that finds a hash in about one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vocabulary {
    hashes: Vec<u64>,
    idf: Vec<f32>,
    /// `table[p]`..`table[p + 1]` is the range of hashes with the leading bits p.
    table: Vec<u32>,
    shift: u32,
}

impl Vocabulary {
    /// Builds a vocabulary from strictly ascending hashes and their weights.
    pub(crate) fn new(hashes: Vec<u64>, idf: Vec<f32>) -> Self {
        let bits = hashes.len().next_power_of_two().trailing_zeros().max(1);
        let shift = 64 - bits;
        let mut table = vec![0; (1 << bits) + 1];
        for hash in &hashes {
            table[(hash >> shift) as usize + 1] += 1;
        }
        for prefix in 1..table.len() {
            table[prefix] += table[prefix - 1];
        }
        Vocabulary { hashes, idf, table, shift }
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(crate) fn idf(&self) -> &[f32] {
        &self.idf
    }

    /// Returns the hash at an index, or the largest number after the last one.
    fn hash_at(&self, at: usize) -> u64 {
        self.hashes.get(at).copied().unwrap_or(u64::MAX)
    }

    /// Appends a row: (1 + ln count) · idf. Each block (the lowest bit of the hash) is scaled to the same length, and
    /// the whole row to length 1.
    pub(crate) fn push_row(&self, mut counted: impl Iterator<Item = (u64, u32)>, rows: &mut SparseRows) {
        let start = rows.values.len();
        let mut squares = [0.0_f64; 2];
        let mut batch = [(0, 0); LOOKUPS];
        loop {
            let count = batch.iter_mut().zip(&mut counted).map(|(slot, ngram)| *slot = ngram).count();
            self.push_batch(&batch[..count], &mut squares, rows);
            if count < LOOKUPS {
                break;
            }
        }
        let scale = row_scales(squares);
        for (&at, value) in rows.indices[start..].iter().zip(&mut rows.values[start..]) {
            *value *= scale[block_of(self.hashes[at as usize])];
        }
        rows.starts.push(rows.values.len());
    }

    /// Appends at most [`LOOKUPS`] n-grams to a row without its scales, and adds their squares by block.
    fn push_batch(&self, batch: &[(u64, u32)], squares: &mut [f64; 2], rows: &mut SparseRows) {
        let (mut places, mut keys) = ([0; LOOKUPS], [0; LOOKUPS]);
        for (place, (hash, _)) in places.iter_mut().zip(batch) {
            *place = self.table[(hash >> self.shift) as usize] as usize;
        }
        for (key, &place) in keys.iter_mut().zip(&places[..batch.len()]) {
            *key = self.hash_at(place);
        }
        for (&(hash, count), (&place, &key)) in batch.iter().zip(places.iter().zip(&keys)) {
            let (mut at, mut key) = (place, key);
            if key < hash {
                let end = self.table[(hash >> self.shift) as usize + 1] as usize;
                at += self.hashes[place..end].partition_point(|&known| known < hash);
                key = self.hash_at(at);
            }
            if key == hash && at < self.len() {
                let value = term_frequency(count) * self.idf[at];
                squares[block_of(hash)] += f64::from(value * value);
                rows.indices.push(at as u32);
                rows.values.push(value);
            }
        }
    }

    /// Appends column features to the last row; they follow the n-grams.
    pub(crate) fn push_columns(&self, (indices, values): (&[u32], &[f32]), rows: &mut SparseRows) {
        rows.indices.extend(indices.iter().map(|&feature| self.len() as u32 + feature));
        rows.values.extend_from_slice(values);
        if let Some(end) = rows.starts.last_mut() {
            *end = rows.values.len();
        }
    }
}

/// Returns the block of an n-gram: 0 for words, 1 for characters.
pub(crate) fn block_of(hash: u64) -> usize {
    (hash & 1) as usize
}

/// Returns 1 + ln n.
pub(crate) fn term_frequency(count: u32) -> f32 {
    if count == 1 { 1.0 } else { 1.0 + (count as f32).ln() }
}

/// Returns the factors of a row's two blocks, given their sums of squares. Each block gets the same length, and the
/// whole row the length 1.
pub(crate) fn row_scales(squares: [f64; 2]) -> [f32; 2] {
    let blocks = squares.iter().filter(|&&square| square > 0.0).count();
    squares.map(|square| (1.0 / (square * blocks as f64).sqrt()) as f32)
}
