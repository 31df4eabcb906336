//! Feature selection: chooses n-grams, computes their weights, and arranges the training rows by column.
//!
//! N-grams are counted by ranges of their hashes (*shards*), each small enough for the second-level cache. The n-grams
//! of a text are sorted, so the part of a text in a shard is contiguous. The columns of a shard are built in one pass:
//! a table counts its n-grams, rare ones are dropped, and the rest is written column by column. This needs neither a
//! matrix by row nor a lookup in the whole vocabulary.

use super::column_matrix::{ColumnMatrix, PlainColumns};
use super::packed::PackedColumns;
use super::vocabulary::{CountedTexts, Vocabulary, block_of, row_scales, term_frequency};
use chumoku_kernels::parallel;

/// The rules that select and weight features.
#[derive(Clone, Copy)]
pub(crate) struct FeatureSelection<'a> {
    /// Minimum number of texts that contain an n-gram.
    pub(crate) min_document_frequency: u32,
    /// Maximum number of features. If there are more, the most frequent n-grams are kept; ties go to the lowest hash.
    pub(crate) max_features: usize,
    /// The exponent of an n-gram's relevance in its weight.
    pub(crate) relevance: f64,
    /// The target ids of each text.
    pub labels: &'a [&'a [u32]],
    pub(crate) classes: usize,
    /// Number of features of the feature columns.
    pub(crate) column_features: usize,
}

impl FeatureSelection<'_> {
    /// Returns the classes or labels of some texts, one after the other.
    fn classes_of(&self, rows: &[u32]) -> impl Iterator<Item = usize> {
        rows.iter().flat_map(|&row| self.labels[row as usize]).map(|&class| class as usize)
    }
}

/// Approximate number of n-grams that a shard counts. Tests use a small number, so that groups have several shards.
const SHARD_NGRAMS: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// Number of adjacent shards whose n-grams are collected in one pass over the texts. Each pass waits for memory once
/// per text.
const SHARDS_PER_PASS: usize = 8;
/// Number of groups of adjacent shards that are processed in parallel.
pub(crate) const GROUPS: usize = 16;
/// Bytes of an n-gram that a group collects.
pub(crate) const ENTRY_BYTES: usize = size_of::<ShardEntry>();
/// Approximate bytes of the n-grams that one group collects at a time.
pub(crate) const GROUP_BYTES: usize = SHARDS_PER_PASS * SHARD_NGRAMS * ENTRY_BYTES;
/// Minimum relevance, for n-grams that all classes use equally.
const MIN_RELEVANCE: f64 = 1e-3;

/// The columns of a range of hashes.
#[derive(Default)]
pub(crate) struct ColumnGroup {
    /// Ascending.
    hashes: Vec<u64>,
    columns: PackedColumns,
    /// Number of entries in texts of each class.
    class_entries: Vec<usize>,
}

impl ColumnGroup {
    fn new(classes: usize) -> Self {
        ColumnGroup { class_entries: vec![0; classes], ..ColumnGroup::default() }
    }

    fn for_each(&self, mut each: impl FnMut(u64, &[u32], &[u32])) {
        let mut hashes = self.hashes.iter();
        self.columns.for_each(|_, rows, counts| {
            if let Some(&hash) = hashes.next() {
                each(hash, rows, counts);
            }
        });
    }

    fn push(&mut self, hash: u64, rows: &[u32], counts: &[u32], choice: &FeatureSelection<'_>) {
        choice.classes_of(rows).for_each(|class| self.class_entries[class] += 1);
        self.hashes.push(hash);
        self.columns.push(block_of(hash), rows, counts);
    }
}

/// Returns the features and the texts' rows by column.
#[cfg(test)]
pub(crate) fn count_and_select(counted: &CountedTexts, choice: &FeatureSelection<'_>) -> (Vocabulary, ColumnMatrix) {
    select_features(count_ngrams(counted, choice), counted, choice)
}

/// Returns the features and the texts' rows by column. `parts` holds the columns of n-grams in the order of their
/// hashes, `first` the features of the feature columns.
pub(crate) fn select_features(
    mut parts: Vec<ColumnGroup>,
    first: &CountedTexts,
    choice: &FeatureSelection<'_>,
) -> (Vocabulary, ColumnMatrix) {
    keep_most_frequent(&mut parts, choice);
    let (weights, scales) = column_weights(&parts, choice);
    let beside = feature_columns(first, choice.column_features);
    let vocabulary =
        Vocabulary::new(parts.iter().flat_map(|part| part.hashes.iter().copied()).collect(), weights.concat());
    let weighed = parts.into_iter().map(|part| part.columns).zip(weights).collect();
    (vocabulary, ColumnMatrix::from_counts(weighed, scales, beside))
}

/// Returns the columns of the feature columns.
fn feature_columns(counted: &CountedTexts, features: usize) -> PlainColumns {
    let mut columns: Vec<Vec<(u32, f32)>> = vec![Vec::new(); features];
    for (row, (indices, found)) in (0..).zip(counted.columns()) {
        indices.iter().zip(found).for_each(|(&feature, &value)| columns[feature as usize].push((row, value)));
    }
    let mut found = PlainColumns::default();
    for column in columns {
        let (rows, values): (Vec<u32>, Vec<f32>) = column.into_iter().unzip();
        found.push(&rows, &values);
    }
    found
}

/// Returns the columns of all n-grams that occur in enough texts, in the order of their hashes.
pub(crate) fn count_ngrams(counted: &CountedTexts, choice: &FeatureSelection<'_>) -> Vec<ColumnGroup> {
    let texts: Vec<(&[u64], &[u32])> = counted.texts().collect();
    let all: usize = texts.iter().map(|text| text.0.len()).sum();
    let shards = (all / SHARD_NGRAMS).next_power_of_two().min(1 << 16);
    let groups = shards.min(GROUPS);
    let slice = counted.slice();
    let shard_of = move |hash: u64| slice.part_index(hash, shards);
    let of_group = |group: usize| {
        let shards = shards / groups * group..shards / groups * (group + 1);
        // Hashes are distributed evenly, so the first of a group is close to this share of a text.
        let first_of = |hashes: &[u64]| {
            let mut first = hashes.len() * group / groups;
            while first > 0 && shard_of(hashes[first - 1]) >= shards.start {
                first -= 1;
            }
            first + hashes[first..].iter().take_while(|&&hash| shard_of(hash) < shards.start).count()
        };
        let mut next: Vec<usize> = texts.iter().map(|text| first_of(text.0)).collect();
        let (mut counter, mut part) = (ShardCounter::default(), ColumnGroup::new(choice.classes));
        let mut entries = [const { Vec::new() }; SHARDS_PER_PASS];
        for first in shards.clone().step_by(SHARDS_PER_PASS) {
            let end = shards.end.min(first + SHARDS_PER_PASS);
            for (row, ((hashes, counts), next)) in (0..).zip(texts.iter().zip(&mut next)) {
                let rest = hashes[*next..].iter().zip(&counts[*next..]);
                let of_pass = rest.take_while(|(hash, _)| shard_of(**hash) < end);
                *next += of_pass.fold(0, |length, (&hash, &count)| {
                    entries[shard_of(hash) - first].push(ShardEntry { hash, row, count });
                    length + 1
                });
            }
            for entries in &mut entries[..end - first] {
                counter.write(entries, choice, &mut part);
                entries.clear();
                // A frequent n-gram may have made its shard large.
                entries.shrink_to(2 * SHARD_NGRAMS);
            }
        }
        part
    };
    parallel::map_indices(groups, of_group)
}

/// An n-gram of a text, with its count there.
struct ShardEntry {
    hash: u64,
    row: u32,
    count: u32,
}

/// A counter of the n-grams of one shard.
#[derive(Default)]
struct ShardCounter {
    /// An open-addressing table of n-grams: the hash and the number of texts that contain it (0 for a free slot).
    table: Vec<(u64, u32)>,
    /// The place of each entry in the table.
    places: Vec<u32>,
    kept: Vec<(u64, u32)>,
}

impl ShardCounter {
    /// Adds the columns of a shard to a group. Its entries are in the order of texts.
    fn write(&mut self, entries: &[ShardEntry], choice: &FeatureSelection<'_>, part: &mut ColumnGroup) {
        let size = (2 * entries.len()).next_power_of_two();
        self.table.clear();
        self.table.resize(size, (0, 0));
        self.places.clear();
        for &ShardEntry { hash, .. } in entries {
            // The lowest bit distinguishes words from characters; all other bits are effectively random.
            let mut place = (hash >> 1) as usize & (size - 1);
            loop {
                let (known, texts) = &mut self.table[place];
                if *texts == 0 || *known == hash {
                    (*known, *texts) = (hash, *texts + 1);
                    break;
                }
                place = (place + 1) & (size - 1);
            }
            self.places.push(place as u32);
        }
        self.kept.clear();
        for (place, &(hash, texts)) in self.table.iter().enumerate() {
            if texts >= choice.min_document_frequency.max(1) {
                self.kept.push((hash, place as u32));
            }
        }
        self.kept.sort_unstable();
        // From here on, the table holds the position of the next text of each n-gram.
        for entry in &mut self.table {
            entry.0 = DROPPED;
        }
        let (mut rows, mut counts, mut ends, mut end) =
            (Vec::new(), Vec::new(), Vec::with_capacity(self.kept.len()), 0);
        for &(_, place) in &self.kept {
            let entry = &mut self.table[place as usize];
            entry.0 = end as u64;
            end += entry.1 as usize;
            ends.push(end);
        }
        rows.resize(end, 0);
        counts.resize(end, 0);
        for (&place, &ShardEntry { row, count, .. }) in self.places.iter().zip(entries) {
            let next = &mut self.table[place as usize].0;
            if *next != DROPPED {
                rows[*next as usize] = row;
                counts[*next as usize] = count;
                *next += 1;
            }
        }
        let mut start = 0;
        for (&(hash, _), end) in self.kept.iter().zip(ends) {
            part.push(hash, &rows[start..end], &counts[start..end], choice);
            start = end;
        }
    }
}

const DROPPED: u64 = u64::MAX;

/// Keeps the most frequent n-grams, as many as there may be features; ties go to the lowest hash.
fn keep_most_frequent(parts: &mut [ColumnGroup], choice: &FeatureSelection<'_>) {
    let most = choice.max_features;
    if parts.iter().map(|part| part.hashes.len()).sum::<usize>() <= most {
        return;
    }
    let frequencies = |part: &ColumnGroup| {
        let mut found = Vec::with_capacity(part.hashes.len());
        part.for_each(|_, rows, _| found.push(rows.len() as u32));
        found
    };
    let mut all: Vec<u32> = parts.iter().flat_map(frequencies).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    // Among n-grams as frequent as the last kept one, only some fit.
    let least = most.checked_sub(1).map_or(u32::MAX, |last| all[last]);
    let mut room = most - all.iter().take_while(|&&texts| texts > least).count();
    for part in parts {
        let mut kept = ColumnGroup::new(choice.classes);
        part.for_each(|hash, rows, counts| {
            let texts = rows.len() as u32;
            let is_last = texts == least && room > 0;
            room -= usize::from(is_last);
            if texts > least || is_last {
                kept.push(hash, rows, counts, choice);
            }
        });
        *part = kept;
    }
}

/// Returns idf · √s of every column by group, or with another power of s, and the factors of the two blocks of each text.
fn column_weights(parts: &[ColumnGroup], choice: &FeatureSelection<'_>) -> (Vec<Vec<f32>>, Vec<[f32; 2]>) {
    /// Number of groups that are weighted at a time, because each has sums of squares of all texts.
    const AT_A_TIME: usize = 8;
    let FeatureSelection { labels, classes, relevance: power, .. } = *choice;
    let raised = |relevance: f64| if power == 0.5 { relevance.sqrt() } else { relevance.powf(power) };
    let texts = labels.len();
    // Add-one smoothing of every count, and of every sum.
    let columns = parts.iter().map(|part| part.hashes.len()).sum::<usize>();
    let entries = |class: usize| columns + parts.iter().map(|part| part.class_entries[class]).sum::<usize>();
    let of_class: Vec<f64> = (0..classes).map(|class| entries(class) as f64).collect();
    let all: f64 = of_class.iter().sum();
    let weigh = |part: &ColumnGroup| {
        let mut counts = Vec::new();
        let mut weights = Vec::with_capacity(part.hashes.len());
        let mut squares = vec![[0.0_f64; 2]; texts];
        part.for_each(|hash, rows, of_rows| {
            counts.clear();
            counts.resize(classes, 1.0);
            choice.classes_of(rows).for_each(|class| counts[class] += 1.0);
            let sum: f64 = counts.iter().sum();
            let ratios = counts.iter().zip(&of_class).map(|(count, total)| {
                let (inside, outside) = (count / total, (sum - count) / (all - total));
                (inside / outside).ln().abs()
            });
            let relevance = raised(ratios.fold(0.0, f64::max)).max(MIN_RELEVANCE) as f32;
            let idf = (1.0 + ((1.0 + texts as f64) / (1.0 + rows.len() as f64)).ln()) as f32;
            let weight = idf * relevance;
            for (&row, &count) in rows.iter().zip(of_rows) {
                let value = term_frequency(count) * weight;
                squares[row as usize][block_of(hash)] += f64::from(value * value);
            }
            weights.push(weight);
        });
        (weights, squares)
    };
    let (mut weights, mut sums) = (Vec::with_capacity(parts.len()), vec![[0.0_f64; 2]; texts]);
    for parts in parts.chunks(AT_A_TIME) {
        for (of_part, squares) in parallel::map(parts, weigh) {
            weights.push(of_part);
            for (sum, part) in sums.iter_mut().zip(squares) {
                *sum = [sum[0] + part[0], sum[1] + part[1]];
            }
        }
    }
    (weights, sums.into_iter().map(row_scales).collect())
}
