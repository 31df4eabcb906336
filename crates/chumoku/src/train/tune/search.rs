//! The trials of a search, and the best settings so far.

use super::TuneBudget;
use super::candidates::Candidates;
use super::early_stopping::early_stop_epoch;
use super::log::TrialLog;
use super::loss_comparison::LossComparison;
use crate::blend::Blend;
use crate::lang::wording::format_count;
use crate::lang::{Lang, lang};
use crate::model_folder::{TUNE, remove_work_folder};
use crate::models::Classifier;
use crate::parallel_batches;
use crate::train::data::training_data::TrainingData;
use crate::train::ensemble::classifier_network::ClassifierNetwork;
use crate::train::ensemble::classifier_task::ClassifierTask;
use crate::train::ensemble::ngram_folds::LogP;
use crate::train::ensemble::ngrams;
use crate::train::reports::tuning_report::{Trial, TuningReport};
use crate::train::run_folder::folder_run::run_in_folder;
use crate::train::run_folder::run_identity::RunIdentity;
use crate::train::run_folder::training::RunContext;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Plan;
use crate::train::settings::setting_overrides::SettingOverrides;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{Error, Result, tr};
use chumoku_nn::probability::log_softmax;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The best settings so far.
struct BestTrial {
    set: SettingOverrides,
    /// The trial whose folder has the network.
    network_trial: u64,
    /// The C of the n-gram model.
    c: f64,
    /// The predictions of both members. `None` if the trial belongs to an earlier run, until they are needed.
    ngrams: Option<LogP>,
    network: Option<LogP>,
}

/// A search for settings.
pub(super) struct Search<'a> {
    data: &'a TrainingData,
    options: TrainOptions,
    folder: PathBuf,
    has_network: bool,
    /// Cancellation by the caller.
    stop: &'a AtomicBool,
    /// The class weights.
    weights: Option<Vec<f32>>,
    log: TrialLog,
    /// The number of trials processed.
    done: usize,
    best: BestTrial,
}

/// The reason why a trial did not finish.
enum TrialFailure {
    /// The time limit was reached.
    OutOfTime,
    Failed(Error),
}

impl From<Error> for TrialFailure {
    fn from(error: Error) -> Self {
        TrialFailure::Failed(error)
    }
}

/// Forwards progress, but no messages or steps: each trial is reported in one line.
pub(super) fn forward_progress(event: TrainEvent<'_>, observe: &mut dyn FnMut(TrainEvent<'_>)) {
    match event {
        TrainEvent::Progress(..) => observe(event),
        TrainEvent::Evaluated { epoch, .. } => {
            observe(TrainEvent::Progress(topic_label("tune"), tr!("epoch {epoch}", "エポック {epoch}")));
        }
        _ => {}
    }
}

/// Rounds to six decimals, as in the log.
fn rounded(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

impl<'a> Search<'a> {
    /// Creates a search with its trials in a folder of `out`. With `resume`, finished trials are read from there.
    pub(super) fn new(data: &'a TrainingData, context: RunContext<'a>, has_network: bool) -> Result<Self> {
        let RunContext { options, out, stop } = context;
        let folder = out.join(TUNE);
        if !options.resume {
            remove_work_folder(&folder)?;
        }
        // Leaves out what does not change results, such as the watched text. A pretrained model counts by its weights,
        // not by its name.
        let of_results = TrainOptions {
            resume: false,
            watch: None,
            from: None,
            checkpoint_every: Duration::ZERO,
            ..options.clone()
        };
        let version = env!("CARGO_PKG_VERSION");
        let weights = options.from.as_deref().map(sha256_of_weights).transpose()?.unwrap_or_default();
        let rows = data.run_fingerprint();
        let fingerprint = format!("{version} {has_network} {of_results:?} {weights} {rows}");
        let identity = RunIdentity::new(crate::checksum::hex(Sha256::digest(fingerprint)));
        let identity = identity.with_data(&rows).with_start(&weights).with("version", version);
        let chosen = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let identity = identity
            .with("seed", options.seed)
            .with("epochs", chosen(options.epochs.map(|epochs| epochs.to_string())))
            .with("precision", options.precision.name())
            .with("settings", &options.overrides);
        let log = TrialLog::open(&folder, out, options.resume, identity)?;
        fs::create_dir_all(&folder).map_err(Error::write("creating", &folder))?;
        let weights = options.class_weights.as_ref().map(|weights| weights.for_data(data)).transpose()?;
        let best = BestTrial { set: options.overrides.clone(), network_trial: 0, c: 0.0, ngrams: None, network: None };
        let options = TrainOptions { watch: None, ..options.clone() };
        Ok(Search { data, options, folder, has_network, stop, weights, log, done: 0, best })
    }

    /// Tries settings until the limit of time or trials is reached.
    pub(super) fn run(&mut self, budget: TuneBudget, observe: &mut dyn FnMut(TrainEvent<'_>)) -> Result<()> {
        let began = Instant::now();
        let before: f64 = self.log.trials.iter().map(|trial| trial.seconds_ngrams + trial.seconds_network).sum();
        let plan = match self.has_network {
            true => Some(ClassifierNetwork::new(self.data, &self.with(&self.options.overrides, true))?.plan),
            false => None,
        };
        let given = self.options.overrides.clone();
        let mut candidates = Candidates::new(self.data, &self.options, plan.clone());
        self.report_start(budget, observe);
        loop {
            let number = self.done as u64;
            if matches!(budget, TuneBudget::Trials(most) if number >= most) {
                break;
            }
            let next = match number {
                0 => Some((given.clone(), false)),
                _ => candidates.next(&self.best.set, self.best.c),
            };
            let Some((set, is_drawn)) = next else {
                let text = tr!("there is nothing left to try", "試す設定がなくなりました");
                observe(TrainEvent::Message(topic_label("tune"), text));
                break;
            };
            let trial = match self.log.trials.get(self.done) {
                Some(trial) if trial.set != set.to_string() => return Err(self.other_search_error()),
                Some(trial) => trial.clone(),
                None => {
                    let left = match budget {
                        TuneBudget::Trials(_) => None,
                        TuneBudget::Time(time) => {
                            let spent = before + began.elapsed().as_secs_f64();
                            Some(time.as_secs_f64() - spent - self.seconds_after_search(plan.as_ref()))
                        }
                    };
                    match self.run_trial((&set, is_drawn), left.filter(|_| number > 0), observe) {
                        Ok((trial, members)) => {
                            self.log.add(trial.clone())?;
                            self.accept_trial(&trial, &set, members)?;
                            self.report_trial(&trial, observe);
                            continue;
                        }
                        Err(TrialFailure::OutOfTime) => {
                            let text = tr!(
                                "not enough time for another trial; --tune {number} gives the same result",
                                "次の試行には時間が足りません。--tune {number} で同じ結果が得られます"
                            );
                            observe(TrainEvent::Message(topic_label("tune"), text));
                            break;
                        }
                        Err(TrialFailure::Failed(error)) if error.is_interrupted() => return Err(Error::Interrupted),
                        Err(TrialFailure::Failed(error)) => return Err(error),
                    }
                }
            };
            self.accept_trial(&trial, &set, None)?;
            self.report_trial(&trial, observe);
        }
        Ok(())
    }

    /// Reports the start of the search.
    fn report_start(&self, budget: TuneBudget, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        let (rows, known) = (self.data.valid.len(), self.log.trials.len());
        let how_long = match budget {
            TuneBudget::Trials(most) => {
                let trials = format_count(most, "trial");
                tr!("{trials}", "試行 {most} 回")
            }
            TuneBudget::Time(time) => tr!("for {} s", "{} 秒間", time.as_secs()),
        };
        let text = tr!(
            "{how_long}, scored by the log-loss of {rows} validation rows; settings are kept if they gain more than \
             the standard error (twice that for random settings)",
            "{how_long}。検証データ {rows} 行の対数損失で比べ、標準誤差（無作為な設定ではその 2 倍）より大きく改善したものを採用します"
        );
        observe(TrainEvent::Message(topic_label("tune"), text));
        if known > 0 {
            let trials = format_count(known as u64, "trial");
            let text = tr!("{trials} already finished", "{known} 回の試行は済んでいます");
            observe(TrainEvent::Message(topic_label("note"), text));
        }
    }

    /// Reports a trial.
    fn report_trial(&self, trial: &Trial, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        const ROOM: usize = 68;
        let Trial { trial: number, log_loss, given_up, accuracy, gain, standard_error, kept, changed, .. } = trial;
        if *number == 0 {
            let heads = tr!("  n  log-loss accuracy     gain ±error", "  n  対数損失   正解率     改善 ±標準誤差");
            observe(TrainEvent::Message(topic_label("trial"), heads));
        }
        let mut text = match log_loss {
            Some(loss) => format!("{number:>3} {loss:>9.4} {:>6.1} %", 100.0 * accuracy),
            None if given_up.is_some() => {
                let epoch = given_up.unwrap_or_default();
                let text =
                    tr!("stopped after epoch {epoch}: too far behind", "エポック {epoch} で打ち切り（差が大きいため）");
                format!("{number:>3}  {text}")
            }
            None => format!(
                "{number:>3}  {}",
                tr!(
                    "failed: the settings do not fit each other, or values grew too large",
                    "失敗: 設定の組み合わせが合わないか、数値が大きくなりすぎました"
                )
            ),
        };
        if *number > 0 {
            if log_loss.is_some() {
                let kept = if *kept { tr!("kept", "採用") } else { "    ".into() };
                text += &format!("  {gain:+.4} ±{standard_error:.4}  {kept}");
            }
            let is_short = lang() == Lang::Ja || text.chars().count() + 2 + changed.len() <= ROOM;
            text += if is_short { "  " } else { "\n               " };
            text += changed;
        }
        observe(TrainEvent::Message(topic_label("trial"), text));
    }

    fn other_search_error(&self) -> Error {
        Error::Output {
            path: self.folder.clone(),
            problem: tr!(
                "the trials in the folder belong to another search; start over with --force",
                "別の探索の試行が入っています。--force で最初からやり直してください"
            ),
        }
    }

    /// Returns the options with these settings.
    fn with(&self, set: &SettingOverrides, resume: bool) -> TrainOptions {
        TrainOptions { overrides: set.clone(), resume, folds: None, worker_group: None, ..self.options.clone() }
    }

    /// Returns the options with the best settings.
    pub(super) fn options(&self) -> TrainOptions {
        self.with(&self.best.set, true)
    }

    /// Returns the options with the initial settings.
    pub(super) fn first_options(&self) -> TrainOptions {
        self.with(&self.options.overrides, true)
    }

    /// Returns `true` if no settings were better than the initial ones.
    pub(super) fn is_unchanged(&self) -> bool {
        self.best.set == self.options.overrides
    }

    /// Returns `true` if fewer trials were requested than are finished.
    pub(super) fn has_unused_trials(&self) -> bool {
        self.done < self.log.trials.len()
    }

    /// Returns the folder of a trial's run, which is created if it does not exist.
    pub(super) fn folder_of(&self, trial: u64) -> Result<PathBuf> {
        let folder = self.folder.join(format!("trial-{trial:04}"));
        fs::create_dir_all(&folder).map_err(Error::write("creating", &folder))?;
        Ok(folder)
    }

    /// Returns the folder of the run of the best network.
    pub(super) fn folder_of_network(&self) -> PathBuf {
        self.folder.join(format!("trial-{:04}", self.best.network_trial))
    }

    /// Returns the report of the search. `defaults` are the answers with the initial settings, if others are better.
    pub(super) fn tuning_report(&self, defaults: Option<super::ScoredAnswers>) -> TuningReport {
        TuningReport {
            trials: self.log.trials[..self.done].to_vec(),
            set: self.best.set.to_string(),
            rows: self.data.valid.len(),
            defaults,
            log: self.log.bytes(self.done),
        }
    }

    /// Estimates the seconds needed after the search. The n-gram model is trained twice for each of the two models that
    /// read the test rows.
    fn seconds_after_search(&self, plan: Option<&Plan>) -> f64 {
        let Some(first) = self.log.trials.first() else { return 0.0 };
        let epochs = plan.map_or(1, |plan| plan.settings.epochs.max(1)) as f64;
        4.0 * first.seconds_ngrams + first.seconds_network / epochs
    }

    /// Processes a finished trial. `members` are the predictions of both members, if known.
    fn accept_trial(&mut self, trial: &Trial, set: &SettingOverrides, members: Option<[LogP; 2]>) -> Result<()> {
        self.done += 1;
        let changed = trial.trial == 0 || set.for_member(false) != self.best.set.for_member(false);
        let old = self.best.network_trial;
        if trial.kept {
            let network_trial = if changed { trial.trial } else { old };
            let [ngrams, network] = members.map_or([None, None], |members| members.map(Some));
            self.best = BestTrial { set: set.clone(), network_trial, c: trial.c, ngrams, network };
        }
        // Keeps the runs of the first and of the best trial.
        let useless = if trial.kept { old } else { trial.trial };
        if changed && useless > 0 && useless != self.best.network_trial {
            remove_work_folder(&self.folder.join(format!("trial-{useless:04}")))?;
        }
        Ok(())
    }

    /// Runs a trial within the time `left`. `is_drawn` is true for random settings.
    fn run_trial(
        &mut self,
        (set, is_drawn): (&SettingOverrides, bool),
        left: Option<f64>,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<(Trial, Option<[LogP; 2]>), TrialFailure> {
        let trials = &self.log.trials;
        let number = trials.len() as u64;
        let is_first = number == 0;
        let [other_ngrams, other_network] =
            [true, false].map(|member| is_first || set.for_member(member) != self.best.set.for_member(member));
        let other_network = other_network && self.has_network;
        let known: Vec<f64> =
            trials.iter().map(|trial| trial.seconds_ngrams).filter(|&seconds| seconds > 0.0).collect();
        let mut expected = if other_ngrams { known.iter().sum::<f64>() / known.len().max(1) as f64 } else { 0.0 };
        let (prepared, fits) = match other_network.then(|| self.prepare(set)) {
            Some(Ok(prepared)) => (Some(prepared), true),
            // Valid settings may not fit each other, such as heads and width.
            Some(Err(Error::Setting(_) | Error::Nn(_))) if !is_first => (None, false),
            Some(Err(error)) => return Err(error.into()),
            None => (None, true),
        };
        let work = prepared.as_ref().map_or(0.0, |(network, _)| work_of(network));
        let [seconds, done] = trials
            .iter()
            .fold([0.0; 2], |sums: [f64; 2], trial| [sums[0] + trial.seconds_network, sums[1] + trial.work]);
        expected += work * if done > 0.0 { seconds / done } else { 0.0 };
        if left.is_some_and(|left| expected > left) {
            return Err(TrialFailure::OutOfTime);
        }
        self.load_best_predictions(observe)?;

        let limit = left.map(|left| Instant::now() + Duration::from_secs_f64(left.max(0.0)));
        let is_late = || limit.is_some_and(|limit| Instant::now() >= limit);
        let halt = AtomicBool::new(false);
        let stop = self.stop;
        let changed = set.differences_from(&self.best.set).to_string();
        let mut observe_trial = |event: TrainEvent<'_>| {
            if stop.load(Ordering::Relaxed) || is_late() {
                halt.store(true, Ordering::Relaxed);
            }
            let detail = match event {
                TrainEvent::Progress(_, text) => text,
                TrainEvent::Evaluated { epoch, .. } => tr!("epoch {epoch}", "エポック {epoch}"),
                _ => return,
            };
            let text = tr!("{number}: {changed}  {detail}", "{number}: {changed}  {detail}");
            observe(TrainEvent::Progress(topic_label("trial"), text));
        };
        // A stopped trial is out of time, unless the caller stopped it.
        let ended = |error: Error| match error.is_interrupted() && !stop.load(Ordering::Relaxed) {
            true => TrialFailure::OutOfTime,
            false => TrialFailure::Failed(error),
        };

        let mut trial = Trial {
            trial: number,
            set: set.to_string(),
            changed: changed.clone(),
            log_loss: None,
            given_up: None,
            accuracy: 0.0,
            gain: 0.0,
            standard_error: 0.0,
            kept: is_first,
            c: self.best.c,
            seconds_ngrams: 0.0,
            seconds_network: 0.0,
            work,
        };
        if !fits {
            return Ok((trial, None));
        }
        let start = Instant::now();
        let ngrams = match other_ngrams {
            true => {
                let (found, c) = self.ngrams(set, &halt, &mut observe_trial).map_err(ended)?;
                (trial.c, trial.seconds_ngrams) = (c, rounded(start.elapsed().as_secs_f64()));
                found
            }
            false => self.best.ngrams.clone().unwrap_or_default(),
        };
        let start = Instant::now();
        let network = match &prepared {
            Some(prepared) => {
                let folder = self.folder_of(number)?;
                let rival = (!is_first).then(|| self.folder_of_network());
                let given_up =
                    || rival.as_ref().and_then(|rival| early_stop_epoch(&folder, rival, self.data.valid.len()));
                let mut raced = |event: TrainEvent<'_>| {
                    let is_evaluated = matches!(event, TrainEvent::Evaluated { .. });
                    observe_trial(event);
                    if is_evaluated && given_up().is_some() {
                        halt.store(true, Ordering::Relaxed);
                    }
                };
                let found = match given_up() {
                    Some(_) => Err(Error::Interrupted),
                    None => self.network(prepared, set, &folder, &halt, &mut raced),
                };
                trial.seconds_network = rounded(start.elapsed().as_secs_f64());
                match found {
                    // Too large steps make a trial fail, not the search.
                    Err(Error::NotFinite(_)) if !is_first => return Ok((trial, None)),
                    Err(error) if error.is_interrupted() && given_up().is_some() => {
                        trial.given_up = given_up().map(|epoch| epoch as u64);
                        return Ok((trial, None));
                    }
                    Err(error) => {
                        let ending = ended(error);
                        if matches!(ending, TrialFailure::OutOfTime) {
                            remove_work_folder(&folder)?;
                        }
                        return Err(ending);
                    }
                    Ok(found) => found,
                }
            }
            None => self.best.network.clone().unwrap_or_default(),
        };

        let (losses, accuracy) = self.losses(&network, &ngrams);
        let log_loss = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        let comparison = match is_first {
            true => LossComparison { gain: 0.0, standard_error: 0.0 },
            false => {
                let empty = LogP::new();
                let [network, ngrams] =
                    [&self.best.network, &self.best.ngrams].map(|member| member.as_ref().unwrap_or(&empty));
                LossComparison::new(&self.losses(network, ngrams).0, &losses)
            }
        };
        trial.log_loss = Some(rounded(log_loss));
        trial.accuracy = rounded(accuracy);
        (trial.gain, trial.standard_error) = (rounded(comparison.gain), rounded(comparison.standard_error));
        trial.kept = is_first || comparison.is_clear(is_drawn);
        Ok((trial, Some([ngrams, network])))
    }

    /// Loads the predictions of the best settings.
    fn load_best_predictions(&mut self, observe: &mut dyn FnMut(TrainEvent<'_>)) -> Result<()> {
        if self.done == 0 {
            return Ok(());
        }
        let mut quiet = |event: TrainEvent<'_>| forward_progress(event, observe);
        if self.best.ngrams.is_none() {
            self.best.ngrams = Some(self.ngrams(&self.best.set, self.stop, &mut quiet)?.0);
        }
        if self.best.network.is_none() && self.has_network {
            // The checkpoint of the trial has all steps.
            let prepared = self.prepare(&self.best.set)?;
            let folder = self.folder_of(self.best.network_trial)?;
            let found = self.network(&prepared, &self.best.set, &folder, self.stop, &mut quiet)?;
            self.best.network = Some(found);
        }
        Ok(())
    }

    /// Fits the n-gram model with these settings. Returns its predictions and its C.
    fn ngrams(
        &self,
        set: &SettingOverrides,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<(LogP, f64)> {
        let settings = (&set.ngram_config(self.data), self.weights.as_deref());
        let chosen = ngrams::train_on_rows(self.data, settings, stop, observe)?.0;
        let logits = chosen.logits_batch(&self.data.valid.texts());
        let c = chosen.report().map_or(0.0, |report| f64::from(report.c));
        Ok((logits.chunks_exact(self.data.labels.len()).map(log_softmax).collect(), c))
    }

    fn prepare(&self, set: &SettingOverrides) -> Result<(ClassifierNetwork, Classifier)> {
        let network = ClassifierNetwork::new(self.data, &self.with(set, true))?;
        let model = Classifier::new(network.plan.model.clone())?;
        Ok((network, model))
    }

    /// Trains or resumes the network with these settings in a folder. Returns its predictions.
    fn network(
        &self,
        (network, model): &(ClassifierNetwork, Classifier),
        set: &SettingOverrides,
        out: &Path,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(TrainEvent<'_>),
    ) -> Result<LogP> {
        let task = ClassifierTask::new(self.data, network, model)?;
        let context = RunContext { options: &self.with(set, true), out, stop };
        let ended = run_in_folder(&task, context, None, observe)?;
        if ended.interrupted {
            return Err(Error::Interrupted);
        }
        let template = parallel_batches::InputTemplate {
            special_tokens: network.tokenizer.special_tokens(),
            max_tokens: network.plan.max_tokens(),
        };
        let rows = network.tokenizer.encode_all(&self.data.valid.texts())?;
        let logits = parallel_batches::logits(model, &ended.params().unfreeze(), template, &rows)?;
        Ok(logits.rows().into_iter().map(|row| log_softmax(&row.to_vec())).collect())
    }

    /// Returns the weighted loss of each validation row, and the accuracy. Predictions are those of both members, or of
    /// the n-grams alone.
    fn losses(&self, network: &[Vec<f32>], ngrams: &[Vec<f32>]) -> (Vec<f64>, f64) {
        let labels = &self.data.valid.labels;
        let (first, second) = if self.has_network { (network, Some(ngrams)) } else { (ngrams, None) };
        let weights = self.data.valid.row_weights(self.weights.as_deref());
        let blend = Blend::fit(first, second.unwrap_or_default(), labels, weights.as_deref());
        let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
        let all: f64 = (0..labels.len()).map(weight).sum();
        let (mut losses, mut right) = (Vec::new(), 0);
        for (row, &label) in labels.iter().enumerate() {
            let p = blend.probabilities(&first[row], second.map(|member| &member[row][..]));
            let loss = -f64::from(p[label as usize].max(f32::MIN_POSITIVE)).ln();
            losses.push(loss * weight(row) * labels.len() as f64 / all.max(f64::MIN_POSITIVE));
            right += usize::from(crate::scoring::argmax(&p) == label);
        }
        (losses, right as f64 / labels.len().max(1) as f64)
    }
}

/// The SHA-256 of the weight files in a folder.
fn sha256_of_weights(folder: &Path) -> Result<String> {
    let reading = || Error::io("reading", folder);
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(reading())?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    paths.sort();
    let mut hash = Sha256::new();
    for path in paths {
        let mut file = BufReader::new(fs::File::open(&path).map_err(Error::io("reading", &path))?);
        loop {
            let read = file.fill_buf().map_err(Error::io("reading", &path))?;
            if read.is_empty() {
                break;
            }
            hash.update(read);
            let n = read.len();
            file.consume(n);
        }
    }
    Ok(crate::checksum::hex(hash.finalize()))
}

/// Estimates the multiply–adds of all epochs of a network.
fn work_of(network: &ClassifierNetwork) -> f64 {
    let most = network.plan.max_tokens();
    let of_row = |row: &Vec<u32>| network.plan.model.multiply_adds(1.0 + row.len().min(most) as f64);
    network.plan.settings.epochs as f64 * network.rows.iter().map(of_row).sum::<f64>()
}
