//! Arrays of an n-gram model in a model folder.

use super::{NamedTensor, f32_bytes, f32_from_bytes, missing_tensor_message};
use crate::ngram::{NgramModel, NgramScheme, NgramTensors};
use crate::tr;
use safetensors::{Dtype, SafeTensors};
use std::borrow::Cow;

/// The prefix of the array names.
pub(crate) const NGRAMS: &str = "ngrams.";

/// Returns the arrays of an n-gram model for writing.
pub(crate) fn ngram_tensors(ngrams: &NgramModel) -> Vec<NamedTensor> {
    let tensors = ngrams.tensors();
    let data = [
        (Dtype::I64, tensors.hashes.iter().flat_map(|x| x.to_le_bytes()).collect()),
        (Dtype::F32, f32_bytes(&tensors.idf)),
        (Dtype::F32, f32_bytes(&tensors.weights)),
        (Dtype::F32, f32_bytes(&tensors.bias)),
        (Dtype::F32, f32_bytes(&tensors.prior)),
        // Without feature columns, there is no name for this array and it is dropped.
        (Dtype::F32, f32_bytes(&tensors.columns)),
    ];
    let named = tensors.shapes().into_iter().zip(data);
    let tensor = |((name, shape), (dtype, bytes))| NamedTensor { name: format!("{NGRAMS}{name}"), dtype, shape, bytes };
    named.map(tensor).collect()
}

/// Returns the names of the arrays in the file.
pub(crate) fn ngram_names(ngrams: &NgramModel) -> Vec<String> {
    ngrams.tensors().shapes().into_iter().map(|(name, _)| format!("{NGRAMS}{name}")).collect()
}

pub(crate) fn read_ngrams(
    tensors: &SafeTensors<'_>,
    scheme: &NgramScheme,
    classes: usize,
    is_set: bool,
) -> Result<NgramModel, String> {
    let get = |name: &str, dtype: Dtype| {
        let name = format!("{NGRAMS}{name}");
        let view = tensors.tensor(&name).map_err(|_| missing_tensor_message(&name))?;
        if view.dtype() != dtype {
            return Err(tr!(
                "tensor {name}: expected {dtype:?}, found {:?}",
                "テンソル {name}: {dtype:?} が必要ですが、{:?} です",
                view.dtype()
            ));
        }
        Ok(view.data().to_vec())
    };
    let array = |name: &str| get(name, Dtype::F32).map(|bytes| Cow::Owned(f32_from_bytes(&bytes)));
    let hashes = get("hashes", Dtype::I64)?;
    let hashes = hashes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes"))).collect();
    let tensors = NgramTensors {
        hashes: Cow::Owned(hashes),
        idf: array("idf")?,
        weights: array("weights")?,
        columns: if scheme.columns.is_empty() { Cow::default() } else { array("columns")? },
        bias: array("bias")?,
        prior: array("prior")?,
    };
    let model = NgramModel::from_tensors(scheme.clone(), tensors, is_set).map_err(|error| error.to_string())?;
    if model.num_classes() != classes {
        return Err(tr!(
            "the n-gram model has {} classes, expected {classes}",
            "n-gram モデルのクラスは {} 個ですが、{classes} 個のはずです",
            model.num_classes()
        ));
    }
    Ok(model)
}
