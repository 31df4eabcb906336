//! Damaged input files of `chumoku attend`: runs the fuzz target's code on mutated bytes of valid files.

use chumoku::output::InputFiles;
use chumoku::tensors::{Tensor, TensorFile, TensorFormat};
use proptest::prelude::*;
use std::sync::LazyLock;
use testkit::Random;

include!("../../../../fuzz/attend_bytes.rs");

/// A file with every input, in each format.
static FILES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let random = &mut Random::new(1);
    let mut file = TensorFile::default();
    let mut add = |name: &str, shape: &[usize]| {
        let tensor = Tensor::new(shape, random.numbers(shape.iter().product())).unwrap();
        file.tensors.insert(format!("in.{name}"), tensor);
    };
    add("Q", &[1, 2, 3, 2]);
    for (name, length) in [("K", 2), ("V", 2), ("past_key", 3), ("past_value", 3)] {
        add(name, &[1, 1, length, 2]);
    }
    let mask = Tensor::new(&[3, 5], [true, false, true].repeat(5)).unwrap();
    file.tensors.insert("in.attn_mask".into(), mask);
    let attributes = r#"{"is_causal": 1, "softcap": 2.0, "qk_matmul_output_mode": 3, "left_window_size": 4}"#;
    file.metadata.insert("attributes".into(), attributes.into());
    let folder = tempfile::tempdir().unwrap();
    ["x.safetensors", "x.npz"].map(|name| {
        let path = folder.path().join(name);
        file.write(&path, &InputFiles::empty()).unwrap();
        std::fs::read(path).unwrap()
    })
});

/// The undamaged files are valid, so mutations start from files that are read to the end.
#[test]
fn the_undamaged_files_are_valid() {
    for (bytes, format) in FILES.iter().zip([TensorFormat::Safetensors, TensorFormat::Npz]) {
        let file = TensorFile::parse(std::path::Path::new("x"), format, bytes).unwrap();
        let outputs = chumoku::onnx::attend(&file, &Default::default()).unwrap();
        assert!(outputs.tensors.contains_key("Y") && outputs.tensors.contains_key("present_key"));
    }
}

/// A tensor name with a line feed, which mutations rarely produce.
#[test]
fn names_of_tensors_stay_on_one_line() {
    for mut bytes in FILES.clone() {
        let name = b"in.Q";
        let places: Vec<usize> = (0..bytes.len() - 4).filter(|&at| &bytes[at..at + 4] == name).collect();
        assert!(!places.is_empty());
        // JSON escapes a line feed; an archive stores it as is.
        let is_json = bytes[8] == b'{';
        let other: &[u8] = if is_json { b"in\\n" } else { b"in\nQ" };
        places.iter().for_each(|&at| bytes[at..at + 4].copy_from_slice(other));
        let format = if is_json { TensorFormat::Safetensors } else { TensorFormat::Npz };
        let file = TensorFile::parse(std::path::Path::new("x"), format, &bytes).unwrap();
        let message = chumoku::onnx::attend(&file, &Default::default()).unwrap_err().to_string();
        assert!(message.starts_with("in\u{240a}") && !message.contains('\n'), "{message}");
        if is_json {
            continue;
        }
        // The same if the checksum does not match.
        let mut damaged = bytes.clone();
        damaged[places[0] + 60] ^= 1;
        let message = TensorFile::parse(std::path::Path::new("x"), format, &damaged).unwrap_err().to_string();
        assert!(message.contains("in\u{240a}") && !message.contains('\n'), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn mutated_bytes_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..6),
        kind in 0..2u8,
    ) {
        let mut bytes = FILES[usize::from(kind)].clone();
        for (at, byte, change) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        bytes.insert(0, kind);
        attend_bytes(&bytes);
    }

    /// Mutates the parts of a header that matter: digits of shapes and offsets, types, and tensor names.
    #[test]
    fn mutated_headers_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
        kind in 0..2u8,
    ) {
        const PIECES: [&str; 12] =
            ["0", "9", "99", "-1", "18446744073709551615", "F64", "BF16", "BOOL", "I8", "[", "]", ","];
        let text: Vec<u8> = FILES[usize::from(kind)].clone();
        let digits: Vec<usize> = (0..text.len()).filter(|&at| text[at].is_ascii_digit() || text[at] == b'F').collect();
        let mut bytes = text;
        for (at, piece) in changes {
            let at = digits[at.index(digits.len())];
            let piece = PIECES[piece.index(PIECES.len())].as_bytes();
            let end = bytes.len().min(at + piece.len());
            bytes.splice(at..end, piece.iter().copied());
        }
        bytes.insert(0, kind);
        attend_bytes(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        attend_bytes(&bytes);
    }
}
