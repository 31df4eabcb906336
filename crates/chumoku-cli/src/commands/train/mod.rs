//! Implements `chumoku train`: from a file to a model folder.
//!
//! # Files
//!
//! - `autoencode`: autoencoders
//! - `classify`: one class
//! - `continued`: continued training
//! - `hierarchy`: classes in a tree
//! - `labels`: several labels
//! - `language`: language models
//! - `masked`: pretraining
//! - `score`: numbers
//! - `tag`: taggers
//! - `translate`: translators
//! - `tune`: `--tune` and `--settings`

pub(super) mod autoencode;
pub(super) mod classify;
mod continued;
mod hierarchy;
pub(super) mod labels;
pub(super) mod language;
mod masked;
pub(super) mod score;
pub(super) mod tag;
pub(super) mod translate;
mod tune;

use crate::args::{Architecture, BuiltinData, TaskName, TokenUnit, TrainArgs, file_flag_error};
use crate::data::{pairs, read_options, report_sizes};
use crate::output::OutputPath;
use crate::progress::{TrainProgress, format_duration, print_status};
use crate::report::training::last_epoch_note;
use crate::shell::shell_quoted;
use crate::{ExitCode, UsageError, threads};
use chumoku::data::{
    Append, DataFiles, FileLabels, ReadOptions, TrainingTask, describe_file_differences, describe_variants,
    detect_task, label_variants,
};
use chumoku::film::WatchedText;
use chumoku::output::check_folder_writable;
use chumoku::signals::{Shutdown, ShutdownSignals};
use chumoku::train::{
    BaseModel, DataSource, Freeze, OutputFolder, TrainEvent, TrainOptions, TrainOutcome, Training, TrainingData,
    network_name,
};
use chumoku::{ModelKind, NgramClassifier, TextClassifier, has_checkpoints, tr};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Exit code after Ctrl-C.
const EXIT_INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    let threads = threads::start_pool(args.threads)?;
    let args = &mut args.clone();
    for data in [&mut args.data, &mut args.valid, &mut args.test].into_iter().flatten().chain(&mut args.more) {
        args.reading.buffer_pipe(data)?;
    }
    if let Some(out) = args.out.as_ref().map(OutputPath::as_path) {
        OutputFolder::check(out, args.resume, args.force)?;
    }
    check_folder_writable(args.out.as_ref().map_or(Path::new("."), OutputPath::as_path))?;
    args.reading.feature_columns.clone_from(&args.columns);
    let known = continued::base_model(args)?;
    let args = &*args;
    let (known, own) = known.map_or((None, None), |(known, task)| (Some(known), Some(task)));
    let task = choose_task(args, own)?;
    if args.data.is_none() && matches!(task, TaskName::Classify | TaskName::Translate | TaskName::Autoencode) {
        check_no_file(args)?;
    }
    refuse_if!(
        args.bottleneck.is_some() && task != TaskName::Autoencode,
        "--bottleneck: only for autoencoders; leave it out, or give --task autoencode",
        "--bottleneck: オートエンコーダーだけで使えます。指定を外すか、--task autoencode を指定してください"
    );
    refuse_if!(
        args.tokens == Some(TokenUnit::Words) && matches!(task, TaskName::Translate | TaskName::Autoencode),
        "--tokens words: translators and autoencoders cannot be trained on whole words: their texts could not \
             contain words outside the vocabulary. Expected subwords or characters",
        "--tokens words: 翻訳モデルとオートエンコーダーは単語のままでは学習できません。語彙にない単語は書けないためです。subwords か \
             characters を指定してください"
    );
    let predicts_labels_or_number = matches!(task, TaskName::Labels | TaskName::Score);
    if !(predicts_labels_or_number || task == TaskName::Classify) && args.architecture() != Architecture::Transformer {
        let name = args.architecture().to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        refuse!(
            "--model {name}: n-gram models and recurrent networks can only predict classes, labels or numbers; leave it out, or \
             give --task classify, --task labels or --task score",
            "--model {name}: n-gram だけのモデルと再帰型ネットワークは、クラス、複数のラベル、数値の予測だけで選べます。指定を外すか、\
             --task classify、--task labels、--task score のどれかを指定してください"
        );
    }
    refuse_if!(
        !args.unlabelled.is_empty() && (task != TaskName::Classify || args.architecture() != Architecture::Transformer),
        "--unlabelled: only a classifier with a transformer is pretrained first; to pretrain alone, give the texts \
             as DATA with --task mlm",
        "--unlabelled: 先に事前学習できるのはトランスフォーマーの分類器だけです。事前学習だけを行うには、そのテキストを\
             データとして --task mlm を指定してください"
    );
    let can_start = (predicts_labels_or_number || matches!(task, TaskName::Classify | TaskName::Tag | TaskName::Lm))
        && args.architecture() == Architecture::Transformer;
    refuse_if!(
        args.from.is_some() && known.is_none() && !can_start,
        "--from: only classifiers with a transformer, taggers and language models can start from a pretrained model; \
             leave it out, or give --task classify, --task tag or --task lm and no other --model",
        "--from: 事前学習済みのモデルから始められるのは、トランスフォーマーの分類器、単語にラベルを付けるモデル、言語モデルだけです。\
             指定を外すか、--task classify、--task tag、--task lm のどれかを指定し、ほかの --model は外してください"
    );
    refuse_if!(
        args.from.is_some() && args.tokens.is_some(),
        "--tokens: --from uses the tokens of the pretrained model; leave it out",
        "--tokens: --from を指定すると、トークンは事前学習済みのモデルのものになります。指定を外してください"
    );
    refuse_if!(
        args.multi_label.is_given() && task != TaskName::Labels,
        "--labels, --separator: only for multi-label data; leave them out, or give --task labels",
        "--labels、--separator: テキストに複数のラベルを付けるときだけ使えます。指定を外すか、--task labels を指定してください"
    );
    refuse_if!(
        args.class_weights.is_some() && task != TaskName::Classify,
        "--class-weights: only for data with one class per text; leave it out, or give --task classify",
        "--class-weights: 1 テキスト 1 クラスのときだけ使えます。指定を外すか、--task classify を指定してください"
    );
    refuse_if!(
        args.optimize.is_some() && task != TaskName::Classify,
        "--optimize: only for data with one class per text; leave it out, or give --task classify",
        "--optimize: 1 テキスト 1 クラスのときだけ使えます。指定を外すか、--task classify を指定してください"
    );
    refuse_if!(
        args.hierarchy.is_some() && !matches!(task, TaskName::Classify | TaskName::Labels),
        "--hierarchy: only for classes and labels; leave it out, or give --task classify or --task labels",
        "--hierarchy: クラスかラベルの予測だけで使えます。指定を外すか、--task classify か --task labels を指定してください"
    );
    refuse_if!(
        !args.columns.is_empty() && (args.data.is_none() || !(predicts_labels_or_number || task == TaskName::Classify)),
        "--columns: only to predict classes, labels or numbers of a file's rows; leave it out",
        "--columns: ファイルの行のクラス、複数のラベル、数値を予測するときだけ使えます。指定を外してください"
    );
    refuse_if!(
        args.folds.is_some() && !(predicts_labels_or_number || task == TaskName::Classify),
        "--folds: only to predict classes, labels or numbers; leave it out",
        "--folds: クラス、複数のラベル、数値の予測だけで使えます。指定を外してください"
    );
    tune::check(args, task)?;
    match task {
        TaskName::Classify => classify::run(args, known.as_ref(), threads),
        TaskName::Labels => labels::run(args, known.as_ref(), threads),
        TaskName::Score => score::run(args, known.as_ref(), threads),
        TaskName::Tag => tag::run(args, known.as_ref(), threads),
        TaskName::Translate => translate::run(args, threads),
        TaskName::Autoencode => autoencode::run(args, threads),
        TaskName::Lm => language::run(args, threads),
        TaskName::Mlm => masked::run(args, threads),
    }
}

/// Returns the requested task, or else the one that the data suggests.
///
/// Continued training of the user's `own` model keeps the model's task.
fn choose_task(args: &TrainArgs, own: Option<TaskName>) -> anyhow::Result<TaskName> {
    let Some(path) = &args.data else { return Ok(task_without_data(args)?) };
    if let Some(task) = args.task {
        return Ok(task);
    }
    if let Some(folder) = &args.from
        && ModelKind::from_folder(folder).is_ok_and(|kind| kind == ModelKind::LanguageModel)
    {
        let text = tr!(
            "lm: --from is a language model, for continued training",
            "lm: --from のフォルダは言語モデルで、追加学習します"
        );
        print_status(["task", "タスク"], &text);
        return Ok(TaskName::Lm);
    }
    if let Some(task) = own {
        return Ok(task);
    }
    if args.bottleneck.is_some() {
        return Ok(TaskName::Autoencode);
    }
    if args.multi_label.is_given() {
        return Ok(TaskName::Labels);
    }
    let found = detect_task(&DataFiles::from_argument(path), &read_options(&args.reading, false)?)?;
    let (task, name) = match found.task {
        TrainingTask::Classify => (TaskName::Classify, "classify"),
        TrainingTask::Labels => (TaskName::Labels, "labels"),
        TrainingTask::Score => (TaskName::Score, "score"),
        TrainingTask::Tag => (TaskName::Tag, "tag"),
        TrainingTask::Translate => (TaskName::Translate, "translate"),
        TrainingTask::LanguageModel => (TaskName::Lm, "lm"),
        _ => {
            refuse!(
                "no task suits the data: {}; choose one with --task",
                "このデータに合うタスクがありません：{}（--task で指定できます）",
                found.why
            );
        }
    };
    let text = tr!("{name}: {} (override with --task)", "{name}: {}（--task で変更できます）", found.why);
    print_status(["task", "タスク"], &text);
    Ok(task)
}

/// Refuses flags on data files in a run on built-in data.
fn check_no_file(args: &TrainArgs) -> Result<(), UsageError> {
    // The files of --unlabelled are read with the same flags.
    if args.unlabelled.is_empty() {
        args.reading.check_no_file()?;
    }
    match [("--valid", &args.valid), ("--test", &args.test)].into_iter().find(|(_, file)| file.is_some()) {
        Some((flag, _)) => Err(file_flag_error(flag)),
        None => Ok(()),
    }
}

/// Returns the task of a run on built-in data: the requested one, or that of the requested data.
fn task_without_data(args: &TrainArgs) -> Result<TaskName, UsageError> {
    let requested = args.task.or(args.bottleneck.map(|_| TaskName::Autoencode));
    let Some(data) = args.builtin else { return Ok(requested.unwrap_or(TaskName::Classify)) };
    let task = if data == BuiltinData::Dates { TaskName::Translate } else { TaskName::Classify };
    let name = |value: Option<PossibleValue>| value.map_or(String::new(), |value| value.get_name().to_owned());
    match requested {
        // Every built-in set has texts.
        Some(TaskName::Autoencode) => Ok(TaskName::Autoencode),
        Some(other) if other != task => {
            let [data, task, other] =
                [name(data.to_possible_value()), name(task.to_possible_value()), name(other.to_possible_value())];
            Err(UsageError(tr!(
                "--builtin {data}: expected --task {task} with this data, found --task {other}; leave one of the two out",
                "--builtin {data}: このデータのタスクは --task {task} ですが、--task {other} が指定されています。どちらかを外してください"
            )))
        }
        _ => Ok(task),
    }
}

/// Loads the rows of all training files in order: the `first` file with `options`, the others with `like`.
fn load_all<F: Append>(
    args: &TrainArgs,
    first: &Path,
    [options, like]: [&ReadOptions; 2],
    load: impl Fn(&Path, &ReadOptions) -> anyhow::Result<F>,
) -> anyhow::Result<F> {
    let mut rows = load(first, options)?;
    for path in &args.more {
        rows.append(load(path, like)?)?;
    }
    Ok(rows)
}

/// Loads the files of `--valid` and `--test`.
fn load_held_out<F>(args: &TrainArgs, load: impl Fn(&Path) -> anyhow::Result<F>) -> anyhow::Result<[Option<F>; 2]> {
    Ok([args.valid.as_deref().map(&load).transpose()?, args.test.as_deref().map(&load).transpose()?])
}

/// Trains a model M on labels L, and scores it with S.
type Trainer<L, M, S> = fn(&TrainingData<L>, Training<'_>) -> chumoku::Result<TrainOutcome<M, S>>;

/// How labels or numbers are predicted: by the n-gram model alone, or with a network.
struct Trainers<L, S> {
    ngrams: Trainer<L, NgramClassifier, S>,
    ensemble: Trainer<L, TextClassifier, S>,
}

impl<L, S> Trainers<L, S> {
    /// Trains the requested model. `print_summary` gets its metrics, the noun for its network, and the next commands.
    fn run(
        &self,
        args: &TrainArgs,
        data: &TrainingData<L>,
        (threads, start): (usize, Instant),
        print_summary: fn(&Value, &str, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let print = |metrics: &Value, noun: &str, place: &Path| {
            let commands = classify::own_commands(place, true, data.reads_pairs());
            print_summary(metrics, noun, &classify::next_commands(place, &commands, false))
        };
        if args.architecture() == Architecture::Ngrams {
            classify::check_ngrams(args)?;
            let session = TrainSession::new(args, ModelKind::Ngrams, threads, start)?;
            let trained = session.train(|training| (self.ngrams)(data, training))?;
            let Some(TrainOutcome { metrics, .. }) = trained else { return Ok(session.report_interrupted()) };
            return session.finish(false, &metrics, |place| print(&metrics, "", place));
        }
        check_watch_text(args, data)?;
        let session = TrainSession::new(args, ModelKind::Classifier, threads, start)?;
        let trained = session.train(|training| (self.ensemble)(data, training))?;
        let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
        session.finish(outcome.interrupted, &outcome.metrics, |place| {
            let noun = network_name(outcome.model.config().model.backbone.kind());
            print(&outcome.metrics, noun, place)
        })
    }
}

/// Reports labels with several spellings.
fn report_variants<'a>(labels: impl IntoIterator<Item = &'a str>) {
    if let Some(text) = describe_variants(&label_variants(labels)) {
        print_status(["note", "注記"], &text);
    }
}

/// Reports labels that the training files write differently from each other, or from the base model `known`.
fn report_file_differences<'a>(
    args: &TrainArgs,
    known: Option<&'a BaseModel>,
    mut files: Vec<FileLabels<'a>>,
    can_merge: bool,
) {
    if let (Some(known), Some(folder)) = (known, &args.from) {
        files.insert(0, FileLabels::new(folder, known.labels.iter().map(String::as_str)));
    }
    for text in describe_file_differences(&files, can_merge) {
        print_status(["note", "注記"], &text);
    }
}

/// A training run and its output folder.
struct TrainSession<'a> {
    args: &'a TrainArgs,
    kind: ModelKind,
    options: TrainOptions,
    start: Instant,
    folder: OutputFolder,
}

/// Set when Ctrl-C is pressed.
static STOP_REQUESTED: AtomicBool = AtomicBool::new(false);

/// True while an interrupted run has nothing to save: a classifier starts with its n-gram model, which is not saved
/// alone.
static NOTHING_TO_SAVE: AtomicBool = AtomicBool::new(false);

/// True during a search for settings, whose trials can be resumed.
static TUNING: AtomicBool = AtomicBool::new(false);

/// Handles Ctrl-C: the first one stops training after a step, the next one exits at once. Signals within a second count
/// as one.
fn handle_ctrl_c(is_resumed: bool) -> anyhow::Result<()> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let mut signals = ShutdownSignals::new();
    ctrlc::set_handler(move || {
        match signals.record(Instant::now()) {
            Shutdown::Graceful => STOP_REQUESTED.store(true, Ordering::Relaxed),
            Shutdown::Repeated => return,
            Shutdown::Immediate => std::process::exit(i32::from(EXIT_INTERRUPTED)),
        }
        say!(
            "\n{}",
            match TUNING.load(Ordering::Relaxed) {
                true => tune::stop_message(),
                false => stop_message(NOTHING_TO_SAVE.load(Ordering::Relaxed), is_resumed),
            }
        );
    })?;
    Ok(())
}

impl<'a> TrainSession<'a> {
    fn new(args: &'a TrainArgs, kind: ModelKind, threads: usize, start: Instant) -> anyhow::Result<TrainSession<'a>> {
        let mut options = TrainOptions::default();
        options.seed = args.seed;
        options.epochs = args.epochs;
        options.network = args.architecture().network();
        options.from = args.from.clone();
        options.freeze = args.lora.map(Freeze::LowRank).or(args.freeze);
        options.class_weights = args.class_weights.clone();
        options.optimize = args.optimize.map(Into::into);
        options.overrides = args.settings.clone().unwrap_or_default();
        options.tokens = args.tokens.map(Into::into);
        options.precision = args.precision.into();
        options.micro_batches = args.parts;
        options.folds = args.folds;
        options.resume = args.resume;
        options.watch = args.watch.as_deref().map(|text| Arc::new(WatchedText::new(text)) as _);
        options.worker_group = crate::invocation::worker_group();
        let others = [args.valid.as_deref(), args.test.as_deref()];
        let read = read_options(&args.reading, false)?;
        options.source = args.data.as_deref().map(|path| DataSource::new(path, others, &read).with_files(&args.more));
        // Checked before the output folder is created.
        options.check_watch(kind)?;
        options.check_from(kind)?;
        let folder = OutputFolder::prepare(args.out.as_ref().map(OutputPath::as_path), args.resume, args.force)?;
        let text = tr!(
            "{}  (seed {}, {threads} threads, {})",
            "{}（シード {}、{threads} スレッド、{}）",
            folder.path.display(),
            args.seed,
            chumoku::active_isa()
        );
        print_status(["folder", "フォルダ"], &text);
        Ok(TrainSession { args, kind, options, start, folder })
    }

    /// Trains with progress reports until the end or Ctrl-C. Returns `None` if there is nothing to save.
    fn train<O>(&self, train: impl FnOnce(Training<'_>) -> chumoku::Result<O>) -> anyhow::Result<Option<O>> {
        let begins_with_ngrams = matches!(self.kind, ModelKind::Classifier | ModelKind::Ngrams | ModelKind::Tagger);
        TUNING.store(self.args.tune.is_some(), Ordering::Relaxed);
        NOTHING_TO_SAVE.store(begins_with_ngrams && self.args.tune.is_none(), Ordering::Relaxed);
        handle_ctrl_c(self.args.resume)?;
        let mut progress = TrainProgress::new(self.start);
        let mut training = Training::new(&self.folder.work);
        training.options = self.options.clone();
        training.stop = &STOP_REQUESTED;
        training.observe = Box::new(|event: TrainEvent<'_>| {
            // The first message describes the n-gram model. An n-gram classifier is then trained once more.
            let is_next_saved = self.kind != ModelKind::Ngrams && self.has_checkpoints();
            if is_next_saved && matches!(event, TrainEvent::Message(..)) {
                NOTHING_TO_SAVE.store(false, Ordering::Relaxed);
            }
            progress.show(event);
        });
        let outcome = train(training);
        progress.finish();
        progress.show_curves();
        match outcome {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) if error.is_interrupted() => Ok(None),
            Err(error) if error.is_full_disk() => {
                let doing = match self.has_checkpoints() {
                    true => tr!(
                        "the disk is full: free some space, then run the same command with --resume",
                        "ディスクに空きがありません。空きを作ってから、同じコマンドに --resume を付けて実行してください"
                    ),
                    false => tr!(
                        "the disk is full: free some space, then run the same command again",
                        "ディスクに空きがありません。空きを作ってから、同じコマンドをもう一度実行してください"
                    ),
                };
                Err(anyhow::Error::from(error).context(doing))
            }
            Err(error @ (chumoku::Error::Write { .. } | chumoku::Error::Io { .. }))
                if has_checkpoints(&self.folder.work) =>
            {
                let doing = tr!(
                    "the training so far is saved: fix this, then run the same command with --resume",
                    "学習した分は保存されています。原因を取り除いてから、同じコマンドに --resume を付けて実行してください"
                );
                Err(anyhow::Error::from(error).context(doing))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if training writes checkpoints. A tagger without a network does not.
    fn has_checkpoints(&self) -> bool {
        let is_encoder = |from: &PathBuf| !matches!(ModelKind::from_folder(from), Ok(ModelKind::Tagger));
        self.kind != ModelKind::Tagger || self.args.from.as_ref().is_some_and(is_encoder)
    }

    /// Reports how to start again if there is nothing to resume, and returns the exit code.
    fn report_interrupted_early(&self) -> ExitCode {
        let again = restart_command(crate::invocation::command_words(), self.args, &self.folder.path);
        let message = match self.args.reading.pipe_buffer.is_empty() {
            true => tr!(
                "interrupted: nothing was trained yet; start again with  {again}",
                "中断しました。まだ何も学習していません。最初から始めるには  {again}"
            ),
            false => tr!(
                "interrupted: nothing was trained yet; start again with  {again}  and the same data, which came through \
                 a pipe",
                "中断しました。まだ何も学習していません。パイプから来たものと同じデータを渡して最初から始めてください:  {again}"
            ),
        };
        say!("{message}");
        ExitCode::from(EXIT_INTERRUPTED)
    }

    /// Reports how to resume, and returns the exit code.
    fn report_interrupted(&self) -> ExitCode {
        if NOTHING_TO_SAVE.load(Ordering::Relaxed) && !self.args.resume {
            return self.report_interrupted_early();
        }
        let again = resume_command(crate::invocation::command_words(), self.args, &self.folder.path);
        let message = match self.args.reading.pipe_buffer.is_empty() {
            true => tr!("interrupted: continue with  {again}", "中断しました。続けるには  {again}"),
            // Piped data must be sent again.
            false => tr!(
                "interrupted: continue with  {again}  and the same data, which came through a pipe",
                "中断しました。パイプから来たものと同じデータを渡して続けてください:  {again}"
            ),
        };
        say!("{message}");
        ExitCode::from(EXIT_INTERRUPTED)
    }

    /// Moves the model to its folder, and prints the `metrics` as JSON or calls `show` with the folder.
    fn finish(
        &self,
        interrupted: bool,
        metrics: &Value,
        show: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        if !interrupted {
            self.folder.finish()?;
        }
        let place = if interrupted { &self.folder.work } else { &self.folder.path };
        if let Some(note) = last_epoch_note(metrics) {
            print_status(["epochs", "エポック"], &note);
        }
        let time = format_duration(self.start.elapsed());
        let text = tr!(
            "\ndone in {time}; the model is in {}",
            "\n完了しました（{time}）。モデルは {} にあります",
            place.display()
        );
        say!("{text}");
        let shown = match self.args.json {
            true => writeln!(std::io::stdout(), "{metrics}").map_err(Into::into),
            false => show(place),
        };
        if interrupted {
            return Ok(self.report_interrupted());
        }
        shown.map(|()| ExitCode::SUCCESS)
    }
}

/// The message for Ctrl-C. `is_early` is set if there is nothing to save yet, `is_resumed` if the run was resumed from
/// checkpoints.
fn stop_message(is_early: bool, is_resumed: bool) -> String {
    match (is_early, is_resumed) {
        (true, false) => tr!(
            "stopping: nothing was trained yet, so nothing is saved (press again to exit at once)",
            "停止します。まだ何も学習していないため、何も保存しません（もう一度押すとすぐに終了します）"
        ),
        (true, true) => tr!(
            "stopping: nothing new was trained yet; earlier checkpoints are kept (press again to exit at once)",
            "停止します。まだ続きを学習していません。前に保存したものは残ります（もう一度押すとすぐに終了します）"
        ),
        (false, _) => tr!(
            "stopping after this step: the training so far is saved and evaluated (press again to exit at once)",
            "このステップで停止し、学習した分を保存して評価します（もう一度押すとすぐに終了します）"
        ),
    }
}

/// Returns the command that resumes this run: the original one, since another seed or number of epochs is another run.
fn resume_command(called: impl Iterator<Item = String>, args: &TrainArgs, folder: &Path) -> String {
    restart_command(called.filter(|word| word != "--resume" && word != "--force"), args, folder) + " --resume"
}

/// Returns the command that starts this run again, in the same folder.
fn restart_command(mut called: impl Iterator<Item = String>, args: &TrainArgs, folder: &Path) -> String {
    let name = called.next().unwrap_or_default();
    let mut line = "chumoku".to_owned();
    // The name is a program path, but for Python it is how the module was called, followed by the command.
    if name.starts_with("python ") {
        line = name;
        called.next();
    }
    line = called.fold(line, |line, word| format!("{line} {}", shell_quoted(&word)));
    if args.out.is_none() {
        line += &format!(" --out {}", shell_quoted(&folder.display().to_string()));
    }
    line
}

/// Checks before the output folder is created that the watched text has the form of the rows.
fn check_watch_text<A>(args: &TrainArgs, data: &TrainingData<A>) -> anyhow::Result<()> {
    let watch = args.watch.as_deref();
    watch.map_or(Ok(()), |line| pairs::from_line("--watch", line, data.reads_pairs()).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn continued(words: &[&str]) -> String {
        let words = std::iter::once("chumoku").chain(words.iter().copied());
        let Command::Train(args) = Cli::parse_from(words.clone()).command else { panic!("not train") };
        resume_command(words.map(String::from), &args, Path::new("chumoku-model-2"))
    }

    #[test]
    fn the_resume_command_repeats_the_run() {
        assert_eq!(continued(&["train"]), "chumoku train --out chumoku-model-2 --resume");
        let words = ["chumoku", "train", "--force"];
        let Command::Train(args) = Cli::parse_from(words).command else { panic!("not train") };
        let again = restart_command(words.iter().map(|word| (*word).to_owned()), &args, Path::new("chumoku-model-2"));
        assert_eq!(again, "chumoku train --force --out chumoku-model-2");
        let quoted = match cfg!(windows) {
            true => r#"chumoku train "my data.csv" --seed=7 "--out=it's" --resume"#,
            false => r"chumoku train 'my data.csv' --seed=7 '--out=it'\''s' --resume",
        };
        assert_eq!(continued(&["train", "my data.csv", "--seed=7", "--force", "--out=it's"]), quoted);
    }
}
