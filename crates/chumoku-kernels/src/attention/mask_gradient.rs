//! The gradient of an additive mask: gradients of scores, summed over the axes along which the mask broadcasts.
//!
//! Scores are recomputed here, so that gradients of any shape are added in one fixed order. Each task owns a plane of
//! the mask, or a range of its rows, and goes through the sequences and heads that share it. The row loop repeats
//! `RowPairBackward::differentiate_as` of [`super::softmax_backward`] without the slope of the softcap, because masks
//! are added after the softcap.

use super::blocks::QueryUnit;
use super::engine::{Engine, EngineOp, KEY_BLOCK, SCORE_STRIDE};
use super::engine_choice::run_on_engine;
use super::heads::QueryIndex;
use super::mask::{Mask, MaskView};
use super::operands::{PackedLhs, PackedRhsTransposed, ScoreBlock};
use super::softmax::{MASKED_BELOW, exp2_clamped};
use super::softmax_backward::QuerySpan;
use super::staging::{SourceRows, nonfinite_keys};
use super::transform::{ScoreTransform, ScoreUnit};
use super::type_erased::AnyBackwardInputs;
use crate::dropout::DropoutMask;
use crate::isa::{Simd, VectorMath};
use crate::memory::Scratch;
use crate::threads::{SharedMut, for_each};

/// Query rows of a task, if the mask has its own rows.
const ROWS: usize = 384;

/// Writes the gradient of the mask, contiguous in the shape of the mask.
pub(super) fn mask_gradient(saved: &AnyBackwardInputs, d_mask: &mut [f32]) {
    let args = saved.args;
    let Some(Mask::Additive(view)) = args.mask else { return };
    d_mask.fill(0.0);
    // There is nothing to sum, and views without sequences may have any length.
    if d_mask.is_empty() || args.query.layout.sequence_count() == 0 {
        return;
    }
    let [planes, heads, rows, _] = view.shape;
    let longest = args.query.layout.longest();
    let (parts, size) = if rows == 1 { (1, longest.max(1)) } else { (longest.div_ceil(ROWS), ROWS) };
    let shared = SharedMut::new(d_mask);
    for_each(planes * heads * parts, args.multiply_adds() * 2, |task| {
        let (part, plane) = (task % parts, task / parts);
        let (b, h) = (plane / heads, plane % heads);
        let places = |axis: usize, mine: usize, all: usize| if view.shape[axis] == 1 { 0..all } else { mine..mine + 1 };
        for s in places(0, b, args.query.layout.sequence_count()) {
            for head in places(1, h, args.query.layout.heads) {
                let end = args.query.layout.length(s).min((part + 1) * size);
                for first in (part * size..end).step_by(ROWS) {
                    let unit = QueryUnit::for_head(s, head, args.key_head(head), first..end.min(first + ROWS));
                    let rows = unit.backward_span(saved, &nonfinite_keys(args, s, unit.key_head));
                    let place = view.contiguous();
                    for (h, i) in rows.nonfinite_queries() {
                        let row = saved.reference.row(s, h, i);
                        for (j, d_score) in row.d_scores.iter().enumerate() {
                            if let Some(d_score) = d_score {
                                // SAFETY: this task owns the rows of the mask's plane that its queries read. `d_mask`
                                // is borrowed until all tasks are done, and initialized.
                                unsafe { shared.slice(place.entry_index(s, h, i, j), 1)[0] += *d_score as f32 };
                            }
                        }
                    }
                    run_on_engine(args, MaskGradientTask { saved, rows, mask_layout: place, d_mask: shared });
                }
            }
        }
    });
}

struct MaskGradientTask<'a> {
    saved: &'a AnyBackwardInputs<'a>,
    rows: QuerySpan,
    mask_layout: MaskView<'static, f32>,
    d_mask: SharedMut<f32>,
}

impl EngineOp for MaskGradientTask<'_> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let MaskGradientTask { saved, rows, mask_layout: place, d_mask } = self;
        let args = saved.args;
        let unit = &rows.unit;
        let simd = engine.simd();
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let blocks = unit.blocks(args, E::QUERY_BLOCK);
        let mut scratch = Scratch::take();
        let [queries, d_outputs, keys, values, scores, d_weights, slopes, staged] = scratch.split([
            PackedLhs::<E>::size(blocks.len(), dim),
            PackedLhs::<E>::size(blocks.len(), value_dim),
            PackedRhsTransposed::<E>::size(dim),
            PackedRhsTransposed::<E>::size(value_dim),
            ScoreBlock::<E>::size(),
            ScoreBlock::<E>::size(),
            SCORE_STRIDE * 4,
            KEY_BLOCK * dim.max(value_dim) * 4,
        ]);
        let (mut queries, mut d_outputs) = (PackedLhs::new(queries, dim), PackedLhs::new(d_outputs, value_dim));
        let (mut keys, mut values) = (PackedRhsTransposed::new(keys, dim), PackedRhsTransposed::new(values, value_dim));
        let [mut scores, mut d_weights] = [scores, d_weights].map(|buffer| ScoreBlock::new(buffer.into_f32()));
        let (slopes, staged) = (slopes.into_f32(), staged.into_f32());
        let mut squares = [0.0f32; KEY_BLOCK];
        slopes.fill(1.0);
        for (b, block) in blocks.iter().enumerate() {
            for (from, to) in [(args.query, &mut queries), (saved.d_output, &mut d_outputs)] {
                let (first, count) = (block.first, block.count);
                let source = SourceRows { from, sequence: unit.sequence, head: block.head, first, count };
                let matrix = source.stage(engine, true, staged, &mut squares[..count], &mut |_| {});
                to.pack(engine, b, matrix);
            }
        }
        let Some(transform) = ScoreTransform::new(args) else { return };
        let scale_log2 = simd.splat(ScoreUnit::new(args).scale_log2);
        let dropout_mask = args.dropout.map(|dropout| DropoutMask::new(dropout.rate, dropout.random));
        let dropout_factor = simd.splat(dropout_mask.map_or(1.0, |keep| keep.factor()));
        let mut dropout_bits = vec![0xFFFFu16; E::QUERY_BLOCK * KEY_BLOCK / 16];
        let visible = unit.visible_keys(&blocks);
        for first_key in (visible.start / KEY_BLOCK * KEY_BLOCK..visible.end).step_by(KEY_BLOCK) {
            let of_block = first_key..visible.end.min(first_key + KEY_BLOCK);
            let count = of_block.len();
            for (from, to) in [(args.key, &mut keys), (args.value, &mut values)] {
                let source = SourceRows { from, sequence: unit.sequence, head: unit.key_head, first: first_key, count };
                let matrix = source.stage(engine, true, staged, &mut squares[..count], &mut |_| {});
                to.pack(engine, matrix);
            }
            for (b, block) in blocks.iter().enumerate() {
                let Some(columns) = block.columns(&of_block) else { continue };
                scores.qk_matmul(engine, &queries, (b, block.count), &keys, columns);
                d_weights.qk_matmul(engine, &d_outputs, (b, block.count), &values, columns);
                if let Some(keep) = &dropout_mask {
                    block.draw_dropout_bits((simd, keep), args, unit.sequence, first_key, columns, &mut dropout_bits);
                }
                for i in 0..block.count {
                    let span = block.span(i, first_key, columns);
                    let at = QueryIndex { sequence: unit.sequence, head: block.head, query: block.first + i };
                    let row = rows.softmax[block.row + i];
                    if row.is_inactive() || span.is_empty() {
                        continue;
                    }
                    let (line, d_weights) = (scores.row_mut(i), d_weights.row(i));
                    transform.apply(simd, args, at, first_key, span, line);
                    let (minus_shift, delta) = (simd.splat(-row.shift), simd.splat(row.delta));
                    let zero = simd.splat(0.0);
                    for col in (columns.from()..columns.to()).step_by(E::S::LANES) {
                        let score = simd.load(&line[col..]);
                        let weight = exp2_clamped::<E>(simd, simd.mul_add(score, scale_log2, minus_shift));
                        let weight = simd.select_lt(score, simd.splat(MASKED_BELOW), zero, weight);
                        let bits = dropout_bits[i * (KEY_BLOCK / 16) + col / 16] >> (col % 16);
                        let d_weight = simd.select_bits(bits, simd.mul(simd.load(&d_weights[col..]), dropout_factor));
                        simd.store(&mut line[col..], simd.mul(weight, simd.sub(d_weight, delta)));
                    }
                    let first = first_key + span.first_visible();
                    for (j, d_score) in (first..).zip(&line[span.visible()]) {
                        let entry = place.entry_index(at.sequence, at.head, at.query, j);
                        // SAFETY: this task owns the rows of the mask's plane that its queries read.
                        unsafe { d_mask.slice(entry, 1)[0] += *d_score };
                    }
                }
            }
        }
    }
}
