//! The reference implementation: one sequence and one step at a time.

use super::types::{ProjectionGradients, Recurrence, RecurrentActivations, RecurrentCell};
use crate::gemm::{MatMut, MatRef, Rhs};
use crate::number::Real;

/// Computes the sigmoid function, `1 / (1 + e⁻ˣ)`.
pub(crate) fn sigmoid<T: Real>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

/// Computes the hyperbolic tangent.
pub(crate) fn tanh<T: Real>(x: T) -> T {
    T::round_from(x.to_f64().tanh())
}

/// Runs the cell with the formulas of [`RecurrentCell`]. The projections x are overwritten by the gates.
pub(crate) fn recurrent_forward<T: Real>(
    r: &Recurrence<'_>,
    weight: Rhs<'_, T>,
    bias: &[T],
    projections: Vec<T>,
    mut y: MatMut<'_, T>,
) -> RecurrentActivations<T> {
    let (n, width, weight) = (r.hidden, r.cell.gates() * r.hidden, weight.matrix());
    let (state, previous) = (vec![T::ZERO; r.state_len()], vec![T::ZERO; y.rows() * n]);
    let mut trace = RecurrentActivations { gates: projections, state, previous_outputs: previous };
    for sequence in 0..r.offsets.len() - 1 {
        let (mut h, mut c) = (vec![T::ZERO; n], vec![T::ZERO; n]);
        for step in 0..r.length(sequence) {
            let token = r.token(sequence, step);
            // s = W_hh h′ + b_hh
            let s: Vec<T> = (0..width).map(|j| bias[j] + (0..n).map(|p| h[p] * weight.at(p, j)).sum()).collect();
            let x = &mut trace.gates[token * width..][..width];
            trace.previous_outputs[token * n..][..n].copy_from_slice(&h);
            for j in 0..n {
                let [a, b, d, e] = [j, n + j, 2 * n + j, 3 * n + j];
                match r.cell {
                    RecurrentCell::Rnn => {
                        x[a] = tanh(x[a] + s[a]);
                        h[j] = x[a];
                    }
                    RecurrentCell::Lstm => {
                        x[a] = sigmoid(x[a] + s[a]);
                        x[b] = sigmoid(x[b] + s[b]);
                        x[d] = tanh(x[d] + s[d]);
                        x[e] = sigmoid(x[e] + s[e]);
                        c[j] = x[b] * c[j] + x[a] * x[d];
                        h[j] = x[e] * tanh(c[j]);
                        trace.state[token * n + j] = c[j];
                    }
                    RecurrentCell::Gru => {
                        x[a] = sigmoid(x[a] + s[a]);
                        x[b] = sigmoid(x[b] + s[b]);
                        x[d] = tanh(x[d] + x[a] * s[d]);
                        h[j] = (T::ONE - x[b]) * x[d] + x[b] * h[j];
                        trace.state[token * n + j] = s[d];
                    }
                }
            }
            y.row_mut(token).copy_from_slice(&h);
        }
    }
    trace
}

/// Runs backward through time: each step passes the gradients of its output and state to the previous step.
pub(crate) fn recurrent_backward<T: Real>(
    r: &Recurrence<'_>,
    weight: Rhs<'_, T>,
    trace: &RecurrentActivations<T>,
    dy: MatRef<'_, T>,
) -> ProjectionGradients<T> {
    let (n, width, weight) = (r.hidden, r.cell.gates() * r.hidden, weight.matrix());
    let zeros = vec![T::ZERO; trace.gates.len()];
    let mut deltas =
        ProjectionGradients { hidden: (r.cell == RecurrentCell::Gru).then(|| zeros.clone()), input: zeros };
    for sequence in 0..r.offsets.len() - 1 {
        // The gradients of h and c from the next step.
        let (mut dh, mut dc) = (vec![T::ZERO; n], vec![T::ZERO; n]);
        for step in (0..r.length(sequence)).rev() {
            let token = r.token(sequence, step);
            let before = step.checked_sub(1).map(|step| r.token(sequence, step));
            let gate = &trace.gates[token * width..][..width];
            let dx = &mut deltas.input[token * width..][..width];
            let mut ds = vec![T::ZERO; width];
            let mut carried = vec![T::ZERO; n];
            for j in 0..n {
                let [a, b, d, e] = [j, n + j, 2 * n + j, 3 * n + j];
                let dh = dh[j] + dy.at(token, j);
                match r.cell {
                    // h = tanh(a)
                    RecurrentCell::Rnn => dx[a] = dh * (T::ONE - gate[a] * gate[a]),
                    // h = o tanh(c), c = f c′ + i g
                    RecurrentCell::Lstm => {
                        let t = tanh(trace.state[token * n + j]);
                        let c = before.map_or(T::ZERO, |before| trace.state[before * n + j]);
                        let [i, f, g, o] = [gate[a], gate[b], gate[d], gate[e]];
                        let d_c = dc[j] + dh * o * (T::ONE - t * t);
                        dx[a] = d_c * g * i * (T::ONE - i);
                        dx[b] = d_c * c * f * (T::ONE - f);
                        dx[d] = d_c * i * (T::ONE - g * g);
                        dx[e] = dh * t * o * (T::ONE - o);
                        dc[j] = d_c * f;
                    }
                    // h = (1 − z) n + z h′, n = tanh(x + r s)
                    RecurrentCell::Gru => {
                        let h = trace.previous_outputs[token * n + j];
                        let [r, z, new] = [gate[a], gate[b], gate[d]];
                        dx[d] = dh * (T::ONE - z) * (T::ONE - new * new);
                        dx[a] = dx[d] * trace.state[token * n + j] * r * (T::ONE - r);
                        dx[b] = dh * (h - new) * z * (T::ONE - z);
                        ds[d] = dx[d] * r;
                        carried[j] = dh * z;
                    }
                }
            }
            match &mut deltas.hidden {
                Some(hidden) => {
                    ds[..2 * n].copy_from_slice(&dx[..2 * n]);
                    hidden[token * width..][..width].copy_from_slice(&ds);
                }
                None => ds.copy_from_slice(dx),
            }
            // s = W_hh h′ + b_hh  →  dh′ = ds W_hh
            dh = (0..n).map(|p| carried[p] + (0..width).map(|j| ds[j] * weight.at(j, p)).sum()).collect();
        }
    }
    deltas
}
