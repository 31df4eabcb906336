//! The checksum of a model folder, by which runs on different machines verify that they use the same model.

use super::files::{READY, check_files, current_path};
use super::snapshot::{Snapshot, TRAINING_FILES, with_snapshot};
use crate::data::Fingerprint;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Returns the SHA-256 of all files that predictions depend on, with their names.
///
/// # Errors
/// If the folder or one of its files cannot be read.
pub fn model_fingerprint(folder: &Path) -> Result<String> {
    with_snapshot(folder, fingerprint_of_snapshot)
}

fn fingerprint_of_snapshot(folder: &Snapshot) -> Result<String> {
    check_files(folder, &[])?;
    let listed = fs::read_dir(&**folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let listed = listed.map_err(Error::io("reading", &**folder))?;
    let moving = fs::read_dir(folder.join(READY)).into_iter().flatten().flatten();
    let mut names: Vec<String> = listed
        .into_iter()
        .chain(moving)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !TRAINING_FILES.contains(&name.as_str()))
        .filter(|name| current_path(folder, name).is_file())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut all = Fingerprint::new();
    for name in names {
        let path = current_path(folder, &name);
        let content = file_fingerprint(&path).map_err(Error::io("reading", path))?;
        all.add(name.as_bytes());
        all.add(content.as_bytes());
    }
    Ok(all.hex())
}

fn file_fingerprint(path: &Path) -> std::io::Result<String> {
    let (mut file, mut buffer, mut found) = (File::open(path)?, vec![0; 1 << 20], Fingerprint::new());
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(found.hex()),
            n => found.add_bytes(&buffer[..n]),
        }
    }
}
