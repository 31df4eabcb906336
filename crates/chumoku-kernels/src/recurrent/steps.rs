//! The loop through time, for several sequences at once.
//!
//! Each thread takes its own sequences through all their steps, so that threads wait for each other only once instead
//! of at every step. Within a task, sequences are sorted by descending length. The active sequences of a step are then
//! the first rows, and one product advances all of them.

use super::cells::{CellBackward, CellForward};
use super::types::{ProjectionGradients, Recurrence, RecurrentActivations, RecurrentCell};
use crate::gemm::{MatMut, MatRef, OutputInit, Rhs, gemm_packed};
use crate::isa;
use crate::memory::{Scratch, ScratchBuffer};
use crate::threads::{SharedMut, for_each, num_threads, run_on_one_thread};

impl Recurrence<'_> {
    /// Assigns the non-empty sequences to at most `hands` tasks, in descending length. No result depends on the
    /// assignment.
    fn assign_sequences(&self, tasks: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.offsets.len() - 1).filter(|&s| self.length(s) > 0).collect();
        order.sort_by_key(|&sequence| std::cmp::Reverse(self.length(sequence)));
        let hands = tasks.min(order.len());
        (0..hands).map(|hand| order.iter().copied().skip(hand).step_by(hands).collect()).collect()
    }

    /// Returns the sequences that have a step `step`. The sequences must be sorted by descending length.
    fn active_sequences<'a>(&self, sequences: &'a [usize], step: usize) -> &'a [usize] {
        &sequences[..sequences.partition_point(|&sequence| self.length(sequence) > step)]
    }

    /// Runs `task` on sequences that are assigned to the available threads.
    fn for_each_task(&self, task: impl Fn(&[usize]) + Sync + Send) {
        let tasks = self.assign_sequences(num_threads());
        let work = self.offsets[self.offsets.len() - 1] * self.cell.gates() * self.hidden * self.hidden;
        match &tasks[..] {
            // The products of a single task may still be shared.
            [one] => task(one),
            _ => for_each(tasks.len(), work, |i| run_on_one_thread(|| task(&tasks[i]))),
        }
    }
}

fn matrix(x: &[f32], rows: usize, cols: usize) -> MatRef<'_, f32> {
    MatRef::new(x, rows, cols).expect("the buffer has this size")
}

fn matrix_mut(x: &mut [f32], rows: usize, cols: usize) -> MatMut<'_, f32> {
    MatMut::new(x, rows, cols).expect("the buffer has this size")
}

/// Computes the outputs. The caller has checked the shapes.
pub(super) fn forward_f32(
    r: &Recurrence<'_>,
    weight: Rhs<'_, f32>,
    bias: &[f32],
    mut projections: Vec<f32>,
    y: MatMut<'_, f32>,
) -> RecurrentActivations<f32> {
    let (n, width) = (r.hidden, r.cell.gates() * r.hidden);
    let gates = SharedMut::new(&mut projections);
    let (of_state, of_previous) = (r.state_len(), y.rows() * n);
    let (mut states, mut outputs) = (Vec::new(), Vec::new());
    let (state, previous) = (
        SharedMut::from_spare_capacity(&mut states, of_state),
        SharedMut::from_spare_capacity(&mut outputs, of_previous),
    );
    let (y, y_stride) = y.into_parts();
    let y = SharedMut::new(y);
    r.for_each_task(|sequences| {
        let rows = sequences.len();
        let of_c = if r.cell == RecurrentCell::Lstm { rows * n } else { 0 };
        let mut scratch = Scratch::take();
        let [h, c, sums] = scratch.split([4 * rows * n, 4 * of_c, 4 * rows * width]).map(ScratchBuffer::into_f32);
        h.fill(0.0);
        c.fill(0.0);
        for step in 0..r.length(sequences[0]) {
            let sequences = r.active_sequences(sequences, step);
            let alive = sequences.len();
            let sums = &mut sums[..alive * width];
            // s = W_hh h′ + b_hh, where h′ is 0 before the first step.
            if step == 0 {
                sums.chunks_exact_mut(width).for_each(|s| s.copy_from_slice(bias));
            } else {
                let (h, s) = (matrix(&h[..alive * n], alive, n), matrix_mut(sums, alive, width));
                gemm_packed(h, weight, OutputInit::Bias(bias), s, r.precision);
            }
            isa::dispatch(CellForward {
                recurrence: r,
                sequences,
                step,
                sums,
                h,
                c,
                gates,
                state,
                previous,
                y,
                y_stride,
            });
        }
    });
    // SAFETY: every token is a step of one sequence, and each step has written its rows.
    unsafe {
        states.set_len(of_state);
        outputs.set_len(of_previous);
    }
    RecurrentActivations { gates: projections, state: states, previous_outputs: outputs }
}

/// Computes the gradients of the projections. The caller has checked the shapes.
pub(super) fn backward_f32(
    r: &Recurrence<'_>,
    weight: Rhs<'_, f32>,
    trace: &RecurrentActivations<f32>,
    dy: MatRef<'_, f32>,
) -> ProjectionGradients<f32> {
    let (n, width, len) = (r.hidden, r.cell.gates() * r.hidden, trace.gates.len());
    let (mut of_input, mut of_hidden) = (Vec::new(), (r.cell == RecurrentCell::Gru).then(Vec::new));
    let input = SharedMut::from_spare_capacity(&mut of_input, len);
    let hidden = of_hidden.as_mut().map(|hidden| SharedMut::from_spare_capacity(hidden, len));
    let nothing = &vec![0.0; n][..];
    // The GRU's h also passes its gradient directly to h′.
    let start = if r.cell == RecurrentCell::Gru { OutputInit::Keep } else { OutputInit::Zero };
    r.for_each_task(|sequences| {
        let rows = sequences.len();
        let of_c = if r.cell == RecurrentCell::Lstm { rows * n } else { 0 };
        let mut scratch = Scratch::take();
        let [dh, dc, ds] = scratch.split([4 * rows * n, 4 * of_c, 4 * rows * width]).map(ScratchBuffer::into_f32);
        // Sequences that end at a step have received no gradient yet.
        dh.fill(0.0);
        dc.fill(0.0);
        for step in (0..r.length(sequences[0])).rev() {
            let sequences = r.active_sequences(sequences, step);
            let alive = sequences.len();
            let ds = &mut ds[..alive * width];
            isa::dispatch(CellBackward {
                recurrence: r,
                sequences,
                step,
                trace,
                dy,
                zeros: nothing,
                dh,
                dc,
                ds,
                input,
                hidden,
            });
            // s = W_hh h′ + b_hh  →  dh′ = ds W_hh
            if step > 0 {
                let (ds, dh) = (matrix(ds, alive, width), matrix_mut(&mut dh[..alive * n], alive, n));
                gemm_packed(ds, weight, start, dh, r.precision);
            }
        }
    });
    // SAFETY: as in the forward pass.
    unsafe {
        of_input.set_len(len);
        if let Some(hidden) = &mut of_hidden {
            hidden.set_len(len);
        }
    }
    ProjectionGradients { input: of_input, hidden: of_hidden }
}
