//! The backward pass: weights are computed again from log-sum-exp, block by block.
//!
//! For each head of keys, its queries are taken in spans of a fixed number of rows; for each span the keys block by
//! block, and for each block of keys the span's queries in groups. The gradients of keys and values are summed over a
//! span first and then over spans; those of queries over a chunk of keys first and then over chunks. Both orders follow
//! from the lengths of the sequence alone: with few heads the chunks are shared among threads, with many the heads.

use super::blocks::Unit;
use super::differentiate::{Pair, RowBack, SpanRows};
use super::engine::{Engine, GRAIN, KEYS, STRIDE, Task};
use super::engines::on_engine;
use super::heads::HeadsMut;
use super::heads::Layout;
use super::mask_gradient;
use super::problem::{Attention, Gradients, Saved};
use super::rows::{Rows, bad_keys};
use super::transform::Transform;
use crate::dropout::Keep;
use crate::element::{Element, Narrow};
use crate::isa::Simd;
use crate::memory::{Buffer, Scratch};
use crate::reference;
use crate::threads::{SharedMut, for_each};
use std::ops::Range;

/// Rows of a span: what is packed of it stays in the second-level cache.
const SPAN: usize = 1152;
/// Keys of a chunk, at least.
const CHUNK: usize = 1024;
/// Chunks of a sequence, at most.
const CHUNKS: usize = 8;
/// Heads from which on they are shared among threads, not the chunks of one.
const ENOUGH_HEADS: usize = 8;

/// Multiply–adds that are worth a task of their own.
const WORTH_A_TASK: usize = 1 << 21;

/// Attention of f32, backward; arguments have been checked.
pub(super) fn f32(args: &Attention<f32>, saved: Saved<f32>, gradients: Gradients<f32>) {
    backward(args, saved, gradients);
}

/// As [`f32`], of bf16.
pub(super) fn bf16(args: &Attention<half::bf16>, saved: Saved<half::bf16>, gradients: Gradients<half::bf16>) {
    backward(args, saved, gradients);
}

/// As [`f32`], of f16.
pub(super) fn f16(args: &Attention<half::f16>, saved: Saved<half::f16>, gradients: Gradients<half::f16>) {
    backward(args, saved, gradients);
}

fn backward<T: Narrow>(args: &Attention<T>, saved: Saved<T>, gradients: Gradients<T>) {
    let share = |view: HeadsMut<'_, T>| SharedMut::new(view.data);
    let layouts = [gradients.query.layout, gradients.key.layout, gradients.value.layout];
    let grads = [share(gradients.query), share(gradients.key), share(gradients.value)];
    let back = Back { args, saved, layouts, grads };
    let heads = args.key.sequences() * args.key.heads();
    let work = args.work() * 3;
    let few = heads < ENOUGH_HEADS;
    let per_task = (WORTH_A_TASK / (work / heads.max(1)).max(1)).clamp(1, (heads / ENOUGH_HEADS).max(1));
    for_each(heads.div_ceil(per_task), if few { 0 } else { work }, |task| {
        let mut memory = Memory::default();
        for pair in task * per_task..heads.min((task + 1) * per_task) {
            let work = if few { work / heads } else { 0 };
            back.head(pair / args.key.heads(), pair % args.key.heads(), work, &mut memory);
        }
    });
    if let Some(d_mask) = gradients.mask {
        mask_gradient::mask_gradient(args, saved, d_mask);
    }
    if let Some(d_sinks) = gradients.sinks {
        sink_gradient(args, saved, d_sinks);
    }
}

/// `d sink = −p_sink · rowsum(dO ∘ O)`, summed over sequences and queries: the sink is a key whose value is 0.
fn sink_gradient<T: Narrow>(args: &Attention<T>, saved: Saved<T>, d_sinks: &mut [f32]) {
    for (h, d_sink) in d_sinks.iter_mut().enumerate() {
        let mut sum = 0.0;
        for s in 0..args.query.sequences() {
            for i in 0..args.query.length(s) {
                let row = args.query.layout.row(s, h, i);
                let products = saved.output.row(s, h, i).iter().zip(saved.d_output.row(s, h, i));
                let delta: f64 = products.map(|(y, d)| y.to_f64() * d.to_f64()).sum();
                let d_lse = saved.d_log_sum_exp.map_or(0.0, |d| f64::from(d[row]));
                let sink = args.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[h]));
                sum += (sink - f64::from(saved.log_sum_exp[row])).exp() * (d_lse - delta);
            }
        }
        *d_sink = sum as f32;
    }
}

/// What one head after another uses.
#[derive(Default)]
struct Memory {
    beside: Vec<f32>,
    partial: Vec<f32>,
}

/// Arguments and where the gradients of query, key and value go.
struct Back<'a, T: Element> {
    args: &'a Attention<'a, T>,
    saved: Saved<'a, T>,
    layouts: [Layout<'a>; 3],
    grads: [SharedMut<T>; 3],
}

impl<T: Narrow> Back<'_, T> {
    /// All gradients of one sequence and head of keys; `work` is what there is to share among threads.
    fn head(&self, sequence: usize, key_head: usize, work: usize, memory: &mut Memory) {
        let args = self.args;
        let (dim, value_dim) = (args.key.dim(), args.value.dim());
        let (keys, all_keys) = (args.keys(sequence), args.key.length(sequence));
        // Sums of dK and dV: the gradients themselves if they are f32, else beside.
        let rows = if T::IS_F32 { 0 } else { keys };
        let Memory { beside, partial } = memory;
        beside.clear();
        beside.resize(rows * (dim + value_dim), 0.0);
        let (d_key, d_value) = beside.split_at_mut(rows * dim);
        let sums = [(1, d_key, dim), (2, d_value, value_dim)].map(|(which, beside, width)| {
            let (layout, shared) = (self.layouts[which], self.grads[which]);
            match T::shared_f32(shared) {
                Some(shared) => {
                    Sums { shared, first: layout.at(sequence, key_head, 0), stride: layout.row_stride, width }
                }
                None => Sums { shared: SharedMut::new(beside), first: 0, stride: width, width },
            }
        });
        if T::IS_F32 {
            for (j, sums) in (0..keys).flat_map(|j| sums.iter().map(move |sums| (j, sums))) {
                // SAFETY: rows of gradients do not overlap, and these are this head's alone, which one task computes. They
                // are borrowed until all tasks are done, and hold numbers.
                unsafe { sums.row(j) }.fill(0.0);
            }
        }
        let bad_keys = bad_keys(args, sequence, key_head);
        let mut bad_rows = Vec::new();
        let size = keys.div_ceil(CHUNKS).max(CHUNK).next_multiple_of(KEYS);
        let chunks: Vec<Range<usize>> = (0..keys).step_by(size).map(|first| first..keys.min(first + size)).collect();
        for unit in Unit::spans(args, sequence, key_head, SPAN) {
            let rows = unit.rows_of(args, &self.saved, &bad_keys);
            bad_rows.extend(rows.bad());
            let size = chunks.len() * rows.len() * dim;
            partial.resize(size.max(partial.len()), 0.0);
            // Every chunk writes all of its part.
            let partial = &mut partial[..size];
            let partials = SharedMut::new(partial);
            for_each(chunks.len(), work, |chunk| {
                // SAFETY: each chunk has its own part.
                let d_query = unsafe { partials.slice(chunk * rows.len() * dim, rows.len() * dim) };
                on_engine(args, Chunk { back: self, rows: &rows, keys: chunks[chunk].clone(), d_query, sums });
            });
            self.write_queries(&rows, partial);
        }
        for &(h, i) in &bad_rows {
            let row = reference::attention_row_backward(args, self.saved, sequence, h, i);
            for j in (0..keys).filter(|&j| row.d_scores[j].is_some()) {
                // SAFETY: the chunks are done, so that this head's sums are reached by nobody else; they hold numbers.
                let [d_key, d_value] = sums.each_ref().map(|sums| unsafe { sums.row(j) });
                row.add_to_key(args, self.saved, (sequence, h, i), j, d_key, d_value);
            }
            // SAFETY: rows of gradients do not overlap, and queries that read this head of keys are this task's alone.
            let d_query = unsafe { self.grads[0].slice(self.layouts[0].at(sequence, h, i), dim) };
            d_query.iter_mut().zip(&row.d_query).for_each(|(d, &x)| *d = T::of(x));
        }
        for (which, sums) in (1..3).zip(&sums) {
            for j in 0..all_keys {
                // SAFETY: rows of gradients do not overlap, and this head's are this task's alone. Where the gradients are
                // not f32 the sums lie beside them, so that no two slices overlap.
                unsafe {
                    let out = self.grads[which].slice(self.layouts[which].at(sequence, key_head, j), sums.width);
                    if j >= keys {
                        out.fill(T::of(0.0));
                    } else if !T::IS_F32 {
                        T::narrow(sums.row(j), out);
                    }
                }
            }
        }
    }

    /// Adds up what the chunks give to the queries, in their order, and writes it.
    fn write_queries(&self, rows: &SpanRows, partial: &[f32]) {
        let dim = self.args.query.dim();
        let (first, others) = partial.split_at(partial.len().min(rows.len() * dim));
        let mut sum = vec![0.0f32; dim];
        for (at, (h, i)) in rows.places().enumerate() {
            let range = at * dim..(at + 1) * dim;
            match first.get(range.clone()) {
                Some(first) => sum.copy_from_slice(first),
                None => sum.fill(0.0),
            }
            for other in others.chunks_exact((rows.len() * dim).max(1)) {
                sum.iter_mut().zip(&other[range.clone()]).for_each(|(sum, x)| *sum += x);
            }
            sum.iter_mut().for_each(|x| *x *= self.args.scale as f32);
            // SAFETY: rows of gradients do not overlap, and these are this head's alone.
            let out = unsafe { self.grads[0].slice(self.layouts[0].at(rows.sequence, h, i), dim) };
            T::narrow(&sum, out);
        }
    }
}

/// Rows of sums, one for each key.
#[derive(Clone, Copy)]
struct Sums {
    shared: SharedMut<f32>,
    first: usize,
    stride: usize,
    width: usize,
}

impl Sums {
    /// The row of key `j`.
    ///
    /// # Safety
    /// * Nobody else may reach the row while the result lives.
    /// * The memory of the sums must still be there.
    #[allow(clippy::mut_from_ref)]
    unsafe fn row(&self, j: usize) -> &mut [f32] {
        // SAFETY: there and exclusive as the caller promises; sums are made of slices, which hold numbers.
        unsafe { self.shared.slice(self.first + j * self.stride, self.width) }
    }

    /// Adds `factor` times the transpose of `from`, (width, [`KEYS`]), to the rows of `count` keys from `first`.
    ///
    /// # Safety
    /// * Nobody else may reach these rows meanwhile, and the memory of the sums must still be there.
    /// * `from` must be readable for `width` rows, rounded up to 16, of [`KEYS`], and `count` be at most that.
    #[inline(always)]
    unsafe fn add_transposed<S: Simd>(&self, simd: S, from: *const f32, factor: f32, first: usize, count: usize) {
        for k in (0..count).step_by(16) {
            for c in (0..self.width).step_by(16) {
                let from = from.wrapping_add(c * KEYS + k);
                let (rows, columns) = ((count - k).min(16), (self.width - c).min(16));
                // SAFETY: the caller promises `from`, and that the rows are its own.
                unsafe {
                    if rows == 16 && columns == 16 {
                        let to = self.shared.pointer(self.first + (first + k) * self.stride + c);
                        simd.add_transposed(from, KEYS, factor, to, self.stride);
                        continue;
                    }
                    for i in 0..rows {
                        for (j, to) in self.row(first + k + i)[c..c + columns].iter_mut().enumerate() {
                            *to += factor * *from.add(j * KEYS + i);
                        }
                    }
                }
            }
        }
    }
}

/// A chunk of keys against a span of queries.
struct Chunk<'a, T: Element> {
    back: &'a Back<'a, T>,
    rows: &'a SpanRows,
    keys: Range<usize>,
    /// Where what the chunk gives to the queries goes: (rows, dim).
    d_query: &'a mut [f32],
    /// Sums of dK and dV, to be added to.
    sums: [Sums; 2],
}

impl<T: Narrow> Task for Chunk<'_, T> {
    #[inline(always)]
    fn eval<E: Engine>(self, engine: E) {
        let (args, saved, simd) = (self.back.args, self.back.saved, engine.simd());
        let (unit, sequence) = (&self.rows.unit, self.rows.sequence);
        let (dim, value_dim) = (args.query.dim(), args.value.dim());
        let (cols, value_cols) = (dim.next_multiple_of(GRAIN), value_dim.next_multiple_of(GRAIN));
        let groups = unit.groups(args, E::QUERIES, E::GROUP);
        let blocks_per_group = E::GROUP / E::QUERIES;
        let size = |left: usize, count: usize| left * count * groups.len();
        let mut scratch = Scratch::take();
        let [
            queries,
            d_outputs,
            queries_gathered,
            d_outputs_gathered,
            d_query,
            keys,
            values,
            keys_by_row,
            weights,
            d_scores,
            left,
            scores,
            d_weights,
            d_key,
            d_value,
            slopes,
            staged,
        ] = scratch.split([
            size(E::left_size(dim), blocks_per_group),
            size(E::left_size(value_dim), blocks_per_group),
            size(E::gathered_size(dim), 1),
            size(E::gathered_size(value_dim), 1),
            size(E::GROUP * cols * 4, 1),
            E::keys_size(dim),
            E::keys_size(value_dim),
            E::values_size(dim),
            E::group_size(),
            E::group_size(),
            if E::PACKS_WEIGHTS { E::left_size(KEYS) } else { 0 },
            E::QUERIES * STRIDE * 4,
            E::QUERIES * STRIDE * 4,
            (cols + GRAIN) * KEYS * 4,
            (value_cols + GRAIN) * KEYS * 4,
            2 * STRIDE * 4,
            KEYS.max(E::GROUP) * dim.max(value_dim) * 4,
        ]);
        let [
            queries,
            d_outputs,
            queries_gathered,
            d_outputs_gathered,
            keys,
            values,
            keys_by_row,
            weights,
            d_scores,
            left,
        ] = [
            queries,
            d_outputs,
            queries_gathered,
            d_outputs_gathered,
            keys,
            values,
            keys_by_row,
            weights,
            d_scores,
            left,
        ]
        .map(Buffer::pointer);
        let [d_query, scores, d_weights, d_key, d_value] =
            [d_query, scores, d_weights, d_key, d_value].map(|buffer| buffer.pointer().cast::<f32>());
        let (slopes, staged) = (slopes.into_f32(), staged.into_f32());
        slopes.fill(1.0);
        let mut squares = [0.0f32; KEYS];

        // Queries and gradients of outputs, packed both ways, for the whole span.
        for (g, group) in groups.iter().enumerate() {
            for (from, width, rows_to, gathered_to) in [
                (args.query, dim, queries, queries_gathered),
                (saved.d_output, value_dim, d_outputs, d_outputs_gathered),
            ] {
                let source = Rows { from, sequence, head: group.head, first: group.first, count: group.count };
                let matrix = source.stage(engine, true, staged, &mut squares[..group.count], |_| {});
                // SAFETY: the matrix is readable, and each block and group has its own place.
                unsafe {
                    for b in 0..blocks_per_group {
                        let row = (b * E::QUERIES).min(group.count);
                        let part = matrix.rows(row, (group.count - row).min(E::QUERIES));
                        engine.pack_left(part, rows_to.add((g * blocks_per_group + b) * E::left_size(width)));
                    }
                    engine.pack_gathered(matrix, gathered_to.add(g * E::gathered_size(width)));
                }
            }
        }

        let transform = Transform::new(args);
        let factor = if transform.is_some() { 1.0 } else { (args.scale * std::f64::consts::LOG2_E) as f32 };
        let keep = args.dropout.map(|dropout| Keep::new(dropout.rate, dropout.random));
        let dropped = keep.map_or(1.0, |keep| keep.factor());
        let mut kept = vec![0u16; if keep.is_some() { E::QUERIES * KEYS / 16 } else { 0 }];
        let mut started = vec![false; groups.len() * blocks_per_group];
        for first_key in self.keys.clone().step_by(KEYS) {
            let count = KEYS.min(self.keys.end - first_key);
            if !groups.iter().any(|group| group.columns(first_key, count).is_some()) {
                continue;
            }
            let source = Rows { from: args.key, sequence, head: unit.key_head, first: first_key, count };
            let matrix = source.stage(engine, true, staged, &mut squares[..count], |_| {});
            // SAFETY: the matrix is readable and has no more rows than a block.
            unsafe {
                engine.pack_keys(matrix, keys);
                engine.pack_values(matrix, keys_by_row);
            }
            let source = Rows { from: args.value, ..source };
            let matrix = source.stage(engine, true, staged, &mut squares[..count], |_| {});
            // SAFETY: the matrix is readable and has no more rows than a block, for which `values` has room.
            unsafe { engine.pack_keys(matrix, values) };
            let mut gathers = false;
            for (g, group) in groups.iter().enumerate() {
                let Some((from, to)) = group.columns(first_key, count) else { continue };
                for (b, block) in group.blocks.iter().enumerate() {
                    let at = g * blocks_per_group + b;
                    // An engine that does not pack weights computes them where the group's are read from.
                    let (scores, d_weights) = if E::PACKS_WEIGHTS {
                        (scores, d_weights)
                    } else {
                        let row = b * E::QUERIES * STRIDE;
                        (weights.cast::<f32>().wrapping_add(row), d_scores.cast::<f32>().wrapping_add(row))
                    };
                    // SAFETY: all were packed; the columns are inside the block.
                    unsafe {
                        engine.scores(queries.add(at * E::left_size(dim)), keys, dim, from, to, scores);
                        let d_output = d_outputs.add(at * E::left_size(value_dim));
                        engine.scores(d_output, values, value_dim, from, to, d_weights);
                    }
                    if let Some(keep) = &keep {
                        block.kept(args, sequence, keep, first_key, from, to, &mut kept);
                    }
                    for i in (0..E::QUERIES).step_by(2) {
                        let rows = [i, i + 1].map(|i| {
                            let none = RowBack::NOTHING;
                            let row = if i < block.count { self.rows.softmax[block.row + i] } else { none };
                            let mut span = block.span(i, first_key, from, to);
                            if row.is_nothing() {
                                span.end_seen = span.first_seen;
                                // Its own shift and delta may be NaN, which 0 times them would be too.
                                return (none, span);
                            }
                            (row, span)
                        });
                        if let Some(transform) = &transform {
                            for (half, (_, span)) in rows.iter().enumerate() {
                                if span.first_seen >= span.end_seen {
                                    continue;
                                }
                                // SAFETY: the row has STRIDE scores, and no other reference to them.
                                let line =
                                    unsafe { std::slice::from_raw_parts_mut(scores.add((i + half) * STRIDE), STRIDE) };
                                let place = (sequence, block.head, block.first + i + half);
                                transform.slopes(simd, *span, line, &mut slopes[half * STRIDE..][..STRIDE]);
                                transform.apply(simd, args, place, first_key, *span, line);
                            }
                        }
                        let line = |from: *mut f32, half: usize| from.wrapping_add((i + half) * STRIDE).cast_const();
                        let pair = Pair {
                            engine,
                            scores: [line(scores, 0), line(scores, 1)],
                            d_weights: [line(d_weights, 0), line(d_weights, 1)],
                            slopes: transform.is_some().then_some(&*slopes),
                            rows: rows.map(|(row, _)| row),
                            spans: rows.map(|(_, span)| span),
                            factor,
                            dropped,
                            kept: keep.map(|_| &kept[i * (KEYS / 16)..][..2 * (KEYS / 16)]),
                            left: if E::PACKS_WEIGHTS { left } else { d_weights.cast() },
                            row: i,
                            weights,
                            d_scores,
                            group_row: b * E::QUERIES + i,
                        };
                        // SAFETY: scores and d_weights are rows `i` and `i + 1` of blocks of QUERIES rows; `left` is a
                        // block, `weights` and `d_scores` are groups, of which block `b` is a part. All are this
                        // task's. Spans of a block have the same columns, whole grains.
                        unsafe { pair.differentiate() };
                    }
                    // dQ += dS K
                    // SAFETY: all were packed up to `to`; the sums have QUERIES rows.
                    unsafe {
                        let left = if E::PACKS_WEIGHTS { left } else { d_weights.cast() };
                        let out = d_query.add(at * E::QUERIES * cols);
                        engine.weigh(left, from, to, keys_by_row, 0..cols / GRAIN, out, cols, started[at]);
                    }
                    started[at] = true;
                }
                // dV += Pᵀ dO, dK += dSᵀ Q
                let rows = group.count.next_multiple_of(E::QUERIES);
                // The first group writes its columns; what it leaves out is cleared.
                if !gathers && (from, to) != (0, count.next_multiple_of(GRAIN)) {
                    // SAFETY: the sums have so many rows.
                    unsafe {
                        d_key.write_bytes(0, (cols + GRAIN) * KEYS);
                        d_value.write_bytes(0, (value_cols + GRAIN) * KEYS);
                    }
                    gathers = true;
                }
                let adds = std::mem::replace(&mut gathers, true);
                // SAFETY: every block of the group wrote its rows up to `to`.
                unsafe {
                    let d_output = d_outputs_gathered.add(g * E::gathered_size(value_dim));
                    engine.gather(d_output, value_dim, rows, weights, from, to, d_value, adds);
                    let query = queries_gathered.add(g * E::gathered_size(dim));
                    engine.gather(query, dim, rows, d_scores, from, to, d_key, adds);
                }
            }
            if gathers {
                let scale = args.scale as f32;
                for (sums, from, factor) in [(self.sums[0], d_key, scale), (self.sums[1], d_value, dropped)] {
                    // SAFETY: the keys of this chunk are this task's alone; `from` has whole grains of rows.
                    unsafe { sums.add_transposed(simd, from, factor, first_key, count) };
                }
            }
        }
        let mut out = self.d_query.chunks_exact_mut(dim);
        for (g, group) in groups.iter().enumerate() {
            for (b, block) in group.blocks.iter().enumerate() {
                let at = g * blocks_per_group + b;
                for (i, out) in out.by_ref().take(block.count).enumerate() {
                    if started[at] {
                        // SAFETY: the sums of this block were written.
                        out.copy_from_slice(unsafe {
                            std::slice::from_raw_parts(d_query.add((at * E::QUERIES + i) * cols), dim)
                        });
                    } else {
                        out.fill(0.0);
                    }
                }
            }
        }
    }
}
