//! Consistent reads of a model folder while `train --force` may replace its model.
//!
//! [`write_model`] gives each model a generation: a part of the SHA-256 of its weights and tokenizers. `config.json`
//! and the metadata of each weights file hold it. Every loader reads through a [`Snapshot`], which only
//! [`with_snapshot`] creates. That function reads again if the files belong to two models, or if `config.json` changed
//! during the read. Files of other programs and older versions have no generation and are not checked.

use super::entry_type::EntryType;
use super::files::{
    CARD, CONFIG, LOG, MAX_CONFIG_BYTES, METRICS, READY, TRAINED_ON, TUNE_LOG, check_file, current_path,
};
use super::model_file_error;
use super::replace::write_files;
use super::tensors::{GENERATION_DIGITS, GENERATION_KEY, set_generation};
use crate::data::Fingerprint;
use crate::{Error, Result, failpoint, tr};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The key of `config.json` that holds Chumoku's settings in a model in the format of Hugging Face.
pub(crate) const CHUMOKU_KEY: &str = "chumoku";

/// Files about the training, which no prediction depends on.
pub(super) const TRAINING_FILES: [&str; 5] = [CARD, LOG, METRICS, TRAINED_ON, TUNE_LOG];

/// The maximum number of attempts to read a folder.
const MAX_ATTEMPTS: u32 = 5;

/// The pause before the second attempt. It doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(10);

/// A model folder during a read. Dereferences to its path.
#[derive(Debug)]
pub struct Snapshot {
    folder: PathBuf,
    generation: Option<String>,
    identity: ModelIdentity,
    /// Set once a file of another model was found.
    is_mixed: AtomicBool,
}

/// Identifies one of several models that a folder holds over time: the SHA-256 of `config.json`, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelIdentity(Option<String>);

/// The keys of `config.json` that may hold the generation.
#[derive(Default, Deserialize)]
struct GenerationKeys {
    #[serde(default)]
    chumoku_generation: Value,
    #[serde(default)]
    chumoku: Value,
}

/// The state of the folder at one moment.
#[derive(PartialEq)]
struct FolderState {
    config: Option<Vec<u8>>,
    /// `true` while files of a new model move into the folder.
    is_moving: bool,
}

impl FolderState {
    fn read(folder: &Path) -> FolderState {
        let path = current_path(folder, CONFIG);
        let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_CONFIG_BYTES);
        FolderState {
            config: is_file.then(|| std::fs::read(&path).ok()).flatten(),
            is_moving: EntryType::at(&folder.join(READY)) == EntryType::Folder,
        }
    }
}

impl Deref for Snapshot {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.folder
    }
}

impl Snapshot {
    fn new(folder: &Path, state: &FolderState) -> Snapshot {
        let parsed = state.config.as_ref().and_then(|bytes| serde_json::from_slice::<GenerationKeys>(bytes).ok());
        let GenerationKeys { chumoku_generation, chumoku } = parsed.unwrap_or_default();
        let generation =
            chumoku_generation.as_str().or_else(|| chumoku.get(GENERATION_KEY)?.as_str()).map(str::to_owned);
        let identity = ModelIdentity(state.config.as_ref().map(|bytes| {
            let mut found = Fingerprint::new();
            found.add(bytes);
            found.hex()
        }));
        Snapshot { folder: folder.to_owned(), generation, identity, is_mixed: AtomicBool::new(false) }
    }

    /// Returns a snapshot of a subfolder, whose weights have no generation.
    pub(crate) fn subfolder(&self, name: &str) -> Snapshot {
        let (generation, is_mixed) = (None, AtomicBool::new(false));
        Snapshot { folder: self.folder.join(name), generation, identity: ModelIdentity::default(), is_mixed }
    }

    /// Creates a snapshot of a folder that no other process writes to.
    #[cfg(test)]
    pub(crate) fn of(folder: &Path) -> Snapshot {
        Snapshot::new(folder, &FolderState::read(folder))
    }

    /// Returns the identity of the current model.
    pub fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// Reads a weights file.
    ///
    /// # Errors
    /// If it is missing, not a plain file, or cannot be read.
    pub(crate) fn read_weights(&self, name: &str) -> Result<Vec<u8>> {
        failpoint::hit("weights");
        read_file(self, name)
    }

    /// Checks that a weights file with this metadata belongs to the model of `config.json`.
    ///
    /// # Errors
    /// If both have a generation, and the generations differ.
    pub(crate) fn check_generation(&self, name: &str, metadata: Option<&HashMap<String, String>>) -> Result<()> {
        let (Some(expected), Some(found)) =
            (&self.generation, metadata.and_then(|metadata| metadata.get(GENERATION_KEY)))
        else {
            return Ok(());
        };
        if expected == found {
            return Ok(());
        }
        self.is_mixed.store(true, Ordering::Relaxed);
        let problem = tr!(
            "expected the weights of the model that {CONFIG} describes ({GENERATION_KEY} {expected}), found those of another \
             ({found}); copy the whole folder again, or train the model again",
            "{CONFIG} が示すモデル（{GENERATION_KEY} {expected}）の重みが必要ですが、別のモデル（{found}）の重みです。フォルダ全体を\
             コピーし直すか、学習し直してください"
        );
        Err(model_file_error(self, name, problem))
    }
}

/// Reads a file of the folder.
///
/// # Errors
/// If it is missing, not a plain file, or cannot be read.
pub fn read_file(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let path = check_file(folder, name)?;
    std::fs::read(&path).map_err(Error::io("reading", path))
}

/// Reads a text file of the folder.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub(crate) fn read_text(folder: &Snapshot, name: &str) -> Result<String> {
    String::from_utf8(read_file(folder, name)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let problem = tr!(
            "expected text in UTF-8, found another byte at offset {at}; the file is damaged",
            "UTF-8 のテキストではありません（オフセット {at}）。ファイルが壊れています"
        );
        model_file_error(folder, name, problem)
    })
}

/// Calls `read` with a [`Snapshot`] of the folder, and again if its files belong to two models.
///
/// # Errors
/// Those of `read`. Also if the model was replaced in each attempt, or the files still belong to two models.
pub fn with_snapshot<T>(folder: &Path, mut read: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
    retry_until_consistent(folder, |state| {
        let snapshot = Snapshot::new(folder, state);
        let found = read(&snapshot);
        (found, snapshot.is_mixed.into_inner())
    })
}

/// Runs `read`, and runs it again if the folder's model was replaced during the call. All files that `read` uses then
/// belong to one model.
///
/// ```
/// # let folder = std::path::Path::new("no model");
/// use chumoku_inference::{ModelKind, NgramClassifier};
///
/// let found = chumoku_inference::read_model_folder(folder, || Ok((ModelKind::from_folder(folder)?, NgramClassifier::load(folder)?)));
/// assert!(found.is_err_and(|error: chumoku_inference::Error| error.to_string().contains("no such folder")));
/// ```
///
/// # Errors
/// Those of `read`. Also if the model was replaced in each of several attempts.
pub fn read_model_folder<T, E: From<Error>>(folder: &Path, mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    retry_until_consistent(folder, |_| (read(), false))
}

/// Returns the path of a model file, also while the files of a new model move into the folder.
#[must_use]
pub fn model_file(folder: &Path, name: &str) -> PathBuf {
    current_path(folder, name)
}

/// Runs `read` until the folder stays unchanged. `read` returns its result, and whether it found files of two models.
fn retry_until_consistent<T, E: From<Error>>(
    folder: &Path,
    mut read: impl FnMut(&FolderState) -> (Result<T, E>, bool),
) -> Result<T, E> {
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PAUSE * (1 << (attempt - 1)));
        }
        let before = FolderState::read(folder);
        let (found, is_mixed) = read(&before);
        let after = FolderState::read(folder);
        let is_same = before.config == after.config;
        // During a move, a file may no longer be at the path where it was found.
        let is_settled = is_same && !before.is_moving && !after.is_moving;
        match found {
            Ok(_) if !is_same => {}
            Err(_) if !is_settled && attempt + 1 < MAX_ATTEMPTS => {}
            Err(_) if is_mixed && attempt + 1 < MAX_ATTEMPTS => {}
            Err(_) if !is_same => {}
            found => return found,
        }
    }
    let problem = tr!(
        "expected one model, but it was replaced by another in each of {MAX_ATTEMPTS} attempts to read it; try again once \
         nothing writes to the folder",
        "{MAX_ATTEMPTS} 回読もうとしましたが、そのたびに別のモデルに置き換えられました。フォルダへの書き込みが終わってから、もう一度実行してください"
    );
    Err(E::from(Error::Model { path: folder.to_owned(), problem }))
}

/// Replaces the folder's model with `files` (name and bytes) and their generation, all of them or none.
///
/// # Errors
/// If they cannot be written, or a foreign file would be replaced.
pub fn write_model(folder: &Path, mut files: Vec<(&'static str, Vec<u8>)>) -> Result<()> {
    let mut all = Fingerprint::new();
    // The weights files depend only on the weights, not on the configuration.
    let is_counted = |name: &str| name != CONFIG && !TRAINING_FILES.contains(&name);
    for (name, bytes) in files.iter().filter(|(name, _)| is_counted(name)) {
        all.add(name.as_bytes());
        all.add(bytes);
    }
    let generation = &all.hex()[..GENERATION_DIGITS];
    for (name, bytes) in &mut files {
        if *name == CONFIG {
            *bytes = insert_generation(bytes, generation);
        } else if name.ends_with(".safetensors") {
            set_generation(bytes, generation);
        }
    }
    write_files(folder, &files)
}

/// Returns the text of `config.json` with the generation added.
fn insert_generation(config: &[u8], generation: &str) -> Vec<u8> {
    let mut config: Map<String, Value> = serde_json::from_slice(config).expect("a configuration is a JSON object");
    match config.get_mut(CHUMOKU_KEY).and_then(Value::as_object_mut) {
        Some(ours) => ours.insert(GENERATION_KEY.into(), generation.into()),
        None => config.insert(GENERATION_KEY.into(), generation.into()),
    };
    (serde_json::to_string_pretty(&config).expect("a configuration is plain data") + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::parse_weights;
    use super::super::tensors::{NamedTensor, serialize_tensors};
    use super::super::{TOKENIZER, TOKENIZER_CONFIG, WEIGHTS};
    use super::*;
    use safetensors::Dtype;
    use std::cell::Cell;

    type Files = Vec<(&'static str, Vec<u8>)>;

    fn model(number: u8) -> Files {
        let bytes = vec![number; 4];
        let tensors = [NamedTensor { name: "a".to_owned(), dtype: Dtype::F32, shape: vec![1], bytes }];
        vec![
            (CONFIG, format!("{{\"model_type\":\"chumoku_{number}\"}}").into_bytes()),
            (WEIGHTS, serialize_tensors(&tensors)),
            (METRICS, vec![number]),
        ]
    }

    /// Returns the model numbers in the files that a reader finds. `meanwhile` runs between configuration and weights.
    fn numbers(folder: &Path, meanwhile: impl Fn()) -> Result<[u8; 2]> {
        with_snapshot(folder, |folder| {
            let config = String::from_utf8(read_file(folder, CONFIG)?).unwrap();
            meanwhile();
            let bytes = folder.read_weights(WEIGHTS)?;
            let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
            let (_, number) = config.split_once("chumoku_").unwrap();
            Ok([number.split('"').next().unwrap().parse().unwrap(), tensors.tensor("a").unwrap().data()[0]])
        })
    }

    #[test]
    fn a_model_that_is_replaced_during_a_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_model(folder, model(1)).unwrap();
        assert_eq!(numbers(folder, || {}).unwrap(), [1, 1]);
        let times = Cell::new(0);
        let meanwhile = |most: u8| {
            if times.get() < most {
                times.set(times.get() + 1);
                write_model(folder, model(1 + times.get())).unwrap();
            }
        };
        assert_eq!(numbers(folder, || meanwhile(2)).unwrap(), [3, 3]);
        assert_eq!(times.get(), 2);
        // If replacements never end, the reader gives up.
        let error = numbers(folder, || meanwhile(u8::MAX)).unwrap_err().to_string();
        assert!(error.contains("in each of 5 attempts"), "{error}");
        assert_eq!(times.get(), 2 + MAX_ATTEMPTS as u8);
    }

    #[test]
    fn the_generation_depends_on_weights_and_tokenizers() {
        let id = |mut files: Files, change: &dyn Fn(&mut Files)| {
            let folder = tempfile::tempdir().unwrap();
            change(&mut files);
            write_model(folder.path(), files).unwrap();
            Snapshot::of(folder.path()).generation.unwrap()
        };
        let same = id(model(1), &|_| {});
        assert_eq!(id(model(1), &|files| files[2].1 = vec![9]), same);
        assert_ne!(id(model(2), &|_| {}), same);
        assert_ne!(id(model(1), &|files| files.push((TOKENIZER, vec![1]))), same);
        // A model in the format of Hugging Face holds it in Chumoku's settings.
        let theirs = |files: &mut Files| {
            files[0].1 = b"{\"model_type\":\"bert\",\"chumoku\":{\"chumoku_version\":\"0.1.0\"}}".to_vec();
        };
        assert_eq!(id(model(1), &theirs), same);
    }

    #[test]
    fn files_of_two_models_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_model(folder, model(1)).unwrap();
        let [config, weights] = [CONFIG, WEIGHTS].map(|name| folder.join(name));
        let of_the_first = std::fs::read(&weights).unwrap();
        write_model(folder, model(2)).unwrap();
        std::fs::write(&weights, of_the_first).unwrap();
        let error = numbers(folder, || {}).unwrap_err().to_string();
        assert!(error.contains(WEIGHTS) && error.contains("those of another"), "{error}");
        // If one file has no generation, the files are not checked.
        std::fs::write(&config, "{\"model_type\":\"chumoku_3\"}").unwrap();
        assert_eq!(numbers(folder, || {}).unwrap(), [3, 1]);
    }

    /// A file that the new model lacks does not belong to it, even before the old file is removed.
    #[test]
    fn files_of_the_old_model_are_not_read_during_a_move() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut old = model(1);
        old.push((TOKENIZER_CONFIG, vec![1]));
        write_model(folder, old).unwrap();
        let ready = folder.join(READY);
        std::fs::create_dir(&ready).unwrap();
        for (name, bytes) in model(2) {
            std::fs::write(ready.join(name), bytes).unwrap();
        }
        assert!(!current_path(folder, TOKENIZER_CONFIG).exists());
        assert_eq!(numbers(folder, || {}).unwrap(), [2, 2]);
        // Files that belong to no model are read from the folder itself.
        std::fs::write(folder.join("vocab.txt"), "a").unwrap();
        assert!(current_path(folder, "vocab.txt").exists());
    }
}
