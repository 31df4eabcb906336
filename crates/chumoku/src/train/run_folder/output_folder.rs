//! The output folder of a run.

use super::lock::RunLock;
use crate::model_folder::{
    CHECKPOINTS, LOG, NEXT_RUN, TUNE, finish_move, foreign_files, foreign_model_files, has_trials,
    is_effectively_empty, publish, remove_checkpoints, remove_work_folder,
};
use crate::model_folder::{has_checkpoints, is_model_folder};
use crate::output::{WorkFolder, check_folder_writable, remove_file};
use crate::train::data::data_source::read_metrics;
use crate::{Error, Result, tr};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder of the model, and the folder that a run works in. One run holds the lock at a time.
///
/// Both are the same, unless a finished model is to be replaced. The new model is then built in `.chumoku-next` inside
/// the folder, and moved when it is complete. Only files with a model's own names are ever replaced or removed.
#[derive(Debug)]
pub struct OutputFolder {
    /// The folder of the finished model.
    pub path: PathBuf,
    /// The folder that the run works in.
    pub work: PathBuf,
    _lock: RunLock,
}

/// The default folder name. `-2`, `-3`, … are appended if it exists.
const DEFAULT_NAME: &str = "chumoku-model";

impl OutputFolder {
    /// Chooses, creates and locks the folder, and checks that it is writable.
    ///
    /// A named folder must be new, empty, or hold a run to resume. `force` replaces the model or run in it. Resuming
    /// without a checkpoint starts a new run, so a run may be killed at any moment.
    ///
    /// # Errors
    /// If the folder holds data that would be lost, another run uses it, or it is not writable.
    pub fn prepare(named: Option<&Path>, resume: bool, force: bool) -> Result<OutputFolder> {
        OutputFolder::prepare_with(named, resume, force, || {})
    }

    /// Checks if [`OutputFolder::prepare`] would accept the folder. Changes nothing.
    ///
    /// # Errors
    /// If the folder holds data that would be lost.
    pub fn check(path: &Path, resume: bool, force: bool) -> Result<()> {
        check_name(path)?;
        choose_work_folder(path, resume, force).map(drop)
    }

    /// Completes an interrupted move of files into their folder.
    ///
    /// # Errors
    /// If another run uses the folder, or a file cannot be moved. The model is then still complete.
    pub fn settle(path: &Path) -> Result<()> {
        let _lock = RunLock::take(path)?;
        finish_move(path)
    }

    /// Prepares the folder, with `meanwhile` as another run between the first check and the lock, for tests.
    fn prepare_with(named: Option<&Path>, resume: bool, force: bool, meanwhile: impl FnOnce()) -> Result<OutputFolder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None if resume => last_run(),
            None => new_folder()?,
        };
        check_name(&path)?;
        // A rejected folder stays unchanged: nothing is written before this check.
        choose_work_folder(&path, resume, force)?;
        meanwhile();
        fs::create_dir_all(&path).map_err(Error::write("creating the folder", &path))?;
        let lock = RunLock::take(&path)?;
        // With the lock, all work folders here are leftovers of killed runs.
        [path.clone(), path.join(NEXT_RUN)].iter().for_each(|folder| WorkFolder::remove_stale(folder));
        finish_move(&path)?;
        // Checks again: another run may have written to the folder before the lock.
        let WorkChoice { work, is_new } = choose_work_folder(&path, resume, force)?;
        if is_new {
            if work == path {
                remove_work_folder(&work.join(TUNE))?;
                remove_checkpoints(&work.join(CHECKPOINTS))?;
                remove_log(&work)?;
            } else {
                remove_work_folder(&work)?;
            }
        }
        fs::create_dir_all(&work).map_err(Error::write("creating the folder", &work))?;
        // Fails before training, not after it.
        check_folder_writable(&work)?;
        Ok(OutputFolder { path, work, _lock: lock })
    }

    /// Moves the finished model to its place.
    ///
    /// # Errors
    /// If it would replace a file that is not the old model's, or cannot be moved. One of the models is then still
    /// complete.
    pub fn finish(&self) -> Result<()> {
        if self.work != self.path {
            publish(&self.path, &self.work)?;
            // Removes the search for better settings of the old model.
            remove_work_folder(&self.path.join(TUNE))?;
        }
        Ok(())
    }
}

/// The folder that a run works in, and whether the run starts there.
struct WorkChoice {
    work: PathBuf,
    is_new: bool,
}

/// Chooses the folder to work in. Changes nothing.
fn choose_work_folder(path: &Path, resume: bool, force: bool) -> Result<WorkChoice> {
    let refuse = |problem: String| Err(Error::Output { path: path.to_owned(), problem });
    if path.exists() && !path.is_dir() {
        return refuse(tr!(
            "is a file; give a folder with --out",
            "ファイルです。--out にはフォルダを指定してください"
        ));
    }
    let next = path.join(NEXT_RUN);
    let resumed = [next.clone(), path.to_owned()].into_iter().find(|work| resume && is_run(work));
    if let Some(work) = resumed {
        let found = foreign_model_files(path);
        return match found.is_empty() {
            true => Ok(WorkChoice { work, is_new: false }),
            false => refuse(foreign_files_message(&found)),
        };
    }
    let (finished, found) = (is_model_folder(path), foreign_files(path));
    if force && found.is_empty() {
        let work = if finished { next } else { path.to_owned() };
        return Ok(WorkChoice { work, is_new: true });
    }
    if force {
        return refuse(foreign_files_message(&found));
    }
    if finished && found.is_empty() && is_run(&next) {
        return refuse(tr!(
            "holds a finished model, and an unfinished run that will replace it; continue the run with --resume, \
             start it over with --force, or choose another --out",
            "学習の終わったモデルと、それを置き換える途中の学習があります。--resume で続けるか、--force で最初からやり直すか、別の --out を\
             選んでください"
        ));
    }
    if finished && found.is_empty() && is_run(path) && was_interrupted(path) {
        return refuse(tr!(
            "holds a model whose training was interrupted; continue it with --resume, start over with --force, or choose another \
             --out",
            "中断した学習のモデルがあります。--resume で続けるか、--force で最初からやり直すか、別の --out を選んでください"
        ));
    }
    if finished && found.is_empty() {
        return refuse(tr!(
            "holds a finished model; choose another --out, or replace it with --force",
            "学習の終わったモデルがあります。別の --out を選ぶか、--force で置き換えてください"
        ));
    }
    if finished {
        return refuse(tr!(
            "holds a finished model, and files that are not its own ({}); choose another --out",
            "学習の終わったモデルと、そのモデルのものではないファイル（{}）があります。別の --out を選んでください",
            listed(&found)
        ));
    }
    if is_run(path) {
        return refuse(tr!(
            "holds an unfinished run; continue it with --resume, or start over with --force",
            "終わっていない学習があります。--resume で続けるか、--force で最初からやり直してください"
        ));
    }
    if !is_effectively_empty(path) {
        return refuse(tr!(
            "is not empty (it holds {}); choose another --out",
            "空ではありません（{} があります）。別の --out を選んでください",
            listed(&found)
        ));
    }
    Ok(WorkChoice { work: path.to_owned(), is_new: true })
}

/// Returns `true` if a folder holds a run that can be resumed.
fn is_run(folder: &Path) -> bool {
    has_checkpoints(folder) || has_trials(folder)
}

/// Returns `true` if the training of the model in a folder was interrupted.
fn was_interrupted(folder: &Path) -> bool {
    read_metrics(folder)["interrupted"] == true
}

fn foreign_files_message(found: &[String]) -> String {
    tr!(
        "holds files that `chumoku train` did not write ({}) and that would be lost; move them, or choose another \
         --out",
        "`chumoku train` が書いたのではないもの（{}）があり、失われるおそれがあります。別の場所に移すか、別の --out を\
         選んでください",
        listed(found)
    )
}

/// Lists the first few names.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => tr!("{shown} and {more} more", "{shown} ほか {more} 個"),
    }
}

/// Rejects folder names that are reserved inside a model folder.
fn check_name(path: &Path) -> Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.starts_with(".chumoku-") {
        return Ok(());
    }
    let problem = tr!(
        "names that begin with .chumoku- are reserved for files inside a model folder; give the model folder itself",
        ".chumoku- で始まる名前は、モデルのフォルダの内部で使うために予約されています。モデルのフォルダそのものを指定してください"
    );
    Err(Error::Output { path: path.to_owned(), problem })
}

fn remove_log(folder: &Path) -> Result<()> {
    let path = folder.join(LOG);
    match remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::write("removing", path)(error)),
        _ => Ok(()),
    }
}

fn default_name(n: u32) -> PathBuf {
    PathBuf::from(if n == 1 { DEFAULT_NAME.to_owned() } else { format!("{DEFAULT_NAME}-{n}") })
}

/// Creates the first free default folder. Two runs never get the same one.
fn new_folder() -> Result<PathBuf> {
    let mut n = 1;
    loop {
        let path = default_name(n);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
            Err(error) => return Err(Error::write("creating the folder", path)(error)),
        }
    }
}

/// Returns the last default folder with a run to resume.
fn last_run() -> PathBuf {
    let taken = (1..).take_while(|&n| default_name(n).exists()).map(default_name);
    let runs = taken.filter(|path| is_run(path) || is_run(&path.join(NEXT_RUN)));
    runs.last().unwrap_or_else(|| default_name(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_folder::{CONFIG, LOCK, TOKENIZER, WEIGHTS, entry_names};

    /// Writes a model whose files, except the configuration, hold these bytes.
    fn model(folder: &Path, bytes: &str) {
        let config = br#"{"model_type":"chumoku_text_classifier"}"#;
        fs::create_dir_all(folder).unwrap();
        for (name, bytes) in [(TOKENIZER, bytes.as_bytes()), (WEIGHTS, bytes.as_bytes()), (CONFIG, config)] {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    fn checkpoint(folder: &Path) {
        let step = folder.join("checkpoints/step-0000000001");
        fs::create_dir_all(&step).unwrap();
        fs::write(step.join("manifest.json"), "{}").unwrap();
    }

    #[test]
    fn no_file_of_the_user_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let prepare = |name: &str, resume, force| OutputFolder::prepare(Some(&at(name)), resume, force);
        let refused = |name: &str, resume, force, word: &str| {
            let error = prepare(name, resume, force).unwrap_err().to_string();
            assert!(error.contains(word), "{word}: {error}");
        };

        let fresh = prepare("new/deep", false, false).unwrap();
        assert_eq!(fresh.work, fresh.path);
        // A run killed before its first checkpoint starts again.
        assert_eq!(prepare("none", true, false).unwrap().work, at("none"));
        fs::write(at("none").join(LOCK), "1\n").unwrap();
        fs::write(at("none/log.jsonl"), "{\"step\":50,\"epoch\":0}\n").unwrap();
        fs::create_dir_all(at("none/checkpoints/step-0000000001.tmp")).unwrap();
        drop(prepare("none", false, false).unwrap());
        assert!(entry_names(&at("none")).is_empty());

        fs::write(at("file"), "x").unwrap();
        refused("file", false, true, "is a file");

        fs::create_dir(at("full")).unwrap();
        fs::write(at("full/notes.txt"), "mine").unwrap();
        for (resume, force) in [(false, false), (true, false)] {
            refused("full", resume, force, "not empty (it holds notes.txt)");
        }
        refused("full", false, true, "did not write (notes.txt)");
        assert_eq!(entry_names(&at("full")), ["notes.txt"]);

        model(&at("model"), "old");
        refused("model", false, false, "finished model");
        // A model without checkpoints cannot be resumed.
        refused("model", true, false, "finished model");
        // Files beside the model folder belong to the user.
        ["model.new", "model.old"].iter().for_each(|name| fs::write(at(name), "mine").unwrap());
        let replacing = prepare("model", false, true).unwrap();
        assert_eq!(replacing.work, at("model/.chumoku-next"));
        model(&replacing.work, "new");
        checkpoint(&replacing.work);
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "old");
        // Files added during training also stay.
        fs::write(at("model/thesis.tex"), "mine").unwrap();
        replacing.finish().unwrap();
        drop(replacing);
        assert_eq!(fs::read_to_string(at("model/model.safetensors")).unwrap(), "new");
        assert_eq!(entry_names(&at("model")), [CHECKPOINTS, CONFIG, WEIGHTS, "thesis.tex", TOKENIZER]);
        assert!(at("model.new").exists() && at("model.old").exists());
        refused("model", false, true, "thesis.tex");
        refused("model", false, false, "thesis.tex");
        // Resuming replaces the run's own files, and no others.
        drop(prepare("model", true, false).unwrap());
        fs::write(at("model/README.md"), "mine").unwrap();
        refused("model", true, false, "README.md");
        assert_eq!(fs::read_to_string(at("model/README.md")).unwrap(), "mine");

        fs::create_dir(at("half")).unwrap();
        checkpoint(&at("half"));
        refused("half", false, false, "--resume");
        assert_eq!(prepare("half", true, false).unwrap().work, at("half"));
        drop(prepare("half", false, true).unwrap());
        assert!(!at("half/checkpoints").exists());
        refused("model/.chumoku-next", false, true, "the model folder itself");
    }

    #[test]
    fn a_foreign_log_or_card_is_not_a_run() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("log.jsonl", "{\"step\":1,\"epoch\":2}\n"), ("README.md", "trained from scratch with Chumoku")]
        {
            let path = folder.path().join(name.split('.').next().unwrap());
            fs::create_dir(&path).unwrap();
            fs::write(path.join(name), text).unwrap();
            for force in [false, true] {
                let error = OutputFolder::prepare(Some(&path), false, force).unwrap_err().to_string();
                assert!(error.contains(name), "{error}");
            }
            assert_eq!(fs::read_to_string(path.join(name)).unwrap(), text);
            assert_eq!(entry_names(&path), [name]);
        }
    }

    #[test]
    fn files_written_before_the_lock_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let error = OutputFolder::prepare_with(Some(&path), false, false, || model(&path, "other")).unwrap_err();
        assert!(error.to_string().contains("finished model"), "{error}");
        let another = || {
            checkpoint(&path);
            fs::write(path.join("thesis.tex"), "mine").unwrap();
        };
        let error = OutputFolder::prepare_with(Some(&path), false, true, another).unwrap_err().to_string();
        assert!(error.contains("thesis.tex"), "{error}");
        fs::remove_file(path.join("thesis.tex")).unwrap();
        // A finished model that appears meanwhile is replaced with `force`, and stays until then.
        let next = folder.path().join("next");
        let forced = OutputFolder::prepare_with(Some(&next), false, true, || model(&next, "other")).unwrap();
        assert_eq!(forced.work, next.join(NEXT_RUN));
        assert_eq!(fs::read_to_string(next.join(WEIGHTS)).unwrap(), "other");
        let expected = [".chumoku-lock", NEXT_RUN, CONFIG, WEIGHTS, TOKENIZER];
        assert_eq!(entry_names(&next), expected);
    }

    #[test]
    fn an_interrupted_move_is_completed_before_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        model(&path, "old");
        // A run that was killed when its model was complete.
        model(&path.join(".chumoku-ready"), "new");
        let run = OutputFolder::prepare(Some(&path), false, true).unwrap();
        assert_eq!(fs::read_to_string(path.join(WEIGHTS)).unwrap(), "new");
        assert!(!path.join(".chumoku-ready").exists());
        model(&run.work, "newest");
        run.finish().unwrap();
        drop(run);
        assert_eq!(fs::read_to_string(path.join(WEIGHTS)).unwrap(), "newest");
        assert_eq!(entry_names(&path), [CONFIG, WEIGHTS, TOKENIZER]);
    }

    #[test]
    fn two_runs_never_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let first = OutputFolder::prepare(Some(&path), false, false).unwrap();
        for (resume, force) in [(false, false), (true, false), (false, true)] {
            let error = OutputFolder::prepare(Some(&path), resume, force).unwrap_err().to_string();
            assert!(error.contains("another run"), "{error}");
        }
        // Neither does a second run that works in the folder of a finished model.
        model(&path, "old");
        checkpoint(&path);
        for (resume, force) in [(true, false), (false, true)] {
            let error = OutputFolder::prepare(Some(&path), resume, force).unwrap_err().to_string();
            assert!(error.contains("another run"), "{error}");
        }
        drop(first);
        OutputFolder::prepare(Some(&path), true, false).unwrap();
    }
}
