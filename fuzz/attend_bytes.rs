// Runs `chumoku attend` on the bytes of a file, without the file. The fuzz target runs it over bytes that it
// finds, and `crates/chumoku/tests/it/attend_files.rs` over damaged files.

/// An answer, or an error of one line; never a panic. The first byte chooses the kind of file.
fn attend_bytes(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let format = [TensorFormat::Safetensors, TensorFormat::Npz][usize::from(kind % 2)];
    let one_line = |said: String| assert!(!said.contains(['\n', '\r']), "{said}");
    let file = match TensorFile::parse(std::path::Path::new("x"), format, bytes) {
        Ok(file) => file,
        Err(error) => return one_line(error.to_string()),
    };
    // Tensors of no numbers may have any size along another axis, and so may results: big ones only cost time.
    if file.tensors.values().any(|tensor| tensor.shape().iter().any(|&axis| axis > 1 << 12)) {
        return;
    }
    match chumoku::onnx::attend(&file, &Default::default()) {
        Ok(outputs) => outputs.tensors.values().for_each(|tensor| one_line(tensor.summary())),
        Err(error) => one_line(error.to_string()),
    }
}
