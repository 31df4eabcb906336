//! The folder that a run writes to.

use crate::text_classifier::{has_checkpoints, is_model_folder};
use crate::{Error, Result};
use std::fs;
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
    /// A named folder must be new, empty, or hold an unfinished run that is resumed; `force` replaces what is there.
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
        } else if resume {
            if !path.is_dir() {
                return refuse("there is no run to resume; leave --resume out to start one");
            }
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
        } else if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return refuse("is not empty; choose another --out, or write into it with --force");
        } else {
            path.clone()
        };
        fs::create_dir_all(&work).map_err(Error::io("creating", &work))?;
        // Better now than after training.
        tempfile::tempfile_in(&work).map_err(Error::io("writing to", &work))?;
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
        let old = sibling(&self.path, ".old");
        let _ = fs::remove_dir_all(&old);
        fs::rename(&self.path, &old).map_err(Error::io("renaming", &self.path))?;
        fs::rename(&self.work, &self.path).map_err(Error::io("renaming", &self.work))?;
        fs::remove_dir_all(&old).map_err(Error::io("removing", &old))
    }
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
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
        assert!(prepare("none", true, false).unwrap_err().to_string().contains("no run to resume"));

        fs::write(at("file"), "x").unwrap();
        assert!(prepare("file", false, true).unwrap_err().to_string().contains("is a file"));

        fs::create_dir(at("full")).unwrap();
        fs::write(at("full/notes.txt"), "mine").unwrap();
        assert!(prepare("full", false, false).unwrap_err().to_string().contains("not empty"));
        prepare("full", false, true).unwrap();
        assert_eq!(fs::read_to_string(at("full/notes.txt")).unwrap(), "mine");

        fs::create_dir(at("model")).unwrap();
        fs::write(at("model/model.safetensors"), "old").unwrap();
        assert!(prepare("model", false, false).unwrap_err().to_string().contains("finished model"));
        let replacing = prepare("model", false, true).unwrap();
        assert_eq!(replacing.work, at("model.new"));
        fs::write(replacing.work.join("model.safetensors"), "new").unwrap();
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "old");
        replacing.finish().unwrap();
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "new");
        assert!(!at("model.new").exists() && !at("model.old").exists());

        fs::create_dir_all(at("half/checkpoints/step-0000000001")).unwrap();
        assert!(prepare("half", false, false).unwrap_err().to_string().contains("--resume"));
        assert_eq!(prepare("half", true, false).unwrap().work, at("half"));
        prepare("half", false, true).unwrap();
        assert!(!at("half/checkpoints").exists());
    }
}
