//! The learning curve of a finished or interrupted run, read from its log.

use crate::model_folder::{EntryType, LOG, open_file};
use crate::{Error, Result, tr};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A line of a run's log about the loss: every 50th step, and each evaluation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogRecord {
    /// Steps finished.
    pub step: u64,
    /// Epochs finished.
    pub epoch: u64,
    /// Moving average of the training loss.
    pub loss: f64,
    /// Share of the training rows answered right during the epoch, with dropout, if the line is an evaluation of a task
    /// that counts them.
    pub train_accuracy: Option<f64>,
    /// The evaluation, if the line is one.
    pub evaluation: Option<LoggedEvaluation>,
}

/// An evaluation in a run's log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoggedEvaluation {
    /// The loss on the evaluated rows.
    pub loss: f64,
    /// The metrics by their keys, such as `macro_f1`, without the loss.
    pub metrics: Vec<(String, f64)>,
    /// True if the rows are held out. Without validation rows, the training rows are evaluated.
    pub is_held_out: bool,
}

/// Keys of evaluations that are losses, or follow from one.
const LOSSES: [&str; 3] = ["loss", "log_loss", "perplexity"];

impl LogRecord {
    fn parse(line: &Value) -> Option<LogRecord> {
        let number = |key: &str| line.get(key)?.as_f64();
        let record = LogRecord {
            step: line.get("step")?.as_u64()?,
            epoch: line.get("epoch")?.as_u64()?,
            // A loss before the first step of a resumed run is not known.
            loss: line.get("loss")?.as_f64().unwrap_or(f64::NAN),
            train_accuracy: number("train_accuracy"),
            evaluation: number("valid_loss").map(|loss| LoggedEvaluation {
                loss,
                metrics: line.as_object().into_iter().flatten().filter_map(metric).collect(),
                is_held_out: line.get("held_out") != Some(&Value::Bool(false)),
            }),
        };
        Some(record)
    }
}

/// Returns the metric of an entry of an evaluation, unless it is a loss.
fn metric((key, value): (&String, &Value)) -> Option<(String, f64)> {
    let key = key.strip_prefix("valid_").filter(|key| !LOSSES.contains(key))?;
    Some((key.to_owned(), value.as_f64()?))
}

/// Reads the losses and evaluations that `train` logged in a model folder, in the order of the steps.
///
/// # Errors
/// If the log cannot be read, a line is not JSON, or there is no loss.
pub fn load_learning_log(folder: &Path) -> Result<Vec<LogRecord>> {
    let path = folder.join(LOG);
    // N-gram models have no log, because they are not trained in steps.
    if EntryType::at(&path) == EntryType::Missing {
        return Err(no_loss_error(path));
    }
    let file = open_file(folder, LOG)?;
    let mut records = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(Error::io("reading", &path))?;
        let value: Value = serde_json::from_slice(line.as_bytes()).map_err(|error| Error::Model {
            path: path.clone(),
            problem: tr!(
                "line {}: not a line that `train` logs: {error}",
                "{} 行目: `train` が記録した行ではありません: {error}",
                index + 1
            ),
        })?;
        // Other lines hold recorded attention.
        records.extend(LogRecord::parse(&value));
    }
    if records.is_empty() { Err(no_loss_error(path)) } else { Ok(records) }
}

fn no_loss_error(path: PathBuf) -> Error {
    let problem = tr!(
        "no loss was logged: expected a model with a network that `chumoku train` trained; n-gram models have no steps",
        "損失が記録されていません。`chumoku train` で学習した、ネットワークのあるモデルを指定してください（n-gram モデルの学習にステップはありません）"
    );
    Error::Model { path, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_and_evaluations_are_read_and_other_lines_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join(LOG), text).unwrap();
        write(concat!(
            "{\"step\":0,\"epoch\":0,\"watched\":{}}\n{\"step\":50,\"epoch\":0,\"loss\":0.7}\n",
            "{\"step\":63,\"epoch\":1,\"loss\":0.6,\"valid_loss\":0.5,\"train_accuracy\":0.25,\"valid_accuracy\":0.75,",
            "\"valid_log_loss\":0.5,\"best\":true,\"held_out\":false}\n"
        ));
        let evaluation = LoggedEvaluation { loss: 0.5, metrics: vec![("accuracy".into(), 0.75)], is_held_out: false };
        let first = LogRecord { step: 50, epoch: 0, loss: 0.7, train_accuracy: None, evaluation: None };
        let last =
            LogRecord { step: 63, epoch: 1, loss: 0.6, train_accuracy: Some(0.25), evaluation: Some(evaluation) };
        assert_eq!(load_learning_log(folder.path()).unwrap(), [first, last]);
        for (text, expected) in [("{\"step\":1}\n", "no loss"), ("{\n", "line 1"), ("", "no loss")] {
            write(text);
            let problem = load_learning_log(folder.path()).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
        std::fs::remove_file(folder.path().join(LOG)).unwrap();
        let problem = load_learning_log(folder.path()).unwrap_err().to_string();
        assert!(problem.contains(LOG) && problem.contains("no loss"), "{problem}");
    }
}
