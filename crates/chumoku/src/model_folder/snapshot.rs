//! Reading a model folder as one whole, although `train --force` may replace its model meanwhile.
//!
//! [`write_model`] gives each model a generation: a part of the SHA-256 of its weights and tokenizers. `config.json` and the
//! metadata of each file of weights hold it. Every loader reads through a [`Snapshot`], which only [`read_snapshot`] hands out. That
//! function reads again when the files are of two models, or when `config.json` changed while they were read. Files from
//! elsewhere, and those of older versions, have no generation and are read as they are.

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

/// The key of `config.json` under which a model in the form of Hugging Face has the settings that are ours.
pub(crate) const CHUMOKU_KEY: &str = "chumoku";

/// Files that a folder has of its training, which no answer depends on.
pub(super) const TRAINING_FILES: [&str; 5] = [CARD, LOG, METRICS, TRAINED_ON, TUNE_LOG];

/// How often a folder is read before the reader gives up.
const MAX_ATTEMPTS: u32 = 5;

/// The pause before the second attempt; it doubles with each.
const PAUSE: Duration = Duration::from_millis(10);

/// A model folder while it is read; stands for its path.
#[derive(Debug)]
pub(crate) struct Snapshot {
    folder: PathBuf,
    generation: Option<String>,
    identity: ModelIdentity,
    /// Set once a file of another model was found.
    is_mixed: AtomicBool,
}

/// Tells models in one folder apart: the SHA-256 of `config.json`, if the folder has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelIdentity(Option<String>);

/// The keys of `config.json` that may hold the generation.
#[derive(Default, Deserialize)]
struct GenerationKeys {
    #[serde(default)]
    chumoku_generation: Value,
    #[serde(default)]
    chumoku: Value,
}

/// The folder's state at one moment.
#[derive(PartialEq)]
struct FolderState {
    config: Option<Vec<u8>>,
    /// Whether files of a new model are on their way into the folder.
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

    /// A folder inside of this one, whose weights have no generation.
    pub(crate) fn subfolder(&self, name: &str) -> Snapshot {
        let (generation, is_mixed) = (None, AtomicBool::new(false));
        Snapshot { folder: self.folder.join(name), generation, identity: ModelIdentity::default(), is_mixed }
    }

    /// A folder that nobody else writes to.
    #[cfg(test)]
    pub(crate) fn of(folder: &Path) -> Snapshot {
        Snapshot::new(folder, &FolderState::read(folder))
    }

    /// Tells its model from others that the folder may hold later.
    pub(crate) fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// The bytes of a file of weights.
    ///
    /// # Errors
    /// If it is missing, no plain file, or cannot be read.
    pub(crate) fn read_weights(&self, name: &str) -> Result<Vec<u8>> {
        failpoint::hit("weights");
        read_file(self, name)
    }

    /// Checks that a file of weights, whose metadata this is, belongs to the model of `config.json`.
    ///
    /// # Errors
    /// If both have a generation, and another.
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

/// The bytes of a file of the folder.
///
/// # Errors
/// If it is missing, no plain file, or cannot be read.
pub(crate) fn read_file(folder: &Snapshot, name: &str) -> Result<Vec<u8>> {
    let path = check_file(folder, name)?;
    std::fs::read(&path).map_err(Error::io("reading", path))
}

/// The text of a file of the folder.
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

/// Reads a folder as one whole: hands a [`Snapshot`] to `read`, and again if the files that it found are of two models.
///
/// # Errors
/// Those of `read`; if the model was replaced in each attempt, or its files are of two models and stay so.
pub(crate) fn with_snapshot<T>(folder: &Path, mut read: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
    retry_until_consistent(folder, |state| {
        let snapshot = Snapshot::new(folder, state);
        let found = read(&snapshot);
        (found, snapshot.is_mixed.into_inner())
    })
}

/// Runs `read`, and runs it again if the folder's model was replaced meanwhile. All that `read` reads of the folder is then
/// of one model.
///
/// ```
/// # let folder = std::path::Path::new("no model");
/// use chumoku::{ModelKind, NgramClassifier};
///
/// let found = chumoku::read_model_folder(folder, || Ok((ModelKind::of(folder)?, NgramClassifier::load(folder)?)));
/// assert!(found.is_err_and(|error: chumoku::Error| error.to_string().contains("no such folder")));
/// ```
///
/// # Errors
/// Those of `read`; if the model was replaced in each of several attempts.
pub fn read_model_folder<T, E: From<Error>>(folder: &Path, mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    retry_until_consistent(folder, |_| (read(), false))
}

/// The path of a file of a model folder, also while the files of a new model move into the folder.
#[must_use]
pub fn model_file(folder: &Path, name: &str) -> PathBuf {
    current_path(folder, name)
}

/// `read` returns its result, and whether it found files of two models.
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
        // While files move, one may be looked for where it was a moment ago.
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

/// Makes `files` (name and bytes) those of the folder's model, with their generation: all of them or none.
///
/// # Errors
/// If they cannot be written, or one would replace a file that is none of a model's.
pub(crate) fn write_model(folder: &Path, mut files: Vec<(&'static str, Vec<u8>)>) -> Result<()> {
    let mut all = Fingerprint::new();
    // Models of the same weights have the same files of weights, whatever their configurations say.
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

/// The text of `config.json` with the generation beside the version that wrote it.
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
    use super::super::tensors::serialize_tensors;
    use super::super::{TOKENIZER, TOKENIZER_CONFIG, WEIGHTS};
    use super::*;
    use safetensors::Dtype;
    use std::cell::Cell;

    type Files = Vec<(&'static str, Vec<u8>)>;

    fn model(number: u8) -> Files {
        let tensors = vec![("a".to_owned(), Dtype::F32, vec![1], vec![number; 4])];
        vec![
            (CONFIG, format!("{{\"model_type\":\"chumoku_{number}\"}}").into_bytes()),
            (WEIGHTS, serialize_tensors(&tensors)),
            (METRICS, vec![number]),
        ]
    }

    /// The numbers of the files that a reader finds; `meanwhile` happens between configuration and weights.
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
    fn a_model_that_is_replaced_while_it_is_read_is_read_again() {
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
        // Without an end of it the reader gives up.
        let error = numbers(folder, || meanwhile(u8::MAX)).unwrap_err().to_string();
        assert!(error.contains("in each of 5 attempts"), "{error}");
        assert_eq!(times.get(), 2 + MAX_ATTEMPTS as u8);
    }

    #[test]
    fn the_id_follows_from_weights_and_tokenizers() {
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
        // A model in the form of Hugging Face has it among the settings that are ours.
        let theirs = |files: &mut Files| {
            files[0].1 = b"{\"model_type\":\"bert\",\"chumoku\":{\"chumoku_version\":\"0.1.0\"}}".to_vec();
        };
        assert_eq!(id(model(1), &theirs), same);
    }

    #[test]
    fn files_of_two_models_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_model(folder, model(1)).unwrap();
        let [config, weights] = [CONFIG, WEIGHTS].map(|name| folder.join(name));
        let of_the_first = std::fs::read(&weights).unwrap();
        write_model(folder, model(2)).unwrap();
        std::fs::write(&weights, of_the_first).unwrap();
        let error = numbers(folder, || {}).unwrap_err().to_string();
        assert!(error.contains(WEIGHTS) && error.contains("those of another"), "{error}");
        // Where one of the two says nothing, they are read as they are.
        std::fs::write(&config, "{\"model_type\":\"chumoku_3\"}").unwrap();
        assert_eq!(numbers(folder, || {}).unwrap(), [3, 1]);
    }

    /// A file that the new model lacks is none of its files, even before the old one is removed.
    #[test]
    fn files_of_the_old_model_are_not_read_while_the_new_one_arrives() {
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
        // Nor is what no model has looked for elsewhere than in the folder.
        std::fs::write(folder.join("vocab.txt"), "a").unwrap();
        assert!(current_path(folder, "vocab.txt").exists());
    }
}
