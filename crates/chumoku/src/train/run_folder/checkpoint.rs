//! Checkpoints: one folder each, with checksums, written to a temporary folder, flushed and renamed.
//!
//! `checkpoints/step-0000001234/` holds `state.safetensors` (weights, both moments, moving average, best weights) and
//! `manifest.json`, which has the counters and the file's SHA-256. The two newest are kept. If the newest is damaged,
//! it is reported, and the one before it is used.

use super::run_identity::RunIdentity;
use crate::lang::system_message;
use crate::model_folder::{
    EntryType, MANIFEST, STATE, checkpoints, f32_bytes, remove_checkpoint, rename, sync_folder, write_file,
};
use crate::params::Params;
use crate::train::training_loop::train_state::{BestEvaluation, TrainState};
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
    #[serde(rename = "stale")]
    epochs_without_improvement: u64,
    best: Option<BestRecord>,
    /// Bytes of `log.jsonl` written before this checkpoint.
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

/// A checkpoint read from disk.
#[derive(Debug)]
pub(super) struct LoadedCheckpoint {
    /// The state of the run.
    pub(crate) state: TrainState,
    /// Bytes of the log written before it.
    pub(crate) log_bytes: u64,
    /// Newer checkpoints that are damaged, each with the problem.
    pub(crate) damaged: Vec<String>,
}

/// Writes a checkpoint and removes old ones.
///
/// # Errors
/// If it cannot be written. Earlier checkpoints are then untouched.
pub(super) fn save(folder: &Path, state: &TrainState, identity: &RunIdentity, log_bytes: u64) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
    let arrays = [
        ("params", &state.params),
        ("m", &state.m),
        ("v", &state.v),
        ("average", &state.average),
        ("best_params", &state.best_params),
    ]
    .map(|(name, params)| (name, f32_bytes(params.values())));
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
        epochs_without_improvement: state.epochs_without_improvement,
        best: state.best.map(|b| BestRecord { epoch: b.epoch, score: b.score, loss: b.loss }),
        log_bytes,
        sha256: crate::checksum::hex(Sha256::digest(&tensors)),
    };
    let name = format!("step-{:010}", state.step);
    let (temporary, path) = (folder.join(format!("{name}.tmp")), folder.join(&name));
    // A leftover of a run that was killed while writing.
    remove_checkpoint(&temporary)?;
    fs::create_dir(&temporary).map_err(Error::write("creating", &temporary))?;
    let manifest = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    let written = write_file(&temporary.join(STATE), &tensors)
        .and_then(|()| write_file(&temporary.join(MANIFEST), &manifest))
        .and_then(|()| sync_folder(&temporary));
    if written.is_err() {
        // The disk may be full: a partial checkpoint is useless and takes space.
        let _ = remove_checkpoint(&temporary);
    }
    written?;
    // The same step may exist, after resuming from an earlier checkpoint.
    remove_checkpoint(&path)?;
    rename(&temporary, &path).map_err(Error::write("renaming", &temporary))?;
    sync_folder(folder)?;
    for old in checkpoints(folder).into_iter().skip(MAX_CHECKPOINTS) {
        let _ = remove_checkpoint(&old);
    }
    Ok(())
}

/// Reads the newest valid checkpoint of a run. `start` is the initial parameters, which hold the frozen weights.
/// Returns `None` if there are no checkpoints.
///
/// # Errors
/// If all are damaged, or the newest valid one belongs to other data or settings.
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
                "all checkpoints are damaged ({}); start over with --force",
                "すべてのチェックポイントが破損しています（{}）。--force で最初からやり直してください",
                damaged.join("; ")
            );
            Err(Error::Output { path: folder.to_owned(), problem })
        }
    }
}

enum ReadError {
    Damaged(String),
    /// The checkpoint belongs to another run.
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
        epochs_without_improvement: manifest.epochs_without_improvement,
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
    fn the_newest_valid_checkpoint_is_used() {
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

        // Flips one bit in the newest.
        let path = checkpoints(folder.path())[0].join("state.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let loaded = load(folder.path(), &start, &run("f")).unwrap().unwrap();
        assert_eq!((loaded.state.step, loaded.damaged.len()), (3, 1));
        assert!(loaded.damaged[0].contains("checksum"), "{:?}", loaded.damaged);

        // Truncates the manifest of the other.
        fs::write(checkpoints(folder.path())[1].join("manifest.json"), b"{").unwrap();
        assert!(
            load(folder.path(), &start, &run("f")).unwrap_err().to_string().contains("all checkpoints are damaged")
        );
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
    fn a_partially_written_checkpoint_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("step-0000000009.tmp")).unwrap();
        assert!(!has_checkpoint(folder.path()));
        let mut state = state();
        state.step = 9;
        save(folder.path(), &state, &run("a"), 0).unwrap();
        assert!(load(folder.path(), &state.params, &run("a")).unwrap().is_some());
    }
}
