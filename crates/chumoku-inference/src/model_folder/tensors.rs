//! Writing tensors as a safetensors file.

use super::f32_bytes;
use crate::sorting;
use safetensors::Dtype;
use serde_json::{Map, Value, json};

/// A tensor for writing.
pub(crate) struct NamedTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl NamedTensor {
    /// A tensor of `f32` numbers.
    pub(crate) fn floats(name: impl Into<String>, shape: &[usize], numbers: &[f32]) -> NamedTensor {
        NamedTensor { name: name.into(), dtype: Dtype::F32, shape: shape.to_vec(), bytes: f32_bytes(numbers) }
    }
}

/// The key of a model's generation in `config.json` and in the metadata of weights.
pub(super) const GENERATION_KEY: &str = "chumoku_generation";
/// The number of hexadecimal digits of a generation.
pub(super) const GENERATION_DIGITS: usize = 32;
/// The start of the header in each weights file, up to the digits of the generation. Other programs reject metadata
/// that does not name a framework.
const HEADER_PREFIX: &str = "{\"__metadata__\":{\"format\":\"pt\",\"";
/// The number of bytes before the header.
const HEADER_LENGTH_BYTES: usize = 8;

/// Returns the byte range of the generation's digits.
fn generation_range() -> std::ops::Range<usize> {
    let start = HEADER_LENGTH_BYTES + HEADER_PREFIX.len() + GENERATION_KEY.len() + "\":\"".len();
    start..start + GENERATION_DIGITS
}

/// Returns the bytes of a `model.safetensors`, with a generation of zeros.
///
/// The crate `safetensors` writes several metadata keys in an order that changes from run to run.
pub(crate) fn serialize_tensors(tensors: &[NamedTensor]) -> Vec<u8> {
    let mut tensors: Vec<_> = tensors.iter().collect();
    // Wide types first, so that each array is aligned.
    sorting::sort_by(&mut tensors, |a, b| b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name)));
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt", GENERATION_KEY: "0".repeat(GENERATION_DIGITS) }));
    let mut end = 0;
    for NamedTensor { name, dtype, shape, bytes } in &tensors {
        let start = end;
        end += bytes.len();
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(HEADER_LENGTH_BYTES), b' ');
    let mut file = Vec::with_capacity(HEADER_LENGTH_BYTES + header.len() + end);
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.append(&mut header);
    tensors.iter().for_each(|tensor| file.extend_from_slice(&tensor.bytes));
    file
}

/// Writes the generation into the bytes of [`serialize_tensors`].
pub(super) fn set_generation(file: &mut [u8], generation: &str) {
    file[generation_range()].copy_from_slice(generation.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::SafeTensors;

    #[test]
    fn the_file_holds_each_tensor_and_its_generation() {
        let tensor = |name: &str, dtype, shape: &[usize], bytes: std::ops::Range<u8>| NamedTensor {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            bytes: bytes.collect(),
        };
        let tensors = [
            tensor("b \"quoted\"", Dtype::F32, &[2, 1], 0..8),
            tensor("c", Dtype::I64, &[1], 8..16),
            tensor("a", Dtype::F32, &[0], 0..0),
        ];
        let mut file = serialize_tensors(&tensors);
        set_generation(&mut file, &"7f".repeat(GENERATION_DIGITS / 2));
        let found = SafeTensors::deserialize(&file).unwrap();
        for NamedTensor { name, dtype, shape, bytes } in &tensors {
            let view = found.tensor(name).unwrap();
            assert_eq!((view.dtype(), view.shape(), view.data()), (*dtype, &shape[..], &bytes[..]), "{name}");
        }
        let (length, header) = SafeTensors::read_metadata(&file).unwrap();
        assert_eq!((length % 8, found.len()), (0, 3));
        let metadata = header.metadata().as_ref().unwrap();
        assert_eq!(
            (metadata["format"].as_str(), metadata[GENERATION_KEY].as_str()),
            ("pt", &*"7f".repeat(GENERATION_DIGITS / 2))
        );
    }
}
