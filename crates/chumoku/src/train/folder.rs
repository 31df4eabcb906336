//! The folder that a run writes to.

use crate::text_classifier::{has_checkpoints, is_model_folder};
use crate::{Error, Result};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a model is to stand, and where it is made.
///
/// They are the same unless a finished model is to be replaced: then the new one is made beside it (`NAME.new`) and
/// takes its place when it is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFolder {
    /// Where the model will stand.
    pub path: PathBuf,
    /// Where it is made.
    pub work: PathBuf,
}

/// The folder's name if none is given; `-2`, `-3`, … are added where it exists.
const DEFAULT: &str = "chumoku-model";

impl OutputFolder {
    /// Chooses the folder, makes it, and makes sure that it can be written to.
    ///
    /// A named folder must be new, empty, or hold a run that is resumed; `force` replaces what is there. To resume
    /// where there is no checkpoint yet is to start, so that a run can be killed at any moment.
    ///
    /// # Errors
    /// If the folder holds something that would be lost, or cannot be written to.
    pub fn prepare(named: Option<&Path>, resume: bool, force: bool) -> Result<OutputFolder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => default_name(resume),
        };
        let refuse = |problem: &str| Err(Error::Output { path: path.clone(), problem: problem.into() });
        let beside = sibling(&path, ".new");
        if path.exists() && !path.is_dir() {
            return refuse("is a file; give a folder with --out");
        }
        let finished = is_model_folder(&path);
        let work = if resume && has_checkpoints(&beside) {
            beside
        } else if resume && has_checkpoints(&path) {
            path.clone()
        } else if force {
            let work = if finished { beside } else { path.clone() };
            let _ = fs::remove_dir_all(work.join("checkpoints"));
            let _ = fs::remove_file(work.join("log.jsonl"));
            work
        } else if finished {
            return refuse("holds a finished model; choose another --out, or replace it with --force");
        } else if has_checkpoints(&path) {
            return refuse("holds an unfinished run; continue it with --resume, or start over with --force");
        } else if holds_something(&path) {
            return refuse("is not empty; choose another --out, or write into it with --force");
        } else {
            path.clone()
        };
        fs::create_dir_all(&work).map_err(Error::io("creating the folder", &work))?;
        // Better now than after training.
        tempfile::tempfile_in(&work).map_err(Error::io("writing to", &work))?;
        // Left by a run that was killed while it wrote a file.
        for name in names(&work).iter().filter(|name| is_temporary(name)) {
            let _ = fs::remove_file(work.join(name));
        }
        Ok(OutputFolder { path, work })
    }

    /// Puts the finished model in its place.
    ///
    /// # Errors
    /// If a folder cannot be renamed; the old model is then still whole, there or under `NAME.old`.
    pub fn finish(&self) -> Result<()> {
        if self.work == self.path {
            return Ok(());
        }
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let old = sibling(&path, ".old");
        // There is none where a run was killed between the two renamings and then resumed.
        if path.exists() {
            let _ = fs::remove_dir_all(&old);
            fs::rename(&path, &old).map_err(Error::io("renaming", &path))?;
        }
        fs::rename(&self.work, &path).map_err(Error::io("renaming", &self.work))?;
        match old.exists() {
            true => fs::remove_dir_all(&old).map_err(Error::io("removing", &old)),
            false => Ok(()),
        }
    }
}

/// `NAME.new` beside the folder itself, not beside a link to it.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let real = path.canonicalize();
    let real = match &real {
        // A plain name stays as the user wrote it.
        Ok(real) if path.is_symlink() || path.file_name().is_none() => real,
        _ => path,
    };
    let mut name = real.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    real.with_file_name(name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a name is that of a file in the making (see [`crate::data::AtomicOutput`]).
fn is_temporary(name: &str) -> bool {
    name.starts_with(".chumoku-") && name.ends_with(".tmp")
}

/// Whether a file is empty, or begins as the log of a run does.
fn is_log(path: &Path) -> bool {
    const START: &[u8] = b"{\"step\":";
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(START.len() as u64).read_to_end(&mut start));
    read.is_ok() && (start.is_empty() || start == START)
}

/// Whether a folder holds anything but the beginnings of a run that was killed before its first checkpoint.
fn holds_something(folder: &Path) -> bool {
    names(folder).iter().any(|name| match name.as_str() {
        "checkpoints" => names(&folder.join(name)).iter().any(|name| !name.ends_with(".tmp")),
        "log.jsonl" => !is_log(&folder.join(name)),
        name => !is_temporary(name),
    })
}

/// The first name that is free or, to resume, the last one that holds a run.
fn default_name(resume: bool) -> PathBuf {
    let name = |n: u32| PathBuf::from(if n == 1 { DEFAULT.to_owned() } else { format!("{DEFAULT}-{n}") });
    let free = (1..).find(|&n| !name(n).exists()).unwrap_or(1);
    if resume {
        (1..free).rev().map(name).find(|path| has_checkpoints(path)).unwrap_or_else(|| name(1))
    } else {
        name(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let prepare = |name: &str, resume, force| OutputFolder::prepare(Some(&at(name)), resume, force);

        let fresh = prepare("new/deep", false, false).unwrap();
        assert_eq!(fresh.work, fresh.path);
        // Killed before its first checkpoint, a run starts again.
        assert_eq!(prepare("none", true, false).unwrap().work, at("none"));
        fs::write(at("none/log.jsonl"), "{\"step\":50}\n").unwrap();
        fs::create_dir_all(at("none/checkpoints/step-0000000001.tmp")).unwrap();
        fs::write(at("none/.chumoku-x.tmp"), "half").unwrap();
        prepare("none", false, false).unwrap();
        assert!(!at("none/.chumoku-x.tmp").exists());

        fs::write(at("file"), "x").unwrap();
        assert!(prepare("file", false, true).unwrap_err().to_string().contains("is a file"));

        fs::create_dir(at("full")).unwrap();
        fs::write(at("full/notes.txt"), "mine").unwrap();
        assert!(prepare("full", false, false).unwrap_err().to_string().contains("not empty"));
        assert!(prepare("full", true, false).unwrap_err().to_string().contains("not empty"));
        prepare("full", false, true).unwrap();
        assert_eq!(fs::read_to_string(at("full/notes.txt")).unwrap(), "mine");

        fs::create_dir(at("model")).unwrap();
        fs::write(at("model/model.safetensors"), "old").unwrap();
        assert!(prepare("model", false, false).unwrap_err().to_string().contains("finished model"));
        // A model without checkpoints is not a run that resuming could continue.
        assert!(prepare("model", true, false).unwrap_err().to_string().contains("finished model"));
        let replacing = prepare("model", false, true).unwrap();
        assert_eq!(replacing.work, at("model.new"));
        fs::write(replacing.work.join("model.safetensors"), "new").unwrap();
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "old");
        replacing.finish().unwrap();
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "new");
        assert!(!at("model.new").exists() && !at("model.old").exists());

        // Killed after the old model was moved away, and before the new one took its place.
        fs::create_dir(at("moved.old")).unwrap();
        fs::create_dir_all(at("moved.new/checkpoints/step-0000000001")).unwrap();
        let replacing = prepare("moved", true, false).unwrap();
        assert_eq!(replacing.work, at("moved.new"));
        replacing.finish().unwrap();
        assert!(at("moved/checkpoints").exists() && !at("moved.new").exists() && !at("moved.old").exists());

        fs::create_dir_all(at("half/checkpoints/step-0000000001")).unwrap();
        assert!(prepare("half", false, false).unwrap_err().to_string().contains("--resume"));
        assert_eq!(prepare("half", true, false).unwrap().work, at("half"));
        prepare("half", false, true).unwrap();
        assert!(!at("half/checkpoints").exists());
    }
}
