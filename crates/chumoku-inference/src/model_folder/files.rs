//! The files of a model folder: reserved names, and reading plain files.

use super::checkpoints::{CHECKPOINT_FILES, CHECKPOINTS, has_checkpoints, is_checkpoint_name};
use super::entry_type::EntryType;
use super::model_file_error;
use crate::output::WorkFolder;
use crate::{Error, Result, tr};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The configuration of the model.
pub const CONFIG: &str = "config.json";
/// The weights of the network.
pub const WEIGHTS: &str = "model.safetensors";
/// The tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// The tokenizer of the source texts of a translator.
pub(crate) const SOURCE_TOKENIZER: &str = "source_tokenizer.json";
/// Settings of a pretrained tokenizer.
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// Generation settings of a published language model, its chat template, and the special tokens of older folders.
pub(crate) const GENERATION: &str = "generation_config.json";
/// The template that turns a chat into a prompt.
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";
/// The names of the special tokens.
pub const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// The n-gram model next to a pretrained network.
pub(crate) const NGRAM_WEIGHTS: &str = "ngrams.safetensors";
/// The scores of the model.
pub const METRICS: &str = "metrics.json";
/// The description of the model.
pub const CARD: &str = "README.md";
/// Hashes of the training texts.
pub const TRAINED_ON: &str = "trained-on.bin";
/// The log of the training.
pub const LOG: &str = "log.jsonl";
/// The settings tried by a search.
pub const TUNE_LOG: &str = "tune.jsonl";

/// The maximum size of a `config.json` in bytes, far above any real one.
pub(super) const MAX_CONFIG_BYTES: u64 = 64 << 20;

/// The log of a search while it is written.
pub(super) const TUNE_LOG_TEMP: &str = "tune.tmp";

/// The file locked by the process that writes to the folder.
pub const LOCK: &str = ".chumoku-lock";
/// The run that will replace the folder's model.
pub const NEXT_RUN: &str = ".chumoku-next";
/// The trials of an unfinished search for settings.
pub const TUNE: &str = ".chumoku-tune";
/// The files of a model while they are written.
pub(super) const STAGED: &str = ".chumoku-staged";
/// A complete model that is being moved into the folder. Its files take precedence over files of the same name in the
/// folder.
pub(super) const READY: &str = ".chumoku-ready";
/// In [`READY`]: the checkpoints of the replaced model.
pub(super) const REPLACED: &str = "replaced";

/// Returns the current path of a model file: in the folder, or in `READY` during a move.
pub fn current_path(folder: &Path, name: &str) -> PathBuf {
    let ready = folder.join(READY);
    if EntryType::at(&ready) != EntryType::Folder {
        return folder.join(name);
    }
    let moving = ready.join(name);
    let is_moving = EntryType::at(&moving) != EntryType::Missing;
    // Weights move first. While they are in [`READY`], files that the new model lacks do not belong to the current
    // model.
    let is_stale = || MODEL_FILES.contains(&name) && EntryType::at(&ready.join(WEIGHTS)) != EntryType::Missing;
    if is_moving || is_stale() { moving } else { folder.join(name) }
}

/// Checks that the folder exists and has these files.
pub(crate) fn check_files(folder: &Path, names: &[&str]) -> Result<()> {
    if !folder.is_dir() {
        let problem = if folder.exists() {
            tr!(
                "expected a model folder, as `chumoku train` writes it, found a file",
                "モデルのフォルダではなくファイルです。モデルのフォルダは `chumoku train` が作ります"
            )
        } else {
            tr!(
                "there is no such folder; `chumoku train` creates one",
                "このフォルダはありません。`chumoku train` が作ります"
            )
        };
        return Err(Error::Model { path: folder.to_owned(), problem });
    }
    names.iter().try_for_each(|name| check_file(folder, name).map(drop))
}

/// Returns the path of a plain file of the folder.
///
/// # Errors
/// If it is missing, or not a plain file. A link could lead out of the folder, and a pipe has no end.
pub(super) fn check_file(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = current_path(folder, name);
    match EntryType::at(&path) {
        EntryType::File => Ok(path),
        EntryType::Missing => Err(model_file_error(folder, name, missing_file_message(folder))),
        other => {
            let found = other.noun();
            let problem = tr!(
                "expected a file, found {found}; a model folder must contain the files themselves: put the file there",
                "ファイルがあるべきところに{found}があります。モデルのフォルダにはファイルそのものを置いてください"
            );
            Err(model_file_error(folder, name, problem))
        }
    }
}

/// Explains why a file may be missing, and what to do.
fn missing_file_message(folder: &Path) -> String {
    if let Some(kind) = super::pretrained_kind(folder) {
        let found = kind.describe();
        return tr!(
            "the file is missing; the folder holds {found}",
            "このファイルがありません。フォルダの中身は{found}です"
        );
    }
    let has_weights = EntryType::at(&current_path(folder, WEIGHTS)) != EntryType::Missing;
    match (has_checkpoints(folder), has_weights) {
        (true, false) => tr!(
            "the file is missing: training has not finished; continue it with `chumoku train … --resume`",
            "このファイルがありません。学習が終わっていません。`chumoku train … --resume` で続けてください"
        ),
        (true, true) => tr!(
            "the file is missing, though training finished; copy the folder again, or let `chumoku train … --resume` \
             write its files again",
            "学習は終わっていますが、このファイルがありません。フォルダをコピーし直すか、`chumoku train … --resume` \
             でファイルを書き直してください"
        ),
        (false, _) => tr!(
            "the file is missing: expected a model folder as `chumoku train` writes it",
            "このファイルがありません。`chumoku train` が作るモデルのフォルダが必要です"
        ),
    }
}

/// Opens a file of the folder for reading.
///
/// # Errors
/// If it is missing, not a plain file, or cannot be opened.
pub fn open_file(folder: &Path, name: &str) -> Result<fs::File> {
    let path = check_file(folder, name)?;
    fs::File::open(&path).map_err(Error::io("reading", path))
}

/// Reads the start of a file.
fn read_prefix(path: &Path, bytes: u64) -> Vec<u8> {
    let mut start = Vec::new();
    let _ = fs::File::open(path).and_then(|file| file.take(bytes).read_to_end(&mut start));
    start
}

/// Returns `true` if the folder has a `config.json` written by Chumoku.
fn has_config(folder: &Path) -> bool {
    let path = current_path(folder, CONFIG);
    EntryType::at(&path) == EntryType::File
        && serde_json::from_slice::<super::ModelTypeConfig>(&read_prefix(&path, MAX_CONFIG_BYTES))
            .is_ok_and(|kind| kind.is_chumoku())
}

/// Returns `true` if the folder holds a run or model of Chumoku.
fn is_chumoku_folder(folder: &Path) -> bool {
    has_config(folder)
        || has_checkpoints(folder)
        || EntryType::at(&folder.join(LOCK)) == EntryType::File
        || EntryType::at(&folder.join(READY)) == EntryType::Folder
        || has_trials(folder)
}

fn is_card(path: &Path) -> bool {
    let start = read_prefix(path, 1 << 14);
    let start = String::from_utf8_lossy(&start);
    // The card may be in another language than that of the current process.
    let from_scratch = ["from scratch with Chumoku", "でゼロから学習し"];
    let from_another = ["fine-tuned with Chumoku", "でファインチューニングし"];
    let further = [
        "trained further with Chumoku",
        "で事前学習済みのモデルから追加学習し",
        "で別の分類器から追加学習し",
        "で別のモデルから追加学習し",
    ];
    from_scratch.iter().chain(&from_another).chain(&further).any(|message| start.contains(message))
}

/// Returns `true` if a file is empty or starts like the log of a run.
fn is_log(path: &Path) -> bool {
    let start = read_prefix(path, 64);
    let after_step = start.strip_prefix(b"{\"step\":");
    let is_line = after_step.is_some_and(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(b",\"epoch\":")
    });
    start.is_empty() || is_line
}

/// Returns the names in a folder, sorted.
pub fn entry_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The files of a model, in the order in which they move into a folder.
pub(super) const MODEL_FILES: [&str; 13] = [
    WEIGHTS,
    NGRAM_WEIGHTS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS,
    CHAT_TEMPLATE,
    GENERATION,
    SOURCE_TOKENIZER,
    METRICS,
    CARD,
    TRAINED_ON,
    TUNE_LOG,
    CONFIG,
];

/// Files that operating systems create in any folder. They are left in place.
const SYSTEM_FILES: [&str; 3] = [".DS_Store", "Thumbs.db", "desktop.ini"];

/// Returns foreign files with the names of model files, which must not be replaced.
pub fn foreign_model_files(folder: &Path) -> Vec<String> {
    let has_config = has_config(folder);
    let is_impostor = |name: &str| {
        let path = folder.join(name);
        match EntryType::at(&path) {
            EntryType::Missing => false,
            EntryType::File => !has_config || (name == CARD && !is_card(&path)),
            _ => true,
        }
    };
    let mut found: Vec<String> = MODEL_FILES.into_iter().filter(|name| is_impostor(name)).map(String::from).collect();
    let log = folder.join(LOG);
    match EntryType::at(&log) {
        EntryType::Missing => {}
        EntryType::File if read_prefix(&log, 1).is_empty() || (is_chumoku_folder(folder) && is_log(&log)) => {}
        _ => found.push(LOG.into()),
    }
    found.extend(foreign_checkpoint_files(&folder.join(CHECKPOINTS)).iter().map(|name| format!("{CHECKPOINTS}{name}")));
    found
}

/// Returns the paths of foreign files, as `/name` below the checkpoint folder. An empty path stands for `folder` itself
/// if it is not a folder.
fn foreign_checkpoint_files(folder: &Path) -> Vec<String> {
    match EntryType::at(folder) {
        EntryType::Missing => return Vec::new(),
        EntryType::Folder => {}
        _ => return vec![String::new()],
    }
    let of_step = |step: &String| {
        let path = folder.join(step);
        if !is_checkpoint_name(step.trim_end_matches(".tmp")) || EntryType::at(&path) != EntryType::Folder {
            return vec![format!("/{step}")];
        }
        let parts = entry_names(&path).into_iter();
        let strange = parts.filter(|part| {
            !CHECKPOINT_FILES.contains(&part.as_str()) || EntryType::at(&path.join(part)) != EntryType::File
        });
        strange.map(|part| format!("/{step}/{part}")).collect()
    };
    entry_names(folder).iter().flat_map(of_step).collect()
}

/// Returns all files of the folder that belong to no model or run of Chumoku.
pub fn foreign_files(folder: &Path) -> Vec<String> {
    let mut found = foreign_model_files(folder);
    for name in entry_names(folder) {
        let path = folder.join(&name);
        let standing = EntryType::at(&path);
        match name.as_str() {
            LOG | CHECKPOINTS => {}
            LOCK if standing == EntryType::File => {}
            work if standing == EntryType::Folder && work.starts_with(WorkFolder::PREFIX) => {}
            NEXT_RUN | STAGED | READY | TUNE if standing == EntryType::Folder => {
                found.extend(foreign_files_in_work_folder(&path).iter().map(|inner| format!("{name}{inner}")));
            }
            known if MODEL_FILES.contains(&known) || SYSTEM_FILES.contains(&known) => {}
            _ => found.push(name),
        }
    }
    found.sort();
    found
}

/// Returns foreign files in one of Chumoku's own subfolders, as `/name` below it.
fn foreign_files_in_work_folder(folder: &Path) -> Vec<String> {
    let of_name = |name: String| {
        let path = folder.join(&name);
        let below = |inner: Vec<String>| inner.into_iter().map(|inner| format!("/{name}{inner}")).collect();
        match (name.as_str(), EntryType::at(&path)) {
            (CHECKPOINTS | REPLACED, _) => below(foreign_checkpoint_files(&path)),
            (work, EntryType::Folder) if work.starts_with(WorkFolder::PREFIX) => Vec::new(),
            (STAGED | READY | TUNE, EntryType::Folder) => below(foreign_files_in_work_folder(&path)),
            (trial, EntryType::Folder) if is_trial(trial) => below(foreign_files_in_work_folder(&path)),
            (LOG | TUNE_LOG_TEMP, EntryType::File) => Vec::new(),
            (known, EntryType::File) if MODEL_FILES.contains(&known) => Vec::new(),
            _ => vec![format!("/{name}")],
        }
    };
    entry_names(folder).into_iter().flat_map(of_name).collect()
}

/// Returns `true` if the name is that of a trial folder.
pub(super) fn is_trial(name: &str) -> bool {
    name.strip_prefix("trial-")
        .is_some_and(|number| number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns `true` if the folder has an unfinished search for settings.
pub fn has_trials(folder: &Path) -> bool {
    entry_names(&folder.join(TUNE)).iter().any(|name| name == TUNE_LOG || is_trial(name))
}

/// Returns `true` if the folder is empty except for remains of a run that was killed before its first checkpoint.
pub fn is_effectively_empty(folder: &Path) -> bool {
    let has_model = MODEL_FILES.iter().any(|name| EntryType::at(&current_path(folder, name)) != EntryType::Missing);
    !has_model && !has_checkpoints(folder) && !has_trials(folder) && foreign_files(folder).is_empty()
}
