//! The files of a stranger's folder. Unlike a folder of ours it may hold links: so do the folders that downloads are kept in.

use crate::model_folder::{Snapshot, current_path, model_file_error};
use crate::{Error, Result, memory, tr};
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Bytes of the largest file of settings that is read.
const LARGEST_JSON: u64 = 64 << 20;

/// Whether the folder has such a file.
pub(super) fn has(folder: &Snapshot, name: &str) -> bool {
    current_path(folder, name).is_file()
}

/// A plain file of the folder, and its size.
pub(super) fn find(folder: &Snapshot, name: &str) -> Result<(PathBuf, u64)> {
    let path = current_path(folder, name);
    let found = fs::metadata(&path).map_err(Error::io("reading", &path))?;
    match found.is_file() {
        true => Ok((path, found.len())),
        false => Err(model_file_error(folder, name, tr!("expected a file", "ファイルではありません"))),
    }
}

/// The bytes of a file, if memory has room for them.
pub(super) fn read(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let (path, bytes) = find(folder, name)?;
    if let Some([needed, free]) = memory::shortage(bytes as f64) {
        let problem = tr!(
            "the file has {needed}, and {free} of memory are free",
            "ファイルは {needed} ありますが、空きメモリは {free} です"
        );
        return Err(model_file_error(folder, name, problem));
    }
    fs::read(&path).map_err(Error::io("reading", path))
}

/// Fills `to` with the bytes of a file from `start` on; any number of threads may do so at once.
pub(super) fn read_at(file: &fs::File, to: &mut [u8], start: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, to, start);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < to.len() {
            match std::os::windows::fs::FileExt::seek_read(file, &mut to[done..], start + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => done += read,
            }
        }
        Ok(())
    }
}

/// The bytes of those of these files that the folder has, to be written again as they are.
pub(super) fn kept(folder: &Snapshot, names: &[&'static str]) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let names = names.iter().filter(|name| has(folder, name));
    names.map(|&name| Ok((name, read(folder, name)?))).collect()
}

/// A file of settings.
pub(super) fn json<T: DeserializeOwned>(folder: &Snapshot, name: &str) -> Result<T> {
    serde_json::from_slice(&json_bytes(folder, name)?).map_err(|error| {
        model_file_error(folder, name, tr!("not the settings expected: {error}", "想定した設定ではありません: {error}"))
    })
}

fn json_bytes(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let (path, bytes) = find(folder, name)?;
    if bytes > LARGEST_JSON {
        let problem = tr!(
            "expected at most {LARGEST_JSON} bytes of settings, found {bytes}",
            "設定は {LARGEST_JSON} バイトまでですが、{bytes} バイトあります"
        );
        return Err(model_file_error(folder, name, problem));
    }
    fs::read(&path).map_err(Error::io("reading", path))
}

/// A file of settings that need not be there.
pub(super) fn optional_json<T: DeserializeOwned>(folder: &Snapshot, name: &str) -> Result<Option<T>> {
    if has(folder, name) { json(folder, name).map(Some) } else { Ok(None) }
}

/// Whether a name out of a file is that of something in the folder itself.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\\', '\0', ':']) && name != "." && name != ".."
}
