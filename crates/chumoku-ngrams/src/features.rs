//! From counted texts to features: which n-grams are kept, what each weighs, and the training rows as columns.
//!
//! N-grams are counted by ranges of their hashes (*shards*), each small enough for the second cache. The n-grams of a
//! text are sorted, so a shard's part of each text is one run. A shard's columns are made in one go: its n-grams are
//! counted in a table, those of too few texts dropped, and the rest written column by column. Neither a matrix by rows
//! nor a search in the whole vocabulary is needed.

use super::columns::Columns;
use super::vocabulary::{CountedTexts, Vocabulary, block_of, row_scales, term_frequency};
use chumoku_kernels::parallel;

/// What decides which n-grams are features.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    /// Texts that must contain an n-gram.
    pub at_least: u32,
    /// Most features; where there are more, the n-grams of the most texts are kept, of equals those of the lowest hash.
    pub most: usize,
    /// The power of its relevance by which an n-gram counts.
    pub relevance: f64,
    /// The numbers of the right answer for each text.
    pub labels: &'a [&'a [u32]],
    pub classes: usize,
    /// Features of what stands beside the texts.
    pub beside: usize,
}

/// N-grams of texts that one shard counts, about. Few in tests, so that groups have several shards there too.
const SHARD: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// Groups of adjacent shards that are worked on side by side.
const GROUPS: usize = 16;
/// Least weight of an n-gram that all classes use alike.
const LEAST_RELEVANCE: f64 = 1e-3;

/// Columns of adjacent hashes.
#[derive(Default)]
struct Part {
    /// Ascending.
    hashes: Vec<u64>,
    /// Where each column ends in the arrays below.
    ends: Vec<usize>,
    rows: Vec<u32>,
    counts: Vec<u32>,
}

impl Part {
    fn columns(&self) -> impl Iterator<Item = (u64, &[u32], &[u32])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends);
        ranges.zip(&self.hashes).map(|((start, &end), &hash)| (hash, &self.rows[start..end], &self.counts[start..end]))
    }

    fn push(&mut self, hash: u64, rows: &[u32], counts: &[u32]) {
        self.hashes.push(hash);
        self.rows.extend_from_slice(rows);
        self.counts.extend_from_slice(counts);
        self.ends.push(self.rows.len());
    }
}

/// The features of the texts, and the texts' rows by columns.
pub(crate) fn features(counted: &CountedTexts, choice: &Choice<'_>) -> (Vocabulary, Columns) {
    let mut parts = count(counted, choice.at_least);
    keep_most_frequent(&mut parts, choice.most);
    let texts = choice.labels.len();
    let weights = weigh(&parts, choice);
    let scales = scales(&parts, &weights, texts);

    let mut starts = vec![0];
    for part in &parts {
        let before = starts[starts.len() - 1];
        starts.extend(part.ends.iter().map(|end| before + end));
    }
    let stored = starts[starts.len() - 1];
    let (mut rows, mut values) = (vec![0; stored], vec![0.0; stored]);
    let (mut rows_left, mut values_left) = (&mut rows[..], &mut values[..]);
    let mut places = Vec::new();
    for part in &parts {
        let (rows, values);
        (rows, rows_left) = rows_left.split_at_mut(part.rows.len());
        (values, values_left) = values_left.split_at_mut(part.rows.len());
        places.push((rows, values));
    }
    parallel::for_each_chunk(&mut places, 1, |i, place| {
        let ((rows, values), part, weights) = (&mut place[0], &parts[i], &weights[i]);
        rows.copy_from_slice(&part.rows);
        let mut at = 0;
        for ((hash, rows, counts), &weight) in part.columns().zip(weights) {
            let block = block_of(hash);
            for ((&row, &count), value) in rows.iter().zip(counts).zip(&mut values[at..]) {
                *value = term_frequency(count) * weight * scales[row as usize][block];
            }
            at += rows.len();
        }
    });
    let hashes = parts.iter().flat_map(|part| part.hashes.iter().copied()).collect();
    add_beside(counted, choice.beside, (&mut starts, &mut rows, &mut values));
    (Vocabulary::new(hashes, weights.concat()), Columns::new(starts, rows, values, texts))
}

/// Adds the columns of what stands beside the texts behind those of n-grams.
fn add_beside(
    counted: &CountedTexts,
    features: usize,
    (starts, rows, values): (&mut Vec<usize>, &mut Vec<u32>, &mut Vec<f32>),
) {
    let mut columns: Vec<Vec<(u32, f32)>> = vec![Vec::new(); features];
    for (row, (indices, found)) in (0..).zip(counted.beside()) {
        indices.iter().zip(found).for_each(|(&feature, &value)| columns[feature as usize].push((row, value)));
    }
    for column in columns {
        rows.extend(column.iter().map(|(row, _)| row));
        values.extend(column.iter().map(|(_, value)| value));
        starts.push(rows.len());
    }
}

/// The columns of all n-grams of `at_least` as many texts, in order of their hashes.
fn count(counted: &CountedTexts, at_least: u32) -> Vec<Part> {
    let texts: Vec<(&[u64], &[u32])> = counted.texts().collect();
    let all: usize = texts.iter().map(|text| text.0.len()).sum();
    let shards = (all / SHARD).next_power_of_two().min(1 << 16);
    let groups = shards.min(GROUPS);
    let shift = 64 - shards.trailing_zeros();
    let shard_of = |hash: u64| hash.checked_shr(shift).unwrap_or(0) as usize;
    let of_group = |group: usize| {
        let shards = shards / groups * group..shards / groups * (group + 1);
        let mut next: Vec<usize> =
            texts.iter().map(|text| text.0.partition_point(|&hash| shard_of(hash) < shards.start)).collect();
        let (mut counter, mut part) = (Counter::default(), Part::default());
        for shard in shards {
            counter.clear();
            for (row, (text, next)) in texts.iter().zip(&mut next).enumerate() {
                let length = text.0[*next..].iter().take_while(|&&hash| shard_of(hash) == shard).count();
                let range = *next..*next + length;
                *next = range.end;
                counter.add(row as u32, &text.0[range.clone()], &text.1[range]);
            }
            counter.write(at_least, &mut part);
        }
        part
    };
    parallel::map_indices(groups, of_group)
}

/// The n-grams of one shard.
#[derive(Default)]
struct Counter {
    /// An open table with a place for each n-gram: its hash, and the texts that have it (0: the place is free).
    table: Vec<(u64, u32)>,
    hashes: Vec<u64>,
    rows: Vec<u32>,
    counts: Vec<u32>,
    places: Vec<u32>,
    kept: Vec<(u64, u32)>,
}

impl Counter {
    fn clear(&mut self) {
        self.hashes.clear();
        self.rows.clear();
        self.counts.clear();
    }

    /// Adds the n-grams of a text.
    fn add(&mut self, row: u32, hashes: &[u64], counts: &[u32]) {
        self.hashes.extend_from_slice(hashes);
        self.counts.extend_from_slice(counts);
        self.rows.resize(self.hashes.len(), row);
    }

    fn write(&mut self, at_least: u32, part: &mut Part) {
        let size = (2 * self.hashes.len()).next_power_of_two();
        self.table.clear();
        self.table.resize(size, (0, 0));
        self.places.clear();
        for &hash in &self.hashes {
            // The lowest bit tells words from characters; the others are as good as random.
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
            if texts >= at_least.max(1) {
                self.kept.push((hash, place as u32));
            }
        }
        self.kept.sort_unstable();
        // From now on the table holds where the next text of an n-gram goes.
        let mut end = part.rows.len();
        for entry in &mut self.table {
            entry.0 = if entry.1 >= at_least.max(1) { 0 } else { DROPPED };
        }
        for &(hash, place) in &self.kept {
            let entry = &mut self.table[place as usize];
            entry.0 = end as u64;
            end += entry.1 as usize;
            part.hashes.push(hash);
            part.ends.push(end);
        }
        part.rows.resize(end, 0);
        part.counts.resize(end, 0);
        for ((&place, &row), &count) in self.places.iter().zip(&self.rows).zip(&self.counts) {
            let next = &mut self.table[place as usize].0;
            if *next != DROPPED {
                part.rows[*next as usize] = row;
                part.counts[*next as usize] = count;
                *next += 1;
            }
        }
    }
}

const DROPPED: u64 = u64::MAX;

/// Drops all but the `most` n-grams of the most texts, of equals those of the lowest hash.
fn keep_most_frequent(parts: &mut [Part], most: usize) {
    if parts.iter().map(|part| part.hashes.len()).sum::<usize>() <= most {
        return;
    }
    let frequencies = |part: &Part| part.columns().map(|(_, rows, _)| rows.len()).collect::<Vec<_>>();
    let mut all: Vec<usize> = parts.iter().flat_map(frequencies).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    // Of n-grams of as many texts as the last one kept, there is room for some.
    let least = most.checked_sub(1).map_or(usize::MAX, |last| all[last]);
    let mut room = most - all.iter().take_while(|&&texts| texts > least).count();
    for part in parts {
        let mut kept = Part::default();
        for (hash, rows, counts) in part.columns() {
            let is_last = rows.len() == least && room > 0;
            room -= usize::from(is_last);
            if rows.len() > least || is_last {
                kept.push(hash, rows, counts);
            }
        }
        *part = kept;
    }
}

/// idf · √s of every column, or another power of s, by parts.
fn weigh(parts: &[Part], choice: &Choice<'_>) -> Vec<Vec<f32>> {
    let Choice { labels, classes, relevance: power, .. } = *choice;
    let raised = |relevance: f64| if power == 0.5 { relevance.sqrt() } else { relevance.powf(power) };
    let numbers = |row: u32| labels[row as usize].iter().map(|&label| label as usize);
    let texts = labels.len() as f64;
    let of_classes = |part: &Part| {
        let mut sums = vec![0_usize; classes];
        part.rows.iter().flat_map(|&row| numbers(row)).for_each(|label| sums[label] += 1);
        sums
    };
    // One added to each count, in every sum too.
    let columns = parts.iter().map(|part| part.hashes.len()).sum::<usize>();
    let mut of_class = vec![columns; classes];
    for part in parallel::map(parts, of_classes) {
        of_class.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let of_class: Vec<f64> = of_class.iter().map(|&sum| sum as f64).collect();
    let all: f64 = of_class.iter().sum();
    let weigh = |part: &Part| {
        let mut counts = Vec::new();
        let weights = part.columns().map(|(_, rows, _)| {
            counts.clear();
            counts.resize(classes, 1.0);
            rows.iter().flat_map(|&row| numbers(row)).for_each(|label| counts[label] += 1.0);
            let sum: f64 = counts.iter().sum();
            let ratios = counts.iter().zip(&of_class).map(|(count, total)| {
                let (inside, outside) = (count / total, (sum - count) / (all - total));
                (inside / outside).ln().abs()
            });
            let relevance = raised(ratios.fold(0.0, f64::max)).max(LEAST_RELEVANCE) as f32;
            let idf = (1.0 + ((1.0 + texts) / (1.0 + rows.len() as f64)).ln()) as f32;
            idf * relevance
        });
        weights.collect()
    };
    parallel::map(parts, weigh)
}

/// By what the values of each text's two blocks are multiplied.
fn scales(parts: &[Part], weights: &[Vec<f32>], texts: usize) -> Vec<[f32; 2]> {
    let add = |i: usize| {
        let (part, weights) = (&parts[i], &weights[i]);
        let mut squares = vec![[0.0_f64; 2]; texts];
        for ((hash, rows, counts), &weight) in part.columns().zip(weights) {
            for (&row, &count) in rows.iter().zip(counts) {
                let value = term_frequency(count) * weight;
                squares[row as usize][block_of(hash)] += f64::from(value * value);
            }
        }
        squares
    };
    let mut all = vec![[0.0_f64; 2]; texts];
    for squares in parallel::map_indices(parts.len(), add) {
        for (all, part) in all.iter_mut().zip(squares) {
            *all = [all[0] + part[0], all[1] + part[1]];
        }
    }
    all.into_iter().map(row_scales).collect()
}
