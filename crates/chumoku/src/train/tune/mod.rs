//! Settings by trial: sets of them are tried within a time, and judged by the validation rows alone.
//!
//! The first trial is the settings as they stand. Each later one changes the best so far ([`candidates`]) and takes its place
//! only if the log-loss of the validation rows is clearly smaller ([`choice`]). What is judged is always the whole predictor:
//! where only the n-gram model changes, the network that is known already answers beside it, so such a trial takes seconds.
//! A clock decides how many trials there are, and nothing else: the same number of trials finds the same settings.
//!
//! At the end the settings taken are trained as [`super::train`] trains them, from the checkpoint of their trial, and the test
//! rows are read for the first time: by that model, and by that of the first trial.
//!
//! # Files
//!
//! - `candidates`: settings to try, in order
//! - `choice`: when settings are better
//! - `log`: `tune.jsonl`
//! - `race`: early end of hopeless trials
//! - `search`: trials, time, resuming

mod candidates;
mod early_stopping;
mod log;
mod loss_comparison;
mod search;

use super::classify::{self, ClassifierOutcome};
use super::ngrams::{self, NgramOutcome};
use super::tuning_report::TuningReport;
use super::{TrainOptions, Training, TrainingData};
use crate::model_folder::{CHECKPOINTS, EntryType, LOG, TUNE, remove_checkpoints, remove_work_folder, rename};
use crate::output::WorkFolder;
use crate::scoring::Scores;
use crate::{Error, ModelKind, Result, tr};
use search::Search;
use std::path::Path;
use std::time::Duration;

/// How long settings are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuneBudget {
    /// Trials, the first being the settings as they stand.
    Trials(u64),
    /// Time for everything, training included, that begins with the search.
    Time(Duration),
}

/// Whether the answers on the rows that are reported on are right, with their scores.
type ScoredAnswers = (Scores, Vec<bool>);

/// [`super::train`] with settings that are searched for first.
///
/// # Errors
/// What `train` may end with; [`Error::Interrupted`] when stopped: finished trials are kept, and `resume` goes on from them.
pub fn tune(data: &TrainingData, budget: TuneBudget, mut training: Training<'_>) -> Result<ClassifierOutcome> {
    training.begin(ModelKind::Classifier)?;
    check_tune(data, &training.options)?;
    let (out, stop) = (training.out, training.stop);
    let folder = out.join(TUNE);
    let mut search = Search::new(data, &training.options, (out, stop), true)?;
    search.run(budget, &mut *training.observe)?;
    let options = search.options();
    let tuned = match search.is_unchanged() {
        true => None,
        false => {
            let first = search.first_options();
            let mut quiet = |event: super::TrainEvent<'_>| search::forward_progress(event, &mut *training.observe);
            let folder = search.folder_of(0)?;
            let model = classify::train_predictor(data, (&first, &folder, stop), &mut quiet)?;
            let (rows, _) = super::card::reported_rows(data);
            let scored = model.scores(rows, first.seed)?;
            Some((scored.ensemble, scored.confidences.into_iter().map(|row| row.1).collect()))
        }
    };
    let tuned = search.tuning_report(tuned);
    // The network's run of steps is over in the folder of its trial: it goes on from there, and ends at once.
    if search.has_unused_trials() {
        // What stands there is the network of a trial further on.
        remove_checkpoints(&out.join(CHECKPOINTS))?;
    }
    move_run(&search.folder_of_network(), out)?;
    training.options = options;
    let mut told = std::mem::replace(&mut training.observe, Box::new(|_| {}));
    training.observe = Box::new(move |event: super::TrainEvent<'_>| search::forward_progress(event, &mut *told));
    let outcome = classify::train_tuned(data, training, Some(tuned))?;
    if !outcome.interrupted {
        remove_work_folder(&folder)?;
    }
    Ok(outcome)
}

/// [`super::train_ngram_classifier`] with settings that are searched for first.
///
/// # Errors
/// As [`tune`].
pub fn tune_ngrams(data: &TrainingData, budget: TuneBudget, mut training: Training<'_>) -> Result<NgramOutcome> {
    training.begin(ModelKind::Ngrams)?;
    check_tune(data, &training.options)?;
    let (out, stop) = (training.out, training.stop);
    let folder = out.join(TUNE);
    let mut search = Search::new(data, &training.options, (out, stop), false)?;
    search.run(budget, &mut *training.observe)?;
    let options = search.options();
    let first: Option<ScoredAnswers> = match search.is_unchanged() {
        true => None,
        false => {
            let place = WorkFolder::create(out).map_err(Error::write("creating a folder in", out))?;
            let mut again = Training::new(place.path());
            (again.options, again.stop) = (search.first_options(), stop);
            let outcome = ngrams::train_ngram_classifier(data, again)?;
            let (rows, _) = super::card::reported_rows(data);
            let predictions = outcome.model.predict(&rows.texts())?;
            let right =
                predictions.iter().zip(&rows.labels).map(|(p, &label)| p.confidence_and_correctness(label).1).collect();
            Some((outcome.test, right))
        }
    };
    let tuned: TuningReport = search.tuning_report(first);
    training.options = options;
    let outcome = ngrams::train_tuned(data, training, Some(tuned))?;
    remove_work_folder(&folder)?;
    Ok(outcome)
}

/// Refuses what settings cannot be searched for with.
///
/// # Errors
/// If there are no validation rows, or something is asked for that the search has no place for.
pub fn check_tune(data: &TrainingData, options: &TrainOptions) -> Result<()> {
    let refused = |problem: String| Err(Error::Setting(problem));
    if data.valid.is_empty() {
        return refused(tr!(
            "--tune: there are no validation rows to choose settings by; give a file of them with --valid, or more rows",
            "--tune: 設定を選ぶための検証データがありません。--valid でファイルを指定するか、行を増やしてください"
        ));
    }
    if options.watch.is_some() {
        return refused(tr!(
            "--tune: not together with --watch; tune first, then watch the settings found, given with --settings",
            "--tune: --watch とは一緒に使えません。先にチューニングし、見つかった設定を --settings で指定して記録してください"
        ));
    }
    if options.folds.is_some() {
        return refused(tr!(
            "--tune: not together with --folds; tune first, then give the settings found to --folds with --settings",
            "--tune: --folds とは一緒に使えません。先にチューニングし、見つかった設定を --settings で --folds に渡してください"
        ));
    }
    Ok(())
}

/// Moves the checkpoints and the log of a trial's run to the model's folder.
fn move_run(trial: &Path, out: &Path) -> Result<()> {
    let [from, to] = [trial, out].map(|folder| folder.join(CHECKPOINTS));
    if EntryType::at(&from) == EntryType::Folder {
        remove_checkpoints(&to)?;
        rename(&from, &to).map_err(Error::write("renaming", &from))?;
    }
    let [from, to] = [trial, out].map(|folder| folder.join(LOG));
    if EntryType::at(&from) == EntryType::File {
        rename(&from, &to).map_err(Error::write("renaming", &from))?;
    }
    Ok(())
}
