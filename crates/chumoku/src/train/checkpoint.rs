//! Checkpoints: a folder each, written beside, flushed and renamed, with checksums.
//!
//! `checkpoints/step-0000001234/` holds `state.safetensors` (weights, both moments, moving average, best weights) and
//! `manifest.json`, which counts steps and names the file's SHA-256. The two newest are kept; a damaged newest one is
//! reported and the one before it is used.

use super::run_identity::RunIdentity;
use super::train_state::{BestEvaluation, TrainState};
use crate::lang::system_message;
use crate::model_folder::{
    EntryType, MANIFEST, STATE, checkpoints, remove_checkpoint, rename, sync_folder, write_file,
};
use crate::params::Params;
use crate::{Error, Result, tr};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

const MAX_CHECKPOINTS: usize = 2;

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: u32,
    #[serde(flatten)]
    identity: RunIdentity,
    step: u64,
    epoch: u64,
    batch: u64,
    stale: u64,
    best: Option<BestRecord>,
    /// Bytes of `log.jsonl` that belong to the steps before this checkpoint.
    log_bytes: u64,
    /// SHA-256 of `state.safetensors`.
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct BestRecord {
    epoch: u64,
    score: f64,
    loss: f64,
}

/// A checkpoint that was read.
#[derive(Debug)]
pub(super) struct LoadedCheckpoint {
    /// The run's state.
    pub state: TrainState,
    /// Bytes of the log that belong to it.
    pub log_bytes: u64,
    /// Checkpoints that were newer but damaged, with what is wrong with each.
    pub damaged: Vec<String>,
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Writes a checkpoint and removes those that are no longer needed.
///
/// # Errors
/// If it cannot be written; earlier checkpoints are then untouched.
pub(super) fn save(folder: &Path, state: &TrainState, identity: &RunIdentity, log_bytes: u64) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
    let arrays = [
        ("params", &state.params),
        ("m", &state.m),
        ("v", &state.v),
        ("average", &state.average),
        ("best_params", &state.best_params),
    ]
    .map(|(name, params)| (name, bytes_of(params.values())));
    let shape = vec![state.params.values().len()];
    let views = arrays
        .iter()
        .map(|(name, bytes)| (*name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes of as many f32")));
    let tensors = safetensors::serialize(views, None).expect("plain f32 arrays can be written");
    let manifest = Manifest {
        format: 1,
        identity: identity.clone(),
        step: state.step,
        epoch: state.epoch,
        batch: state.batch,
        stale: state.stale,
        best: state.best.map(|b| BestRecord { epoch: b.epoch, score: b.score, loss: b.loss }),
        log_bytes,
        sha256: crate::checksum::hex(Sha256::digest(&tensors)),
    };
    let name = format!("step-{:010}", state.step);
    let (temporary, path) = (folder.join(format!("{name}.tmp")), folder.join(&name));
    // Left by a run that was killed while writing.
    remove_checkpoint(&temporary)?;
    fs::create_dir(&temporary).map_err(Error::write("creating", &temporary))?;
    let manifest = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    let written = write_file(&temporary.join(STATE), &tensors)
        .and_then(|()| write_file(&temporary.join(MANIFEST), &manifest))
        .and_then(|()| sync_folder(&temporary));
    if written.is_err() {
        // A full disk: what is half written is of no use, and in the way.
        let _ = remove_checkpoint(&temporary);
    }
    written?;
    // The same step again, after resuming from an earlier checkpoint than the newest.
    remove_checkpoint(&path)?;
    rename(&temporary, &path).map_err(Error::write("renaming", &temporary))?;
    sync_folder(folder)?;
    for old in checkpoints(folder).into_iter().skip(MAX_CHECKPOINTS) {
        let _ = remove_checkpoint(&old);
    }
    Ok(())
}

/// Reads the newest sound checkpoint of a run that began with `start`, which has the frozen weights; `None` if there is none
/// at all.
///
/// # Errors
/// If all are damaged, or the newest sound one belongs to other data or settings.
pub(super) fn load(folder: &Path, start: &Params<f32>, identity: &RunIdentity) -> Result<Option<LoadedCheckpoint>> {
    let mut damaged = Vec::new();
    let found = checkpoints(folder);
    for path in &found {
        match read(path, start, &identity.fingerprint) {
            Ok((state, log_bytes)) => return Ok(Some(LoadedCheckpoint { state, log_bytes, damaged })),
            Err(ReadError::Damaged(problem)) => damaged.push(format!("{}: {problem}", path.display())),
            Err(ReadError::OtherRun(earlier)) => {
                let problem = identity.mismatch_message(&earlier, &tr!("the checkpoint was", "このチェックポイント"));
                return Err(Error::Output { path: path.clone(), problem });
            }
        }
    }
    match damaged.is_empty() {
        true => Ok(None),
        false => {
            let problem = tr!(
                "no checkpoint is sound ({}); start over with --force",
                "正常なチェックポイントがありません（{}）。--force で最初からやり直してください",
                damaged.join("; ")
            );
            Err(Error::Output { path: folder.to_owned(), problem })
        }
    }
}

enum ReadError {
    Damaged(String),
    /// It is of another run.
    OtherRun(RunIdentity),
}

fn read(path: &Path, start: &Params<f32>, fingerprint: &str) -> Result<(TrainState, u64), ReadError> {
    let damaged = |problem: String| ReadError::Damaged(problem);
    let bytes = |name: &str| match EntryType::at(&path.join(name)) {
        EntryType::File | EntryType::Missing => {
            fs::read(path.join(name)).map_err(|error| damaged(format!("{name}: {}", system_message(&error))))
        }
        _ => Err(damaged(tr!("{name}: expected a file, found something else", "{name}: ファイルではありません"))),
    };
    let manifest = bytes(MANIFEST)?;
    let manifest: Manifest = serde_json::from_slice(&manifest)
        .map_err(|error| damaged(tr!("manifest.json: {error}", "manifest.json の内容が正しくありません")))?;
    let tensors = bytes(STATE)?;
    if crate::checksum::hex(Sha256::digest(&tensors)) != manifest.sha256 {
        return Err(damaged(tr!(
            "state.safetensors does not match its checksum",
            "state.safetensors がチェックサムと一致しません"
        )));
    }
    if manifest.format != 1 || manifest.identity.fingerprint != fingerprint {
        return Err(ReadError::OtherRun(manifest.identity));
    }
    let tensors = SafeTensors::deserialize(&tensors).map_err(|error| damaged(error.to_string()))?;
    let array = |name: &str| -> Result<Params<f32>, ReadError> {
        let view = tensors.tensor(name).map_err(|error| damaged(error.to_string()))?;
        let mut params = start.zeroed();
        if view.dtype() != Dtype::F32 || view.shape() != [params.values().len()] {
            return Err(ReadError::OtherRun(manifest.identity.clone()));
        }
        for (value, bytes) in params.values_mut().iter_mut().zip(view.data().chunks_exact(4)) {
            *value = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        Ok(params)
    };
    let state = TrainState {
        step: manifest.step,
        epoch: manifest.epoch,
        batch: manifest.batch,
        params: array("params")?,
        m: array("m")?,
        v: array("v")?,
        average: array("average")?,
        best_params: array("best_params")?,
        best: manifest.best.map(|b| BestEvaluation { epoch: b.epoch, score: b.score, loss: b.loss }),
        stale: manifest.stale,
    };
    Ok((state, manifest.log_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_folder::has_checkpoint;
    use crate::params::{Builder, Init};

    fn run(fingerprint: &str) -> RunIdentity {
        RunIdentity::new(fingerprint.to_owned())
    }

    fn state() -> TrainState {
        let mut builder = Builder::new();
        builder.add("w", &[3, 4], Init::Normal(1.0));
        TrainState::new(Params::init(&builder.finish(), 1))
    }

    #[test]
    fn the_newest_sound_one_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state();
        let start = state.params.clone();
        assert!(load(folder.path(), &start, &run("f")).unwrap().is_none());
        for step in 1..=4 {
            state.step = step;
            state.params.values_mut()[0] = step as f32;
            state.best = Some(BestEvaluation { epoch: step, score: 1.0 / 3.0, loss: 0.1 + 0.2 });
            save(folder.path(), &state, &run("f"), 10 * step).unwrap();
        }
        assert_eq!(checkpoints(folder.path()).len(), MAX_CHECKPOINTS);
        let loaded = load(folder.path(), &start, &run("f")).unwrap().unwrap();
        assert_eq!((loaded.state.step, loaded.log_bytes, loaded.damaged.len()), (4, 40, 0));
        assert_eq!(loaded.state.params.values(), state.params.values());
        assert_eq!(loaded.state.best, state.best);

        // One flipped bit in the newest.
        let path = checkpoints(folder.path())[0].join("state.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let loaded = load(folder.path(), &start, &run("f")).unwrap().unwrap();
        assert_eq!((loaded.state.step, loaded.damaged.len()), (3, 1));
        assert!(loaded.damaged[0].contains("checksum"), "{:?}", loaded.damaged);

        // Truncated manifest in the other.
        fs::write(checkpoints(folder.path())[1].join("manifest.json"), b"{").unwrap();
        assert!(load(folder.path(), &start, &run("f")).unwrap_err().to_string().contains("no checkpoint is sound"));
    }

    #[test]
    fn other_data_or_settings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = state();
        save(folder.path(), &state, &run("a"), 0).unwrap();
        let error = load(folder.path(), &state.params, &run("b")).unwrap_err().to_string();
        assert!(error.contains("other data, settings or seed"), "{error}");
    }

    #[test]
    fn a_half_written_one_is_no_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("step-0000000009.tmp")).unwrap();
        assert!(!has_checkpoint(folder.path()));
        let mut state = state();
        state.step = 9;
        save(folder.path(), &state, &run("a"), 0).unwrap();
        assert!(load(folder.path(), &state.params, &run("a")).unwrap().is_some());
    }
}
