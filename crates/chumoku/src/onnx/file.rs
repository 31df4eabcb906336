//! Runs the operator `Attention` on the tensors of a file.

use super::attention::attention;
use super::operator_schema::{Attributes, Inputs, RequestedOutputs};
use crate::tensors::{Tensor, TensorFile};
use crate::{Error, Result, tr};

/// Names of the operator's inputs in files.
pub(crate) const INPUTS: [&str; 7] = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"];
/// Names of the operator's outputs in files.
pub(crate) const OUTPUTS: [&str; 4] = ["Y", "present_key", "present_value", "qk_matmul_output"];

/// Reads the operator's inputs from a file, runs it, and returns its outputs as a file.
///
/// Inputs are named as in `INPUTS`, optionally with the prefix `in.`. With the prefix, the metadata may contain
/// `attributes`, a JSON object; `flags` take precedence over it. `out.*` and tensors named as outputs are ignored. Any
/// other tensor is an error, because a misspelled mask would otherwise be ignored silently.
///
/// Y is always returned. Present keys and values are returned if past ones are given, and `qk_matmul_output` if its
/// mode is given. The metadata's `node_outputs`, or the name of an `out.*` tensor, requests them too.
///
/// # Errors
/// If an input is missing, and as for [`attention`].
pub fn attend(file: &TensorFile, flags: &Attributes) -> Result<TensorFile> {
    let mut found: [Option<&Tensor>; 7] = [None; 7];
    for (name, tensor) in &file.tensors {
        let plain = name.strip_prefix("in.").unwrap_or(name);
        if let Some(at) = INPUTS.iter().position(|input| *input == plain) {
            if found[at].replace(tensor).is_some() {
                return Err(Error::operator(
                    plain,
                    tr!(
                        "found twice, as {plain} and in.{plain}; keep one",
                        "{plain} と in.{plain} の 2 つがあります。どちらか 1 つにしてください"
                    ),
                ));
            }
        } else if !name.starts_with("out.") && !OUTPUTS.contains(&name.as_str()) {
            let problem = tr!(
                "expected one of the names {}; rename or remove it",
                "使えるテンソル名は {} です。名前を変えるか、取り除いてください",
                INPUTS.join(", ")
            );
            return Err(Error::operator(name, problem));
        }
    }
    let [query, key, value, mask, past_key, past_value, key_lengths] = found;
    let missing = |name: &'static str| {
        let names: Vec<&str> = file.tensors.keys().map(String::as_str).collect();
        let holds = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Error::operator(
            name,
            tr!(
                "expected a tensor of this name, got a file with {holds}",
                "この名前のテンソルが必要ですが、ファイルにあるのは {holds} です"
            ),
        )
    };
    let inputs = Inputs {
        query: query.ok_or_else(|| missing("Q"))?,
        key: key.ok_or_else(|| missing("K"))?,
        value: value.ok_or_else(|| missing("V"))?,
        mask,
        past_key,
        past_value,
        key_lengths,
    };

    let mut attributes = flags.clone();
    let mut requested: Vec<String> =
        file.tensors.keys().filter_map(|name| Some(name.strip_prefix("out.")?.to_owned())).collect();
    if file.tensors.keys().any(|name| name.starts_with("in.")) {
        // Parse as an object first: serde would also read the struct from a list.
        let given = metadata(file, "attributes", |text| {
            let object: serde_json::Map<_, _> = serde_json::from_slice(text.as_bytes())?;
            serde_json::from_value(object.into())
        })?;
        attributes = attributes.or(given);
        requested
            .extend(metadata(file, "node_outputs", |text| serde_json::from_slice::<Vec<String>>(text.as_bytes()))?);
    }
    let is_requested = |name: &str| requested.iter().any(|requested| requested == name);
    let requested = RequestedOutputs {
        present: is_requested("present_key") || is_requested("present_value"),
        qk_matmul_output: attributes.qk_matmul_output_mode.is_some() || is_requested("qk_matmul_output"),
    };
    let outputs = attention(&inputs, &attributes, requested)?;
    let tensors = [Some(outputs.output), outputs.present_key, outputs.present_value, outputs.qk_matmul_output];
    let named = OUTPUTS.iter().zip(tensors).filter_map(|(name, tensor)| Some(((*name).to_owned(), tensor?)));
    Ok(TensorFile { tensors: named.collect(), ..TensorFile::default() })
}

/// Parses an entry of the metadata; returns the default if it is missing.
fn metadata<T: Default>(file: &TensorFile, key: &str, read: impl Fn(&str) -> serde_json::Result<T>) -> Result<T> {
    let Some(text) = file.metadata.get(key) else { return Ok(T::default()) };
    read(text).map_err(|error| {
        Error::operator(key, tr!("the metadata cannot be used: {error}", "メタデータを使えません: {error}"))
    })
}
