//! Partition of the work: units of queries that share a head of keys, split into blocks.
//!
//! The borders depend only on shapes, and no result depends on the borders.

use super::engine::{GRAIN, KEY_BLOCK, KeyColumns, VisibleSpan};
use super::mask::Band;
use super::params::AttentionParams;
use super::reference;
use crate::dropout::DropoutMask;
use crate::isa::{Simd, SimdOp};
use std::ops::Range;

/// Units start at multiples of this many rows: whole blocks of every engine.
const UNIT_ROWS: usize = 96;
/// Target number of units, if there are enough rows, so that threads can share them evenly.
const MIN_UNITS: usize = 8;
/// Minimum number of multiply–adds of the forward pass in a task.
const MIN_TASK_WORK: usize = 1 << 20;

/// Query heads and rows of one sequence that read one head of keys.
#[derive(Clone, Debug)]
pub(super) struct QueryUnit {
    pub(super) sequence: usize,
    pub(super) key_head: usize,
    heads: Range<usize>,
    rows: Range<usize>,
}

/// Consecutive blocks of one head.
#[derive(Clone, Debug)]
pub(super) struct QueryGroup {
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    visible_keys: Range<usize>,
    pub(super) blocks: Vec<QueryBlock>,
}

/// Returns all units, and the number of units per task.
pub(super) fn units(args: &AttentionParams<f32>) -> (Vec<QueryUnit>, usize) {
    let (group, dim) = (args.group_size(), args.query.dim.max(args.value.dim));
    let all_rows = args.query.row_count().unwrap_or(usize::MAX);
    let rows_wanted = (65536 / dim)
        .clamp(2 * UNIT_ROWS, 11 * UNIT_ROWS)
        .min((all_rows / MIN_UNITS).max(1))
        .next_multiple_of(UNIT_ROWS);
    let mut units = Vec::new();
    for sequence in 0..args.query.sequence_count() {
        let length = args.query.length(sequence);
        if length == 0 || args.is_decode_step(sequence) {
            continue;
        }
        let heads_wanted = (rows_wanted / length.next_multiple_of(UNIT_ROWS / 2)).clamp(1, group);
        for key_head in 0..args.key.heads {
            let end = (key_head + 1) * group;
            for first in (key_head * group..end).step_by(heads_wanted) {
                for row in (0..length).step_by(rows_wanted) {
                    let heads = first..end.min(first + heads_wanted);
                    units.push(QueryUnit { sequence, key_head, heads, rows: row..length.min(row + rows_wanted) });
                }
            }
        }
    }
    let work = args.multiply_adds() / units.len().max(1);
    let per_task = (MIN_TASK_WORK / work.max(1)).clamp(1, (units.len() / MIN_UNITS).max(1));
    (units, per_task)
}

impl QueryUnit {
    /// Returns a unit of rows of one head.
    pub(super) fn for_head(sequence: usize, head: usize, key_head: usize, rows: Range<usize>) -> Self {
        QueryUnit { sequence, key_head, heads: head..head + 1, rows }
    }

    /// Splits the queries of one head of keys into units of about `rows` rows. The split depends only on the length.
    pub(super) fn spans(
        args: &AttentionParams<f32>,
        sequence: usize,
        key_head: usize,
        rows: usize,
    ) -> impl Iterator<Item = QueryUnit> + use<> {
        let (length, group) = (args.query.length(sequence), args.group_size());
        let heads = (rows / length.next_multiple_of(UNIT_ROWS).max(1)).clamp(1, group);
        let end = (key_head + 1) * group;
        (key_head * group..end).step_by(heads).flat_map(move |first| {
            (0..length).step_by(rows).map(move |row| {
                let (heads, rows) = (first..end.min(first + heads), row..length.min(row + rows));
                QueryUnit { sequence, key_head, heads, rows }
            })
        })
    }

    /// Splits the unit into groups of `group` rows, each in blocks of `height`.
    pub(super) fn groups(&self, args: &AttentionParams<f32>, height: usize, group: usize) -> Vec<QueryGroup> {
        let mut groups: Vec<QueryGroup> = Vec::new();
        for block in self.blocks(args, height) {
            match groups.last_mut() {
                Some(last) if last.head == block.head && last.count + block.count <= group => {
                    last.count += block.count;
                    last.visible_keys = union([last.visible_keys.clone(), block.visible_keys.clone()].into_iter());
                    last.blocks.push(block);
                }
                _ => groups.push(QueryGroup {
                    head: block.head,
                    first: block.first,
                    count: block.count,
                    visible_keys: block.visible_keys.clone(),
                    blocks: vec![block],
                }),
            }
        }
        groups
    }

    /// Splits the unit into blocks of `height` queries.
    pub(super) fn blocks(&self, args: &AttentionParams<f32>, height: usize) -> Vec<QueryBlock> {
        let mut blocks = Vec::new();
        self.blocks_into(args, height, &mut blocks);
        blocks
    }

    /// [`QueryUnit::blocks`] that replaces the contents of `blocks`.
    pub(super) fn blocks_into(&self, args: &AttentionParams<f32>, height: usize, blocks: &mut Vec<QueryBlock>) {
        blocks.clear();
        let mut row = 0;
        let (offset, keys) = (args.diagonal_offset(self.sequence), args.key_count(self.sequence));
        for head in self.heads.clone() {
            for first in self.rows.clone().step_by(height.min(self.rows.len()).max(1)) {
                let count = height.min(self.rows.end - first);
                let mut block = QueryBlock {
                    head,
                    first,
                    count,
                    row,
                    band: args.band,
                    offset,
                    key_count: keys,
                    visible_keys: 0..0,
                };
                // Both ends of the band only move forward from one query to the next.
                block.visible_keys = block.visible_keys_of(0).start..block.visible_keys_of(count - 1).end;
                blocks.push(block);
                row += count;
            }
        }
    }

    /// Returns the range of keys that any of the blocks sees.
    pub(super) fn visible_keys(&self, blocks: &[QueryBlock]) -> Range<usize> {
        union(blocks.iter().map(|block| block.visible_keys.clone()))
    }
}

/// Returns the smallest range that contains all ranges.
fn union(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let join = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
    ranges.filter(|range| !range.is_empty()).reduce(join).unwrap_or(0..0)
}

/// Returns the part of `visible` in the block of `keys`, in whole grains from its first key.
fn columns(visible: &Range<usize>, keys: &Range<usize>) -> Option<KeyColumns> {
    let (from, to) = (visible.start.max(keys.start), visible.end.min(keys.end));
    (from < to).then(|| KeyColumns::new((from - keys.start) / GRAIN * GRAIN, (to - keys.start).next_multiple_of(GRAIN)))
}

impl QueryGroup {
    /// [`QueryBlock::columns`] for all blocks of the group.
    pub(super) fn columns(&self, keys: &Range<usize>) -> Option<KeyColumns> {
        columns(&self.visible_keys, keys)
    }
}

/// Consecutive queries of one head.
#[derive(Clone, Debug)]
pub(super) struct QueryBlock {
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    /// Its first row among the rows of the unit.
    pub(super) row: usize,
    band: Band,
    offset: i64,
    key_count: usize,
    /// The keys that any query of the block sees by position.
    visible_keys: Range<usize>,
}

impl QueryBlock {
    /// Returns the keys that query `i` of the block sees by position.
    #[inline(always)]
    pub(super) fn visible_keys_of(&self, i: usize) -> Range<usize> {
        self.band.range(self.first + i, self.offset, self.key_count)
    }

    /// Returns the span of columns that every query sees, if all queries see the same keys.
    pub(super) fn common_span(&self, first_key: usize, columns: KeyColumns) -> Option<VisibleSpan> {
        (self.visible_keys_of(0) == self.visible_keys_of(self.count - 1)).then(|| self.span(0, first_key, columns))
    }

    /// Returns the columns to compute for the block of `keys`, or `None` if no query sees any of them.
    pub(super) fn columns(&self, keys: &Range<usize>) -> Option<KeyColumns> {
        columns(&self.visible_keys, keys)
    }

    /// Returns whether the key block at `first_key` is the first one that the queries see.
    pub(super) fn is_first_key_block(&self, first_key: usize) -> bool {
        self.visible_keys.start >= first_key
    }

    /// Returns the columns of the key block at `first_key` that query `i` of the block sees; none beyond the last
    /// query.
    #[inline(always)]
    pub(super) fn span(&self, i: usize, first_key: usize, columns: KeyColumns) -> VisibleSpan {
        let range = if i < self.count { self.visible_keys_of(i) } else { 0..0 };
        let column = |key: usize| key.saturating_sub(first_key);
        VisibleSpan::new(columns, column(range.start)..column(range.end))
    }

    /// Marks the queries that see one of `nonfinite_keys`.
    pub(super) fn mark_nonfinite(
        &self,
        args: &AttentionParams<f32>,
        sequence: usize,
        nonfinite_keys: &[usize],
        is_nonfinite: &mut [bool],
    ) {
        for (i, is_nonfinite) in is_nonfinite.iter_mut().enumerate().take(self.count) {
            let sees = |j: &usize| {
                self.visible_keys_of(i).contains(j)
                    && reference::bias(args, sequence, self.head, self.first + i, *j).is_some()
            };
            *is_nonfinite |= nonfinite_keys.iter().any(sees);
        }
    }

    /// Draws the dropout bits of these columns: one bit per key for each query, [`KEY_BLOCK`] bits in all.
    #[inline(always)]
    pub(super) fn draw_dropout_bits<S: Simd>(
        &self,
        (simd, keep): (S, &DropoutMask),
        args: &AttentionParams<f32>,
        sequence: usize,
        first_key: usize,
        columns: KeyColumns,
        kept: &mut [u16],
    ) {
        let pair = (sequence * args.query.heads + self.head) as u64;
        simd.run(DrawDropoutBits {
            dropout_mask: keep,
            pair,
            count: self.count,
            first: self.first,
            first_key,
            columns,
            bits: kept,
        });
    }
}

/// The operation of [`QueryBlock::draw_dropout_bits`], for a pair of sequence and head.
struct DrawDropoutBits<'a> {
    dropout_mask: &'a DropoutMask,
    pair: u64,
    count: usize,
    first: usize,
    first_key: usize,
    columns: KeyColumns,
    bits: &'a mut [u16],
}

impl SimdOp for DrawDropoutBits<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let DrawDropoutBits { dropout_mask: keep, pair, count, first, first_key, columns, bits: kept } = self;
        for group in 0..count.div_ceil(8) {
            for col in (columns.from()..columns.to()).step_by(16) {
                let index = pair << 36 | ((first_key + col) as u64 / 16) << 18 | (first / 8 + group) as u64;
                for (i, bits) in keep.bits(simd, index).into_iter().enumerate() {
                    kept[(group * 8 + i) * (KEY_BLOCK / 16) + col / 16] = bits;
                }
            }
        }
    }
}
