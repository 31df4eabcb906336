//! Writing tensors as a safetensors file.

use crate::sorting;
use safetensors::Dtype;
use serde_json::{Map, Value, json};

/// Names, types, shapes and bytes of tensors for writing.
pub(crate) type Tensors = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

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
pub(crate) fn serialize_tensors(tensors: &Tensors) -> Vec<u8> {
    let mut tensors: Vec<_> = tensors.iter().collect();
    // Wide types first, so that each array is aligned.
    sorting::sort_by(&mut tensors, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt", GENERATION_KEY: "0".repeat(GENERATION_DIGITS) }));
    let mut end = 0;
    for (name, dtype, shape, bytes) in &tensors {
        let start = end;
        end += bytes.len();
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(HEADER_LENGTH_BYTES), b' ');
    let mut file = Vec::with_capacity(HEADER_LENGTH_BYTES + header.len() + end);
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.append(&mut header);
    tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes));
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
        let tensors: Tensors = vec![
            ("b \"quoted\"".into(), Dtype::F32, vec![2, 1], (0..8).collect()),
            ("c".into(), Dtype::I64, vec![1], (8..16).collect()),
            ("a".into(), Dtype::F32, vec![0], Vec::new()),
        ];
        let mut file = serialize_tensors(&tensors);
        set_generation(&mut file, &"7f".repeat(GENERATION_DIGITS / 2));
        let found = SafeTensors::deserialize(&file).unwrap();
        for (name, dtype, shape, bytes) in &tensors {
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
