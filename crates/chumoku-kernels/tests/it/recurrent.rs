//! RNN, LSTM and GRU on every instruction set of this machine, compared with the reference implementation in double
//! precision.
//!
//! Widths straddle every vector and tile, and lengths include 0, 1 and many. Outputs start as NaN between guard bytes.

use crate::common::each_isa;
use chumoku_kernels::*;
use testkit::{GuardedBuffer, Random, Tolerance, compare, to_f64};

/// The levels of precision, with the maximum relative error of a result.
const PRECISIONS: [(Precision, f64); 3] =
    [(Precision::Highest, 5e-6), (Precision::High, 1e-4), (Precision::Medium, 4e-2)];

const LENGTHS: [&[usize]; 6] = [&[], &[0], &[1], &[3, 0, 1, 7, 7, 2, 0], &[40], &[2; 37]];

/// Columns of y and dy that must not be touched.
const GAP: usize = 3;

fn offsets_of(lengths: &[usize]) -> Vec<usize> {
    std::iter::once(0)
        .chain(lengths.iter().scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        }))
        .collect()
}

/// The inputs of one layer.
struct LayerInputs {
    cell: RecurrentCell,
    hidden: usize,
    weight: Vec<f32>,
    bias: Vec<f32>,
    projections: Vec<f32>,
    dy: Vec<f32>,
}

impl LayerInputs {
    fn new(cell: RecurrentCell, hidden: usize, tokens: usize) -> LayerInputs {
        let mut random = Random::new((cell.gates() * 1000 + hidden * 10 + tokens) as u64);
        let width = cell.gates() * hidden;
        let share = 1.5 / (hidden as f32).sqrt();
        let weight = random.numbers(width * hidden).iter().map(|x| x * share).collect();
        let projections = random.numbers(tokens * width).iter().map(|x| 2.0 * x).collect();
        LayerInputs {
            cell,
            hidden,
            weight,
            bias: random.numbers(width),
            projections,
            dy: random.numbers(tokens * hidden),
        }
    }

    fn recurrence<'a>(&self, offsets: &'a [usize], is_reversed: bool, precision: Precision) -> Recurrence<'a> {
        Recurrence { cell: self.cell, hidden: self.hidden, offsets, is_reversed, precision }
    }
}

/// Returns the results of both passes: gates, state, h′, y, and the gradients of both projections.
fn run<T: Real>(
    r: &Recurrence<'_>,
    [weight, bias, projections, dy]: [&[T]; 4],
    y: &mut [T],
    gap: usize,
) -> [Vec<T>; 6] {
    let (n, width) = (r.hidden, r.cell.gates() * r.hidden);
    let tokens = *r.offsets.last().unwrap();
    let weight = MatRef::new(weight, width, n).unwrap();
    let out = MatMut::strided(y, tokens, n, n + gap).unwrap();
    let trace = r.forward(weight.t().into(), bias, projections.to_vec(), out).unwrap();
    let y_rows: Vec<T> = y.chunks(n + gap).flat_map(|row| row[..n].to_vec()).collect();
    // dy has gaps too.
    let spread: Vec<T> = dy.chunks(n).flat_map(|row| [row, &vec![T::round_from(f64::NAN); gap]].concat()).collect();
    let dy = MatRef::strided(&spread, tokens, n, n + gap, 1).unwrap();
    let deltas = r.backward(weight.into(), &trace, dy).unwrap();
    let hidden = deltas.hidden().to_vec();
    [trace.gates, trace.state, trace.previous_outputs, y_rows, deltas.input, hidden]
}

const NAMES: [&str; 6] = ["gates", "state", "previous", "y", "d input", "d hidden"];

fn run_f32(layer: &LayerInputs, r: &Recurrence<'_>) -> [Vec<f32>; 6] {
    let tokens = *r.offsets.last().unwrap();
    let mut y = GuardedBuffer::new(tokens * (layer.hidden + GAP));
    let found = run(r, [&layer.weight, &layer.bias, &layer.projections, &layer.dy], y.as_mut_slice(), GAP);
    let y = y.into_checked();
    assert!(
        y.chunks(layer.hidden + GAP).all(|row| row[layer.hidden..].iter().all(|x| x.is_nan())),
        "a gap was touched"
    );
    found
}

#[test]
fn cells_match_the_reference_for_every_width_and_length() {
    each_isa(|isa| {
        for cell in RecurrentCell::ALL {
            for hidden in [1, 5, 16, 33, 70] {
                for lengths in LENGTHS {
                    let offsets = offsets_of(lengths);
                    let layer = LayerInputs::new(cell, hidden, *offsets.last().unwrap());
                    let inputs = [&layer.weight, &layer.bias, &layer.projections, &layer.dy].map(|x| to_f64(x));
                    for is_reversed in [false, true] {
                        let r = layer.recurrence(&offsets, is_reversed, Precision::Highest);
                        let mut y = vec![f64::NAN; layer.dy.len()];
                        let expected = run(&r, inputs.each_ref().map(Vec::as_slice), &mut y, 0);
                        for (precision, relative) in PRECISIONS {
                            let found = run_f32(&layer, &Recurrence { precision, ..r });
                            let tolerance = Tolerance { relative, absolute: 1e-9 };
                            for ((name, found), expected) in NAMES.iter().zip(&found).zip(&expected) {
                                let at =
                                    format!("{isa} {cell:?} {hidden} {lengths:?} {is_reversed} {precision:?} {name}");
                                compare(&at, found, expected, tolerance).unwrap();
                            }
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn results_do_not_depend_on_threads_or_other_sequences() {
    let lengths = [5, 0, 19, 1, 19, 30, 2, 8, 11];
    let offsets = offsets_of(&lengths);
    each_isa(|isa| {
        for cell in RecurrentCell::ALL {
            let layer = LayerInputs::new(cell, 48, *offsets.last().unwrap());
            for (precision, _) in PRECISIONS {
                for is_reversed in [false, true] {
                    let r = layer.recurrence(&offsets, is_reversed, precision);
                    let in_threads = |threads: usize| {
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                        pool.install(|| run_f32(&layer, &r))
                    };
                    let one = in_threads(1);
                    assert_eq!(one, in_threads(2), "{isa} {cell:?}");
                    assert_eq!(one, in_threads(3), "{isa} {cell:?}");
                    let width = cell.gates() * layer.hidden;
                    for (s, &length) in lengths.iter().enumerate() {
                        let part = |x: &[f32], width: usize| x[offsets[s] * width..offsets[s + 1] * width].to_vec();
                        let alone = LayerInputs {
                            projections: part(&layer.projections, width),
                            dy: part(&layer.dy, layer.hidden),
                            weight: layer.weight.clone(),
                            bias: layer.bias.clone(),
                            ..layer
                        };
                        let found = run_f32(&alone, &Recurrence { offsets: &[0, length], ..r });
                        for ((name, found), all) in NAMES.iter().zip(found).zip(&one) {
                            let width = if all.len() == layer.dy.len() { layer.hidden } else { width };
                            let all = if all.is_empty() { vec![] } else { part(all, width) };
                            assert_eq!(found, all, "{isa} {cell:?} {precision:?} sequence {s}: {name}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn non_finite_values_stay_in_their_sequence() {
    let offsets = offsets_of(&[4, 6, 5]);
    each_isa(|isa| {
        for cell in RecurrentCell::ALL {
            let mut layer = LayerInputs::new(cell, 20, 15);
            let width = cell.gates() * 20;
            let r = layer.recurrence(&offsets, false, Precision::Highest);
            let clean = run_f32(&layer, &r);
            // At the third step of the second sequence.
            layer.projections[6 * width..7 * width].fill(f32::NAN);
            let found = run_f32(&layer, &r);
            for (token, (found, clean)) in found[3].chunks(20).zip(clean[3].chunks(20)).enumerate() {
                match token {
                    6..10 => assert!(found.iter().all(|x| x.is_nan()), "{isa} {cell:?} token {token}"),
                    _ => assert_eq!(found, clean, "{isa} {cell:?} token {token}"),
                }
            }
        }
    });
}

#[test]
fn invalid_arguments_are_rejected() {
    let offsets = [0, 2, 5];
    let layer = LayerInputs::new(RecurrentCell::Gru, 4, 5);
    let r = layer.recurrence(&offsets, false, Precision::Highest);
    let weight = MatRef::new(&layer.weight, 12, 4).unwrap();
    let forward = |r: &Recurrence<'_>, weight: MatRef<'_, f32>, bias: &[f32], projections: &[f32], rows: usize| {
        let mut y = vec![0.0; rows * 4];
        let y = MatMut::new(&mut y, rows, 4).unwrap();
        r.forward(weight.into(), bias, projections.to_vec(), y).map_err(|error| error.to_string())
    };
    let (bias, projections) = (&layer.bias[..], &layer.projections[..]);
    let trace = forward(&r, weight.t(), bias, projections, 5).unwrap();
    for (found, argument) in [
        (forward(&r, weight, bias, projections, 5), "weight"),
        (forward(&r, weight.t(), &bias[1..], projections, 5), "bias"),
        (forward(&r, weight.t(), bias, &projections[1..], 5), "projections"),
        (forward(&r, weight.t(), bias, projections, 4), "y"),
        (forward(&Recurrence { offsets: &[0, 3, 2], ..r }, weight.t(), bias, projections, 5), "offsets"),
        (forward(&Recurrence { offsets: &[1, 5], ..r }, weight.t(), bias, projections, 5), "offsets"),
        (forward(&Recurrence { offsets: &[], ..r }, weight.t(), bias, projections, 5), "offsets"),
        (forward(&Recurrence { hidden: 0, ..r }, weight.t(), bias, projections, 5), "hidden"),
    ] {
        let error = found.unwrap_err();
        assert!(error.starts_with(&format!("recurrence: {argument}: expected")), "{error}");
    }
    let (dy, short) = (MatRef::new(&layer.dy, 5, 4).unwrap(), MatRef::new(&layer.dy[..16], 4, 4).unwrap());
    let turned = MatRef::new(&layer.dy, 4, 5).unwrap().t();
    let backward = |weight: MatRef<'_, f32>, trace: &RecurrentActivations<f32>, dy| {
        r.backward(weight.into(), trace, dy).map(drop).map_err(|error| error.to_string())
    };
    let [mut no_gates, mut no_state, mut no_previous] = [(); 3].map(|()| trace.clone());
    no_gates.gates.pop();
    no_state.state.clear();
    no_previous.previous_outputs.push(0.0);
    backward(weight, &trace, dy).unwrap();
    for (found, argument) in [
        (backward(weight.t(), &trace, dy), "weight"),
        (backward(weight, &no_gates, dy), "gates"),
        (backward(weight, &no_state, dy), "state"),
        (backward(weight, &no_previous, dy), "previous"),
        (backward(weight, &trace, short), "dy"),
        (backward(weight, &trace, turned), "dy"),
    ] {
        let error = found.unwrap_err();
        assert!(error.starts_with(&format!("recurrence: {argument}: expected")), "{error}");
    }
}
