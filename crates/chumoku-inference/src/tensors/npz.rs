//! `.npz`: a zip archive of `.npy` arrays, stored or deflated.

use super::{TensorFault, TensorFile, npy};
use crate::tr;
use std::io::{self, Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

pub(super) fn parse(bytes: &[u8]) -> Result<TensorFile, TensorFault> {
    let damaged = |error: zip::result::ZipError| TensorFault::Damaged(error.to_string());
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    let mut file = TensorFile::default();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let fault = |problem: String| TensorFault::Tensor(name.clone(), problem);
        // Do not trust the size in the archive: allocate as bytes arrive.
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .map_err(|error| fault(tr!("cannot be decompressed: {error}", "展開できません: {error}")))?;
        let tensor = npy::parse(&bytes).map_err(fault)?;
        if file.tensors.insert(name.clone(), tensor).is_some() {
            return Err(TensorFault::Tensor(name, tr!("found twice; keep one", "2 つあります。1 つにしてください")));
        }
    }
    Ok(file)
}

/// Writes entries uncompressed, as NumPy's `savez` does. The same arrays give the same bytes.
pub(super) fn write(file: &TensorFile, out: &mut impl Write) -> io::Result<()> {
    let mut archive = ZipWriter::new_stream(out);
    for (name, tensor) in &file.tensors {
        let bytes = npy::serialize(tensor);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes.len() >= u32::MAX as usize);
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&bytes)?;
    }
    archive.finish()?;
    Ok(())
}
