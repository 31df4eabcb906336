//! Reads files of untrusted folders. Unlike Chumoku's own folders they may contain symbolic links, as download caches
//! do.

use crate::model_folder::{Snapshot, current_path, model_file_error};
use crate::{Error, Result, memory, tr};
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Largest settings file in bytes.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Returns whether the folder has such a file.
pub(super) fn exists(folder: &Snapshot, name: &str) -> bool {
    current_path(folder, name).is_file()
}

/// Finds a regular file of the folder. Returns its path and size.
pub(super) fn find(folder: &Snapshot, name: &str) -> Result<(PathBuf, u64)> {
    let path = current_path(folder, name);
    let found = fs::metadata(&path).map_err(Error::io("reading", &path))?;
    match found.is_file() {
        true => Ok((path, found.len())),
        false => Err(model_file_error(folder, name, tr!("expected a file", "ファイルではありません"))),
    }
}

/// Reads a file, after checking that it fits into memory.
pub(super) fn read(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let (path, bytes) = find(folder, name)?;
    if let Some([needed, free]) = memory::shortage(bytes as f64) {
        let problem = tr!(
            "the file needs {needed} of memory, and {free} are free",
            "ファイルの読み込みに {needed} のメモリが必要ですが、空きは {free} です"
        );
        return Err(model_file_error(folder, name, problem));
    }
    fs::read(&path).map_err(Error::io("reading", path))
}

/// Fills `to` with the bytes of a file from `start` on. Safe to call from several threads at once.
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

/// Reads those of the named files that exist, to be copied unchanged.
pub(super) fn read_existing(folder: &Snapshot, names: &[&'static str]) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let names = names.iter().filter(|name| exists(folder, name));
    names.map(|&name| Ok((name, read(folder, name)?))).collect()
}

/// Reads a JSON settings file.
pub(super) fn json<T: DeserializeOwned>(folder: &Snapshot, name: &str) -> Result<T> {
    serde_json::from_slice(&json_bytes(folder, name)?).map_err(|error| {
        model_file_error(folder, name, tr!("invalid settings: {error}", "設定が正しくありません: {error}"))
    })
}

fn json_bytes(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let (path, bytes) = find(folder, name)?;
    if bytes > MAX_JSON_BYTES {
        let problem = tr!(
            "expected at most {MAX_JSON_BYTES} bytes of settings, found {bytes}",
            "設定は {MAX_JSON_BYTES} バイトまでですが、{bytes} バイトあります"
        );
        return Err(model_file_error(folder, name, problem));
    }
    fs::read(&path).map_err(Error::io("reading", path))
}

/// Reads a JSON settings file, if it exists.
pub(super) fn optional_json<T: DeserializeOwned>(folder: &Snapshot, name: &str) -> Result<Option<T>> {
    if exists(folder, name) { json(folder, name).map(Some) } else { Ok(None) }
}

/// Returns whether an untrusted name refers to an entry of the folder itself.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\\', '\0', ':']) && name != "." && name != ".."
}
