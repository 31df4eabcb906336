//! `tune.jsonl`: a header that identifies the search, then one line for each finished trial.

use crate::model_folder::{EntryType, TUNE_LOG, current_path, rename, sync_folder, write_file};
use crate::train::reports::tuning_report::Trial;
use crate::train::run_folder::run_identity::RunIdentity;
use crate::{Error, Result, output, tr};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The first line.
#[derive(Serialize, Deserialize)]
struct TrialLogHeader {
    format: u32,
    #[serde(flatten)]
    identity: RunIdentity,
}

const FORMAT: u32 = 1;

/// The finished trials of a search.
pub(super) struct TrialLog {
    path: PathBuf,
    head: TrialLogHeader,
    pub(super) trials: Vec<Trial>,
}

impl TrialLog {
    /// Opens the log of a search in `folder`. On resume, it reads the finished trials from there, or from the folder
    /// `out` of the model if the search has ended.
    ///
    /// # Errors
    /// If the trials belong to another search, or cannot be read.
    pub(super) fn open(folder: &Path, out: &Path, resume: bool, identity: RunIdentity) -> Result<TrialLog> {
        let path = folder.join(TUNE_LOG);
        let head = TrialLogHeader { format: FORMAT, identity };
        let mut log = TrialLog { path, head, trials: Vec::new() };
        let places = [log.path.clone(), current_path(out, TUNE_LOG)];
        let Some(place) = places.into_iter().find(|place| resume && EntryType::at(place) == EntryType::File) else {
            return Ok(log);
        };
        let text = fs::read_to_string(&place).map_err(Error::io("reading", &place))?;
        let problem = |problem: String| Error::Output { path: place.clone(), problem };
        let damaged = |line: usize| {
            problem(tr!(
                "line {line} is not a trial as `chumoku train --tune` writes it; start over with --force",
                "{line} 行目が `chumoku train --tune` の書いた試行ではありません。--force で最初からやり直してください"
            ))
        };
        let mut lines = text.lines().zip(1..);
        let head: TrialLogHeader = lines
            .next()
            .and_then(|(line, _)| serde_json::from_slice(line.as_bytes()).ok())
            .ok_or_else(|| damaged(1))?;
        let own = &log.head.identity;
        if head.format != FORMAT || head.identity.fingerprint != own.fingerprint {
            return Err(problem(own.mismatch_message(&head.identity, &tr!("the trials were", "この試行"))));
        }
        for (line, number) in lines {
            let trial: Trial = serde_json::from_slice(line.as_bytes()).map_err(|_| damaged(number))?;
            if trial.trial != log.trials.len() as u64 {
                return Err(damaged(number));
            }
            log.trials.push(trial);
        }
        Ok(log)
    }

    /// Appends a trial and flushes it to disk.
    pub(super) fn add(&mut self, trial: Trial) -> Result<()> {
        self.trials.push(trial);
        let beside = self.path.with_extension("tmp");
        if EntryType::at(&beside) == EntryType::File {
            output::remove_file(&beside).map_err(Error::write("removing", &beside))?;
        }
        write_file(&beside, &self.bytes(self.trials.len()))?;
        rename(&beside, &self.path).map_err(Error::write("renaming", &beside))?;
        self.path.parent().map_or(Ok(()), sync_folder)
    }

    /// Returns the file content for the first `trials` trials.
    pub(super) fn bytes(&self, trials: usize) -> Vec<u8> {
        let line = |value: Result<String, _>| value.expect("trials are plain data") + "\n";
        let mut text = line(serde_json::to_string(&self.head));
        text.extend(self.trials.iter().take(trials).map(|trial| line(serde_json::to_string(trial))));
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(fingerprint: &str) -> RunIdentity {
        RunIdentity::new(fingerprint.to_owned())
    }

    fn trial(number: u64) -> Trial {
        Trial {
            trial: number,
            set: "words=2".into(),
            changed: "words=2".into(),
            log_loss: Some(0.5),
            given_up: None,
            accuracy: 0.75,
            gain: 0.0,
            standard_error: 0.0,
            kept: true,
            c: 4.0,
            seconds_ngrams: 1.5,
            seconds_network: 0.0,
            work: 0.0,
        }
    }

    #[test]
    fn trials_are_read_again_only_by_their_own_search() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, out) = (folder.path().join("inside"), folder.path());
        fs::create_dir(&inside).unwrap();
        let mut log = TrialLog::open(&inside, out, true, run("one")).unwrap();
        (0..3).for_each(|number| log.add(trial(number)).unwrap());
        let found = |resume, of: &str| TrialLog::open(&inside, out, resume, run(of)).map(|log| log.trials.len());
        assert_eq!((found(true, "one").unwrap(), found(false, "one").unwrap()), (3, 0));
        assert!(found(true, "two").unwrap_err().to_string().contains("other data, settings or seed"));
        let path = inside.join(TUNE_LOG);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"trial\":1", "\"trial\":2")).unwrap();
        assert!(found(true, "one").unwrap_err().to_string().contains("line 3"));
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert!(found(true, "one").unwrap_err().to_string().contains("line 4"));
        // After the search, the log is in the model's folder.
        fs::remove_file(&path).unwrap();
        fs::write(out.join(TUNE_LOG), log.bytes(2)).unwrap();
        assert_eq!(found(true, "one").unwrap(), 2);
    }
}
