//! Files of tensors: written tensors read back unchanged, and damaged files give errors instead of panics.

use super::*;

const BOTH: [TensorFormat; 2] = [TensorFormat::Safetensors, TensorFormat::Npz];

fn tensor<T>(shape: &[usize], numbers: Vec<T>) -> Tensor
where
    Tensor: From<ArrayD<T>>,
{
    Tensor::new(shape, numbers).unwrap()
}

fn bytes(file: &TensorFile, format: TensorFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    match format {
        TensorFormat::Safetensors => safetensors::write(file, &mut bytes).unwrap(),
        TensorFormat::Npz => npz::write(file, &mut bytes).unwrap(),
    }
    bytes
}

fn parse(format: TensorFormat, bytes: &[u8]) -> Result<TensorFile, TensorError> {
    TensorFile::parse(Path::new("x"), format, bytes)
}

#[test]
fn every_type_and_shape_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = TensorFile::default();
    let mut add = |name: &str, tensor: Tensor| file.tensors.insert(name.to_owned(), tensor);
    add("f32", tensor(&[2, 3], vec![0.0f32, -0.0, 1.5, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE]));
    add("f64", tensor(&[1, 1, 2, 1], vec![std::f64::consts::PI, f64::NEG_INFINITY]));
    add("f16", tensor(&[3], vec![f16::MAX, f16::MIN_POSITIVE_SUBNORMAL, f16::ONE]));
    add("bool", tensor(&[2, 2], vec![true, false, false, true]));
    add("i64", tensor(&[2], vec![i64::MIN, i64::MAX]));
    add("none", tensor(&[3, 0, 2], Vec::<f32>::new()));
    add("one", tensor(&[], vec![7.0f32]));
    add("注目 of \"x\"", tensor(&[1], vec![1.0f32]));
    for (format, name) in BOTH.into_iter().zip(["a.safetensors", "a.NPZ"]) {
        let path = folder.path().join(name);
        assert_eq!(TensorFormat::from_path(&path).unwrap(), format);
        file.write(&path, &InputFiles::empty()).unwrap();
        assert_eq!(TensorFile::read(&path).unwrap(), file, "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes(&file, format), "the same bytes again");
    }
    file.metadata.insert("attributes".into(), "{}".into());
    file.tensors.insert("bf16".into(), tensor(&[1], vec![bf16::EPSILON]));
    let path = folder.path().join("b.safetensors");
    file.write(&path, &InputFiles::empty()).unwrap();
    assert_eq!(TensorFile::read(&path).unwrap(), file);
    let error = file.write(&folder.path().join("b.npz"), &InputFiles::empty()).unwrap_err().to_string();
    assert!(error.contains("tensor “bf16”") && error.contains("safetensors"), "{error}");
    assert!(!folder.path().join("b.npz").exists());
}

#[test]
fn integers_of_any_width_are_read() {
    let header = |dtype: &str, bytes: usize| {
        let json = format!(r#"{{"x":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,{bytes}]}}}}"#);
        [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat()
    };
    let read = |dtype: &str, data: &[u8]| {
        parse(TensorFormat::Safetensors, &[&header(dtype, data.len())[..], data].concat())
            .map(|mut file| file.tensors.remove("x").unwrap())
    };
    let expected = |a: i64, b: i64| tensor(&[2], vec![a, b]);
    assert_eq!(read("I8", &[0xff, 2]).unwrap(), expected(-1, 2));
    assert_eq!(read("U8", &[0xff, 2]).unwrap(), expected(255, 2));
    assert_eq!(read("I16", &[0xff, 0xff, 2, 0]).unwrap(), expected(-1, 2));
    assert_eq!(read("U16", &[0xff, 0xff, 2, 0]).unwrap(), expected(65535, 2));
    assert_eq!(read("I32", &[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]).unwrap(), expected(-1, 2));
    assert_eq!(read("U32", &[0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]).unwrap(), expected((1 << 32) - 1, 2));
    assert_eq!(
        read("U64", &[[1; 8], [0, 0, 0, 0, 0, 0, 0, 1]].concat()).unwrap(),
        expected(0x0101_0101_0101_0101, 1 << 56)
    );
    assert!(read("U64", &[0xff; 16]).unwrap_err().to_string().contains("below 2^63"));
    assert!(read("F8_E4M3", &[0; 2]).unwrap_err().to_string().contains("tensor “x”: expected f32"));
}

#[test]
fn other_extensions_and_damaged_files_are_rejected() {
    for name in ["x", "x.npy", "x.safetensors.gz", "npz", ".npz"] {
        let error = TensorFile::read(Path::new(name)).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: expected a name that ends in .safetensors or .npz"));
    }
    let error = TensorFile::read(Path::new("no/such.npz")).unwrap_err().to_string();
    assert!(error.starts_with("no/such.npz: reading the tensors: "), "{error}");
    for format in BOTH {
        for bytes in [&b""[..], b"PK\x03\x04", b"not a file of tensors at all", &[0xff; 64]] {
            assert!(matches!(parse(format, bytes), Err(TensorError::Damaged { .. })));
        }
    }
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("Q.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"hello").unwrap();
    let bytes = archive.finish().unwrap().into_inner();
    let error = parse(TensorFormat::Npz, &bytes).unwrap_err().to_string();
    assert_eq!(error, "x: tensor “Q”: expected the header of an .npy array, got other bytes or too few");
}

/// NumPy's `savez_compressed` writes deflated entries.
#[test]
fn deflated_archives_are_read() {
    let expected = tensor(&[4, 100], vec![0.5f32; 400]);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("Q.npy", options).unwrap();
    archive.write_all(&npy::serialize(&expected)).unwrap();
    let bytes = archive.finish().unwrap().into_inner();
    assert!(bytes.len() < 400);
    assert_eq!(parse(TensorFormat::Npz, &bytes).unwrap().tensors["Q"], expected);
}
