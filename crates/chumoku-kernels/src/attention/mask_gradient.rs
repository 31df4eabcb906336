//! The gradient of an additive mask: gradients of scores, summed over the axes along which the mask broadcasts.
//!
//! Scores are computed once more, so that gradients of any shape add up in one fixed order: each task owns a plane of
//! the mask (and a range of its rows), and goes through the sequences and heads that share it.

use super::blocks::Unit;
use super::differentiate::SpanRows;
use super::engine::{Engine, KEYS, STRIDE, Task};
use super::engines::on_engine;
use super::mask::{Mask, MaskView};
use super::problem::{Attention, Saved};
use super::rows::{Rows, bad_keys};
use super::softmax::{FORBIDDEN_BELOW, exp2_clamped};
use super::transform::Transform;
use crate::dropout::Keep;
use crate::element::{Element, Narrow};
use crate::isa::Simd;
use crate::memory::{Buffer, Scratch};
use crate::reference;
use crate::threads::{SharedMut, for_each};

/// Query rows of a task, where the mask has rows of its own.
const ROWS: usize = 384;

/// Writes the gradient of the mask, contiguous in its own shape.
pub(super) fn mask_gradient<T: Narrow>(args: &Attention<T>, saved: Saved<T>, d_mask: &mut [f32]) {
    let Some(Mask::Additive(view)) = args.mask else { return };
    d_mask.fill(0.0);
    // Nothing to sum; the lengths of views without sequences may be any.
    if d_mask.is_empty() || args.query.sequences() == 0 {
        return;
    }
    let [planes, heads, rows, _] = view.shape;
    let longest = args.query.layout.longest();
    let (parts, size) = if rows == 1 { (1, longest.max(1)) } else { (longest.div_ceil(ROWS), ROWS) };
    let shared = SharedMut::new(d_mask);
    for_each(planes * heads * parts, args.work() * 2, |task| {
        let (part, plane) = (task % parts, task / parts);
        let (b, h) = (plane / heads, plane % heads);
        let places = |axis: usize, mine: usize, all: usize| if view.shape[axis] == 1 { 0..all } else { mine..mine + 1 };
        for s in places(0, b, args.query.sequences()) {
            for head in places(1, h, args.query.heads()) {
                let end = args.query.length(s).min((part + 1) * size);
                for first in (part * size..end).step_by(ROWS) {
                    let unit = Unit::new(s, head, args.key_head(head), first..end.min(first + ROWS));
                    let rows = unit.rows_of(args, &saved, &bad_keys(args, s, unit.key_head));
                    let place = view.contiguous();
                    for (h, i) in rows.bad() {
                        let row = reference::attention_row_backward(args, saved, s, h, i);
                        for (j, d_score) in row.d_scores.iter().enumerate() {
                            if let Some(d_score) = d_score {
                                // SAFETY: this task owns the rows of the mask's plane that its queries read; `d_mask` is
                                // borrowed until all tasks are done, and holds numbers.
                                unsafe { shared.slice(place.at(s, h, i, j), 1)[0] += *d_score as f32 };
                            }
                        }
                    }
                    on_engine(args, Part { args, saved, rows, place, d_mask: shared });
                }
            }
        }
    });
}

struct Part<'a, T: Element> {
    args: &'a Attention<'a, T>,
    saved: Saved<'a, T>,
    rows: SpanRows,
    place: MaskView<'static, f32>,
    d_mask: SharedMut<f32>,
}

impl<T: Narrow> Task for Part<'_, T> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let Part { args, saved, rows, place, d_mask } = self;
        let unit = &rows.unit;
        let simd = engine.simd();
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let blocks = unit.blocks(args, E::QUERIES);
        let mut scratch = Scratch::take();
        let [queries, d_outputs, keys, values, scores, d_weights, slopes, staged] = scratch.split([
            blocks.len() * E::left_size(dim),
            blocks.len() * E::left_size(value_dim),
            E::keys_size(dim),
            E::keys_size(value_dim),
            E::QUERIES * STRIDE * 4,
            E::QUERIES * STRIDE * 4,
            STRIDE * 4,
            KEYS * dim.max(value_dim) * 4,
        ]);
        let [queries, d_outputs, keys, values] = [queries, d_outputs, keys, values].map(Buffer::pointer);
        let [scores, d_weights] = [scores, d_weights].map(|buffer| buffer.pointer().cast::<f32>());
        let (slopes, staged) = (slopes.into_f32(), staged.into_f32());
        let mut squares = [0.0f32; KEYS];
        slopes.fill(1.0);
        for (b, block) in blocks.iter().enumerate() {
            for (from, width, to) in [(args.query, dim, queries), (saved.d_output, value_dim, d_outputs)] {
                let (first, count) = (block.first, block.count);
                let source = Rows { from, sequence: unit.sequence, head: block.head, first, count };
                let matrix = source.stage(engine, true, staged, &mut squares[..count], |_| {});
                // SAFETY: the matrix is readable, and each block has its own place.
                unsafe { engine.pack_left(matrix, to.add(b * E::left_size(width))) };
            }
        }
        let Some(transform) = Transform::new(args) else { return };
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        let dropped = simd.splat(keep.map_or(1.0, |keep| keep.factor()));
        let mut kept = vec![0xFFFFu16; E::QUERIES * KEYS / 16];
        let seen = unit.keys(&blocks);
        for first_key in (seen.start / KEYS * KEYS..seen.end).step_by(KEYS) {
            let count = KEYS.min(seen.end - first_key);
            for (from, to) in [(args.key, keys), (args.value, values)] {
                let source = Rows { from, sequence: unit.sequence, head: unit.key_head, first: first_key, count };
                let matrix = source.stage(engine, true, staged, &mut squares[..count], |_| {});
                // SAFETY: the matrix is readable and has no more rows than a block.
                unsafe { engine.pack_keys(matrix, to) };
            }
            for (b, block) in blocks.iter().enumerate() {
                let Some((from, to)) = block.columns(first_key, count) else { continue };
                // SAFETY: all were packed; the columns are inside the block.
                unsafe {
                    engine.scores(queries.add(b * E::left_size(dim)), keys, dim, from, to, scores);
                    engine.scores(d_outputs.add(b * E::left_size(value_dim)), values, value_dim, from, to, d_weights);
                }
                if let Some(keep) = &keep {
                    block.kept(args, unit.sequence, keep, first_key, from, to, &mut kept);
                }
                for i in 0..block.count {
                    let (span, at) = (block.span(i, first_key, from, to), (unit.sequence, block.head, block.first + i));
                    let row = rows.softmax[block.row + i];
                    if row.is_nothing() || span.first_seen >= span.end_seen {
                        continue;
                    }
                    // SAFETY: the rows have STRIDE numbers, and no other reference to them.
                    let (line, d_weights) = unsafe {
                        let row = |data: *mut f32| std::slice::from_raw_parts_mut(data.add(i * STRIDE), STRIDE);
                        (row(scores), row(d_weights))
                    };
                    transform.apply(simd, args, at, first_key, span, line);
                    let [shift, delta] = [row.shift, row.delta].map(|x| simd.splat(x));
                    let zero = simd.splat(0.0);
                    for col in (from..to).step_by(E::S::LANES) {
                        let score = simd.load(&line[col..]);
                        let weight = exp2_clamped::<E>(simd, score, simd.splat(1.0), shift);
                        let weight = simd.select_lt(score, simd.splat(FORBIDDEN_BELOW), zero, weight);
                        let bits = kept[i * (KEYS / 16) + col / 16] >> (col % 16);
                        let d_weight = simd.select_bits(bits, simd.mul(simd.load(&d_weights[col..]), dropped));
                        simd.store(&mut line[col..], simd.mul(weight, simd.sub(d_weight, delta)));
                    }
                    let first = first_key + span.first_seen;
                    for (j, d_score) in (first..).zip(&line[span.first_seen..span.end_seen]) {
                        // SAFETY: this task owns the rows of the mask's plane that its queries read.
                        unsafe { d_mask.slice(place.at(at.0, at.1, at.2, j), 1)[0] += *d_score };
                    }
                }
            }
        }
    }
}
