//! The search for settings: trials within a budget, scored on the validation rows alone.
//!
//! The first trial uses the given settings. Each later trial changes the best settings so far ([`candidates`]). It
//! replaces them only if the log-loss on the validation rows is significantly lower ([`loss_comparison`]). Trials score
//! the whole ensemble. A change of the n-gram model alone reuses the network of the best trial, so such a trial takes
//! seconds. The clock only decides the number of trials: the same number of trials finds the same settings.
//!
//! Finally, a model with the best settings is trained as by [`train`](crate::train::train), from the checkpoint of its
//! trial. The test rows are read only now, by this model and by that of the first trial.
//!
//! # Files
//!
//! - `candidates`: settings to try, in order
//! - `early_stopping`: early end of hopeless trials
//! - `log`: `tune.jsonl`
//! - `loss_comparison`: significance of an improvement
//! - `search`: trials, time, resuming

mod candidates;
mod early_stopping;
mod log;
mod loss_comparison;
mod search;

use crate::model_folder::{CHECKPOINTS, EntryType, LOG, TUNE, remove_checkpoints, remove_work_folder, rename};
use crate::output::WorkFolder;
use crate::scoring::Scores;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::ngrams::NgramClassifier;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::ngrams;
use crate::train::reports::card::reported_rows;
use crate::train::reports::tuning_report::TuningReport;
use crate::train::run_folder::training::{RunContext, TrainOutcome, Training};
use crate::train::settings::options::TrainOptions;
use crate::train::tasks::classify;
use crate::train::training_loop::train_event::TrainEvent;
use crate::{Error, ModelKind, Result, tr};
use search::Search;
use std::path::Path;
use std::time::Duration;

/// The limit of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuneBudget {
    /// A number of trials, including the first one with the given settings.
    Trials(u64),
    /// A time limit for everything, including training.
    Time(Duration),
}

/// Scores on the reported rows, and whether each answer is correct.
type ScoredAnswers = (Scores, Vec<bool>);

/// Searches for settings, then trains a classifier with them as [`train`](crate::train::train) does.
///
/// # Errors
/// Those of `train`. [`Error::Interrupted`] if interrupted: finished trials are kept, and `resume` continues from them.
pub fn tune(
    data: &TrainingData,
    budget: TuneBudget,
    mut training: Training<'_>,
) -> Result<TrainOutcome<TextClassifier, Scores>> {
    data.check_weights()?;
    training.prepare(ModelKind::Classifier)?;
    check_tune(data, &training.options)?;
    let (out, stop) = (training.out, training.stop);
    let folder = out.join(TUNE);
    let mut search = Search::new(data, RunContext { options: &training.options, out, stop }, true)?;
    search.run(budget, &mut *training.observe)?;
    let options = search.options();
    let tuned = match search.is_unchanged() {
        true => None,
        false => {
            let first = search.first_options();
            let mut quiet = |event: TrainEvent<'_>| search::forward_progress(event, &mut *training.observe);
            let folder = search.folder_of(0)?;
            let model =
                classify::train_predictor(data, RunContext { options: &first, out: &folder, stop }, &mut quiet)?;
            let (rows, _) = reported_rows(data);
            let scored = model.scores(rows, first.seed)?;
            Some((scored.ensemble, scored.confidences.into_iter().map(|row| row.1).collect()))
        }
    };
    let tuned = search.tuning_report(tuned);
    // The steps of the network are finished in the folder of its trial, so resuming there ends at once.
    if search.has_unused_trials() {
        // The checkpoint there belongs to a later trial.
        remove_checkpoints(&out.join(CHECKPOINTS))?;
    }
    move_run(&search.folder_of_network(), out)?;
    training.options = options;
    let mut observe = std::mem::replace(&mut training.observe, Box::new(|_| {}));
    training.observe = Box::new(move |event: TrainEvent<'_>| search::forward_progress(event, &mut *observe));
    let outcome = classify::train_tuned(data, training, Some(tuned))?;
    if !outcome.interrupted {
        remove_work_folder(&folder)?;
    }
    Ok(outcome)
}

/// Searches for settings, then trains an n-gram classifier with them as
/// [`train_ngram_classifier`](crate::train::train_ngram_classifier) does.
///
/// # Errors
/// The same as for [`tune`].
pub fn tune_ngrams(
    data: &TrainingData,
    budget: TuneBudget,
    mut training: Training<'_>,
) -> Result<TrainOutcome<NgramClassifier, Scores>> {
    data.check_weights()?;
    training.prepare(ModelKind::Ngrams)?;
    check_tune(data, &training.options)?;
    let (out, stop) = (training.out, training.stop);
    let folder = out.join(TUNE);
    let mut search = Search::new(data, RunContext { options: &training.options, out, stop }, false)?;
    search.run(budget, &mut *training.observe)?;
    let options = search.options();
    let first: Option<ScoredAnswers> = match search.is_unchanged() {
        true => None,
        false => {
            let place = WorkFolder::create(out).map_err(Error::write("creating a folder in", out))?;
            let mut again = Training::new(place.path());
            (again.options, again.stop) = (search.first_options(), stop);
            let outcome = ngrams::train_ngram_classifier(data, again)?;
            let (rows, _) = reported_rows(data);
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

/// Checks that a search is possible.
///
/// # Errors
/// If there are no validation rows, or an option cannot be combined with a search.
pub fn check_tune(data: &TrainingData, options: &TrainOptions) -> Result<()> {
    let refused = |problem: String| Err(Error::Setting(problem));
    if data.valid.is_empty() {
        return refused(tr!(
            "--tune: expected validation rows to choose settings by, found none; give a file with --valid, or more \
             rows",
            "--tune: 設定を選ぶための検証データがありません。--valid でファイルを指定するか、行を増やしてください"
        ));
    }
    if options.watch.is_some() {
        return refused(tr!(
            "--tune: cannot be combined with --watch; tune first, then use --watch with the settings found, given \
             with --settings",
            "--tune: --watch とは一緒に使えません。先にチューニングし、見つかった設定を --settings で指定して記録してください"
        ));
    }
    if options.folds.is_some() {
        return refused(tr!(
            "--tune: cannot be combined with --folds; tune first, then use --folds with the settings found, given \
             with --settings",
            "--tune: --folds とは一緒に使えません。先にチューニングし、見つかった設定を --settings で --folds に渡してください"
        ));
    }
    Ok(())
}

/// Moves the checkpoints and the log of a trial to the model's folder.
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
