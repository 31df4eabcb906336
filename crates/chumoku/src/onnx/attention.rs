//! The operator `Attention`.

use super::compute::AttentionOperands;
use super::float::{FloatElement, FloatType, for_float, tensor, values, zero_vec};
use super::operator_params::{OperandLayout, OperatorParams};
use super::operator_schema::{Attributes, Inputs, Outputs, RequestedOutputs};
use crate::Result;
use crate::tensors::Tensor;
use chumoku_kernels::{bf16, f16};

/// The ONNX operator `Attention` of opset 23 to 25.
///
/// Computes `Y = softmax(softcap(scale · Q Kᵀ) + attn_mask) V`. Past keys and values precede the new ones in K and V.
/// Causality, windows, boolean masks and `nonpad_kv_seqlen` hide query–key pairs. A query with no visible key gets 0,
/// and so does its row of `qk_matmul_output` in mode 3. Hidden keys and values affect neither, even if they are NaN.
/// Modes 0 and 1 return the unmasked products.
///
/// Inputs of f32 and f64 run the kernels of [`chumoku_kernels`]. Everything runs in f64 if V, the mask or
/// `softmax_precision` is f64. Inputs of f16 and bf16 are rounded after every step, as the operator defines it. Their
/// results match ONNX's reference, and are less exact than the kernels', which keep sums in f32 until the end.
///
/// # Errors
/// [`crate::Error::Operator`], naming the input, if types, shapes or attributes do not fit, or if a result does not fit
/// into memory.
///
/// Source: the operator's specification, <https://onnx.ai/onnx/operators/onnx__Attention.html>, with softcap before
/// masks in every opset, as in its errata.
///
/// ```
/// use chumoku::onnx::{Attributes, Inputs, Tensor, RequestedOutputs, attention};
///
/// // One sequence, one head, two queries and keys of width 1.
/// let tensor = |numbers: [f32; 2]| Tensor::new(&[1, 1, 2, 1], numbers.to_vec()).unwrap();
/// let (query, key, value) = (tensor([1.0, 1.0]), tensor([0.0, 0.0]), tensor([2.0, 4.0]));
/// let mut attributes = Attributes::default();
/// attributes.is_causal = Some(true);
/// let outputs = attention(&Inputs::new(&query, &key, &value), &attributes, RequestedOutputs::default())?;
/// assert_eq!(outputs.output, tensor([2.0, 3.0]));
/// # Ok::<(), chumoku::Error>(())
/// ```
pub fn attention(inputs: &Inputs<'_>, attributes: &Attributes, requested: RequestedOutputs) -> Result<Outputs> {
    let problem = OperatorParams::new(inputs, attributes)?;
    check_memory(&problem, requested)?;
    let present = match problem.past_keys.is_some() || requested.present {
        true => Some((
            for_float!(problem.float_type, T => concat_past::<T>("present_key", inputs.past_key, inputs.key, problem.key))?,
            for_float!(problem.value_type, T => {
                concat_past::<T>("present_value", inputs.past_value, inputs.value, problem.value)
            })?,
        )),
        false => None,
    };
    let mut operands = AttentionOperands { params: &problem, inputs: *inputs, key: problem.key, value: problem.value };
    if let Some((key, value)) = &present {
        (operands.inputs.key, operands.inputs.value) = (key, value);
        operands.key = problem.key.contiguous(problem.total_keys);
        operands.value = problem.value.contiguous(problem.total_keys);
    }
    let wants_scores = requested.qk_matmul_output;
    let (output, qk_matmul_output) = match problem.compute_type {
        FloatType::F32 => operands.run::<f32>(wants_scores),
        FloatType::F64 => operands.run::<f64>(wants_scores),
        FloatType::F16 => operands.run_stepwise::<f16>(wants_scores),
        FloatType::Bf16 => operands.run_stepwise::<bf16>(wants_scores),
    }?;
    let (present_key, present_value) = present.unzip();
    Ok(Outputs { output, present_key, present_value, qk_matmul_output })
}

/// Returns an error, before any work, if the results do not fit into memory. It names the largest result.
fn check_memory(problem: &OperatorParams, requested: RequestedOutputs) -> Result<()> {
    let bytes = |shape: &[usize], float: FloatType| {
        shape.iter().map(|&axis| axis as f64).product::<f64>() * float.bytes() as f64
    };
    let [all_keys, all_values] =
        [problem.key, problem.value].map(|place| place.contiguous(problem.total_keys).bhld().to_vec());
    let has_present = problem.past_keys.is_some() || requested.present;
    let results = [
        (true, "Y", problem.query.with_dim(problem.value.dim).bhld().to_vec(), problem.float_type),
        (has_present, "present_key", all_keys, problem.float_type),
        (has_present, "present_value", all_values, problem.value_type),
        (requested.qk_matmul_output, "qk_matmul_output", problem.scores_shape().to_vec(), problem.compute_type),
    ];
    let results: Vec<_> = results.into_iter().filter(|(is_there, ..)| *is_there).collect();
    let needed = results.iter().map(|(_, _, shape, float)| bytes(shape, *float)).sum();
    let Some([needed, free]) = crate::memory::shortage(needed) else { return Ok(()) };
    let size = |shape: &[usize]| shape.iter().map(|&axis| axis as f64).product::<f64>();
    let Some((_, name, shape, _)) = results.into_iter().max_by(|a, b| size(&a.2).total_cmp(&size(&b.2))) else {
        return Ok(());
    };
    let advice = match name {
        "qk_matmul_output" => crate::tr!(
            "leave qk_matmul_output_mode out, or give fewer queries or keys at a time",
            "qk_matmul_output_mode を外すか、一度に与えるクエリやキーを減らしてください"
        ),
        _ => crate::tr!("give fewer queries or keys at a time", "一度に与えるクエリやキーを減らしてください"),
    };
    Err(crate::Error::operator(
        name,
        crate::tr!(
            "with shape {shape:?} the results need {needed} of memory, and {free} are free; {advice}",
            "形 {shape:?} では結果に {needed} のメモリが必要ですが、空きは {free} です。{advice}"
        ),
    ))
}

/// Concatenates past and new rows: (B, H_kv, P + S, dim).
fn concat_past<T: FloatElement>(
    name: &'static str,
    past: Option<&Tensor>,
    new: &Tensor,
    place: OperandLayout,
) -> Result<Tensor> {
    let past_len = past.map_or(0, |past| past.shape()[2]);
    let shape = place.contiguous(past_len + place.length).bhld();
    let (past, new) = (past.map(values::<T>).unwrap_or_default(), values::<T>(new));
    let new = place.heads(&new)?;
    let mut rows: Vec<T> = zero_vec(name, &shape)?;
    rows.clear();
    for pair in 0..shape[0] * shape[1] {
        let size = past_len * place.dim;
        rows.extend_from_slice(&past[pair * size..][..size]);
        for j in 0..place.length {
            rows.extend_from_slice(new.row(pair / shape[1], pair % shape[1], j));
        }
    }
    Ok(tensor(rows, &shape, T::FLOAT))
}
