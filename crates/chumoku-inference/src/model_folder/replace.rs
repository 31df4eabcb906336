//! Atomic replacement of a folder's model: a kill leaves the old model or the new one.
//!
//! Files are written into [`STAGED`] and flushed, and the folder is renamed to [`READY`]. From then on, the new model
//! is current, since [`super::current_path`] looks for files in [`READY`] first. The files then move into the folder,
//! one by one. If the process is killed, the next run finishes the move. Only files with these names are touched.

use super::checkpoints::{CHECKPOINTS, is_checkpoint_name};
use super::entry_type::EntryType;
use super::files::{
    CONFIG, LOG, MODEL_FILES, READY, REPLACED, STAGED, TUNE, TUNE_LOG_TEMP, WEIGHTS, entry_names, foreign_model_files,
    is_trial,
};
use crate::{Error, Result, failpoint, output, tr};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Replaces the folder's model with `files` (name and bytes), all of them or none.
///
/// # Errors
/// If they cannot be written, or a foreign file would be replaced.
pub(crate) fn write_files(folder: &Path, files: &[(&str, Vec<u8>)]) -> Result<()> {
    finish_move(folder)?;
    check_no_foreign_files(folder)?;
    let staged = folder.join(STAGED);
    remove_work_folder(&staged)?;
    fs::create_dir(&staged).map_err(Error::write("creating", &staged))?;
    let written = files
        .iter()
        .try_for_each(|(name, bytes)| write_file(&staged.join(name), bytes))
        .and_then(|()| sync_folder(&staged));
    if let Err(error) = written {
        // On a full disk, half a model only takes up space.
        let _ = remove_work_folder(&staged);
        return Err(error);
    }
    publish(folder, &staged)
}

/// Makes the files in `from`, a subfolder, the folder's model.
///
/// # Errors
/// If a foreign file would be replaced, or a file cannot be replaced.
pub fn publish(folder: &Path, from: &Path) -> Result<()> {
    check_no_foreign_files(folder)?;
    failpoint::hit("publish");
    let ready = folder.join(READY);
    rename(from, &ready).map_err(Error::write("renaming", from))?;
    sync_folder(folder)?;
    finish_move(folder)
}

/// Checks that no foreign file would be replaced.
fn check_no_foreign_files(folder: &Path) -> Result<()> {
    let found = foreign_model_files(folder);
    if found.is_empty() {
        return Ok(());
    }
    let found = found.join(", ");
    let problem = tr!(
        "the model's files cannot be written here: {found}: not written by `chumoku train`, and would be lost; move it away, \
         then run the same command with --resume",
        "ここにはモデルのファイルを置けません。{found} は `chumoku train` が書いたものではなく、失われてしまいます。\
         別の場所に移してから、同じコマンドに --resume を付けて実行してください"
    );
    Err(Error::Output { path: folder.to_owned(), problem })
}

/// Finishes an interrupted move of files into the folder.
///
/// # Errors
/// If a file cannot be moved. The model is still complete then.
pub fn finish_move(folder: &Path) -> Result<()> {
    finish_move_until(folder, usize::MAX)
}

/// Does the work of [`finish_move`], and stops after this many changes to simulate a kill.
fn finish_move_until(folder: &Path, mut changes: usize) -> Result<()> {
    let ready = folder.join(READY);
    if EntryType::at(&ready) != EntryType::Folder {
        return Ok(());
    }
    let mut may_go_on = || {
        failpoint::hit("settle");
        changes = changes.wrapping_sub(1);
        changes != usize::MAX
    };
    let is_there = |name: &str| EntryType::at(&ready.join(name)) != EntryType::Missing;
    // Weights move first, and every model has them. While they are in [`READY`], nothing has moved, and [`READY`]
    // contains all files of the model. Files of the old model that the new one lacks are removed.
    if is_there(WEIGHTS) {
        for stale in MODEL_FILES.into_iter().filter(|name| !is_there(name)).map(|name| folder.join(name)) {
            if EntryType::at(&stale) == EntryType::File {
                if !may_go_on() {
                    return Ok(());
                }
                output::remove_file(&stale).map_err(Error::write("removing", &stale))?;
            }
        }
    }
    // The configuration moves last, since it identifies the folder as a model.
    let [first @ .., _] = MODEL_FILES;
    for name in first.into_iter().chain([LOG, CONFIG]) {
        if is_there(name) {
            if !may_go_on() {
                return Ok(());
            }
            let (from, to) = (ready.join(name), folder.join(name));
            // On Windows, permissions only say that a file must not be replaced.
            if let Ok(there) = to.symlink_metadata()
                && cfg!(unix)
            {
                // Keep the permissions of the old file. Not every file system supports them.
                let _ = fs::set_permissions(&from, there.permissions());
            }
            rename(&from, &to).map_err(Error::write("replacing", &to))?;
        }
    }
    if is_there(CHECKPOINTS) {
        let (from, to, replaced) = (ready.join(CHECKPOINTS), folder.join(CHECKPOINTS), ready.join(REPLACED));
        if EntryType::at(&to) != EntryType::Missing {
            if !may_go_on() {
                return Ok(());
            }
            remove_checkpoints(&replaced)?;
            rename(&to, &replaced).map_err(Error::write("replacing", &to))?;
        }
        if !may_go_on() {
            return Ok(());
        }
        rename(&from, &to).map_err(Error::write("replacing", &to))?;
    }
    sync_folder(folder)?;
    if !may_go_on() {
        return Ok(());
    }
    remove_work_folder(&ready)
}

/// Removes one of Chumoku's own folders with its files.
///
/// # Errors
/// If it holds foreign files, which stay.
pub fn remove_work_folder(folder: &Path) -> Result<()> {
    if EntryType::at(folder) == EntryType::Missing {
        return Ok(());
    }
    for name in entry_names(folder) {
        let path = folder.join(&name);
        match (name.as_str(), EntryType::at(&path)) {
            (CHECKPOINTS | REPLACED, EntryType::Folder) => remove_checkpoints(&path)?,
            (STAGED | READY | TUNE, EntryType::Folder) => remove_work_folder(&path)?,
            (trial, EntryType::Folder) if is_trial(trial) => remove_work_folder(&path)?,
            (LOG | TUNE_LOG_TEMP, EntryType::File) => remove_file(&path)?,
            (known, EntryType::File) if MODEL_FILES.contains(&known) => remove_file(&path)?,
            _ => {}
        }
    }
    output::remove_folder(folder).map_err(Error::write("removing", folder))
}

/// Removes a folder of checkpoints.
///
/// # Errors
/// If it holds foreign files, which stay.
pub fn remove_checkpoints(folder: &Path) -> Result<()> {
    if EntryType::at(folder) == EntryType::Missing {
        return Ok(());
    }
    let steps = entry_names(folder).into_iter().filter(|name| is_checkpoint_name(name.trim_end_matches(".tmp")));
    steps.map(|step| folder.join(step)).try_for_each(|step| super::remove_checkpoint(&step))?;
    output::remove_folder(folder).map_err(Error::write("removing", folder))
}

fn remove_file(path: &Path) -> Result<()> {
    output::remove_file(path).map_err(Error::write("removing", path))
}

/// Writes a new file and flushes it to disk.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = output::create_new(path).map_err(Error::write("creating", path))?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut write = || {
        file.write_all(first)?;
        failpoint::hit("write");
        file.write_all(second)?;
        file.sync_all()
    };
    write().map_err(Error::write("writing", path))
}

/// Renames a file or folder, replacing an existing file.
pub fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    failpoint::hit("rename");
    output::rename(from, to)
}

/// Flushes a folder. New names in it are on disk only after that.
pub fn sync_folder(path: &Path) -> Result<()> {
    // Other systems cannot open folders.
    #[cfg(unix)]
    fs::File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::write("flushing", path))?;
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::checkpoints::CHECKPOINT_FILES;
    use super::super::files::{CARD, METRICS, TOKENIZER, current_path, foreign_files};
    use super::super::snapshot::Snapshot;
    use super::*;

    fn config(which: &str) -> Vec<u8> {
        format!("{{\"model_type\":\"chumoku_{which}\"}}").into_bytes()
    }

    fn model(which: &str, names: &[&'static str]) -> Vec<(&'static str, Vec<u8>)> {
        let bytes = |name: &str| match name {
            CONFIG => config(which),
            CARD => format!("# {which}\n\ntrained from scratch with Chumoku").into_bytes(),
            name => format!("{which} {name}").into_bytes(),
        };
        names.iter().map(|&name| (name, bytes(name))).collect()
    }

    fn checkpoint(folder: &Path, step: &str) {
        let step = folder.join(CHECKPOINTS).join(step);
        fs::create_dir_all(&step).unwrap();
        CHECKPOINT_FILES.iter().for_each(|name| fs::write(step.join(name), "x").unwrap());
    }

    const OLD: [&str; MODEL_FILES.len()] = MODEL_FILES;
    const NEW: [&str; 5] = [TOKENIZER, WEIGHTS, METRICS, CARD, CONFIG];

    /// Creates a folder with an old model and the new one in its subfolder.
    fn before(folder: &Path) -> std::path::PathBuf {
        write_files(folder, &model("old", &OLD)).unwrap();
        checkpoint(folder, "step-0000000007");
        fs::write(folder.join(LOG), "{\"step\":7,\"epoch\":0}").unwrap();
        fs::write(folder.join("thesis.tex"), "mine").unwrap();
        let next = folder.join(super::super::NEXT_RUN);
        fs::create_dir(&next).unwrap();
        write_files(&next, &model("new", &NEW)).unwrap();
        checkpoint(&next, "step-0000000007");
        checkpoint(&next, "step-0000000009");
        fs::write(next.join(LOG), "{\"step\":9,\"epoch\":1}").unwrap();
        next
    }

    /// Returns the model that a reader finds in the folder, after checking that all files agree.
    fn found(folder: &Path) -> String {
        let of = |name: &str| fs::read_to_string(current_path(folder, name)).unwrap();
        let which = of(WEIGHTS).split(' ').next().unwrap().to_owned();
        let expected = model(&which, &NEW);
        for (name, bytes) in expected {
            assert_eq!(of(name), String::from_utf8(bytes).unwrap(), "{name}");
        }
        which
    }

    #[test]
    fn a_kill_at_any_moment_leaves_the_old_model_or_the_new_one() {
        let mut changes = 0;
        loop {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let next = before(folder);
            assert_eq!(found(folder), "old");
            fs::rename(&next, folder.join(READY)).unwrap();
            finish_move_until(folder, changes).unwrap();
            let is_done = !folder.join(READY).exists();
            assert_eq!(found(folder), "new", "killed after {changes} changes");
            assert_eq!(foreign_files(folder), ["thesis.tex"], "killed after {changes} changes");
            finish_move(folder).unwrap();
            assert_eq!(found(folder), "new", "killed after {changes} changes");
            let left = [CARD, CHECKPOINTS, CONFIG, LOG, METRICS, WEIGHTS, "thesis.tex", TOKENIZER];
            assert_eq!(entry_names(folder), left, "killed after {changes} changes");
            assert_eq!(entry_names(&folder.join(CHECKPOINTS)), ["step-0000000007", "step-0000000009"]);
            assert_eq!(fs::read_to_string(folder.join(LOG)).unwrap(), "{\"step\":9,\"epoch\":1}");
            if is_done {
                break;
            }
            changes += 1;
        }
        assert!(changes > 8, "{changes} changes");
    }

    #[test]
    fn half_written_files_are_no_model() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_files(folder, &model("old", &OLD)).unwrap();
        fs::create_dir(folder.join(STAGED)).unwrap();
        fs::write(folder.join(STAGED).join(CONFIG), "{").unwrap();
        assert_eq!(found(folder), "old");
        assert_eq!(foreign_files(folder), [""; 0]);
        write_files(folder, &model("new", &NEW)).unwrap();
        assert_eq!(found(folder), "new");
        assert_eq!(entry_names(folder), [CARD, CONFIG, METRICS, WEIGHTS, TOKENIZER]);
    }

    #[test]
    fn foreign_files_are_not_replaced() {
        for (name, bytes) in model("new", &NEW) {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            // A file without a model next to it is foreign, even if it looks like one of Chumoku's.
            let bytes = if name == CONFIG { b"{\"model_type\": \"bert\"}".to_vec() } else { bytes };
            fs::write(folder.join(name), &bytes).unwrap();
            let error = write_files(folder, &model("new", &NEW)).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert_eq!(entry_names(folder), [name]);
            assert_eq!(fs::read(folder.join(name)).unwrap(), bytes);
        }
        // The user's own card instead of the model's.
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_files(folder, &model("old", &OLD)).unwrap();
        fs::write(folder.join(CARD), "# My project").unwrap();
        assert!(write_files(folder, &model("new", &NEW)).unwrap_err().to_string().contains(CARD));
        assert_eq!(fs::read_to_string(folder.join(CARD)).unwrap(), "# My project");
        // A model's card is recognized in both languages.
        fs::write(folder.join(CARD), "# テキスト分類\n\nChumoku 0.1.0 でゼロから学習しました。").unwrap();
        write_files(folder, &model("old", &OLD)).unwrap();
        fs::remove_file(folder.join(CARD)).unwrap();
        // Also a card that appeared while the new model was trained. The old model stays.
        let next = folder.join(super::super::NEXT_RUN);
        fs::create_dir(&next).unwrap();
        write_files(&next, &model("new", &NEW)).unwrap();
        fs::write(folder.join(CARD), "# My project").unwrap();
        assert!(publish(folder, &next).unwrap_err().to_string().contains(CARD));
        assert_eq!(fs::read_to_string(folder.join(CARD)).unwrap(), "# My project");
        assert_eq!(fs::read_to_string(folder.join(WEIGHTS)).unwrap(), "old model.safetensors");
        fs::remove_file(folder.join(CARD)).unwrap();
        // A foreign log, even under the reserved name.
        for log in ["{\"time\":1}", "GET /\n", "{\"step\":,\"epoch\":0}"] {
            fs::write(folder.join(LOG), log).unwrap();
            assert!(write_files(folder, &model("new", &NEW)).unwrap_err().to_string().contains(LOG), "{log}");
            assert_eq!(fs::read_to_string(folder.join(LOG)).unwrap(), log);
        }
        fs::remove_file(folder.join(LOG)).unwrap();
        // Foreign files in Chumoku's own folders are found, and stay when the folder is removed.
        fs::write(next.join("notes.txt"), "mine").unwrap();
        fs::create_dir(next.join(STAGED)).unwrap();
        fs::write(next.join(STAGED).join("draft.txt"), "mine").unwrap();
        let inner = [".chumoku-next/.chumoku-staged/draft.txt", ".chumoku-next/notes.txt"];
        assert_eq!(foreign_files(folder), inner);
        assert!(remove_work_folder(&next).is_err());
        assert!(inner.iter().all(|name| fs::read_to_string(folder.join(name)).unwrap() == "mine"));
        fs::remove_dir_all(&next).unwrap();
        // Foreign files among the checkpoints stay.
        checkpoint(folder, "step-0000000001");
        fs::write(folder.join("checkpoints/step-0000000001/notes.txt"), "mine").unwrap();
        assert_eq!(foreign_files(folder), ["checkpoints/step-0000000001/notes.txt"]);
        assert!(remove_checkpoints(&folder.join(CHECKPOINTS)).is_err());
        assert!(folder.join("checkpoints/step-0000000001/notes.txt").exists());
    }

    #[test]
    fn a_failed_write_leaves_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let files = [(WEIGHTS, vec![1]), ("missing/config.json", vec![2])];
        assert!(write_files(folder, &files).is_err());
        assert_eq!(entry_names(folder), [""; 0]);
        write_files(folder, &model("old", &OLD)).unwrap();
        assert!(write_files(folder, &files).is_err());
        assert_eq!(found(folder), "old");
        assert!(!folder.join(STAGED).exists());
    }

    #[test]
    fn files_of_operating_systems_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_files(folder, &model("old", &OLD)).unwrap();
        for name in [".DS_Store", "Thumbs.db", "desktop.ini"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        assert_eq!(foreign_files(folder), [""; 0]);
        write_files(folder, &model("new", &NEW)).unwrap();
        assert!(folder.join(".DS_Store").exists() && found(folder) == "new");
    }

    #[cfg(unix)]
    #[test]
    fn the_new_model_keeps_the_permissions_of_the_old_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(WEIGHTS);
        write_files(folder.path(), &model("old", &OLD)).unwrap();
        for mode in [0o600, 0o640] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write_files(folder.path(), &model("new", &NEW)).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (model_folder, outside) = (folder.path().join("model"), folder.path().join("outside"));
        fs::create_dir(&model_folder).unwrap();
        write_files(&model_folder, &model("old", &OLD)).unwrap();
        fs::rename(model_folder.join(WEIGHTS), &outside).unwrap();
        std::os::unix::fs::symlink(&outside, model_folder.join(WEIGHTS)).unwrap();
        assert_eq!(foreign_files(&model_folder), [WEIGHTS]);
        assert!(write_files(&model_folder, &model("new", &NEW)).is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "old model.safetensors");
        let error = super::super::read_file(&Snapshot::of(&model_folder), WEIGHTS).unwrap_err().to_string();
        assert!(error.contains("a symbolic link"), "{error}");
    }
}
