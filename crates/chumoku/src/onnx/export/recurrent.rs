//! Exports recurrent networks as ONNX's operators RNN, LSTM and GRU.

use super::EXPORT_INPUTS;
use super::graph::{Attribute, OnnxElementType};
use super::writer::GraphWriter;
use crate::Result;
use crate::nn::RecurrentConfig;
use chumoku_kernels::RecurrentCell;

/// Returns ONNX's name of a cell, and the indices of our gates in ONNX's order.
///
/// LSTM rows are i, f, g, o here and i, o, f, c in ONNX. GRU rows are r, z, n here and z, r, h in ONNX.
fn cell_operator(cell: RecurrentCell) -> (&'static str, &'static [usize]) {
    match cell {
        RecurrentCell::Rnn => ("RNN", &[0]),
        RecurrentCell::Lstm => ("LSTM", &[0, 3, 1, 2]),
        RecurrentCell::Gru => ("GRU", &[1, 0, 2]),
    }
}

/// Adds the network over the tokens: (batch, sequence, d_model) → (batch, sequence, width). Padding gets 0.
pub(super) fn recurrent(writer: &mut GraphWriter<'_>, config: &RecurrentConfig, x: String) -> Result<String> {
    writer.graph.scope = "recurrent.".to_owned();
    let swap = [("perm", Attribute::Ints(&[1, 0, 2]))];
    let axis = writer.graph.ints(&[1]);
    let lengths = writer.graph.op("ReduceSum", &[EXPORT_INPUTS[1], &axis], &[("keepdims", Attribute::Int(0))]);
    let lengths = writer.cast(&lengths, OnnxElementType::Int32);
    // ONNX expects time steps first.
    let mut x = writer.graph.op("Transpose", &[&x], &swap);
    for index in 0..config.num_layers {
        x = layer(writer, config, index, &x, &lengths)?;
    }
    Ok(writer.graph.op("Transpose", &[&x], &swap))
}

fn layer(
    writer: &mut GraphWriter<'_>,
    config: &RecurrentConfig,
    index: usize,
    x: &str,
    lengths: &str,
) -> Result<String> {
    let (operator, gates) = cell_operator(config.cell);
    let hidden = config.hidden_size;
    let directions: &[&str] = if config.bidirectional { &["", "_reverse"] } else { &[""] };
    let mut arrays = [Vec::new(), Vec::new(), Vec::new()];
    let mut inputs = 0;
    for direction in directions {
        let named = |part: &str| format!("recurrent.{part}_l{index}{direction}");
        for (array, part) in arrays.iter_mut().zip(["weight_ih", "weight_hh"]) {
            let (shape, values) = writer.parameter(&named(part))?;
            let gate = hidden * shape[1];
            gates.iter().for_each(|number| array.extend_from_slice(&values[number * gate..(number + 1) * gate]));
            if part == "weight_ih" {
                inputs = shape[1];
            }
        }
        for part in ["bias_ih", "bias_hh"] {
            let (_, values) = writer.parameter(&named(part))?;
            let of_gate = |number: &usize| &values[number * hidden..(number + 1) * hidden];
            gates.iter().for_each(|number| arrays[2].extend_from_slice(of_gate(number)));
        }
    }
    let (n, rows) = (directions.len(), gates.len() * hidden);
    let [w, r, b] = &arrays;
    let name = |part: &str| format!("recurrent.{part}_{index}");
    let w = writer.graph.floats(&name("W"), &[n, rows, inputs], w);
    let r = writer.graph.floats(&name("R"), &[n, rows, hidden], r);
    let b = writer.graph.floats(&name("B"), &[n, 2 * rows], b);
    let direction = if config.bidirectional { "bidirectional" } else { "forward" };
    let mut settings = vec![("hidden_size", Attribute::Int(hidden as i64)), ("direction", Attribute::Text(direction))];
    if config.cell == RecurrentCell::Gru {
        settings.push(("linear_before_reset", Attribute::Int(1)));
    }
    // (steps, directions, batch, hidden)
    let made = writer.graph.op(operator, &[x, &w, &r, &b, lengths], &settings);
    let made = writer.graph.op("Transpose", &[&made], &[("perm", Attribute::Ints(&[0, 2, 1, 3]))]);
    let shape = writer.graph.ints(&[0, 0, (n * hidden) as i64]);
    Ok(writer.graph.op("Reshape", &[&made, &shape], &[]))
}
