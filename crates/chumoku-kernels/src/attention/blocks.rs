//! How the work is cut: units of queries that share a head of keys, in blocks.
//!
//! Borders depend on shapes alone, and no number depends on them.

use super::engine::{Columns, GRAIN, KEYS, Span};
use super::mask::Band;
use super::problem::Problem;
use super::reference;
use crate::dropout::Keep;
use crate::isa::{Op, Simd};
use std::ops::Range;

/// Units start at multiples of this many rows: whole blocks of every engine.
const ROWS: usize = 96;
/// Units there should be, if there are so many rows, so that threads can share them evenly.
const UNITS: usize = 8;
/// Multiply–adds of the forward pass that are worth a task of their own.
const WORTH_A_TASK: usize = 1 << 20;

/// Query heads and rows of one sequence that read one head of keys.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) sequence: usize,
    pub(super) key_head: usize,
    heads: Range<usize>,
    rows: Range<usize>,
}

/// Consecutive blocks of one head.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    seen: Range<usize>,
    pub(super) blocks: Vec<QueryBlock>,
}

/// All units, and how many of them to make a task of.
pub(super) fn units(args: &Problem<f32>) -> (Vec<Unit>, usize) {
    let (group, dim) = (args.group(), args.query.dim.max(args.value.dim));
    let all_rows = args.query.rows().unwrap_or(usize::MAX);
    let rows_wanted = (65536 / dim).clamp(2 * ROWS, 11 * ROWS).min((all_rows / UNITS).max(1)).next_multiple_of(ROWS);
    let mut units = Vec::new();
    for sequence in 0..args.query.count() {
        let length = args.query.length(sequence);
        if length == 0 || args.decodes(sequence) {
            continue;
        }
        let heads_wanted = (rows_wanted / length.next_multiple_of(ROWS / 2)).clamp(1, group);
        for key_head in 0..args.key.heads {
            let end = (key_head + 1) * group;
            for first in (key_head * group..end).step_by(heads_wanted) {
                for row in (0..length).step_by(rows_wanted) {
                    let heads = first..end.min(first + heads_wanted);
                    units.push(Unit { sequence, key_head, heads, rows: row..length.min(row + rows_wanted) });
                }
            }
        }
    }
    let work = args.work() / units.len().max(1);
    let per_task = (WORTH_A_TASK / work.max(1)).clamp(1, (units.len() / UNITS).max(1));
    (units, per_task)
}

impl Unit {
    /// Rows of one head.
    pub(super) fn new(sequence: usize, head: usize, key_head: usize, rows: Range<usize>) -> Self {
        Unit { sequence, key_head, heads: head..head + 1, rows }
    }

    /// The queries of one head of keys in units of about `rows` rows, which depend on the length alone.
    pub(super) fn spans(
        args: &Problem<f32>,
        sequence: usize,
        key_head: usize,
        rows: usize,
    ) -> impl Iterator<Item = Unit> + use<> {
        let (length, group) = (args.query.length(sequence), args.group());
        let heads = (rows / length.next_multiple_of(ROWS).max(1)).clamp(1, group);
        let end = (key_head + 1) * group;
        (key_head * group..end).step_by(heads).flat_map(move |first| {
            (0..length).step_by(rows).map(move |row| {
                let (heads, rows) = (first..end.min(first + heads), row..length.min(row + rows));
                Unit { sequence, key_head, heads, rows }
            })
        })
    }

    /// The unit in groups of `group` rows, each in blocks of `height`.
    pub(super) fn groups(&self, args: &Problem<f32>, height: usize, group: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for block in self.blocks(args, height) {
            match groups.last_mut() {
                Some(last) if last.head == block.head && last.count + block.count <= group => {
                    last.count += block.count;
                    last.seen = union([last.seen.clone(), block.seen.clone()].into_iter());
                    last.blocks.push(block);
                }
                _ => groups.push(Group {
                    head: block.head,
                    first: block.first,
                    count: block.count,
                    seen: block.seen.clone(),
                    blocks: vec![block],
                }),
            }
        }
        groups
    }

    /// The unit in blocks of `height` queries.
    pub(super) fn blocks(&self, args: &Problem<f32>, height: usize) -> Vec<QueryBlock> {
        let mut blocks = Vec::new();
        self.blocks_into(args, height, &mut blocks);
        blocks
    }

    /// As [`Unit::blocks`], in place of what `blocks` held.
    pub(super) fn blocks_into(&self, args: &Problem<f32>, height: usize, blocks: &mut Vec<QueryBlock>) {
        blocks.clear();
        let mut row = 0;
        let (offset, keys) = (args.offset(self.sequence), args.keys(self.sequence));
        for head in self.heads.clone() {
            for first in self.rows.clone().step_by(height.min(self.rows.len()).max(1)) {
                let count = height.min(self.rows.end - first);
                let mut block = QueryBlock { head, first, count, row, band: args.band, offset, keys, seen: 0..0 };
                // Neither end of the band goes back from one query to the next.
                block.seen = block.range(0).start..block.range(count - 1).end;
                blocks.push(block);
                row += count;
            }
        }
    }

    /// The keys that any of the blocks sees.
    pub(super) fn keys(&self, blocks: &[QueryBlock]) -> Range<usize> {
        union(blocks.iter().map(|block| block.seen.clone()))
    }
}

/// The smallest range that holds all of these.
fn union(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let join = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
    ranges.filter(|range| !range.is_empty()).reduce(join).unwrap_or(0..0)
}

/// The part of `seen` that lies in the block of `keys`, in whole grains from its first.
fn columns(seen: &Range<usize>, keys: &Range<usize>) -> Option<Columns> {
    let (from, to) = (seen.start.max(keys.start), seen.end.min(keys.end));
    (from < to).then(|| Columns::new((from - keys.start) / GRAIN * GRAIN, (to - keys.start).next_multiple_of(GRAIN)))
}

impl Group {
    /// As [`QueryBlock::columns`], of all blocks.
    pub(super) fn columns(&self, keys: &Range<usize>) -> Option<Columns> {
        columns(&self.seen, keys)
    }
}

/// Consecutive queries of one head.
#[derive(Clone, Debug)]
pub(super) struct QueryBlock {
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    /// Its first row among those of the unit.
    pub(super) row: usize,
    band: Band,
    offset: i64,
    keys: usize,
    /// The keys that any query sees by position.
    seen: Range<usize>,
}

impl QueryBlock {
    /// The keys that query `i` of the block sees by position.
    #[inline(always)]
    pub(super) fn range(&self, i: usize) -> Range<usize> {
        self.band.range(self.first + i, self.offset, self.keys)
    }

    /// The part of the columns that every query sees, if all see the same.
    pub(super) fn common_span(&self, first_key: usize, columns: Columns) -> Option<Span> {
        (self.range(0) == self.range(self.count - 1)).then(|| self.span(0, first_key, columns))
    }

    /// The columns to compute of the block of `keys`; `None` if no query sees any.
    pub(super) fn columns(&self, keys: &Range<usize>) -> Option<Columns> {
        columns(&self.seen, keys)
    }

    /// Whether the key block at `first_key` is the first that is seen.
    pub(super) fn starts(&self, first_key: usize) -> bool {
        self.seen.start >= first_key
    }

    /// The part of the columns of the key block at `first_key` that query `i` of the block sees; none beyond the last query.
    #[inline(always)]
    pub(super) fn span(&self, i: usize, first_key: usize, columns: Columns) -> Span {
        let range = if i < self.count { self.range(i) } else { 0..0 };
        let column = |key: usize| key.saturating_sub(first_key);
        Span::new(columns, column(range.start)..column(range.end))
    }

    /// Marks the queries that see one of `bad_keys`.
    pub(super) fn find_bad(&self, args: &Problem<f32>, sequence: usize, bad_keys: &[usize], is_bad: &mut [bool]) {
        for (i, is_bad) in is_bad.iter_mut().enumerate().take(self.count) {
            let sees = |j: &usize| {
                self.range(i).contains(j) && reference::bias(args, sequence, self.head, self.first + i, *j).is_some()
            };
            *is_bad |= bad_keys.iter().any(sees);
        }
    }

    /// Which weights dropout keeps in these columns: for each query a bit a key, [`KEYS`] in all.
    #[inline(always)]
    pub(super) fn kept<S: Simd>(
        &self,
        (simd, keep): (S, &Keep),
        args: &Problem<f32>,
        sequence: usize,
        first_key: usize,
        columns: Columns,
        kept: &mut [u16],
    ) {
        let pair = (sequence * args.query.heads + self.head) as u64;
        simd.run(Kept { keep, pair, count: self.count, first: self.first, first_key, columns, kept });
    }
}

/// What [`QueryBlock::kept`] draws, for a pair of sequence and head.
struct Kept<'a> {
    keep: &'a Keep,
    pair: u64,
    count: usize,
    first: usize,
    first_key: usize,
    columns: Columns,
    kept: &'a mut [u16],
}

impl Op for Kept<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Kept { keep, pair, count, first, first_key, columns, kept } = self;
        for group in 0..count.div_ceil(8) {
            for col in (columns.from()..columns.to()).step_by(16) {
                let index = pair << 36 | ((first_key + col) as u64 / 16) << 18 | (first / 8 + group) as u64;
                for (i, bits) in keep.bits(simd, index).into_iter().enumerate() {
                    kept[(group * 8 + i) * (KEYS / 16) + col / 16] = bits;
                }
            }
        }
    }
}
